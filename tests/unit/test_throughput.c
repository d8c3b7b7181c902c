/* Known answers: hosts whose rates and waits are planted, queues that grow by a planted share; edges where
 * nothing can be said; and each allocation fails once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/throughput.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "diagnose/stats.h"
#include "test.h"

#define NEAR(got, want, within) assert_true(fabs((got) - (want)) <= (within))

/* ---- allocations fail: the linker sends these calls here (see meson.build) ---- */

static long calls_left; /* until one fails; 0: none does */

static bool fails(void)
{
    return calls_left > 0 && --calls_left == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails() ? NULL : __real_realloc(p, size);
}

/* ---- what is planted ---- */

#define SHIFT  33
#define SLOT_S (8589934592.0 / 1e9)

enum { OLDER, NEWER, SLOTS = 12, HOSTS = 6 };

static struct book book;
static struct bucket *bucket;

static void begin(void)
{
    memset(&book, 0, sizeof(book));
    book.shift = SHIFT;
    assert_int_equal(array_add(&book.buckets, (struct bucket){0}), 0);
    bucket = &book.buckets.at[0];
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            array_add(&bucket->groups, (struct group){.first_ns = 5 + (uint64_t)i, .last_ns = 9}), 0);
}

static void end(void)
{
    array_foreach (&bucket->groups, group) {
        array_foreach (&group->hosts, host) {
            array_foreach (&host->strata, s)
                sketch_done(&s->latency);
            array_done(&host->strata);
        }
        array_done(&group->hosts);
    }
    array_done(&bucket->groups);
    array_done(&book.buckets);
}

/* So many requests of a host in a slot, each of which takes so long and has waited so long. */
static void add_slot(struct host *host, uint32_t slot, uint64_t n, double wait_ns, uint64_t took_ns)
{
    struct stratum s = {.slot = slot, .waited = n, .wait_ns = wait_ns * (double)n};
    assert_int_equal(sketch_add_bin(&s.latency, sketch_bin(took_ns), n), 0);
    assert_int_equal(array_add(&host->strata, s), 0);
}

static struct host *add_host(int side)
{
    struct group *group = &bucket->groups.at[side];
    assert_int_equal(array_add(&group->hosts, (struct host){.host = (uint32_t)group->hosts.count}), 0);
    return &group->hosts.at[group->hosts.count - 1];
}

/* A host that completes n requests in each slot; they wait for 10 s, but for those of the first slot. */
static void add_busy_host(int side, uint64_t n)
{
    struct host *host = add_host(side);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        add_slot(host, 100 + slot, n, slot ? 10e9 : 1e6, 100 * NS_PER_MS);
}

static struct throughput tested(void)
{
    const struct group *older = &bucket->groups.at[OLDER], *newer = &bucket->groups.at[NEWER];
    struct throughput t;
    assert_int_equal(throughput_test(&book, bucket, &older, 1, &newer, 1, &t), 0);
    throughput_decide(&t, 1, 0.02);
    return t;
}

/* ---- throughput ---- */

/* One host a side: half the rate, of 1000 and 500 requests in ten whole slots. The standard error of the log
 * ratio is sqrt(2 * 0.1^2 + 1/1000 + 1/500), on 4 degrees of freedom, for which R's qt(0.975, 4) is 2.776445.
 */
static void half_the_rate(void **state)
{
    const double error = 0.1516575, reach = 2.776445 * error;
    begin();
    add_busy_host(OLDER, 100);
    add_busy_host(NEWER, 50);
    struct throughput t = tested();
    assert_true(t.tested && t.older_waited);
    NEAR(t.ratio, 0.5, 1e-12);
    NEAR(t.rate, 50 / SLOT_S, 1e-9);
    NEAR(t.base_rate, 100 / SLOT_S, 1e-9);
    NEAR(t.low, 0.5 * exp(-reach), 1e-5);
    NEAR(t.high, 0.5 * exp(reach), 1e-5);
    NEAR(t.p, stats_student_above(log(2) / error, 4), 1e-6);
    NEAR(t.wait_ns, 10e9, 1);
    NEAR(t.usual_wait_ns, 1e6, 1e-3);
    assert_int_equal(t.hosts, 1);
    assert_int_equal(t.base_hosts, 1);
    assert_int_equal(t.requests, 500);
    assert_int_equal(t.first_ns, 6);
    assert_int_equal(t.last_ns, 9);
    assert_int_equal(t.outcome, THROUGHPUT_FEWER);
    end();
}

