/* The merge of streams against a search through all of them: any number of streams, gaps of every kind. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "base/macro.h"
#include "trace/merge.h"

static uint64_t seed = 88172645463325252u;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

/* The earliest, of equal ones the first. */
static uint32_t naive_first(const struct merge *m)
{
    uint32_t best = MERGE_NONE;
    for (uint32_t i = 0; i < m->count; i++)
        if (m->next_ns[i] != MERGE_ENDED && (best == MERGE_NONE || m->next_ns[i] < m->next_ns[best]))
            best = i;
    return best;
}

enum { EVEN, BURSTS, TIES, SPARSE, BACKWARDS, FAR, KINDS };

static int64_t gap(int kind, uint64_t step)
{
    uint64_t r = next_random();
    switch (kind) {
    case EVEN:
        return (int64_t)(r % 100000);
    case BURSTS:
        return (int64_t)(step / 3000 % 2 ? r % 5 : r % 50000000);
    case TIES:
        return (int64_t)(r % 3 * 1000);
    case SPARSE:
        return (int64_t)(r % 100 ? r % 1000 : r % 100000000000);
    case BACKWARDS:
        return (int64_t)(r % 100000) - (int64_t)(r % 50 ? 0 : r % 10000000);
    default:
        return r % 1000 ? (int64_t)(r % 1000000) : INT64_MAX / 8;
    }
}

static void run(uint32_t streams, int kind)
{
    struct merge m;
    assert_int_equal(merge_init(&m, streams), 0);
    for (uint32_t i = 0; i < streams; i++)
        m.next_ns[i] = next_random() % 7 ? gap(kind, 0) + 1000 : MERGE_ENDED;
    merge_start(&m);
    uint64_t steps = streams ? 20000000 / (streams + 900) : 1;
    for (uint64_t step = 0; step < steps; step++) {
        uint32_t first = merge_first(&m), expected = naive_first(&m);
        if (first != expected)
            fail_msg("%u streams, gaps of kind %d, step %lu: stream %u instead of %u", streams, kind,
                     (unsigned long)step, first, expected);
        if (step % 5000 == 4999 && streams) { /* some begin anew, as after a seek */
            for (uint32_t i = 0; i < streams; i++)
                if (next_random() % 3 == 0)
                    m.next_ns[i] = 1000 + gap(kind, step);
            merge_start(&m);
            continue;
        }
        if (first == MERGE_NONE)
            continue;
        uint32_t ahead = merge_ahead(&m, 1);
        if (ahead != MERGE_NONE)
            assert_true(ahead < streams && ahead != first);
        int64_t next;
        if (__builtin_add_overflow(m.next_ns[first], gap(kind, step), &next) || next >= MERGE_ENDED)
            next = MERGE_ENDED - 1;
        m.next_ns[first] = next_random() % 5000 == 0 ? MERGE_ENDED : next;
        merge_moved(&m, first);
    }
    merge_done(&m);
}

static void test_against_a_search(void **state)
{
    (void)state;
    static const uint32_t STREAMS[] = {0, 1, 2, 3, 7, 8, 31, 39, 40, 41, 64, 100, 1000, 1025};
    for (size_t i = 0; i < ARRAY_SIZE(STREAMS); i++)
        for (int kind = 0; kind < KINDS; kind++)
            run(STREAMS[i], kind);
}

/* Every stream to its end: nothing is lost, nothing comes twice. */
static void test_to_the_end(void **state)
{
    (void)state;
    enum { STREAMS = 300, EVENTS = 40 };
    struct merge m;
    uint32_t left[STREAMS], taken = 0;
    int64_t last = 0;
    assert_int_equal(merge_init(&m, STREAMS), 0);
    for (uint32_t i = 0; i < STREAMS; i++) {
        left[i] = i % EVENTS;
        m.next_ns[i] = left[i] ? (int64_t)(next_random() % 1000000) : MERGE_ENDED;
    }
    merge_start(&m);
    for (uint32_t first; (first = merge_first(&m)) != MERGE_NONE; taken++) {
        assert_true(m.next_ns[first] >= last && left[first] > 0);
        last = m.next_ns[first];
        m.next_ns[first] = --left[first] ? last + (int64_t)(next_random() % 2000000) : MERGE_ENDED;
        merge_moved(&m, first);
    }
    uint32_t all = 0;
    for (uint32_t i = 0; i < STREAMS; i++)
        all += i % EVENTS;
    assert_int_equal(taken, all);
    merge_done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_search),
        cmocka_unit_test(test_to_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
