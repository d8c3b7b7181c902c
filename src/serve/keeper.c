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
#include "span/files.h"
#include "span/otlp.h"

#define COMMIT_SPANS \
    491520 /* four of DuckDB's row groups: whole ones go past its own log, straight to the file */
#define COMMIT_NS        NS_PER_S
#define RETRY_NS         NS_PER_S
#define LOOK_NS          (60 * NS_PER_S)
#define EXEMPLARS_MAX    512
#define SHARE_REMOVED    0.15 /* of the time that is kept, when it is too much */
#define REMOVALS_AT_ONCE 8

struct keeper {
    struct keeper_settings settings;
    pthread_t thread;
    bool started;
    struct journal_reader reader;
    bool unsure; /* what the store has: it could not be asked after a failure */
    uint64_t uncommitted, committed_at_ns, looked_at_ns;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping, wanted;
    struct journal_position committed; /* under the lock, as all below */
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

static int store_batch(struct keeper *k, uint32_t kind, const char *bytes, size_t length)
{
    struct span_sink sink = {.take = take_span, .context = k};
    char *unpacked = NULL;
    int r = 0;
    if (kind & JOURNAL_GZIP)
        r = span_gunzip(bytes, length, JOURNAL_UNPACKED_MAX, &unpacked, &length);
    if (r == 0)
        r = (kind & 0xff) == JOURNAL_OTLP_JSON
                ? otlp_json_decode(unpacked ? unpacked : bytes, length, &sink, NULL)
                : otlp_protobuf_decode(unpacked ? unpacked : bytes, length, &sink, NULL);
    free(unpacked);
    if (r != -EBADMSG)
        return r;
    pthread_mutex_lock(&k->lock);
    k->counts.undecodable++;
    pthread_mutex_unlock(&k->lock);
    return 0;
}

/* Reads on as far as the journal is on disk: what a power failure could take back is not stored. 1 when there
 * was a batch, 0 when there is none, or an error of the store or the journal. As long as it is not known what
 * the store has, nothing is given to it: it could have it already. */
static int step(struct keeper *k, struct journal_position durable)
{
    uint32_t kind;
    const void *bytes;
    size_t length;
    if (k->unsure)
        return -EIO;
    if (!behind(k->reader.at, durable))
        return 0;
    int r = journal_reader_next(&k->reader, &kind, &bytes, &length);
    if (r > 0)
        r = store_batch(k, kind, bytes, length) < 0 ? -EIO : 1;
    return r;
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

static void *run(void *context)
{
    struct keeper *k = context;
    struct journal_position durable = {0}, never = {UINT32_MAX, 0};
    for (;;) {
        bool stopping, wanted = is_wanted(k, &stopping);
        int r = step(k, durable);
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
        uint64_t wait_ns = stopping ? 0 : r < 0 ? RETRY_NS : COMMIT_NS;
        durable = journal_wait(k->settings.journal, r < 0 ? never : k->reader.at, wait_ns);
        if (stopping && (r < 0 || !behind(k->reader.at, durable)))
            return NULL;
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
    int r = settings->store->operations->position(settings->store, &k->committed, problem);
    /* A store that is ahead of its journal: the journal was removed, and a new one has other things to say.
     */
    struct journal_position end =
        journal_wait(settings->journal, (struct journal_position){UINT32_MAX, 0}, 0);
    if (r == 0 && behind(end, k->committed))
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

void keeper_drain(struct keeper *k)
{
    struct journal_position end =
        journal_wait(k->settings.journal, (struct journal_position){UINT32_MAX, 0}, 0);
    pthread_mutex_lock(&k->lock);
    uint64_t errors = k->counts.errors;
    while (k->started && behind(k->committed, end) && k->counts.errors == errors) {
        k->wanted = true;
        pthread_mutex_unlock(&k->lock);
        journal_wake(k->settings.journal);
        pthread_mutex_lock(&k->lock);
        struct timespec until;
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
        pthread_mutex_unlock(&k->lock);
        journal_wake(k->settings.journal);
        pthread_join(k->thread, NULL);
    }
    journal_reader_done(&k->reader);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->changed);
    free(k);
}
