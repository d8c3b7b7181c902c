/* See summary.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/summary.h"

#include <stdlib.h>

#include "targets/redis/conflict.h"

static json_t *sum_json(const struct redis_sum *sum)
{
    return json_pack("{s:I, s:I, s:I}", "count", (json_int_t)sum->count, "took_ns", (json_int_t)sum->time_ns,
                     "worst_ns", (json_int_t)sum->worst_ns);
}

static json_t *commands_json(const struct redis_server *server)
{
    json_t *array = json_array();
    array_foreach (&server->commands, place) {
        const struct redis_command *c = *place;
        json_array_append_new(
            array,
            json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I}", "name",
                      c->name, "calls_count", (json_int_t)c->calls, "inner_calls_count",
                      (json_int_t)c->inner_calls, "executed_ns", (json_int_t)c->time_ns, "p50_ns",
                      (json_int_t)sketch_quantile(&c->latency, 0.5), "p99_ns",
                      (json_int_t)sketch_quantile(&c->latency, 0.99), "worst_ns", (json_int_t)c->worst_ns,
                      "argument_bytes", (json_int_t)c->argument_bytes, "refused_count",
                      (json_int_t)c->refused, "queued_count", (json_int_t)c->queued, "redirected_count",
                      (json_int_t)c->redirected, "blocked", sum_json(&c->blocked), "reply_bytes",
                      (json_int_t)c->reply_bytes, "largest_reply_bytes", (json_int_t)c->largest_reply_bytes));
    }
    return array;
}

static json_t *volume_json(const struct redis_volume *v)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "in_bytes", (json_int_t)v->in, "out_bytes", (json_int_t)v->out,
                     "wire_in_bytes", (json_int_t)v->wire_in, "wire_out_bytes", (json_int_t)v->wire_out);
}

static json_t *work_json(const struct redis_server *server)
{
    const struct redis_work *w = &server->work;
    json_t *object = json_pack(
        "{s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:I}", "clients", volume_json(&w->clients), "replicas",
        volume_json(&w->replicas), "bus_in_bytes", (json_int_t)w->bus_in, "bus_out_bytes",
        (json_int_t)w->bus_out, "unknown_transfers_count", (json_int_t)w->unknown_bytes, "forks",
        sum_json(&w->forks), "syncs", sum_json(&w->syncs), "background_syncs", sum_json(&w->background_syncs),
        "aof_writes", sum_json(&w->aof_writes), "aof_bytes", (json_int_t)w->aof_bytes);
    json_t *more = json_pack(
        "{s:o, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "expiry", sum_json(&w->expiry),
        "expired_count", (json_int_t)w->expired, "expired_on_access_count", (json_int_t)w->expired_on_access,
        "expired_unseen_count", (json_int_t)w->expired_unseen, "evictions", sum_json(&w->evictions),
        "evicted_count", (json_int_t)w->evicted, "evictions_failed_count", (json_int_t)w->evictions_failed,
        "output_limit_clients_count", (json_int_t)w->output_limit_clients, "messages_count",
        (json_int_t)w->messages, "messages_from_bus_count", (json_int_t)w->messages_from_bus,
        "receivers_count", (json_int_t)w->receivers, "handed_over_count", (json_int_t)w->handed_over);
    if (object && more)
        json_object_update(object, more);
    json_decref(more);
    return object;
}

static json_t *callers_json(const struct redis_server *server)
{
    json_t *array = json_array();
    array_foreach (&server->callers, c)
        json_array_append_new(array, json_pack("{s:s, s:b, s:I, s:I, s:I, s:I}", "name", c->name, "traced",
                                               c->traced, "connections_count", (json_int_t)c->clients,
                                               "commands_count", (json_int_t)c->commands, "executed_ns",
                                               (json_int_t)c->time_ns, "argument_bytes",
                                               (json_int_t)c->argument_bytes));
    return array;
}

static json_t *threads_json(const struct redis_server *server)
{
    json_t *array = json_array();
    for (unsigned i = 0; i < server->thread_count; i++) {
        const struct redis_thread *t = &server->threads[i];
        json_array_append_new(
            array, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "tid", (json_int_t)t->tid, "reads_count",
                             (json_int_t)t->reads, "read_ns", (json_int_t)t->read_ns, "replies_count",
                             (json_int_t)t->replies, "reply_ns", (json_int_t)t->reply_ns, "commands_count",
                             (json_int_t)t->commands, "command_ns", (json_int_t)t->command_ns));
    }
    return array;
}

static json_t *slow_json(const struct redis_server *server)
{
    json_t *array = json_array();
    array_foreach (&server->queue.slow, s)
        json_array_append_new(
            array, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s?}", "command", s->name, "client_id",
                             (json_int_t)s->client_id, "start_ns", (json_int_t)s->start_ns, "executed_ns",
                             (json_int_t)(s->end_ns - s->start_ns), "waiting_clients_count",
                             (json_int_t)s->waiters, "waited_ns", (json_int_t)s->waited_ns, "longest_wait_ns",
                             (json_int_t)s->longest_ns, "caller", s->caller));
    return array;
}

static json_t *bus_json(const struct redis_server *server)
{
    json_t *array = json_array();
    for (unsigned type = 0; type < REDIS_BUS_TYPES; type++) {
        const struct redis_traffic *t = &server->bus[type];
        if (t->sent || t->received)
            json_array_append_new(array, json_pack("{s:s, s:I, s:I, s:I, s:I}", "type", redis_bus_type(type),
                                                   "sent_count", (json_int_t)t->sent, "sent_bytes",
                                                   (json_int_t)t->sent_bytes, "received_count",
                                                   (json_int_t)t->received, "received_bytes",
                                                   (json_int_t)t->received_bytes));
    }
    return array;
}

static int by_commands(const void *a, const void *b)
{
    const struct redis_client *x = *(struct redis_client *const *)a, *y = *(struct redis_client *const *)b;
    return x->commands != y->commands ? (x->commands < y->commands ? 1 : -1)
                                      : (x->id > y->id) - (x->id < y->id);
}

/* The connections with the most commands. */
static json_t *connections_json(const struct redis_server *server)
{
    enum { LISTED = 200 };
    json_t *array = json_array();
    struct redis_client **list = calloc(server->clients.count + 1, sizeof(struct redis_client *));
    size_t count = 0;
    if (!array || !list) {
        free(list);
        json_decref(array);
        return NULL;
    }
    map_foreach (&server->clients, slot)
        list[count++] = (struct redis_client *)(uintptr_t)slot->value;
    qsort(list, count, sizeof(*list), by_commands);
    for (size_t i = 0; i < MIN(count, (size_t)LISTED); i++) {
        const struct redis_client *c = list[i];
        json_array_append_new(
            array, json_pack("{s:I, s:s?, s:s?, s:I, s:I, s:I, s:I}", "client_id", (json_int_t)c->id, "peer",
                             c->peer[0] ? c->peer : NULL, "caller", c->caller, "commands_count",
                             (json_int_t)c->commands, "executed_ns", (json_int_t)c->time_ns, "in_bytes",
                             (json_int_t)c->in_bytes, "out_bytes", (json_int_t)c->out_bytes));
    }
    free(list);
    return array;
}

