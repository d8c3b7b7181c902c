/* The hooks in redis-server. Fields are read through offsets that sonde found in this very build; one that
 * was not found is -1, is not read, and its value says "unknown". After the original returns nothing is
 * touched that it may have freed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/probe.h"

extern void aeMain(void *) __attribute__((weak, visibility("default")));

bool probe_wants_redis(void)
{
    return aeMain;
}

/* Phases shorter than this are not worth a record. About 2 us. */
enum { PHASE_MIN_TICKS = 5000 };

uint32_t redis_command_name(struct probe_thread *self, const void *command)
{
    if (!command || !HAVE(command_name))
        return 0;
    uint32_t number = name_find((uintptr_t)command);
    if (LIKELY(number))
        return number;
    const char *name = READ(char *, command, OFFSET(command_name));
    if (!name)
        return 0;
    uint64_t length = 0;
    while (redis_plain_names && length < 40 && name[length])
        length++;
    return name_add(self, (uintptr_t)command, name, (uint32_t)(length ? length : sds_length(name)));
}

static uint8_t command_kind(const void *command)
{
    enum { CMD_WRITE = 1, CMD_READONLY = 2, CMD_ADMIN = 16 };
    if (!command || !HAVE(command_flags))
        return 0;
    uint64_t flags = READ(uint64_t, command, OFFSET(command_flags));
    return flags & CMD_ADMIN ? 3 : flags & CMD_WRITE ? 2 : flags & CMD_READONLY ? 1 : 0;
}

/* ---- bytes ---- */

/* Every read and write of the process comes by here, so that they only add up: what is read and written
 * within the spans below is theirs when it is of their descriptor. */
HOT_HOOK(long, redis_io_read, int fd, void *buffer, size_t size)
{
    long got = sonde_orig_redis_io_read(fd, buffer, size);
    struct probe_thread *self = probe_thread_claimed();
    if (self && fd == self->redis_in.fd) {
        self->redis_in.asked = 1;
        if (got > 0)
            self->redis_in.sums += (uint64_t)got;
    }
    return got;
}

static inline void wrote(int fd, long taken)
{
    struct probe_thread *self = probe_thread_claimed();
    if (!self || taken <= 0)
        return;
    if (LIKELY(fd == self->redis_out.fd))
        self->redis_out.sums += (uint64_t)taken;
    else if (UNLIKELY(self->in_flush))
        self->aof_bytes += taken;
}

HOT_HOOK(long, redis_io_write, int fd, const void *buffer, size_t size)
{
    long taken = sonde_orig_redis_io_write(fd, buffer, size);
    wrote(fd, taken);
    return taken;
}

HOOK(long, redis_io_writev, int fd, const void *pieces, int count)
{
    long taken = sonde_orig_redis_io_writev(fd, pieces, count);
    wrote(fd, taken);
    return taken;
}

static inline void add_plain(struct probe_bytes *bytes, int32_t count)
{
    bytes->tls = 1;
    bytes->sums += count > 0 ? (uint64_t)count << 32 : 0;
}

HOOK(int, redis_ssl_write, void *ssl, const void *buffer, int size)
{
    int taken = sonde_orig_redis_ssl_write(ssl, buffer, size);
    struct probe_thread *self = probe_thread_claimed();
    if (self)
        add_plain(&self->redis_out, taken);
    return taken;
}

/* ---- queries, commands, replies ---- */

EXPORTED extern int (*sonde_orig_redis_postpone_read)(void *client);
EXPORTED extern int (*sonde_orig_redis_ssl_read)(void *ssl, void *buffer, int asked);

/* Compilers put postponeClientRead() into its caller, and then its own hook sees nothing. A query is read or
 * put on the list of the I/O threads: where nobody asked its socket for anything, it was put there. Not where
 * libssl's reads are not seen, which may have had it already. */
