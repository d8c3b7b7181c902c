/* One sampled process: what runs in it, and what the half in the kernel must know of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/runtime.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "symbol/demangle.h"
#include "unwind/ehframe.h"

/* So long, a process loads its libraries and sets itself up. */
#define YOUNG_NS  (2 * NS_PER_S)
#define DETECT_NS (20 * NS_PER_MS)

/* Interpreters are loaded as libraries, and set themselves up later: one that is not there yet is looked for
 * again when more was mapped. */
static void find_runtimes(struct process *p, uint64_t now_ns)
{
    p->detected_ns = now_ns;
    p->detected_modules = native_modules(p->native)->list.count;
    for (size_t i = 0; RUNTIMES[i]; i++) {
        if (p->runtimes[i].state)
            continue;
        void *state = NULL;
        int r = RUNTIMES[i]->open(p, &state);
        p->runtimes[i].state = r < 0 ? NULL : state;
        p->runtimes[i].unreadable = r == -ENOTSUP;
    }
}

int process_open(pid_t pid, struct native_files *files, struct process_shared *shared,
                 struct process **ret_process)
{
    struct process *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->pid = pid;
    p->shared = shared;
    int r = native_open_shared(pid, files, &p->native, NULL);
    if (r == 0 && !native_modules(p->native)->mappings.count) { /* it ended: its maps are empty */
        native_free(p->native);
        r = -ESRCH;
    }
    if (r < 0) {
        free(p);
        return r;
    }
    p->born_ns = p->loaded_ns = clock_monotonic_ns();
    find_runtimes(p, p->born_ns);
    *ret_process = p;
    return 0;
}

int process_open_ended(pid_t pid, struct modules *modules, struct native_files *files,
                       struct process_shared *shared, struct process **ret_process)
{
    struct process *p = calloc(1, sizeof(*p));
    if (!p) {
        modules_done(modules);
        return -ENOMEM;
    }
    int r = native_open_modules(modules, files, &p->native);
    if (r < 0) {
        free(p);
        return r;
    }
    p->pid = pid;
    p->shared = shared;
    p->gone = true;
    p->born_ns = p->loaded_ns = clock_monotonic_ns();
    *ret_process = p;
    return 0;
}

/* One that was large gives its room back. */
void process_free(struct process *p)
{
    if (!p)
        return;
    for (size_t i = 0; RUNTIMES[i]; i++)
        if (p->runtimes[i].state)
            RUNTIMES[i]->close(p->runtimes[i].state);
    perfmap_free(p->perfmap);
    native_free(p->native);
    map_done(&p->names.places);
    map_done(&p->moving.places);
    array_done(&p->names.frames);
    array_done(&p->moving.frames);
    array_done(&p->moves);
    free(p);
}

/* Does the file bring a runtime into a process? */
static int read_mark(struct elf *elf, void *ret_fact)
{
    struct elf_symbol symbol;
    for (size_t i = 0; RUNTIMES[i]; i++)
        if (RUNTIMES[i]->mark && elf_find(elf, RUNTIMES[i]->mark, &symbol) == 0)
            return 0;
    return -ENOENT;
}

static bool is_native(struct process *p)
{
    const struct modules *modules = native_modules(p->native);
    const void *found;
    array_foreach (&modules->mappings, m)
        if (m->executable && (m->module == UINT32_MAX || !m->has_bias))
            return false;
    array_foreach (&modules->list, m) {
        struct native_file *file = native_file_of(p->native, m);
        if (!file || native_file_fact(file, read_mark, 1, &found) == 0)
            return false;
    }
    return !modules_named(modules, "libjvm.so"); /* also one whose tables are not understood */
}

int process_open_known(pid_t pid, struct modules *modules, struct native_files *files,
                       struct process_shared *shared, struct process **ret_process)
{
    struct process *p = NULL;
    if (!native_files_know(files, modules)) {
        modules_done(modules);
        return -ESTALE;
    }
    int r = process_open_ended(pid, modules, files, shared, &p);
    if (r < 0)
        return r;
    p->gone = false;
    if (!is_native(p)) {
        process_free(p);
        return -ESTALE;
    }
    *ret_process = p;
    return 0;
}

