/* See profile_difference.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/profile_difference.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/stats.h"
#include "profile/identity.h"
#include "profile/outlier.h"
#include "profile/blocks.h"

enum {
    FEW_SAMPLES = 100,  /* of which blocks may be alike by chance */
    LEAST_SAMPLES = 10, /* of both sides together, for a verdict */
    BASE_SAMPLES = 40,  /* of each side, to say what most functions did */
    BASE_FUNCTIONS = 5, /* that many are needed for that */
    APART_MOST = 64,    /* up to so many, each is compared with the others alone */
};
#define LEAST_RUN_DEVIATION 0.002
#define USUAL_RUN_DEVIATION 0.005   /* where functions are too few to say */
#define PLACE_DEVIATION     0.00015 /* of the whole: which of two functions the sample at their border is of */
#define LEVEL               0.05
#define LEAST_SCALE         1e-4 /* of errors, by how functions scatter */

/* What expected errors are worth when functions scatter by less or more, in degrees of freedom. */
#define PRIOR_OF_BLOCKS 2.0
#define PRIOR_OF_GUESS  0.5 /* samples' worth is a guess, without blocks */

/* One profile. */
struct side {
    struct profile_blocks blocks;
    double *interrupts;          /* by function: its own weight that belongs to interrupts */
    struct block_spread *spread; /* by function, where there are blocks; else NULL */
    bool runs;                   /* they are whole runs */
};

const char *difference_verdict_name(enum difference_verdict verdict)
{
    static const char *const NAMES[] = {"noise", "slower", "faster", "too few samples", "interrupts"};
    return NAMES[verdict];
}

/* ---- one side ---- */

static int find_interrupts(struct side *s)
{
    const struct profile *p = s->blocks.profile;
    const uint32_t *of = s->blocks.of;
    bool *inside = calloc(p->nodes.count, sizeof(*inside));
    s->interrupts = calloc(s->blocks.count + 1, sizeof(*s->interrupts));
    int r = inside && s->interrupts ? 0 : -ENOMEM;
    for (size_t i = 1; r == 0 && i < p->nodes.count; i++) {
        const struct profile_node *n = &p->nodes.at[i];
        inside[i] = inside[n->parent] || profile_begins_interrupt(p, n->frame);
        if (inside[i] && of[n->frame] != UINT32_MAX)
            s->interrupts[of[n->frame]] += (double)n->weight;
    }
    free(inside);
    return r;
}

static int side_open(const struct profile *p, struct side *ret_side)
{
    *ret_side = (struct side){0};
    int r = profile_blocks_open(p, &ret_side->blocks);
    return r < 0 ? r : find_interrupts(ret_side);
}

static void side_close(struct side *s)
{
    profile_blocks_close(&s->blocks);
    free(s->interrupts);
    free(s->spread);
}

/* ---- blocks ---- */

/* How much one block's logarithm of a function's own weight varies, and with it of what it calls. */
struct block_spread {
    struct spread {
        double variance, freedom; /* 0: unknown */
    } self, total;
};

enum {
    NEIGHBOURS = 10,    /* on each side in the order of weights, which say what a variance should be */
    LEAST_SPREADS = 12, /* for that */
    MOST_PRIOR = 30, /* degrees of freedom that they are worth at most: the tails are heavier than assumed */
};

/* The second derivative of the gamma function's logarithm: by its recurrence, then asymptotically (Abramowitz
 * and Stegun, 6.4.6 and 6.4.12). */
static double trigamma(double x)
{
    double sum = 0;
    for (; x < 8; x++)
        sum += 1 / (x * x);
    double y = 1 / (x * x);
    return sum + 1 / x + y / 2 + y / x * (1.0 / 6 - y * (1.0 / 30 - y / 42));
}

struct spread_order {
    double weight, unit; /* variances are in units that make them alike */
    struct spread *spread;
    double prior; /* what its neighbours' variances say */
};

static int by_weight(const void *a, const void *b)
{
    const struct spread_order *x = a, *y = b;
    return x->weight < y->weight ? -1 : x->weight > y->weight;
}

