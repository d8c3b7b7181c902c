/* Which column of a table is which part of a span: guessed from the header, or read from a mapping file with
 * lines `PART = COLUMN`:
 *
 *     trace = TraceID            span = SpanID          parent = ParentID
 *     name = OperationName       service = PodName      host = PodName       version = Version
 *     start = StartTime us       end = EndTime us       duration = Duration ms
 *     kind = Kind                error = Error          attribute.hardware = HwGen
 *     service.form = pod         (cuts the "-579b9bff58-t2dbm" that Kubernetes adds to a deployment's pods)
 *
 * Times carry a unit: ns, us, ms or s. Without one it is taken from the column's name ("start_ms"), else
 * start and end by their number of digits or as a calendar time (ISO 8601), and durations as us. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_MAPPING_H
#define SPAN_MAPPING_H

#include "base/problem.h"
#include "span/span.h"

enum mapping_part {
    MAPPING_TRACE,
    MAPPING_SPAN,
    MAPPING_PARENT,
    MAPPING_NAME,
    MAPPING_SERVICE,
    MAPPING_HOST,
    MAPPING_VERSION,
    MAPPING_START,
    MAPPING_END,
    MAPPING_DURATION,
    MAPPING_KIND,
    MAPPING_ERROR,
    MAPPING_PARTS,
};

#define MAPPING_ATTRIBUTES_MAX 32
#define MAPPING_NAME_MAX       64

struct mapping {
    char column[MAPPING_PARTS][MAPPING_NAME_MAX]; /* "": guessed from the header */
    uint64_t unit_ns[MAPPING_PARTS];              /* of start, end and duration */
    struct {
        char key[MAPPING_NAME_MAX], column[MAPPING_NAME_MAX];
    } attributes[MAPPING_ATTRIBUTES_MAX];
    size_t attribute_count;
    bool service_is_pod;
};

/* Reads a mapping file's text; -EINVAL names the line. An empty text is a mapping that guesses all. */
int mapping_read(const char *text, struct mapping *ret_mapping, struct problem *problem);

/* A mapping applied to one table: the column of each part, or -1. */
struct mapped {
    const struct mapping *mapping;
    int column[MAPPING_PARTS];
    uint64_t
        unit_ns[MAPPING_PARTS]; /* of the mapping, or of the column's name; 0: by the size of the number */
    int attribute_column[MAPPING_ATTRIBUTES_MAX];
};

/* Finds the columns; -EINVAL when trace, span, name or the times are missing, and says which columns there
 * are. */
int mapping_apply(const struct mapping *mapping, const struct slice *columns, size_t count,
                  struct mapped *ret_mapped, struct problem *problem);

/* One row to the sink. Cells of columns that are missing in a short row are taken as empty. */
int mapping_row(const struct mapped *mapped, const struct slice *cells, size_t count, struct span_sink *sink);

#endif
