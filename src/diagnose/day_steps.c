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
    WEEKS = DAY_LEVELS / WEEK,
    WINDOW = 2 * DAY, /* the hours that a step is looked for in: since it, and before it */
    DAYS_MIN = 2,
    HOURS_MIN = 12,
    WEEKLY_MIN = 3 * DAY, /* pairs of hours a week apart, before what is learnt from them is used */
    AROUND = 6,           /* hours on either side, with which a week ago is judged */
    OVER_MAX = 3,         /* hours for which it may be over already */
    LATELY = 2,           /* hours: no hour of the last day counts as more than the slowest of these */
};

static const double MEMORY = 0.75, /* of an hour, in the next, while others do not say: half of it is gone
                                      after two or three */
    SAME = 0.5, MEDIAN_COST = M_PI / 2, /* variance of a median / that of a mean */
    BEGIN_LEAST = 1.3,                  /* times as much as at other hours changes where a day begins */
    OUTLIER = 3,                  /* standard deviations; an incident of the past does not count as more */
    WEEKLY_SURE = 1.5,            /* standard errors: what differs less from day to day is not of the week */
    FREEDOM_OF_OTHERS = 8,        /* at most: they are others */
    FREEDOM_OF_A_DAY = 1,         /* of how much days differ */
    FREEDOM_OF_HOURS = 3,         /* of how much hours do, for each day */
    LARGE = 4,                    /* usual sizes, from which a jump is large */
    STEPS_OF_ONE = 3, STEPS = 12, /* as so many count all that are looked at, which are alike: of one hour, of
                                     more */
    SIZE_OF_ONE = 0.6744897502;   /* the median of what is normal without its sign */

/* Levels without what is usual at that hour of the day, and that day of the week. */
struct rest {
    bool known[DAY_LEVELS];
    double level[DAY_LEVELS];
    double cost[DAY_LEVELS]; /* its variance / that of a level */
    size_t days;             /* that the usual level rests on */
    double total;            /* variance of an hour about what is usual; errors included */
    bool has_weeks;          /* the newest hour is compared with a week ago, too */
    bool guessed;            /* of which nothing is known yet */
    double newest;           /* hour's level without what is usual at that hour of the day alone */
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

/* Mean square, in which no value counts as more than an outlier. */
static double scale(double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        values[i] = fabs(values[i]);
    double most = count ? OUTLIER / SIZE_OF_ONE * stats_median(values, count) : 0;
    for (size_t i = 0; i < count; i++)
        sum += fmin(values[i], most) * fmin(values[i], most);
    return count ? sum / (double)count : 0;
}

/* How much days of the same kind differ; -1: not known. */
static double learn_total(const struct rest *rest)
{
    double values[DAY_LEVELS];
    size_t n = 0;
    for (size_t i = DAY; i + WEEK < DAY_LEVELS; i++)
        if (rest->known[i] && rest->known[i + WEEK])
            values[n++] = rest->level[i] - rest->level[i + WEEK];
    return n < WEEKLY_MIN ? -1 : scale(values, n) / 2;
}

/* The mean of an hour of the same day of other weeks: those before it, or all but the newest day. */
static size_t of_other_weeks(const struct rest *rest, size_t at, bool later, double *ret_mean)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = at % WEEK; i < DAY_LEVELS; i += WEEK)
        if (rest->known[i] && (i > at || (later && i < at && i >= DAY))) {
            sum += rest->level[i];
            n++;
        }
    *ret_mean = n ? sum / (double)n : 0;
    return n;
}

/* Takes out what comes again at a day of the week, as far as that is more than days differ. careful: for a
 * step, by what was before; what is not known of weeks is taken to be against one. */
static void take_weekly(struct rest *rest, bool careful)
{
    double week[DAY_LEVELS], level[DAY_LEVELS];
    size_t weeks[DAY_LEVELS];
    for (size_t i = 0; i < DAY_LEVELS; i++)
        weeks[i] = of_other_weeks(rest, i, !careful, &week[i]);
    for (size_t i = 0; i < DAY_LEVELS; i++) {
        double around = 0, n = 0, part = 1;
        for (size_t j = i < AROUND ? 0 : i - AROUND; j <= i + AROUND && j < DAY_LEVELS; j++)
            if (weeks[j]) {
                around += week[j];
                n++;
            }
        level[i] = rest->level[i];
        if (!rest->known[i] || !weeks[i])
            continue;
        around /= n;
        if (!rest->guessed)
            part = around != 0 ? fmax(0, 1 - WEEKLY_SURE * WEEKLY_SURE * rest->total / (double)weeks[i] /
                                                 (around * around))
                               : 0;
        level[i] -= part * week[i];
        rest->cost[i] += part * part / (double)weeks[i];
    }
    memcpy(rest->level, level, sizeof(level));
}

