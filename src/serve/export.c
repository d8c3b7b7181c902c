/* The page as one file: what a view would ask the server for, put into it beforehand. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/schema.h"
#include "history/tile.h"
#include "page/page.h"
#include "serve/api.h"

enum { FINDINGS_MAX = 64, ROWS_MAX = 20000, SLOWEST = 40, DEEPER = 5 };
enum { BESIDE = 4096 };  /* bytes: the policy, and how much was left out */
enum { OPEN_MAX = 300 }; /* rows: of more the page shows groups at first */

/* A finding's time is there as finely as a window of so many columns shows it, and as one of a half and of a
 * quarter does: a wide screen, a usual one and a narrow one. */
enum { WINDOW_COLUMNS = 2048, WINDOW_ZOOMS = 3 };

/* What goes into the file, and how much more may. */
struct contents {
    struct source *source;
    struct api_file *file;
    struct text elements;
    struct map known; /* hashes of addresses that are in it or had no room */
    size_t max_bytes; /* of elements */
    size_t left_out;
    bool full; /* a tile had no room: none is made any more */
};

/* Whether it is asked for the first time. */
static bool is_new(struct contents *c, const char *address)
{
    bool new = false;
    return map_put(&c->known, map_hash(address, strlen(address)), &new) && new;
}

/* Takes the text. What is needed goes in even where there is no room. */
static int add(struct contents *c, const char *address, struct text *text, bool needed)
{
    struct text element = {0};
    struct page_part part = {.data = text_get(text), .length = text->length};
    snprintf(part.address, sizeof(part.address), "%s", address);
    int r = text->failed ? -ENOMEM : page_add_part(&part, &element);
    if (r == 0 && !needed && c->elements.length + element.length > c->max_bytes) {
        c->left_out++;
        r = -ENOSPC;
    }
    if (r == 0)
        text_add_bytes(&c->elements, text_get(&element), element.length);
    if (c->file->progress)
        c->file->progress(c->file->context, c->elements.length, c->max_bytes);
    text_done(&element);
    text_done(text);
    return c->elements.failed ? -ENOMEM : r;
}

