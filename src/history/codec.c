/* See codec.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "history/codec.h"

/* ---- Numbers ---- */

/* Picks the widths: *ret_high is the largest needed, *ret_low below it when two widths are smaller in all. */
static void choose_widths(const uint64_t *numbers, unsigned n, unsigned *ret_low, unsigned *ret_high)
{
    uint8_t counts[65] = {0};
    uint64_t present = 0; /* widths 0 .. 63 that occur */
    unsigned high = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned width = bits_needed(numbers[i]);
        counts[width]++;
        present |= width < 64 ? (uint64_t)1 << width : 0;
        if (width > high)
            high = width;
    }
    unsigned best = high, best_cost = n * high, below = 0;
    for (uint64_t left = present & bits_mask(high); left; left &= left - 1) {
        unsigned width = (unsigned)__builtin_ctzll(left);
        below += counts[width];
        unsigned cost = below * width + (n - below) * high + 8 + ((n + 7) & ~7u);
        if (cost < best_cost) {
            best_cost = cost;
            best = width;
        }
    }
    *ret_low = best;
    *ret_high = high;
}

uint8_t *numbers_write(uint8_t *p, const uint64_t *numbers, unsigned n)
{
    if (!n)
        return p;
    unsigned low, high;
    choose_widths(numbers, n, &low, &high);
    if (low == high) {
        *p++ = (uint8_t)high;
        struct bit_writer w = {.p = p};
        for (unsigned i = 0; i < n; i++)
            bits_put(&w, numbers[i], high);
        return bits_end(&w);
    }
    *p++ = (uint8_t)(0x80 | high);
    *p++ = (uint8_t)low;
    uint64_t select = 0, bound = bits_mask(low);
    for (unsigned i = 0; i < n; i++)
        select |= (uint64_t)(numbers[i] > bound) << i;
    memcpy(p, &select, 8);
    struct bit_writer w = {.p = p + bits_bytes(n)};
    for (unsigned i = 0; i < n; i++)
        bits_put(&w, numbers[i], select >> i & 1 ? high : low);
    return bits_end(&w);
}

const uint8_t *numbers_open(struct numbers *numbers, const uint8_t *p, const uint8_t *end, unsigned n)
{
    *numbers = (struct numbers){.bits = p};
    if (!n)
        return p;
    if (p >= end)
        return NULL;
    unsigned high = *p & 0x7f, low = high;
    if (*p++ & 0x80) {
        if (p >= end)
            return NULL;
        low = *p++;
        size_t bytes = bits_bytes(n);
        if ((size_t)(end - p) < bytes)
            return NULL;
        numbers->select = bits_load(p) & bits_mask(n);
        p += bytes;
    }
    if (high > 64 || low > high)
        return NULL;
    unsigned above = bits_set(numbers->select);
    size_t bytes = bits_bytes((size_t)low * n + (size_t)(high - low) * above);
    if ((size_t)(end - p) < bytes)
        return NULL;
    numbers->bits = p;
    numbers->low = low;
    numbers->high = high;
    return p + bytes;
}

void numbers_all(const struct numbers *numbers, unsigned n, uint64_t *ret_numbers)
{
    size_t at = 0;
    unsigned widths[2] = {numbers->low, numbers->high};
    if (numbers->high <= 56) { /* one load always holds the whole number */
        uint64_t masks[2] = {bits_mask(widths[0]), bits_mask(widths[1])};
        for (unsigned i = 0; i < n; i++) {
            unsigned s = numbers->select >> i & 1;
            ret_numbers[i] = bits_load(numbers->bits + (at >> 3)) >> (at & 7) & masks[s];
            at += widths[s];
        }
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        unsigned width = widths[numbers->select >> i & 1];
        ret_numbers[i] = bits_get(numbers->bits, at, width);
        at += width;
    }
}

