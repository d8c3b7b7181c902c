/* See match.h. The older side's log latency is fitted as a sum of effects of host, time, each attribute's
 * value, the sub-operations, and what a class has beyond those, each shrunk towards zero by a few requests
 * (backfitting, Buja, Hastie and Tibshirani, Annals of Statistics 1989); all but the hosts' are taken out of
 * both sides. Errors are compared within strata of time as Mantel and Haenszel do (JNCI 1959). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/match.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/macro.h"

#define ROUNDS          12
#define SHRINK          5.0
#define BLOCK_OLDER_MIN 25 /* requests of either side in a block of time */
#define BLOCK_NEWER_MIN 10
#define OVERLAP_SHARE   0.5 /* of the newer side's requests that ran beside the older side's */
#define STARTING_SHARE  0.1 /* of the newer side's requests, on hosts that have just got it */
#define SHARED_SLOTS    3   /* of the time that both sides share, where that is less */
#define STILL_RUNS_MIN  10
#define CLASS_HOSTS_MIN 2 /* of the older side, before a class' effect is told from a host's */
#define PLACEBO_SLOTS   6
#define MOVED_MIN       2.0 /* standard errors, from which the level of the older side moved */
#define GROWN_MIN       3.5 /* the same where many places were looked at */
#define BINS_PER_LOG    (64 / 0.69314718055994530942)
#define BLOCKS_ROOM     BOOK_SLOTS_MAX

/* One stratum of one host, with its places in the model. */
struct piece {
    const struct stratum *stratum;
    bool newer;
    uint32_t host;
    uint32_t host_at, class_at; /* indices of effects */
    uint32_t block;             /* of time; BOOK_NONE: not compared */
    bool starting;              /* left out: the host has only just got the newer version */
    double n, mean, variance;
};

struct effect {
    double n, value;
    uint32_t hosts; /* of the older side that it was seen on */
    double n_newer;
};

/* One value of one attribute, or (key NAMES_NONE) one set of sub-operations. */
struct trait {
    uint32_t key, value;
    struct effect effect;
};

/* A class that either side has: its traits stand together in class_traits. */
struct known_class {
    uint32_t number;
    uint32_t first, count;
    double level;      /* of its traits and its own effect together */
    struct effect own; /* beyond its traits */
};

struct model {
    ARRAY(struct piece) pieces;
    ARRAY(struct effect) hosts;
    ARRAY(struct known_class) classes;
    ARRAY(struct trait) traits;
    ARRAY(uint32_t) class_traits;
    ARRAY(uint32_t) keys; /* that traits are of */
    struct effect blocks[BLOCKS_ROOM];
    size_t block_count;
    double all;
    size_t older_hosts;
};

/* The index of a key, which gets the next one when it is new. */
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

static int add_trait(struct model *m, struct map *index, uint32_t key, uint32_t value)
{
    bool added;
    uint64_t *slot = map_put(index, (uint64_t)key << 32 | value, &added);
    if (!slot)
        return -ENOMEM;
    if (added) {
        bool known = false;
        *slot = m->traits.count;
        if (array_add(&m->traits, (struct trait){.key = key, .value = value}) < 0)
            return -ENOMEM;
        array_foreach (&m->keys, k)
            known |= *k == key;
        if (!known && array_add(&m->keys, key) < 0)
            return -ENOMEM;
    }
    return array_add(&m->class_traits, (uint32_t)*slot);
}

/* The classes' traits: values of attributes, and sub-operations. */
static int list_traits(const struct book *book, struct model *m)
{
    struct map index = {0};
    int r = 0;
    array_foreach (&m->classes, known) {
        size_t n = 0;
        /* Of the others (0) nothing is known, also not that they have no sub-operations. */
        const struct class *class = known->number > 0 && known->number < book->classes.count
                                        ? &book->classes.at[known->number]
                                        : NULL;
        const struct label *pairs = class ? labels_of(book->labels, class->labels, &n) : NULL;
        known->first = (uint32_t)m->class_traits.count;
        for (size_t i = 0; r == 0 && i < n; i++)
            r = add_trait(m, &index, pairs[i].key, pairs[i].value);
        if (r == 0 && class)
            r = add_trait(m, &index, NAMES_NONE, (uint32_t)(class->parts ^ class->parts >> 32));
        known->count = (uint32_t)m->class_traits.count - known->first;
    }
    map_done(&index);
    return r;
}

