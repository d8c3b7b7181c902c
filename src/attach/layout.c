/* Where the fields are that the probe reads. Redis: learnt from the machine code of small exported functions
 * of this very build, whose source says which field they touch; so a build with other options, or with fields
 * added, tells its own offsets. V8: from the post-mortem metadata (v8dbg_*) that Node carries.
 *
 * Nothing is assumed: what does not match its pattern exactly stays SONDE_NO_OFFSET, and the probe checks
 * each offset again on live objects before it trusts it (src/probe/redis.c). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/target.h"

#include <Zydis/Zydis.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_CALLED                                                                         \
    "_ZZN4node6worker11MessagePortC4EPNS_11EnvironmentEN2v85LocalINS4_7ContextEEENS5_INS4_" \
    "6ObjectEEEENUlP10uv_"                                                                  \
    "async_sE_4_FUNESB_"

enum { INSTRUCTIONS_MAX = 48, DEREFS_MAX = 4, REGISTERS = 16, SLOTS = 8 };

/* What a register holds: rdi of the function's entry, followed through loads. count < 0: unknown. */
struct chain {
    int count;
    int32_t offsets[DEREFS_MAX];
};

/* One thing that the function does to memory reached from its first argument. */
struct access {
    struct chain chain; /* the last offset is the accessed one */
    uint8_t bytes;
    enum { ACCESS_LOAD, ACCESS_STORE_ZERO } kind;
};

/* What lies in the frame at rbp + displacement, where code without optimisation keeps everything. */
struct slot {
    int64_t displacement;
    struct chain chain;
};

struct walk {
    ARRAY(struct access) accesses;
    struct slot slots[SLOTS];
    int slot_count;
    bool framed;                       /* rbp holds the frame's address */
    struct chain registers[REGISTERS]; /* at its end */
    bool returned;                     /* ended with ret, not with a call or jump */
};

static int register_index(ZydisRegister r)
{
    int index = (int)ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r) - ZYDIS_REGISTER_RAX;
    return index >= 0 && index < REGISTERS ? index : -1;
}

/* The chain of a memory operand without index and segment, or count -1. */
static struct chain operand_chain(const struct walk *walk, const ZydisDecodedOperand *operand)
{
    struct chain chain = {.count = -1};
    int base = register_index(operand->mem.base);
    if (operand->mem.index != ZYDIS_REGISTER_NONE || operand->mem.segment == ZYDIS_REGISTER_FS || base < 0)
        return chain;
    const struct chain *from = &walk->registers[base];
    if (from->count < 0 || from->count >= DEREFS_MAX)
        return chain;
    chain = *from;
    chain.offsets[chain.count++] = (int32_t)operand->mem.disp.value;
    return chain;
}

static bool in_frame(const struct walk *walk, const ZydisDecodedOperand *operand)
{
    return walk->framed && operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
           operand->mem.base == ZYDIS_REGISTER_RBP && operand->mem.index == ZYDIS_REGISTER_NONE;
}

static void put_slot(struct walk *walk, const ZydisDecodedOperand *operand, const struct chain *chain)
{
    int i = 0;
    while (i < walk->slot_count && walk->slots[i].displacement != operand->mem.disp.value)
        i++;
    if (i == SLOTS) { /* too many to follow */
        walk->slot_count = 0;
        i = 0;
    }
    walk->slots[i] = (struct slot){operand->mem.disp.value, *chain};
    walk->slot_count = MAX(walk->slot_count, i + 1);
}

static struct chain slot_chain(const struct walk *walk, const ZydisDecodedOperand *operand)
{
    for (int i = 0; i < walk->slot_count; i++)
        if (walk->slots[i].displacement == operand->mem.disp.value)
            return walk->slots[i].chain;
    return (struct chain){.count = -1};
}

