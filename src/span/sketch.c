/* See sketch.h. Log-linear bins as in the DDSketch family, with a window of counters that grows at both ends.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/sketch.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"

#define STEP 16 /* the window grows in multiples of this many bins */

uint64_t sketch_bin_low(uint16_t bin)
{
    if (bin < 64)
        return bin;
    unsigned octave = bin / 64u - 1;
    return (uint64_t)(64 + bin % 64) << octave;
}

double sketch_bin_middle(uint16_t bin)
{
    if (bin < 64)
        return bin;
    double width = (double)(1ull << (bin / 64u - 1));
    return (double)sketch_bin_low(bin) + (width - 1) / 2;
}

static uint64_t counter(const struct sketch *sketch, unsigned i)
{
    return sketch->in.window.wide ? sketch->in.window.wide[i] : sketch->in.window.counters[i];
}

/* Makes the window cover [first, end), keeping its counters. */
static int cover(struct sketch *sketch, unsigned first, unsigned end)
{
    unsigned old_first = sketch->in.window.first, old_end = old_first + sketch->in.window.width;
    if (sketch->in.window.width) {
        first = MIN(first, old_first);
        end = MAX(end, old_end);
    }
    first = first / STEP * STEP;
    end = (end + STEP - 1) / STEP * STEP;
    if (sketch->in.window.width && first == old_first && end == old_end)
        return 0;
    size_t size = sketch->in.window.wide ? 8 : 4;
    char *grown = calloc(end - first, size);
    if (!grown)
        return -ENOMEM;
    char *old = sketch->in.window.wide ? (char *)sketch->in.window.wide : (char *)sketch->in.window.counters;
    if (old)
        memcpy(grown + (old_first - first) * size, old, sketch->in.window.width * size);
    free(old);
    if (sketch->in.window.wide)
        sketch->in.window.wide = (uint64_t *)(void *)grown;
    else
        sketch->in.window.counters = (uint32_t *)(void *)grown;
    sketch->in.window.first = (uint16_t)first;
    sketch->in.window.width = (uint16_t)(end - first);
    return 0;
}

static int widen(struct sketch *sketch)
{
    uint64_t *wide = calloc(sketch->in.window.width, sizeof(*wide));
    if (!wide)
        return -ENOMEM;
    for (unsigned i = 0; i < sketch->in.window.width; i++)
        wide[i] = sketch->in.window.counters[i];
    free(sketch->in.window.counters);
    sketch->in.window.counters = NULL;
    sketch->in.window.wide = wide;
    return 0;
}

/* From the short list to a window. */
static int open_window(struct sketch *sketch)
{
    struct sketch windowed = {.windowed = 1};
    unsigned first = SKETCH_BINS, end = 0;
    for (unsigned i = 0; i < sketch->count; i++) {
        first = MIN(first, sketch->in.few[i]);
        end = MAX(end, sketch->in.few[i] + 1u);
    }
    if (sketch->count) {
        int r = cover(&windowed, first, end);
        if (r < 0)
            return r;
    }
    for (unsigned i = 0; i < sketch->count; i++)
        windowed.in.window.counters[sketch->in.few[i] - windowed.in.window.first]++;
    windowed.count = sketch->count;
    *sketch = windowed;
    return 0;
}

int sketch_add_bin(struct sketch *sketch, uint16_t bin, uint64_t times)
{
    if (!times)
        return 0;
    if (!sketch->windowed) {
        if (times <= SKETCH_SHORT && sketch->count + times <= SKETCH_SHORT) {
            for (; times; times--)
                sketch->in.few[sketch->count++] = bin;
            return 0;
        }
        int r = open_window(sketch);
        if (r < 0)
            return r;
    }
    unsigned at = (unsigned)bin - sketch->in.window.first;
    if (at >= sketch->in.window.width) {
        int r = cover(sketch, bin, bin + 1u);
        if (r < 0)
            return r;
        at = (unsigned)bin - sketch->in.window.first;
    }
    if (!sketch->in.window.wide && times > UINT32_MAX - (uint64_t)sketch->in.window.counters[at]) {
        int r = widen(sketch);
        if (r < 0)
            return r;
    }
    if (sketch->in.window.wide)
        sketch->in.window.wide[at] += times;
    else
        sketch->in.window.counters[at] += (uint32_t)times;
    sketch->count += times;
    return 0;
}

int sketch_add(struct sketch *sketch, uint64_t duration_ns)
{
    return sketch_add_bin(sketch, sketch_bin(duration_ns), 1);
}

int sketch_merge(struct sketch *into, const struct sketch *from)
{
    if (!from->windowed) {
        for (unsigned i = 0; i < from->count; i++) {
            int r = sketch_add_bin(into, from->in.few[i], 1);
            if (r < 0)
                return r;
        }
        return 0;
    }
    for (unsigned i = 0; i < from->in.window.width; i++) {
        int r = sketch_add_bin(into, (uint16_t)(from->in.window.first + i), counter(from, i));
        if (r < 0)
            return r;
    }
    return 0;
}

int sketch_subtract(struct sketch *into, const struct sketch *from)
{
    struct sketch left = {0};
    uint16_t first, end;
    sketch_range(into, &first, &end);
    uint64_t taken = 0;
    for (unsigned bin = first; bin < end; bin++) {
        uint64_t have = sketch_bin_count(into, (uint16_t)bin), less = sketch_bin_count(from, (uint16_t)bin);
        taken += less;
        int r = have < less ? -EINVAL : sketch_add_bin(&left, (uint16_t)bin, have - less);
        if (r < 0) {
            sketch_done(&left);
            return r;
        }
    }
    if (taken != from->count) {
        sketch_done(&left);
        return -EINVAL;
    }
    sketch_done(into);
    *into = left;
    return 0;
}

