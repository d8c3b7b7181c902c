/* Short records: the probe's hooks write them, sonde reads what they stand for. The stand-ins of the hooked
 * functions know what each record has to say. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "event/short_read.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/macro.h"
#include "collect/ring_reader.h"
#include "probe/probe.h"
#include "targets/node/probe_context.h"
#include "targets/node/probe_libuv.h"
#include "targets/redis/probe.h"
#include "test.h"

struct sonde_config sonde_config;
struct probe_live probe_live = {.attachment = 1, .original = 1};
struct sonde_shared *probe_shared;
struct probe_large probe_large;
__thread struct probe_self probe_self;

struct probe_thread *probe_thread_claim(void)
{
    return NULL;
}
static uint32_t served; /* the request whose operations are submitted */
uint32_t context_current(struct probe_thread *self, int fd)
{
    return served;
}

enum { SLOTS = 2, SMALL = 8192, LARGE = 256 << 10, LARGE_RINGS = 2 };

static struct ring_memory *rings;
static struct ring *ring;
static struct probe_thread *thread;
static unsigned seed;

static unsigned below(unsigned limit)
{
    return (unsigned)rand_r(&seed) % limit;
}

/* ---- what is expected ---- */

struct expected {
    enum sonde_event_id id;
    bool follows; /* it begins where the command before it ended */
    union {
        struct record_redis_command command;
        struct record_redis_read_query read;
    };
};
enum { EXPECTED = 20000 };
static struct expected expected[EXPECTED];
static size_t made, checked, unreadable;
static uint64_t command_end;

static struct expected *expect(enum sonde_event_id id)
{
    assert_true(made < EXPECTED);
    expected[made] = (struct expected){.id = id};
    return &expected[made++];
}

static void check_command(const struct expected *e, const struct ring_record *record)
{
    const struct record_redis_command *is = record->payload, *want = &e->command;
    assert_int_equal(is->client_id, want->client_id);
    assert_int_equal(is->sequence, want->sequence);
    assert_int_equal(is->bytes, want->bytes);
    assert_int_equal(is->name, want->name);
    assert_int_equal(is->fd, want->fd);
    assert_int_equal(is->argument_count, want->argument_count);
    assert_int_equal(is->db, want->db);
    assert_int_equal(is->kind, want->kind);
    assert_int_equal(is->depth, want->depth);
    if (e->follows)
        assert_int_equal(record->end_tsc - record->duration, command_end);
    if (!want->depth)
        command_end = record->end_tsc;
}

static void check_read(const struct expected *e, const struct ring_record *record)
{
    const struct record_redis_read_query *is = record->payload, *want = &e->read;
    assert_int_equal(is->client_id, want->client_id);
    assert_int_equal(is->used_memory, want->used_memory);
    assert_int_equal(is->query_buffer, want->query_buffer);
    assert_int_equal(is->fd, want->fd);
    assert_int_equal(is->bytes, want->bytes);
    assert_int_equal(is->wire_bytes, want->wire_bytes);
    if (e->follows)
        assert_int_equal(record->end_tsc, command_end);
}

/* Reads what there is and compares it with what is expected, in order. */
static void drain(void)
{
    struct ring_drain d;
    struct ring_record record;
    if (ring_drain_begin(ring, &d))
        while (ring_drain_next(&d, &record)) {
            if (record.id != SONDE_EVENT_redis_command && record.id != SONDE_EVENT_redis_read_query)
                continue;
            assert_true(checked < made);
            const struct expected *e = &expected[checked++];
            assert_int_equal(record.id, e->id);
            if (e->id == SONDE_EVENT_redis_command)
                check_command(e, &record);
            else
                check_read(e, &record);
        }
    unreadable += d.unreadable;
    ring_drain_end(&d);
}

/* ---- a Redis server ---- */

