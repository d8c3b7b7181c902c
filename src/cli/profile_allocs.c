/* See profile_allocs.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_allocs.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_text.h"
#include "base/proc.h"
#include "base/process_file.h"
#include "cli/cli.h"
#include "cli/confine.h"
#include "cli/hooked.h"
#include "cli/profile_place.h"
#include "profile/family.h"
#include "profile/frame_name.h"
#include "profile/runtime.h"
#include "symbol/elf.h"
#include "symbol/modules.h"

enum { CALLERS = 4 };

static const struct {
    const char *name;
    enum place_function function;
} FAMILY[] = {
    {"malloc", ALLOC_MALLOC},    {"calloc", ALLOC_CALLOC},
    {"realloc", ALLOC_REALLOC},  {"aligned_alloc", ALLOC_ALIGNED},
    {"memalign", ALLOC_ALIGNED}, {"posix_memalign", ALLOC_POSIX_MEMALIGN},
    {"free", ALLOC_FREE},
};

enum { NAMES = ARRAY_SIZE(FAMILY), MALLOC_AT = 0, FREE_AT = 6 };

/* ---- where they are ---- */

static int take_symbol(const struct elf_symbol *symbol, void *context)
{
    *(struct elf_symbol *)context = *symbol;
    return 1;
}

static void add_found(struct found_places *found, const struct elf *elf, const struct elf_symbol *symbol,
                      enum place_function function, uint32_t bytes)
{
    struct sampler_place place = {.function = function, .bytes = bytes};
    if (symbol->type == STT_GNU_IFUNC || found->count == PROCESS_PLACES_MOST ||
        elf_address_to_offset(elf, symbol->value, &place.offset) < 0)
        return;
    for (uint32_t i = 0; i < found->count; i++)
        if (found->places[i].offset == place.offset) /* under another name */
            return;
    found->places[found->count++] = place;
}

static void find_family(struct elf *elf, struct found_places *found)
{
    struct elf_symbol symbols[NAMES] = {0};
    for (size_t i = 0; i < NAMES; i++)
        if (elf_find_exported(elf, FAMILY[i].name, &symbols[i]) < 0)
            symbols[i].name = NULL;
    if (!symbols[MALLOC_AT].name || !symbols[FREE_AT].name) /* it uses those of another file */
        return;
    for (size_t i = 0; i < NAMES; i++)
        if (symbols[i].name)
            add_found(found, elf, &symbols[i], FAMILY[i].function, 0);
}

/* By its name, or its beginning where that ends in %. */
static bool find_function(struct elf *elf, const char *name, struct elf_symbol *ret_symbol)
{
    char prefix[160];
    size_t length = strlen(name) - 1;
    if (name[length] != '%')
        return elf_find(elf, name, ret_symbol) == 0;
    snprintf(prefix, sizeof(prefix), "%.*s", (int)length, name);
    return elf_each_symbol(elf, prefix, take_symbol, ret_symbol) == 1;
}

/* Where the member lies that a function loads first: mov disp(%rdi), %reg, with 32 or 8 bits. */
static bool find_member(struct elf *elf, const char *function, uint32_t *ret_bytes)
{
    struct elf_symbol symbol;
    uint8_t code[16];
    if (!find_function(elf, function, &symbol) || elf_read(elf, symbol.value, code, sizeof(code)) < 0)
        return false;
    for (size_t i = 0; i + 7 <= sizeof(code); i++) {
        if (code[i] != 0x48 || code[i + 1] != 0x8b)
            continue;
        if ((code[i + 2] & 0xc7) == 0x87)
            memcpy(ret_bytes, &code[i + 3], sizeof(*ret_bytes));
        else if ((code[i + 2] & 0xc7) == 0x47)
            *ret_bytes = code[i + 3];
        else
            continue;
        return true;
    }
    return false;
}

enum { HANDS_ON_BYTES = 32 }; /* a function that is shorter only calls another one that is found, too */

