/* See parallel.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/parallel.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "trace/trace_private.h"

/* Bytes of stream files in a slice; decoded, they are about ten times that. A slice begins in the middle of a
 * packet of every stream, which is decoded from its start: slices must be larger than that waste. */
#define SLICE_BYTES_MIN (1u << 20)
#define SLICE_BYTES_MAX (8u << 20)
#define CHUNK_BYTES     (256u << 10)
#define THREADS_MAX     64

/* Memory for the events of a slice: never moves, freed at once. */
struct chunk {
    struct chunk *next;
    size_t used, size;
    char data[] __attribute__((aligned(16)));
};

struct slice {
    int64_t from_ns, to_ns; /* [from, to) */
    struct events {
        struct event *at;
        size_t count, capacity;
    } events;
    struct chunk *chunks;
    struct arena text; /* converted strings */
    ARRAY(struct trace_loss) losses;
    int error;
    bool done;
};

struct worker {
    struct parallel *parallel;
    pthread_t thread;
    bool running;
    struct trace *trace;
    /* The packet whose context was copied last, by stream. */
    struct copied {
        uint64_t offset;
        size_t slice; /* + 1 */
        const struct value *values;
    } * packets;
};

struct parallel {
    struct trace *trace;
    struct worker *workers;
    unsigned worker_count;
    struct slice *slices;
    size_t slice_count;
    size_t at_event; /* of the slice that is handed out */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t next, handed_out; /* slices taken by workers, slices used up */
    bool stop;
    struct chunk *spare; /* chunks of slices that were used up, for the next ones */
    ARRAY(struct events) spare_events;
};

static struct chunk *take_spare(struct parallel *p)
{
    pthread_mutex_lock(&p->lock);
    struct chunk *c = p->spare;
    if (c)
        p->spare = c->next;
    pthread_mutex_unlock(&p->lock);
    return c;
}

static void *take(struct parallel *p, struct slice *slice, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (!slice->chunks || slice->chunks->size - slice->chunks->used < bytes) {
        size_t size = MAX(bytes, (size_t)CHUNK_BYTES);
        struct chunk *c = size == CHUNK_BYTES ? take_spare(p) : NULL;
        c = c ? c : malloc(sizeof(*c) + size);
        if (!c)
            return NULL;
        c->next = slice->chunks;
        c->used = 0;
        c->size = size;
        slice->chunks = c;
    }
    void *place = slice->chunks->data + slice->chunks->used;
    slice->chunks->used += bytes;
    return place;
}