/* The median of the neighbours' variances, as that of a chi-squared's with so many degrees of freedom. */
static double prior_of(const struct spread_order *list, size_t count, size_t at, double freedom)
{
    double near[2 * NEIGHBOURS + 1], third = 1 - 2 / (9 * freedom);
    size_t n = 0, from = at > NEIGHBOURS ? at - NEIGHBOURS : 0;
    if (from + 2 * NEIGHBOURS + 1 > count)
        from = count > 2 * NEIGHBOURS + 1 ? count - 2 * NEIGHBOURS - 1 : 0;
    for (size_t i = from; i < count && n < ARRAY_SIZE(near); i++)
        near[n++] = list[i].spread->variance;
    return stats_median(near, n) / (third * third * third);
}

/* How many degrees of freedom the priors are worth: as many as make the variances scatter about them as they
 * do. */
static double prior_freedom(const struct spread_order *list, size_t count, double freedom)
{
    double mean = 0, squares = 0, least = 0.2, most = MOST_PRIOR;
    for (size_t i = 0; i < count; i++)
        mean += log(list[i].spread->variance / list[i].prior) / (double)count;
    for (size_t i = 0; i < count; i++) {
        double rest = log(list[i].spread->variance / list[i].prior) - mean;
        squares += rest * rest;
    }
    double excess = squares / (double)(count - 1) - trigamma(freedom / 2);
    if (excess <= trigamma(most / 2))
        return most;
    for (int step = 0; step < 50; step++) {
        double middle = (least + most) / 2;
        *(trigamma(middle / 2) > excess ? &least : &most) = middle;
    }
    return least;
}

static void moderate(struct spread_order *list, size_t count, double freedom)
{
    if (count < LEAST_SPREADS)
        return;
    qsort(list, count, sizeof(*list), by_weight);
    for (size_t i = 0; i < count; i++)
        list[i].prior = prior_of(list, count, i, freedom);
    double prior = prior_freedom(list, count, freedom);
    for (size_t i = 0; i < count; i++) {
        struct spread *s = list[i].spread;
        s->variance = (freedom * s->variance + prior * list[i].prior) / (freedom + prior);
        s->freedom = freedom + prior;
    }
}

/* Few blocks say little of one function: its variance is moderated by those of its neighbours. That of
 * stretches is mostly of sampling, which falls as the weight grows: what is compared is how many times as
 * large it is. */
static int side_spread(struct side *s)
{
    const struct profile_blocks *b = &s->blocks;
    double blocks = (double)b->block_count;
    if (b->block_count < 2)
        return 0;
    struct spread_order *list = calloc(b->count + 1, sizeof(*list));
    s->spread = calloc(b->count + 1, sizeof(*s->spread));
    int r = list && s->spread ? 0 : -ENOMEM;
    for (int total = 0; r == 0 && total < 2; total++) {
        size_t n = 0;
        for (size_t i = 0; i < b->count; i++) {
            struct spread *spread = total ? &s->spread[i].total : &s->spread[i].self;
            double weight = (double)(total ? b->functions[i].total : b->functions[i].self),
                   variance = blocks * profile_blocks_variance(b, i, total),
                   unit = s->runs ? 1 : fmax(1 - weight / b->sum, 0.01) / weight;
            if (!(variance > 0))
                continue;
            *spread = (struct spread){.variance = variance / unit, .freedom = blocks - 1};
            list[n++] = (struct spread_order){.weight = weight, .unit = unit, .spread = spread};
        }
        moderate(list, n, blocks - 1);
        for (size_t i = 0; i < n; i++)
            list[i].spread->variance *= list[i].unit;
    }
    free(list);
    return r;
}

/* NULL: nothing is known of it. */
static const struct spread *spread_of(const struct side *s, size_t function, bool total)
{
    if (!s->spread || function == IDENTITY_NONE)
        return NULL;
    const struct spread *spread = total ? &s->spread[function].total : &s->spread[function].self;
    return spread->variance > 0 ? spread : NULL;
}

/* ---- the error of a weight ---- */

struct estimate {
    double weight, samples;
    double variance; /* of the weight's logarithm, as a part of the whole */
    double freedom;  /* degrees of it; 0: as good as known */
    double draw;     /* how many samples are worth one independent one */
};

