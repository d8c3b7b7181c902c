/* See model.h. Redis microservices paper, III-C: the entities Connections, Requests, Bus, Threads and Event
 * loop. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/model.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/macro.h"
#include "event/event.h"
#include "targets/redis/event.h"

enum {
    RUNTIME_REDIS = 2,
    PHASE_BEFORE_SLEEP = 0,
    GONE_KEPT = 4096, /* freed clients whose later events are still recognised, and that are listed */
};

const char *redis_intern(struct redis_model *model, const char *string, size_t length)
{
    for (uint64_t hash = map_hash(string, length);; hash++) { /* equal hashes take the next free key */
        bool added;
        uint64_t *place = map_put(&model->strings, hash, &added);
        const char *known = place ? (const char *)(uintptr_t)*place : NULL;
        if (!place) {
            model->failed = true;
            return "";
        }
        if (!added && strncmp(known, string, length) == 0 && !known[length])
            return known;
        if (!added)
            continue;
        known = arena_strndup(&model->arena, string, length);
        model->failed |= !known;
        *place = (uint64_t)(uintptr_t)(known ? known : "");
        return known ? known : "";
    }
}

/* ---- servers and clients ---- */

static struct redis_process *process_known(const struct redis_model *model, int64_t pid)
{
    const uint64_t *known = map_get(&model->processes, (uint64_t)pid);
    return known ? (struct redis_process *)(uintptr_t)*known : NULL;
}

static struct redis_process *process_get(struct redis_model *model, int64_t pid)
{
    if (model->recent && model->recent->pid == pid)
        return model->recent;
    struct redis_process *process = process_known(model, pid);
    if (process)
        return model->recent = process;
    process = calloc(1, sizeof(*process));
    uint64_t *place = process ? map_put(&model->processes, (uint64_t)pid, NULL) : NULL;
    if (!place || array_add(&model->all, process) < 0) {
        if (place)
            map_remove(&model->processes, (uint64_t)pid);
        free(process);
        model->failed = true;
        return NULL;
    }
    process->pid = pid;
    *place = (uint64_t)(uintptr_t)process;
    return process;
}

static void has_descriptor(struct redis_server *server, struct redis_client *client)
{
    uint64_t *place = client->fd >= 0 ? map_put(&server->by_fd, (uint64_t)client->fd, NULL) : NULL;
    server->model->failed |= client->fd >= 0 && !place;
    if (place)
        *place = client->id;
}

struct redis_client *redis_client_get(struct redis_server *server, uint64_t id, int32_t fd, uint64_t now_ns)
{
    if (!id)
        return NULL;
    struct redis_client *recent = server->recent_client;
    if (recent && recent->id == id && (fd < 0 || fd == recent->fd))
        return recent;
    bool added;
    uint64_t *place = map_put(&server->clients, id, &added);
    struct redis_client *client = place && !added ? (struct redis_client *)(uintptr_t)*place : NULL;
    if (client) {
        if (fd >= 0 && fd != client->fd && !client->freed_ns) {
            client->fd = fd;
            has_descriptor(server, client);
        }
        return server->recent_client = client;
    }
    client = place ? calloc(1, sizeof(*client)) : NULL;
    if (!client) {
        if (place)
            map_remove(&server->clients, id);
        server->model->failed = true;
        return NULL;
    }
    client->id = id;
    client->fd = fd;
    *place = (uint64_t)(uintptr_t)client;
    server->clients_count++;
    has_descriptor(server, client);
    return client;
}

static void connected(struct redis_server *server, const struct redis_early *connection)
{
    struct redis_client *client =
        redis_client_get(server, connection->client_id, connection->fd, connection->time_ns);
    if (!client)
        return;
    client->first_ns = connection->time_ns;
    snprintf(client->peer, sizeof(client->peer), "%s", connection->peer);
}

/* The process's server, made when it is new. */
static struct redis_server *server_get(struct redis_model *model, struct redis_process *process)
{
    if (process->server)
        return process->server;
    struct redis_server *server = calloc(1, sizeof(*server));
    if (!server || array_add(&model->list, server) < 0) {
        model->failed = true;
        free(server);
        return NULL;
    }
    char name[32];
    int length = snprintf(name, sizeof(name), "process %lld", (long long)process->pid);
    server->model = model;
    server->process = process;
    server->pid = process->pid;
    server->name = process->name ? process->name : redis_intern(model, name, (size_t)length);
    server->status = -1;
    process->server = server;
    array_foreach (&process->early, early)
        connected(server, early);
    array_done(&process->early);
    return server;
}

