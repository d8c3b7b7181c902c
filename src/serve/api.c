/* See api.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/api.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/schema.h"
#include "diagnose/bundle.h"
#include "history/tile.h"
#include "page/page.h"

enum { ROWS_DEFAULT = 100 };

/* ---- documents ---- */

static const char *state_name(enum source_state state)
{
    static const char *const NAMES[] = {"reading", "ready", "failed", "cancelled"};
    return NAMES[state];
}

static void add_member(struct text *to, const char *key, const char *value)
{
    text_addf(to, ",\"%s\":", key);
    page_json_string(to, value);
}

static void add_source(struct source *source, size_t number, struct text *to)
{
    struct source_status status;
    const char *path = source_path(source), *slash = strrchr(path, '/');
    source_get_status(source, &status);
    text_addf(to, "%s{\"id\":%zu", number ? "," : "", number);
    add_member(to, "name", slash && slash[1] ? slash + 1 : path);
    add_member(to, "path", path);
    add_member(to, "kind", status.kind == SOURCE_PROFILE ? "profile" : "recording");
    add_member(to, "state", state_name(status.state));
    text_addf(to,
              ",\"version\":%" PRIu64 ",\"done_bytes\":%" PRIu64 ",\"total_bytes\":%" PRIu64
              ",\"left_ns\":%" PRIu64,
              status.version, status.done_bytes, status.total_bytes, status.left_ns);
    if (status.problem.what[0]) {
        add_member(to, "problem", status.problem.what);
        add_member(to, "remedy", status.problem.remedy);
    }
    text_add(to, "}");
}

void api_add_sources(const struct api *api, struct text *to)
{
    /* With nothing else to show, the view says how to send spans. */
    bool regressions = api->regressions && (!api->count || api->has_spans(api->context));
    text_addf(to, "{\"schema\":%d,\"regressions\":%s,\"sources\":[", SCHEMA_page,
              regressions ? "true" : "false");
    for (size_t i = 0; i < api->count; i++)
        add_source(api->sources[i], i, to);
    text_add(to, "]}");
}

void api_add_rows(struct source *source, struct text *to)
{
    size_t count;
    struct history_info info = {0};
    const struct source_row *rows = source_rows(source, &count);
    struct history *history = source_history(source);
    const struct groups *groups = source_groups(source);
    if (history)
        history_get_info(history, &info);
    text_addf(to,
              "{\"schema\":%d,\"start_ns\":%" PRIu64 ",\"end_ns\":%" PRIu64 ",\"changes\":%" PRIu64
              ",\"zoom\":%u,\"groups_zoom\":%u,\"quiet\":[",
              SCHEMA_page, info.start_ns, info.end_ns, info.changes, history ? tile_zoom_whole(history) : 0,
              groups ? groups_zoom(groups) : 0);
    for (const char *const *quiet = ROWS_QUIET; *quiet; quiet++) {
        text_add(to, quiet == ROWS_QUIET ? "" : ",");
        page_json_string(to, *quiet);
    }
    text_add(to, "],\"rows\":[");
    for (size_t i = 0; i < count; i++) {
        text_addf(to, "%s{\"n\":%zu", i ? "," : "", i);
        add_member(to, "group", rows[i].group);
        add_member(to, "name", rows[i].name);
        add_member(to, "path", rows[i].path);
        if (rows[i].process)
            text_addf(to, ",\"process\":%" PRId64, rows[i].process);
        if (rows[i].thread)
            text_addf(to, ",\"thread\":%" PRId64, rows[i].thread);
        text_add(to, rows[i].counts ? ",\"counts\":true}" : "}");
    }
    text_add(to, "]}");
}

int api_add_tile(struct source *source, size_t page, unsigned zoom, uint64_t index,
                 const struct tile_wanted *wanted, struct text *to)
{
    uint32_t quarks[TILE_ROWS];
    size_t count, n = 0;
    const struct source_row *rows = source_rows(source, &count);
    struct history *history = source_history(source);
    if (!history || page > count / TILE_ROWS || page * TILE_ROWS >= count)
        return -ENOENT;
    for (size_t i = page * TILE_ROWS; i < count && n < TILE_ROWS; i++)
        quarks[n++] = rows[i].quark;
    return tile_write(history, quarks, n, zoom, index, wanted, to, NULL);
}

int api_add_groups_tile(struct source *source, size_t page, unsigned zoom, uint64_t index, struct text *to)
{
    const struct groups *groups = source_groups(source);
    return groups ? groups_tile(groups, page, zoom, index, to) : -ENOENT;
}

