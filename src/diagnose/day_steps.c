/* See day_steps.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/day_steps.h"

#include <math.h>
#include <string.h>

#include "base/macro.h"
#include "diagnose/stats.h"

enum {
    DAY = DAY_HOURS,
    WEEK = 7 * DAY,
    WINDOW = 2 * DAY, /* the hours that a step is looked for in: since it, and before it */
    DAYS_MIN = 2,
    HOURS_MIN = 12,
    WEEKLY_MIN = 3 * DAY, /* pairs of hours a week apart, before what is learnt from them is used */
    LATELY = 2,           /* hours: no hour of the last day counts as more than the slowest of these */
};

static const double MEMORY = 0.75, /* of an hour, in the next: half of it is gone after two or three */
    MEDIAN_COST = M_PI / 2,        /* variance of a median / that of a mean */
    BEGIN_LEAST = 1.3,             /* times as much as at other hours changes where a day begins */
    OUTLIER = 3,                   /* standard deviations; an incident of the past does not count as more */
    FREEDOM_OF_OTHERS = 8,         /* at most: they are others */
    FREEDOM_OF_A_DAY = 1.5;        /* hours of a day are much alike */

/* Levels without what is usual at that hour of the day, and that day of the week. */
struct rest {
    bool known[DAY_LEVELS];
    double level[DAY_LEVELS];
    size_t days;    /* that the usual level rests on */
    double weekly;  /* 0 to 1: how much of what was unusual a week ago comes again */
    bool has_weeks; /* the newest hour is compared with a week ago, too */
    bool guessed;   /* of which nothing is known yet */
    double newest;  /* hour's level without what is usual at that hour of the day alone */
    double cost;    /* its variance / that of a level */
};

/* ---- what is usual ---- */

/* The usual level of each hour of the day, without the last day; how many days there are in the middle. */
static size_t find_usual(const struct day_levels *levels, bool largest, double usual[DAY], bool known[DAY])
{
    double counts[DAY];
    size_t hours = 0;
    for (size_t hour = 0; hour < DAY; hour++) {
        double values[DAY_LEVELS / DAY];
        size_t n = 0;
        for (size_t i = hour + DAY; i < DAY_LEVELS; i += DAY)
            if (levels->known[i])
                values[n++] = levels->level[i];
        known[hour] = n >= DAYS_MIN;
        if (!known[hour])
            continue;
        counts[hours++] = (double)n;
        usual[hour] = stats_median(values, n);
        for (size_t i = 0; largest && i < n; i++)
            usual[hour] = fmax(usual[hour], values[i]);
    }
    return hours ? (size_t)stats_median(counts, hours) : 0;
}

/* How much of a week's hour comes again a week later: a slope, where that is larger than its error; -1: not
 * known. */
static double learn_weekly(const struct rest *rest)
{
    double both = 0, before = 0;
    size_t n = 0;
    for (size_t i = DAY; i + WEEK < DAY_LEVELS; i++)
        if (rest->known[i] && rest->known[i + WEEK]) {
            both += rest->level[i] * rest->level[i + WEEK];
            before += rest->level[i + WEEK] * rest->level[i + WEEK];
            n++;
        }
    if (n < WEEKLY_MIN || before <= 0)
        return -1;
    double slope = fmin(both / before, 1);
    return slope > sqrt((double)DAY / (double)n) ? slope : 0;
}

/* careful: what is not known of weeks is taken to be against a step. While no week has been seen, what is
 * usual is the slowest of the days; then all that was unusual a week ago may come again. */
static bool make_rest(const struct day_levels *levels, bool careful, struct rest *rest)
{
    double usual[DAY], before[DAY_LEVELS];
    bool known[DAY];
    for (size_t i = 0; i < DAY; i++)
        rest->has_weeks |= levels->known[i] && levels->known[i + WEEK];
    rest->days = find_usual(levels, careful && !rest->has_weeks, usual, known);
    for (size_t i = 0; i < DAY_LEVELS; i++) {
        rest->known[i] = levels->known[i] && known[i % DAY];
        rest->level[i] = rest->known[i] ? levels->level[i] - usual[i % DAY] : 0;
    }
    if (rest->days < DAYS_MIN)
        return false;
    rest->weekly = rest->has_weeks ? learn_weekly(rest) : 0;
    rest->guessed = rest->weekly < 0;
    rest->newest = rest->level[0];
    if (rest->guessed)
        rest->weekly = careful ? 1 : 0;
    memcpy(before, rest->level, sizeof(before));
    for (size_t i = 0; rest->weekly > 0 && i < DAY_LEVELS; i++) {
        rest->known[i] &= i + WEEK < DAY_LEVELS && rest->known[i + WEEK];
        if (rest->known[i])
            rest->level[i] -= rest->weekly * before[i + WEEK];
    }
    rest->cost = 1 + rest->weekly * rest->weekly + MEDIAN_COST / (double)rest->days;
    return true;
}

/* ---- how much hours differ ---- */

