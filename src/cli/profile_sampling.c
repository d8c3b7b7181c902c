/* See profile_sampling.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_sampling.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/confine.h"
#include "profile/outlier.h"
#include "steer/pooling.h"
#include "steer/regressed_watch.h"

#define POLL_MS       20
#define TIDY_STORE_NS (60 * NS_PER_S)
#define COST_NS       (10 * NS_PER_S) /* how often it is looked at */

/* What frames are called is kept from one window of the store to the next, up to so many: processes are among
 * them. */
#define FRAMES_KEPT 16384

enum { JUDGED_AT_ONCE = 8 }; /* windows of the store that are read between two of sampling */

/* One sampling under way. */
struct run {
    struct profile_sampling *sampling;
    struct problem *problem;
    bool child_runs;
    struct rate *rate;
    struct pool *pool;
    struct profile *window; /* what is sampled into when windows are told apart; else NULL */
    struct profile *before; /* the one before, to be used again */
    bool store_fails;
    uint64_t tidied_ns;
    struct regressed_watch *watch;
    uint64_t start_ns, check_after_ns;
    uint64_t window_start_ns, window_half_ns, window_end_ns; /* half: 0 when it was told */
    double frequency, frequency_ns;                          /* of the window; the sum of rates by time */
    uint64_t cost_looked_ns, cost_spent_ns;
};

static int out_of_memory(struct run *run)
{
    return problem_set(run->problem, -ENOMEM, "out of memory");
}

static int poll(struct run *run, int timeout_ms)
{
    const struct profile_options *o = run->sampling->options;
    struct profile *into = run->window ? run->window : run->sampling->profile;
    int r = sampler_poll(run->sampling->sampler, timeout_ms,
                         o->sampler.on_cpu || o->sampler.allocs || o->sampler.hits ? into : NULL,
                         o->sampler.off_cpu || o->sampler.locks ? into : NULL);
    return r < 0 ? problem_set(run->problem, r, "sampling failed: %s", strerror(-r)) : r;
}

/* ---- windows ---- */

static int begin_window(struct run *run, uint64_t now_ns)
{
    const struct profile *profile = run->sampling->profile;
    uint64_t length_ns = (uint64_t)(run->sampling->options->rate.window_s * 1e9),
             real_ns = clock_realtime_ns();
    if (run->sampling->options->store) /* they end where all do, at full tens of seconds */
        length_ns -= real_ns % length_ns;
    run->window_start_ns = now_ns;
    run->window_half_ns = run->rate ? now_ns + length_ns / 2 : 0;
    run->window_end_ns = now_ns + length_ns;
    if (run->before ? profile_restart(run->before, FRAMES_KEPT) : profile_new(&run->before))
        return out_of_memory(run);
    run->window = run->before;
    run->before = NULL;
    run->window->start_ns = real_ns;
    snprintf(run->window->event, sizeof(run->window->event), "%s", profile->event);
    snprintf(run->window->unit, sizeof(run->window->unit), "%s", profile->unit);
    run->window->period = profile->period;
    run->window->by_line = profile->by_line;
    run->window->sample_limit = profile->sample_limit;
    return 0;
}

static int sum_up(struct run *run, const struct rate_decision *d, uint64_t now_ns)
{
    struct rate_summary *s = &run->sampling->rate;
    double took_ns = (double)(now_ns - run->window_start_ns);
    if (run->sampling->options->tune > 0 && s->windows && array_add(&s->divergences, d->divergence) < 0)
        return -ENOMEM;
    if (d->theta > 0) /* the last window may be too short to compare */
        s->theta = d->theta;
    s->windows++;
    s->changes += d->changed;
    s->regimes += d->fresh || s->windows == 1;
    s->divergence = fmax(s->divergence, d->divergence);
    s->dispersion = d->dispersion;
    s->least_hz = s->windows > 1 ? fmin(s->least_hz, run->frequency) : run->frequency;
    s->most_hz = fmax(s->most_hz, run->frequency);
    run->frequency_ns += took_ns;
    s->mean_hz += (run->frequency - s->mean_hz) * took_ns / run->frequency_ns;
    return 0;
}