/* ---- answers ---- */

static void take(struct http_response *response, struct text *text, const char *type)
{
    response->content_type = type;
    response->length = text->length;
    response->body = text_take(text);
    if (!response->body && response->status == 200 && response->length)
        response->status = 500;
    if (response->status == 200 && response->body)
        snprintf(response->etag, sizeof(response->etag), "\"%016" PRIx64 "\"",
                 map_hash(response->body, response->length));
}

static void refuse(struct http_response *response, unsigned status, const char *why)
{
    struct text text = {0};
    text_addf(&text, "{\"schema\":%d,\"problem\":", SCHEMA_page);
    page_json_string(&text, why);
    text_add(&text, "}");
    response->status = status;
    take(response, &text, "application/json");
}

static void answer_json(struct http_response *response, struct text *text)
{
    take(response, text, "application/json");
}

/* An unsigned number of a query, otherwise when it is not given; false for what is no number. */
static bool number(const struct http_request *request, const char *name, uint64_t otherwise, uint64_t *ret)
{
    const char *text = http_query(request, name);
    char *end;
    errno = 0;
    *ret = text && *text ? strtoull(text, &end, 10) : otherwise;
    return !text || !*text || (!errno && !*end && text[0] >= '0' && text[0] <= '9');
}

static const char *given(const struct http_request *request, const char *name)
{
    const char *text = http_query(request, name);
    return text && *text ? text : NULL;
}

static void answer_requests(struct source *source, const struct http_request *request,
                            struct http_response *response)
{
    struct text text = {0};
    uint64_t offset, limit, failed;
    struct requests_query q = {.service = given(request, "service"),
                               .method = given(request, "method"),
                               .route = given(request, "route"),
                               .text = given(request, "text"),
                               .sort = given(request, "sort")};
    const struct requests *requests = source_requests(source);
    const char *order = given(request, "order");
    if (!requests) {
        refuse(response, 404, "no requests are known yet");
        return;
    }
    q.ascending = order && strcmp(order, "ascending") == 0;
    if (!number(request, "offset", 0, &offset) || !number(request, "limit", ROWS_DEFAULT, &limit) ||
        !number(request, "min_ns", 0, &q.min_ns) || !number(request, "max_ns", 0, &q.max_ns) ||
        !number(request, "from_ns", 0, &q.from_ns) || !number(request, "to_ns", 0, &q.to_ns) ||
        !number(request, "failed", 0, &failed) || offset > UINT32_MAX) {
        refuse(response, 400, "a number is not understood");
        return;
    }
    q.failed = failed != 0;
    q.offset = (uint32_t)offset;
    q.limit = (uint32_t)MIN(limit, (uint64_t)REQUESTS_LIMIT_MAX);
    int r = requests_query(requests, &q, &text);
    if (r < 0)
        refuse(response, r == -EINVAL ? 400 : 500,
               r == -EINVAL ? "requests are sorted by latency, start or waits" : "out of memory");
    else
        answer_json(response, &text);
    text_done(&text);
}

static void answer_request(struct source *source, const struct http_request *request,
                           struct http_response *response)
{
    struct text text = {0};
    const char *id = given(request, "id");
    const struct requests *requests = source_requests(source);
    int r = id && requests ? requests_one(requests, id, &text) : -ENOENT;
    if (r == 0)
        answer_json(response, &text);
    else
        refuse(response, r == -ENOENT ? 404 : 500,
               r == -ENOENT ? "no request has that name" : "the request cannot be read");
    text_done(&text);
}

static bool is_waited_for(void *request)
{
    return !http_client_gone(request);
}

static void answer_tile(struct source *source, const struct http_request *request,
                        struct http_response *response)
{
    struct text text = {0};
    uint64_t zoom, index, page;
    bool of_groups = given(request, "groups") != NULL;
    const struct tile_wanted wanted = {is_waited_for, (void *)(uintptr_t)request};
    if (!number(request, "z", UINT64_MAX, &zoom) || !number(request, "i", 0, &index) ||
        !number(request, of_groups ? "groups" : "page", 0, &page) || zoom > TILE_ZOOM_MAX) {
        refuse(response, 400, "a tile has a zoom z, an index i and a page of rows (page) or groups (groups)");
        return;
    }
    int r = of_groups ? api_add_groups_tile(source, page, (unsigned)zoom, index, &text)
                      : api_add_tile(source, page, (unsigned)zoom, index, &wanted, &text);
    if (r == 0) {
        take(response, &text, "application/octet-stream");
        response->immutable = given(request, "v") != NULL;
    } else {
        refuse(response,
               r == -ECANCELED                ? 503
               : r == -ENOENT || r == -ERANGE ? 404
                                              : 500,
               r == -ECANCELED ? "the client has gone" : "no such tile");
    }
    text_done(&text);
}

