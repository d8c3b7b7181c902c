/* Integers of few bytes: zigzag, which makes small numbers of negative ones, and LEB128. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_VARINT_H
#define BASE_VARINT_H

#include <stddef.h>
#include <stdint.h>

#define VARINT_MAX 10 /* bytes of one number at most */

static inline uint64_t zigzag(int64_t number)
{
    return ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
}

static inline int64_t unzigzag(uint64_t number)
{
    return (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
}

/* LEB128: seven bits a byte, the lowest first. Returns the byte behind. */
static inline uint8_t *varint_put(uint8_t *p, uint64_t number)
{
    while (number >= 0x80) {
        *p++ = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    *p++ = (uint8_t)number;
    return p;
}

/* The byte behind, or NULL when it does not end before `end` or is longer than ten bytes. */
static inline const uint8_t *varint_get(const uint8_t *p, const uint8_t *end, uint64_t *ret_number)
{
    uint64_t number = 0;
    for (unsigned shift = 0; p < end && shift < 70; shift += 7) {
        uint8_t byte = *p++;
        number |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if (!(byte & 0x80)) {
            *ret_number = number;
            return p;
        }
    }
    return NULL;
}

#endif
