/* The hooks in redis-server beside the way of a command: clients that are blocked, commands that are not
 * executed, subscribers, children, the append-only file, keys that expire or are evicted; I/O threads. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/probe.h"

/* Shorter looks for expired keys, and writes of nothing, are not worth a record. About 2 us. */
enum { WORK_MIN_TICKS = 5000 };

static const void *client_command(const void *client)
{
    return HAVE(client_cmd) ? READ(void *, client, OFFSET(client_cmd)) : NULL;
}

/* ---- clients ---- */

static void blocked(const void *client, uint8_t begins)
{
    struct probe_thread *self = THREAD_WANTING(redis_block);
    if (!self)
        return;
    uint32_t name = redis_command_name(self, client_command(client)); /* may be a record of its own */
    RECORD(self, redis_block, 0, ticks(), .client_id = client_id(client), .name = name,
           .fd = client_fd(client), .begins = begins);
}

HOOK(void, redis_block, void *client, int type)
{
    blocked(client, 1);
    sonde_orig_redis_block(client, type);
}

/* Since 7.2 with an int behind. */
HOOK(void, redis_unblock, void *client, int again)
{
    blocked(client, 0);
    sonde_orig_redis_unblock(client, again);
}

static void handed_over(const void *client, uint8_t to_thread)
{
    struct probe_thread *self = THREAD_WANTING(redis_hand_over);
    if (self)
        RECORD(self, redis_hand_over, 0, ticks(), .client_id = client_id(client), .fd = client_fd(client),
               .to_thread = to_thread);
}

HOOK(void, redis_to_thread, void *client)
{
    handed_over(client, 1); /* no longer ours once the original has run */
    sonde_orig_redis_to_thread(client);
}

HOOK(void, redis_fetch_client, void *client)
{
    sonde_orig_redis_fetch_client(client);
    handed_over(client, 0);
}

HOOK(void, redis_keep_client, void *client)
{
    sonde_orig_redis_keep_client(client);
    handed_over(client, 0);
}

/* ---- Valkey's I/O threads, which whole clients are given to ---- */

EXPORTED extern long (*sonde_orig_redis_io_read)(int fd, void *buffer, size_t size);
EXPORTED extern long (*sonde_orig_redis_io_write)(int fd, const void *buffer, size_t size);

/* Once it is given back the client may be used by the main thread, and freed: nothing is read of it after the
 * original has begun, and what was done ends when it was given back; where that is not seen, it lasts no
 * time. */
static void thread_io(void *client, void (*original)(void *), bool writes)
{
    struct probe_thread *self = probe_thread();
    if (!self || !redis_is_client(client)) {
        original(client);
        return;
    }
    uint64_t id = client_id(client);
    int fd = client_fd(client);
    struct probe_bytes *bytes = writes ? &self->redis_out : &self->redis_in;
    uint32_t depth = self->shared.depth;
    uint64_t start =
        span_open(self, writes ? SONDE_EVENT_redis_write_reply : SONDE_EVENT_redis_read_query, id, 0);
    struct probe_bytes outer = bytes_begin(bytes, fd);
    self->thread_client = client;
    self->thread_done_tsc = 0;
    original(client);
    if (!span_close(self, depth))
        return;
    self->thread_client = NULL;
    uint64_t end = self->thread_done_tsc ? self->thread_done_tsc : start;
    bool seen = writes ? sonde_orig_redis_io_write != NULL : sonde_orig_redis_io_read != NULL;
    int32_t plain, wire = bytes_end(bytes, outer, seen, &plain);
    if (writes)
        RECORD_OWN(self, redis_write_reply, start, end, .client_id = id, .fd = fd, .bytes = plain,
                   .wire_bytes = wire);
    else
        RECORD_OWN(self, redis_read_query, start, end, .client_id = id, .fd = fd, .bytes = plain,
                   .wire_bytes = wire);
}

HOOK(void, redis_thread_read, void *client)
{
    thread_io(client, sonde_orig_redis_thread_read, false);
}

HOOK(void, redis_thread_write, void *client)
{
    thread_io(client, sonde_orig_redis_thread_write, true);
}

HOOK(void, redis_thread_done, void *data, int what)
{
    struct probe_thread *self = probe_thread_claimed();
    if (self && self->thread_client == data && data)
        self->thread_done_tsc = ticks();
    sonde_orig_redis_thread_done(data, what);
}

/* ---- commands and messages ---- */

static void answered(const void *client, enum sonde_redis_answer answer, int32_t slot)
{
    struct probe_thread *self = THREAD_WANTING(redis_answered);
    if (!self)
        return;
    uint64_t id = client_id(client);
    uint32_t name = redis_command_name(self, client_command(client));
    RECORD(self, redis_answered, 0, ticks(), .client_id = id,
           .sequence = id && id == self->command_client ? self->command_sequence : 0, .name = name,
           .fd = client_fd(client), .slot = slot, .answer = (uint8_t)answer);
}

