/* Native code of one process, unwound from outside. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/native.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "symbol/debugfile.h"
#include "symbol/demangle.h"
#include "symbol/stripped.h"
#include "unwind/ehframe.h"
#include "unwind/facts.h"
#include "unwind/row_source.h"

/* A file that some module is or was. */
struct native_file {
    uint64_t device, inode;
    uint64_t start; /* 0, but of what has no inode: a vDSO that is not ours */
    uint64_t serial;
    struct elf *elf;
    struct unwind_table *table;
    struct elf *debug; /* its separate debug file */
    struct lines *lines;
    size_t lines_cost;
    uint64_t note;
    struct facts facts;
    size_t users;     /* natives that have it in their mappings */
    uint64_t used;    /* when something was last asked of it, in askings */
    char closed[129]; /* its build-id, when it was closed; "": it never was */
    pid_t refused;    /* the process through which it could not be opened last; 0: none */
    bool tried_table, tried_debug, tried_lines;
};

struct native_files {
    ARRAY(struct native_file *) list;
    struct map index; /* hash of device, inode and start -> struct native_file * */
    uint64_t askings, serials;
    size_t lines_cost, too_large;
    void (*forget)(void *context, uint64_t note);
    void *context;
};

/* Memory for DWARF: one file's at most, or several that together need less than the budget. */
#define LINES_BUDGET ((size_t)8 << 20)
#define LINES_LIMIT  ((size_t)64 << 20)

/* Kept by native_files_trim(). */
#define UNUSED_FILES 32
#define INDEX_BUDGET ((size_t)4 << 20)

struct native {
    struct modules modules;
    ARRAY(struct native_file *) of_module; /* by the module's place; NULL: not looked for yet */
    ARRAY(struct native_file *) held;      /* in which it counts as a user */
    struct native_files *files;
    bool own_files;
};

int native_files_new(struct native_files **ret_files)
{
    struct native_files *files = calloc(1, sizeof(*files));
    if (!files)
        return -ENOMEM;
    *ret_files = files;
    return 0;
}

void native_files_on_forget(struct native_files *files, void (*forget)(void *context, uint64_t note),
                            void *context)
{
    files->forget = forget;
    files->context = context;
}

static void forget_table(struct native_files *files, struct native_file *file)
{
    if (file->note && files->forget)
        files->forget(files->context, file->note);
    unwind_table_free(file->table);
    file->table = NULL;
    file->tried_table = false;
    file->note = 0;
}

static void close_lines(struct native_files *files, struct native_file *file)
{
    lines_free(file->lines);
    file->lines = NULL;
    files->lines_cost -= file->lines_cost;
    file->lines_cost = 0;
    file->tried_lines = false;
}

static void file_free(struct native_files *files, struct native_file *file)
{
    close_lines(files, file);
    elf_free(file->elf);
    elf_free(file->debug);
    unwind_table_free(file->table);
    facts_done(&file->facts);
    free(file);
}

void native_files_free(struct native_files *files)
{
    if (!files)
        return;
    array_foreach (&files->list, f)
        file_free(files, *f);
    array_done(&files->list);
    map_done(&files->index);
    free(files);
}

/* The place of a file in the index: its own, or where it would be. NULL when memory ran out. */
static uint64_t *index_place(struct native_files *files, uint64_t device, uint64_t inode, uint64_t start)
{
    uint64_t identity[3] = {device, inode, start};
    for (uint64_t key = map_hash(identity, sizeof(identity));; key++) {
        uint64_t *at = map_put(&files->index, key, NULL);
        const struct native_file *f = at ? (const struct native_file *)(uintptr_t)*at : NULL;
        if (!f || (f->device == device && f->inode == inode && f->start == start))
            return at;
    }
}

static size_t index_bytes(const struct native_file *file)
{
    return (file->elf ? elf_index_bytes(file->elf) : 0) + (file->debug ? elf_index_bytes(file->debug) : 0);
}

static int by_use(const void *a, const void *b)
{
    const struct native_file *const *x = a, *const *y = b;
    return (*x)->used < (*y)->used ? -1 : (*x)->used > (*y)->used;
}

/* What its user noted stays when the file can be told from another one that gets its inode. */
static void close_file(struct native_files *files, struct native_file *file)
{
    snprintf(file->closed, sizeof(file->closed), "%s", elf_build_id(file->elf));
    close_lines(files, file);
    elf_free(file->elf);
    elf_free(file->debug);
    file->elf = file->debug = NULL;
    file->refused = 0;
    file->tried_debug = false;
    if (!file->table || !file->table->borrowed)
        forget_table(files, file);
}