/* No host differs from another: that is evidence as good as from hosts that differ a little. */
static void all_equal(void **state)
{
    begin();
    for (int i = 0; i < HOSTS; i++) {
        add_busy_host(OLDER, 100);
        add_busy_host(NEWER, 100);
    }
    struct throughput t = tested();
    assert_true(t.tested);
    NEAR(t.ratio, 1, 1e-12);
    NEAR(t.p, 0.5, 1e-12);
    NEAR(log(t.high), -log(t.low), 1e-12);
    assert_int_equal(t.outcome, THROUGHPUT_NOT_FEWER);
    end();
}

static void older_did_not_wait(void **state)
{
    begin();
    struct host *host = add_host(OLDER);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        add_slot(host, 100 + slot, 100, 1e6, 100 * NS_PER_MS);
    add_busy_host(NEWER, 50);
    struct throughput t = tested();
    assert_true(t.tested && !t.older_waited);
    NEAR(t.ratio, 0.5, 1e-12);
    end();
}

static void assert_cannot_tell(void)
{
    struct throughput t = tested();
    assert_false(t.tested);
    NEAR(t.ratio, 1, 0);
    NEAR(t.p, 1, 0);
    assert_int_equal(t.outcome, THROUGHPUT_CANNOT_TELL);
    end();
}

static void no_data(void **state)
{
    begin();
    struct throughput t = tested();
    assert_true(isinf(t.usual_wait_ns) && t.requests == 0);
    assert_cannot_tell();
    struct throughput none;
    begin();
    assert_int_equal(throughput_test(&book, bucket, NULL, 0, NULL, 0, &none), 0);
    assert_false(none.tested);
    end();
    throughput_decide(NULL, 0, 0.02);
}

static void one_side_only(void **state)
{
    begin();
    add_busy_host(NEWER, 50);
    assert_cannot_tell();
    begin();
    add_busy_host(OLDER, 50);
    assert_cannot_tell();
}

/* Neither the first nor the last slot of a host is whole, and two whole ones are needed. */
static void too_short(void **state)
{
    for (uint32_t slots = 1; slots <= 4; slots++) {
        begin();
        for (int side = OLDER; side <= NEWER; side++) {
            struct host *host = add_host(side);
            for (uint32_t slot = 0; slot < slots; slot++)
                add_slot(host, 100 + slot, 50, slot ? 10e9 : 1e6, 100 * NS_PER_MS);
        }
        if (slots < 4) {
            assert_cannot_tell();
            continue;
        }
        assert_true(tested().tested);
        end();
    }
}

/* Requests that take no time and wait for none do not wait. */
static void no_time_at_all(void **state)
{
    begin();
    for (int side = OLDER; side <= NEWER; side++) {
        struct host *host = add_host(side);
        for (uint32_t slot = 0; slot < SLOTS; slot++)
            add_slot(host, 100 + slot, side == OLDER ? 100 : 50, 0, 0);
    }
    assert_cannot_tell();
}

/* Several contrasts at once: each has to be less likely by as many times. */
static void decided_together(void **state)
{
    struct throughput all[3] = {{.tested = true, .p = 0.009, .ratio = 0.5, .low = 0.3, .high = 0.8},
                                {.tested = true, .p = 0.011, .ratio = 0.5, .low = 0.3, .high = 0.8},
                                {.p = 1, .ratio = 1, .high = INFINITY}};
    throughput_decide(all, 3, 0.02);
    assert_int_equal(all[0].outcome, THROUGHPUT_FEWER);
    assert_int_equal(all[1].outcome, THROUGHPUT_CANNOT_TELL);
    assert_int_equal(all[2].outcome, THROUGHPUT_CANNOT_TELL);
    assert_string_equal(throughput_outcome_name(all[0].outcome), "fewer");
}

/* ---- queues ---- */

