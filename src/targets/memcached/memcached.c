/* Memcached's side of requests: its connections are its clients', and it calls nobody. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

static bool connection_opened(struct analysis *a, struct connection *c)
{
    connection_serves(a, c);
    return true;
}

const struct analyzer analyzer_memcached = {
    .name = "memcached", .runtime = SONDE_runtime_memcached, .connection_opened = connection_opened};
