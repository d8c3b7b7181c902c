/* See files.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/files.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <dirent.h>

#include "base/array.h"
#include "base/file.h"
#include "base/macro.h"
#include "span/csv.h"
#include "span/jread.h"
#include "span/otlp.h"
#include "span/trace_json.h"

#define UNPACKED_MAX ((size_t)8 << 30)
#define DEPTH_MAX    16 /* of folders */

const char *span_format_name(enum span_format format)
{
    static const char *const names[] = {"unknown",     "OTLP JSON", "OTLP protobuf", "Jaeger JSON",
                                        "Zipkin JSON", "CSV",       "Parquet"};
    return names[format];
}

static bool contains(const char *text, size_t length, const char *word)
{
    return memmem(text, length, word, strlen(word)) != NULL;
}

static bool looks_like_json(const char *text, size_t length)
{
    size_t at = 0;
    while (at < length && (unsigned char)text[at] <= ' ')
        at++;
    return at < length && (text[at] == '{' || text[at] == '[');
}

enum span_format span_format_detect(const void *bytes, size_t length)
{
    const char *text = bytes;
    size_t at = 0, head = MIN(length, (size_t)65536);
    if (length >= 4 && memcmp(text, "PAR1", 4) == 0)
        return FORMAT_PARQUET;
    while (at < head && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n'))
        at++;
    if (at < head && text[at] == '{')
        return contains(text, head, "\"resourceSpans\"")                                   ? FORMAT_OTLP_JSON
               : contains(text, head, "\"data\"") && contains(text, head, "\"spans\"")     ? FORMAT_JAEGER
               : contains(text, head, "\"data\"") && contains(text, head, "\"processes\"") ? FORMAT_JAEGER
                                                                                           : FORMAT_UNKNOWN;
    if (at < head && text[at] == '[')
        return contains(text, head, "\"traceId\"") ? FORMAT_ZIPKIN : FORMAT_UNKNOWN;
    struct span_counts counts;
    if (length && text[0] == '\n' && otlp_protobuf_check(bytes, length, &counts, NULL) == 0 &&
        counts.spans + counts.without_id + counts.without_time)
        return FORMAT_OTLP_PROTOBUF;
    size_t line = 0;
    while (line < head && text[line] != '\n') {
        if ((unsigned char)text[line] < ' ' && text[line] != '\t' && text[line] != '\r')
            return FORMAT_UNKNOWN;
        line++;
    }
    return contains(text, line, ",") ? FORMAT_CSV : FORMAT_UNKNOWN;
}

int span_decode(enum span_format format, const void *bytes, size_t length, const struct mapping *mapping,
                struct span_sink *sink, struct problem *problem)
{
    switch (format) {
    case FORMAT_OTLP_JSON:
        return otlp_json_decode_lines(bytes, length, sink, problem);
    case FORMAT_OTLP_PROTOBUF:
        return otlp_protobuf_decode(bytes, length, sink, problem);
    case FORMAT_JAEGER:
        return jaeger_json_decode(bytes, length, sink, problem);
    case FORMAT_ZIPKIN:
        return zipkin_json_decode(bytes, length, sink, problem);
    case FORMAT_CSV:
        return csv_decode(bytes, length, mapping, sink, problem);
    default:
        return problem_set(problem, -EINVAL, "not a format of spans that is known");
    }
}

int span_gunzip(const void *bytes, size_t length, size_t limit, char **ret_bytes, size_t *ret_length)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)length};
    size_t capacity = MIN(limit, MAX(length * 4, (size_t)4096)), used = 0;
    char *out = length > UINT32_MAX ? NULL : malloc(capacity + 1);
    if (!out)
        return -ENOMEM;
    int r = inflateInit2(&z, 15 + 32) == Z_OK ? 0 : -ENOMEM, status = Z_OK;
    while (r == 0) {
        z.next_out = (Bytef *)out + used;
        z.avail_out = (uInt)MIN(capacity - used, (size_t)1 << 30);
        uInt room = z.avail_out;
        status = inflate(&z, Z_NO_FLUSH);
        used += room - z.avail_out;
        if (status == Z_STREAM_END && z.avail_in && inflateReset(&z) == Z_OK)
            continue; /* the next member */
        if (status == Z_STREAM_END)
            break;
        if (status != Z_OK && status != Z_BUF_ERROR)
            r = -EBADMSG;
        else if (z.avail_out)
            r = -EBADMSG; /* the input ended early */
        else if (capacity >= limit)
            r = -EFBIG;
        if (r < 0)
            break;
        capacity = MIN(limit, capacity * 2);
        char *grown = realloc(out, capacity + 1);
        if (!grown)
            r = -ENOMEM;
        else
            out = grown;
    }
    inflateEnd(&z);
    if (r < 0) {
        free(out);
        return r;
    }
    *ret_bytes = out;
    *ret_length = used;
    return 0;
}