static struct redis_caller *caller_get(struct redis_server *server, const char *name, bool traced)
{
    bool added;
    uint64_t *place = map_put(&server->caller_of, (uint64_t)(uintptr_t)name, &added);
    if (!place)
        return NULL;
    if (added) {
        *place = server->callers.count;
        if (array_add(&server->callers, (struct redis_caller){.name = name, .traced = traced}) < 0)
            return NULL;
    }
    return &server->callers.at[*place];
}

/* The traced process that has the client's address as its own, or NULL. */
static const char *caller_name(struct redis_model *model, struct redis_client *client)
{
    const uint64_t *known =
        client->peer[0] ? map_get(&model->sockets, map_hash(client->peer, strlen(client->peer))) : NULL;
    return known ? ((const struct redis_process *)(uintptr_t)*known)->name : NULL;
}

static const char *host_of(struct redis_model *model, const struct redis_client *client)
{
    const char *colon = strrchr(client->peer, ':');
    return colon ? redis_intern(model, client->peer, (size_t)(colon - client->peer))
                 : redis_intern(model, "unknown address", 15);
}

/* Adds what the client did to its caller's sums. */
static void settle(struct redis_server *server, struct redis_client *client)
{
    struct redis_model *model = server->model;
    client->caller = caller_name(model, client);
    const char *name = client->caller ? client->caller : host_of(model, client);
    struct redis_caller *caller = client->commands ? caller_get(server, name, client->caller != NULL) : NULL;
    if (!caller) {
        model->failed |= client->commands > 0;
        return;
    }
    caller->clients++;
    caller->commands += client->commands;
    caller->time_ns += client->time_ns;
    caller->argument_bytes += client->argument_bytes;
}

/* Freed clients are remembered for a while; the older half is settled and forgotten. */
static void client_gone(struct redis_server *server, struct redis_client *client)
{
    server->recent_client = NULL;
    if (server->gone.count == GONE_KEPT) {
        size_t half = GONE_KEPT / 2;
        for (size_t i = 0; i < half; i++) {
            settle(server, server->gone.at[i]);
            map_remove(&server->clients, server->gone.at[i]->id);
            free(server->gone.at[i]);
        }
        memmove(server->gone.at, server->gone.at + half, half * sizeof(*server->gone.at));
        server->gone.count = half;
    }
    server->model->failed |= array_add(&server->gone, client) < 0;
}

static struct redis_thread *thread_of(struct redis_server *server, int64_t tid)
{
    if (server->recent_thread && server->recent_thread->tid == tid)
        return server->recent_thread;
    for (unsigned i = 0; i < server->thread_count; i++)
        if (server->threads[i].tid == tid)
            return server->recent_thread = &server->threads[i];
    if (server->thread_count == REDIS_THREADS)
        return &server->threads[REDIS_THREADS - 1];
    struct redis_thread *thread = &server->threads[server->thread_count++];
    thread->tid = tid;
    return thread;
}

struct redis_command *redis_command_get(struct redis_server *server, uint64_t name_id)
{
    struct redis_model *model = server->model;
    if (server->recent_command && server->recent_name == name_id)
        return server->recent_command;
    const uint64_t *known = name_id ? map_get(&server->process->names, name_id) : NULL;
    const char *name = known ? (const char *)(uintptr_t)*known : redis_intern(model, "unknown command", 15);
    bool added;
    uint64_t *place = map_put(&server->by_name, (uint64_t)(uintptr_t)name, &added);
    struct redis_command *command = place && added ? calloc(1, sizeof(*command)) : NULL;
    if (place && !added) {
        server->recent_name = name_id;
        return server->recent_command = (struct redis_command *)(uintptr_t)*place;
    }
    if (!command || array_add(&server->commands, command) < 0) {
        if (place)
            map_remove(&server->by_name, (uint64_t)(uintptr_t)name);
        free(command);
        model->failed = true;
        return NULL;
    }
    command->name = name;
    command->replicates = strcmp(name, "psync") == 0 || strcmp(name, "sync") == 0;
    command->publishes = strcmp(name, "publish") == 0;
    *place = (uint64_t)(uintptr_t)command;
    server->recent_name = name_id;
    return server->recent_command = command;
}