/* careful: see take_weekly(). While no week has been seen, what is usual is the slowest of the days. */
static bool make_rest(const struct day_levels *levels, bool careful, struct rest *rest)
{
    double usual[DAY];
    bool known[DAY];
    for (size_t i = 0; i < DAY; i++)
        rest->has_weeks |= levels->known[i] && levels->known[i + WEEK];
    rest->days = find_usual(levels, careful && !rest->has_weeks, usual, known);
    if (rest->days < DAYS_MIN)
        return false;
    for (size_t i = 0; i < DAY_LEVELS; i++) {
        rest->known[i] = levels->known[i] && known[i % DAY];
        rest->level[i] = rest->known[i] ? levels->level[i] - usual[i % DAY] : 0;
        rest->cost[i] = 1 + MEDIAN_COST / (double)rest->days;
    }
    rest->newest = rest->level[0];
    rest->total = learn_total(rest);
    rest->guessed = rest->has_weeks && rest->total < 0;
    if (rest->has_weeks && (careful || !rest->guessed))
        take_weekly(rest, careful);
    return true;
}

/* ---- how much hours differ ---- */

/* Of the change since the hour before: that of an incident is not counted, which goes up and soon comes
 * down again; nor is its end. */
static bool comes_back(const double *changes, const bool *known, size_t at)
{
    enum { SOON = 3 };
    static const double BACK = 1.0 / 3;
    for (size_t k = 1; k <= SOON; k++)
        for (int side = 0; side < 2; side++) {
            size_t other = side ? at + k : at - k;
            if ((!side && at < k) || other >= DAY_LEVELS || !known[other])
                continue;
            double a = fabs(changes[at]), b = fabs(changes[other]);
            if (changes[at] * changes[other] < 0 && fmin(a, b) > BACK * fmax(a, b) && fmax(a, b) > LARGE)
                return true;
        }
    return false;
}

static void keep_large(struct day_scatter *scatter, float size, uint8_t hour)
{
    if (size < (float)LARGE)
        return;
    for (size_t i = 0; i < DAY_LARGE; i++)
        if (size > scatter->large[i]) {
            float smaller = scatter->large[i];
            uint8_t its_hour = scatter->large_at[i];
            scatter->large[i] = size;
            scatter->large_at[i] = hour;
            size = smaller;
            hour = its_hour;
        }
}

/* How much changes at each hour of the day, no jump more than an outlier; and how large jumps are. */
static void learn_jumps(const struct rest *rest, double most, size_t of_day, struct day_scatter *scatter)
{
    double sums[DAY] = {0}, all = 0, changes[DAY_LEVELS], sizes[DAY_LEVELS];
    bool known[DAY_LEVELS] = {0};
    size_t n = 0;
    for (size_t i = DAY + 1; i < DAY_LEVELS; i++)
        if (rest->known[i] && rest->known[i - 1]) {
            double jump = rest->level[i - 1] - rest->level[i], square = fmin(jump * jump, most);
            sums[(of_day + DAY - (i - 1) % DAY) % DAY] += square;
            all += square;
            known[i - 1] = true;
            changes[i - 1] = jump;
            sizes[n++] = fabs(jump);
        }
    for (size_t hour = 0; hour < DAY; hour++)
        scatter->jumps[hour] = all > 0 ? (float)(sums[hour] / all) : 0;
    double one = n ? stats_median(sizes, n) / SIZE_OF_ONE : 0;
    for (size_t i = 0; one > 0 && i < DAY_LEVELS; i++)
        if (known[i])
            changes[i] /= one;
    for (size_t i = 0; one > 0 && i < DAY_LEVELS; i++) {
        if (!known[i] || comes_back(changes, known, i))
            continue;
        scatter->changes++;
        keep_large(scatter, (float)fabs(changes[i]), (uint8_t)((of_day + DAY - i % DAY) % DAY));
    }
}

