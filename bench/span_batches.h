/* OTLP batches for benchmarks: traces of eight spans over five services, encoded once, with ids that are
 * rewritten in place so that every batch is new. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_SPAN_BATCHES_H
#define BENCH_SPAN_BATCHES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_TRACES = 64,
    BATCH_SPANS_OF_TRACE = 8,
    BATCH_SPANS = BATCH_TRACES * BATCH_SPANS_OF_TRACE,
    BATCH_VALUES_MAX = 16, /* attributes of a span whose values never repeat */
    BATCH_VALUE_DIGITS = 16,
};

struct batch_bytes {
    uint8_t *at;
    size_t length, capacity;
    size_t ids[BATCH_SPANS * 3]; /* where trace, span and parent ids stand */
    uint8_t kinds[BATCH_SPANS * 3];
    size_t id_count;
    size_t times[BATCH_SPANS];
    size_t values[BATCH_SPANS * BATCH_VALUES_MAX]; /* where values stand that never repeat */
    size_t value_count;
};

static inline void batch_put(struct batch_bytes *b, const void *bytes, size_t n)
{
    if (b->length + n > b->capacity) {
        b->capacity = (b->length + n) * 2;
        b->at = realloc(b->at, b->capacity);
    }
    memcpy(b->at + b->length, bytes, n);
    b->length += n;
}

static inline void batch_varint(struct batch_bytes *b, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    do {
        bytes[n++] = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
        value >>= 7;
    } while (value);
    batch_put(b, bytes, n);
}

static inline void batch_field(struct batch_bytes *b, unsigned number, const void *bytes, size_t n)
{
    batch_varint(b, number << 3 | 2);
    batch_varint(b, n);
    batch_put(b, bytes, n);
}

static inline void batch_attribute(struct batch_bytes *b, unsigned number, const char *key, const char *value)
{
    struct batch_bytes text = {0}, pair = {0};
    batch_field(&text, 1, value, strlen(value));
    batch_field(&pair, 1, key, strlen(key));
    batch_field(&pair, 2, text.at, text.length);
    batch_field(b, number, pair.at, pair.length);
    free(text.at);
    free(pair.at);
}

static inline void batch_fixed64(struct batch_bytes *b, unsigned number, uint64_t value)
{
    batch_varint(b, number << 3 | 1);
    batch_put(b, &value, 8);
}

/* The spans of one service in one batch; parent of span k of a trace is (k - 1) / 2. */
static inline void batch_service(struct batch_bytes *all, unsigned service, unsigned host, unsigned version,
                                 const char *type, unsigned values)
{
    static const char *const names[] = {"",       "price", "stock", "SELECT items",
                                        "charge", "ship",  "mail",  "log"};
    char text[32];
    struct batch_bytes *resource = calloc(1, sizeof(*resource)), *spans = calloc(1, sizeof(*spans));
    snprintf(text, sizeof(text), "service-%u", service);
    batch_attribute(resource, 1, "service.name", text);
    snprintf(text, sizeof(text), "1.%u", service == 2 ? version : 0);
    batch_attribute(resource, 1, "service.version", text);
    snprintf(text, sizeof(text), "host-%u", host);
    batch_attribute(resource, 1, "host.name", text);
    snprintf(text, sizeof(text), "gen%u", 5 + host % 3);
    batch_attribute(resource, 1, "hardware.generation", text);
    batch_attribute(resource, 1, "telemetry.sdk.name", "opentelemetry");
    batch_attribute(resource, 1, "deployment.environment", "production");
    for (unsigned t = 0; t < BATCH_TRACES; t++)
        for (unsigned k = service; k < BATCH_SPANS_OF_TRACE; k += 5) {
            struct batch_bytes *s = calloc(1, sizeof(*s));
            uint8_t trace[16] = {0}, id[8] = {0}, parent[8] = {0};
            memcpy(trace, &(uint64_t){t + 1}, 8);
            memcpy(id, &(uint64_t){t * 16 + k + 1}, 8);
            memcpy(parent, &(uint64_t){t * 16 + (k ? (k - 1) / 2 : 0) + 1}, 8);
            batch_field(s, 1, trace, 16);
            batch_field(s, 2, id, 8);
            if (k)
                batch_field(s, 4, parent, 8);
            const char *name = k ? names[k] : type;
            batch_field(s, 5, name, strlen(name));
            batch_varint(s, 6 << 3);
            batch_varint(s, k % 2 ? 3 : 2);
            uint64_t start = 1700000000000000000ull + t * 1000000 + k * 10000;
            batch_fixed64(s, 7, start);
            batch_fixed64(s, 8, start + 5000000 - k * 500000 + (t * 7919) % 400000);
            batch_attribute(s, 9, "http.request.method", "GET");
            batch_attribute(s, 9, "http.route", "/checkout/:id");
            for (unsigned v = 0; v < values; v++) {
                snprintf(text, sizeof(text), "made.up.%u", v);
                batch_attribute(s, 9, text, "################");
            }
            batch_field(spans, 2, s->at, s->length);
            free(s->at);
            free(s);
        }
    struct batch_bytes *group = calloc(1, sizeof(*group));
    batch_field(group, 1, resource->at, resource->length);
    batch_field(group, 2, spans->at, spans->length);
    batch_field(all, 1, group->at, group->length);
    free(group->at);
    free(group);
    free(resource->at);
    free(resource);
    free(spans->at);
    free(spans);
}

/* Where the ids stand: found by the tags that precede them. */
static inline void batch_find_ids(struct batch_bytes *b)
{
    for (size_t i = 0; i + 20 < b->length; i++) {
        if (b->at[i] == 0x0a && b->at[i + 1] == 16 && b->at[i + 18] == 0x12 && b->at[i + 19] == 8)
            b->ids[b->id_count++] = i + 2;
        if (b->at[i] == BATCH_VALUE_DIGITS &&
            memcmp(b->at + i + 1, "################", BATCH_VALUE_DIGITS) == 0)
            b->values[b->value_count++] = i + 1;
    }
}

/* Requests of one type, all of whose services are on one host; service-2 has that version. Each span has so
 * many attributes for batch_revalue(). */
static inline struct batch_bytes *batch_make_type(unsigned host, unsigned version, const char *type,
                                                  unsigned values)
{
    struct batch_bytes *b = calloc(1, sizeof(*b));
    for (unsigned service = 0; service < 5; service++)
        batch_service(b, service, host, version, type, values);
    batch_find_ids(b);
    return b;
}

static inline struct batch_bytes *batch_make(unsigned host, unsigned version)
{
    return batch_make_type(host, version, "GET /checkout", 0);
}

/* New trace ids: the upper half of each is the batch's number. */
static inline void batch_renumber(struct batch_bytes *b, uint64_t number)
{
    for (size_t i = 0; i < b->id_count; i++)
        memcpy(b->at + b->ids[i] + 8, &number, 8);
}

/* New values, numbered from there on. */
static inline void batch_revalue(struct batch_bytes *b, uint64_t from)
{
    for (size_t i = 0; i < b->value_count; i++, from++)
        for (unsigned digit = 0; digit < BATCH_VALUE_DIGITS; digit++)
            b->at[b->values[i] + digit] = (uint8_t) "0123456789abcdef"[from >> (60 - 4 * digit) & 15];
}

#endif
