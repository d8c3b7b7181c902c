/* See work.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/work.h"

#include <errno.h>

#include "base/macro.h"
#include "event/event.h"
#include "targets/redis/event.h"
#include "targets/redis/model.h"

void redis_sum_add(struct redis_sum *sum, uint64_t took_ns, uint64_t at_ns)
{
    sum->count++;
    sum->time_ns += took_ns;
    if (took_ns > sum->worst_ns) {
        sum->worst_ns = took_ns;
        sum->worst_at_ns = at_ns;
    }
}

/* ---- bytes ---- */

static struct redis_volume *volume_of(struct redis_server *server, const struct redis_client *client)
{
    return client->replica ? &server->work.replicas : &server->work.clients;
}

void redis_work_read(struct redis_server *server, struct redis_client *client, int64_t bytes, int64_t wire)
{
    if (bytes < 0) {
        server->work.unknown_bytes++;
        return;
    }
    struct redis_volume *volume = volume_of(server, client);
    client->in_bytes += (uint64_t)bytes;
    volume->in += (uint64_t)bytes;
    volume->wire_in += (uint64_t)MAX(wire, 0);
}

/* More commands were executed before the client had taken a whole reply: what it takes now is the rest of
 * that, and how large theirs are is not known. */
static void rest_of_reply(struct redis_client *client, uint64_t bytes)
{
    struct redis_command *command = client->partly;
    client->partly_bytes += bytes;
    client->last_command = NULL;
    client->since_read = 0;
    if (!command)
        return;
    command->reply_bytes += bytes;
    if (client->partly_bytes > command->largest_reply_bytes) {
        command->largest_reply_bytes = client->partly_bytes;
        command->largest_reply_client = client->id;
        command->largest_reply_at_ns = client->last_reply_ns;
    }
}

void redis_work_reply(struct redis_server *server, struct redis_client *client, const struct event *e)
{
    int64_t bytes = I(e, redis_write_reply_bytes), wire = I(e, redis_write_reply_wire_bytes);
    if (U(e, redis_write_reply_waited) && !client->reply_waited_ns)
        client->reply_waited_ns = e->time_ns - e->values[FIELD_DURATION].u;
    if (bytes < 0) {
        server->work.unknown_bytes++;
        return;
    }
    struct redis_volume *volume = volume_of(server, client);
    client->out_bytes += (uint64_t)bytes;
    if (U(e, redis_write_reply_waited) && !client->reply_bytes)
        rest_of_reply(client, (uint64_t)bytes);
    else
        client->reply_bytes += (uint64_t)bytes;
    volume->out += (uint64_t)bytes;
    volume->wire_out += (uint64_t)MAX(wire, 0);
}

/* Only the reply to a request of one command is known to be that command's. */
void redis_work_replied(struct redis_server *server, struct redis_client *client)
{
    struct redis_command *command = client->since_read == 1 ? client->last_command : NULL;
    if (command && !client->replica) {
        command->reply_bytes += client->reply_bytes;
        command->replies++;
        if (client->reply_bytes > command->largest_reply_bytes) {
            command->largest_reply_bytes = client->reply_bytes;
            command->largest_reply_client = client->id;
            command->largest_reply_at_ns = client->last_reply_ns;
        }
    }
    if (client->reply_bytes) {
        client->partly = client->replica ? NULL : command;
        client->partly_bytes = client->reply_bytes;
    }
    if (client->reply_waited_ns && client->last_reply_ns > client->reply_waited_ns && !client->replica) {
        uint64_t waited_ns = client->last_reply_ns - client->reply_waited_ns;
        client->taking_ns += waited_ns;
        client->taking_bytes = MAX(client->taking_bytes, client->partly_bytes);
    }
    client->reply_bytes = client->reply_waited_ns = 0;
    client->since_read = 0;
    client->last_command = NULL;
}

/* ---- clients ---- */

static int block_event(struct redis_server *server, const struct event *e)
{
    struct redis_command *command = redis_command_get(server, U(e, redis_block_name));
    struct redis_client *client =
        redis_client_get(server, U(e, redis_block_client_id), (int32_t)I(e, redis_block_fd), e->time_ns);
    if (!client || !command)
        return 0;
    if (U(e, redis_block_begins)) {
        client->blocked_ns = e->time_ns;
        client->blocked_by = command;
    } else if (client->blocked_ns) {
        redis_sum_add(&client->blocked_by->blocked, e->time_ns - client->blocked_ns, e->time_ns);
        client->woken_in = server->turn.commands ? client->blocked_by : NULL; /* else its time was over */
        client->woken_phase = server->turn.phase;
        client->blocked_ns = 0;
    }
    return 0;
}

bool redis_work_again(const struct redis_server *server, struct redis_client *client,
                      const struct redis_command *command)
{
    if (!client || !client->woken_in)
        return false;
    bool again = client->woken_in == command && client->woken_phase == server->turn.phase;
    client->woken_in = NULL;
    return again;
}

