/* Reading traces: CTF 1.8 and CTF 2 folders, one or many, as one stream of events in time order.
 *
 *     struct trace *trace;
 *     const struct event *event;
 *     int r = trace_open("out", NULL, &problem, &trace);
 *     while (r >= 0 && (r = trace_next(trace, &event)) > 0)
 *         use(event);
 *     trace_close(trace);
 *
 * Memory does not grow with the length of the trace. Damage does not stop the reading: what cannot be read is
 * skipped packet by packet and counted (trace_losses()). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"
#include "base/problem.h"
#include "trace/event.h"

struct trace;

struct trace_options {
    unsigned threads; /* decode in so many threads; 0 and 1: in the caller's */
};

/* One folder with a metadata file. */
struct trace_host {
    const char *path;
    const char *name;        /* the host's name, or the folder's */
    const char *tracer;      /* "lttng-ust"; "" when unknown */
    int version;             /* of CTF: 1 (1.8) or 2 */
    bool own;                /* recorded by sonde: times are CLOCK_MONOTONIC */
    bool has_clock;          /* else all times are 0 */
    int64_t clock_origin_ns; /* the clock's offset from the Epoch; already added to the times unless own */
    uint32_t class_count;
    const struct event_class *const *classes;
};

struct trace_stream {
    const char *path; /* of its (first) file */
    uint32_t host;    /* index of its trace_host */
    uint64_t bytes;
};

enum trace_loss_kind {
    LOSS_DISCARDED_EVENTS,  /* the tracer dropped them; count events */
    LOSS_DISCARDED_PACKETS, /* the tracer overwrote them; count packets */
    LOSS_TRUNCATED,         /* the file ends within a packet; count bytes */
    LOSS_UNREADABLE,        /* malformed; count bytes */
    LOSS_KINDS,
    LOSS_METADATA = LOSS_KINDS, /* the metadata ends within a packet, of no stream; count missing bytes */
};

#define LOSS_NO_STREAM UINT32_MAX

struct trace_loss {
    enum trace_loss_kind kind;
    uint32_t stream; /* LOSS_NO_STREAM: the metadata's */
    uint64_t count;
    uint64_t offset; /* bytes into the file, where it was first met */
    const char *path;
    char what[160]; /* of unreadable data: what was expected; else empty */
};

/* Opens a trace: a folder with a metadata file, or a folder of such folders at any depth (one experiment).
 * options may be NULL. *ret_trace is owned by the caller. -ENOENT: no metadata anywhere. problem names the
 * place. */
int trace_open(const char *path, const struct trace_options *options, struct problem *problem,
               struct trace **ret_trace);
void trace_close(struct trace *trace);
DEFINE_FREEP(struct trace, trace_close)

/* The next event in time order (equal times: in order of streams). 1: *ret_event is valid until the next
 * call; 0: the end; negative errno: out of memory. */
int trace_next(struct trace *trace, const struct event **ret_event);

/* The same of a trace that is still being written, but for events later than time_ns: they are next the next
 * time. 0: there is none until then. In one thread only. */
int trace_next_until(struct trace *trace, uint64_t time_ns, const struct event **ret_event);

/* The next event will be the first at or after time_ns. 0 or negative errno. */
int trace_seek_ns(struct trace *trace, uint64_t time_ns);

/* Back to the first event. 0 or negative errno. */
int trace_rewind(struct trace *trace);

/* Looks for what was written since the end was reached: longer streams, new files, classes appended to the
 * metadata; trace_next() then goes on. The number of bytes (new files count as one) that are new, or a
 * negative errno. */
int64_t trace_refresh(struct trace *trace);

/* What was lost up to here, one entry per stream and kind; valid until the next trace_next(). */
const struct trace_loss *trace_losses(const struct trace *trace, size_t *ret_count);

/* For progress: bytes of stream files read, and in all. */
void trace_progress(const struct trace *trace, uint64_t *ret_done, uint64_t *ret_total);

uint32_t trace_host_count(const struct trace *trace);
const struct trace_host *trace_host_at(const struct trace *trace, uint32_t index);
uint32_t trace_stream_count(const struct trace *trace);
const struct trace_stream *trace_stream_at(const struct trace *trace, uint32_t index);

/* The value of the environment's variable, or NULL; integers are not returned. */
const char *trace_host_environment(const struct trace *trace, uint32_t host, const char *name);

#endif
