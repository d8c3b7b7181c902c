/* See match_model.h: the time over which the sides of a match are compared, and what time does by itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/macro.h"
#include "diagnose/match_model.h"
#include "diagnose/stats.h"

#define BLOCK_OLDER_MIN 25 /* requests of either side in a block of time */
#define BLOCK_NEWER_MIN 10
#define OVERLAP_SHARE   0.5  /* of the newer side's requests that ran beside the older side's */
#define STARTING_SHARE  0.1  /* of the newer side's requests, on hosts that have just got it */
#define EVEN_SHARE      0.8  /* of the requests that still count, from which sides have the same times */
#define MOVED_LOG       0.15 /* of a level, from which time matters */
#define INCIDENT_SLOTS  12   /* of a side, before it is known what is usual */
#define INCIDENT_LOG    0.3  /* above that */
#define INCIDENT_MIN    4.0  /* standard errors */
#define INCIDENT_SHARE  0.15 /* of the requests */
#define WARMTH_SLOTS    4    /* after the first one, of which the first is compared with the others */
#define WARMER          0.05 /* log, from which hosts warm up */
#define SHARED_SLOTS    3    /* of the time that both sides share, where that is less */
#define STILL_RUNS_MIN  10
#define MORE_OF_A_SLOT  1.5 /* times its part: as much of a side may be of one slot of time */
#define PLACEBO_SLOTS   6
#define MOVED_MIN       2.0 /* standard errors, from which the level of the older side moved */
#define GROWN_MIN       3.5 /* the same where many places were looked at */
#define GREW_TIMES      1.5 /* what the older side moves by: so much more is told apart */
#define COURSE_ROUNDS   8

/* ---- the time that is compared ---- */

struct slot_sum {
    uint32_t slot;
    double older, newer;
    uint32_t block;
    double weight[2]; /* of the requests of the older, of the newer side */
};

static int by_slot(const void *x, const void *y)
{
    const struct slot_sum *a = x, *b = y;
    return a->slot < b->slot ? -1 : a->slot > b->slot;
}

/* Slots in order of time, with how much of either side began in them. At most room. */
static size_t sum_slots(const struct model *m, struct slot_sum *slots, size_t room)
{
    size_t n = 0;
    array_foreach (&m->pieces, p) {
        size_t k = 0;
        while (k < n && slots[k].slot != p->stratum->slot)
            k++;
        if (p->starting || (k == n && n == room))
            continue;
        if (k == n)
            slots[n++] = (struct slot_sum){.slot = p->stratum->slot, .block = BOOK_NONE};
        *(p->newer ? &slots[k].newer : &slots[k].older) += p->n;
    }
    qsort(slots, n, sizeof(*slots), by_slot);
    return n;
}

static size_t place_in(const struct slot_sum *slots, size_t count, uint32_t slot)
{
    size_t at = 0;
    while (at < count && slots[at].slot != slot)
        at++;
    return at;
}

static void place(const struct slot_sum *slots, size_t count, bool weighted, struct piece *piece)
{
    size_t at = place_in(slots, count, piece->stratum->slot);
    piece->block = at < count ? slots[at].block : BOOK_NONE;
    if (at < count && weighted) /* else there is nothing to be put right, and requests would be wasted */
        piece->weight = slots[at].weight[piece->newer];
}

/* Marks what began in a host's first slots of time with the newer version; how much of the newer side that
 * is. */
static double mark_starting(struct model *m, const uint32_t *first, uint32_t slots)
{
    double newer = 0, starting = 0;
    array_foreach (&m->pieces, p) {
        p->starting = p->newer && p->stratum->slot - first[p->host_at] < slots;
        newer += p->newer ? p->n : 0;
        starting += p->starting ? p->n : 0;
    }
    return newer > 0 ? starting / newer : 0;
}

/* What one host of the newer side did in its second slot of time, and in some after it. */
struct warmth {
    double n[2], sum[2];
};

/* Whether hosts are slower in their second slot with the newer version than later: the first one is never
 * whole. */