/* Mean square, in which no value counts as more than an outlier. */
static double scale(double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        values[i] = fabs(values[i]);
    double most = OUTLIER * 1.4826 * stats_median(values, count);
    for (size_t i = 0; i < count; i++)
        sum += fmin(values[i], most) * fmin(values[i], most);
    return count ? sum / (double)count : 0;
}

static double kernel_of_a_day(size_t lag, bool same)
{
    return 0.5 * same + 0.5 * (lag < DAY ? 1 - (double)lag / DAY : 0);
}

/* How much changes at each hour of the day, no jump more than an outlier. */
static void learn_jumps(const struct rest *rest, double most, size_t of_day, float jumps[DAY])
{
    double sums[DAY] = {0}, all = 0;
    for (size_t i = DAY + 1; i < DAY_LEVELS; i++)
        if (rest->known[i] && rest->known[i - 1]) {
            double jump = rest->level[i - 1] - rest->level[i], square = fmin(jump * jump, most);
            sums[(of_day + DAY - (i - 1) % DAY) % DAY] += square;
            all += square;
        }
    for (size_t hour = 0; hour < DAY; hour++)
        jumps[hour] = all > 0 ? (float)(sums[hour] / all) : 0;
}

static bool learn(const struct day_levels *levels, const struct rest *rest, size_t of_day,
                  struct day_scatter *scatter)
{
    double all[DAY_LEVELS], next[DAY_LEVELS], chance = 0;
    size_t n = 0, pairs = 0, days = 0, last = 0;
    for (size_t i = DAY; i < DAY_LEVELS; i++) {
        if (!rest->known[i])
            continue;
        days += i / DAY != last;
        last = i / DAY;
        all[n++] = rest->level[i];
        chance += levels->error[i] * levels->error[i];
        if (rest->known[i - 1] && i > DAY)
            next[pairs++] = rest->level[i] - rest->level[i - 1];
    }
    if (n < HOURS_MIN || days < DAYS_MIN)
        return false;
    chance /= (double)n;
    double others = (double)(days - 1), own = 1 + rest->weekly * rest->weekly;
    double total = fmax(scale(all, n) / own * (double)days / others - chance, 0);
    double change = pairs >= HOURS_MIN ? scale(next, pairs) : 0;
    double hourly = pairs >= HOURS_MIN ? fmax(change / 2 / own - chance, 0) : total;
    learn_jumps(rest, OUTLIER * OUTLIER * change, of_day, scatter->jumps);
    /* What changes from hour to hour is what is not remembered of an hour, and a little of the days. */
    scatter->hour = fmin(fmax((hourly - total / DAY) / (1 - MEMORY - 1.0 / DAY), 0), total);
    scatter->day = total - scatter->hour;
    scatter->freedom = FREEDOM_OF_A_DAY * others;
    return true;
}

bool day_scatter_learn(const struct day_levels *levels, size_t of_day, struct day_scatter *ret_scatter)
{
    struct rest rest = {0};
    struct day_scatter scatter;
    if (!make_rest(levels, false, &rest) || !learn(levels, &rest, of_day, &scatter))
        return false;
    *ret_scatter = scatter;
    return true;
}

/* ---- what all say of one ---- */

static double sum_of(const struct day_scatter *s, const struct day_prior *least)
{
    return fmax(s->day, least->day_least) + fmax(s->hour, least->hour_least);
}

/* The hour of the day at which most changes, over all, where it is clearly that one. */
static size_t find_begin(const struct day_scatter *scatters, size_t count)
{
    double sums[DAY] = {0}, all = 0;
    size_t best = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t hour = 0; hour < DAY; hour++) {
            sums[hour] += (double)scatters[i].jumps[hour];
            all += (double)scatters[i].jumps[hour];
        }
    for (size_t hour = 1; hour < DAY; hour++)
        if (sums[hour] > sums[best])
            best = hour;
    return sums[best] > BEGIN_LEAST * all / DAY ? best : 0;
}

void day_prior_learn(struct day_scatter *scatters, size_t count, struct day_prior *prior)
{
    enum { OTHERS_MIN = 8, SAMPLE = 512 };
    double day[SAMPLE], hour[SAMPLE], logs[SAMPLE], mean = 0, variance = 0, chance = 0;
    size_t step = count / SAMPLE + 1, n = 0;
    prior->freedom = 0;
    prior->begins = find_begin(scatters, count);
    for (size_t i = 0; i < count; i += step) {
        day[n] = scatters[i].day;
        hour[n] = scatters[i].hour;
        logs[n] = log(sum_of(&scatters[i], prior));
        mean += logs[n];
        chance += 2 / fmax(scatters[i].freedom, 1);
        n++;
    }
    if (n < OTHERS_MIN)
        return;
    mean /= (double)n;
    for (size_t i = 0; i < n; i++)
        variance += (logs[i] - mean) * (logs[i] - mean) / (double)(n - 1);
    /* The variance of the logarithm of a variance is about 2 / its degrees of freedom. */
    prior->freedom = fmin(2 / fmax(variance - chance / (double)n, 1e-3), FREEDOM_OF_OTHERS);
    prior->day = stats_median(day, n);
    prior->hour = stats_median(hour, n);
}

