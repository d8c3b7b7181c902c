/* Where the fields and functions of Node and V8 are that the probe reads and calls: from the post-mortem
 * metadata (v8dbg_*) that Node carries, from its symbols, and from the machine code of small functions
 * (attach/walk.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/walk.h"
#include "targets/node/attach.h"

const char *node_other_build(const struct target *target)
{
    return target->versions[NODE_V8] >= V8_NEWER ? "This Node is newer than what this sonde was made for: "
                                                   "use a newer sonde, or Node 26 or older."
                                                 : "Use an official build of Node.";
}

/* A v8dbg_ constant, an int in the file's data; INT32_MIN when there is none. */
static int32_t v8_constant(struct target *target, const char *name)
{
    struct elf_symbol symbol;
    const struct target_module *module;
    int32_t value;
    char full[96];
    snprintf(full, sizeof(full), "v8dbg_%s", name);
    if (target_find(target, full, NULL, &symbol, &module) < 0 ||
        elf_read(module->elf, symbol.value, &value, sizeof(value)) < 0)
        return INT32_MIN;
    return value;
}

/* The parser's accessors, or what its state machine uses itself where a build left them out (Debian's). */
static void http_layout(struct target *target, struct sonde_config *config)
{
    config->node.llhttp_get_method = target_address(target, "llhttp_get_method");
    if (!config->node.llhttp_get_method)
        config->node.llhttp_get_method = target_address(target, "llhttp__internal__c_load_method");
    config->node.llhttp_get_type = target_address(target, "llhttp_get_type");
    if (!config->node.llhttp_get_type)
        config->node.llhttp_get_type = target_address(target, "llhttp__internal__c_load_type");
    config->node.llhttp_get_status = target_address(target, "llhttp_get_status_code");
    config->node.h2_rcbuf = target_address(target, "nghttp2_rcbuf_get_buf");
    struct walk walk;
    if (!config->node.llhttp_get_status &&
        walk_function(target, "llhttp__internal__c_mul_add_status_code", false, &walk) == 0) {
        config->node.llhttp_status = walk_access(&walk, ACCESS_LOAD, 2, 1, NULL, 0);
        array_done(&walk.accesses);
    }
    if (!config->node.llhttp_get_type)
        target_miss(target, "HTTP requests and responses", "this build has no symbol llhttp_get_type",
                    node_other_build(target));
}

/* What a port's handle calls goes from the handle to the port first, or behind its frame: sub rdi, offset;
 * add rdi, -offset, which is shorter for 128. */
static int32_t find_port_handle(struct target *target)
{
    enum { LOOKED_AT = 4 }; /* instructions */
    struct elf_symbol symbol;
    const struct target_module *module;
    size_t size = 0, at = 0;
    const char *const *called = NODE_PORT_CALLED;
    while (*called && target_find(target, *called, NULL, &symbol, &module) < 0)
        called++;
    if (!*called)
        return SONDE_NO_OFFSET; /* its hook is missing then, and is told */
    const uint8_t *code = elf_bytes(module->elf, symbol.value, 1, &size);
    ZydisDecoder decoder;
    ZydisDecodedInstruction in;
    ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (int i = 0; code && i < LOOKED_AT; i++, at += in.length) {
        if (at >= size || !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code + at, size - at, &in, op)))
            break;
        if ((in.mnemonic != ZYDIS_MNEMONIC_SUB && in.mnemonic != ZYDIS_MNEMONIC_ADD) ||
            op[0].reg.value != ZYDIS_REGISTER_RDI || op[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
            continue;
        int64_t back = in.mnemonic == ZYDIS_MNEMONIC_SUB ? op[1].imm.value.s : -op[1].imm.value.s;
        if (back > 0 && back < 4096)
            return (int32_t)back;
        break;
    }
    target_miss(target, "messages between worker threads",
                "this build's code does not show where the handle is", node_other_build(target));
    return SONDE_NO_OFFSET;
}

