/* Attributes of low cardinality, as small numbers: keys, their values, and sets of (key, value) pairs that
 * many spans share. A key with too many values (a request id, a URL) is folded: it leaves the sets, and is
 * said. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_LABELS_H
#define SPAN_LABELS_H

#include "span/names.h"

#define LABELS_VALUES_MAX  200    /* of one key, before it is folded */
#define LABELS_KEYS_MAX    512    /* further keys are left out and counted */
#define LABELS_SET_MAX     96     /* pairs in one set */
#define LABELS_SETS_MAX    200000 /* different sets; spans with others have none, and are counted */
#define LABELS_VALUE_BYTES 120    /* longer values are cut */

struct label {
    uint32_t key, value; /* value is numbered within its key */
};

struct label_key {
    struct names values;
    bool folded;
    uint64_t folded_uses; /* attributes left out since it was folded */
};

struct label_set {
    uint32_t first, count; /* among struct labels' pairs, ascending by key */
};

/* Zero-initialise to use; labels_done() when finished. Set 0 is the empty set. */
struct labels {
    struct names keys;
    ARRAY(struct label_key) key_info;
    ARRAY(struct label) pairs;
    ARRAY(struct label_set) sets;
    struct map set_by_hash;
    uint64_t keys_left_out;
    uint64_t sets_left_out; /* uses */
};

/* The numbers of a key and its value. False when the key is folded, or there is no room for it. */
bool labels_put(struct labels *labels, struct slice key, struct slice value, struct label *ret_label);

/* The set of these pairs, which are sorted in place; later pairs of one key are dropped. -ENOMEM. */
int labels_set(struct labels *labels, struct label *pairs, size_t count, uint32_t *ret_set);

const struct label *labels_of(const struct labels *labels, uint32_t set, size_t *ret_count);

/* The value that a set has for a key, or NAMES_NONE. */
uint32_t labels_value(const struct labels *labels, uint32_t set, uint32_t key);

const char *labels_key_name(const struct labels *labels, uint32_t key);
const char *labels_value_name(const struct labels *labels, uint32_t key, uint32_t value);
void labels_done(struct labels *labels);

#endif
