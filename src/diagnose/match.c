/* See match.h. The older side's log latency is fitted as a sum of effects of host, time and class, each
 * shrunk towards zero by a few requests (backfitting); time and class are taken out of both sides. Errors are
 * compared within strata of time as Mantel and Haenszel do (JNCI 1959). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/match.h"

#include <errno.h>
#include <math.h>

#include "base/macro.h"

#define ROUNDS          12
#define SHRINK          5.0
#define BLOCK_OLDER_MIN 25 /* requests of either side in a block of time */
#define BLOCK_NEWER_MIN 10
#define OVERLAP_SHARE   0.5 /* of the newer side's requests that ran beside the older side's */
#define STILL_RUNS_MIN  10
#define CLASS_HOSTS_MIN 2 /* of the older side, before a class' effect is told from a host's */
#define PLACEBO_SLOTS   6
#define BINS_PER_LOG    (64 / 0.69314718055994530942)
#define BLOCKS_ROOM     BOOK_SLOTS_MAX

/* One stratum of one host, with its places in the model. */
struct piece {
    const struct stratum *stratum;
    bool newer;
    uint32_t host;
    uint32_t host_at, class_at; /* indices of effects */
    uint32_t block;             /* of time; BOOK_NONE: not compared */
    double n, mean, variance;
};

struct effect {
    uint32_t key;
    double n, value;
    uint32_t hosts; /* of the older side that it was seen on */
    double n_newer;
};

struct model {
    ARRAY(struct piece) pieces;
    ARRAY(struct effect) hosts, classes;
    struct effect blocks[BLOCKS_ROOM];
    size_t block_count;
    double all;
};

static int find_effect(struct map *index, uint32_t key, uint32_t *ret_at, size_t *count)
{
    bool added;
    uint64_t *slot = map_put(index, key, &added);
    if (!slot)
        return -ENOMEM;
    if (added)
        *slot = (*count)++;
    *ret_at = (uint32_t)*slot;
    return 0;
}

static int collect(struct model *m, const struct group *const *groups, size_t count, bool newer)
{
    int r = 0;
    for (size_t g = 0; g < count; g++)
        array_foreach (&groups[g]->hosts, host)
            array_foreach (&host->strata, stratum) {
                struct piece piece = {.stratum = stratum,
                                      .newer = newer,
                                      .host = host->host,
                                      .block = BOOK_NONE,
                                      .n = (double)stratum->latency.count};
                sketch_log_moments(&stratum->latency, &piece.mean, &piece.variance);
                if (r == 0 && piece.n > 0)
                    r = array_add(&m->pieces, piece);
            }
    return r;
}

static int number_effects(struct model *m)
{
    struct map hosts = {0}, classes = {0}, seen = {0};
    size_t host_count = 0, class_count = 0;
    int r = 0;
    array_foreach (&m->pieces, p) {
        if (r == 0)
            r = find_effect(&hosts, p->host, &p->host_at, &host_count);
        if (r == 0)
            r = find_effect(&classes, p->stratum->class, &p->class_at, &class_count);
    }
    if (r == 0 &&
        (array_reserve(&m->hosts, host_count + 1) < 0 || array_reserve(&m->classes, class_count + 1) < 0))
        r = -ENOMEM;
    if (r == 0) {
        m->hosts.count = host_count;
        m->classes.count = class_count;
        memset(m->hosts.at, 0, (host_count + 1) * sizeof(*m->hosts.at));
        memset(m->classes.at, 0, (class_count + 1) * sizeof(*m->classes.at));
        array_foreach (&m->pieces, p) {
            bool added;
            m->classes.at[p->class_at].key = p->stratum->class;
            if (!p->newer && map_put(&seen, (uint64_t)p->host_at << 32 | p->class_at, &added) && added)
                m->classes.at[p->class_at].hosts++;
        }
    }
    map_done(&hosts);
    map_done(&classes);
    map_done(&seen);
    return r;
}

/* ---- time ---- */

