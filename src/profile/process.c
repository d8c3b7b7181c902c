/* One sampled process: what runs in it, and what the half in the kernel must know of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/process.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "symbol/demangle.h"
#include "unwind/hotspot.h"

/* So long, a process loads its libraries and sets itself up. */
#define YOUNG_NS  (2 * NS_PER_S)
#define DETECT_NS (20 * NS_PER_MS)

/* Interpreters are loaded as libraries, and set themselves up later: one that is not there yet is looked for
 * again when more was mapped. */
static void find_runtimes(struct process *p, uint64_t now_ns)
{
    p->detected_ns = now_ns;
    p->detected_modules = native_modules(p->native)->list.count;
    if (!p->v8 && v8_open_native(p->native, &p->v8, NULL) < 0)
        p->v8 = NULL;
    if (p->v8)
        v8_name_often(p->v8, &p->shared->pages, p->shared->lines);
    if (!p->has_python)
        p->has_python = python_find(p->native, &p->python) == 0;
    int r = p->hotspot ? 0 : hotspot_open(p->native, &p->hotspot);
    if (r < 0)
        p->hotspot = NULL;
    p->unknown_java = r == -ENOTSUP;
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
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    char name[PROC_NAME_BYTES];
    if (proc_open(pid, &proc) == 0) {
        proc_read_name(proc, name);
        snprintf(p->name, sizeof(p->name), "%.*s", (int)sizeof(p->name) - 1, name);
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
    v8_free(p->v8);
    hotspot_free(p->hotspot);
    perfmap_free(p->perfmap);
    native_free(p->native);
    map_done(&p->names.places);
    map_done(&p->moving.places);
    array_done(&p->names.frames);
    array_done(&p->moving.frames);
    free(p);
}

const char *process_runtime(const struct process *p)
{
    static const char *const pythons[] = {"Python 3.9", "Python 3.10", "Python 3.11", "Python 3.12",
                                          "Python 3.13"};
    if (p->hotspot)
        return "Java (HotSpot)";
    if (p->unknown_java)
        return "Java (a virtual machine that is not known)";
    if (p->v8)
        return "Node.js (V8)";
    if (p->has_python)
        return pythons[p->python.minor - 9];
    return "native";
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
    if (p->v8)
        text_add(ret_text, "; JavaScript by V8's frames, interpreted and compiled");
    if (p->has_python)
        text_addf(ret_text, "; %s by the interpreter's frames", process_runtime(p));
    if (p->hotspot)
        text_add(ret_text, "; Java by HotSpot's code cache, interpreted, compiled and inlined");
    if (generated && !p->v8 && !p->hotspot) {
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
    }
}

static void describe_file(struct process *p, struct tables *tables, const struct mapping *m,
                          struct sampler_process *d)
{
    uint64_t low, high;
    struct native_file *file = native_file_of(p->native, &native_modules(p->native)->list.at[m->module]);
    const struct table_range *range = file ? tables_of(tables, file) : NULL;
    enum sampler_code code = range ? CODE_ROWS : CODE_POINTER;
    if (p->v8 && v8_builtins_in(p->v8, m, &low, &high)) {
        add_mapping(d, m->start, low, code, range, m->load_bias);
        add_mapping(d, low, high, CODE_V8, NULL, 0);
        add_mapping(d, high, m->end, code, range, m->load_bias);
    } else {
        add_mapping(d, m->start, m->end, code, range, m->load_bias);
    }
}

/* Code is compiled and thrown away all the time: the rows get a place of their own, with room to grow. */
static bool describe_java(struct process *p, struct tables *tables, struct table_range *ret_rows,
                          uint64_t *ret_low, uint64_t *ret_high)
{
    enum { ROOM = 4096 };
    if (!p->hotspot)
        return false;
    uint32_t need = (uint32_t)hotspot_row_limit(p->hotspot), more = need + need / 2 + ROOM;
    uint32_t at = need > p->java_limit ? tables_take(tables, more) : 0;
    if (at) {
        process_give_rows(p, tables);
        p->java_rows = at;
        p->java_limit = more;
    }
    if (!p->java_rows)
        return false;
    size_t count = hotspot_rows(p->hotspot, tables->rows + p->java_rows, p->java_limit);
    *ret_rows = (struct table_range){.rows_low = p->java_rows, .rows_high = p->java_rows + (uint32_t)count};
    hotspot_range(p->hotspot, ret_low, ret_high);
    return true;
}

void process_give_rows(struct process *p, struct tables *tables)
{
    tables_give(tables, p->java_rows, p->java_limit);
    p->java_rows = p->java_limit = 0;
}

void process_describe(struct process *p, struct tables *tables, struct sampler_process *ret_description)
{
    struct sampler_process *d = ret_description;
    struct table_range java;
    uint64_t java_low = 0, java_high = 0;
    memset(d, 0, sizeof(*d));
    bool full = tables->full;
    tables->full = false;
    d->has_v8 = p->v8 != NULL;
    if (p->hotspot) /* it compiles all the time */
        d->young_until_ns = UINT64_MAX;
    else if (!p->v8 && !p->has_python)
        d->young_until_ns = p->born_ns + YOUNG_NS;
    if (p->has_python)
        d->python = p->python.frames;
    bool has_java = describe_java(p, tables, &java, &java_low, &java_high);
    d->java_low = java_low;
    d->java_high = java_high;
    array_foreach (&native_modules(p->native)->mappings, m) {
        if (!m->executable)
            continue;
        if (has_java && m->start >= java_low && m->start < java_high)
            add_mapping(d, m->start, MIN(m->end, java_high), CODE_JAVA, &java, java_low);
        else if (m->has_bias)
            describe_file(p, tables, m, d);
        else
            add_mapping(d, m->start, m->end, p->v8 ? CODE_V8 : CODE_POINTER, NULL, 0);
    }
    p->lacks_rows = tables->full;
    tables->full |= full;
}

int process_refresh(struct process *p)
{
    uint64_t now = clock_monotonic_ns();
    int r = native_refresh(p->native);
    if (native_modules(p->native)->list.count != p->detected_modules ||
        (now - p->born_ns < YOUNG_NS && now - p->detected_ns > DETECT_NS &&
         modules_named(native_modules(p->native), "libjvm.so")))
        find_runtimes(p, now);
    p->mapped = false;
    if (p->hotspot)
        hotspot_refresh(p->hotspot);
    perfmap_free(p->perfmap);
    p->perfmap = NULL;
    p->perfmap_tried = false;
    process_forget_names(&p->names);
    process_forget_names(&p->moving);
    p->refresh_wanted = false;
    p->loaded_ns = now;
    return r;
}
