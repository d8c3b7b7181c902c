/* See span_paths.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/span_paths.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/problem.h"
#include "span/files.h"
#include "span/store.h"

enum { HEAD = 65536 };

bool span_path(const char *path)
{
    struct stat st;
    char head[HEAD];
    size_t length = strlen(path);
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    if (length > 4 && strcmp(path + length - 4, ".csv") == 0)
        return true;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof(head));
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    switch (span_format_detect(head, (size_t)n)) {
    case FORMAT_OTLP_JSON:
    case FORMAT_JAEGER:
    case FORMAT_ZIPKIN:
    case FORMAT_PARQUET:
        return true;
    default:
        return false;
    }
}

int span_paths_read(const char *const *paths, size_t count, struct diagnosis *diagnosis,
                    struct problem *problem)
{
    struct span_files files = {.parquet = duckdb_read_parquet};
    int r = 0;
    for (size_t i = 0; r >= 0 && i < count; i++)
        if (span_path(paths[i]))
            r = span_files_read(&files, &paths[i], 1, diagnosis_sink(diagnosis), problem);
    return r >= 0 && files.files ? diagnosis_flush(diagnosis, UINT64_MAX) : r;
}