/* By blocks (blocks.h), no less than of independent samples. Half a sample more on each side: also nothing
 * has a logarithm. */
static struct estimate estimate_of(const struct side *side, size_t function, bool total)
{
    const struct profile_blocks *s = &side->blocks;
    struct estimate e = {.weight = 0};
    double half = s->quantum / 2;
    if (function != IDENTITY_NONE)
        e.weight = (double)(total ? s->functions[function].total : s->functions[function].self);
    e.samples = e.weight / s->quantum;
    double share = s->sum > 0 ? e.weight / s->sum : 0;
    double independent = fmax(1 - share, 0.01) / (e.samples + 0.5);
    e.weight += half;
    e.draw = s->block_count ? 2 : SAMPLES_PER_DRAW; /* unless blocks say */
    e.variance = independent * e.draw;
    const struct spread *spread = spread_of(side, function, total);
    if (!spread) /* rare: it is in no block */
        return e;
    double least = independent * (e.samples < FEW_SAMPLES ? 1 : 0.02);
    e.variance = fmax(spread->variance / (double)s->block_count, least);
    e.draw = e.variance / independent;
    e.freedom = spread->freedom;
    return e;
}

/* The estimates of a function: before of all runs, after of one. */
static void spread_over_runs(const struct side *before, size_t function, bool total, struct estimate *b,
                             struct estimate *a)
{
    const struct spread *spread = before->runs ? spread_of(before, function, total) : NULL;
    if (!spread)
        return;
    b->variance = spread->variance / (double)before->blocks.block_count;
    a->variance = fmax(spread->variance, a->variance / a->draw);
    b->freedom = 0; /* one variance, known to so many degrees: it is counted once */
    a->freedom = spread->freedom;
}

/* ---- pairs ---- */

struct pair {
    size_t before, after; /* functions; IDENTITY_NONE: it is not there */
    struct estimate b, a;
    bool interrupt;           /* most of it is for interrupts */
    double ratio;             /* logarithm */
    double variance, freedom; /* Satterthwaite's */
    double place;             /* further variance: of where samples are counted */
};

static bool is_interrupt(const struct side *before, const struct side *after, const struct pair *p)
{
    double of = p->b.weight + p->a.weight, own = 0;
    if (p->before != IDENTITY_NONE)
        own += before->interrupts[p->before];
    if (p->after != IDENTITY_NONE)
        own += after->interrupts[p->after];
    return own * 2 > of;
}

static double square(double x)
{
    return x * x;
}

/* Of a weight's logarithm; it may be nothing. */
static double place_variance(const struct estimate *e, const struct side *side)
{
    double deviation = PLACE_DEVIATION * side->blocks.sum;
    return square(deviation / (e->weight + deviation));
}

static struct pair pair_of(const struct side *before, const struct side *after, size_t i, size_t j,
                           bool total)
{
    struct pair p = {.before = i, .after = j};
    p.b = estimate_of(before, i, total);
    p.a = estimate_of(after, j, total);
    spread_over_runs(before, i, total, &p.b, &p.a);
    p.interrupt = is_interrupt(before, after, &p);
    p.ratio = log(p.a.weight) - log(p.b.weight);
    p.variance = p.a.variance + p.b.variance;
    if (!before->runs)
        p.place = place_variance(&p.a, after) + place_variance(&p.b, before);
    double parts = (p.a.freedom > 0 ? p.a.variance * p.a.variance / p.a.freedom : 0) +
                   (p.b.freedom > 0 ? p.b.variance * p.b.variance / p.b.freedom : 0);
    p.freedom = parts > 0 ? p.variance * p.variance / parts : 1e6;
    if (before->runs && p.a.freedom > 0)
        p.freedom = p.a.freedom;
    return p;
}

/* What it did is part of what most functions did. */
static bool is_base(const struct pair *p)
{
    return p->b.samples >= BASE_SAMPLES && p->a.samples >= BASE_SAMPLES && !p->interrupt;
}

/* What all functions together say. */
struct common {
    double ratio, variance; /* of the base: logarithm */
    double scale;           /* of the functions' variances */
    double run_variance;    /* beyond that */
    double freedom;         /* of both; 0: they are assumptions */
    bool by_median;
};