static bool is_warming(const struct model *m, const uint32_t *first, struct warmth *of_host)
{
    double weights = 0, difference = 0, noise = 0, n = 0;
    array_foreach (&m->pieces, p) {
        uint32_t since = p->newer ? p->stratum->slot - first[p->host_at] : 0;
        if (since < 1 || since > WARMTH_SLOTS)
            continue;
        of_host[p->host_at].n[since > 1] += p->n;
        of_host[p->host_at].sum[since > 1] += p->n * p->mean;
        noise += p->n * p->variance;
        n += p->n;
    }
    for (size_t h = 0; h < m->hosts.count; h++) {
        const struct warmth *w = &of_host[h];
        if (w->n[0] == 0 || w->n[1] == 0)
            continue;
        double weight = w->n[0] * w->n[1] / (w->n[0] + w->n[1]);
        weights += weight;
        difference += weight * (w->sum[0] / w->n[0] - w->sum[1] / w->n[1]);
    }
    if (weights == 0)
        return false;
    difference /= weights;
    return difference > WARMER && difference > MOVED_MIN * sqrt(noise / n / weights);
}

/* A host that has just got another version warms up, and so do its caches: where that is not so of the older
 * side at the same time, the slot of time in which it did is left out, and the next where it is seen to go
 * on. share: of the newer side's requests, that may be left out; then fewer slots are. */
static int leave_out_starting(struct model *m, double share)
{
    _cleanup_(freep) uint32_t *first = malloc((m->hosts.count + 1) * sizeof(*first));
    _cleanup_(freep) struct warmth *of_host = calloc(m->hosts.count + 1, sizeof(*of_host));
    if (!first || !of_host)
        return -ENOMEM;
    memset(first, 0xff, (m->hosts.count + 1) * sizeof(*first));
    array_foreach (&m->pieces, p)
        if (p->newer)
            first[p->host_at] = MIN(first[p->host_at], p->stratum->slot);
    uint32_t slots = is_warming(m, first, of_host) ? 2 : 1;
    while (mark_starting(m, first, slots) > share && slots > 0)
        slots--;
    return 0;
}

/* A side's level, slot by slot. */
struct levels {
    double n[BOOK_SLOTS_MAX + 2], level[BOOK_SLOTS_MAX + 2], all;
    double noise; /* variance of one request */
};

static void find_levels(const struct model *m, const struct slot_sum *slots, size_t count, bool newer,
                        struct levels *ret_levels)
{
    struct levels l = {0};
    array_foreach (&m->pieces, p) {
        size_t at = place_in(slots, count, p->stratum->slot);
        if (p->newer != newer || p->starting || at == count)
            continue;
        l.n[at] += p->n;
        l.level[at] += p->n * p->mean;
        l.noise += p->n * p->variance;
        l.all += p->n;
    }
    for (size_t i = 0; i < count; i++)
        l.level[i] /= fmax(l.n[i], 1);
    l.noise /= fmax(l.all, 1);
    *ret_levels = l;
}

/* Whether the level of a side moves while both are there. */
static bool is_moved(const struct model *m, const struct slot_sum *slots, size_t count, bool newer)
{
    struct levels l;
    find_levels(m, slots, count, newer, &l);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++) {
            bool both = slots[i].older > 0 && slots[i].newer > 0 && slots[k].older > 0 && slots[k].newer > 0;
            double noise = sqrt(l.noise * (1 / fmax(l.n[i], 1) + 1 / fmax(l.n[k], 1)));
            if (both && l.n[i] > 0 && l.n[k] > 0 &&
                fabs(l.level[i] - l.level[k]) > fmax(MOVED_LOG, GROWN_MIN * noise))
                return true;
        }
    return false;
}

/* Slots in which all of a side is much slower than at most times, where that is little of its time: an
 * incident says nothing of a version where the sides are not of the same time. */