HOOK(void, redis_reject, void *client, void *reply)
{
    answered(client, SONDE_redis_answer_refused, -1);
    sonde_orig_redis_reject(client, reply);
}

HOOK(void, redis_reject_text, void *client, char *reply)
{
    answered(client, SONDE_redis_answer_refused, -1);
    sonde_orig_redis_reject_text(client, reply);
}

/* Since 7.0 with the command's flags behind. */
HOOK(void, redis_queue_command, void *client, uint64_t flags)
{
    answered(client, SONDE_redis_answer_queued, -1);
    sonde_orig_redis_queue_command(client, flags);
}

/* error: CLUSTER_REDIR_*, from 1 on as enum sonde_redis_answer has them from 2 on. */
HOOK(void, redis_redirect, void *client, void *node, int slot, int error)
{
    bool known = error >= 1 && error <= SONDE_redis_answer_read_only - 1;
    answered(client, known ? (enum sonde_redis_answer)(error + 1) : SONDE_redis_answer_refused, slot);
    sonde_orig_redis_redirect(client, node, slot, error);
}

/* pubsubtype, by value: it has 56 bytes up to now, and what lies behind it on the caller's stack may be
 * copied too. */
struct publish_type {
    uint64_t words[8];
};

HOOK(int, redis_publish, void *channel, void *message, struct publish_type type)
{
    int receivers = sonde_orig_redis_publish(channel, message, type);
    struct probe_thread *self = THREAD_WANTING(redis_publish);
    if (self)
        RECORD(self, redis_publish, 0, ticks(), .receivers = receivers > 0 ? (uint32_t)receivers : 0,
               .from_bus = self->in_bus_packet);
    return receivers;
}

static void message_for(const void *client)
{
    struct probe_thread *self = THREAD_WANTING(redis_message);
    if (self)
        RECORD(self, redis_message, 0, ticks(), .client_id = client_id(client), .fd = client_fd(client));
}

HOOK(void, redis_message, void *client, void *channel, void *message, void *kind)
{
    message_for(client);
    sonde_orig_redis_message(client, channel, message, kind);
}

HOOK(void, redis_pattern_message, void *client, void *pattern, void *channel, void *message)
{
    message_for(client);
    sonde_orig_redis_pattern_message(client, pattern, channel, message);
}

/* Every piece of a reply that does not fit the client's own buffer comes by here. */
HOOK(int, redis_output_limit, void *client, int asynchronously)
{
    uint64_t id = client_id(client);
    int fd = client_fd(client);
    int closed = sonde_orig_redis_output_limit(client, asynchronously);
    struct probe_thread *self = UNLIKELY(closed) ? THREAD_WANTING(redis_output_limit) : NULL;
    if (self)
        RECORD(self, redis_output_limit, 0, ticks(), .client_id = id, .fd = fd);
    return closed;
}

/* ---- replicas ---- */

/* The place in the replication stream, which a server and its replicas number alike; -1 unknown. */
static long long replication_offset(void)
{
    long long (*get)(void) = (long long (*)(void))sonde_config.redis.replication_offset;
    return get ? get() : -1;
}

static void replicated(long long before, uint8_t applied)
{
    struct probe_thread *self = THREAD_WANTING(redis_replicated);
    long long offset = self && before >= 0 ? replication_offset() : before;
    if (offset > before)
        RECORD(self, redis_replicated, 0, ticks(), .offset = (uint64_t)offset,
               .bytes = (uint32_t)(offset - before), .applied = applied);
}

HOOK(void, redis_replicate, void *replicas, void *db, void *arguments, void *count)
{
    long long before = replication_offset();
    sonde_orig_redis_replicate(replicas, db, arguments, count);
    replicated(before, 0);
}

HOOK(void, redis_applied, void *bytes, size_t count)
{
    long long before = replication_offset();
    sonde_orig_redis_applied(bytes, count);
    replicated(before, 1);
}

/* ---- children and files ---- */

HOOK(int, redis_fork, int purpose)
{
    struct probe_thread *self = THREAD_WANTING(redis_fork);
    if (!self)
        return sonde_orig_redis_fork(purpose);
    uint64_t memory = 0;
    if (sonde_config.redis.used_memory)
        memory = ((size_t(*)(void))sonde_config.redis.used_memory)();
    uint32_t depth = self->shared.depth;
    uint64_t start = span_open(self, SONDE_EVENT_redis_fork, (uint64_t)purpose, 0);
    int child = sonde_orig_redis_fork(purpose);
    if (!child || !span_close(self, depth)) /* in the child */
        return child;
    RECORD_OWN(self, redis_fork, start, ticks(), .used_memory = memory, .child = child,
               .purpose = (uint8_t)(purpose > 0 && purpose <= SONDE_redis_child_slots ? purpose : 0));
    return child;
}

