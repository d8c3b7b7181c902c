/* From a bytecode offset to a place in the source, without V8's table: the bytecodes name properties,
 * globals, literals and patterns in the order in which they are evaluated, and so does the source. The
 * longest common subsequence of the two pairs them; an offset then lies at or after the word of the last pair
 * before it. Loops are paired in order, too, when both sides count the same number. A call is put where its
 * callee's name is, as V8 does; where that is a local variable, which bytecodes do not name, at one of the
 * calls between the words of the pairs before and behind it, in order, if the source has as many there. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/unwind_match.h"

#include <stdlib.h>
#include <string.h>

#include "symbol/memory.h"
#include "targets/node/unwind_tokens.h"

#define BYTECODES_LIMIT (1u << 20)
#define PAIRS_LIMIT     (6u << 20) /* cells of the matching table */

bool v8_bytes(const struct v8_heap *heap, uint64_t array, int32_t data, uint32_t limit, uint8_t **ret_bytes,
              uint32_t *ret_length)
{
    uint64_t length;
    if (!v8_word(heap, array, 8, &length) || !v8_is_smi(length) || v8_smi(length) < 0 ||
        (uint32_t)v8_smi(length) > limit)
        return false;
    uint32_t size = (uint32_t)v8_smi(length);
    uint8_t *bytes = malloc(size + 1);
    if (!bytes || memory_read_some(heap->pid, array - 1 + (uint64_t)data, bytes, size) != (ssize_t)size) {
        free(bytes);
        return false;
    }
    *ret_bytes = bytes;
    *ret_length = size;
    return true;
}

/* ---- what the bytecodes name ---- */

struct anchor {
    uint32_t offset; /* of the bytecode */
    enum js_token_kind kind;
    uint64_t key;
    int32_t token; /* index of the token it was paired with, or -1 */
};

struct loop {
    uint32_t header, end; /* offsets of the loop's first bytecode and of its jump back */
    int32_t token;
};

struct code {
    const struct v8_heap *heap;
    uint64_t constants, context;
    uint8_t *bytes;
    uint32_t length;
    uint32_t at; /* the offset in question */
    ARRAY(struct anchor) anchors;
    ARRAY(struct loop) loops;
    ARRAY(uint32_t) calls; /* offsets of those of local variables */
    int32_t callee_anchor; /* of the call at `at`: the anchor whose value is called, or -1 */
    int32_t local_call;    /* of the call at `at`: its index in calls, or -1 */
    bool is_construct;
};

static int64_t operand(const struct code *code, uint32_t at, unsigned index, unsigned width, bool is_signed)
{
    uint64_t value = 0;
    at += index * width;
    if (at + width > code->length)
        return 0;
    memcpy(&value, code->bytes + at, width);
    if (!is_signed)
        return (int64_t)value;
    return width == 1 ? (int8_t)value : width == 2 ? (int16_t)value : (int32_t)value;
}

static void add_string(struct code *code, uint32_t offset, enum js_token_kind kind, uint64_t string)
{
    struct v8_text text;
    if (v8_text(code->heap, string, 1000, &text) < 0)
        return;
    struct anchor anchor = {offset, kind, js_key(&text, 0, text.length), -1};
    free(text.units);
    if (array_add(&code->anchors, anchor) < 0)
        return;
}

static void add_constant(struct code *code, uint32_t offset, enum js_token_kind kind, uint64_t index)
{
    uint64_t word;
    if (index < BYTECODES_LIMIT && v8_word(code->heap, code->constants,
                                           code->heap->layout->fixed_array_data + (int32_t)index * 8, &word))
        add_string(code, offset, kind, word);
}

static void add_variable(struct code *code, uint32_t offset, int64_t slot, int64_t depth)
{
    uint64_t name =
        code->context ? v8_context_variable(code->heap, code->context, (uint32_t)depth, (uint32_t)slot) : 0;
    if (name)
        add_string(code, offset, JS_NAME, name);
}

static void add_loop(struct code *code, uint32_t offset, int64_t back)
{
    struct loop loop = {.header = back <= offset ? offset - (uint32_t)back : 0, .end = offset, .token = -1};
    if (array_add(&code->loops, loop) < 0)
        return;
}

static void add_new(struct code *code, uint32_t offset)
{
    struct anchor anchor = {offset, JS_NEW, 0, -1};
    if (array_add(&code->anchors, anchor) < 0)
        return;
}

static void add_number(struct code *code, uint32_t offset, int64_t value)
{
    struct anchor anchor = {offset, JS_NUMBER, (uint64_t)llabs(value), -1};
    if (array_add(&code->anchors, anchor) < 0)
        return;
}

