/* Functions whose share has grown, in made stores: what is found, what is noise, what is like what. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/regressed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "diagnose/stats.h"
#include "steer/keeping.h"
#include "steer/regressed_watch.h"
#include "test.h"
#include "test_folder.h"

#define HOUR  3600ull
#define START 1800000000ull /* a multiple of six hours */
enum { FUNCTIONS = 20, HOT = 3, NIGHTLY = 7, SAMPLES_AN_HOUR = 20000 };

static uint32_t function_of(struct profile *p, uint32_t service, const char *name, const char *module)
{
    struct profile_frame f = {.name = profile_string(p, name), .module = profile_string(p, module)};
    uint32_t main_node = profile_child(p, service, profile_named_frame(p, "main", FRAME_NATIVE));
    return profile_child(p, main_node, profile_add_frame(p, &f));
}

/* An hour of the service: functions of equal shares, one of which takes `more` of the whole besides, another
 * twice as much in the first twelve hours of each day. */
static void add_hour(struct stats_random *random, uint64_t hour, double more, const char *module)
{
    struct profile *p;
    struct problem problem;
    assert_int_equal(profile_new(&p), 0);
    strcpy(p->event, "cpu");
    strcpy(p->unit, "nanoseconds");
    uint32_t shop = profile_child(p, 0, profile_named_frame(p, "shop", FRAME_GROUP));
    for (int i = 0; i < FUNCTIONS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "function_%d", i);
        double mean = (double)SAMPLES_AN_HOUR / FUNCTIONS * (i == NIGHTLY && hour % 24 < 12 ? 2 : 1) +
                      (i == HOT ? more * SAMPLES_AN_HOUR : 0);
        uint64_t samples = stats_random_poisson(random, mean);
        profile_count(p, function_of(p, shop, name, module), samples, samples * 1000000);
    }
    p->start_ns = (START + hour * HOUR) * 1000000000;
    p->end_ns = p->start_ns + HOUR * 1000000000;
    assert_int_equal(store_add(folder, p, START + hour * HOUR, HOUR, &problem), 0);
    profile_free(p);
}

static struct regressed judge(uint64_t from_hour, uint64_t until_hour)
{
    struct regressed found;
    struct problem problem = {0};
    struct regressed_options o = {.from_s = START + from_hour * HOUR,
                                  .until_s = START + until_hour * HOUR,
                                  .level = REGRESSED_LEVEL,
                                  .least = REGRESSED_LEAST};
    assert_int_equal(regressed_find(folder, &o, &found, &problem), 0);
    return found;
}

/* The program was built anew elsewhere, too. */
static void a_function_that_grew_is_found(void **state)
{
    (void)state;
    struct stats_random random;
    struct report report = {0};
    stats_random_init(&random, 1);
    for (uint64_t hour = 0; hour < 9 * 24; hour++)
        add_hour(&random, hour, hour < 210 ? 0 : 0.01, hour < 210 ? "/srv/v1/shop" : "/srv/v2/shop");
    struct regressed found = judge(210, 216);
    assert_int_equal(found.functions.count, 1);
    const struct regressed_function *f = found.functions.at;
    assert_string_equal(f->service, "shop");
    assert_string_equal(f->function, "function_3");
    assert_true(found.by_day && found.runs >= REGRESSED_RUNS_LEAST);
    assert_true(f->share.growth_low > 0.004 && f->share.growth_high < 0.016);
    assert_true(f->share.growth_low < 0.01 && 0.01 < f->share.growth_high);
    assert_int_equal(found.services, 1);
    assert_int_equal(regressed_report(&found, &report), 0);
    assert_int_equal(report.findings.count, 1);
    assert_int_equal(report.findings.at[0]->kind, FINDING_cpu_regression);
    assert_non_null(strstr(report.findings.at[0]->title, "function_3 takes 5."));
    assert_non_null(finding_get_evidence(report.findings.at[0], "growth_share_low"));
    report_done(&report);
    regressed_done(&found);
    found = judge(204, 210); /* before it changed */
    assert_int_equal(found.functions.count, 0);
    assert_int_equal(regressed_report(&found, &report), 0);
    assert_non_null(strstr(report.nothing, "No function of 1 service takes 0.25 points more"));
    report_done(&report);
    regressed_done(&found);
}