uint64_t sketch_bin_count(const struct sketch *sketch, uint16_t bin)
{
    if (sketch->windowed) {
        unsigned at = (unsigned)bin - sketch->in.window.first;
        return at < sketch->in.window.width ? counter(sketch, at) : 0;
    }
    uint64_t count = 0;
    for (unsigned i = 0; i < sketch->count; i++)
        count += sketch->in.few[i] == bin;
    return count;
}

void sketch_range(const struct sketch *sketch, uint16_t *ret_first, uint16_t *ret_end)
{
    unsigned first = SKETCH_BINS, end = 0;
    if (!sketch->windowed) {
        for (unsigned i = 0; i < sketch->count; i++) {
            first = MIN(first, sketch->in.few[i]);
            end = MAX(end, sketch->in.few[i] + 1u);
        }
    } else {
        for (unsigned i = 0; i < sketch->in.window.width; i++)
            if (counter(sketch, i)) {
                first = MIN(first, sketch->in.window.first + i);
                end = sketch->in.window.first + i + 1;
            }
    }
    *ret_first = (uint16_t)(end ? first : 0);
    *ret_end = (uint16_t)end;
}

double sketch_quantile(const struct sketch *sketch, double quantile)
{
    if (!sketch->count)
        return 0;
    double wanted = ceil(quantile * (double)sketch->count);
    uint64_t rank = wanted < 1 ? 1 : (uint64_t)wanted;
    rank = MIN(rank, sketch->count);
    uint16_t first, end;
    sketch_range(sketch, &first, &end);
    uint64_t seen = 0;
    for (unsigned bin = first; bin < end; bin++) {
        seen += sketch_bin_count(sketch, (uint16_t)bin);
        if (seen >= rank)
            return sketch_bin_middle((uint16_t)bin);
    }
    return 0;
}

uint64_t sketch_count_above(const struct sketch *sketch, uint64_t duration_ns)
{
    uint16_t first, end;
    sketch_range(sketch, &first, &end);
    uint64_t above = 0;
    for (unsigned bin = sketch_bin(duration_ns) + 1u; bin < end; bin++)
        above += sketch_bin_count(sketch, (uint16_t)bin);
    return above;
}

double sketch_mean(const struct sketch *sketch)
{
    uint16_t first, end;
    sketch_range(sketch, &first, &end);
    double sum = 0;
    for (unsigned bin = first; bin < end; bin++)
        sum += sketch_bin_middle((uint16_t)bin) * (double)sketch_bin_count(sketch, (uint16_t)bin);
    return sketch->count ? sum / (double)sketch->count : 0;
}

void sketch_log_moments(const struct sketch *sketch, double *ret_mean, double *ret_variance)
{
    uint16_t first, end;
    sketch_range(sketch, &first, &end);
    double n = 0, mean = 0, squares = 0;
    for (unsigned bin = first; bin < end; bin++) {
        double times = (double)sketch_bin_count(sketch, (uint16_t)bin);
        if (times == 0)
            continue;
        double value = log(fmax(sketch_bin_middle((uint16_t)bin), 1)), off = value - mean;
        n += times;
        mean += off * times / n;
        squares += off * (value - mean) * times;
    }
    *ret_mean = mean;
    *ret_variance = n > 1 ? squares / (n - 1) : 0;
}

static void write_leb128(struct text *to, uint64_t value)
{
    char bytes[10];
    size_t n = 0;
    do {
        bytes[n] = (char)(value & 127);
        value >>= 7;
        if (value)
            bytes[n] = (char)(bytes[n] | -128);
        n++;
    } while (value);
    text_add_bytes(to, bytes, n);
}

static int read_leb128(const uint8_t **at, const uint8_t *end, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *ret_value = value;
            return 0;
        }
    }
    return -EBADMSG;
}

void sketch_write(const struct sketch *sketch, struct text *to)
{
    write_leb128(to, sketch->count);
    uint16_t first, end;
    sketch_range(sketch, &first, &end);
    for (unsigned bin = first; bin < end; bin++) {
        uint64_t times = sketch_bin_count(sketch, (uint16_t)bin);
        if (!times)
            continue;
        write_leb128(to, bin);
        write_leb128(to, times);
    }
}

int sketch_read(const void *bytes, size_t length, struct sketch *ret_sketch)
{
    const uint8_t *at = bytes, *end = at + length;
    struct sketch sketch = {0};
    uint64_t count = 0;
    int r = read_leb128(&at, end, &count);
    while (r == 0 && at < end) {
        uint64_t bin = 0, times = 0;
        r = read_leb128(&at, end, &bin);
        if (r == 0)
            r = read_leb128(&at, end, &times);
        if (r == 0 && (bin >= SKETCH_BINS || !times || times > count - sketch.count))
            r = -EBADMSG;
        if (r == 0)
            r = sketch_add_bin(&sketch, (uint16_t)bin, times);
    }
    if (r == 0 && sketch.count != count)
        r = -EBADMSG;
    if (r < 0) {
        sketch_done(&sketch);
        return r;
    }
    *ret_sketch = sketch;
    return 0;
}

size_t sketch_held_bytes(const struct sketch *sketch)
{
    return sketch->windowed ? sketch->in.window.width * (sketch->in.window.wide ? 8u : 4u) : 0;
}

void sketch_done(struct sketch *sketch)
{
    if (sketch->windowed) {
        free(sketch->in.window.counters);
        free(sketch->in.window.wide);
    }
    memset(sketch, 0, sizeof(*sketch));
}
