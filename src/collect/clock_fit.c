/* See clock_fit.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/clock_fit.h"

#include <math.h>
#include <time.h>
#include <x86intrin.h>

#include "base/clock.h"
#include "base/macro.h"

/* How fast an error is made good, and what no anchor is off by at once. */
static const double STEEPEST = 1e-3, JUMP_NS = 1e6;
static const uint64_t SHORTEST_NS = 10 * NS_PER_MS, LONGEST_NS = NS_PER_S; /* between anchors */

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

static const struct clock_line *newest_line(const struct clock_fit *fit)
{
    return &fit->lines[(fit->count - 1) % CLOCK_LINES];
}

static double along(const struct clock_line *line, uint64_t ticks)
{
    return (double)line->ns + (double)(int64_t)(ticks - line->ticks) * line->ns_per_tick;
}

/* More than the newest line can be off: the steepest correction, for as long as no anchor was taken. */
static bool is_jump(const struct clock_fit *fit, double error_ns, uint64_t ns)
{
    uint64_t since = newest_line(fit)->ns;
    double elapsed_ns = ns > since ? (double)(ns - since) : 0;
    return fabs(error_ns) > JUMP_NS + elapsed_ns * STEEPEST;
}

bool clock_fit_is_off(const struct clock_fit *fit)
{
    uint64_t ticks = __rdtsc(), ns = clock_monotonic_ns();
    return is_jump(fit, (double)ns - along(newest_line(fit), ticks), ns);
}

/* A slope is as exact as its base line is long: each of the first anchors comes when the base line has
 * doubled, so that the error is the same few nanoseconds until the next. */
bool clock_fit_is_due(const struct clock_fit *fit, uint64_t now_ns)
{
    uint64_t newest_ns = newest_line(fit)->ns,
             base_ns = newest_ns > fit->first_ns ? newest_ns - fit->first_ns : 0;
    return now_ns > newest_ns && now_ns - newest_ns >= MAX(MIN(base_ns, LONGEST_NS), SHORTEST_NS);
}

/* The slope is kept until there is a new one. */
static void begin_epoch(struct clock_fit *fit, uint64_t ticks, uint64_t ns)
{
    const struct clock_line last = *newest_line(fit);
    double slope = fit->count > 1
                       ? (double)(last.ns - fit->first_ns) / (double)(last.ticks - fit->first_ticks)
                       : last.ns_per_tick;
    fit->jumps++;
    fit->first_ticks = ticks;
    fit->first_ns = ns;
    if (ticks < last.ticks) {
        fit->went_back = true;
        fit->before = last;
        fit->before_end_ns = ns;
        fit->count = 0;
    }
    fit->lines[fit->count++ % CLOCK_LINES] = (struct clock_line){ticks, ns, slope};
}

int64_t clock_fit_anchor(struct clock_fit *fit)
{
    uint64_t ticks, ns;
    anchor(&ticks, &ns);
    double predicted_ns = along(newest_line(fit), ticks), error = (double)ns - predicted_ns;
    if (is_jump(fit, error, ns)) {
        begin_epoch(fit, ticks, ns);
        return (int64_t)-error;
    }
    uint64_t predicted = clock_fit_ns(fit, ticks);
    error = (double)ns - (double)predicted;
    if (fit->count > 1) /* the first line is short */
        fit->error_ns_worst = MAX(fit->error_ns_worst, error < 0 ? -error : error);
    /* The long base line gives the slope; what the prediction was off is made good over the next second. */
    double slope = (double)(ns - fit->first_ns) / (double)(ticks - fit->first_ticks);
    double correction = error / (double)NS_PER_S;
    correction = MAX(MIN(correction, STEEPEST), -STEEPEST);
    fit->lines[fit->count++ % CLOCK_LINES] = (struct clock_line){ticks, predicted, slope * (1 + correction)};
    return 0;
}

static const struct clock_line *line_of(const struct clock_fit *fit, uint64_t ticks)
{
    const struct clock_line *newest = newest_line(fit);
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

static uint64_t at_line(const struct clock_line *line, uint64_t ticks)
{
    return line->ns + (uint64_t)(int64_t)((double)(int64_t)(ticks - line->ticks) * line->ns_per_tick);
}

uint64_t clock_fit_ns(const struct clock_fit *fit, uint64_t ticks)
{
    if (fit->went_back && ticks > __rdtsc()) /* they cannot be of this epoch */
        return MIN(at_line(&fit->before, ticks), fit->before_end_ns);
    const struct clock_line *line = line_of(fit, ticks), *newest = newest_line(fit);
    if (line == newest)
        return at_line(line, ticks);
    const struct clock_line *next = line + 1 == fit->lines + CLOCK_LINES ? fit->lines : line + 1;
    return MIN(at_line(line, ticks), next->ns); /* the next one may be of another epoch */
}

uint64_t clock_fit_duration_ns(const struct clock_fit *fit, uint64_t end_ticks, uint64_t ticks)
{
    return ticks ? clock_fit_ns(fit, end_ticks) - clock_fit_ns(fit, end_ticks - ticks) : 0;
}

double clock_fit_ticks_per_ns(const struct clock_fit *fit)
{
    return 1 / fit->lines[(fit->count - 1) % CLOCK_LINES].ns_per_tick;
}
