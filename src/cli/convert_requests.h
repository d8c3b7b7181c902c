/* The requests of a recording as tracks for Perfetto: below each service a row for each endpoint, a slice for
 * each request with the slices of its spans in it, and arrows from calls of other services to what those did.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CONVERT_REQUESTS_H
#define CLI_CONVERT_REQUESTS_H

#include "base/problem.h"
#include "trace/perfetto.h"

/* Reads the recording in folder, whose events are the writer's host number 0, and writes all of its requests
 * and the names of its processes. progress is called as folder_read() does. 0 or a negative errno, with
 * problem set. */
int convert_requests(const char *folder, struct perfetto *writer,
                     int (*progress)(void *context, uint64_t done, uint64_t total), void *context,
                     struct problem *problem);

#endif
