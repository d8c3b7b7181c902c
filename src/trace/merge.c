/* See merge.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"

/* From so many streams on, a calendar is quicker than a tree. */
#define CALENDAR_STREAMS 100

/* So many entries of the front are kept known, so that what they need can be fetched ahead; when there are
 * fewer, it is filled up to some more. */
#define AHEAD    6
#define FILL_MAX 24

/* Entries that a bucket should hold when its time comes, and widths of windows in events a stream. */
#define BUCKET_ENTRIES 3
#define WINDOW_EVENTS  4

#define KEY_ENDED MERGE_KEY_ENDED
#define FEW       MERGE_FEW
#define SHIFT_MAX 40

int merge_init(struct merge *m, uint32_t streams)
{
    *m = (struct merge){.count = streams};
    while ((1ull << m->stream_bits) < streams)
        m->stream_bits++;
    m->stream_mask = (1ull << m->stream_bits) - 1;
    m->next_ns = calloc(streams + 1ul, sizeof(*m->next_ns));
    if (streams < CALENDAR_STREAMS) {
        m->tree = calloc(streams + 1ul, sizeof(*m->tree));
        m->winners = calloc(2ul * streams + 2, sizeof(*m->winners));
        return m->next_ns && m->tree && m->winners ? 0 : -ENOMEM;
    }
    m->buckets = WINDOW_EVENTS * streams / BUCKET_ENTRIES;
    m->fill = AHEAD + streams / 50 < FILL_MAX ? AHEAD + streams / 50 : FILL_MAX;
    m->capacity = 2 * streams + 4 * FEW;
    m->front = calloc(m->capacity, sizeof(*m->front));
    m->bucket_at = aligned_alloc(sizeof(*m->bucket_at), (m->buckets + 1ul) * sizeof(*m->bucket_at));
    m->bucket_entries = calloc(m->buckets + 1ul, sizeof(*m->bucket_entries));
    m->more = calloc(m->buckets, sizeof(*m->more));
    m->next = calloc(streams, sizeof(*m->next));
    if (!m->next_ns || !m->front || !m->bucket_at || !m->bucket_entries || !m->more || !m->next)
        return -ENOMEM;
    memset(m->bucket_at, 0xff, m->buckets * sizeof(*m->bucket_at));
    return 0;
}

void merge_done(struct merge *m)
{
    free(m->next_ns);
    free(m->tree);
    free(m->winners);
    free(m->front);
    free(m->bucket_at);
    free(m->bucket_entries);
    free(m->more);
    free(m->next);
    memset(m, 0, sizeof(*m));
}

static int64_t earliest(const struct merge *m)
{
    int64_t first = MERGE_ENDED;
    for (uint32_t i = 0; i < m->count; i++)
        first = MIN(first, m->next_ns[i]);
    return first;
}

/* ---- the tree ---- */

/* All matches. */
void merge_tree_start(struct merge *m)
{
    size_t n = m->count;
    uint64_t *winner = m->winners;
    m->base_ns = earliest(m);
    winner[1] = KEY_ENDED;
    for (size_t i = 0; i < n; i++)
        winner[n + i] = merge_tree_key(m, (uint32_t)i);
    for (size_t i = n; i-- > 1;) {
        winner[i] = MIN(winner[2 * i], winner[2 * i + 1]);
        m->tree[i] = MAX(winner[2 * i], winner[2 * i + 1]);
    }
    m->tree[0] = winner[1];
}

/* ---- the calendar ---- */

static int compare_keys(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static inline void order(uint64_t *a, uint64_t *b)
{
    uint64_t low = *a < *b ? *a : *b, high = *a < *b ? *b : *a;
    *a = low;
    *b = high;
}

/* Sorts eight keys without a branch that depends on them: the network of 19 comparators (D. Knuth, The Art of
 * Computer Programming 3, 5.3.4). */
static inline void sort_few(uint64_t k[FEW])
{
    static const uint8_t PAIRS[19][2] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}, {0, 4}, {1, 5}, {2, 6},
                                         {3, 7}, {0, 1}, {2, 3}, {4, 5}, {6, 7}, {2, 4}, {3, 5},
                                         {1, 4}, {3, 6}, {1, 2}, {3, 4}, {5, 6}};
#pragma GCC unroll 19
    for (unsigned i = 0; i < 19; i++)
        order(&k[PAIRS[i][0]], &k[PAIRS[i][1]]);
}

static inline uint64_t calendar_key(const struct merge *m, uint32_t i)
{
    return ((uint64_t)m->next_ns[i] - (uint64_t)m->base_ns) << m->stream_bits | i;
}

/* Into a bucket; what is behind the window goes to one more, which is never looked at. Whether it is behind
 * is as good as random, so there is no branch. */