static size_t base_ratios(const struct pair *pairs, size_t count, const struct pair *but, double *ratios)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (is_base(&pairs[i]) && &pairs[i] != but)
            ratios[n++] = pairs[i].ratio;
    return n;
}

/* ---- how functions scatter ---- */

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Of the squares the least 85 % are used: where up to 15 % of the functions have changed, the
 * others say how much unchanged ones scatter. Of a normal deviate's squares, these have the mean
 * TRIMMED_MEAN, and are worth TRIMMED_WORTH of as many that are all used. */
#define TRIMMED_PART  0.85
#define TRIMMED_MEAN  0.5204
#define TRIMMED_WORTH 0.70

/* All pairs, for the comparison of one with the others. */
struct compared {
    const struct pair *self;
    size_t count, base; /* functions; of which are the base */
    double sums, prior;
    struct common common;
};

struct scatter {
    const struct pair *pairs, *but; /* the latter is left out; NULL: none is */
    size_t count;
    double ratio;    /* of most functions */
    double *squares; /* room for count */
};

/* The functions' squared deviations in units of what is expected of each, were their errors `scale` times as
 * large and runs to vary by so much more: 1 where they do as expected. What is expected is what intervals are
 * made of (difference_of()): whatever is added there is part of the scatter, too, and would count twice if it
 * were left out here. */
static double scatter_square(const struct scatter *s, double scale, double run_variance, size_t *ret_count)
{
    size_t n = 0;
    double sum = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct pair *p = &s->pairs[i];
        double deviation = p->ratio - s->ratio;
        if (is_base(p) && p != s->but)
            s->squares[n++] = deviation * deviation / (scale * p->variance + p->place + run_variance);
    }
    *ret_count = n;
    if (!n)
        return 1;
    qsort(s->squares, n, sizeof(*s->squares), by_number);
    double part = TRIMMED_PART * (double)n;
    size_t whole = (size_t)part;
    for (size_t i = 0; i < whole; i++)
        sum += s->squares[i];
    if (whole < n)
        sum += (part - (double)whole) * s->squares[whole];
    return sum / part / TRIMMED_MEAN;
}

/* Functions are few, so that their scatter is drawn towards what the errors let expect, as if `prior` further
 * degrees of freedom said that. What is more than expected is what runs vary by beyond that; where it is less
 * (both runs have the same phases, or samples at regular intervals say more than random ones), errors are
 * smaller by that. */
static void find_scatter(const struct scatter *s, double prior, bool only_more, struct common *c)
{
    const double least_run = LEAST_RUN_DEVIATION * LEAST_RUN_DEVIATION;
    size_t n;
    double square = scatter_square(s, 1, least_run, &n), own = fmax(TRIMMED_WORTH * (double)n - 1, 1);
    double drawn = own / (own + prior); /* of a logarithm */
    bool less = square <= 1;
    c->freedom = own + prior;
    c->run_variance = least_run;
    if (less && only_more)
        return;
    /* That scale, or (where they scatter more) that variance of runs, with which they do as expected. */
    double low = less ? LEAST_SCALE : least_run, high = 1, expected = less ? 1 : pow(square, 1 - drawn);
    for (int step = 0; step < 60; step++) {
        double middle = sqrt(low * high);
        double at = scatter_square(s, less ? middle : 1, less ? least_run : middle, &n);
        *(at <= expected ? &high : &low) = middle;
    }
    *(less ? &c->scale : &c->run_variance) = less ? pow(high, drawn) : high;
}

/* What those but one say (NULL: all). runs: what whole runs vary by is known already, but for what they all
 * have in common. */
static int find_common(const struct pair *pairs, size_t count, const struct pair *but, double sums,
                       double prior, bool runs, struct common *ret_common)
{
    double *ratios = calloc(count + 1, sizeof(*ratios)), error = 0;
    if (!ratios)
        return -ENOMEM;
    size_t n = base_ratios(pairs, count, but, ratios);
    struct common c = {.ratio = sums, .scale = 1, .run_variance = USUAL_RUN_DEVIATION * USUAL_RUN_DEVIATION};
    if (n + (but != NULL) >= BASE_FUNCTIONS) {
        c.by_median = true;
        c.ratio = stats_median(ratios, n);
        struct scatter s = {.pairs = pairs, .but = but, .count = count, .ratio = c.ratio, .squares = ratios};
        find_scatter(&s, prior, runs, &c);
        for (size_t i = 0; i < count; i++)
            if (is_base(&pairs[i]) && &pairs[i] != but)
                error += 1 / (pairs[i].variance * c.scale + c.run_variance);
        c.variance = error > 0 ? 1.5708 / error : 0; /* a median's, against a mean's */
    }
    free(ratios);
    *ret_common = c;
    return 0;
}

