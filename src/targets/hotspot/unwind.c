/* HotSpot read from outside.
 *
 * libjvm.so exports gHotSpotVMStructs and gHotSpotVMTypes: names of types and fields with their offsets, made
 * for the serviceability agent. With them the code cache is walked (heaps of blocks, each a CodeBlob with its
 * frame size), and a compiled method's debug information is decoded: PcDesc entries lead to scopes,
 * compressed lists of (sender, method, bci), one for each inlined call.
 *
 *                    until 22               23, 24                      25
 *   a blob's code    _code_begin            blob + _code_offset         the same
 *   its end          _code_end              blob + _data_offset         the same
 *   PcDesc entries   in the nmethod         in _immutable_data          the same
 *   methods          nmethod + _metadata..  its data + _metadata..      _mutable_data + _relocation_size
 *
 * A machine that lacks one of these, or has other frames in its interpreter, is refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/hotspot/unwind.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/map.h"
#include "symbol/memory.h"
#include "targets/hotspot/unwind_counters.h"
#include "unwind/sampler.h"

enum { BLOBS_LIMIT = 400000, SCOPES_LIMIT = 64 };

/* Fields by (type, name); offsets or, for static ones, addresses. */
enum field {
    HEAPS,
    GROW_LEN,
    GROW_DATA,
    HEAP_MEMORY,
    HEAP_SEGMAP,
    HEAP_LOG2,
    SPACE_LOW,
    SPACE_HIGH,
    BLOCK_USED,
    BLOCK_LENGTH,
    BLOB_NAME,
    BLOB_BEGIN,
    BLOB_END,
    BLOB_CODE,
    BLOB_DATA,
    BLOB_FRAME,
    BLOB_COMPLETE,
    CODE_METHOD,
    SCOPES_DATA,
    SCOPES_PCS,
    SCOPES_DATA_OFFSET,
    DEPENDENCIES,
    METADATA,
    IMMUTABLE,
    MUTABLE,
    RELOCATION,
    PC_OFFSET,
    PC_SCOPE,
    METHOD_CONST,
    CONST_POOL,
    CONST_NAME,
    POOL_HOLDER,
    KLASS_NAME,
    SYMBOL_LENGTH,
    SYMBOL_BODY,
    VM_MAJOR,
    COUNTERS,
    FIELDS
};

static const struct {
    const char *type, *name, *other_type; /* in other versions */
    bool optional;
} FIELD_NAMES[FIELDS] = {
    [HEAPS] = {"CodeCache", "_heaps", NULL, false},
    [GROW_LEN] = {"GrowableArrayBase", "_len", "GenericGrowableArray", false},
    [GROW_DATA] = {"GrowableArray<int>", "_data", "GrowableArray<int>", false},
    [HEAP_MEMORY] = {"CodeHeap", "_memory", NULL, false},
    [HEAP_SEGMAP] = {"CodeHeap", "_segmap", NULL, false},
    [HEAP_LOG2] = {"CodeHeap", "_log2_segment_size", NULL, false},
    [SPACE_LOW] = {"VirtualSpace", "_low", NULL, false},
    [SPACE_HIGH] = {"VirtualSpace", "_high", NULL, false},
    [BLOCK_USED] = {"HeapBlock::Header", "_used", NULL, false},
    [BLOCK_LENGTH] = {"HeapBlock::Header", "_length", NULL, false},
    [BLOB_NAME] = {"CodeBlob", "_name", NULL, false},
    [BLOB_BEGIN] = {"CodeBlob", "_code_begin", NULL, true},
    [BLOB_END] = {"CodeBlob", "_code_end", NULL, true},
    [BLOB_CODE] = {"CodeBlob", "_code_offset", NULL, true},
    [BLOB_DATA] = {"CodeBlob", "_data_offset", NULL, false},
    [BLOB_FRAME] = {"CodeBlob", "_frame_size", NULL, false},
    [BLOB_COMPLETE] = {"CodeBlob", "_frame_complete_offset", NULL, true},
    [CODE_METHOD] = {"CompiledMethod", "_method", "nmethod", false},
    [SCOPES_DATA] = {"CompiledMethod", "_scopes_data_begin", "nmethod", true},
    [SCOPES_PCS] = {"nmethod", "_scopes_pcs_offset", NULL, true},
    [SCOPES_DATA_OFFSET] = {"nmethod", "_scopes_data_offset", NULL, true},
    [DEPENDENCIES] = {"nmethod", "_dependencies_offset", NULL, true},
    [METADATA] = {"nmethod", "_metadata_offset", NULL, true},
    [IMMUTABLE] = {"nmethod", "_immutable_data", NULL, true},
    [MUTABLE] = {"CodeBlob", "_mutable_data", NULL, true},
    [RELOCATION] = {"CodeBlob", "_relocation_size", NULL, true},
    [PC_OFFSET] = {"PcDesc", "_pc_offset", NULL, false},
    [PC_SCOPE] = {"PcDesc", "_scope_decode_offset", NULL, false},
    [METHOD_CONST] = {"Method", "_constMethod", NULL, false},
    [CONST_POOL] = {"ConstMethod", "_constants", NULL, false},
    [CONST_NAME] = {"ConstMethod", "_name_index", NULL, false},
    [POOL_HOLDER] = {"ConstantPool", "_pool_holder", NULL, false},
    [KLASS_NAME] = {"Klass", "_name", NULL, false},
    [SYMBOL_LENGTH] = {"Symbol", "_length", NULL, false},
    [SYMBOL_BODY] = {"Symbol", "_body", NULL, false},
    [VM_MAJOR] = {"Abstract_VM_Version", "_vm_major_version", NULL, true},
    [COUNTERS] = {"PerfMemory", "_start", NULL, true},
};

