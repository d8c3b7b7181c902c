/* See clock_fit.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/clock_fit.h"

#include <time.h>
#include <x86intrin.h>

#include "base/clock.h"
#include "base/macro.h"

/* The tightest of some readings of TSC, clock, TSC. */
static void anchor(uint64_t *ret_ticks, uint64_t *ret_ns)
{
    uint64_t narrowest = UINT64_MAX;
    *ret_ticks = *ret_ns = 0;
    for (int i = 0; i < 40; i++) {
        uint64_t a = __rdtsc(), ns = clock_monotonic_ns(), b = __rdtsc();
        if (b - a < narrowest) {
            narrowest = b - a;
            *ret_ticks = a + (b - a) / 2;
            *ret_ns = ns;
        }
    }
}

void clock_fit_init(struct clock_fit *fit)
{
    *fit = (struct clock_fit){0};
    anchor(&fit->first_ticks, &fit->first_ns);
    const struct timespec pause = {.tv_nsec = 5 * NS_PER_MS};
    nanosleep(&pause, NULL);
    uint64_t ticks, ns;
    anchor(&ticks, &ns);
    fit->now = (struct clock_line){fit->first_ticks, fit->first_ns,
                                   (double)(ns - fit->first_ns) / (double)(ticks - fit->first_ticks)};
    fit->before = fit->now;
}

void clock_fit_anchor(struct clock_fit *fit)
{
    uint64_t ticks, ns;
    anchor(&ticks, &ns);
    uint64_t predicted = clock_fit_ns(fit, ticks);
    double error = (double)ns - (double)predicted;
    if (fit->before.ticks != fit->now.ticks ||
        fit->now.ticks != fit->first_ticks) /* the first line is short */
        fit->error_ns_worst = MAX(fit->error_ns_worst, error < 0 ? -error : error);
    /* The long base line gives the slope; what the prediction was off is made good over the next second. */
    double slope = (double)(ns - fit->first_ns) / (double)(ticks - fit->first_ticks);
    double correction = error / (double)NS_PER_S;
    if (correction > 1e-3)
        correction = 1e-3;
    if (correction < -1e-3)
        correction = -1e-3;
    fit->before = fit->now;
    fit->now = (struct clock_line){ticks, predicted, slope * (1 + correction)};
}

uint64_t clock_fit_ns(const struct clock_fit *fit, uint64_t ticks)
{
    const struct clock_line *line = ticks >= fit->now.ticks ? &fit->now : &fit->before;
    return line->ns + (uint64_t)(int64_t)((double)(int64_t)(ticks - line->ticks) * line->ns_per_tick);
}

uint64_t clock_fit_duration_ns(const struct clock_fit *fit, uint64_t ticks)
{
    return (uint64_t)((double)ticks * fit->now.ns_per_tick + 0.5);
}
