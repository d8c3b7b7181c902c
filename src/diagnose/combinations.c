/* See combinations.h. The requests of a side are counted for every set of keys at once: a combination's place
 * is the number that its values are the digits of. Weights are the best ones for an effect that is known
 * (Roeder and Wasserman, Statistical Science 24, 2009), here a slow-down of two times; more requests than
 * that takes weigh no less, and the fewest still weigh something, since slow-downs may be larger. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/combinations.h"

#include <errno.h>
#include <math.h>

#include "base/macro.h"
#include "diagnose/stats.h"

#define KEYS_MAX   128     /* further ones are not combined with each other */
#define PLACES_MAX 65536   /* combinations of one set of keys that are counted one by one */
#define WORK_MAX   4000000 /* cells times sets of keys */
#define NO_VALUE   UINT16_MAX
#define WEIGHT_MIN 0.05
#define NEEDED     4.8 /* standard errors that one among thousands of combinations takes */

struct key {
    uint32_t key;
    uint32_t values;
};

struct counting {
    const struct excess_list *list;
    struct key keys[KEYS_MAX];
    size_t key_count;
    size_t cells, newer;
    uint16_t *digits; /* by cell and key: which of the key's values; or NO_VALUE */
    double *requests; /* by place: of the newer side, then of the older one */
    double most;      /* combinations of one set of keys that the requests suffice for */
    const struct combination_limits *limits;
};

static const struct excess *cell_at(const struct counting *c, size_t i)
{
    return i < c->newer ? &c->list->cells.at[i] : &c->list->older.at[i - c->newer];
}

static size_t find_key(struct counting *c, uint32_t key)
{
    size_t k = 0;
    while (k < c->key_count && c->keys[k].key != key)
        k++;
    if (k == c->key_count && k < KEYS_MAX)
        c->keys[c->key_count++].key = key;
    return k;
}

double combinations_weight(const struct combination_limits *limits, double newer, double older)
{
    double seen = log(2) * sqrt(newer * older / (newer + older) / limits->noise);
    if (limits->noise <= 0 || seen >= NEEDED)
        return 1;
    double best = stats_normal_above(seen / 2 + NEEDED * NEEDED / 2 / seen) / stats_normal_above(NEEDED);
    return WEIGHT_MIN + (1 - WEIGHT_MIN) * best;
}

/* Which value of which key a cell has. */
static int find_digits(struct counting *c, const struct book *book, const struct label *values, size_t count)
{
    struct map digit_of = {0}; /* key << 32 | value: index of the key << 32 | digit */
    int r = 0;
    for (size_t v = 0; v < count; v++) {
        size_t k = find_key(c, values[v].key);
        if (k == KEYS_MAX)
            continue;
        uint64_t *slot = map_put(&digit_of, (uint64_t)values[v].key << 32 | values[v].value, NULL);
        if (!slot)
            r = -ENOMEM;
        else
            *slot = (uint64_t)k << 32 | c->keys[k].values++;
    }
    c->digits = malloc(c->cells * (c->key_count + 1) * sizeof(*c->digits));
    if (!c->digits)
        r = -ENOMEM;
    for (size_t i = 0; r == 0 && i < c->cells; i++) {
        uint16_t *digits = c->digits + i * c->key_count;
        size_t pairs_count;
        const struct label *pairs = labels_of(book->labels, cell_at(c, i)->labels, &pairs_count);
        for (size_t k = 0; k < c->key_count; k++)
            digits[k] = NO_VALUE;
        for (size_t p = 0; p < pairs_count; p++) {
            const uint64_t *slot = map_get(&digit_of, (uint64_t)pairs[p].key << 32 | pairs[p].value);
            if (slot && (uint32_t)*slot < NO_VALUE)
                digits[*slot >> 32] = (uint16_t)*slot;
        }
    }
    map_done(&digit_of);
    return r;
}

/* Weights of the combinations of values of these keys. */
static double weight_of(struct counting *c, const size_t *keys, size_t length, bool exactly)
{
    double places = 1, found = 0;
    for (size_t i = 0; i < length; i++)
        places *= c->keys[keys[i]].values;
    if (!exactly || places > PLACES_MAX)
        return fmin(places, c->most);
    memset(c->requests, 0, 2 * (size_t)places * sizeof(*c->requests));
    for (size_t i = 0; i < c->cells; i++) {
        const uint16_t *digits = c->digits + i * c->key_count;
        size_t place = 0;
        bool has_all = true;
        for (size_t k = 0; k < length; k++) {
            has_all &= digits[keys[k]] != NO_VALUE;
            place = place * c->keys[keys[k]].values + digits[keys[k]];
        }
        if (has_all)
            c->requests[(i < c->newer ? 0 : (size_t)places) + place] += cell_at(c, i)->n;
    }
    for (size_t p = 0; p < (size_t)places; p++) {
        double newer = c->requests[p], older = c->requests[(size_t)places + p];
        if (newer >= c->limits->least && older >= c->limits->least)
            found += combinations_weight(c->limits, newer, older);
    }
    return found;
}

static void weigh_all(struct counting *c, double *weights)
{
    size_t n = c->key_count, keys[CAUSE_LENGTH_MAX];
    double pairs = (double)n * (double)(n - 1) / 2, triples = pairs * ((double)n - 2) / 3;
    bool exactly[] = {true, true, pairs * (double)c->cells <= WORK_MAX,
                      triples * (double)c->cells <= WORK_MAX};
    for (keys[0] = 0; keys[0] < n; keys[0]++) {
        weights[1] += weight_of(c, keys, 1, exactly[1]);
        for (keys[1] = keys[0] + 1; keys[1] < n; keys[1]++) {
            weights[2] += weight_of(c, keys, 2, exactly[2]);
            for (keys[2] = keys[1] + 1; keys[2] < n; keys[2]++)
                weights[3] += weight_of(c, keys, 3, exactly[3]);
        }
    }
}

int combinations_weigh(const struct book *book, const struct excess_list *list, const struct label *values,
                       size_t value_count, const struct combination_limits *limits, double *ret_weights)
{
    struct counting *c = calloc(1, sizeof(*c));
    double newer = 0, older = 0, weights[CAUSE_LENGTH_MAX + 1] = {0};
    if (!c)
        return -ENOMEM;
    c->list = list;
    c->limits = limits;
    c->newer = list->cells.count;
    c->cells = list->cells.count + list->older.count;
    array_foreach (&list->cells, e)
        newer += e->n;
    array_foreach (&list->older, e)
        older += e->n;
    c->most = floor(fmin(newer, older) / limits->least);
    c->requests = malloc(2 * PLACES_MAX * sizeof(*c->requests));
    int r = c->requests ? find_digits(c, book, values, value_count) : -ENOMEM;
    if (r == 0) {
        weigh_all(c, weights);
        memcpy(ret_weights, weights, sizeof(weights));
    }
    free(c->digits);
    free(c->requests);
    free(c);
    return r;
}