static bool learn(const struct day_levels *levels, const struct rest *rest, size_t of_day,
                  struct day_scatter *scatter)
{
    double values[DAY_LEVELS], cost = 0;
    size_t n = 0, days = 0, last = 0;
    scatter->chance = 0;
    for (size_t i = DAY; i < DAY_LEVELS; i++) {
        if (!rest->known[i])
            continue;
        days += i / DAY != last;
        last = i / DAY;
        values[n++] = rest->level[i];
        cost += rest->cost[i];
        scatter->chance += levels->error[i] * levels->error[i];
    }
    if (n < HOURS_MIN || days < DAYS_MIN)
        return false;
    cost /= (double)n;
    scatter->chance /= (double)n;
    double others = (double)(days - 1), change = 0;
    scatter->total = scale(values, n) / cost * (double)days / others;
    for (size_t lag = 1; lag <= DAY_LAGS; lag++) {
        size_t pairs = 0;
        for (size_t i = DAY; i + lag < DAY_LEVELS; i++)
            if (rest->known[i] && rest->known[i + lag])
                values[pairs++] = rest->level[i] - rest->level[i + lag];
        double square = pairs >= HOURS_MIN ? scale(values, pairs) : 2 * cost * scatter->total;
        scatter->lags[lag - 1] = square / 2 / cost;
        if (lag == 1)
            change = square;
    }
    learn_jumps(rest, OUTLIER * OUTLIER * change, of_day, scatter);
    scatter->freedom = others;
    return true;
}

bool day_scatter_learn(const struct day_levels *levels, size_t of_day, struct day_scatter *ret_scatter)
{
    struct rest rest = {0};
    struct day_scatter scatter = {0};
    if (!make_rest(levels, false, &rest) || !learn(levels, &rest, of_day, &scatter))
        return false;
    *ret_scatter = scatter;
    return true;
}

/* What changes within a few hours is what is not remembered of an hour, and a little of the days. */
void day_scatter_split(const struct day_scatter *scatter, double memory, double *ret_day, double *ret_hour)
{
    enum { SPLIT_LAGS = 4 };
    double changed = 0, of_hours = 0, of_days = 0, kept = 1;
    double total = fmax(scatter->total - scatter->chance, 0);
    for (size_t lag = 1; lag <= SPLIT_LAGS; lag++) {
        kept *= memory;
        changed += scatter->lags[lag - 1] - scatter->chance;
        of_hours += 1 - kept;
        of_days += (double)lag / DAY;
    }
    double hour = fmin(fmax((changed - total * of_days) / (of_hours - of_days), 0), total);
    *ret_hour = hour;
    *ret_day = total - hour;
}

/* ---- what all say of one ---- */

/* The hour of the day at which most changes, over all, where it is clearly that one; how many times as much
 * as at the others changes then. */
static size_t find_begin(const struct day_scatter *scatters, size_t count, double *ret_times)
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
    *ret_times = all > sums[best] ? sums[best] / ((all - sums[best]) / (DAY - 1)) : 1;
    return *ret_times > BEGIN_LEAST ? best : 0;
}

/* By what is left of an hour after one, two, ...: least squares, over what all have in common. */
static double learn_memory(const struct day_scatter *all)
{
    double best = INFINITY, memory = MEMORY;
    for (double m = 0.5; m < 0.925; m += 0.01) {
        double day, hour, sum = 0, kept = 1;
        day_scatter_split(all, m, &day, &hour);
        if (hour < 0.1 * all->chance)
            return MEMORY; /* too little to be seen beside errors */
        for (size_t lag = 1; lag <= DAY_LAGS; lag++) {
            kept *= m;
            double rest = all->lags[lag - 1] - all->chance - hour * (1 - kept) - day * (double)lag / DAY;
            sum += rest * rest;
        }
        if (sum < best) {
            best = sum;
            memory = m;
        }
    }
    return memory;
}

/* By which power of their size large jumps get rarer (Hill's estimator), and the share of all that is large.
 * What the normal distribution has counts as some jumps that were seen. */
