/* Which stream is next in time. Every stream has one entry, the time of its next event; the first stream is
 * taken, moves on, and gets a new time. Private to src/trace; used by trace.c for every event.
 *
 * A few streams play a tournament of losers: tree[0] is the winner, every other node the loser of the match
 * played there, and one path of log2(streams) matches replaces the winner.
 *
 * Many streams stand in a calendar (after R. Brown, Calendar queues, CACM 31(10), 1988): a window of time is
 * cut into buckets of equal width, a bucket's entries are sorted when its time comes, so that a step costs
 * the same for any number of streams, and the streams that follow are known some events ahead: their data is
 * fetched into the cache meanwhile (merge_ahead()). The width follows the events' density, window by window.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_MERGE_H
#define TRACE_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MERGE_ENDED INT64_MAX /* the time of a stream without a further event */
#define MERGE_NONE  UINT32_MAX

#define MERGE_FEW 8

struct merge_bucket {
    uint64_t keys[MERGE_FEW]; /* in no order; UINT64_MAX where there is none */
};

struct merge {
    int64_t *next_ns; /* by stream: set by the caller, then merge_start() or merge_moved() */
    uint32_t count;
    unsigned stream_bits;
    uint64_t stream_mask;
    int64_t base_ns; /* entries are times since then, with the stream's index in the low bits */
    uint64_t *tree;  /* few streams */
    uint64_t *winners;

    /* Many streams. */
    uint64_t *front; /* sorted; [at, end) is left of it */
    uint32_t at, end, capacity;
    struct merge_bucket *bucket_at;
    uint32_t *bucket_entries; /* how many */
    uint32_t *more, *next;    /* lists: those of a bucket that do not fit into it */
    uint32_t fill;            /* the front is filled up to so many */
    uint32_t buckets, bucket; /* the one that is sorted into the front next */
    unsigned shift;           /* a bucket is 1 << shift ns wide */
    uint64_t taken, steps;    /* of this window: events, and entries that were moved for them */
};

/* For so many streams. 0 or -ENOMEM, merge_done() either way. */
int merge_init(struct merge *merge, uint32_t streams);
void merge_done(struct merge *merge);

/* All next_ns[] are set. */
void merge_start(struct merge *merge);

/* The first stream, or MERGE_NONE when all have ended. */
static inline uint32_t merge_first(const struct merge *merge)
{
    if (merge->tree)
        return merge->tree[0] == UINT64_MAX ? MERGE_NONE : (uint32_t)(merge->tree[0] & merge->stream_mask);
    return merge->at == merge->end ? MERGE_NONE : (uint32_t)(merge->front[merge->at] & merge->stream_mask);
}

/* The stream that comes n events later if none between has two in a row, or MERGE_NONE: not known. */
static inline uint32_t merge_ahead(const struct merge *merge, uint32_t n)
{
    return merge->end - merge->at > n ? (uint32_t)(merge->front[merge->at + n] & merge->stream_mask)
                                      : MERGE_NONE;
}

/* ---- the inside of merge_moved(), which runs for every event ---- */

#define MERGE_KEY_ENDED UINT64_MAX

void merge_tree_start(struct merge *merge);
void merge_calendar_moved(struct merge *merge, uint32_t stream);

/* Times too far from the base are all alike; they become exact again when the base moves. */
static inline uint64_t merge_key_far(const struct merge *m)
{
    return (MERGE_KEY_ENDED >> m->stream_bits) - 1;
}

static inline uint64_t merge_tree_key(const struct merge *m, uint32_t i)
{
    int64_t ns = m->next_ns[i];
    uint64_t since = ns > m->base_ns ? (uint64_t)ns - (uint64_t)m->base_ns : 0;
    since = since < merge_key_far(m) ? since : merge_key_far(m);
    return ns == MERGE_ENDED ? MERGE_KEY_ENDED : since << m->stream_bits | i;
}

/* The matches of the stream that was first. Who wins is as good as random, so there is no branch: the smaller
 * goes on, the larger stays. */
static inline void merge_tree_moved(struct merge *m, uint32_t stream)
{
    uint64_t *tree = m->tree, mine = merge_tree_key(m, stream);
    for (size_t i = (stream + (size_t)m->count) / 2; i > 0; i /= 2) {
        uint64_t other = tree[i];
        tree[i] = other > mine ? other : mine;
        mine = other > mine ? mine : other;
    }
    tree[0] = mine;
    if (m->next_ns[stream] < m->base_ns ||
        (mine != MERGE_KEY_ENDED && mine >> m->stream_bits >= merge_key_far(m)))
        merge_tree_start(m);
}

/* next_ns[] of the first stream, which merge_first() told, was set anew. */
static inline void merge_moved(struct merge *merge, uint32_t first)
{
    if (merge->tree)
        merge_tree_moved(merge, first);
    else
        merge_calendar_moved(merge, first);
}

#endif