static inline void put(struct merge *m, uint32_t i, uint64_t since, uint64_t bucket)
{
    bucket = bucket < m->buckets ? bucket : m->buckets;
    uint32_t *entries = &m->bucket_entries[bucket], n = *entries;
    if (n < FEW) {
        m->bucket_at[bucket].keys[n] = since << m->stream_bits | i;
    } else {
        m->next[i] = n > FEW ? m->more[bucket] : MERGE_NONE;
        m->more[bucket] = i;
    }
    *entries = n + 1;
    m->bucket_entries[m->buckets] = 0;
}

/* The next bucket's entries go behind the front. */
static inline void take_bucket(struct merge *m)
{
    uint32_t n = m->bucket_entries[m->bucket];
    if (m->end + m->count + FEW > m->capacity) {
        m->end -= m->at;
        memmove(m->front, m->front + m->at, m->end * sizeof(*m->front));
        m->at = 0;
    }
    uint64_t *to = m->front + m->end;
    memcpy(to, &m->bucket_at[m->bucket], sizeof(*m->bucket_at));
    memset(&m->bucket_at[m->bucket], 0xff, sizeof(*m->bucket_at));
    if (n <= FEW) {
        sort_few(to);
    } else {
        uint32_t i = m->more[m->bucket];
        for (n = FEW; i != MERGE_NONE; i = m->next[i])
            to[n++] = calendar_key(m, i);
        qsort(to, n, sizeof(*to), compare_keys);
    }
    m->bucket_entries[m->bucket++] = 0;
    m->end += n;
}

static void take_buckets(struct merge *m)
{
    while (m->end - m->at < m->fill && m->bucket < m->buckets)
        take_bucket(m);
}

/* A new window from the earliest entry on. */
static void new_window(struct merge *m)
{
    m->base_ns = earliest(m);
    if (m->bucket < m->buckets) { /* those that were taken are empty */
        memset(m->bucket_at, 0xff, m->buckets * sizeof(*m->bucket_at));
        memset(m->bucket_entries, 0, m->buckets * sizeof(*m->bucket_entries));
    }
    m->at = m->end = m->bucket = 0;
    m->taken = m->steps = 0;
    if (m->base_ns == MERGE_ENDED)
        return;
    for (uint32_t i = 0; i < m->count; i++)
        if (m->next_ns[i] != MERGE_ENDED) {
            uint64_t since = (uint64_t)m->next_ns[i] - (uint64_t)m->base_ns;
            put(m, i, since, since >> m->shift);
        }
    take_buckets(m);
}

/* The window was used up: the next one is as wide as this one's density suggests. */
static void next_window(struct merge *m)
{
    uint64_t want = (uint64_t)WINDOW_EVENTS * m->count;
    if (m->taken * 16 < want)
        m->shift += 4;
    else if (m->taken * 3 / 2 < want)
        m->shift += 1;
    else if (m->taken > want * 3 / 2 && m->shift > 0)
        m->shift -= 1;
    m->shift = MIN(m->shift, SHIFT_MAX);
    new_window(m);
}

static void calendar_start(struct merge *m)
{
    int64_t first = earliest(m), last = first;
    for (uint32_t i = 0; i < m->count; i++)
        if (m->next_ns[i] != MERGE_ENDED)
            last = MAX(last, m->next_ns[i]);
    m->shift = 0;
    while (m->shift < SHIFT_MAX && ((uint64_t)last - (uint64_t)first) >> m->shift >= m->buckets)
        m->shift++;
    new_window(m);
}

/* Its time is one of those that are sorted already: it stays in the front, perhaps first again. */
static __attribute__((noinline)) void stay_in_front(struct merge *m, uint64_t key)
{
    uint32_t i = m->at;
    for (; i + 1 < m->end && m->front[i + 1] < key; i++)
        m->front[i] = m->front[i + 1];
    m->front[i] = key;
    m->steps += i - m->at;
    if (m->steps > 32 * m->taken + 8ull * m->count && m->shift > 0) { /* buckets are far too wide */
        m->shift -= MIN(m->shift, 4u);
        new_window(m);
    }
}

static __attribute__((noinline)) void fill_front(struct merge *m)
{
    if (m->bucket < m->buckets)
        take_buckets(m);
    if (m->at == m->end)
        next_window(m);
}

void merge_calendar_moved(struct merge *m, uint32_t stream)
{
    int64_t ns = m->next_ns[stream];
    uint64_t since = (uint64_t)ns - (uint64_t)m->base_ns, bucket = since >> m->shift;
    m->taken++;
    if (ns < m->base_ns) { /* backwards, before everything here */
        new_window(m);
        return;
    }
    if (bucket < m->bucket && ns != MERGE_ENDED) {
        stay_in_front(m, since << m->stream_bits | stream);
        return;
    }
    m->at++;
    if (ns != MERGE_ENDED)
        put(m, stream, since, bucket);
    if (m->end - m->at < AHEAD)
        fill_front(m);
}

/* ---- both ---- */

void merge_start(struct merge *m)
{
    if (m->tree)
        merge_tree_start(m);
    else
        calendar_start(m);
}
