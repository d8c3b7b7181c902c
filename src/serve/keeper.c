/* See keeper.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/keeper.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

#define COMMIT_SPANS \
    491520 /* four of DuckDB's row groups: whole ones go past its own log, straight to the file */
#define COMMIT_NS        NS_PER_S
#define RETRY_NS         NS_PER_S
#define LOOK_NS          (60 * NS_PER_S)
#define EXEMPLARS_MAX    512
#define SHARE_REMOVED    0.15 /* of the time that is kept, when it is too much */
#define REMOVALS_AT_ONCE 8

/* A batch that was given and is not stored yet. */
struct given {
    struct given *next;
    struct span_batch *spans;
    struct journal_position before, end;
};

struct keeper {
    struct keeper_settings settings;
    pthread_t thread;
    bool started;
    struct journal_reader reader;
    bool unsure; /* what the store has: it could not be asked after a failure */
    uint64_t uncommitted, committed_at_ns, looked_at_ns;
    pthread_mutex_t lock;
    pthread_cond_t changed, given;
    bool stopping, wanted, woken;
    struct journal_position committed; /* under the lock, as all below */
    struct journal_position given_end; /* of the last batch that was given */
    struct given *first, **last;       /* in the journal's order */
    size_t given_bytes;
    struct keeper_counts counts;
};

static bool behind(struct journal_position a, struct journal_position b)
{
    return a.segment != b.segment ? a.segment < b.segment : a.offset < b.offset;
}

static int take_span(void *context, const struct span *span)
{
    struct keeper *k = context;
    k->uncommitted++;
    return k->settings.store->operations->append(k->settings.store, span);
}