/* Opened again: is it the one that was closed? */
static void compare_closed(struct native_files *files, struct native_file *file)
{
    if (!*file->closed || (file->elf && strcmp(elf_build_id(file->elf), file->closed) == 0))
        return;
    forget_table(files, file);
    facts_done(&file->facts);
    file->serial = ++files->serials;
}

void native_files_trim(struct native_files *files, size_t closed)
{
    size_t unused = 0, bytes = 0, kept = 0, known = 0;
    if (files->list.count)
        qsort(files->list.at, files->list.count, sizeof(*files->list.at), by_use);
    array_foreach (&files->list, f) {
        unused += !(*f)->users && (*f)->elf;
        known += !(*f)->users && !(*f)->elf;
        bytes += index_bytes(*f);
    }
    known += unused > UNUSED_FILES ? unused - UNUSED_FILES : 0;
    map_clear(&files->index);
    array_foreach (&files->list, f) { /* the longest unused first */
        struct native_file *file = *f;
        if (bytes > INDEX_BUDGET && index_bytes(file)) {
            bytes -= index_bytes(file);
            elf_forget_indexes(file->elf);
            elf_free(file->debug);
            file->debug = NULL;
            file->tried_debug = false;
            close_lines(files, file); /* they may be the debug file's */
        }
        if (!file->users && file->elf && unused > UNUSED_FILES) {
            unused--;
            bytes -= index_bytes(file);
            close_file(files, file);
        }
        bool ended = !file->users && !file->elf;
        if (ended && (known > closed || !*file->closed || !file->note)) {
            known--;
            forget_table(files, file);
            file_free(files, file);
            continue;
        }
        *index_place(files, file->device, file->inode, file->start) = (uintptr_t)file; /* it had held all */
        files->list.at[kept++] = file;
    }
    files->list.count = kept;
}

void native_files_visit(struct native_files *files, void (*visit)(void *context, struct native_file *file),
                        void *context)
{
    array_foreach (&files->list, f)
        visit(context, *f);
}

size_t native_files_too_large(const struct native_files *files)
{
    return files->too_large;
}

bool stack_word(const struct stack_copy *stack, uint64_t address, uint64_t *ret_word)
{
    if (address < stack->start || address - stack->start > stack->size ||
        stack->size - (address - stack->start) < 8)
        return false;
    memcpy(ret_word, stack->bytes + (address - stack->start), 8);
    return true;
}

/* Load biases come from files, which are open already when another process has mapped them. */
static void place_modules(struct native *native)
{
    array_foreach (&native->modules.list, m) {
        struct native_file *file = m->executable ? native_file_of(native, m) : NULL;
        if (file)
            modules_place(&native->modules, m, file->elf);
    }
}

int native_open_shared(pid_t pid, struct native_files *files, struct native **ret_native,
                       struct problem *problem)
{
    struct native *native = calloc(1, sizeof(*native));
    if (!native)
        return problem_set(problem, -ENOMEM, "out of memory");
    native->files = files;
    int r = modules_list_pid(pid, &native->modules, problem);
    if (r < 0) {
        free(native);
        return r;
    }
    place_modules(native);
    *ret_native = native;
    return 0;
}

int native_open_modules(struct modules *modules, struct native_files *files, struct native **ret_native)
{
    struct native *native = calloc(1, sizeof(*native));
    if (!native) {
        modules_done(modules);
        return -ENOMEM;
    }
    native->files = files;
    native_take_modules(native, modules);
    *ret_native = native;
    return 0;
}

int native_open(pid_t pid, struct native **ret_native, struct problem *problem)
{
    struct native_files *files = NULL;
    if (native_files_new(&files) < 0)
        return problem_set(problem, -ENOMEM, "out of memory");
    int r = native_open_shared(pid, files, ret_native, problem);
    if (r < 0)
        native_files_free(files);
    else
        (*ret_native)->own_files = true;
    return r;
}

void native_free(struct native *native)
{
    if (!native)
        return;
    array_foreach (&native->held, f)
        (*f)->users--;
    array_done(&native->held);
    array_done(&native->of_module);
    if (native->own_files)
        native_files_free(native->files);
    modules_done(&native->modules);
    free(native);
}

int native_refresh(struct native *native)
{
    struct modules modules;
    int r = modules_list_pid(native->modules.pid, &modules, NULL);
    if (r < 0)
        return r;
    if (!modules.mappings.count || /* it ended */
        (native->modules.started_ticks && modules.started_ticks != native->modules.started_ticks)) {
        modules_done(&modules);
        return -ESRCH;
    }
    native_take_modules(native, &modules);
    return 0;
}