static void answer_document(struct source *source, struct http_response *response,
                            void (*get)(struct source *source, struct text *to))
{
    struct text text = {0};
    get(source, &text);
    if (text.length)
        answer_json(response, &text);
    else
        refuse(response, 404, "there is none, or it is still being read");
    text_done(&text);
}

static void answer_rows(struct source *source, struct http_response *response)
{
    struct text text = {0};
    api_add_rows(source, &text);
    answer_json(response, &text);
    text_done(&text);
}

/* rest: behind "/api/v1/s/". */
static void answer_source(const struct api *api, const char *rest, const struct http_request *request,
                          struct http_response *response)
{
    char *end;
    unsigned long n = strtoul(rest, &end, 10);
    struct source *source =
        end > rest && *rest >= '0' && *rest <= '9' && n < api->count ? api->sources[n] : NULL;
    bool get = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
    if (!source)
        refuse(response, 404, "no such source");
    else if (strcmp(end, "/job") == 0 && strcmp(request->method, "DELETE") == 0)
        source_cancel(source);
    else if (!get)
        refuse(response, 405, "that can only be read");
    else if (strcmp(end, "/report") == 0)
        answer_document(source, response, source_document);
    else if (strcmp(end, "/profile") == 0)
        answer_document(source, response, source_profile);
    else if (strcmp(end, "/requests") == 0)
        answer_requests(source, request, response);
    else if (strcmp(end, "/request") == 0)
        answer_request(source, request, response);
    else if (strcmp(end, "/rows") == 0)
        answer_rows(source, response);
    else if (strcmp(end, "/tile") == 0)
        answer_tile(source, request, response);
    else
        refuse(response, 404, "no such document");
}

static pthread_once_t policies_made = PTHREAD_ONCE_INIT;
static char *page_may, *file_may;

static void make_policies(void)
{
    struct text page = {0}, file = {0};
    page_policy("'self'", &page);
    page_policy("'none'", &file);
    text_add(&page, "; frame-ancestors 'none'");
    text_add(&file, "; frame-ancestors 'none'");
    page_may = text_take(&page);
    file_may = text_take(&file);
}

static void answer_html(struct http_response *response, struct text *html, char *const *policy)
{
    pthread_once(&policies_made, make_policies);
    take(response, html, "text/html; charset=utf-8");
    response->policy = *policy;
}

static void answer_page(struct http_response *response)
{
    struct text text = {0};
    size_t length;
    const char *html = page_html(&length);
    text_add_bytes(&text, html, length);
    answer_html(response, &text, &page_may);
    text_done(&text);
}

/* What got slower: the document, or the page with it as one file, to be kept with a ticket. */
static void answer_regressions(const struct api *api, struct http_response *response, bool file)
{
    struct text document = {0}, html = {0};
    int r = api->regressions ? api->regressions(api->context, &document) : -ENOENT;
    if (r == 0 && file)
        r = bundle_page(&document, &html);
    if (r < 0)
        refuse(response, r == -ENOENT ? 404 : 500, r == -ENOENT ? "no spans were given" : "out of memory");
    else if (file)
        answer_html(response, &html, &file_may);
    else
        answer_json(response, &document);
    text_done(&document);
    text_done(&html);
}

bool api_handle(const struct api *api, const struct http_request *request, struct http_response *response)
{
    const char *path = request->path;
    struct text text = {0};
    bool get = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
    if (get && strcmp(path, "/") == 0) {
        answer_page(response);
    } else if (get && strcmp(path, "/api/v1/sources") == 0) {
        api_add_sources(api, &text);
        answer_json(response, &text);
    } else if (get && strcmp(path, "/api/v1/regressions") == 0) {
        answer_regressions(api, response, false);
    } else if (get && strcmp(path, "/evidence") == 0) {
        answer_regressions(api, response, true);
    } else if (strncmp(path, "/api/v1/s/", 10) == 0) {
        answer_source(api, path + 10, request, response);
    } else {
        return false;
    }
    text_done(&text);
    return true;
}