/* ---- processes and connections ---- */

static void process_start(struct redis_model *model, const struct event *e)
{
    int64_t pid = (int64_t)U(e, process_start_pid);
    const struct value *name = &e->values[FIELD_process_start_name];
    struct redis_process *process = process_known(model, pid);
    if (process && process->name) { /* the number is used again, or the program was replaced (exec) */
        map_remove(&model->processes, (uint64_t)pid);
        model->recent = NULL;
    }
    process = process_get(model, pid);
    if (!process)
        return;
    process->name =
        HAS(e, process_start_name) && name->length ? redis_intern(model, name->s, name->length) : "";
    if (U(e, process_start_runtime) != RUNTIME_REDIS)
        return;
    struct redis_server *server = server_get(model, process);
    if (server) {
        server->name = process->name[0] ? process->name : server->name;
        server->started_ns = MAX(e->time_ns, 1u);
    }
}

static void process_exit(struct redis_model *model, const struct event *e)
{
    struct redis_process *process = process_known(model, (int64_t)U(e, process_exit_pid));
    struct redis_server *server = process ? process->server : NULL;
    if (server) {
        server->ended_ns = e->time_ns;
        server->status = (int)I(e, process_exit_status);
    }
}

static void name_event(struct redis_model *model, const struct event *e)
{
    const struct value *text = &e->values[FIELD_probe_name_text];
    struct redis_process *process = process_get(model, e->pid);
    uint64_t *place = process ? map_put(&process->names, U(e, probe_name_id), NULL) : NULL;
    model->failed |= !place;
    if (process && process->server)
        process->server->recent_command = NULL;
    if (place && HAS(e, probe_name_text))
        *place = (uint64_t)(uintptr_t)redis_intern(model, text->s, text->length);
}

/* "127.0.0.1:6379" or "[::1]:6379" of an address as net:connection has it. */
static void write_address(char *to, size_t size, uint64_t high, uint64_t low, uint64_t port)
{
    struct in6_addr address;
    char text[INET6_ADDRSTRLEN];
    uint64_t halves[] = {__builtin_bswap64(high), __builtin_bswap64(low)};
    memcpy(&address, halves, sizeof(address));
    if (IN6_IS_ADDR_V4MAPPED(&address))
        snprintf(to, size, "%s:%u", inet_ntop(AF_INET, address.s6_addr + 12, text, sizeof(text)),
                 (unsigned)port);
    else
        snprintf(to, size, "[%s]:%u", inet_ntop(AF_INET6, &address, text, sizeof(text)), (unsigned)port);
}

static void connection_event(struct redis_model *model, const struct event *e)
{
    enum { EARLY_MAX = 4096 };
    struct redis_early connection = {
        .client_id = U(e, net_connection_key), .time_ns = e->time_ns, .fd = (int32_t)I(e, net_connection_fd)};
    char own[64];
    uint64_t family = U(e, net_connection_family);
    struct redis_process *process = process_get(model, e->pid);
    if (!process || (family != AF_INET && family != AF_INET6))
        return;
    write_address(connection.peer, sizeof(connection.peer), U(e, net_connection_peer_high),
                  U(e, net_connection_peer_low), U(e, net_connection_peer_port));
    if (process->server)
        connected(process->server, &connection);
    else if (!process->name && process->early.count < EARLY_MAX) /* what it is, is not known yet */
        model->failed |= array_add(&process->early, connection) < 0;
    if (process->server)
        return;
    write_address(own, sizeof(own), U(e, net_connection_local_high), U(e, net_connection_local_low),
                  U(e, net_connection_local_port));
    uint64_t *place = map_put(&model->sockets, map_hash(own, strlen(own)), NULL);
    model->failed |= !place;
    if (place)
        *place = (uint64_t)(uintptr_t)process;
}

/* ---- what the server does ---- */

