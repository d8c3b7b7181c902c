/* What a browser may ask the page's API: any document with any parameters, on a few requests and a small
 * history. Each is answered by a document, a tile or a refusal in JSON.
 *
 *     byte 0 document, then its query as it stands in an address: NAME=VALUE&NAME=VALUE (not decoded) */
/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/api.h"

/* ---- the source: these take the place of serve/source.c ---- */

enum { ROWS = 70, REQUESTS = 20, SLICES = 600 };

struct source {
    struct requests *requests;
    struct history *history;
    struct source_row rows[ROWS];
    struct groups *groups;
};

void source_get_status(struct source *source, struct source_status *ret_status)
{
    *ret_status = (struct source_status){.kind = SOURCE_RECORDING, .state = SOURCE_READY};
}

const char *source_path(const struct source *source)
{
    return "/a/recording";
}

void source_cancel(struct source *source)
{
}

void source_document(struct source *source, struct text *to)
{
    text_add(to, "{}");
}

void source_profile(struct source *source, struct text *to)
{
}

const struct requests *source_requests(struct source *source)
{
    return source->requests;
}

struct history *source_history(struct source *source)
{
    return source->history;
}

const struct source_row *source_rows(struct source *source, size_t *ret_count)
{
    *ret_count = ROWS;
    return source->rows;
}

const struct groups *source_groups(struct source *source)
{
    return source->groups;
}

static void make_requests(struct source *source)
{
    char quoted[] = "/a/1?x=\"\\", broken[] = "/a/\xff\x01";
    char folder[] = "/tmp/sonde-fuzz-XXXXXX", command[64];
    if (!mkdtemp(folder) || requests_create(folder, &source->requests, NULL) < 0)
        abort();
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct request request = {.service = i % 2 ? "odd" : "even",
                                  .method = "GET",
                                  .route = "/a/:id",
                                  .path = i % 3 ? quoted : broken,
                                  .status = i % 5 ? 200 : 500,
                                  .state = i % 7 ? REQUEST_FINISHED : REQUEST_UNFINISHED,
                                  .start_ns = 1000 + i * 1000,
                                  .end_ns = 2000 + i * i * 1000};
        snprintf(request.name, sizeof(request.name), "7-%u", i);
        if (requests_add(source->requests, &request, NULL) < 0)
            abort();
    }
    if (requests_close(source->requests, NULL) < 0)
        abort();
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    if (system(command))
        abort();
}

static void make_history(struct source *source)
{
    static char row_path[] = "path";
    struct history_options options = {.size = sizeof(options), .start_ns = 1000, .segment_changes = 64};
    char path[] = "/tmp/sonde-fuzz-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || history_create(path, &options, &source->history, NULL) < 0)
        abort();
    close(fd);
    unlink(path);
    for (unsigned i = 0; i < ROWS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "Threads/%u/State", i);
        source->rows[i] = (struct source_row){.path = row_path, .counts = i % 5 == 0};
        snprintf(source->rows[i].group, sizeof(source->rows[i].group), "group %u", i / 30);
        if (history_add_path(source->history, name, &source->rows[i].quark, NULL) < 0)
            abort();
    }
    for (uint64_t i = 0; i < SLICES; i++)
        history_modify(source->history, 1000 + i * i, source->rows[i * 7 % ROWS].quark,
                       i % 3 ? history_string(i % 2 ? "running" : "\"\x01") : history_int((int64_t)i), NULL);
    if (history_close(source->history, 1000 + SLICES * SLICES, NULL) < 0 ||
        groups_make(source->history, source->rows, ROWS, NULL, &source->groups, NULL) < 0)
        abort();
}

/* ---- the query: these take the place of http/server.c ---- */

struct query {
    struct {
        const char *name, *value;
    } parameters[16];
    size_t count;
};

const char *http_query(const struct http_request *request, const char *name)
{
    const struct query *query = request->connection;
    for (size_t i = 0; i < query->count; i++)
        if (strcmp(query->parameters[i].name, name) == 0)
            return query->parameters[i].value;
    return NULL;
}

bool http_client_gone(const struct http_request *request)
{
    return false;
}

static void parse(char *text, struct query *query)
{
    for (char *rest, *one = strtok_r(text, "&", &rest); one && query->count < ARRAY_SIZE(query->parameters);
         one = strtok_r(NULL, "&", &rest)) {
        char *value = strchr(one, '=');
        if (value)
            *value++ = '\0';
        query->parameters[query->count].name = one;
        query->parameters[query->count++].value = value;
    }
}

static void check(const struct http_response *response, bool tile)
{
    if (response->status != 200 && response->status != 400 && response->status != 404)
        abort();
    if (tile && response->status == 200) {
        if (response->length < TILE_HEADER || memcmp(response->body, "SDT1", 4) != 0)
            abort();
        return;
    }
    json_t *document = json_loadb(response->body, response->length, 0, NULL);
    if (!document)
        abort();
    json_decref(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const DOCUMENTS[] = {"tile", "requests", "request", "rows", "report"};
    static struct source source;
    struct query query = {0};
    char path[64], *text;
    if (!size || !(text = strndup((const char *)data + 1, size - 1)))
        return 0;
    if (!source.requests) {
        make_requests(&source);
        make_history(&source);
    }
    struct source *sources[] = {&source};
    const struct api api = {.sources = sources, .count = 1};
    unsigned which = data[0] % ARRAY_SIZE(DOCUMENTS);
    snprintf(path, sizeof(path), "/api/v1/s/0/%s", DOCUMENTS[which]);
    parse(text, &query);
    const struct http_request request = {.method = "GET", .path = path, .connection = &query};
    struct http_response response = {.status = 200};
    if (!api_handle(&api, &request, &response))
        abort();
    check(&response, which == 0);
    free(response.body);
    free(text);
    return 0;
}
