/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/outlier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/business.h"
#include "profile/windows.h"
#include "test.h"

/* samples of 10 each in a process (and, with tid, a thread) in one function. */
static void sampled(struct profile *p, const char *process, int pid, const char *thread, int tid,
                    const char *function, unsigned samples)
{
    char text[96];
    uint32_t node;
    snprintf(text, sizeof(text), "%s (%d)", process, pid);
    node = profile_child(p, 0, profile_named_frame(p, text, FRAME_GROUP));
    if (thread) {
        snprintf(text, sizeof(text), "thread %s (%d)", thread, tid);
        node = profile_child(p, node, profile_named_frame(p, text, FRAME_GROUP));
    }
    node = profile_child(p, node, profile_named_frame(p, "main", FRAME_NATIVE));
    node = profile_child(p, node, profile_named_frame(p, function, FRAME_NATIVE));
    profile_count(p, node, samples, samples * 10);
}

static void names_the_one_that_costs_more(void **state)
{
    struct profile *p = NULL;
    size_t count;
    assert_int_equal(profile_new(&p), 0);
    for (int i = 0; i < 6; i++)
        sampled(p, "shop", 100 + i, NULL, 0, "work", 200 + (unsigned)i * 3);
    sampled(p, "shop", 103, NULL, 0, "leak", 300);
    sampled(p, "other", 200, NULL, 0, "work", 90000); /* another service */
    struct profile_outlier *o = profile_outliers(p, &count);
    assert_non_null(o);
    assert_int_equal(count, 1);
    assert_string_equal(profile_text(p, p->frames.at[p->nodes.at[o->node].frame].name), "shop (103)");
    assert_false(o->is_thread);
    assert_int_equal(o->equals, 5);
    assert_int_equal(o->weight, 5090);
    assert_string_equal(profile_text(p, p->frames.at[o->frame].name), "leak");
    assert_int_equal(o->frame_weight, 3000);
    assert_int_equal(o->frame_mean, 0);
    free(o);
    profile_free(p);
}

static void finds_threads_within_their_pool(void **state)
{
    struct profile *p = NULL;
    size_t count;
    assert_int_equal(profile_new(&p), 0);
    for (int i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof(name), "worker-%d", i);
        sampled(p, "shop", 100, name, 200 + i, "work", i == 5 ? 500 : 100);
    }
    sampled(p, "shop", 100, "acceptor", 300, "accept", 9000); /* no equal */
    struct profile_outlier *o = profile_outliers(p, &count);
    assert_int_equal(count, 1);
    assert_true(o->is_thread);
    assert_string_equal(profile_text(p, p->frames.at[p->nodes.at[o->node].frame].name),
                        "thread worker-5 (205)");
    assert_string_equal(profile_text(p, p->frames.at[p->nodes.at[o->process].frame].name), "shop (100)");
    assert_string_equal(profile_text(p, p->frames.at[o->frame].name), "work");
    assert_int_equal(o->frame_mean, 1000);
    free(o);
    profile_free(p);
}

/* A thread without a name of its own has the program's, as the main thread has; they are no equals. */
static void a_main_thread_is_no_member_of_a_pool(void **state)
{
    struct profile *p = NULL;
    size_t count;
    assert_int_equal(profile_new(&p), 0);
    sampled(p, "node", 100, "node", 100, "serve", 9000);
    for (int i = 1; i < 6; i++)
        sampled(p, "node", 100, "node", 100 + i, "compile", 10);
    struct profile_outlier *o = profile_outliers(p, &count);
    assert_int_equal(count, 0);
    free(o);
    sampled(p, "node", 100, "node", 106, "compile", 900); /* but its helpers are equals */
    o = profile_outliers(p, &count);
    assert_int_equal(count, 1);
    assert_int_equal(o->equals, 5);
    assert_string_equal(profile_text(p, p->frames.at[p->nodes.at[o->node].frame].name), "thread node (106)");
    free(o);
    profile_free(p);
}

static void expect_no_outlier(const struct profile *p)
{
    size_t count;
    struct profile_outlier *o = profile_outliers(p, &count);
    assert_non_null(o);
    assert_int_equal(count, 0);
    free(o);
}