static int note(struct walk *walk, struct chain chain, const ZydisDecodedOperand *operand, int kind)
{
    if (chain.count <= 0)
        return 0;
    struct access access = {.chain = chain, .bytes = (uint8_t)(operand->size / 8), .kind = kind};
    return array_add(&walk->accesses, access);
}

static void forget(struct walk *walk, const ZydisDecodedOperand *operand)
{
    int index = operand->type == ZYDIS_OPERAND_TYPE_REGISTER ? register_index(operand->reg.value) : -1;
    if (index >= 0)
        walk->registers[index].count = -1;
}

static void forget_after_call(struct walk *walk)
{
    static const ZydisRegister SCRATCH[] = {ZYDIS_REGISTER_RAX, ZYDIS_REGISTER_RCX, ZYDIS_REGISTER_RDX,
                                            ZYDIS_REGISTER_RSI, ZYDIS_REGISTER_RDI, ZYDIS_REGISTER_R8,
                                            ZYDIS_REGISTER_R9,  ZYDIS_REGISTER_R10, ZYDIS_REGISTER_R11};
    for (size_t i = 0; i < ARRAY_SIZE(SCRATCH); i++)
        walk->registers[register_index(SCRATCH[i])].count = -1;
}

static int step(struct walk *walk, const ZydisDecodedInstruction *in, const ZydisDecodedOperand *op)
{
    bool reads = in->operand_count_visible > 1 && op[1].type == ZYDIS_OPERAND_TYPE_MEMORY;
    int r = 0;
    if (reads && in->mnemonic != ZYDIS_MNEMONIC_LEA)
        r = note(walk, operand_chain(walk, &op[1]), &op[1], ACCESS_LOAD);
    if (in->mnemonic == ZYDIS_MNEMONIC_MOV && op[0].type == ZYDIS_OPERAND_TYPE_REGISTER) {
        int to = register_index(op[0].reg.value);
        struct chain chain = {.count = -1};
        if (reads && in_frame(walk, &op[1]))
            chain = slot_chain(walk, &op[1]);
        else if (reads)
            chain = operand_chain(walk, &op[1]);
        else if (op[1].type == ZYDIS_OPERAND_TYPE_REGISTER && register_index(op[1].reg.value) >= 0)
            chain = walk->registers[register_index(op[1].reg.value)];
        if (to >= 0)
            walk->registers[to] = chain;
        if (op[0].reg.value == ZYDIS_REGISTER_RBP)
            walk->framed = op[1].type == ZYDIS_OPERAND_TYPE_REGISTER && op[1].reg.value == ZYDIS_REGISTER_RSP;
    } else if (in->mnemonic == ZYDIS_MNEMONIC_MOV && in_frame(walk, &op[0])) {
        bool whole = op[1].type == ZYDIS_OPERAND_TYPE_REGISTER && op[0].size == 64;
        int from = whole ? register_index(op[1].reg.value) : -1;
        struct chain unknown = {.count = -1};
        put_slot(walk, &op[0], from >= 0 ? &walk->registers[from] : &unknown);
    } else if (in->mnemonic == ZYDIS_MNEMONIC_MOV && op[0].type == ZYDIS_OPERAND_TYPE_MEMORY &&
               op[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && op[1].imm.value.u == 0) {
        r = note(walk, operand_chain(walk, &op[0]), &op[0], ACCESS_STORE_ZERO);
    } else if (in->mnemonic == ZYDIS_MNEMONIC_CMP && op[0].type == ZYDIS_OPERAND_TYPE_MEMORY) {
        r = note(walk, operand_chain(walk, &op[0]), &op[0], ACCESS_LOAD);
    } else if (in->mnemonic != ZYDIS_MNEMONIC_CMP && in->mnemonic != ZYDIS_MNEMONIC_TEST &&
               in->mnemonic != ZYDIS_MNEMONIC_PUSH && in->operand_count_visible > 0) {
        forget(walk, &op[0]);
    }
    return r;
}

/* Whether a conditional branch is taken: only the one behind a test of flags in memory, when it leads to
 * where none of them is set. */
static bool takes_branch(const ZydisDecodedInstruction *before, const ZydisDecodedOperand *operand,
                         const ZydisDecodedInstruction *in)
{
    return in->mnemonic == ZYDIS_MNEMONIC_JZ && before->mnemonic == ZYDIS_MNEMONIC_TEST &&
           operand[0].type == ZYDIS_OPERAND_TYPE_MEMORY && operand[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
}

/* Follows a function in a straight line (conditional branches are not taken, but where flags are tested:
 * there as if none were set) to its ret or jump, through calls when through_calls. Caller:
 * array_done(&ret->accesses). */
static int walk_function(struct target *target, const char *function, bool through_calls, struct walk *ret)
{
    struct elf_symbol symbol;
    const struct target_module *module;
    int r = target_find(target, function, NULL, &symbol, &module);
    if (r < 0)
        return r;
    size_t size;
    const uint8_t *code = elf_bytes(module->elf, symbol.value, 1, &size);
    if (!code)
        return -EFAULT;
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    struct walk walk = {0};
    for (int i = 0; i < REGISTERS; i++)
        walk.registers[i].count = -1;
    walk.registers[ZYDIS_REGISTER_RDI - ZYDIS_REGISTER_RAX].count = 0;
    ZydisDecodedInstruction in = {0}, before;
    ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT], tested[2] = {0};
    for (size_t at = 0, n = 0; n < INSTRUCTIONS_MAX && at < size && r >= 0; n++) {
        before = in;
        if (n)
            memcpy(tested, op, sizeof(tested));
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code + at, size - at, &in, op)))
            break;
        at += in.length;
        if (takes_branch(&before, tested, &in)) {
            int64_t to = (int64_t)at + op[0].imm.value.s;
            if (to < (int64_t)at || to >= (int64_t)size)
                break;
            at = (size_t)to;
            continue;
        }
        walk.returned = in.mnemonic == ZYDIS_MNEMONIC_RET;
        if (walk.returned || in.mnemonic == ZYDIS_MNEMONIC_JMP)
            break;
        if (in.mnemonic == ZYDIS_MNEMONIC_CALL) {
            if (!through_calls)
                break;
            forget_after_call(&walk);
            continue;
        }
        r = step(&walk, &in, op);
    }
    if (r < 0)
        array_done(&walk.accesses);
    else
        *ret = walk;
    return r;
}

