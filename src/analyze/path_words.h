/* A request's critical path in words. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ANALYZE_PATH_WORDS_H
#define ANALYZE_PATH_WORDS_H

#include "base/text.h"
#include "model/request.h"

/* Appends what the request did and waited for, in order of time, to be read aloud: "critical path: it runs
 * for 3.40 ms (request handler), then waits 267 ms for an answer (SELECT of 127.0.0.1:5432; 40 times), ...;
 * 270 ms at work (T), 1.10 ms of waiting". The largest parts only; what is of one kind, name and place is one
 * part. Nothing for requests below a millisecond. */
void path_words(struct text *to, const struct request *request);

/* Appends a name; of one that is too long to be read (patterns may have thousands of characters) the
 * beginning and the end. */
void path_add_name(struct text *to, const char *name);

/* The address of whom a step waits for, when that is not a service that is traced; NULL otherwise. Borrowed.
 */
const char *path_step_peer(const struct request *request, const struct path_step *step);

#endif