/* Only the number at the end tells members apart. */
static void numbers_within_a_name_are_the_pools(void **state)
{
    struct profile *p = NULL;
    char name[32];
    assert_int_equal(profile_new(&p), 0);
    for (int i = 1; i <= 4; i++) {
        snprintf(name, sizeof(name), "pool-1-thread-%d", i);
        sampled(p, "java", 100, name, 200 + i, "work", 900);
        snprintf(name, sizeof(name), "pool-2-thread-%d", i);
        sampled(p, "java", 100, name, 300 + i, "work", 10);
        snprintf(name, sizeof(name), "C%d CompilerThre", i);
        sampled(p, "java", 100, name, 400 + i, "compile", i == 2 ? 900 : 10);
    }
    expect_no_outlier(p);
    profile_free(p);
}

/* Without a name of its own a thread's job shows where it begins. */
static void unnamed_threads_are_equals_by_their_entry(void **state)
{
    struct profile *p = NULL;
    assert_int_equal(profile_new(&p), 0);
    for (int i = 1; i <= 5; i++) {
        char text[32];
        snprintf(text, sizeof(text), "thread python3 (%d)", 100 + i);
        uint32_t node = profile_child(p, 0, profile_named_frame(p, "python3 (100)", FRAME_GROUP));
        node = profile_child(p, node, profile_named_frame(p, text, FRAME_GROUP));
        struct profile_frame start = {.name = profile_string(p, "start_thread"),
                                      .module = profile_string(p, "libc.so.6")};
        node = profile_child(p, node, profile_add_frame(p, &start)); /* all begin there */
        struct profile_frame job = {.name = profile_string(p, i == 5 ? "compute" : "reader"),
                                    .file = profile_string(p, "/srv/shop.py"),
                                    .kind = FRAME_PYTHON};
        node = profile_child(p, node, profile_add_frame(p, &job));
        profile_count(p, node, i == 5 ? 900 : 10, i == 5 ? 9000 : 100);
    }
    expect_no_outlier(p);
    profile_free(p);
}

static void waiting_is_no_cost(void **state)
{
    struct profile *p = NULL;
    assert_int_equal(profile_new(&p), 0);
    strcpy(p->event, "wall");
    for (int i = 0; i < 6; i++)
        sampled(p, "shop", 100 + i, NULL, 0, "wait", i == 3 ? 900 : 100);
    expect_no_outlier(p);
    strcpy(p->event, "off-cpu");
    expect_no_outlier(p);
    profile_free(p);
}

/* ---- instances over time ---- */

#define SECOND 1000000000ull

/* A profile of 16 s, in windows of one. */
static struct profile *over_time(void)
{
    struct profile *p = NULL;
    assert_int_equal(profile_new(&p), 0);
    assert_int_equal(profile_windows_begin(p), 0);
    p->windows->start_ns = 1000 * SECOND;
    p->windows->width_ns = SECOND;
    return p;
}

/* A process that is there from one second to another, with so many samples of 10 in each. */
static void lived(struct profile *p, int pid, int parent, uint64_t job, int from, int until, unsigned samples)
{
    char text[32];
    snprintf(text, sizeof(text), "shop (%d)", pid);
    uint32_t frame = profile_named_frame(p, text, FRAME_GROUP);
    uint32_t node =
        profile_child(p, profile_child(p, 0, frame), profile_named_frame(p, "work", FRAME_NATIVE));
    for (int second = from; second < until; second++)
        for (unsigned i = 0; i < samples; i++) {
            profile_count(p, node, 1, 10);
            profile_windows_add_at(p, node, 10, (uint32_t)second);
        }
    *profile_windows_instance(p, frame) =
        (struct profile_instance){.known = true,
                                  .from_ns = (1000 + (uint64_t)from) * SECOND,
                                  .until_ns = until < 16 ? (1000 + (uint64_t)until) * SECOND : 0,
                                  .job = job,
                                  .parent = parent};
}

static void who_came_later_has_done_less(void **state)
{
    struct profile *p = over_time();
    size_t count;
    lived(p, 100, 1, 1, 0, 16, 50);
    for (int i = 1; i < 6; i++)
        lived(p, 100 + i, 1, 1, 12, 16, 50);
    expect_no_outlier(p);
    lived(p, 107, 1, 1, 12, 16, 200); /* compared over the time in which others were there */
    struct profile_outlier *o = profile_outliers(p, &count);
    assert_int_equal(count, 1);
    assert_int_equal(o->weight, 8000);
    assert_int_equal(o->median, 2000);
    assert_int_equal(o->equals, 6);
    free(o);
    profile_free(p);
}