struct slot_sum {
    uint32_t slot;
    double older, newer;
    uint32_t block;
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
        if (k == n && n == room)
            continue;
        if (k == n)
            slots[n++] = (struct slot_sum){.slot = p->stratum->slot, .block = BOOK_NONE};
        *(p->newer ? &slots[k].newer : &slots[k].older) += p->n;
    }
    qsort(slots, n, sizeof(*slots), by_slot);
    return n;
}

static uint32_t block_of(const struct slot_sum *slots, size_t count, uint32_t slot)
{
    for (size_t i = 0; i < count; i++)
        if (slots[i].slot == slot)
            return slots[i].block;
    return BOOK_NONE;
}

/* Whether both sides ran beside each other for most of the newer one's time. Blocks are slots, or several in
 * a row, in which either side has enough requests. */
static void choose_time(struct model *m, const struct match_settings *settings, struct match *match)
{
    struct slot_sum slots[BOOK_SLOTS_MAX + 2];
    size_t n = sum_slots(m, slots, ARRAY_SIZE(slots)), overlapping = 0;
    double newer = 0, newer_beside = 0, older_beside = 0, older = 0;
    for (size_t i = 0; i < n; i++) {
        bool both = slots[i].older > 0 && slots[i].newer > 0;
        older += slots[i].older;
        newer += slots[i].newer;
        newer_beside += both ? slots[i].newer : 0;
        older_beside += both ? slots[i].older : 0;
        overlapping += both;
    }
    bool beside = newer_beside >= OVERLAP_SHARE * newer && (overlapping >= 2 || n <= 2);
    match->concurrent = beside && older_beside >= fmin((double)settings->requests_min, older);
    match->waiting = settings->watching && newer_beside >= OVERLAP_SHARE * newer &&
                     older_beside >= STILL_RUNS_MIN && older_beside < MATCH_CONCURRENT_MIN;
    uint32_t block = 0;
    double block_older = 0, block_newer = 0;
    size_t from = 0;
    for (size_t i = 0; i < n && match->concurrent; i++) {
        if (slots[i].older == 0 || slots[i].newer == 0)
            continue;
        slots[i].block = block;
        block_older += slots[i].older;
        block_newer += slots[i].newer;
        if (block_older < BLOCK_OLDER_MIN || block_newer < BLOCK_NEWER_MIN || block + 1 == BLOCKS_ROOM)
            continue;
        block++;
        block_older = block_newer = 0;
        from = i + 1;
    }
    for (size_t i = from; i < n && block > 0; i++) /* what is left over belongs to the last block */
        if (slots[i].block == block)
            slots[i].block = block - 1;
    m->block_count = match->concurrent ? MAX(block, 1u) : 1;
    array_foreach (&m->pieces, p)
        p->block = match->concurrent ? block_of(slots, n, p->stratum->slot) : 0;
}

/* ---- the model ---- */

enum { EFFECT_HOST, EFFECT_BLOCK, EFFECT_CLASS, EFFECTS };

static struct effect *effect_of(struct model *m, const struct piece *p, int kind)
{
    return kind == EFFECT_HOST    ? &m->hosts.at[p->host_at]
           : kind == EFFECT_BLOCK ? &m->blocks[p->block]
                                  : &m->classes.at[p->class_at];
}

static bool is_known(const struct effect *e, int kind, size_t older_hosts)
{
    return kind != EFFECT_CLASS || e->hosts >= MIN((size_t)CLASS_HOSTS_MIN, older_hosts);
}

static void fit_kind(struct model *m, int kind, size_t older_hosts)
{
    struct effect *list = kind == EFFECT_HOST    ? m->hosts.at
                          : kind == EFFECT_BLOCK ? m->blocks
                                                 : m->classes.at;
    size_t count = kind == EFFECT_HOST    ? m->hosts.count
                   : kind == EFFECT_BLOCK ? m->block_count
                                          : m->classes.count;
    for (size_t i = 0; i < count; i++)
        list[i].n = list[i].value = 0;
    array_foreach (&m->pieces, p) {
        if (p->newer || p->block == BOOK_NONE)
            continue;
        double rest = p->mean - m->all;
        for (int other = 0; other < EFFECTS; other++)
            rest -= other == kind ? 0 : effect_of(m, p, other)->value;
        struct effect *e = effect_of(m, p, kind);
        e->n += p->n;
        e->value += p->n * rest;
    }
    for (size_t i = 0; i < count; i++)
        list[i].value = is_known(&list[i], kind, older_hosts) ? list[i].value / (list[i].n + SHRINK) : 0;
}

