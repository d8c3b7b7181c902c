/* Attaching to a process that runs, and detaching.
 *
 * The process is stopped briefly: its main thread (the other threads run) at a safe point to load the probe,
 * then to make the shared memory; and all threads, to write the jumps. Everything that takes time - reading
 * symbols, planning - happens while it runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/aside.h"
#include "attach/freezer.h"
#include "attach/hold.h"
#include "attach/inject.h"
#include "attach/owner.h"
#include "attach/plan_worker.h"
#include "attach/syscall_filter.h"
#include "collect/level.h"
#include "collect/session_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

#define SAFE_POINT_TIMEOUT_NS (5 * NS_PER_S)
/* How long to wait for all threads to be out of the way; not so long when we are asked to end. */
#define ATTACH_PATIENCE_NS (2 * NS_PER_S)
#define DETACH_PATIENCE_NS (2 * NS_PER_S)

/* What the probe in the process has prepared. */
struct prepared {
    struct sonde_attached attached;
    struct ring_memory *rings; /* ours, which it has mapped */
};

static void let_go(struct hold *hold, struct stops *stops)
{
    uint64_t held_ns = hold_release(hold);
    stops->count++;
    stops->total_ns += held_ns;
    stops->longest_ns = MAX(stops->longest_ns, held_ns);
}

/* A call in the main thread of a process: what it needs, and what comes of it. Made aside (aside.h). */
struct visit {
    struct target *target;
    const struct probe *probe;
    const struct injector *injector; /* to load the probe, */
    bool done_already;    /* unless another sonde has been there since: it is looked for again; or */
    const char *function; /* to call one of its functions */
    uint64_t arguments[2];
    int count;
    uint64_t result;
    const struct ring_memory *rings; /* to be handed to it after the call, before it maps pools for the
                                        hooks; and what it prepared */
    struct sonde_attached attached;
    struct stops stops;
    struct problem problem;
};

/* The memory is sent over a socket that the call has made, and mapped by another call. */
static int hand_rings_over(struct hold *hold, struct visit *visit)
{
    const pid_t pid = visit->target->pid;
    struct sonde_attached *attached = &visit->attached;
    int r = target_read(visit->target, visit->result, attached, sizeof(*attached));
    if (r < 0)
        return r;
    if (attached->error < 0)
        return problem_set(&visit->problem, (int)attached->error, "process %d may not make sockets: %s", pid,
                           strerror((int)-attached->error));
    _cleanup_(file_closep) int socket = -1;
    const struct sonde_message message = {.verb = SONDE_MEMORY, .b = ring_memory_size(visit->rings)};
    r = hand_over_socket(visit->target->proc, attached->sockets[0], &socket, &visit->problem);
    if (r >= 0)
        r = hand_over_send(socket, &message, sizeof(message), ring_memory_fd(visit->rings));
    const uint64_t sent = r >= 0;
    uint64_t mapped = 0;
    int called = inject_call(hold, visit->probe, "sonde_attach_memory", &sent, 1, &mapped,
                             r < 0 ? NULL : &visit->problem);
    if (r < 0 || called < 0)
        return r < 0 ? r : called;
    if ((int64_t)mapped < 0)
        return session_no_memory(pid, (int)(int64_t)mapped, &visit->problem);
    return 0;
}

static int map_result(int error, uint64_t result, uint64_t address)
{
    if (error < 0)
        return error;
    if ((int64_t)result < 0 && (int64_t)result > -4096)
        return (int)(int64_t)result;
    return result == address ? 0 : -EEXIST;
}

/* patch_map_fn: the probe maps, in the main thread that is held, and not for long: where several places are
 * taken the next ones are tried each in a hold of its own. */
struct held_mapper {
    struct hold *hold;
    const struct probe *probe;
    unsigned tries;
};

static int map_held(void *context, uint64_t address, uint64_t size)
{
    enum { TRIES = 6 };
    struct held_mapper *mapper = context;
    const uint64_t arguments[] = {address, size};
    uint64_t result = 0;
    if (mapper->tries++ == TRIES)
        return -EAGAIN;
    int r = inject_call(mapper->hold, mapper->probe, "sonde_attach_map", arguments, 2, &result, NULL);
    return map_result(r, result, address);
}

