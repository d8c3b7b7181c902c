/* See throughput.h. Requests wait where those of a host and slot of time wait for several times as long as at
 * the best of times and as they take: a consumer that asks for messages now and then lets them wait as long
 * at all times. Hosts are what is counted (Welch's test of the logarithms of their rates).
 *
 * A queue in order of arrival of which a share c is completed grows so that those who begin a second later
 * have waited 1 - c seconds longer: the slope of the wait over the time of its end says c, whatever the
 * clocks differ by. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/throughput.h"

#include <errno.h>
#include <math.h>

#include "base/clock.h"
#include "base/macro.h"
#include "diagnose/sequential.h"
#include "diagnose/stats.h"

#define WAIT_TIMES    3.0   /* what is usual and what a request takes, together: then requests wait */
#define SLOT_REQUESTS 5     /* of a host, in a slot, for its wait to be known */
#define SLOTS_MIN     2     /* whole ones of a host */
#define HOST_SPREAD   0.05  /* hosts differ by this at least: standard deviation of the log rate */
#define LONE_FREEDOM  4.0   /* of a side with one host */
#define RATIO_MAX     0.9   /* of a finding */
#define FAR_OUT       0.001 /* where Student's distribution is taken for a wider normal one */
#define GROWING_SLOTS 6     /* at the end, over which a queue grows */
#define BEHIND_MIN    0.02  /* share that is not completed, at the lower end of its interval */

/* What a host did in a slot. */
struct doing {
    uint32_t slot;
    double n, waited, wait_ns, took_ns;
};

struct doings {
    ARRAY(struct doing) list;
};

static int add_doing(struct doings *to, struct map *index, const struct stratum *s)
{
    bool added;
    uint64_t *at = map_put(index, s->slot, &added);
    double mean = sketch_mean(&s->latency), n = (double)s->latency.count;
    if (!at)
        return -ENOMEM;
    if (added) {
        *at = to->list.count;
        if (array_add(&to->list, (struct doing){.slot = s->slot}) < 0)
            return -ENOMEM;
    }
    struct doing *d = &to->list.at[*at];
    d->n += n;
    d->waited += (double)s->waited;
    d->wait_ns += s->wait_ns;
    d->took_ns += mean * n;
    return 0;
}

static int by_slot(const void *x, const void *y)
{
    const struct doing *a = x, *b = y;
    return a->slot < b->slot ? -1 : a->slot > b->slot;
}

static int collect(const struct host *host, struct map *index, struct doings *to)
{
    int r = 0;
    array_foreach (&host->strata, s)
        if (r == 0)
            r = add_doing(to, index, s);
    return r;
}

/* A host's slots in order. */
static int doings_of(const struct host *host, struct doings *ret)
{
    struct map index = {0};
    int r = collect(host, &index, ret);
    map_done(&index);
    if (r == 0 && ret->list.count)
        qsort(ret->list.at, ret->list.count, sizeof(*ret->list.at), by_slot);
    return r;
}

static bool knows_wait(const struct doing *d)
{
    return d->n >= SLOT_REQUESTS && d->waited >= d->n / 2;
}

static double wait_of(const struct doing *d)
{
    return d->wait_ns / d->waited;
}

/* The shortest mean wait of a slot, over all versions and hosts; INFINITY: none is known. */
static int usual_wait(const struct bucket *bucket, double *ret_wait_ns)
{
    double least = INFINITY;
    int r = 0;
    array_foreach (&bucket->groups, group)
        array_foreach (&group->hosts, host) {
            struct doings doings = {0};
            if (r == 0)
                r = doings_of(host, &doings);
            array_foreach (&doings.list, d)
                if (knows_wait(d))
                    least = fmin(least, wait_of(d));
            array_done(&doings.list);
        }
    *ret_wait_ns = least;
    return r;
}

static bool waits(const struct doing *d, double usual_ns)
{
    return knows_wait(d) && wait_of(d) > 0 && wait_of(d) >= WAIT_TIMES * (usual_ns + d->took_ns / d->n);
}

/* The log rates of a side's hosts, in their whole slots: neither their first nor their last. */
struct side {
    double *logs;
    size_t hosts;
    double wait_ns, requests;
};