/* The offset at place `last` of the only chain of `count` derefs that ends in rax at ret. */
static int32_t returned_offset(struct target *target, const char *function, int count)
{
    struct walk walk;
    if (walk_function(target, function, false, &walk) < 0)
        return SONDE_NO_OFFSET;
    const struct chain *rax = &walk.registers[0];
    int32_t offset = walk.returned && rax->count == count ? rax->offsets[count - 1] : SONDE_NO_OFFSET;
    array_done(&walk.accesses);
    return offset;
}

/* The offset of the n-th (from 0) access of that kind, size and number of derefs; prefix (may be NULL) holds
 * the offsets that the derefs before the last must have. */
static int32_t access_offset(const struct walk *walk, int kind, int bytes, int count, const int32_t *prefix,
                             int n)
{
    array_foreach (&walk->accesses, a) {
        bool fits = (int)a->kind == kind && a->bytes == bytes && a->chain.count == count;
        for (int i = 0; fits && prefix && i < count - 1; i++)
            fits = a->chain.offsets[i] == prefix[i];
        if (fits && n-- == 0)
            return a->chain.offsets[count - 1];
    }
    return SONDE_NO_OFFSET;
}

/* connEnableTcpNoDelay(conn), or connBlock(conn) where that is not exported: the first 4-byte load is
 * conn->fd.
 */
