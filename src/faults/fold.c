/* Routes that differ in somebody's value only (model/routes.c) are one endpoint in what findings say, too: of
 * victims, of who held what they waited for, and of faults that are kept for each route. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "faults/faults.h"

/* "GET /user/anna" -> "GET /user/:id", when that endpoint is folded. */
static const char *folded_name(struct analysis *a, const char *service, const char *name)
{
    const char *space = name ? strchr(name, ' ') : NULL;
    char text[400];
    if (!space || (size_t)(space - name) >= 32)
        return name;
    snprintf(text, sizeof(text), "%.*s", (int)(space - name), name);
    const char *route = intern_string(a, space + 1);
    const char *folded = route_folded(a, service, intern_string(a, text), route);
    if (folded == route)
        return name;
    snprintf(text, sizeof(text), "%.*s %.300s", (int)(space - name), name, folded);
    return intern_string(a, text);
}

static void fold_holders(struct analysis *a, struct fault *fault)
{
    size_t left = 0;
    for (size_t i = 0; i < ARRAY_SIZE(fault->holders); i++) {
        struct holder holder = fault->holders[i];
        size_t k = 0;
        fault->holders[i] = (struct holder){0};
        holder.route = folded_name(a, fault->service, holder.route);
        if (!holder.total_ns)
            continue;
        while (k < left && fault->holders[k].route != holder.route)
            k++;
        struct holder *known = &fault->holders[k];
        known->route = holder.route;
        known->total_ns += holder.total_ns;
        known->worst_ns = MAX(known->worst_ns, holder.worst_ns);
        left += k == left;
    }
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* What distinguishes faults of one route, as where they are charged has it; 0: not by its route. */
static uint64_t key_of(const struct fault *fault)
{
    char key[1400];
    const struct look *place = &fault->place;
    bool stall = fault->kind == FINDING_event_loop_blocked || fault->kind == FINDING_blocking_regexp;
    bool failure = fault->kind == FINDING_server_errors || fault->kind == FINDING_many_calls;
    if (!fault->route || fault->absorbed || fault->warming || fault->worker ||
        !(stall || failure || fault->kind == FINDING_clients_gave_up ||
          fault->kind == FINDING_unexplained_wait))
        return 0;
    int length = snprintf(key, sizeof(key), "%d|%s|%s|%d|%s|%.300s|%.300s|%d|%d|%.300s", (int)fault->kind,
                          fault->service, fault->route, fault->seen != NULL, or_empty(fault->apart),
                          stall && !fault->seen ? or_empty(place->function) : "",
                          stall && !fault->seen ? or_empty(place->script) : "", fault->status, fault->grpc,
                          failure                                  ? or_empty(fault->command)
                          : fault->kind == FINDING_blocking_regexp ? or_empty(place->detail)
                                                                   : "");
    return length > 0 ? map_hash(key, MIN((size_t)length, sizeof(key) - 1)) : 0;
}

static void join(struct analysis *a, struct fault *to, struct fault *from)
{
    if (from->worst_ns >= to->worst_ns && to->kind == FINDING_unexplained_wait) {
        to->command = from->command;
        to->inner = from->inner;
        to->lanes = from->lanes;
    }
    to->queued_commands += from->queued_commands;
    to->failed += from->failed;
    to->attempts += from->attempts;
    to->most_attempts = MAX(to->most_attempts, from->most_attempts);
    to->asked = to->asked ? to->asked : from->asked;
    if (to->seen && from->seen)
        seen_merge(to->seen, from->seen);
    fault_absorb(a, to, from);
}

void faults_fold_routes(struct analysis *a)
{
    struct map known = {0};
    size_t count;
    analysis_endpoints(a, &count);
    if (!a->folds.count)
        return;
    array_foreach (&a->fault_list, place) {
        struct fault *fault = *place;
        fault->route = folded_name(a, fault->service, fault->route);
        fault->occupant_route = folded_name(a, fault->service, fault->occupant_route);
        fold_holders(a, fault);
        array_foreach (&fault->victims, victim)
            victim->route = route_folded(a, victim->service, victim->method, victim->route);
        uint64_t key = key_of(fault);
        bool added;
        uint64_t *slot = key ? map_put(&known, key, &added) : NULL;
        if (key && !slot)
            a->failed = true;
        else if (slot && added)
            *slot = (uintptr_t)fault;
        else if (slot)
            join(a, (struct fault *)(uintptr_t)*slot, fault);
    }
    map_done(&known);
}
