/* Packed bits, beside the integers of base/varint.h, for the columnar store's blocks.
 *
 * Bits are little-endian: bit i of a stream is bit i % 8 of byte i / 8. Readers load eight bytes at a time
 * and so may touch up to nine bytes behind the last one that they use; every record ends with BITS_SLACK
 * bytes for that. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HISTORY_BITS_H
#define HISTORY_BITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/varint.h"

enum { BITS_SLACK = 16 };

static inline uint64_t bits_load(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof(word));
    return word;
}

static inline uint64_t bits_mask(unsigned width)
{
    return width >= 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1;
}

/* How many bits a number needs; 0 for 0. */
static inline unsigned bits_needed(uint64_t number)
{
    return number ? 64 - (unsigned)__builtin_clzll(number) : 0;
}

static inline size_t bits_bytes(size_t bits)
{
    return (bits + 7) / 8;
}

/* How many bits are set; without a call where the target has no instruction for it. */
static inline unsigned bits_set(uint64_t word)
{
    word -= word >> 1 & 0x5555555555555555ull;
    word = (word & 0x3333333333333333ull) + (word >> 2 & 0x3333333333333333ull);
    return (unsigned)(((word + (word >> 4)) & 0x0f0f0f0f0f0f0f0full) * 0x0101010101010101ull >> 56);
}

/* width (0 .. 64) bits at bit position `at`. */
static inline uint64_t bits_get(const uint8_t *p, size_t at, unsigned width)
{
    unsigned shift = at & 7;
    p += at >> 3;
    uint64_t word = bits_load(p) >> shift;
    if (shift + width > 64)
        word |= (uint64_t)p[8] << (64 - shift);
    return word & bits_mask(width);
}

/* Appends bits to zeroed memory that has eight bytes of slack. */
struct bit_writer {
    uint8_t *p;
    uint64_t pending;
    unsigned count; /* bits in pending, below 64 */
};

static inline void bits_put(struct bit_writer *w, uint64_t number, unsigned width)
{
    w->pending |= number << w->count;
    if (w->count + width >= 64) {
        memcpy(w->p, &w->pending, 8);
        w->p += 8;
        w->pending = w->count ? number >> (64 - w->count) : 0;
        w->count = w->count + width - 64;
        w->pending &= bits_mask(w->count);
    } else {
        w->count += width;
    }
}

/* Writes what is pending; returns the first byte behind. */
static inline uint8_t *bits_end(struct bit_writer *w)
{
    memcpy(w->p, &w->pending, 8);
    return w->p + bits_bytes(w->count);
}

#endif
