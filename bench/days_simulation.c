/* How often serve takes an ordinary hour for one that is slower than on the days before, and how often it
 * sees one that is: services with a day's load, slow weekends, levels that wander from hour to hour and from
 * day to day, incidents of an hour or two, and releases that change a level for good.
 *
 *     days_simulation [SERVICES] [DAYS] [SEED]      (50 28 1)
 *
 * From the ninth day on every hour of every service is compared, with the threshold of 200 services of five
 * operations each. Then, of each service, one more hour that takes FACTOR times as long. */
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

static const double ALARM_P = 0.003 / COMPARED, FACTORS[] = {1.3, 1.5, 2};

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

/* An hour's level; *ret_incident: something happened in it that is worth an alarm. */
static double step(struct service *s, uint32_t hour, struct stats_random *random, bool *ret_incident)
{
    if (hour % DAY == 0)
        s->today = s->day_spread * stats_random_normal(random);
    s->slow = 0.7 * s->slow + s->wander * stats_random_normal(random);
    if (s->incident)
        s->incident--;
    else if (stats_random_unit(random) < 1.0 / (14 * DAY))
        s->incident = 1 + stats_random_next(random) % 2;
    if (stats_random_unit(random) < 1.0 / (7 * DAY))
        s->level += 0.03 * stats_random_normal(random);
    *ret_incident = s->incident > 0;
    return s->level + s->peak * (1 - cos((double)(hour % DAY) / DAY * 2 * M_PI)) / 2 +
           (hour / DAY % 7 >= 5 ? s->weekend : 0) + s->today + s->slow + (s->incident ? log(1.6) : 0);
}

static void put(struct days *days, uint32_t hour, double level, struct stats_random *random)
{
    for (uint32_t i = 0; i < REQUESTS; i++)
        if (days_add(days, 0, hour * HOUR_NS + i * (HOUR_NS / REQUESTS),
                     (uint64_t)exp(level + 0.5 * stats_random_normal(random)),
                     stats_random_unit(random) < 0.005) < 0)
            exit(1);
}

/* Whether the hour before the newest one is an alarm. */
static bool is_alarm(const struct days *days)
{
    struct day_change change;
    for (int m = 0; m < DAY_MEASURES; m++) {
        if (!days_compare(&days->lines.at[0], (enum day_measure)m, &change))
            continue;
        double now = (double)change.now.errors / change.now.requests,
               before = (double)change.yesterday.errors / change.yesterday.requests;
        bool matters = m == DAY_ERRORS ? now - before >= 0.01 && now >= 2 * before : change.ratio >= 1.3;
        if (matters && change.p <= ALARM_P)
            return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    unsigned services = argc > 1 ? (unsigned)atoi(argv[1]) : 50,
             length = argc > 2 ? (unsigned)atoi(argv[2]) : 28;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    unsigned false_alarms = 0, hours = 0, incidents = 0, seen = 0, found[3] = {0};
    for (unsigned i = 0; i < services; i++) {
        struct stats_random random;
        struct days days = {0};
        stats_random_init(&random, seed * 100000 + i);
        struct service s = make(&random);
        bool now = false, before = false;
        uint32_t end = FIRST + length * DAY;
        for (uint32_t hour = FIRST; hour < end; hour++) {
            before = now;
            put(&days, hour, step(&s, hour, &random, &now), &random);
            if (hour < FIRST + 8 * DAY)
                continue;
            bool alarm = is_alarm(&days);
            hours++;
            incidents += before;
            seen += before && alarm;
            false_alarms += alarm && !before;
        }
        days_done(&days);
        for (size_t f = 0; f < 3; f++) { /* the same days, with another end */
            struct days again = {0};
            struct service other;
            stats_random_init(&random, seed * 100000 + i);
            other = make(&random);
            for (uint32_t hour = end - 9 * DAY; hour <= end; hour++) {
                double level = step(&other, hour, &random, &now) - (now ? log(1.6) : 0);
                put(&again, hour, level + (hour == end - 1 ? log(FACTORS[f]) : 0), &random);
            }
            found[f] += is_alarm(&again);
            days_done(&again);
        }
    }
    printf(
        "{\"services\": %u, \"days\": %u, \"seed\": %llu, \"hours\": %u, \"false\": %u, \"incidents\": %u, "
        "\"seen\": %u, \"found\": {\"1.3\": %u, \"1.5\": %u, \"2\": %u}, \"false_a_week_of_200\": %.2f}\n",
        services, length, (unsigned long long)seed, hours, false_alarms, incidents, seen, found[0], found[1],
        found[2], (double)false_alarms / hours * 168 * 200 * 5);
    return 0;
}