static void note_attempt(struct keeper *k, int error, const struct problem *problem)
{
    pthread_mutex_lock(&k->lock);
    if (error < 0) {
        k->counts.errors++;
        snprintf(k->counts.last_error, sizeof(k->counts.last_error), "%s",
                 problem->what[0] ? problem->what : strerror(-error));
    } else {
        k->counts.last_error[0] = '\0';
        k->committed = k->reader.at;
    }
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

/* Back to what the store has: all behind it is read again. */
static void start_over(struct keeper *k)
{
    struct journal_position from;
    /* An engine behind a network may have taken what it did not get to confirm. */
    k->unsure = k->settings.store->operations->position(k->settings.store, &from, NULL) < 0;
    pthread_mutex_lock(&k->lock);
    if (!k->unsure && behind(k->committed, from))
        k->committed = from;
    from = k->committed;
    pthread_mutex_unlock(&k->lock);
    journal_reader_done(&k->reader);
    journal_reader_init(&k->reader, k->settings.folder, from);
    k->uncommitted = 0;
}

static int commit(struct keeper *k)
{
    struct problem problem = {0};
    int r = k->settings.store->operations->commit(k->settings.store, k->reader.at, &problem);
    note_attempt(k, r, &problem);
    k->committed_at_ns = clock_monotonic_ns();
    if (r < 0)
        start_over(k);
    else
        journal_hold(k->settings.journal, JOURNAL_STORE, k->reader.at);
    k->uncommitted = 0;
    return r;
}

static int store_batch(struct keeper *k, const struct span_batch *spans)
{
    struct span_sink sink = {.take = take_span, .context = k};
    return span_batch_read(spans, &sink);
}

/* The next batch of the journal; returns as step(). */
static int store_from_journal(struct keeper *k)
{
    _cleanup_(span_batch_unrefp) struct span_batch *spans = NULL;
    uint32_t kind;
    const void *bytes;
    size_t length;
    int r = journal_reader_next(&k->reader, &kind, &bytes, &length);
    if (r <= 0)
        return r;
    r = span_batch_new(kind, bytes, length, &spans);
    if (r == 0)
        r = store_batch(k, spans);
    pthread_mutex_lock(&k->lock);
    k->counts.reread++;
    k->counts.undecodable += r == -EBADMSG;
    pthread_mutex_unlock(&k->lock);
    return r == 0 || r == -EBADMSG ? 1 : r;
}

static void free_given(struct given *given)
{
    if (!given)
        return;
    span_batch_unref(given->spans);
    free(given);
}

/* Takes the batch that follows what was read, if it was given; ret_more: whether the journal has one. */
static struct given *take_given(struct keeper *k, bool *ret_more)
{
    struct given *given = NULL;
    pthread_mutex_lock(&k->lock);
    while (k->first && !behind(k->reader.at, k->first->end)) { /* was read from the journal */
        given = k->first;
        k->first = given->next;
        k->given_bytes -= span_batch_held_bytes(given->spans);
        free_given(given);
    }
    given = k->first && !behind(k->reader.at, k->first->before) ? k->first : NULL;
    if (given) {
        k->first = given->next;
        k->given_bytes -= span_batch_held_bytes(given->spans);
    }
    if (!k->first)
        k->last = &k->first;
    *ret_more = behind(k->reader.at, k->given_end);
    pthread_mutex_unlock(&k->lock);
    return given;
}

/* Stores the next batch: what was given, else from the journal as far as that is on disk, because what a
 * power failure could take back is not stored. 1 when there was a batch, 0 when there is none, or an error of
 * the store or the journal. As long as it is not known what the store has, nothing is given to it: it could
 * have it already. */
static int step(struct keeper *k)
{
    bool more;
    if (k->unsure)
        return -EIO;
    struct given *given = take_given(k, &more);
    if (!given && !more)
        return 0;
    int r = given ? store_batch(k, given->spans) : store_from_journal(k);
    if (given && r == 0)
        journal_reader_seek(&k->reader, given->end);
    free_given(given);
    return r < 0 ? -EIO : 1;
}

static void look_at_age_and_size(struct keeper *k)
{
    struct span_store *store = k->settings.store;
    struct trace_id *keep = calloc(EXEMPLARS_MAX, sizeof(*keep));
    struct problem problem = {0};
    uint64_t now = clock_realtime_ns(), bytes = 0;
    size_t kept = 0;
    int r = keep ? 0 : -ENOMEM;
    bool removed = false;
    if (r == 0 && k->settings.exemplars)
        kept = k->settings.exemplars(k->settings.context, keep, EXEMPLARS_MAX);
    if (r == 0 && k->settings.keep_ns && now > k->settings.keep_ns) {
        r = store->operations->expire(store, now - k->settings.keep_ns, keep, kept, &problem);
        removed = true;
    }
    for (int i = 0; r == 0 && k->settings.keep_bytes && i < REMOVALS_AT_ONCE; i++) {
        struct text row = {0};
        unsigned long long first = 0, last = 0;
        r = store->operations->size(store, &bytes, &problem);
        if (r < 0 || bytes <= k->settings.keep_bytes)
            break;
        r = store->operations->query(
            store,
            "SELECT min(start_ns) AS a, max(start_ns) AS b FROM spans WHERE (trace_high, trace_low) NOT IN "
            "(SELECT trace_high, trace_low FROM kept)",
            &row, &problem);
        if (r == 0 && sscanf(text_get(&row), "{\"a\":\"%llu\",\"b\":\"%llu\"}", &first, &last) == 2)
            r = store->operations->expire(
                store, first + (uint64_t)((double)(last - first) * SHARE_REMOVED) + 1, keep, kept, &problem);
        else
            i = REMOVALS_AT_ONCE;
        removed = true;
        text_done(&row);
    }
    free(keep);
    pthread_mutex_lock(&k->lock);
    k->counts.expirations += removed && r == 0;
    k->counts.errors += r < 0;
    if (r < 0)
        snprintf(k->counts.last_error, sizeof(k->counts.last_error), "%s",
                 problem.what[0] ? problem.what : strerror(-r));
    pthread_mutex_unlock(&k->lock);
}

/* Whether somebody waits for the end of what there is. */
static bool is_wanted(struct keeper *k, bool *ret_stopping)
{
    pthread_mutex_lock(&k->lock);
    bool wanted = k->wanted || k->stopping;
    *ret_stopping = k->stopping;
    pthread_mutex_unlock(&k->lock);
    return wanted;
}

static bool look_is_due(const struct keeper *k, uint64_t now)
{
    uint64_t every = k->settings.look_ns ? k->settings.look_ns : LOOK_NS;
    return (k->settings.keep_ns || k->settings.keep_bytes) && now - k->looked_at_ns >= every;
}

/* Commits when it is time to; r is what step() returned, and is returned, or an error. */
static int commit_in_time(struct keeper *k, int r, uint64_t now, bool wanted)
{
    bool pending = k->uncommitted || behind(k->committed, k->reader.at); /* also batches without a span */
    bool due = k->uncommitted >=
                   (k->settings.store->commit_spans ? k->settings.store->commit_spans : COMMIT_SPANS) ||
               now - k->committed_at_ns >= COMMIT_NS || (r == 0 && wanted);
    return pending && due && commit(k) < 0 ? -EIO : r;
}

static void refuse(struct keeper *k, int error)
{
    struct problem problem = {0};
    k->settings.store->operations->discard(k->settings.store);
    note_attempt(k, error, &problem);
    start_over(k);
}

/* Until something is given or wanted, or the time is over. */
static void await(struct keeper *k, uint64_t wait_ns)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(wait_ns / NS_PER_S);
    pthread_mutex_lock(&k->lock);
    while (!k->woken && !k->stopping)
        if (pthread_cond_timedwait(&k->given, &k->lock, &until) != 0)
            break;
    k->woken = false;
    pthread_mutex_unlock(&k->lock);
}

