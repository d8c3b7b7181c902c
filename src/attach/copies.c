/* See copies.h. GCC names its copies: X.constprop.N and X.isra.N, which some callers of X call in its place,
 * and X.part.N, the rest of X, which callers that have X's beginning inlined call; in C++ X's overloads,
 * which are functions of their own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/copies.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

enum { CALL_BYTES = 5 }; /* e8 or e9, rel32 */

static bool is_copy(const char *suffix)
{
    static const char *const KINDS[] = {".constprop.", ".isra.", ".part."};
    for (size_t i = 0; i < ARRAY_SIZE(KINDS); i++)
        if (strncmp(suffix, KINDS[i], strlen(KINDS[i])) == 0)
            return !strstr(suffix, ".cold");
    return false;
}

/* Does code outside of [start, end) call or jump to the address? */
static bool called_outside(struct elf *elf, uint64_t address, uint64_t start, uint64_t end)
{
    struct elf_segment segment;
    for (size_t n = 0; elf_segment_at(elf, n, &segment) == 0; n++) {
        const uint8_t *code =
            segment.type == PT_LOAD && segment.flags & PF_X && segment.file_size > CALL_BYTES
                ? elf_bytes(elf, segment.address, segment.file_size, NULL)
                : NULL;
        for (size_t i = 0; code && i + CALL_BYTES <= segment.file_size; i++) {
            int32_t distance;
            uint64_t at = segment.address + i;
            if ((code[i] & 0xfe) != 0xe8 || (at >= start && at < end))
                continue;
            memcpy(&distance, code + i + 1, sizeof(distance));
            if (at + CALL_BYTES + (uint64_t)(int64_t)distance == address)
                return true;
        }
    }
    return false;
}

static int add(const struct elf_symbol *symbol, void *context)
{
    struct named_functions *copies = context;
    const char *suffix = strchr(symbol->name, '.');
    return suffix && symbol->type == STT_FUNC && is_copy(suffix) ? array_add(&copies->list, *symbol) : 0;
}

int copies_find(struct elf *elf, struct named_functions *ret_copies)
{
    return elf_each_symbol(elf, "", add, ret_copies);
}

static void note(struct target *target, const struct target_module *module, const struct patch_set *set,
                 const struct elf_symbol *symbol)
{
    const char *suffix = strchr(symbol->name, '.');
    const struct hook *of = NULL;
    struct elf_symbol original;
    array_foreach (&set->patches, p) {
        size_t length = strlen(p->hook->symbol);
        if (p->address == symbol->value + module->module->load_bias)
            return; /* hooked itself */
        if (length == (size_t)(suffix - symbol->name) && memcmp(p->hook->symbol, symbol->name, length) == 0)
            of = p->hook;
    }
    if (!of || elf_find(module->elf, of->symbol, &original) < 0 ||
        (strncmp(suffix, ".part.", 6) == 0 &&
         (strncmp(of->symbol, "_Z", 2) == 0 ||
          !called_outside(module->elf, symbol->value, original.value, original.value + original.size))))
        return;
    char why[400];
    snprintf(why, sizeof(why), "the compiler has made a copy of %s (%s), and calls of that are not seen",
             of->symbol, suffix + 1);
    const char *gives = hook_gives(of);
    target_miss(target, gives[0] ? gives : of->symbol, why,
                "Use the distribution's build, or one with less inlining.");
}

void copies_note(struct target *target, const struct patch_set *set)
{
    array_foreach (&target->code, module)
        array_foreach (&module->copies->list, symbol)
            note(target, module, set, symbol);
}