/* What cannot be had now is tried again for each hook, and explained then. */
static int map_pools(struct hold *hold, const struct visit *visit)
{
    struct held_mapper mapper = {hold, visit->probe, 0};
    int r = patch_map_pools(visit->target, visit->probe, map_held, &mapper);
    return hold->threads.count ? 0 : r;
}

static void look_for_others(const struct proc *proc, void *context)
{
    struct visit *visit = context;
    visit->done_already = visit->injector && !inject_is_alone(proc, visit->injector);
}

static int visit_main_thread(void *context)
{
    struct visit *visit = context;
    const struct target *target = visit->target;
    struct hold_freely freely = {0};
    if (visit->probe)
        freely = (struct hold_freely){program_stack_of(target->proc),
                                      {visit->probe->module->start, visit->probe->module->end}};
    const struct hold_first first = {look_for_others, visit};
    struct hold hold;
    int r = hold_main(target->proc, &target->modules, target->memory, visit->probe ? &freely : NULL, &first,
                      visit->stops.patience_ns, &hold, &visit->problem);
    if (r < 0)
        return r;
    if (visit->injector && !visit->done_already)
        r = inject_load(&hold, visit->injector, &visit->problem);
    else if (!visit->injector)
        r = inject_call(&hold, visit->probe, visit->function, visit->arguments, visit->count, &visit->result,
                        &visit->problem);
    if (r >= 0 && visit->rings)
        r = hand_rings_over(&hold, visit);
    if (r >= 0 && visit->rings)
        r = map_pools(&hold, visit);
    let_go(&hold, &visit->stops);
    return r;
}

/* Nobody else's records are lost because one program takes its time. With hundreds of programs most do
 * nothing meanwhile, and are left alone as in the session's loop. */
static void drain_others(void *context)
{
    static const uint64_t EACH_NS = 10 * NS_PER_US, GAP_MAX_NS = 4 * NS_PER_MS, NOTICE_NS = 10 * NS_PER_MS;
    struct session *session = context;
    uint64_t now_ns = clock_monotonic_ns();
    if (!session || now_ns - session->others_ns < MIN(session->programs.count * EACH_NS, GAP_MAX_NS))
        return;
    session->others_ns = now_ns;
    (void)session_kernel_drain(session);
    array_foreach (&session->programs, p)
        if (!(*p)->ended_ns && !session_skips(session, *p, now_ns))
            (*p)->was_empty = !program_drain(*p, session->writer, &session->fit);
    if (now_ns - session->noticed_ns < NOTICE_NS)
        return;
    session->noticed_ns = now_ns;
    session_notice_quiet(session, now_ns);
}

static int pay_visit(struct visit *visit, struct stops *stops, struct problem *problem)
{
    visit->stops = *stops;
    int r = aside_run(visit_main_thread, visit, sizeof(*visit), drain_others, stops->session);
    *stops = visit->stops;
    if (r == -ETIMEDOUT && freezer_check(visit->target->proc, &visit->problem) < 0)
        r = -EBUSY;
    if (r < 0 && problem)
        *problem = visit->problem;
    if (r < 0 && problem && !problem->what[0])
        problem_set(problem, r, "process %d: it cannot be called into: %s", visit->target->pid, strerror(-r));
    return r;
}

/* Asked between steps: reading symbols takes a while. */
static int go_on(const struct proc *proc, struct problem *problem)
{
    if (!aside_is_ending())
        return 0;
    return problem_set(problem, -EINTR, "process %d was not attached to: interrupted", proc->pid);
}

