/* States from events against a naive account of the same events. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "states/states.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "event/event.h"
#include "test.h"

enum { THREADS = 40, PROCESSORS = 4, EVENTS = 60000 };

static uint64_t seed = 88172645463325252u;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static const struct trace_field CPU[] = {{.name = "cpu_id", .type = TYPE_UNSIGNED}};
static const struct trace_field SWITCH_FIELDS[] = {{.name = "prev_tid", .type = TYPE_SIGNED},
                                                   {.name = "prev_state", .type = TYPE_SIGNED},
                                                   {.name = "next_tid", .type = TYPE_SIGNED}};
static const struct trace_field WAKEUP_FIELDS[] = {{.name = "tid", .type = TYPE_SIGNED}};
static const struct trace_field READ_FIELDS[] = {{.name = "fd", .type = TYPE_UNSIGNED}};

#define CLASS(text, table)                                                                        \
    {                                                                                             \
        .name = (text), .id = EVENT_FOREIGN, .field_count = ARRAY_SIZE(table), .fields = (table), \
        .packet_field_count = 1, .packet_fields = CPU                                             \
    }
static const struct event_class SWITCH = CLASS("sched_switch", SWITCH_FIELDS),
                                WAKEUP = CLASS("sched_wakeup", WAKEUP_FIELDS),
                                ENTRY = CLASS("syscall_entry_read", READ_FIELDS),
                                EXIT = CLASS("syscall_exit_read", READ_FIELDS);

/* The naive account: every change of every thread. */
struct naive {
    struct {
        uint64_t time_ns;
        const char *state;
    } changes[EVENTS];
    size_t count;
};

static void note(struct naive *n, uint64_t time_ns, const char *state)
{
    if (n->count && n->changes[n->count - 1].time_ns == time_ns)
        n->count--;
    n->changes[n->count].time_ns = time_ns;
    n->changes[n->count++].state = state;
}

static const char *naive_at(const struct naive *n, uint64_t time_ns)
{
    const char *state = NULL;
    for (size_t i = 0; i < n->count && n->changes[i].time_ns <= time_ns; i++)
        state = n->changes[i].state;
    return state;
}

static void send(const struct pass *pass, const struct event_class *class, uint64_t time_ns, uint64_t cpu,
                 int64_t a, int64_t b, int64_t c)
{
    struct value values[3] = {{.i = a}, {.i = b}, {.i = c}}, packet = {.u = cpu};
    struct event e = {.time_ns = time_ns,
                      .class = class,
                      .values = values,
                      .packet = &packet,
                      .present = 7,
                      .pid = -1,
                      .tid = -1,
                      .id = class->id};
    assert_int_equal(pass->event(pass->self, &e), 0);
}

static void compare(struct history *h, const struct naive *states, const struct naive *calls, uint64_t end_ns)
{
    static const char *const WHAT[] = {"State", "System call"};
    for (int tid = 1; tid <= THREADS; tid++)
        for (int what = 0; what < 2; what++) {
            const struct naive *n = what ? &calls[tid] : &states[tid];
            char path[64];
            uint32_t quark;
            snprintf(path, sizeof(path), "Threads/%d/%s", tid, WHAT[what]);
            int found = history_find_path(h, path, &quark);
            assert_int_equal(found < 0, n->count == 0);
            for (int i = 0; found >= 0 && i < 500; i++) {
                uint64_t t =
                    i % 2 ? n->changes[next_random() % n->count].time_ns : 1 + next_random() % end_ns;
                struct history_interval s;
                assert_int_equal(history_query(h, quark, t, &s, NULL), 0);
                const char *expected = naive_at(n, t);
                const char *found_state = s.value.type == HISTORY_STRING ? s.value.string : NULL;
                if (!expected != !found_state || (expected && strcmp(expected, found_state) != 0))
                    fail_msg("%s at %lu: %s instead of %s", path, (unsigned long)t,
                             found_state ? found_state : "nothing", expected ? expected : "nothing");
            }
        }
}

