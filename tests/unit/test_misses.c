/* When a cache misses far more keys than usual. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/memcached/misses.h"

#include "test.h"

static void ask(struct memcached_misses *m, uint64_t *now_ns, unsigned times, unsigned asked, unsigned missed)
{
    for (unsigned i = 0; i < times; i++)
        memcached_misses_add(m, ++*now_ns, asked, missed);
}

static void a_flush_is_a_storm(void **state)
{
    struct memcached_misses m = {0};
    uint64_t now_ns = 0;
    ask(&m, &now_ns, 500, 10, 1); /* a cache that is warm: 10 % */
    assert_int_equal(m.storm.asked, 0);
    memcached_misses_flush(&m, ++now_ns);
    ask(&m, &now_ns, 100, 10, 9);
    assert_true(m.raging);
    ask(&m, &now_ns, 200, 10, 1);
    assert_false(m.raging);
    assert_int_equal(m.storm.asked, 1000);
    assert_int_equal(m.storm.missed, 900);
    assert_int_equal(m.usual.asked, 7000);
    assert_int_equal(m.flushed_ns, 501);
    assert_int_equal(m.storm.from_ns, 502);
    assert_int_equal(m.storm.to_ns, 601);
}

/* Nothing is usual yet, or it always misses so many. */
static void a_cold_or_useless_cache_is_none(void **state)
{
    struct memcached_misses cold = {0}, useless = {0};
    uint64_t now_ns = 0;
    ask(&cold, &now_ns, 100, 10, 10);
    ask(&cold, &now_ns, 500, 10, 0);
    ask(&useless, &now_ns, 1000, 10, 7);
    ask(&useless, &now_ns, 100, 10, 9);
    assert_int_equal(cold.storm.asked, 0);
    assert_int_equal(useless.storm.asked, 0);
}

static void more_missed_than_asked_is_damage(void **state)
{
    struct memcached_misses m = {0};
    memcached_misses_add(&m, 1, 10, 1000);
    assert_int_equal(m.window.missed, 10);
    memcached_misses_add(&m, 2, 0, 5);
    assert_int_equal(m.window.missed, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flush_is_a_storm),
        cmocka_unit_test(a_cold_or_useless_cache_is_none),
        cmocka_unit_test(more_missed_than_asked_is_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