void native_take_modules(struct native *native, struct modules *modules)
{
    modules_done(&native->modules);
    array_done(&native->of_module);
    native->modules = *modules;
    *modules = (struct modules){0};
    place_modules(native);
}

const struct modules *native_modules(const struct native *native)
{
    return &native->modules;
}

static struct native_file *file_of(struct native_files *files, const struct module *module)
{
    uint64_t start = module->inode || modules_is_own_vdso(module) ? 0 : module->start,
             *at = index_place(files, module->device, module->inode, start);
    if (!at)
        return NULL;
    if (*at)
        return (struct native_file *)(uintptr_t)*at;
    struct native_file *file = calloc(1, sizeof(*file));
    if (!file)
        return NULL;
    *file = (struct native_file){
        .device = module->device, .inode = module->inode, .start = start, .serial = ++files->serials};
    if (array_add(&files->list, file) < 0) {
        free(file);
        return NULL;
    }
    *at = (uintptr_t)file;
    return file;
}

bool native_files_know(struct native_files *files, const struct modules *modules)
{
    array_foreach (&modules->list, m) {
        const struct native_file *file = m->executable ? file_of(files, m) : NULL;
        if (m->executable && (!file || !file->elf))
            return false;
    }
    return true;
}

/* As long as the native lives, the file is not closed: what it runs may point into it. */
static struct native_file *hold(struct native *native, struct native_file *file)
{
    array_foreach (&native->held, f)
        if (*f == file)
            return file;
    if (!file || array_add(&native->held, file) < 0)
        return NULL;
    file->users++;
    return file;
}

static struct native_file *held_file(struct native *native, const struct module *module)
{
    size_t place = (size_t)(module - native->modules.list.at);
    while (native->of_module.count < native->modules.list.count)
        if (array_add(&native->of_module, NULL) < 0)
            return NULL;
    struct native_file **of = &native->of_module.at[place];
    if (!*of)
        *of = hold(native, file_of(native->files, module));
    return *of;
}

struct native_file *native_file_of(struct native *native, const struct module *module)
{
    struct native_file *file = held_file(native, module);
    if (!file)
        return NULL;
    file->used = ++native->files->askings;
    if (!file->elf && file->refused != native->modules.pid) { /* what one process hides, another may show */
        if (modules_open(&native->modules, module, &file->elf, NULL) < 0) {
            file->elf = NULL;
            file->refused = native->modules.pid;
        } else {
            compare_closed(native->files, file);
        }
    }
    return file->elf ? file : NULL;
}

uint64_t native_file_serial(const struct native_file *file)
{
    return file->serial;
}

struct elf *native_file_elf(struct native_file *file)
{
    return file->elf;
}

struct unwind_table *native_file_table(struct native_file *file)
{
    if (!file->tried_table) {
        file->tried_table = true;
        if (unwind_table_read(file->elf, &file->table) < 0)
            file->table = NULL;
    }
    return file->table;
}

bool native_file_met(const struct native_file *file)
{
    return file->tried_table;
}

int native_file_fact(struct native_file *file, fact_reader reader, size_t size, const void **ret_fact)
{
    return facts_of(&file->facts, file->elf, reader, size, ret_fact);
}

uint64_t *native_file_note(struct native_file *file)
{
    return &file->note;
}

struct native_file *native_loaded_at(struct native *native, uint64_t pc, uint64_t *ret_address,
                                     const struct module **ret_module)
{
    const struct mapping *mapping;
    const struct module *module = modules_at(&native->modules, pc, &mapping);
    struct native_file *file = module && mapping->has_bias ? native_file_of(native, module) : NULL;
    if (!file)
        return NULL;
    *ret_address = pc - mapping->load_bias;
    if (ret_module)
        *ret_module = module;
    return file;
}

struct elf *native_file_at(struct native *native, uint64_t pc, uint64_t *ret_address,
                           const struct module **ret_module)
{
    struct native_file *file = native_loaded_at(native, pc, ret_address, ret_module);
    return file ? file->elf : NULL;
}

/* push rbp; mov rbp, rsp: the caller's frame pointer at rbp, the return address above it. */
static enum native_step step_frame_pointer(const struct stack_copy *stack, struct registers *r,
                                           enum native_step why)
{
    uint64_t fp, pc;
    if (r->fp <= r->sp || r->fp % 8 || !stack_word(stack, r->fp, &fp) || !stack_word(stack, r->fp + 8, &pc) ||
        !pc)
        return why;
    *r = (struct registers){.pc = pc, .sp = r->fp + 16, .fp = fp};
    return STEP_CALLER;
}

