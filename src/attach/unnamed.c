/* See unnamed.h. libuv's source says who calls what with which arguments; the code of this very build says
 * where that is. Three kinds of evidence, each of which has to agree wherever it is found:
 *
 * 1. An exported function hands a pair { work, done } to uv__work_submit(), or stores it into its request
 * where that was inlined. Whom they are handed to is uv__work_submit().
 *
 * 2. The initialisation of a stream hands uv__stream_io() to uv__io_init().
 *
 * 3. Of the functions that uv_run() calls, one calls epoll_pwait(): the poll phase. The other phases read a
 * list of the loop, whose place is part of libuv's 1.x ABI, and call what they find there.
 *
 * An address counts only if a function begins there by the file's unwind table. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/unnamed.h"

#include <Zydis/Zydis.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "symbol/stripped.h"

enum {
    REGISTERS = 16,
    FUNCTION_MAX = 1 << 16,
    CODE_STORES_MAX = 32,
};

/* What a phase of the loop walks: uv_loop_t's prepare_handles, check_handles, idle_handles, timer_heap. */
enum { PHASE_PREPARE, PHASE_CHECK, PHASE_IDLE, PHASE_TIMERS, PHASES };
static const int64_t LOOP_LIST[PHASES] = {0x180, 0x190, 0x1a0, 0x208};

struct code {
    uint64_t start;
    const uint8_t *bytes;
    size_t size;
};

/* A call, or a jump to another function, with the constants that its argument registers hold (0: unknown). */
struct call {
    uint64_t to;
    uint64_t rsi, rcx, r8;
};

/* A function's address that is stored at base + displacement. */
struct code_store {
    int64_t displacement;
    uint64_t value;
};

/* What one function does, read from its first instruction to its last. */
struct reading {
    ARRAY(struct call) calls;
    struct code_store stores[CODE_STORES_MAX];
    size_t store_count;
    unsigned lists;     /* of LOOP_LIST, those read through the first argument, a bit each */
    bool calls_pointer; /* a function whose address it found in memory */
};

struct registers {
    uint64_t general[REGISTERS];
    uint64_t vector[REGISTERS][2]; /* low and high half of xmm */
};

static bool is_function(struct elf *elf, uint64_t address)
{
    uint64_t size;
    return address && stripped_function(elf, address, &size) == 0;
}

static int code_at(struct elf *elf, uint64_t address, struct code *ret)
{
    uint64_t size;
    int r = stripped_function(elf, address, &size);
    if (r < 0 || size > FUNCTION_MAX)
        return -ENOENT;
    const uint8_t *bytes = elf_bytes(elf, address, size, NULL);
    if (!bytes)
        return -ENOENT;
    *ret = (struct code){address, bytes, size};
    return 0;
}

static int general_index(const ZydisDecodedOperand *operand)
{
    if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER)
        return -1;
    int index = (int)ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operand->reg.value) -
                ZYDIS_REGISTER_RAX;
    return index >= 0 && index < REGISTERS ? index : -1;
}

static int vector_index(const ZydisDecodedOperand *operand)
{
    if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER)
        return -1;
    int index = (int)operand->reg.value - ZYDIS_REGISTER_XMM0;
    return index >= 0 && index < REGISTERS ? index : -1;
}

static void stored(struct elf *elf, struct reading *reading, const ZydisDecodedOperand *to, int64_t beyond,
                   uint64_t value)
{
    if (to->mem.base == ZYDIS_REGISTER_RIP || !is_function(elf, value) ||
        reading->store_count >= CODE_STORES_MAX)
        return;
    reading->stores[reading->store_count++] = (struct code_store){to->mem.disp.value + beyond, value};
}

/* Constants through the few instructions by which compilers load and pair them; any other write makes
 * unknown. */
