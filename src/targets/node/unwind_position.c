/* From bytecode offsets to lines.
 *
 * V8 keeps a table from bytecode offsets to source positions, but (since 2019) makes it only when the
 * function appears in an error's stack or a debugger asks; usually it is not there. Without it the position
 * is found by matching (unwind_match.c). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/unwind_position.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/memory.h"
#include "targets/node/unwind_match.h"
#include "targets/node/unwind.h"

#define SOURCE_LIMIT    (32u << 20) /* units */
#define SOURCE_KEPT     (1u << 20)  /* bytes */
#define BYTECODES_LIMIT (1u << 20)

/* ---- V8's own tables ---- */

static bool take_vlq(const uint8_t **at, const uint8_t *end, int64_t *ret)
{
    uint64_t value = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *ret = (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
            return true;
        }
    }
    return false;
}

/* Entries are {code offset, position}, both as differences. A code offset d < 0 stands for -(d + 1), at an
 * expression; newer builds (Node 25) have two bits below an offset without a sign instead. The first
 * difference is from -1, which is where a function is entered. */
static int64_t code_step(int64_t d, bool newer)
{
    int64_t step = d >= 0 ? d : -(d + 1);
    return newer ? step / 2 : step;
}

/* The last entry at or before the offset counts; ret_end: the last entry's. */
static int32_t look_up(const uint8_t *table, uint32_t length, int32_t offset, bool newer, int64_t *ret_end)
{
    int64_t code = -1, position = 0, found = -1, d;
    for (const uint8_t *at = table; take_vlq(&at, table + length, &d);) {
        code += code_step(d, newer);
        if (!take_vlq(&at, table + length, &d))
            break;
        position += d;
        if (code <= offset)
            found = (position >> 1 & 0x3fffffff) - 1;
    }
    *ret_end = code;
    return (int32_t)found;
}

static int32_t position_from_table(const struct v8_heap *heap, uint64_t bytecodes, int32_t offset)
{
    const struct v8_layout *l = heap->layout;
    uint64_t table;
    uint8_t *bytes;
    uint32_t length;
    if (!v8_word(heap, bytecodes, l->bytecode_positions, &table) || !v8_is_object(table))
        return -1;
    uint16_t type = v8_type(heap, table);
    if ((type != l->type_byte_array && (!l->type_trusted_byte_array || type != l->type_trusted_byte_array)) ||
        !v8_bytes(heap, table, l->byte_array_data, 4u << 20, &bytes, &length))
        return -1;
    uint64_t size;
    int64_t end;
    int32_t position = look_up(bytes, length, offset, l->two_position_bits, &end);
    /* Of a V8 that does not say its version: read in the older way, offsets of the newer are twice as large,
     * and beyond the function's end. */
    if (v8_word(heap, bytecodes, 8, &size) && v8_is_smi(size) && end >= v8_smi(size))
        position = look_up(bytes, length, offset, true, &end);
    free(bytes);
    return position;
}

/* ---- sources and lines ---- */

void v8_sources_done(struct v8_sources *sources)
{
    for (size_t i = 0; i < ARRAY_SIZE(sources->at); i++) {
        free(sources->at[i].text.units);
        source_map_free(sources->at[i].map);
        sources->at[i] = (struct v8_source){0};
    }
}

static struct v8_source *text_of(const struct v8_heap *heap, struct v8_sources *sources, uint64_t script)
{
    uint64_t string;
    if (!v8_word(heap, script, heap->layout->script_source, &string))
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(sources->at); i++)
        if (sources->at[i].script == script && sources->at[i].string == string && sources->at[i].text.units)
            return &sources->at[i];
    struct v8_source *source = &sources->at[sources->next];
    struct v8_text text;
    if (v8_text(heap, string, SOURCE_LIMIT, &text) < 0)
        return NULL;
    sources->next = (sources->next + 1) % ARRAY_SIZE(sources->at);
    if (((size_t)text.length << text.wide) > SOURCE_KEPT) /* of large ones the last */
        v8_sources_done(sources);
    free(source->text.units);
    source_map_free(source->map);
    *source = (struct v8_source){.script = script, .string = string, .text = text};
    return source;
}

static const struct v8_text *source_of(const struct v8_heap *heap, struct v8_sources *sources,
                                       uint64_t script)
{
    struct v8_source *source = text_of(heap, sources, script);
    return source ? &source->text : NULL;
}

