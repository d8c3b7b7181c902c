/* Hours of the last days: what is kept of them, what stands out, and what does not. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/days.h"

#include <math.h>

#include "base/clock.h"
#include "diagnose/stats.h"
#include "test.h"

#define HOUR_NS (3600 * NS_PER_S)

enum { FIRST = 480000, DAY = 24, TODAY = FIRST + 8 * DAY, NOW = TODAY + 12, REQUESTS = 150 };

struct plan {
    double day_spread;   /* log, between the levels of an hour on different days */
    double peak;         /* log, at noon of every day */
    double today;        /* log, of the hour that is judged */
    double yesterday;    /* log, of the same hour of yesterday, which was not as usual */
    double last_week;    /* and of a week ago */
    double errors_today; /* shares that fail */
    double errors;
    unsigned days;  /* of history */
    unsigned hours; /* that are like today's, of the last ones; 0: that hour alone */
    double weekend; /* log, of two days of each week, of which the second was yesterday */
    double earlier; /* log, of two hours of today that are over for an hour */
};

static void put_hour(struct days *days, struct stats_random *random, const struct plan *plan, uint32_t hour)
{
    double phase = (double)(hour % DAY) / DAY * 2 * M_PI,
           level = log(2e7) + plan->peak * (1 - cos(phase)) / 2;
    level += plan->day_spread * stats_random_normal(random);
    level += hour <= NOW && NOW - hour < (plan->hours ? plan->hours : 1) ? plan->today : 0;
    level += hour == NOW - DAY ? plan->yesterday : hour == NOW - 2 || hour == NOW - 3 ? plan->earlier : 0;
    level += (hour / DAY + 7 - (TODAY / DAY - 2) % 7) % 7 < 2 ? plan->weekend : 0;
    level += hour == NOW - 7 * DAY ? plan->last_week : 0;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        double ns = exp(level + 0.4 * stats_random_normal(random));
        bool fails = stats_random_unit(random) < (hour == NOW ? plan->errors_today : plan->errors);
        assert_int_equal(
            days_add(days, 3, hour * HOUR_NS + (uint64_t)i * HOUR_NS / REQUESTS, (uint64_t)ns, fails), 0);
    }
}

/* What the hour NOW says; p is 2 where nothing can be compared. */
static struct day_change judge(const struct plan *plan, enum day_measure measure, uint64_t seed)
{
    struct days days = {0};
    struct stats_random random;
    struct day_change change = {.p = 2};
    stats_random_init(&random, seed);
    for (uint32_t hour = NOW - plan->days * DAY - 2; hour <= NOW + 1; hour++)
        put_hour(&days, &random, plan, hour);
    assert_true(days.lines.at[3].hours.count <= DAYS_HOURS);
    days_compare(&days.lines.at[3], measure, NULL, &change);
    days_done(&days);
    return change;
}

static void finds_what_is_slower_today(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct plan plan = {.day_spread = 0.03, .peak = 0.7, .today = log(1.8), .days = 8};
        struct day_change c = judge(&plan, DAY_MIDDLE, seed);
        assert_int_equal(c.now.hour, NOW);
        assert_int_equal(c.yesterday.hour, NOW - DAY);
        assert_int_equal(c.last_week.hour, NOW - 7 * DAY);
        assert_int_equal(c.days, 8);
        assert_int_equal(c.now.requests, REQUESTS);
        assert_true(c.p < 1e-4);
        assert_true(c.ratio > 1.4 && c.ratio < 2.4);
    }
}

static void finds_errors_of_today(void **state)
{
    struct plan plan = {.errors = 0.03, .errors_today = 0.5, .days = 8};
    struct day_change c = judge(&plan, DAY_ERRORS, 1);
    assert_true(c.p < 1e-3);
    assert_in_range(c.now.errors, 45, 105);
}

/* One test in thousands: 400 hours of each kind, none of which is slower than its days. */
static void finds_nothing_where_nothing_is(void **state)
{
    const struct plan plans[] = {
        {.day_spread = 0.02, .peak = 1, .days = 8, .errors = 0.02, .errors_today = 0.02},
        {.day_spread = 0.2, .days = 8, .errors = 0.001, .errors_today = 0.001},
        {.day_spread = 0.1, .peak = 0.5, .days = 2},
    };
    for (size_t k = 0; k < sizeof(plans) / sizeof(plans[0]); k++)
        for (uint64_t seed = 1; seed <= 100; seed++)
            for (int m = 0; m < DAY_MEASURES; m++)
                assert_true(judge(&plans[k], (enum day_measure)m, seed).p > 1e-5);
}

