/* See profile_steer.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_steer.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/schema.h"
#include "cli/cli.h"

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* ---- pruning ---- */

void profile_steer_print_pruned(const struct prune_result *p)
{
    if (!p->threads) {
        fprintf(stderr, "sonde: nothing was pruned: this profile does not distinguish threads (--threads)\n");
        return;
    }
    fprintf(stderr,
            "sonde: %zu of %zu threads are kept; the others, with %.2f %% of the weight, are \"" PRUNE_RARE
            "\"\n",
            p->kept, p->threads, percent(p->rare_weight, p->weight));
    fprintf(stderr, "sonde: by that the own weight of the top ");
    for (int i = 0; i < PRUNE_TOPS && (i == 0 || p->errors[i].top > p->errors[i - 1].top); i++)
        fprintf(stderr, "%s%zu functions is %.2f %% (at most %.2f %%)", i ? ", of " : "", p->errors[i].top,
                p->errors[i].mean, p->errors[i].largest);
    fprintf(stderr, " too low on average; %zu places in stacks of %zu are left\n", p->nodes_after,
            p->nodes_before);
}

static json_t *pruned_json(const struct prune_result *p)
{
    json_t *errors = json_array();
    for (int i = 0; i < PRUNE_TOPS; i++)
        json_array_append_new(errors, json_pack("{s:I, s:f, s:f}", "top_count", (json_int_t)p->errors[i].top,
                                                "mean_percent", p->errors[i].mean, "largest_percent",
                                                p->errors[i].largest));
    return json_pack("{s:I, s:I, s:f, s:I, s:I, s:o}", "threads_count", (json_int_t)p->threads, "kept_count",
                     (json_int_t)p->kept, "rare_percent", percent(p->rare_weight, p->weight),
                     "places_before_count", (json_int_t)p->nodes_before, "places_after_count",
                     (json_int_t)p->nodes_after, "errors", errors);
}

/* ---- the rate ---- */

void profile_steer_print_rate(const struct rate_summary *r)
{
    fprintf(stderr,
            "sonde: the rate followed the load: %.0f Hz on average (%.0f to %.0f), %zu windows of %g s, ",
            r->mean_hz, r->least_hz, r->most_hz, r->windows, r->options->window_s);
    if (r->changes)
        fprintf(stderr, "what is hot changed %zu time%s between %zu regimes\n", r->changes,
                r->changes == 1 ? "" : "s", r->regimes);
    else
        fputs("what is hot did not change\n", stderr);
}

static json_t *rate_json(const struct rate_summary *r)
{
    return json_pack("{s:f, s:f, s:f, s:I, s:f, s:I, s:I, s:f, s:f}", "mean_hz", r->mean_hz, "least_hz",
                     r->least_hz, "most_hz", r->most_hz, "windows_count", (json_int_t)r->windows, "window_s",
                     r->options->window_s, "changes_count", (json_int_t)r->changes, "regimes_count",
                     (json_int_t)r->regimes, "largest_divergence_nats", r->divergence, "dispersion",
                     r->dispersion);
}

/* ---- the cost ---- */

/* Of all CPUs, as the limit is said. */
static double of_all_cpus(double seconds_a_second)
{
    return 100 * seconds_a_second / (double)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
}

void profile_steer_print_cost(const struct cost *c)
{
    double took = of_all_cpus(c->spent_s / c->elapsed_s), limit = of_all_cpus(c->options.limit);
    fprintf(stderr, "sonde: sampling took %.2f %% of the CPUs (--cost %.3g)", took, limit);
    if (c->lowest_hz < c->options.most_hz)
        fprintf(stderr, ", at %.1f Hz on average (%.0f to %.0f) instead of %.0f", c->mean_hz, c->lowest_hz,
                c->highest_hz, c->options.most_hz);
    if (took > limit)
        fputs(c->lowest_hz <= c->options.least_hz
                  ? "; it does not sample less often than that"
                  : "; more than the limit is made up for within some ten minutes",
              stderr);
    fputc('\n', stderr);
}

static json_t *cost_json(const struct cost *c)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "limit_percent", of_all_cpus(c->options.limit),
                     "taken_percent", of_all_cpus(c->spent_s / c->elapsed_s), "mean_hz", c->mean_hz,
                     "least_hz", c->lowest_hz, "most_hz", c->highest_hz);
}

/* ---- the target ---- */

void profile_steer_print_target(const struct profile *p, const struct certainty_target *target,
                                const struct certainty_reached *r)
{
    const char *name = r->functions ? profile_text(p, p->frames.at[r->frame].name) : "";
    char least[256];
    snprintf(least, sizeof(least), "%.180s%s to %.1f %%", name,
             r->worst_is_total ? " with what it calls" : "", 100 * r->worst);
    if (!r->functions)
        fprintf(stderr, "sonde: no function takes %g %% or more, so that nothing can be said of the error\n",
                100 * target->above);
    else if (r->reached)
        cli_printf(
            stderr,
            "sonde: all %zu shares of %g %% or more are known to %g %%, at 95 %%; the least known: %s\n",
            r->functions, 100 * target->above, 100 * target->error, least);
    else
        cli_printf(stderr,
                   "sonde: the error of %g %% was not reached for %zu of %zu shares of %g %% or more; the "
                   "least known: "
                   "%s. About %.1f times the samples would do it: longer (-d), or a higher rate (-F)\n",
                   100 * target->error, r->unknown, r->functions, 100 * target->above, least, r->times);
}