void numbers_sums(const struct numbers *numbers, uint64_t base, unsigned n, uint64_t *ret_sums)
{
    numbers_all(numbers, n, ret_sums + 1);
    ret_sums[0] = base;
    for (unsigned i = 1; i <= n; i++)
        ret_sums[i] += ret_sums[i - 1];
}

/* ---- Cells ---- */

static uint8_t *bits_of_cell_write(uint8_t *p, struct cell cell)
{
    switch (cell.type) {
    case HISTORY_INT:
        return varint_put(p, zigzag((int64_t)cell.bits));
    case HISTORY_STRING:
        return varint_put(p, cell.bits);
    case HISTORY_DOUBLE:
        memcpy(p, &cell.bits, 8);
        return p + 8;
    default:
        return p;
    }
}

static const uint8_t *bits_of_cell_read(const uint8_t *p, const uint8_t *end, struct cell *cell)
{
    switch (cell->type) {
    case HISTORY_INT:
        p = varint_get(p, end, &cell->bits);
        cell->bits = (uint64_t)unzigzag(cell->bits);
        return p;
    case HISTORY_STRING:
        return varint_get(p, end, &cell->bits);
    case HISTORY_DOUBLE:
        if (end - p < 8)
            return NULL;
        cell->bits = bits_load(p);
        return p + 8;
    default:
        return p;
    }
}

uint8_t *cell_write(uint8_t *p, struct cell cell)
{
    *p++ = (uint8_t)cell.type;
    return bits_of_cell_write(p, cell);
}

const uint8_t *cell_read(const uint8_t *p, const uint8_t *end, struct cell *ret_cell)
{
    if (p >= end || *p > HISTORY_STRING)
        return NULL;
    *ret_cell = (struct cell){.type = *p++};
    return bits_of_cell_read(p, end, ret_cell);
}

/* The order in which differences are taken: signed for integers. */
static inline uint64_t ordered(uint64_t bits, uint32_t type)
{
    return type == HISTORY_INT ? bits ^ (uint64_t)1 << 63 : bits;
}

struct shape {
    uint64_t least, most; /* ordered */
    uint32_t type;
    bool nulls, mixed;
};

static struct shape look_at(const struct cell *cells, unsigned n)
{
    struct shape s = {.least = UINT64_MAX};
    for (unsigned i = 0; i < n; i++) {
        uint32_t type = cells[i].type;
        if (type == HISTORY_NULL) {
            s.nulls = true;
            continue;
        }
        if (s.type == HISTORY_NULL)
            s.type = type;
        else if (s.type != type)
            s.mixed = true;
        uint64_t o = ordered(cells[i].bits, type);
        s.least = o < s.least ? o : s.least;
        s.most = o > s.most ? o : s.most;
    }
    return s;
}

/* Writes the list form if it needs less than `limit` bytes; NULL otherwise. */
static uint8_t *list_write(uint8_t *p, const struct cell *cells, unsigned n, size_t limit)
{
    struct cell distinct[CODEC_MAX];
    uint8_t index[CODEC_MAX], list[CODEC_MAX * CODEC_CELL_BYTES], *end = list;
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned k = 0;
        while (k < count && !cell_equal(distinct[k], cells[i]))
            k++;
        if (k == count) {
            distinct[count++] = cells[i];
            end = cell_write(end, cells[i]);
            if ((size_t)(end - list) >= limit)
                return NULL;
        }
        index[i] = (uint8_t)k;
    }
    unsigned width = bits_needed(count - 1);
    if (1 + (size_t)(end - list) + bits_bytes((size_t)width * n) >= limit)
        return NULL;
    *p++ = (uint8_t)(1 | (count - 1) << 2);
    struct bit_writer w = {.p = p};
    for (unsigned i = 0; i < n; i++)
        bits_put(&w, index[i], width);
    p = bits_end(&w);
    memcpy(p, list, (size_t)(end - list));
    return p + (end - list);
}

