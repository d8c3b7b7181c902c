/* Where a build of V8 keeps things. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/unwind_layout.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "symbol/stripped.h"

/* A field of struct v8_layout and the symbols that may hold it, the newest first (without "v8dbg_"). */
struct source {
    size_t field;
    const char *names[4];
    int32_t otherwise; /* when none is there */
};

#define FIELD(name) offsetof(struct v8_layout, name)
#define REQUIRED    INT32_MIN

static const struct source OFFSETS[] = {
    {FIELD(frame_entry), {"frametype_EntryFrame"}, REQUIRED},
    {FIELD(frame_construct_entry), {"frametype_ConstructEntryFrame"}, REQUIRED},
    {FIELD(frame_exit), {"frametype_ExitFrame"}, REQUIRED},
    {FIELD(frame_builtin_exit), {"frametype_BuiltinExitFrame"}, -1},
    {FIELD(frame_api_exit), {"frametype_ApiCallbackExitFrame"}, -1},
    {FIELD(frame_accessor_exit), {"frametype_ApiAccessorExitFrame"}, -1},
    {FIELD(frame_stub), {"frametype_StubFrame"}, REQUIRED},
    {FIELD(frame_internal), {"frametype_InternalFrame"}, -1},
    {FIELD(frame_construct), {"frametype_ConstructFrame"}, -1},
    {FIELD(frame_irregexp), {"frametype_IrregexpFrame"}, -1},
    {FIELD(frame_last), {"frametype_NativeFrame"}, REQUIRED},
    {FIELD(map_instance_type), {"class_Map__instance_type__uint16_t"}, REQUIRED},
    {FIELD(string_length), {"class_String__length__int32_t"}, REQUIRED},
    {FIELD(seq_one_byte), {"class_SeqOneByteString__chars__char"}, 16},
    {FIELD(seq_two_byte), {"class_SeqTwoByteString__chars__char"}, 16},
    {FIELD(cons_first), {"class_ConsString__first__String"}, 16},
    {FIELD(cons_second), {"class_ConsString__second__String"}, 24},
    {FIELD(sliced_parent), {"class_SlicedString__parent__String"}, 16},
    {FIELD(sliced_offset), {"class_SlicedString__offset__SMI"}, 24},
    {FIELD(thin_actual), {"class_ThinString__actual__String"}, 16},
    {FIELD(external_resource), {"class_ExternalString__resource__Object"}, 16},
    {FIELD(function_shared), {"class_JSFunction__shared__SharedFunctionInfo"}, REQUIRED},
    {FIELD(function_code),
     {"class_JSFunction__code__Tagged_Code_", "class_JSFunction__code__CodeT",
      "class_JSFunction__raw_code__CodeT"},
     -1},
    {FIELD(shared_name),
     {"class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_",
      "class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_",
      "class_SharedFunctionInfo__name_or_scope_info__Object"},
     REQUIRED},
    {FIELD(shared_script),
     {"class_SharedFunctionInfo__raw_script__Tagged_Object_",
      "class_SharedFunctionInfo__script_or_debug_info__HeapObject",
      "class_SharedFunctionInfo__script__Tagged_HeapObject_"},
     REQUIRED},
    {FIELD(shared_data), {"class_SharedFunctionInfo__function_data__Object"}, 8},
    {FIELD(script_source), {"class_Script__source__Object"}, 8},
    {FIELD(script_name), {"class_Script__name__Object"}, 16},
    {FIELD(bytecode_data), {"class_BytecodeArray__data__uintptr_t"}, 54},
    {FIELD(fixed_array_data), {"class_FixedArray__data__uintptr_t"}, 16},
    {FIELD(code_start),
     {"class_Code__instruction_start__Address", "class_Code__instruction_start__uintptr_t"},
     -1},
    {FIELD(code_positions), {"class_Code__source_position_table__ByteArray"}, 24},
    {FIELD(code_deoptimization), {"class_Code__deoptimization_data__FixedArray"}, 16},
    {FIELD(deopt_literals), {"DeoptimizationDataLiteralArrayIndex"}, 2},
    {FIELD(deopt_inlinings), {"DeoptimizationDataInliningPositionsIndex"}, 7},
    {FIELD(code_flags), {"class_Code__flags__uint32_t"}, 48},
    {FIELD(code_kind_mask), {"CodeKindFieldMask"}, 15},
    {FIELD(code_kind_baseline), {"CodeKindBaseline"}, 11},
    {FIELD(stream_start), {"class_InstructionStream__instruction_start__uintptr_t"}, -1},
    {FIELD(wrapper_shared), {"class_SharedFunctionInfoWrapper__shared_info__Tagged_SharedFunctionInfo_"}, -1},
    {FIELD(regexp_source), {"class_JSRegExp__source__Object"}, 32},
    {FIELD(scope_first), {"scopeinfo_idx_first_vars"}, 3},
};

