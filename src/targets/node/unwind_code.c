/* Which generated code a pc lies in. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/unwind_position.h"

#include <errno.h>

#include "symbol/memory.h"

enum { CODE_PAGE = 4096 };

static void describe_code(const struct v8_heap *heap, uint64_t code, uint64_t start, struct v8_code *ret_code)
{
    const struct v8_layout *l = heap->layout;
    uint64_t word, osr;
    struct v8_code c = {.code = code, .start = start, .loop_offset = -1};
    if (v8_word(heap, code, l->code_flags, &word))
        c.baseline = ((int32_t)word & l->code_kind_mask) == l->code_kind_baseline;
    /* Deoptimization data: the offset of the loop follows the literals. */
    if (!c.baseline && v8_word(heap, code, l->code_deoptimization, &word) &&
        v8_word(heap, word, l->fixed_array_data + 8 * (l->deopt_literals + 1), &osr) && v8_is_smi(osr))
        c.loop_offset = v8_smi(osr);
    *ret_code = c;
}

/* Code that is looked for backwards from a pc. */
struct code_search {
    const struct v8_heap *heap;
    uint64_t pc;
    uint16_t wanted; /* the type of its header */
    int32_t into;    /* from there to its first instruction */
    uint64_t known;  /* a map of that type; 0: none yet */
};

/* Is a header at the address, of code that may hold the pc? */
static bool is_code(struct code_search *s, uint64_t at, uint64_t map, struct v8_code *ret_code)
{
    const struct v8_layout *l = s->heap->layout;
    uint64_t code = at + 1;
    if (map % 8 != 1 || at + (uint64_t)s->into > s->pc)
        return false;
    if (map != s->known && v8_type_of_map(s->heap, map) != s->wanted)
        return false;
    s->known = map;
    if (l->stream_start >= 0 &&
        (!v8_word(s->heap, at + 1, 8, &code) || v8_type(s->heap, code) != l->type_code))
        return false;
    describe_code(s->heap, code, at + (uint64_t)s->into, ret_code);
    return true;
}

/* From end back to begin, on one page. 1: found, 0: it is not there. */
static int code_between(struct code_search *s, uint64_t begin, uint64_t end, struct v8_code *ret_code)
{
    uint64_t words[CODE_PAGE / 8];
    if (memory_read_through(s->heap->pages, s->heap->pid, begin, words, end - begin) < 0)
        return -ENOENT;
    for (uint64_t i = (end - begin) / 8; i-- > 0;)
        if (is_code(s, begin + 8 * i, words[i], ret_code))
            return 1;
    return 0;
}

/* Instructions follow a header that begins with a map: Code's before V8 11, InstructionStream's since.
 * Backwards from pc the first word that is such a map is it: in instructions such words do not occur. What is
 * not found down to the border of V8's pages is larger than one: it begins near a border further down. */
int v8_code_at(const struct v8_heap *heap, uint64_t pc, struct v8_code *ret_code)
{
    enum { CHUNK = 256 << 10, NEAR = 4 * CODE_PAGE, LIMIT = 4 << 20 };
    const struct v8_layout *l = heap->layout;
    bool streams = l->stream_start >= 0;
    struct code_search s = {.heap = heap,
                            .pc = pc,
                            .wanted = streams ? l->type_stream : l->type_code,
                            .into = streams ? l->stream_start : l->code_start};
    uint64_t border = pc & ~(CHUNK - 1ull), begin;
    if (s.into < 0)
        return -ENOTSUP;
    for (uint64_t end = (pc & ~7ull) + 8; pc - border < LIMIT && border <= pc; end = begin) {
        if (end == border) {
            border -= CHUNK;
            end = border + NEAR;
        }
        begin = (end - 1) & ~(CODE_PAGE - 1ull);
        int r = code_between(&s, begin, end, ret_code);
        if (r != 0)
            return MIN(r, 0);
    }
    return -ENOENT;
}
