/* Runs the programs of layout.h over a packet. This is the inner loop of everything that reads traces. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/layout.h"

static inline uint16_t load16(const uint8_t *at)
{
    uint16_t v;
    memcpy(&v, at, 2);
    return v;
}

static inline uint32_t load32(const uint8_t *at)
{
    uint32_t v;
    memcpy(&v, at, 4);
    return v;
}

static inline uint64_t load64(const uint8_t *at)
{
    uint64_t v;
    memcpy(&v, at, 8);
    return v;
}

static inline void put_u(struct value *v, uint64_t u)
{
    *v = (struct value){.u = u};
}

static inline void put_i(struct value *v, int64_t i)
{
    *v = (struct value){.i = i};
}

static inline void put_d(struct value *v, double d)
{
    *v = (struct value){.d = d};
}

static inline void put_s(struct value *v, const void *s, uint32_t length)
{
    *v = (struct value){.s = s, .length = length};
}

static inline double real32(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static inline double real64(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, 8);
    return d;
}

static uint64_t reverse_bits(uint64_t v, unsigned n)
{
    uint64_t r = 0;
    for (unsigned i = 0; i < n; i++)
        r |= (v >> i & 1) << (n - 1 - i);
    return r;
}

/* n bits (1 to 64) at bit number bit. Little-endian fields fill bytes from their low bit, big-endian ones
 * from their high bit. Reads up to 16 bytes. */
static inline uint64_t load_bits(const uint8_t *data, uint64_t bit, unsigned n, bool big)
{
    const uint8_t *at = data + (bit >> 3);
    unsigned shift = bit & 7;
    uint64_t v;
    if (big) {
        v = __builtin_bswap64(load64(at)) << shift;
        if (shift + n > 64)
            v |= at[8] >> (8 - shift);
        return v >> (64 - n);
    }
    v = load64(at) >> shift;
    if (shift + n > 64)
        v |= (uint64_t)at[8] << (64 - shift);
    return n == 64 ? v : v & ((1ull << n) - 1);
}

static inline void put_bits(struct value *v, uint64_t bits, const struct op *op)
{
    if (op->flags & OP_REVERSED)
        bits = reverse_bits(bits, op->bits);
    if (op->flags & OP_REAL)
        put_d(v, op->bits == 32 ? real32((uint32_t)bits) : real64(bits));
    else if (op->flags & OP_SIGNED)
        put_i(v, (int64_t)(bits << (64 - op->bits)) >> (64 - op->bits));
    else
        put_u(v, bits);
}

/* Bytes before the first NUL, at most n. Reads up to 7 bytes more. */
static inline uint32_t text_length(const uint8_t *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 8) {
        uint64_t v = load64(s + i), zero = (v - 0x0101010101010101u) & ~v & 0x8080808080808080u;
        if (zero) {
            i += (uint32_t)__builtin_ctzll(zero) / 8;
            return i < n ? i : n;
        }
    }
    return n;
}

static int fail(struct machine *m, enum decode_error error, uint64_t at)
{
    m->error = error;
    m->at = at;
    return -EBADMSG;
}

/* Values from value_count on are at least n. */
static bool reserve_values(struct machine *m, uint64_t n)
{
    uint64_t need = m->value_count + n;
    if (need <= m->value_capacity)
        return true;
    uint64_t grown = (uint64_t)m->value_capacity * 2;
    grown = grown < need ? need : grown;
    struct value *moved = realloc(m->values, grown * sizeof(*moved));
    if (!moved)
        return false;
    m->values = moved;
    m->value_capacity = (uint32_t)grown;
    return true;
}

static inline uint64_t *register_at(const struct machine *m, uint32_t number)
{
    return number < m->stream_register_count ? &m->stream_registers[number] : &m->registers[number];
}

/* Where a sequence's or a text's length is found. */
static inline uint64_t length_of(const struct machine *m, const struct op *op, uint64_t fixed)
{
    return op->a == REGISTER_NONE ? fixed : *register_at(m, op->a);
}

