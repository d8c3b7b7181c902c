/* Redis' connections as states over time: the command that executes for each. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "states/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct redis_states {
    struct map clients; /* host, pid and client -> attribute */
};

static int client_at(struct redis_states *s, struct state_places *places, const struct event *e,
                     uint32_t *ret_quark)
{
    uint64_t id = e->values[FIELD_redis_command_client_id].u, words[3] = {e->trace, (uint64_t)e->pid, id};
    uint64_t key = map_hash(words, sizeof(words));
    bool is_new;
    uint64_t *place = map_put(&s->clients, key, &is_new);
    if (!place)
        return -ENOMEM;
    if (is_new) {
        struct state_host *h;
        uint32_t quark = EMIT_NONE;
        char pid[24], client[24];
        snprintf(pid, sizeof(pid), "%" PRId64, e->pid);
        snprintf(client, sizeof(client), "%" PRIu64, id);
        int r = state_host_at(places, e->trace, &h);
        if (r >= 0)
            r = emit_attribute(places->emit, h->root, "Redis", &quark);
        if (r >= 0)
            r = emit_attribute(places->emit, quark, pid, &quark);
        if (r >= 0)
            r = emit_attribute(places->emit, quark, "Connections", &quark);
        if (r >= 0)
            r = emit_attribute(places->emit, quark, client, &quark);
        if (r >= 0)
            r = emit_attribute(places->emit, quark, "Command", &quark);
        if (r < 0) {
            map_remove(&s->clients, key);
            return r;
        }
        *place = quark;
    }
    *ret_quark = (uint32_t)*place;
    return 0;
}

static int on_event(void *self, struct state_places *places, const struct event *e)
{
    uint32_t quark;
    int r = client_at(self, places, e, &quark);
    const char *name =
        event_names_get(&places->names, e->trace, e->pid, e->values[FIELD_redis_command_name].u);
    return r < 0 ? r
                 : emit_interval(places->emit, state_start(e), e->time_ns, quark,
                                 history_string(name ? name : "unknown"));
}

static int start(void **ret_self)
{
    *ret_self = calloc(1, sizeof(struct redis_states));
    return *ret_self ? 0 : -ENOMEM;
}

static void stop(void *self)
{
    struct redis_states *s = self;
    map_done(&s->clients);
    free(s);
}

static const uint16_t WANTED[] = {SONDE_EVENT_redis_command, 0};

const struct state_source states_redis = {WANTED, start, on_event, stop};