/* Loads the probe unless it is there already. */
static int load_probe(struct session *session, struct proc *proc, struct stops *stops,
                      struct problem *problem)
{
    _cleanup_(target_freep) struct target *target = NULL;
    struct probe probe;
    struct injector injector;
    int r =
        target_open(proc, session->plans, TARGET_KIND, session->options.request_context, &target, problem);
    if (r < 0)
        return r;
    if (!target->kind) {
        char kinds[200];
        target_kinds_say(kinds, sizeof(kinds));
        return problem_set(problem, -ENOTSUP, "process %d is not %s (or a build without symbols)", proc->pid,
                           kinds);
    }
    r = syscall_filter_check(proc, problem);
    if (r >= 0)
        r = go_on(proc, problem);
    if (r < 0)
        return r;
    if (inject_find_probe(target, &session->probes, &probe, NULL) == 0)
        return 0;
    r = injector_init(target, &session->probes, &injector, problem);
    if (r < 0)
        return r;
    struct visit visit = {.target = target, .injector = &injector};
    return pay_visit(&visit, stops, problem);
}

/* One more than the highest descriptor that the process has open. */
static int count_descriptors(const struct proc *proc)
{
    int highest = -1;
    DIR *dir = proc_list(proc, "fd");
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            highest = MAX(highest, atoi(entry->d_name));
    if (dir)
        closedir(dir);
    return highest + 1;
}

static int prepare(struct target *target, const struct probe *probe, struct prepared *ret,
                   struct stops *stops, struct problem *problem)
{
    enum { OPENED_MEANWHILE = 64 };
    struct elf_symbol found;
    if (elf_find(probe->file, "sonde_attach_memory", &found) < 0)
        return problem_set(problem, -EPROTO, "process %d has a probe of another version", target->pid);
    int r = program_rings_new(target->pid, false, &ret->rings, problem);
    if (r < 0)
        return r;
    struct visit visit = {.target = target,
                          .probe = probe,
                          .function = "sonde_attach_prepare",
                          .arguments = {(uint64_t)count_descriptors(target->proc) + OPENED_MEANWHILE},
                          .count = 1,
                          .rings = ret->rings};
    r = pay_visit(&visit, stops, problem);
    if (r >= 0)
        ring_memory_handed(ret->rings);
    ret->attached = visit.attached;
    return r;
}

/* patch_map_fn: the same, in a main thread stopped for it. */
struct mapper {
    struct target *target;
    const struct probe *probe;
    struct stops *stops;
};

static int map_in_target(void *context, uint64_t address, uint64_t size)
{
    const struct mapper *mapper = context;
    struct visit visit = {.target = mapper->target,
                          .probe = mapper->probe,
                          .function = "sonde_attach_map",
                          .arguments = {address, size},
                          .count = 2};
    return map_result(pay_visit(&visit, mapper->stops, NULL), visit.result, address);
}

/* A change of a process's code, made while all its threads are held. */
struct change {
    struct target *target;
    struct patch_set *set;
    int (*make)(const struct change *change);
    const struct sonde_attached *attached; /* for put_in() */
    struct stops *stops;
    struct problem *problem;
};

static int put_in(const struct change *change)
{
    const uint32_t on = (uint32_t)change->attached->attachment;
    int r = patch_apply(change->target, change->set, change->problem);
    return r < 0 ? r : target_write(change->target, change->attached->live, &on, sizeof(on));
}

static int take_out(const struct change *change)
{
    return patch_remove(change->target, change->set);
}

/* All threads stopped, none inside bytes that will change: -EAGAIN when that does not come about at once. */
static int hold_for_patching(const struct change *change, struct hold *ret_hold)
{
    pid_t pid = change->target->pid;
    struct hold hold;
    ARRAY(struct hold_range) ranges = {0};
    int r = 0;
    array_foreach (&change->set->patches, p)
        if (r == 0)
            r = array_add(&ranges, (struct hold_range){p->address, p->address + p->length});
    if (r == 0)
        r = hold_all(change->target->proc, &hold, change->problem);
    if (r == 0) {
        r = hold_clear(&hold, ranges.at, ranges.count);
        if (r < 0) {
            let_go(&hold, change->stops);
            problem_set(change->problem, r, "process %d: a thread stays inside a function's first bytes",
                        pid);
        } else {
            *ret_hold = hold;
        }
    }
    array_done(&ranges);
    return r;
}