static struct day_scatter shrink(const struct day_scatter *own, const struct day_prior *prior)
{
    double freedom = own->freedom + prior->freedom;
    return (struct day_scatter){
        .day = fmax((own->freedom * own->day + prior->freedom * prior->day) / freedom, prior->day_least),
        .hour = fmax((own->freedom * own->hour + prior->freedom * prior->hour) / freedom, prior->hour_least),
        .freedom = freedom};
}

/* ---- steps ---- */

/* The known hours of the window, and the lower triangle L of their covariance L L'. */
struct window {
    size_t count;
    size_t ago[WINDOW];
    double lower[WINDOW][WINDOW], rest[WINDOW]; /* rest: solved, L^-1 of it */
};

static void solve(const struct window *w, size_t count, const double *values, double *ret)
{
    for (size_t i = 0; i < count; i++) {
        double sum = values[i];
        for (size_t j = 0; j < i; j++)
            sum -= w->lower[i][j] * ret[j];
        ret[i] = sum / w->lower[i][i];
    }
}

/* of_day: hours since the day of the newest one began. */
static void make_window(const struct day_levels *levels, const struct rest *rest,
                        const struct day_scatter *scatter, size_t of_day, struct window *w)
{
    double values[WINDOW], kept[WINDOW], most = -INFINITY;
    w->count = 0;
    for (size_t i = 0; i < LATELY; i++)
        most = rest->known[i] ? fmax(most, rest->level[i]) : most;
    for (size_t i = 0; i < WINDOW; i++) {
        kept[i] = i ? kept[i - 1] * MEMORY : scatter->hour;
        if (rest->known[i]) {
            values[w->count] = i < DAY ? fmin(rest->level[i], most) : rest->level[i];
            w->ago[w->count++] = i;
        }
    }
    for (size_t i = 0; i < w->count; i++)
        for (size_t j = 0; j <= i; j++) {
            size_t a = w->ago[i], b = w->ago[j], lag = a - b;
            bool same = (a + DAY - of_day - 1) / DAY == (b + DAY - of_day - 1) / DAY;
            double sum = scatter->day * kernel_of_a_day(lag, same) + kept[lag];
            sum = (sum + (i == j ? levels->error[a] * levels->error[a] : 0)) * rest->cost;
            for (size_t k = 0; k < j; k++)
                sum -= w->lower[i][k] * w->lower[j][k];
            w->lower[i][j] = i == j ? sqrt(fmax(sum, 1e-12)) : sum / w->lower[j][j];
        }
    solve(w, w->count, values, w->rest);
}

/* Whether the level stays up since the step: the newest hour, and most others, are above half of it.
 * Otherwise it was a short incident, which is over. */
static bool stays(const struct rest *rest, const struct window *w, size_t since, double growth)
{
    size_t above = 0;
    for (size_t i = 0; i < since; i++)
        above += rest->level[w->ago[i]] >= growth / 2;
    return rest->level[0] >= growth / 2 && 2 * above > since &&
           (!rest->guessed || rest->newest >= growth / 2);
}

/* A step that the first `since` hours are above; without weeks the hours before it say nothing of it, as
 * nobody knows how a day of that kind begins. */
static double try_step(const struct window *w, size_t since, bool has_weeks, double *ret_growth,
                       double *ret_error)
{
    double ones[WINDOW] = {0}, solved[WINDOW], both = 0, own = 0;
    size_t count = has_weeks ? w->count : since;
    for (size_t i = 0; i < since; i++)
        ones[i] = 1;
    solve(w, count, ones, solved);
    for (size_t i = 0; i < count; i++) {
        both += solved[i] * w->rest[i];
        own += solved[i] * solved[i];
    }
    *ret_growth = both / own;
    *ret_error = 1 / sqrt(own);
    return both / sqrt(own);
}

bool day_step_find(const struct day_levels *levels, const struct day_prior *prior, size_t of_day,
                   struct day_step *ret_step)
{
    struct rest rest = {0};
    struct day_scatter own, scatter;
    struct window w;
    double best = -INFINITY;
    if (!levels->known[0] || !make_rest(levels, true, &rest) || !rest.known[0])
        return false;
    struct day_step step = {.hours = 1, .growth = rest.level[0], .p = 1};
    if (rest.level[0] > 0) {
        if (!day_scatter_learn(levels, of_day, &own))
            return false;
        scatter = shrink(&own, prior);
        make_window(levels, &rest, &scatter, (of_day + DAY - prior->begins) % DAY, &w);
        for (size_t since = 1; since <= w.count && w.ago[since - 1] < DAY; since++) {
            double growth, error, z = try_step(&w, since, rest.has_weeks, &growth, &error);
            if (z <= best || !stays(&rest, &w, since, growth))
                continue;
            best = z;
            step = (struct day_step){w.ago[since - 1] + 1, growth, error,
                                     stats_student_above(z, scatter.freedom)};
        }
    }
    *ret_step = step;
    return true;
}
