/* What a process has mapped, from /proc/PID/maps. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/modules.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "base/map.h"
#include "base/proc_code.h"
#include "base/process_file.h"
#include "symbol/memory.h"

#define MAPS_LIMIT (256u << 20)
#define VDSO_LIMIT (1u << 20)

/* A path in maps is octal-escaped where it holds a newline, and ends in " (deleted)" when it was unlinked. */
static char *clean_path(const char *at, size_t length, bool *ret_deleted)
{
    static const char mark[] = " (deleted)";
    *ret_deleted =
        length > sizeof(mark) - 1 && memcmp(at + length - (sizeof(mark) - 1), mark, sizeof(mark) - 1) == 0;
    if (*ret_deleted)
        length -= sizeof(mark) - 1;
    char *path = malloc(length + 1), *to = path;
    for (size_t i = 0; path && i < length; i++) {
        if (at[i] == '\\' && length - i >= 4 && memcmp(at + i, "\\012", 4) == 0) {
            *to++ = '\n';
            i += 3;
        } else {
            *to++ = at[i];
        }
    }
    if (path)
        *to = '\0';
    return path;
}

/* The module of a file, added when it is new. */
static int module_of(struct modules *modules, struct map *known, const struct mapping *mapping,
                     uint64_t device, uint64_t inode, const char *path, size_t length, uint32_t *ret_index)
{
    uint64_t identity[2] = {device, inode};
    bool added;
    uint64_t *index =
        map_put(known, inode ? map_hash(identity, sizeof(identity)) : map_hash(path, length), &added);
    if (!index)
        return -ENOMEM;
    if (added) {
        struct module module = {
            .device = device, .inode = inode, .start = mapping->start, .first_offset = mapping->offset};
        module.path = clean_path(path, length, &module.deleted);
        if (!module.path || array_add(&modules->list, module) < 0) {
            free(module.path);
            return -ENOMEM;
        }
        *index = modules->list.count - 1;
    }
    struct module *module = &modules->list.at[*index];
    module->end = mapping->end;
    module->executable |= mapping->executable;
    *ret_index = (uint32_t)*index;
    return 0;
}

static int add_mapping(struct modules *modules, struct map *known, const struct proc_mapping *line)
{
    struct mapping mapping = {.start = line->start,
                              .end = line->end,
                              .offset = line->offset,
                              .module = UINT32_MAX,
                              .readable = line->readable,
                              .writable = line->writable,
                              .executable = line->executable,
                              .shared = line->shared};
    bool vdso = line->path_length == 6 && memcmp(line->path, "[vdso]", 6) == 0;
    if ((line->inode && line->path_length) || vdso) {
        int r = module_of(modules, known, &mapping, makedev(line->major, line->minor), line->inode,
                          line->path, line->path_length, &mapping.module);
        if (r < 0)
            return r;
    }
    return array_add(&modules->mappings, mapping);
}

/* The bias of a mapping: the address in the file of what it maps, taken from where it is mapped. Mappings
 * begin at page borders, segments need not. */
static bool mapping_bias(const struct elf *elf, struct mapping *mapping)
{
    struct elf_segment s;
    for (size_t i = 0; elf_segment_at(elf, i, &s) == 0; i++)
        if (s.type == PT_LOAD && s.flags & PF_X && (s.offset & ~0xfffull) <= mapping->offset &&
            mapping->offset < s.offset + s.file_size) {
            mapping->load_bias = mapping->start - mapping->offset + s.offset - s.address;
            return true;
        }
    return false;
}

void modules_place(struct modules *modules, struct module *module, const struct elf *elf)
{
    uint32_t index = (uint32_t)(module - modules->list.at);
    array_foreach (&modules->mappings, m) {
        if (m->module != index || !m->executable || !mapping_bias(elf, m))
            continue;
        m->has_bias = true;
        if (!module->has_bias)
            module->load_bias = m->load_bias;
        module->has_bias = true;
    }
}

static void find_biases(struct modules *modules, struct module *module)
{
    _cleanup_(elf_freep) struct elf *elf = NULL;
    if (modules_open(modules, module, &elf, NULL) == 0)
        modules_place(modules, module, elf);
}

int modules_refused(pid_t pid, int error, struct problem *problem)
{
    problem_set(problem, error, "process %d: cannot read its mappings: %s", pid, strerror(-error));
    if (error == -EACCES || error == -EPERM)
        problem_remedy(problem, "Run as root, or as the user who owns the process.");
    return error;
}