static void find_incidents(const struct model *m, const struct slot_sum *slots, size_t count, bool newer,
                           bool *incident)
{
    struct levels l;
    double used[BOOK_SLOTS_MAX + 2], slow = 0;
    size_t n = 0;
    find_levels(m, slots, count, newer, &l);
    for (size_t i = 0; i < count; i++)
        if (l.n[i] > 0)
            used[n++] = l.level[i];
    if (n < INCIDENT_SLOTS)
        return;
    double usual = stats_median(used, n);
    for (size_t i = 0; i < count; i++) {
        incident[i] =
            l.n[i] > 0 && l.level[i] - usual > fmax(INCIDENT_LOG, INCIDENT_MIN * sqrt(l.noise / l.n[i]));
        slow += incident[i] ? l.n[i] : 0;
    }
    for (size_t i = 0; i < count && slow > INCIDENT_SHARE * l.all; i++)
        incident[i] = false;
}

static void leave_out_incidents(struct model *m, const struct slot_sum *slots, size_t count)
{
    bool incident[2][BOOK_SLOTS_MAX + 2] = {0};
    for (int side = 0; side < 2; side++)
        find_incidents(m, slots, count, side, incident[side]);
    array_foreach (&m->pieces, p) {
        size_t at = place_in(slots, count, p->stratum->slot);
        if (at < count && incident[p->newer][at])
            p->block = BOOK_NONE;
    }
}

/* While hosts get the newer version one by one, the older side has most of what was early, and the newer side
 * most of what was late: means could be put right for that, but where a slot itself differs within its time,
 * its requests of one side would decide. So both sides get about the same share of each slot: that to which
 * the comparison within the slot is worth, n m / (n + m), and somewhat more. The share of the requests that
 * still counts, of the side with the smaller one. */
static double weigh_slots(struct slot_sum *slots, size_t count)
{
    double worth = 0, part[2] = {0}, all_of[2] = {0}, counts[2] = {0};
    for (size_t i = 0; i < count; i++) {
        double all = slots[i].older + slots[i].newer, both = slots[i].older * slots[i].newer / all;
        worth += both;
        part[0] += both * slots[i].newer / all; /* of a side's requests that is worth: the other's share */
        part[1] += both * slots[i].older / all;
    }
    for (size_t i = 0; i < count && worth > 0; i++) {
        double all = slots[i].older + slots[i].newer;
        slots[i].weight[0] = fmin(1, MORE_OF_A_SLOT * slots[i].newer / all * worth / part[0]);
        slots[i].weight[1] = fmin(1, MORE_OF_A_SLOT * slots[i].older / all * worth / part[1]);
        if (slots[i].older == 0 || slots[i].newer == 0)
            continue;
        all_of[0] += slots[i].older;
        all_of[1] += slots[i].newer;
        counts[0] += slots[i].older * slots[i].weight[0];
        counts[1] += slots[i].newer * slots[i].weight[1];
    }
    return worth > 0 ? fmin(counts[0] / all_of[0], counts[1] / all_of[1]) : 1;
}

/* What the slots say together. */
struct beside {
    double older, newer, older_beside, newer_beside;
    size_t overlapping;
};

static struct beside sum_up(const struct slot_sum *slots, size_t count)
{
    struct beside sum = {0};
    for (size_t i = 0; i < count; i++) {
        bool both = slots[i].older > 0 && slots[i].newer > 0;
        sum.older += slots[i].older;
        sum.newer += slots[i].newer;
        sum.newer_beside += both ? slots[i].newer : 0;
        sum.older_beside += both ? slots[i].older : 0;
        sum.overlapping += both;
    }
    return sum;
}

/* Whether there is a time that both sides share, long enough to be compared. */
static bool share_time(const struct beside *sum, const struct match_settings *settings)
{
    return sum->overlapping >= SHARED_SLOTS &&
           fmin(sum->older_beside, sum->newer_beside) >= (double)settings->requests_min;
}

/* Whether both sides ran beside each other for most of the newer one's time, or long enough. Blocks are
 * slots, or several in a row, in which either side has enough requests. */