static void tell_counts(struct profile_sampling *s)
{
    struct sampler_counts counts;
    if (!s->metrics)
        return;
    sampler_counts(s->sampler, &counts);
    profile_metrics_set(s->metrics, s->kept.windows, s->kept.failed, counts.lost,
                        s->cost.options.limit > 0 ? cost_hz(&s->cost) : s->options->sampler.frequency,
                        (double)profile_spent_ns(&counts) / 1e9);
}

/* Functions whose share of their service's CPU has grown, once each. */
static int tell_regressed(struct run *run)
{
    const struct regressed *judged = regressed_watch_last(run->watch);
    struct profile_sampling *s = run->sampling;
    struct report report = {0};
    size_t count;
    const struct regressed_function *found = regressed_watch_found(run->watch, &count);
    int r = s->metrics ? profile_metrics_set_regressed(s->metrics, found, count) : 0;
    if (r == 0)
        r = regressed_report(judged, &report);
    for (size_t i = 0; r == 0 && i < report.findings.count; i++)
        if (regressed_watch_is_new(run->watch, &judged->functions.at[i]))
            cli_printf(stderr, "sonde: %s: %s\n", finding_kinds[report.findings.at[i]->kind].name,
                       report.findings.at[i]->title);
    report_done(&report);
    return r < 0 ? out_of_memory(run) : 0;
}

/* What cannot be read is not judged: the store itself is what matters, and it is sonde report that says why.
 */
static int judge_store(struct run *run)
{
    struct problem ignored;
    int r = regressed_watch_step(run->watch, clock_realtime_ns() / NS_PER_S, JUDGED_AT_ONCE, &ignored);
    return r == 1 ? tell_regressed(run) : r == -ENOMEM ? out_of_memory(run) : 0;
}

/* The window goes into the store, by service: processes come and go for weeks. One that cannot be written is
 * a gap, and sampling goes on: somebody may free some space. */
static int keep_window(struct run *run, uint64_t now_ns)
{
    struct profile_sampling *s = run->sampling;
    _cleanup_(profile_freep) struct profile *services = NULL;
    struct problem problem = {0};
    uint64_t length_s = (uint64_t)s->options->rate.window_s,
             start_s = run->window->start_ns / NS_PER_S / length_s * length_s;
    run->window->end_ns =
        run->window->start_ns + now_ns - run->window_start_ns; /* also when the clock is set */
    if (profile_by_service(run->window, &services) < 0)
        return out_of_memory(run);
    run->before = run->window;
    run->window = NULL;
    if (s->metrics && profile_metrics_add(s->metrics, services, &s->options->rules) < 0)
        return out_of_memory(run);
    int r = store_add(s->options->store, services, start_s, length_s, &problem);
    s->kept.windows += r == 0;
    if (r == 0 && now_ns - run->tidied_ns > TIDY_STORE_NS) {
        run->tidied_ns = now_ns;
        r = store_tidy(s->options->store, &s->options->retention, clock_realtime_ns() / NS_PER_S, &problem);
    } else if (r < 0) {
        s->kept.failed++;
    }
    tell_counts(s);
    if (r == -ENOMEM)
        return out_of_memory(run);
    if ((r < 0) != run->store_fails) {
        if (r < 0)
            cli_printf(stderr, "sonde: %s: windows are missing from now on\n", problem.what);
        else
            fprintf(stderr, "sonde: windows are kept again; %zu are missing\n", s->kept.failed);
    }
    run->store_fails = r < 0;
    return judge_store(run);
}

static int halve_window(struct run *run)
{
    run->window_half_ns = 0;
    return rate_half_profile(run->rate, run->window) < 0 ? out_of_memory(run) : 0;
}

