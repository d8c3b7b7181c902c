/* Objects of another process's V8 heap. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/unwind_heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "symbol/memory.h"

enum { SMALL = 4096 }; /* what is larger would take the place of pages that are read again */
enum { REPRESENTATION = 7, SEQ = 0, CONS = 1, EXTERNAL = 2, SLICED = 3, THIN = 5, ONE_BYTE = 8 };

static int read(const struct v8_heap *heap, uint64_t address, void *buffer, size_t size)
{
    return memory_read_through(heap->pages, heap->pid, address, buffer, size);
}

bool v8_word(const struct v8_heap *heap, uint64_t object, int32_t offset, uint64_t *ret_word)
{
    return v8_is_object(object) &&
           read(heap, object - 1 + (uint64_t)(int64_t)offset, ret_word, sizeof(*ret_word)) == 0;
}

uint16_t v8_type_of_map(const struct v8_heap *heap, uint64_t map)
{
    uint16_t type;
    if (!v8_is_object(map) || map >> 47 ||
        read(heap, map - 1 + (uint64_t)heap->layout->map_instance_type, &type, sizeof(type)) < 0)
        return V8_NO_TYPE;
    return type;
}

uint16_t v8_type(const struct v8_heap *heap, uint64_t word)
{
    uint64_t map;
    return v8_word(heap, word, 0, &map) ? v8_type_of_map(heap, map) : V8_NO_TYPE;
}

bool v8_is_string(const struct v8_heap *heap, uint64_t word)
{
    return v8_type(heap, word) < heap->layout->type_first_nonstring;
}

/* What may lie on several pages is read page by page, as they are kept; how much of it could be read. */
static size_t read_pages(const struct v8_heap *heap, uint64_t address, void *buffer, size_t size)
{
    enum { PAGE = 4096 };
    size_t done = 0, part;
    for (; done < size; done += part) {
        part = MIN(PAGE - (size_t)((address + done) % PAGE), size - done);
        if (read(heap, address + done, (char *)buffer + done, part) < 0)
            break;
    }
    return done;
}

static int copy_units(const struct v8_heap *heap, uint64_t at, bool wide, uint32_t length,
                      struct v8_text *ret_text)
{
    size_t size = (size_t)length << wide;
    void *units = malloc(size ? size : 1);
    if (!units)
        return -ENOMEM;
    if (size > SMALL ? memory_read_some(heap->pid, at, units, size) != (ssize_t)size
                     : read_pages(heap, at, units, size) != size) {
        free(units);
        return -EFAULT;
    }
    *ret_text = (struct v8_text){units, length, wide};
    return 0;
}

/* Widens left when needed and appends right. */
static int append_text(struct v8_text *left, const struct v8_text *right)
{
    bool wide = left->wide || right->wide;
    uint32_t length = left->length + right->length;
    void *units = malloc(((size_t)length << wide) + 1);
    if (!units)
        return -ENOMEM;
    for (uint32_t i = 0; i < length; i++) {
        uint32_t unit = i < left->length ? v8_unit(left, i) : v8_unit(right, i - left->length);
        if (wide)
            ((uint16_t *)units)[i] = (uint16_t)unit;
        else
            ((uint8_t *)units)[i] = (uint8_t)unit;
    }
    free(left->units);
    *left = (struct v8_text){units, length, wide};
    return 0;
}

static int text_at_depth(const struct v8_heap *heap, uint64_t string, uint32_t limit, int depth,
                         struct v8_text *ret_text)
{
    const struct v8_layout *l = heap->layout;
    for (; depth < 32; depth++) {
        uint16_t type = v8_type(heap, string);
        uint32_t length;
        uint64_t word, offset;
        if (type >= l->type_first_nonstring)
            return -EINVAL;
        if (read(heap, string - 1 + (uint64_t)l->string_length, &length, 4) < 0)
            return -EFAULT;
        length = MIN(length, limit);
        bool wide = !(type & ONE_BYTE);
        switch (type & REPRESENTATION) {
        case SEQ:
            return copy_units(heap, string - 1 + (uint64_t)(wide ? l->seq_two_byte : l->seq_one_byte), wide,
                              length, ret_text);
        case EXTERNAL: /* the resource's data is cached behind the resource */
            return v8_word(heap, string, l->external_resource + 8, &word)
                       ? copy_units(heap, word, wide, length, ret_text)
                       : -EFAULT;
        case THIN:
            if (!v8_word(heap, string, l->thin_actual, &string))
                return -EFAULT;
            continue;
        case SLICED: {
            struct v8_text parent;
            if (!v8_word(heap, string, l->sliced_parent, &word) ||
                !v8_word(heap, string, l->sliced_offset, &offset) || v8_smi(offset) < 0)
                return -EFAULT;
            uint32_t from = (uint32_t)v8_smi(offset);
            int r = text_at_depth(heap, word, MIN((uint64_t)from + length, UINT32_MAX), depth + 1, &parent);
            if (r < 0)
                return r;
            if (parent.length < from + length) {
                free(parent.units);
                return -EFAULT;
            }
            memmove(parent.units, (char *)parent.units + ((size_t)from << parent.wide),
                    (size_t)length << parent.wide);
            parent.length = length;
            *ret_text = parent;
            return 0;
        }
        case CONS: {
            struct v8_text left, right;
            if (!v8_word(heap, string, l->cons_first, &word) ||
                !v8_word(heap, string, l->cons_second, &offset))
                return -EFAULT;
            int r = text_at_depth(heap, word, length, depth + 1, &left);
            if (r < 0)
                return r;
            if (left.length < length) {
                r = text_at_depth(heap, offset, length - left.length, depth + 1, &right);
                if (r == 0) {
                    r = append_text(&left, &right);
                    free(right.units);
                }
                if (r < 0) {
                    free(left.units);
                    return r;
                }
            }
            *ret_text = left;
            return 0;
        }
        default:
            return -EINVAL;
        }
    }
    return -ELOOP;
}

