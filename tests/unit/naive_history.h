/* The model that the stores of src/history are compared with: for each attribute the plain list of its
 * changes, and every answer found by walking it. Slow and obvious. Also a generator of random changes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_NAIVE_HISTORY_H
#define TESTS_UNIT_NAIVE_HISTORY_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "history/history.h"
#include "test.h"

struct naive_change {
    uint64_t time_ns;
    struct history_value value;
};

typedef ARRAY(struct naive_change) naive_changes;

/* Every attribute's changes; the first is the null with which it begins. */
struct naive {
    naive_changes *attributes;
    uint32_t count;
    uint64_t start_ns, max_ns, end_ns;
};

static inline uint64_t random_next(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static inline uint64_t random_below(uint64_t *state, uint64_t bound)
{
    return random_next(state) % bound;
}

static inline void naive_init(struct naive *naive, uint32_t count, uint64_t start_ns)
{
    naive->attributes = calloc(count, sizeof(*naive->attributes));
    naive->count = count;
    naive->start_ns = naive->max_ns = start_ns;
    naive->end_ns = HISTORY_ONGOING;
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(array_add(&naive->attributes[i], (struct naive_change){start_ns, history_null()}),
                         0);
}

static inline void naive_done(struct naive *naive)
{
    for (uint32_t i = 0; i < naive->count; i++)
        array_done(&naive->attributes[i]);
    free(naive->attributes);
}

static inline void naive_modify(struct naive *naive, uint64_t time_ns, uint32_t quark,
                                struct history_value value)
{
    naive_changes *changes = &naive->attributes[quark];
    struct naive_change *last = &changes->at[changes->count - 1];
    if (history_value_equal(last->value, value))
        return;
    if (last->time_ns == time_ns)
        last->value = value;
    else
        assert_int_equal(array_add(changes, (struct naive_change){time_ns, value}), 0);
    if (time_ns > naive->max_ns)
        naive->max_ns = time_ns;
}

static inline struct history_interval naive_state(const struct naive *naive, uint32_t quark, size_t i)
{
    const naive_changes *changes = &naive->attributes[quark];
    uint64_t end_ns = i + 1 < changes->count ? changes->at[i + 1].time_ns : naive->end_ns;
    return (struct history_interval){changes->at[i].time_ns, end_ns, quark, changes->at[i].value};
}

/* The index of the change in force at a time. */
static inline size_t naive_at(const struct naive *naive, uint32_t quark, uint64_t time_ns)
{
    const naive_changes *changes = &naive->attributes[quark];
    size_t low = 0, high = changes->count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (changes->at[middle].time_ns <= time_ns)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static inline void assert_state_equal(const struct history_interval *a, const struct history_interval *b)
{
    if (a->quark == b->quark && a->start_ns == b->start_ns && a->end_ns == b->end_ns &&
        history_value_equal(a->value, b->value))
        return;
    fail_msg("attribute %u [%llu, %llu) type %d %lld, expected attribute %u [%llu, %llu) type %d %lld",
             a->quark, (unsigned long long)a->start_ns, (unsigned long long)a->end_ns, a->value.type,
             (long long)a->value.integer, b->quark, (unsigned long long)b->start_ns,
             (unsigned long long)b->end_ns, b->value.type, (long long)b->value.integer);
}

/* Compares states as a query hands them out with a list that was made before. */
struct expected_states {
    ARRAY(struct history_interval) states;
    size_t seen;
};

static inline int expect_state(void *context, const struct history_interval *state)
{
    struct expected_states *expected = context;
    assert_true(expected->seen < expected->states.count);
    assert_state_equal(state, &expected->states.at[expected->seen++]);
    return 0;
}

static inline void check_point(struct history *h, const struct naive *naive, uint32_t quark, uint64_t t)
{
    struct problem problem = {0};
    struct history_interval got, want;
    size_t i = naive_at(naive, quark, t);
    want = naive_state(naive, quark, i);
    if (history_query(h, quark, t, &got, &problem) != 0)
        fail_msg("%s", problem.what);
    assert_state_equal(&got, &want);

    int r = history_next_change(h, quark, t, &got, &problem);
    if (i + 1 < naive->attributes[quark].count) {
        assert_int_equal(r, 0);
        want = naive_state(naive, quark, i + 1);
        assert_state_equal(&got, &want);
    } else {
        assert_int_equal(r, -ENOENT);
    }
    r = history_previous_change(h, quark, t, &got, &problem);
    if (t == naive->start_ns) {
        assert_int_equal(r, -ENOENT);
    } else {
        assert_int_equal(r, 0);
        want = naive_state(naive, quark, naive_at(naive, quark, t - 1));
        assert_state_equal(&got, &want);
    }
}

static inline void check_full(struct history *h, const struct naive *naive, uint64_t t)
{
    struct problem problem = {0};
    struct history_interval *states = calloc(naive->count, sizeof(*states));
    if (history_query_full(h, t, states, &problem) != 0)
        fail_msg("%s", problem.what);
    for (uint32_t q = 0; q < naive->count; q++) {
        struct history_interval want = naive_state(naive, q, naive_at(naive, q, t));
        assert_state_equal(&states[q], &want);
    }
    free(states);
}

static inline void check_range(struct history *h, const struct naive *naive, uint32_t quark, uint64_t from,
                               uint64_t to)
{
    struct problem problem = {0};
    struct expected_states expected = {0};
    for (size_t i = 0; i < naive->attributes[quark].count; i++) {
        struct history_interval s = naive_state(naive, quark, i);
        if (s.start_ns < to && s.end_ns > from && s.start_ns < s.end_ns)
            assert_int_equal(array_add(&expected.states, s), 0);
    }
    if (history_query_range(h, quark, from, to, expect_state, &expected, &problem) != 0)
        fail_msg("%s", problem.what);
    assert_int_equal(expected.seen, expected.states.count);
    array_done(&expected.states);
}

static inline uint64_t sample_time(uint64_t from, uint64_t to, uint32_t columns, uint32_t i)
{
    return from + (uint64_t)((unsigned __int128)(to - from) * i / columns);
}

static inline void check_grid(struct history *h, const struct naive *naive, const uint32_t *quarks,
                              size_t count, uint64_t from, uint64_t to, uint32_t columns)
{
    struct problem problem = {0};
    struct expected_states expected = {0};
    for (size_t k = 0; k < count; k++) {
        size_t last = SIZE_MAX;
        for (uint32_t c = 0; c < columns; c++) {
            size_t i = naive_at(naive, quarks[k], sample_time(from, to, columns, c));
            if (i != last)
                assert_int_equal(array_add(&expected.states, naive_state(naive, quarks[k], i)), 0);
            last = i;
        }
    }
    if (history_query_2d(h, quarks, count, from, to, columns, expect_state, &expected, &problem) != 0)
        fail_msg("%s", problem.what);
    assert_int_equal(expected.seen, expected.states.count);
    array_done(&expected.states);
}

struct expected_summaries {
    const struct naive *naive;
    uint64_t from, to;
    uint32_t columns, next;
    uint32_t quark;
    uint64_t exact, estimated;
};

/* How long the attribute held a value within [from, to). */
static inline uint64_t naive_held(const struct naive *naive, uint32_t quark, struct history_value value,
                                  uint64_t from, uint64_t to)
{
    uint64_t held = 0;
    const naive_changes *changes = &naive->attributes[quark];
    for (size_t i = naive_at(naive, quark, from); i < changes->count && changes->at[i].time_ns < to; i++) {
        struct history_interval s = naive_state(naive, quark, i);
        if (s.end_ns > from && history_value_equal(s.value, value))
            held += (s.end_ns < to ? s.end_ns : to) - (s.start_ns > from ? s.start_ns : from);
    }
    return held;
}

static inline int expect_summary(void *context, uint32_t column, const struct history_summary *got)
{
    struct expected_summaries *e = context;
    while (sample_time(e->from, e->to, e->columns, e->next) ==
           sample_time(e->from, e->to, e->columns, e->next + 1))
        e->next++;
    assert_int_equal(column, e->next++);
    uint64_t from = sample_time(e->from, e->to, e->columns, column);
    uint64_t to = sample_time(e->from, e->to, e->columns, column + 1);
    assert_int_equal(got->start_ns, from);
    assert_int_equal(got->end_ns, to);
    assert_int_equal(got->quark, e->quark);

    const naive_changes *changes = &e->naive->attributes[e->quark];
    uint64_t begun = 0, sum = got->other_ns;
    for (size_t i = naive_at(e->naive, e->quark, from); i < changes->count && changes->at[i].time_ns < to;
         i++)
        begun += changes->at[i].time_ns >= from && i > 0;
    if (changes->at[0].value.type != HISTORY_NULL && from == e->naive->start_ns)
        begun++; /* the initial null was replaced at once */
    assert_int_equal(got->changes, begun);
    for (uint32_t i = 0; i < got->shares; i++) {
        uint64_t held = naive_held(e->naive, e->quark, got->share[i].value, from, to);
        assert_true(got->share[i].held_ns <= held);
        assert_true(held <= got->share[i].held_ns + got->other_ns);
        assert_true(i == 0 || got->share[i - 1].held_ns >= got->share[i].held_ns);
        sum += got->share[i].held_ns;
    }
    assert_int_equal(sum, to - from);
    if (got->other_ns)
        e->estimated++;
    else
        e->exact++;
    return 0;
}

/* Returns how many columns had an exact answer. */
static inline uint64_t check_summary(struct history *h, const struct naive *naive, uint32_t quark,
                                     uint64_t from, uint64_t to, uint32_t columns)
{
    struct problem problem = {0};
    struct expected_summaries e = {
        .naive = naive, .from = from, .to = to, .columns = columns, .quark = quark};
    if (history_summarize(h, &quark, 1, from, to, columns, expect_summary, &e, &problem) != 0)
        fail_msg("%s", problem.what);
    while (e.next < columns &&
           sample_time(from, to, columns, e.next) == sample_time(from, to, columns, e.next + 1))
        e.next++;
    assert_int_equal(e.next, columns);
    return e.exact;
}

/* A number of random queries of every kind, over the whole history and around its present end. */
static inline void check_everything(struct history *h, const struct naive *naive, uint64_t *random,
                                    int rounds)
{
    uint64_t end = naive->end_ns == HISTORY_ONGOING ? naive->max_ns + 10 : naive->end_ns;
    uint64_t span = end - naive->start_ns;
    for (int i = 0; i < rounds; i++) {
        uint32_t quark = (uint32_t)random_below(random, naive->count);
        uint64_t a = naive->start_ns + random_below(random, span),
                 b = naive->start_ns + random_below(random, span);
        const naive_changes *changes = &naive->attributes[quark];
        check_point(h, naive, quark, a);
        /* Exactly at a change, and beside it. */
        uint64_t at = changes->at[random_below(random, changes->count)].time_ns;
        check_point(h, naive, quark, at);
        if (at > naive->start_ns)
            check_point(h, naive, quark, at - 1);
        if (a > b) {
            uint64_t swap = a;
            a = b;
            b = swap;
        }
        b += a == b;
        check_range(h, naive, quark, a, b);
        uint32_t quarks[8];
        for (int k = 0; k < 8; k++)
            quarks[k] = (uint32_t)random_below(random, naive->count);
        uint32_t columns = 1 + (uint32_t)random_below(random, 50);
        check_grid(h, naive, quarks, 8, a, b, columns);
        check_summary(h, naive, quark, a, b, columns);
        if (i % 4 == 0) {
            check_full(h, naive, a);
            check_full(h, naive, at);
            check_summary(h, naive, quark, naive->start_ns, end, columns);
        }
    }
}

/* ---- Random changes ---- */

struct feed {
    uint64_t random;
    uint64_t *attribute_ns; /* the latest change of each attribute */
    uint32_t late_percent;  /* of the attributes lag behind */
    uint64_t now_ns;
};

static const char *const FEED_STRINGS[] = {"read",  "write", "epoll_wait", "futex", "nanosleep", "",
                                           "naïve", "a/b",   "GC",         "idle",  "x",         "y"};

/* What kinds of values an attribute takes depends on its number: few integers, strings, a counter, doubles,
 * booleans with null, or everything mixed. */
static inline struct history_value feed_value(struct feed *feed, uint32_t quark)
{
    uint64_t n = random_next(&feed->random);
    unsigned strings = sizeof(FEED_STRINGS) / sizeof(*FEED_STRINGS);
    switch (quark % 7 == 6 ? n % 6 : quark % 7) {
    case 0:
        return history_int((int64_t)(n >> 8 & 3));
    case 1:
        return n & 1 << 6 ? history_null() : history_string(FEED_STRINGS[(n >> 8) % strings]);
    case 2:
        return history_int((int64_t)(n >> (n >> 8 & 63)));
    case 3:
        return history_double((double)(int64_t)(n >> 50) / 8);
    case 4:
        return n & 1 << 6 ? history_null() : history_int(1);
    default:
        return history_string(FEED_STRINGS[(n >> 8) % 3]);
    }
}

/* One random change to both; times are as a merged trace has them, except for attributes that lag. */
static inline void feed_change(struct feed *feed, struct history *h, struct naive *naive)
{
    uint64_t n = random_next(&feed->random);
    /* Some attributes change far more often than others; a few hardly ever. */
    uint32_t quark = (uint32_t)(random_below(&feed->random, naive->count));
    if (n & 1)
        quark = (uint32_t)((uint64_t)quark * quark / naive->count);
    if (quark + 3 > naive->count && n & 0xff0)
        quark = 0;
    feed->now_ns += n % 5 == 0 ? 0 : (n >> 16) % 100 < 95 ? n >> 32 & 0xff : n >> 32 & 0xfffff;
    uint64_t t = feed->now_ns, *last = &feed->attribute_ns[quark];
    /* A late attribute changes anywhere since its last change, and often at that very time again. */
    if (quark * 37 % 100 < feed->late_percent && t > *last)
        t = n & 2 ? *last : *last + random_below(&feed->random, t - *last + 1);
    *last = t;
    struct history_value value = feed_value(feed, quark);
    if (t == naive->start_ns && value.type == HISTORY_NULL)
        return;
    struct problem problem = {0};
    if (history_modify(h, t, quark, value, &problem) != 0)
        fail_msg("%s", problem.what);
    naive_modify(naive, t, quark, value);
}

static inline void feed_init(struct feed *feed, uint64_t seed, const struct naive *naive,
                             uint32_t late_percent)
{
    *feed = (struct feed){.random = seed, .late_percent = late_percent, .now_ns = naive->start_ns};
    feed->attribute_ns = calloc(naive->count, sizeof(*feed->attribute_ns));
    for (uint32_t i = 0; i < naive->count; i++)
        feed->attribute_ns[i] = naive->start_ns;
}

static inline void add_attributes(struct history *h, uint32_t count)
{
    struct problem problem = {0};
    for (uint32_t i = 0; i < count; i++) {
        char path[64];
        uint32_t quark;
        snprintf(path, sizeof(path), "%u/%u", i % 10, i); /* ten parents come first */
        if (i < 10)
            snprintf(path, sizeof(path), "%u", i);
        assert_int_equal(history_add_path(h, path, &quark, &problem), 0);
        assert_int_equal(quark, i);
    }
}

static inline void temporary_path(char *path, size_t size, const char *name)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, size, "%s/sonde-%s-%d.history", folder ? folder : "/tmp", name, (int)getpid());
}

#endif
