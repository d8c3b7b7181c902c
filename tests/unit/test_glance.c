/* When short callbacks are looked into. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/glance.h"

#include "base/clock.h"
#include "test.h"

enum { TICK_NS = 10 * (int)NS_PER_MS, START_NS = TICK_NS };

struct clocks {
    struct glance glance;
    uint64_t now_ns, run_ns, wait_ns;
};

/* Ticks of a thread that runs for so many of ten milliseconds and waits for a CPU for others, always in a
 * callback of age_ns; returns how many looks there were. */
static unsigned looks(struct clocks *c, unsigned ticks, uint64_t runs_ms, uint64_t waits_ms, uint64_t age_ns)
{
    unsigned count = 0;
    for (unsigned i = 0; i < ticks; i++) {
        c->now_ns += TICK_NS;
        c->run_ns += runs_ms * NS_PER_MS;
        c->wait_ns += waits_ms * NS_PER_MS;
        glance_weigh(&c->glance, c->run_ns, c->wait_ns, c->now_ns);
        count += glance_is_due(&c->glance, c->now_ns - age_ns, c->now_ns);
    }
    return count;
}

enum { BRIEF_NS = 200 * (int)NS_PER_US, LONGER_NS = 3 * (int)NS_PER_MS };

/* Requests of 70 ms in callbacks of a fifth of a millisecond, with 30 ms in between; with and without a CPU
 * for all of the time. */
static void finds_time_for_short_requests(void **state)
{
    for (unsigned busy = 0; busy < 2; busy++) {
        struct clocks c = {.now_ns = START_NS};
        unsigned count = 0;
        for (unsigned i = 0; i < 6; i++) {
            count += looks(&c, 7, busy ? 3 : 6, busy ? 4 : 0, BRIEF_NS);
            (void)looks(&c, 3, 1, 0, BRIEF_NS);
        }
        assert_in_range(count, 30, 42);
    }
}

static void a_thread_that_does_little_is_left_alone(void **state)
{
    struct clocks c = {.now_ns = START_NS};
    assert_int_equal(looks(&c, 1000, 3, 0, BRIEF_NS), 0);
    assert_true(looks(&c, 10, 3, 0, LONGER_NS) > 0);
    assert_int_equal(looks(&c, 1000, 0, 10, LONGER_NS), 0); /* has no CPU */
}

/* Five a second in the end, however long it goes on. */
static void goes_on_ever_more_rarely(void **state)
{
    struct clocks c = {.now_ns = START_NS};
    assert_in_range(looks(&c, 100, 10, 0, BRIEF_NS), 66, 70);
    (void)looks(&c, 2000, 10, 0, BRIEF_NS);
    assert_in_range(looks(&c, 1000, 10, 0, BRIEF_NS), 49, 51);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_time_for_short_requests),
        cmocka_unit_test(a_thread_that_does_little_is_left_alone),
        cmocka_unit_test(goes_on_ever_more_rarely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