/* At a threshold of a thousand operations. */
static bool is_alarm(const struct plan *plan, uint64_t seed)
{
    struct day_change change = judge(plan, DAY_MIDDLE, seed);
    return change.p <= 2e-6 && days_matter(&change);
}

/* What was as slow yesterday, or a week ago, is no news; nor is what lies between two fast days. */
static void compares_with_all_days(void **state)
{
    struct plan weekly = {.day_spread = 0.03, .today = log(1.8), .last_week = log(1.8), .days = 8},
                since_yesterday = {.day_spread = 0.03, .today = log(1.8), .yesterday = log(1.8), .days = 8},
                fast_days = {.day_spread = 0.03, .yesterday = log(0.5), .last_week = log(0.5), .days = 8},
                weekend = {.day_spread = 0.03, .weekend = -0.5, .days = 22},
                first_weekend = {.day_spread = 0.03, .weekend = -0.5, .days = 5},
                today = {.day_spread = 0.03, .today = log(2.5), .days = 8};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        assert_false(is_alarm(&weekly, seed));
        assert_false(is_alarm(&since_yesterday, seed));
        assert_false(is_alarm(&fast_days, seed));
        assert_false(is_alarm(&weekend, seed));
        assert_false(is_alarm(&first_weekend, seed));
        assert_true(is_alarm(&today, seed));
    }
}

/* Hours that say little each say much together; an incident that is over says nothing. */
static void adds_hours_up(void **state)
{
    unsigned alone = 0, together = 0, over = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct plan plan = {.day_spread = 0.03, .peak = 0.5, .today = log(1.3), .days = 22};
        alone += is_alarm(&plan, seed);
        plan.hours = 6;
        together += is_alarm(&plan, seed);
        struct day_change c = judge(&plan, DAY_MIDDLE, seed);
        assert_in_range(c.hours, 3, 10);
        assert_true(c.ratio > 1.15 && c.ratio < 1.45);
        assert_true(c.since.requests == c.hours * REQUESTS);
        plan = (struct plan){.day_spread = 0.03, .earlier = log(2.5), .days = 22};
        over += is_alarm(&plan, seed);
    }
    assert_int_equal(alone, 0);
    assert_int_equal(over, 0);
    assert_true(together >= 18);
}

static void says_nothing_without_days(void **state)
{
    struct plan plan = {.today = log(3), .days = 1};
    assert_true(judge(&plan, DAY_MIDDLE, 1).p == 2);
}

/* Single requests with a clock of their own move nothing; when all have it, it was the others. */
static void odd_clocks_move_nothing(void **state)
{
    struct days days = {0};
    struct plan plan = {0};
    struct stats_random random;
    stats_random_init(&random, 1);
    put_hour(&days, &random, &plan, NOW);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(days_add(&days, 3, (NOW + 5000) * HOUR_NS, 1, false), 0);
        assert_int_equal(days_add(&days, 3, (NOW - 5000) * HOUR_NS, 1, false), 0);
    }
    put_hour(&days, &random, &plan, NOW + 1);
    const struct day_line *line = &days.lines.at[3];
    assert_int_equal(line->open[0].hour, NOW + 1);
    assert_int_equal(line->open[1].hour, NOW);
    assert_int_equal(line->open[1].latency.count, REQUESTS);
    put_hour(&days, &random, &plan, NOW + 5000);
    assert_int_equal(line->open[0].hour, NOW + 5000);
    for (int i = 0; i < 10; i++)
        put_hour(&days, &random, &plan, NOW + 2);
    assert_int_equal(line->open[0].hour, NOW + 5000); /* late ones change nothing */
    for (int i = 0; i < 10; i++)
        put_hour(&days, &random, &plan, NOW + 2);
    assert_int_equal(line->open[0].hour, NOW + 2); /* unless there is nothing else */
    days_done(&days);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_what_is_slower_today),
                                       cmocka_unit_test(finds_errors_of_today),
                                       cmocka_unit_test(finds_nothing_where_nothing_is),
                                       cmocka_unit_test(compares_with_all_days),
                                       cmocka_unit_test(adds_hours_up),
                                       cmocka_unit_test(says_nothing_without_days),
                                       cmocka_unit_test(odd_clocks_move_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
