/* Memcached's side of requests: its connections are clients' and call nobody. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "faults/faults.h"

static bool connection_opened(struct analysis *a, struct connection *c)
{
    connection_serves(a, c);
    return true;
}

static void command(struct analysis *a, struct thread *thread, const struct event *e)
{
    a->counts.commands += U(e, memcached_command_commands);
    stretch_active(thread, e->time_ns - event_duration(e), e->time_ns);
}

static const struct event_reading EVENTS[] = {{SONDE_EVENT_memcached_command, command}, {0}};

const struct analyzer analyzer_memcached = {.name = "memcached",
                                            .runtime = SONDE_runtime_memcached,
                                            .events = EVENTS,
                                            .connection_opened = connection_opened};