static __attribute__((noinline)) void postponed_within(struct probe_thread *self, uint64_t id, int fd,
                                                       uint64_t now)
{
    bool sees = sonde_orig_redis_io_read && sonde_orig_redis_ssl_read && sonde_config.redis.ssl_pending &&
                sonde_config.redis.ssl_get_rfd;
    if (sees && sonde_orig_redis_postpone_read && fd >= 0)
        RECORD(self, redis_pending_io, 0, now, .client_id = id, .fd = fd, .list = 0, .added = 1);
}

/* A read that was left to another thread ended when that may have begun. */
static uint64_t handed_over(struct probe_thread *self, uint64_t start, uint64_t end)
{
    uint64_t handed = self->handed_tsc;
    self->handed_tsc = 0;
    return handed > start ? handed : end;
}

/* Nothing was read, so that nothing was done from the time on at which the loop had finished with others:
 * another thread may have been reading this client. Not where libssl may have had a command already. */
static uint64_t began_unasked(const struct probe_thread *self, uint64_t start, uint64_t end)
{
    return sonde_orig_redis_io_read && !self->command_end_tsc ? end : start;
}

enum { NO_SEQUENCE = -1 }; /* no command's number */

/* The newest command was executed, and nothing takes time behind it: the read ends where that ended. Others
 * are rejected, or queued. */
static inline bool read_ends_with_command(const struct probe_thread *self)
{
    return self->command_end_tsc && self->next_sequence == self->command_sequence + 1;
}

/* The same, and nothing was recorded since that command of the client whose query is read. */
static inline bool read_continues(const struct probe_thread *self, const void *client)
{
    return self->read_client == client && self->next_written == self->shared.written;
}

/* When a read begins. Where all descriptors of this iteration were clients that were read, up to this one:
 * when the one before it ended, or the wait. Nothing but the loop's few lines is in between. */
static inline uint64_t read_began(const struct probe_thread *self, int fd)
{
    const struct redis_fired *fired = LIKELY(self->loop && HAVE(loop_fired))
                                          ? READ(struct redis_fired *, self->loop, OFFSET(loop_fired))
                                          : NULL;
    return LIKELY(fired && fired[self->reads].fd == fd) ? self->handled_tsc : ticks();
}

EXPORTED extern void (*sonde_orig_redis_read_query)(void *connection);

/* known: redis_fields_known, a constant where this is inlined. */
static inline __attribute__((always_inline)) void read_query(struct probe_thread *self, void *connection,
                                                             const void *client, bool known)
{
    uint64_t id = known ? READ(uint64_t, client, OFFSET(client_id)) : client_id(client);
    int fd = known ? READ(int, connection, OFFSET(conn_fd)) : connection_fd(connection);
    const char *buffer = redis_query_buffer >= 0 ? READ(char *, client, redis_query_buffer) : NULL;
    uint32_t waiting = buffer ? (uint32_t)sds_length(buffer) : 0;
    struct descriptor *d = fd >= 0 ? descriptor_use(self, fd, id) : NULL;
    if (LIKELY(known && d && id && !d->unnumbered)) {
        self->read_client = client;
        self->read_number = &d->commands.number;
        self->command_client = id;
        self->command_fd = fd;
    }

    uint32_t depth = self->shared.depth;
    uint64_t start = span_open_at(self, read_began(self, fd), SONDE_EVENT_redis_read_query, id, 0);
    self->in_read = 1;
    self->command_end_tsc = 0;
    self->next_sequence = (uint64_t)NO_SEQUENCE;
    struct probe_bytes outer = bytes_begin(&self->redis_in, fd);
    sonde_orig_redis_read_query(connection);
    if (!span_close(self, depth))
        return;
    self->in_read = 0;
    bool asked = self->redis_in.asked || self->redis_in.tls;
    int32_t plain, wire = bytes_end(&self->redis_in, outer, sonde_orig_redis_io_read, &plain);

    uint64_t memory = 0;
    if (sonde_config.redis.used_memory)
        memory = ((size_t(*)(void))sonde_config.redis.used_memory)();
    /* It ends with its last command, of which nothing but the tidying up is left. */
    bool with_command = LIKELY(read_ends_with_command(self));
    uint64_t end = with_command ? self->command_end_tsc : ticks();
    if (UNLIKELY(!asked)) {
        end = handed_over(self, start, end);
        start = began_unasked(self, start, end);
        postponed_within(self, id, fd, end);
    }
    if (LIKELY(with_command && read_continues(self, client) && plain == wire) &&
        LIKELY(short_read_fits(memory, waiting, wire, end - start)) && WANTED(self, redis_read_query))
        record_short(self, end, SONDE_SHORT_redis_read_query, short_read_word(memory, wire), end - start);
    else
        RECORD_OWN(self, redis_read_query, start, end, .client_id = id, .used_memory = memory,
                   .query_buffer = waiting, .fd = fd, .bytes = plain, .wire_bytes = wire);
    self->read_client = NULL;
    self->reads++;
    self->handled_tsc = end;
}