static void find_heap(struct elf *elf, const struct runtime_heap *heap, struct found_places *found)
{
    for (const struct runtime_heap_place *p = heap->places; p->symbol; p++) {
        struct elf_symbol symbol, other;
        uint32_t bytes = p->bytes;
        if (find_function(elf, p->symbol, &symbol) && (!symbol.size || symbol.size >= HANDS_ON_BYTES) &&
            (!p->unless || !find_function(elf, p->unless, &other)) &&
            (!p->member || find_member(elf, p->member, &bytes)))
            add_found(found, elf, &symbol, p->function, bytes);
    }
}

static int find_in_file(int fd, void *result)
{
    _cleanup_(elf_freep) struct elf *elf = NULL;
    struct found_places *found = result;
    if (elf_open_fd(fd, "", &elf, NULL) < 0)
        return 0; /* nothing is in it */
    find_family(elf, found);
    for (const struct runtime *const *runtime = RUNTIMES; *runtime; runtime++)
        if ((*runtime)->heap)
            find_heap(elf, (*runtime)->heap, found);
    for (uint32_t i = 0; i < found->count; i++)
        found->codes[i] = place_code_read(fd, found->places[i].offset);
    return 0;
}

int profile_allocs_find_in(pid_t pid, int file, struct sampler_place *ret_places, size_t most)
{
    return process_places_in(pid, file, find_in_file, ret_places, most);
}

int profile_allocs_find(const struct sampler_options *o, pid_t child, const char *command,
                        struct process_places *places, struct problem *problem)
{
    size_t count = 0;
    int r = child ? process_places_add_own(places, child, find_in_file) : 0;
    if (child && r >= 0)
        r = process_places_add_command(places, child, command, find_in_file);
    _cleanup_(freep) pid_t *family = child ? NULL : family_of(o->pids, o->pid_count, &count);
    for (size_t i = 0; i < count && r >= 0; i++)
        r = process_places_add(places, family[i], false, find_in_file);
    if (r >= 0 && !places->list.count)
        r = -ENOENT;
    if (r == -ENOENT) {
        problem_set(problem, r, "no file that the process has mapped exports malloc() and free()");
        problem_remedy(problem, "A program that is linked statically, or has an allocator of its own, shows "
                                "with --event page-faults which code first uses new memory.");
    } else if (r == -EBUSY) {
        problem_set(problem, r,
                    "another tool has changed the code of malloc() or of a function like it, so "
                    "that a breakpoint there could kill the process");
        problem_remedy(problem, "If it is being traced by sonde, `sonde detach` restores the code.");
    } else if (r < 0) {
        problem_set(problem, r, "cannot find malloc(): %s", strerror(-r));
        if (r == -EACCES || r == -EPERM)
            problem_remedy(problem, "Run as root.");
    }
    return r;
}

/* ---- what came out ---- */

static double percent(double part, double of)
{
    return of > 0 ? 100 * part / of : 0;
}

int profile_allocs_print(const struct allocs *a, const struct profile *p, unsigned top)
{
    struct alloc_site all;
    size_t count;
    char alive[24], made[24];
    _cleanup_(text_done) struct text line = {0};
    if (!a)
        return EXIT_DONE;
    _cleanup_(freep) struct alloc_site *sites = allocs_sites(a, &all, &count);
    if (!sites)
        return cli_fail(EXIT_FAILED, &(struct problem){.what = "out of memory"});
    printf("allocated: %s (+- %.1f %%) in %.0f allocations; not freed when sampling ended: %s (+- %.1f %%) "
           "in %.0f\n",
           profile_place_bytes(all.made.bytes, made, sizeof(made)),
           percent(all.made.bytes_error, all.made.bytes), all.made.count,
           profile_place_bytes(all.alive.bytes, alive, sizeof(alive)),
           percent(all.alive.bytes_error, all.alive.bytes), all.alive.count);
    printf("%s%12s %7s %9s %12s %9s  allocated in%s\n", cli_style(1, STYLE_BOLD), "not freed", "+-", "pieces",
           "allocated", "pieces", cli_style(1, STYLE_NONE));
    for (size_t i = 0; i < count && i < top; i++) {
        const struct alloc_site *s = &sites[i];
        text_clear(&line);
        text_addf(&line, "%12s %6.1f%% %9.0f %12s %9.0f  ",
                  profile_place_bytes(s->alive.bytes, alive, sizeof(alive)),
                  percent(s->alive.bytes_error, s->alive.bytes), s->alive.count,
                  profile_place_bytes(s->made.bytes, made, sizeof(made)), s->made.count);
        profile_place_add(&line, p, s->frame);
        profile_place_add_callers(&line, p, allocs_stacks(a), s->stack, s->frame, CALLERS, false);
        cli_put(stdout, text_get(&line));
        putchar('\n');
    }
    return EXIT_DONE;
}