/* Of few samples, or none on one side, whose logarithm is far from normal: the difference of roots (Anscombe,
 * The transformation of Poisson, binomial and negative-binomial data, 1948). expected: after's samples for
 * one of before's. */
static double p_of_few(const struct pair *p, const struct side *before, const struct side *after,
                       double expected)
{
    double draw = fmax(p->a.draw, p->b.draw), a = p->a.samples / draw + 0.375,
           b = expected * (p->b.samples / draw + 0.375), variance = 1 + expected;
    if (!before->runs)
        variance += square(PLACE_DEVIATION / draw) *
                    (square(after->blocks.sum / after->blocks.quantum) +
                     square(expected * before->blocks.sum / before->blocks.quantum)) /
                    ((a + b) / 2);
    return fmin(1, 2 * stats_normal_above(fabs(2 * (sqrt(a) - sqrt(b)) / sqrt(variance))));
}

/* What the share is more than most functions let expect. after's variance is known at its earlier share; what
 * has grown varies by sampling mostly, whose relative variance falls as the share grows. */
static void set_growth(struct difference *d, const struct pair *p, const struct common *c, double ratio,
                       double quantile)
{
    double expected = d->before > 0 ? d->after / ratio : 0;
    double own = c->scale * p->a.variance * (d->before > 0 && d->after > expected ? expected / d->after : 1);
    double margin = quantile * sqrt(d->after * d->after * (own + c->run_variance) +
                                    expected * expected * (c->scale * p->b.variance + c->variance));
    d->growth = d->after - expected;
    d->growth_low = d->growth - margin;
    d->growth_high = d->growth + margin;
}

/* Satterthwaite's: of the function's own error, and of what all functions were scaled by. */
static double freedom_of(const struct pair *p, const struct common *c)
{
    double own = p->variance * c->scale, whole = own + c->run_variance;
    double parts = own * own / p->freedom + (c->freedom > 0 ? whole * whole / c->freedom : 0);
    return fmax(whole * whole / parts, 3);
}

static struct difference difference_of(const struct side *before, const struct side *after,
                                       const struct pair *p, const struct common *c, bool apart)
{
    struct difference d = {.verdict = DIFFERENCE_UNKNOWN, .p = 1};
    d.before = before->blocks.sum > 0 ? (p->b.weight - before->blocks.quantum / 2) / before->blocks.sum : 0;
    d.after = after->blocks.sum > 0 ? (p->a.weight - after->blocks.quantum / 2) / after->blocks.sum : 0;
    if (p->b.samples + p->a.samples < LEAST_SAMPLES)
        return d;
    /* A function that is one of those that c is of shares their error. */
    double others = is_base(p) && !apart ? 0 : c->variance,
           error = sqrt(p->variance * c->scale + p->place + c->run_variance + others),
           change = p->ratio - c->ratio, freedom = freedom_of(p, c),
           quantile = stats_student_quantile(0.025, freedom), margin = quantile * error;
    set_growth(&d, p, c, exp(change), quantile);
    d.ratio = exp(change);
    d.low = exp(change - margin);
    d.high = p->b.samples > 0 ? exp(change + margin) : INFINITY;
    d.p = fmin(1, 2 * stats_student_above(fabs(change) / error, freedom));
    if (p->b.samples < LEAST_SAMPLES || p->a.samples < LEAST_SAMPLES)
        d.p = p_of_few(p, before, after, exp(c->ratio) * before->blocks.quantum / after->blocks.quantum);
    d.verdict = p->interrupt ? DIFFERENCE_MACHINE : DIFFERENCE_NOISE;
    return d;
}

/* ---- verdicts ---- */