static void slice_done(struct slice *slice)
{
    for (struct chunk *c = slice->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    slice->chunks = NULL;
    array_done(&slice->events);
    array_done(&slice->losses);
    arena_done(&slice->text);
}

/* Memory that was touched already costs no page faults: it goes to the slices that come. */
static void give_back(struct parallel *p, struct slice *slice)
{
    for (struct chunk *c = slice->chunks, *next; c; c = next) {
        next = c->next;
        if (c->size != CHUNK_BYTES) {
            free(c);
            continue;
        }
        c->used = 0;
        c->next = p->spare;
        p->spare = c;
    }
    slice->chunks = NULL;
    slice->events.count = 0;
    if (array_add(&p->spare_events, slice->events) == 0)
        slice->events = (struct events){0};
    slice_done(slice);
}

/* ---- workers ---- */

/* The packet's context, once for all its events in the slice. */
static const struct value *copy_packet(struct worker *w, struct slice *slice, size_t number,
                                       const struct stream *s)
{
    struct copied *c = &w->packets[s->index];
    if (c->slice == number + 1 && c->offset == s->packet_offset)
        return c->values;
    struct value *values = take(w->parallel, slice, (s->packet_value_count + 1) * sizeof(*values));
    if (!values)
        return NULL;
    if (s->packet_value_count)
        memcpy(values, s->packet_values, s->packet_value_count * sizeof(*values));
    *c = (struct copied){s->packet_offset, number + 1, values};
    return values;
}

static int keep_event(struct worker *w, struct slice *slice, size_t number, const struct event *event)
{
    const struct machine *m = &w->trace->machine;
    struct event copy = *event;
    struct value *values = take(w->parallel, slice, (m->value_count + 1) * sizeof(*values));
    copy.packet = copy_packet(w, slice, number, &w->trace->streams.at[event->stream]);
    if (!values || !copy.packet)
        return -ENOMEM;
    memcpy(values, event->values, m->value_count * sizeof(*values));
    copy.values = values;
    return array_add(&slice->events, copy);
}

static int decode_slice(struct worker *w, size_t number)
{
    struct slice *slice = &w->parallel->slices[number];
    struct trace *t = w->trace;
    const struct event *event;
    t->machine.text = &slice->text;
    t->machine.keep_text = true;
    pthread_mutex_lock(&w->parallel->lock);
    if (w->parallel->spare_events.count)
        slice->events = w->parallel->spare_events.at[--w->parallel->spare_events.count];
    pthread_mutex_unlock(&w->parallel->lock);
    array_foreach (&t->streams, s) {
        s->sliced = true;
        s->slice_from_ns = slice->from_ns;
        s->slice_to_ns = slice->to_ns;
    }
    int r = number ? trace_seek_ns(t, (uint64_t)slice->from_ns) : trace_rewind(t);
    while (r >= 0 && (r = trace_next(t, &event)) > 0) {
        if ((int64_t)event->time_ns >= slice->to_ns)
            break;
        r = keep_event(w, slice, number, event);
    }
    size_t n;
    const struct trace_loss *l = trace_losses(t, &n);
    for (size_t i = 0; r >= 0 && i < n; i++)
        r = array_add(&slice->losses, l[i]);
    return r < 0 ? r : 0;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    struct parallel *p = w->parallel;
    pthread_mutex_lock(&p->lock);
    while (!p->stop && p->next < p->slice_count) {
        if (p->next >= p->handed_out + p->worker_count + 1) { /* far enough ahead */
            pthread_cond_wait(&p->changed, &p->lock);
            continue;
        }
        size_t number = p->next++;
        pthread_mutex_unlock(&p->lock);
        int r = decode_slice(w, number);
        pthread_mutex_lock(&p->lock);
        p->slices[number].error = r;
        p->slices[number].done = true;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- cutting ---- */

static int compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Slices of about SLICE_BYTES between begins of packets. 1, or 0 when there would be fewer than two. */
static int cut(struct parallel *p)
{
    struct trace *t = p->trace;
    ARRAY(int64_t) begins = {0};
    uint64_t bytes = 0, packets = 0; /* packets: one of each stream, in bytes */
    int r = 0;
    array_foreach (&t->streams, s) {
        if (s->files.count != 1)
            goto out;
        if ((r = stream_index(s, &t->machine)) < 0)
            goto out;
        bytes += s->size;
        packets += s->size / MAX(s->packet_count, 1u);
        array_foreach (&s->index_entries, e)
            if (array_add(&begins, stream_corrected(s, e->begin_ns)) < 0) {
                r = -ENOMEM;
                goto out;
            }
    }
    uint64_t slice_bytes = MAX(2 * packets, (uint64_t)SLICE_BYTES_MIN);
    size_t want = MIN((size_t)(bytes / slice_bytes), begins.count);
    if (want < 2 || slice_bytes > SLICE_BYTES_MAX)
        goto out;
    qsort(begins.at, begins.count, sizeof(*begins.at), compare_times);
    p->slices = calloc(want, sizeof(*p->slices));
    if (!p->slices) {
        r = -ENOMEM;
        goto out;
    }
    int64_t from = INT64_MIN;
    for (size_t i = 1; i < want; i++) {
        int64_t to = begins.at[i * begins.count / want];
        if (to <= from)
            continue;
        p->slices[p->slice_count++] = (struct slice){.from_ns = from, .to_ns = to};
        from = to;
    }
    p->slices[p->slice_count++] = (struct slice){.from_ns = from, .to_ns = INT64_MAX};
    r = p->slice_count > 1;
out:
    array_done(&begins);
    return r;
}

/* ---- handing out ---- */

int parallel_start(struct trace *trace, unsigned threads, struct parallel **ret_parallel)
{
    struct parallel *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->trace = trace;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->worker_count = MIN(threads, THREADS_MAX);
    int r = cut(p);
    if (r > 0) {
        p->workers = calloc(p->worker_count, sizeof(*p->workers));
        r = p->workers ? 1 : -ENOMEM;
    }
    for (unsigned i = 0; r > 0 && i < p->worker_count; i++) {
        struct worker *w = &p->workers[i];
        w->parallel = p;
        w->packets = calloc(trace->streams.count + 1, sizeof(*w->packets));
        int e = w->packets ? trace_clone(trace, &w->trace) : -ENOMEM;
        if (e >= 0)
            e = -pthread_create(&w->thread, NULL, work, w);
        w->running = e == 0;
        if (e < 0)
            r = e;
    }
    if (r <= 0)
        parallel_free(p);
    else
        *ret_parallel = p;
    return r;
}

/* Adds what a slice lost to the trace's own account. */
static int account(struct trace *t, const struct slice *slice)
{
    array_foreach (&slice->losses, l) {
        struct stream *s = &t->streams.at[l->stream];
        if (!s->losses && !(s->losses = calloc(LOSS_KINDS, sizeof(*s->losses))))
            return -ENOMEM;
        struct trace_loss *sum = &s->losses[l->kind];
        uint64_t before = sum->count;
        if (before == 0) {
            *sum = *l;
            sum->path = s->files.at[0].path; /* the worker's own goes with it */
        } else {
            sum->count += l->count;
        }
    }
    return 0;
}

int parallel_next(struct parallel *p, const struct event **ret_event)
{
    while (p->handed_out < p->slice_count) {
        struct slice *slice = &p->slices[p->handed_out];
        if (p->at_event == 0) {
            pthread_mutex_lock(&p->lock);
            while (!slice->done)
                pthread_cond_wait(&p->changed, &p->lock);
            pthread_mutex_unlock(&p->lock);
            if (slice->error < 0)
                return slice->error;
        }
        if (p->at_event < slice->events.count) {
            *ret_event = &slice->events.at[p->at_event++];
            return 1;
        }
        int r = account(p->trace, slice);
        p->at_event = 0;
        pthread_mutex_lock(&p->lock);
        give_back(p, slice);
        p->handed_out++;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
        if (r < 0)
            return r;
    }
    return 0;
}

double parallel_progress(const struct parallel *p)
{
    return p->slice_count ? (double)p->handed_out / (double)p->slice_count : 1;
}

void parallel_free(struct parallel *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; p->workers && i < p->worker_count; i++) {
        if (p->workers[i].running)
            pthread_join(p->workers[i].thread, NULL);
        trace_close(p->workers[i].trace);
        free(p->workers[i].packets);
    }
    for (size_t i = 0; i < p->slice_count; i++)
        slice_done(&p->slices[i]);
    for (struct chunk *c = p->spare, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    array_foreach (&p->spare_events, e)
        free(e->at);
    array_done(&p->spare_events);
    free(p->slices);
    free(p->workers);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
    free(p);
}
