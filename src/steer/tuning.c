/* See tuning.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/tuning.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "diagnose/stats.h"
#include "profile/formats.h"
#include "steer/prune.h"

static const double PERCENTS[TUNING_STEPS] = {50, 60, 70, 80, 85, 90, 95, 97, 99, 99.5, 100};
enum { TIMES = 3 };

/* What an agent and a controller do with a profile: merge it, write it. */
static int aggregate(const struct profile *p, double *ret_ns, double *ret_bytes)
{
    double least = INFINITY;
    for (int i = 0; i < TIMES; i++) {
        _cleanup_(profile_freep) struct profile *sum = NULL;
        struct text text = {0};
        uint64_t start_ns = clock_thread_cpu_ns();
        int r = profile_new(&sum);
        if (r == 0)
            r = profile_merge(sum, p);
        if (r == 0)
            r = pprof_write(sum, &text);
        least = fmin(least, (double)(clock_thread_cpu_ns() - start_ns));
        *ret_bytes = (double)text.length;
        text_done(&text);
        if (r < 0)
            return r;
    }
    *ret_ns = least;
    return 0;
}

static int measure_step(const struct profile *profile, struct tuning_step *step)
{
    _cleanup_(profile_freep) struct profile *copy = NULL;
    struct prune_result pruned;
    int r = profile_new(&copy);
    if (r == 0)
        r = profile_merge(copy, profile);
    if (r == 0)
        r = prune_threads(copy, step->percent, true, &pruned);
    if (r < 0)
        return r;
    step->error_percent = pruned.errors[PRUNE_TOPS - 1].mean;
    return aggregate(copy, &step->time_ns, &step->bytes);
}

static void fit_time(struct tuning *t)
{
    double n = TUNING_STEPS, x = 0, y = 0, xx = 0, xy = 0, error = 0;
    for (int i = 0; i < TUNING_STEPS; i++) {
        double p = t->steps[i].percent, time = t->steps[i].time_ns;
        x += p;
        y += time;
        xx += p * p;
        xy += p * time;
    }
    t->slope = (n * xy - x * y) / (n * xx - x * x);
    t->offset = (y - t->slope * x) / n;
    for (int i = 0; i < TUNING_STEPS; i++)
        error += fabs(t->slope * t->steps[i].percent + t->offset - t->steps[i].time_ns) / n;
    t->time_fit_error = y > 0 ? 100 * error / (y / n) : 0;
}

/* The scale that fits best for this rate, and the sum of squares that is left. */
static double squares_at(const struct tuning *t, double rate, double *ret_scale)
{
    double gy = 0, gg = 0, squares = 0;
    for (int i = 0; i < TUNING_STEPS; i++) {
        double g = log1p(rate * (100 - t->steps[i].percent));
        gy += g * t->steps[i].error_percent;
        gg += g * g;
    }
    *ret_scale = gg > 0 ? gy / gg : 0;
    for (int i = 0; i < TUNING_STEPS; i++) {
        double off = *ret_scale * log1p(rate * (100 - t->steps[i].percent)) - t->steps[i].error_percent;
        squares += off * off;
    }
    return squares;
}

/* The rate is searched for over five decades; the scale follows from it. */
static void fit_error(struct tuning *t)
{
    double best = INFINITY, error = 0;
    for (double rate = 1e-3; rate < 1e2; rate *= 1.02) {
        double scale, squares = squares_at(t, rate, &scale);
        if (squares < best) {
            best = squares;
            t->rate = rate;
            t->scale = scale;
        }
    }
    for (int i = 0; i < TUNING_STEPS; i++)
        error += fabs(t->scale * log1p(t->rate * (100 - t->steps[i].percent)) - t->steps[i].error_percent);
    t->error_fit_error = error / TUNING_STEPS;
}

int tuning_measure(const struct profile *profile, double acceptable, struct tuning *ret_tuning)
{
    struct tuning t = {.percent = 100};
    for (int i = 0; i < TUNING_STEPS; i++) {
        t.steps[i].percent = PERCENTS[i];
        int r = measure_step(profile, &t.steps[i]);
        if (r < 0)
            return r;
    }
    fit_time(&t);
    fit_error(&t);
    double most = t.scale > 0 ? expm1(fmin(acceptable / t.scale, 50)) / t.rate : 100;
    t.fitted_percent = fmax(0, 100 - most);
    for (int i = TUNING_STEPS; i-- > 0 && t.steps[i].error_percent <= acceptable;)
        t.percent = t.steps[i].percent;
    t.percent = fmin(100, fmax(t.percent, t.fitted_percent));
    *ret_tuning = t;
    return 0;
}

size_t tuning_period(const double *values, size_t count)
{
    double mean, variance, best = 0;
    size_t period = 0, lags = count / 3; /* at least three times what is called a period */
    stats_moments(values, count, &mean, &variance);
    if (!(variance > 0))
        return 0;
    for (size_t lag = 2; lag <= lags; lag++) {
        double sum = 0;
        for (size_t i = 0; i + lag < count; i++)
            sum += (values[i] - mean) * (values[i + lag] - mean);
        sum /= variance * (double)(count - 1);
        if (sum > best * 1.1) { /* of a period and its multiples the shortest */
            best = sum;
            period = lag;
        }
    }
    double chance = 0.05 / (double)(lags > 1 ? lags - 1 : 1);
    return best > stats_student_quantile(chance, 1e6) / sqrt((double)count) ? period : 0;
}