enum blob_kind { BLOB_STUB, BLOB_METHOD, BLOB_INTERPRETER, BLOB_NO_FRAME };

struct blob {
    uint64_t start, end; /* of its code */
    uint64_t blob;       /* the CodeBlob */
    uint64_t method;     /* of a compiled method, read with the blob */
    uint32_t length;     /* of its block, in segments */
    int32_t frame_words; /* size of its frames, with the return address; 0 or less: by frame pointer */
    uint8_t pushed,
        body; /* offsets at which half of the frame is set up, and all of it; 0: there from the start */
    bool frame_first; /* its first half is the room, then rbp is stored; else rbp is pushed first */
    uint8_t kind;
    char name[40]; /* of a stub */
};

/* A part of the process's memory: most of the code cache is read from its start to its end. */
struct window {
    uint64_t start;
    size_t size;
    uint8_t bytes[1 << 16];
};

struct hotspot {
    struct native *native;
    pid_t pid;
    uint64_t fields[FIELDS];
    int8_t widths[FIELDS]; /* bytes; negative when it has a sign */
    bool has[FIELDS];
    uint64_t block_size, pool_size, pc_size; /* sizeof HeapBlock, ConstantPool, PcDesc */
    struct window window;
    struct stub_name {
        uint64_t address;
        char name[40];
    } last_name; /* thousands of blobs have the same */
    int major;
    ARRAY(struct blob) blobs; /* by start */
    uint64_t low, high;
    struct map method_names; /* Method -> index in names */
    ARRAY(char *) names;
    uint64_t counter, unloaded; /* where unloaded classes are counted (0: not found), and how many were */
    uint64_t asked_ns;          /* when names were forgotten for want of it */
    uint64_t looked_ns;         /* when it was looked for last, and how often it was */
    unsigned looks;
};

/* ---- reading ---- */

static uint64_t word(const struct hotspot *h, uint64_t address)
{
    uint64_t value = 0;
    return memory_read(h->pid, address, &value, sizeof(value)) < 0 ? 0 : value;
}

static int32_t number(const struct hotspot *h, uint64_t address)
{
    int32_t value = 0;
    return memory_read(h->pid, address, &value, sizeof(value)) < 0 ? 0 : value;
}

/* Valid until the next call; NULL when it cannot be read. */
static const uint8_t *peek(struct hotspot *h, uint64_t address, size_t size)
{
    struct window *w = &h->window;
    if (address < w->start || address - w->start + size > w->size) {
        ssize_t n = memory_read_some(h->pid, address, w->bytes, sizeof(w->bytes));
        w->start = address;
        w->size = n > 0 ? (size_t)n : 0;
    }
    return size <= w->size ? w->bytes + (address - w->start) : NULL;
}

static int8_t width_of(const char *type)
{
    static const struct {
        const char *type;
        int8_t width;
    } WIDTHS[] = {{"int", -4},           {"uint32_t", 4}, {"unsigned int", 4}, {"int16_t", -2},
                  {"unsigned short", 2}, {"u2", 2},       {"bool", 1}};
    for (size_t i = 0; i < ARRAY_SIZE(WIDTHS); i++)
        if (strcmp(WIDTHS[i].type, type) == 0)
            return WIDTHS[i].width;
    return 8;
}

/* A field of the object that begins at bytes; 0 when it lies behind them. */
static int64_t take(const struct hotspot *h, const uint8_t *bytes, size_t size, enum field field)
{
    size_t width = (size_t)abs(h->widths[field]);
    uint64_t value = 0;
    if (!h->has[field] || h->fields[field] > size || size - h->fields[field] < width)
        return 0;
    memcpy(&value, bytes + h->fields[field], width);
    return h->widths[field] == -4 ? (int32_t)value : h->widths[field] == -2 ? (int16_t)value : (int64_t)value;
}

static int64_t field_at(const struct hotspot *h, uint64_t object, enum field field)
{
    uint8_t bytes[8] = {0};
    size_t width = (size_t)abs(h->widths[field]);
    uint64_t value;
    if (!h->has[field] || memory_read(h->pid, object + h->fields[field], bytes, width) < 0)
        return 0;
    memcpy(&value, bytes, sizeof(value));
    return h->widths[field] == -4 ? (int32_t)value : h->widths[field] == -2 ? (int16_t)value : (int64_t)value;
}

