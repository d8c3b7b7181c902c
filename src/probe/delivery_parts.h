/* What the readers of brokers' protocols share (delivery.c, delivery_mqtt.c, delivery_resp.c). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_DELIVERY_PARTS_H
#define PROBE_DELIVERY_PARTS_H

#include "probe/delivery.h"

struct part {
    const char *at;
    uint64_t length;
};

/* ---- hashes ---- */

static inline uint64_t hash_begin(void)
{
    return 0xCBF29CE484222325ull ^ probe_shared->message_key;
}

static inline uint64_t hash_bytes(uint64_t h, const char *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)p[i]) * 0x100000001B3ull;
    return (h ^ 0xff) * 0x100000001B3ull; /* "ab" and "c" are not "a" and "bc" */
}

static inline uint64_t hash_part(uint64_t h, const struct part *part)
{
    return hash_bytes(h, part->at, part->length);
}

/* Never 0. */
static inline uint64_t hash_end(uint64_t h)
{
    h = (h ^ probe_shared->message_key) * 0x9E3779B97F4A7C15ull;
    h ^= h >> 32;
    return h ? h : 1;
}

/* ---- what was seen ---- */

static inline void seen_add(struct queue_seen_list *seen, uint8_t step, uint64_t identity, uint64_t number,
                            uint64_t bytes, uint32_t queue)
{
    if (seen->count < QUEUE_SEEN_MAX)
        seen->at[seen->count++] = (struct queue_seen){
            .identity = identity, .number = number, .bytes = bytes, .queue = queue, .step = step};
}

/* ---- bodies ---- */

enum { HASHED_MAX = 4096 };

/* A message's text, as it comes: the first HASHED_MAX bytes of it count. */
static inline void hash_body(struct queue_way *w, const char *p, uint64_t n)
{
    n = n < HASHED_MAX - w->hashed ? n : HASHED_MAX - w->hashed;
    for (uint64_t i = 0; i < n; i++)
        w->hash = (w->hash ^ (uint8_t)p[i]) * 0x100000001B3ull;
    w->hashed += (uint32_t)n;
}

/* The message that was being read is whole. */
static inline void ended(struct queue_way *w, bool out, struct queue_seen_list *seen)
{
    if (w->open)
        seen_add(seen, out ? SONDE_queue_step_sent : SONDE_queue_step_taken, hash_end(w->hash), w->number,
                 w->bytes, w->queue);
    w->open = 0;
}

/* ---- words ---- */

static inline bool begins_with(const char *p, uint64_t n, const char *word, uint64_t length)
{
    if (n < length)
        return false;
    for (uint64_t i = 0; i < length; i++)
        if (p[i] != word[i])
            return false;
    return true;
}
#define BEGINS_WITH(p, n, word) begins_with(p, n, word, sizeof(word) - 1)

static inline bool is_word(const struct part *part, const char *word, uint64_t length)
{
    for (uint64_t i = 0; i < length; i++)
        if (part->length != length || (part->at[i] & ~0x20) != word[i])
            return false;
    return true;
}
#define IS_WORD(part, word) is_word(part, word, sizeof(word) - 1)

/* A number of at most ten digits. */
static inline bool decimal(const struct part *part, uint64_t *ret_number)
{
    uint64_t number = 0;
    for (uint64_t i = 0; i < part->length; i++) {
        if (part->at[i] < '0' || part->at[i] > '9' || i == 10)
            return false;
        number = number * 10 + (uint64_t)(part->at[i] - '0');
    }
    *ret_number = number;
    return part->length > 0;
}

/* ---- AMQP 0-9-1 and NATS (delivery.c has their forms) ---- */

enum { FRAME_HEAD = 7, CONTENT_HEAD = 12, FRAME_END = 0xce, FRAME_MAX = 1 << 28 };
enum { FRAME_METHOD = 1, FRAME_CONTENT, FRAME_BODY, FRAME_HEARTBEAT = 8 };
enum { NATS_PARTS = 6, NATS_BODY_MAX = 1 << 28 };

static inline uint64_t number_at(const char *p, uint64_t bytes)
{
    uint64_t number = 0;
    for (uint64_t i = 0; i < bytes; i++)
        number = number << 8 | (uint8_t)p[i];
    return number;
}

static inline unsigned parts_of(const char *p, uint64_t n, struct part *ret_parts)
{
    unsigned count = 0;
    for (uint64_t i = 0; i < n && count < NATS_PARTS;) {
        while (i < n && (p[i] == ' ' || p[i] == '\t'))
            i++;
        uint64_t start = i;
        while (i < n && p[i] != ' ' && p[i] != '\t')
            i++;
        if (i > start)
            ret_parts[count++] = (struct part){p + start, i - start};
    }
    return count;
}

#endif
