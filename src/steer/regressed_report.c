/* What regressed.h finds, as findings of a report. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/regressed.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"

static const char *compared_over(const struct regressed *r)
{
    return r->one_kind ? "same hours of days of the same kind"
           : r->by_day ? "same hours of earlier days"
                       : "the stretches before";
}

static const char *compared_with(const struct regressed *r, struct finding *f)
{
    return r->one_kind ? finding_say(f,
                                     "the same hours of %zu earlier days of the same kind (working days or "
                                     "weekends)",
                                     r->runs)
           : r->by_day ? finding_say(f, "the same hours of %zu earlier days", r->runs)
                       : finding_say(f, "the %zu stretches of that length before", r->runs);
}

/* "6 h", "90 min". */
static const char *length_of(const struct regressed *r, char *to, size_t size)
{
    uint64_t length_s = r->options.until_s - r->options.from_s;
    if (length_s % 3600 == 0)
        snprintf(to, size, "%llu h", (unsigned long long)(length_s / 3600));
    else
        clock_format_duration(length_s * NS_PER_S, to, size);
    return to;
}

static int add_evidence(const struct regressed *r, const struct regressed_function *g, struct finding *f)
{
    const struct difference *d = &g->share;
    int e = finding_add_text(f, "service", g->service);
    if (e == 0)
        e = finding_add_text(f, "function", g->function);
    const struct {
        const char *name;
        double value;
    } REALS[] = {{"cpu_share", d->after},
                 {"base_cpu_share", d->before},
                 {"growth_share", d->growth},
                 {"growth_share_low", d->growth_low},
                 {"growth_share_high", d->growth_high},
                 {"p_value", d->p},
                 {"ratio", d->before > 0 ? d->ratio : NAN},
                 {"ratio_low", d->before > 0 ? d->low : NAN},
                 {"ratio_high", d->before > 0 ? d->high : NAN}};
    for (size_t i = 0; e == 0 && i < ARRAY_SIZE(REALS); i++)
        if (isfinite(REALS[i].value))
            e = finding_add_real(f, REALS[i].name, REALS[i].value);
    if (e == 0)
        e = finding_add_count(f, "base_stretches_count", r->runs);
    return e < 0 ? e : finding_add_text(f, "compared_over", compared_over(r));
}

static int add_finding(const struct regressed *r, const struct regressed_function *g, struct report *report)
{
    struct finding *f = report_add_finding(report, FINDING_cpu_regression, SEVERITY_WARNING);
    const struct difference *d = &g->share;
    char took[32];
    if (!f)
        return -ENOMEM;
    f->where.service = finding_say(f, "%s", g->service);
    f->where.function = finding_say(f, "%s", g->function);
    f->where.file = *g->place ? finding_say(f, "%s", g->place) : NULL;
    f->from_ns = r->options.from_s * NS_PER_S;
    f->to_ns = r->options.until_s * NS_PER_S;
    f->title = d->before > 0
                   ? finding_say(f, "%s takes %.2f %% of the CPU time of %s instead of %.2f %%", g->function,
                                 100 * d->after, g->service, 100 * d->before)
                   : finding_say(f, "%s takes %.2f %% of the CPU time of %s and was not seen before",
                                 g->function, 100 * d->after, g->service);
    const char *base = compared_with(r, f);
    const char *length = length_of(r, took, sizeof(took));
    f->detail =
        d->before > 0
            ? finding_say(f,
                          "In the %s that were judged it took %.2f points [%.2f, %.2f] more of the service's "
                          "CPU time than %s let expect: %+.1f %% [%+.1f, %+.1f], relative to what most "
                          "functions of the service did.",
                          length, 100 * d->growth, 100 * d->growth_low, 100 * d->growth_high, base,
                          100 * (d->ratio - 1), 100 * (d->low - 1), 100 * (d->high - 1))
            : finding_say(f,
                          "In the %s that were judged it took %.2f points [%.2f, %.2f] of the service's CPU "
                          "time, and nothing in %s.",
                          length, 100 * d->growth, 100 * d->growth_low, 100 * d->growth_high, base);
    return add_evidence(r, g, f);
}

static const char *why_nothing(const struct regressed *r, struct report *report)
{
    char took[32], words[256];
    const char *length = length_of(r, took, sizeof(took));
    if (r->empty)
        snprintf(words, sizeof(words),
                 "The store holds no samples yet: `sonde profile --all --store DIRECTORY` adds them.");
    else if (!r->runs)
        snprintf(words, sizeof(words),
                 "No share was judged: fewer than %d stretches of %s are kept from before.",
                 REGRESSED_RUNS_LEAST, length);
    else if (!r->services)
        snprintf(words, sizeof(words),
                 "No service was judged: none has %d samples in %s, and some in %d stretches before.",
                 REGRESSED_SAMPLES, length, REGRESSED_RUNS_LEAST);
    else
        snprintf(words, sizeof(words),
                 "No function of %zu service%s takes %g points more of its service's CPU time than earlier "
                 "stretches and their noise let expect.",
                 r->services, r->services == 1 ? "" : "s", 100 * r->options.least);
    return arena_strdup(&report->arena, words);
}

int regressed_report(const struct regressed *r, struct report *report)
{
    int e = 0;
    array_foreach (&r->functions, g)
        if (e == 0)
            e = add_finding(r, g, report);
    report->from_ns = r->options.from_s * NS_PER_S;
    report->to_ns = r->options.until_s * NS_PER_S;
    if (e == 0 && !r->functions.count && !(report->nothing = why_nothing(r, report)))
        e = -ENOMEM;
    if (e == 0 && r->unjudged && r->runs)
        e = report_add_missing(report, "regressions of some services",
                               "they were not sampled in six of the earlier stretches", NULL);
    return e;
}