/* A map is named in the last line that is not empty. */
static struct source_map *find_map(const struct v8_text *text, const char *path)
{
    uint32_t end = text->length;
    while (end && strchr(" \t\r\n", (int)(v8_unit(text, end - 1) & 0x7f)))
        end--;
    uint32_t begin = end;
    while (begin && v8_unit(text, begin - 1) != '\n')
        begin--;
    struct source_map *map = NULL;
    char *line = end > begin ? malloc(end - begin) : NULL;
    for (uint32_t i = begin; line && i < end; i++) {
        uint32_t c = v8_unit(text, i);
        line[i - begin] = (char)(c && c < 128 ? c : '?');
    }
    if (line && memmem(line, end - begin, "sourceMappingURL=data:", 22))
        (void)source_map_of_text(line, end - begin, path, &map);
    free(line);
    return map;
}

bool v8_original(const struct v8_heap *heap, struct v8_sources *sources, uint64_t script, const char *path,
                 uint32_t line, uint32_t column, struct source_place *ret_place)
{
    struct v8_source *source = script && path ? text_of(heap, sources, script) : NULL;
    if (!source)
        return false;
    if (!source->map_sought)
        source->map = find_map(&source->text, path);
    source->map_sought = true;
    return source->map && source_map_find(source->map, line, column, ret_place);
}

static void line_and_column(const struct v8_text *text, uint32_t position, uint32_t *ret_line,
                            uint32_t *ret_column)
{
    uint32_t line = 1, begin = 0;
    for (uint32_t i = 0; i < position && i < text->length; i++) {
        uint32_t c = v8_unit(text, i);
        if (c == '\n' || c == 0x2028 || c == 0x2029 ||
            (c == '\r' && !(i + 1 < text->length && v8_unit(text, i + 1) == '\n'))) {
            line++;
            begin = i + 1;
        }
    }
    *ret_line = line;
    *ret_column = position - begin + 1;
}

void v8_locate(const struct v8_heap *heap, struct v8_sources *sources, const struct v8_function *function,
               uint64_t bytecodes, int32_t offset, uint64_t context, uint32_t *ret_line, uint32_t *ret_column,
               enum v8_position *ret_position)
{
    const struct v8_text *text = function->script ? source_of(heap, sources, function->script) : NULL;
    if (!text)
        return;
    int32_t position = -1;
    enum v8_position quality = V8_POSITION_EXACT;
    if (bytecodes && offset >= 0)
        position = position_from_table(heap, bytecodes, offset);
    if (position < 0 && bytecodes && offset >= 0) {
        quality = V8_POSITION_NEAR;
        position = v8_match_position(heap, text, function, bytecodes, offset, context);
    }
    if (position < 0) {
        quality = V8_POSITION_FUNCTION;
        position = function->start;
    }
    if (position < 0 || (uint32_t)position > text->length)
        return;
    line_and_column(text, (uint32_t)position, ret_line, ret_column);
    *ret_position = quality;
}

void v8_locate_position(const struct v8_heap *heap, struct v8_sources *sources, uint64_t script,
                        int32_t position, uint32_t *ret_line, uint32_t *ret_column)
{
    const struct v8_text *text = script && position >= 0 ? source_of(heap, sources, script) : NULL;
    if (text && (uint32_t)position <= text->length)
        line_and_column(text, (uint32_t)position, ret_line, ret_column);
}

/* ---- generated code ---- */

static bool read_positions(const struct v8_heap *heap, const struct v8_code *code, uint8_t **ret_bytes,
                           uint32_t *ret_length)
{
    uint64_t table;
    return v8_word(heap, code->code, heap->layout->code_positions, &table) && v8_is_object(table) &&
           (v8_type(heap, table) == heap->layout->type_byte_array ||
            (heap->layout->type_trusted_byte_array &&
             v8_type(heap, table) == heap->layout->type_trusted_byte_array)) &&
           v8_bytes(heap, table, heap->layout->byte_array_data, 4u << 20, ret_bytes, ret_length);
}

static uint32_t take_unsigned(const uint8_t **at, const uint8_t *end)
{
    uint32_t value = 0;
    for (int shift = 0; *at < end && shift < 32; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint32_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            break;
    }
    return value;
}