static uint64_t exported(struct elf *elf, const struct hotspot *h, uint64_t bias, const char *name)
{
    struct elf_symbol symbol;
    return elf_find(elf, name, &symbol) < 0 ? 0 : word(h, symbol.value + bias);
}

static void read_fields(struct hotspot *h, struct elf *elf, uint64_t bias)
{
    uint64_t at = exported(elf, h, bias, "gHotSpotVMStructs");
    uint64_t type_at = exported(elf, h, bias, "gHotSpotVMStructEntryTypeNameOffset");
    uint64_t name_at = exported(elf, h, bias, "gHotSpotVMStructEntryFieldNameOffset");
    uint64_t kind_at = exported(elf, h, bias, "gHotSpotVMStructEntryTypeStringOffset");
    uint64_t static_at = exported(elf, h, bias, "gHotSpotVMStructEntryIsStaticOffset");
    uint64_t offset_at = exported(elf, h, bias, "gHotSpotVMStructEntryOffsetOffset");
    uint64_t address_at = exported(elf, h, bias, "gHotSpotVMStructEntryAddressOffset");
    uint64_t stride = exported(elf, h, bias, "gHotSpotVMStructEntryArrayStride");
    uint8_t entry[128];
    if (!at || stride < 24 || stride > sizeof(entry))
        return;
    for (int i = 0; i < 10000; i++, at += stride) {
        char type[64], field[64], kind[32] = "";
        uint64_t type_name, field_name, kind_name, value;
        int32_t is_static;
        if (memory_read(h->pid, at, entry, stride) < 0)
            return;
        memcpy(&type_name, entry + (type_at & 127 & ~7u), 8);
        memcpy(&field_name, entry + (name_at & 127 & ~7u), 8);
        memcpy(&kind_name, entry + (kind_at & 127 & ~7u), 8);
        if (!type_name)
            return;
        if (memory_read_string(h->pid, type_name, type, sizeof(type)) < 0 ||
            memory_read_string(h->pid, field_name, field, sizeof(field)) < 0)
            continue;
        memcpy(&is_static, entry + (static_at & 127 & ~3u), 4);
        memcpy(&value, entry + ((is_static ? address_at : offset_at) & 127 & ~7u), 8);
        for (int f = 0; f < FIELDS; f++) {
            if (strcmp(field, FIELD_NAMES[f].name) != 0 ||
                (strcmp(type, FIELD_NAMES[f].type) != 0 &&
                 (!FIELD_NAMES[f].other_type || strcmp(type, FIELD_NAMES[f].other_type) != 0)))
                continue;
            if (kind_name)
                (void)memory_read_string(h->pid, kind_name, kind, sizeof(kind));
            h->fields[f] = value;
            h->widths[f] = width_of(kind);
            h->has[f] = true;
        }
    }
}

static void read_types(struct hotspot *h, struct elf *elf, uint64_t bias)
{
    uint64_t at = exported(elf, h, bias, "gHotSpotVMTypes");
    uint64_t name_at = exported(elf, h, bias, "gHotSpotVMTypeEntryTypeNameOffset");
    uint64_t size_at = exported(elf, h, bias, "gHotSpotVMTypeEntrySizeOffset");
    uint64_t stride = exported(elf, h, bias, "gHotSpotVMTypeEntryArrayStride");
    for (int i = 0; at && stride && i < 10000; i++, at += stride) {
        char name[64];
        uint64_t name_address = word(h, at + name_at);
        if (!name_address)
            return;
        if (memory_read_string(h->pid, name_address, name, sizeof(name)) < 0)
            continue;
        if (strcmp(name, "HeapBlock") == 0)
            h->block_size = word(h, at + size_at);
        else if (strcmp(name, "ConstantPool") == 0)
            h->pool_size = word(h, at + size_at);
        else if (strcmp(name, "PcDesc") == 0)
            h->pc_size = word(h, at + size_at);
    }
}

/* The interpreter's frames hold their caller's stack pointer and their own where we look for them. */
static bool same_frames(const struct hotspot *h, struct elf *elf, uint64_t bias)
{
    uint64_t at = exported(elf, h, bias, "gHotSpotVMIntConstants");
    uint64_t name_at = exported(elf, h, bias, "gHotSpotVMIntConstantEntryNameOffset");
    uint64_t value_at = exported(elf, h, bias, "gHotSpotVMIntConstantEntryValueOffset");
    uint64_t stride = exported(elf, h, bias, "gHotSpotVMIntConstantEntryArrayStride");
    int sender = 0, last = 0;
    for (int i = 0; at && stride && i < 10000; i++, at += stride) {
        char name[64];
        uint64_t name_address = word(h, at + name_at);
        if (!name_address)
            break;
        if (memory_read_string(h->pid, name_address, name, sizeof(name)) < 0)
            continue;
        if (strcmp(name, "frame::interpreter_frame_sender_sp_offset") == 0)
            sender = number(h, at + value_at);
        else if (strcmp(name, "frame::interpreter_frame_last_sp_offset") == 0)
            last = number(h, at + value_at);
    }
    return sender == -1 && last == -2;
}