struct tested {
    struct difference *difference;
    double weight;
};

static int by_p(const void *a, const void *b)
{
    const struct tested *x = a, *y = b;
    double p = x->difference->p / x->weight, q = y->difference->p / y->weight;
    return by_number(&p, &q);
}

/* Holm, A simple sequentially rejective multiple test procedure, 1979; weighted (section 4) by share: where a
 * growth has to be large to matter, it is a small part of a function that takes much, which needs the power.
 */
static int decide(struct profile_differences *all, bool total, double level, bool by_share)
{
    ARRAY(struct tested) tested = {0};
    double weights = 0;
    array_foreach (&all->functions, f) {
        struct tested t = {total ? &f->total : &f->self, 1};
        if (by_share)
            t.weight = fmax(t.difference->after, 1e-6);
        if (t.difference->verdict != DIFFERENCE_NOISE)
            continue;
        weights += t.weight;
        if (array_add(&tested, t) < 0) {
            array_done(&tested);
            return -ENOMEM;
        }
    }
    if (tested.count)
        qsort(tested.at, tested.count, sizeof(*tested.at), by_p);
    for (size_t i = 0; i < tested.count; i++) {
        struct difference *d = tested.at[i].difference;
        if (d->p * weights > level * tested.at[i].weight)
            break;
        weights -= tested.at[i].weight;
        d->verdict = d->ratio > 1 ? DIFFERENCE_SLOWER : DIFFERENCE_FASTER;
    }
    array_done(&tested);
    return 0;
}

static int by_verdict_and_change(const void *a, const void *b)
{
    const struct function_difference *x = a, *y = b;
    bool first = x->self.verdict == DIFFERENCE_SLOWER || x->self.verdict == DIFFERENCE_FASTER,
         second = y->self.verdict == DIFFERENCE_SLOWER || y->self.verdict == DIFFERENCE_FASTER;
    double dx = fabs(x->self.after - x->self.before), dy = fabs(y->self.after - y->self.before);
    return first != second ? (first ? -1 : 1) : dx > dy ? -1 : dx < dy;
}

static void name_function(const struct profile_blocks *s, size_t i, struct function_difference *f)
{
    const struct profile_frame *frame = &s->profile->frames.at[s->functions[i].frame];
    f->name = profile_text(s->profile, frame->name);
    f->place = profile_text(s->profile, frame->file ? frame->file : frame->module);
}

/* Every function of both sides once: [0] self, [1] total of each pair. */
static size_t pair_all(const struct side *before, const struct side *after, const size_t *match,
                       struct pair *self, struct pair *total)
{
    bool *taken = calloc(after->blocks.count + 1, sizeof(*taken));
    size_t n = 0;
    for (size_t i = 0; taken && i < before->blocks.count; i++, n++) {
        self[n] = pair_of(before, after, i, match[i], false);
        total[n] = pair_of(before, after, i, match[i], true);
        if (match[i] != IDENTITY_NONE)
            taken[match[i]] = true;
    }
    for (size_t j = 0; taken && j < after->blocks.count; j++)
        if (!taken[j]) {
            self[n] = pair_of(before, after, IDENTITY_NONE, j, false);
            total[n++] = pair_of(before, after, IDENTITY_NONE, j, true);
        }
    bool failed = !taken;
    free(taken);
    return failed ? SIZE_MAX : n;
}

/* A function is compared with the others: where they are few, it would itself be much of what says where the
 * middle is and how they scatter, so that no function could be far from them and intervals would hold too
 * often (externally studentized residuals: Cook and Weisberg, Residuals and Influence in Regression,
 * section 2.2). */
static int compare_one(const struct side *before, const struct side *after, const struct pair *self,
                       const struct pair *total, const struct compared *all, struct function_difference *ret)
{
    struct common c = all->common;
    bool apart = all->base <= APART_MOST && is_base(self);
    int r = apart ? find_common(all->self, all->count, self, all->sums, all->prior, before->runs, &c) : 0;
    if (r < 0)
        return r;
    *ret = (struct function_difference){.self = difference_of(before, after, self, &c, apart),
                                        .total = difference_of(before, after, total, &c, apart)};
    bool is_there = self->after != IDENTITY_NONE;
    name_function(is_there ? &after->blocks : &before->blocks, is_there ? self->after : self->before, ret);
    return 0;
}

