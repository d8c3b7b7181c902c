/* See summary.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/memcached/summary.h"

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *command_json(const struct memcached_command *c)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name", c->name,
                     "commands_count", number(c->commands), "keys_count", number(c->keys), "hits_count",
                     number(c->hits), "misses_count", number(memcached_misses(c)), "refused_count",
                     number(c->refused), "errors_count", number(c->errors), "bytes", number(c->bytes),
                     "reply_bytes", number(c->reply_bytes), "executed_ns", number(c->time_ns), "p50_ns",
                     number(memcached_quantile(c, 0.5)), "p99_ns", number(memcached_quantile(c, 0.99)),
                     "worst_ns", number(c->worst_ns));
}

static json_t *thread_json(const struct memcached_thread *t)
{
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o}", "tid", (json_int_t)t->tid, "commands_count",
                     number(t->commands), "executed_ns", number(t->command_ns), "waits_count",
                     number(t->waits), "waited_ns", number(t->wait_ns), "seen_ns",
                     number(t->last_ns - t->first_ns));
}

static json_t *server_json(const struct memcached_server *server)
{
    json_t *commands = json_array(), *threads = json_array();
    array_foreach (&server->commands, command)
        json_array_append_new(commands, command_json(command));
    array_foreach (&server->threads, thread)
        json_array_append_new(threads, thread_json(thread));
    return json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                     server->name, "pid", (json_int_t)server->pid, "from_ns", number(server->first_ns),
                     "to_ns", number(server->last_ns), "connections_count", number(server->connections),
                     "closed_count", number(server->closed), "unread_bytes", number(server->unread_bytes),
                     "udp_answers_count", number(server->datagrams), "queued_p50_ns",
                     number((uint64_t)sketch_quantile(&server->queued, 0.5)), "queued_p99_ns",
                     number((uint64_t)sketch_quantile(&server->queued, 0.99)), "lost_events_count",
                     number(server->lost), "commands", commands, "threads", threads);
}

json_t *memcached_summary_json(const struct memcached_model *model)
{
    json_t *array = json_array();
    array_foreach (&model->servers, server)
        if (json_array_append_new(array, server_json(server)) < 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}