static void find_fields(struct target *target, struct sonde_config *config)
{
    static const char *const NEEDED[] = {"class_Map__instance_type__uint16_t",
                                         "class_String__length__int32_t",
                                         "class_SeqOneByteString__chars__char",
                                         "IsNotStringMask",
                                         "StringEncodingMask",
                                         "StringRepresentationMask",
                                         "OneByteStringTag",
                                         "SeqStringTag"};
    int32_t value[ARRAY_SIZE(NEEDED)];
    bool complete = true;
    for (size_t i = 0; i < ARRAY_SIZE(NEEDED); i++) {
        value[i] = v8_constant(target, NEEDED[i]);
        complete &= value[i] != INT32_MIN;
    }
    if (complete) {
        config->node.map_instance_type = value[0] - 1; /* heap pointers are tagged with 1 */
        config->node.string_length = value[1] - 1;
        config->node.string_chars = value[2] - 1;
        config->node.not_string_mask = (uint32_t)value[3];
        config->node.string_type_mask = (uint32_t)(value[3] | value[4] | value[5]);
        config->node.string_type_value = (uint32_t)(value[6] | value[7]);
    } else {
        target_miss(target, "types of asynchronous resources", "this Node has no v8dbg_ metadata for strings",
                    node_other_build(target));
    }
    http_layout(target, config);
    config->node.port_handle = find_port_handle(target);
    config->node.uv_fs_work = target_address(target, "uv__fs_work");
    config->node.uv_queue_work = target_address(target, "uv__queue_work");
    config->node.uv_getaddrinfo_work = target_address(target, "uv__getaddrinfo_work");
    config->node.uv_getnameinfo_work = target_address(target, "uv__getnameinfo_work");
    config->node.v8_heap_size = target_address(target, "_ZN2v88internal4Heap13SizeOfObjectsEv");
    if (!config->node.v8_heap_size)
        target_miss(target, "the size of the heap after a collection", "this Node has no symbol for it",
                    node_other_build(target));
    config->node.script_isolate = target_address(target, "_ZN2v87Isolate13TryGetCurrentEv");
    config->node.v8_external =
        target_address(target, "_ZN2v87Isolate37AdjustAmountOfExternalAllocatedMemoryEl");
    if (!config->node.script_isolate || !config->node.v8_external)
        target_miss(target, "the memory that Buffers hold outside of the heap",
                    "this Node has no symbol for it", node_other_build(target));
}

/* What Node leaves in a start-up snapshot must be plain JavaScript: it ends with an error when it meets a
 * script's memory and functions that a library brought in. An argument of the program's own that is called
 * like the option only costs precision. */
static bool builds_snapshot(const struct proc *proc)
{
    static const char *const OPTIONS[] = {"--build-snapshot", "--experimental-sea-config", "--build-sea"};
    _cleanup_(freep) char *line = NULL;
    size_t length = 0;
    (void)proc_read(proc, "cmdline", 1 << 20, &line, &length);
    for (size_t i = 0; i < length; i++)
        if (line[i] == '_')
            line[i] = '-'; /* Node takes both */
    for (const char *arg = proc_next_word(line, length, NULL); arg; arg = proc_next_word(line, length, arg)) {
        for (size_t i = 0; i < ARRAY_SIZE(OPTIONS); i++)
            if (strncmp(arg, OPTIONS[i], strlen(OPTIONS[i])) == 0)
                return true;
    }
    return false;
}

#define EXECUTION_ID "_ZN4node29AsyncHooksGetExecutionAsyncIdEPN2v87IsolateE"

/* Where an environment points at the id of what runs. The function finds the environment by way of V8, and
 * then loads: mov rA, [environment + offset]; movsd xmm0, [rA]. 0: this build's reads otherwise. */