const char *process_runtime(const struct process *p)
{
    for (size_t i = 0; RUNTIMES[i]; i++) {
        if (p->runtimes[i].state)
            return RUNTIMES[i]->called(p->runtimes[i].state);
        if (p->runtimes[i].unreadable && RUNTIMES[i]->unknown)
            return RUNTIMES[i]->unknown;
    }
    return "native";
}

bool process_compiles(const struct process *p)
{
    for (size_t i = 0; RUNTIMES[i]; i++)
        if (p->runtimes[i].state && RUNTIMES[i]->compiles)
            return true;
    return false;
}

void process_unwinders(struct process *p, struct text *ret_text)
{
    struct text without = {0};
    size_t with = 0, generated = 0;
    array_foreach (&native_modules(p->native)->list, m) {
        struct native_file *file = m->has_bias ? native_file_of(p->native, m) : NULL;
        if (file && native_file_table(file))
            with++;
        else if (m->has_bias)
            text_addf(&without, "%s%s", without.length ? ", " : "", basename(m->path));
    }
    array_foreach (&native_modules(p->native)->mappings, m)
        generated += m->executable && !m->has_bias && m->start >> 47 == 0; /* not [vsyscall] */
    text_addf(ret_text, "native code by its unwind tables (%zu files)", with);
    if (without.length)
        text_addf(ret_text, ", by frame pointers where there is none (%s)", text_get(&without));
    for (size_t i = 0; RUNTIMES[i]; i++) {
        if (!p->runtimes[i].state)
            continue;
        text_addf(ret_text, "; %s", RUNTIMES[i]->walked(p->runtimes[i].state));
        if (RUNTIMES[i]->generates)
            generated = 0;
    }
    if (generated) {
        perfmap_free(p->perfmap);
        p->perfmap_tried = true;
        if (perfmap_read(p->pid, &p->perfmap) < 0)
            p->perfmap = NULL;
        text_add(ret_text, p->perfmap
                               ? "; generated code by frame pointers, named by its perf map"
                               : "; stacks that lead into generated code are truncated there: it writes no "
                                 "/tmp/perf-PID.map");
    }
    text_done(&without);
}

/* ---- for the kernel ---- */

static void add_mapping(struct sampler_process *d, uint64_t start, uint64_t end, enum sampler_code code,
                        const struct table_range *range, uint64_t bias)
{
    if (d->count == SAMPLER_MAPPINGS || start >= end)
        return;
    struct sampler_mapping *m = &d->mappings[d->count++];
    *m = (struct sampler_mapping){.start = start, .end = end, .code = code};
    if (range) {
        m->bias = bias + range->base;
        m->rows_low = range->rows_low;
        m->rows_high = range->rows_high;
        m->page_base = range->page_base;
        m->page_first = range->page_first;
        m->serial = range->serial;
    }
}

static bool code_of_runtime(const struct process *p, const struct mapping *m, struct runtime_code *ret_code)
{
    for (size_t i = 0; RUNTIMES[i]; i++)
        if (p->runtimes[i].state && RUNTIMES[i]->code_in &&
            RUNTIMES[i]->code_in(p->runtimes[i].state, m, ret_code))
            return true;
    return false;
}

/* The kernel can do without rows of a file: where few samples are taken, a stack that leads into it is sent
 * as a copy, which has all but the frames of Python and Ruby. */
static bool can_copy(const struct process *p, const struct sampler_process *d)
{
    return p->shared->lazy && !p->gone && !d->python.key_address && !d->ruby.module_address;
}

/* Has it rows, although there is no range for them? Then they found no room. */
static bool lacks_room(struct native_file *file)
{
    const struct unwind_table *table = native_file_table(file);
    return table && table->count;
}