static int unzstd(const void *bytes, size_t length, size_t limit, char **ret_bytes, size_t *ret_length)
{
    ZSTD_DStream *stream = ZSTD_createDStream();
    size_t capacity = MIN(limit, MAX(length * 8, (size_t)65536)), r = 0;
    ZSTD_inBuffer in = {bytes, length, 0};
    ZSTD_outBuffer out = {malloc(capacity), capacity, 0};
    int error = stream && out.dst ? 0 : -ENOMEM;
    while (error == 0) {
        r = ZSTD_decompressStream(stream, &out, &in);
        if (ZSTD_isError(r))
            error = -EBADMSG;
        else if (in.pos == in.size && out.pos < out.size)
            break;
        else if (out.pos == out.size && out.size >= limit)
            error = -EFBIG;
        else if (out.pos == out.size) {
            char *grown = realloc(out.dst, MIN(limit, out.size * 2));
            if (grown) {
                out.dst = grown;
                out.size = MIN(limit, out.size * 2);
            } else {
                error = -ENOMEM;
            }
        }
    }
    ZSTD_freeDStream(stream);
    if (error == 0 && r != 0)
        error = -EBADMSG; /* the last frame is incomplete */
    if (error < 0) {
        free(out.dst);
        return error;
    }
    *ret_bytes = out.dst;
    *ret_length = out.pos;
    return 0;
}

struct mapped_file {
    const char *at;
    size_t length;
    char *unpacked;
};

static void unmap(struct mapped_file *file, size_t mapped)
{
    if (file->unpacked)
        free(file->unpacked);
    if (mapped)
        munmap((void *)(uintptr_t)file->at, mapped);
}

/* Unpacks a compressed file; `at` still points to the mapping. */
static int unpack(struct mapped_file *file, size_t *ret_length)
{
    const unsigned char *magic = (const unsigned char *)file->at;
    *ret_length = file->length;
    if (file->length > 4 && magic[0] == 0x1f && magic[1] == 0x8b)
        return span_gunzip(file->at, file->length, UNPACKED_MAX, &file->unpacked, ret_length);
    if (file->length > 4 && memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0)
        return unzstd(file->at, file->length, UNPACKED_MAX, &file->unpacked, ret_length);
    return 0;
}

#define SPANS_BETWEEN 8192

/* Counts on while one file is decoded: where a span's name stands in the text is how far the decoder is. */
struct watched_sink {
    struct span_files *files;
    struct span_sink *sink;
    const char *path, *text;
    size_t length, file_bytes;
    unsigned spans;
};

static int take_watched(void *context, const struct span *span)
{
    struct watched_sink *w = context;
    const char *at = span->name.at;
    if (++w->spans % SPANS_BETWEEN == 0 && at >= w->text && at < w->text + w->length)
        w->files->progress(w->files->context, w->path,
                           w->files->bytes +
                               (uint64_t)((double)(at - w->text) / (double)w->length * (double)w->file_bytes),
                           w->files->total_bytes);
    return w->sink->take(w->sink->context, span);
}

static int decode_watched(struct span_files *files, const char *path, size_t file_bytes,
                          enum span_format format, const char *text, size_t length, struct span_sink *sink,
                          struct problem *problem)
{
    if (!files->progress)
        return span_decode(format, text, length, files->mapping, sink, problem);
    struct watched_sink watched = {files, sink, path, text, length, file_bytes, 0};
    struct span_sink outer = {.take = take_watched, .context = &watched, .counts = sink->counts};
    int r = span_decode(format, text, length, files->mapping, &outer, problem);
    sink->counts = outer.counts;
    return r;
}