static uint64_t find_execution_field(struct target *target)
{
    struct elf_symbol symbol;
    const struct target_module *module;
    size_t size = 0, at = 0;
    if (target_find(target, EXECUTION_ID, NULL, &symbol, &module) < 0)
        return 0;
    const uint8_t *code = elf_bytes(module->elf, symbol.value, 1, &size);
    ZydisDecoder decoder;
    ZydisDecodedInstruction in;
    ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    int64_t loaded[16] = {0}; /* by register: the offset that it was loaded from */
    size = code ? MIN(size, symbol.size) : 0;
    while (at < size && ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code + at, size - at, &in, op))) {
        at += in.length;
        unsigned to = (unsigned)(op[0].reg.value - ZYDIS_REGISTER_RAX);
        unsigned base = (unsigned)(op[1].mem.base - ZYDIS_REGISTER_RAX);
        if (in.mnemonic == ZYDIS_MNEMONIC_CALL)
            memset(loaded, 0, sizeof(loaded));
        if (in.operand_count_visible != 2 || op[0].type != ZYDIS_OPERAND_TYPE_REGISTER)
            continue;
        bool loads =
            op[1].type == ZYDIS_OPERAND_TYPE_MEMORY && op[1].mem.index == ZYDIS_REGISTER_NONE && base < 16;
        int64_t offset = loads ? op[1].mem.disp.value : 0;
        if (to < 16)
            loaded[to] = in.mnemonic == ZYDIS_MNEMONIC_MOV ? offset : 0;
        else if (loads && !offset && loaded[base] > 0 && loaded[base] < 1 << 16 && loaded[base] % 8 == 0 &&
                 (in.mnemonic == ZYDIS_MNEMONIC_MOVSD || in.mnemonic == ZYDIS_MNEMONIC_VMOVSD))
            return (uint64_t)loaded[base];
    }
    return 0;
}

/* V8's functions for the value that it carries over promises: from V8 13 on Node itself uses it. */
static void find_carried(struct target *target, struct sonde_config *config)
{
    static const struct {
        const char *get, *set;
    } FUNCTIONS[] = {{"_ZN2v87Isolate36GetContinuationPreservedEmbedderDataEv",
                      "_ZN2v87Isolate36SetContinuationPreservedEmbedderDataENS_5LocalINS_5ValueEEE"},
                     {"_ZNK2v87Context36GetContinuationPreservedEmbedderDataEv",
                      "_ZN2v87Context36SetContinuationPreservedEmbedderDataENS_5LocalINS_5ValueEEE"}};
    if (!config->node.execution_id || !target->versions[NODE_V8] || target->versions[NODE_V8] >= V8_13_0)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(FUNCTIONS) && !config->node.carried_set; i++) {
        uint64_t get = target_address(target, FUNCTIONS[i].get),
                 set = target_address(target, FUNCTIONS[i].set);
        if (get && set) {
            config->node.carried_get = get;
            config->node.carried_set = set;
            config->node.carried_of_context = i == 1;
            config->node.execution_field = find_execution_field(target);
        }
    }
}

/* Where V8 inlines the constructor of HandleScope (since 14), the probe does what that does. */
static bool find_handle_scopes(struct target *target, struct sonde_config *config)
{
#define HANDLES "_ZN2v88internal11HandleScope"
    config->node.handles_next = target_address(target, HANDLES "20current_next_addressEPNS0_7IsolateE");
    config->node.handles_limit = target_address(target, HANDLES "21current_limit_addressEPNS0_7IsolateE");
    config->node.handles_level = target_address(target, HANDLES "21current_level_addressEPNS0_7IsolateE");
    config->node.handles_delete = target_address(target, HANDLES "16DeleteExtensionsEPNS0_7IsolateE");
#undef HANDLES
    return config->node.handles_next && config->node.handles_limit && config->node.handles_level &&
           config->node.handles_delete;
}

