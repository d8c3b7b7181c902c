/* See inject.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "attach/call.h"
#include "attach/loaded.h"
#include "base/file.h"
#include "base/map.h"
#include "base/process_file.h"

/* The same probe for loaders that give no static TLS to what is opened later (musl). */
#define PROBE_DYNAMIC "libsonde-probe-dynamic.so"

#ifndef MFD_EXEC
#define MFD_EXEC 16u /* Linux 6.3 */
#endif

/* The file in a memfd that nobody can change. */
static int seal_file(const char *path, int *ret_fd)
{
    _cleanup_(freep) char *data = NULL;
    size_t size;
    int r = file_read(path, 64 << 20, &data, &size);
    if (r < 0)
        return r;
    int fd = memfd_create(PROBE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(PROBE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    r = file_write_all(fd, data, size);
    if (r == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        r = -errno;
    if (r < 0)
        close(fd);
    else
        *ret_fd = fd;
    return r;
}

enum { PLAIN, DYNAMIC, KINDS };

/* The probe as given, or its sister for musl beside it. */
static void path_of(const struct probe_files *files, size_t kind, char path[static PATH_MAX])
{
    const char *slash = strrchr(files->path, '/');
    int folder = slash ? (int)(slash + 1 - files->path) : 0;
    if (kind == DYNAMIC)
        snprintf(path, PATH_MAX, "%.*s" PROBE_DYNAMIC, folder, files->path);
    else
        snprintf(path, PATH_MAX, "%s", files->path);
}

struct probe_files probe_files_of(const char *path)
{
    return (struct probe_files){.path = path};
}

static void forget(struct probe_file *file)
{
    if (file->elf)
        close(file->sealed);
    elf_free(file->elf);
    *file = (struct probe_file){0};
}

void probe_files_done(struct probe_files *files)
{
    for (size_t i = 0; i < KINDS; i++)
        forget(&files->file[i]);
}

static int open_sealed(const char *path, struct probe_file *file, struct problem *problem)
{
    struct probe_file opened = {0};
    struct elf_symbol stub;
    int r = seal_file(path, &opened.sealed);
    if (r < 0)
        return problem_set(problem, r, "%s: %s", path, strerror(-r));
    r = elf_open_fd(opened.sealed, path, &opened.elf, problem);
    if (r < 0) {
        close(opened.sealed);
        return r;
    }
    opened.stub = elf_find(opened.elf, "sonde_return", &stub) == 0 ? stub.value : 0;
    *file = opened;
    return 0;
}

/* It stays as it was read when it cannot be looked at any more. */
static int open_probe(struct probe_files *files, size_t kind, const struct probe_file **ret_file,
                      struct problem *problem)
{
    struct probe_file *file = &files->file[kind];
    char path[PATH_MAX];
    struct stat st;
    uint64_t identity = file->identity;
    path_of(files, kind, path);
    if (stat(path, &st) == 0) {
        const uint64_t is[] = {st.st_dev, st.st_ino, (uint64_t)st.st_size, (uint64_t)st.st_ctim.tv_sec,
                               (uint64_t)st.st_ctim.tv_nsec};
        identity = map_hash(is, sizeof(is));
    }
    if (file->elf && identity != file->identity)
        forget(file);
    int r = file->elf ? 0 : open_sealed(path, file, problem);
    if (r < 0)
        return r;
    file->identity = identity;
    *ret_file = file;
    return 0;
}

/* Which of the two a process is given. */
static size_t kind_for(const struct target *target)
{
    const struct plan_library *library = &target->plan.head.library;
    return library->open && !library->is_glibc ? DYNAMIC : PLAIN;
}

/* Our file of a probe with this build id. One that was preloaded is the plain one with every C library. */
static struct elf *file_of(const char *build_id, struct probe_files *files)
{
    const struct probe_file *file;
    for (size_t kind = 0; kind < KINDS && build_id[0]; kind++)
        if (open_probe(files, kind, &file, NULL) >= 0 && strcmp(elf_build_id(file->elf), build_id) == 0)
            return file->elf;
    return NULL;
}

struct probe probe_at(const struct target *target, size_t number)
{
    const struct plan_probe *planned = &target->plan.probes.at[number];
    const struct module *module = modules_at(&target->modules, planned->start, NULL);
    return (struct probe){.module = module,
                          .bias = module->start - module->first_offset, /* its first segment is at 0 */
                          .owner = planned->owner,
                          .pools = planned->pools,
                          .foreign = planned->foreign};
}

/* Where a probe of our build notes something is known from our file; 0: its symbols are not there yet. */
static bool is_where_it_must_be(const struct probe *probe, const char *symbol, uint64_t address)
{
    struct elf_symbol found;
    return !address || (elf_find(probe->file, symbol, &found) == 0 && found.value + probe->bias == address);
}

int inject_find_probe(struct target *target, struct probe_files *files, struct probe *ret_probe,
                      struct problem *problem)
{
    for (size_t i = 0; i < target->plan.probes.count; i++) {
        struct probe probe = probe_at(target, i);
        probe.file = file_of(target->plan.probes.at[i].build_id, files);
        if (!probe.file)
            continue;
        if (!is_where_it_must_be(&probe, "sonde_owner", probe.owner) ||
            !is_where_it_must_be(&probe, "sonde_pools", probe.pools))
            return problem_set(problem, -EPROTO, "process %d: its probe is not what it says it is",
                               target->pid);
        *ret_probe = probe;
        return 0;
    }
    return problem_set(problem, -ENOENT, "process %d: the probe is not among its modules%s", target->pid,
                       target->plan.probes.count ? ", only that of another build" : "");
}

static bool sees_proc(const struct proc *proc)
{
    struct statfs fs;
    _cleanup_(file_closep) int root = process_root_open(proc);
    _cleanup_(file_closep) int place = root < 0 ? root : process_folder_open(root, "/proc");
    return place >= 0 && fstatfs(place, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

int injector_init(const struct target *target, struct probe_files *files, struct injector *ret_injector,
                  struct problem *problem)
{
    const struct plan_library *library = &target->plan.head.library;
    struct injector injector = {
        .open_function = library->open,
        .error_function = library->error,
        .calls = {.system_call = library->system_call, .map = library->map, .unmap = library->unmap},
        .loaded = loaded_probes_count(&target->modules),
        .sees_proc = sees_proc(target->proc)};
    if (!library->open || !library->system_call || !library->map || !library->unmap) {
        problem_set(problem, -ENOTSUP,
                    "process %d: it has no dynamic loader that can be asked to load the probe", target->pid);
        problem_remedy(problem, "Statically linked programs cannot be traced.");
        return -ENOTSUP;
    }
    int r = open_probe(files, kind_for(target), &injector.probe, problem);
    if (r >= 0)
        *ret_injector = injector;
    return r;
}

static int explain_dlopen(struct hold *hold, const struct injector *injector, struct problem *problem)
{
    uint64_t text = 0;
    char words[200] = "";
    if (injector->error_function &&
        hold_call(hold, injector->error_function, NULL, 0, NULL, 0, &text, NULL) == 0 && text) {
        (void)!pread(hold->memory, words, sizeof(words) - 1, (off_t)text);
    }
    problem_set(problem, -ENOEXEC, "process %d: its loader refused the probe: %s", hold->pid, words);
    if (strstr(words, "static TLS"))
        problem_remedy(problem,
                       "Its room for thread-local storage is used up%s: restart it (with more: "
                       "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096).",
                       injector->loaded ? ", also by probes of other builds" : "");
    return -ENOEXEC;
}

/* dlopen(path) as the process sees it; *ret_handle is its result. */
static int open_in_process(struct hold *hold, const struct injector *injector, const char *path,
                           uint64_t *ret_handle, struct problem *problem)
{
    const uint64_t load[] = {HOLD_DATA, RTLD_NOW};
    *ret_handle = 0;
    int r = hold_call(hold, injector->open_function, load, 2, path, strlen(path) + 1, ret_handle, problem);
    if (r >= 0 && !*ret_handle)
        r = explain_dlopen(hold, injector, problem);
    return r;
}

static int load_memfd(struct hold *hold, const struct injector *injector, uint64_t *ret_handle,
                      struct problem *problem)
{
    int theirs;
    int r = hand_over_into(hold, &injector->calls, injector->probe->sealed, &theirs, problem);
    if (r < 0)
        return r;
    char path[128];
    /* The loader takes a name it knows for the library it has under it, and numbers of descriptors recur. */
    int at = snprintf(path, sizeof(path), "/proc/self/fd/");
    for (size_t i = 0; i < injector->loaded && at + 16 < (int)sizeof(path); i++)
        at += snprintf(path + at, sizeof(path) - (size_t)at, "./");
    snprintf(path + at, sizeof(path) - (size_t)at, "%d", theirs);
    r = open_in_process(hold, injector, path, ret_handle, problem);
    if (r == -ESRCH)
        return r;
    int closed = hand_over_close(hold, &injector->calls, theirs, r < 0 ? NULL : problem);
    return r < 0 ? r : closed;
}

/* Makes a file in a folder, with the probe in it. */
static int make_file(int folder, const char *name, const struct injector *injector)
{
    off_t from = 0, size = lseek(injector->probe->sealed, 0, SEEK_END);
    _cleanup_(file_closep) int fd =
        openat(folder, name, O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL | O_NOFOLLOW, 0755);
    if (fd < 0)
        return -errno;
    while (from < size) {
        ssize_t n = sendfile(fd, injector->probe->sealed, &from, (size_t)(size - from));
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
    }
    return 0;
}

/* Folders of the process's file system where it may be that something can be written and executed. */
static const char *const FOLDERS[] = {"/dev/shm", "/run", "/tmp", "/var/tmp", "/var/run", "/"};

/* The folder, if files in it can be made and executed; -EACCES otherwise. */
static int open_folder(int root, const char *path)
{
    struct statvfs fs;
    int folder = process_folder_open(root, path);
    if (folder < 0)
        return folder;
    if (fstatvfs(folder, &fs) == 0 && !(fs.f_flag & (ST_RDONLY | ST_NOEXEC)) &&
        faccessat(folder, ".", W_OK, AT_EACCESS) == 0)
        return folder;
    close(folder);
    return -EACCES;
}

static int no_folder(pid_t pid, struct problem *problem)
{
    problem_set(
        problem, -EACCES,
        "process %d sees no /proc, and no directory of its file system takes a file that may be executed",
        pid);
    problem_remedy(problem, "Mount /proc in its mount namespace, or make /run or /tmp there writable.");
    return -EACCES;
}

/* In a folder of the process's file system; for the moment. */
static int load_file(struct hold *hold, const struct injector *injector, uint64_t *ret_handle,
                     struct problem *problem)
{
    char name[64], path[128];
    snprintf(name, sizeof(name), PROBE_NAME ".%d", getpid());
    _cleanup_(file_closep) int root = process_root_open(hold->proc);
    for (size_t i = 0; i < ARRAY_SIZE(FOLDERS) && root >= 0; i++) {
        _cleanup_(file_closep) int folder = open_folder(root, FOLDERS[i]);
        int r = folder < 0 ? folder : make_file(folder, name, injector);
        if (folder < 0 || r == -EEXIST)
            continue;
        snprintf(path, sizeof(path), "%s/%s", FOLDERS[i], name);
        if (r == 0)
            r = open_in_process(hold, injector, path, ret_handle, problem);
        unlinkat(folder, name, 0);
        if (r == 0 || r == -ESRCH || r == -ENOEXEC || r == -EFAULT)
            return r;
    }
    return no_folder(hold->pid, problem);
}

int inject_check(const struct target *target, struct probe_files *files, struct problem *problem)
{
    struct injector injector;
    int r = injector_init(target, files, &injector, problem);
    if (r < 0)
        return r;
    bool somewhere = injector.sees_proc;
    _cleanup_(file_closep) int root = process_root_open(target->proc);
    for (size_t i = 0; i < ARRAY_SIZE(FOLDERS) && root >= 0 && !somewhere; i++) {
        _cleanup_(file_closep) int folder = open_folder(root, FOLDERS[i]);
        somewhere = folder >= 0;
    }
    return somewhere ? 0 : no_folder(target->pid, problem);
}

/* Until the probe is there, which has one, a page holds the stub that calls return to. */
enum { STUB_PAGE = 4096 };

static int make_stub(struct hold *hold, const struct injector *injector, struct problem *problem)
{
    const uint64_t map[] = {0, STUB_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, ~0ull, 0};
    uint64_t page = 0;
    int r = hold_call(hold, injector->calls.map, map, 6, NULL, 0, &page, problem);
    if (r < 0)
        return r;
    if ((int64_t)page < 0)
        return problem_set(problem, (int)(int64_t)page, "process %d may not map executable memory: %s",
                           hold->pid, strerror((int)-(int64_t)page));
    if (pwrite(hold->memory, call_stub, SONDE_BACK_BYTES, (off_t)page) != SONDE_BACK_BYTES)
        return problem_set(problem, -EIO, "process %d: its memory cannot be written", hold->pid);
    hold->stub = page;
    return 0;
}

/* The stub of the probe that has been loaded, if it stands where it must: what dlopen() returns begins with
 * where that is, with glibc (struct link_map) and with musl. 0: it does not, and nobody needs it. */
static uint64_t probes_stub(const struct hold *hold, const struct injector *injector, uint64_t handle)
{
    uint64_t bias = 0;
    uint8_t code[SONDE_BACK_BYTES];
    if (!handle || !injector->probe->stub ||
        pread(hold->memory, &bias, sizeof(bias), (off_t)handle) != sizeof(bias) ||
        pread(hold->memory, code, sizeof(code), (off_t)(bias + injector->probe->stub)) != sizeof(code) ||
        memcmp(code, call_stub, sizeof(code)) != 0)
        return 0;
    return bias + injector->probe->stub;
}

static int drop_stub(struct hold *hold, const struct injector *injector, uint64_t handle,
                     struct problem *problem)
{
    const uint64_t unmap[] = {hold->stub, STUB_PAGE};
    uint64_t ignored;
    hold->stub = probes_stub(hold, injector, handle);
    return hold_call(hold, injector->calls.unmap, unmap, 2, NULL, 0, &ignored, problem);
}

bool inject_is_alone(const struct proc *proc, const struct injector *injector)
{
    return loaded_probes_count_now(proc) == injector->loaded;
}

int inject_load(struct hold *hold, const struct injector *injector, struct problem *problem)
{
    uint64_t handle = 0;
    int r = make_stub(hold, injector, problem);
    if (r < 0)
        return r;
    r = injector->sees_proc ? load_memfd(hold, injector, &handle, problem)
                            : load_file(hold, injector, &handle, problem);
    int dropped = hold->threads.count ? drop_stub(hold, injector, handle, r < 0 ? NULL : problem) : 0;
    return r < 0 ? r : dropped;
}

int inject_call(struct hold *hold, const struct probe *probe, const char *function, const uint64_t *arguments,
                int count, uint64_t *ret_result, struct problem *problem)
{
    struct elf_symbol symbol, stub;
    int r = elf_find(probe->file, "sonde_return", &stub);
    if (r >= 0)
        r = elf_find(probe->file, function, &symbol);
    if (r < 0)
        return problem_set(problem, r, "the probe in process %d is of another version (it has no %s)",
                           hold->pid, function);
    hold->stub = stub.value + probe->bias;
    return hold_call(hold, symbol.value + probe->bias, arguments, count, NULL, 0, ret_result, problem);
}
