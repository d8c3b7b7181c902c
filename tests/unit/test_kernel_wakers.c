/* Wakers are followed while that costs little, or threads wait for locks, and for a while after that. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/kernel_wakers.h"

#include "base/clock.h"
#include "test.h"

enum { PLACE = SONDE_LOCK_PLACES - 1 };
static const uint64_t START = 1000 * NS_PER_S;

static bool look(struct kernel_wakers *wakers, uint64_t since_ns, bool ended, uint64_t now_ns)
{
    const volatile uint64_t since[SONDE_LOCK_PLACES] = {[PLACE] = since_ns};
    return kernel_wakers_look(wakers, since, ended, now_ns);
}

static void short_waits_are_of_no_interest(void **state)
{
    struct kernel_wakers wakers = {.costly = true};
    assert_false(look(&wakers, 0, false, START));
    assert_false(look(&wakers, START, false, START + SONDE_LOCK_NS - 1));
    assert_false(look(&wakers, START + 300, false, START)); /* another CPU's clock is ahead */
}

static void a_wait_under_way_is_noticed(void **state)
{
    struct kernel_wakers wakers = {.costly = true};
    assert_true(look(&wakers, START, false, START + SONDE_LOCK_NS));
    assert_true(look(&wakers, 0, false, START + SONDE_LOCK_NS + 9 * NS_PER_S));
    assert_false(look(&wakers, 0, false, START + SONDE_LOCK_NS + 10 * NS_PER_S));
}

static void a_wait_that_has_ended_is_noticed(void **state)
{
    struct kernel_wakers wakers = {.costly = true};
    assert_true(look(&wakers, 0, true, START));
    assert_true(look(&wakers, 0, true, START + 9 * NS_PER_S)); /* the time begins anew */
    assert_true(look(&wakers, 0, false, START + 18 * NS_PER_S));
    assert_false(look(&wakers, 0, false, START + 19 * NS_PER_S));
}

static void a_thread_that_waits_for_good_is_not(void **state)
{
    struct kernel_wakers wakers = {.costly = true};
    assert_true(look(&wakers, START, false, START + 59 * NS_PER_S));
    assert_false(look(&wakers, START, false, START + 70 * NS_PER_S));
}

static void many_wakeups_cost_too_much(void **state)
{
    struct kernel_wakers wakers = {0};
    assert_true(look(&wakers, 0, false, START));
    kernel_wakers_cost(&wakers, 30000, NS_PER_S / 2, true); /* and as many switches */
    assert_true(look(&wakers, 0, false, START));
    kernel_wakers_cost(&wakers, 30002, NS_PER_S / 2, true);
    assert_false(look(&wakers, 0, false, START));
    kernel_wakers_cost(&wakers, 15001, NS_PER_S, false); /* hardly fewer */
    assert_false(look(&wakers, 0, false, START));
    kernel_wakers_cost(&wakers, 15000, NS_PER_S, false);
    assert_true(look(&wakers, 0, false, START));
    kernel_wakers_cost(&wakers, 1, 0, false);
    assert_false(look(&wakers, 0, false, START));
    assert_true(look(&wakers, 0, true, START)); /* whatever it costs */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_wakeups_cost_too_much),
        cmocka_unit_test(short_waits_are_of_no_interest),
        cmocka_unit_test(a_wait_under_way_is_noticed),
        cmocka_unit_test(a_wait_that_has_ended_is_noticed),
        cmocka_unit_test(a_thread_that_waits_for_good_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
