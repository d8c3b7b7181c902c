/* A span as a decoder hands it out, whatever format it came from, and the sink that takes it. Strings are
 * slices of the decoder's input (or of its scratch memory): a sink copies what it keeps. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_SPAN_H
#define SPAN_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const char *at;
    size_t length;
};

#define SLICE(literal) ((struct slice){(literal), sizeof(literal) - 1})

static inline struct slice slice_of(const char *string)
{
    return (struct slice){string, strlen(string)};
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.at, b.at, a.length) == 0);
}

static inline bool slice_is(struct slice a, const char *string)
{
    return slice_equal(a, slice_of(string));
}

/* As OTLP numbers them. */
enum span_kind {
    SPAN_KIND_UNSPECIFIED,
    SPAN_KIND_INTERNAL,
    SPAN_KIND_SERVER,
    SPAN_KIND_CLIENT,
    SPAN_KIND_PRODUCER,
    SPAN_KIND_CONSUMER,
};

/* A server's half of a span whose id its client uses too (Zipkin) has this much in its id. */
#define SPAN_SHARED_BIT 0x5353000000000000ull

/* Values are text: numbers and booleans are written out by the decoder. */
struct span_attribute {
    struct slice key;
    struct slice value;
};

/* At most this many attributes of one span or one resource are kept; more are counted in span_counts. */
#define SPAN_ATTRIBUTES_MAX 128

/* What all spans of one process share. */
struct span_resource {
    uint64_t serial;      /* differs between any two resources of this process; 0: not numbered */
    struct slice service; /* service.name */
    struct slice version; /* service.version; may be empty */
    struct slice host;    /* host.name, or what comes nearest; may be empty */
    const struct span_attribute *attributes;
    size_t attribute_count;
};

struct span {
    uint64_t trace_high, trace_low;
    uint64_t id;
    uint64_t parent;           /* 0: a root */
    uint64_t start_ns, end_ns; /* CLOCK_REALTIME of the host that sent it; end_ns >= start_ns */
    struct slice name;
    uint8_t kind; /* enum span_kind */
    bool error;
    bool shared; /* see SPAN_SHARED_BIT */
    const struct span_resource *resource;
    const struct span_attribute *attributes;
    size_t attribute_count;
};

/* How a span ended, as OpenTelemetry has it. */
enum { SPAN_STATUS_UNSET, SPAN_STATUS_OK, SPAN_STATUS_ERROR };
#define SPAN_EVENT_EXCEPTION "exception" /* the name of an event */

struct span_outcome {
    uint8_t status;
    bool exception; /* one was recorded as an event */
};

/* An exception is a failure, unless the span says that it ended well: many instrumentations record the
 * exception and leave the status as it is. */
static inline bool span_outcome_failed(struct span_outcome outcome)
{
    return outcome.status == SPAN_STATUS_ERROR || (outcome.exception && outcome.status != SPAN_STATUS_OK);
}

/* What decoding could not use, by reason. */
struct span_counts {
    uint64_t spans;              /* handed to the sink */
    uint64_t without_id;         /* no trace id or no span id */
    uint64_t without_time;       /* it never ended, or lies beyond the year 2262 */
    uint64_t backwards;          /* ended before it started: taken as of no duration */
    uint64_t attributes_dropped; /* above SPAN_ATTRIBUTES_MAX */
    uint64_t malformed;          /* lines or records that do not parse */
};

struct span_sink {
    /* 0, or a negative errno that stops the decoder and is returned by it. */
    int (*take)(void *context, const struct span *span);
    void *context;
    struct span_counts counts;
};

/* Checks and counts a decoded span, then hands it to the sink. */
int span_sink_put(struct span_sink *sink, struct span *span);

/* Sets service, version and host from the attributes by OpenTelemetry's conventions, where they are empty,
 * and numbers the resource. Safe from several threads. */
void span_resource_conventions(struct span_resource *resource);

/* The identifier that a text stands for: its number when it is at most 32 hexadecimal digits, else a hash.
 * Outputs are 0 only for an empty text or one of zeros. */
void span_id_parse(struct slice text, uint64_t *ret_high, uint64_t *ret_low);

#endif
