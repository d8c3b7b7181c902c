/* How often serve takes ordinary hours for slower ones than on the days before, and how soon it sees what is:
 * services with a day's load, slow weekends, levels that wander from hour to hour and from day to day,
 * incidents of an hour or two, and releases that change a level for good.
 *
 *     days_simulation [SERVICES] [DAYS] [SEED] [KIND]      (50 28 1 plain)
 *
 * KIND: plain; local, where days begin at seven; rough, where hours wander by Student's t with four degrees
 * of freedom; slow, where what wanders is kept for twice as long. From the ninth day on every hour of every
 * service is compared, with the threshold of 200 services of five operations each; hours of alarm in
 * succession are one alarm. Then each service gets FACTOR times slower at some hour of the last day, and
 * stays so. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "diagnose/days.h"
#include "diagnose/stats.h"

#define HOUR_NS (3600 * NS_PER_S)

enum { FIRST = 480000, DAY = 24, REQUESTS = 150, COMPARED = 200 * 5 * DAY_MEASURES };

static const double ALARM_P = DAY_FALSE_ALARMS / COMPARED, FACTORS[] = {1.3, 1.5, 2};

enum kind { PLAIN, LOCAL, ROUGH, SLOW, KINDS };

static const char *const NAMES[KINDS] = {"plain", "local", "rough", "slow"};
static enum kind kind;

struct service {
    double level, peak, weekend, day_spread, wander; /* log */
    double today, slow;                              /* what wanders: by day, by hour */
    unsigned incident;                               /* hours that are left of it */
};

static struct service make(struct stats_random *random)
{
    return (struct service){.level = log(2e7) + stats_random_normal(random),
                            .peak = 0.8 * stats_random_unit(random),
                            .weekend = -0.5 * stats_random_unit(random),
                            .day_spread = 0.02 + 0.08 * stats_random_unit(random),
                            .wander = 0.02 + 0.05 * stats_random_unit(random)};
}

static double wandered(const struct service *s, struct stats_random *random)
{
    double x = stats_random_normal(random), sum = 0;
    for (int i = 0; kind == ROUGH && i < 4; i++) {
        double y = stats_random_normal(random);
        sum += y * y;
    }
    return s->wander * (kind == ROUGH ? x / sqrt(sum / 4) / M_SQRT2 : kind == SLOW ? x * 0.75 : x);
}

/* An hour's level; *ret_incident: something happened in it that is worth an alarm. */
static double step(struct service *s, uint32_t hour, struct stats_random *random, bool *ret_incident)
{
    uint32_t at = kind == LOCAL ? hour - 7 : hour;
    if (at % DAY == 0)
        s->today = s->day_spread * stats_random_normal(random);
    s->slow = (kind == SLOW ? 0.85 : 0.7) * s->slow + wandered(s, random);
    if (s->incident)
        s->incident--;
    else if (stats_random_unit(random) < 1.0 / (14 * DAY))
        s->incident = 1 + stats_random_next(random) % 2;
    if (stats_random_unit(random) < 1.0 / (7 * DAY))
        s->level += 0.03 * stats_random_normal(random);
    *ret_incident = s->incident > 0;
    return s->level + s->peak * (1 - cos((double)(at % DAY) / DAY * 2 * M_PI)) / 2 +
           (at / DAY % 7 >= 5 ? s->weekend : 0) + s->today + s->slow + (s->incident ? log(1.6) : 0);
}

static void put(struct days *days, uint32_t line, uint32_t hour, double level, struct stats_random *random)
{
    for (uint32_t i = 0; i < REQUESTS; i++)
        if (days_add(days, line, hour * HOUR_NS + i * (HOUR_NS / REQUESTS),
                     (uint64_t)exp(level + 0.5 * stats_random_normal(random)),
                     stats_random_unit(random) < 0.005) < 0)
            exit(1);
}

/* Whether the hour before the newest one is an alarm. */
static bool is_alarm(const struct day_line *line, const struct day_fleet *fleet)
{
    struct day_change change;
    for (int m = 0; m < DAY_MEASURES; m++)
        if (days_compare(line, (enum day_measure)m, fleet, &change) && change.p <= ALARM_P &&
            days_matter(&change))
            return true;
    return false;
}

/* One service. */
struct one {
    struct service service;
    struct stats_random random;
    bool now, before, alarm; /* an incident in this hour, in the one before; an alarm in the hour before */
    uint32_t begins;         /* hour of the step */
    int after;               /* hours until it is seen; 0: not yet */
};