static int change_held(void *context)
{
    const struct change *change = context;
    struct hold hold;
    int r = hold_for_patching(change, &hold);
    if (r < 0)
        return r;
    r = change->make(change);
    let_go(&hold, change->stops);
    return r;
}

/* -EAGAIN when a thread does not stop. */
static int try_to_change(struct change *change)
{
    int r = freezer_check(change->target->proc, change->problem);
    return r == 0 ? aside_share(change_held, change, NULL, NULL) : r;
}

/* A thread that does not stop is left alone for a while: nobody else waits for it. */
static void pause_and_drain(struct session *session)
{
    const struct timespec pause = {.tv_nsec = NS_PER_MS};
    enum { PAUSES = 20 };
    for (int i = 0; i < PAUSES; i++) {
        drain_others(session);
        nanosleep(&pause, NULL);
    }
}

static int change_program(struct change *change)
{
    uint64_t deadline_ns = clock_monotonic_ns() + ATTACH_PATIENCE_NS;
    for (;;) {
        int r = try_to_change(change);
        if (r != -EAGAIN || clock_monotonic_ns() > deadline_ns || aside_is_ending())
            return r;
        pause_and_drain(change->stops->session);
    }
}

/* Takes out what a sonde left that was killed, as if it had detached; how many hooks that were. */
static int clean_up(struct target *target, const struct probe *probe, struct stops *stops,
                    struct problem *problem)
{
    struct patch_set left = {0};
    int r = patch_leftover(target, probe, &left);
    if (r >= 0 && left.patches.count)
        r = change_program(&(struct change){
            .target = target, .set = &left, .make = take_out, .stops = stops, .problem = problem});
    if (r >= 0)
        r = (int)left.patches.count;
    patch_set_done(&left);
    if (r < 0 && problem && !problem->what[0])
        problem_set(problem, r, "process %d: what an earlier sonde left cannot be taken out: %s", target->pid,
                    strerror(-r));
    return r;
}

static int patch_running(const struct session *session, struct target *target, const struct probe *probe,
                         struct prepared *prepared, struct patch_set *ret_set, struct stops *stops,
                         struct problem *problem)
{
    struct sonde_config config;
    struct mapper mapper = {target, probe, stops};
    if (prepared->attached.version != SONDE_SHARED_VERSION)
        return problem_set(problem, -EPROTO, "process %d has a probe of another version", target->pid);
    target_layout(target, &config);
    snprintf(config.functions, sizeof(config.functions), "%s", session->options.functions);
    config.statements = session->options.sql;
    int r = target_write(target, prepared->attached.config, &config, sizeof(config));
    if (r >= 0)
        r = patch_plan(target, probe, map_in_target, &mapper, ret_set, problem);
    if (r >= 0)
        r = change_program(&(struct change){.target = target,
                                            .set = ret_set,
                                            .make = put_in,
                                            .attached = &prepared->attached,
                                            .stops = stops,
                                            .problem = problem});
    return r;
}

/* The program, patched as it is; unpatched again when that fails. */
static int keep(struct target *target, struct patch_set *patches, const struct prepared *prepared,
                struct stops *stops, struct program **ret_program)
{
    int r = program_new(target, patches, prepared->rings, prepared->attached.live, NULL, ret_program);
    if (r < 0)
        (void)change_program(
            &(struct change){.target = target, .set = patches, .make = take_out, .stops = stops});
    return r;
}

/* Takes the hooks of a probe out of the process, unless a sonde that lives uses them; how many there were. */
static int disarm(struct target *target, const struct probe *probe, struct stops *stops,
                  struct problem *problem)
{
    int r = owner_claim(target, probe, false, problem);
    if (r < 0)
        return r;
    r = clean_up(target, probe, stops, problem);
    owner_release(target, probe);
    return r;
}

/* A probe of another build stays in the process, inert. Called once ours is claimed: of two sondes of
 * different builds that come together at least one meets the other here. */