/* On how many of the older side's hosts a trait or a class was seen. */
static int count_hosts(struct model *m)
{
    struct map seen = {0};
    bool added;
    int r = 0;
    array_foreach (&m->pieces, p) {
        if (p->newer || r < 0)
            continue;
        struct known_class *class = &m->classes.at[p->class_at];
        uint64_t host = (uint64_t)p->host_at << 32;
        if (map_put(&seen, host | p->class_at, &added))
            class->own.hosts += added;
        if (!added)
            continue;
        for (uint32_t i = 0; i < class->count; i++) {
            uint32_t trait = m->class_traits.at[class->first + i];
            if (!map_put(&seen, host | 0x80000000u | trait, &added))
                r = -ENOMEM;
            else
                m->traits.at[trait].effect.hosts += added;
        }
        if (map_put(&seen, host | 0x7fffffffu, &added))
            m->older_hosts += added;
    }
    map_done(&seen);
    return r;
}

static int number_effects(const struct book *book, struct model *m)
{
    struct map hosts = {0}, classes = {0};
    size_t host_count = 0, class_count = 0;
    int r = 0;
    array_foreach (&m->pieces, p) {
        size_t known = class_count;
        if (r == 0)
            r = find_effect(&hosts, p->host, &p->host_at, &host_count);
        if (r == 0)
            r = find_effect(&classes, p->stratum->class, &p->class_at, &class_count);
        if (r == 0 && class_count > known)
            r = array_add(&m->classes, (struct known_class){.number = p->stratum->class});
    }
    for (size_t i = 0; r == 0 && i < host_count; i++)
        r = array_add(&m->hosts, (struct effect){0});
    map_done(&hosts);
    map_done(&classes);
    if (r == 0)
        r = list_traits(book, m);
    return r < 0 ? r : count_hosts(m);
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
        if (p->starting || (k == n && n == room))
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

/* A host that has just got another version warms up, and so do its caches: where that is not so of the older
 * side at the same time, the slot of time in which it did is left out. Where that is much of the newer side's
 * time, only if asked to. */
static int leave_out_starting(struct model *m, bool however_much)
{
    _cleanup_(freep) uint32_t *first = malloc((m->hosts.count + 1) * sizeof(*first));
    double newer = 0, starting = 0;
    if (!first)
        return -ENOMEM;
    memset(first, 0xff, (m->hosts.count + 1) * sizeof(*first));
    array_foreach (&m->pieces, p)
        if (p->newer)
            first[p->host_at] = MIN(first[p->host_at], p->stratum->slot);
    array_foreach (&m->pieces, p) {
        newer += p->newer ? p->n : 0;
        starting += p->newer && p->stratum->slot == first[p->host_at] ? p->n : 0;
    }
    if (!however_much && starting > STARTING_SHARE * newer)
        return 0;
    array_foreach (&m->pieces, p)
        p->starting = p->newer && p->stratum->slot == first[p->host_at];
    return 0;
}

/* Whether both sides ran beside each other for most of the newer one's time, or long enough. Blocks are
 * slots, or several in a row, in which either side has enough requests. */
static int choose_time(struct model *m, const struct match_settings *settings, struct match *match)
{
    struct slot_sum slots[BOOK_SLOTS_MAX + 2];
    int r = settings->shared_time ? leave_out_starting(m, true) : 0;
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
    bool shares =
        overlapping >= SHARED_SLOTS && fmin(older_beside, newer_beside) >= (double)settings->requests_min;
    match->concurrent = beside && older_beside >= fmin((double)settings->requests_min, older);
    match->shares_time = shares && !match->concurrent && !settings->shared_time;
    match->concurrent |= settings->shared_time && shares;
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
    if (r == 0 && !match->concurrent)
        r = leave_out_starting(m, false);
    m->block_count = match->concurrent ? MAX(block, 1u) : 1;
    array_foreach (&m->pieces, p)
        p->block = p->starting ? BOOK_NONE : match->concurrent ? block_of(slots, n, p->stratum->slot) : 0;
    return r;
}

/* ---- the model ---- */

static bool is_known(const struct model *m, const struct effect *e)
{
    return e->hosts >= MIN((size_t)CLASS_HOSTS_MIN, m->older_hosts);
}

/* What a piece's mean leaves unexplained. */
static double rest_of(const struct model *m, const struct piece *p)
{
    return p->mean - m->all - m->hosts.at[p->host_at].value - m->blocks[p->block].value -
           m->classes.at[p->class_at].level;
}

static bool is_fitted(const struct piece *p)
{
    return !p->newer && p->block != BOOK_NONE;
}

static void begin_effects(struct effect *list, size_t count, size_t stride)
{
    for (size_t i = 0; i < count; i++) {
        struct effect *e = (struct effect *)(void *)((char *)list + i * stride);
        e->n = e->n_newer = 0; /* n_newer: the sum of the rests, meanwhile */
    }
}

static double end_effect(struct effect *e)
{
    double before = e->value;
    e->value = e->n_newer / (e->n + SHRINK);
    e->n_newer = 0;
    return e->value - before;
}

static void add_rest(struct effect *e, const struct piece *p, double rest)
{
    e->n += p->n;
    e->n_newer += p->n * (rest + e->value);
}

static void fit_hosts(struct model *m)
{
    begin_effects(m->hosts.at, m->hosts.count, sizeof(struct effect));
    array_foreach (&m->pieces, p)
        if (is_fitted(p))
            add_rest(&m->hosts.at[p->host_at], p, rest_of(m, p));
    array_foreach (&m->hosts, e)
        end_effect(e);
}

static void fit_blocks(struct model *m)
{
    begin_effects(m->blocks, m->block_count, sizeof(struct effect));
    array_foreach (&m->pieces, p)
        if (is_fitted(p))
            add_rest(&m->blocks[p->block], p, rest_of(m, p));
    for (size_t b = 0; b < m->block_count; b++)
        end_effect(&m->blocks[b]);
}

/* Of one key: each class has at most one trait of it. */
static struct trait *trait_of(struct model *m, const struct known_class *class, uint32_t key)
{
    for (uint32_t i = 0; i < class->count; i++) {
        struct trait *trait = &m->traits.at[m->class_traits.at[class->first + i]];
        if (trait->key == key)
            return is_known(m, &trait->effect) ? trait : NULL;
    }
    return NULL;
}

static int fit_key(struct model *m, uint32_t key)
{
    _cleanup_(freep) struct trait **of_class = calloc(m->classes.count + 1, sizeof(*of_class));
    _cleanup_(freep) double *before = calloc(m->traits.count + 1, sizeof(*before));
    if (!of_class || !before)
        return -ENOMEM;
    for (size_t c = 0; c < m->classes.count; c++)
        of_class[c] = trait_of(m, &m->classes.at[c], key);
    for (size_t t = 0; t < m->traits.count; t++) {
        before[t] = m->traits.at[t].effect.value;
        if (m->traits.at[t].key == key)
            begin_effects(&m->traits.at[t].effect, 1, 0);
    }
    array_foreach (&m->pieces, p)
        if (is_fitted(p) && of_class[p->class_at])
            add_rest(&of_class[p->class_at]->effect, p, rest_of(m, p));
    array_foreach (&m->traits, trait)
        if (trait->key == key && is_known(m, &trait->effect))
            end_effect(&trait->effect);
    for (size_t c = 0; c < m->classes.count; c++)
        if (of_class[c])
            m->classes.at[c].level += of_class[c]->effect.value - before[of_class[c] - m->traits.at];
    return 0;
}

static void fit_classes(struct model *m)
{
    array_foreach (&m->classes, class)
        begin_effects(&class->own, 1, 0);
    array_foreach (&m->pieces, p)
        if (is_fitted(p) && is_known(m, &m->classes.at[p->class_at].own))
            add_rest(&m->classes.at[p->class_at].own, p, rest_of(m, p));
    array_foreach (&m->classes, class)
        if (is_known(m, &class->own))
            class->level += end_effect(&class->own);
}

static int fit(struct model *m)
{
    double n = 0, sum = 0;
    int r = 0;
    array_foreach (&m->pieces, p)
        if (is_fitted(p)) {
            n += p->n;
            sum += p->n * p->mean;
        }
    m->all = n > 0 ? sum / n : 0;
    for (int round = 0; r == 0 && round < ROUNDS; round++) {
        fit_hosts(m);
        fit_blocks(m);
        array_foreach (&m->keys, key)
            if (r == 0)
                r = fit_key(m, *key);
        fit_classes(m);
    }
    return r;
}

/* How much of the difference the newer side's mix makes, and which value of which attribute most of that. */
static void weigh_mix(struct model *m, struct match *match)
{
    double older = 0, newer = 0, most_of_key = 0;
    uint32_t best_key = NAMES_NONE;
    array_foreach (&m->traits, trait)
        begin_effects(&trait->effect, 1, 0);
    array_foreach (&m->pieces, p) {
        const struct known_class *class = &m->classes.at[p->class_at];
        if (p->block == BOOK_NONE)
            continue;
        *(p->newer ? &newer : &older) += p->n;
        for (uint32_t i = 0; i < class->count; i++) {
            struct effect *e = &m->traits.at[m->class_traits.at[class->first + i]].effect;
            *(p->newer ? &e->n_newer : &e->n) += p->n;
        }
    }
    if (older == 0 || newer == 0)
        return;
    array_foreach (&m->pieces, p)
        if (p->block != BOOK_NONE)
            match->mix += (p->newer ? p->n / newer : -p->n / older) * m->classes.at[p->class_at].level;
    array_foreach (&m->keys, key) {
        double part = 0;
        array_foreach (&m->traits, t)
            part += t->key == *key ? (t->effect.n_newer / newer - t->effect.n / older) * t->effect.value : 0;
        if (part > most_of_key) {
            most_of_key = part;
            best_key = *key;
        }
    }
    double most = 0;
    array_foreach (&m->traits, t) {
        double part = (t->effect.n_newer / newer - t->effect.n / older) * t->effect.value;
        if (t->key != best_key || part <= most || t->effect.n_newer / newer <= t->effect.n / older)
            continue;
        most = part;
        match->mix_label = (struct label){t->key, t->value};
        match->mix_share_older = t->effect.n / older;
        match->mix_share_newer = t->effect.n_newer / newer;
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
                            -m->blocks[p->block].value - m->classes.at[p->class_at].level);
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

/* The older side's level in order of time: requests and their summed log latency, host and class taken out.
 */
struct course {
    double n[BOOK_SLOTS_MAX + 2], sum[BOOK_SLOTS_MAX + 2], all, all_sum;
    double noise; /* variance of one request */
    size_t count;
};

static void find_course(const struct model *m, struct course *ret_course)
{
    struct slot_sum slots[BOOK_SLOTS_MAX + 2];
    struct course course = {.count = sum_slots(m, slots, ARRAY_SIZE(slots))};
    array_foreach (&m->pieces, p) {
        size_t at = 0;
        while (at < course.count && slots[at].slot != p->stratum->slot)
            at++;
        if (p->newer || at == course.count)
            continue;
        double level = p->mean - m->hosts.at[p->host_at].value - m->classes.at[p->class_at].level;
        course.n[at] += p->n;
        course.sum[at] += p->n * level;
        course.all += p->n;
        course.all_sum += p->n * level;
        course.noise += p->variance * p->n;
    }
    course.noise /= fmax(course.all, 1);
    *ret_course = course;
}

/* How far the older side's level moves without a new version, beyond what the noise of requests would make of
 * it: between the halves of its time, and from all of it to any last part of it, since what grew before the
 * newer version came did not grow because of it. Only where the sides are not of the same time. */
static double find_time_spread(const struct model *m)
{
    struct course course;
    double n = 0, sum = 0, spread = 0;
    size_t used = 0;
    bool halved = false;
    find_course(m, &course);
    for (size_t i = 0; i < course.count; i++)
        used += course.n[i] > 0;
    if (used < PLACEBO_SLOTS)
        return 0;
    for (size_t i = course.count; i-- > 1;) {
        n += course.n[i];
        sum += course.sum[i];
        double before = course.all - n;
        if (n < BLOCK_OLDER_MIN || before < BLOCK_OLDER_MIN)
            continue;
        double moved = sum / n - (course.all_sum - sum) / before;
        double chance = course.noise * (1 / n + 1 / before);
        if (!halved && before - course.n[i - 1] < course.all / 2) {
            halved = true;
            if (moved * moved > MOVED_MIN * MOVED_MIN * chance)
                spread = fmax(spread, sqrt(moved * moved - chance));
        }
        if (moved > 0 && moved * moved > GROWN_MIN * GROWN_MIN * chance)
            spread = fmax(spread, sqrt(moved * moved - chance) * before / course.all);
    }
    return spread;
}

int match_sides(const struct book *book, const struct group *const *older, size_t older_count,
                const struct group *const *newer, size_t newer_count, const struct match_settings *settings,
                struct match *ret_match)
{
    struct model *m = calloc(1, sizeof(*m));
    struct match match = {.mix_label.key = NAMES_NONE};
    int r = m ? collect(m, older, older_count, false) : -ENOMEM;
    if (r == 0)
        r = collect(m, newer, newer_count, true);
    if (r == 0)
        r = number_effects(book, m);
    if (r == 0)
        r = choose_time(m, settings, &match);
    if (r == 0)
        r = fit(m);
    if (r == 0) {
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
        array_done(&m->traits);
        array_done(&m->class_traits);
        array_done(&m->keys);
        free(m);
    }
    if (r < 0)
        match_done(&match);
    else
        *ret_match = match;
    return r;
}

void clusters_done(struct clusters *clusters)
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