int modules_parse(struct proc *proc, const char *maps, size_t length, bool opens, struct modules *ret_modules,
                  struct problem *problem)
{
    struct modules modules = {.pid = proc->pid, .proc = proc_ref(proc)};
    struct map known = {0};
    struct proc_mapping line;
    const char *at = maps;
    int r = 0;
    while (r == 0 && proc_next_mapping(&at, maps + length, &line))
        r = add_mapping(&modules, &known, &line);
    map_done(&known);
    if (r < 0) {
        modules_done(&modules);
        return problem_set(problem, r, "process %d: out of memory", proc->pid);
    }
    array_foreach (&modules.list, m)
        if (opens && m->executable)
            find_biases(&modules, m);
    *ret_modules = modules;
    return 0;
}

static int read_maps(struct proc *proc, bool opens, struct modules *ret_modules, struct problem *problem)
{
    _cleanup_(freep) char *text = NULL;
    size_t length;
    int r = proc_read(proc, "maps", MAPS_LIMIT, &text, &length);
    return r < 0 ? modules_refused(proc->pid, r, problem)
                 : modules_parse(proc, text, length, opens, ret_modules, problem);
}

/* The executable ones; where they cannot be asked for, all. */
static int list_code(struct proc *proc, struct modules *ret_modules, struct problem *problem)
{
    char name[PROC_CODE_NAME];
    _cleanup_(file_closep) int maps = proc_file_open(proc, "maps", O_RDONLY);
    if (maps < 0)
        return modules_refused(proc->pid, maps, problem);
    struct modules modules = {.pid = proc->pid, .proc = proc_ref(proc)};
    struct map known = {0};
    struct proc_mapping line = {0};
    int r;
    while ((r = proc_code_at(maps, line.end, name, &line)) > 0)
        if (add_mapping(&modules, &known, &line) < 0) {
            r = -ENOMEM;
            break;
        }
    map_done(&known);
    if (r == 0)
        *ret_modules = modules;
    else
        modules_done(&modules);
    return r == 0 || r == -ENOMEM ? r : read_maps(proc, false, ret_modules, problem);
}

int modules_read(struct proc *proc, struct modules *ret_modules, struct problem *problem)
{
    return read_maps(proc, true, ret_modules, problem);
}

int modules_list(struct proc *proc, struct modules *ret_modules, struct problem *problem)
{
    return list_code(proc, ret_modules, problem);
}

static int read_pid(pid_t pid, bool opens, struct modules *ret_modules, struct problem *problem)
{
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    struct proc_stat stat = {0};
    memory_forget(pid);
    int r = proc_open(pid, &proc);
    if (r >= 0)
        r = proc_read_stat(proc, 0, &stat);
    if (r < 0)
        return problem_set(problem, r, "process %d: cannot read its mappings: %s", pid, strerror(-r));
    r = opens ? read_maps(proc, true, ret_modules, problem) : list_code(proc, ret_modules, problem);
    if (r < 0)
        return r;
    ret_modules->started_ticks = stat.started_ticks;
    proc_unref(ret_modules->proc);
    ret_modules->proc = NULL;
    return 0;
}

int modules_read_pid(pid_t pid, struct modules *ret_modules, struct problem *problem)
{
    return read_pid(pid, true, ret_modules, problem);
}

int modules_list_pid(pid_t pid, struct modules *ret_modules, struct problem *problem)
{
    return read_pid(pid, false, ret_modules, problem);
}

/* The process, for a moment; NULL when it is gone. */
static struct proc *proc_of(const struct modules *modules)
{
    struct proc *proc = NULL;
    struct proc_stat stat;
    if (modules->proc)
        return proc_ref(modules->proc);
    if (!modules->started_ticks || proc_open(modules->pid, &proc) < 0)
        return NULL;
    if (proc_read_stat(proc, 0, &stat) == 0 && stat.started_ticks == modules->started_ticks)
        return proc;
    proc_unref(proc);
    return NULL;
}