int v8_text(const struct v8_heap *heap, uint64_t string, uint32_t limit, struct v8_text *ret_text)
{
    return text_at_depth(heap, string, limit, 0, ret_text);
}

static void add_utf8(struct text *out, uint32_t c)
{
    char bytes[4];
    size_t n = 0;
    if (c < 0x80) {
        bytes[n++] = (char)c;
    } else if (c < 0x800) {
        bytes[n++] = (char)(0xc0 | c >> 6);
        bytes[n++] = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        bytes[n++] = (char)(0xe0 | c >> 12);
        bytes[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        bytes[n++] = (char)(0x80 | (c & 0x3f));
    } else {
        bytes[n++] = (char)(0xf0 | c >> 18);
        bytes[n++] = (char)(0x80 | (c >> 12 & 0x3f));
        bytes[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        bytes[n++] = (char)(0x80 | (c & 0x3f));
    }
    text_add_bytes(out, bytes, n);
}

char *v8_string(const struct v8_heap *heap, uint64_t string, uint32_t limit)
{
    struct v8_text text;
    struct text out = {0};
    if (v8_text(heap, string, limit, &text) < 0)
        return NULL;
    for (uint32_t i = 0; i < text.length; i++) {
        uint32_t unit = v8_unit(&text, i);
        if (unit >= 0xd800 && unit < 0xdc00 && i + 1 < text.length &&
            (v8_unit(&text, i + 1) & 0xfc00) == 0xdc00)
            unit = 0x10000 + ((unit & 0x3ff) << 10) + (v8_unit(&text, ++i) & 0x3ff);
        else if ((unit & 0xf800) == 0xd800 || unit == 0)
            unit = 0xfffd;
        add_utf8(&out, unit);
    }
    free(text.units);
    text_add(&out, "");
    return text_take(&out);
}

/* ---- functions ---- */

bool v8_is_function(const struct v8_heap *heap, uint64_t word)
{
    uint64_t shared;
    return v8_word(heap, word, heap->layout->function_shared, &shared) &&
           v8_type(heap, shared) == heap->layout->type_shared;
}

/* ScopeInfo, after its map: flags, parameter count, number of context locals, [range of the source, V8 13],
 * [number of module variables], the locals' names (or one hash table of them), their properties, [class
 * variable], [function variable: name, slot], [inferred name], [range of the source]. */
struct scope {
    uint64_t name; /* a string, or 0 */
    int32_t start, end;
};

enum {
    SCOPE_TYPE_MASK = 15,
    SCOPE_MODULE = 3,
    SCOPE_CLASS_VARIABLE = 1 << 10,
    SCOPE_FUNCTION_VARIABLE = 3 << 12,
    SCOPE_INFERRED_NAME = 1 << 14,
    SCOPE_EXTENSION_SLOT = 1 << 26,
    SCOPE_INLINE_NAMES = 75,
    CONTEXT_SCOPE = 0, /* slots of every context */
    CONTEXT_PREVIOUS = 1,
    CONTEXT_FIRST = 2,
};

static void read_scope(const struct v8_heap *heap, uint64_t info, struct scope *ret)
{
    enum { WORDS = 320 };
    uint64_t w[WORDS];
    *ret = (struct scope){0, -1, -1};
    size_t words = read_pages(heap, info - 1 + 8, w, sizeof(w)) / 8,
           first = (size_t)heap->layout->scope_first;
    if (words < first + 1 || (!v8_is_smi(w[0]) && w[0] >> 32) || !v8_is_smi(w[2]))
        return;
    uint32_t flags = w[0] >> 32 ? (uint32_t)v8_smi(w[0]) : (uint32_t)w[0]; /* not tagged since V8 13 */
    int32_t locals = v8_smi(w[2]);
    if (locals < 0 || locals > 4096)
        return;
    if (first == 5 && v8_is_smi(w[3]) && v8_is_smi(w[4])) {
        ret->start = v8_smi(w[3]);
        ret->end = v8_smi(w[4]);
    }
    size_t at = first;
    if (at < words && v8_is_smi(w[at]) && locals > 0) /* the number of module variables */
        at++;
    at += (locals < SCOPE_INLINE_NAMES ? (size_t)locals : 1) + (size_t)locals;
    if (flags & SCOPE_CLASS_VARIABLE)
        at++;
    if (flags & SCOPE_FUNCTION_VARIABLE && at < words) {
        if (v8_is_string(heap, w[at]))
            ret->name = w[at];
        at += 2;
    }
    if (flags & SCOPE_INFERRED_NAME && at < words) {
        if (!ret->name && v8_is_string(heap, w[at]))
            ret->name = w[at];
        at++;
    }
    if (ret->start < 0 && at + 1 < words && v8_is_smi(w[at]) && v8_is_smi(w[at + 1]) && v8_smi(w[at]) >= 0 &&
        v8_smi(w[at]) <= v8_smi(w[at + 1])) {
        ret->start = v8_smi(w[at]);
        ret->end = v8_smi(w[at + 1]);
    }
}

uint64_t v8_context_variable(const struct v8_heap *heap, uint64_t context, uint32_t depth, uint32_t slot)
{
    const struct v8_layout *l = heap->layout;
    uint64_t info, w[3], name;
    for (; depth > 0; depth--)
        if (depth > 64 || !v8_word(heap, context, l->fixed_array_data + 8 * CONTEXT_PREVIOUS, &context))
            return 0;
    if (!v8_word(heap, context, l->fixed_array_data + 8 * CONTEXT_SCOPE, &info) ||
        v8_type(heap, info) != l->type_scope_info || read(heap, info - 1 + 8, w, sizeof(w)) < 0 ||
        !v8_is_smi(w[2]))
        return 0;
    uint32_t flags = w[0] >> 32 ? (uint32_t)v8_smi(w[0]) : (uint32_t)w[0];
    uint32_t first = CONTEXT_FIRST + !!(flags & SCOPE_EXTENSION_SLOT), locals = (uint32_t)v8_smi(w[2]);
    if (slot < first || slot - first >= locals || locals >= SCOPE_INLINE_NAMES)
        return 0;
    int32_t at = 8 + 8 * l->scope_first;
    if (!v8_word(heap, info, at, &name))
        return 0;
    if (v8_is_smi(name)) /* the number of module variables */
        at += 8;
    return v8_word(heap, info, at + 8 * (int32_t)(slot - first), &name) && v8_is_string(heap, name) ? name
                                                                                                    : 0;
}

int v8_function_of_shared(const struct v8_heap *heap, uint64_t shared, struct v8_function *ret_function)
{
    const struct v8_layout *l = heap->layout;
    struct v8_function f = {.shared = shared, .start = -1, .end = -1};
    uint64_t word;
    if (v8_type(heap, shared) != l->type_shared)
        return -EINVAL;
    if (v8_word(heap, shared, l->shared_script, &word)) {
        if (l->type_debug_info &&
            v8_type(heap, word) == l->type_debug_info) /* under a debugger: it holds the script */
            for (int32_t at = 8; at <= 48 && v8_type(heap, word) == l->type_debug_info; at += 8) {
                uint64_t inner;
                if (v8_word(heap, word, at, &inner) && v8_type(heap, inner) == l->type_script)
                    word = inner;
            }
        if (v8_type(heap, word) == l->type_script)
            f.script = word;
    }
    if (v8_word(heap, shared, l->shared_data, &word) && v8_type(heap, word) == l->type_bytecode)
        f.bytecodes = word;
    if (!v8_word(heap, shared, l->shared_name, &word))
        return -EFAULT;
    if (v8_is_string(heap, word)) {
        f.name = v8_string(heap, word, 200);
    } else if (v8_type(heap, word) == l->type_scope_info) {
        struct scope scope;
        read_scope(heap, word, &scope);
        f.start = scope.start;
        f.end = scope.end;
        if (scope.name)
            f.name = v8_string(heap, scope.name, 200);
    }
    if (!f.name)
        f.name = strdup("");
    *ret_function = f;
    return 0;
}

int v8_function(const struct v8_heap *heap, uint64_t function, struct v8_function *ret_function)
{
    uint64_t shared;
    if (!v8_word(heap, function, heap->layout->function_shared, &shared))
        return -EFAULT;
    return v8_function_of_shared(heap, shared, ret_function);
}

uint64_t v8_function_identity(const struct v8_heap *heap, uint64_t function)
{
    const struct v8_layout *l = heap->layout;
    uint64_t is[4] = {function};
    if (!v8_word(heap, function, l->function_shared, &is[1]) || v8_type(heap, is[1]) != l->type_shared ||
        !v8_word(heap, is[1], l->shared_name, &is[2]) || !v8_word(heap, is[1], l->shared_script, &is[3]))
        return 0;
    return map_hash(is, sizeof(is)) | 1;
}