static void threads_as_the_naive_account_has_them(void **state)
{
    (void)state;
    static struct naive states[THREADS + 1], calls[THREADS + 1];
    static const struct {
        int64_t number;
        const char *name;
    } OFF[] = {{0, "preempted"}, {1, "blocked"}, {2, "uninterruptible"}, {256, "preempted"}, {32, "ended"}};
    char file[TEST_PATH];
    int fd = mkstemp(test_path(file)), running[PROCESSORS] = {0};
    struct history_options options = {.size = sizeof(options), .start_ns = 1};
    struct emit emit = {0};
    struct states *s;
    uint64_t t = 1;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(history_create(file, &options, &emit.states, NULL), 0);
    assert_int_equal(states_new(&emit, NULL, &s), 0);
    struct pass pass = states_pass(s);
    for (int i = 0; i < EVENTS; i++, t += next_random() % 3000) {
        uint64_t r = next_random(), cpu = r % PROCESSORS, off = (r >> 8) % ARRAY_SIZE(OFF);
        int tid = 1 + (int)((r >> 16) % THREADS), now = running[cpu];
        bool runs = false;
        for (int p = 0; p < PROCESSORS; p++)
            runs |= running[p] == tid;
        if ((r >> 32) % 3 == 0 && !runs) {
            send(&pass, &SWITCH, t, cpu, now, OFF[off].number, tid);
            if (now)
                note(&states[now], t, OFF[off].name);
            if (now && strcmp(OFF[off].name, "ended") == 0 && calls[now].count)
                note(&calls[now], t, NULL);
            note(&states[tid], t, "running");
            running[cpu] = tid;
        } else if ((r >> 32) % 3 == 1) {
            const char *before = naive_at(&states[tid], t);
            send(&pass, &WAKEUP, t, cpu, tid, 0, 0);
            if (!before || (strcmp(before, "running") != 0 && strcmp(before, "preempted") != 0))
                note(&states[tid], t, "runnable");
        } else if (now) {
            bool entry = r >> 40 & 1;
            send(&pass, entry ? &ENTRY : &EXIT, t, cpu, 3, 0, 0);
            note(&calls[now], t, entry ? "read" : NULL);
        }
    }
    assert_int_equal(history_close(emit.states, t + 1, NULL), 0);
    compare(emit.states, states, calls, t);
    states_free(s);
    history_free(emit.states);
    unlink(file);
}

/* A span's states begin before its event; connections have their own attributes. */
static void commands_and_spans(void **state)
{
    (void)state;
    char file[TEST_PATH];
    int fd = mkstemp(test_path(file));
    struct history_options options = {.size = sizeof(options), .start_ns = 1000};
    struct emit emit = {0};
    struct states *s;
    uint32_t quark;
    struct history_interval at;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(history_create(file, &options, &emit.states, NULL), 0);
    assert_int_equal(states_new(&emit, NULL, &s), 0);
    struct pass pass = states_pass(s);
    struct value v[16] = {};
    const struct event_class command = {.name = "redis:command", .id = SONDE_EVENT_redis_command},
                             off = {.name = "sched:switch", .id = SONDE_EVENT_sched_switch},
                             brief = {.name = "sched:brief", .id = SONDE_EVENT_sched_brief};
    struct event e = {.class = &command, .values = v, .pid = 7, .tid = 7, .id = command.id};
    for (uint64_t i = 1; i <= 3; i++) {
        e.time_ns = 1000 + i * 500;
        v[0].u = 200;
        v[FIELD_redis_command_client_id].u = 40 + i % 2;
        assert_int_equal(pass.event(pass.self, &e), 0);
    }
    memset(v, 0, sizeof(v));
    e.class = &off;
    e.id = off.id;
    e.time_ns = 9000;
    v[0].u = 4000;
    v[FIELD_sched_switch_tid].u = 7;
    v[FIELD_sched_switch_runnable_ns].u = 1000;
    v[FIELD_sched_switch_reason].u = 1;
    v[FIELD_sched_switch_waker_tid].u = 9;
    v[FIELD_sched_switch_woken_by].u = SONDE_woken_by_thread;
    assert_int_equal(pass.event(pass.self, &e), 0);
    memset(v, 0, sizeof(v));
    e.class = &brief;
    e.id = brief.id;
    e.time_ns = 9900;
    v[0].u = 500;
    v[FIELD_sched_brief_tid].u = 7;
    v[FIELD_sched_brief_since_ns].u = 100;
    assert_int_equal(pass.event(pass.self, &e), 0);
    memset(v, 0, sizeof(v)); /* a wait of which nobody looked who ended it */
    e.class = &off;
    e.id = off.id;
    e.time_ns = 9990;
    v[0].u = 60;
    v[FIELD_sched_switch_tid].u = 7;
    v[FIELD_sched_switch_runnable_ns].u = 20;
    v[FIELD_sched_switch_reason].u = 1;
    v[FIELD_sched_switch_woken_by].u = SONDE_woken_by_unknown;
    assert_int_equal(pass.event(pass.self, &e), 0);
    assert_int_equal(history_close(emit.states, 10000, NULL), 0);
    assert_int_equal(history_find_path(emit.states, "Redis/7/Connections/41/Command", &quark), 0);
    static const struct {
        uint64_t from, to;
        bool busy;
    } COMMAND[] = {{1000, 1300, false}, {1300, 1500, true}, {1500, 2300, false}, {2300, 2500, true}};
    for (size_t i = 0; i < ARRAY_SIZE(COMMAND); i++) {
        assert_int_equal(history_query(emit.states, quark, COMMAND[i].from, &at, NULL), 0);
        assert_int_equal(at.value.type == HISTORY_STRING, COMMAND[i].busy);
        assert_int_equal(at.start_ns, COMMAND[i].from);
        assert_int_equal(at.end_ns, COMMAND[i].to);
    }
    assert_int_equal(history_find_path(emit.states, "Threads/7/State", &quark), 0);
    static const struct {
        uint64_t at;
        const char *state;
    } THREAD[] = {{5000, "blocked"},   {7999, "blocked"},   {8000, "runnable"}, {9000, "running"},
                  {9400, "switching"}, {9799, "switching"}, {9800, "running"}};
    for (size_t i = 0; i < ARRAY_SIZE(THREAD); i++) {
        assert_int_equal(history_query(emit.states, quark, THREAD[i].at, &at, NULL), 0);
        assert_string_equal(at.value.string, THREAD[i].state);
    }
    assert_int_equal(history_find_path(emit.states, "Threads/7/Waker", &quark), 0);
    assert_int_equal(history_query(emit.states, quark, 8500, &at, NULL), 0);
    assert_string_equal(at.value.string, "9");
    assert_int_equal(at.start_ns, 8000);
    assert_int_equal(at.end_ns, 9000);
    assert_int_equal(history_query(emit.states, quark, 9980, &at, NULL), 0);
    assert_int_equal(at.value.type, HISTORY_NULL);
    states_free(s);
    history_free(emit.states);
    unlink(file);
}