static double learn_tail(const struct day_scatter *scatters, size_t count, size_t begins, double *ret_share)
{
    static const double BEFORE = 10, NORMAL_LOG = 0.055; /* jumps, the mean of their log(size / LARGE) */
    double logs = BEFORE * NORMAL_LOG, changes = 0, large = BEFORE;
    for (size_t i = 0; i < count; i++) {
        changes += (double)scatters[i].changes;
        for (size_t k = 0; k < DAY_LARGE && scatters[i].large[k] > 0; k++)
            if (scatters[i].large_at[k] != begins) {
                logs += log((double)scatters[i].large[k] / LARGE);
                large++;
            }
    }
    *ret_share = large / (changes + BEFORE / (2 * stats_normal_above(LARGE)));
    return large / logs;
}

static double normal_quantile_above(double p)
{
    double low = 0, high = 40;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        *(stats_normal_above(middle) > p ? &low : &high) = middle;
    }
    return low;
}

static void make_scores(struct day_prior *prior, double share)
{
    for (size_t i = 0; i < DAY_SCORES; i++) {
        double size = (double)i / 4;
        double rare = share / 2 * pow(fmax(size / LARGE, 1), -prior->tail);
        prior->score[i] = (float)(prior->tail > 0 ? fmin(size, normal_quantile_above(rare)) : size);
    }
}

/* The variance of the logarithm of a variance is about 2 / its degrees of freedom. */
static double freedom_of_others(const double *variances, size_t count, double least, double own)
{
    double mean = 0, variance = 0;
    for (size_t i = 0; i < count; i++)
        mean += log(fmax(variances[i], least)) / (double)count;
    for (size_t i = 0; i < count; i++) {
        double rest = log(fmax(variances[i], least)) - mean;
        variance += rest * rest / (double)(count - 1);
    }
    return fmin(2 / fmax(variance - 2 / own, 1e-3), FREEDOM_OF_OTHERS);
}

void day_prior_learn(const struct day_scatter *scatters, size_t count, struct day_prior *prior)
{
    enum { OTHERS_MIN = 8, SAMPLE = 512 };
    double day[SAMPLE], hour[SAMPLE], freedom = 0, times, share;
    struct day_scatter all = {0};
    size_t step = count / SAMPLE + 1, n = 0;
    prior->day_freedom = prior->hour_freedom = prior->memory = prior->tail = 0;
    prior->begins = find_begin(scatters, count, &times);
    if (count < OTHERS_MIN)
        return;
    for (size_t i = 0; i < count; i++) {
        const struct day_scatter *s = &scatters[i];
        double weight = 1 / fmax(s->total, prior->hour_least);
        all.total += weight * s->total;
        all.chance += weight * s->chance;
        for (size_t lag = 0; lag < DAY_LAGS; lag++)
            all.lags[lag] += weight * s->lags[lag];
        freedom += s->freedom / (double)count;
    }
    prior->memory = learn_memory(&all);
    prior->tail = learn_tail(scatters, count, prior->begins, &share);
    make_scores(prior, share);
    double of_day, of_hour;
    day_scatter_split(&all, prior->memory, &of_day, &of_hour);
    prior->same = 0;
    if (times > BEGIN_LEAST && of_day > 0)
        prior->same = fmin(all.lags[0] / (1 + (times - 1) / DAY) * (times - 1) / of_day, 1);
    for (size_t i = 0; i < count; i += step) {
        day_scatter_split(&scatters[i], prior->memory, &day[n], &hour[n]);
        n++;
    }
    prior->day_freedom = freedom_of_others(day, n, prior->day_least, FREEDOM_OF_A_DAY * freedom);
    prior->hour_freedom = freedom_of_others(hour, n, prior->hour_least, FREEDOM_OF_HOURS * freedom);
    prior->day = stats_median(day, n);
    prior->hour = stats_median(hour, n);
}

/* What an hour of an operation is expected to do. */
struct model {
    double day, hour, day_freedom, hour_freedom, memory, same;
};