static void follow(struct elf *elf, struct reading *reading, struct registers *now,
                   const ZydisDecodedInstruction *in, const ZydisDecodedOperand *op, uint64_t next)
{
    int to = general_index(&op[0]), vector = vector_index(&op[0]);
    bool stores = op[0].type == ZYDIS_OPERAND_TYPE_MEMORY;
    switch (in->mnemonic) {
    case ZYDIS_MNEMONIC_LEA:
        if (to >= 0)
            now->general[to] =
                op[1].mem.base == ZYDIS_REGISTER_RIP ? next + (uint64_t)op[1].mem.disp.value : 0;
        return;
    case ZYDIS_MNEMONIC_MOV: {
        int from = general_index(&op[1]);
        uint64_t value = from >= 0 ? now->general[from] : 0;
        if (op[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
            value = op[1].imm.value.u; /* a program at a fixed address */
        if (to >= 0)
            now->general[to] = value;
        else if (stores)
            stored(elf, reading, &op[0], 0, value);
        return;
    }
    case ZYDIS_MNEMONIC_MOVQ: {
        int from = general_index(&op[1]);
        if (vector >= 0) {
            now->vector[vector][0] = from >= 0 ? now->general[from] : 0;
            now->vector[vector][1] = 0;
        }
        return;
    }
    case ZYDIS_MNEMONIC_PUNPCKLQDQ:
    case ZYDIS_MNEMONIC_PINSRQ:
        if (vector >= 0) {
            int from = in->mnemonic == ZYDIS_MNEMONIC_PINSRQ ? general_index(&op[1]) : vector_index(&op[1]);
            now->vector[vector][1] = from < 0                                    ? 0
                                     : in->mnemonic == ZYDIS_MNEMONIC_PUNPCKLQDQ ? now->vector[from][0]
                                                                                 : now->general[from];
        }
        return;
    case ZYDIS_MNEMONIC_MOVUPS:
    case ZYDIS_MNEMONIC_MOVAPS:
    case ZYDIS_MNEMONIC_MOVDQU:
    case ZYDIS_MNEMONIC_MOVDQA: {
        int from = vector_index(&op[1]);
        if (stores && from >= 0) {
            stored(elf, reading, &op[0], 0, now->vector[from][0]);
            stored(elf, reading, &op[0], 8, now->vector[from][1]);
        } else if (vector >= 0) {
            for (int half = 0; half < 2; half++)
                now->vector[vector][half] = from >= 0 ? now->vector[from][half] : 0;
        }
        return;
    }
    case ZYDIS_MNEMONIC_CMP:
    case ZYDIS_MNEMONIC_TEST:
    case ZYDIS_MNEMONIC_PUSH:
        return;
    default:
        if (to >= 0)
            now->general[to] = 0;
        if (vector >= 0)
            now->vector[vector][0] = now->vector[vector][1] = 0;
    }
}

static void forget_scratch(struct registers *now)
{
    static const ZydisRegister KEPT[] = {ZYDIS_REGISTER_RBX, ZYDIS_REGISTER_RBP, ZYDIS_REGISTER_R12,
                                         ZYDIS_REGISTER_R13, ZYDIS_REGISTER_R14, ZYDIS_REGISTER_R15};
    struct registers after = {0};
    for (size_t i = 0; i < ARRAY_SIZE(KEPT); i++)
        after.general[KEPT[i] - ZYDIS_REGISTER_RAX] = now->general[KEPT[i] - ZYDIS_REGISTER_RAX];
    *now = after;
}

/* Reads a function in the order of its addresses. Free with reading_done(). */
static int read_code(struct elf *elf, const struct code *code, struct reading *ret)
{
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    struct registers now = {0};
    struct reading reading = {0};
    for (size_t at = 0; at < code->size;) {
        ZydisDecodedInstruction in;
        ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code->bytes + at, code->size - at, &in, op)))
            break;
        at += in.length;
        uint64_t next = code->start + at;
        for (int i = 0; i < in.operand_count_visible; i++)
            if (op[i].type == ZYDIS_OPERAND_TYPE_MEMORY && op[i].mem.base == ZYDIS_REGISTER_RDI)
                for (int phase = 0; phase < PHASES; phase++)
                    reading.lists |= (unsigned)(op[i].mem.disp.value == LOOP_LIST[phase]) << phase;
        bool call = in.mnemonic == ZYDIS_MNEMONIC_CALL, jump = in.mnemonic == ZYDIS_MNEMONIC_JMP;
        reading.calls_pointer |= call && op[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE;
        if ((call || jump) && in.raw.imm[0].is_relative) {
            uint64_t to = next + (uint64_t)in.raw.imm[0].value.s;
            struct call seen = {to, now.general[ZYDIS_REGISTER_RSI - ZYDIS_REGISTER_RAX],
                                now.general[ZYDIS_REGISTER_RCX - ZYDIS_REGISTER_RAX],
                                now.general[ZYDIS_REGISTER_R8 - ZYDIS_REGISTER_RAX]};
            bool leaves = to < code->start || to >= code->start + code->size;
            if ((call || leaves) && array_add(&reading.calls, seen) < 0) {
                array_done(&reading.calls);
                return -ENOMEM;
            }
        }
        if (call)
            forget_scratch(&now);
        else if (jump || in.mnemonic == ZYDIS_MNEMONIC_RET)
            now = (struct registers){0};
        else
            follow(elf, &reading, &now, &in, op, next);
    }
    *ret = reading;
    return 0;
}

