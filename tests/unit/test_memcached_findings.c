/* A thread of Memcached that has most of the work, and loads that are shared. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "targets/memcached/model.h"

#include "test.h"

enum { PID = 20 };

/* A server that was seen for 10 s, whose threads waited that many ms; the first is the process's own. */
static void report(struct report *to, const uint64_t *waited_ms, size_t count, uint64_t commands)
{
    struct memcached_model *model;
    assert_int_equal(memcached_model_new(&model), 0);
    assert_int_equal(
        array_add(&model->servers, (struct memcached_server){.pid = PID, .name = "memcached:11211"}), 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(array_add(&model->servers.at[0].threads,
                                   (struct memcached_thread){.tid = PID + (int64_t)i,
                                                             .commands = i ? commands : 0,
                                                             .wait_ns = waited_ms[i] * 1000000,
                                                             .first_ns = 1,
                                                             .last_ns = 10000000001}),
                         0);
    assert_int_equal(memcached_model_report(model, to), 0);
    memcached_model_free(model);
}

static void one_thread_with_most_of_the_work(void **state)
{
    struct report found = {0};
    report(&found, (const uint64_t[]){9000, 400, 8000, 9000}, 4, 20000);
    assert_int_equal(found.findings.count, 1);
    const struct finding *f = found.findings.at[0];
    assert_string_equal(finding_kinds[f->kind].name, "memcached-busy-thread");
    assert_int_equal(finding_get_evidence(f, "tid")->count, PID + 1);
    assert_float_equal(finding_get_evidence(f, "busy_share")->real, 0.96, 1e-9);
    assert_float_equal(finding_get_evidence(f, "others_busy_share")->real, 0.2, 1e-9);
    report_done(&found);
}

/* The others are busy too; there is no other; it has executed too little. */
static void shared_or_small_loads_are_none(void **state)
{
    const struct {
        uint64_t waited_ms[3], commands;
        size_t count;
    } CASES[] = {{{9000, 400, 3000}, 20000, 3}, {{9000, 400}, 20000, 2}, {{9000, 400, 9000}, 9999, 3}};
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct report found = {0};
        report(&found, CASES[i].waited_ms, CASES[i].count, CASES[i].commands);
        assert_int_equal(found.findings.count, 0);
        report_done(&found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_with_most_of_the_work),
        cmocka_unit_test(shared_or_small_loads_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