static const struct source TYPES[] = {
    {FIELD(type_regexp), {"type_JSRegExp__JS_REG_EXP_TYPE"}, REQUIRED},
    {FIELD(type_script), {"type_Script__SCRIPT_TYPE"}, REQUIRED},
    {FIELD(type_shared), {"type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE"}, REQUIRED},
    {FIELD(type_bytecode), {"type_BytecodeArray__BYTECODE_ARRAY_TYPE"}, REQUIRED},
    {FIELD(type_scope_info), {"type_ScopeInfo__SCOPE_INFO_TYPE"}, REQUIRED},
    {FIELD(type_function), {"type_JSFunction__JS_FUNCTION_TYPE"}, REQUIRED},
    {FIELD(type_byte_array), {"type_ByteArray__BYTE_ARRAY_TYPE"}, REQUIRED},
    {FIELD(type_fixed_array), {"type_FixedArray__FIXED_ARRAY_TYPE"}, REQUIRED},
    {FIELD(type_code), {"type_Code__CODE_TYPE"}, REQUIRED},
    {FIELD(type_stream), {"type_InstructionStream__INSTRUCTION_STREAM_TYPE"}, 0},
    {FIELD(type_wrapper), {"type_SharedFunctionInfoWrapper__SHARED_FUNCTION_INFO_WRAPPER_TYPE"}, 0},
    {FIELD(type_trusted_byte_array), {"type_TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE"}, 0},
    {FIELD(type_debug_info), {"type_DebugInfo__DEBUG_INFO_TYPE"}, 0},
    {FIELD(type_first_nonstring), {"FirstNonstringType"}, REQUIRED},
};

/* The value of v8dbg_NAME, an int in the file. */
static int constant(struct elf *elf, const char *name, int32_t *ret_value)
{
    char full[128];
    struct elf_symbol symbol;
    snprintf(full, sizeof(full), "v8dbg_%s", name);
    int r = elf_find_exported(elf, full, &symbol);
    return r < 0 ? r : elf_read(elf, symbol.value, ret_value, sizeof(*ret_value));
}

static int first_constant(struct elf *elf, const struct source *source, int32_t *ret_value)
{
    for (size_t i = 0; i < ARRAY_SIZE(source->names) && source->names[i]; i++)
        if (constant(elf, source->names[i], ret_value) == 0)
            return 0;
    if (source->otherwise == REQUIRED)
        return -ENOENT;
    *ret_value = source->otherwise;
    return 0;
}

/* ---- builtins and bytecodes ---- */

/* The address that `lea X(%rip), %rax` or `mov X(%rip), %rax` at the start of a function names (perhaps after
 * its argument was widened, `movslq %edi, %rdi`); *ret_rest is the code behind it. 0 when the function begins
 * otherwise. */
static uint64_t named_address(struct elf *elf, const char *function, bool *ret_loads,
                              const uint8_t **ret_rest)
{
    struct elf_symbol symbol;
    const uint8_t *code =
        elf_find(elf, function, &symbol) == 0 ? elf_bytes(elf, symbol.value, 24, NULL) : NULL;
    if (!code)
        return 0;
    static const uint8_t WIDEN[] = {0x48, 0x63, 0xff};
    uint64_t skipped = memcmp(code, WIDEN, sizeof(WIDEN)) == 0 ? sizeof(WIDEN) : 0;
    skipped += code[skipped] == 0x48; /* REX.W: 64 bits */
    const uint8_t *p = code + skipped;
    if ((p[0] != 0x8d && p[0] != 0x8b) || p[1] != 0x05)
        return 0;
    int32_t distance;
    memcpy(&distance, p + 2, sizeof(distance));
    *ret_loads = p[0] == 0x8b;
    *ret_rest = p + 6;
    return symbol.value + skipped + 6 + (uint64_t)(int64_t)distance;
}

/* Without symbols (Debian's libnode) two exported accessors say where the builtins are and how long: they
 * return what lies at an address of the file's data. */