static void fit(struct model *m)
{
    double n = 0, sum = 0;
    size_t older_hosts = 0;
    _cleanup_(freep) bool *seen = calloc(m->hosts.count + 1, sizeof(*seen));
    array_foreach (&m->pieces, p) {
        if (p->newer || p->block == BOOK_NONE)
            continue;
        n += p->n;
        sum += p->n * p->mean;
        if (seen && !seen[p->host_at])
            older_hosts += seen[p->host_at] = true;
    }
    m->all = n > 0 ? sum / n : 0;
    for (int round = 0; round < ROUNDS; round++)
        for (int kind = 0; kind < EFFECTS; kind++)
            fit_kind(m, kind, older_hosts);
}

/* How much of the difference the newer side's mix of classes makes, and which class most of that. */
static void weigh_mix(struct model *m, struct match *match)
{
    double older = 0, newer = 0, most = 0;
    array_foreach (&m->classes, e)
        e->n = e->n_newer = 0;
    array_foreach (&m->pieces, p) {
        if (p->block == BOOK_NONE)
            continue;
        *(p->newer ? &m->classes.at[p->class_at].n_newer : &m->classes.at[p->class_at].n) += p->n;
        *(p->newer ? &newer : &older) += p->n;
    }
    match->mix_class = BOOK_NONE;
    array_foreach (&m->classes, e) {
        if (older == 0 || newer == 0)
            break;
        double part = (e->n_newer / newer - e->n / older) * e->value;
        match->mix += part;
        if (part > most && e->n_newer / newer > e->n / older) {
            most = part;
            match->mix_class = e->key;
            match->mix_share_older = e->n / older;
            match->mix_share_newer = e->n_newer / newer;
        }
    }
}

/* ---- what comes out ---- */

static int add_shifted(struct sketch *to, const struct sketch *from, double by)
{
    long shift = lround(by * BINS_PER_LOG);
    uint16_t first, end;
    if (shift == 0)
        return sketch_merge(to, from);
    sketch_range(from, &first, &end);
    for (unsigned bin = first; bin < end; bin++) {
        long at = (long)bin + shift;
        int r = sketch_add_bin(to, (uint16_t)MAX(0L, MIN(at, (long)SKETCH_BINS - 1)),
                               sketch_bin_count(from, (uint16_t)bin));
        if (r < 0)
            return r;
    }
    return 0;
}

static int standardise(struct model *m, bool newer, struct clusters *to)
{
    struct map index = {0};
    int r = 0;
    array_foreach (&m->pieces, p) {
        bool added;
        if (r < 0 || p->newer != newer || p->block == BOOK_NONE)
            continue;
        uint64_t *slot = map_put(&index, p->host, &added);
        if (!slot) {
            r = -ENOMEM;
            continue;
        }
        if (added) {
            *slot = to->list.count;
            r = array_add(&to->list, (struct cluster){.host = p->host});
            if (r == 0)
                r = array_add(&to->sketches, (struct sketch){0});
        }
        if (r == 0)
            r = add_shifted(&to->sketches.at[*slot], &p->stratum->latency,
                            -m->blocks[p->block].value - m->classes.at[p->class_at].value);
    }
    for (size_t i = 0; r == 0 && i < to->list.count; i++)
        to->list.at[i].latency = &to->sketches.at[i];
    map_done(&index);
    return r;
}

