/* Where the fields of Redis' structures are that the probe reads: learnt from the machine code of small
 * exported functions (attach/walk.h). The probe checks each offset again on live objects before it trusts it
 * (probe_check.c). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/walk.h"
#include "targets/redis/attach.h"

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
        offset = walk_access(&walk, ACCESS_LOAD, 4, 1, NULL, 0);
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
    struct walk walk = walk_begin();
    int32_t compared = SONDE_NO_OFFSET, offset = SONDE_NO_OFFSET;
    for (size_t at = 0, n = 0; n < INSTRUCTIONS_MAX && at < size; n++) {
        ZydisDecodedInstruction in;
        ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code + at, size - at, &in, op)))
            break;
        at += in.length;
        if (in.mnemonic == ZYDIS_MNEMONIC_CMP && op[0].type == ZYDIS_OPERAND_TYPE_REGISTER) {
            int index = walk_register(op[0].reg.value);
            if (index >= 0 && walk.registers[index].count == 2)
                compared = walk.registers[index].offsets[1];
        }
        if (in.meta.category == ZYDIS_CATEGORY_COND_BR || in.mnemonic == ZYDIS_MNEMONIC_RET)
            break;
        if (walk_step(&walk, &in, op) < 0)
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
    config->redis.client_argc = walk_access(&walk, ACCESS_LOAD, 4, 1, NULL, 0);
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

/* getClientMemoryUsage(c, ...): c->querybuf is the string whose allocation is measured, by the byte before it
 * where that is compiled into it; else the first 8-byte load from c. */
static int32_t find_query_buffer(struct target *target)
{
    struct walk walk;
    if (walk_function(target, "getClientMemoryUsage", true, &walk) < 0)
        return SONDE_NO_OFFSET;
    int32_t offset = walk_access(&walk, ACCESS_LOAD, 8, 1, NULL, 0);
    array_foreach (&walk.accesses, a)
        if (a->kind == ACCESS_LOAD && a->bytes == 1 && a->chain.count == 2 && a->chain.offsets[1] == -1) {
            offset = a->chain.offsets[0];
            break;
        }
    array_done(&walk.accesses);
    return offset;
}

/* client.conn, clusterLink.rcvbuf, aeEventLoop.fired and, where no function tells it, connection.private_data
 * are found by the probe, on live objects. */
static void miss_offsets(struct target *target, const struct sonde_config *config)
{
#define O(owner, name, text)                                                                     \
    if (config->redis.name < 0 && SONDE_OFFSET_redis_##name != SONDE_OFFSET_redis_client_conn && \
        SONDE_OFFSET_redis_##name != SONDE_OFFSET_redis_conn_private &&                          \
        SONDE_OFFSET_redis_##name != SONDE_OFFSET_redis_link_rcvbuf &&                           \
        SONDE_OFFSET_redis_##name != SONDE_OFFSET_redis_loop_fired)                              \
        target_miss(target, text, "this build's code does not show where the field is", NULL);
    SONDE_OFFSETS_redis(O)
#undef O
}

/* Valkey before 9 gives clients back in the middle of a function: how long its threads read and write is not
 * seen. How many threads there are is not known yet. */
static void miss_io_threads(struct target *target)
{
    static const char REMEDY[] = "With `io-threads 1`, the default, nothing is missed.";
    if (target_find(target, "ioThreadReadQueryFromClient", NULL, NULL, NULL) == 0 &&
        target_find(target, "sendToMainThread", NULL, NULL, NULL) < 0)
        target_miss(
            target, "how long I/O threads read and write",
            "this version gives a client back to the main thread within a function; when they begin, and "
            "commands and their times, are seen",
            REMEDY);
}

/* A function of the modules' interface: RM_NAME of Redis, VM_NAME of Valkey. name begins with "RM_". */
static void module_function(const struct target *target, char name[static 1])
{
    name[0] = target->versions[REDIS_IS_VALKEY] ? 'V' : 'R';
}

void redis_layout(struct target *target, enum sonde_context context, struct sonde_config *config)
{
    char client_id[] = "RM_GetClientId", selected[] = "RM_GetSelectedDb",
         command[] = "RM_GetCurrentCommandName";
    module_function(target, client_id);
    module_function(target, selected);
    module_function(target, command);
    config->redis.conn_fd = find_conn_fd(target);
    config->redis.conn_private = walk_returned(target, "connGetPrivateData", 1);
    config->redis.client_id = walk_returned(target, client_id, 2);
    config->redis.db_id = walk_returned(target, selected, 3);
    config->redis.command_name = walk_returned(target, command, 3);
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
    config->redis.used_memory = target_address(target, "zmalloc_used_memory");
    config->redis.ssl_pending = target_address(target, "SSL_pending");
    config->redis.ssl_get_rfd = target_address(target, "SSL_get_rfd");
    /* Returns server.master_repl_offset and does nothing else, whatever its name says. */
    config->redis.replication_offset = target_address(target, "getPsyncInitialOffset");
    miss_offsets(target, config);
    miss_io_threads(target);
}
