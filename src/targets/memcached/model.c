/* See model.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/memcached/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "event/catalogue.h"

#define U(e, field) (event_has(e, FIELD_##field) ? (e)->values[FIELD_##field].u : 0)

/* NULL when memory is exhausted. Valid until the next one is made. */
static struct memcached_server *server_get(struct memcached_model *model, int64_t pid)
{
    bool is_new;
    uint64_t *place = map_put(&model->by_pid, (uint64_t)pid, &is_new);
    if (!place)
        return NULL;
    if (is_new) {
        *place = model->servers.count;
        if (array_add(&model->servers, (struct memcached_server){.pid = pid, .name = ""}) < 0) {
            map_remove(&model->by_pid, (uint64_t)pid);
            return NULL;
        }
    }
    return &model->servers.at[*place];
}

static struct memcached_thread *thread_get(struct memcached_server *server, const struct event *e)
{
    array_foreach (&server->threads, thread)
        if (thread->tid == e->tid)
            return thread;
    struct memcached_thread thread = {.tid = e->tid, .first_ns = e->time_ns};
    return array_add(&server->threads, thread) < 0 ? NULL : &server->threads.at[server->threads.count - 1];
}

static struct memcached_command *command_get(struct memcached_server *server, const char *name)
{
    array_foreach (&server->commands, command)
        if (strcmp(command->name, name) == 0)
            return command;
    return array_add(&server->commands, (struct memcached_command){.name = name}) < 0
               ? NULL
               : &server->commands.at[server->commands.count - 1];
}

static bool reads(const char *name)
{
    static const char *const NAMES[] = {"get", "gets", "gat", "gats", "mg"};
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
        if (strcmp(name, NAMES[i]) == 0)
            return true;
    return false;
}

static void count_misses(struct memcached_server *server, const char *name, const struct event *e)
{
    uint64_t keys = U(e, memcached_command_keys),
             found = U(e, memcached_command_hits) + U(e, memcached_command_errors);
    if (reads(name))
        memcached_misses_add(&server->misses, e->time_ns, keys, keys - MIN(keys, found));
    else if (strcmp(name, "flush_all") == 0)
        memcached_misses_flush(&server->misses, e->time_ns);
}

static int command_event(struct memcached_model *model, struct memcached_server *server,
                         struct memcached_thread *thread, const struct event *e)
{
    const char *name = event_names_get(&model->names, e->trace, e->pid, U(e, memcached_command_name));
    struct memcached_command *command = command_get(server, name ? name : "unknown");
    if (!command)
        return -ENOMEM;
    uint64_t count = U(e, memcached_command_commands), together = U(e, memcached_command_together);
    uint64_t took_ns = e->values[0].u, each_ns = took_ns / MAX(together, 1u);
    command->commands += count;
    command->keys += U(e, memcached_command_keys);
    command->hits += U(e, memcached_command_hits);
    command->refused += U(e, memcached_command_refused);
    command->errors += U(e, memcached_command_errors);
    command->bytes += U(e, memcached_command_bytes);
    command->reply_bytes += U(e, memcached_command_reply_bytes);
    command->time_ns += each_ns * count;
    command->worst_ns = MAX(command->worst_ns, each_ns);
    count_misses(server, command->name, e);
    thread->commands += count;
    thread->command_ns += each_ns * count;
    int r = sketch_add_bin(&command->latency, sketch_bin(each_ns), count);
    uint64_t start_ns = e->time_ns - took_ns;
    if (r >= 0 && thread->woken_ns && start_ns >= thread->woken_ns)
        r = sketch_add(&server->queued, start_ns - thread->woken_ns);
    return r;
}

static int pass_event(void *self, const struct event *e)
{
    struct memcached_model *model = self;
    struct memcached_server *server;
    if (e->id == SONDE_EVENT_probe_name)
        return event_names_learn(&model->names, e);
    if (e->id == SONDE_EVENT_process_start) {
        if (U(e, process_start_runtime) != SONDE_runtime_memcached)
            return 0;
        server = server_get(model, (int64_t)U(e, process_start_pid));
        const struct value *said = &e->values[FIELD_process_start_name];
        if (server && event_has(e, FIELD_process_start_name))
            server->name = arena_strndup(&model->names.arena, said->s, said->length);
        return server && server->name ? 0 : -ENOMEM;
    }
    if (e->id == SONDE_EVENT_net_connection || e->id == SONDE_EVENT_loss) {
        int64_t pid = e->id == SONDE_EVENT_loss ? (int64_t)U(e, loss_pid) : e->pid;
        const uint64_t *known = map_get(&model->by_pid, (uint64_t)pid);
        if (known && e->id == SONDE_EVENT_loss)
            model->servers.at[*known].lost += U(e, loss_count);
        else if (known)
            model->servers.at[*known].connections++;
        return 0;
    }
    server = server_get(model, e->pid);
    struct memcached_thread *thread = server ? thread_get(server, e) : NULL;
    if (!thread)
        return -ENOMEM;
    server->first_ns = server->first_ns ? server->first_ns : e->time_ns;
    server->last_ns = thread->last_ns = e->time_ns;
    if (e->id == SONDE_EVENT_memcached_command)
        return command_event(model, server, thread, e);
    if (e->id == SONDE_EVENT_memcached_wait) {
        thread->waits++;
        thread->wait_ns += e->values[0].u;
        thread->woken_ns = e->time_ns;
    } else if (e->id == SONDE_EVENT_memcached_datagram) {
        server->datagrams++;
    } else {
        server->closed++;
        server->unread_bytes += U(e, memcached_close_unread_bytes);
    }
    return 0;
}

static const uint16_t WANTED[] = {
    SONDE_EVENT_process_start,  SONDE_EVENT_probe_name,         SONDE_EVENT_net_connection,
    SONDE_EVENT_loss,           SONDE_EVENT_memcached_command,  SONDE_EVENT_memcached_close,
    SONDE_EVENT_memcached_wait, SONDE_EVENT_memcached_datagram, 0};

struct pass memcached_model_pass(struct memcached_model *model)
{
    return (struct pass){.name = "memcached", .wanted = WANTED, .event = pass_event, .self = model};
}

int memcached_model_new(struct memcached_model **ret_model)
{
    *ret_model = calloc(1, sizeof(**ret_model));
    return *ret_model ? 0 : -ENOMEM;
}

struct memcached_command memcached_sum(const struct memcached_server *server)
{
    struct memcached_command sum = {.name = "all"};
    array_foreach (&server->commands, c) {
        sum.commands += c->commands;
        sum.keys += c->keys;
        sum.hits += c->hits;
        sum.refused += c->refused;
        sum.errors += c->errors;
        sum.bytes += c->bytes;
        sum.reply_bytes += c->reply_bytes;
        sum.time_ns += c->time_ns;
        sum.worst_ns = MAX(sum.worst_ns, c->worst_ns);
    }
    return sum;
}

void memcached_model_free(struct memcached_model *model)
{
    if (!model)
        return;
    array_foreach (&model->servers, server) {
        array_foreach (&server->commands, command)
            sketch_done(&command->latency);
        array_done(&server->commands);
        array_done(&server->threads);
        sketch_done(&server->queued);
    }
    array_done(&model->servers);
    map_done(&model->by_pid);
    event_names_done(&model->names);
    free(model);
}
