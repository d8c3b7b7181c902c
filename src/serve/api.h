/* The API of the web page, JSON and tiles below /api/v1/ (doc/page.md lists it), and the page itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_API_H
#define SERVE_API_H

#include <stdbool.h>

#include "history/tile.h"
#include "http/server.h"
#include "serve/source.h"

struct api {
    struct source *const *sources; /* borrowed */
    size_t count;
    /* Appends the document of what got slower (bundle.h); NULL: there is none. 0 or a negative errno. */
    int (*regressions)(void *context, struct text *to);
    bool (*has_spans)(void *context); /* there is something to compare */
    void *context;
};

/* Answers a request of the page; false when it is none. */
bool api_handle(const struct api *api, const struct http_request *request, struct http_response *response);

/* Appends what "sources" and "s/N/rows" answer. */
void api_add_sources(const struct api *api, struct text *to);
void api_add_rows(struct source *source, struct text *to);

/* Appends a tile of the page-th TILE_ROWS rows. 0; -ENOENT for rows that are not there, or what tile_write()
 * returns. */
int api_add_tile(struct source *source, size_t page, unsigned zoom, uint64_t index,
                 const struct tile_wanted *wanted, struct text *to);

/* The same of the page-th TILE_ROWS groups of rows. */
int api_add_groups_tile(struct source *source, size_t page, unsigned zoom, uint64_t index, struct text *to);

/* The page as one file. */
struct api_file {
    size_t max_bytes;
    size_t left_out; /* set: how many requests and tiles had no room */
    /* Called now and then with what the file has so far, and at most will have. May be NULL. */
    void (*progress)(void *context, uint64_t done_bytes, uint64_t max_bytes);
    void *context;
};

/* Appends the page with what a source has: the overview always, then the requests and times that findings
 * name, then the rest as far as there is room. 0 or a negative errno. */
int api_write_file(struct source *source, struct api_file *file, struct text *to);

#endif
