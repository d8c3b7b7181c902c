/* The two encodings on which the columnar store rests: up to 64 unsigned numbers (time differences), and up
 * to 64 cells (values). Both can be read at any index without reading what lies before. Private to
 * src/history.
 *
 * NUMBERS: one width for all, or two widths with a bit for each number that says which. State sequences mix
 * short and long states (a thread runs for microseconds and sleeps for milliseconds), which one width would
 * serve badly.
 *
 *     byte 0             0LLLLLLL: all numbers have width L (0 .. 64)
 *                        1HHHHHHH: two widths; H is the larger, byte 1 the smaller
 *     [byte 1            the smaller width
 *      ceil(n/8) bytes   bit i set: number i has the larger width]
 *     packed bits        number after number
 *
 * CELLS: all of one type, as differences from the smallest; or a list of the distinct cells and indices into
 * it.
 *
 *     byte 0             bits 0..1: 0 = differences, 1 = list
 *     differences:       bits 2..3: type; bit 4: nulls occur, code 0 is null and the others are one higher
 *                        (type null: all cells are null, nothing follows)
 *       base             int: zigzag varint; string: varint; double: 8 bytes
 *       byte             width w of a code
 *       packed bits      n codes of w bits
 *     list:              bits 2..7: number of distinct cells, less one
 *       packed bits      n indices, of as many bits as the largest index needs
 *       cells            each a type byte and then as for base (null: nothing) */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HISTORY_CODEC_H
#define HISTORY_CODEC_H

#include "history/model.h"

enum {
    CODEC_MAX = 64,
    CODEC_NUMBERS_BYTES = 2 + 8 + 64 * 8 + 8, /* at most, with writer's slack */
    CODEC_CELL_BYTES = 1 + 10,                /* one cell with its type */
    CODEC_CELLS_BYTES = 1 + 64 * CODEC_CELL_BYTES + 64 * 8 + 8,
};

/* Writers return the byte behind. n is 0 .. 64 for numbers and 1 .. 64 for cells. */
uint8_t *numbers_write(uint8_t *p, const uint64_t *numbers, unsigned n);
uint8_t *cells_write(uint8_t *p, const struct cell *cells, unsigned n);
uint8_t *cell_write(uint8_t *p, struct cell cell);

/* Readers return the byte behind, or NULL when the data does not fit before `end` or is none of the above.
 * Memory behind end must be readable for BITS_SLACK bytes. */

/* What is known about encoded numbers without reading them. */
struct numbers {
    const uint8_t *bits;
    uint64_t select; /* bit i: number i has the larger width */
    unsigned low, high;
};
const uint8_t *numbers_open(struct numbers *numbers, const uint8_t *p, const uint8_t *end, unsigned n);

/* Number i. */
static inline uint64_t numbers_get(const struct numbers *numbers, unsigned i);

/* Writes base, base + n0, base + n0 + n1, ...: n + 1 sums for n numbers. Sums wrap silently on damaged data.
 */
void numbers_sums(const struct numbers *numbers, uint64_t base, unsigned n, uint64_t *ret_sums);
void numbers_all(const struct numbers *numbers, unsigned n, uint64_t *ret_numbers);

struct cells {
    const uint8_t *bits, *end;
    uint64_t base;
    uint16_t bits_bytes;
    uint8_t width, type, nullable, distinct;
};
int cells_open(struct cells *cells, const uint8_t *p, const uint8_t *end, unsigned n); /* 0 or -EBADMSG */

/* The byte behind. */
const uint8_t *cells_end(const struct cells *cells);

/* Cell i; a damaged list yields null. */
struct cell cells_get(const struct cells *cells, unsigned i);
void cells_all(const struct cells *cells, unsigned n, struct cell *ret_cells);
const uint8_t *cell_read(const uint8_t *p, const uint8_t *end, struct cell *ret_cell);

#include "history/bits.h"

static inline uint64_t numbers_get(const struct numbers *numbers, unsigned i)
{
    unsigned above = bits_set(numbers->select & bits_mask(i));
    size_t at = (size_t)numbers->low * i + (size_t)(numbers->high - numbers->low) * above;
    return bits_get(numbers->bits, at, numbers->select >> i & 1 ? numbers->high : numbers->low);
}

#endif
