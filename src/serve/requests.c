/* See requests.h.
 *
 * The table's file, little endian: "SDR1", uint32 size of a row, uint64 number of rows, uint64 bytes of text;
 * the rows (struct row); the texts, each ended by a zero. A row names a text by its offset. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/requests.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "analyze/vertical.h"
#include "base/array.h"
#include "base/file.h"
#include "base/map.h"
#include "base/schema.h"
#include "page/page.h"

#define SPANS_MAX       ((uint64_t)256 << 20) /* of the file of vertical spans */
#define ONE_MAX         ((size_t)64 << 20)    /* of one of them, unpacked */
#define BINS_PER_OCTAVE 4
#define BINS            (64 * BINS_PER_OCTAVE)

struct row {
    uint64_t start_ns, latency_ns, works_ns;
    uint64_t spans_at;                    /* in the file of spans */
    uint32_t spans_bytes, spans_unpacked; /* 0: not kept */
    uint32_t name, service, method, route, path, dominant;
    uint16_t status;
    uint8_t state, reserved[5];
};

struct header {
    char magic[4];
    uint32_t row_bytes;
    uint64_t rows, text_bytes;
};

struct requests {
    char folder[PATH_MAX];
    int spans_fd;
    uint64_t spans_end;
    struct row *rows;
    uint32_t *by_start; /* rows in the order in which they began, once all are there */
    size_t count, capacity;
    struct text texts;
    struct map ids; /* of texts, while building */
    struct map by_name;
    char *file; /* of an opened one: rows and texts point into it */
    const char *text;
    uint64_t text_bytes;
};

static void path_of(const struct requests *requests, const char *name, char path[PATH_MAX + 16])
{
    snprintf(path, PATH_MAX + 16, "%s/%s", requests->folder, name);
}

static uint32_t text_id(struct requests *requests, const char *string)
{
    size_t length = string ? strlen(string) : 0;
    if (!length)
        return 0;
    for (uint64_t hash = map_hash(string, length);; hash++) {
        bool added;
        uint64_t *place = map_put(&requests->ids, hash, &added);
        if (!place)
            return 0;
        if (added) {
            *place = requests->texts.length;
            text_add_bytes(&requests->texts, string, length + 1);
            return requests->texts.failed || *place > UINT32_MAX - length ? 0 : (uint32_t)*place;
        }
        if (strcmp(text_get(&requests->texts) + *place, string) == 0)
            return (uint32_t)*place;
    }
}

static const char *text_of(const struct requests *requests, uint32_t id)
{
    return requests->text + id;
}

static int open_spans(struct requests *requests, int flags, struct problem *problem)
{
    char path[PATH_MAX + 16];
    path_of(requests, "spans", path);
    requests->spans_fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    return requests->spans_fd < 0 ? problem_set(problem, -errno, "%s: %s", path, strerror(errno)) : 0;
}

int requests_create(const char *folder, struct requests **ret_requests, struct problem *problem)
{
    struct requests *requests = calloc(1, sizeof(*requests));
    if (!requests)
        return -ENOMEM;
    snprintf(requests->folder, sizeof(requests->folder), "%s", folder);
    text_add_bytes(&requests->texts, "", 1); /* 0 is the empty text */
    int r = open_spans(requests, O_RDWR | O_CREAT | O_TRUNC, problem);
    if (r < 0) {
        requests_free(requests);
        return r;
    }
    *ret_requests = requests;
    return 0;
}

/* Puts the vertical span at the end of its file. One that cannot be written is one that is not kept. */
static void keep_spans(struct requests *requests, struct row *row, const struct request *request,
                       const struct profile *samples)
{
    if (requests->spans_end >= SPANS_MAX)
        return;
    json_t *json = vertical_json(request, samples);
    _cleanup_(freep) char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    size_t length = text ? strlen(text) : 0;
    uLongf packed_bytes = compressBound(length);
    _cleanup_(freep) unsigned char *packed = malloc(packed_bytes);
    if (!length || length > ONE_MAX || !packed ||
        compress2(packed, &packed_bytes, (const unsigned char *)text, length, 3) != Z_OK ||
        pwrite(requests->spans_fd, packed, packed_bytes, (off_t)requests->spans_end) != (ssize_t)packed_bytes)
        return;
    row->spans_at = requests->spans_end;
    row->spans_bytes = (uint32_t)packed_bytes;
    row->spans_unpacked = (uint32_t)length;
    requests->spans_end += packed_bytes;
}

