/* See program.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attach/listening.h"
#include "attach/syscall_filter.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process_file.h"

/* ---- what the process is called ---- */

/* A worker has read the arguments; the ports that it listens on are numbers of the kernel's. */
static char *name_of(const struct program *program, const struct plan_head *known, const char *exe)
{
    uint16_t port;
    char *name;
    if (known->service[0] && listening_ports(program->proc, &port, 1))
        return asprintf(&name, "%s:%u", known->service, port) < 0 ? NULL : name;
    return strdup(known->name[0] ? known->name : basename(exe));
}

/* Of the command line the program and its script are kept, never code or arguments. */
static void describe(struct program *program, const struct target *target)
{
    enum { NAME_MAX_BYTES = 255 };
    const struct plan_head *known = &target->plan.head;
    char exe[PATH_MAX];
    if (proc_read_link(program->proc, "exe", exe, sizeof(exe)) < 0)
        exe[0] = '\0';
    const char *script = known->script[0] ? known->script : NULL;
    program->name = name_of(program, known, exe);
    if (program->name && strlen(program->name) > NAME_MAX_BYTES)
        program->name[NAME_MAX_BYTES] = '\0';
    if (asprintf(&program->command, "%s%s%s", exe, script ? " " : "", script ? script : "") < 0)
        program->command = NULL;
    program->exe = strdup(exe);
    proc_make_printable(program->name);
    proc_make_printable(program->command);
    proc_make_printable(program->exe);
}

static void describe_like(struct program *program, const struct program *like)
{
    program->name = strdup(like->name);
    program->command = strdup(like->command);
    program->exe = strdup(like->exe);
}

uint64_t program_stack_of(const struct proc *proc)
{
    struct proc_stat stat;
    return proc_read_stat(proc, 0, &stat) == 0 ? stat.stack_start : 0;
}

/* ---- shared memory ---- */

size_t program_rings_mapped(const struct proc *proc, uint64_t *ret_rings, size_t room)
{
    _cleanup_(freep) char *maps = NULL;
    size_t length, count = 0;
    struct proc_mapping mapping;
    if (proc_read(proc, "maps", 64 << 20, &maps, &length) < 0)
        return 0;
    const char *at = maps;
    while (count < room && proc_next_mapping(&at, maps + length, &mapping))
        if (mapping.path_length >= 12 && memcmp(mapping.path, "/memfd:sonde", 12) == 0)
            ret_rings[count++] = mapping.inode;
    return count;
}

int program_rings_new(pid_t pid, bool forked, struct ring_memory **ret_rings, struct problem *problem)
{
    struct ring_geometry geometry = {SONDE_THREADS, SONDE_SMALL_BYTES, SONDE_THREADS, SONDE_LARGE_BYTES};
    if (forked) { /* it has one thread yet, and many have a short life: most of what they take is this */
        geometry.slots_at_first = 32;
        geometry.large_at_first = 1;
    }
    int r = ring_memory_new(&geometry, ret_rings);
    if (r >= 0)
        return 0;
    problem_set(problem, r, "process %d: no memory for its rings can be made: %s", pid, strerror(-r));
    if (r == -EFBIG)
        problem_remedy(problem, "Sonde's limit on the size of files is too small for 66 MB of shared memory: "
                                "`ulimit -f`, prlimit(1) or LimitFSIZE= of its unit.");
    return r;
}

int program_new(struct target *target, struct patch_set *patches, struct ring_memory *rings,
                uint64_t live_address, const struct program *like, struct program **ret_program)
{
    struct program *program = calloc(1, sizeof(*program));
    if (!program)
        return -ENOMEM;
    program->unseen.sched_fd = -1;
    program->proc = proc_ref(target->proc);
    program->pid = target->pid;
    program->runtime = target->kind ? target->kind->runtime : SONDE_runtime_other;
    if (like)
        describe_like(program, like);
    else
        describe(program, target);
    if (!program->name || !program->command || !program->exe) {
        program_free(program);
        return -ENOMEM;
    }
    program->parent = (pid_t)MAX(proc_status_number(program->proc, "PPid"), 0);
    program->rings = rings;
    program->target = target;
    program->patches = *patches;
    *patches = (struct patch_set){0};
    program->live_address = live_address;
    program->stack_start = program_stack_of(target->proc);
    program->filters = syscall_filter_count(target->proc);
    program->started_ns = clock_monotonic_ns();
    snprintf(program->build_id, sizeof(program->build_id), "%s", target->plan.head.build_id);
    *ret_program = program;
    return 0;
}