/* Everything that a walk needs; what names of inlined methods need may be missing. */
static bool is_known(const struct hotspot *h)
{
    for (int i = 0; i < FIELDS; i++)
        if (!h->has[i] && !FIELD_NAMES[i].optional)
            return false;
    return h->block_size && h->pool_size && h->pc_size &&
           (h->has[BLOB_CODE] || (h->has[BLOB_BEGIN] && h->has[BLOB_END]));
}

int hotspot_open(struct native *native, struct hotspot **ret_hotspot)
{
    const struct modules *modules = native_modules(native);
    const struct module *library = modules_named(modules, "libjvm.so");
    struct native_file *file = library ? native_file_of(native, library) : NULL;
    if (!file)
        return -ENOENT;
    struct hotspot *h = calloc(1, sizeof(*h));
    if (!h)
        return -ENOMEM;
    h->native = native;
    h->pid = modules->pid;
    read_fields(h, native_file_elf(file), library->load_bias);
    read_types(h, native_file_elf(file), library->load_bias);
    if (!is_known(h) || !same_frames(h, native_file_elf(file), library->load_bias)) {
        hotspot_free(h);
        return -ENOTSUP;
    }
    h->major = h->has[VM_MAJOR] ? number(h, h->fields[VM_MAJOR]) : 17;
    hotspot_refresh(h);
    *ret_hotspot = h;
    return 0;
}

void hotspot_forget_names(struct hotspot *h)
{
    array_foreach (&h->names, name)
        free(*name);
    array_clear(&h->names);
    map_clear(&h->method_names);
}

void hotspot_free(struct hotspot *h)
{
    if (!h)
        return;
    hotspot_forget_names(h);
    array_done(&h->names);
    map_done(&h->method_names);
    array_done(&h->blobs);
    free(h);
}

/* ---- the code cache ---- */

static enum blob_kind kind_of(const char *name)
{
    if (strcmp(name, "nmethod") == 0 || strcmp(name, "native nmethod") == 0)
        return BLOB_METHOD;
    if (strcmp(name, "Interpreter") == 0)
        return BLOB_INTERPRETER;
    if (strstr(name, "adapters") || strstr(name, "vtable") || strstr(name, "itable"))
        return BLOB_NO_FRAME;
    return BLOB_STUB;
}

/* push rbp; [mov rbp, rsp]; sub rsp, n; or for leaves: sub rsp, n + 8; mov [rsp + n], rbp. A check for the
 * collector may follow before the frame counts as complete. */
static void find_prologue(struct blob *b, const uint8_t *code, int complete)
{
    int size = b->frame_words * 8;
    b->body = (uint8_t)complete;
    b->pushed = (uint8_t)MAX(complete - (size - 16 < 128 ? 4 : 7), 0);
    for (int i = 0; code && i < complete; i++) {
        if (size == 16 && code[i] == 0x55) { /* no room needed */
            b->pushed = b->body = (uint8_t)(i + 1);
            continue;
        }
        if (i + 4 > complete || code[i] != 0x48 || (code[i + 1] & 0xfd) != 0x81 || code[i + 2] != 0xec)
            continue;
        int32_t room = code[i + 3], length = code[i + 1] == 0x83 ? 4 : 7;
        if (i + length > complete)
            continue;
        if (length == 7)
            memcpy(&room, code + i + 3, sizeof(room));
        int push = i >= 1 && code[i - 1] == 0x55 ? i - 1 : i >= 4 && code[i - 4] == 0x55 ? i - 4 : -1;
        if (room == size - 16 && push >= 0) {
            b->pushed = (uint8_t)(push + 1);
            b->body = (uint8_t)(i + length);
            return;
        }
        if (room == size - 8) {
            b->frame_first = true;
            b->pushed = (uint8_t)(i + length);
            b->body = (uint8_t)MIN(i + length + (room - 8 < 128 ? 5 : 8), complete);
            return;
        }
    }
}

static bool read_name(struct hotspot *h, uint64_t address, struct blob *blob)
{
    struct stub_name *last = &h->last_name;
    if (address != last->address) {
        last->address = 0;
        if (memory_read_string(h->pid, address, last->name, sizeof(last->name)) < 0)
            return false;
        last->address = address;
    }
    memcpy(blob->name, last->name, sizeof(blob->name));
    return true;
}