static void hidden_in(struct sampler *sampler, const struct sampler_options *o, pid_t pid)
{
    const char *called = sampler_runtime(sampler, pid);
    bool allocates = false;
    for (size_t i = 0; i < o->place_count; i++)
        allocates |= o->places[i].pid == pid && o->places[i].function >= ALLOC_HEAP_SECOND;
    for (const struct runtime *const *runtime = RUNTIMES; called && *runtime; runtime++) {
        const struct runtime_heap *heap = (*runtime)->heap;
        if (heap && strstr(called, heap->called))
            cli_printf(stderr, "sonde: not seen in process %d: %s%s: %s\n", (int)pid,
                       allocates ? "what stays of " : "", heap->objects,
                       allocates ? heap->stays : heap->allocates);
    }
}

void profile_allocs_print_hidden(struct sampler *sampler, const struct sampler_options *o, pid_t child)
{
    if (child)
        hidden_in(sampler, o, child);
    for (size_t i = 0; i < o->pid_count; i++)
        hidden_in(sampler, o, o->pids[i]);
}

/* ---- JSON ---- */

static json_t *amount_json(const struct alloc_amount *amount)
{
    return json_pack("{s:I, s:I, s:I}", "bytes", (json_int_t)llround(amount->bytes), "error_bytes",
                     (json_int_t)llround(amount->bytes_error), "count", (json_int_t)llround(amount->count));
}

static json_t *site_json(const struct allocs *a, const struct profile *p, const struct alloc_site *site)
{
    const struct profile *stacks = allocs_stacks(a);
    json_t *stack = json_array();
    for (uint32_t at = site->stack; at; at = stacks->nodes.at[at].parent) {
        const struct profile_frame *f = &p->frames.at[stacks->nodes.at[at].frame];
        if (f->kind != FRAME_GROUP)
            json_array_append_new(stack, json_text(profile_text(p, f->name)));
    }
    const char *function = site->frame ? profile_text(p, p->frames.at[site->frame].name) : "";
    json_t *json =
        json_pack("{s:o, s:o, s:o, s:o}", "function", json_text(function), "not_freed",
                  amount_json(&site->alive), "allocated", amount_json(&site->made), "stack", stack);
    profile_place_add_json(json, p, site->frame);
    return json;
}

int profile_allocs_add_json(const struct allocs *a, const struct profile *p, unsigned top, json_t *to)
{
    struct alloc_site all;
    size_t count;
    uint64_t not_followed;
    _cleanup_(freep) struct alloc_site *sites = allocs_sites(a, &all, &count);
    json_t *list = json_array();
    for (size_t i = 0; sites && i < count && i < top; i++)
        json_array_append_new(list, site_json(a, p, &sites[i]));
    uint64_t sampled = allocs_sampled(a, &not_followed);
    if (!sites) {
        json_decref(list);
        return -ENOMEM;
    }
    return json_object_set_new(to, "allocations",
                               json_pack("{s:o, s:o, s:I, s:I, s:o}", "not_freed", amount_json(&all.alive),
                                         "allocated", amount_json(&all.made), "sampled_count",
                                         (json_int_t)sampled, "not_followed_count", (json_int_t)not_followed,
                                         "places", list))
               ? -ENOMEM
               : 0;
}