static int find_side(const struct book *book, const struct group *const *groups, size_t count,
                     double usual_ns, bool waiting, struct side *side)
{
    double slot_s = (double)(1ull << book->shift) / NS_PER_S, wait_ns = 0, waited = 0;
    int r = 0;
    side->hosts = 0;
    side->requests = 0;
    for (size_t g = 0; r == 0 && g < count; g++)
        array_foreach (&groups[g]->hosts, host) {
            struct doings doings = {0};
            double n = 0, slots = 0;
            if (r == 0)
                r = doings_of(host, &doings);
            for (size_t i = 1; i + 1 < doings.list.count; i++) {
                const struct doing *d = &doings.list.at[i];
                if (waiting && !waits(d, usual_ns))
                    continue;
                n += d->n;
                slots++;
                wait_ns += d->wait_ns;
                waited += d->waited;
            }
            array_done(&doings.list);
            if (slots < SLOTS_MIN || n <= 0)
                continue;
            side->logs[side->hosts++] = log(n / (slots * slot_s));
            side->requests += n;
        }
    side->wait_ns = waited > 0 ? wait_ns / waited : 0;
    return r;
}

static size_t count_hosts(const struct group *const *groups, size_t count)
{
    size_t n = 0;
    for (size_t g = 0; g < count; g++)
        n += groups[g]->hosts.count;
    return n;
}

static void compare(const struct side *older, const struct side *newer, struct throughput *t)
{
    struct welch w = stats_welch(newer->logs, newer->hosts, older->logs, older->hosts);
    double a, b, variance_a, variance_b, n = (double)newer->hosts, m = (double)older->hosts;
    stats_moments(newer->logs, newer->hosts, &a, &variance_a);
    stats_moments(older->logs, older->hosts, &b, &variance_b);
    bool lone = newer->hosts < 2 || older->hosts < 2;
    double least = fmin(n, m) - 1; /* Welch's are never fewer, but where no rates of a side differ */
    double own = lone ? 0 : w.error, freedom = lone ? LONE_FREEDOM : fmax(w.freedom, least);
    double spread = lone ? 2 * HOST_SPREAD : HOST_SPREAD;
    double error = sqrt(own * own + spread * spread * (1 / n + 1 / m) + 1 / fmax(newer->requests, 1) +
                        1 / fmax(older->requests, 1));
    double reach = stats_student_quantile(0.025, freedom) * error;
    t->rate = exp(a);
    t->base_rate = exp(b);
    t->ratio = exp(a - b);
    t->low = exp(a - b - reach);
    t->high = exp(a - b + reach);
    t->p = stats_student_above((b - a) / error, freedom);
    double wider = stats_student_quantile(FAR_OUT, freedom) / stats_student_quantile(FAR_OUT, 1e9);
    t->e_value = sequential_evidence(b - a, error * error * wider * wider);
    t->hosts = newer->hosts;
    t->base_hosts = older->hosts;
    t->tested = true;
}

int throughput_test(const struct book *book, const struct bucket *bucket, const struct group *const *older,
                    size_t older_count, const struct group *const *newer, size_t newer_count,
                    struct throughput *ret_throughput)
{
    struct throughput t = {.p = 1, .e_value = 1, .ratio = 1, .low = 0, .high = INFINITY};
    _cleanup_(freep) double *a = calloc(count_hosts(older, older_count) + 1, sizeof(*a));
    _cleanup_(freep) double *b = calloc(count_hosts(newer, newer_count) + 1, sizeof(*b));
    struct side before = {.logs = a}, after = {.logs = b};
    int r = a && b ? usual_wait(bucket, &t.usual_wait_ns) : -ENOMEM;
    if (r == 0 && isfinite(t.usual_wait_ns))
        r = find_side(book, newer, newer_count, t.usual_wait_ns, true, &after);
    if (r == 0 && after.hosts) {
        r = find_side(book, older, older_count, t.usual_wait_ns, true, &before);
        t.older_waited = before.hosts > 0;
        if (r == 0 && !before.hosts)
            r = find_side(book, older, older_count, t.usual_wait_ns, false, &before);
    }
    if (r < 0)
        return r;
    if (after.hosts && before.hosts)
        compare(&before, &after, &t);
    t.wait_ns = after.wait_ns;
    t.requests = (uint64_t)after.requests;
    t.first_ns = UINT64_MAX;
    for (size_t g = 0; g < newer_count; g++) {
        t.first_ns = MIN(t.first_ns, newer[g]->first_ns);
        t.last_ns = MAX(t.last_ns, newer[g]->last_ns);
    }
    *ret_throughput = t;
    return 0;
}

static void decide(struct throughput *all, size_t count, double rate, bool watched)
{
    double tested = 0;
    for (size_t i = 0; i < count; i++)
        tested += all[i].tested;
    for (size_t i = 0; i < count; i++) {
        struct throughput *t = &all[i];
        bool shown = watched ? t->e_value * rate >= tested : t->p * tested <= rate;
        t->outcome = !t->tested                        ? THROUGHPUT_CANNOT_TELL
                     : shown && t->ratio <= RATIO_MAX  ? THROUGHPUT_FEWER
                     : !watched && t->low >= RATIO_MAX ? THROUGHPUT_NOT_FEWER
                                                       : THROUGHPUT_CANNOT_TELL;
    }
}

