/* Attaching to a process that runs, and detaching.
 *
 * The process is stopped twice, briefly: its main thread at a safe point, to load the probe and make the
 * shared memory (the other threads run), and all threads, to write the jumps. Everything that takes time -
 * reading symbols, planning - happens while it runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hold.h"
#include "attach/inject.h"
#include "collect/session_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

#define SAFE_POINT_TIMEOUT_NS (5 * NS_PER_S)

/* What the probe in the process has prepared. */
struct prepared {
    struct sonde_attached attached;
    int shared_fd; /* ours */
};

/* Loads the probe unless it is there already. */
static int load_probe(struct session *session, pid_t pid, struct problem *problem)
{
    _cleanup_(target_freep) struct target *target = NULL;
    struct target_module probe;
    int r = target_open(pid, &session->files, &target, problem);
    if (r < 0)
        return r;
    if (target->runtime == RUNTIME_OTHER) {
        problem_set(problem, -ENOTSUP, "process %d is neither Node nor Redis (or a build without symbols)",
                    pid);
        return -ENOTSUP;
    }
    if (inject_find_probe(target, session->probe_path, &probe, NULL) == 0) {
        elf_free(probe.elf);
        return 0;
    }
    struct hold hold;
    r = hold_main(pid, &target->modules, SAFE_POINT_TIMEOUT_NS, &hold, problem);
    if (r < 0)
        return r;
    r = inject_load(&hold, &target->modules, session->probe_path, problem);
    hold_release(&hold);
    return r;
}

static int prepare(struct target *target, const struct target_module *probe, struct prepared *ret,
                   struct problem *problem)
{
    struct hold hold;
    uint64_t address = 0, ignored;
    int r = hold_main(target->pid, &target->modules, SAFE_POINT_TIMEOUT_NS, &hold, problem);
    if (r < 0)
        return r;
    ret->shared_fd = -1;
    r = inject_call(&hold, probe, "sonde_attach_prepare", NULL, 0, &address, problem);
    if (r >= 0)
        r = target_read(target, address, &ret->attached, sizeof(ret->attached));
    if (r >= 0 && ret->attached.shared_fd < 0)
        r = problem_set(problem, -ENOMEM, "process %d: it has no memory for the rings", target->pid);
    if (r >= 0) {
        char path[64];
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", target->pid, (int)ret->attached.shared_fd);
        ret->shared_fd = open(path, O_RDWR | O_CLOEXEC);
        if (ret->shared_fd < 0)
            r = problem_set(problem, -errno, "%s: %s", path, strerror(errno));
        int closed =
            inject_call(&hold, probe, "sonde_attach_done", NULL, 0, &ignored, r < 0 ? NULL : problem);
        r = r < 0 ? r : closed;
    }
    hold_release(&hold);
    if (r < 0 && ret->shared_fd >= 0)
        close(ret->shared_fd);
    return r;
}

/* patch_map_fn: the probe maps, in a main thread stopped for it. */
struct mapper {
    struct target *target;
    const struct target_module *probe;
};

static int map_in_target(void *context, uint64_t address, uint64_t size)
{
    const struct mapper *mapper = context;
    struct hold hold;
    const uint64_t arguments[] = {address, size};
    uint64_t result = 0;
    int r = hold_main(mapper->target->pid, &mapper->target->modules, SAFE_POINT_TIMEOUT_NS, &hold, NULL);
    if (r < 0)
        return r;
    r = inject_call(&hold, mapper->probe, "sonde_attach_map", arguments, 2, &result, NULL);
    hold_release(&hold);
    if (r < 0)
        return r;
    if ((int64_t)result < 0 && (int64_t)result > -4096)
        return (int)(int64_t)result;
    return result == address ? 0 : -EEXIST;
}

/* All threads stopped, none inside bytes that will change. */
static int hold_for_patching(pid_t pid, const struct patch_set *set, struct hold *ret_hold,
                             struct problem *problem)
{
    for (int attempt = 0; attempt < 50; attempt++) {
        struct hold hold;
        int r = hold_all(pid, &hold, problem);
        if (r < 0)
            return r;
        array_foreach (&set->patches, p)
            if (r >= 0)
                r = hold_clear(&hold, p->address, p->address + p->length);
        if (r == 0) {
            *ret_hold = hold;
            return 0;
        }
        hold_release(&hold);
    }
    return problem_set(problem, -EAGAIN, "process %d: a thread stays inside a function's first bytes", pid);
}

static int switch_on(struct target *target, const struct patch_set *set, uint64_t live_address,
                     struct problem *problem)
{
    const uint32_t on = 1;
    struct hold hold;
    int r = hold_for_patching(target->pid, set, &hold, problem);
    if (r < 0)
        return r;
    r = patch_apply(target, set, problem);
    if (r >= 0)
        r = target_write(target, live_address, &on, sizeof(on));
    hold_release(&hold);
    return r;
}

static int patch_running(struct target *target, const struct target_module *probe, struct prepared *prepared,
                         struct patch_set *ret_set, struct problem *problem)
{
    struct sonde_config config;
    struct mapper mapper = {target, probe};
    if (prepared->attached.version != SONDE_SHARED_VERSION)
        return problem_set(problem, -EPROTO, "process %d has a probe of another version", target->pid);
    target_layout(target, &config);
    int r = target_write(target, prepared->attached.config, &config, sizeof(config));
    if (r >= 0)
        r = patch_plan(target, probe, map_in_target, &mapper, ret_set, problem);
    if (r >= 0)
        r = switch_on(target, ret_set, prepared->attached.live, problem);
    return r;
}

static bool is_traced(const struct session *session, pid_t pid)
{
    array_foreach (&session->programs, p)
        if ((*p)->pid == pid && !(*p)->ended_ns)
            return true;
    return false;
}

int session_attach(struct session *session, pid_t pid, struct problem *problem)
{
    if (is_traced(session, pid))
        return problem_set(problem, -EALREADY, "process %d is traced already", pid);
    int r = load_probe(session, pid, problem);
    if (r < 0)
        return r;
    _cleanup_(target_freep) struct target *target = NULL;
    struct target_module probe = {0};
    struct prepared prepared = {.shared_fd = -1};
    struct patch_set patches = {0};
    struct program *program = NULL;
    r = target_open(pid, &session->files, &target, problem);
    if (r >= 0)
        r = inject_find_probe(target, session->probe_path, &probe, problem);
    if (r >= 0)
        r = prepare(target, &probe, &prepared, problem);
    if (r >= 0) {
        r = patch_running(target, &probe, &prepared, &patches, problem);
        if (r >= 0)
            r = program_new(target, &patches, prepared.shared_fd, prepared.attached.live, &program, problem);
        close(prepared.shared_fd);
    }
    elf_free(probe.elf);
    patch_set_done(&patches);
    if (r < 0)
        return r;
    target = NULL;
    r = array_add(&session->programs, program);
    if (r < 0) {
        session_detach(session, program);
        program_free(program);
        return r;
    }
    program->midway = true;
    session_tell_start(session, program);
    (void)session_write_manifest(session, false);
    return 0;
}

void session_detach(struct session *session, struct program *program)
{
    struct problem problem = {0};
    struct hold hold;
    program_silence(program);
    int r = hold_for_patching(program->pid, &program->patches, &hold, &problem);
    if (r >= 0) {
        r = patch_remove(program->target, &program->patches);
        hold_release(&hold);
    }
    if (r < 0 && r != -ESRCH)
        session_note(session, "%s (%d): its hooks stay in place and pass through: %s", program->name,
                     program->pid, problem.what[0] ? problem.what : strerror(-r));
}