int match_choose_time(struct model *m, const struct match_settings *settings, struct match *match)
{
    struct slot_sum slots[BOOK_SLOTS_MAX + 2];
    int r = settings->shared_time ? leave_out_starting(m, 1) : 0;
    size_t n = sum_slots(m, slots, ARRAY_SIZE(slots));
    struct beside sum = sum_up(slots, n);
    bool shares = share_time(&sum, settings);
    bool beside = sum.newer_beside >= OVERLAP_SHARE * sum.newer && (sum.overlapping >= 2 || n <= 2);
    match->concurrent = beside && sum.older_beside >= fmin((double)settings->requests_min, sum.older);
    match->shares_time = shares && !match->concurrent && !settings->shared_time;
    match->concurrent |= settings->shared_time && shares;
    match->waiting = settings->watching && sum.newer_beside >= OVERLAP_SHARE * sum.newer &&
                     sum.older_beside >= STILL_RUNS_MIN && sum.older_beside < MATCH_CONCURRENT_MIN;
    uint32_t block = 0;
    double block_older = 0, block_newer = 0;
    size_t from = 0;
    for (size_t i = 0; i < n && match->concurrent; i++) {
        if (slots[i].older == 0 || slots[i].newer == 0)
            continue;
        slots[i].block = block;
        block_older += slots[i].older;
        block_newer += slots[i].newer;
        if (block_older < BLOCK_OLDER_MIN || block_newer < BLOCK_NEWER_MIN || block + 1 == MATCH_BLOCKS_ROOM)
            continue;
        block++;
        block_older = block_newer = 0;
        from = i + 1;
    }
    for (size_t i = from; i < n && block > 0; i++) /* what is left over belongs to the last block */
        if (slots[i].block == block)
            slots[i].block = block - 1;
    if (r == 0 && !match->concurrent)
        r = leave_out_starting(m, STARTING_SHARE);
    m->block_count = match->concurrent ? MAX(block, 1u) : 1;
    if (match->concurrent)
        match->uneven =
            weigh_slots(slots, n) < EVEN_SHARE && (is_moved(m, slots, n, 0) || is_moved(m, slots, n, 1));
    array_foreach (&m->pieces, p) {
        p->block = p->starting ? BOOK_NONE : 0;
        if (match->concurrent && !p->starting)
            place(slots, n, match->uneven, p);
    }
    if (!match->concurrent)
        leave_out_incidents(m, slots, n);
    return r;
}

/* ---- what time does ---- */

/* A side's level in order of time: requests and their summed log latency, host and class taken out. */
struct course {
    double n[BOOK_SLOTS_MAX + 2], sum[BOOK_SLOTS_MAX + 2], all, all_sum;
    double noise; /* variance of one request */
    size_t count;
};

static bool is_of_course(const struct piece *p, bool newer)
{
    return p->newer == newer && !p->starting;
}

/* The newer side's hosts, of which the model knows nothing: fitted with the slots, in turn. host: their
 * levels, which are set. */
static void fit_newer_hosts(const struct model *m, const struct slot_sum *slots, size_t count, double *host,
                            double *weights)
{
    double level[BOOK_SLOTS_MAX + 2] = {0}, n[BOOK_SLOTS_MAX + 2];
    for (int round = 0; round < COURSE_ROUNDS; round++) {
        memset(weights, 0, m->hosts.count * sizeof(*weights));
        memset(host, 0, m->hosts.count * sizeof(*host));
        array_foreach (&m->pieces, p) {
            size_t at = place_in(slots, count, p->stratum->slot);
            if (!is_of_course(p, true) || at == count)
                continue;
            weights[p->host_at] += p->n;
            host[p->host_at] += p->n * (p->mean - m->classes.at[p->class_at].level - level[at]);
        }
        for (size_t h = 0; h < m->hosts.count; h++)
            host[h] /= fmax(weights[h], 1);
        memset(level, 0, sizeof(level));
        memset(n, 0, sizeof(n));
        array_foreach (&m->pieces, p) {
            size_t at = place_in(slots, count, p->stratum->slot);
            if (!is_of_course(p, true) || at == count)
                continue;
            n[at] += p->n;
            level[at] += p->n * (p->mean - m->classes.at[p->class_at].level - host[p->host_at]);
        }
        for (size_t i = 0; i < count; i++)
            level[i] /= fmax(n[i], 1);
    }
}