static int disarm_others(struct target *target, const struct probe *probe, struct stops *stops,
                         struct problem *problem)
{
    int r = 0;
    for (size_t i = 0; i < target->plan.probes.count && r >= 0; i++) {
        const struct probe other = probe_at(target, i);
        if (other.module != probe->module)
            r = disarm(target, &other, stops, problem);
    }
    return r;
}

int session_disarm(struct proc *proc, unsigned *ret_hooks, struct problem *problem)
{
    unsigned hooks = 0;
    struct stops stops = {0};
    _cleanup_(target_freep) struct target *target = NULL;
    _cleanup_(broker_freep) struct broker *plans = NULL;
    int r = broker_new(&plan_worker, &plans, problem);
    if (r >= 0)
        r = target_open(proc, plans, TARGET_WHOLE, SONDE_CONTEXT_OFF, &target, problem);
    if (r >= 0 && !target->kind)
        r = problem_set(problem, -ENOTSUP, "process %d is no program that sonde traces", proc->pid);
    for (size_t i = 0; r >= 0 && i < target->plan.probes.count; i++) {
        const struct probe probe = probe_at(target, i);
        r = disarm(target, &probe, &stops, problem);
        hooks += r > 0 ? (unsigned)r : 0;
    }
    if (r >= 0)
        *ret_hooks = hooks;
    return MIN(r, 0);
}

/* Everything that is done to the process; *ret_program takes target. */
static int attach(struct session *session, struct target **target, struct stops *stops,
                  struct program **ret_program, struct problem *problem)
{
    struct probe probe = {0};
    struct prepared prepared = {0};
    struct patch_set patches = {0};
    int r = inject_find_probe(*target, &session->probes, &probe, problem);
    if (r < 0)
        return r;
    r = owner_claim(*target, &probe, false, problem);
    if (r < 0)
        return r;
    r = disarm_others(*target, &probe, stops, problem);
    if (r >= 0)
        r = clean_up(*target, &probe, stops, problem);
    if (r >= 0)
        r = prepare(*target, &probe, &prepared, stops, problem);
    if (r >= 0) {
        r = patch_running(session, *target, &probe, &prepared, &patches, stops, problem);
        if (r >= 0)
            r = keep(*target, &patches, &prepared, stops, ret_program);
    }
    if (r >= 0) {
        target_forget_plan(*target);
        prepared.rings = NULL;
        *target = NULL;
    } else {
        owner_release(*target, &probe);
    }
    ring_memory_free(prepared.rings);
    patch_set_done(&patches);
    return r;
}

static bool is_traced(const struct session *session, pid_t pid)
{
    array_foreach (&session->programs, p)
        if ((*p)->pid == pid && !(*p)->ended_ns)
            return true;
    return false;
}

static int try_to_attach(struct session *session, struct proc *proc, struct target **target,
                         struct stops *stops, struct program **ret_program, struct problem *problem)
{
    int r = load_probe(session, proc, stops, problem);
    if (r >= 0)
        r = go_on(proc, problem);
    if (r >= 0)
        r = target_open(proc, session->plans, TARGET_WHOLE, session->options.request_context, target,
                        problem);
    if (r >= 0)
        r = go_on(proc, problem);
    return r < 0 ? r : attach(session, target, stops, ret_program, problem);
}

/* Made aside: another sonde that loads the probe holds the main thread meanwhile. */
static int let_others_finish(void *proc)
{
    struct hold hold;
    int r = hold_one(proc, &hold, NULL);
    if (r >= 0)
        hold_release(&hold);
    return r;
}

static void disown(struct session *session, struct program *program)
{
    struct probe probe;
    if (inject_find_probe(program->target, &session->probes, &probe, NULL) < 0)
        return;
    owner_release(program->target, &probe);
}

/* Takes its hooks out if all its threads stop now; -EAGAIN when one does not. */
static int try_to_detach(struct session *session, struct program *program, struct problem *problem)
{
    int r = try_to_change(&(struct change){.target = program->target,
                                           .set = &program->patches,
                                           .make = take_out,
                                           .stops = &program->stops,
                                           .problem = problem});
    if (r >= 0)
        disown(session, program);
    return r;
}

