/* A sketch of durations: a histogram of log-linear bins, 64 to an octave, with integer counters.
 *
 * Bin of a duration of d nanoseconds, with e = floor(log2 d):
 *     d < 64:   d itself (exact)
 *     d >= 64:  (e - 5) * 64 + the six bits of d below its highest one
 * A quantile is the middle of its bin, so it is off by at most half a bin: 1/128, 0.78 %.
 *
 * Merging adds counters: any order and any machine give the same bits, which sketch_write() shows.
 * Few values are kept as a short list; more as a window of counters over the bins in use. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_SKETCH_H
#define SPAN_SKETCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

#define SKETCH_BINS  3776 /* of any 64-bit duration */
#define SKETCH_SHORT 12   /* values that fit in without memory of their own */

/* Zero-initialise to use; sketch_done() when finished. */
struct sketch {
    uint64_t count;
    union {
        uint16_t few[SKETCH_SHORT]; /* the bins, in order of arrival, while counters are not in use */
        struct {
            uint32_t *counters; /* of the bins [first, first + width) */
            uint64_t *wide;     /* instead of counters once one of them would overflow */
            uint16_t first, width;
        } window;
    } in;
    uint8_t windowed;
};

/* The bin of a duration, and the bounds of a bin: [low, high). */
static inline uint16_t sketch_bin(uint64_t duration_ns)
{
    if (duration_ns < 64)
        return (uint16_t)duration_ns;
    unsigned e = 63u - (unsigned)__builtin_clzll(duration_ns);
    return (uint16_t)((e - 5) * 64 + ((duration_ns >> (e - 6)) & 63));
}
uint64_t sketch_bin_low(uint16_t bin);
double sketch_bin_middle(uint16_t bin);

/* 0 or -ENOMEM, which leaves the sketch as it was. */
int sketch_add(struct sketch *sketch, uint64_t duration_ns);
int sketch_add_bin(struct sketch *sketch, uint16_t bin, uint64_t times);
int sketch_merge(struct sketch *into, const struct sketch *from);

/* Takes away what an earlier state of the same sketch held; -EINVAL when from is no earlier state. */
int sketch_subtract(struct sketch *into, const struct sketch *from);

uint64_t sketch_bin_count(const struct sketch *sketch, uint16_t bin);

/* The smallest bin in use, and one above the largest; both 0 when the sketch is empty. */
void sketch_range(const struct sketch *sketch, uint16_t *ret_first, uint16_t *ret_end);

/* The quantile (0 to 1) by rank, as the middle of its bin; 0 when empty. */
double sketch_quantile(const struct sketch *sketch, double quantile);

/* Values above a duration. */
uint64_t sketch_count_above(const struct sketch *sketch, uint64_t duration_ns);

/* Mean of the durations; mean and variance of their natural logarithms (of at least 1 ns). */
double sketch_mean(const struct sketch *sketch);
void sketch_log_moments(const struct sketch *sketch, double *ret_mean, double *ret_variance);

/* The canonical bytes: count, then (bin, counter) in ascending order, as LEB128. Equal contents give equal
 * bytes, whatever the order they arrived in. */
void sketch_write(const struct sketch *sketch, struct text *to);

/* Reads what sketch_write() wrote into an empty sketch; -EBADMSG when it is something else. */
int sketch_read(const void *bytes, size_t length, struct sketch *ret_sketch);

size_t sketch_held_bytes(const struct sketch *sketch);
void sketch_done(struct sketch *sketch);

#endif