/* The window goes where it belongs, and says at which rate the next one is sampled. */
static int end_window(struct run *run, uint64_t now_ns)
{
    struct distribution functions = {0};
    struct rate_decision d;
    if (run->sampling->options->store)
        return keep_window(run, now_ns);
    int r = distribution_add_profile(&functions, run->window);
    if (r == 0)
        r = rate_window(run->rate, &functions, &d);
    if (r == 0)
        r = pool_add(run->pool, d.regime, d.fresh, run->window);
    distribution_done(&functions);
    profile_free(run->window);
    run->window = NULL;
    if (r < 0)
        return out_of_memory(run);
    if (sum_up(run, &d, now_ns) < 0)
        return out_of_memory(run);
    run->frequency = round(d.next);
    sampler_set_frequency(run->sampling->sampler, (unsigned)run->frequency);
    return 0;
}

static int begin_rate(struct run *run, uint64_t now_ns)
{
    const struct profile_options *o = run->sampling->options;
    if (o->store) {
        if (regressed_watch_new(o->store, clock_realtime_ns() / NS_PER_S, &run->watch) < 0)
            return out_of_memory(run);
        return begin_window(run, now_ns);
    }
    if (!o->adaptive)
        return 0;
    run->sampling->rate.options = &o->rate;
    run->frequency = fmin(fmax(o->sampler.frequency, o->rate.least), o->rate.most);
    if (rate_new(&o->rate, run->frequency, &run->rate) < 0 ||
        pool_new(run->sampling->profile, SAMPLER_NODES, &run->pool) < 0)
        return out_of_memory(run);
    sampler_set_frequency(run->sampling->sampler, (unsigned)run->frequency);
    return begin_window(run, now_ns);
}

/* ---- what sampling costs ---- */

uint64_t profile_spent_ns(const struct sampler_counts *c)
{
    return clock_process_cpu_ns() + confine_lent_ns() + c->namer_ns + c->program_ns;
}

static uint64_t spent_now(const struct run *run)
{
    struct sampler_counts counts;
    sampler_counts(run->sampling->sampler, &counts);
    return profile_spent_ns(&counts);
}

static void begin_cost(struct run *run, uint64_t now_ns)
{
    const struct profile_options *o = run->sampling->options;
    double cpus = (double)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
    const struct cost_options options = {
        .limit = o->cost_percent / 100 * cpus, .least_hz = 1, .most_hz = o->sampler.frequency};
    if (!(options.limit > 0))
        return;
    run->cost_looked_ns = now_ns;
    run->cost_spent_ns = spent_now(run);
    cost_begin(&run->sampling->cost, &options, (double)run->cost_spent_ns / 1e9);
}

static void look_at_cost(struct run *run, uint64_t now_ns)
{
    struct cost *cost = &run->sampling->cost;
    if (!(cost->options.limit > 0) || now_ns - run->cost_looked_ns < COST_NS)
        return;
    uint64_t spent_ns = spent_now(run), more_ns = spent_ns - MIN(run->cost_spent_ns, spent_ns);
    unsigned before = cost_hz(cost);
    cost_count(cost, (double)(now_ns - run->cost_looked_ns) / 1e9, (double)more_ns / 1e9);
    run->cost_looked_ns = now_ns;
    run->cost_spent_ns = MAX(spent_ns, run->cost_spent_ns);
    if (cost_hz(cost) != before)
        sampler_set_frequency(run->sampling->sampler, cost_hz(cost));
}

/* ---- the target ---- */

/* When it is looked whether the target is reached: first, and then after a tenth of the time more. To look
 * more often would end at a lucky moment. */
#define FIRST_CHECK_NS (2 * NS_PER_S)
#define CHECK_FACTOR   1.1

static int check_target(struct run *run)
{
    struct profile_sampling *s = run->sampling;
    if (certainty_measure(s->profile) < 0)
        return out_of_memory(run);
    s->target = certainty_check(s->profile, &s->options->target);
    return 0;
}