static void read_stripped_blob(struct elf *elf, struct v8_layout *layout)
{
    static const uint8_t LOAD_64[] = {0x48, 0x8b, 0x00, 0xc3}, LOAD_32[] = {0x8b, 0x00, 0xc3};
    bool loads;
    const uint8_t *rest;
    uint64_t code, pointer = named_address(elf, "_ZN2v88internal23DefaultEmbeddedBlobCodeEv", &loads, &rest);
    if (!pointer || (!loads && memcmp(rest, LOAD_64, sizeof(LOAD_64)) != 0) ||
        stripped_pointer(elf, pointer, &code) < 0)
        return;
    uint32_t bytes;
    uint64_t size = named_address(elf, "_ZN2v88internal27DefaultEmbeddedBlobCodeSizeEv", &loads, &rest);
    if (!size || (!loads && memcmp(rest, LOAD_32, sizeof(LOAD_32)) != 0) ||
        elf_read(elf, size, &bytes, 4) < 0 || !elf_bytes(elf, code, bytes, NULL))
        return;
    layout->blob_address = code;
    layout->blob_size = bytes;
}

static void read_blob(struct elf *elf, struct v8_layout *layout)
{
    static const char *const starts[] = {"v8_Default_embedded_blob_code_data_",
                                         "v8_Default_embedded_blob_code_"};
    struct elf_symbol start, size;
    uint32_t bytes;
    if (elf_find(elf, "v8_Default_embedded_blob_code_size_", &size) < 0 ||
        elf_read(elf, size.value, &bytes, 4) < 0) {
        read_stripped_blob(elf, layout);
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
        if (elf_find(elf, starts[i], &start) == 0 && elf_bytes(elf, start.value, bytes, NULL)) {
            struct elf_section section; /* before V8 12 the second name is a pointer in .data */
            if (elf_section_at(elf, start.section, &section) < 0 || !(section.flags & SHF_EXECINSTR))
                continue;
            layout->blob_address = start.value;
            layout->blob_size = bytes;
            return;
        }
}

struct opcode_name {
    const char *handler; /* the bytecode's name, as its interpreter handler is called */
    uint8_t kind;
};

static const struct opcode_name OPCODES[] = {
    {"Wide", OP_WIDE},
    {"ExtraWide", OP_EXTRA_WIDE},
    {"LdaGlobal", OP_NAME_FIRST},
    {"LdaGlobalInsideTypeof", OP_NAME_FIRST},
    {"StaGlobal", OP_NAME_FIRST},
    {"LdaConstant", OP_NAME_FIRST},
    {"LdaLookupSlot", OP_NAME_FIRST},
    {"LdaLookupGlobalSlot", OP_NAME_FIRST},
    {"LdaLookupContextSlot", OP_NAME_FIRST},
    {"StaLookupSlot", OP_NAME_FIRST},
    {"ThrowReferenceErrorIfHole", OP_NAME_FIRST},
    {"LdaCurrentContextSlot", OP_CONTEXT_CURRENT},
    {"LdaImmutableCurrentContextSlot", OP_CONTEXT_CURRENT},
    {"LdaCurrentScriptContextSlot", OP_CONTEXT_CURRENT},
    {"StaCurrentContextSlot", OP_CONTEXT_CURRENT},
    {"StaCurrentScriptContextSlot", OP_CONTEXT_CURRENT},
    {"LdaContextSlot", OP_CONTEXT},
    {"LdaImmutableContextSlot", OP_CONTEXT},
    {"LdaScriptContextSlot", OP_CONTEXT},
    {"StaContextSlot", OP_CONTEXT},
    {"StaScriptContextSlot", OP_CONTEXT},
    {"LdaNamedProperty", OP_NAME_SECOND},
    {"LdaNamedPropertyNoFeedback", OP_NAME_SECOND},
    {"LdaNamedPropertyFromSuper", OP_NAME_SECOND},
    {"StaNamedProperty", OP_NAME_SECOND},
    {"StaNamedOwnProperty", OP_NAME_SECOND},
    {"GetNamedProperty", OP_NAME_SECOND},
    {"GetNamedPropertyFromSuper", OP_NAME_SECOND},
    {"SetNamedProperty", OP_NAME_SECOND},
    {"DefineNamedOwnProperty", OP_NAME_SECOND},
    {"CreateRegExpLiteral", OP_REGEXP},
    {"LdaSmi", OP_SMI},
    {"AddSmi", OP_SMI},
    {"SubSmi", OP_SMI},
    {"MulSmi", OP_SMI},
    {"DivSmi", OP_SMI},
    {"ModSmi", OP_SMI},
    {"ExpSmi", OP_SMI},
    {"BitwiseOrSmi", OP_SMI},
    {"BitwiseXorSmi", OP_SMI},
    {"BitwiseAndSmi", OP_SMI},
    {"ShiftLeftSmi", OP_SMI},
    {"ShiftRightSmi", OP_SMI},
    {"ShiftRightLogicalSmi", OP_SMI},
    {"CreateClosure", OP_CLOSURE},
    {"CallAnyReceiver", OP_CALL},
    {"CallProperty", OP_CALL},
    {"CallProperty0", OP_CALL},
    {"CallProperty1", OP_CALL},
    {"CallProperty2", OP_CALL},
    {"CallUndefinedReceiver", OP_CALL},
    {"CallUndefinedReceiver0", OP_CALL},
    {"CallUndefinedReceiver1", OP_CALL},
    {"CallUndefinedReceiver2", OP_CALL},
    {"CallWithSpread", OP_CALL},
    {"Construct", OP_CONSTRUCT},
    {"ConstructWithSpread", OP_CONSTRUCT},
    {"ConstructForwardAllArgs", OP_CONSTRUCT},
    {"JumpLoop", OP_JUMP_LOOP},
    {"Star", OP_STAR},
    {"ShortStar", OP_STAR_SHORT},
};

static uint8_t opcode_kind(const char *handler, size_t length)
{
    for (size_t i = 0; i < ARRAY_SIZE(OPCODES); i++)
        if (strlen(OPCODES[i].handler) == length && memcmp(OPCODES[i].handler, handler, length) == 0)
            return OPCODES[i].kind;
    return OP_OTHER;
}

enum { BUILTIN_BYTES = 24, BUILTINS_MAX = 4096 };

/* Builtins' metadata: where the table begins, and the address of each builtin's name. How many there are, 0
 * when it is not found. Without symbols (Debian's libnode) an exported accessor says where the table is, and
 * relocations what its pointers will be; the table ends where they do. */
static size_t find_builtins(struct elf *elf, uint64_t *ret_table, uint64_t names[BUILTINS_MAX])
{
    /* lea (%rdi,%rdi,2), %rdx; mov (%rax,%rdx,8), %rax; ret */
    static const uint8_t INDEX[] = {0x48, 0x8d, 0x14, 0x7f, 0x48, 0x8b, 0x04, 0xd0, 0xc3};
    struct elf_symbol table;
    size_t count = 0;
    if (elf_find(elf, "_ZN2v88internal12_GLOBAL__N_1L16builtin_metadataE", &table) == 0 ||
        elf_find(elf, "_ZN2v88internal12_GLOBAL__N_116builtin_metadataE", &table) == 0) {
        for (*ret_table = table.value; count < MIN(table.size / BUILTIN_BYTES, (uint64_t)BUILTINS_MAX);
             count++)
            if (elf_read(elf, table.value + count * BUILTIN_BYTES, &names[count], 8) < 0)
                break;
        return count;
    }
    bool loads;
    const uint8_t *rest;
    *ret_table = named_address(elf, "_ZN2v88internal8Builtins4nameENS0_7BuiltinE", &loads, &rest);
    if (!*ret_table || loads || memcmp(rest, INDEX, sizeof(INDEX)) != 0)
        return 0;
    stripped_pointers(elf, *ret_table, BUILTIN_BYTES, names, BUILTINS_MAX);
    while (count < BUILTINS_MAX && names[count])
        count++;
    return count;
}

/* Builtins' metadata names every bytecode handler with the bytecode it serves:
 *   byte 0..7 pointer to the name, 8..11 kind, 16..23 data: for handlers the bytecode, then the operand scale
 */
static void read_opcodes(struct elf *elf, struct v8_layout *layout)
{
    static const char suffix[] = "Handler";
    uint64_t table, names[BUILTINS_MAX];
    struct elf_symbol sizes;
    size_t available, builtins = find_builtins(elf, &table, names);
    if (!builtins || elf_find(elf, "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE", &sizes) < 0)
        return;
    unsigned opcodes = 0;
    for (size_t i = 0; i < builtins; i++) {
        uint64_t entry[3];
        if (elf_read(elf, table + i * BUILTIN_BYTES, entry, sizeof(entry)) < 0)
            return;
        const char *name = (const char *)elf_bytes(elf, names[i], 1, &available);
        const char *end = name ? memchr(name, 0, MIN(available, 200u)) : NULL;
        size_t length = end ? (size_t)(end - name) : 0;
        uint8_t opcode = (uint8_t)entry[2], scale = (uint8_t)(entry[2] >> 8);
        if (length <= sizeof(suffix) - 1 ||
            memcmp(end - (sizeof(suffix) - 1), suffix, sizeof(suffix) - 1) != 0 || (uint32_t)entry[1] < 4 ||
            scale != 1)
            continue;
        opcodes = MAX(opcodes, opcode + 1u);
        uint8_t kind = opcode_kind(name, length - (sizeof(suffix) - 1));
        layout->opcode_kind[opcode] = kind;
        if (kind == OP_STAR_SHORT) { /* the handler of Star0, and of Star1 to Star15 right before it */
            for (unsigned before = 1; before < 16 && before <= opcode; before++)
                layout->opcode_kind[opcode - before] = kind;
            layout->star0 = opcode;
        }
    }
    /* Sizes for each bytecode, for three operand scales. */
    unsigned count = (unsigned)(sizes.size / 3);
    if (opcodes < 100 || count > 256 || count < opcodes || layout->opcode_kind[0] != OP_WIDE)
        return;
    for (unsigned scale = 0; scale < 3; scale++)
        elf_read(elf, sizes.value + (uint64_t)scale * count, layout->bytecode_sizes[scale], count);
    layout->opcodes = count;
}

/* ---- all of it ---- */

/* V8 14 (Node 25) has two bits below each code offset of its tables of positions, which had one. */
static bool has_two_position_bits(struct elf *elf)
{
    enum { FIRST_MAJOR = 14 };
    struct elf_symbol symbol;
    int32_t major;
    return elf_find(elf, "_ZN2v88internal7Version6major_E", &symbol) == 0 &&
           elf_read(elf, symbol.value, &major, sizeof(major)) == 0 && major >= FIRST_MAJOR;
}

/* What the symbols do not say but the order of fields in the sources does. */
static void fill_in(struct v8_layout *layout)
{
    layout->bytecode_constants = 16;
    layout->bytecode_positions = 32;
    if (layout->bytecode_data >=
        64) { /* V8 12: a pointer to the wrapper comes first, the order is turned round */
        layout->bytecode_constants = 40;
        layout->bytecode_positions = 24;
        layout->code_deoptimization = 8;
        layout->code_positions = 16;
    }
    layout->byte_array_data = 16;
    layout->regexp_flags = layout->regexp_source + 8;
    layout->regexp_data = layout->regexp_source - 8;
    layout->script_line_offset = layout->script_name + 8;
}

int v8_layout_read(struct elf *elf, struct v8_layout *ret_layout, struct problem *problem)
{
    struct v8_layout layout = {0};
    int32_t value;
    if (constant(elf, "frametype_EntryFrame", &value) < 0)
        return -ENOENT;
    for (size_t i = 0; i < ARRAY_SIZE(OFFSETS); i++) {
        if (first_constant(elf, &OFFSETS[i], &value) < 0)
            return problem_set(problem, -ENOTSUP, "%s: this V8 does not say where it keeps %s",
                               elf_label(elf), OFFSETS[i].names[0]);
        memcpy((char *)&layout + OFFSETS[i].field, &value, sizeof(value));
    }
    for (size_t i = 0; i < ARRAY_SIZE(TYPES); i++) {
        if (first_constant(elf, &TYPES[i], &value) < 0)
            return problem_set(problem, -ENOTSUP, "%s: this V8 does not say what %s is", elf_label(elf),
                               TYPES[i].names[0]);
        uint16_t type = (uint16_t)value;
        memcpy((char *)&layout + TYPES[i].field, &type, sizeof(type));
    }
    if (constant(elf, "TaggedSize", &value) == 0 && value != 8)
        return problem_set(problem, -ENOTSUP, "%s: V8 with compressed pointers is not supported",
                           elf_label(elf));
    snprintf(layout.build_id, sizeof(layout.build_id), "%s", elf_build_id(elf));
    fill_in(&layout);
    layout.two_position_bits = has_two_position_bits(elf);
    read_blob(elf, &layout);
    read_opcodes(elf, &layout);
    *ret_layout = layout;
    return 0;
}

int v8_layout_fact(struct elf *elf, void *ret_fact)
{
    struct v8_layout_fact *fact = ret_fact;
    fact->result = v8_layout_read(elf, &fact->layout, &fact->problem);
    return fact->result == -ENOENT ? -ENOENT : 0;
}