static int add_request(struct contents *c, const char *name)
{
    char address[128];
    struct text text = {0};
    if (snprintf(address, sizeof(address), "s/0/request?id=%s", name) >= (int)sizeof(address) ||
        !is_new(c, address))
        return 0;
    int r = requests_one(source_requests(c->source), name, &text);
    if (r == 0)
        r = add(c, address, &text, false);
    text_done(&text);
    return r == -ENOENT || r == -ENOSPC ? 0 : r;
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

static json_t *load_report(struct source *source)
{
    struct text text = {0};
    source_document(source, &text);
    json_t *report = json_loadb(text_get(&text), text.length, 0, NULL);
    text_done(&text);
    return report;
}

static int add_requests_of_finding(struct contents *c, const json_t *finding)
{
    size_t i;
    json_t *affected;
    int r = 0;
    json_array_foreach (json_object_get(finding, "affected"), i, affected) {
        const char *name = json_string_value(json_object_get(affected, "request"));
        if (r == 0 && name)
            r = add_with_typical(c, name);
    }
    return r;
}

/* The slowest of all, and the slowest of each endpoint. */
static int add_slowest_requests(struct contents *c, const json_t *report)
{
    size_t i;
    json_t *endpoint;
    int r = add_query(c, &(struct requests_query){.limit = SLOWEST});
    json_array_foreach (json_object_get(report, "endpoints"), i, endpoint)
        if (r == 0)
            r = add_query(c, &(struct requests_query){
                                 .service = json_string_value(json_object_get(endpoint, "service")),
                                 .method = json_string_value(json_object_get(endpoint, "method")),
                                 .route = json_string_value(json_object_get(endpoint, "route")),
                                 .limit = 5});
    return r;
}

static int add_rows_of_requests(struct contents *c)
{
    struct text text = {0};
    int r = requests_query(source_requests(c->source), &(struct requests_query){.limit = ROWS_MAX}, &text);
    if (r == 0)
        r = add(c, "s/0/requests", &text, true);
    text_done(&text);
    return r;
}

static int add_tile(struct contents *c, const char *what, size_t page, unsigned zoom, uint64_t i, bool needed)
{
    char address[128];
    struct text text = {0};
    bool of_groups = strcmp(what, "groups") == 0;
    snprintf(address, sizeof(address), "s/0/tile?z=%u&i=%llu&%s=%zu", zoom, (unsigned long long)i, what,
             page);
    if (!is_new(c, address))
        return 0;
    if (c->full && !needed) {
        c->left_out++;
        return 0;
    }
    int r = of_groups ? api_add_groups_tile(c->source, page, zoom, i, &text)
                      : api_add_tile(c->source, page, zoom, i, NULL, &text);
    if (r == 0)
        r = add(c, address, &text, needed);
    c->full |= r == -ENOSPC;
    text_done(&text);
    return r == -ERANGE || r == -ENOENT || r == -ENOSPC ? 0 : r;
}

/* Whether one of the rows of a page is of that process. */
static bool is_on_page(struct source *source, int64_t process, size_t page)
{
    size_t count;
    const struct source_row *rows = source_rows(source, &count);
    for (size_t i = page * TILE_ROWS; i < MIN(count, (page + 1) * TILE_ROWS); i++)
        if (rows[i].process == process)
            return true;
    return false;
}

/* What the page shows of a finding's time: of its process' rows, or of all. */
static int add_window(struct contents *c, const json_t *report, const json_t *finding, bool own)
{
    size_t rows;
    struct history_info info;
    struct history *history = source_history(c->source);
    const json_t *to = json_object_get(finding, "to_ns");
    uint64_t from_ns = (uint64_t)json_integer_value(json_object_get(finding, "from_ns")),
             to_ns =
                 (uint64_t)json_integer_value(json_is_integer(to) ? to : json_object_get(report, "to_ns"));
    int64_t process = json_integer_value(json_object_get(json_object_get(finding, "where"), "process"));
    unsigned whole = tile_zoom_whole(history);
    int r = 0;
    source_rows(c->source, &rows);
    history_get_info(history, &info);
    from_ns = MAX(from_ns, info.start_ns) - info.start_ns;
    to_ns = MIN(to_ns, info.end_ns) - info.start_ns;
    if (to_ns <= from_ns || to_ns > info.end_ns - info.start_ns)
        return 0;
    uint64_t around_ns = (to_ns - from_ns) / 20 + 1000000, columns_ns = to_ns - from_ns + 2 * around_ns;
    from_ns = from_ns > around_ns ? from_ns - around_ns : 0;
    to_ns = MIN(to_ns + around_ns, info.end_ns - info.start_ns - 1);
    unsigned finest = (unsigned)(63 - __builtin_clzll(columns_ns / WINDOW_COLUMNS | 1));
    for (unsigned zoom = finest; zoom < MIN(finest + WINDOW_ZOOMS, whole); zoom++)
        for (uint64_t i = from_ns >> zoom >> 9; i <= to_ns >> zoom >> 9; i++)
            for (size_t page = 0; r == 0 && page * TILE_ROWS < rows; page++)
                if (!own || is_on_page(c->source, process, page))
                    r = add_tile(c, "page", page, zoom, i, false);
    return r;
}

/* own: of each finding its time, of the rows of its process, and its requests; else its time of all rows. */
static int add_findings(struct contents *c, const json_t *report, bool own)
{
    size_t i;
    json_t *finding;
    int r = 0;
    json_array_foreach (json_object_get(report, "findings"), i, finding) {
        if (r == 0 && i < FINDINGS_MAX && source_history(c->source))
            r = add_window(c, report, finding, own);
        if (r == 0 && own && source_requests(c->source))
            r = add_requests_of_finding(c, finding);
    }
    return r;
}

/* From the tile of the whole to those that are so many times finer, of rows ("page") or groups. */
static int add_zooms(struct contents *c, const char *what, unsigned from, unsigned to)
{
    size_t rows;
    unsigned whole = tile_zoom_whole(source_history(c->source));
    bool of_groups = strcmp(what, "groups") == 0;
    int r = 0;
    source_rows(c->source, &rows); /* there are no more groups than rows */
    bool seen_first = of_groups || rows <= OPEN_MAX;
    for (unsigned deeper = from; deeper <= MIN(to, whole); deeper++)
        for (uint64_t i = 0; i < (uint64_t)1 << deeper; i++)
            for (size_t page = 0; r == 0 && page * TILE_ROWS < rows; page++)
                r = add_tile(c, what, page, whole - deeper, i, seen_first && deeper == 0);
    return r;
}

/* Requests and states, what is wanted most first. */
static int add_recording(struct contents *c)
{
    size_t rows;
    bool states = source_history(c->source) && (source_rows(c->source, &rows), rows);
    json_t *report = load_report(c->source);
    int r = source_requests(c->source) ? add_rows_of_requests(c) : 0;
    if (r == 0 && states)
        r = add_zooms(c, "groups", 0, GROUPS_DEEPER);
    if (r == 0 && states && rows <= OPEN_MAX)
        r = add_zooms(c, "page", 0, 0);
    if (r == 0)
        r = add_findings(c, report, true);
    if (r == 0 && source_requests(c->source))
        r = add_slowest_requests(c, report);
    if (r == 0 && states)
        r = add_zooms(c, "page", 0, 0);
    if (r == 0)
        r = add_findings(c, report, false);
    if (r == 0 && states)
        r = add_zooms(c, "page", 1, DEEPER);
    json_decref(report);
    return r;
}

int api_write_file(struct source *source, struct api_file *file, struct text *to)
{
    size_t page_bytes;
    page_html(&page_bytes);
    page_bytes += BESIDE;
    struct contents c = {.source = source,
                         .file = file,
                         .max_bytes = file->max_bytes > page_bytes ? file->max_bytes - page_bytes : 0};
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
    if (r == 0 || r == -ENOSPC) {
        api_add_rows(source, &text);
        r = add(&c, "s/0/rows", &text, true);
    }
    if (r == 0)
        r = add_recording(&c);
    if (r == 0) {
        text_addf(&text, "{\"schema\":%d,\"left_out_count\":%zu}", SCHEMA_page, c.left_out);
        r = add(&c, "file", &text, true);
    }
    if (r == 0)
        r = page_file_of(&c.elements, to);
    file->left_out = c.left_out;
    text_done(&c.elements);
    map_done(&c.known);
    text_done(&text);
    return r;
}