/* The blob at an address, in a block of so many segments and bytes. */
static void read_blob(struct hotspot *h, uint64_t at, uint64_t length, uint64_t size)
{
    enum { BLOB_BYTES = 512, PROLOGUE_BYTES = 128 };
    struct blob blob = {.blob = at, .length = (uint32_t)length};
    size = MIN(size, BLOB_BYTES);
    const uint8_t *bytes = peek(h, at, size);
    if (!bytes)
        return;
    if (h->has[BLOB_CODE]) {
        blob.start = at + (uint64_t)take(h, bytes, size, BLOB_CODE);
        blob.end = at + (uint64_t)take(h, bytes, size, BLOB_DATA);
    } else {
        blob.start = (uint64_t)take(h, bytes, size, BLOB_BEGIN);
        blob.end = (uint64_t)take(h, bytes, size, BLOB_END);
    }
    blob.frame_words = (int32_t)take(h, bytes, size, BLOB_FRAME);
    int complete = (int)take(h, bytes, size, BLOB_COMPLETE);
    if (blob.start >= blob.end || blob.end - blob.start > 64u << 20 ||
        !read_name(h, (uint64_t)take(h, bytes, size, BLOB_NAME), &blob))
        return;
    blob.kind = kind_of(blob.name);
    if (blob.kind == BLOB_METHOD)
        blob.method = (uint64_t)take(h, bytes, size, CODE_METHOD);
    if (blob.frame_words > 1 && complete > 0 && complete < PROLOGUE_BYTES &&
        (uint64_t)complete < blob.end - blob.start)
        find_prologue(&blob, peek(h, blob.start, (size_t)complete), complete);
    if (array_add(&h->blobs, blob) < 0)
        return;
}

static void read_heap(struct hotspot *h, uint64_t heap)
{
    uint64_t low = word(h, heap + h->fields[HEAP_MEMORY] + h->fields[SPACE_LOW]);
    uint64_t high = word(h, heap + h->fields[HEAP_MEMORY] + h->fields[SPACE_HIGH]);
    int32_t shift = number(h, heap + h->fields[HEAP_LOG2]);
    if (!low || high <= low || shift < 3 || shift > 20 || h->block_size > 64)
        return;
    h->low = h->low ? MIN(h->low, low) : low;
    h->high = MAX(h->high, high);
    for (uint64_t at = low; at < high && h->blobs.count < BLOBS_LIMIT;) {
        const uint8_t *header = peek(h, at, h->block_size);
        uint64_t length = header ? (uint64_t)take(h, header, h->block_size, BLOCK_LENGTH) : 0;
        if (!length || length > (high - at) >> shift)
            return;
        if (take(h, header, h->block_size, BLOCK_USED))
            read_blob(h, at + h->block_size, length, (length << shift) - h->block_size);
        at += length << shift;
    }
}

