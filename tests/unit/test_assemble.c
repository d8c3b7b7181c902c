/* Spans into traces, as far as memory for what waits is concerned; the rest is in test_diagnosis. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/assemble.h"

#include "test.h"

struct taken {
    uint64_t first; /* the trace that was handed on first */
    size_t traces, spans;
};

static int take(void *context, struct trace *trace)
{
    struct taken *taken = context;
    taken->first = taken->traces++ ? taken->first : trace->low;
    taken->spans += trace->count;
    return 0;
}

static void put(struct assembler *assembler, uint64_t trace, uint64_t id)
{
    static const struct span_resource resource = {.serial = 1};
    struct span span = {.trace_low = trace,
                        .id = trace << 8 | id,
                        .parent = trace << 8 | 1,
                        .start_ns = trace * 1000000,
                        .end_ns = trace * 1000000 + 1000,
                        .name = SLICE("work"),
                        .resource = &resource};
    assert_int_equal(assembler_add(assembler, &span, trace), 0);
}

/* Ten thousand traces of eight spans, with less memory than they need: the oldest go on. */
static void what_waits_has_a_limit(void **state)
{
    enum { TRACES = 10000, SPANS = 8, LIMIT = 1 << 20 };
    struct taken taken = {0};
    struct assembler_settings settings = {.waiting_bytes_max = LIMIT, .take = take, .context = &taken};
    struct assembler *assembler;
    assert_int_equal(assembler_new(&settings, &assembler), 0);
    for (uint64_t t = 1; t <= TRACES; t++)
        for (uint64_t i = 2; i < 2 + SPANS; i++)
            put(assembler, t, i);
    size_t waiting = TRACES - taken.traces;
    assert_int_equal(taken.first, 1);
    assert_int_equal(taken.spans, taken.traces * SPANS);
    assert_int_equal(assembler_get_counts(assembler)->hurried, taken.traces);
    /* A span takes between 10 and 60 bytes, with its share of the trace's. */
    assert_in_range(waiting * SPANS, LIMIT / 60, LIMIT / 10);
    assert_int_equal(assembler_flush(assembler, UINT64_MAX), 0);
    assert_int_equal(taken.traces, TRACES);
    assert_int_equal(taken.spans, TRACES * SPANS);
    assembler_free(assembler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_waits_has_a_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