static int by_address(const void *a, const void *b)
{
    const struct mapping *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Makes room in [start, end): what was mapped there is cut or gone. */
static int make_room(struct modules *modules, uint64_t start, uint64_t end)
{
    size_t kept = 0, count = modules->mappings.count;
    if (!count)
        return 0;
    for (size_t i = 0; i < count; i++) {
        struct mapping m = modules->mappings.at[i], tail = m;
        if (m.end <= start || m.start >= end) {
            modules->mappings.at[kept++] = m;
            continue;
        }
        if (m.end > end) {
            tail.offset += end - m.start;
            tail.start = end;
        }
        if (m.start < start) {
            m.end = start;
            modules->mappings.at[kept++] = m;
            if (tail.start == end && array_add(&modules->mappings, tail) < 0)
                return -ENOMEM;
        } else if (tail.start == end) {
            modules->mappings.at[kept++] = tail;
        }
    }
    size_t added = modules->mappings.count - count; /* tails, at the end */
    if (added)
        memmove(modules->mappings.at + kept, modules->mappings.at + count,
                added * sizeof(*modules->mappings.at));
    modules->mappings.count = kept + added;
    return 0;
}

int modules_from_notes(pid_t pid, const struct mapping_note *notes, size_t count, bool opens,
                       struct modules *ret_modules)
{
    struct modules modules = {.pid = pid};
    struct map known = {0};
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct mapping_note *n = &notes[i];
        struct mapping mapping = {.start = n->start,
                                  .end = n->end,
                                  .offset = n->offset,
                                  .module = UINT32_MAX,
                                  .readable = true,
                                  .executable = true};
        if (n->start >= n->end)
            continue;
        r = make_room(&modules, n->start, n->end);
        if (r == 0 && n->path && (n->inode || strcmp(n->path, "[vdso]") == 0))
            r = module_of(&modules, &known, &mapping, n->device, n->inode, n->path, strlen(n->path),
                          &mapping.module);
        if (r == 0)
            r = array_add(&modules.mappings, mapping);
    }
    map_done(&known);
    if (r < 0) {
        modules_done(&modules);
        return r;
    }
    if (modules.mappings.count)
        qsort(modules.mappings.at, modules.mappings.count, sizeof(*modules.mappings.at), by_address);
    array_foreach (&modules.list, m)
        if (opens)
            find_biases(&modules, m);
    *ret_modules = modules;
    return 0;
}

void modules_done(struct modules *modules)
{
    proc_unref(modules->proc);
    modules->proc = NULL;
    array_foreach (&modules->list, m)
        free(m->path);
    array_done(&modules->list);
    array_done(&modules->mappings);
}

int modules_copy(const struct modules *from, struct proc *proc, struct modules *ret_modules)
{
    struct modules copy = {.pid = proc ? proc->pid : from->pid, .proc = proc ? proc_ref(proc) : NULL};
    int r = 0;
    array_foreach (&from->list, m) {
        struct module module = *m;
        module.path = r < 0 ? NULL : strdup(m->path);
        if (r == 0 && (!module.path || array_add(&copy.list, module) < 0)) {
            free(module.path);
            r = -ENOMEM;
        }
    }
    array_foreach (&from->mappings, m)
        if (r == 0)
            r = array_add(&copy.mappings, *m);
    if (r < 0)
        modules_done(&copy);
    else
        *ret_modules = copy;
    return r;
}

const struct mapping *modules_mapping_at(const struct modules *modules, uint64_t address)
{
    size_t low = 0, high = modules->mappings.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (modules->mappings.at[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const struct mapping *m = modules->mappings.at + low;
    return low < modules->mappings.count && m->start <= address ? m : NULL;
}

const struct module *modules_at(const struct modules *modules, uint64_t address,
                                const struct mapping **ret_mapping)
{
    const struct mapping *m = modules_mapping_at(modules, address);
    if (ret_mapping)
        *ret_mapping = m;
    return m && m->module != UINT32_MAX ? &modules->list.at[m->module] : NULL;
}

const struct module *modules_named(const struct modules *modules, const char *prefix)
{
    array_foreach (&modules->list, m) {
        const char *slash = strrchr(m->path, '/');
        if (strncmp(slash ? slash + 1 : m->path, prefix, strlen(prefix)) == 0)
            return m;
    }
    return NULL;
}

const struct module *modules_main(const struct modules *modules)
{
    struct stat st = {.st_ino = modules->program};
    _cleanup_(proc_unrefp) struct proc *proc = modules->program ? NULL : proc_of(modules);
    _cleanup_(file_closep) int lent = proc ? proc_ask(proc, PROC_PROGRAM, NULL, 0, 0) : -1;
    int r = lent >= 0 ? fstat(lent, &st) : proc ? fstatat(proc->directory, "exe", &st, 0) : -1;
    if (!modules->program && r < 0)
        return NULL;
    array_foreach (&modules->list, m)
        if (m->inode == st.st_ino && m->executable)
            return m;
    return NULL;
}

/* How far the vDSO reaches that the kernel gave us; 0: it gave none. */
static size_t own_vdso_bytes(void)
{
    static size_t bytes;
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
    if (bytes || !head)
        return bytes;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)((const char *)head + head->e_phoff);
    bytes = head->e_shoff + (size_t)head->e_shentsize * head->e_shnum;
    for (size_t i = 0; i < head->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD)
            bytes = MAX(bytes, segments[i].p_offset + segments[i].p_filesz);
    return bytes;
}

bool modules_is_own_vdso(const struct module *module)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), own = (own_vdso_bytes() + page - 1) / page * page;
    return own && module->start >> 32 && module->end - module->start == own && !module->inode &&
           strcmp(module->path, "[vdso]") == 0;
}