void throughput_decide(struct throughput *all, size_t count, double rate)
{
    decide(all, count, rate, false);
}

void throughput_decide_watched(struct throughput *all, size_t count, double chance)
{
    decide(all, count, chance, true);
}

const char *throughput_outcome_name(enum throughput_outcome outcome)
{
    static const char *const names[] = {"cannot-tell", "not-fewer", "fewer"};
    return names[outcome];
}

/* ---- queues ---- */

/* All hosts together, slot by slot. */
static int doings_of_bucket(const struct bucket *bucket, struct doings *ret)
{
    struct map index = {0};
    int r = 0;
    array_foreach (&bucket->groups, group)
        array_foreach (&group->hosts, host)
            if (r == 0)
                r = collect(host, &index, ret);
    map_done(&index);
    if (r == 0 && ret->list.count)
        qsort(ret->list.at, ret->list.count, sizeof(*ret->list.at), by_slot);
    return r;
}

/* The slope of the wait over time, in the slots from one on, and its standard error. */
static double slope_of(const struct book *book, const struct doings *doings, size_t from, double *ret_error)
{
    double n = (double)(doings->list.count - from), x_mean = 0, y_mean = 0, xx = 0, xy = 0, squares = 0;
    for (size_t i = from; i < doings->list.count; i++) {
        x_mean += (double)doings->list.at[i].slot / n;
        y_mean += wait_of(&doings->list.at[i]) / n;
    }
    for (size_t i = from; i < doings->list.count; i++) {
        double x = (double)doings->list.at[i].slot - x_mean;
        xx += x * x;
        xy += x * (wait_of(&doings->list.at[i]) - y_mean);
    }
    double slope = xy / xx, slot_ns = (double)(1ull << book->shift);
    for (size_t i = from; i < doings->list.count; i++) {
        double x = (double)doings->list.at[i].slot - x_mean;
        double rest = wait_of(&doings->list.at[i]) - y_mean - slope * x;
        squares += rest * rest;
    }
    *ret_error = sqrt(squares / (n - 2) / xx) / slot_ns;
    return slope / slot_ns;
}

/* Where the last stretch begins in which waits only grow, but for a little. */
static size_t find_rise(const struct doings *doings)
{
    size_t from = doings->list.count - 1;
    double last = wait_of(&doings->list.at[from]), least = last;
    while (from > 0 && knows_wait(&doings->list.at[from - 1]) &&
           wait_of(&doings->list.at[from - 1]) < least + 0.05 * last) {
        least = fmin(least, wait_of(&doings->list.at[from - 1]));
        from--;
    }
    while (from + 1 < doings->list.count && wait_of(&doings->list.at[from]) < 0.1 * last)
        from++; /* before it began to grow */
    return from;
}

int backlog_find(const struct book *book, uint32_t bucket_at, bool *ret_grows, struct backlog *ret_backlog)
{
    const struct bucket *bucket = &book->buckets.at[bucket_at];
    struct backlog b = {.bucket = bucket_at, .p = 1};
    struct doings doings = {0};
    double usual = INFINITY;
    bool grows = false;
    int r = doings_of_bucket(bucket, &doings);
    if (r < 0) {
        array_done(&doings.list);
        return r;
    }
    if (doings.list.count > 1)
        doings.list.count--; /* the last one is not whole */
    array_foreach (&doings.list, d) {
        usual = knows_wait(d) ? fmin(usual, wait_of(d)) : usual;
        b.requests += (uint64_t)d->n;
    }
    size_t n = doings.list.count;
    if (n >= GROWING_SLOTS && waits(&doings.list.at[n - 1], usual)) {
        size_t from = find_rise(&doings);
        double error = 0, slope = n - from >= GROWING_SLOTS ? slope_of(book, &doings, from, &error) : 0;
        double reach = n - from >= GROWING_SLOTS ? stats_student_quantile(0.025, (double)(n - from) - 2) : 0;
        b.completed = 1 - slope;
        b.p = error > 0 ? stats_student_above((slope - BEHIND_MIN) / error, (double)(n - from) - 2) : 1;
        b.low = fmax(1 - slope - reach * error, 0);
        b.high = 1 - slope + reach * error;
        b.wait_ns = wait_of(&doings.list.at[n - 1]);
        b.usual_wait_ns = usual;
        b.since_ns = (uint64_t)doings.list.at[from].slot << book->shift;
        b.last_ns = ((uint64_t)doings.list.at[n - 1].slot + 1) << book->shift;
        grows = n - from >= GROWING_SLOTS && b.high <= 1 - BEHIND_MIN;
    }
    array_done(&doings.list);
    *ret_grows = grows;
    *ret_backlog = b;
    return 0;
}
