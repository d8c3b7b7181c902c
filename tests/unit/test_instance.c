/* Which processes have the same job. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/instance.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "test.h"

#define JOB(words) instance_job(words, sizeof(words), "0-3", "")

static void numbers_make_no_difference(void **state)
{
    assert_int_equal(JOB("node\0server.js\0--port\0005001"), JOB("node\0server.js\0--port\00083"));
    assert_int_not_equal(JOB("node\0server.js"), JOB("node\0worker.js"));
    assert_int_not_equal(JOB("node\0server.js"), JOB("node\0server.js\0--verbose"));
    assert_int_equal(JOB("redis-server 127.0.0.1:7001 [cluster]\0\0\0"),
                     JOB("redis-server 127.0.0.1:7002 [cluster]"));
    assert_int_equal(instance_job("", 0, "0-3", ""), 0); /* the kernel's threads have none */
    assert_int_equal(JOB("\0\0"), 0);
}

static void titles_count_by_their_first_words(void **state)
{
    assert_int_equal(JOB("postgres: app shop 127.0.0.1(50112) SELECT"),
                     JOB("postgres: app shop 127.0.0.1(50114) idle in transaction"));
    assert_int_not_equal(JOB("postgres: checkpointer "), JOB("postgres: walwriter "));
    assert_int_not_equal(JOB("nginx: master process nginx"), JOB("nginx: worker process"));
}

static void so_does_what_they_may_use(void **state)
{
    static const char words[] = "java\0-jar\0shop.jar";
    uint64_t job = instance_job(words, sizeof(words), "0-3", "max 100000");
    assert_int_equal(instance_job(words, sizeof(words), "0-3", "max 100000"), job);
    assert_int_not_equal(instance_job(words, sizeof(words), "0-7", "max 100000"), job);
    assert_int_not_equal(instance_job(words, sizeof(words), "0-3", "50000 100000"), job);
}

static void reads_this_process(void **state)
{
    struct profile_instance process = {0}, thread = {0}, none = {.job = 1};
    instance_read(getpid(), 0, &process);
    instance_read(getpid(), getpid(), &thread);
    assert_true(process.known && thread.known);
    assert_int_not_equal(process.job, 0);
    assert_int_equal(process.parent, getppid());
    assert_true(process.from_ns > 0 && process.from_ns <= clock_monotonic_ns());
    assert_true(thread.from_ns > 0 && thread.from_ns <= clock_monotonic_ns());
    instance_read(0x7fffffff, 0, &none); /* there is none of that number */
    assert_true(none.known && !none.job && !none.from_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_make_no_difference),
        cmocka_unit_test(titles_count_by_their_first_words),
        cmocka_unit_test(so_does_what_they_may_use),
        cmocka_unit_test(reads_this_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
