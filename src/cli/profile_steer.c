/* See profile_steer.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_steer.h"

#include <stdio.h>

#include "cli/cli.h"

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* ---- pruning ---- */

void profile_steer_print_pruned(const struct prune_result *p)
{
    if (!p->threads) {
        fprintf(stderr,
                "sonde: nothing was pruned: threads are not told apart in this profile (--threads)\n");
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
            "sonde: the rate followed the load: %.0f Hz on average (%.0f to %.0f), %zu windows of %g s, what "
            "is hot "
            "changed %zu times between %zu regimes\n",
            r->mean_hz, r->least_hz, r->most_hz, r->windows, r->options->window_s, r->changes, r->regimes);
}

static json_t *rate_json(const struct rate_summary *r)
{
    return json_pack("{s:f, s:f, s:f, s:I, s:f, s:I, s:I, s:f, s:f}", "mean_hz", r->mean_hz, "least_hz",
                     r->least_hz, "most_hz", r->most_hz, "windows_count", (json_int_t)r->windows, "window_s",
                     r->options->window_s, "changes_count", (json_int_t)r->changes, "regimes_count",
                     (json_int_t)r->regimes, "largest_divergence_nats", r->divergence, "dispersion",
                     r->dispersion);
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

/* ---- the document ---- */

void profile_steer_add_json(json_t *profile, const struct profile_facts *facts)
{
    if (facts->pruned)
        json_object_set_new(profile, "pruned", pruned_json(facts->pruned));
    if (facts->target)
        json_object_set_new(profile, "target", target_json(facts->target));
    if (facts->rate)
        json_object_set_new(profile, "rate", rate_json(facts->rate));
}
