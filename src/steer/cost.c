/* See cost.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/cost.h"

#include <math.h>

/* What was not used may be used later, for so long; and what was too much is made up for over that time. */
static const double SAVED_FOR_S = 600;
/* Windows vary, by which programs are met: over how long costs are averaged. */
static const double SMOOTH_S = 60;
/* Between what is paid back and what is spent of savings, relative to the limit. */
static const double LEAST_SHARE = 0.25, MOST_SHARE = 2;
/* How fast the rate falls and rises between two looks. */
static const double FALL = 0.5, RISE = 1.25;

void cost_begin(struct cost *c, const struct cost_options *options, double before_s)
{
    *c = (struct cost){.options = *options,
                       .hz = options->most_hz,
                       .saved_s = -before_s,
                       .spent_s = before_s,
                       .lowest_hz = options->most_hz};
}

unsigned cost_hz(const struct cost *c)
{
    return (unsigned)fmax(lround(c->hz), 1);
}

static void note(struct cost *c, double elapsed_s, double spent_s)
{
    double hz = cost_hz(c), each_s = spent_s / elapsed_s / hz;
    c->elapsed_s += elapsed_s;
    c->spent_s += spent_s;
    c->mean_hz += (hz - c->mean_hz) * elapsed_s / c->elapsed_s;
    c->lowest_hz = fmin(c->lowest_hz, hz);
    c->highest_hz = fmax(c->highest_hz, hz);
    c->each_s = c->each_s > 0 ? c->each_s + (each_s - c->each_s) * fmin(elapsed_s / SMOOTH_S, 1) : each_s;
    c->saved_s = fmin(c->saved_s + c->options.limit * elapsed_s - spent_s, c->options.limit * SAVED_FOR_S);
}

void cost_count(struct cost *c, double elapsed_s, double spent_s)
{
    const struct cost_options *o = &c->options;
    note(c, elapsed_s, spent_s);
    double share = 1 + c->saved_s / (o->limit * SAVED_FOR_S);
    double allowed_s = o->limit * fmin(fmax(share, LEAST_SHARE), MOST_SHARE);
    double next = c->each_s > 0 ? allowed_s / c->each_s : o->most_hz;
    next = fmin(fmax(next, c->hz * FALL), c->hz * RISE);
    c->hz = fmin(fmax(next, o->least_hz), o->most_hz);
}
