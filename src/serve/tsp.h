/* A Trace Server: the Trace Server Protocol 0.6 (its API.yaml), so that other viewers of traces, such as the
 * one for VS Code, show a recording's states, counts and requests. Everything lies below TSP_PATH.
 *
 * Each recording of the command line is one trace and one experiment. Nothing but those can be opened, and
 * deleting one only takes it off the server's list: it stays on the disk and in the page. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_TSP_H
#define SERVE_TSP_H

#include <stdbool.h>

#include "http/server.h"
#include "serve/source.h"

#define TSP_PATH    "/tsp/api"
#define TSP_VERSION "0.6.0"

struct tsp;

/* The sources are borrowed. 0 or -ENOMEM. */
int tsp_new(struct source *const *sources, size_t count, struct tsp **ret_tsp);
void tsp_free(struct tsp *tsp);
DEFINE_FREEP(struct tsp, tsp_free)

/* Answers a request below TSP_PATH; false when it is not. */
bool tsp_handle(struct tsp *tsp, const struct http_request *request, struct http_response *response);

#endif