/* At noon there is something that there never is in the morning; the same hours of other days have it. */
static void the_hours_of_a_day_are_no_regression(void **state)
{
    (void)state;
    struct stats_random random;
    stats_random_init(&random, 2);
    for (uint64_t hour = 0; hour < 9 * 24; hour++)
        add_hour(&random, hour, 0, "shop");
    for (uint64_t hour = 7 * 24; hour <= 9 * 24; hour += 6) {
        struct regressed found = judge(hour - 6, hour);
        assert_int_equal(found.functions.count, 0);
        regressed_done(&found);
    }
}

static void what_happened_once_is_none(void **state)
{
    (void)state;
    struct stats_random random;
    stats_random_init(&random, 3);
    for (uint64_t hour = 0; hour < 8 * 24; hour++)
        add_hour(&random, hour, hour == 190 ? 0.3 : 0, "shop");
    struct regressed found = judge(186, 192);
    assert_int_equal(found.functions.count, 0);
    regressed_done(&found);
}

static void a_young_store_says_so(void **state)
{
    (void)state;
    struct stats_random random;
    struct report report = {0};
    stats_random_init(&random, 4);
    for (uint64_t hour = 0; hour < 36; hour++)
        add_hour(&random, hour, 0, "shop");
    struct regressed found = judge(30, 36); /* five stretches are before it */
    assert_int_equal(found.runs, 0);
    assert_int_equal(regressed_report(&found, &report), 0);
    assert_string_equal(report.nothing,
                        "No share was judged: fewer than 6 stretches of 6 h are kept from before.");
    report_done(&report);
    regressed_done(&found);
    found = judge(35, 36); /* of an hour there are more */
    assert_false(found.by_day);
    assert_true(found.runs >= REGRESSED_RUNS_LEAST);
    regressed_done(&found);
}

static void damaged_windows_are_left_out(void **state)
{
    (void)state;
    struct stats_random random;
    stats_random_init(&random, 5);
    for (uint64_t hour = 0; hour < 9 * 24; hour++)
        add_hour(&random, hour, hour < 210 ? 0 : 0.02, "shop");
    for (uint64_t hour = 6; hour < 216; hour += 41) {
        char path[TEST_PATH + 64];
        struct store_window w = {.start_s = START + hour * HOUR, .length_s = HOUR};
        store_window_path(path, sizeof(path), folder, &w);
        assert_int_equal(file_replace(path, "damaged", 7), 0);
    }
    struct regressed found = judge(210, 216);
    assert_true(found.damaged > 0);
    assert_int_equal(found.functions.count, 1);
    regressed_done(&found);
}

/* Every six hours both stretches are judged, a few windows at a time, and what was found is news once. */
static void the_watch_judges_every_six_hours(void **state)
{
    (void)state;
    struct stats_random random;
    struct problem problem;
    struct regressed_watch *watch;
    size_t news = 0, judged = 0, calls = 0, count;
    stats_random_init(&random, 6);
    for (uint64_t hour = 0; hour < 8 * 24; hour++)
        add_hour(&random, hour, 0, "shop");
    uint64_t now = START + 8 * 24 * HOUR;
    assert_int_equal(regressed_watch_new(folder, now, &watch), 0);
    assert_null(regressed_watch_last(watch));
    for (uint64_t hour = 8 * 24; hour < 9 * 24 + 1; hour++) {
        add_hour(&random, hour, 0.02, "shop");
        for (int i = 0; i < 60; i++, calls++) {
            int r = regressed_watch_step(watch, START + (hour + 1) * HOUR + (uint64_t)i * 60, 8, &problem);
            assert_true(r >= 0);
            judged += r == 1;
            if (r == 1)
                array_foreach (&((struct regressed *)regressed_watch_last(watch))->functions, f)
                    news += regressed_watch_is_new(watch, f);
        }
    }
    assert_int_equal(judged, 8);
    assert_int_equal(news, 1);
    assert_string_equal(regressed_watch_found(watch, &count)->function, "function_3");
    assert_int_equal(count, 1);
    /* Set back by days, the next judgement is in six hours all the same. */
    assert_int_equal(regressed_watch_step(watch, START + 5 * 24 * HOUR, 8, &problem), 0);
    for (judged = 0, calls = 0; !judged && calls < 1000; calls++)
        judged = regressed_watch_step(watch, START + (5 * 24 + 6) * HOUR + calls, 8, &problem) == 1;
    assert_true(judged);
    regressed_watch_free(watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_function_that_grew_is_found, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(the_hours_of_a_day_are_no_regression, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(what_happened_once_is_none, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_young_store_says_so, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damaged_windows_are_left_out, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(the_watch_judges_every_six_hours, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