static int32_t find_conn_fd(struct target *target)
{
    static const char *const FUNCTIONS[] = {"connEnableTcpNoDelay", "connBlock"};
    int32_t offset = SONDE_NO_OFFSET;
    for (size_t i = 0; i < ARRAY_SIZE(FUNCTIONS) && offset < 0; i++) {
        struct walk walk;
        if (walk_function(target, FUNCTIONS[i], false, &walk) < 0)
            continue;
        offset = access_offset(&walk, ACCESS_LOAD, 4, 1, NULL, 0);
        array_done(&walk.accesses);
    }
    return offset;
}

/* getCommandFlags(c) compares c->cmd->proc and returns c->cmd->flags: of the two loads behind cmd, the one
 * whose register is not compared. The order of the compiler's choosing does not matter: proc is the one that
 * RM_... never returns; flags is what rax or another register still holds when the others were compared. */
static int32_t find_command_flags(struct target *target, int32_t client_cmd)
{
    struct elf_symbol symbol;
    const struct target_module *module;
    size_t size;
    if (client_cmd < 0 || target_find(target, "getCommandFlags", NULL, &symbol, &module) < 0)
        return SONDE_NO_OFFSET;
    const uint8_t *code = elf_bytes(module->elf, symbol.value, 1, &size);
    if (!code)
        return SONDE_NO_OFFSET;
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    struct walk walk = {0};
    for (int i = 0; i < REGISTERS; i++)
        walk.registers[i].count = -1;
    walk.registers[ZYDIS_REGISTER_RDI - ZYDIS_REGISTER_RAX].count = 0;
    int32_t compared = SONDE_NO_OFFSET, offset = SONDE_NO_OFFSET;
    for (size_t at = 0, n = 0; n < INSTRUCTIONS_MAX && at < size; n++) {
        ZydisDecodedInstruction in;
        ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code + at, size - at, &in, op)))
            break;
        at += in.length;
        if (in.mnemonic == ZYDIS_MNEMONIC_CMP && op[0].type == ZYDIS_OPERAND_TYPE_REGISTER) {
            int index = register_index(op[0].reg.value);
            if (index >= 0 && walk.registers[index].count == 2)
                compared = walk.registers[index].offsets[1];
        }
        if (in.meta.category == ZYDIS_CATEGORY_COND_BR || in.mnemonic == ZYDIS_MNEMONIC_RET)
            break;
        if (step(&walk, &in, op) < 0)
            break;
    }
    int candidates = 0;
    array_foreach (&walk.accesses, a)
        if (a->kind == ACCESS_LOAD && a->bytes == 8 && a->chain.count == 2 &&
            a->chain.offsets[0] == client_cmd && a->chain.offsets[1] != compared) {
            candidates += offset != a->chain.offsets[1];
            offset = a->chain.offsets[1];
        }
    array_done(&walk.accesses);
    return candidates == 1 && compared >= 0 ? offset : SONDE_NO_OFFSET;
}

/* freeClientArgv(c): argc is the first 4-byte load; of the 8-byte fields set to zero, one is cmd, one is argv
 * (which was loaded), and the one that remains is argv_len_sum. */
static void find_arguments(struct target *target, int32_t client_cmd, struct sonde_config *config)
{
    struct walk walk;
    if (walk_function(target, "freeClientArgv", true, &walk) < 0)
        return;
    config->redis.client_argc = access_offset(&walk, ACCESS_LOAD, 4, 1, NULL, 0);
    int32_t sum = SONDE_NO_OFFSET;
    int candidates = 0;
    array_foreach (&walk.accesses, a) {
        if (a->kind != ACCESS_STORE_ZERO || a->bytes != 8 || a->chain.count != 1 ||
            a->chain.offsets[0] == client_cmd)
            continue;
        bool loaded = false;
        array_foreach (&walk.accesses, b)
            loaded |= b->kind == ACCESS_LOAD && b->bytes == 8 && b->chain.count == 1 &&
                      b->chain.offsets[0] == a->chain.offsets[0];
        if (!loaded) {
            candidates++;
            sum = a->chain.offsets[0];
        }
    }
    if (candidates == 1 && client_cmd >= 0)
        config->redis.client_argv_bytes = sum;
    array_done(&walk.accesses);
}

