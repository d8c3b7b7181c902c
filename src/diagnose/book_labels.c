/* The attributes of requests and entries: which of them count for what. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/macro.h"
#include "diagnose/book_parts.h"

#define UNITED_MAX    200000 /* label sets that are remembered united */
#define VALUES_JOINED 3      /* different values of one key in a request, before they are "(mixed)" */
#define CLASS_VALUES  150    /* of a key that makes classes */

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* One value of a key in a request: itself, "a + b", or "(mixed)". */
static int join_values(struct book *book, uint32_t key, uint32_t *values, size_t count,
                       struct label *ret_label)
{
    *ret_label = (struct label){key, values[0]};
    if (count == 1)
        return 1;
    struct text words = {0};
    qsort(values, count, sizeof(*values), by_number);
    for (size_t i = 0; i < count && count <= VALUES_JOINED; i++) {
        text_add(&words, i ? " + " : "");
        text_add(&words, labels_value_name(book->labels, key, values[i]));
    }
    if (count > VALUES_JOINED)
        text_add(&words, "(mixed)");
    bool put = !words.failed && labels_put(book->labels, slice_of(labels_key_name(book->labels, key)),
                                           slice_of(text_get(&words)), ret_label);
    text_done(&words);
    return put;
}

/* Keys that differ between versions or instances by their nature explain nothing, and would split the cells.
 */
static bool is_identity(const char *key)
{
    static const char *const beginnings[] = {"process.",    "container.", "telemetry.", "sonde.recording",
                                             "host.name",   "host.id",    "hostname",   "k8s.pod.",
                                             "ip.",         "http.url",   "url.",       "http.host",
                                             "http.target", "net.",       "network.",   "server.",
                                             "client.",     "peer.",      "thread."};
    for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++)
        if (strncmp(key, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return strstr(key, "version") || strstr(key, "instance.id") || strstr(key, "user_agent");
}

static int unite_labels(struct book *book, const uint32_t *sets, size_t count, uint32_t *ret_set)
{
    struct label all[512], united[LABELS_SET_MAX];
    size_t n = 0, m = 0;
    for (size_t s = 0; s < count; s++) {
        size_t pairs;
        const struct label *from = labels_of(book->labels, sets[s], &pairs);
        for (size_t i = 0; i < pairs; i++) {
            size_t k = 0;
            while (k < n && (all[k].key != from[i].key || all[k].value != from[i].value))
                k++;
            if (k == n && n < ARRAY_SIZE(all))
                all[n++] = from[i];
        }
    }
    for (size_t i = 0; i < n && m < LABELS_SET_MAX; i++) {
        uint32_t values[VALUES_JOINED + 1];
        size_t different = 0;
        bool first = !is_identity(labels_key_name(book->labels, all[i].key));
        for (size_t k = 0; first && k < i; k++)
            first &= all[k].key != all[i].key;
        for (size_t k = i; first && k < n; k++)
            if (all[k].key == all[i].key && different <= VALUES_JOINED)
                values[different++] = all[k].value;
        if (different && join_values(book, all[i].key, values, different, &united[m]) > 0)
            m++;
    }
    return labels_set(book->labels, united, m, ret_set);
}

/* The request's attributes: those of all its spans. Most requests have one of few sequences of sets. */
int book_request_labels(struct book *book, const struct trace *trace, uint32_t *ret_set)
{
    uint32_t sets[64];
    size_t n = 0;
    for (size_t i = 0; i < trace->count; i++) {
        size_t k = 0;
        while (k < n && sets[k] != trace->parts[i].labels)
            k++;
        if (k == n && n < ARRAY_SIZE(sets))
            sets[n++] = trace->parts[i].labels;
    }
    qsort(sets, n, sizeof(*sets), by_number);
    bool added;
    if (book->labels_of_sets.count >= UNITED_MAX)
        map_clear(&book->labels_of_sets);
    uint64_t *slot = map_put(&book->labels_of_sets, map_hash(sets, n * sizeof(*sets)), &added);
    if (!slot)
        return -ENOMEM;
    if (added) {
        uint32_t set;
        int r = unite_labels(book, sets, n, &set);
        if (r < 0)
            return r;
        *slot = set;
    }
    *ret_set = (uint32_t)*slot;
    return 0;
}

/* Only the pairs whose keys requests are bucketed by. */
int book_bucket_labels(struct book *book, uint32_t labels, uint32_t *ret_set)
{
    struct label pairs[16];
    size_t n = 0;
    for (const char *const *key = book->settings.bucket_by; *key && n < ARRAY_SIZE(pairs); key++) {
        uint32_t number = names_find(&book->labels->keys, slice_of(*key));
        uint32_t value = number == NAMES_NONE ? NAMES_NONE : labels_value(book->labels, labels, number);
        if (value != NAMES_NONE)
            pairs[n++] = (struct label){number, value};
    }
    return labels_set(book->labels, pairs, n, ret_set);
}

int book_entry_labels(struct book *book, uint32_t own, uint32_t request, uint32_t *ret_set)
{
    uint32_t identity[3] = {own, request, UINT32_MAX};
    bool added;
    uint64_t *slot = map_put(&book->labels_of_sets, map_hash(identity, sizeof(identity)), &added);
    if (!slot)
        return -ENOMEM;
    if (added) {
        struct label pairs[LABELS_SET_MAX];
        size_t n = 0, own_count, request_count;
        const struct label *of_own = labels_of(book->labels, own, &own_count);
        const struct label *of_request = labels_of(book->labels, request, &request_count);
        for (size_t i = 0; i < own_count && n < ARRAY_SIZE(pairs); i++)
            if (!is_identity(labels_key_name(book->labels, of_own[i].key)))
                pairs[n++] = of_own[i];
        size_t kept = n;
        for (size_t i = 0; i < request_count && n < ARRAY_SIZE(pairs); i++) {
            bool has = false;
            for (size_t k = 0; k < kept; k++)
                has |= pairs[k].key == of_request[i].key;
            if (!has)
                pairs[n++] = of_request[i];
        }
        uint32_t set;
        int r = labels_set(book->labels, pairs, n, &set);
        if (r < 0)
            return r;
        *slot = set;
    }
    *ret_set = (uint32_t)*slot;
    return 0;
}

bool book_is_outcome(const char *key)
{
    static const char *const parts[] = {"status", "error",    "exception", "retr",    "cache", "hit",
                                        "result", "response", "duration",  "latency", "otel.", "sonde."};
    if (strncmp(key, "feature", 7) == 0)
        return false; /* a switch, whatever it is for */
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        if (strstr(key, parts[i]))
            return true;
    return false;
}

int book_class_labels(struct book *book, uint32_t labels, uint32_t *ret_set)
{
    bool added;
    uint64_t *slot = map_put(&book->labels_of_class, labels, &added);
    if (!slot)
        return -ENOMEM;
    if (added) {
        struct label pairs[LABELS_SET_MAX];
        size_t n = 0, count;
        const struct label *from = labels_of(book->labels, labels, &count);
        for (size_t i = 0; i < count && n < ARRAY_SIZE(pairs); i++) {
            const struct label_key *info = &book->labels->key_info.at[from[i].key];
            if (!info->folded && info->values.strings.count <= CLASS_VALUES &&
                !book_is_outcome(labels_key_name(book->labels, from[i].key)))
                pairs[n++] = from[i];
        }
        uint32_t set;
        int r = labels_set(book->labels, pairs, n, &set);
        if (r < 0)
            return r;
        *slot = set;
    }
    *ret_set = (uint32_t)*slot;
    return 0;
}