static struct model model_of(const struct day_scatter *own, const struct day_prior *prior)
{
    struct model m = {.memory = prior->memory > 0 ? prior->memory : MEMORY,
                      .same = prior->memory > 0 ? prior->same : SAME,
                      .day_freedom = FREEDOM_OF_A_DAY * own->freedom,
                      .hour_freedom = FREEDOM_OF_HOURS * own->freedom};
    day_scatter_split(own, m.memory, &m.day, &m.hour);
    m.day = (m.day_freedom * m.day + prior->day_freedom * prior->day) / (m.day_freedom + prior->day_freedom);
    m.hour = (m.hour_freedom * m.hour + prior->hour_freedom * prior->hour) /
             (m.hour_freedom + prior->hour_freedom);
    m.day = fmax(m.day, prior->day_least);
    m.hour = fmax(m.hour, prior->hour_least);
    m.day_freedom += prior->day_freedom;
    m.hour_freedom += prior->hour_freedom;
    return m;
}

/* ---- steps ---- */

/* The known hours of the window, the oldest first, and the lower triangle L of their covariance L L'. */
struct window {
    size_t count;
    size_t ago[WINDOW];
    double days[WINDOW][WINDOW]; /* of the covariance, what is owed to days; */
    double hours[WINDOW][WINDOW];
    double lower[WINDOW][WINDOW], values[WINDOW], jumps[WINDOW]; /* jumps: L^-1 of the values */
};

/* from: there are only zeros before. */
static void solve(const struct window *w, size_t from, const double *values, double *ret)
{
    memset(ret, 0, from * sizeof(*ret));
    for (size_t i = from; i < w->count; i++) {
        double sum = values[i];
        for (size_t j = from; j < i; j++)
            sum -= w->lower[i][j] * ret[j];
        ret[i] = sum / w->lower[i][i];
    }
}

/* L'^-1 */
static void solve_back(const struct window *w, const double *values, double *ret)
{
    for (size_t i = w->count; i-- > 0;) {
        double sum = values[i];
        for (size_t j = i + 1; j < w->count; j++)
            sum -= w->lower[j][i] * ret[j];
        ret[i] = sum / w->lower[i][i];
    }
}

/* Of the newest hours. of_day: hours since the day of the newest one began. */
static void make_window(const struct day_levels *levels, const struct rest *rest, const struct model *m,
                        size_t of_day, size_t length, struct window *w)
{
    double kept[WINDOW], most = -INFINITY;
    w->count = 0;
    for (size_t i = 0; i < LATELY; i++)
        most = rest->known[i] ? fmax(most, rest->level[i]) : most;
    kept[0] = m->hour;
    for (size_t i = 1; i < WINDOW; i++)
        kept[i] = kept[i - 1] * m->memory;
    for (size_t i = length; i-- > 0;)
        if (rest->known[i]) {
            w->values[w->count] = i < DAY ? fmin(rest->level[i], most) : rest->level[i];
            w->ago[w->count++] = i;
        }
    for (size_t i = 0; i < w->count; i++)
        for (size_t j = 0; j <= i; j++) {
            size_t a = w->ago[i], b = w->ago[j], lag = b - a;
            bool same = (a + DAY - of_day - 1) / DAY == (b + DAY - of_day - 1) / DAY;
            double cost = sqrt(rest->cost[a] * rest->cost[b]);
            double alike = m->same * same + (1 - m->same) * (lag < DAY ? 1 - (double)lag / DAY : 0);
            w->days[i][j] = w->days[j][i] = m->day * alike * cost;
            w->hours[i][j] = w->hours[j][i] = kept[lag] * cost;
            double sum = w->days[i][j] + w->hours[i][j];
            sum += i == j ? levels->error[a] * levels->error[a] * cost : 0;
            for (size_t k = 0; k < j; k++)
                sum -= w->lower[i][k] * w->lower[j][k];
            w->lower[i][j] = i == j ? sqrt(fmax(sum, 1e-12)) : sum / w->lower[j][j];
        }
    solve(w, 0, w->values, w->jumps);
}

/* Whether the level stays up since the step: the newest hour, and most others, are above half of it.
 * Otherwise it was a short incident, which is over. */
static bool stays(const struct rest *rest, const struct window *w, size_t since, double growth)
{
    size_t above = 0;
    for (size_t i = w->count - since; i < w->count; i++)
        above += rest->level[w->ago[i]] >= growth / 2;
    return rest->level[0] >= growth / 2 && 2 * above > since &&
           (!rest->guessed || rest->newest >= growth / 2);
}

