/* What is found, read and written in a target, and noted of it: see target.h. Here, and not in target.c, is
 * what the kinds of targets call. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attach/target.h"
#include "symbol/memory.h"

static int module_find(const struct target_module *module, const char *symbol, struct elf_symbol *ret_symbol)
{
    if (elf_find(module->elf, symbol, ret_symbol) == 0)
        return 0;
    array_foreach (&module->unnamed->list, s)
        if (strcmp(s->name, symbol) == 0) {
            *ret_symbol = *s;
            return 0;
        }
    return -ENOENT;
}

int target_find(struct target *target, const char *symbol, uint64_t *ret_address,
                struct elf_symbol *ret_symbol, const struct target_module **ret_module)
{
    array_foreach (&target->code, m) {
        struct elf_symbol found;
        if (module_find(m, symbol, &found) < 0)
            continue;
        if (ret_address)
            *ret_address = found.value + m->module->load_bias;
        if (ret_symbol)
            *ret_symbol = found;
        if (ret_module)
            *ret_module = m;
        return 0;
    }
    return -ENOENT;
}

int target_read(struct target *target, uint64_t address, void *buffer, size_t size)
{
    if (target->memory < 0)
        return memory_read(target->pid, address, buffer, size);
    ssize_t n = pread(target->memory, buffer, size, (off_t)address);
    return n == (ssize_t)size ? 0 : n < 0 ? -errno : -EFAULT;
}

int target_write(struct target *target, uint64_t address, const void *data, size_t size)
{
    ssize_t n = pwrite(target->memory, data, size, (off_t)address);
    return n == (ssize_t)size ? 0 : n < 0 ? -errno : -EFAULT;
}

void target_miss(struct target *target, const char *what, const char *why, const char *remedy)
{
    struct missing missing = {arena_strdup(&target->arena, what), arena_strdup(&target->arena, why),
                              arena_strdup(&target->arena, remedy ? remedy : "")};
    if (missing.what && missing.why && missing.remedy)
        (void)array_add(&target->missing, missing);
}

uint32_t target_constant(struct target *target, const char *function)
{
    struct elf_symbol symbol;
    const struct target_module *module;
    uint8_t code[16];
    if (target_find(target, function, NULL, &symbol, &module) < 0 ||
        elf_read(module->elf, symbol.value, code, sizeof(code)) < 0)
        return 0;
    static const uint8_t ENDBR64[] = {0xf3, 0x0f, 0x1e, 0xfa}, FRAME[] = {0x55, 0x48, 0x89, 0xe5};
    const uint8_t *p = code;
    if (memcmp(p, ENDBR64, sizeof(ENDBR64)) == 0)
        p += sizeof(ENDBR64);
    if (memcmp(p, FRAME, sizeof(FRAME)) == 0) /* push %rbp; mov %rsp,%rbp */
        p += sizeof(FRAME);
    bool pushed = p[0] == 0x55 && p[1] == 0xb8; /* push %rbp before, mov %rsp,%rbp after it (Node 12) */
    p += pushed;
    if (p[0] != 0xb8) /* mov $imm32, %eax */
        return 0;
    uint32_t value;
    memcpy(&value, p + 1, sizeof(value));
    if (pushed)
        return memcmp(p + 5, FRAME + 1, sizeof(FRAME) - 1) == 0 && p[8] == 0x5d && p[9] == 0xc3 ? value : 0;
    return p[5] == 0xc3 || (p[5] == 0x5d && p[6] == 0xc3) ? value : 0; /* [pop %rbp;] ret */
}

uint64_t target_address(struct target *target, const char *function)
{
    uint64_t address;
    return target_find(target, function, &address, NULL, NULL) == 0 ? address : 0;
}

void target_say_version(char *buffer, size_t size, const char *name, uint32_t version)
{
    snprintf(buffer, size, "%s %u.%u.%u", name, version >> 16, version >> 8 & 255, version & 255);
}