/* Does the code before an address end in a call? */
static bool follows_call(struct native *native, uint64_t pc)
{
    uint64_t address, bytes;
    struct native_file *file = pc > 8 ? native_loaded_at(native, pc - 1, &address, NULL) : NULL;
    return file && elf_read(file->elf, address - 7, &bytes, sizeof(bytes)) == 0 && unwind_follows_call(bytes);
}

/* See CFA_RESOLVE. */
static enum native_step step_resolve(struct native *native, const struct stack_copy *stack,
                                     struct registers *r)
{
    uint64_t map, number, pc;
    for (uint64_t at = (r->sp & ~15ull) + 8; at < r->sp + UNWIND_RESOLVE_BYTES; at += 16) {
        if (!stack_word(stack, at - 16, &map) || !stack_word(stack, at - 8, &number) ||
            !stack_word(stack, at, &pc))
            return STEP_NO_STACK;
        if (map < 4096 || map % 8 || number >= UNWIND_RESOLVE_INDEX || !follows_call(native, pc))
            continue;
        *r = (struct registers){.pc = pc, .sp = at + 8, .fp = r->fp};
        return STEP_CALLER;
    }
    return STEP_NO_TABLE;
}

/* Assembly without rules, innermost: what called it lies near the top of the stack. */
static enum native_step step_leaf(struct native *native, const struct stack_copy *stack, struct registers *r)
{
    uint64_t pc;
    for (uint64_t at = r->sp; at < r->sp + 8 * UNWIND_LEAF_WORDS && stack_word(stack, at, &pc); at += 8)
        if (follows_call(native, pc)) {
            *r = (struct registers){.pc = pc, .sp = at + 8, .fp = r->fp};
            return STEP_CALLER;
        }
    return step_frame_pointer(stack, r, STEP_NO_TABLE);
}

enum native_step native_step(struct native *native, const struct stack_copy *stack,
                             struct registers *registers, bool call)
{
    struct registers r = *registers;
    uint64_t address, cfa, slot;
    struct native_file *file = native_loaded_at(native, r.pc - call, &address, NULL);
    if (!file)
        return STEP_NO_MODULE;
    const struct unwind_table *table = native_file_table(file);
    const struct unwind_row *row = table ? unwind_table_find(table, address) : NULL;
    switch (row ? row->rule & 15 : CFA_GAP) {
    case CFA_RSP:
        cfa = r.sp + (uint64_t)(int64_t)row->cfa_offset;
        break;
    case CFA_RSP_WORDS:
        cfa = r.sp + 8 * (uint64_t)(int64_t)row->cfa_offset;
        break;
    case CFA_RBP:
        cfa = r.fp + (uint64_t)(int64_t)row->cfa_offset;
        break;
    case CFA_PLT:
        cfa = r.sp + 8 + ((address & 15) >= 11 ? 8 : 0);
        break;
    case CFA_DEREF:
        if (!stack_word(stack, r.fp + (uint64_t)(int64_t)row->cfa_offset, &cfa))
            return STEP_NO_STACK;
        break;
    case CFA_SIGNAL: { /* ucontext: rbp at 120, rsp at 160, rip at 168 */
        uint64_t context = r.sp + (uint64_t)(int64_t)row->cfa_offset;
        if (!stack_word(stack, context + 120, &registers->fp) ||
            !stack_word(stack, context + 160, &registers->sp) ||
            !stack_word(stack, context + 168, &registers->pc))
            return STEP_NO_STACK;
        return STEP_CALLER;
    }
    case CFA_END:
        return STEP_END;
    case CFA_RESOLVE:
        return step_resolve(native, stack, registers);
    default:
        return call ? step_frame_pointer(stack, registers, STEP_NO_TABLE)
                    : step_leaf(native, stack, registers);
    }
    if (!stack_word(stack, cfa - 8, &r.pc))
        return STEP_NO_STACK;
    switch (row->rule >> 4) {
    case RBP_AT_CFA:
        slot = cfa + (uint64_t)(row->rbp_offset * 8l);
        break;
    case RBP_AT_RBP:
        slot = r.fp + (uint64_t)(row->rbp_offset * 8l);
        break;
    default:
        slot = 0;
    }
    if (slot && !stack_word(stack, slot, &r.fp))
        return STEP_NO_STACK;
    if (r.pc == 0)
        return STEP_END;
    /* A frame that does not shrink the stack would be walked for ever; the innermost one may have taken its
     * return address off (vfork). */
    if (cfa < registers->sp || (cfa == registers->sp && call))
        return STEP_NO_TABLE;
    r.sp = cfa;
    *registers = r;
    return STEP_CALLER;
}