/* 1: it is reached. */
static int check_if_due(struct run *run, uint64_t now_ns)
{
    struct profile_sampling *s = run->sampling;
    if (!(s->options->target.error > 0) || now_ns - run->start_ns < run->check_after_ns)
        return 0;
    run->check_after_ns = (uint64_t)((double)(now_ns - run->start_ns) * CHECK_FACTOR);
    int r = check_target(run);
    return r < 0 ? r : s->target.reached;
}

/* ---- the whole ---- */

static bool goes_on(struct run *run, uint64_t end_ns)
{
    struct profile_sampling *s = run->sampling;
    if (run->child_runs && waitpid(s->child, &s->status, WNOHANG) == s->child)
        run->child_runs = false;
    return !*s->interrupted && clock_monotonic_ns() < end_ns &&
           (s->child > 0 ? run->child_runs : !sampler_ended(s->sampler));
}

/* Who waits for a command looks often, and so does who is near an end. */
static int patience_ms(const struct run *run, uint64_t end_ns, uint64_t now_ns)
{
    int most_ms = run->child_runs ? POLL_MS : sampler_patience_ms(run->sampling->sampler);
    return end_ns - now_ns < (uint64_t)most_ms * NS_PER_MS ? POLL_MS : most_ms;
}

static int sample(struct run *run, uint64_t end_ns)
{
    run->start_ns = clock_monotonic_ns();
    run->check_after_ns = FIRST_CHECK_NS;
    int r = begin_rate(run, run->start_ns);
    begin_cost(run, run->start_ns);
    while (r >= 0 && goes_on(run, end_ns)) {
        uint64_t now_ns = clock_monotonic_ns();
        if (run->window_half_ns && now_ns >= run->window_half_ns)
            r = halve_window(run);
        if (r >= 0 && run->window && now_ns >= run->window_end_ns) {
            r = end_window(run, now_ns);
            if (r == 0)
                r = begin_window(run, now_ns);
        }
        look_at_cost(run, now_ns);
        if (r >= 0 && (r = check_if_due(run, now_ns)) > 0)
            break;
        if (r >= 0)
            r = poll(run, patience_ms(run, MIN(end_ns, run->window ? run->window_end_ns : end_ns), now_ns));
    }
    if (*run->sampling->interrupted)
        sampler_end_soon(run->sampling->sampler);
    sampler_stop(run->sampling->sampler);
    while (r >= 0 && (r = poll(run, 0)) > 0)
        ;
    if (run->sampling->options->sampler
            .locks) /* while the threads that hold them can be asked for their names */
        (void)sampler_locks(run->sampling->sampler);
    if (r >= 0 && run->window)
        r = end_window(run, clock_monotonic_ns());
    if (r >= 0 && run->pool && pool_finish(run->pool, run->sampling->profile) < 0)
        r = out_of_memory(run);
    if (r >= 0 && run->sampling->options->target.error > 0)
        r = check_target(run);
    return r;
}

int profile_sampling_run(struct profile_sampling *s, struct problem *problem)
{
    struct run run = {.sampling = s, .problem = problem, .child_runs = s->child > 0};
    uint64_t end_ns = UINT64_MAX;
    if (s->options->seconds > 0)
        end_ns = clock_monotonic_ns() + (uint64_t)(s->options->seconds * 1e9);
    s->profile->began_ns = clock_monotonic_ns();
    s->profile->start_ns = clock_realtime_ns();
    if (s->gate >= 0 && write(s->gate, "g", 1) != 1)
        return problem_set(problem, -errno, "cannot start the command: %s", strerror(errno));
    int r = sample(&run, end_ns);
    s->profile->end_ns = clock_realtime_ns();
    rate_free(run.rate);
    pool_free(run.pool);
    regressed_watch_free(run.watch);
    profile_free(run.window);
    profile_free(run.before);
    if (run.child_runs && r >= 0) { /* our time is over, or Ctrl-C: the command is told, and waited for */
        kill(s->child, SIGTERM);
        waitpid(s->child, &s->status, 0);
        s->status = 0;
    }
    return r < 0 ? r : 0;
}
