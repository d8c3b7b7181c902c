/* See window.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"

static struct redis_counts counts_now(const struct redis_server *server)
{
    const struct redis_work *work = &server->work;
    struct redis_counts now = {
        .commands = server->commands_count,
        .command_ns = server->command_ns,
        .iterations = server->iterations,
        .busy_ns = server->busy_ns,
        .connections = server->clients_count,
        .in_bytes = work->clients.in + work->replicas.in,
        .out_bytes = work->clients.out + work->replicas.out,
        .lost = server->lost,
    };
    array_foreach (&server->commands, command)
        now.refused += (*command)->refused;
    for (unsigned type = 0; type < REDIS_BUS_TYPES; type++) {
        now.bus_sent += server->bus[type].sent;
        now.bus_sent_bytes += server->bus[type].sent_bytes;
        now.bus_received += server->bus[type].received;
        now.bus_received_bytes += server->bus[type].received_bytes;
    }
    return now;
}

static struct redis_counts difference(const struct redis_counts *now, const struct redis_counts *before)
{
    return (struct redis_counts){
        .commands = now->commands - before->commands,
        .command_ns = now->command_ns - before->command_ns,
        .iterations = now->iterations - before->iterations,
        .busy_ns = now->busy_ns - before->busy_ns,
        .connections = now->connections - before->connections,
        .refused = now->refused - before->refused,
        .in_bytes = now->in_bytes - before->in_bytes,
        .out_bytes = now->out_bytes - before->out_bytes,
        .bus_sent = now->bus_sent - before->bus_sent,
        .bus_sent_bytes = now->bus_sent_bytes - before->bus_sent_bytes,
        .bus_received = now->bus_received - before->bus_received,
        .bus_received_bytes = now->bus_received_bytes - before->bus_received_bytes,
        .lost = now->lost - before->lost,
    };
}

static void clear(struct sketch *sketch)
{
    sketch_done(sketch);
    *sketch = (struct sketch){0};
}

static int take_command(struct redis_command *command, struct redis_window *window)
{
    struct redis_window_command row = {
        .name = command->name,
        .calls = command->calls - command->before.calls,
        .refused = command->refused - command->before.refused,
        .time_ns = command->time_ns - command->before.time_ns,
        .p50_ns = (uint64_t)sketch_quantile(&command->recent, 0.5),
        .p99_ns = (uint64_t)sketch_quantile(&command->recent, 0.99),
        .worst_ns = command->recent_worst_ns,
        .argument_bytes = command->argument_bytes - command->before.argument_bytes,
    };
    command->before.calls = command->calls;
    command->before.refused = command->refused;
    command->before.time_ns = command->time_ns;
    command->before.argument_bytes = command->argument_bytes;
    command->recent_worst_ns = 0;
    clear(&command->recent);
    return row.calls || row.refused ? array_add(&window->commands, row) : 0;
}

static int by_time(const void *a, const void *b)
{
    const struct redis_window_command *x = a, *y = b;
    return x->time_ns == y->time_ns ? strcmp(x->name, y->name) : x->time_ns > y->time_ns ? -1 : 1;
}

int redis_window_take(struct redis_server *server, uint64_t from_ns, uint64_t to_ns,
                      struct redis_window *ret_window)
{
    struct redis_window window = {.server = server, .from_ns = from_ns, .to_ns = to_ns};
    struct redis_counts now = counts_now(server);
    const struct sketch *waits = &server->turn.recent, *ready = &server->recent_ready;
    int r = 0;
    window.counts = difference(&now, &server->before);
    server->before = now;
    array_foreach (&server->commands, command)
        if (r == 0)
            r = take_command(*command, &window);
    map_foreach (&server->clients, slot) {
        const struct redis_client *client = (const struct redis_client *)(uintptr_t)slot->value;
        window.connections += !client->freed_ns;
        window.blocked += client->blocked_ns && !client->freed_ns;
    }
    window.longest_iteration_ns = server->recent_longest_ns;
    window.ready_p50 = sketch_quantile(ready, 0.5);
    window.ready_p99 = sketch_quantile(ready, 0.99);
    window.ready_most = sketch_quantile(ready, 1);
    window.requests = waits->count;
    window.wait_p50_ns = sketch_quantile(waits, 0.5);
    window.wait_p99_ns = sketch_quantile(waits, 0.99);
    window.wait_worst_ns = sketch_quantile(waits, 1);
    server->recent_longest_ns = 0;
    clear(&server->turn.recent);
    clear(&server->recent_ready);
    if (r < 0) {
        redis_window_done(&window);
        return r;
    }
    if (window.commands.count)
        qsort(window.commands.at, window.commands.count, sizeof(*window.commands.at), by_time);
    *ret_window = window;
    return 0;
}

void redis_window_done(struct redis_window *window)
{
    array_done(&window->commands);
}

static json_t *commands_json(const struct redis_window *window)
{
    json_t *array = json_array();
    array_foreach (&window->commands, c)
        json_array_append_new(array, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "name", c->name,
                                               "calls_count", (json_int_t)c->calls, "refused_count",
                                               (json_int_t)c->refused, "executed_ns", (json_int_t)c->time_ns,
                                               "p50_ns", (json_int_t)c->p50_ns, "p99_ns",
                                               (json_int_t)c->p99_ns, "worst_ns", (json_int_t)c->worst_ns,
                                               "argument_bytes", (json_int_t)c->argument_bytes));
    return array;
}

json_t *redis_window_json(const struct redis_window *window)
{
    const struct redis_counts *c = &window->counts;
    json_t *loop =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "iterations_count", (json_int_t)c->iterations, "busy_ns",
                  (json_int_t)c->busy_ns, "longest_ns", (json_int_t)window->longest_iteration_ns,
                  "ready_p50_count", (json_int_t)window->ready_p50, "ready_p99_count",
                  (json_int_t)window->ready_p99, "ready_most_count", (json_int_t)window->ready_most);
    json_t *waits = json_pack("{s:I, s:I, s:I, s:I}", "requests_count", (json_int_t)window->requests,
                              "p50_ns", (json_int_t)window->wait_p50_ns, "p99_ns",
                              (json_int_t)window->wait_p99_ns, "worst_ns", (json_int_t)window->wait_worst_ns);
    json_t *bus = json_pack("{s:I, s:I, s:I, s:I}", "sent_count", (json_int_t)c->bus_sent, "sent_bytes",
                            (json_int_t)c->bus_sent_bytes, "received_count", (json_int_t)c->bus_received,
                            "received_bytes", (json_int_t)c->bus_received_bytes);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "name",
                     window->server->name, "pid", (json_int_t)window->server->pid, "commands_count",
                     (json_int_t)c->commands, "executed_ns", (json_int_t)c->command_ns, "refused_count",
                     (json_int_t)c->refused, "connections_count", (json_int_t)window->connections,
                     "blocked_clients_count", (json_int_t)window->blocked, "in_bytes",
                     (json_int_t)c->in_bytes, "out_bytes", (json_int_t)c->out_bytes, "lost_events_count",
                     (json_int_t)c->lost, "commands", commands_json(window), "waits", waits, "loop", loop,
                     "bus", bus);
}