/* As command_checked(). */
static __attribute__((noinline, cold)) void read_query_checked(void *connection)
{
    struct probe_thread *self = probe_thread();
    const void *client =
        connection && HAVE(conn_private) ? READ(void *, connection, OFFSET(conn_private)) : NULL;
    if (self && redis_checks_left)
        client = redis_check_client(connection, client);
    if (self && redis_checks_left && client && self->loop)
        redis_find_fired(self->loop, self->reads, connection_fd(connection));
    if (!self || !client)
        sonde_orig_redis_read_query(connection);
    else
        read_query(self, connection, client, redis_fields_known);
}

HOT_HOOK(void, redis_read_query, void *connection)
{
    struct probe_thread *self = probe_thread_claimed();
    const void *client = NULL;
    if (LIKELY(self && redis_fields_known && connection && HAVE(conn_private)))
        client = READ(void *, connection, OFFSET(conn_private));
    if (LIKELY(client))
        read_query(self, connection, client, true);
    else
        read_query_checked(connection);
}

EXPORTED extern int (*sonde_orig_redis_process_command)(void *client);

/* Of a client whose query is not being read: it was read by an I/O thread, or was blocked. And the first
 * ones.
 */
static __attribute__((noinline)) int process_other(void *client)
{
    struct probe_thread *self = probe_thread();
    if (self) {
        int fd = client_fd(client);
        uint64_t id = client_id(client);
        struct descriptor *d = fd >= 0 && id ? descriptor_use(self, fd, id) : NULL;
        self->read_client = NULL;
        self->command_client = id;
        self->command_fd = fd;
        self->command_sequence = d && !d->unnumbered ? ++d->commands.number : 0;
        self->next_sequence = (uint64_t)NO_SEQUENCE;
    }
    return sonde_orig_redis_process_command(client);
}

/* Counts the commands of each connection, those too that are rejected before they execute: the caller counts
 * the same. Makes no record of its own. */
HOT_HOOK(int, redis_process_command, void *client)
{
    struct probe_thread *self = probe_thread_claimed();
    if (UNLIKELY(!self || self->read_client != client))
        return process_other(client);
    self->command_sequence = ++*self->read_number;
    return sonde_orig_redis_process_command(client);
}

EXPORTED extern void (*sonde_orig_redis_command)(void *client, int flags);

static inline void command_learn(struct probe_thread *self, const void *command)
{
    self->last_command = (uintptr_t)command;
    self->last_name = redis_command_name(self, command);
    self->last_kind = command_kind(command);
}

/* Tidying up after it takes time, too. arguments: -1 unknown. */
static inline bool command_is_large(int32_t arguments, uint64_t bytes)
{
    return (uint32_t)arguments > 64 || bytes > 4096;
}

/* A command of the outermost level was recorded, if there are more records than before. */
static inline void command_recorded(struct probe_thread *self, uint64_t written_before, bool large)
{
    self->next_written = self->shared.written;
    if (UNLIKELY(self->next_written == written_before || large))
        self->next_sequence = (uint64_t)NO_SEQUENCE;
}