static void describe_file(struct process *p, struct tables *tables, const struct mapping *m,
                          struct sampler_process *d)
{
    struct runtime_code own;
    struct native_file *file = native_file_of(p->native, &native_modules(p->native)->list.at[m->module]);
    bool copies = file && can_copy(p, d), waits = copies && !native_file_met(file);
    const struct table_range *range = file && !waits ? tables_of(tables, file) : NULL;
    enum sampler_code code = range                                   ? CODE_ROWS
                             : waits || (copies && lacks_room(file)) ? CODE_UNMET
                                                                     : CODE_POINTER;
    if (code_of_runtime(p, m, &own)) {
        add_mapping(d, m->start, own.start, code, range, m->load_bias);
        add_mapping(d, own.start, own.end, own.code, own.rows, own.bias);
        add_mapping(d, own.end, m->end, code, range, m->load_bias);
    } else {
        add_mapping(d, m->start, m->end, code, range, m->load_bias);
    }
}

void process_give_rows(struct process *p, struct tables *tables)
{
    for (size_t i = 0; RUNTIMES[i]; i++)
        if (p->runtimes[i].state && RUNTIMES[i]->give_rows)
            RUNTIMES[i]->give_rows(p->runtimes[i].state, tables);
}

void process_describe(struct process *p, struct tables *tables, struct sampler_process *ret_description)
{
    struct sampler_process *d = ret_description;
    struct runtime_code own;
    bool full = tables->full, native = true;
    memset(d, 0, sizeof(*d));
    tables->full = tables->too_small = false;
    for (size_t i = 0; RUNTIMES[i]; i++) {
        if (!p->runtimes[i].state)
            continue;
        native = false;
        RUNTIMES[i]->describe(p->runtimes[i].state, p, tables, d);
    }
    d->young_until_ns = process_compiles(p) ? UINT64_MAX : native ? p->born_ns + YOUNG_NS : 0;
    array_foreach (&native_modules(p->native)->mappings, m) {
        if (!m->executable)
            continue;
        if (m->has_bias)
            describe_file(p, tables, m, d);
        else if (code_of_runtime(p, m, &own))
            add_mapping(d, own.start, own.end, own.code, own.rows, own.bias);
        else
            add_mapping(d, m->start, m->end, d->has_script ? CODE_SCRIPT : CODE_POINTER, NULL, 0);
    }
    p->lacks_rows = tables->full || tables->too_small;
    tables->full |= full;
}

/* What was called something may be other code by now. */
static void forget_code(struct process *p)
{
    perfmap_free(p->perfmap);
    p->perfmap = NULL;
    p->perfmap_tried = false;
    process_forget_names(&p->names);
    p->refreshed++;
}

int process_refresh(struct process *p)
{
    uint64_t now = clock_monotonic_ns();
    int r = native_refresh(p->native);
    p->mapped = p->refresh_wanted = false;
    p->loaded_ns = now;
    if (r < 0) /* what is known of it is all that will be */
        return r;
    if (native_modules(p->native)->list.count != p->detected_modules ||
        (now - p->born_ns < YOUNG_NS && now - p->detected_ns > DETECT_NS &&
         modules_named(native_modules(p->native), "libjvm.so")))
        find_runtimes(p, now);
    for (size_t i = 0; RUNTIMES[i]; i++)
        if (p->runtimes[i].state && RUNTIMES[i]->refresh)
            RUNTIMES[i]->refresh(p->runtimes[i].state);
    forget_code(p);
    return 0;
}

int process_refresh_known(struct process *p, struct modules *modules, struct native_files *files)
{
    bool known = native_files_know(files, modules);
    for (size_t i = 0; RUNTIMES[i]; i++)
        known &= !p->runtimes[i].state;
    if (!known) {
        modules_done(modules);
        return -ESTALE;
    }
    modules->started_ticks = native_modules(p->native)->started_ticks; /* who it was when it was read */
    native_take_modules(p->native, modules);
    p->mapped = p->refresh_wanted = false;
    p->loaded_ns = clock_monotonic_ns();
    p->detected_modules = native_modules(p->native)->list.count;
    forget_code(p);
    return is_native(p) ? 0 : -ESTALE;
}