static void who_left_early_is_no_equal(void **state)
{
    struct profile *p = over_time();
    for (int i = 0; i < 6; i++)
        lived(p, 100 + i, 1, 1, 0, i ? 3 : 16, 50);
    expect_no_outlier(p);
    profile_free(p);
}

/* A build's compilers: the same work with other input, a few at a time. */
static void jobs_are_no_instances(void **state)
{
    struct profile *p = over_time();
    for (int i = 0; i < 15; i++)
        lived(p, 100 + i, 1, 1, i, i + 1, 50);
    lived(p, 200, 1, 1, 4, 14, 100);
    expect_no_outlier(p);
    profile_free(p);
}

/* An instance that is there all the time stands out, however little its equals do. */
static void idle_equals_are_equals(void **state)
{
    struct profile *p = over_time();
    size_t count;
    for (int i = 0; i < 5; i++) {
        lived(p, 100 + i, 1, 1, 0, 16, 0);
        lived(p, 100 + i, 1, 1, i, i + 1, 1);
        profile_windows_instance(p, p->nodes.at[p->nodes.count - 2].frame)->until_ns = 0;
        profile_windows_instance(p, p->nodes.at[p->nodes.count - 2].frame)->from_ns = 1000 * SECOND;
    }
    lived(p, 105, 1, 1, 0, 16, 50);
    struct profile_outlier *o = profile_outliers(p, &count);
    assert_int_equal(count, 1);
    assert_int_equal(o->equals, 5);
    free(o);
    profile_free(p);
}

static void one_long_task_is_chance(void **state)
{
    struct profile *p = over_time();
    for (int i = 0; i < 6; i++)
        lived(p, 100 + i, 1, 1, 0, 16, 10);
    uint32_t node = profile_child(p, 1, profile_named_frame(p, "task", FRAME_NATIVE));
    profile_count(p, node, 1000, 10000);
    profile_windows_add_at(p, node, 10000, 5);
    expect_no_outlier(p);
    profile_free(p);
}

static void parents_and_other_jobs_are_no_equals(void **state)
{
    struct profile *p = over_time();
    for (int i = 1; i < 6; i++)
        lived(p, 100 + i, 100, 1, 0, 16, 10);
    lived(p, 100, 1, 1, 0, 16, 100); /* it has started them */
    lived(p, 200, 1, 2, 0, 16, 100); /* the same program with other arguments */
    expect_no_outlier(p);
    profile_free(p);
}

static void is_silent_about_chance(void **state)
{
    /* Few samples scatter; two equals tell nothing. */
    static const unsigned few[] = {1, 0, 4, 2, 1, 0, 3};
    struct profile *p = NULL;
    size_t count;
    assert_int_equal(profile_new(&p), 0);
    for (int i = 0; i < 7; i++)
        sampled(p, "few", 100 + i, NULL, 0, "work", few[i]);
    sampled(p, "pair", 200, NULL, 0, "work", 1000);
    sampled(p, "pair", 201, NULL, 0, "work", 10);
    srand(3);
    for (int i = 0; i < 200; i++)
        sampled(p, "many", 300 + i, NULL, 0, "work", 100 + (unsigned)(rand() % 21) - 10);
    struct profile_outlier *o = profile_outliers(p, &count);
    assert_int_equal(count, 0);
    free(o);
    profile_free(p);
}

/* Many that ended together are no instance, but of their service. */
static void ended_processes_are_compared_with_nobody(void **state)
{
    struct profile *p = NULL, *services = NULL;
    size_t count;
    assert_int_equal(profile_new(&p), 0);
    for (int i = 0; i < 8; i++)
        sampled(p, "cc", 100 + i, NULL, 0, "work", 100);
    uint32_t ended = profile_child(p, 0, profile_named_frame(p, "cc (" PROFILE_ENDED ")", FRAME_GROUP));
    uint32_t last = profile_child(p, ended, profile_named_frame(p, "main", FRAME_NATIVE));
    profile_count(p, profile_child(p, last, profile_named_frame(p, "work", FRAME_NATIVE)), 9000, 90000);
    struct profile_outlier *o = profile_outliers(p, &count);
    assert_int_equal(count, 0);
    free(o);
    assert_int_equal(profile_by_service(p, &services), 0);
    assert_int_equal(services->nodes.count, 4); /* the root, cc, main, work */
    profile_free(services);
    profile_free(p);
}