void program_free(struct program *program)
{
    if (!program)
        return;
    for (uint32_t i = 0; i < program->thread_count; i++) {
        ctf_stream_free(program->threads[i].stream);
        if (program->threads[i].sched_fd >= 0)
            close(program->threads[i].sched_fd);
    }
    ring_memory_free(program->rings);
    if (program->unseen.sched_fd >= 0)
        close(program->unseen.sched_fd);
    patch_set_done(&program->patches);
    target_free(program->target);
    free(program->name);
    free(program->command);
    free(program->exe);
    quota_done(&program->quota);
    proc_unref(program->proc);
    free(program);
}

bool program_runs_callbacks(const struct program *program)
{
    return program->target->kind && program->target->kind->callback_event;
}

bool program_tells_contexts(const struct program *program)
{
    return program->target->kind && program->target->kind->contexts;
}

bool program_find_callback(const struct program *program, const struct program_thread *t,
                           struct sonde_open_span *ret_open)
{
    bool found = false;
    struct sonde_open_span open;
    for (uint32_t depth = 0; program_runs_callbacks(program) && depth < ring_open_count(t->ring); depth++) {
        if (!ring_open_span(t->ring, depth, &open))
            continue;
        bool callback = open.event == program->target->kind->callback_event;
        if (callback || (!found && open.event == program->target->kind->native_event))
            *ret_open = open, found = true;
        if (callback)
            return true;
    }
    return found;
}

bool program_thread_is_amid(const struct program *program, const struct program_thread *t)
{
    const struct target_kind *kind = program->target->kind;
    struct sonde_open_span open;
    uint32_t depth = ring_open_count(t->ring);
    return depth && ring_open_span(t->ring, depth - 1, &open) &&
           !(kind && kind->idle_event && open.event == kind->idle_event &&
             open.argument == kind->idle_argument);
}

bool program_is_amid_callback(const struct program *program)
{
    for (uint32_t i = 0; program_runs_callbacks(program) && i < program->thread_count; i++)
        if (ring_owner(program->threads[i].ring) && program_thread_is_amid(program, &program->threads[i]))
            return true;
    return false;
}

void program_silence(struct program *program)
{
    const uint32_t off = 0;
    if (program->target && !program->ended_ns)
        (void)target_write(program->target, program->live_address, &off, sizeof(off));
}

uint64_t program_events_written(const struct program *program)
{
    uint64_t written = 0;
    for (uint32_t i = 0; i < program->thread_count; i++) {
        struct ring_counts counts;
        ring_counts(program->threads[i].ring, &counts);
        written += counts.written;
    }
    return written;
}

/* ---- threads and their rings ---- */

int program_thread_sched(const struct program *program, struct program_thread *t)
{
    char name[48];
    if (t->sched_fd < 0 && t->tid) {
        snprintf(name, sizeof(name), "task/%u/schedstat", t->tid);
        t->sched_fd = proc_file_open(program->proc, name, O_RDONLY);
    }
    return t->sched_fd;
}

static void close_sched(struct program_thread *t)
{
    if (t->sched_fd >= 0)
        close(t->sched_fd);
    t->sched_fd = -1;
}

void program_close_scheds(struct program *program)
{
    enum { FEW = 16 };
    for (uint32_t i = 0; program->thread_count > FEW && i < program->thread_count; i++)
        close_sched(&program->threads[i]);
}

/* What a thread is called in the innermost PID namespace; *ret_levels how many it is in from ours on. 0 when
 * the thread is gone. */
static uint32_t innermost_tid(const struct proc *proc, const char *tid, unsigned *ret_levels)
{
    char name[300];
    _cleanup_(freep) char *status = NULL;
    size_t length;
    snprintf(name, sizeof(name), "task/%s/status", tid);
    *ret_levels = 0;
    return proc_read(proc, name, 1 << 16, &status, &length) < 0
               ? 0
               : (uint32_t)proc_parse_innermost(status, length, ret_levels);
}

/* A thread of the program by the number it has in its own PID namespace: the number that it has in ours. 0
 * when there is none, -EIO when that cannot be said. */