/* Without a history nothing is emitted, and nothing fails. */
static void nobody_asks(void **state)
{
    (void)state;
    struct emit emit = {0};
    struct states *s;
    assert_int_equal(states_new(&emit, NULL, &s), 0);
    struct pass pass = states_pass(s);
    for (uint64_t t = 1; t < 100; t++) {
        send(&pass, &SWITCH, t, 0, (int64_t)(t % 5), 1, (int64_t)((t + 1) % 5));
        send(&pass, &WAKEUP, t, 0, (int64_t)(t % 5), 0, 0);
    }
    states_free(s);
}

/* An operation that waits, runs and is taken; one that the trace does not begin with; a poll with two
 * callbacks. */
static void loops_and_pools(void **state)
{
    struct emit emit = {0};
    struct states *s;
    uint32_t quark;
    struct history_interval at;
    struct value v[16] = {};
    char file[TEST_PATH];
    struct history_options options = {.size = sizeof(options), .start_ns = 500};
    int fd = mkstemp(test_path(file));
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(history_create(file, &options, &emit.states, NULL), 0);
    assert_int_equal(states_new(&emit, NULL, &s), 0);
    struct pass pass = states_pass(s);
    const struct {
        uint16_t id;
        uint64_t time_ns, duration_ns, request;
    } STEPS[] = {{SONDE_EVENT_uv_submit, 1000, 0, 1}, {SONDE_EVENT_uv_done, 1100, 0, 9},
                 {SONDE_EVENT_uv_submit, 1200, 0, 2}, {SONDE_EVENT_uv_run, 1500, 400, 1},
                 {SONDE_EVENT_uv_run, 1600, 100, 9},  {SONDE_EVENT_uv_done, 1700, 10, 1},
                 {SONDE_EVENT_uv_phase, 1800, 600, 4}};
    for (size_t i = 0; i < ARRAY_SIZE(STEPS); i++) {
        struct event_class class = {.name = "uv", .id = STEPS[i].id};
        struct event e = {
            .class = &class, .values = v, .pid = 7, .tid = 8, .id = class.id, .time_ns = STEPS[i].time_ns};
        v[0].u = STEPS[i].duration_ns;
        v[FIELD_uv_submit_request].u = STEPS[i].request; /* the first field of the others too */
        v[FIELD_uv_phase_phase].u = STEPS[i].request;
        assert_int_equal(pass.event(pass.self, &e), 0);
    }
    assert_int_equal(history_close(emit.states, 2000, NULL), 0);
    static const struct {
        const char *path;
        uint64_t at_ns;
        int64_t value;
    } EXPECTED[] = {{"Node/7/Thread pool/Operations", 1050, 1}, {"Node/7/Thread pool/Operations", 1300, 2},
                    {"Node/7/Thread pool/Operations", 1650, 1}, {"Node/7/Thread pool/Done", 1450, 0},
                    {"Node/7/Thread pool/Done", 1550, 1},       {"Node/7/Thread pool/Done", 1750, 0},
                    {"Node/7/Loops/8/Ready", 1300, 2}};
    for (size_t i = 0; i < ARRAY_SIZE(EXPECTED); i++) {
        assert_int_equal(history_find_path(emit.states, EXPECTED[i].path, &quark), 0);
        assert_int_equal(history_query(emit.states, quark, EXPECTED[i].at_ns, &at, NULL), 0);
        if (at.value.type != HISTORY_INT || at.value.integer != EXPECTED[i].value)
            fail_msg("%s at %llu", EXPECTED[i].path, (unsigned long long)EXPECTED[i].at_ns);
    }
    assert_int_equal(history_find_path(emit.states, "Node/7/Loops/8/Phase", &quark), 0);
    assert_int_equal(history_query(emit.states, quark, 1300, &at, NULL), 0);
    assert_string_equal(at.value.string, "poll");
    states_free(s);
    history_free(emit.states);
    unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_as_the_naive_account_has_them),
        cmocka_unit_test(commands_and_spans),
        cmocka_unit_test(loops_and_pools),
        cmocka_unit_test(nobody_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