/* The table holds how many bytes of code the prologue and then each bytecode takes. */
int32_t v8_baseline_offset(const struct v8_heap *heap, const struct v8_code *code, uint64_t bytecodes,
                           uint64_t pc, bool call)
{
    const struct v8_layout *l = heap->layout;
    uint8_t *table, *bytes;
    uint32_t table_length, length;
    int32_t found = -1;
    if (!l->opcodes || !read_positions(heap, code, &table, &table_length))
        return -1;
    if (v8_bytes(heap, bytecodes, l->bytecode_data, BYTECODES_LIMIT, &bytes, &length)) {
        const uint8_t *at = table, *end = table + table_length;
        uint64_t target = pc - code->start + !call, pc_end = take_unsigned(&at, end);
        for (uint32_t offset = 0; offset < length && at < end && pc_end < target;) {
            found = (int32_t)offset;
            pc_end += take_unsigned(&at, end);
            unsigned scale = 0;
            uint8_t kind = l->opcode_kind[bytes[offset]];
            if ((kind == OP_WIDE || kind == OP_EXTRA_WIDE) && offset + 1 < length) {
                scale = kind == OP_WIDE ? 1 : 2;
                offset++;
            }
            unsigned size = l->bytecode_sizes[scale][bytes[offset]];
            if (size == 0)
                break;
            offset += size;
        }
        free(bytes);
    }
    free(table);
    return found;
}

/* A position as optimised code has it: bit 0 external, 1..30 offset + 1 in the script, 31..46 inlining + 1.
 */
static int32_t script_offset(int64_t position)
{
    return (int32_t)(position >> 1 & 0x3fffffff) - 1;
}

static int32_t inlining_of(int64_t position)
{
    return (int32_t)(position >> 31 & 0xffff) - 1;
}

static bool last_position(const uint8_t *table, uint32_t length, int64_t offset, bool newer,
                          int64_t *ret_position)
{
    int64_t at_code = -1, position = 0, d;
    bool found = false;
    for (const uint8_t *at = table; take_vlq(&at, table + length, &d);) {
        at_code += code_step(d, newer);
        if (!take_vlq(&at, table + length, &d) || at_code > offset)
            break;
        position += d;
        *ret_position = position;
        found = true;
    }
    return found;
}

static uint64_t inlined_function(const struct v8_heap *heap, uint64_t literals, int32_t id)
{
    uint64_t word;
    if (id < 0 || id > 65536 || !v8_word(heap, literals, heap->layout->fixed_array_data + 8 * id, &word))
        return 0;
    word &= ~2ull; /* a weak reference */
    uint16_t type = v8_type(heap, word);
    if (heap->layout->type_wrapper && type == heap->layout->type_wrapper) {
        if (!v8_word(heap, word, heap->layout->wrapper_shared, &word))
            return 0;
        type = v8_type(heap, word);
    }
    return type == heap->layout->type_shared ? word : 0;
}

size_t v8_inlined_at(const struct v8_heap *heap, const struct v8_code *code, uint64_t pc,
                     struct v8_inlined *ret_list, size_t limit)
{
    const struct v8_layout *l = heap->layout;
    uint8_t *table;
    uint32_t length;
    int64_t position;
    uint64_t deoptimization, inlinings = 0, literals = 0;
    size_t count = 0;
    if (limit == 0 || !read_positions(heap, code, &table, &length))
        return 0;
    bool found = last_position(table, length, (int64_t)(pc - code->start), l->two_position_bits, &position);
    free(table);
    if (!found)
        return 0;
    if (v8_word(heap, code->code, l->code_deoptimization, &deoptimization)) {
        v8_word(heap, deoptimization, l->fixed_array_data + 8 * l->deopt_inlinings, &inlinings);
        v8_word(heap, deoptimization, l->fixed_array_data + 8 * l->deopt_literals, &literals);
    }
    while (count + 1 < limit && inlining_of(position) >= 0) {
        struct {
            int64_t position;
            int32_t function, padding;
        } inlining;
        if (!v8_is_object(inlinings) ||
            memory_read(heap->pid,
                        inlinings - 1 + (uint64_t)l->byte_array_data + 16u * (uint32_t)inlining_of(position),
                        &inlining, sizeof(inlining)) < 0)
            return 0;
        uint64_t shared = inlined_function(heap, literals, inlining.function);
        if (!shared)
            return 0;
        ret_list[count++] = (struct v8_inlined){shared, script_offset(position)};
        position = inlining.position;
    }
    ret_list[count++] = (struct v8_inlined){0, script_offset(position)};
    return count;
}
