/* The store of profiles: what is added is there once, whoever was killed in between; gaps, damage, retention
 * and quota. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/keeping.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "profile/windows.h"
#include "test.h"
#include "test_folder.h"

#define START 1800000000ull /* a multiple of an hour */

static struct profile *window_of(uint64_t start_s, uint64_t seconds, uint64_t samples)
{
    struct profile *p;
    assert_int_equal(profile_new(&p), 0);
    uint32_t node = profile_child(p, 0, profile_named_frame(p, "shop", FRAME_GROUP));
    node = profile_child(p, node, profile_named_frame(p, "work", FRAME_NATIVE));
    profile_count(p, node, samples, samples * 1000);
    p->start_ns = start_s * 1000000000;
    p->end_ns = (start_s + seconds) * 1000000000;
    return p;
}

static void add(uint64_t start_s, uint64_t samples)
{
    struct problem problem;
    struct profile *p = window_of(start_s, 10, samples);
    assert_int_equal(store_add(folder, p, start_s, 10, &problem), 0);
    profile_free(p);
}

static uint64_t samples_between(uint64_t from_s, uint64_t until_s, struct store_sum *ret_sum)
{
    struct profile *p;
    struct problem problem;
    uint64_t samples = 0;
    assert_int_equal(profile_new(&p), 0);
    assert_int_equal(profile_windows_begin(p), 0);
    assert_int_equal(store_sum(folder, from_s, until_s, p, ret_sum, &problem), 0);
    array_foreach (&p->nodes, n)
        samples += n->count;
    profile_free(p);
    return samples;
}

static size_t files(void)
{
    struct store_window *list;
    struct problem problem;
    size_t count;
    assert_int_equal(store_list(folder, &list, &count, &problem), 0);
    free(list);
    return count;
}

static void sums_of_any_length(void **state)
{
    (void)state;
    struct store_sum sum;
    struct problem problem;
    for (uint64_t i = 0; i < 720; i++) /* two hours; from 300 on two minutes are missing */
        if (i < 300 || i >= 312)
            add(START + 10 * i, 1 + i % 3);
    uint64_t all = samples_between(0, UINT64_MAX / 2, &sum);
    assert_int_equal(sum.windows, 708);
    assert_int_equal(sum.covered_s, 7080);
    assert_int_equal(sum.gap_s, 120);
    assert_int_equal(sum.start_s, START);
    assert_int_equal(sum.end_s, START + 7200);
    uint64_t first = samples_between(START, START + 3600, &sum);
    for (uint64_t later = 0; later <= 40; later++) { /* as time goes by, windows become longer */
        assert_int_equal(store_tidy(folder, &STORE_USUAL, START + 7200 + later * 3600, &problem), 0);
        assert_int_equal(samples_between(0, UINT64_MAX / 2, &sum), all);
        assert_int_equal(sum.covered_s, 7080);
        assert_int_equal(sum.gap_s, 120);
        assert_int_equal(samples_between(START, START + 3600, &sum), first);
    }
    assert_int_equal(files(), 2);
}

/* Killed after the longer window was written and before its parts were removed. */
static void nothing_is_counted_twice(void **state)
{
    (void)state;
    struct store_sum sum;
    struct problem problem;
    char from[TEST_PATH + 64], to[TEST_PATH + 64];
    for (uint64_t i = 0; i < 6; i++)
        add(START + 10 * i, 10);
    for (uint64_t i = 0; i < 6; i++) { /* keep the parts */
        snprintf(from, sizeof(from), "%s/windows/%llu-10.pb.gz", folder, START + 10 * i);
        snprintf(to, sizeof(to), "%s/part%llu", folder, (unsigned long long)i);
        assert_int_equal(link(from, to), 0);
    }
    assert_int_equal(store_tidy(folder, &STORE_USUAL, START + 86400, &problem), 0);
    assert_int_equal(files(), 1);
    for (uint64_t removed = 6; removed-- > 0;) { /* so many parts were removed by then */
        for (uint64_t i = removed; i < 6; i++) {
            snprintf(to, sizeof(to), "%s/windows/%llu-10.pb.gz", folder, START + 10 * i);
            snprintf(from, sizeof(from), "%s/part%llu", folder, (unsigned long long)i);
            assert_int_equal(link(from, to), 0);
        }
        assert_int_equal(samples_between(0, UINT64_MAX / 2, &sum), 60);
        assert_int_equal(store_tidy(folder, &STORE_USUAL, START + 86400, &problem), 0);
        assert_int_equal(samples_between(0, UINT64_MAX / 2, &sum), 60);
        assert_int_equal(files(), 1);
    }
    snprintf(to, sizeof(to), "%s/windows/%llu-10.pb.gz", folder, START + 50);
    assert_int_equal(access(to, F_OK), -1);
}