static void find_debug(struct native *native, struct native_file *file, const struct module *module)
{
    if (file->tried_debug)
        return;
    file->tried_debug = true;
    if (debugfile_open(native->modules.pid, module->path, file->elf, &file->debug) < 0)
        file->debug = NULL;
}

/* Others' are closed, the longest unused first, until there is room for one more. */
static void make_room(struct native_files *files, size_t cost)
{
    while (files->lines_cost && files->lines_cost + cost > LINES_BUDGET) {
        struct native_file *oldest = NULL;
        array_foreach (&files->list, f)
            if ((*f)->lines && (!oldest || (*f)->used < oldest->used))
                oldest = *f;
        if (!oldest)
            return;
        close_lines(files, oldest);
    }
}

static int open_lines(struct native *native, struct native_file *file, struct elf *elf)
{
    struct native_files *files = native->files;
    size_t cost = lines_cost(elf);
    if (cost > LINES_LIMIT && !native->own_files) { /* of one process, for one answer, it may */
        files->too_large++;
        return -EFBIG;
    }
    make_room(files, cost);
    int r = lines_open(elf, &file->lines);
    if (r < 0) {
        file->lines = NULL;
        return r;
    }
    file->lines_cost = cost;
    files->lines_cost += cost;
    return 0;
}

/* The lines of the file that holds pc, from itself or its debug file; NULL: it has none. */
static struct lines *lines_of(struct native *native, uint64_t pc, uint64_t *ret_address)
{
    const struct module *module;
    struct native_file *file = native_loaded_at(native, pc, ret_address, &module);
    if (!file)
        return NULL;
    if (!file->tried_lines) {
        file->tried_lines = true;
        if (open_lines(native, file, file->elf) == -ENOENT) {
            find_debug(native, file, module);
            if (file->debug)
                (void)open_lines(native, file, file->debug);
        }
    }
    return file->lines;
}

int native_line_at(struct native *native, uint64_t pc, bool function, struct line_position *ret_position)
{
    uint64_t address;
    struct lines *lines = lines_of(native, pc, &address);
    return lines ? lines_find(lines, address, function, ret_position) : -ENOENT;
}

size_t native_inlined_at(struct native *native, uint64_t pc, struct line_inlined *ret_list, size_t limit)
{
    uint64_t address;
    struct lines *lines = lines_of(native, pc, &address);
    return lines ? lines_inlined(lines, address, ret_list, limit) : 0;
}

int native_symbol_at(struct native *native, uint64_t pc, struct elf_symbol *ret_symbol)
{
    uint64_t address;
    const struct module *module;
    struct elf_section symtab;
    struct native_file *file = native_loaded_at(native, pc, &address, &module);
    if (!file)
        return -ENOENT;
    if (elf_section_named(file->elf, ".symtab", &symtab) < 0)
        find_debug(native, file, module);
    /* The debug file knows static functions, too: better than the nearest exported one. */
    if (file->debug && elf_symbol_at(file->debug, address, ret_symbol) == 0)
        return 0;
    if (elf_symbol_at(file->elf, address, ret_symbol) == 0)
        return 0;
    for (const struct row_source *const *source = ROW_SOURCES; *source; source++) {
        const char *name = (*source)->name(file->elf, address);
        if (!name)
            continue;
        *ret_symbol = (struct elf_symbol){.name = name, .value = address};
        return 0;
    }
    return -ENOENT;
}

void native_place(const struct elf *elf, const struct module *module, uint64_t address, char *buffer,
                  size_t size)
{
    const char *slash = strrchr(module->path, '/'), *linked = stripped_linkage(elf, address & ~15ull);
    uint64_t start = address;
    (void)stripped_function_of(elf, address, &start);
    if (linked)
        snprintf(buffer, size, "%.200s@plt", linked);
    else
        snprintf(buffer, size, "%.200s+0x%" PRIx64, slash ? slash + 1 : module->path, start);
}

char *native_name(struct native *native, uint64_t pc, bool call)
{
    uint64_t address;
    const struct module *module;
    struct elf_symbol symbol;
    char text[300];
    struct elf *elf = native_file_at(native, pc - call, &address, &module);
    if (!elf) {
        snprintf(text, sizeof(text), "0x%" PRIx64, pc);
        return strdup(text);
    }
    if (native_symbol_at(native, pc - call, &symbol) == 0)
        return demangle_or_copy(symbol.name, false);
    native_place(elf, module, address, text, sizeof(text));
    return strdup(text);
}