static json_t *target_json(const struct certainty_reached *r)
{
    return json_pack("{s:b, s:I, s:I, s:f, s:f}", "reached", r->reached, "shares_count",
                     (json_int_t)r->functions, "unknown_count", (json_int_t)r->unknown, "worst_percent",
                     100 * r->worst, "times_needed", r->times);
}

/* ---- tuning ---- */

/* Divergences as bars, the largest of each stretch, up to the largest of all. */
static void print_bars(const double *values, size_t count, double most)
{
    static const char *const BARS[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                       "\u2585", "\u2586", "\u2587", "\u2588"};
    enum { COLUMNS = 72 };
    size_t columns = MIN(count, (size_t)COLUMNS);
    printf("  ");
    for (size_t c = 0; c < columns; c++) {
        double largest = 0;
        for (size_t i = c * count / columns; i < (c + 1) * count / columns; i++)
            largest = fmax(largest, values[i]);
        fputs(BARS[most > 0 ? MIN((size_t)(largest / most * 8), 7ul) : 0], stdout);
    }
    putchar('\n');
}

static void print_tuning_json(const struct tuning *t, double acceptable, const struct rate_summary *r,
                              size_t period)
{
    json_t *steps = json_array(), *divergences = json_array();
    for (int i = 0; i < TUNING_STEPS; i++)
        json_array_append_new(steps, json_pack("{s:f, s:f, s:f, s:f}", "kept_percent", t->steps[i].percent,
                                               "time_ns", t->steps[i].time_ns, "bytes", t->steps[i].bytes,
                                               "error_percent", t->steps[i].error_percent));
    array_foreach (&r->divergences, d)
        json_array_append_new(divergences, json_real(*d));
    json_t *root = json_pack(
        "{s:i, s:f, s:f, s:f, s:o, s:{s:f, s:f, s:f}, s:{s:f, s:f, s:f}, s:f, s:f, s:I, s:f, s:o}", "schema",
        SCHEMA_tuning, "acceptable_percent", acceptable, "prune_percent", t->percent, "fitted_prune_percent",
        t->fitted_percent, "steps", steps, "time_fit", "slope_ns", t->slope, "offset_ns", t->offset,
        "error_percent", t->time_fit_error, "error_fit", "scale", t->scale, "rate", t->rate, "error_points",
        t->error_fit_error, "theta_nats", r->theta, "dispersion", r->dispersion, "period_windows",
        (json_int_t)period, "window_s", r->options->window_s, "divergences_nats", divergences);
    cli_print_json(root, JSON_INDENT(2));
}

void profile_steer_print_tuning(const struct tuning *t, double acceptable, const struct rate_summary *r,
                                bool json)
{
    size_t count = r->divergences.count, period = tuning_period(r->divergences.at, count);
    if (json) {
        print_tuning_json(t, acceptable, r, period);
        return;
    }
    printf("threads kept   merged and written   size          error of the top 50\n");
    for (int i = 0; i < TUNING_STEPS; i++)
        printf("%10.1f %%   %15.3f ms   %10.1f KB   %6.2f %%\n", t->steps[i].percent,
               t->steps[i].time_ns / 1e6, t->steps[i].bytes / 1e3, t->steps[i].error_percent);
    printf("time = %.4g ms * share %+.4g ms, off by %.1f %% on average\n", t->slope / 1e6, t->offset / 1e6,
           t->time_fit_error);
    printf("error = %.4g %% * log(1 + %.4g * (100 - share)), off by %.2f points on average\n", t->scale,
           t->rate, t->error_fit_error);
    printf("for an error of %g %%: --prune=%.1f\n\n", acceptable, t->percent);
    if (!count) {
        printf("what is hot was not compared over time: that takes two windows of %g s or more (-d)\n",
               r->options->window_s);
        return;
    }
    printf("divergence between windows of %g s, up to %.3g nats:\n", r->options->window_s, r->divergence);
    print_bars(r->divergences.at, count, r->divergence);
    printf("windows vary %.1f times as much as independent samples would; a change is more than %.3g nats at "
           "this "
           "number of samples\n",
           r->dispersion, r->theta);
    if (period)
        printf("it comes again every %.0f s: let windows be of that length, or of much less\n",
               (double)period * r->options->window_s);
    else
        printf("no period is seen in %.0f s\n", (double)(count + 1) * r->options->window_s);
}

/* ---- the document ---- */

void profile_steer_add_json(json_t *profile, const struct profile_facts *facts)
{
    if (facts->pruned)
        json_object_set_new(profile, "pruned", pruned_json(facts->pruned));
    if (facts->target)
        json_object_set_new(profile, "target", target_json(facts->target));
    if (facts->rate)
        json_object_set_new(profile, "rate", rate_json(facts->rate));
    if (facts->cost)
        json_object_set_new(profile, "cost", cost_json(facts->cost));
}