static int find_course(const struct model *m, bool newer, struct course *ret_course)
{
    struct slot_sum slots[BOOK_SLOTS_MAX + 2];
    struct course course = {.count = sum_slots(m, slots, ARRAY_SIZE(slots))};
    _cleanup_(freep) double *host = calloc(2 * m->hosts.count + 1, sizeof(*host));
    if (!host)
        return -ENOMEM;
    if (newer)
        fit_newer_hosts(m, slots, course.count, host, host + m->hosts.count);
    else
        for (size_t h = 0; h < m->hosts.count; h++)
            host[h] = m->hosts.at[h].value;
    array_foreach (&m->pieces, p) {
        size_t at = place_in(slots, course.count, p->stratum->slot);
        if (!is_of_course(p, newer) || at == course.count)
            continue;
        double level = p->mean - host[p->host_at] - m->classes.at[p->class_at].level;
        course.n[at] += p->n;
        course.sum[at] += p->n * level;
        course.all += p->n;
        course.all_sum += p->n * level;
        course.noise += p->variance * p->n;
    }
    course.noise /= fmax(course.all, 1);
    *ret_course = course;
    return 0;
}

/* How far the level moved from before a slot to from then on, and what noise would make of it. */
static bool moved_at(const struct course *c, double n, double sum, double *ret_moved, double *ret_chance)
{
    double before = c->all - n;
    if (n < BLOCK_OLDER_MIN || before < BLOCK_OLDER_MIN)
        return false;
    *ret_moved = sum / n - (c->all_sum - sum) / before;
    *ret_chance = c->noise * (1 / n + 1 / before);
    return true;
}

static double beyond(double moved, double chance, double times)
{
    return moved * moved > times * times * chance ? sqrt(moved * moved - chance) : 0;
}

/* How far the older side's level moves without a new version, beyond what the noise of requests would make of
 * it: between the halves of its time, and from all of it to any last part of it, since what grew before the
 * newer version came did not grow because of it. */
static double older_moves(const struct course *c)
{
    double n = 0, sum = 0, spread = 0, moved, chance;
    bool halved = false;
    for (size_t i = c->count; i-- > 1;) {
        n += c->n[i];
        sum += c->sum[i];
        if (!moved_at(c, n, sum, &moved, &chance))
            continue;
        if (!halved && c->all - n - c->n[i - 1] < c->all / 2) {
            halved = true;
            spread = fmax(spread, beyond(moved, chance, MOVED_MIN));
        }
        if (moved > 0)
            spread = fmax(spread, beyond(moved, chance, GROWN_MIN) * (c->all - n) / c->all);
    }
    return spread;
}

/* What the newer side's level grew by after a time, as a part of all of it: not because the version came. */
static double newer_grows(const struct course *c)
{
    double n = 0, sum = 0, spread = 0, moved, chance;
    for (size_t i = c->count; i-- > 1;) {
        n += c->n[i];
        sum += c->sum[i];
        if (moved_at(c, n, sum, &moved, &chance) && moved > 0)
            spread = fmax(spread, beyond(moved, chance, GROWN_MIN) * n / c->all);
    }
    return spread;
}

static size_t slots_of(const struct course *c)
{
    size_t used = 0;
    for (size_t i = 0; i < c->count; i++)
        used += c->n[i] > 0;
    return used;
}

int match_find_spread(const struct model *m, struct match *match)
{
    struct course course;
    int r = find_course(m, false, &course);
    double older = r == 0 && slots_of(&course) >= PLACEBO_SLOTS ? older_moves(&course) : 0, newer = 0;
    if (r == 0 && match->shares_time)
        r = find_course(m, true, &course);
    if (r == 0 && match->shares_time && slots_of(&course) >= PLACEBO_SLOTS)
        newer = newer_grows(&course);
    match->time_spread = fmax(older, newer);
    match->grew =
        newer > GREW_TIMES * older ? newer : 0; /* else it is what time does to the older one, too */
    return r;
}