/* The clock was set back: both windows are of this time. */
static void the_same_time_again(void **state)
{
    (void)state;
    struct store_sum sum;
    add(START, 10);
    add(START, 7);
    assert_int_equal(samples_between(0, UINT64_MAX / 2, &sum), 17);
    assert_int_equal(sum.windows, 1);
}

/* The clock was set back to a time whose windows have become one of a minute, then of an hour. */
static void a_time_that_is_over_again(void **state)
{
    (void)state;
    struct store_sum sum;
    struct problem problem;
    static const uint64_t LATER_S[] = {4000, 2 * 86400};
    uint64_t expected = 0;
    for (size_t later = 0; later < ARRAY_SIZE(LATER_S); later++) {
        for (uint64_t i = 0; i < 12; i++, expected += 10)
            add(START + 10 * i, 10);
        assert_int_equal(store_tidy(folder, &STORE_USUAL, START + LATER_S[later], &problem), 0);
        assert_int_equal(files(), 2); /* two minutes; two hours */
        add(START + 30, 7);           /* set back by hours */
        add(START + 3600 * 3, 5);
        expected += 12;
        for (int again = 0; again < 2; again++) {
            assert_int_equal(samples_between(0, UINT64_MAX / 2, &sum), expected);
            assert_int_equal(store_tidy(folder, &STORE_USUAL, START + LATER_S[later], &problem), 0);
        }
        assert_int_equal(sum.start_s, START);
    }
}

/* Forward by an hour and back again: the time between is a gap, and what was sampled is there once. */
static void a_clock_that_is_set_forward_and_back(void **state)
{
    (void)state;
    struct store_sum sum;
    struct problem problem;
    for (uint64_t i = 0; i < 30; i++) {
        uint64_t clock = START + 10 * i + (i >= 10 && i < 20 ? 3600 : 0);
        add(clock, 10);
        assert_int_equal(store_tidy(folder, &STORE_USUAL, clock + 10, &problem), 0);
        assert_int_equal(samples_between(0, UINT64_MAX / 2, &sum), 10 * (i + 1));
    }
    assert_int_equal(sum.covered_s, 300);
    assert_int_equal(sum.gap_s, 3600 + 200 - 300);
}

/* A machine that sleeps: monotonic time stands still, so that a window covers less than its length, and the
 * next one begins later. */
static void a_machine_that_sleeps(void **state)
{
    (void)state;
    struct store_sum sum;
    struct problem problem;
    struct profile *p = window_of(START, 4, 4); /* four of its ten seconds */
    assert_int_equal(store_add(folder, p, START, 10, &problem), 0);
    profile_free(p);
    add(START + 7200, 10);
    assert_int_equal(samples_between(0, UINT64_MAX / 2, &sum), 14);
    assert_int_equal(sum.covered_s, 14);
    assert_int_equal(sum.gap_s, 7210 - 14);
}

/* No room for the sum: its parts stay, nothing half-written does, and it is made when there is room. */
static void no_room_for_a_longer_window(void **state)
{
    (void)state;
    struct store_sum sum;
    struct problem problem;
    struct rlimit before, small = {0};
    struct stat st;
    char file[TEST_PATH + 64];
    for (uint64_t i = 0; i < 6; i++)
        add(START + 10 * i, 10);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){.rlim_cur = 20, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int r = store_tidy(folder, &STORE_USUAL, START + 86400, &problem);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(r, -EFBIG);
    assert_int_equal(files(), 6);
    assert_int_equal(samples_between(0, UINT64_MAX / 2, &sum), 60);
    snprintf(file, sizeof(file), "%s/windows/%llu-60.pb.gz.new", folder, START);
    assert_int_equal(stat(file, &st), -1);
    assert_int_equal(store_tidy(folder, &STORE_USUAL, START + 86400, &problem), 0);
    assert_int_equal(files(), 1);
    assert_int_equal(samples_between(0, UINT64_MAX / 2, &sum), 60);
}

