/* See state_places.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "states/state_places.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

int state_below(struct state_places *p, uint32_t parent, uint32_t *quark, const char *name)
{
    return *quark == EMIT_NONE ? emit_attribute(p->emit, parent, name, quark) : 0;
}

int state_host_at(struct state_places *p, uint32_t host, struct state_host **ret_host)
{
    while (p->hosts.count <= host) {
        struct state_host h = {HISTORY_ROOT, EMIT_NONE, EMIT_NONE, EMIT_NONE, EMIT_NONE, EMIT_NONE};
        uint32_t number = (uint32_t)p->hosts.count;
        if (p->trace && trace_host_count(p->trace) > 1) {
            int r = emit_attribute(p->emit, HISTORY_ROOT, trace_host_at(p->trace, number)->name, &h.root);
            if (r < 0)
                return r;
        }
        if (array_add(&p->hosts, h) < 0)
            return -ENOMEM;
    }
    *ret_host = &p->hosts.at[host];
    return 0;
}

static int add_thread(struct state_places *p, uint32_t host, int64_t tid)
{
    struct state_thread t = {EMIT_NONE, EMIT_NONE, EMIT_NONE, EMIT_NONE, EMIT_NONE, EMIT_NONE,
                             EMIT_NONE, EMIT_NONE, -1,        -1,        -1,        0,
                             false,     false,     false,     false};
    struct state_host *h;
    char name[24];
    snprintf(name, sizeof(name), "%" PRId64, tid);
    int r = state_host_at(p, host, &h);
    if (r >= 0)
        r = state_below(p, h->root, &h->threads, "Threads");
    if (r >= 0)
        r = emit_attribute(p->emit, h->threads, name, &t.base);
    if (r >= 0)
        r = emit_attribute(p->emit, t.base, "State", &t.state);
    return r >= 0 && array_add(&p->threads, t) < 0 ? -ENOMEM : r;
}

int state_thread_at(struct state_places *p, uint32_t host, int64_t tid, struct state_thread **ret_thread)
{
    bool is_new;
    uint64_t *place = map_put(&p->thread_of, state_key(host, (uint64_t)tid), &is_new);
    if (!place)
        return -ENOMEM;
    if (is_new) {
        int r = add_thread(p, host, tid);
        if (r < 0) {
            map_remove(&p->thread_of, state_key(host, (uint64_t)tid));
            return r;
        }
        *place = p->threads.count - 1;
    }
    *ret_thread = &p->threads.at[*place];
    return 0;
}

void state_places_done(struct state_places *p)
{
    array_done(&p->hosts);
    array_done(&p->threads);
    map_done(&p->thread_of);
    event_names_done(&p->names);
}