static int answered_event(struct redis_server *server, const struct event *e)
{
    uint64_t id = U(e, redis_answered_client_id), answer = U(e, redis_answered_answer);
    struct redis_client *client = redis_client_get(server, id, (int32_t)I(e, redis_answered_fd), e->time_ns);
    struct redis_command *command = redis_command_get(server, U(e, redis_answered_name));
    if (!command)
        return -ENOMEM;
    if (client && client->reply_bytes)
        redis_work_replied(server, client);
    if (client)
        client->since_read++;
    if (answer == SONDE_redis_answer_queued)
        command->queued++;
    else if (answer == SONDE_redis_answer_moved || answer == SONDE_redis_answer_ask)
        command->redirected++;
    else
        command->refused++;
    return 0;
}

/* ---- children, files, keys ---- */

/* Who waited behind it is found out when it took long. */
static int stretch(struct redis_server *server, const struct event *e, enum redis_stretch what,
                   uint64_t least_ns)
{
    uint64_t took_ns = e->values[FIELD_DURATION].u;
    if (took_ns < least_ns)
        return 0;
    return redis_queue_slow(
        server, &(struct redis_slow){
                    .what = what, .start_ns = e->time_ns - took_ns, .end_ns = e->time_ns, .arguments = -1});
}

static void fork_event(struct redis_work *work, const struct event *e, uint64_t took_ns)
{
    static const char *const PURPOSES[] = {
        [SONDE_redis_child_rdb] = "an RDB snapshot",
        [SONDE_redis_child_aof] = "rewriting the append-only file",
        [SONDE_redis_child_debugger] = "the Lua debugger",
        [SONDE_redis_child_module] = "a module",
        [SONDE_redis_child_slots] = "the migration of slots",
    };
    uint64_t purpose = U(e, redis_fork_purpose);
    if (took_ns >= work->forks.worst_ns) {
        work->fork_memory_bytes = U(e, redis_fork_used_memory);
        work->fork_purpose =
            purpose < ARRAY_SIZE(PURPOSES) && PURPOSES[purpose] ? PURPOSES[purpose] : "a child";
    }
    redis_sum_add(&work->forks, took_ns, e->time_ns);
}

static void file_event(struct redis_server *server, const struct event *e, uint64_t took_ns)
{
    struct redis_work *work = &server->work;
    if (e->id == SONDE_EVENT_redis_aof_write) {
        redis_sum_add(&work->aof_writes, took_ns, e->time_ns);
        work->aof_bytes += (uint64_t)MAX(I(e, redis_aof_write_bytes), 0);
    } else {
        bool main = e->tid == (server->loop_tid ? server->loop_tid : server->pid);
        redis_sum_add(main ? &work->syncs : &work->background_syncs, took_ns, e->time_ns);
    }
}

static void keys_event(struct redis_work *work, const struct event *e, uint64_t took_ns)
{
    if (e->id == SONDE_EVENT_redis_evict) {
        redis_sum_add(&work->evictions, took_ns, e->time_ns);
        work->evicted += U(e, redis_evict_keys);
        work->evictions_failed += U(e, redis_evict_result) == 2;
    } else {
        bool unseen = U(e, redis_expire_cycle) == SONDE_redis_cycle_unseen;
        if (!unseen)
            redis_sum_add(&work->expiry, took_ns, e->time_ns);
        *(unseen ? &work->expired_unseen : &work->expired) += U(e, redis_expire_expired);
        work->expired_on_access += U(e, redis_expire_on_access);
    }
}

int redis_work_event(struct redis_server *server, const struct event *e)
{
    struct redis_work *work = &server->work;
    uint64_t took_ns = e->values[FIELD_DURATION].u, least_ns = server->model->options.slow_command_ns;
    switch (e->id) {
    case SONDE_EVENT_redis_block:
        return block_event(server, e);
    case SONDE_EVENT_redis_answered:
        return answered_event(server, e);
    case SONDE_EVENT_redis_hand_over:
        work->handed_over++;
        return 0;
    case SONDE_EVENT_redis_publish:
        work->messages++;
        work->messages_from_bus += U(e, redis_publish_from_bus);
        work->receivers += U(e, redis_publish_receivers);
        return 0;
    case SONDE_EVENT_redis_fork:
        fork_event(work, e, took_ns);
        return stretch(server, e, REDIS_STRETCH_FORK, least_ns / 2); /* it slows the server down later too */
    case SONDE_EVENT_redis_fsync:
    case SONDE_EVENT_redis_aof_write:
        file_event(server, e, took_ns);
        return e->id == SONDE_EVENT_redis_aof_write ? stretch(server, e, REDIS_STRETCH_FILE, least_ns) : 0;
    case SONDE_EVENT_redis_expire:
    case SONDE_EVENT_redis_evict:
        keys_event(work, e, took_ns);
        return stretch(server, e,
                       e->id == SONDE_EVENT_redis_evict ? REDIS_STRETCH_EVICTION : REDIS_STRETCH_EXPIRY,
                       least_ns);
    case SONDE_EVENT_redis_output_limit:
        work->output_limit_clients++;
        return 0;
    case SONDE_EVENT_redis_bus_read:
        work->bus_in += (uint64_t)MAX(I(e, redis_bus_read_bytes), 0);
        redis_sum_add(&work->bus_reads, took_ns, e->time_ns);
        return 0;
    case SONDE_EVENT_redis_bus_write:
        work->bus_out += (uint64_t)MAX(I(e, redis_bus_write_bytes), 0);
        redis_sum_add(&work->bus_writes, took_ns, e->time_ns);
        return 0;
    }
    return -ENOENT;
}