/* known: redis_fields_known, a constant where this is inlined. */
static inline __attribute__((always_inline)) void command(struct probe_thread *self, void *client, int flags,
                                                          bool known)
{
#define FIELD(type, object, name, otherwise) \
    (known || ((object) && HAVE(name)) ? READ(type, object, OFFSET(name)) : (otherwise))
    uint64_t id = FIELD(uint64_t, client, client_id, 0);
    const void *command = FIELD(void *, client, client_cmd, NULL);
    if (UNLIKELY((uintptr_t)command != self->last_command || (!known && redis_checks_left)))
        command_learn(self, command);
    uint32_t name = self->last_name;
    uint8_t kind = self->last_kind;
    const void *db = FIELD(void *, client, client_db, NULL);
    int32_t number = db && (known || HAVE(db_id)) ? READ(int, db, OFFSET(db_id)) : -1;
    int32_t count = FIELD(int, client, client_argc, -1);
    uint64_t bytes = FIELD(uint64_t, client, client_argv_bytes, 0);
#undef FIELD
    uint8_t nesting = (uint8_t)self->command_depth++;
    /* What processCommand() has let in a moment ago: a client's number is never given again, and its
     * descriptor stays its own. */
    bool processed = LIKELY(id && id == self->command_client);
    int fd = processed ? self->command_fd : client_fd(client);
    uint64_t sequence = 0;
    if (LIKELY(nesting == 0)) {
        self->next_sequence = (uint64_t)NO_SEQUENCE;
        if (LIKELY(processed)) {
            sequence = self->command_sequence;
            self->next_sequence = sequence + 1;
        }
        self->next_db = (uintptr_t)db;
        self->next_db_number = number;
    }

    uint32_t depth = self->shared.depth;
    /* In a pipeline a command begins where the one before it ended: one look at the clock less for each, and
     * its parsing, some hundred ns, counts as its own. */
    bool follows = LIKELY(nesting == 0) && self->in_read && self->command_end_tsc;
    uint64_t start =
        span_open_at(self, follows ? self->command_end_tsc : ticks(), SONDE_EVENT_redis_command, id, name);
    sonde_orig_redis_command(client, flags);
    if (!span_close(self, depth))
        return;
    self->command_depth = nesting;
    uint64_t end = ticks();
    if (LIKELY(nesting == 0))
        self->command_end_tsc = end;
    else if (record_left_out(&self->shared, true))
        return;
    uint64_t written = self->shared.written;
    RECORD_OWN(self, redis_command, start, end, .client_id = id, .sequence = sequence, .bytes = bytes,
               .name = name, .fd = fd, .argument_count = count, .db = number, .kind = kind, .depth = nesting);
    if (LIKELY(nesting == 0))
        command_recorded(self, written, command_is_large(count, bytes));
}

static HOT __attribute__((noinline)) void command_known(void *client, int flags, struct probe_thread *self)
{
    command(self, client, flags, true);
}

/* Whether it follows another one in a pipeline that has all but a few fields in common with it. */
static inline bool command_is_behind(const struct probe_thread *self, const void *client)
{
    return self->read_client == client && self->command_sequence == self->next_sequence &&
           self->command_depth == 0 && self->next_db == READ(uint64_t, client, OFFSET(client_db));
}

/* It is recorded as ever: something else was recorded meanwhile, or it took too long for a short record. */
static __attribute__((noinline, cold)) void command_whole(struct probe_thread *self, uint64_t start,
                                                          uint64_t end,
                                                          const struct record_redis_command *command)
{
    uint64_t written = self->shared.written;
    RECORD_OWN(self, redis_command, start, end, .client_id = command->client_id,
               .sequence = command->sequence, .bytes = command->bytes, .name = command->name,
               .fd = command->fd, .argument_count = command->argument_count, .db = self->next_db_number,
               .kind = command->kind);
    self->next_sequence = command->sequence + 1;
    command_recorded(self, written, false);
}

static void command_behind_another(void *client, int flags, struct probe_thread *self);