int requests_add(struct requests *requests, const struct request *request, const struct profile *samples)
{
    if (requests->count == requests->capacity) {
        size_t capacity = MAX(requests->capacity * 2, (size_t)1024);
        struct row *rows = realloc(requests->rows, capacity * sizeof(*rows));
        if (!rows)
            return -ENOMEM;
        requests->rows = rows;
        requests->capacity = capacity;
    }
    const struct path_step *most = path_dominant(request);
    struct row row = {.start_ns = request->start_ns,
                      .latency_ns = request_latency_ns(request),
                      .name = text_id(requests, request->name),
                      .service = text_id(requests, request->service),
                      .method = text_id(requests, request->method),
                      .route = text_id(requests, request->route),
                      .path = text_id(requests, request->path),
                      .dominant = most ? text_id(requests, path_class_name(most->class)) : 0,
                      .status = request->status,
                      .state = request->state};
    array_foreach (&request->path_steps, step)
        row.works_ns += path_work_ns(step);
    keep_spans(requests, &row, request, samples);
    uint64_t *place = map_put(&requests->by_name, map_hash(request->name, strlen(request->name)), NULL);
    if (!place || requests->texts.failed)
        return -ENOMEM;
    *place = requests->count;
    requests->rows[requests->count++] = row;
    return 0;
}

int requests_replace(struct requests *requests, const struct request *request, const struct profile *samples)
{
    const uint64_t *place = map_get(&requests->by_name, map_hash(request->name, strlen(request->name)));
    if (!place)
        return -ENOENT;
    keep_spans(requests, &requests->rows[*place], request, samples);
    return 0;
}

static int by_start(const void *x, const void *y, void *context)
{
    const struct row *rows = context, *a = &rows[*(const uint32_t *)x], *b = &rows[*(const uint32_t *)y];
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a > b) - (a < b);
}

static int put_in_order(struct requests *requests)
{
    requests->by_start = calloc(requests->count + 1, sizeof(*requests->by_start));
    if (!requests->by_start)
        return -ENOMEM;
    for (size_t i = 0; i < requests->count; i++)
        requests->by_start[i] = (uint32_t)i;
    qsort_r(requests->by_start, requests->count, sizeof(*requests->by_start), by_start, requests->rows);
    return 0;
}

void requests_get(const struct requests *requests, size_t index, struct request_facts *ret_facts)
{
    const struct row *row = &requests->rows[requests->by_start[index]];
    *ret_facts = (struct request_facts){.start_ns = row->start_ns,
                                        .latency_ns = row->latency_ns,
                                        .name = text_of(requests, row->name),
                                        .service = text_of(requests, row->service),
                                        .method = text_of(requests, row->method),
                                        .route = text_of(requests, row->route),
                                        .path = text_of(requests, row->path),
                                        .dominant = text_of(requests, row->dominant),
                                        .state = request_state_name((enum request_state)row->state),
                                        .status = row->status};
}

int requests_close(struct requests *requests, struct problem *problem)
{
    struct header header = {.magic = "SDR1",
                            .row_bytes = sizeof(struct row),
                            .rows = requests->count,
                            .text_bytes = requests->texts.length};
    char path[PATH_MAX + 16];
    struct text all = {0};
    text_add_bytes(&all, (const char *)&header, sizeof(header));
    text_add_bytes(&all, (const char *)requests->rows, requests->count * sizeof(struct row));
    text_add_bytes(&all, requests->texts.at, requests->texts.length);
    path_of(requests, "requests", path);
    int r = all.failed ? -ENOMEM : file_replace(path, all.at, all.length);
    if (r >= 0)
        r = put_in_order(requests);
    text_done(&all);
    requests->text = requests->texts.at;
    requests->text_bytes = requests->texts.length;
    return r < 0 ? problem_set(problem, r, "%s: %s", path, strerror(-r)) : 0;
}

/* Nothing in the file is believed: it lies beside a trace that somebody else may have made. */
static int check(struct requests *requests, size_t length, uint64_t spans_bytes)
{
    struct header h;
    if (length < sizeof(h))
        return -EBADMSG;
    memcpy(&h, requests->file, sizeof(h));
    size_t rest = length - sizeof(h);
    if (memcmp(h.magic, "SDR1", 4) != 0 || h.row_bytes != sizeof(struct row) ||
        h.rows > rest / sizeof(struct row) || h.text_bytes != rest - h.rows * sizeof(struct row) ||
        !h.text_bytes || requests->file[length - 1])
        return -EBADMSG;
    requests->rows = (struct row *)(requests->file + sizeof(h));
    requests->count = h.rows;
    requests->text = requests->file + length - h.text_bytes;
    requests->text_bytes = h.text_bytes;
    for (size_t i = 0; i < requests->count; i++) {
        const struct row *row = &requests->rows[i];
        const uint32_t ids[] = {row->name, row->service, row->method, row->route, row->path, row->dominant};
        for (size_t k = 0; k < ARRAY_SIZE(ids); k++)
            if (ids[k] >= h.text_bytes)
                return -EBADMSG;
        if (row->spans_at > spans_bytes || row->spans_bytes > spans_bytes - row->spans_at ||
            row->spans_unpacked > ONE_MAX || row->state > REQUEST_ABORTED)
            return -EBADMSG;
        const char *name = text_of(requests, row->name);
        uint64_t *place = map_put(&requests->by_name, map_hash(name, strlen(name)), NULL);
        if (!place)
            return -ENOMEM;
        *place = i;
    }
    return 0;
}