#define ORIGINAL(result, name, ...)                  \
    extern result (*sonde_orig_##name)(__VA_ARGS__); \
    extern result sonde_wrap_##name(__VA_ARGS__);    \
    static result name(__VA_ARGS__)

enum { CLIENTS = 3, DATABASES = 2, COMMANDS = 3, EXEC = 2 };
static int databases[DATABASES] = {0, 7};
static char texts[COMMANDS][8] = {"\x18get", "\x18set",
                                  "\x20"
                                  "exec"}; /* sds strings of type 0 */
static struct command {
    const char *name;
    uint64_t flags;
} commands[COMMANDS] = {{texts[0] + 1, 2}, {texts[1] + 1, 1}, {texts[2] + 1, 0}};
static const uint8_t KINDS[COMMANDS] = {SONDE_redis_kind_read, SONDE_redis_kind_write,
                                        SONDE_redis_kind_other};
static struct client {
    uint64_t id;
    struct connection *connection;
    int *db;
    const struct command *command;
    const char *query_buffer;
    int32_t argc;
    uint64_t argument_bytes;
    uint64_t executed; /* its commands, those too that were rejected */
} clients[CLIENTS], unasked;
static struct connection {
    void *client;
    int fd;
} connections[CLIENTS];
static char queries[2][8] = {"\0\0", "\x28quer"}; /* an empty one, and one of five bytes */

static uint32_t nesting, reading; /* commands and reads that are going on */
static bool in_read, ended;       /* as the hooks see it: reads within a command end the outer one */
static bool last_ends_read;       /* nothing takes time behind the newest command */
static unsigned reads;            /* that were made */
static int left;                  /* commands in the query that is read */
static bool at_random, drains;

static void read_some(struct client *client, int count);

/* What a command's record says that begins now. */
static struct expected command_expected(const struct client *client)
{
    struct expected e = {.id = SONDE_EVENT_redis_command, .follows = nesting == 0 && in_read && ended};
    e.command = (struct record_redis_command){.client_id = client->id,
                                              .sequence = nesting ? 0 : client->executed,
                                              .bytes = client->argument_bytes,
                                              .name = redis_command_name(thread, client->command),
                                              .fd = client->connection->fd,
                                              .argument_count = client->argc,
                                              .db = *client->db,
                                              .kind = KINDS[client->command - commands],
                                              .depth = (uint8_t)nesting};
    return e;
}

static void choose_arguments(struct client *client)
{
    static const uint64_t BYTES[] = {0, 40, UINT32_MAX, 1ull << 32, 1ull << 39};
    static const int32_t COUNTS[] = {1, 2, (1 << 14) - 1, 1 << 14, 1 << 20};
    client->argument_bytes = BYTES[below(10) ? below(3) : below(ARRAY_SIZE(BYTES))];
    client->argc = COUNTS[below(10) ? below(3) : below(ARRAY_SIZE(COUNTS))];
    if (below(8) == 0)
        client->db = &databases[below(DATABASES)];
}

ORIGINAL(void, redis_command, void *c, int flags)
{
    struct client *client = c;
    struct expected e = command_expected(client);
    bool large = e.command.argument_count > 64 || e.command.bytes > 4096; /* what it was given is freed */
    unsigned reads_before = reads;
    nesting++;
    if (at_random && client->command == &commands[EXEC] && nesting < 3)
        for (unsigned inner = below(4); inner; inner--) {
            client->command = &commands[below(COMMANDS)];
            choose_arguments(client);
            sonde_wrap_redis_command(client, 0);
        }
    if (at_random && below(12) == 0) /* something else is recorded within it */
        RECORD(thread, redis_add_file_event, 0, ticks(), .fd = 5);
    if (at_random && below(40) == 0 && nesting < 3 && reading < 3) /* it lets others be served */
        read_some(&clients[below(CLIENTS)], (int)below(4));
    nesting--;
    if (drains)
        drain();
    *expect(SONDE_EVENT_redis_command) = e;
    if (nesting == 0) {
        ended = true;
        last_ends_read = client != &unasked && !large && reads == reads_before;
    }
}

ORIGINAL(int, redis_process_command, void *c)
{
    struct client *client = c;
    client->executed++;
    if (at_random && below(12) == 0) { /* it is refused */
        last_ends_read = false;
        if (below(2))
            RECORD(thread, redis_answered, 0, ticks(), .client_id = client->id);
        return 0;
    }
    sonde_wrap_redis_command(client, 0);
    return 0;
}

ORIGINAL(long, redis_io_read, int fd, void *buffer, size_t size)
{
    return (long)size;
}

ORIGINAL(void, redis_read_query, void *at)
{
    struct client *client = ((struct connection *)at)->client;
    static const size_t SIZES[] = {1, 700, (1 << 24) - 1, 1 << 24};
    size_t size = SIZES[at_random ? below(ARRAY_SIZE(SIZES)) : 1];
    struct expected e = {.id = SONDE_EVENT_redis_read_query};
    e.read = (struct record_redis_read_query){.client_id = client->id,
                                              .query_buffer = client->query_buffer == queries[1] + 1 ? 5 : 0,
                                              .fd = client->connection->fd,
                                              .bytes = (int32_t)size,
                                              .wire_bytes = (int32_t)size};
    sonde_wrap_redis_io_read(client->connection->fd, NULL, size);
    for (int i = left; i; i--) {
        if (at_random) {
            client->command = &commands[below(COMMANDS)];
            choose_arguments(client);
        }
        sonde_wrap_redis_process_command(client);
        if (at_random && below(20) == 0) { /* one that was blocked is let go */
            struct client *other = &clients[below(CLIENTS)];
            other->command = &commands[below(COMMANDS)];
            choose_arguments(other);
            sonde_wrap_redis_process_command(other);
        }
        if (at_random && below(20) == 0) /* one that nobody asked for */
            sonde_wrap_redis_command(&unasked, 0);
    }
    e.follows = ended && last_ends_read;
    *expect(SONDE_EVENT_redis_read_query) = e;
}

static uint64_t memory;
static size_t used_memory(void)
{
    if (at_random)
        memory = below(4) ? below(1000) << 20 : (1ull << 40) - below(2);
    /* It is asked after the read. */
    expected[made - 1].read.used_memory = memory;
    return memory;
}

static void read_some(struct client *client, int count)
{
    int outer = left;
    reading++;
    reads++;
    left = count;
    in_read = true;
    ended = false;
    client->query_buffer = queries[at_random && below(6) == 0] + 1;
    sonde_wrap_redis_read_query(client->connection);
    left = outer;
    reading--;
    in_read = false;
}

#define AT(name, object, field) \
    (sonde_config.redis.name = (int32_t)((char *)&(object).field - (char *)&(object)))

static void prepare_redis(void)
{
    sonde_config_forget(&sonde_config);
    for (int i = 0; i < CLIENTS; i++) {
        connections[i] = (struct connection){.client = &clients[i], .fd = 10 + i};
        clients[i] = (struct client){.id = 100 + (uint64_t)i,
                                     .connection = &connections[i],
                                     .db = &databases[0],
                                     .command = &commands[0],
                                     .argc = 2,
                                     .argument_bytes = 40};
        descriptors[10 + i] = (struct descriptor){.key = clients[i].id, .generation = 1, .known_peer = 1};
    }
    unasked = (struct client){
        .id = 99, .connection = &connections[0], .db = &databases[0], .argc = 1, .command = &commands[1]};
    AT(conn_fd, connections[0], fd), AT(conn_private, connections[0], client), AT(client_id, clients[0], id),
        AT(client_conn, clients[0], connection), AT(client_db, clients[0], db),
        sonde_config.redis.db_id = 0, AT(client_cmd, clients[0], command),
        AT(client_querybuf, clients[0], query_buffer), AT(command_name, commands[0], name),
        AT(command_flags, commands[0], flags), AT(client_argc, clients[0], argc),
        AT(client_argv_bytes, clients[0], argument_bytes);
    sonde_config.redis.used_memory = (uintptr_t)used_memory;
    redis_checks_left = 0;                                   /* as after the first calls */
    redis_query_buffer = sonde_config.redis.client_querybuf; /* it was seen to be one */
    redis_know_fields();
    sonde_orig_redis_command = redis_command, sonde_orig_redis_process_command = redis_process_command,
    sonde_orig_redis_read_query = redis_read_query, sonde_orig_redis_io_read = redis_io_read;
}

static int set_up(void **state)
{
    if (ring_memory_new(&(struct ring_geometry){SLOTS, SMALL, LARGE_RINGS, LARGE}, &rings) < 0)
        return -1;
    char *shared =
        mmap(NULL, ring_memory_size(rings), PROT_READ | PROT_WRITE, MAP_SHARED, ring_memory_fd(rings), 0);
    if (shared == MAP_FAILED)
        return -1;
    probe_shared = (struct sonde_shared *)shared;
    probe_large = (struct probe_large){shared + probe_shared->large_at, LARGE, LARGE_RINGS};
    thread = (struct probe_thread *)(shared + SONDE_PAGE);
    ring = ring_memory_slot(rings, 0);
    record_into(&thread->shared, (char *)thread + SONDE_PAGE, SMALL);
    thread->stream_fd = -1;
    probe_self = (struct probe_self){.thread = thread, .attachment = 1};
    names_forget();
    made = checked = unreadable = nesting = reading = 0;
    in_read = ended = at_random = drains = false;
    seed = 1;
    memory = 12345;
    prepare_redis();
    return 0;
}

static int tear_down(void **state)
{
    size_t size = ring_memory_size(rings);
    ring_memory_free(rings);
    return munmap(probe_shared, size);
}

static void all_was_read(void)
{
    drain();
    assert_int_equal(checked, made);
    assert_int_equal(unreadable, 0);
}

/* ---- Redis ---- */

enum { WORDS = 8, SHORT = 2 * WORDS, COMMAND = sizeof(struct sonde_record) + 48 };

static void a_pipeline_takes_two_words_a_command(void **state)
{
    read_some(&clients[0], 1); /* names it */
    uint64_t before = thread->shared.head;
    read_some(&clients[0], 16);
    assert_int_equal(thread->shared.head - before, COMMAND + 15 * SHORT + SHORT);
    all_was_read();
    assert_int_equal(made, 19);
}

/* Whatever is executed, refused, nested and recorded in between, of whatever size. */
static void whatever_is_executed(void **state)
{
    at_random = true;
    for (seed = 1; seed < 400; seed++) {
        unsigned read = seed;
        for (int i = 0; i < 6; i++) {
            read_some(&clients[below(CLIENTS)], (int)below(20));
            all_was_read();
        }
        made = checked = 0;
        seed = read;
    }
}

/* As a live view does, or what is left of a process that was killed. */
static void a_ring_is_read_between_any_two_records(void **state)
{
    at_random = drains = true;
    for (unsigned i = 0; i < 600; i++) {
        read_some(&clients[below(CLIENTS)], (int)below(20));
        all_was_read();
        made = checked = 0;
    }
}

/* Of those that come after a loss none takes over what was lost. */
static void what_is_lost_is_counted_and_nothing_else_is_wrong(void **state)
{
    probe_shared->large_used = LARGE_RINGS; /* others have them */
    read_some(&clients[0], 1);
    all_was_read();
    for (int i = 0; i < 300; i++) {
        made = checked = 0;
        uint64_t lost = thread->shared.lost_full;
        for (int fill = 0; fill < SMALL - 40 * SHORT && thread->shared.lost_full == lost; fill += 24)
            RECORD(thread, redis_loop_phase, 0, ticks(), .ready = 1);
        lost = thread->shared.lost_full;
        read_some(&clients[0], 30 + i % 30);
        lost = thread->shared.lost_full - lost;
        /* What fits is the first; of the rest some find room again: none here, for it is not read meanwhile.
         */
        made -= (size_t)lost;
        all_was_read();
        made = checked = 0;
        read_some(&clients[0], 3); /* with numbers that go on */
        all_was_read();
    }
    assert_true(thread->shared.lost_full > 0);
}

/* What was switched off leaves no trace in what is recorded after it. */
static void what_is_switched_off_is_no_basis(void **state)
{
    uint32_t family = sonde_family_bit(SONDE_EVENT_redis_command);
    read_some(&clients[0], 2);
    all_was_read();
    for (int i = 0; i < 3; i++) {
        thread->shared.families_off = family;
        size_t before = made;
        read_some(&clients[0], 3);
        made = before;
        *expect(SONDE_EVENT_redis_read_query) = expected[before + 3]; /* they alone were left out */
        expected[before].follows = false;
        all_was_read();
        thread->shared.families_off = 0;
        read_some(&clients[0], 3);
        all_was_read();
    }
}

/* ---- the reader alone ---- */

static void put(uint64_t word, uint64_t meta)
{
    uint64_t *at = (uint64_t *)(thread->shared.ring + thread->shared.head);
    at[0] = word;
    at[1] = meta;
    thread->shared.head += sizeof(struct sonde_record);
}

static uint64_t count_records(void)
{
    struct ring_drain d;
    struct ring_record record;
    uint64_t count = 0;
    for (bool more = ring_drain_begin(ring, &d); more && ring_drain_next(&d, &record);)
        count++;
    unreadable += d.unreadable;
    ring_drain_end(&d);
    return count;
}

static void one_that_is_behind_nothing_is_refused(void **state)
{
    enum { TIMELESS = 4 };
    for (unsigned id = SONDE_SHORT_FIRST; id < 256; id++)
        if (short_words(id) == 2)
            put(0, short_meta((enum sonde_short)id, 2, 0));
    assert_int_equal(count_records(), 0);
    assert_int_equal(unreadable, TIMELESS);
    RECORD(thread, redis_loop_phase, 0, ticks(), .ready = 1);
    put(0, short_meta(SONDE_SHORT_redis_command, 2, 0));
    RECORD(thread, node_callback, 0, ticks(), .async_id = 1);
    put(0, short_meta(SONDE_SHORT_redis_read_query, 2, 0));
    put(0, short_meta(SONDE_SHORT_uv_done, 2, 0)); /* what was refused is no basis either */
    assert_int_equal(count_records(), 2);
    assert_int_equal(unreadable, TIMELESS + 3);
    RECORD(thread, redis_command, 0, ticks(), .client_id = 1);
    put(0, short_meta(SONDE_SHORT_redis_command, 2, 0));
    put(0, short_meta(SONDE_SHORT_redis_read_query, 2, 0));
    put(0, short_meta(SONDE_SHORT_redis_command, 2, 0));
    assert_int_equal(count_records(), 3);
    assert_int_equal(unreadable, TIMELESS + 4);
}

static void one_that_ends_later_than_now_is_refused(void **state)
{
    RECORD(thread, redis_command, 0, ticks(), .client_id = 1);
    put(0, short_meta(SONDE_SHORT_redis_command, 2, (uint64_t)UINT32_MAX << 16));
    assert_int_equal(count_records(), 1);
    assert_int_equal(unreadable, 1);
}

static void one_of_another_size_is_refused(void **state)
{
    RECORD(thread, redis_command, 0, ticks(), .client_id = 1);
    put(0, SONDE_SHORT_redis_command | 3 << 8);
    put(0, 0);
    assert_int_equal(count_records(), 1);
    assert_int_equal(unreadable, 1);
    put(ticks(), SONDE_SHORT_node_callback | 2 << 8);
    assert_int_equal(count_records(), 0);
    assert_int_equal(unreadable, 2);
}

/* ---- Node ---- */

static char request[512] __attribute__((aligned(16)));
static enum {
    CALLS_NOTHING,
    CALLS_BACK,
    CALLS_TWICE,
    CALLS_AND_RECORDS,
    CALLS_UNRECORDED,
    COMPLETIONS
} completion;

static void fs_work(void *work)
{
}
ORIGINAL(void, uv_submit, void *loop, void *work, int kind, void *function, void *done)
{
}

static void call_back(void)
{
    uint64_t start = boundary(thread, BOUNDARY_COMPLETION), end = ticks();
    if (completion == CALLS_UNRECORDED)
        thread->shared.families_off = sonde_family_bit(SONDE_EVENT_node_callback);
    if (WANTED(thread, node_callback) &&
        record_short_timed(thread, end, SONDE_SHORT_node_callback, short_resource_word(7, 6), end - start))
        thread->callback_start = start;
    thread->shared.families_off = 0;
    boundary_is(thread, BOUNDARY_CALLBACK, end);
}

ORIGINAL(void, uv_fs_done, void *work, int status)
{
    if (completion != CALLS_NOTHING)
        call_back();
    if (completion == CALLS_TWICE)
        call_back();
    if (completion == CALLS_AND_RECORDS)
        RECORD(thread, js_settled, 0, ticks(), .call = 1);
}

/* Resources and callbacks, in all their bits; what is larger has an ordinary record (test_boundary). */
static void small_numbers_take_three_words(void **state)
{
    static const uint32_t NUMBERS[] = {0, 1, 1u << 31, UINT32_MAX};
    struct ring_drain d;
    struct ring_record record;
    for (size_t a = 0; a < ARRAY_SIZE(NUMBERS); a++)
        for (size_t t = 0; t < ARRAY_SIZE(NUMBERS); t++) {
            uint64_t now = ticks(), word = short_resource_word(NUMBERS[a], NUMBERS[t]),
                     took = a ? 5 : (1ull << 48) - 1;
            assert_true(short_callback_fits(NUMBERS[a], NUMBERS[t], took));
            record_short_timed(thread, now, SONDE_SHORT_node_async_init, word, NUMBERS[t]);
            record_short_timed(thread, now + 1, SONDE_SHORT_node_callback, word, took);
            assert_int_not_equal(ring_drain_begin(ring, &d), 0);
            assert_true(ring_drain_next(&d, &record));
            const struct record_node_async_init *init = record.payload;
            assert_int_equal(record.id, SONDE_EVENT_node_async_init);
            assert_int_equal(record.end_tsc, now);
            assert_int_equal(init->async_id, NUMBERS[a]);
            assert_int_equal(init->trigger_id, NUMBERS[t]);
            assert_int_equal(init->type, NUMBERS[t]);
            assert_true(ring_drain_next(&d, &record));
            const struct record_node_callback *callback = record.payload;
            assert_int_equal(record.id, SONDE_EVENT_node_callback);
            assert_int_equal(record.end_tsc, now + 1);
            assert_int_equal(record.duration, took);
            assert_int_equal(callback->async_id, NUMBERS[a]);
            assert_int_equal(callback->trigger_id, NUMBERS[t]);
            assert_int_equal(callback->function, 0);
            assert_false(ring_drain_next(&d, &record));
            ring_drain_end(&d);
        }
    assert_false(short_resource_fits(1ull << 32, 0));
    assert_false(short_resource_fits(0, 1ull << 32));
    assert_false(short_callback_fits(0, 0, 1ull << 48));
}

static void next_record(struct ring_drain *d, enum sonde_event_id id, struct ring_record *ret_record)
{
    assert_true(ring_drain_next(d, ret_record));
    assert_int_equal(ret_record->id, id);
}

static void begin_operation(int kind, int fd)
{
    *(int *)(void *)(request + UV_REQ_TYPE) = UV_TYPE_FS;
    *(int *)(void *)(request + UV_FS_TYPE) = kind;
    *(int *)(void *)(request + UV_FS_FILE) = fd;
    sonde_config.node.uv_fs_work = (uintptr_t)fs_work;
    sonde_orig_uv_submit = uv_submit;
    sonde_orig_uv_fs_done = uv_fs_done;
}

static void a_submission_behind_its_resource(void **state)
{
    static const int FDS[] = {-1, 0, 20, 65534, 65535, INT32_MAX};
    static const uint32_t SERVED[] = {0, 1, 77, SONDE_CONTEXT_LOST};
    struct ring_drain d;
    struct ring_record record;
    for (size_t f = 0; f < ARRAY_SIZE(FDS); f++)
        for (size_t s = 0; s < ARRAY_SIZE(SERVED); s++)
            for (int held = 0; held < 2; held++) {
                int kind = FDS[f] < 0 ? SONDE_uv_kind_fs_open : SONDE_uv_kind_fs_read;
                served = SERVED[s];
                begin_operation(kind, FDS[f]);
                uint64_t before = thread->shared.head;
                if (held)
                    record_short_later(thread, SONDE_SHORT_node_async_init, short_resource_word(7, 6), 5);
                sonde_wrap_uv_submit(NULL, request + UV_FS_WORK, 1, (void *)fs_work, NULL);
                if (held && FDS[f] < 65535)
                    assert_int_equal(thread->shared.head - before, HELD_BYTES + SHORT);
                assert_int_not_equal(ring_drain_begin(ring, &d), 0);
                uint64_t made_at = 0;
                if (held) {
                    next_record(&d, SONDE_EVENT_node_async_init, &record);
                    made_at = record.end_tsc;
                }
                next_record(&d, SONDE_EVENT_uv_submit, &record);
                const struct record_uv_submit *is = record.payload;
                assert_ptr_equal(is->request, request + UV_FS_WORK);
                assert_int_equal(is->fd, FDS[f]);
                assert_int_equal(is->context, SERVED[s]);
                assert_int_equal(is->kind, kind);
                if (held)
                    assert_int_equal(record.end_tsc, made_at);
                assert_false(ring_drain_next(&d, &record));
                ring_drain_end(&d);
            }
}

/* Drains it: the completion, and how many callbacks there were; *ret_last is the last one. */
static int read_completion(struct ring_record *ret_done, struct record_uv_done *ret_fields,
                           struct ring_record *ret_last)
{
    struct ring_drain d;
    struct ring_record record;
    int callbacks = 0;
    assert_int_not_equal(ring_drain_begin(ring, &d), 0);
    while (ring_drain_next(&d, &record)) {
        if (record.id == SONDE_EVENT_node_callback) {
            *ret_last = record;
            callbacks++;
        }
        if (record.id == SONDE_EVENT_uv_done) {
            *ret_done = record;
            memcpy(ret_fields, record.payload, sizeof(*ret_fields));
        }
    }
    assert_int_equal(d.unreadable, 0);
    ring_drain_end(&d);
    return callbacks;
}

/* Only where nothing else began or ended with it. */
static void a_completion_behind_its_callback(void **state)
{
    static const int CALLBACKS[] = {0, 1, 2, 1, 0};
    for (int status = -1; status < 1; status++)
        for (completion = CALLS_NOTHING; completion < COMPLETIONS; completion++) {
            struct ring_record done = {0}, callback = {0};
            struct record_uv_done is;
            begin_operation(SONDE_uv_kind_fs_read, 3);
            RECORD(thread, node_callback, 0, ticks(), .async_id = 1); /* of something before */
            drain();
            uint64_t before = thread->shared.head, begins = ticks();
            sonde_wrap_uv_fs_done(request + UV_FS_WORK, status);
            bool is_short = thread->shared.head - before == HELD_BYTES + SHORT;
            assert_int_equal(is_short, completion == CALLS_BACK && !status);
            assert_int_equal(read_completion(&done, &is, &callback), CALLBACKS[completion]);
            assert_int_equal(done.id, SONDE_EVENT_uv_done);
            assert_ptr_equal(is.request, request + UV_FS_WORK);
            assert_int_equal(is.status, status);
            assert_int_equal(is.kind, SONDE_uv_kind_fs_read);
            assert_true(done.end_tsc - done.duration >= begins);
            if (completion == CALLS_BACK)
                assert_int_equal(done.duration, callback.duration);
            if (completion == CALLS_BACK || completion == CALLS_TWICE)
                assert_int_equal(done.end_tsc, callback.end_tsc);
            if (completion == CALLS_TWICE)
                assert_true(done.duration > callback.duration);
            if (completion == CALLS_AND_RECORDS)
                assert_true(done.end_tsc > callback.end_tsc);
        }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_pipeline_takes_two_words_a_command),    T(whatever_is_executed),
        T(a_ring_is_read_between_any_two_records),  T(what_is_lost_is_counted_and_nothing_else_is_wrong),
        T(what_is_switched_off_is_no_basis),        T(one_that_is_behind_nothing_is_refused),
        T(one_that_ends_later_than_now_is_refused), T(one_of_another_size_is_refused),
        T(small_numbers_take_three_words),          T(a_submission_behind_its_resource),
        T(a_completion_behind_its_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
