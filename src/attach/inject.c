/* See inject.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/file.h"

#define PROBE_NAME "libsonde-probe.so"

int inject_find_probe(struct target *target, const char *probe_path, struct target_module *ret_probe,
                      struct problem *problem)
{
    const struct module *module = modules_named(&target->modules, PROBE_NAME);
    if (!module)
        module = modules_named(&target->modules, "memfd:" PROBE_NAME);
    if (!module)
        return problem_set(problem, -ENOENT, "process %d: the probe is not among its modules", target->pid);
    struct elf *elf = NULL;
    int r = modules_open(&target->modules, module, &elf, NULL);
    if (r < 0) /* a memfd may only be opened with privilege; ours is the same file */
        r = elf_open(probe_path, &elf, problem);
    if (r < 0)
        return r;
    if (!module->has_bias) { /* the probe's first segment is at address 0 of its file */
        ((struct module *)module)->load_bias = module->start - module->first_offset;
        ((struct module *)module)->has_bias = true;
    }
    *ret_probe = (struct target_module){module, elf};
    return 0;
}

/* A function of the C library or the loader, in whatever module it is. */
static int find_library_function(const struct modules *modules, const char *name, uint64_t *ret_address)
{
    static const char *const LIBRARIES[] = {"libc.so", "libc-", "ld-musl", "libdl"};
    for (size_t i = 0; i < ARRAY_SIZE(LIBRARIES); i++) {
        const struct module *module = modules_named(modules, LIBRARIES[i]);
        struct elf *elf;
        struct elf_symbol symbol;
        if (!module || !module->has_bias || modules_open(modules, module, &elf, NULL) < 0)
            continue;
        int r = elf_find(elf, name, &symbol);
        elf_free(elf);
        if (r == 0 && symbol.type == STT_FUNC) {
            *ret_address = symbol.value + module->load_bias;
            return 0;
        }
    }
    return -ENOENT;
}

/* Copies our file into the memfd that the process has made. */
static int fill_memfd(pid_t pid, int fd, const char *probe_path, struct problem *problem)
{
    char path[64];
    _cleanup_(freep) char *data = NULL;
    size_t length;
    int r = file_read(probe_path, 64 << 20, &data, &length);
    if (r < 0)
        return problem_set(problem, r, "%s: %s", probe_path, strerror(-r));
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
    _cleanup_(file_closep) int memfd = open(path, O_WRONLY | O_CLOEXEC);
    if (memfd < 0)
        return problem_set(problem, -errno, "%s: %s", path, strerror(errno));
    r = file_write_all(memfd, data, length);
    return r < 0 ? problem_set(problem, r, "%s: %s", path, strerror(-r)) : 0;
}

static int explain_dlopen(struct hold *hold, const struct modules *modules, struct problem *problem)
{
    uint64_t dlerror_address, text = 0;
    char words[200] = "";
    if (find_library_function(modules, "dlerror", &dlerror_address) == 0 &&
        hold_call(hold, dlerror_address, NULL, 0, NULL, 0, &text, NULL) == 0 && text) {
        struct iovec local = {words, sizeof(words) - 1},
                     remote = {(void *)(uintptr_t)text, sizeof(words) - 1};
        (void)!process_vm_readv(hold->pid, &local, 1, &remote, 1, 0);
    }
    return problem_set(problem, -ENOEXEC, "process %d: its loader refused the probe: %s", hold->pid, words);
}

int inject_load(struct hold *hold, const struct modules *modules, const char *probe_path,
                struct problem *problem)
{
    uint64_t open_function, system_call;
    if (find_library_function(modules, "dlopen", &open_function) < 0 ||
        find_library_function(modules, "syscall", &system_call) < 0) {
        problem_set(problem, -ENOTSUP,
                    "process %d: it has no dynamic loader that can be asked to load the probe", hold->pid);
        problem_remedy(problem, "Statically linked programs cannot be traced.");
        return -ENOTSUP;
    }
    static const char MEMFD_NAME[] = PROBE_NAME;
    const uint64_t create[] = {SYS_memfd_create, HOLD_DATA, 0};
    uint64_t result;
    int r = hold_call(hold, system_call, create, 3, MEMFD_NAME, sizeof(MEMFD_NAME), &result, problem);
    if (r < 0)
        return r;
    int fd = (int)result;
    if (fd < 0)
        return problem_set(problem, -EPERM, "process %d may not make a memfd (a system call filter?)",
                           hold->pid);
    char path[32];
    uint64_t handle = 0;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    r = fill_memfd(hold->pid, fd, probe_path, problem);
    if (r >= 0) {
        const uint64_t load[] = {HOLD_DATA, RTLD_NOW};
        r = hold_call(hold, open_function, load, 2, path, sizeof(path), &handle, problem);
    }
    if (r >= 0 && !handle)
        r = explain_dlopen(hold, modules, problem);
    const uint64_t close_it[] = {SYS_close, (uint64_t)fd};
    int closed = hold_call(hold, system_call, close_it, 2, NULL, 0, &result, r < 0 ? NULL : problem);
    return r < 0 ? r : closed;
}

int inject_call(struct hold *hold, const struct target_module *probe, const char *function,
                const uint64_t *arguments, int count, uint64_t *ret_result, struct problem *problem)
{
    struct elf_symbol symbol;
    int r = elf_find(probe->elf, function, &symbol);
    if (r < 0)
        return problem_set(problem, r, "the probe in process %d is of another version (it has no %s)",
                           hold->pid, function);
    return hold_call(hold, symbol.value + probe->module->load_bias, arguments, count, NULL, 0, ret_result,
                     problem);
}
