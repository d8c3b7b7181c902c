/* All requests of a recording: a table of fixed rows that is filtered, sorted and paged, and beside it the
 * vertical span of each, compressed. Made once while the recording is read, kept in two files, opened at once
 * later. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_REQUESTS_H
#define SERVE_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/request.h"
#include "base/problem.h"
#include "base/text.h"
#include "profile/profile.h"

struct requests;

/* What a view asks for; strings may be NULL, numbers 0 for "any". */
struct requests_query {
    const char *service, *method, *route;
    const char *text;        /* in path or name, letters of either case */
    bool failed;             /* status 500 and above, aborted or unfinished */
    uint64_t min_ns, max_ns; /* latency */
    uint64_t from_ns, to_ns; /* it lies at least in part within them */
    const char *sort;        /* "latency", "start", "waits"; NULL: latency */
    bool ascending;
    uint32_t offset, limit;
};

/* What a client of the server may ask for at once (api.c); a page that is written as one file has more. */
enum { REQUESTS_LIMIT_MAX = 1000 };

/* Begins new files in a folder. 0 or a negative errno. */
int requests_create(const char *folder, struct requests **ret_requests, struct problem *problem);

/* Adds a request of which all is known. When the file of spans has spans_max bytes, further ones go without.
 */
int requests_add(struct requests *requests, const struct request *request, const struct profile *samples);

/* Replaces the vertical span of a request that is there, once samples are known. */
int requests_replace(struct requests *requests, const struct request *request, const struct profile *samples);

/* Writes the table; the requests can be asked from then on. */
int requests_close(struct requests *requests, struct problem *problem);

/* Those that an earlier requests_close() wrote. -EBADMSG when the files are damaged. */
int requests_open(const char *folder, struct requests **ret_requests, struct problem *problem);
void requests_free(struct requests *requests);
DEFINE_FREEP(struct requests, requests_free)

/* Appends {"total", "histogram": [[from_ns, count]...], "rows": [...]}. -EINVAL for an unknown order. */
int requests_query(const struct requests *requests, const struct requests_query *query, struct text *to);

/* Appends {"typical": NAME, "slower_count", "of_count", "request": {...}} for the request of that name;
 * request is null when its vertical span was not kept. -ENOENT when there is none. */
int requests_one(const struct requests *requests, const char *name, struct text *to);

size_t requests_count(const struct requests *requests);

/* A request's row in the table. Strings are borrowed from the requests, never NULL. */
struct request_facts {
    uint64_t start_ns, latency_ns;
    const char *name, *service, *method, *route, *path;
    const char *dominant, *state; /* what took most of its time; "finished" and the like */
    unsigned status;
};

/* The index-th of requests_count() requests, in the order in which they began. */
void requests_get(const struct requests *requests, size_t index, struct request_facts *ret_facts);

#endif