/* A child that saves ends in it too: that is nobody's wait, and no reason to be followed. */
HOOK(int, redis_fsync, int fd)
{
    struct probe_thread *self = probe_live.original ? THREAD_WANTING(redis_fsync) : NULL;
    if (!self)
        return sonde_orig_redis_fsync(fd);
    uint32_t depth = self->shared.depth;
    uint64_t start = span_open(self, SONDE_EVENT_redis_fsync, (uint64_t)fd, 0);
    int result = sonde_orig_redis_fsync(fd);
    if (span_close(self, depth))
        RECORD_OWN(self, redis_fsync, start, ticks(), .fd = fd, .result = result);
    return result;
}

/* Called before each wait, and does nothing as a rule. */
HOOK(void, redis_aof_flush, int force)
{
    struct probe_thread *self = THREAD_WANTING(redis_aof_write);
    if (!self) {
        sonde_orig_redis_aof_flush(force);
        return;
    }
    uint32_t depth = self->shared.depth;
    self->in_flush = 1;
    self->aof_bytes = 0;
    uint64_t start = span_open(self, SONDE_EVENT_redis_aof_write, 0, 0);
    sonde_orig_redis_aof_flush(force);
    if (!span_close(self, depth))
        return;
    self->in_flush = 0;
    int64_t bytes = sonde_orig_redis_io_write ? self->aof_bytes : -1;
    uint64_t end = ticks();
    if (bytes > 0 || end - start > WORK_MIN_TICKS)
        RECORD_OWN(self, redis_aof_write, start, end, .bytes = bytes);
}

/* ---- keys ---- */

/* Of every change of a key: two kinds are counted. */
HOT_HOOK(void, redis_notify, int type, char *event, void *key, int db)
{
    enum { NOTIFY_EXPIRED = 1 << 8, NOTIFY_EVICTED = 1 << 9 };
    if (UNLIKELY(type & (NOTIFY_EXPIRED | NOTIFY_EVICTED))) {
        struct probe_thread *self = probe_thread();
        if (self && type & NOTIFY_EVICTED)
            self->evicted++;
        else if (self && (self->in_expire || !self->expire_seen))
            self->expired++;
        else if (self)
            self->expired_access++;
    }
    sonde_orig_redis_notify(type, event, key, db);
}

void redis_record_expired(struct probe_thread *self, uint64_t start, uint64_t end, uint8_t cycle)
{
    RECORD_OWN(self, redis_expire, start, end, .expired = self->expired, .on_access = self->expired_access,
               .cycle = cycle);
    self->expired = self->expired_access = 0;
}

/* The fast cycle runs before each wait, and returns at once when few keys were found expired of late: an
 * average that has forgotten any share of them after so many slow cycles. */
enum { EXPIRE_BUSY = 100 };

EXPORTED extern void (*sonde_orig_redis_expire)(int type);

static __attribute__((noinline)) void expire(struct probe_thread *self, int type, bool fast)
{
    uint32_t depth = self->shared.depth;
    uint64_t start = span_open(self, SONDE_EVENT_redis_expire, (uint64_t)type, 0);
    self->in_expire = self->expire_seen = 1;
    sonde_orig_redis_expire(type);
    if (!span_close(self, depth))
        return;
    self->in_expire = 0;
    if (self->expired)
        self->expire_busy = EXPIRE_BUSY;
    else if (!fast && self->expire_busy)
        self->expire_busy--;
    uint64_t end = ticks();
    if (self->expired || self->expired_access || end - start > WORK_MIN_TICKS)
        redis_record_expired(self, start, end, fast ? SONDE_redis_cycle_fast : SONDE_redis_cycle_slow);
}

HOOK(void, redis_expire, int type)
{
    enum { FAST = 1 };
    struct probe_thread *self = probe_thread_claimed();
    if (LIKELY(type == FAST && self && !self->expire_busy))
        sonde_orig_redis_expire(type);
    else if ((self = probe_thread()))
        expire(self, type, type == FAST);
    else
        sonde_orig_redis_expire(type);
}

/* Before each command when there is a limit; returns at once when it is not reached. What it deletes for a
 * command is deleted since that was read, or the one before it in the pipeline ended. */
HOOK(int, redis_evict, void)
{
    struct probe_thread *self = probe_thread();
    if (!self)
        return sonde_orig_redis_evict();
    uint64_t start = 0;
    if (!self->in_read)
        start = ticks();
    self->evicted = 0;
    int result = sonde_orig_redis_evict();
    if (LIKELY(!self->evicted) || probe_stale(self))
        return result;
    uint64_t end = ticks();
    uint32_t depth = self->shared.depth;
    if (!start && self->command_end_tsc)
        start = self->command_end_tsc;
    else if (!start && depth && depth <= SONDE_OPEN_SPANS)
        start = self->shared.open[depth - 1].start_tsc;
    RECORD_OWN(self, redis_evict, start ? start : end, end, .keys = self->evicted, .result = (uint8_t)result);
    if (self->command_end_tsc)
        self->command_end_tsc = end; /* where the next command begins */
    return result;
}