static int command_event(struct redis_server *server, const struct event *e)
{
    uint64_t duration = e->values[0].u, id = U(e, redis_command_client_id), bytes = U(e, redis_command_bytes);
    struct redis_command *command = redis_command_get(server, U(e, redis_command_name));
    if (!command)
        return -ENOMEM;
    if (U(e, redis_command_depth)) {
        command->inner_calls++;
        return 0;
    }
    struct redis_client *client = redis_client_get(server, id, (int32_t)I(e, redis_command_fd), e->time_ns);
    struct redis_thread *thread = thread_of(server, e->tid);
    if (redis_work_again(server, client, command)) {
        thread->command_ns += duration;
        command->time_ns += duration;
        server->command_ns += duration;
        client->time_ns += duration;
        client->executed_ns = e->time_ns;
        return 0;
    }
    server->turn.commands++;
    thread->commands++;
    thread->command_ns += duration;
    command->calls++;
    command->time_ns += duration;
    command->worst_ns = MAX(command->worst_ns, duration);
    command->argument_bytes += bytes;
    server->commands_count++;
    server->command_ns += duration;
    if (command->publishes)
        server->publish_bytes += bytes;
    if (client) {
        client->commands++;
        client->time_ns += duration;
        client->argument_bytes += bytes;
        if (client->reply_bytes)
            redis_work_replied(server, client);
        client->since_read++;
        client->executed_ns = e->time_ns;
        client->last_command = command;
        client->replica |= command->replicates;
    }
    server->turn.longest_command_ns = MAX(server->turn.longest_command_ns, duration);
    int r = sketch_add(&command->latency, duration);
    if (r == 0 && server->model->options.windows) {
        command->recent_worst_ns = MAX(command->recent_worst_ns, duration);
        r = sketch_add(&command->recent, duration);
    }
    if (r == 0 && duration >= server->model->options.slow_command_ns)
        r = redis_queue_slow(
            server, &(struct redis_slow){.name = command->name,
                                         .client_id = id,
                                         .start_ns = e->time_ns - duration,
                                         .end_ns = e->time_ns,
                                         .argument_bytes = bytes,
                                         .arguments = I(e, redis_command_argument_count),
                                         .caller = client ? caller_name(server->model, client) : NULL});
    return r;
}

static int access_event(struct redis_server *server, const struct event *e, uint64_t id, int32_t fd,
                        bool writes)
{
    struct redis_client *client = redis_client_get(server, id, fd, e->time_ns);
    struct redis_thread *thread = thread_of(server, e->tid);
    uint64_t duration = e->values[0].u;
    struct redis_access access = {e->time_ns - duration, e->time_ns, e->tid, writes};
    if (writes)
        thread->replies++, thread->reply_ns += duration;
    else
        thread->reads++, thread->read_ns += duration;
    if (!client)
        return 0;
    if (!writes && redis_queue_read(server, client, access.start_ns) < 0)
        return -ENOMEM;
    if (writes) {
        client->replies++;
        client->last_reply_ns = e->time_ns;
        redis_work_reply(server, client, e);
    } else {
        client->reads++;
        client->woken_in = NULL;
        if (e->tid == server->loop_tid && array_add(&server->turn.reads, access.start_ns) < 0)
            return -ENOMEM;
        redis_work_read(server, client, I(e, redis_read_query_bytes), I(e, redis_read_query_wire_bytes));
    }
    return redis_conflict_access(server, client, &access);
}

static int free_event(struct redis_server *server, const struct event *e)
{
    uint64_t id = U(e, redis_free_client_client_id);
    int32_t fd = (int32_t)I(e, redis_free_client_fd);
    struct redis_client *client = redis_client_get(server, id, -1, e->time_ns);
    if (!client)
        return 0;
    bool first = !client->freed_ns;
    redis_work_replied(server, client);
    int r = redis_conflict_freed(server, client, fd, e->tid, e->time_ns);
    client->freed_ns = e->time_ns;
    if (first)
        client_gone(server, client);
    return r;
}

/* It names the descriptor only: the client that has it now. */
static int ssl_event(struct redis_server *server, const struct event *e)
{
    const uint64_t *id = map_get(&server->by_fd, (uint64_t)I(e, redis_ssl_read_fd));
    struct redis_client *client = id ? redis_client_get(server, *id, -1, e->time_ns) : NULL;
    if (client && !client->freed_ns)
        redis_conflict_left(client, I(e, redis_ssl_read_left), e->time_ns);
    return 0;
}

