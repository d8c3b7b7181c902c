/* Span files of any format we read, told apart by their content: OTLP (JSON, JSON lines, protobuf), Jaeger
 * and Zipkin JSON, CSV; each also compressed by gzip or zstd. Parquet is read by the store's engine
 * (parquet.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_FILES_H
#define SPAN_FILES_H

#include "base/problem.h"
#include "span/mapping.h"

enum span_format {
    FORMAT_UNKNOWN,
    FORMAT_OTLP_JSON,
    FORMAT_OTLP_PROTOBUF,
    FORMAT_JAEGER,
    FORMAT_ZIPKIN,
    FORMAT_CSV,
    FORMAT_PARQUET,
};

/* The format of a text by its beginning. */
enum span_format span_format_detect(const void *bytes, size_t length);
const char *span_format_name(enum span_format format);

int span_decode(enum span_format format, const void *bytes, size_t length, const struct mapping *mapping,
                struct span_sink *sink, struct problem *problem);

/* Unpacks gzip or zlib into a fresh buffer; -EFBIG when it would be larger than limit, -EBADMSG when it is no
 * gzip. */
int span_gunzip(const void *bytes, size_t length, size_t limit, char **ret_bytes, size_t *ret_length);

struct span_files {
    const struct mapping *mapping; /* for CSV and Parquet; NULL: guess */
    /* Called now and then with the bytes read so far and of all files named so far, and at the end without a
     * file; may be NULL. */
    void (*progress)(void *context, const char *file, uint64_t done_bytes, uint64_t total_bytes);
    void *context;
    /* Reads a Parquet file into the sink; NULL: refused with a word. */
    int (*parquet)(const char *path, const struct mapping *mapping, struct span_sink *sink,
                   struct problem *problem);
    /* What was found, filled in. */
    uint64_t files, bytes, total_bytes;
    uint64_t skipped; /* files in folders that are no span files */
    uint64_t by_format[FORMAT_PARQUET + 1];
    struct problem left_out; /* of lines that were passed over since they do not parse, the first and why;
                                left_out.what is empty when there is none */
};

/* Reads files, and all span files in folders (recursively, by name). A file named itself that is no span file
 * is -EINVAL; one met in a folder is counted as skipped. */
int span_files_read(struct span_files *files, const char *const *paths, size_t count, struct span_sink *sink,
                    struct problem *problem);

#endif