static int host_tid(const struct program *program, uint32_t owner, uint32_t *ret_tid)
{
    char main_thread[16];
    unsigned levels = 0;
    int r = 0;
    snprintf(main_thread, sizeof(main_thread), "%d", program->pid);
    if (!innermost_tid(program->proc, main_thread, &levels))
        return -EIO;
    *ret_tid = owner;
    if (levels < 2)
        return 0;
    DIR *tasks = proc_list(program->proc, "task");
    if (!tasks)
        return -EIO;
    *ret_tid = 0;
    errno = 0;
    for (struct dirent *entry; !*ret_tid && (entry = readdir(tasks)); errno = 0)
        if (entry->d_name[0] != '.' && innermost_tid(program->proc, entry->d_name, &levels) == owner)
            *ret_tid = (uint32_t)strtoul(entry->d_name, NULL, 10);
    if (errno || proc_status_number(program->proc, "PPid") <= 0) /* it was ending meanwhile */
        r = -EIO;
    closedir(tasks);
    return r;
}

bool program_thread_gone(const struct program *program, struct program_thread *t)
{
    if (!t->tid) { /* it had ended before we looked, or could not be looked for */
        uint32_t tid = 0;
        if (host_tid(program, t->owner, &tid) < 0)
            return false;
        if (!tid)
            return ++t->missed > 1; /* a look into /proc may overlook a thread while others end */
        t->tid = tid;
    }
    if (proc_has_thread(program->proc, (pid_t)t->tid) || errno != ENOENT)
        return false;
    return faccessat(program->proc->directory, "task", F_OK, 0) == 0; /* it was not the process */
}

static void thread_begins(struct program *program, uint32_t slot, uint32_t owner)
{
    struct program_thread *t = &program->threads[slot];
    t->owner = owner;
    t->missed = t->fullest = 0;
    t->ring = ring_memory_slot(program->rings, slot);
    t->tid = 0;
    (void)host_tid(program, owner, &t->tid);
}

/* Slots that were claimed since we last looked. */
static void follow_threads(struct program *program)
{
    uint32_t used = ring_memory_slots_used(program->rings);
    for (uint32_t i = program->thread_count; i < used; i++) {
        uint32_t owner = ring_owner(ring_memory_slot(program->rings, i));
        if (!owner)
            break;
        program->threads[i].sched_fd = -1;
        thread_begins(program, i, owner);
        program->thread_count = i + 1;
    }
}

static unsigned drain_thread(struct program *program, struct program_thread *t, struct ctf_writer *writer,
                             const struct clock_fit *fit)
{
    struct ring_drain drain;
    struct ring_record record;
    unsigned fullness = ring_drain_begin(t->ring, &drain);
    if (fullness && !t->stream && ctf_stream_open(writer, (uint32_t)program->pid, t->tid, &t->stream) < 0)
        return 0; /* out of memory: the ring keeps them as long as it can */
    t->drained |= fullness > 0;
    t->fullest = MAX(t->fullest, fullness);
    while (fullness && ring_drain_next(&drain, &record)) {
        ctf_stream_write(t->stream, record.id, clock_fit_ns(fit, record.end_tsc),
                         clock_fit_duration_ns(fit, record.end_tsc, record.duration), record.payload,
                         record.strings);
        program->drained_events++;
        program->seen[record.id]++;
        program->events[record.id]++;
    }
    t->unreadable += drain.unreadable;
    ring_drain_end(&drain);
    return fullness;
}

unsigned program_drain(struct program *program, struct ctf_writer *writer, const struct clock_fit *fit)
{
    (void)ring_memory_extend(program->rings);
    follow_threads(program);
    unsigned fullest = 0;
    for (uint32_t i = 0; i < program->thread_count; i++) {
        struct program_thread *t = &program->threads[i];
        uint32_t owner = ring_owner(t->ring);
        if (owner && owner != t->owner) { /* the slot was given to another thread */
            ctf_stream_free(t->stream);
            t->stream = NULL;
            close_sched(t);
            thread_begins(program, i, owner);
        }
        unsigned fullness = drain_thread(program, t, writer, fit);
        fullest = MAX(fullest, fullness);
    }
    program->drained |= fullest > 0;
    return fullest;
}