/* Such a one: a short record is enough, if nothing else is recorded meanwhile. Nothing of the client is read
 * again afterwards; of its own the thread keeps in the open span what others may change. */
static HOT __attribute__((noinline)) void command_behind(void *client, int flags, struct probe_thread *self)
{
    struct sonde_thread *t = &self->shared;
    if (UNLIKELY(self->last_command != READ(uint64_t, client, OFFSET(client_cmd)))) {
        command_behind_another(client, flags, self);
        return;
    }
    uint64_t bytes = READ(uint64_t, client, OFFSET(client_argv_bytes));
    int32_t count = READ(int32_t, client, OFFSET(client_argc));
    uint64_t rest = short_command_rest(self->last_kind, count);
    uint32_t depth = t->depth;
    if (UNLIKELY(depth >= SONDE_OPEN_SPANS || command_is_large(count, bytes))) {
        command_known(client, flags, self);
        return;
    }
    uint64_t sequence = self->command_sequence;
    int32_t fd = self->command_fd;
    struct sonde_open_span *open = &t->open[depth];
    span_open_at(self, self->command_end_tsc, SONDE_EVENT_redis_command, self->command_client,
                 self->last_name);
    self->command_depth = 1;
    sonde_orig_redis_command(client, flags);
    if (probe_stale(self))
        return;
    uint64_t start = open->start_tsc, end = ticks(), took = end - start;
    span_close_own(self, depth);
    self->command_depth = 0;
    self->command_end_tsc = end;
    if (UNLIKELY(self->next_written != t->written || !short_command_fits(rest, bytes, took))) {
        command_whole(self, start, end,
                      &(struct record_redis_command){.client_id = open->argument,
                                                     .sequence = sequence,
                                                     .bytes = bytes,
                                                     .name = open->name,
                                                     .fd = fd,
                                                     .argument_count = (int32_t)(rest >> 2),
                                                     .kind = rest & 3});
        return;
    }
    if (WANTED(self, redis_command) &&
        record_short(self, end, SONDE_SHORT_redis_command, short_command_word(open->name, bytes),
                     rest | took << 16)) {
        self->next_sequence++;
        self->next_written++;
    }
}

/* The same, of another command than the one before. */
static __attribute__((noinline)) void command_behind_another(void *client, int flags,
                                                             struct probe_thread *self)
{
    command_learn(self, READ(void *, client, OFFSET(client_cmd)));
    command_behind(client, flags, self);
}

/* The first ones, those of a thread that has no state yet, and in builds that do not show where every field
 * is. */
static __attribute__((noinline, cold)) void command_checked(void *client, int flags)
{
    struct probe_thread *self = probe_thread();
    if (!self) {
        sonde_orig_redis_command(client, flags);
        return;
    }
    if (redis_checks_left)
        redis_check_command(client);
    else if (!redis_fields_known)
        redis_know_fields();
    command(self, client, flags, false);
}

HOT_HOOK(void, redis_command, void *client, int flags)
{
    struct probe_thread *self = probe_thread_claimed();
    if (UNLIKELY(!self || !redis_fields_known))
        command_checked(client, flags);
    else if (command_is_behind(self, client))
        command_behind(client, flags, self);
    else
        command_known(client, flags, self);
}

/* beforeSleep() writes what is pending client by client: one reply begins where the one before it ended. */
struct reply {
    uint64_t id, start;
    uint32_t depth;
    int fd;
    struct probe_bytes outer;
};

HOT static inline struct reply write_begins(struct probe_thread *self, const void *client)
{
    struct reply reply = {.depth = self->shared.depth};
    if (LIKELY(redis_fields_known)) {
        const void *connection = READ(void *, client, OFFSET(client_conn));
        reply.id = READ(uint64_t, client, OFFSET(client_id));
        reply.fd = connection ? READ(int, connection, OFFSET(conn_fd)) : -1;
    } else {
        reply.id = client_id(client);
        reply.fd = client_fd(client);
    }
    bool follows = self->in_before_sleep && self->write_end_tsc;
    reply.start = span_open_at(self, follows ? self->write_end_tsc : ticks(), SONDE_EVENT_redis_write_reply,
                               reply.id, 0);
    reply.outer = bytes_begin(&self->redis_out, reply.fd);
    return reply;
}

