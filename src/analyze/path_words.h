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

/* Of a step, the time in which the thread that should go on with it had no CPU, ns; and, of a wait for
 * nothing that is seen, the time in which the loop's thread did other work (*ret_loop_ns): what was waited
 * for may have come long before. What is neither is the step's own. */
uint64_t path_step_no_cpu(const struct path_step *step, uint64_t *ret_loop_ns);

/* Appends a name; of one that is too long to be read (patterns may have thousands of characters) the
 * beginning and the end. */
void path_add_name(struct text *to, const char *name);

/* The address of whom a step waits for, when that is not a service that is traced; NULL otherwise. Borrowed.
 */
const char *path_step_peer(const struct request *request, const struct path_step *step);

#endif