/* Killed while it wrote: what it had not renamed counts for nothing, and goes when its time is over for a
 * day. */
static void unfinished_files_go(void **state)
{
    (void)state;
    struct store_sum sum;
    struct problem problem;
    char file[TEST_PATH + 64];
    add(START, 10);
    snprintf(file, sizeof(file), "%s/windows/%llu-10.pb.gz.new", folder, START + 10);
    assert_int_equal(file_replace(file, "half of", 7), 0);
    assert_int_equal(samples_between(0, UINT64_MAX / 2, &sum), 10);
    assert_int_equal(store_tidy(folder, &STORE_USUAL, START + 30, &problem), 0);
    assert_int_equal(access(file, F_OK), 0); /* somebody may write it */
    assert_int_equal(store_tidy(folder, &STORE_USUAL, START + 20 + 86400, &problem), 0);
    assert_int_equal(access(file, F_OK), -1);
    assert_int_equal(samples_between(0, UINT64_MAX / 2, &sum), 10);
}

static void damage_is_a_gap(void **state)
{
    (void)state;
    struct store_sum sum;
    struct problem problem;
    char file[TEST_PATH + 64];
    for (uint64_t i = 0; i < 3; i++)
        add(START + 10 * i, 10);
    snprintf(file, sizeof(file), "%s/windows/%llu-10.pb.gz", folder, START + 10);
    assert_int_equal(truncate(file, 20), 0);
    assert_int_equal(samples_between(0, UINT64_MAX / 2, &sum), 20);
    assert_int_equal(sum.damaged, 1);
    assert_int_equal(sum.gap_s, 10);
    /* Names that are none, links and folders are no windows. */
    static const char *const OTHERS[] = {"x",
                                         "1-0.pb.gz",
                                         "-1-10.pb.gz",
                                         "1-99999999.pb.gz",
                                         "1-10.pb.gz.part",
                                         "99999999999999999999999-10.pb.gz",
                                         "5--5.pb.gz"};
    for (size_t i = 0; i < ARRAY_SIZE(OTHERS); i++) {
        snprintf(file, sizeof(file), "%s/windows/%s", folder, OTHERS[i]);
        assert_int_equal(file_replace(file, "x", 1), 0);
    }
    snprintf(file, sizeof(file), "%s/windows/77-10.pb.gz", folder);
    assert_int_equal(symlink("/etc/passwd", file), 0);
    assert_int_equal(files(), 3);
    assert_int_equal(store_tidy(folder, &STORE_USUAL, START + 86400, &problem), 0);
    assert_int_equal(samples_between(0, UINT64_MAX / 2, &sum), 20);
    assert_int_equal(sum.covered_s, 20); /* of the minute that is one file now */
}

static void old_and_too_much_goes(void **state)
{
    (void)state;
    struct problem problem;
    struct store_sum sum;
    struct store_options small = STORE_USUAL;
    for (uint64_t i = 0; i < 100; i++)
        add(START + 10 * i, 10);
    struct store_window *list;
    size_t count;
    assert_int_equal(store_list(folder, &list, &count, &problem), 0);
    small.quota_bytes = list[0].bytes * 30;
    free(list);
    assert_int_equal(store_tidy(folder, &small, START + 1000, &problem), 0);
    uint64_t left = samples_between(0, UINT64_MAX / 2, &sum);
    assert_true(left >= 200 && left <= 310);
    assert_int_equal(sum.end_s, START + 1000); /* the oldest went */
    assert_int_equal(store_tidy(folder, &STORE_USUAL, START + 61 * 86400, &problem), 0);
    assert_int_equal(samples_between(0, UINT64_MAX / 2, &sum), 0);
}

static void no_store(void **state)
{
    (void)state;
    struct problem problem = {0};
    struct store_window *list;
    size_t count;
    assert_int_equal(store_list("/nowhere", &list, &count, &problem), -ENOENT);
    struct profile *p = window_of(START, 10, 1);
    assert_true(store_add("/proc/nowhere", p, START, 10, &problem) < 0);
    profile_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sums_of_any_length, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(nothing_is_counted_twice, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(the_same_time_again, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_time_that_is_over_again, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_clock_that_is_set_forward_and_back, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_machine_that_sleeps, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(no_room_for_a_longer_window, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(unfinished_files_go, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damage_is_a_gap, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(old_and_too_much_goes, make_folder, remove_folder),
        cmocka_unit_test(no_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