static int loop_event(struct redis_server *server, const struct event *e)
{
    uint64_t duration = e->values[0].u, start_ns = e->time_ns - duration;
    uint64_t ready = (uint64_t)MAX(I(e, redis_loop_phase_ready), 0);
    int r = 0;
    server->busy_ns += duration;
    server->loop_tid = e->tid;
    if (U(e, redis_loop_phase_phase) != PHASE_BEFORE_SLEEP)
        r = redis_queue_turn(server, start_ns, duration);
    array_clear(&server->turn.reads);
    server->turn.longest_command_ns = server->turn.commands = 0;
    server->turn.phase++;
    if (r < 0 || U(e, redis_loop_phase_phase) == PHASE_BEFORE_SLEEP)
        return r;
    server->iterations++;
    server->iteration_ns = start_ns;
    server->longest_ns = MAX(server->longest_ns, duration);
    server->recent_longest_ns = MAX(server->recent_longest_ns, duration);
    r = sketch_add(&server->ready, ready);
    if (r == 0 && server->model->options.windows)
        r = sketch_add(&server->recent_ready, ready);
    return r < 0 ? r : redis_queue_iteration(server, start_ns, e->time_ns);
}

static void bus_event(struct redis_server *server, uint64_t type, uint64_t bytes, bool sent)
{
    struct redis_traffic *traffic = &server->bus[redis_bus_number(type)];
    if (sent)
        traffic->sent++, traffic->sent_bytes += bytes;
    else
        traffic->received++, traffic->received_bytes += bytes;
}

static int server_event(struct redis_server *server, const struct event *e)
{
    struct redis_client *client;
    switch (e->id) {
    case SONDE_EVENT_redis_command:
        return command_event(server, e);
    case SONDE_EVENT_redis_read_query:
        return access_event(server, e, U(e, redis_read_query_client_id), (int32_t)I(e, redis_read_query_fd),
                            false);
    case SONDE_EVENT_redis_write_reply:
        return access_event(server, e, U(e, redis_write_reply_client_id), (int32_t)I(e, redis_write_reply_fd),
                            true);
    case SONDE_EVENT_redis_pending_io:
        client = redis_client_get(server, U(e, redis_pending_io_client_id),
                                  (int32_t)I(e, redis_pending_io_fd), e->time_ns);
        return client && U(e, redis_pending_io_added)
                   ? redis_conflict_postponed(server, client, e->tid, e->time_ns)
                   : 0;
    case SONDE_EVENT_redis_ssl_read:
        return ssl_event(server, e);
    case SONDE_EVENT_redis_free_client:
        return free_event(server, e);
    case SONDE_EVENT_redis_loop_phase:
        return loop_event(server, e);
    case SONDE_EVENT_redis_bus_send:
        bus_event(server, U(e, redis_bus_send_type), U(e, redis_bus_send_bytes), true);
        return 0;
    case SONDE_EVENT_redis_bus_packet:
        bus_event(server, U(e, redis_bus_packet_type), U(e, redis_bus_packet_bytes), false);
        return 0;
    }
    return redis_work_event(server, e);
}

void redis_model_missed(struct redis_model *model, uint64_t events)
{
    array_foreach (&model->list, server) {
        (*server)->lost += events;
        redis_conflict_lost(*server, model->last_ns);
    }
}

static void loss_event(struct redis_model *model, const struct event *e)
{
    struct redis_process *process = process_known(model, (int64_t)U(e, loss_pid));
    struct redis_server *server = process ? process->server : NULL;
    if (!server)
        return;
    server->lost += U(e, loss_count);
    redis_conflict_lost(server, e->time_ns);
}

/* What the model wants to know; from FIRST_OF_SERVERS on what only a Redis server records. */
static const uint16_t WANTED[] = {
    SONDE_EVENT_process_start,    SONDE_EVENT_process_exit,      SONDE_EVENT_loss,
    SONDE_EVENT_net_connection,   SONDE_EVENT_probe_name,        SONDE_EVENT_redis_command,
    SONDE_EVENT_redis_read_query, SONDE_EVENT_redis_write_reply, SONDE_EVENT_redis_pending_io,
    SONDE_EVENT_redis_ssl_read,   SONDE_EVENT_redis_free_client, SONDE_EVENT_redis_loop_phase,
    SONDE_EVENT_redis_bus_send,   SONDE_EVENT_redis_bus_packet,  SONDE_EVENT_redis_block,
    SONDE_EVENT_redis_answered,   SONDE_EVENT_redis_publish,     SONDE_EVENT_redis_hand_over,
    SONDE_EVENT_redis_fork,       SONDE_EVENT_redis_fsync,       SONDE_EVENT_redis_aof_write,
    SONDE_EVENT_redis_expire,     SONDE_EVENT_redis_evict,       SONDE_EVENT_redis_output_limit,
    SONDE_EVENT_redis_bus_read,   SONDE_EVENT_redis_bus_write,   0};