static json_t *server_json(const struct redis_server *server)
{
    const struct redis_model *model = server->model;
    uint64_t from = server->started_ns ? server->started_ns : model->first_ns;
    uint64_t to = server->ended_ns ? server->ended_ns : model->last_ns;
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "name", server->name, "pid", (json_int_t)server->pid, "from_ns", (json_int_t)from, "to_ns",
        (json_int_t)to, "commands_count", (json_int_t)server->commands_count, "executed_ns",
        (json_int_t)server->command_ns, "connections_count", (json_int_t)server->clients_count,
        "iterations_count", (json_int_t)server->iterations, "busy_ns", (json_int_t)server->busy_ns,
        "longest_iteration_ns", (json_int_t)server->longest_ns, "most_ready_count",
        (json_int_t)sketch_quantile(&server->ready, 1), "lost_events_count", (json_int_t)server->lost,
        "commands", commands_json(server), "callers", callers_json(server), "connections",
        connections_json(server), "slow", slow_json(server), "threads", threads_json(server), "bus",
        bus_json(server), "work", work_json(server));
}

json_t *redis_summary_json(const struct redis_model *model)
{
    json_t *array = json_array();
    array_foreach (&model->list, server) {
        json_t *object = server_json(*server);
        if (!object || json_array_append_new(array, object) < 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}
