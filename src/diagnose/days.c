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

enum { DAY = 24, WEEK = 168 };

/* Days differ by this at least, and hours of a day: standard deviations of levels. */
static const double SPREAD_MIN[DAY_MEASURES] = {0.03, 0.05, 0.02};

/* What is worth an alarm: so much slower (while it is one hour, so much), of which this part (of the
 * logarithm) is left against yesterday and against a week ago, too; so many more errors, and so many times as
 * many. */
static const double RATIO_LEAST = 1.15, RATIO_OF_AN_HOUR = 1.6, REST_SHARE = 1.0 / 3, ERRORS_MORE = 0.01,
                    ERRORS_TIMES = 2;

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
    double mean, variance, n = (double)s->count;
    sketch_log_moments(s, &mean, &variance);
    return (struct day_hour){
        .hour = open->hour,
        .requests = (uint32_t)MIN(s->count, (uint64_t)UINT32_MAX),
        .errors = open->errors,
        .level = {(float)mean, (float)log(fmax(sketch_quantile(s, 0.95), 1)),
                  (float)(2 * asin(sqrt((open->errors + 0.375) / (n + 0.75))))},
        .error = {(float)sqrt(variance / n), (float)high_error(s), (float)(1 / sqrt(n))}};
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

static void put_level(const struct day_hour *hour, uint32_t now, enum day_measure measure,
                      struct day_levels *levels)
{
    uint32_t ago = now - hour->hour;
    if (hour->hour > now || ago >= DAY_LEVELS || hour->requests < DAYS_REQUESTS)
        return;
    levels->known[ago] = true;
    levels->level[ago] = hour->level[measure];
    levels->error[ago] = hour->error[measure];
}

/* By how many hours before one they were. */
static void find_levels(const struct day_line *line, uint32_t now, enum day_measure measure,
                        struct day_levels *levels)
{
    memset(levels->known, 0, sizeof(levels->known));
    array_foreach (&line->hours, hour)
        put_level(hour, now, measure, levels);
    for (int i = 0; i < DAYS_OPEN; i++)
        if (line->open[i].hour && line->open[i].latency.count >= DAYS_REQUESTS) {
            struct day_hour hour = sum_up(&line->open[i]);
            put_level(&hour, now, measure, levels);
        }
}

static struct day_prior nothing_of(enum day_measure measure)
{
    double least = SPREAD_MIN[measure] * SPREAD_MIN[measure];
    return (struct day_prior){.day_least = least, .hour_least = least};
}

int days_learn(const struct days *days, struct day_fleet *ret_fleet)
{
    ARRAY(struct day_scatter) scatters = {0};
    struct day_fleet fleet;
    int r = 0;
    for (int m = 0; r == 0 && m < DAY_MEASURES; m++) {
        array_clear(&scatters);
        array_foreach (&days->lines, line) {
            struct day_levels levels;
            struct day_scatter scatter;
            struct day_hour now;
            if (r < 0 || !newest_whole(line, &now))
                continue;
            find_levels(line, now.hour, (enum day_measure)m, &levels);
            if (day_scatter_learn(&levels, now.hour % DAY, &scatter))
                r = array_add(&scatters, scatter);
        }
        fleet.of[m] = nothing_of((enum day_measure)m);
        day_prior_learn(scatters.at, scatters.count, &fleet.of[m]);
    }
    array_done(&scatters);
    if (r == 0)
        *ret_fleet = fleet;
    return r;
}

/* The mean of these hours above those as many hours before; false where none are known. */
static bool grown_since(const struct day_levels *levels, size_t hours, size_t before, double *ret_growth)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < hours && i + before < DAY_LEVELS; i++)
        if (levels->known[i] && levels->known[i + before]) {
            sum += levels->level[i] - levels->level[i + before];
            n++;
        }
    if (n)
        *ret_growth = sum / (double)n;
    return n > 0;
}

static struct day_sum sum_of(const struct day_line *line, uint32_t last, size_t hours)
{
    struct day_sum sum = {0};
    struct day_hour hour;
    for (uint32_t i = 0; i < hours; i++)
        if (find(line, last - i, &hour)) {
            sum.requests += hour.requests;
            sum.errors += hour.errors;
        }
    return sum;
}

static double share(struct day_sum sum)
{
    return ((double)sum.errors + 0.5) / ((double)sum.requests + 1);
}

static double ratio_of(const struct day_change *c, const struct day_levels *levels, size_t before,
                       struct day_sum sum)
{
    double growth;
    if (!grown_since(levels, c->hours, before, &growth))
        return 0;
    return c->measure == DAY_ERRORS ? share(c->since) / share(sum) : exp(growth);
}

bool days_compare(const struct day_line *line, enum day_measure measure, const struct day_fleet *fleet,
                  struct day_change *ret_change)
{
    struct day_change change = {.measure = measure};
    struct day_prior prior = fleet ? fleet->of[measure] : nothing_of(measure);
    struct day_levels levels;
    struct day_step step;
    if (!newest_whole(line, &change.now))
        return false;
    uint32_t hour = change.now.hour;
    if (!find(line, hour - DAY, &change.yesterday))
        return false;
    find_levels(line, hour, measure, &levels);
    if (!day_step_find(&levels, &prior, hour % DAY, &step))
        return false;
    find(line, hour - WEEK, &change.last_week);
    for (size_t i = DAY; i < DAY_LEVELS; i += DAY)
        change.days += levels.known[i];
    change.hours = step.hours;
    change.since = sum_of(line, hour, step.hours);
    change.since_yesterday = sum_of(line, hour - DAY, step.hours);
    change.since_last_week = sum_of(line, hour - WEEK, step.hours);
    change.yesterday_ratio = ratio_of(&change, &levels, DAY, change.since_yesterday);
    change.last_week_ratio = ratio_of(&change, &levels, WEEK, change.since_last_week);
    change.ratio = measure == DAY_ERRORS ? change.yesterday_ratio : exp(step.growth);
    change.p = step.p;
    *ret_change = change;
    return true;
}

bool days_matter(const struct day_change *c)
{
    if (c->measure == DAY_ERRORS) {
        double now = (double)c->since.errors / (double)c->since.requests, before = 0;
        if (c->since_yesterday.requests)
            before = (double)c->since_yesterday.errors / (double)c->since_yesterday.requests;
        if (c->since_last_week.requests)
            before = fmax(before, (double)c->since_last_week.errors / (double)c->since_last_week.requests);
        return now - before >= ERRORS_MORE && now >= ERRORS_TIMES * before;
    }
    double rest = pow(c->ratio, REST_SHARE);
    return c->ratio >= (c->hours == 1 ? RATIO_OF_AN_HOUR : RATIO_LEAST) && c->yesterday_ratio >= rest &&
           (c->last_week_ratio == 0 || c->last_week_ratio >= rest);
}

void days_done(struct days *days)
{
    array_foreach (&days->lines, line) {
        clear(line);
        array_done(&line->hours);
    }
    array_done(&days->lines);
}
