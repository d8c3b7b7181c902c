/* See hooked.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/hooked.h"

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "symbol/memory.h"
#include "symbol/modules.h"

enum { BREAKPOINT = 0xcc };

struct place_code place_code_read(int fd, uint64_t offset)
{
    struct place_code code = {.offset = offset};
    ZydisDecoder decoder;
    ZydisDecodedInstruction in;
    ssize_t n = pread(fd, code.bytes, sizeof(code.bytes), (off_t)offset);
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    if (n > 0 && ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, code.bytes, (size_t)n, &in)))
        code.length = in.length;
    return code;
}

/* Some file systems report one device by stat(2) and another in /proc/PID/maps. */
static bool is_file(const struct module *module, const struct stat *st, const char *name)
{
    return module->inode == st->st_ino &&
           (module->device == st->st_dev || strcmp(basename(module->path), name) == 0);
}

static bool differs(pid_t pid, uint64_t address, const struct place_code *code)
{
    uint8_t bytes[sizeof(code->bytes)];
    if (!code->length || memory_read(pid, address, bytes, code->length) < 0)
        return false; /* it has ended; or what the file holds there is no code */
    if (bytes[0] == BREAKPOINT)
        bytes[0] = code->bytes[0];
    return memcmp(bytes, code->bytes, code->length) != 0;
}

/* Is one of the instructions another one in this process? */
static bool is_hooked(pid_t pid, const struct stat *st, const char *name, const struct place_code *codes,
                      size_t count, uint64_t *ret_offset)
{
    _cleanup_(modules_done) struct modules modules = {0};
    struct problem ignored;
    if (modules_list_pid(pid, &modules, &ignored) < 0)
        return false;
    array_foreach (&modules.mappings, m) {
        if (!m->executable || m->module == UINT32_MAX || !is_file(&modules.list.at[m->module], st, name))
            continue;
        for (size_t i = 0; i < count; i++)
            if (codes[i].offset >= m->offset && codes[i].offset - m->offset < m->end - m->start &&
                differs(pid, m->start + (codes[i].offset - m->offset), &codes[i])) {
                *ret_offset = codes[i].offset;
                return true;
            }
    }
    return false;
}

pid_t hooked_process(int fd, const struct place_code *codes, size_t count, const pid_t *pids,
                     size_t pid_count, uint64_t *ret_offset)
{
    struct stat st;
    char link[40], path[4096] = "";
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (fstat(fd, &st) < 0 || readlink(link, path, sizeof(path) - 1) < 0)
        return 0;
    for (size_t i = 0; i < pid_count; i++)
        if (is_hooked(pids[i], &st, basename(path), codes, count, ret_offset))
            return pids[i];
    return 0;
}
