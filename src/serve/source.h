/* What `sonde serve PATH...` and `sonde report --html` show: a recording or a profile, read in the background
 * by a thread of its own. What was read of a recording is kept beside it (PATH/view) and opens at once the
 * next time.
 *
 * All functions but source_new() and source_free() may be called by any number of threads at once. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_SOURCE_H
#define SERVE_SOURCE_H

#include <stdbool.h>

#include "base/problem.h"
#include "base/text.h"
#include "history/history.h"
#include "serve/groups.h"
#include "serve/requests.h"
#include "serve/rows.h"

enum source_kind { SOURCE_RECORDING, SOURCE_PROFILE };
enum source_state { SOURCE_READING, SOURCE_READY, SOURCE_FAILED, SOURCE_CANCELLED };

struct source_status {
    enum source_kind kind;
    enum source_state state;
    uint64_t done_bytes, total_bytes; /* while it is read */
    uint64_t left_ns;                 /* until it has been read, as it goes; 0 unknown */
    uint64_t version;                 /* changes whenever documents do */
    bool kept;                        /* it was read before */
    struct problem problem;           /* of SOURCE_FAILED */
};

struct source;

/* Begins to read. keep: may be kept beside the recording. -ENOENT, -EACCES: path cannot be read. */
int source_new(const char *path, bool keep, struct source **ret_source, struct problem *problem);

/* Ends the reading if it goes on, and frees all. */
void source_free(struct source *source);
DEFINE_FREEP(struct source, source_free)

void source_get_status(struct source *source, struct source_status *ret_status);
const char *source_path(const struct source *source);

/* Ends the reading; what was found until then stays. */
void source_cancel(struct source *source);

/* Waits until it is read, or has failed, but not longer than timeout_ms. Whether it is. */
bool source_wait(struct source *source, unsigned timeout_ms);

/* Append the report's document, as far as it goes, and that of a profile, which a recording has when
 * functions were sampled beside it. Nothing while there is none. */
void source_document(struct source *source, struct text *to);
void source_profile(struct source *source, struct text *to);

/* NULL until all is read, and for what has none. Good until the source is freed. */
const struct requests *source_requests(struct source *source);
struct history *source_history(struct source *source);
const struct source_row *source_rows(struct source *source, size_t *ret_count);
const struct groups *source_groups(struct source *source);

#endif
