/* RESP, what Redis' clients write: *<arguments>\r\n ($<length>\r\n<bytes>\r\n){arguments}. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_WIRE_RESP_H
#define PROBE_WIRE_RESP_H

#include "probe/delivery.h"
#include "probe/wire.h"

enum {
    RESP_START,
    RESP_COUNT,
    RESP_COUNT_END,
    RESP_DOLLAR,
    RESP_LENGTH,
    RESP_LENGTH_END,
    RESP_BYTES,
    RESP_LOST
};

/* A number of at most nine digits and the end of its line, at p[*at]; false when there is none, or not all of
 * it. */
static inline bool number_line(const char *p, uint64_t n, uint64_t *at, uint64_t *ret_number)
{
    enum { DIGITS_MAX = 9 };
    uint64_t i = *at, number = 0, last = i + DIGITS_MAX;
    for (; i < n && i < last && p[i] >= '0' && p[i] <= '9'; i++)
        number = number * 10 + (uint64_t)(p[i] - '0');
    if (i == *at || i + 2 > n || p[i] != '\r' || p[i + 1] != '\n')
        return false;
    *at = i + 2;
    *ret_number = number;
    return true;
}

/* Whether a command that begins so may concern messages: those of streams (XADD), a script's call (EVALSHA),
 * BRPOPLPUSH; HGET and LREM where Bee-Queue is in use. */
static inline bool of_a_queue(const char *word)
{
    enum {
        LETTERS = 1 << ('b' & 31) | 1 << ('e' & 31) | 1 << ('h' & 31) | 1 << ('l' & 31) | 1 << ('x' & 31)
    };
    if (LIKELY(!(LETTERS >> (word[0] & 31) & 1)))
        return false;
    char first = word[0] | 0x20, second = word[1] | 0x20;
    return first == 'x' || (first == 'e' && second == 'v') || (first == 'b' && second == 'r') ||
           (queue_bee && ((first == 'h' && second == 'g') || (first == 'l' && second == 'r')));
}

/* Most writes are whole commands in one buffer: how many p begins with; *ret_bytes is their length. What is
 * left is read byte by byte. *streams is set when one may concern messages (of_a_queue()). */
static inline uint32_t whole_commands(const char *p, uint64_t n, uint64_t *ret_bytes, uint8_t *streams)
{
    uint32_t count = 0;
    *ret_bytes = 0;
    for (uint64_t at = 0, items, length, name; at < n && p[at] == '*'; count++, *ret_bytes = at) {
        at++;
        if (!number_line(p, n, &at, &items) || !items)
            break;
        name = at;
        for (; items; items--) {
            if (at >= n || p[at++] != '$' || !number_line(p, n, &at, &length) || n - at < length + 2)
                return count;
            at += length + 2;
        }
        /* "$4\r\nXADD", "$10\r\nXREADGROUP", "$7\r\nEVALSHA" */
        const char *word = &p[name + 4 + (p[name + 4] == '\n')];
        if (of_a_queue(word))
            *streams = 1;
    }
    return count;
}

/* Follows the commands; returns how many began. An unexpected byte (an inline command, another protocol) ends
 * the counting on this connection for good: a join that cannot be proved is not made. */
static inline uint32_t wire_resp_follow(struct probe_thread *self, struct commands *d, struct cursor *c,
                                        uint32_t *operation)
{
    uint32_t begun = 0;
    while (d->state != RESP_LOST && at_least_one(c)) {
        if (d->state == RESP_BYTES) {
            skip_bytes(c, &d->skip);
            if (d->skip)
                break;
            d->state = d->items ? RESP_DOLLAR : RESP_START;
            continue;
        }
        if (d->state == RESP_START) {
            uint64_t here = c->buffers[c->index].length - c->offset, whole;
            begun += whole_commands(c->buffers[c->index].base + c->offset, here < c->left ? here : c->left,
                                    &whole, &d->streams);
            c->offset += whole;
            c->left -= whole;
            if (!at_least_one(c))
                break;
        }
        char b = next_byte(c);
        switch (d->state) {
        case RESP_START:
            d->state = b == '*' ? RESP_COUNT : RESP_LOST;
            d->value = 0;
            begun += b == '*';
            break;
        case RESP_COUNT:
        case RESP_LENGTH:
            if (b >= '0' && b <= '9' && d->value < (1ull << 40))
                d->value = d->value * 10 + (uint64_t)(b - '0');
            else
                d->state = b != '\r' ? RESP_LOST : d->state + 1;
            break;
        case RESP_COUNT_END:
            d->items = d->value;
            d->state = b == '\n' && d->items ? RESP_DOLLAR : RESP_LOST;
            break;
        case RESP_DOLLAR:
            d->state = b == '$' ? RESP_LENGTH : RESP_LOST;
            d->value = 0;
            break;
        case RESP_LENGTH_END:
            d->skip = d->value + 2;
            d->items--;
            d->state = b == '\n' ? RESP_BYTES : RESP_LOST;
            break;
        }
    }
    d->lost = d->state == RESP_LOST;
    return begun;
}

static inline bool wire_resp_begins(struct cursor *c)
{
    if (!at_least_one(c) || next_byte(c) != '*' || !at_least_one(c))
        return false;
    char digit = next_byte(c);
    return digit >= '1' && digit <= '9';
}

#endif
