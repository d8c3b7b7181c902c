/* See match.h. The older side's log latency is fitted as a sum of effects of host, time, each attribute's
 * value, the sub-operations, and what a class has beyond those, each shrunk towards zero by a few requests
 * (backfitting, Buja, Hastie and Tibshirani, Annals of Statistics 1989); all but the hosts' are taken out of
 * both sides. Where one side has much more of a slot of time than the other, it counts less there. Errors are
 * compared within strata of time as Mantel and Haenszel do (JNCI 1959). */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/macro.h"
#include "diagnose/match_model.h"

#define ROUNDS          12
#define SHRINK          5.0
#define CLASS_HOSTS_MIN 2 /* of the older side, before a class' effect is told from a host's */
#define BINS_PER_LOG    (64 / 0.69314718055994530942)

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
                                      .weight = 1,
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

/* Of each bin that share of the requests: carry is what is left over of the bins before (systematic
 * sampling), so that quantiles stay what they are. */
static int add_shifted(struct sketch *to, const struct sketch *from, double by, double share, double *carry)
{
    long shift = lround(by * BINS_PER_LOG);
    uint16_t first, end;
    if (shift == 0 && share >= 1)
        return sketch_merge(to, from);
    sketch_range(from, &first, &end);
    for (unsigned bin = first; bin < end; bin++) {
        long at = (long)bin + shift;
        double wanted = (double)sketch_bin_count(from, (uint16_t)bin) * share + *carry;
        uint64_t count = (uint64_t)floor(wanted + 1e-9);
        *carry = fmax(wanted - (double)count, 0);
        int r = count ? sketch_add_bin(to, (uint16_t)MAX(0L, MIN(at, (long)SKETCH_BINS - 1)), count) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

static int standardise(struct model *m, bool newer, struct clusters *to)
{
    struct map index = {0};
    ARRAY(double) carries = {0};
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
            if (r == 0)
                r = array_add(&carries, 0.5);
        }
        if (r == 0)
            r = add_shifted(&to->sketches.at[*slot], &p->stratum->latency,
                            -m->blocks[p->block].value - m->classes.at[p->class_at].level, p->weight,
                            &carries.at[*slot]);
    }
    for (size_t i = 0; r == 0 && i < to->list.count; i++)
        to->list.at[i].latency = &to->sketches.at[i];
    array_done(&carries);
    map_done(&index);
    return r;
}

static int count_errors(const struct model *m, struct match *match)
{
    struct {
        double n[2], errors[2];
    } blocks[MATCH_BLOCKS_ROOM] = {0};
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
        r = match_choose_time(m, settings, &match);
    if (r == 0)
        r = fit(m);
    if (r == 0) {
        weigh_mix(m, &match);
        r = match.concurrent ? 0 : match_find_spread(m, &match);
    }
    if (r == 0)
        r = standardise(m, false, &match.older);
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
