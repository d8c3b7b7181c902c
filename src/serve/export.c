/* The page as one file: what a view would ask the server for, put into it beforehand. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "history/tile.h"
#include "page/page.h"
#include "serve/api.h"

enum { FINDINGS_MAX = 64, ROWS_MAX = 20000, SLOWEST = 40, DEEPER = 5, PACKS_TO = 5 };

/* What goes into the file, and how much more may. */
struct contents {
    struct source *source;
    ARRAY(struct page_part) parts; /* data is owned */
    size_t bytes, max_bytes;
    size_t left_out;
};

static bool has(const struct contents *c, const char *address)
{
    array_foreach (&c->parts, part)
        if (strcmp(part->address, address) == 0)
            return true;
    return false;
}

/* Takes the text. Documents pack to a fifth or less, which the file's limit is about. */
static int add(struct contents *c, const char *address, struct text *text, bool needed)
{
    struct page_part part = {.length = text->length};
    size_t bytes = text->length / PACKS_TO;
    if (!needed && c->bytes + bytes > c->max_bytes) {
        c->left_out++;
        text_done(text);
        return 0;
    }
    snprintf(part.address, sizeof(part.address), "%s", address);
    part.data = text_take(text);
    if (!part.data || array_add(&c->parts, part) < 0) {
        free((void *)part.data);
        return -ENOMEM;
    }
    c->bytes += bytes;
    return 0;
}

static int add_request(struct contents *c, const char *name)
{
    char address[128];
    struct text text = {0};
    if (snprintf(address, sizeof(address), "s/0/request?id=%s", name) >= (int)sizeof(address) ||
        has(c, address))
        return 0;
    int r = requests_one(source_requests(c->source), name, &text);
    if (r == 0)
        r = add(c, address, &text, false);
    text_done(&text);
    return r == -ENOENT ? 0 : r;
}

/* A request and the typical one that it is shown beside. */
static int add_with_typical(struct contents *c, const char *name)
{
    struct text text = {0};
    int r = requests_one(source_requests(c->source), name, &text);
    json_t *one = r == 0 ? json_loadb(text_get(&text), text.length, 0, NULL) : NULL;
    const char *typical = json_string_value(json_object_get(one, "typical"));
    text_done(&text);
    if (r == 0)
        r = add_request(c, name);
    if (r == 0 && typical)
        r = add_request(c, typical);
    json_decref(one);
    return r == -ENOENT ? 0 : r;
}

static int add_query(struct contents *c, const struct requests_query *query)
{
    struct text text = {0};
    size_t i;
    json_t *row;
    int r = requests_query(source_requests(c->source), query, &text);
    json_t *rows = r == 0 ? json_loadb(text_get(&text), text.length, 0, NULL) : NULL;
    text_done(&text);
    json_array_foreach (json_object_get(rows, "rows"), i, row)
        if (r == 0)
            r = add_with_typical(c, json_string_value(json_object_get(row, "id")));
    json_decref(rows);
    return r;
}

/* Those that findings name, the slowest of all, and the slowest of each endpoint. */
static int add_requests(struct contents *c)
{
    struct text text = {0};
    size_t i, k;
    json_t *finding, *affected, *endpoint;
    if (!source_requests(c->source))
        return 0;
    source_document(c->source, &text);
    json_t *report = json_loadb(text_get(&text), text.length, 0, NULL);
    text_done(&text);
    int r = 0;
    json_array_foreach (json_object_get(report, "findings"), i, finding)
        json_array_foreach (json_object_get(finding, "affected"), k, affected) {
            const char *name = json_string_value(json_object_get(affected, "request"));
            if (r == 0 && name)
                r = add_with_typical(c, name);
        }
    if (r == 0)
        r = add_query(c, &(struct requests_query){.limit = SLOWEST});
    json_array_foreach (json_object_get(report, "endpoints"), i, endpoint)
        if (r == 0)
            r = add_query(c, &(struct requests_query){
                                 .service = json_string_value(json_object_get(endpoint, "service")),
                                 .method = json_string_value(json_object_get(endpoint, "method")),
                                 .route = json_string_value(json_object_get(endpoint, "route")),
                                 .limit = 5});
    json_decref(report);
    if (r == 0) {
        r = requests_query(source_requests(c->source), &(struct requests_query){.limit = ROWS_MAX}, &text);
        if (r == 0)
            r = add(c, "s/0/requests", &text, true);
        text_done(&text);
    }
    return r;
}

/* The times of findings: what they point at is wanted more than the rest. */
struct windows {
    uint64_t from_ns[FINDINGS_MAX], to_ns[FINDINGS_MAX];
    size_t count;
};