/* A kernel's thread is there once for each CPU. */
static void kernel_threads_are_one_service_each(void **state)
{
    struct profile *p = NULL, *services = NULL;
    assert_int_equal(profile_new(&p), 0);
    sampled(p, "[kworker/0:1]", 20, NULL, 0, "work", 100);
    sampled(p, "[kworker/u4:2]", 21, NULL, 0, "work", 100);
    sampled(p, "a/b", 22, NULL, 0, "work", 100);
    assert_int_equal(profile_by_service(p, &services), 0);
    assert_string_equal(profile_text(services, services->frames.at[services->nodes.at[1].frame].name),
                        "[kworker]");
    assert_int_equal(services->nodes.count, 7); /* the root, and twice: the service, main, work */
    profile_free(services);
    profile_free(p);
}

static void reads_group_names(void **state)
{
    char name[64];
    assert_int_equal(profile_group_parts("thread io (x) (12)", name, sizeof(name)), 12);
    assert_string_equal(name, "io (x)");
    assert_int_equal(profile_group_parts("a(3)", name, sizeof(name)), 0);
    assert_string_equal(name, "a(3)");
}

static void rules_decide_before_the_built_in_ones(void **state)
{
    struct business_rules rules = {0};
    struct problem problem = {0};
    struct profile *p = NULL;
    assert_int_equal(profile_new(&p), 0);
    uint32_t vendor = profile_named_frame(p, "org.apache.mine.Shop.buy", FRAME_JAVA);
    uint32_t app = profile_named_frame(p, "com.acme.rpc.Call.send", FRAME_JAVA);
    uint32_t python = profile_named_frame(p, "com.acme.rpc", FRAME_PYTHON);
    assert_true(business_is_library(p, NULL, vendor));
    assert_false(business_is_library(p, NULL, app));
    assert_int_equal(
        business_rules_read(&rules,
                            "# ours\n\njava application org.apache.mine.\njava library com.acme.\n"
                            "application com.acme.rpc.Call\n",
                            &problem),
        0);
    assert_int_equal(rules.list.count, 3);
    assert_false(business_is_library(p, &rules, vendor));
    assert_false(business_is_library(p, &rules, app)); /* the last rule that fits */
    rules.list.count = 2;
    assert_true(business_is_library(p, &rules, app));
    assert_int_equal(business_is_library(p, &rules, python), business_is_library(p, NULL, python));
    assert_true(business_rules_read(&rules, "java nonsense x\n", &problem) < 0);
    assert_non_null(strstr(problem.what, "line 1"));
    business_rules_done(&rules);
    profile_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_the_one_that_costs_more),
                                       cmocka_unit_test(finds_threads_within_their_pool),
                                       cmocka_unit_test(a_main_thread_is_no_member_of_a_pool),
                                       cmocka_unit_test(numbers_within_a_name_are_the_pools),
                                       cmocka_unit_test(unnamed_threads_are_equals_by_their_entry),
                                       cmocka_unit_test(waiting_is_no_cost),
                                       cmocka_unit_test(who_came_later_has_done_less),
                                       cmocka_unit_test(who_left_early_is_no_equal),
                                       cmocka_unit_test(jobs_are_no_instances),
                                       cmocka_unit_test(idle_equals_are_equals),
                                       cmocka_unit_test(one_long_task_is_chance),
                                       cmocka_unit_test(parents_and_other_jobs_are_no_equals),
                                       cmocka_unit_test(is_silent_about_chance),
                                       cmocka_unit_test(kernel_threads_are_one_service_each),
                                       cmocka_unit_test(reads_group_names),
                                       cmocka_unit_test(ended_processes_are_compared_with_nobody),
                                       cmocka_unit_test(rules_decide_before_the_built_in_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
