/* See select.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/select.h"

#include <errno.h>
#include <math.h>

#include "base/macro.h"
#include "diagnose/stats.h"

#define TAIL_RATIO_MIN 1.15

/* Large enough to be worth a finding. A tail that is hardly longer while the middle stays is most often
 * chance: few requests of few hosts make it. */
static bool is_large(const struct regress_result *r, double least)
{
    bool tail_only = r->measure != MEASURE_MIDDLE && r->ratio[MEASURE_MIDDLE] < least;
    return r->ratio[r->measure] >= (tail_only ? fmax(least, TAIL_RATIO_MIN) : least);
}

/* Without a single error on either side there is nothing to be found out, whatever the versions: it is no
 * test (Tarone, Biometrics 1990), and costs the others nothing. */
static bool tests_errors(const struct verdict *v)
{
    return v->errors.errors_older + v->errors.errors_newer > 0;
}

/* Latency and errors of all contrasts are one family: what is looked at is paid for. */
static int select_slower(const struct judge_settings *settings, struct judgement *j)
{
    size_t n = j->verdicts.count;
    _cleanup_(freep) double *values = calloc(4 * n + 1, sizeof(*values));
    _cleanup_(freep) bool *selected = calloc(2 * n + 1, sizeof(*selected));
    double q = settings->regress.false_discovery_rate > 0 ? settings->regress.false_discovery_rate : 0.02;
    double least =
        settings->regress.minimum_ratio > 0 ? settings->regress.minimum_ratio : JUDGE_MINIMUM_RATIO;
    double *adjusted = values + 2 * n;
    if (!values || !selected)
        return -ENOMEM;
    size_t tested = 0;
    for (size_t i = 0; i < n; i++) {
        const struct verdict *v = &j->verdicts.at[i];
        if (v->result.method == METHOD_NONE)
            continue;
        values[tested++] = settings->sequential ? v->sequential.e_value : v->result.p;
        if (tests_errors(v))
            values[tested++] = settings->sequential ? v->errors.e_value : v->errors.p;
    }
    if (settings->sequential)
        sequential_select(values, tested, q, selected);
    else
        stats_benjamini_hochberg(values, tested, q, selected, adjusted);
    tested = 0;
    for (size_t i = 0; i < n; i++) {
        struct verdict *v = &j->verdicts.at[i];
        struct regress_result *r = &v->result;
        r->slower = v->errors.more = false;
        if (r->method == METHOD_NONE)
            continue;
        r->adjusted_p = settings->sequential ? fmin(1, r->p * (double)n) : adjusted[tested];
        r->slower = selected[tested++] && is_large(r, least);
        v->errors.adjusted_p = 1;
        if (!tests_errors(v))
            continue;
        v->errors.adjusted_p = settings->sequential ? fmin(1, v->errors.p * (double)n) : adjusted[tested];
        v->errors.more = selected[tested++] && !v->of_callers && v->errors.ratio >= ERRORS_MINIMUM_RATIO &&
                         v->errors.rate_newer - v->errors.rate_older >= ERRORS_MINIMUM_SHARE;
    }
    return 0;
}

#define PARTS_RATE 0.5 /* of the false-discovery rate: a family of their own beside that of all requests */

static int select_parts(const struct judge_settings *settings, struct judgement *j)
{
    size_t n = j->verdicts.count, tested = 0;
    size_t room = 2 * n; /* latency and errors */
    _cleanup_(freep) double *values = calloc(2 * room + 1, sizeof(*values));
    _cleanup_(freep) bool *selected = calloc(room + 1, sizeof(*selected));
    double q = settings->regress.false_discovery_rate > 0 ? settings->regress.false_discovery_rate : 0.02;
    double least = fmax(SUBGROUP_RATIO_MIN, settings->regress.minimum_ratio);
    if (!values || !selected)
        return -ENOMEM;
    array_foreach (&j->verdicts, v)
        if (v->subgroup.tested)
            values[tested++] = v->subgroup.p;
    array_foreach (&j->verdicts, v)
        if (v->error_part.where.cause.length)
            values[tested++] = v->error_part.where.p;
    stats_benjamini_hochberg(values, tested, PARTS_RATE * q, selected, values + room);
    tested = 0;
    array_foreach (&j->verdicts, v) {
        if (!v->subgroup.tested)
            continue;
        v->subgroup.adjusted_p = values[room + tested];
        v->subgroup.slower = selected[tested++] && !v->result.slower && v->subgroup.cause.ratio >= least;
    }
    array_foreach (&j->verdicts, v) {
        struct error_part *part = &v->error_part;
        if (!part->where.cause.length)
            continue;
        part->adjusted_p = values[room + tested];
        part->more = selected[tested++] && !v->errors.more && part->where.cause.ratio >= SUBGROUP_RATIO_MIN &&
                     part->where.share - part->where.share_older >= ERRORS_MINIMUM_SHARE;
    }
    return 0;
}

int select_verdicts(const struct judge_settings *settings, struct judgement *judgement)
{
    int r = select_slower(settings, judgement);
    return r < 0 ? r : select_parts(settings, judgement);
}
