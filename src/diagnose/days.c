/* See days.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/days.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/macro.h"
#include "diagnose/stats.h"

#define HOUR_NS  (3600 * NS_PER_S)
#define SLACK_NS (300 * NS_PER_S) /* into the next hour, until one is whole: spans come when they end */
#define ODD_MAX  20               /* then it was no odd clock */
#define LATE_MAX 2000

enum { DAY = 24, WEEK = 168, DAYS_MAX = 7, PAIRS_MIN = 12, FREEDOM_OF_A_DAY = 4 };

/* Levels of the same hour differ by this from day to day at least: log latency, log odds. */
static const double SPREAD_MIN[DAY_MEASURES] = {0.05, 0.08, 0.3};

/* ---- keeping ---- */

static double high_error(const struct sketch *s)
{
    double reach = sqrt(0.95 * 0.05 / (double)s->count);
    double low = fmax(sketch_quantile(s, 0.95 - reach), 1),
           high = fmax(sketch_quantile(s, fmin(0.95 + reach, 1)), 1);
    return (log(high) - log(low)) / 2;
}

static struct day_hour sum_up(const struct open_hour *open)
{
    const struct sketch *s = &open->latency;
    double mean, variance, n = (double)s->count, failed = open->errors + 0.5, passed = n - open->errors + 0.5;
    sketch_log_moments(s, &mean, &variance);
    return (struct day_hour){
        .hour = open->hour,
        .requests = (uint32_t)MIN(s->count, (uint64_t)UINT32_MAX),
        .errors = open->errors,
        .level = {(float)mean, (float)log(fmax(sketch_quantile(s, 0.95), 1)), (float)log(failed / passed)},
        .error = {(float)sqrt(variance / n), (float)high_error(s), (float)sqrt(1 / failed + 1 / passed)}};
}

/* The oldest open hour is summed up, and the others make room. */
static int close_oldest(struct day_line *line)
{
    struct open_hour *oldest = &line->open[DAYS_OPEN - 1];
    int r = oldest->hour ? array_add(&line->hours, sum_up(oldest)) : 0;
    sketch_done(&oldest->latency);
    memmove(line->open + 1, line->open, sizeof(line->open) - sizeof(line->open[0]));
    line->open[0] = (struct open_hour){0};
    if (line->hours.count > DAYS_HOURS) {
        line->hours.count--;
        memmove(line->hours.at, line->hours.at + 1, line->hours.count * sizeof(*line->hours.at));
    }
    return r;
}

static void clear(struct day_line *line)
{
    for (int i = 0; i < DAYS_OPEN; i++) {
        sketch_done(&line->open[i].latency);
        line->open[i] = (struct open_hour){0};
    }
    array_clear(&line->hours);
    line->odd = 0;
}

/* Where a request of this hour belongs. One that lies far ahead has an odd clock, unless all that come do;
 * one that lies behind is too late, unless they go on and on: then what was ahead had the odd clock. */
static int find_hour(struct day_line *line, uint32_t hour, struct open_hour **ret_open)
{
    uint32_t newest = line->open[0].hour;
    *ret_open = NULL;
    for (int i = 0; i < DAYS_OPEN; i++)
        if (line->open[i].hour == hour) {
            *ret_open = &line->open[i];
            line->odd = 0;
            return 0;
        }
    if (hour < newest && ++line->odd < LATE_MAX)
        return 0;
    if (newest && hour > newest + 1 && ++line->odd < ODD_MAX)
        return 0;
    if (hour < newest)
        clear(line);
    line->odd = 0;
    int r = close_oldest(line);
    line->open[0].hour = hour;
    *ret_open = &line->open[0];
    return r;
}

int days_add(struct days *days, uint32_t bucket, uint64_t start_ns, uint64_t duration_ns, bool failed)
{
    struct open_hour *open;
    while (days->lines.count <= bucket)
        if (array_add(&days->lines, (struct day_line){0}) < 0)
            return -ENOMEM;
    int r = find_hour(&days->lines.at[bucket], (uint32_t)(start_ns / HOUR_NS), &open);
    if (r < 0 || !open)
        return r;
    open->errors += failed;
    open->last_ns = MAX(open->last_ns, start_ns);
    return sketch_add(&open->latency, duration_ns);
}

/* ---- comparing ---- */