int requests_open(const char *folder, struct requests **ret_requests, struct problem *problem)
{
    char path[PATH_MAX + 16];
    struct stat st;
    size_t length;
    struct requests *requests = calloc(1, sizeof(*requests));
    if (!requests)
        return -ENOMEM;
    requests->spans_fd = -1;
    snprintf(requests->folder, sizeof(requests->folder), "%s", folder);
    path_of(requests, "requests", path);
    int r = open_spans(requests, O_RDONLY, problem);
    if (r == 0 && fstat(requests->spans_fd, &st) < 0)
        r = -errno;
    if (r == 0)
        r = file_read(path, (size_t)4 << 30, &requests->file, &length);
    if (r == 0)
        r = check(requests, length, (uint64_t)st.st_size);
    if (r == 0)
        r = put_in_order(requests);
    if (r < 0) {
        requests_free(requests);
        return problem_set(problem, r, "%s: %s", path, r == -EBADMSG ? "damaged" : strerror(-r));
    }
    *ret_requests = requests;
    return 0;
}

void requests_free(struct requests *requests)
{
    if (!requests)
        return;
    if (requests->spans_fd >= 0)
        close(requests->spans_fd);
    if (!requests->file)
        free(requests->rows);
    free(requests->file);
    free(requests->by_start);
    text_done(&requests->texts);
    map_done(&requests->ids);
    map_done(&requests->by_name);
    free(requests);
}

size_t requests_count(const struct requests *requests)
{
    return requests->count;
}

/* ---- asking ---- */

static bool has_failed(const struct row *row)
{
    return row->status >= 500 || row->state == REQUEST_UNFINISHED || row->state == REQUEST_ABORTED;
}

static bool matches(const struct requests *r, const struct row *row, const struct requests_query *q)
{
    return (!q->service || strcmp(text_of(r, row->service), q->service) == 0) &&
           (!q->method || strcmp(text_of(r, row->method), q->method) == 0) &&
           (!q->route || strcmp(text_of(r, row->route), q->route) == 0) && (!q->failed || has_failed(row)) &&
           row->latency_ns >= q->min_ns && (!q->max_ns || row->latency_ns <= q->max_ns) &&
           (!q->from_ns || row->start_ns + row->latency_ns >= q->from_ns) &&
           (!q->to_ns || row->start_ns < q->to_ns) &&
           (!q->text || strcasestr(text_of(r, row->path), q->text) ||
            strcasestr(text_of(r, row->name), q->text));
}

struct hit {
    uint64_t key;
    uint32_t row;
};

