/* Where two things share one reading of the clock, and where they must not: an interval that somebody else's
 * work falls into would be told as slow. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/probe_carried.h"
#include "targets/node/probe_context.h"
#include "targets/node/probe_libuv.h"
#include "targets/node/probe.h"
#include "targets/redis/probe.h"

#include "base/macro.h"
#include "probe_in_test.h"

/* What the hooks ask of the context: nobody is served. */
uint32_t context_current(struct probe_thread *self, int fd)
{
    return 0;
}
uint32_t context_new_request(void)
{
    return 0;
}
uint32_t context_new_shared(struct probe_thread *self, uint64_t stream)
{
    return 0;
}
void context_parsed(struct probe_thread *self, bool carried)
{
}
void context_collected(struct probe_thread *self)
{
}
struct carried *carried_own(void)
{
    return NULL;
}
void carried_closing(struct carried *v, struct probe_thread *self, const struct probe_callback *callback)
{
}
void carried_closed(struct carried *v, const struct probe_callback *callback, bool outermost)
{
}

static struct probe_thread *thread;

static int set_up(void **state)
{
    (void)state;
    sonde_config_forget(&sonde_config);
    thread = make_thread(1 << 16);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(thread);
    return 0;
}

/* So long that any phase is worth a record. */
static void spend_time(void)
{
    for (uint64_t until = ticks() + 50000; ticks() < until;)
        ;
}