uint8_t *cells_write(uint8_t *p, const struct cell *cells, unsigned n)
{
    struct shape s = look_at(cells, n);
    if (s.type == HISTORY_NULL) {
        *p++ = 0;
        return p;
    }
    uint64_t range = s.most - s.least;
    bool listed = s.mixed || (s.nulls && range == UINT64_MAX);
    unsigned width = bits_needed(listed ? 0 : range + s.nulls);
    size_t limit = listed ? SIZE_MAX : 4 + bits_bytes((size_t)width * n);
    if (listed || width > 4) {
        uint8_t *end = list_write(p, cells, n, limit);
        if (end)
            return end;
    }
    *p++ = (uint8_t)(s.type << 2 | s.nulls << 4);
    uint64_t base = ordered(s.least, s.type); /* its own inverse */
    p = bits_of_cell_write(p, (struct cell){base, s.type});
    *p++ = (uint8_t)width;
    struct bit_writer w = {.p = p};
    for (unsigned i = 0; i < n; i++)
        bits_put(&w, cells[i].type == HISTORY_NULL ? 0 : cells[i].bits - base + s.nulls, width);
    return bits_end(&w);
}

int cells_open(struct cells *cells, const uint8_t *p, const uint8_t *end, unsigned n)
{
    if (p >= end)
        return -EBADMSG;
    *cells = (struct cells){.end = end};
    uint8_t head = *p++;
    if ((head & 3) == 1) {
        cells->distinct = (uint8_t)((head >> 2) + 1);
        cells->width = (uint8_t)bits_needed(cells->distinct - 1u);
    } else if ((head & 3) == 0 && head < 32) {
        cells->type = head >> 2 & 3;
        cells->nullable = head >> 4;
        struct cell base = {.type = cells->type};
        p = bits_of_cell_read(p, end, &base);
        if (!p || (cells->type != HISTORY_NULL && (p >= end || *p > 64)))
            return -EBADMSG;
        cells->base = base.bits - cells->nullable;
        cells->width = cells->type == HISTORY_NULL ? 0 : *p++;
    } else {
        return -EBADMSG;
    }
    cells->bits = p;
    cells->bits_bytes = (uint16_t)bits_bytes((size_t)cells->width * n);
    return (size_t)(end - p) < cells->bits_bytes ? -EBADMSG : 0;
}

const uint8_t *cells_end(const struct cells *cells)
{
    const uint8_t *p = cells->bits + cells->bits_bytes;
    struct cell skipped;
    for (unsigned i = 0; p && i < cells->distinct; i++)
        p = cell_read(p, cells->end, &skipped);
    return p;
}

struct cell cells_get(const struct cells *cells, unsigned i)
{
    struct cell cell = {0};
    if (cells->distinct) {
        uint64_t k = bits_get(cells->bits, (size_t)i * cells->width, cells->width);
        const uint8_t *p = cells->bits + cells->bits_bytes;
        for (uint64_t j = 0; p && j <= k && k < cells->distinct; j++)
            p = cell_read(p, cells->end, &cell);
        return p ? cell : (struct cell){0};
    }
    if (cells->type == HISTORY_NULL)
        return cell;
    uint64_t code = bits_get(cells->bits, (size_t)i * cells->width, cells->width);
    if (cells->nullable && !code)
        return cell;
    return (struct cell){cells->base + code, cells->type};
}

void cells_all(const struct cells *cells, unsigned n, struct cell *ret_cells)
{
    if (!cells->distinct) {
        for (unsigned i = 0; i < n; i++)
            ret_cells[i] = cells_get(cells, i);
        return;
    }
    struct cell list[CODEC_MAX] = {0};
    const uint8_t *p = cells->bits + cells->bits_bytes;
    for (unsigned i = 0; p && i < cells->distinct; i++)
        p = cell_read(p, cells->end, &list[i]);
    for (unsigned i = 0; i < n; i++)
        ret_cells[i] =
            list[bits_get(cells->bits, (size_t)i * cells->width, cells->width)]; /* at most 6 bits */
}
