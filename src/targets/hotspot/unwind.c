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
#include "targets/hotspot/unwind_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "symbol/memory.h"
#include "targets/hotspot/unwind_counters.h"

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
    [CODE_NUMBER] = {"nmethod", "_compile_id", NULL, true},
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
    [SYMBOL_HASH] = {"Symbol", "_hash_and_refcount", NULL, true},
    [SYMBOL_LENGTH] = {"Symbol", "_length", NULL, false},
    [SYMBOL_BODY] = {"Symbol", "_body", NULL, false},
    [VM_MAJOR] = {"Abstract_VM_Version", "_vm_major_version", NULL, true},
    [COUNTERS] = {"PerfMemory", "_start", NULL, true},
};

uint64_t hotspot_word(const struct hotspot *h, uint64_t address)
{
    uint64_t value = 0;
    return memory_read_through(h->pages, h->pid, address, &value, sizeof(value)) < 0 ? 0 : value;
}

int32_t hotspot_number(const struct hotspot *h, uint64_t address)
{
    int32_t value = 0;
    return memory_read_through(h->pages, h->pid, address, &value, sizeof(value)) < 0 ? 0 : value;
}

uint64_t hotspot_unloads_now(const struct hotspot *h)
{
    uint64_t count;
    return h->counter && memory_read(h->pid, h->counter, &count, sizeof(count)) == 0 ? count
                                                                                     : HOTSPOT_UNKNOWN;
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

int64_t hotspot_take(const struct hotspot *h, const uint8_t *bytes, size_t size, enum field field)
{
    size_t width = (size_t)abs(h->widths[field]);
    uint64_t value = 0;
    if (!h->has[field] || h->fields[field] > size || size - h->fields[field] < width)
        return 0;
    memcpy(&value, bytes + h->fields[field], width);
    return h->widths[field] == -4 ? (int32_t)value : h->widths[field] == -2 ? (int16_t)value : (int64_t)value;
}

int64_t hotspot_field(const struct hotspot *h, uint64_t object, enum field field)
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
    return elf_find(elf, name, &symbol) < 0 ? 0 : hotspot_word(h, symbol.value + bias);
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
        if (memory_read_through(h->pages, h->pid, at, entry, stride) < 0)
            return;
        memcpy(&type_name, entry + (type_at & 127 & ~7u), 8);
        memcpy(&field_name, entry + (name_at & 127 & ~7u), 8);
        memcpy(&kind_name, entry + (kind_at & 127 & ~7u), 8);
        if (!type_name)
            return;
        if (memory_read_string(h->pages, h->pid, type_name, type, sizeof(type)) < 0 ||
            memory_read_string(h->pages, h->pid, field_name, field, sizeof(field)) < 0)
            continue;
        memcpy(&is_static, entry + (static_at & 127 & ~3u), 4);
        memcpy(&value, entry + ((is_static ? address_at : offset_at) & 127 & ~7u), 8);
        for (int f = 0; f < FIELDS; f++) {
            if (strcmp(field, FIELD_NAMES[f].name) != 0 ||
                (strcmp(type, FIELD_NAMES[f].type) != 0 &&
                 (!FIELD_NAMES[f].other_type || strcmp(type, FIELD_NAMES[f].other_type) != 0)))
                continue;
            if (kind_name)
                (void)memory_read_string(h->pages, h->pid, kind_name, kind, sizeof(kind));
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
        uint64_t name_address = hotspot_word(h, at + name_at);
        if (!name_address)
            return;
        if (memory_read_string(h->pages, h->pid, name_address, name, sizeof(name)) < 0)
            continue;
        if (strcmp(name, "HeapBlock") == 0)
            h->block_size = hotspot_word(h, at + size_at);
        else if (strcmp(name, "ConstantPool") == 0)
            h->pool_size = hotspot_word(h, at + size_at);
        else if (strcmp(name, "PcDesc") == 0)
            h->pc_size = hotspot_word(h, at + size_at);
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
        uint64_t name_address = hotspot_word(h, at + name_at);
        if (!name_address)
            break;
        if (memory_read_string(h->pages, h->pid, name_address, name, sizeof(name)) < 0)
            continue;
        if (strcmp(name, "frame::interpreter_frame_sender_sp_offset") == 0)
            sender = hotspot_number(h, at + value_at);
        else if (strcmp(name, "frame::interpreter_frame_last_sp_offset") == 0)
            last = hotspot_number(h, at + value_at);
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

/* A symbol's first word: 16 bits of a hash, its length and first letters stay as they are, the low half of
 * the hash's field is a count of references. Where that is elsewhere, names cannot be told apart by it. */
void hotspot_describe_names(struct hotspot *h)
{
    if (!h->has[SYMBOL_HASH] || h->fields[SYMBOL_HASH] != 0 || h->widths[SYMBOL_HASH] != 4 ||
        h->fields[SYMBOL_BODY] < 4)
        return;
    h->java = (struct sampler_java){.symbol_mask = ~0xffffull,
                                    .method_const = (int)h->fields[METHOD_CONST],
                                    .const_pool = (int)h->fields[CONST_POOL],
                                    .const_name = (int)h->fields[CONST_NAME],
                                    .pool_holder = (int)h->fields[POOL_HOLDER],
                                    .pool_size = (int)h->pool_size,
                                    .class_name = (int)h->fields[KLASS_NAME],
                                    .symbol_length = (int)h->fields[SYMBOL_LENGTH],
                                    .symbol_body = (int)h->fields[SYMBOL_BODY]};
}

const struct sampler_java *hotspot_name_layout(const struct hotspot *h)
{
    return &h->java;
}

/* They are 32 KB in all versions, unless -XX:PerfDataMemorySize says more. */
#define COUNTERS_BYTES (1 << 18)

void hotspot_forget_names(struct hotspot *h)
{
    array_foreach (&h->names, name)
        free(*name);
    array_clear(&h->names);
    map_clear(&h->methods);
}

/* The machine makes its counters while it starts, and is sampled already then: until that is over a look that
 * finds none says nothing of the next moment, in which classes may be unloaded. */
static void find_counter(struct hotspot *h, uint64_t now_ns)
{
    enum { LOOKS_AT_START = 500 };
    uint64_t pause_ns = h->looks < LOOKS_AT_START ? 10 * NS_PER_MS : NS_PER_S;
    if (h->counter || !h->has[COUNTERS] || now_ns - h->looked_ns < pause_ns)
        return;
    uint64_t start = hotspot_word(h, h->fields[COUNTERS]);
    uint8_t *bytes = start ? malloc(COUNTERS_BYTES) : NULL;
    ssize_t size = bytes ? memory_read_some(h->pid, start, bytes, COUNTERS_BYTES) : 0;
    size_t at = size > 0 ? hotspot_counter(bytes, (size_t)size, "java.cls.unloadedClasses") : 0;
    h->counter = at ? start + at : 0;
    h->looked_ns = now_ns;
    h->looks++;
    free(bytes);
}

uint64_t hotspot_unloads(struct hotspot *h, uint64_t now_ns, uint64_t *ret_address)
{
    find_counter(h, now_ns);
    *ret_address = h->counter;
    return hotspot_unloads_now(h);
}

/* Thousands of small pieces, which lie close together. */
static bool read_tables(struct hotspot *h, struct elf *elf, uint64_t bias)
{
    struct memory_pages pages = {0};
    h->pages = &pages;
    read_fields(h, elf, bias);
    read_types(h, elf, bias);
    bool known = is_known(h) && same_frames(h, elf, bias);
    h->pages = NULL;
    memory_pages_done(&pages);
    return known;
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
    if (!read_tables(h, native_file_elf(file), library->load_bias)) {
        hotspot_free(h);
        return -ENOTSUP;
    }
    hotspot_describe_names(h);
    h->major = h->has[VM_MAJOR] ? hotspot_number(h, h->fields[VM_MAJOR]) : 17;
    find_counter(h, clock_monotonic_ns());
    hotspot_refresh(h);
    *ret_hotspot = h;
    return 0;
}

void hotspot_free(struct hotspot *h)
{
    if (!h)
        return;
    hotspot_forget_names(h);
    array_done(&h->names);
    map_done(&h->methods);
    array_done(&h->blobs);
    array_done(&h->former);
    free(h);
}