static void find_windows(struct source *source, struct windows *windows)
{
    struct text text = {0};
    size_t i;
    json_t *finding;
    source_document(source, &text);
    json_t *report = json_loadb(text_get(&text), text.length, 0, NULL);
    text_done(&text);
    json_array_foreach (json_object_get(report, "findings"), i, finding) {
        const json_t *to = json_object_get(finding, "to_ns");
        if (windows->count == FINDINGS_MAX)
            break;
        windows->from_ns[windows->count] = (uint64_t)json_integer_value(json_object_get(finding, "from_ns"));
        windows->to_ns[windows->count++] =
            json_is_integer(to) ? (uint64_t)json_integer_value(to) : UINT64_MAX;
    }
    json_decref(report);
}

static bool in_window(const struct windows *windows, uint64_t from_ns, uint64_t to_ns)
{
    for (size_t i = 0; i < windows->count; i++)
        if (windows->from_ns[i] < to_ns && windows->to_ns[i] >= from_ns)
            return true;
    return false;
}

static int add_tile(struct contents *c, const char *what, size_t page, unsigned zoom, uint64_t i, bool needed)
{
    char address[128];
    struct text text = {0};
    bool of_groups = strcmp(what, "groups") == 0;
    snprintf(address, sizeof(address), "s/0/tile?z=%u&i=%llu&%s=%zu", zoom, (unsigned long long)i, what,
             page);
    int r = of_groups ? api_add_groups_tile(c->source, page, zoom, i, &text)
                      : api_add_tile(c->source, page, zoom, i, &text);
    if (r == 0)
        r = add(c, address, &text, needed);
    text_done(&text);
    return r == -ERANGE || r == -ENOENT ? 0 : r;
}

/* The tiles of one zoom, of all rows, that are within findings' windows (or those that are not). */
static int add_zoom(struct contents *c, const struct windows *windows, bool within, unsigned deeper)
{
    size_t rows;
    struct history_info info;
    struct history *history = source_history(c->source);
    source_rows(c->source, &rows);
    history_get_info(history, &info);
    unsigned zoom = tile_zoom_whole(history) - deeper;
    int r = 0;
    for (uint64_t i = 0; r == 0 && i < (uint64_t)1 << deeper; i++) {
        uint64_t from_ns = info.start_ns + (i << zoom << 9), to_ns = info.start_ns + ((i + 1) << zoom << 9);
        if ((deeper == 0 || in_window(windows, from_ns, to_ns)) != within)
            continue;
        for (size_t page = 0; r == 0 && page * TILE_ROWS < rows; page++)
            r = add_tile(c, "page", page, zoom, i, deeper == 0);
    }
    return r;
}

static int add_tiles(struct contents *c)
{
    size_t rows;
    struct windows windows = {0};
    struct history *history = source_history(c->source);
    source_rows(c->source, &rows);
    if (!history || !rows)
        return 0;
    find_windows(c->source, &windows);
    unsigned whole = tile_zoom_whole(history);
    int r = 0;
    for (unsigned deeper = 0; deeper <= MIN((unsigned)GROUPS_DEEPER, whole); deeper++)
        for (uint64_t i = 0; i < (uint64_t)1 << deeper; i++)
            for (size_t page = 0; r == 0 && page * TILE_ROWS < rows; page++)
                r = add_tile(c, "groups", page, whole - deeper, i, deeper == 0);
    for (unsigned within = 2; within-- > 0;)
        for (unsigned deeper = 0; r == 0 && deeper <= MIN((unsigned)DEEPER, whole); deeper++)
            r = add_zoom(c, &windows, within, deeper);
    return r;
}

int api_write_file(struct source *source, size_t max_bytes, struct text *to)
{
    struct contents c = {.source = source, .max_bytes = max_bytes};
    struct source_status status;
    const struct api api = {.sources = &source, .count = 1};
    struct text text = {0};
    source_get_status(source, &status);
    api_add_sources(&api, &text);
    int r = add(&c, "sources", &text, true);
    source_document(source, &text);
    if (r == 0 && text.length)
        r = add(&c, "s/0/report", &text, true);
    source_profile(source, &text);
    if (r == 0 && text.length)
        r = add(&c, "s/0/profile", &text, status.kind == SOURCE_PROFILE);
    if (r == 0) {
        api_add_rows(source, &text);
        r = add(&c, "s/0/rows", &text, true);
    }
    if (r == 0)
        r = add_requests(&c);
    if (r == 0)
        r = add_tiles(&c);
    if (r == 0) {
        text_addf(&text, "{\"schema\":%d,\"left_out_count\":%zu}", API_SCHEMA, c.left_out);
        r = add(&c, "file", &text, true);
    }
    if (r == 0)
        r = page_file(c.parts.at, c.parts.count, to);
    array_foreach (&c.parts, part)
        free((void *)part->data);
    array_done(&c.parts);
    text_done(&text);
    return r;
}