static void put_scalar(struct value *v, const uint8_t *at, enum op_code code)
{
    switch (code) {
    case OP_U8:
        put_u(v, *at);
        break;
    case OP_U16:
        put_u(v, load16(at));
        break;
    case OP_U32:
        put_u(v, load32(at));
        break;
    case OP_U64:
        put_u(v, load64(at));
        break;
    case OP_I8:
        put_i(v, (int8_t)*at);
        break;
    case OP_I16:
        put_i(v, (int16_t)load16(at));
        break;
    case OP_I32:
        put_i(v, (int32_t)load32(at));
        break;
    case OP_U16_SWAP:
        put_u(v, __builtin_bswap16(load16(at)));
        break;
    case OP_U32_SWAP:
        put_u(v, __builtin_bswap32(load32(at)));
        break;
    case OP_U64_SWAP:
        put_u(v, __builtin_bswap64(load64(at)));
        break;
    case OP_I16_SWAP:
        put_i(v, (int16_t)__builtin_bswap16(load16(at)));
        break;
    case OP_I32_SWAP:
        put_i(v, (int32_t)__builtin_bswap32(load32(at)));
        break;
    case OP_F32:
        put_d(v, real32(load32(at)));
        break;
    case OP_F64:
        put_d(v, real64(load64(at)));
        break;
    case OP_F32_SWAP:
        put_d(v, real32(__builtin_bswap32(load32(at))));
        break;
    default:
        put_d(v, real64(__builtin_bswap64(load64(at))));
        break;
    }
}

/* An array of byte-aligned scalars without gaps. */
static int run_plain_array(struct machine *m, const struct op *op, uint32_t base, uint64_t at,
                           uint64_t *ret_at)
{
    uint64_t n = length_of(m, op, op->wide), size = op->bits / 8;
    if (n > (m->limit - at) / op->bits)
        return fail(m, DECODE_END, at);
    if (n > EVENT_MAX_VALUES - m->value_count)
        return fail(m, DECODE_LENGTH, at);
    if (!reserve_values(m, n))
        return fail(m, DECODE_MEMORY, at);
    struct value *out = m->values + m->value_count;
    const uint8_t *from = m->data + (at >> 3);
    if (op->b == OP_U8)
        for (uint64_t i = 0; i < n; i++)
            put_u(&out[i], from[i]);
    else
        for (uint64_t i = 0; i < n; i++)
            put_scalar(&out[i], from + i * size, (enum op_code)op->b);
    m->values[base + op->slot] = (struct value){.first = m->value_count, .length = (uint32_t)n};
    m->value_count += (uint32_t)n;
    *ret_at = at + n * op->bits;
    return 0;
}

/* Elements without any bits: their number alone could keep us busy. */
#define EMPTY_ELEMENTS_MAX 4096

static int run(struct machine *m, const struct op *op, uint32_t base);

static int run_array(struct machine *m, const struct op *op, uint32_t base)
{
    uint64_t n = length_of(m, op, op[1].wide), stride = op->b;
    uint64_t cost = stride ? stride : 1;
    if (n > EVENT_MAX_VALUES || n * cost > EVENT_MAX_VALUES - m->value_count)
        return fail(m, n > m->limit - m->at ? DECODE_END : DECODE_LENGTH, m->at);
    if (!reserve_values(m, n * stride))
        return fail(m, DECODE_MEMORY, m->at);
    uint32_t first = m->value_count;
    m->value_count += (uint32_t)(n * stride);
    m->values[base + op->slot] = (struct value){.first = first, .length = (uint32_t)n};
    uint64_t start = m->at;
    for (uint64_t i = 0; i < n; i++) {
        int r = run(m, op + 2, first + (uint32_t)(i * stride));
        if (r < 0)
            return r;
        if (m->at == start && n > EMPTY_ELEMENTS_MAX)
            return fail(m, DECODE_LENGTH, m->at);
    }
    return 0;
}

/* UTF-16 and UTF-32 to UTF-8, up to the first NUL. Malformed units become U+FFFD. */
static int convert_text(struct machine *m, struct value *v, const uint8_t *s, uint64_t bytes,
                        unsigned encoding)
{
    bool wide = encoding >= ENCODING_UTF32LE;
    bool big = encoding == ENCODING_UTF16BE || encoding == ENCODING_UTF32BE;
    uint64_t unit = wide ? 4 : 2, n = 0;
    char *out = arena_alloc(m->text, bytes * 2 + 4);
    if (!out)
        return -ENOMEM;
    for (uint64_t i = 0; i + unit <= bytes; i += unit) {
        uint32_t c = wide ? load32(s + i) : load16(s + i);
        if (big)
            c = wide ? __builtin_bswap32(c) : __builtin_bswap16((uint16_t)c);
        if (!c)
            break;
        if (!wide && c >= 0xd800 && c < 0xdc00 && i + 4 <= bytes) {
            uint32_t low = load16(s + i + 2);
            low = big ? __builtin_bswap16((uint16_t)low) : low;
            if (low >= 0xdc00 && low < 0xe000) {
                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                i += 2;
            }
        }
        if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
            c = 0xfffd;
        if (c < 0x80) {
            out[n++] = (char)c;
        } else if (c < 0x800) {
            out[n++] = (char)(0xc0 | c >> 6);
            out[n++] = (char)(0x80 | (c & 0x3f));
        } else if (c < 0x10000) {
            out[n++] = (char)(0xe0 | c >> 12);
            out[n++] = (char)(0x80 | (c >> 6 & 0x3f));
            out[n++] = (char)(0x80 | (c & 0x3f));
        } else {
            out[n++] = (char)(0xf0 | c >> 18);
            out[n++] = (char)(0x80 | (c >> 12 & 0x3f));
            out[n++] = (char)(0x80 | (c >> 6 & 0x3f));
            out[n++] = (char)(0x80 | (c & 0x3f));
        }
    }
    put_s(v, out, (uint32_t)n);
    return 0;
}

