/* Decoders: every scope of a trace is compiled once into a flat program of operations that fill an array of
 * values. Fields whose place is known relative to one another form a group that is checked and located once;
 * the loads behind it are plain loads at constant offsets. Private to src/trace. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_LAYOUT_H
#define TRACE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "trace/metadata.h"

enum op_code {
    OP_END,
    OP_ALIGN, /* a: bits */
    OP_GROUP, /* a: align in bits, b: bits in all; sets the base of what follows */
    OP_U8,    /* slot <- byte offset a of the group; so on for all loads */
    OP_U16,
    OP_U32,
    OP_U64,
    OP_I8,
    OP_I16,
    OP_I32,
    OP_U16_SWAP,
    OP_U32_SWAP,
    OP_U64_SWAP,
    OP_I16_SWAP,
    OP_I32_SWAP,
    OP_F32,
    OP_F64,
    OP_F32_SWAP,
    OP_F64_SWAP,
    OP_GROUP_BITS, /* a: bit offset in the group, bits, flags */
    OP_GROUP_TEXT, /* a: byte offset, b: bytes */
    OP_GROUP_BLOB,
    OP_BITS,        /* a: align; an integer or real anywhere */
    OP_VARINT,      /* LEB128 */
    OP_STRING,      /* NUL-terminated */
    OP_TEXT,        /* a: register of the length, or UINT32_MAX and length in wide */
    OP_BLOB,        /* the same */
    OP_ARRAY,       /* the same; b: values per element; jump: over the element's program */
    OP_ARRAY_PLAIN, /* the same; b: op code of the load; bits: of one element */
    OP_VARIANT,     /* a: register of the tag; extra: struct variant_table */
    OP_JUMP,        /* jump */
    OP_ABSENT,      /* slot .. slot+a-1 are not there */
    OP_SAVE,        /* register a <- slot */
    OP_ROLE,        /* role a <- slot */
    OP_CLOCK,       /* the clock's low bits <- slot */
};

enum { OP_SIGNED = 1, OP_BIG = 2, OP_REAL = 4, OP_REVERSED = 8 };

struct op {
    uint8_t code;
    uint8_t bits;
    uint8_t flags; /* OP_SIGNED ..., of bit fields and variants */
    uint8_t encoding;
    uint32_t slot;
    uint32_t a, b;
    union {
        uint64_t wide;
        int64_t jump; /* in operations, from this one */
        const struct variant_table *extra;
    };
};

struct variant_range {
    struct field_range range;
    int64_t jump; /* from the OP_VARIANT */
};

struct variant_table {
    uint32_t count;
    bool is_signed;
    bool optional;             /* no match: absent, not an error */
    uint32_t slot, slot_count; /* what is absent before an option is chosen */
    int64_t end;
    struct variant_range *ranges;
};

/* Shapes of event headers that are decoded without the program. */
enum header_shape {
    SHAPE_OTHER,
    SHAPE_COMPACT, /* LTTng: 5 bits of id, 27 of time; id 31: u32 id, u64 time */
    SHAPE_LARGE,   /* LTTng: u16 id, u32 time; id 65535: u32 id, u64 time */
    SHAPE_FIXED,   /* id_bytes of id, time_bytes (4 or 8) of time */
};

struct program {
    struct op *ops;
    uint32_t op_count;
    uint32_t slot_count;
    uint64_t present; /* of the first 64 slots, when it does not depend on the data */
    bool irregular;   /* it does */
    enum header_shape shape;
    uint8_t id_bytes, time_bytes;
    uint16_t header_bits;
};

#define REGISTER_NONE    UINT32_MAX
#define EVENT_MAX_VALUES (4u << 20) /* of one event, arrays included: 64 MiB */

enum decode_error {
    DECODE_OK,
    DECODE_END,     /* a field reaches over the end of the packet's content */
    DECODE_STRING,  /* no NUL before the end of the content */
    DECODE_VARIANT, /* the tag selects no option */
    DECODE_LENGTH,  /* an array of more than EVENT_MAX_VALUES values */
    DECODE_VARINT,  /* more than 64 bits */
    DECODE_MEMORY,
};

/* What is decoded: a packet of a stream, bit by bit. data must be readable 16 bytes past its end. */
struct machine {
    const uint8_t *data; /* of the packet's first bit */
    uint64_t at, limit;  /* bits from data */
    uint64_t clock;      /* cycles */
    uint64_t *registers;
    uint64_t *stream_registers;
    uint32_t stream_register_count;
    uint32_t roles;       /* bits: seen */
    uint32_t varint_bits; /* of the last variable-length integer */
    uint64_t role[ROLE_COUNT];
    struct value *values;
    uint32_t value_count, value_capacity; /* in use, allocated */
    bool keep_text;
    struct arena *text; /* converted strings of one event; cleared by the caller */
    enum decode_error error;
};

/* An unsigned integer that is mapped to the clock gives its low bits (1 to 64); below the last value it
 * wrapped. */
static inline uint64_t clock_advance(uint64_t clock, uint64_t value, unsigned bits)
{
    if (bits == 64)
        return value;
    uint64_t mask = (1ull << bits) - 1, low = clock & mask;
    return (clock & ~mask) + (value < low ? mask + 1 : 0) + value;
}

/* Runs a program; values[0 .. slot_count) are filled, arrays behind them. 0, or -EBADMSG with machine->error
 * set and machine->at where it happened. */
int layout_run(struct machine *machine, const struct program *program);

/* What went wrong, in words: "a field that ends within the packet". */
const char *layout_expected(enum decode_error error);

#endif