HOT static inline void write_ends(struct probe_thread *self, const struct reply *reply, bool waited)
{
    if (!span_close(self, reply->depth))
        return;
    self->write_end_tsc = ticks();
    self->handled_tsc = self->write_end_tsc;
    int32_t plain, wire = bytes_end(&self->redis_out, reply->outer, sonde_orig_redis_io_write, &plain);
    RECORD_OWN(self, redis_write_reply, reply->start, self->write_end_tsc, .client_id = reply->id,
               .bytes = plain, .wire_bytes = wire, .fd = reply->fd, .waited = waited);
}

/* The socket of a client that had not taken its whole reply has room again. */
HOOK(void, redis_write_handler, void *connection)
{
    struct probe_thread *self = probe_thread();
    if (self)
        self->in_write_handler = 1;
    sonde_orig_redis_write_handler(connection);
    if (self && !probe_stale(self))
        self->in_write_handler = 0;
}

HOT_HOOK(int, redis_write_reply, void *client, int handler_installed)
{
    struct probe_thread *self = probe_thread();
    if (!self)
        return sonde_orig_redis_write_reply(client, handler_installed);
    struct reply reply = write_begins(self, client);
    int result = sonde_orig_redis_write_reply(client, handler_installed);
    bool waited = sonde_orig_redis_write_handler ? self->in_write_handler : handler_installed == 1;
    write_ends(self, &reply, waited);
    return result;
}

/* A copy of the same that a compiler made: believed once its argument has proved to be a client. */
HOT_HOOK(int, redis_write_pending, void *client)
{
    struct probe_thread *self = probe_thread();
    if (!self || !redis_is_client(client))
        return sonde_orig_redis_write_pending(client);
    struct reply reply = write_begins(self, client);
    int result = sonde_orig_redis_write_pending(client);
    write_ends(self, &reply, false);
    return result;
}

/* The main thread's read ends where an I/O thread may begin. */
HOOK(int, redis_send_read, void *client)
{
    struct probe_thread *self = probe_thread_claimed();
    uint64_t now = self && self->in_read ? ticks() : 0;
    int refused = sonde_orig_redis_send_read(client);
    if (now && !refused) {
        self->handed_tsc = now;
        self->next_sequence = (uint64_t)NO_SEQUENCE;
    }
    return refused;
}

/* Valkey's returns whether it was freed. */
HOOK(long, redis_free_client, void *client)
{
    struct probe_thread *self = probe_thread();
    if (self) {
        uint64_t id = client_id(client);
        int fd = client_fd(client);
        RECORD(self, redis_free_client, 0, ticks(), .client_id = id, .fd = fd);
        descriptor_close(fd, id);
        if (self->read_client == client)
            self->read_client = NULL;
        self->next_sequence = (uint64_t)NO_SEQUENCE; /* that took time */
    }
    return sonde_orig_redis_free_client(client);
}

HOOK(int, redis_add_file_event, void *loop, int fd, int mask, void *handler, void *data)
{
    struct probe_thread *self = probe_thread();
    if (self)
        RECORD(self, redis_add_file_event, 0, ticks(), .handler = (uintptr_t)handler, .fd = fd, .mask = mask);
    return sonde_orig_redis_add_file_event(loop, fd, mask, handler, data);
}

HOOK(void, redis_delete_file_event, void *loop, int fd, int mask)
{
    struct probe_thread *self = probe_thread();
    if (self)
        RECORD(self, redis_delete_file_event, 0, ticks(), .fd = fd, .mask = mask);
    sonde_orig_redis_delete_file_event(loop, fd, mask);
}