/* An hour with requests enough, that is closed or open. */
static bool find(const struct day_line *line, uint32_t hour, struct day_hour *ret_hour)
{
    for (int i = 0; i < DAYS_OPEN; i++)
        if (line->open[i].hour == hour && line->open[i].latency.count >= DAYS_REQUESTS) {
            *ret_hour = sum_up(&line->open[i]);
            return true;
        }
    for (size_t i = line->hours.count; i-- > 0 && line->hours.at[i].hour >= hour;)
        if (line->hours.at[i].hour == hour && line->hours.at[i].requests >= DAYS_REQUESTS) {
            *ret_hour = line->hours.at[i];
            return true;
        }
    return false;
}

/* The newest hour for which nothing comes any more; false when there is none. */
static bool newest_whole(const struct day_line *line, struct day_hour *ret_hour)
{
    const struct open_hour *newest = &line->open[0], *before = &line->open[1];
    return before->hour && newest->last_ns >= newest->hour * HOUR_NS + SLACK_NS &&
           find(line, before->hour, ret_hour);
}

/* The same hour of the days before: how many there are. */
static size_t find_days(const struct day_line *line, uint32_t hour, struct day_hour days[DAYS_MAX])
{
    size_t n = 0;
    for (uint32_t day = 1; day <= DAYS_MAX; day++)
        n += find(line, hour - day * DAY, &days[n]);
    return n;
}

static double median_but(const struct day_hour *days, size_t count, size_t but, enum day_measure measure)
{
    double levels[DAYS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (i != but)
            levels[n++] = days[i].level[measure];
    return stats_median(levels, n);
}

/* How far an hour is from the same hour of other days by itself, beyond what so few requests make: robustly,
 * over the hours of the days before, each against the others. What happens today is left out. */
static bool find_spread(const struct day_line *line, uint32_t now, enum day_measure measure,
                        double *ret_spread, double *ret_freedom)
{
    double away[DAYS_MAX * DAY], chance[DAYS_MAX * DAY];
    size_t n = 0, most = 0;
    for (uint32_t hour = now + 1 - DAY; hour <= now; hour++) {
        struct day_hour days[DAYS_MAX];
        size_t count = find_days(line, hour, days);
        for (size_t i = 0; count >= 2 && i < count; i++) {
            away[n] = fabs(days[i].level[measure] - median_but(days, count, i, measure));
            chance[n++] = days[i].error[measure];
        }
        most = MAX(most, count);
    }
    if (n < PAIRS_MIN)
        return false;
    double all = 1.4826 * stats_median(away, n), few = stats_median(chance, n);
    *ret_spread = fmax(sqrt(fmax(all * all - few * few, 0)), SPREAD_MIN[measure]);
    *ret_freedom = FREEDOM_OF_A_DAY * (double)(most - 1); /* hours of a day are much alike */
    return true;
}

bool days_compare(const struct day_line *line, enum day_measure measure, struct day_change *ret_change)
{
    struct day_change change = {.measure = measure};
    double spread, freedom, errors[DAYS_MAX];
    if (!newest_whole(line, &change.now))
        return false;
    uint32_t hour = change.now.hour;
    if (!find(line, hour - DAY, &change.yesterday) || !find_spread(line, hour, measure, &spread, &freedom))
        return false;
    find(line, hour - WEEK, &change.last_week);
    struct day_hour others[DAYS_MAX];
    change.days = find_days(line, hour, others);
    for (size_t i = 0; i < change.days; i++)
        errors[i] = others[i].error[measure];
    double now = change.now.level[measure], usual = median_but(others, change.days, DAYS_MAX, measure);
    double most = fmax(usual, change.yesterday.level[measure]);
    if (change.last_week.requests)
        most = fmax(most, change.last_week.level[measure]);
    /* A median of so many has 1.25 times the error of their mean. */
    double error = 1.25 * stats_median(errors, change.days) / sqrt((double)change.days);
    change.ratio = exp(now - most);
    change.p =
        stats_student_above((now - usual) / hypot(hypot(error, change.now.error[measure]), spread), freedom);
    *ret_change = change;
    return true;
}

void days_done(struct days *days)
{
    array_foreach (&days->lines, line) {
        clear(line);
        array_done(&line->hours);
    }
    array_done(&days->lines);
}