static int open_vdso(const struct modules *modules, const struct module *module, struct elf **ret_elf,
                     struct problem *problem)
{
    size_t size = module->end - module->start;
    if (size > VDSO_LIMIT)
        return problem_set(problem, -EFBIG, "process %d: no vDSO is that large", modules->pid);
    char *copy = malloc(size);
    if (!copy)
        return -ENOMEM;
    _cleanup_(proc_unrefp) struct proc *proc = proc_of(modules);
    int r = proc ? memory_read(modules->pid, module->start, copy, size) : -ESRCH;
    if (proc && !proc_exists(proc))
        r = -ESRCH; /* who was read? */
    uint64_t own = getauxval(AT_SYSINFO_EHDR);
    if ((r == -ESRCH || r == -EPERM) && own && size <= 16384) /* it has ended, or its memory is not lent */
        r = memory_read(getpid(), own, copy, size);           /* the kernel has one for all */
    if (r < 0) {
        free(copy);
        return problem_set(problem, r, "process %d: cannot read the vDSO: %s", modules->pid, strerror(-r));
    }
    return elf_open_taken(copy, size, "[vdso]", ret_elf, problem);
}

/* By its name, seen from the process; from us when it has ended: its root was ours, or is not to be had. */
static int open_named(const struct modules *modules, const struct module *module)
{
    _cleanup_(proc_unrefp) struct proc *proc = proc_of(modules);
    int fd = proc ? process_file_of(proc, module->path) : -ESRCH;
    if ((fd != -ENOENT && fd != -ESRCH) || module->path[0] != '/')
        return fd;
    return process_file_of(NULL, module->path);
}

/* A descriptor of the mapped file. */
static int open_file(const struct modules *modules, const struct module *module, struct problem *problem)
{
    const struct mapping *mapping = modules_mapping_at(modules, module->start);
    _cleanup_(proc_unrefp) struct proc *proc = proc_of(modules);
    int fd = mapping && proc ? process_mapped_open(proc, mapping->start, mapping->end) : -ENOENT;
    if (fd >= 0)
        return fd;
    fd = open_named(modules, module);
    if (fd < 0)
        return problem_set(problem, fd, "%s (of process %d): %s", module->path, modules->pid, strerror(-fd));
    struct stat st;
    if (fstat(fd, &st) < 0 || st.st_ino != module->inode) {
        close(fd);
        return problem_set(problem, -ESTALE, "%s: replaced since process %d mapped it", module->path,
                           modules->pid);
    }
    return fd;
}

int modules_open(const struct modules *modules, const struct module *module, struct elf **ret_elf,
                 struct problem *problem)
{
    if (modules_is_own_vdso(module)) /* ours stays where it is */
        return elf_open_bytes((const void *)getauxval(AT_SYSINFO_EHDR), own_vdso_bytes(), "[vdso]", ret_elf,
                              problem);
    if (strcmp(module->path, "[vdso]") == 0)
        return open_vdso(modules, module, ret_elf, problem);
    int fd = open_file(modules, module, problem);
    if (fd < 0)
        return fd;
    int r = elf_open_fd(fd, module->path, ret_elf, problem);
    close(fd);
    return r;
}

uint64_t modules_file_key(const struct modules *modules, const struct module *module)
{
    if (strcmp(module->path, "[vdso]") == 0)
        return map_hash("[vdso]", 6);
    int fd = open_file(modules, module, NULL);
    struct stat st;
    if (fd < 0)
        return 0;
    int r = fstat(fd, &st);
    close(fd);
    if (r < 0)
        return 0;
    uint64_t identity[5] = {st.st_dev, st.st_ino, (uint64_t)st.st_size, (uint64_t)st.st_ctim.tv_sec,
                            (uint64_t)st.st_ctim.tv_nsec};
    uint64_t key = map_hash(identity, sizeof(identity));
    return key ? key : 1;
}