/* getClientMemoryUsage(c, ...): the first 8-byte load from c is c->querybuf, whose allocation is measured. */
static int32_t find_query_buffer(struct target *target)
{
    struct walk walk;
    if (walk_function(target, "getClientMemoryUsage", true, &walk) < 0)
        return SONDE_NO_OFFSET;
    int32_t offset = access_offset(&walk, ACCESS_LOAD, 8, 1, NULL, 0);
    array_done(&walk.accesses);
    return offset;
}

static uint64_t address_of(struct target *target, const char *function)
{
    uint64_t address;
    return target_find(target, function, &address, NULL, NULL) == 0 ? address : 0;
}

/* client.conn, clusterLink.rcvbuf and, where no function tells it, connection.private_data are found by the
 * probe, on live objects. */
static void miss_offsets(struct target *target, const struct sonde_config *config)
{
#define O(name, text)                                                                          \
    if (config->redis.name < 0 && SONDE_REDIS_FIELD_##name != SONDE_REDIS_FIELD_client_conn && \
        SONDE_REDIS_FIELD_##name != SONDE_REDIS_FIELD_conn_private &&                          \
        SONDE_REDIS_FIELD_##name != SONDE_REDIS_FIELD_link_rcvbuf)                             \
        target_miss(target, text, "this build's code does not show where the field is", NULL);
    SONDE_REDIS_OFFSETS(O)
#undef O
}

/* A function of the modules' interface: RM_NAME of Redis, VM_NAME of Valkey. name begins with "RM_". */
static void module_function(const struct target *target, char name[static 1])
{
    name[0] = target->valkey ? 'V' : 'R';
}

static void redis_layout(struct target *target, struct sonde_config *config)
{
    char client_id[] = "RM_GetClientId", selected[] = "RM_GetSelectedDb",
         command[] = "RM_GetCurrentCommandName";
    module_function(target, client_id);
    module_function(target, selected);
    module_function(target, command);
    config->redis.conn_fd = find_conn_fd(target);
    config->redis.conn_private = returned_offset(target, "connGetPrivateData", 1);
    config->redis.client_id = returned_offset(target, client_id, 2);
    config->redis.db_id = returned_offset(target, selected, 3);
    config->redis.command_name = returned_offset(target, command, 3);
    struct walk walk;
    if (walk_function(target, selected, false, &walk) == 0) {
        if (walk.registers[0].count == 3)
            config->redis.client_db = walk.registers[0].offsets[1];
        array_done(&walk.accesses);
    }
    if (walk_function(target, command, false, &walk) == 0) {
        if (walk.registers[0].count == 3)
            config->redis.client_cmd = walk.registers[0].offsets[1];
        array_done(&walk.accesses);
    }
    config->redis.command_flags = find_command_flags(target, config->redis.client_cmd);
    config->redis.client_querybuf = find_query_buffer(target);
    find_arguments(target, config->redis.client_cmd, config);
    config->zmalloc_used_memory = address_of(target, "zmalloc_used_memory");
    config->ssl_pending = address_of(target, "SSL_pending");
    config->ssl_get_rfd = address_of(target, "SSL_get_rfd");
    miss_offsets(target, config);
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
    config->llhttp_get_method = address_of(target, "llhttp_get_method");
    if (!config->llhttp_get_method)
        config->llhttp_get_method = address_of(target, "llhttp__internal__c_load_method");
    config->llhttp_get_type = address_of(target, "llhttp_get_type");
    if (!config->llhttp_get_type)
        config->llhttp_get_type = address_of(target, "llhttp__internal__c_load_type");
    config->llhttp_get_status = address_of(target, "llhttp_get_status_code");
    config->h2_rcbuf = address_of(target, "nghttp2_rcbuf_get_buf");
    struct walk walk;
    if (!config->llhttp_get_status &&
        walk_function(target, "llhttp__internal__c_mul_add_status_code", false, &walk) == 0) {
        config->llhttp_status = access_offset(&walk, ACCESS_LOAD, 2, 1, NULL, 0);
        array_done(&walk.accesses);
    }
    if (!config->llhttp_get_type)
        target_miss(target, "HTTP requests and responses", "this build has no symbol llhttp_get_type",
                    "Use an official build of Node.");
}

/* What a port's handle calls goes from the handle to the port first: sub rdi, offset; add rdi, -offset, which
 * is shorter for 128. */
static int32_t find_port_handle(struct target *target)
{
    struct elf_symbol symbol;
    const struct target_module *module;
    size_t size;
    if (target_find(target, PORT_CALLED, NULL, &symbol, &module) < 0)
        return SONDE_NO_OFFSET; /* its hook is missing then, and is told */
    const uint8_t *code = elf_bytes(module->elf, symbol.value, 1, &size);
    ZydisDecoder decoder;
    ZydisDecodedInstruction in;
    ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    if (code && ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, size, &in, op)) &&
        (in.mnemonic == ZYDIS_MNEMONIC_SUB || in.mnemonic == ZYDIS_MNEMONIC_ADD) &&
        op[0].reg.value == ZYDIS_REGISTER_RDI && op[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
        int64_t back = in.mnemonic == ZYDIS_MNEMONIC_SUB ? op[1].imm.value.s : -op[1].imm.value.s;
        if (back > 0 && back < 4096)
            return (int32_t)back;
    }
    target_miss(target, "messages between worker threads",
                "this build's code does not show where the handle is", "Use an official build of Node.");
    return SONDE_NO_OFFSET;
}