static int compare(const struct side *before, const struct side *after, const size_t *match,
                   struct profile_differences *ret)
{
    size_t most = before->blocks.count + after->blocks.count + 1;
    struct pair *self = calloc(most, sizeof(*self)), *total = calloc(most, sizeof(*total));
    struct compared all = {.self = self,
                           .prior = before->spread && after->spread ? PRIOR_OF_BLOCKS : PRIOR_OF_GUESS};
    size_t n = self && total ? pair_all(before, after, match, self, total) : SIZE_MAX;
    int r = n == SIZE_MAX ? -ENOMEM : 0;
    if (before->blocks.sum > 0 && after->blocks.sum > 0)
        all.sums = log(after->blocks.sum) - log(before->blocks.sum);
    all.count = r == 0 ? n : 0;
    for (size_t i = 0; i < all.count; i++)
        all.base += is_base(&self[i]);
    if (r == 0)
        r = find_common(self, n, NULL, all.sums, all.prior, before->runs, &all.common);
    for (size_t i = 0; r == 0 && i < n; i++) {
        struct function_difference f;
        r = compare_one(before, after, &self[i], &total[i], &all, &f);
        if (r == 0)
            r = array_add(&ret->functions, f);
    }
    free(self);
    free(total);
    ret->scale = exp(all.common.ratio);
    ret->by_median = all.common.by_median;
    ret->run_deviation = sqrt(all.common.run_variance);
    ret->error_scale = sqrt(all.common.scale);
    return r;
}

static const char *basis_of(const struct side *before, const struct side *after)
{
    bool b = before->blocks.block_count > 0, a = after->blocks.block_count > 0;
    return b && a && before->blocks.by_window && after->blocks.by_window
               ? "how shares vary between stretches of each profile"
           : b && a ? "how shares vary between stretches or processes of each profile"
           : b || a ? "how shares vary within one profile; in the other four samples are worth one draw"
                    : "four samples being worth one independent draw: neither profile says how shares vary "
                      "(sonde's own do, as .pb.gz)";
}

static int differences(const struct profile *before, const struct profile *after, bool runs, double level,
                       struct profile_differences *ret_differences)
{
    struct profile_differences all = {0};
    struct side b = {0}, a = {0};
    size_t *match = NULL;
    int r = side_open(before, &b);
    if (r == 0)
        r = side_open(after, &a);
    b.runs = runs;
    if (r == 0)
        r = side_spread(&b);
    if (r == 0)
        r = side_spread(&a);
    if (r == 0 && !(match = calloc(b.blocks.count + 1, sizeof(*match))))
        r = -ENOMEM;
    if (r == 0)
        r = identity_match(before, b.blocks.functions, b.blocks.count, after, a.blocks.functions,
                           a.blocks.count, match);
    if (r == 0)
        r = compare(&b, &a, match, &all);
    if (r == 0)
        r = decide(&all, false, level, runs);
    if (r == 0)
        r = decide(&all, true, level, runs);
    all.basis = runs ? "how earlier runs of the same length differ" : basis_of(&b, &a);
    all.before_samples = b.blocks.sum / (b.blocks.quantum > 0 ? b.blocks.quantum : 1);
    all.after_samples = a.blocks.sum / (a.blocks.quantum > 0 ? a.blocks.quantum : 1);
    side_close(&b);
    side_close(&a);
    free(match);
    if (r < 0) {
        profile_differences_done(&all);
        return r;
    }
    if (all.functions.count)
        qsort(all.functions.at, all.functions.count, sizeof(*all.functions.at), by_verdict_and_change);
    *ret_differences = all;
    return 0;
}

int profile_differences(const struct profile *before, const struct profile *after,
                        struct profile_differences *ret_differences)
{
    return differences(before, after, false, LEVEL, ret_differences);
}

int profile_differences_of_runs(const struct profile *before, const struct profile *after, double level,
                                struct profile_differences *ret_differences)
{
    return differences(before, after, true, level, ret_differences);
}

void profile_differences_done(struct profile_differences *differences)
{
    array_done(&differences->functions);
}
