/* What a Memcached server does as states over time. Below Memcached/PID: Connections (how many are open that
 * have sent commands), Keys/Hits and Keys/Misses, Bytes in and Bytes out (so far), and Threads/TID/Command,
 * what each thread executes: of commands of several kinds that were sent together, the first. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "states/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/map.h"
#include "trace/event.h"

#define U(e, field) (event_has(e, FIELD_##field) ? (e)->values[FIELD_##field].u : 0)

enum count { CONNECTIONS, HITS, MISSES, IN_BYTES, OUT_BYTES, COUNTS };

static const char *const PLACES[COUNTS][2] = {[CONNECTIONS] = {"Connections"},
                                              [HITS] = {"Keys", "Hits"},
                                              [MISSES] = {"Keys", "Misses"},
                                              [IN_BYTES] = {"Bytes in"},
                                              [OUT_BYTES] = {"Bytes out"}};

struct server {
    uint16_t trace;
    int64_t pid;
    uint32_t quark, counts[COUNTS]; /* EMIT_NONE: not made yet */
    uint64_t values[COUNTS];
};

struct worker {
    uint16_t trace;
    int64_t tid;
    uint32_t quark;
    uint64_t until_ns; /* its newest command's end */
};

struct memcached_states {
    ARRAY(struct server) servers; /* a few on a host */
    ARRAY(struct worker) workers;
    struct map connections; /* hash of trace, pid, descriptor and its use: open */
};

/* Valid until the next one is made. */
static int server_at(struct memcached_states *s, struct state_places *places, const struct event *e,
                     struct server **ret_server)
{
    array_foreach (&s->servers, known)
        if (known->trace == e->trace && known->pid == e->pid) {
            *ret_server = known;
            return 0;
        }
    struct server server = {.trace = e->trace, .pid = e->pid};
    struct state_host *host;
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, e->pid);
    int r = state_host_at(places, e->trace, &host);
    if (r >= 0)
        r = emit_attribute(places->emit, host->root, "Memcached", &server.quark);
    if (r >= 0)
        r = emit_attribute(places->emit, server.quark, text, &server.quark);
    for (unsigned i = 0; i < COUNTS; i++)
        server.counts[i] = EMIT_NONE;
    if (r >= 0 && array_add(&s->servers, server) < 0)
        r = -ENOMEM;
    if (r >= 0)
        *ret_server = &s->servers.at[s->servers.count - 1];
    return r;
}

static int worker_at(struct memcached_states *s, struct state_places *places, const struct server *server,
                     const struct event *e, struct worker **ret_worker)
{
    array_foreach (&s->workers, known)
        if (known->trace == e->trace && known->tid == e->tid) {
            *ret_worker = known;
            return 0;
        }
    struct worker worker = {.trace = e->trace, .tid = e->tid};
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, e->tid);
    int r = emit_attribute(places->emit, server->quark, "Threads", &worker.quark);
    if (r >= 0)
        r = emit_attribute(places->emit, worker.quark, text, &worker.quark);
    if (r >= 0)
        r = emit_attribute(places->emit, worker.quark, "Command", &worker.quark);
    if (r >= 0 && array_add(&s->workers, worker) < 0)
        r = -ENOMEM;
    if (r >= 0)
        *ret_worker = &s->workers.at[s->workers.count - 1];
    return r;
}

static int add(struct state_places *places, struct server *server, enum count count, uint64_t time_ns,
               int64_t by)
{
    int r = 0;
    if (!by)
        return 0;
    if (server->counts[count] == EMIT_NONE) {
        uint32_t quark = server->quark;
        for (unsigned i = 0; r >= 0 && i < ARRAY_SIZE(PLACES[count]) && PLACES[count][i]; i++)
            r = emit_attribute(places->emit, quark, PLACES[count][i], &quark);
        if (r < 0)
            return r;
        server->counts[count] = quark;
    }
    server->values[count] += (uint64_t)by;
    return emit_state(places->emit, time_ns, server->counts[count],
                      history_int((int64_t)server->values[count]));
}

static int on_command(struct memcached_states *s, struct state_places *places, struct server *server,
                      const struct event *e)
{
    const char *name = event_names_get(&places->names, e->trace, e->pid, U(e, memcached_command_name));
    uint64_t keys = U(e, memcached_command_keys), hits = U(e, memcached_command_hits),
             found = hits + U(e, memcached_command_errors);
    struct worker *worker;
    int r = worker_at(s, places, server, e, &worker);
    if (r >= 0 && state_start(e) >= worker->until_ns) {
        r = emit_interval(places->emit, state_start(e), e->time_ns, worker->quark,
                          history_string(name ? name : "unknown"));
        worker->until_ns = e->time_ns;
    }
    if (r >= 0)
        r = add(places, server, HITS, e->time_ns, (int64_t)hits);
    if (r >= 0)
        r = add(places, server, MISSES, e->time_ns, (int64_t)(keys - MIN(keys, found)));
    if (r >= 0)
        r = add(places, server, IN_BYTES, e->time_ns, (int64_t)U(e, memcached_command_bytes));
    if (r >= 0)
        r = add(places, server, OUT_BYTES, e->time_ns, (int64_t)U(e, memcached_command_reply_bytes));
    return r;
}

static int on_event(void *self, struct state_places *places, const struct event *e)
{
    struct memcached_states *s = self;
    struct server *server;
    bool closes = e->id == SONDE_EVENT_memcached_close, is_new = false;
    uint64_t connection[] = {e->trace, (uint64_t)e->pid,
                             closes ? U(e, memcached_close_fd) : U(e, memcached_command_fd),
                             closes ? U(e, memcached_close_generation) : U(e, memcached_command_generation)};
    uint64_t key = map_hash(connection, sizeof(connection));
    int r = server_at(s, places, e, &server);
    if (r < 0)
        return r;
    if (closes)
        return map_remove(&s->connections, key) ? add(places, server, CONNECTIONS, e->time_ns, -1) : 0;
    if (!map_put(&s->connections, key, &is_new))
        return -ENOMEM;
    r = is_new ? add(places, server, CONNECTIONS, e->time_ns, 1) : 0;
    return r < 0 ? r : on_command(s, places, server, e);
}

static int start(void **ret_self)
{
    *ret_self = calloc(1, sizeof(struct memcached_states));
    return *ret_self ? 0 : -ENOMEM;
}

static void stop(void *self)
{
    struct memcached_states *s = self;
    array_done(&s->servers);
    array_done(&s->workers);
    map_done(&s->connections);
    free(s);
}

static const uint16_t WANTED[] = {SONDE_EVENT_memcached_command, SONDE_EVENT_memcached_close, 0};

const struct state_source states_memcached = {WANTED, start, on_event, stop};