#define ORIGINAL(result, name, ...)                  \
    extern result (*sonde_orig_##name)(__VA_ARGS__); \
    extern result sonde_wrap_##name(__VA_ARGS__);    \
    static result name(__VA_ARGS__)

/* ---- Redis ---- */

enum {
    AE_ALL = 27,
    AE_FROM_WITHIN = 29
}; /* aeMain's flags; processEventsWhileBlocked()'s, with AE_DONT_WAIT */
static struct {
    void *client; /* the connection is its own client, whose number is its descriptor's */
    int fd, arguments;
} connections[] = {{.client = &connections[0], .fd = 8},
                   {.client = &connections[1], .fd = 9},
                   {.client = &connections[2], .fd = 10}};
static struct {
    void *other;
    struct redis_fired *fired;
} event_loop;
enum { READS = 3 };
static int ready, slow_timer, nested;
/* Descriptors that are ready; what takes time behind the read of the first. */
static struct redis_fired fired[READS];
static enum { NOTHING, TIDYING, REJECTED, WRITING, HANDED } behind;

ORIGINAL(void, redis_command, void *client, int flags)
{
    if (nested) {
        nested = 0;
        extern int sonde_wrap_redis_process_events(void *, int);
        sonde_wrap_redis_process_events(&event_loop, AE_FROM_WITHIN);
        spend_time(); /* the command goes on */
        sonde_wrap_redis_process_events(&event_loop, AE_FROM_WITHIN);
    }
}
static int rejects;
ORIGINAL(int, redis_process_command, void *client)
{
    if (!rejects)
        sonde_wrap_redis_command(client, 0);
    return 0;
}
ORIGINAL(int, redis_send_read, void *client)
{
    return 0;
}
ORIGINAL(long, redis_io_read, int fd, void *buffer, size_t size)
{
    return 40;
}
ORIGINAL(int, redis_write_reply, void *client, int installed)
{
    spend_time();
    return 0;
}
ORIGINAL(void, redis_read_query, void *at)
{
    bool first = at == &connections[0];
    if (first && behind == HANDED) {
        sonde_wrap_redis_send_read(at);
        spend_time();
        return;
    }
    sonde_wrap_redis_io_read(((const int *)at)[2], NULL, 0);
    sonde_wrap_redis_process_command(at);
    if (first && behind == TIDYING)
        spend_time();
    if (first && behind == REJECTED) {
        rejects = 1;
        sonde_wrap_redis_process_command(at);
        spend_time();
        rejects = 0;
    }
}
ORIGINAL(void, redis_before_sleep, void *loop)
{
    spend_time();
}
ORIGINAL(void, redis_after_sleep, void *loop, int events)
{
}
ORIGINAL(int, redis_process_events, void *loop, int flags)
{
    sonde_wrap_redis_before_sleep(loop);
    sonde_wrap_redis_after_sleep(loop, 1);
    for (int i = 0; i < MAX(ready, 1); i++) {
        bool reads = fired[i].fd >= 0;
        if (reads)
            sonde_wrap_redis_read_query(&connections[fired[i].fd - connections[0].fd]);
        else
            spend_time();
        if (reads && fired[i].fd == connections[0].fd && behind == WRITING)
            sonde_wrap_redis_write_reply(&connections[0], 1);
    }
    if (slow_timer)
        spend_time();
    return ready + slow_timer;
}

static void prepare_redis(void)
{
#define OFFSET_OF(field) ((int32_t)((char *)&connections[0].field - (char *)&connections[0]))
    sonde_config.redis.conn_private = sonde_config.redis.client_conn = OFFSET_OF(client);
    sonde_config.redis.conn_fd = OFFSET_OF(fd);
    sonde_config.redis.client_id = OFFSET_OF(fd); /* and its arguments, above it */
    sonde_config.redis.client_argc = OFFSET_OF(arguments);
    sonde_config.redis.client_argv_bytes = SONDE_NO_OFFSET;
    sonde_config.redis.loop_fired = (int32_t)((char *)&event_loop.fired - (char *)&event_loop);
    redis_checks_left = 0;
    event_loop.fired = fired;
    for (int i = 0; i < READS; i++) {
        connections[i].arguments = 2;
        fired[i] = (struct redis_fired){.fd = connections[i].fd, .mask = 1};
        descriptors[connections[i].fd] = (struct descriptor){
            .key = (uint64_t)connections[i].fd | 2ull << 32, .generation = 1, .known_peer = 1};
    }
    sonde_orig_redis_write_reply = redis_write_reply;
    sonde_orig_redis_send_read = redis_send_read;
    sonde_orig_redis_io_read = redis_io_read;
    behind = NOTHING;
    sonde_orig_redis_command = redis_command;
    sonde_orig_redis_process_command = redis_process_command;
    sonde_orig_redis_read_query = redis_read_query;
    sonde_orig_redis_before_sleep = redis_before_sleep;
    sonde_orig_redis_after_sleep = redis_after_sleep;
    sonde_orig_redis_process_events = redis_process_events;
    ready = 1;
    slow_timer = nested = 0;
}

/* The next record of that event: its start and end. */
static void next_span(enum sonde_event_id id, uint64_t *ret_start, uint64_t *ret_end)
{
    const struct sonde_record *record = (const struct sonde_record *)expect_record(thread, id) - 1;
    *ret_end = record->end_tsc;
    *ret_start = record->end_tsc - (record->meta >> 16);
}

static void an_iteration_ends_with_its_last_read(void **state)
{
    uint64_t command[2], phase[2], before[2];
    prepare_redis();
    sonde_wrap_redis_process_events(&event_loop, AE_ALL);
    sonde_wrap_redis_process_events(&event_loop, AE_ALL);
    next_span(SONDE_EVENT_redis_command, &command[0], &command[1]);
    next_span(SONDE_EVENT_redis_loop_phase, &phase[0], &phase[1]);
    assert_int_equal(phase[1], command[1]);
    next_span(SONDE_EVENT_redis_loop_phase, &before[0], &before[1]);
    assert_int_equal(before[0], phase[1]);
    assert_true(before[1] - before[0] >= 50000);
}

static void what_a_timer_does_belongs_to_the_iteration(void **state)
{
    uint64_t command[2], phase[2];
    prepare_redis();
    slow_timer = 1; /* a read and a timer */
    sonde_wrap_redis_process_events(&event_loop, AE_ALL);
    next_span(SONDE_EVENT_redis_command, &command[0], &command[1]);
    next_span(SONDE_EVENT_redis_loop_phase, &phase[0], &phase[1]);
    assert_true(phase[1] - command[1] >= 50000);
}

/* A script that lets others be served in between goes on between two iterations: its time is no phase's. */
static void iterations_within_a_command_stand_alone(void **state)
{
    uint64_t inner[2], before[2];
    prepare_redis();
    nested = 1;
    sonde_wrap_redis_process_events(&event_loop, AE_ALL);
    next_span(SONDE_EVENT_redis_loop_phase, &before[0], &before[1]); /* before the outer wait */
    next_span(SONDE_EVENT_redis_loop_phase, &before[0], &before[1]); /* before the first inner one */
    next_span(SONDE_EVENT_redis_loop_phase, &inner[0], &inner[1]);
    next_span(SONDE_EVENT_redis_loop_phase, &before[0], &before[1]); /* before the second */
    assert_true(before[0] - inner[1] >= 50000);
}

/* The starts and ends of all reads and commands of an iteration of READS, and when it began. */
struct reads {
    uint64_t read[READS][2], command[READS][2], phase[2];
};

static struct reads iterate(void)
{
    struct reads reads;
    ready = READS;
    sonde_wrap_redis_process_events(&event_loop, AE_ALL);
    for (int i = 0, n = 0; i < READS; i++)
        if (fired[i].fd >= 0) {
            next_span(SONDE_EVENT_redis_command, &reads.command[n][0], &reads.command[n][1]);
            next_span(SONDE_EVENT_redis_read_query, &reads.read[n][0], &reads.read[n][1]);
            n++;
        }
    next_span(SONDE_EVENT_redis_loop_phase, &reads.phase[0], &reads.phase[1]);
    return reads;
}

static void a_read_begins_where_the_one_before_ended(void **state)
{
    prepare_redis();
    struct reads reads = iterate();
    assert_int_equal(reads.read[0][0], reads.phase[0]);
    for (int i = 0; i < READS; i++)
        assert_int_equal(reads.read[i][1], reads.command[i][1]);
    for (int i = 1; i < READS; i++)
        assert_int_equal(reads.read[i][0], reads.read[i - 1][1]);
    sonde_config.redis.loop_fired = SONDE_NO_OFFSET; /* it is not known what is ready */
    reads = iterate();
    assert_true(reads.read[0][0] > reads.phase[0]);
    for (int i = 1; i < READS; i++)
        assert_true(reads.read[i][0] > reads.read[i - 1][1]);
}

static void what_is_handled_between_reads_parts_them(void **state)
{
    prepare_redis();
    fired[1].fd = -1; /* no client's */
    struct reads reads = iterate();
    assert_int_equal(reads.read[0][0], reads.phase[0]);
    assert_true(reads.read[1][0] - reads.read[0][1] >= 50000);
    fired[1].fd = connections[1].fd;
    fired[0].fd = -1;
    reads = iterate();
    assert_true(reads.read[0][0] - reads.phase[0] >= 50000);
}

/* The client that made the work is the one whose read lasts. */
static void a_read_goes_on_while_its_last_command_is_tidied_up(void **state)
{
    prepare_redis();
    behind = TIDYING;
    connections[0].arguments = 1000;
    struct reads reads = iterate();
    assert_true(reads.read[0][1] - reads.command[0][1] >= 50000);
    assert_int_equal(reads.read[1][0], reads.read[0][1]);
    behind = REJECTED;
    connections[0].arguments = 2;
    reads = iterate();
    assert_true(reads.read[0][1] - reads.command[0][1] >= 50000);
    assert_int_equal(reads.read[1][0], reads.read[0][1]);
}

/* A socket that is ready for both is read first. */
static void a_read_begins_where_a_reply_before_it_ended(void **state)
{
    prepare_redis();
    behind = WRITING;
    struct reads reads = iterate();
    assert_true(reads.read[1][0] - reads.read[0][1] >= 50000);
    assert_true(reads.read[1][1] - reads.read[1][0] < 50000 || reads.command[1][0] > reads.read[1][0]);
}

/* From then on another thread reads it: two at once would be a fault. */
static void a_read_that_is_left_to_a_thread_lasts_no_time(void **state)
{
    uint64_t read[2], phase[2];
    prepare_redis();
    behind = HANDED;
    ready = READS;
    sonde_wrap_redis_process_events(&event_loop, AE_ALL);
    next_span(SONDE_EVENT_redis_read_query, &read[0], &read[1]);
    next_span(SONDE_EVENT_redis_loop_phase, &phase[0], &phase[1]);
    assert_int_equal(read[0], read[1]);
    assert_true(read[0] > phase[0]);
}

/* The iteration within has its own descriptors in the same place. */
static void an_iteration_within_a_read_parts_the_reads_around_it(void **state)
{
    uint64_t first[2], second[2], within[2];
    prepare_redis();
    nested = 1;
    ready = READS;
    sonde_wrap_redis_process_events(&event_loop, AE_ALL);
    for (int i = 0; i < 2 * READS; i++) /* of the two iterations within */
        next_span(SONDE_EVENT_redis_read_query, &within[0], &within[1]);
    next_span(SONDE_EVENT_redis_read_query, &first[0], &first[1]);
    next_span(SONDE_EVENT_redis_read_query, &second[0], &second[1]);
    assert_true(first[1] >= within[1]);
    assert_true(second[0] > first[1]);
}

/* ---- Node ---- */

static char request[512] __attribute__((aligned(16)));
static int calls_back;

static int scope; /* stands for a callback scope of Node */

ORIGINAL(void, node_scope_close, void *at)
{
    spend_time();
}

static void call_back(uint64_t async_id)
{
    callback_begin(thread, (uintptr_t)&scope, async_id, 76);
    sonde_wrap_node_scope_close(&scope);
}

ORIGINAL(void, uv_fs_done, void *work, int status)
{
    if (calls_back)
        call_back(77);
    if (calls_back == 2) /* another one, of the same completion */
        call_back(78);
}

static void a_completion_and_its_callback_are_one(void **state)
{
    uint64_t callback[2], done[2], second[2];
    sonde_orig_uv_fs_done = uv_fs_done;
    sonde_orig_node_scope_close = node_scope_close;
    calls_back = 1;
    sonde_wrap_uv_fs_done(request + UV_FS_WORK, 0);
    next_span(SONDE_EVENT_node_callback, &callback[0], &callback[1]);
    next_span(SONDE_EVENT_uv_done, &done[0], &done[1]);
    assert_int_equal(callback[0], done[0]);
    assert_int_equal(callback[1], done[1]);
    calls_back = 2;
    sonde_wrap_uv_fs_done(request + UV_FS_WORK, 0);
    next_span(SONDE_EVENT_node_callback, &callback[0], &callback[1]);
    next_span(SONDE_EVENT_node_callback, &second[0], &second[1]);
    next_span(SONDE_EVENT_uv_done, &done[0], &done[1]);
    assert_int_equal(callback[0], done[0]);
    assert_true(second[0] > callback[1]);
    assert_int_equal(second[1], done[1]);
    calls_back = 0;
    sonde_wrap_uv_fs_done(request + UV_FS_WORK, 0);
    next_span(SONDE_EVENT_uv_done, &done[0], &done[1]);
    assert_true(done[1] > done[0]);
}

/* Node counts resources in a double: after some years their numbers are large. */
static void large_numbers_are_recorded_as_they_are(void **state)
{
    static const uint64_t NUMBERS[] = {5, 1ull << 33};
    calls_back = 0;
    for (int i = 0; i < 4; i++) {
        callback_begin(thread, (uintptr_t)&scope, NUMBERS[i & 1], NUMBERS[i >> 1]);
        sonde_wrap_node_scope_close(&scope);
        const struct record_node_callback *callback = expect_record(thread, SONDE_EVENT_node_callback);
        assert_int_equal(callback->async_id, NUMBERS[i & 1]);
        assert_int_equal(callback->trigger_id, NUMBERS[i >> 1]);
    }
}

/* libuv's queue of what is completed, in one drain. */
static void follow(char *first, char *next)
{
    *(void **)(void *)(first + UV_FS_WORK + UV_WORK_NEXT) = next + UV_FS_WORK + UV_WORK_NEXT;
}

static void a_completion_follows_the_one_before_it_in_the_queue(void **state)
{
    static char second[512] __attribute__((aligned(16)));
    uint64_t done[2], next[2];
    sonde_orig_uv_fs_done = uv_fs_done;
    calls_back = 0;
    follow(request, second);
    sonde_wrap_uv_fs_done(request + UV_FS_WORK, 0);
    sonde_wrap_uv_fs_done(second + UV_FS_WORK, 0);
    next_span(SONDE_EVENT_uv_done, &done[0], &done[1]);
    next_span(SONDE_EVENT_uv_done, &next[0], &next[1]);
    assert_int_equal(next[0], done[1]);
    follow(request, request); /* it was the last: what comes later is of another drain */
    sonde_wrap_uv_fs_done(request + UV_FS_WORK, 0);
    spend_time();
    sonde_wrap_uv_fs_done(second + UV_FS_WORK, 0);
    next_span(SONDE_EVENT_uv_done, &done[0], &done[1]);
    next_span(SONDE_EVENT_uv_done, &next[0], &next[1]);
    assert_true(next[0] - done[1] >= 50000);
}

static void what_is_recorded_between_completions_parts_them(void **state)
{
    static char second[512] __attribute__((aligned(16)));
    uint64_t done[2], next[2];
    sonde_orig_uv_fs_done = uv_fs_done;
    calls_back = 0;
    follow(request, second);
    sonde_wrap_uv_fs_done(request + UV_FS_WORK, 0);
    spend_time();
    RECORD(thread, js_settled, 0, ticks(), .call = 1);
    sonde_wrap_uv_fs_done(second + UV_FS_WORK, 0);
    next_span(SONDE_EVENT_uv_done, &done[0], &done[1]);
    next_span(SONDE_EVENT_uv_done, &next[0], &next[1]);
    assert_true(next[0] - done[1] >= 50000);
}

static char loop[1024] __attribute__((aligned(16)));

static void set_queue(int at, void *first)
{
    *(void **)(void *)(loop + at) = first;
}

ORIGINAL(void, uv_poll, void *at, int timeout_ms)
{
    spend_time();
}
ORIGINAL(void, uv_check, void *at)
{
    spend_time();
}

static void the_loop_checks_when_it_has_polled(void **state)
{
    uint64_t poll[2], check[2];
    sonde_orig_uv_poll = uv_poll;
    sonde_orig_uv_check = uv_check;
    set_queue(UV_LOOP_CHECK, NULL);
    set_queue(UV_LOOP_PENDING, loop + UV_LOOP_PENDING); /* nothing */
    sonde_wrap_uv_poll(loop, -1);
    sonde_wrap_uv_check(loop);
    next_span(SONDE_EVENT_uv_phase, &poll[0], &poll[1]);
    next_span(SONDE_EVENT_uv_phase, &check[0], &check[1]);
    assert_int_equal(check[0], poll[1]);
    set_queue(UV_LOOP_PENDING, request); /* callbacks that were put off run in between */
    sonde_wrap_uv_poll(loop, -1);
    spend_time();
    sonde_wrap_uv_check(loop);
    next_span(SONDE_EVENT_uv_phase, &poll[0], &poll[1]);
    next_span(SONDE_EVENT_uv_phase, &check[0], &check[1]);
    assert_true(check[0] - poll[1] >= 50000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_iteration_ends_with_its_last_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_timer_does_belongs_to_the_iteration, set_up, tear_down),
        cmocka_unit_test_setup_teardown(iterations_within_a_command_stand_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_read_begins_where_the_one_before_ended, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_handled_between_reads_parts_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_read_goes_on_while_its_last_command_is_tidied_up, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_read_begins_where_a_reply_before_it_ended, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_read_that_is_left_to_a_thread_lasts_no_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_iteration_within_a_read_parts_the_reads_around_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_completion_and_its_callback_are_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(large_numbers_are_recorded_as_they_are, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_completion_follows_the_one_before_it_in_the_queue, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_recorded_between_completions_parts_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_loop_checks_when_it_has_polled, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