static int read_function(struct elf *elf, uint64_t address, struct reading *ret)
{
    struct code code;
    int r = code_at(elf, address, &code);
    return r < 0 ? r : read_code(elf, &code, ret);
}

static int read_exported(struct elf *elf, const char *name, struct reading *ret)
{
    struct elf_symbol symbol;
    int r = elf_find(elf, name, &symbol);
    return r < 0 ? r : read_function(elf, symbol.value, ret);
}

/* ---- what was found ---- */

/* One function; `doubt` when two places contradict each other. */
struct answer {
    const char *name;
    uint64_t address;
    bool doubt;
};

enum {
    WORK_SUBMIT,
    FS_WORK,
    FS_DONE,
    QUEUE_WORK,
    QUEUE_DONE,
    GETADDRINFO_WORK,
    GETADDRINFO_DONE,
    GETNAMEINFO_WORK,
    GETNAMEINFO_DONE,
    STREAM_IO,
    RUN_TIMERS,
    RUN_IDLE,
    RUN_PREPARE,
    RUN_CHECK,
    IO_POLL,
    ANSWERS
};

static void answer(struct answer *answer, uint64_t address)
{
    answer->doubt |= answer->address && answer->address != address;
    answer->address = address;
}

/* The pair { work, done } of an exported function whose request goes to the thread pool. */
static int find_work(struct elf *elf, const char *exported, struct answer *submit, struct answer *work,
                     struct answer *done)
{
    struct reading reading;
    int r = read_exported(elf, exported, &reading);
    if (r < 0)
        return r == -ENOMEM ? r : 0;
    array_foreach (&reading.calls, call)
        if (is_function(elf, call->rcx) && is_function(elf, call->r8) && is_function(elf, call->to)) {
            answer(submit, call->to);
            answer(work, call->rcx);
            answer(done, call->r8);
        }
    for (size_t i = 0; i < reading.store_count; i++)
        for (size_t k = 0; k < reading.store_count; k++)
            if (reading.stores[k].displacement == reading.stores[i].displacement + 8) {
                answer(work, reading.stores[i].value);
                answer(done, reading.stores[k].value);
            }
    array_done(&reading.calls);
    return 0;
}

/* uv__stream_init(), called by `exported`, hands uv__stream_io to uv__io_init(). */
static int find_stream(struct elf *elf, const char *exported, struct answer *stream_io)
{
    struct reading outer, inner;
    int r = read_exported(elf, exported, &outer);
    if (r < 0)
        return r == -ENOMEM ? r : 0;
    array_foreach (&outer.calls, call) {
        r = read_function(elf, call->to, &inner);
        if (r < 0)
            continue;
        array_foreach (&inner.calls, init)
            if (is_function(elf, init->rsi) && is_function(elf, init->to))
                answer(stream_io, init->rsi);
        array_done(&inner.calls);
    }
    array_done(&outer.calls);
    return r == -ENOMEM ? r : 0;
}

static bool calls(struct elf *elf, const struct reading *reading, const char *name)
{
    struct elf_symbol symbol;
    uint64_t own = elf_find(elf, name, &symbol) == 0 ? symbol.value : 0;
    array_foreach (&reading->calls, call) {
        const char *linked = stripped_linkage(elf, call->to);
        if ((own && call->to == own) || (linked && strcmp(linked, name) == 0))
            return true;
    }
    return false;
}