/* Bytes that a NUL-terminated string takes, the NUL included; 0 when there is none. */
static uint64_t string_extent(const uint8_t *s, uint64_t bytes, unsigned encoding)
{
    if (encoding <= ENCODING_UTF8) {
        const uint8_t *end = memchr(s, 0, bytes);
        return end ? (uint64_t)(end - s) + 1 : 0;
    }
    uint64_t unit = encoding >= ENCODING_UTF32LE ? 4 : 2;
    for (uint64_t i = 0; i + unit <= bytes; i += unit)
        if ((unit == 4 ? load32(s + i) : load16(s + i)) == 0)
            return i + unit;
    return 0;
}

static int run_string(struct machine *m, const struct op *op, struct value *v)
{
    const uint8_t *s = m->data + (m->at >> 3);
    uint64_t room = (m->limit - m->at) / 8;
    uint64_t extent = string_extent(s, room, op->encoding);
    if (!extent)
        return fail(m, DECODE_STRING, m->at);
    m->at += extent * 8;
    if (op->encoding > ENCODING_UTF8)
        return convert_text(m, v, s, extent, op->encoding) < 0 ? fail(m, DECODE_MEMORY, m->at) : 0;
    put_s(v, s, (uint32_t)(extent - 1));
    return 0;
}

/* Texts (up to the first NUL) and blobs whose length is not part of a group. */
static int run_bytes(struct machine *m, const struct op *op, struct value *v)
{
    uint64_t n = length_of(m, op, op->wide);
    const uint8_t *s = m->data + (m->at >> 3);
    if (n > (m->limit - m->at) / 8 || n > UINT32_MAX)
        return fail(m, DECODE_END, m->at);
    m->at += n * 8;
    if (op->code == OP_BLOB) {
        put_s(v, s, (uint32_t)n);
    } else if (op->encoding > ENCODING_UTF8) {
        return convert_text(m, v, s, n, op->encoding) < 0 ? fail(m, DECODE_MEMORY, m->at) : 0;
    } else {
        put_s(v, s, (uint32_t)strnlen((const char *)s, n));
    }
    return 0;
}

static int run_varint(struct machine *m, const struct op *op, struct value *v)
{
    uint64_t u = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
        if (m->limit - m->at < 8)
            return fail(m, DECODE_END, m->at);
        byte = m->data[m->at >> 3];
        if (shift >= 70 || (shift == 63 && !(op->flags & OP_SIGNED) && (byte & 0x7e)))
            return fail(m, DECODE_VARINT, m->at);
        if (shift < 64)
            u |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        m->at += 8;
    } while (byte & 0x80);
    if ((op->flags & OP_SIGNED) && shift < 64 && (byte & 0x40))
        u |= ~0ull << shift;
    m->varint_bits = shift < 64 ? shift : 64;
    put_u(v, u);
    return 0;
}

/* Where to go on: the option's program, or behind the variant. NULL: no option, which is an error. */
static const struct op *choose(struct machine *m, const struct op *op, uint32_t base)
{
    const struct variant_table *t = op->extra;
    uint64_t tag = *register_at(m, op->a);
    for (uint32_t i = 0; i < t->slot_count; i++)
        m->values[base + t->slot + i] = (struct value){.absent = 1};
    for (uint32_t i = 0; i < t->count; i++) {
        const struct variant_range *r = &t->ranges[i];
        if (t->is_signed ? (int64_t)tag >= r->range.low_signed && (int64_t)tag <= r->range.high_signed
                         : tag >= r->range.low && tag <= r->range.high)
            return op + r->jump;
    }
    return t->optional ? op + t->end : NULL;
}