/* callee: the anchor whose value is called, or -1; asked: it is the call in question. */
static void add_call(struct code *code, uint32_t offset, bool asked, int32_t callee)
{
    if (asked)
        code->callee_anchor = callee;
    if (callee >= 0)
        return;
    if (asked)
        code->local_call = (int32_t)code->calls.count;
    if (array_add(&code->calls, offset) < 0)
        code->local_call = -1;
}

/* Registers are operands counted down from here: r0, r1, ... */
static int64_t register_operand(const struct v8_layout *l, unsigned index)
{
    return (l->bytecode_data >= 64 ? -7 : -6) - (int64_t)index;
}

/* One pass over the bytecodes. Remembers which anchor's value each register holds, to know what a call calls.
 */
static void read_code(struct code *code)
{
    const struct v8_layout *l = code->heap->layout;
    int32_t holds[64], accumulator = -1;
    memset(holds, 0xff, sizeof(holds));
    uint32_t at = 0;
    while (at < code->length) {
        uint32_t offset = at;
        unsigned scale = 0;
        uint8_t kind = l->opcode_kind[code->bytes[at]];
        if (kind == OP_WIDE || kind == OP_EXTRA_WIDE) {
            scale = kind == OP_WIDE ? 1 : 2;
            at++;
        }
        if (at >= code->length)
            break;
        uint8_t op = code->bytes[at];
        unsigned width = 1u << scale, size = l->bytecode_sizes[scale][op];
        if (size == 0)
            break;
        kind = l->opcode_kind[op];
        uint32_t first = at + 1;
        size_t anchors = code->anchors.count;
        int64_t reg;
        switch (kind) {
        case OP_NAME_FIRST:
            add_constant(code, offset, JS_NAME, (uint64_t)operand(code, first, 0, width, false));
            break;
        case OP_NAME_SECOND:
            add_constant(code, offset, JS_NAME, (uint64_t)operand(code, first, 1, width, false));
            break;
        case OP_CONTEXT_CURRENT:
            add_variable(code, offset, operand(code, first, 0, width, false), 0);
            break;
        case OP_CONTEXT:
            add_variable(code, offset, operand(code, first, 1, width, false),
                         operand(code, first, 2, width, false));
            break;
        case OP_REGEXP:
            add_constant(code, offset, JS_REGEXP, (uint64_t)operand(code, first, 0, width, false));
            break;
        case OP_SMI:
            add_number(code, offset, operand(code, first, 0, width, true));
            break;
        case OP_JUMP_LOOP:
            add_loop(code, offset, operand(code, first, 0, width, false));
            break;
        case OP_CONSTRUCT:
            if (offset <= code->at && code->at < at + size)
                code->is_construct = true;
            add_new(code, offset);
            break;
        case OP_CALL:
            reg = register_operand(l, 0) - operand(code, first, 0, width, true);
            if (reg >= 0 && reg < 64)
                add_call(code, offset, offset <= code->at && code->at < at + size, holds[reg]);
            break;
        case OP_STAR:
            reg = register_operand(l, 0) - operand(code, first, 0, width, true);
            if (reg >= 0 && reg < 64)
                holds[reg] = accumulator;
            break;
        case OP_STAR_SHORT: /* Star15 ... Star0 are consecutive */
            reg = (int64_t)l->star0 - op;
            if (reg >= 0 && reg < 64)
                holds[reg] = accumulator;
            break;
        }
        if (kind != OP_STAR && kind != OP_STAR_SHORT)
            accumulator = code->anchors.count > anchors ? (int32_t)anchors : -1;
        at += size;
    }
}

/* ---- matching ---- */

static bool same(const struct anchor *a, const struct js_token *t)
{
    if (a->kind == JS_NAME) /* a constant is a name or a string; template and object keys, too */
        return (t->kind == JS_NAME || t->kind == JS_STRING) && a->key == t->key;
    return a->kind == t->kind && a->key == t->key;
}

/* Longest common subsequence of anchors [a0, a1) and tokens [t0, t1). */
static void pair(struct code *code, const struct js_tokens *tokens, size_t a0, size_t a1, size_t t0,
                 size_t t1)
{
    size_t rows = a1 - a0, columns = t1 - t0;
    if (rows == 0 || columns == 0 || rows > PAIRS_LIMIT / columns)
        return;
    uint16_t *best = calloc((rows + 1) * (columns + 1), sizeof(*best));
    if (!best)
        return;
#define BEST(i, j) best[(i) * (columns + 1) + (j)]
    for (size_t i = rows; i-- > 0;)
        for (size_t j = columns; j-- > 0;)
            BEST(i, j) = same(&code->anchors.at[a0 + i], &tokens->list.at[t0 + j])
                             ? (uint16_t)(BEST(i + 1, j + 1) + 1)
                             : MAX(BEST(i + 1, j), BEST(i, j + 1));
    for (size_t i = 0, j = 0; i < rows && j < columns;) {
        if (same(&code->anchors.at[a0 + i], &tokens->list.at[t0 + j])) {
            code->anchors.at[a0 + i++].token = (int32_t)(t0 + j++);
        } else if (BEST(i + 1, j) >= BEST(i, j + 1)) {
            i++;
        } else {
            j++;
        }
    }
#undef BEST
    free(best);
}

