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
    fit->lines[fit->count++] = (struct clock_line){
        fit->first_ticks, fit->first_ns, (double)(ns - fit->first_ns) / (double)(ticks - fit->first_ticks)};
}

void clock_fit_anchor(struct clock_fit *fit)
{
    uint64_t ticks, ns;
    anchor(&ticks, &ns);
    uint64_t predicted = clock_fit_ns(fit, ticks);
    double error = (double)ns - (double)predicted;
    if (fit->count > 1) /* the first line is short */
        fit->error_ns_worst = MAX(fit->error_ns_worst, error < 0 ? -error : error);
    /* The long base line gives the slope; what the prediction was off is made good over the next second. */
    double slope = (double)(ns - fit->first_ns) / (double)(ticks - fit->first_ticks);
    double correction = error / (double)NS_PER_S;
    if (correction > 1e-3)
        correction = 1e-3;
    if (correction < -1e-3)
        correction = -1e-3;
    fit->lines[fit->count++ % CLOCK_LINES] = (struct clock_line){ticks, predicted, slope * (1 + correction)};
}

static const struct clock_line *line_of(const struct clock_fit *fit, uint64_t ticks)
{
    const struct clock_line *newest = &fit->lines[(fit->count - 1) % CLOCK_LINES];
    if (ticks >= newest->ticks)
        return newest;
    size_t low = fit->count > CLOCK_LINES ? fit->count - CLOCK_LINES : 0, high = fit->count - 1;
    while (low + 1 < high) {
        size_t middle = low + (high - low) / 2;
        if (fit->lines[middle % CLOCK_LINES].ticks <= ticks)
            low = middle;
        else
            high = middle;
    }
    return &fit->lines[low % CLOCK_LINES];
}

uint64_t clock_fit_ns(const struct clock_fit *fit, uint64_t ticks)
{
    const struct clock_line *line = line_of(fit, ticks);
    return line->ns + (uint64_t)(int64_t)((double)(int64_t)(ticks - line->ticks) * line->ns_per_tick);
}

uint64_t clock_fit_duration_ns(const struct clock_fit *fit, uint64_t end_ticks, uint64_t ticks)
{
    return ticks ? clock_fit_ns(fit, end_ticks) - clock_fit_ns(fit, end_ticks - ticks) : 0;
}

double clock_fit_ticks_per_ns(const struct clock_fit *fit)
{
    return 1 / fit->lines[(fit->count - 1) % CLOCK_LINES].ns_per_tick;
}