/* values[base ...] are filled. m->at moves with the fields. */
static int run(struct machine *m, const struct op *op, uint32_t base)
{
    struct value *v = m->values + base;
    const uint8_t *data = m->data, *group = data;
    uint64_t at = m->at;
    const uint64_t limit = m->limit;
    for (;; op++) {
        switch ((enum op_code)op->code) {
        case OP_END:
            m->at = at;
            return 0;
        case OP_ALIGN:
            at = (at + op->a - 1) & ~(uint64_t)(op->a - 1);
            if (at > limit) /* padding that ends the content: what follows fails, nothing may follow */
                return fail(m, DECODE_END, limit);
            break;
        case OP_GROUP:
            at = (at + op->a - 1) & ~(uint64_t)(op->a - 1);
            if (at + op->b > limit)
                return fail(m, DECODE_END, at);
            group = data + (at >> 3);
            at += op->b;
            break;
        case OP_U8:
            put_u(&v[op->slot], group[op->a]);
            break;
        case OP_U16:
            put_u(&v[op->slot], load16(group + op->a));
            break;
        case OP_U32:
            put_u(&v[op->slot], load32(group + op->a));
            break;
        case OP_U64:
            put_u(&v[op->slot], load64(group + op->a));
            break;
        case OP_I8:
            put_i(&v[op->slot], (int8_t)group[op->a]);
            break;
        case OP_I16:
            put_i(&v[op->slot], (int16_t)load16(group + op->a));
            break;
        case OP_I32:
            put_i(&v[op->slot], (int32_t)load32(group + op->a));
            break;
        case OP_U16_SWAP:
        case OP_U32_SWAP:
        case OP_U64_SWAP:
        case OP_I16_SWAP:
        case OP_I32_SWAP:
        case OP_F32:
        case OP_F64:
        case OP_F32_SWAP:
        case OP_F64_SWAP:
            put_scalar(&v[op->slot], group + op->a, (enum op_code)op->code);
            break;
        case OP_GROUP_BITS:
            put_bits(&v[op->slot], load_bits(group, op->a, op->bits, op->flags & OP_BIG), op);
            break;
        case OP_GROUP_TEXT:
            put_s(&v[op->slot], group + op->a, text_length(group + op->a, op->b));
            break;
        case OP_GROUP_BLOB:
            put_s(&v[op->slot], group + op->a, op->b);
            break;
        case OP_BITS:
            at = (at + op->a - 1) & ~(uint64_t)(op->a - 1);
            if (at + op->bits > limit)
                return fail(m, DECODE_END, at);
            put_bits(&v[op->slot], load_bits(data, at, op->bits, op->flags & OP_BIG), op);
            at += op->bits;
            break;
        case OP_VARINT:
        case OP_STRING:
        case OP_TEXT:
        case OP_BLOB: {
            m->at = at;
            int r = op->code == OP_VARINT   ? run_varint(m, op, &v[op->slot])
                    : op->code == OP_STRING ? run_string(m, op, &v[op->slot])
                                            : run_bytes(m, op, &v[op->slot]);
            if (r < 0)
                return r;
            at = m->at;
            break;
        }
        case OP_ARRAY_PLAIN: {
            int r = run_plain_array(m, op, base, at, &at);
            if (r < 0)
                return r;
            v = m->values + base;
            break;
        }
        case OP_ARRAY: {
            m->at = at;
            int r = run_array(m, op, base);
            if (r < 0)
                return r;
            at = m->at;
            v = m->values + base;
            op += op->jump - 1;
            break;
        }
        case OP_VARIANT: {
            const struct op *next = choose(m, op, base);
            if (!next)
                return fail(m, DECODE_VARIANT, at);
            op = next - 1;
            break;
        }
        case OP_JUMP:
            op += op->jump - 1;
            break;
        case OP_ABSENT:
            for (uint32_t i = 0; i < op->a; i++)
                v[op->slot + i] = (struct value){.absent = 1};
            break;
        case OP_SAVE:
            *register_at(m, op->a) = v[op->slot].u;
            break;
        case OP_ROLE:
            m->role[op->a] = v[op->slot].u;
            m->roles |= 1u << op->a;
            break;
        case OP_CLOCK:
            m->clock = clock_advance(m->clock, v[op->slot].u, op->bits ? op->bits : m->varint_bits);
            break;
        }
    }
}

int layout_run(struct machine *machine, const struct program *program)
{
    machine->value_count = 0;
    if (!reserve_values(machine, program->slot_count + 1ull))
        return fail(machine, DECODE_MEMORY, machine->at);
    machine->value_count = program->slot_count;
    return run(machine, program->ops, 0);
}

const char *layout_expected(enum decode_error error)
{
    switch (error) {
    case DECODE_OK:
        return "nothing";
    case DECODE_END:
        return "a field that ends within the packet's content";
    case DECODE_STRING:
        return "a string that is closed within the packet's content";
    case DECODE_VARIANT:
        return "a variant's tag that selects an option";
    case DECODE_LENGTH:
        return "an array that is not absurdly long";
    case DECODE_VARINT:
        return "an integer of at most 64 bits";
    case DECODE_MEMORY:
        return "enough memory";
    }
    return "";
}
