/* Messages between processes over pipes and UNIX sockets. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROTOCOLS_IPC_H
#define PROTOCOLS_IPC_H

#include <jansson.h>

#include "model/model.h"

/* Adds an object for each descriptor of a traced process that is a pipe or a UNIX socket and was written to:
 * how often, how many bytes, how many of the messages were followed by an answer and when, and the other end
 * where it is traced. */
void ipc_channels_json(const struct analysis *analysis, json_t *array);

/* Bytes were written to the descriptor; whose->owner may be NULL. write_id: the async id of the write when it
 * was queued, 0 when it was taken at once. */
struct context;
void ipc_wrote(struct analysis *a, struct connection *connection, const struct context *whose, uint64_t at_ns,
               uint64_t bytes, uint64_t write_id);
/* A request is answered where another one's write to the connection was done. only: there has been no other
 * request since it began. */
void ipc_wrote_behind(struct analysis *a, struct connection *connection, struct request *request, bool only,
                      uint64_t done_ns);

#endif