static void node_layout(struct target *target, struct sonde_config *config)
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
        config->v8.map_instance_type = value[0] - 1; /* heap pointers are tagged with 1 */
        config->v8.string_length = value[1] - 1;
        config->v8.string_chars = value[2] - 1;
        config->not_string_mask = (uint32_t)value[3];
        config->string_type_mask = (uint32_t)(value[3] | value[4] | value[5]);
        config->string_type_value = (uint32_t)(value[6] | value[7]);
    } else {
        target_miss(target, "types of asynchronous resources", "this Node has no v8dbg_ metadata for strings",
                    "Use an official build of Node.");
    }
    http_layout(target, config);
    config->port_handle = find_port_handle(target);
    config->uv_fs_work = address_of(target, "uv__fs_work");
    config->uv_queue_work = address_of(target, "uv__queue_work");
    config->uv_getaddrinfo_work = address_of(target, "uv__getaddrinfo_work");
    config->uv_getnameinfo_work = address_of(target, "uv__getnameinfo_work");
    config->v8_heap_size = address_of(target, "_ZN2v88internal4Heap13SizeOfObjectsEv");
    if (!config->v8_heap_size)
        target_miss(target, "the size of the heap after a collection", "this Node has no symbol for it",
                    "Use an official build of Node.");
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

/* V8's functions for the value that it carries over promises: from V8 13 on Node itself uses it. */
static void find_carried(struct target *target, struct sonde_config *config)
{
    enum { V8_13_0 = 0xd0000 };
    static const struct {
        const char *get, *set;
    } FUNCTIONS[] = {{"_ZN2v87Isolate36GetContinuationPreservedEmbedderDataEv",
                      "_ZN2v87Isolate36SetContinuationPreservedEmbedderDataENS_5LocalINS_5ValueEEE"},
                     {"_ZNK2v87Context36GetContinuationPreservedEmbedderDataEv",
                      "_ZN2v87Context36SetContinuationPreservedEmbedderDataENS_5LocalINS_5ValueEEE"}};
    uint64_t execution_id = address_of(target, "_ZN4node29AsyncHooksGetExecutionAsyncIdEPN2v87IsolateE");
    if (!execution_id || !target->v8_version || target->v8_version >= V8_13_0)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(FUNCTIONS) && !config->carried.set; i++) {
        uint64_t get = address_of(target, FUNCTIONS[i].get), set = address_of(target, FUNCTIONS[i].set);
        if (get && set) {
            config->carried.get = get;
            config->carried.set = set;
            config->carried.of_context = i == 1;
            config->carried.execution_id = execution_id;
        }
    }
}