/* Waits grow by a share of each slot, from 1 ms on; all of two hosts. */
static void add_queue(double share, uint32_t slots)
{
    struct host *first = add_host(OLDER), *second = add_host(NEWER);
    for (uint32_t slot = 0; slot < slots; slot++)
        add_slot(slot % 2 ? first : second, 100 + slot, 50, 1e6 + share * slot * SLOT_S * 1e9, NS_PER_MS);
}

static bool grows(struct backlog *ret_backlog)
{
    bool result;
    assert_int_equal(backlog_find(&book, 0, &result, ret_backlog), 0);
    end();
    return result;
}

static void quarter_not_completed(void **state)
{
    struct backlog b;
    begin();
    add_queue(0.25, 20);
    assert_true(grows(&b));
    NEAR(b.completed, 0.75, 1e-9);
    NEAR(b.low, 0.75, 1e-9);
    NEAR(b.high, 0.75, 1e-9);
    NEAR(b.wait_ns, 1e6 + 0.25 * 18 * SLOT_S * 1e9, 1); /* of the last whole slot */
    NEAR(b.usual_wait_ns, 1e6, 1e-3);
    assert_int_equal(b.requests, 19 * 50);
    assert_int_equal(b.since_ns, 102ull << SHIFT); /* the first wait above a tenth of the last */
    assert_int_equal(b.last_ns, 119ull << SHIFT);
}

static void queues_that_do_not_grow(void **state)
{
    struct backlog b;
    begin(); /* nothing has come */
    assert_false(grows(&b));
    begin(); /* as long at all times */
    add_queue(0, 20);
    assert_false(grows(&b));
    begin(); /* it becomes shorter */
    struct host *host = add_host(OLDER);
    for (uint32_t slot = 0; slot < 20; slot++)
        add_slot(host, 100 + slot, 50, 100e9 - slot * 4e9, NS_PER_MS);
    assert_false(grows(&b));
    begin(); /* one in a hundred is too little to say */
    add_queue(0.01, 20);
    assert_false(grows(&b));
    NEAR(b.completed, 0.99, 1e-9);
    begin(); /* six whole slots are needed */
    add_queue(0.25, 6);
    assert_false(grows(&b));
}

/* ---- allocations ---- */

static void memory_runs_out(void **state)
{
    const struct group *older, *newer;
    struct throughput t;
    long at = 0;
    int r;
    begin();
    add_busy_host(OLDER, 100);
    add_busy_host(NEWER, 50);
    older = &bucket->groups.at[OLDER];
    newer = &bucket->groups.at[NEWER];
    do {
        memset(&t, 0x55, sizeof(t));
        calls_left = ++at;
        r = throughput_test(&book, bucket, &older, 1, &newer, 1, &t);
        bool happened = calls_left == 0;
        calls_left = 0;
        assert_int_equal(r, happened ? -ENOMEM : 0);
        for (size_t i = 0; r < 0 && i < sizeof(t); i++)
            assert_int_equal(((const uint8_t *)&t)[i], 0x55); /* written only on success */
    } while (r < 0);
    assert_true(at > 5);
    NEAR(t.ratio, 0.5, 1e-12);
    end();
}

static void memory_runs_out_of_queues(void **state)
{
    struct backlog b;
    bool is_growing = true;
    long at = 0;
    int r;
    begin();
    add_queue(0.25, 20);
    do {
        memset(&b, 0x55, sizeof(b));
        calls_left = ++at;
        r = backlog_find(&book, 0, &is_growing, &b);
        bool happened = calls_left == 0;
        calls_left = 0;
        assert_int_equal(r, happened ? -ENOMEM : 0);
        for (size_t i = 0; r < 0 && i < sizeof(b); i++)
            assert_int_equal(((const uint8_t *)&b)[i], 0x55);
    } while (r < 0);
    assert_true(at > 3 && is_growing);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_the_rate),         cmocka_unit_test(all_equal),
        cmocka_unit_test(older_did_not_wait),    cmocka_unit_test(no_data),
        cmocka_unit_test(one_side_only),         cmocka_unit_test(too_short),
        cmocka_unit_test(no_time_at_all),        cmocka_unit_test(decided_together),
        cmocka_unit_test(quarter_not_completed), cmocka_unit_test(queues_that_do_not_grow),
        cmocka_unit_test(memory_runs_out),       cmocka_unit_test(memory_runs_out_of_queues)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
