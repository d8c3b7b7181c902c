/* Memcached as clients write it (doc/protocol.txt of its source). Text:
 *
 *     word, arguments separated by spaces, \r\n; storage commands have as many bytes more as their fourth
 * argument says (ms: its second), and \r\n. "noreply" as the last argument: no answer comes.
 *
 * Binary: 24 bytes of header (0x80, code, ..., length of what follows u32 at 8), then that. Which it is, the
 * first byte of the connection says. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_WIRE_MEMCACHED_H
#define PROBE_WIRE_MEMCACHED_H

#include "targets/memcached/probe_words.h"
#include "probe/wire.h"

enum { CACHE_START, CACHE_WORD, CACHE_ARGUMENTS, CACHE_DATA, CACHE_HEADER, CACHE_BODY };

enum { CACHE_MAGIC = 0x80, CACHE_HEADER_BYTES = 24, CACHE_DATA_MAX = 1 << 30 };

enum { CACHE_CODE_LAST = 0x24 };

/* commands->items: which word, the number of the argument that is read, how much of "noreply" it has matched.
 */
enum { CACHE_WORD_BITS = 0xff, CACHE_ARGUMENT_SHIFT = 8, CACHE_NOREPLY_SHIFT = 16 };

static WIRE_APART bool wire_memcached_begins(struct cursor *c)
{
    char word[CACHE_WORD_MAX];
    uint32_t length = 0;
    if (!at_least_one(c))
        return false;
    char b = next_byte(c);
    if ((uint8_t)b == CACHE_MAGIC) {
        uint8_t head[12] = {CACHE_MAGIC};
        for (int i = 1; i < 12; i++) {
            if (!at_least_one(c))
                return false;
            head[i] = (uint8_t)next_byte(c);
        }
        uint32_t key = (uint32_t)head[2] << 8 | head[3];
        uint32_t body =
            (uint32_t)head[8] << 24 | (uint32_t)head[9] << 16 | (uint32_t)head[10] << 8 | head[11];
        return head[1] <= CACHE_CODE_LAST && head[5] == 0 && body >= key + head[4] && body < CACHE_DATA_MAX;
    }
    while (b != ' ' && b != '\r') {
        if (length == CACHE_WORD_MAX - 1 || b < '_' || b > 'z')
            return false;
        word[length++] = b;
        if (!at_least_one(c))
            return false;
        b = next_byte(c);
    }
    return cache_word(word, length) >= 0;
}

static inline void cache_name(struct probe_thread *self, const char *name, uint32_t begun,
                              uint32_t *operation)
{
    uint32_t length = 0;
    while (name[length])
        length++;
    if (length && begun == 1 && !*operation)
        *operation = name_of_text(self, name, length);
}

/* The word is gathered in value, with 6 bits a letter ('_' to 'z'): ten letters at most. */
static inline int cache_gathered(uint64_t value)
{
    char word[CACHE_WORD_MAX];
    uint32_t length = 0;
    for (int shift = 54; shift >= 0; shift -= 6)
        if (value >> shift & 63 && length < sizeof(word))
            word[length++] = (char)((value >> shift & 63) + '_' - 1);
    return cache_word(word, length);
}

/* The line is whole. */
static inline uint32_t cache_line(struct probe_thread *self, struct commands *d, uint32_t begun,
                                  uint32_t *operation)
{
    enum { NOREPLY = 7 };
    unsigned word = d->items & CACHE_WORD_BITS;
    bool answered = cache_counted(word, (d->items >> CACHE_NOREPLY_SHIFT & 0xff) == NOREPLY);
    d->state = CACHE_WORDS[word].size_at ? CACHE_DATA : CACHE_START;
    d->skip = d->value + 2;
    d->value = 0;
    if (answered)
        cache_name(self, CACHE_WORDS[word].word, begun + 1, operation);
    return answered;
}

static inline void cache_argument(struct commands *d, char b)
{
    static const char NOREPLY[] = "noreply";
    uint64_t argument = d->items >> CACHE_ARGUMENT_SHIFT & 0xff,
             matched = d->items >> CACHE_NOREPLY_SHIFT & 0xff;
    unsigned word = d->items & CACHE_WORD_BITS;
    if (b == ' ') {
        argument += argument < 255;
        matched = 0;
    } else if (b != '\r') {
        matched = matched < sizeof(NOREPLY) - 1 && b == NOREPLY[matched] ? matched + 1 : 255;
        if (argument == CACHE_WORDS[word].size_at && b >= '0' && b <= '9' && d->value < CACHE_DATA_MAX)
            d->value = d->value * 10 + (uint64_t)(b - '0');
        else if (argument == CACHE_WORDS[word].size_at && CACHE_WORDS[word].size_at)
            d->lost = 1;
    }
    d->items = word | argument << CACHE_ARGUMENT_SHIFT | matched << CACHE_NOREPLY_SHIFT;
}

static inline uint32_t cache_header(struct probe_thread *self, struct commands *d, uint8_t b, uint32_t begun,
                                    uint32_t *operation)
{
    enum { CODE_AT = 1, LENGTH_FROM = 8, LENGTH_TO = 12 };
    uint64_t at = d->items >> CACHE_ARGUMENT_SHIFT;
    if (at == CODE_AT)
        d->items |= b;
    if (at >= LENGTH_FROM && at < LENGTH_TO)
        d->value = d->value << 8 | b;
    d->items += 1 << CACHE_ARGUMENT_SHIFT;
    if (at + 1 < CACHE_HEADER_BYTES)
        return 0;
    unsigned code = d->items & CACHE_WORD_BITS;
    d->skip = d->value;
    d->lost = code > CACHE_CODE_LAST || d->value >= CACHE_DATA_MAX;
    d->state = d->skip ? CACHE_BODY : CACHE_START;
    bool answered = !d->lost && cache_code_counted(code);
    if (answered && code < CACHE_CODES_COUNT)
        cache_name(self, CACHE_CODES[code].word, begun + 1, operation);
    return answered;
}

static WIRE_APART uint32_t wire_memcached_follow(struct probe_thread *self, struct commands *d,
                                                 struct cursor *c, uint32_t *operation)
{
    uint32_t begun = 0;
    while (!d->lost && at_least_one(c)) {
        if (d->state == CACHE_DATA || d->state == CACHE_BODY) {
            skip_bytes(c, &d->skip);
            if (d->skip)
                break;
            d->state = CACHE_START;
            continue;
        }
        char b = next_byte(c);
        if (d->state == CACHE_START) {
            d->items = d->value = 0;
            d->state = (uint8_t)b == CACHE_MAGIC ? CACHE_HEADER : CACHE_WORD;
        }
        if (d->state == CACHE_HEADER) {
            begun += cache_header(self, d, (uint8_t)b, begun, operation);
        } else if (d->state == CACHE_WORD && b >= '_' && b <= 'z') {
            d->lost = d->value >> 54 != 0;
            d->value = d->value << 6 | (uint64_t)(b - '_' + 1);
        } else if (d->state == CACHE_WORD) {
            int word = b == ' ' || b == '\r' ? cache_gathered(d->value) : -1;
            d->lost = word < 0;
            d->items = (uint64_t)(word < 0 ? 0 : word) | (b == ' ' ? 1 << CACHE_ARGUMENT_SHIFT : 0);
            d->value = 0;
            d->state = CACHE_ARGUMENTS;
        } else if (b == '\n') {
            begun += cache_line(self, d, begun, operation);
        } else {
            cache_argument(d, b);
        }
    }
    return begun;
}

#endif