static int by_header(const void *a, const void *b)
{
    const struct loop *x = a, *y = b;
    if (x->header != y->header)
        return x->header < y->header ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

static void pair_loops(struct code *code, const struct js_tokens *tokens)
{
    size_t count = 0, k = 0;
    array_foreach (&tokens->list, t)
        count += t->kind == JS_LOOP;
    if (count != code->loops.count || count == 0)
        return;
    qsort(code->loops.at, code->loops.count, sizeof(*code->loops.at), by_header);
    for (size_t i = 0; i < tokens->list.count; i++)
        if (tokens->list.at[i].kind == JS_LOOP)
            code->loops.at[k++].token = (int32_t)i;
}

static bool is_paired(const struct code *code, int32_t token)
{
    array_foreach (&code->anchors, a)
        if (a->token == token)
            return true;
    return false;
}

/* The token of the local variable that is called at the offset, or -1. */
static int32_t local_callee(const struct code *code, const struct js_tokens *tokens)
{
    uint32_t from = 0, to = UINT32_MAX; /* offsets of the pairs around it, and their tokens */
    int32_t first = -1, last = (int32_t)tokens->list.count, nth = 0, calls = 0, found = -1;
    array_foreach (&code->anchors, a) {
        if (a->token < 0)
            continue;
        if (a->offset <= code->at)
            from = a->offset, first = a->token;
        else if (a->offset < to)
            to = a->offset, last = a->token;
    }
    for (size_t i = 0; i < code->calls.count; i++) {
        calls += code->calls.at[i] >= from && code->calls.at[i] < to;
        nth += code->calls.at[i] >= from && (int32_t)i < code->local_call;
    }
    for (int32_t i = first + 1; i < last; i++) {
        if (!tokens->list.at[i].calls || is_paired(code, i))
            continue;
        if (nth-- == 0)
            found = i;
        calls--;
    }
    return calls ? -1 : found;
}

/* The token that stands for the offset, or -1. */
static int32_t token_at(const struct code *code, const struct js_tokens *tokens)
{
    int32_t local = code->local_call >= 0 ? local_callee(code, tokens) : -1;
    if (local >= 0)
        return local;
    if (code->callee_anchor >= 0 && code->anchors.at[code->callee_anchor].token >= 0)
        return code->anchors.at[code->callee_anchor].token;
    int32_t token = -1;
    array_foreach (&code->anchors, a) {
        if (a->offset > code->at)
            break;
        if (a->token >= 0 && !(a->kind == JS_NEW && a->offset < code->at))
            token = a->token;
    }
    const struct loop *innermost = NULL;
    array_foreach (&code->loops, loop)
        if (loop->header <= code->at && code->at <= loop->end && loop->token >= 0)
            innermost = loop;
    return innermost && token < innermost->token ? innermost->token : token;
}

int32_t v8_match_position(const struct v8_heap *heap, const struct v8_text *text,
                          const struct v8_function *function, uint64_t bytecodes, int32_t offset,
                          uint64_t context)
{
    const struct v8_layout *l = heap->layout;
    struct code code = {
        .heap = heap, .context = context, .at = (uint32_t)offset, .callee_anchor = -1, .local_call = -1};
    struct js_tokens tokens = {0};
    int32_t position = -1;
    uint32_t start = function->start < 0 ? 0 : (uint32_t)function->start;
    uint32_t end = function->end < 0 ? text->length : (uint32_t)function->end;
    if (!l->opcodes || start >= end || end > text->length ||
        !v8_word(heap, bytecodes, l->bytecode_constants, &code.constants) ||
        !v8_bytes(heap, bytecodes, l->bytecode_data, BYTECODES_LIMIT, &code.bytes, &code.length))
        return -1;
    if (code.at < code.length && js_tokens_read(text, start, end, &tokens) == 0) {
        read_code(&code);
        pair(&code, &tokens, 0, code.anchors.count, 0, tokens.list.count);
        pair_loops(&code, &tokens);
        int32_t token = token_at(&code, &tokens);
        if (token >= 0)
            position = (int32_t)tokens.list.at[token].at;
    }
    free(code.bytes);
    array_done(&code.anchors);
    array_done(&code.loops);
    array_done(&code.calls);
    array_done(&tokens.list);
    return position;
}
