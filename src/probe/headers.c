/* See headers.h. Every response that a service writes is read here up to its empty line, so this looks at 32
 * bytes at a time for where lines end, and at the first letter of each. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/headers.h"

#include <emmintrin.h>

enum { HEADERS_MAX = 8192, STEP = 32 };

/* word: in lower case, of 8 bytes. */
static inline bool same8(const char *p, const char *word)
{
    uint64_t a, b;
    __builtin_memcpy(&a, p, sizeof(a));
    __builtin_memcpy(&b, word, sizeof(b));
    return (a | 0x2020202020202020ull) == (b | 0x2020202020202020ull);
}

/* Whether n bytes begin with a word of 8 to 32 letters, eight at a time. */
#define SAME(p, n, word) SAME_((p), (n), (word), sizeof(word) - 1)
#define SAME_(p, n, word, length)                                                          \
    ((n) >= (length) && same8(p, word) && ((length) < 16 || same8((p) + 8, (word) + 8)) && \
     ((length) < 24 || same8((p) + 16, (word) + 16)) && same8((p) + (length)-8, (word) + (length)-8))

static int64_t number_at(const char *p, uint64_t n)
{
    int64_t value = 0;
    for (uint64_t k = 0; k < n && p[k] != '\r' && value < 1ll << 50; k++)
        if (p[k] >= '0' && p[k] <= '9')
            value = value * 10 + (p[k] - '0');
    return value;
}

/* The line at i; false when it is the empty one. */
static inline bool read_line(const char *p, uint64_t i, uint64_t n, struct headers *headers)
{
    const char *line = p + i;
    uint64_t rest = n - i;
    switch (line[0] | 0x20) {
    case '\r' | 0x20:
        if (line[0] != '\r')
            break;
        headers->bytes = i + 2;
        return false;
    case 'c':
        if (SAME(line, rest, "content-length:"))
            headers->content_length = number_at(line + 15, rest - 15);
        break;
    case 't':
        headers->chunked |= SAME(line, rest, "transfer-encoding: chunked");
        break;
    case 'u':
        headers->websocket |= SAME(line, rest, "upgrade: websocket\r");
        break;
    }
    return true;
}

/* A bit for each of STEP bytes that ends a line. */
static inline uint32_t line_ends(const char *p)
{
    enum { HALF = STEP / 2 };
    const __m128i feed = _mm_set1_epi8('\n');
    __m128i first = _mm_loadu_si128((const __m128i *)(const void *)p),
            second = _mm_loadu_si128((const __m128i *)(const void *)(p + HALF));
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(first, feed)) |
           (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(second, feed)) << HALF;
}

/* The lines behind these ends; false when there are no more. */
static inline bool read_lines(const char *p, uint64_t at, uint32_t ends, uint64_t n, struct headers *headers)
{
    for (; ends; ends &= ends - 1) {
        uint64_t line = at + (uint64_t)__builtin_ctz(ends) + 1;
        if (line >= n || !read_line(p, line, n, headers))
            return false;
    }
    return true;
}

void headers_read(const char *p, uint64_t n, struct headers *ret_headers)
{
    struct headers headers = {.content_length = -1};
    uint64_t at = 0;
    n = n < HEADERS_MAX ? n : HEADERS_MAX;
    for (; n - at >= STEP; at += STEP)
        if (!read_lines(p, at, line_ends(p + at), n, &headers))
            goto read;
    if (n < STEP) {
        for (; at + 1 < n; at++)
            if (p[at] == '\n' && !read_line(p, at + 1, n, &headers))
                break;
    } else if (at < n) { /* the last STEP bytes, of which some have been read */
        uint64_t last = n - STEP, seen = at - last;
        read_lines(p, last, line_ends(p + last) >> seen << seen, n, &headers);
    }
read:
    *ret_headers = headers;
}