HOT_HOOK(void, redis_before_sleep, void *loop)
{
    struct probe_thread *self = probe_thread();
    if (!self) {
        sonde_orig_redis_before_sleep(loop);
        return;
    }
    /* It follows the iteration before at once. */
    uint64_t start = self->iteration_end_tsc ? self->iteration_end_tsc : ticks();
    self->iteration_end_tsc = 0;
    self->in_before_sleep = 1;
    self->write_end_tsc = 0;
    sonde_orig_redis_before_sleep(loop);
    if (probe_stale(self))
        return;
    self->in_before_sleep = 0;
    uint64_t end = ticks();
    if (UNLIKELY(self->expired | self->expired_access)) /* no cycle was seen that would say so */
        redis_record_expired(self, end, end,
                             self->expire_seen ? SONDE_redis_cycle_fast : SONDE_redis_cycle_unseen);
    if (end - start > PHASE_MIN_TICKS)
        RECORD_OWN(self, redis_loop_phase, start, end, .phase = 0);
}

/* Valkey's is told how many descriptors are ready. */
HOT_HOOK(void, redis_after_sleep, void *loop, int ready)
{
    struct probe_thread *self = probe_thread();
    sonde_orig_redis_after_sleep(loop, ready);
    if (!self)
        return;
    self->phase_tsc = self->handled_tsc = ticks();
    self->reads = 0; /* those that came before the wait are none of the descriptors that are ready */
    self->loop = loop;
}

/* The span runs from the end of the wait (afterSleep) to the end of the iteration: of its last read, when it
 * was of nothing else (a timer's events count among those that are ready). */
HOT_HOOK(int, redis_process_events, void *loop, int flags)
{
    enum { DONT_WAIT = 4 }; /* from within something that takes long: more of it follows */
    struct probe_thread *self = probe_thread();
    if (!self)
        return sonde_orig_redis_process_events(loop, flags);
    uint32_t outer_reads = self->reads;
    self->phase_tsc = 0;
    self->reads = 0;
    self->loop = NULL;
    int ready = sonde_orig_redis_process_events(loop, flags);
    if (probe_stale(self))
        return ready;
    /* Of an iteration around this one, too: what is ready was overwritten. */
    self->loop = NULL;
    if (ready > 0 && self->phase_tsc) {
        uint64_t end = (uint32_t)ready == self->reads ? self->handled_tsc : ticks();
        RECORD_OWN(self, redis_loop_phase, self->phase_tsc, end, .ready = ready,
                   .phase = SONDE_redis_phase_process_events);
        self->iteration_end_tsc = flags & DONT_WAIT ? 0 : end;
    }
    self->reads = outer_reads;
    return ready;
}

/* Only what was put on the list is seen: clients leave it in a loop of the main thread that calls no
 * function. */
HOOK(int, redis_postpone_read, void *client)
{
    int postponed = sonde_orig_redis_postpone_read(client);
    struct probe_thread *self = postponed ? probe_thread() : NULL;
    if (self) {
        self->redis_in.asked = 1; /* it is known */
        RECORD(self, redis_pending_io, 0, ticks(), .client_id = client_id(client), .fd = client_fd(client),
               .list = 0, .added = 1);
    }
    return postponed;
}

HOOK(int, redis_ssl_read, void *ssl, void *buffer, int asked)
{
    struct probe_thread *self = probe_thread();
    if (!self || !sonde_config.redis.ssl_pending || !sonde_config.redis.ssl_get_rfd)
        return sonde_orig_redis_ssl_read(ssl, buffer, asked);
    int fd = ((int (*)(void *))sonde_config.redis.ssl_get_rfd)(ssl);
    uint32_t depth = self->shared.depth;
    uint64_t start = span_open(self, SONDE_EVENT_redis_ssl_read, (uint64_t)fd, 0);
    int got = sonde_orig_redis_ssl_read(ssl, buffer, asked);
    span_close(self, depth);
    int left = ((int (*)(void *))sonde_config.redis.ssl_pending)(ssl);
    if (!probe_stale(self))
        add_plain(&self->redis_in, got);
    RECORD(self, redis_ssl_read, start, ticks(), .asked = asked, .read = got, .left = left, .fd = fd);
    return got;
}
