/* Wakers are followed while that costs little, or threads wait for locks, and for a while after that, the
 * longer they did. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/kernel_wakers.h"

#include "base/clock.h"
#include "test.h"

enum { PLACE = SONDE_LOCK_PLACES - 1 };
static const uint64_t START = 1000 * NS_PER_S;

/* waited_ns: of a wait that has ended. */
static bool look(struct kernel_wakers *wakers, uint64_t since_ns, uint64_t waited_ns, uint64_t now_ns)
{
    const volatile uint64_t since[SONDE_LOCK_PLACES] = {[PLACE] = since_ns};
    return kernel_wakers_look(wakers, since, waited_ns, now_ns);
}

static void short_waits_are_of_no_interest(void **state)
{
    struct kernel_wakers wakers = {.costly = true};
    assert_false(look(&wakers, 0, 0, START));
    assert_false(look(&wakers, START, 0, START + SONDE_LOCK_NS - 1));
    assert_false(look(&wakers, START + 300, 0, START)); /* another CPU's clock is ahead */
}

static void a_wait_under_way_is_noticed(void **state)
{
    struct kernel_wakers wakers = {.costly = true};
    assert_true(look(&wakers, START, 0, START + SONDE_LOCK_NS));
    assert_true(look(&wakers, 0, 0, START + 100 * SONDE_LOCK_NS));
    assert_false(look(&wakers, 0, 0, START + 101 * SONDE_LOCK_NS));
}

/* Until it is a hundredth of the time. */
static void a_wait_that_has_ended_is_noticed(void **state)
{
    struct kernel_wakers wakers = {.costly = true};
    assert_true(look(&wakers, 0, 5 * NS_PER_MS, START));
    assert_true(look(&wakers, 0, 0, START + 500 * NS_PER_MS - 1));
    assert_false(look(&wakers, 0, 0, START + 500 * NS_PER_MS));
}

static void waits_that_come_again_are_followed_all_the_time(void **state)
{
    struct kernel_wakers wakers = {.costly = true};
    for (uint64_t now_ns = START; now_ns < START + 10 * NS_PER_S; now_ns += 400 * NS_PER_MS) {
        assert_true(look(&wakers, 0, 5 * NS_PER_MS, now_ns));
        assert_true(look(&wakers, 0, 0, now_ns + 399 * NS_PER_MS));
    }
}

static void the_longest_wait_says_for_how_long(void **state)
{
    struct kernel_wakers wakers = {.costly = true};
    assert_true(look(&wakers, 0, NS_PER_S, START)); /* ten seconds at most */
    assert_true(look(&wakers, 0, 5 * NS_PER_MS, START + NS_PER_S));
    assert_true(look(&wakers, 0, 0, START + 10 * NS_PER_S - 1));
    assert_false(look(&wakers, 0, 0, START + 10 * NS_PER_S));
}

static void a_thread_that_waits_for_good_is_not(void **state)
{
    struct kernel_wakers wakers = {.costly = true};
    assert_true(look(&wakers, START, 0, START + 59 * NS_PER_S));
    assert_false(look(&wakers, START, 0, START + 70 * NS_PER_S));
}

static void many_wakeups_cost_too_much(void **state)
{
    struct kernel_wakers wakers = {0};
    assert_true(look(&wakers, 0, 0, START));
    kernel_wakers_cost(&wakers, 30000, NS_PER_S / 2, true); /* and as many switches */
    assert_true(look(&wakers, 0, 0, START));
    kernel_wakers_cost(&wakers, 30002, NS_PER_S / 2, true);
    assert_false(look(&wakers, 0, 0, START));
    kernel_wakers_cost(&wakers, 15001, NS_PER_S, false); /* hardly fewer */
    assert_false(look(&wakers, 0, 0, START));
    kernel_wakers_cost(&wakers, 15000, NS_PER_S, false);
    assert_true(look(&wakers, 0, 0, START));
    kernel_wakers_cost(&wakers, 1, 0, false);
    assert_false(look(&wakers, 0, 0, START));
    assert_true(look(&wakers, 0, 5 * NS_PER_MS, START)); /* whatever it costs */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_wakeups_cost_too_much),
        cmocka_unit_test(short_waits_are_of_no_interest),
        cmocka_unit_test(a_wait_under_way_is_noticed),
        cmocka_unit_test(a_wait_that_has_ended_is_noticed),
        cmocka_unit_test(waits_that_come_again_are_followed_all_the_time),
        cmocka_unit_test(the_longest_wait_says_for_how_long),
        cmocka_unit_test(a_thread_that_waits_for_good_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