/* The functions by which the probe runs its script; without one of them it runs none. */
static void find_script_functions(struct target *target, struct sonde_config *config)
{
    static const struct {
        const char *symbol;
        size_t at;
    } FUNCTIONS[] = {
#define F(field, symbol) {symbol, offsetof(struct sonde_config, script.field)},
        SONDE_SCRIPT_FUNCTIONS(F)
#undef F
    };
    static const char *const GLOBALIZE[] = {
        "_ZN2v812api_internal18GlobalizeReferenceEPNS_8internal7IsolateEPm",
        "_ZN2v82V818GlobalizeReferenceEPNS_8internal7IsolateEPm", /* to Node 16 */
        "_ZN2v812api_internal18GlobalizeReferenceEPNS_8internal7IsolateEm",
    };
    const char *absent = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(FUNCTIONS); i++) {
        uint64_t address = address_of(target, FUNCTIONS[i].symbol);
        memcpy((char *)config + FUNCTIONS[i].at, &address, sizeof(address));
        if (!address && !absent)
            absent = FUNCTIONS[i].symbol;
    }
    for (size_t i = 0; i < ARRAY_SIZE(GLOBALIZE) && !config->globalize; i++) {
        config->globalize = address_of(target, GLOBALIZE[i]);
        config->globalize_value = i == 2;
    }
    config->promise_has_handler = address_of(target, "_ZNK2v87Promise10HasHandlerEv");
    if (!config->promise_has_handler)
        config->promise_has_handler = address_of(target, "_ZN2v87Promise10HasHandlerEv"); /* Node 16 */
    if (!config->globalize && !absent)
        absent = GLOBALIZE[0];
    if (absent) {
        char why[300];
        snprintf(why, sizeof(why),
                 "this Node does not export %s: requests are told apart by asynchronous ids alone", absent);
        target_miss(target, "request contexts", why, "Use an official build of Node.");
        config->context = SONDE_CONTEXT_BOUNDED;
    }
}

void target_layout(struct target *target, enum sonde_context context, struct sonde_config *ret_config)
{
    struct sonde_config config = {.version = SONDE_SHARED_VERSION, .size = sizeof(config)};
#define O(name, text) config.redis.name = SONDE_NO_OFFSET;
    SONDE_REDIS_OFFSETS(O)
#undef O
#define O(name, text) config.v8.name = SONDE_NO_OFFSET;
    SONDE_V8_OFFSETS(O)
#undef O
    config.callback_scope_context = config.llhttp_status = config.port_handle = SONDE_NO_OFFSET;
    config.context = context;
    if (target->runtime == RUNTIME_REDIS)
        redis_layout(target, &config);
    else if (target->runtime == RUNTIME_NODE)
        node_layout(target, &config);
    if (target->runtime == RUNTIME_NODE && context >= SONDE_CONTEXT_NATIVE) {
        if (builds_snapshot(target->proc)) {
            target_miss(
                target, "request contexts",
                "it builds a start-up snapshot, which Node refuses to write with a script of sonde's in "
                "it: requests are told apart by asynchronous ids alone",
                "None is needed: what starts from the snapshot is not concerned.");
            config.context = SONDE_CONTEXT_BOUNDED;
        } else {
            find_script_functions(target, &config);
            find_carried(target, &config);
        }
    }
    *ret_config = config;
}