static int find_phases(struct elf *elf, struct answer *answers)
{
    static const int PHASE_ANSWER[PHASES] = {RUN_PREPARE, RUN_CHECK, RUN_IDLE, RUN_TIMERS};
    struct reading run, phase;
    int r = read_exported(elf, "uv_run", &run);
    if (r < 0)
        return r == -ENOMEM ? r : 0;
    array_foreach (&run.calls, call) {
        r = read_function(elf, call->to, &phase);
        if (r < 0)
            continue;
        if (calls(elf, &phase, "epoll_pwait") || calls(elf, &phase, "epoll_wait"))
            answer(&answers[IO_POLL], call->to);
        else if (phase.calls_pointer)
            for (int i = 0; i < PHASES; i++)
                if (phase.lists == 1u << i)
                    answer(&answers[PHASE_ANSWER[i]], call->to);
        array_done(&phase.calls);
    }
    array_done(&run.calls);
    return r == -ENOMEM ? r : 0;
}

int unnamed_find(struct elf *elf, struct named_functions *unnamed)
{
    struct elf_symbol symbol;
    if (elf_find(elf, "uv_run", &symbol) < 0 || elf_find(elf, "uv__io_poll", &symbol) == 0)
        return 0;
    struct answer answers[ANSWERS] = {
        [WORK_SUBMIT] = {.name = "uv__work_submit"},
        [FS_WORK] = {.name = "uv__fs_work"},
        [FS_DONE] = {.name = "uv__fs_done"},
        [QUEUE_WORK] = {.name = "uv__queue_work"},
        [QUEUE_DONE] = {.name = "uv__queue_done"},
        [GETADDRINFO_WORK] = {.name = "uv__getaddrinfo_work"},
        [GETADDRINFO_DONE] = {.name = "uv__getaddrinfo_done"},
        [GETNAMEINFO_WORK] = {.name = "uv__getnameinfo_work"},
        [GETNAMEINFO_DONE] = {.name = "uv__getnameinfo_done"},
        [STREAM_IO] = {.name = "uv__stream_io"},
        [RUN_TIMERS] = {.name = "uv__run_timers"},
        [RUN_IDLE] = {.name = "uv__run_idle"},
        [RUN_PREPARE] = {.name = "uv__run_prepare"},
        [RUN_CHECK] = {.name = "uv__run_check"},
        [IO_POLL] = {.name = "uv__io_poll"},
    };
    static const struct {
        const char *exported;
        int work, done;
    } WORK[] = {
        {"uv_fs_close", FS_WORK, FS_DONE},
        {"uv_fs_fsync", FS_WORK, FS_DONE},
        {"uv_fs_ftruncate", FS_WORK, FS_DONE},
        {"uv_queue_work", QUEUE_WORK, QUEUE_DONE},
        {"uv_getaddrinfo", GETADDRINFO_WORK, GETADDRINFO_DONE},
        {"uv_getnameinfo", GETNAMEINFO_WORK, GETNAMEINFO_DONE},
    };
    static const char *const STREAMS[] = {"uv_pipe_init", "uv_tcp_init_ex", "uv_tcp_init"};
    int r = 0;
    for (size_t i = 0; i < ARRAY_SIZE(WORK) && r == 0; i++)
        r = find_work(elf, WORK[i].exported, &answers[WORK_SUBMIT], &answers[WORK[i].work],
                      &answers[WORK[i].done]);
    for (size_t i = 0; i < ARRAY_SIZE(STREAMS) && r == 0; i++)
        r = find_stream(elf, STREAMS[i], &answers[STREAM_IO]);
    if (r == 0)
        r = find_phases(elf, answers);
    for (size_t i = 0; i < ANSWERS && r == 0; i++) {
        uint64_t size;
        if (!answers[i].address || answers[i].doubt || elf_find(elf, answers[i].name, &symbol) == 0 ||
            stripped_function(elf, answers[i].address, &size) < 0)
            continue;
        r = array_add(&unnamed->list, (struct elf_symbol){.name = answers[i].name,
                                                          .value = answers[i].address,
                                                          .size = size,
                                                          .type = STT_FUNC,
                                                          .section_type = SHT_PROGBITS});
    }
    return r;
}
