/* What the machine's CPUs did: the kernel's file, time that a hypervisor took, CPUs that were idle while a
 * thread waited for one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/machine.h"

#include "feed_services.h"

static void counts_of_each_cpu(void **state)
{
    struct machine machine = {0};
    struct machine_counts counts;
    assert_true(machine_parse(&machine,
                              "cpu  10 0 5 300 20 0 1 7 0 0\ncpu0 5 0 3 100 10 0 1 3 0 0\n"
                              "cpu1 5 0 2 200 10 0 0 4 0 0\nintr 12 0\n",
                              100, &counts));
    assert_int_equal(counts.stolen_ns, MS(70));
    assert_int_equal(counts.idlest_ns, 0); /* nothing to compare with */
    assert_int_equal(counts.cpus, 2);
    assert_true(machine_parse(&machine,
                              "cpu  10 0 5 300 20 0 1 9 0 0\ncpu0 5 0 3 104 10 0 1 3 0 0\n"
                              "cpu1 5 0 2 207 12 0 0 6 0 0\ncpu600 5 0 2 907 12 0 0 6 0 0\nintr 12 0\n",
                              100, &counts));
    assert_int_equal(counts.stolen_ns, MS(90));
    assert_int_equal(counts.idlest_ns, MS(90));
    assert_int_equal(counts.cpus, 3);
    assert_false(machine_parse(&machine, "", 100, &counts));
    assert_false(machine_parse(&machine, "intr 1 2 3 4 5 6 7 8\n", 100, &counts));
    assert_false(machine_parse(&machine, "cpu  10 0 5 300 20 0 1\n", 100, &counts)); /* cut off */
    assert_false(machine_parse(&machine, "cpu  10 0 5 300 20 0 1 9 0 0\n", 0, &counts));
}

static void read_from_the_kernel(void **state)
{
    struct machine machine = {0};
    struct machine_counts counts;
    assert_true(machine_read(&machine, MS(1000), &counts));
    assert_true(counts.cpus > 0);
    assert_false(machine_read(&machine, MS(1001), &counts)); /* too early */
    machine_done(&machine);
}

/* A callback of 300 ms, of which the thread ran for 30 and waited in the run queue for wait_ns; the machine's
 * steal time grew by stolen_ns meanwhile, and a CPU was idle for idlest_ns of each 100 ms. */
static void stands(struct feed *feed, uint64_t wait_ns, uint64_t stolen_ns, uint64_t idlest_ns)
{
    start(feed);
    FEED(feed, thread_sched, 0, 0, MS(10), 0, .run_ns = MS(1), .wait_ns = 0, .pid = API, .tid = API);
    FEED(feed, machine_cpu, 0, 0, MS(50), 0, .stolen_ns = MS(5000), .idlest_ns = 0, .cpus = 2);
    begin(feed, API, 30, "/a", MS(100));
    for (unsigned i = 0; i <= 3; i++)
        FEED(feed, machine_cpu, 0, 0, MS(100) * (i + 1), 0, .stolen_ns = MS(5000) + stolen_ns * i / 3,
             .idlest_ns = idlest_ns, .cpus = 2);
    answer(feed, API, 30, MS(401));
    end_turn(feed, API, 30, MS(100) - US(50), MS(402));
    FEED(feed, thread_sched, 0, 0, MS(403), 0, .run_ns = MS(31), .wait_ns = wait_ns, .pid = API, .tid = API);
    FEED(feed, machine_cpu, 0, 0, MS(500), 0, .stolen_ns = MS(5000) + stolen_ns, .idlest_ns = idlest_ns,
         .cpus = 2);
    feed_finish(feed);
}

static void stolen_time_is_the_hypervisors(void **state)
{
    struct feed feed;
    stands(&feed, 0, MS(240), 0);
    const struct finding *f = feed_finding(&feed, FINDING_cpu_stolen);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_INFO); /* it is not the program's doing */
    assert_int_equal(finding_get_evidence(f, "stolen_ns")->count, MS(240));
    assert_int_equal(f->affected_count, 1);
    assert_null(feed_finding(&feed, FINDING_run_queue_wait));
    assert_null(feed_finding(&feed, FINDING_event_loop_blocked));
    feed_done(&feed);
}

/* Never more than the thread neither ran nor waited: the machine has other CPUs, too. */
static void no_more_is_stolen_than_is_missing(void **state)
{
    struct feed feed;
    stands(&feed, 0, MS(900), 0);
    const struct finding *f = feed_finding(&feed, FINDING_cpu_stolen);
    assert_in_range(finding_get_evidence(f, "stolen_ns")->count, MS(260), MS(275));
    feed_done(&feed);

    stands(&feed, MS(270), MS(900), 0); /* it stood in a queue, which is told as before */
    assert_null(feed_finding(&feed, FINDING_cpu_stolen));
    assert_non_null(feed_finding(&feed, FINDING_run_queue_wait));
    feed_done(&feed);
}

static void a_cpu_was_idle_while_it_waited(void **state)
{
    struct feed feed;
    stands(&feed, MS(270), 0, MS(90));
    const struct finding *f = feed_finding(&feed, FINDING_run_queue_wait);
    assert_non_null(f);
    assert_int_equal(finding_get_evidence(f, "idle_cpu_ns")->count,
                     finding_get_evidence(f, "waited_ns")->count);
    assert_non_null(strstr(f->detail, "was idle"));
    feed_done(&feed);

    stands(&feed, MS(270), 0, MS(50)); /* for half of the time only */
    f = feed_finding(&feed, FINDING_run_queue_wait);
    assert_null(finding_get_evidence(f, "idle_cpu_ns"));
    assert_non_null(strstr(f->detail, "more work than CPUs"));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_of_each_cpu),
        cmocka_unit_test(read_from_the_kernel),
        cmocka_unit_test(stolen_time_is_the_hypervisors),
        cmocka_unit_test(no_more_is_stolen_than_is_missing),
        cmocka_unit_test(a_cpu_was_idle_while_it_waited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