static void write_down(struct session *session, const struct program *program)
{
    char what[160];
    snprintf(what, sizeof(what), "level %s%s%s%s", level_name(session->level),
             session->kernel ? ", kernel events" : "",
             session->options.functions[0] ? ", calls of chosen functions" : "",
             session->options.sql ? ", SQL statements without values" : "");
    int r = audit_attached(&session->audit, program->proc, program->name, what, session->options.until_ns);
    if (r < 0)
        session_note(session, "%s (%d): %s takes no line about the attachment: %s", program->name,
                     program->pid, audit_place(&session->audit), strerror(-r));
}

int session_attach_within(struct session *session, struct proc *proc, uint64_t timeout_ns,
                          struct problem *problem)
{
    _cleanup_(target_freep) struct target *target = NULL;
    struct program *program = NULL;
    const pid_t pid = proc->pid;
    struct stops stops = {.session = session, .patience_ns = timeout_ns};
    if (is_traced(session, pid))
        return problem_set(problem, -EALREADY, "process %d is traced already", pid);
    int r = go_on(proc, problem);
    if (r >= 0)
        r = freezer_check(proc, problem);
    if (r >= 0)
        r = try_to_attach(session, proc, &target, &stops, &program, problem);
    for (int again = 0; r == -ESTALE && again < 3; again++)
        if (aside_share(let_others_finish, proc, NULL, NULL) >= 0) {
            target_free(target);
            target = NULL;
            r = try_to_attach(session, proc, &target, &stops, &program, problem);
        }
    if (r < 0)
        return r;
    program->stops = stops;
    r = session_add_program(session, program);
    if (r < 0) {
        program_silence(program);
        (void)try_to_detach(session, program, problem);
        program_free(program);
        return r;
    }
    program->midway = program->attached = true;
    write_down(session, program);
    session_tell_start(session, program);
    session->manifest_wanted = true;
    return 0;
}

int session_attach(struct session *session, struct proc *proc, struct problem *problem)
{
    return session_attach_within(session, proc, SAFE_POINT_TIMEOUT_NS, problem);
}

bool session_may_attach(struct session *session, struct proc *proc)
{
    _cleanup_(target_freep) struct target *target = NULL;
    return target_open(proc, session->plans, TARGET_KIND, session->options.request_context, &target, NULL) ==
               0 &&
           target->kind;
}

static void note_left(struct session *session, const struct program *program, int error,
                      const struct problem *problem)
{
    if (error < 0 && error != -ESRCH)
        session_note(session, "%s (%d): its hooks stay in place and pass through: %s", program->name,
                     program->pid, problem->what[0] ? problem->what : strerror(-error));
}

/* One deadline for all of them: first each that can be left at once is, then the others have what is left of
 * it. */
void session_detach_all(struct session *session)
{
    ARRAY(struct program *) left = {0};
    array_foreach (&session->programs, p) {
        if ((*p)->ended_ns || proc_has_ended((*p)->proc))
            continue;
        program_silence(*p);
        if (array_add(&left, *p) < 0)
            session_note(session, "%s (%d): its hooks stay in place: no memory", (*p)->name, (*p)->pid);
    }
    uint64_t deadline_ns = clock_monotonic_ns() + DETACH_PATIENCE_NS;
    for (bool again = true; again && left.count;) {
        size_t kept = 0;
        again = clock_monotonic_ns() < MIN(deadline_ns, aside_deadline_ns(DETACH_PATIENCE_NS));
        array_foreach (&left, p) {
            struct problem problem = {0};
            int r = try_to_detach(session, *p, &problem);
            if ((r == -EAGAIN || r == -EINTR) && again) /* it did not stop within its moment */
                left.at[kept++] = *p;
            else
                note_left(session, *p, r, &problem);
        }
        left.count = kept;
        if (kept)
            pause_and_drain(session);
    }
    array_done(&left);
}
