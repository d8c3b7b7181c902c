/* See labels.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/labels.h"

#include "base/macro.h"

static bool key_number(struct labels *labels, struct slice key, uint32_t *ret_key)
{
    uint32_t number = names_find(&labels->keys, key);
    if (number == NAMES_NONE) {
        if (labels->key_info.count >= LABELS_KEYS_MAX) {
            labels->keys_left_out++;
            return false;
        }
        if (array_add(&labels->key_info, (struct label_key){0}) < 0)
            return false;
        number = names_put(&labels->keys, key);
        if (number == NAMES_NONE) {
            labels->key_info.count--;
            return false;
        }
    }
    *ret_key = number;
    return true;
}

bool labels_put(struct labels *labels, struct slice key, struct slice value, struct label *ret_label)
{
    uint32_t number;
    if (!key_number(labels, key, &number))
        return false;
    struct label_key *info = &labels->key_info.at[number];
    if (info->folded) {
        info->folded_uses++;
        return false;
    }
    value.length = MIN(value.length, (size_t)LABELS_VALUE_BYTES);
    uint32_t found = names_find(&info->values, value);
    if (found == NAMES_NONE) {
        if (info->values.strings.count >= LABELS_VALUES_MAX) {
            info->folded = true;
            info->folded_uses++;
            return false;
        }
        found = names_put(&info->values, value);
        if (found == NAMES_NONE)
            return false;
    }
    *ret_label = (struct label){number, found};
    return true;
}

static int by_key(const void *a, const void *b)
{
    const struct label *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key;
}

/* Insertion sort keeps the order of equal keys, and sets are small. */
static size_t sort_unique(struct label *pairs, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && by_key(&pairs[j - 1], &pairs[j]) > 0; j--) {
            struct label swap = pairs[j];
            pairs[j] = pairs[j - 1];
            pairs[j - 1] = swap;
        }
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (n == 0 || pairs[n - 1].key != pairs[i].key)
            pairs[n++] = pairs[i];
    return n;
}

int labels_set(struct labels *labels, struct label *pairs, size_t count, uint32_t *ret_set)
{
    if (labels->sets.count == 0 && array_add(&labels->sets, (struct label_set){0}) < 0)
        return -ENOMEM;
    count = sort_unique(pairs, MIN(count, (size_t)LABELS_SET_MAX));
    if (count == 0) {
        *ret_set = 0;
        return 0;
    }
    uint64_t key = map_hash(pairs, count * sizeof(*pairs));
    uint64_t *known;
    for (; (known = map_get(&labels->set_by_hash, key)); key++) {
        const struct label_set *set = &labels->sets.at[*known];
        if (set->count == count &&
            memcmp(labels->pairs.at + set->first, pairs, count * sizeof(*pairs)) == 0) {
            *ret_set = (uint32_t)*known;
            return 0;
        }
    }
    if (labels->sets.count >= LABELS_SETS_MAX) {
        labels->sets_left_out++;
        *ret_set = 0;
        return 0;
    }
    struct label_set set = {(uint32_t)labels->pairs.count, (uint32_t)count};
    for (size_t i = 0; i < count; i++)
        if (array_add(&labels->pairs, pairs[i]) < 0)
            return -ENOMEM;
    if (array_add(&labels->sets, set) < 0 || !(known = map_put(&labels->set_by_hash, key, NULL)))
        return -ENOMEM;
    *known = labels->sets.count - 1;
    *ret_set = (uint32_t)*known;
    return 0;
}

const struct label *labels_of(const struct labels *labels, uint32_t set, size_t *ret_count)
{
    if (set >= labels->sets.count || !labels->sets.at[set].count) {
        *ret_count = 0;
        return NULL;
    }
    *ret_count = labels->sets.at[set].count;
    return labels->pairs.at + labels->sets.at[set].first;
}

uint32_t labels_value(const struct labels *labels, uint32_t set, uint32_t key)
{
    size_t count;
    const struct label *pairs = labels_of(labels, set, &count);
    for (size_t i = 0; i < count; i++)
        if (pairs[i].key == key)
            return pairs[i].value;
    return NAMES_NONE;
}

const char *labels_key_name(const struct labels *labels, uint32_t key)
{
    return names_get(&labels->keys, key);
}

const char *labels_value_name(const struct labels *labels, uint32_t key, uint32_t value)
{
    return key < labels->key_info.count ? names_get(&labels->key_info.at[key].values, value) : "";
}

void labels_done(struct labels *labels)
{
    array_foreach (&labels->key_info, info)
        names_done(&info->values);
    names_done(&labels->keys);
    array_done(&labels->key_info);
    array_done(&labels->pairs);
    array_done(&labels->sets);
    map_done(&labels->set_by_hash);
}