static int decode_mapped(struct span_files *files, const char *path, struct mapped_file *file, bool named,
                         struct span_sink *sink, struct problem *problem)
{
    size_t length;
    int r = unpack(file, &length);
    if (r < 0)
        return problem_set(problem, r, "%s: %s", path,
                           r == -EFBIG ? "unpacks to more than 8 GiB" : "the compressed data is damaged");
    const char *text = file->unpacked ? file->unpacked : file->at;
    enum span_format format = span_format_detect(text, length);
    if (format == FORMAT_UNKNOWN && !named) {
        files->skipped++;
        return 0;
    }
    struct problem inner = {0};
    if (format == FORMAT_UNKNOWN) {
        if (looks_like_json(text, length))
            (void)jread_check(text, length, &inner);
        problem_set(problem, -EINVAL, "%s: no spans in a format that is known%s%s", path,
                    inner.what[0] ? "; " : "", inner.what);
        problem_remedy(problem,
                       "Spans are read from OTLP, Jaeger and Zipkin JSON, OTLP protobuf, CSV and Parquet.");
        return -EINVAL;
    }
    if (format == FORMAT_PARQUET && files->parquet)
        r = files->parquet(path, files->mapping, sink, &inner);
    else
        r = decode_watched(files, path, file->length, format, text, length, sink, &inner);
    files->by_format[format] += r >= 0;
    if (r == -EINVAL && format == FORMAT_CSV && !named) {
        files->skipped++; /* some other table */
        files->by_format[format]--;
        return 0;
    }
    if (r < 0) {
        problem_set(problem, r, "%s: %s", path, inner.what[0] ? inner.what : strerror(-r));
        if (inner.remedy[0])
            problem_remedy(problem, "%s", inner.remedy);
    } else if (inner.what[0] && !files->left_out.what[0]) {
        problem_set(&files->left_out, 0, "%s: %s", path, inner.what);
    }
    return r;
}

static int read_file(struct span_files *files, const char *path, bool named, struct span_sink *sink,
                     struct problem *problem)
{
    _cleanup_(file_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return problem_set(problem, -errno, "%s: %s", path, strerror(errno));
    if (st.st_size == 0 || !S_ISREG(st.st_mode)) {
        files->skipped++;
        return 0;
    }
    struct mapped_file file = {.length = (size_t)st.st_size};
    void *map = mmap(NULL, file.length, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return problem_set(problem, -errno, "%s: %s", path, strerror(errno));
    madvise(map, file.length, MADV_SEQUENTIAL);
    file.at = map;
    int r = decode_mapped(files, path, &file, named, sink, problem);
    unmap(&file, file.length);
    files->files++;
    files->bytes += (uint64_t)st.st_size;
    return r;
}

typedef ARRAY(char *) path_list;

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_folder(const char *path, path_list *list, int depth, uint64_t *total)
{
    DIR *dir = opendir(path);
    if (!dir)
        return -errno;
    int r = 0;
    struct dirent *entry;
    while (r == 0 && (entry = readdir(dir))) {
        char *full;
        struct stat st;
        if (entry->d_name[0] == '.')
            continue;
        if (asprintf(&full, "%s/%s", path, entry->d_name) < 0) {
            r = -ENOMEM;
            break;
        }
        bool keep = false;
        if (stat(full, &st) == 0 && S_ISDIR(st.st_mode))
            r = depth < DEPTH_MAX ? list_folder(full, list, depth + 1, total) : 0;
        else if (S_ISREG(st.st_mode)) {
            *total += (uint64_t)st.st_size;
            r = array_add(list, full);
            keep = r == 0;
        }
        if (!keep)
            free(full);
    }
    closedir(dir);
    return r;
}

static void free_list(path_list *list)
{
    array_foreach (list, path)
        free(*path);
    array_done(list);
}

int span_files_read(struct span_files *files, const char *const *paths, size_t count, struct span_sink *sink,
                    struct problem *problem)
{
    path_list list = {0};
    ARRAY(bool) named = {0};
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++) {
        struct stat st;
        if (stat(paths[i], &st) < 0) {
            r = problem_set(problem, -errno, "%s: %s", paths[i], strerror(errno));
            break;
        }
        size_t first = list.count;
        bool folder = S_ISDIR(st.st_mode);
        if (folder) {
            r = list_folder(paths[i], &list, 0, &files->total_bytes);
            if (list.count > first)
                qsort(list.at + first, list.count - first, sizeof(*list.at), by_name);
        } else {
            files->total_bytes += (uint64_t)st.st_size;
            char *copy = strdup(paths[i]);
            r = copy ? array_add(&list, copy) : -ENOMEM;
        }
        while (r == 0 && named.count < list.count)
            r = array_add(&named, !folder);
    }
    for (size_t i = 0; r >= 0 && i < list.count; i++) {
        if (files->progress)
            files->progress(files->context, list.at[i], files->bytes, files->total_bytes);
        r = read_file(files, list.at[i], named.at[i], sink, problem);
    }
    if (r >= 0 && files->progress)
        files->progress(files->context, NULL, files->bytes, files->total_bytes);
    array_done(&named);
    free_list(&list);
    return MIN(r, 0);
}