static int by_start(const void *a, const void *b)
{
    const struct blob *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

int hotspot_refresh(struct hotspot *h)
{
    uint64_t heaps = word(h, h->fields[HEAPS]), data = word(h, heaps + h->fields[GROW_DATA]);
    int32_t count = number(h, heaps + h->fields[GROW_LEN]);
    array_clear(&h->blobs);
    h->low = h->high = 0;
    h->window.size = 0;
    h->last_name.address = 0;
    for (int32_t i = 0; i < count && i < 16; i++)
        read_heap(h, word(h, data + 8u * (unsigned)i));
    if (h->blobs.count)
        qsort(h->blobs.at, h->blobs.count, sizeof(*h->blobs.at), by_start);
    if (h->names.count > 100000)
        hotspot_forget_names(h); /* classes are unloaded, too */
    return h->blobs.count ? 0 : -ENOENT;
}

void hotspot_range(const struct hotspot *h, uint64_t *ret_start, uint64_t *ret_end)
{
    *ret_start = h->low;
    *ret_end = h->high;
}

static void add_row(struct unwind_row *rows, size_t limit, size_t *count, uint64_t pc, int cfa, int offset,
                    int rbp)
{
    if (*count && rows[*count - 1].pc == (unsigned)pc)
        --*count;
    if (*count < limit)
        rows[(*count)++] = (struct unwind_row){.pc = (unsigned)pc,
                                               .cfa_offset = (short)offset,
                                               .rbp_offset = (signed char)rbp,
                                               .rule = (unsigned char)(cfa | (rbp ? RBP_AT_CFA << 4 : 0))};
}

/* Until the frame is there, the return address is on top, or below rbp. */
static void add_compiled(const struct blob *b, uint64_t base, struct unwind_row *rows, size_t limit,
                         size_t *count)
{
    uint64_t start = b->start - base;
    int size = b->frame_words * 8;
    if (b->body) {
        add_row(rows, limit, count, start, CFA_RSP, 8, 0);
        if (size <= 32000)
            add_row(rows, limit, count, start + b->pushed, CFA_RSP, b->frame_first ? size : 16,
                    b->frame_first ? 0 : -2);
    }
    if (size > 32000)
        add_row(rows, limit, count, start + b->body, CFA_GAP, 0, 0);
    else
        add_row(rows, limit, count, start + b->body, CFA_RSP, size, -2);
}

static void add_blob(const struct hotspot *h, const struct blob *b, struct unwind_row *rows, size_t limit,
                     size_t *count)
{
    uint64_t start = b->start - h->low;
    if (b->kind == BLOB_INTERPRETER)
        add_row(rows, limit, count, start, CFA_RBP, SAMPLER_JAVA_INTERPRETED, 0);
    else if (b->kind == BLOB_NO_FRAME)
        add_row(rows, limit, count, start, CFA_RSP, 8, 0);
    else if (b->frame_words > 1)
        add_compiled(b, h->low, rows, limit, count);
    else
        add_row(rows, limit, count, start, CFA_RBP, 16, -2);
    add_row(rows, limit, count, b->end - h->low, CFA_GAP, 0, 0);
}

size_t hotspot_row_limit(const struct hotspot *h)
{
    return 1 + 4 * h->blobs.count; /* add_compiled() and the end */
}

size_t hotspot_rows(const struct hotspot *h, struct unwind_row *rows, size_t limit)
{
    size_t count = 0;
    add_row(rows, limit, &count, 0, CFA_GAP, 0, 0);
    array_foreach (&h->blobs, b)
        add_blob(h, b, rows, limit, &count);
    return count;
}

static const struct blob *blob_at(const struct hotspot *h, uint64_t address)
{
    size_t low = 0, high = h->blobs.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (h->blobs.at[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && address < h->blobs.at[low - 1].end ? &h->blobs.at[low - 1] : NULL;
}

/* Whether the code that was read is there still. What a method's code leaves is a free block whose end goes
 * to other code, while all that was read of it stays as it was but for the block's head. Of a process that
 * cannot be read any more, what was read last is what was there. */
static bool is_there(const struct hotspot *h, const struct blob *b)
{
    uint8_t head[64];
    if (memory_read(h->pid, b->blob - h->block_size, head, h->block_size) < 0)
        return true;
    return take(h, head, h->block_size, BLOCK_USED) &&
           (uint32_t)take(h, head, h->block_size, BLOCK_LENGTH) == b->length &&
           (uint64_t)field_at(h, b->blob, CODE_METHOD) == b->method;
}

/* ---- stepping on a copy: the same as the kernel's half does on the stack itself ---- */

/* Interpreter: rbp - 8 the caller's stack pointer, rbp - 24 the method. */
static enum native_step step_interpreted(const struct stack_copy *stack, struct registers *r,
                                         uint64_t *ret_method)
{
    uint64_t sender, method, fp, pc;
    if (r->fp < r->sp || r->fp % 8 || !stack_word(stack, r->fp - 24, &method) ||
        !stack_word(stack, r->fp - 8, &sender) || !stack_word(stack, r->fp, &fp) ||
        !stack_word(stack, r->fp + 8, &pc))
        return STEP_NO_STACK;
    *ret_method = method;
    *r = (struct registers){.pc = pc, .sp = MAX(sender, r->fp + 16), .fp = fp};
    return pc ? STEP_CALLER : STEP_END;
}

/* The last instructions of a compiled method, its frame partly gone. */
static bool leave_method(const struct hotspot *h, const struct stack_copy *stack, struct registers *r,
                         uint64_t *ret_cfa)
{
    uint64_t bytes = 0;
    memory_read(h->pid, r->pc, &bytes, sizeof(bytes));
    if ((uint8_t)bytes == 0xc3 || (bytes & 0xffffff) == 0xa73b49 || (bytes & 0xffffff) == 0x673b49 ||
        ((bytes & 0xffff) == 0x870f && (uint8_t)(bytes >> 48) == 0xc3)) {
        *ret_cfa = r->sp + 8;
        return true;
    }
    if ((uint8_t)bytes == 0x5d) { /* pop rbp */
        *ret_cfa = r->sp + 16;
        return stack_word(stack, r->sp, &r->fp);
    }
    return false;
}

static bool in_code_cache(const struct hotspot *h, uint64_t pc)
{
    return pc >= h->low && pc < h->high;
}

static bool is_return(const struct hotspot *h, uint64_t pc)
{
    uint64_t bytes;
    const struct blob *b = in_code_cache(h, pc) ? blob_at(h, pc) : NULL;
    return b && (b->kind == BLOB_INTERPRETER ||
                 (memory_read(h->pid, pc - 8, &bytes, sizeof(bytes)) == 0 && unwind_follows_call(bytes)));
}

enum native_step hotspot_step(const struct hotspot *h, const struct stack_copy *stack,
                              struct registers *registers, bool call, uint64_t *ret_method)
{
    struct unwind_row rows[8], row;
    struct registers r = *registers;
    size_t count = 0;
    uint64_t pc = r.pc - call, cfa;
    const struct blob *b = blob_at(h, pc);
    *ret_method = 0;
    if (!b)
        return STEP_NO_MODULE;
    if (b->kind == BLOB_INTERPRETER)
        return step_interpreted(stack, registers, ret_method);
    add_blob(h, b, rows, ARRAY_SIZE(rows), &count);
    row = rows[0];
    for (size_t i = 1; i < count && rows[i].pc <= pc - h->low; i++)
        row = rows[i];
    bool same = true;
    if (!call && leave_method(h, stack, &r, &cfa)) {
        /* done */
    } else if (!call && (row.rule & 15) == CFA_RBP && r.fp - r.sp > 1 << 16) {
        cfa = r.sp + 8; /* a stub that makes no frame */
    } else if ((row.rule & 15) == CFA_RSP || (row.rule & 15) == CFA_RBP) {
        cfa = ((row.rule & 15) == CFA_RSP ? r.sp : r.fp) + (uint64_t)(int64_t)row.cfa_offset;
        same = row.rule >> 4 != RBP_AT_CFA;
    } else {
        return STEP_NO_TABLE;
    }
    if (!stack_word(stack, cfa - 8, &r.pc) || (!same && !stack_word(stack, cfa - 16, &r.fp)))
        return STEP_NO_STACK;
    uint64_t above; /* a word was pushed, see is_pushed() in bpf/walk.h */
    if (!call && !same && !in_code_cache(h, r.pc) && stack_word(stack, cfa, &above) && is_return(h, above)) {
        r.fp = r.pc;
        r.pc = above;
        cfa += 8;
    }
    if (cfa <= r.sp)
        return STEP_NO_TABLE;
    r.sp = cfa;
    *registers = r;
    return r.pc ? STEP_CALLER : STEP_END;
}

/* ---- names ---- */

#define COUNTERS_BYTES                                                                   \
    (1 << 18) /* they are 32 KB in all versions, unless -XX:PerfDataMemorySize says more \
               */

static bool read_symbol(const struct hotspot *h, uint64_t symbol, char *buffer, size_t size)
{
    uint16_t length;
    if (!symbol || memory_read(h->pid, symbol + h->fields[SYMBOL_LENGTH], &length, sizeof(length)) < 0)
        return false;
    size_t n = MIN((size_t)length, size - 1);
    if (memory_read(h->pid, symbol + h->fields[SYMBOL_BODY], buffer, n) < 0)
        return false;
    buffer[n] = '\0';
    return n > 0;
}

/* Hidden classes carry a number that differs between instances: Foo$$Lambda/0x00007f..., Foo$$Lambda$14/0x...
 */
static void drop_instance(char *class)
{
    char *at = strstr(class, "/0x");
    if (!at)
        at = strstr(class, "+0x");
    if (at)
        *at = '\0';
    at = strstr(class, "$$Lambda$");
    if (at)
        at[8] = '\0';
    at = strstr(class, "GeneratedMethodAccessor");
    if (at)
        at[23] = '\0';
    at = strstr(class, "GeneratedConstructorAccessor");
    if (at)
        at[28] = '\0';
}

/* The machine makes its counters while it starts, and is sampled already then: until that is over a look that
 * finds none says nothing of the next moment, in which classes may be unloaded. */
static void find_counter(struct hotspot *h, uint64_t now_ns)
{
    enum { LOOKS_AT_START = 500 };
    uint64_t pause_ns = h->looks < LOOKS_AT_START ? 10 * NS_PER_MS : NS_PER_S;
    if (h->counter || !h->has[COUNTERS] || now_ns - h->looked_ns < pause_ns)
        return;
    uint64_t start = word(h, h->fields[COUNTERS]);
    uint8_t *bytes = start ? malloc(COUNTERS_BYTES) : NULL;
    ssize_t size = bytes ? memory_read_some(h->pid, start, bytes, COUNTERS_BYTES) : 0;
    size_t at = size > 0 ? hotspot_counter(bytes, (size_t)size, "java.cls.unloadedClasses") : 0;
    h->counter = at ? start + at : 0;
    h->looked_ns = now_ns;
    h->looks++;
    free(bytes);
}

/* Where classes are unloaded and others loaded, the memory of their methods is used again. */
bool hotspot_unloaded(struct hotspot *h, uint64_t now_ns)
{
    bool due = now_ns - h->asked_ns >= NS_PER_S;
    find_counter(h, now_ns);
    uint64_t unloaded = h->counter ? word(h, h->counter) : 0;
    bool changed = h->counter ? unloaded != h->unloaded : due;
    if (due)
        h->asked_ns = now_ns;
    if (!changed)
        return false;
    h->unloaded = unloaded;
    return true;
}

static const char *method_name(struct hotspot *h, uint64_t method)
{
    bool added;
    uint64_t *known = map_put(&h->method_names, method, &added);
    if (!known)
        return NULL;
    if (!added)
        return h->names.at[*known];
    char class[400], name[200], full[600];
    uint16_t index = 0;
    uint64_t constant = word(h, method + h->fields[METHOD_CONST]);
    uint64_t pool = constant ? word(h, constant + h->fields[CONST_POOL]) : 0;
    char *copy = NULL;
    if (pool && memory_read(h->pid, constant + h->fields[CONST_NAME], &index, sizeof(index)) == 0 &&
        read_symbol(h, word(h, pool + h->pool_size + 8ull * index), name, sizeof(name)) &&
        read_symbol(h, word(h, word(h, pool + h->fields[POOL_HOLDER]) + h->fields[KLASS_NAME]), class,
                    sizeof(class))) {
        drop_instance(class);
        for (char *c = class; *c; c++)
            *c = *c == '/' ? '.' : *c;
        snprintf(full, sizeof(full), "%s.%s", class, name);
        copy = strdup(full);
    }
    if (!copy || array_add(&h->names, copy) < 0) {
        free(copy);
        map_remove(&h->method_names, method);
        return NULL;
    }
    *known = h->names.count - 1;
    return copy;
}

static void add_frame(struct hotspot_frame *frames, size_t limit, size_t *count, const char *name,
                      bool is_method)
{
    if (*count < limit) {
        snprintf(frames[*count].name, sizeof(frames[*count].name), "%s", name);
        frames[(*count)++].is_method = is_method;
    }
}

/* UNSIGNED5: up to five bytes, the low six bits of each add up; bytes below a bound end the number. Since
 * version 20 zero bytes are left out, which moves everything by one. */
static bool take_number(const struct hotspot *h, const uint8_t **at, const uint8_t *end, uint32_t *ret)
{
    uint32_t exclude = h->major >= 20, sum = 0;
    for (int i = 0; i < 5 && *at < end; i++) {
        uint32_t byte = *(*at)++;
        sum += (byte - exclude) << (6 * i);
        if (byte < 192 || i == 4) {
            *ret = sum;
            return true;
        }
    }
    return false;
}

/* Where a method's debug information lies. */
struct scopes {
    uint64_t pcs, data,
        methods; /* PcDesc entries, what they lead to, the methods that that names by number */
    int32_t pc_count;
};

static bool find_scopes(const struct hotspot *h, const struct blob *b, struct scopes *ret)
{
    bool apart = h->has[IMMUTABLE];
    if (!h->has[SCOPES_PCS] ||
        !(apart ? h->has[SCOPES_DATA_OFFSET] : h->has[SCOPES_DATA] && h->has[DEPENDENCIES]) ||
        !(apart && h->has[MUTABLE] ? h->has[RELOCATION] : h->has[METADATA]))
        return false;
    uint64_t base = apart ? (uint64_t)field_at(h, b->blob, IMMUTABLE) : b->blob;
    int64_t first = field_at(h, b->blob, SCOPES_PCS);
    int64_t end = field_at(h, b->blob, apart ? SCOPES_DATA_OFFSET : DEPENDENCIES);
    if (!base || first < 0 || (!apart && first == 0) || end <= first ||
        (end - first) / (int64_t)h->pc_size > 1 << 20)
        return false;
    ret->pcs = base + (uint64_t)first;
    ret->pc_count = (int32_t)((end - first) / (int64_t)h->pc_size);
    ret->data = apart ? base + (uint64_t)end : (uint64_t)field_at(h, b->blob, SCOPES_DATA);
    if (apart && h->has[MUTABLE])
        ret->methods = (uint64_t)(field_at(h, b->blob, MUTABLE) + field_at(h, b->blob, RELOCATION));
    else
        ret->methods = b->blob + (uint64_t)(field_at(h, b->blob, METADATA) +
                                            (apart ? field_at(h, b->blob, BLOB_DATA) : 0));
    return true;
}

/* The offset of the scope at an address: that of the first description at or behind it. */
static int32_t scope_at(const struct hotspot *h, const struct scopes *s, int32_t wanted)
{
    int32_t low = 0, high = s->pc_count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (field_at(h, s->pcs + (uint64_t)middle * h->pc_size, PC_OFFSET) < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->pc_count ? (int32_t)field_at(h, s->pcs + (uint64_t)low * h->pc_size, PC_SCOPE) : 0;
}

static size_t name_scopes(struct hotspot *h, const struct blob *b, uint64_t pc, struct hotspot_frame *frames,
                          size_t limit)
{
    size_t count = 0;
    struct scopes scopes;
    if (!find_scopes(h, b, &scopes))
        return 0;
    int32_t offset = scope_at(h, &scopes, (int32_t)(pc - b->start));
    for (int i = 0; offset > 0 && i < SCOPES_LIMIT; i++) {
        uint8_t bytes[16];
        uint32_t sender, method;
        const uint8_t *at = bytes;
        if (memory_read(h->pid, scopes.data + (uint64_t)offset, bytes, sizeof(bytes)) < 0 ||
            !take_number(h, &at, bytes + sizeof(bytes), &sender) ||
            !take_number(h, &at, bytes + sizeof(bytes), &method) || method == 0 || method > 1 << 20)
            return 0;
        const char *name = method_name(h, word(h, scopes.methods + 8ull * (method - 1)));
        if (!name)
            return 0;
        add_frame(frames, limit, &count, name, true);
        if (sender >= (uint32_t)offset)
            break;
        offset = (int32_t)sender;
    }
    return count;
}

size_t hotspot_name(struct hotspot *h, uint64_t pc, bool call, uint64_t method, struct hotspot_frame *frames,
                    size_t limit)
{
    size_t count = 0;
    if (method) {
        const char *name = method_name(h, method);
        add_frame(frames, limit, &count, name ? name : "[interpreted method]", name != NULL);
        return count;
    }
    const struct blob *b = blob_at(h, pc - call);
    if (!b || (b->kind == BLOB_METHOD && !is_there(h, b)))
        return 0;
    if (b->kind == BLOB_METHOD) {
        count = name_scopes(h, b, pc, frames, limit);
        const char *name = count ? NULL : method_name(h, b->method);
        if (name)
            add_frame(frames, limit, &count, name, true);
    }
    if (!count)
        add_frame(frames, limit, &count, b->name, false);
    return count;
}