static void *run(void *context)
{
    struct keeper *k = context;
    for (;;) {
        bool stopping, wanted = is_wanted(k, &stopping);
        int r = step(k);
        uint64_t now = clock_monotonic_ns();
        if (r < 0)
            refuse(k, r);
        else
            r = commit_in_time(k, r, now, wanted);
        if (r >= 0 && look_is_due(k, now) && (!k->uncommitted || commit(k) == 0)) {
            look_at_age_and_size(k);
            k->looked_at_ns = now;
        }
        if (r > 0)
            continue;
        if (stopping)
            return NULL;
        await(k, r < 0 ? RETRY_NS : COMMIT_NS);
    }
}

int keeper_new(const struct keeper_settings *settings, struct keeper **ret_keeper, struct problem *problem)
{
    struct keeper *k = calloc(1, sizeof(*k));
    if (!k)
        return -ENOMEM;
    k->settings = *settings;
    k->reader.fd = -1;
    k->looked_at_ns = clock_monotonic_ns();
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->changed, NULL);
    pthread_cond_init(&k->given, NULL);
    k->last = &k->first;
    int r = settings->store->operations->position(settings->store, &k->committed, problem);
    /* A store that is ahead of its journal: the journal was removed, and a new one has other things to say.
     */
    k->given_end = journal_end(settings->journal);
    if (r == 0 && behind(k->given_end, k->committed))
        k->committed = (struct journal_position){0};
    if (r == 0) {
        journal_reader_init(&k->reader, settings->folder, k->committed);
        if (k->committed.segment)
            journal_hold(settings->journal, JOURNAL_STORE, k->committed);
        r = -pthread_create(&k->thread, NULL, run, k);
    }
    if (r < 0) {
        keeper_free(k);
        return r;
    }
    k->started = true;
    keeper_drain(k);
    *ret_keeper = k;
    return 0;
}

/* Holds the lock. */
static void wake(struct keeper *k)
{
    k->woken = true;
    pthread_cond_signal(&k->given);
}

void keeper_give(struct keeper *k, struct span_batch *spans, struct journal_position before,
                 struct journal_position end)
{
    size_t held = spans ? span_batch_held_bytes(spans) : 0;
    bool keep = spans && span_batch_is_kept(spans);
    pthread_mutex_lock(&k->lock);
    struct given *given =
        keep && k->given_bytes + held <= k->settings.held_max ? malloc(sizeof(*given)) : NULL;
    if (given) {
        *given = (struct given){.spans = span_batch_ref(spans), .before = before, .end = end};
        *k->last = given;
        k->last = &given->next;
        k->given_bytes += held;
    }
    k->given_end = end;
    wake(k);
    pthread_mutex_unlock(&k->lock);
}

void keeper_drain(struct keeper *k)
{
    pthread_mutex_lock(&k->lock);
    struct journal_position end = k->given_end;
    uint64_t errors = k->counts.errors;
    while (k->started && behind(k->committed, end) && k->counts.errors == errors) {
        struct timespec until;
        k->wanted = true;
        wake(k);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&k->changed, &k->lock, &until);
    }
    k->wanted = false;
    pthread_mutex_unlock(&k->lock);
}

void keeper_get_counts(struct keeper *k, struct keeper_counts *ret_counts)
{
    pthread_mutex_lock(&k->lock);
    *ret_counts = k->counts;
    pthread_mutex_unlock(&k->lock);
}

void keeper_free(struct keeper *k)
{
    if (!k)
        return;
    if (k->started) {
        pthread_mutex_lock(&k->lock);
        k->stopping = true;
        wake(k);
        pthread_mutex_unlock(&k->lock);
        pthread_join(k->thread, NULL);
    }
    while (k->first) {
        struct given *next = k->first->next;
        free_given(k->first);
        k->first = next;
    }
    journal_reader_done(&k->reader);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->changed);
    pthread_cond_destroy(&k->given);
    free(k);
}