/* See day_prior.score. */
static double score_of(const struct day_prior *prior, double size)
{
    double at = 4 * fabs(size), x;
    size_t i = (size_t)fmin(at, DAY_SCORES - 2);
    if (prior->tail <= 0)
        return size;
    x = fmin(at - (double)i, 1);
    return copysign((1 - x) * (double)prior->score[i] + x * (double)prior->score[i + 1], size);
}

/* A step that hours are above, the newest `since` but for the last `over` of them; z. solved: L^-1 of it. */
static double try_step(const struct window *w, const struct day_prior *prior, size_t since, size_t over,
                       double *solved, double *ret_growth, double *ret_error)
{
    double ones[WINDOW] = {0}, both = 0, own = 0, scores = 0, weights = 0;
    for (size_t i = w->count - since; i < w->count - over; i++)
        ones[i] = 1;
    solve(w, w->count - since, ones, solved);
    for (size_t i = 0; i < w->count; i++) {
        both += solved[i] * w->jumps[i];
        own += solved[i] * solved[i];
    }
    *ret_growth = both / own;
    *ret_error = 1 / sqrt(own);
    if (prior->tail <= 0)
        return both / sqrt(own);
    /* Each jump as rare as it is among all; each counts by what is expected of it if that is the growth. */
    for (size_t i = 0; i < w->count; i++) {
        double weight = score_of(prior, solved[i] * *ret_growth);
        scores += weight * score_of(prior, w->jumps[i]);
        weights += weight * weight;
    }
    return weights > 0 ? scores / sqrt(weights) : 0;
}

/* Whether what was above is over by now, as the newest hours show. */
static bool is_over(const struct window *w, const struct day_prior *prior, size_t since, double z)
{
    double solved[WINDOW], growth, error;
    for (size_t over = 1; over < since && over <= OVER_MAX; over++)
        if (try_step(w, prior, since, over, solved, &growth, &error) > z)
            return true;
    return false;
}

/* Degrees of freedom of a step's variance (Satterthwaite): of days and of hours not the same is known. */
static double freedom_of(const struct window *w, const struct model *m, const double *solved, double error)
{
    double weights[WINDOW], of_days = 0, of_hours = 0;
    solve_back(w, solved, weights);
    for (size_t i = 0; i < w->count; i++)
        for (size_t j = 0; j < w->count; j++) {
            of_days += weights[i] * weights[j] * w->days[i][j];
            of_hours += weights[i] * weights[j] * w->hours[i][j];
        }
    double scale = pow(error, 4) / pow(error, 2);
    of_days *= scale;
    of_hours *= scale;
    return 1 / fmax(of_days * of_days / m->day_freedom + of_hours * of_hours / m->hour_freedom, 1e-4);
}

bool day_step_find(const struct day_levels *levels, const struct day_prior *prior, size_t of_day,
                   struct day_step *ret_step)
{
    struct rest rest = {0};
    struct day_scatter own;
    struct window w;
    double best = -INFINITY;
    if (!levels->known[0] || !make_rest(levels, true, &rest) || !rest.known[0])
        return false;
    struct day_step step = {.hours = 1, .growth = rest.level[0], .p = 1};
    if (rest.level[0] > 0) {
        if (!day_scatter_learn(levels, of_day, &own))
            return false;
        struct model m = model_of(&own, prior);
        size_t begun = (of_day + DAY - prior->begins) % DAY, since = 0;
        make_window(levels, &rest, &m, begun, WINDOW, &w);
        for (size_t ago = 0; ago < DAY; ago++) {
            double growth, error, solved[WINDOW];
            if (!rest.known[ago])
                continue;
            since++;
            /* Without weeks the hours before say nothing: nobody knows how a day of that kind begins. */
            if (!rest.has_weeks)
                make_window(levels, &rest, &m, begun, ago + 1, &w);
            double z = try_step(&w, prior, since, 0, solved, &growth, &error);
            if (z <= best || !stays(&rest, &w, since, growth) || is_over(&w, prior, since, z))
                continue;
            best = z;
            double p = stats_student_above(z, freedom_of(&w, &m, solved, error));
            step = (struct day_step){ago + 1, growth, error,
                                     fmin(1, fmin(STEPS_OF_ONE * (double)since, STEPS) * p)};
        }
    }
    *ret_step = step;
    return true;
}