enum { FIRST_OF_SERVERS = 5 };

int redis_model_event(struct redis_model *model, const struct event *e)
{
    struct redis_process *process;
    struct redis_server *server;
    int r = 0;
    model->first_ns = model->first_ns ? model->first_ns : e->time_ns;
    model->last_ns = MAX(model->last_ns, e->time_ns);
    switch (e->id) {
    case SONDE_EVENT_process_start:
        process_start(model, e);
        break;
    case SONDE_EVENT_process_exit:
        process_exit(model, e);
        break;
    case SONDE_EVENT_loss:
        loss_event(model, e);
        break;
    case SONDE_EVENT_probe_name:
        name_event(model, e);
        break;
    case SONDE_EVENT_net_connection:
        connection_event(model, e);
        break;
    default:
        process = e->id < SONDE_EVENT_COUNT && model->of_servers[e->id] ? process_get(model, e->pid) : NULL;
        server = process ? server_get(model, process) : NULL;
        if (!server)
            break;
        server->first_ns = server->first_ns ? server->first_ns : e->time_ns;
        server->last_ns = e->time_ns;
        r = server_event(server, e);
    }
    return r < 0 ? r : model->failed ? -ENOMEM : 0;
}

/* ---- beginning and end ---- */

int redis_model_new(const struct redis_options *options, struct redis_model **ret_model)
{
    struct redis_model *model = calloc(1, sizeof(*model));
    if (!model)
        return -ENOMEM;
    model->options = *options;
    for (size_t i = FIRST_OF_SERVERS; WANTED[i]; i++)
        model->of_servers[WANTED[i]] = true;
    *ret_model = model;
    return 0;
}

int redis_model_finish(struct redis_model *model)
{
    int r = 0;
    array_foreach (&model->list, place) {
        struct redis_server *server = *place;
        if (redis_queue_finish(server) < 0)
            r = -ENOMEM;
        map_foreach (&server->clients, slot) {
            redis_work_replied(server, (struct redis_client *)(uintptr_t)slot->value);
            settle(server, (struct redis_client *)(uintptr_t)slot->value);
        }
    }
    return model->failed ? -ENOMEM : r;
}

static int pass_event(void *self, const struct event *e)
{
    return redis_model_event(self, e);
}

static int pass_finish(void *self)
{
    return redis_model_finish(self);
}

struct pass redis_model_pass(struct redis_model *model)
{
    return (struct pass){
        .name = "redis", .wanted = WANTED, .event = pass_event, .finish = pass_finish, .self = model};
}

static void server_free(struct redis_server *server)
{
    map_foreach (&server->clients, slot) {
        free((struct redis_client *)(uintptr_t)slot->value);
    }
    array_foreach (&server->commands, command) {
        sketch_done(&(*command)->latency);
        sketch_done(&(*command)->recent);
        free(*command);
    }
    array_done(&server->commands);
    array_done(&server->gone);
    array_done(&server->callers);
    array_done(&server->conflicts);
    map_done(&server->clients);
    map_done(&server->by_name);
    map_done(&server->by_fd);
    map_done(&server->caller_of);
    sketch_done(&server->ready);
    sketch_done(&server->recent_ready);
    sketch_done(&server->turn.recent);
    array_done(&server->turn.reads);
    redis_queue_done(&server->queue);
    free(server);
}

void redis_model_free(struct redis_model *model)
{
    if (!model)
        return;
    array_foreach (&model->list, server)
        server_free(*server);
    array_foreach (&model->all, process) {
        map_done(&(*process)->names);
        array_done(&(*process)->early);
        free(*process);
    }
    array_done(&model->all);
    array_done(&model->list);
    map_done(&model->processes);
    map_done(&model->sockets);
    map_done(&model->strings);
    arena_done(&model->arena);
    free(model);
}