static void start(struct one *all, unsigned services, uint64_t seed)
{
    for (unsigned i = 0; i < services; i++) {
        all[i] = (struct one){0};
        stats_random_init(&all[i].random, seed * 100000 + i);
        all[i].service = make(&all[i].random);
    }
}

static void learn(const struct days *days, struct day_fleet *fleet)
{
    if (days_learn(days, fleet) < 0)
        exit(1);
}

static void run_ordinary(struct one *all, unsigned services, unsigned length)
{
    struct days days = {0};
    struct day_fleet fleet;
    unsigned hours = 0, false_hours = 0, false_alarms = 0, incidents = 0, seen = 0, first_weeks = 0;
    for (uint32_t hour = FIRST; hour < FIRST + length * DAY; hour++) {
        for (unsigned i = 0; i < services; i++) {
            all[i].before = all[i].now;
            double level = step(&all[i].service, hour, &all[i].random, &all[i].now);
            put(&days, i, hour, level, &all[i].random);
        }
        if (hour < FIRST + 3 * DAY)
            continue;
        if (hour % DAY == 0)
            learn(&days, &fleet);
        for (unsigned i = 0; i < services; i++) {
            bool alarm = is_alarm(&days.lines.at[i], &fleet), is_false = alarm && !all[i].before;
            bool first = is_false && !all[i].alarm;
            all[i].alarm = alarm;
            if (hour < FIRST + 8 * DAY) {
                first_weeks += first;
                continue;
            }
            hours++;
            incidents += all[i].before;
            seen += all[i].before && alarm;
            false_hours += is_false;
            false_alarms += first;
        }
    }
    days_done(&days);
    printf("\"hours\": %u, \"false_hours\": %u, \"false\": %u, \"false_before_the_ninth_day\": %u, "
           "\"incidents\": %u, "
           "\"seen\": %u, \"false_a_week_of_200\": %.2f",
           hours, false_hours, false_alarms, first_weeks, incidents, seen,
           (double)false_alarms / hours * 168 * 200 * 5);
}

static int by_number(const void *x, const void *y)
{
    return *(const int *)x - *(const int *)y;
}

static void run_slower(struct one *all, unsigned services, unsigned length, uint64_t seed, double factor)
{
    struct days days = {0};
    struct day_fleet fleet;
    struct stats_random choice;
    uint32_t last = FIRST + (length - 1) * DAY;
    unsigned one = 0, three = 0, day = 0;
    stats_random_init(&choice, seed + 12345);
    for (unsigned i = 0; i < services; i++)
        all[i].begins = last + stats_random_next(&choice) % DAY;
    for (uint32_t hour = FIRST; hour <= last + 2 * DAY; hour++) {
        for (unsigned i = 0; i < services; i++) {
            double level = step(&all[i].service, hour, &all[i].random, &all[i].now);
            level -= all[i].now ? log(1.6) : 0;
            put(&days, i, hour, level + (hour >= all[i].begins ? log(factor) : 0), &all[i].random);
        }
        if (hour <= last)
            continue;
        if (hour % DAY == 1)
            learn(&days, &fleet);
        for (unsigned i = 0; i < services; i++)
            if (hour > all[i].begins && !all[i].after && is_alarm(&days.lines.at[i], &fleet))
                all[i].after = (int)(hour - all[i].begins);
    }
    days_done(&days);
    int after[1000];
    for (unsigned i = 0; i < services; i++) {
        after[i] = all[i].after ? all[i].after : 99;
        one += after[i] <= 1;
        three += after[i] <= 3;
        day += after[i] <= 24;
    }
    qsort(after, services, sizeof(after[0]), by_number);
    printf(", \"%g\": {\"in_1_hour\": %u, \"in_3\": %u, \"in_24\": %u, \"middle\": %d}", factor, one, three,
           day, after[services / 2]);
}

int main(int argc, char **argv)
{
    static struct one all[1000];
    unsigned services = argc > 1 ? (unsigned)atoi(argv[1]) : 50,
             length = argc > 2 ? (unsigned)atoi(argv[2]) : 28;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    for (int k = 0; argc > 4 && k < KINDS; k++)
        if (strcmp(argv[4], NAMES[k]) == 0)
            kind = (enum kind)k;
    if (services < 1 || services > 1000)
        return 2;
    printf("{\"services\": %u, \"days\": %u, \"seed\": %llu, \"kind\": \"%s\", ", services, length,
           (unsigned long long)seed, NAMES[kind]);
    start(all, services, seed);
    run_ordinary(all, services, length);
    for (size_t f = 0; f < 3; f++) {
        start(all, services, seed);
        run_slower(all, services, length, seed, FACTORS[f]);
    }
    printf("}\n");
    return 0;
}