static int count_errors(const struct model *m, struct match *match)
{
    struct {
        double n[2], errors[2];
    } blocks[BLOCKS_ROOM] = {0};
    struct map index = {0};
    int r = 0;
    array_foreach (&m->pieces, p) {
        if (p->block == BOOK_NONE)
            continue;
        blocks[p->block].n[p->newer] += p->n;
        blocks[p->block].errors[p->newer] += (double)p->stratum->errors;
    }
    for (size_t b = 0; b < m->block_count; b++) {
        double n = blocks[b].n[0] + blocks[b].n[1], errors = blocks[b].errors[0] + blocks[b].errors[1];
        if (n > 1)
            match->error_variance +=
                errors * (n - errors) / n * blocks[b].n[0] / n * blocks[b].n[1] / (n - 1);
    }
    array_foreach (&m->pieces, p) {
        bool added;
        if (r < 0 || p->block == BOOK_NONE)
            continue;
        uint64_t *slot = map_put(&index, (uint64_t)p->newer << 32 | p->host, &added);
        if (!slot) {
            r = -ENOMEM;
            continue;
        }
        if (added) {
            *slot = match->errors.count;
            r = array_add(&match->errors, (struct error_count){.host = p->host, .newer = p->newer});
        }
        if (r < 0)
            continue;
        double n = blocks[p->block].n[0] + blocks[p->block].n[1];
        struct error_count *e = &match->errors.at[*slot];
        e->requests += p->n;
        e->errors += (double)p->stratum->errors;
        e->expected += p->n * (blocks[p->block].errors[0] + blocks[p->block].errors[1]) / n;
    }
    map_done(&index);
    return r;
}

/* How far the older side's level moves without a new version: between the halves of its time, beyond what the
 * noise of requests would make of it. Only where the sides are not of the same time. */
static double find_time_spread(struct model *m)
{
    struct slot_sum slots[BOOK_SLOTS_MAX + 2];
    double n[2] = {0}, sum[2] = {0}, noise = 0, older = 0, so_far = 0;
    size_t count = sum_slots(m, slots, ARRAY_SIZE(slots)), used = 0;
    uint32_t middle = 0;
    for (size_t i = 0; i < count; i++) {
        older += slots[i].older;
        used += slots[i].older > 0;
    }
    if (used < PLACEBO_SLOTS)
        return 0;
    for (size_t i = 0; i < count; i++) {
        so_far += slots[i].older;
        if (so_far <= older / 2)
            middle = slots[i].slot;
    }
    array_foreach (&m->pieces, p) {
        if (p->newer)
            continue;
        int half = p->stratum->slot > middle;
        n[half] += p->n;
        sum[half] += p->n * (p->mean - m->hosts.at[p->host_at].value - m->classes.at[p->class_at].value);
        noise += p->variance * p->n;
    }
    if (n[0] < BLOCK_OLDER_MIN || n[1] < BLOCK_OLDER_MIN)
        return 0;
    double moved = sum[1] / n[1] - sum[0] / n[0];
    double chance = noise / (n[0] + n[1]) * (1 / n[0] + 1 / n[1]);
    return moved * moved > 4 * chance ? sqrt(moved * moved - chance) : 0;
}

int match_sides(const struct group *const *older, size_t older_count, const struct group *const *newer,
                size_t newer_count, const struct match_settings *settings, struct match *ret_match)
{
    struct model *m = calloc(1, sizeof(*m));
    struct match match = {.mix_class = BOOK_NONE};
    int r = m ? collect(m, older, older_count, false) : -ENOMEM;
    if (r == 0)
        r = collect(m, newer, newer_count, true);
    if (r == 0)
        r = number_effects(m);
    if (r == 0) {
        choose_time(m, settings, &match);
        fit(m);
        weigh_mix(m, &match);
        match.time_spread = match.concurrent ? 0 : find_time_spread(m);
        r = standardise(m, false, &match.older);
    }
    if (r == 0)
        r = standardise(m, true, &match.newer);
    if (r == 0)
        r = count_errors(m, &match);
    if (m) {
        array_done(&m->pieces);
        array_done(&m->hosts);
        array_done(&m->classes);
        free(m);
    }
    if (r < 0)
        match_done(&match);
    else
        *ret_match = match;
    return r;
}

static void clusters_done(struct clusters *clusters)
{
    array_foreach (&clusters->sketches, s)
        sketch_done(s);
    array_done(&clusters->list);
    array_done(&clusters->sketches);
}

void match_done(struct match *match)
{
    clusters_done(&match->older);
    clusters_done(&match->newer);
    array_done(&match->errors);
}