static int by_key(const void *x, const void *y)
{
    const struct hit *a = x, *b = y;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

/* The rows that match, sorted; *ret_hits is the caller's. */
static int select_rows(const struct requests *r, const struct requests_query *q, struct hit **ret_hits,
                       size_t *ret_count)
{
    const char *sort = q->sort ? q->sort : "latency";
    bool by_start = strcmp(sort, "start") == 0, by_waits = strcmp(sort, "waits") == 0;
    ARRAY(struct hit) hits = {0};
    if (!by_start && !by_waits && strcmp(sort, "latency") != 0)
        return -EINVAL;
    for (size_t i = 0; i < r->count; i++) {
        const struct row *row = &r->rows[i];
        if (!matches(r, row, q))
            continue;
        uint64_t waits_ns = row->latency_ns - MIN(row->works_ns, row->latency_ns);
        uint64_t key = by_start ? row->start_ns : by_waits ? waits_ns : row->latency_ns;
        if (array_add(&hits, (struct hit){q->ascending ? key : ~key, (uint32_t)i}) < 0) {
            array_done(&hits);
            return -ENOMEM;
        }
    }
    if (hits.count)
        qsort(hits.at, hits.count, sizeof(*hits.at), by_key);
    *ret_hits = hits.at;
    *ret_count = hits.count;
    return 0;
}

static void add_text(struct text *to, const struct requests *r, const char *key, uint32_t id)
{
    text_addf(to, ",\"%s\":", key);
    page_json_string(to, text_of(r, id));
}

static void add_row(struct text *to, const struct requests *r, const struct row *row)
{
    text_add(to, "{\"id\":");
    page_json_string(to, text_of(r, row->name));
    add_text(to, r, "service", row->service);
    add_text(to, r, "method", row->method);
    add_text(to, r, "route", row->route);
    add_text(to, r, "path", row->path);
    add_text(to, r, "dominant", row->dominant);
    text_addf(to,
              ",\"state\":\"%s\",\"status\":%u,\"start_ns\":%" PRIu64 ",\"latency_ns\":%" PRIu64
              ",\"works_ns\":%" PRIu64 "}",
              request_state_name((enum request_state)row->state), row->status, row->start_ns, row->latency_ns,
              row->works_ns);
}

/* Quarters of an octave. */
static unsigned bin_of(uint64_t ns)
{
    if (ns < 4)
        return (unsigned)ns;
    unsigned octave = 63u - (unsigned)__builtin_clzll(ns);
    return octave * BINS_PER_OCTAVE + (unsigned)(ns >> (octave - 2) & 3);
}

static uint64_t bin_low(unsigned bin)
{
    unsigned octave = bin / BINS_PER_OCTAVE, part = bin % BINS_PER_OCTAVE;
    if (octave > 63)
        return UINT64_MAX;
    return octave < 2 ? bin : (uint64_t)(4 + part) << (octave - 2);
}

static void add_histogram(struct text *to, const struct requests *r, const struct hit *hits, size_t count)
{
    uint32_t bins[BINS] = {0};
    bool first = true;
    for (size_t i = 0; i < count; i++)
        bins[bin_of(r->rows[hits[i].row].latency_ns)]++;
    text_add(to, ",\"histogram\":[");
    for (unsigned i = 0; i < BINS; i++) {
        if (!bins[i])
            continue;
        text_addf(to, "%s[%" PRIu64 ",%" PRIu64 ",%u]", first ? "" : ",", bin_low(i), bin_low(i + 1),
                  bins[i]);
        first = false;
    }
    text_add(to, "]");
}

int requests_query(const struct requests *r, const struct requests_query *query, struct text *to)
{
    struct hit *hits;
    size_t count, limit = query->limit;
    int error = select_rows(r, query, &hits, &count);
    if (error < 0)
        return error;
    text_addf(to, "{\"schema\":%d,\"total\":%zu", SCHEMA_page, count);
    add_histogram(to, r, hits, count);
    text_add(to, ",\"rows\":[");
    for (size_t i = query->offset; i < count && i - query->offset < limit; i++) {
        text_add(to, i > query->offset ? "," : "");
        add_row(to, r, &r->rows[hits[i].row]);
    }
    text_add(to, "]}");
    free(hits);
    return to->failed ? -ENOMEM : 0;
}

static int add_spans(const struct requests *r, const struct row *row, struct text *to)
{
    if (!row->spans_unpacked) {
        text_add(to, "null");
        return 0;
    }
    uLongf length = row->spans_unpacked;
    _cleanup_(freep) unsigned char *packed = malloc(row->spans_bytes + 1ul);
    _cleanup_(freep) char *text = malloc(length + 1);
    if (!packed || !text)
        return -ENOMEM;
    if (pread(r->spans_fd, packed, row->spans_bytes, (off_t)row->spans_at) != (ssize_t)row->spans_bytes ||
        uncompress((unsigned char *)text, &length, packed, row->spans_bytes) != Z_OK ||
        length != row->spans_unpacked)
        return -EBADMSG;
    text_add_bytes(to, text, length);
    return 0;
}

int requests_one(const struct requests *r, const char *name, struct text *to)
{
    const uint64_t *place = map_get(&r->by_name, map_hash(name, strlen(name)));
    if (!place || strcmp(text_of(r, r->rows[*place].name), name) != 0)
        return -ENOENT;
    const struct row *row = &r->rows[*place];
    const struct requests_query equals = {.service = text_of(r, row->service),
                                          .method = text_of(r, row->method),
                                          .route = text_of(r, row->route)};
    struct hit *hits;
    size_t count, slower = 0;
    int error = select_rows(r, &equals, &hits, &count);
    if (error < 0)
        return error;
    while (slower < count && r->rows[hits[slower].row].latency_ns > row->latency_ns)
        slower++;
    text_addf(to, "{\"schema\":%d,\"row\":", SCHEMA_page);
    add_row(to, r, row);
    text_add(to, ",\"typical\":");
    page_json_string(to, text_of(r, r->rows[hits[count / 2].row].name));
    text_addf(to, ",\"typical_ns\":%" PRIu64 ",\"slower_count\":%zu,\"of_count\":%zu,\"request\":",
              r->rows[hits[count / 2].row].latency_ns, slower, count);
    free(hits);
    error = add_spans(r, row, to);
    text_add(to, "}");
    return error < 0 ? error : to->failed ? -ENOMEM : 0;
}
