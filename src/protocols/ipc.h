/* Who talks to whom over pipes, UNIX sockets and message ports, for programs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROTOCOLS_IPC_H
#define PROTOCOLS_IPC_H

#include <jansson.h>

#include "model/analysis.h"

/* An array with one object for each descriptor of a traced Node process that is a pipe or a UNIX socket and
 * was written to: how often, how many bytes, how many of the messages were followed by an answer and when,
 * and the other end where it is traced; and one for each message port that was posted to. A new reference. */
json_t *analysis_channels_json(const struct analysis *analysis);

#endif