/* The functions by which the probe runs its script; without one of them it runs none. */
static void find_script_functions(struct target *target, struct sonde_config *config)
{
    static const struct {
        const char *symbol;
        size_t at;
    } FUNCTIONS[] = {
#define A(target, name, symbol) {symbol, offsetof(struct sonde_config, target.name)},
        NODE_SCRIPT_FUNCTIONS(A)
#undef A
    };
    /* Since V8 14.6 */
    static const char FUNCTION_NEW[] = "_ZN2v88Function3NewENS_5LocalINS_7ContextEEEPFvRKNS_"
                                       "20FunctionCallbackInfoINS_5ValueEEEENS1_INS_4DataEEE"
                                       "iNS_19ConstructorBehaviorENS_14SideEffectTypeE";
    static const char *const GLOBALIZE[] = {
        "_ZN2v812api_internal18GlobalizeReferenceEPNS_8internal7IsolateEPm",
        "_ZN2v82V818GlobalizeReferenceEPNS_8internal7IsolateEPm", /* to Node 16 */
        "_ZN2v812api_internal18GlobalizeReferenceEPNS_8internal7IsolateEm",
    };
    const char *absent = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(FUNCTIONS); i++) {
        uint64_t address = target_address(target, FUNCTIONS[i].symbol);
        memcpy((char *)config + FUNCTIONS[i].at, &address, sizeof(address));
    }
    if (!config->node.script_function)
        config->node.script_function = target_address(target, FUNCTION_NEW);
    bool scopes = find_handle_scopes(target, config);
    for (size_t i = 0; i < ARRAY_SIZE(FUNCTIONS) && !absent; i++) {
        uint64_t address;
        memcpy(&address, (char *)config + FUNCTIONS[i].at, sizeof(address));
        size_t at = FUNCTIONS[i].at;
        bool of_scopes = at == offsetof(struct sonde_config, node.script_handle_scope) ||
                         at == offsetof(struct sonde_config, node.script_handle_scope_end);
        if (!address && !(of_scopes && scopes))
            absent = FUNCTIONS[i].symbol;
    }
    for (size_t i = 0; i < ARRAY_SIZE(GLOBALIZE) && !config->node.globalize; i++) {
        config->node.globalize = target_address(target, GLOBALIZE[i]);
        config->node.globalize_value = i == 2;
    }
    config->node.promise_has_handler = target_address(target, "_ZNK2v87Promise10HasHandlerEv");
    if (!config->node.promise_has_handler)
        config->node.promise_has_handler =
            target_address(target, "_ZN2v87Promise10HasHandlerEv"); /* Node 16 */
    if (!config->node.globalize && !absent)
        absent = GLOBALIZE[0];
    if (absent) {
        char why[300];
        snprintf(why, sizeof(why),
                 "this Node does not export %s: requests are distinguished by asynchronous ids alone",
                 absent);
        target_miss(target, "request contexts", why, node_other_build(target));
        config->context = SONDE_CONTEXT_BOUNDED;
    }
}

void node_layout(struct target *target, enum sonde_context context, struct sonde_config *config)
{
    find_fields(target, config);
    if (context < SONDE_CONTEXT_BOUNDED)
        return;
    config->node.execution_id = target_address(target, EXECUTION_ID);
    if (context < SONDE_CONTEXT_NATIVE)
        return;
    if (builds_snapshot(target->proc)) {
        target_miss(target, "request contexts",
                    "it builds a start-up snapshot, which Node refuses to write with a script of sonde's in "
                    "it: requests are distinguished by asynchronous ids alone",
                    "None is needed: what starts from the snapshot is not concerned.");
        config->context = SONDE_CONTEXT_BOUNDED;
        return;
    }
    if (!node_tells_scopes(target)) {
        target_miss(target, "request contexts",
                    "this Node's callback scopes have a form that sonde does not know: requests are "
                    "distinguished by asynchronous ids alone",
                    node_other_build(target));
        config->context = SONDE_CONTEXT_BOUNDED;
        return;
    }
    find_script_functions(target, config);
    find_carried(target, config);
}
