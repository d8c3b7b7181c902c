/* The sampler's user-space half. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/sampler.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "bpf/missed.h"
#include "profile/busiest.h"
#include "profile/family.h"
#include "profile/kernel_names.h"
#include "profile/kernel_types.h"
#include "profile/outlier.h"
#include "profile/process.h"
#include "profile/sideband.h"
#include "profile/tables.h"
#include "profile/ticks.h"
#include "profile/waits.h"
#include "profile/windows.h"
#include "sampler.skel.h"

#define REFRESH_MIN_NS   (200 * NS_PER_MS)
#define REFRESH_YOUNG_NS (5 * NS_PER_MS)
#define JAVA_REFRESH     NS_PER_S
#define POLL_NS          (100 * NS_PER_MS)
#define THREAD_LIMIT     65536
#define EAGER_NS         (200 * NS_PER_MS)
#define EAGER_MS         1
#define MAPPED_BYTES     (128 << 10) /* from this size on, freed memory goes back at once */

struct sampler {
    pid_t *family; /* the processes that were named, and their descendants when it began */
    size_t family_count;
    struct sampler_options options;
    struct sampler_bpf *bpf;
    struct ring_buffer *ring;
    struct tables tables;
    struct native_files *files;
    struct kernel_names *kernel;
    struct sideband *sideband; /* NULL: not to be had */
    struct process_shared shared;
    uint64_t tidied_ns, made_room_ns;
    size_t folded;         /* processes that share a place in the profile with others of their name */
    uint64_t announced_ns; /* its news are known until then */
    struct map processes;  /* pid -> struct process *, or 0: cannot be read */
    struct sampler_process *description; /* scratch: it is large */
    uint32_t serial;                     /* of the last description that was published */
    struct process_stack *stack;
    struct ticks ticks;
    uint64_t started_ns;
    int stats_fd;
    struct profile *on, *off; /* during a poll */
    uint64_t now_ns;
    uint64_t named, complete, runtime_named[FRAME_KINDS], runtime_complete[FRAME_KINDS], ends[END_REASONS];
    uint64_t first_ns; /* when the first stack was named */
    int polled;
    unsigned taken;
    struct map thread_ids; /* (pid, tid) -> index in threads */
    ARRAY(struct sampler_thread) threads;
};

static const char *const ENDS[END_REASONS] = {"",
                                              "code that no mapping covers",
                                              "no unwind rule for the code",
                                              "the stack could not be read",
                                              "the stack is too deep",
                                              "the frame pointer leads nowhere",
                                              "",
                                              "generated code that nothing names",
                                              "a Java virtual machine that is not known",
                                              "the process was not read in time"};

/* ---- processes ---- */

static bool in_cgroup(const char *wanted, pid_t pid)
{
    char path[64];
    _cleanup_(freep) char *text = NULL;
    snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
    return file_read(path, 1 << 16, &text, NULL) == 0 && strstr(text, wanted);
}

static void publish(struct sampler *s, struct process *process)
{
    process_describe(process, &s->tables, s->description);
    s->description->serial = ++s->serial;
    uint32_t key = (uint32_t)process->pid;
    int map = bpf_map__fd(s->bpf->maps.processes);
    if (bpf_map_update_elem(map, &key, s->description, BPF_ANY) < 0) /* an old one may be wrong */
        bpf_map_delete_elem(map, &key);
}

static void ignore(struct sampler *s, pid_t pid)
{
    uint32_t key = (uint32_t)pid;
    memset(s->description, 0, sizeof(*s->description));
    s->description->ignored = 1;
    bpf_map_update_elem(bpf_map__fd(s->bpf->maps.processes), &key, s->description, BPF_ANY);
}

static void drop(struct sampler *s, pid_t pid)
{
    uint64_t *known = map_get(&s->processes, (uint64_t)pid);
    uint32_t key = (uint32_t)pid;
    bpf_map_delete_elem(bpf_map__fd(s->bpf->maps.processes), &key);
    if (!known)
        return;
    struct process *process = (struct process *)(uintptr_t)*known;
    if (process)
        process_give_rows(process, &s->tables);
    process_free(process);
    map_remove(&s->processes, (uint64_t)pid);
}

const char *sampler_end_text(enum sampler_end end)
{
    return end < END_REASONS ? ENDS[end] : "";
}

static struct process *known_process(struct sampler *s, pid_t pid)
{
    uint64_t *known = map_get(&s->processes, (uint64_t)pid);
    return known ? (struct process *)(uintptr_t)*known : NULL;
}

static struct process *keep(struct sampler *s, pid_t pid, struct process *process)
{
    uint64_t *known = map_put(&s->processes, (uint64_t)pid, NULL);
    if (!known) {
        process_free(process);
        return NULL;
    }
    *known = (uintptr_t)process;
    if (process && !process->gone)
        publish(s, process);
    return process;
}

/* A process that could not be read, at time_ns: what the kernel announced of it, or, before it ran a program
 * of its own, its parent. */
static struct process *ended_process(struct sampler *s, pid_t pid, uint64_t time_ns)
{
    struct sideband_process seen;
    struct modules modules;
    struct process *process;
    for (int i = 0; s->sideband && i < 4 && sideband_find(s->sideband, pid, &seen); i++) {
        bool own = seen.exec_ns && seen.exec_ns <= time_ns;
        if (own && sideband_modules(s->sideband, pid, &modules) == 0)
            return process_open_ended(pid, &modules, s->files, &s->shared, &process) < 0
                       ? NULL
                       : keep(s, pid, process);
        if (own || !seen.parent)
            return NULL;
        process = known_process(s, seen.parent);
        if (process)
            return process;
        pid = seen.parent;
    }
    return NULL;
}

/* The process as it was at time_ns, read when it is new. NULL when it is not wanted or nothing is known. */
static struct process *process_of(struct sampler *s, pid_t pid, uint64_t time_ns)
{
    struct sideband_process seen;
    struct process *process = known_process(s, pid);
    if (process)
        return process;
    if (map_get(&s->processes, (uint64_t)pid) && !s->sideband)
        return NULL;
    /* What can be read is the program that it will run a moment later. */
    if (s->sideband && sideband_find(s->sideband, pid, &seen) && seen.next_exec_ns > time_ns)
        return ended_process(s, pid, time_ns);
    if (s->options.cgroup && !in_cgroup(s->options.cgroup, pid)) {
        keep(s, pid, NULL);
        ignore(s, pid);
        return NULL;
    }
    if (process_open(pid, s->files, &s->shared, &process) == 0)
        return keep(s, pid, process);
    process = ended_process(s, pid, time_ns);
    if (!process)
        keep(s, pid, NULL);
    return process;
}

static void add_target(struct sampler *s, pid_t pid, uint32_t target)
{
    uint32_t key = (uint32_t)pid;
    bpf_map_update_elem(bpf_map__fd(s->bpf->maps.targets), &key, &target, BPF_ANY);
}

void sampler_add_command(struct sampler *s, pid_t pid)
{
    add_target(s, pid, TARGET_STARTS);
}

const char *sampler_runtime(struct sampler *s, pid_t pid)
{
    struct process *process = process_of(s, pid, clock_monotonic_ns());
    return process ? process_runtime(process) : NULL;
}

static void refresh(struct sampler *s, struct process *process)
{
    struct modules modules;
    struct sideband_process seen;
    if (process_refresh(process) == 0) {
        publish(s, process);
        return;
    }
    /* It ended since. What it mapped last, the kernel announced. */
    if (s->sideband && sideband_find(s->sideband, process->pid, &seen) && seen.exec_ns &&
        sideband_modules(s->sideband, process->pid, &modules) == 0) {
        native_take_modules(process->native, &modules);
        process->gone = true;
    }
}

/* A young process loads its libraries: it is read again soon. An old one seldom changes. */
static void refresh_if_due(struct sampler *s, struct process *process)
{
    if (process->gone)
        return;
    uint64_t now = clock_monotonic_ns(), age = now - process->loaded_ns, life = now - process->born_ns;
    if (process->mapped && process->loaded_ns < s->now_ns) { /* once in a batch of samples */
        refresh(s, process);
        return;
    }
    uint64_t pause = life / 4 < REFRESH_YOUNG_NS ? REFRESH_YOUNG_NS : MIN(life / 4, REFRESH_MIN_NS);
    if (process->hotspot)
        pause = MIN(pause, REFRESH_MIN_NS / 4);
    if (!(process->refresh_wanted && age > pause) && !(process->hotspot && age > JAVA_REFRESH))
        return;
    refresh(s, process);
}

/* ---- samples ---- */

static uint32_t group_frames(struct sampler *s, struct profile *profile, const struct process *process,
                             const struct sampler_sample *sample)
{
    char text[64];
    uint32_t node = 0;
    if (s->options.by_process) {
        bool kernel = sample->end == END_KERNEL;
        snprintf(text, sizeof(text), kernel ? "[%.31s] (%u)" : "%.31s (%u)",
                 process && *process->name ? process->name : sample->name, sample->pid);
        node = profile_child(profile, node, profile_named_frame(profile, text, FRAME_GROUP));
    }
    if (s->options.by_thread) {
        snprintf(text, sizeof(text), "thread %.16s (%u)", sample->name, sample->tid);
        node = profile_child(profile, node, profile_named_frame(profile, text, FRAME_GROUP));
    }
    return node;
}

/* Which unwinders served a thread shows in the kinds of its frames. */
static void note_thread(struct sampler *s, const struct profile *profile, const struct sampler_sample *sample,
                        bool complete)
{
    bool added;
    if (s->threads.count >= THREAD_LIMIT)
        return;
    uint64_t *at = map_put(&s->thread_ids, (uint64_t)sample->pid << 32 | sample->tid, &added);
    struct sampler_thread fresh = {.pid = (pid_t)sample->pid, .tid = (pid_t)sample->tid};
    memcpy(fresh.name, sample->name, sizeof(fresh.name) - 1);
    if (!at || (added && array_add(&s->threads, fresh) < 0))
        return;
    if (added)
        *at = s->threads.count - 1;
    struct sampler_thread *thread = &s->threads.at[*at];
    if (sample->kernel_words)
        thread->kinds |= 1u << FRAME_KERNEL;
    thread->stacks++;
    thread->complete += complete;
    for (size_t i = 0; i < s->stack->count; i++)
        thread->kinds |= 1u << profile->frames.at[s->stack->frames[i]].kind;
}

static int by_process_and_stacks(const void *a, const void *b)
{
    const struct sampler_thread *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return x->stacks > y->stacks ? -1 : x->stacks < y->stacks;
}

struct sampler_thread *sampler_threads(const struct sampler *s, size_t *ret_count)
{
    struct sampler_thread *list = calloc(s->threads.count + 1, sizeof(*list));
    if (!list)
        return NULL;
    if (s->threads.count) {
        memcpy(list, s->threads.at, s->threads.count * sizeof(*list));
        qsort(list, s->threads.count, sizeof(*list), by_process_and_stacks);
    }
    *ret_count = s->threads.count;
    return list;
}

/* Where a thread left the CPU, the innermost frames are our own program, what called it, and the scheduler,
 * in each stack alike: how many they are. The next says what is waited for. */
static uint32_t switch_frames(struct sampler *s, const uint64_t *kernel, uint32_t count)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i + 1 < count && i < 8; i++) {
        const char *name = kernel_names_at(s->kernel, kernel[i] - (i > 0));
        if (name && (strcmp(name, "__schedule") == 0 || (first == i && strcmp(name, "schedule") == 0)))
            first = i + 1;
    }
    return first;
}

static void add_stack(struct sampler *s, struct profile *profile, const struct process *process,
                      const struct sampler_sample *sample, const uint64_t *kernel, enum sampler_end end,
                      const struct sampler_waker *waker)
{
    uint32_t node = group_frames(s, profile, process, sample);
    char text[96];
    bool user = sample->user_words > 0 || end == END_GONE;
    if (s->stack->end != END_COMPLETE && end != END_NO_MODULE)
        end = s->stack->end;
    if (end >= END_REASONS)
        end = END_NO_ROW;
    if (!user) {
        end = END_COMPLETE;
        s->stack->runtime = FRAME_KERNEL;
    }
    if (*ENDS[end]) {
        snprintf(text, sizeof(text), "[truncated: %s]", ENDS[end]);
        node = profile_child(profile, node, profile_named_frame(profile, text, FRAME_TRUNCATED));
    }
    for (size_t i = s->stack->count; i-- > 0;)
        node = profile_child(profile, node, s->stack->frames[i]);
    uint32_t first = sample->kind == SAMPLE_OFF ? switch_frames(s, kernel, sample->kernel_words) : 0;
    for (uint32_t i = sample->kernel_words; i-- > first;) {
        const char *name = kernel_names_at(s->kernel, kernel[i] - (i > 0));
        node = profile_child(profile, node,
                             profile_named_frame(profile, name ? name : "[kernel]", FRAME_KERNEL));
    }
    if (sample->kind == SAMPLE_OFF)
        waits_count(profile, sample, node, waker, s->options.wakers ? s->kernel : NULL);
    else
        waits_count_at(profile, sample, node, 1, sample->weight);
    if (s->options.threads)
        note_thread(s, profile, sample, end == END_COMPLETE);
    if (!s->first_ns)
        s->first_ns = clock_monotonic_ns();
    s->ends[end]++;
    s->named++;
    s->complete += end == END_COMPLETE;
    s->runtime_named[s->stack->runtime]++;
    s->runtime_complete[s->stack->runtime] += end == END_COMPLETE;
    s->polled++;
}

/* waker: NULL when it is not known who ended the wait. */
static void on_stack(struct sampler *s, const struct sampler_sample *sample, const uint64_t *words,
                     const struct sampler_waker *waker)
{
    struct profile *profile = sample->kind == SAMPLE_OFF ? s->off : s->on;
    pid_t pid = (pid_t)sample->pid;
    struct process *process = NULL;
    if (sample->end != END_KERNEL) {
        process = process_of(s, pid, sample->time_ns);
    } else if (s->options.cgroup && !in_cgroup(s->options.cgroup, pid)) {
        ignore(s, pid);
        return;
    }
    if (!profile || (s->options.cgroup && !process && sample->end != END_KERNEL))
        return;
    s->stack->count = 0;
    s->stack->runtime = FRAME_NATIVE;
    s->stack->end = END_COMPLETE;
    const uint64_t *user = words + sample->kernel_words, *python = user + sample->user_words;
    if (process && sample->user_words) {
        process->refresh_wanted |= sample->end == END_NO_MODULE || sample->end == END_NO_ROW;
        refresh_if_due(s, process);
        process_name(process, profile, sample, user, python, s->now_ns, s->stack);
    } else if (sample->user_words) {
        s->stack->end = END_GONE;
    }
    add_stack(s, profile, process, sample, words, (enum sampler_end)sample->end, waker);
}

/* A process that the kernel's half does not know: this sample is walked here. */
static void on_copy(struct sampler *s, const struct sampler_sample *sample, const uint64_t *words)
{
    struct process *process = process_of(s, (pid_t)sample->pid, sample->time_ns);
    if (process && !process->gone && process->pid == (pid_t)sample->pid)
        publish(s, process); /* the kernel's half may have lost it to an execve */
    if (!s->on || !sample->weight || (s->options.cgroup && !process))
        return;
    s->stack->count = 0;
    s->stack->runtime = FRAME_NATIVE;
    s->stack->end = END_COMPLETE;
    enum sampler_end end;
    if (process && sample->user_words > 3) {
        struct registers registers = {words[0], words[1], words[2]};
        struct stack_copy copy = {(words[1] - SAMPLER_RED_ZONE) & ~(SAMPLER_COPY_STEP - 1ull),
                                  (const uint8_t *)(words + 3), 8 * (sample->user_words - 3ul)};
        process_walk(process, s->on, &registers, &copy, s->stack, &end);
        process->refresh_wanted |= end == END_NO_MODULE || end == END_NO_ROW;
        refresh_if_due(s, process);
        if (end == END_NO_MEMORY && copy.size == SAMPLER_COPY_BYTES)
            end = END_DEPTH;
    } else {
        end = process ? END_NO_MEMORY : END_GONE;
    }
    add_stack(s, s->on, process, sample, words + sample->user_words, end, NULL);
}

/* Code was mapped: the process is read again before its next stack is named. */
static void on_mapped(void *context, pid_t pid)
{
    struct process *process = known_process(context, pid);
    if (process)
        process->mapped = true;
}

static void listen(struct sampler *s)
{
    s->announced_ns = clock_monotonic_ns(); /* what happened until now is in the buffers */
    sideband_read(s->sideband);
}

static int on_event(void *context, void *data, size_t size)
{
    struct sampler *s = context;
    const struct sampler_sample *sample = data;
    if (size < sizeof(*sample))
        return 0;
    if (s->sideband) {
        if (sample->time_ns > s->announced_ns) /* it came while others were named */
            listen(s);
        sideband_apply(s->sideband, sample->time_ns, on_mapped, s);
    }
    const uint64_t *words = (const uint64_t *)(sample + 1);
    size_t count = (size - sizeof(*sample)) / 8;
    switch (sample->kind) {
    case SAMPLE_CPU:
    case SAMPLE_OFF: {
        uint64_t own = (uint64_t)sample->kernel_words + sample->user_words + sample->python_words;
        bool woken = sample->kind == SAMPLE_OFF && own + sizeof(struct sampler_waker) / 8 <= count;
        if (own <= count)
            on_stack(s, sample, words, woken ? (const struct sampler_waker *)(words + own) : NULL);
        break;
    }
    case SAMPLE_COPY:
        if (sample->user_words >= 3 && (uint64_t)sample->user_words + sample->kernel_words <= count)
            on_copy(s, sample, words);
        break;
    case SAMPLE_EXEC:
    case SAMPLE_EXIT:
        drop(s, (pid_t)sample->pid);
        break;
    }
    /* Where more comes than can be named, the caller still gets its turn. */
    return ++s->taken % 64 == 0 && clock_monotonic_ns() - s->now_ns > POLL_NS ? -ECANCELED : 0;
}

/* ---- memory ---- */

#define TIDY_NS   (10 * NS_PER_S)
#define TRIM_KEEP (1u << 20)
#define ROOM_NS   NS_PER_S

/* Known although nothing has them mapped, so that their rows need not be read again. */
#define CLOSED_FILES 256

static bool has_ended(pid_t pid)
{
    return kill(pid, 0) < 0 && errno == ESRCH;
}

/* The process or thread of a frame "NAME (NUMBER)" that ended: "NAME (ended)". */
static uint32_t ended_frame(void *context, struct profile *profile, uint32_t frame)
{
    struct sampler *s = context;
    char name[64], text[96];
    const char *old = profile_text(profile, profile->frames.at[frame].name);
    if (profile->frames.at[frame].kind != FRAME_GROUP)
        return frame;
    uint64_t number = profile_group_parts(old, name, sizeof(name));
    bool is_thread = strncmp(old, "thread ", 7) == 0;
    if (!number || !has_ended((pid_t)number))
        return frame;
    s->folded += !is_thread;
    snprintf(text, sizeof(text), "%s%s (" PROFILE_ENDED ")", is_thread ? "thread " : "", name);
    return profile_named_frame(profile, text, FRAME_GROUP);
}

static void fold_when_large(struct sampler *s, struct profile *profile)
{
    if (profile && profile->nodes.count > SAMPLER_NODES)
        (void)profile_fold(profile, SAMPLER_NODES / 2, ended_frame, s);
}

/* Their end may have been missed, or was met before their last sample. */
static void forget_ended(struct sampler *s)
{
    ARRAY(pid_t) pids = {0};
    map_foreach (&s->processes, slot)
        if (has_ended((pid_t)slot->key))
            (void)array_add(&pids, (pid_t)slot->key);
    array_foreach (&pids, pid)
        drop(s, *pid);
    array_done(&pids);
}

/* Children that were never met have their parent's description: of rows that may be others' soon. And nobody
 * would miss them when the news of their end was lost. */
static void forget_heirs(struct sampler *s)
{
    ARRAY(uint32_t) heirs = {0};
    int map = bpf_map__fd(s->bpf->maps.processes);
    uint32_t pid, *before = NULL;
    while (bpf_map_get_next_key(map, before, &pid) == 0) {
        before = &pid;
        if (!map_get(&s->processes, pid))
            (void)array_add(&heirs, pid);
    }
    array_foreach (&heirs, heir)
        bpf_map_delete_elem(map, heir);
    array_done(&heirs);
}

/* Files and processes come and go for hours, but the room for their rows is bounded: what was given back is
 * used again, and who found none gets what he lacked. */
static void settle(struct sampler *s)
{
    bool lacked = s->tables.full && s->now_ns - s->made_room_ns > ROOM_NS;
    if (lacked) {
        s->made_room_ns = s->now_ns;
        native_files_trim(s->files, 0);
    }
    if (s->tables.given_rows.count)
        forget_heirs(s);
    tables_settle(&s->tables);
    if (!lacked)
        return;
    s->tables.full = false;
    map_foreach (&s->processes, slot) {
        struct process *process = (struct process *)(uintptr_t)slot->value;
        if (process && process->lacks_rows && !process->gone)
            publish(s, process);
    }
}

static void tidy(struct sampler *s)
{
    fold_when_large(s, s->on);
    if (s->off != s->on)
        fold_when_large(s, s->off);
    if (s->now_ns - s->tidied_ns < TIDY_NS)
        return;
    s->tidied_ns = s->now_ns;
    forget_ended(s);
    forget_heirs(s);
    bool crowded = s->tables.rows_used > s->tables.row_limit / 4 * 3;
    native_files_trim(s->files, crowded ? CLOSED_FILES / 8 : CLOSED_FILES);
    malloc_trim(TRIM_KEEP);
}

/* ---- polling ---- */

int sampler_poll(struct sampler *s, int timeout_ms, struct profile *on, struct profile *off)
{
    s->on = on;
    s->off = off;
    s->polled = 0;
    if (!s->first_ns && s->now_ns - s->started_ns < EAGER_NS) /* the first stack is waited for */
        timeout_ms = MIN(timeout_ms, EAGER_MS);
    if (timeout_ms > 0) { /* the kernel's half does not wake us: that would cost its targets */
        struct timespec pause = {timeout_ms / 1000, timeout_ms % 1000 * 1000000l};
        nanosleep(&pause, NULL);
    }
    s->now_ns = clock_monotonic_ns();
    if (ticks_redraw(&s->ticks, s->now_ns))
        s->bpf->bss->clock_limit_ns = ticks_limit(s->ticks.period_ns);
    settle(s);
    memory_pages_forget(&s->shared.pages);
    if (s->sideband)
        listen(s);
    int r = ring_buffer__consume(s->ring);
    if (s->sideband) {
        sideband_apply(s->sideband, UINT64_MAX, on_mapped, s);
        map_foreach (&s->processes, slot) {
            struct process *process = (struct process *)(uintptr_t)slot->value;
            if (process && process->mapped)
                refresh_if_due(s, process);
        }
    }
    tidy(s);
    return r < 0 && r != -ECANCELED ? r : s->polled;
}

/* ---- start and end ---- */

static int refused(struct problem *problem, int error, const char *what)
{
    problem_set(problem, error, "%s: %s", what, strerror(-error));
    if (error == -EPERM || error == -EACCES)
        problem_remedy(problem,
                       "Run as root, or grant it once: setcap " SAMPLER_CAPABILITIES
                       " on the sonde binary. Without it, profiles that others took (pprof, folded text) can "
                       "be read: sonde profile --merge, sonde diff.");
    return error;
}

static void *share(struct bpf_map *map, size_t size)
{
    long page = sysconf(_SC_PAGESIZE);
    void *at = mmap(NULL, (size + (size_t)page - 1) & ~((size_t)page - 1), PROT_READ | PROT_WRITE, MAP_SHARED,
                    bpf_map__fd(map), 0);
    return at == MAP_FAILED ? NULL : at;
}

static int no_output(enum libbpf_print_level level, const char *format, va_list arguments)
{
    return 0;
}

/* Where the kernel's structures have their members, into a file for libbpf. */
static int write_types(const struct btf *btf, int fd)
{
    uint32_t size;
    const void *own = btf__raw_data(btf, &size);
    _cleanup_(freep) void *types = own ? malloc(size) : NULL;
    if (!types)
        return -ENOMEM;
    memcpy(types, own, size);
    int r = kernel_types_correct_running(types, size, kernel_types_sampled);
    return r < 0 ? r : file_write_all(fd, types, size);
}

/* With the places of the kernel's structures in the file types; or without one, when libbpf finds them. */
static struct sampler_bpf *open_program(int types)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", types);
    LIBBPF_OPTS(bpf_object_open_opts, options, .btf_custom_path = types < 0 ? NULL : path);
    struct sampler_bpf *bpf = sampler_bpf__open_opts(&options);
    if (!bpf || types < 0 || write_types(bpf_object__btf(bpf->obj), types) == 0)
        return bpf;
    sampler_bpf__destroy(bpf);
    return sampler_bpf__open();
}

static void configure(struct sampler *s)
{
    const struct sampler_options *o = &s->options;
    s->tables.row_limit = (uint32_t)((o->map_bytes ? o->map_bytes : 32u << 20) / sizeof(struct unwind_row));
    s->tables.page_limit = s->tables.row_limit / 4;
    s->bpf->rodata->row_limit = s->tables.row_limit;
    s->bpf->rodata->page_limit = s->tables.page_limit;
    s->bpf->rodata->only_targets = !o->whole_machine;
    s->bpf->rodata->want_kernel = o->kernel;
    s->bpf->rodata->off_cpu_min_ns = o->off_cpu_min_ns;
    s->bpf->rodata->own_pid = (uint32_t)getpid();
    s->bpf->bss->clock_period_ns = ticks_period(o);
    s->bpf->bss->clock_limit_ns = ticks_limit(ticks_period(o));
    bpf_map__set_max_entries(s->bpf->maps.rows, s->tables.row_limit);
    bpf_map__set_max_entries(s->bpf->maps.pages, s->tables.page_limit);
    bpf_map__set_max_entries(s->bpf->maps.caches, o->off_cpu ? 2 : 1);
    bpf_map__set_max_entries(s->bpf->maps.waiting, o->off_cpu ? 2048 : 1);
    bpf_map__set_max_entries(s->bpf->maps.wakes, o->off_cpu ? 2048 : 1);
    bpf_program__set_autoload(s->bpf->progs.on_switch, o->off_cpu);
    bpf_program__set_autoload(s->bpf->progs.on_waking, o->off_cpu);
}

static int load(struct sampler *s, struct problem *problem)
{
    libbpf_set_print(no_output);
    _cleanup_(file_closep) int types = memfd_create("sonde-types", MFD_CLOEXEC);
    int r = -EINVAL;
    /* A kernel that refuses it with what we found out of its structures gets what libbpf finds. */
    for (bool ours = types >= 0, last = false; r < 0 && !last; ours = false) {
        last = !ours;
        sampler_bpf__destroy(s->bpf);
        s->bpf = open_program(ours ? types : -1);
        if (!s->bpf)
            return refused(problem, -errno, "cannot open the BPF program");
        configure(s);
        r = sampler_bpf__load(s->bpf);
        last |= r == -EPERM;
    }
    if (r < 0)
        return refused(problem, r, "the kernel refused the BPF program");
    tables_init(&s->tables, share(s->bpf->maps.rows, (size_t)s->tables.row_limit * sizeof(struct unwind_row)),
                share(s->bpf->maps.pages, (size_t)s->tables.page_limit * sizeof(uint64_t)));
    s->ring = ring_buffer__new(bpf_map__fd(s->bpf->maps.samples), on_event, s, NULL);
    if (!s->tables.rows || !s->tables.pages || !s->ring || kernel_names_new(s->bpf, &s->kernel) < 0)
        return refused(problem, -ENOMEM, "cannot share memory with the kernel");
    return 0;
}

/* What takes rights, before anything of other processes is read. */
static int attach(struct sampler *s, struct problem *problem)
{
    struct sampler_bpf *bpf = s->bpf; /* which owns the links */
    const char *what;
    s->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
    if (sideband_open(&s->sideband) < 0)
        s->sideband = NULL;
    if (!(bpf->links.on_exec = bpf_program__attach(bpf->progs.on_exec)) ||
        !(bpf->links.on_exit = bpf_program__attach(bpf->progs.on_exit)) ||
        !(bpf->links.on_fork = bpf_program__attach(bpf->progs.on_fork)) ||
        (s->options.off_cpu && (!(bpf->links.on_waking = bpf_program__attach(bpf->progs.on_waking)) ||
                                !(bpf->links.on_switch = bpf_program__attach(bpf->progs.on_switch)))))
        return refused(problem, -errno, "cannot watch processes");
    /* A buffer that runs over loses samples: whoever empties it goes first, as far as we may ask for that. */
    if (setpriority(PRIO_PROCESS, (id_t)gettid(), -10) < 0)
        errno = 0;
    int r = s->options.on_cpu ? ticks_open(&s->ticks, &s->options, bpf->progs.on_tick, &what) : 0;
    if (r >= 0)
        return 0;
    refused(problem, r, what);
    if (r == -ENOENT || r == -EOPNOTSUPP)
        problem_remedy(problem, "This machine does not count it (virtual machines often lack hardware "
                                "counters); use --event cpu.");
    return r;
}

int sampler_open(const struct sampler_options *options, struct sampler **ret_sampler, struct problem *problem)
{
    _cleanup_(sampler_closep) struct sampler *s = calloc(1, sizeof(*s));
    if (!s)
        return problem_set(problem, -ENOMEM, "out of memory");
    s->options = *options;
    s->shared.lines = options->lines;
    s->shared.inlined = options->inlined;
    s->shared.source = options->source || options->lines;
    s->stats_fd = -1;
    mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES); /* else it grows with what was freed */
    s->description = calloc(1, sizeof(*s->description));
    s->stack = calloc(1, sizeof(*s->stack));
    if (!s->description || !s->stack || native_files_new(&s->files) < 0)
        return problem_set(problem, -ENOMEM, "out of memory");
    native_files_on_forget(s->files, tables_drop, &s->tables);
    int r = load(s, problem);
    if (r >= 0)
        r = attach(s, problem);
    if (r < 0)
        return r;
    *ret_sampler = s;
    s = NULL;
    return 0;
}

/* ---- the processes that are there already, read before the clock starts ---- */

/* The busiest of the whole machine: what is not known yet when it is met costs a copy of a stack for each
 * sample until then, which matters at high rates. */
#define READ_AHEAD_NS      NS_PER_S
#define READ_AHEAD_SLOW_NS (100 * NS_PER_MS)
#define READ_AHEAD_HZ      1000
#define READ_AHEAD_MAX     256

static void read_ahead(struct sampler *s)
{
    bool fast = s->options.frequency > READ_AHEAD_HZ || s->options.event_period;
    uint64_t end = clock_monotonic_ns() + (fast ? READ_AHEAD_NS : READ_AHEAD_SLOW_NS);
    size_t count;
    pid_t *pids = busiest_processes(READ_AHEAD_MAX, &count);
    for (size_t i = 0; pids && i < count && clock_monotonic_ns() < end; i++)
        process_of(s, pids[i], clock_monotonic_ns());
    free(pids);
}

/* Those that were named, all of which must be there, and their descendants. */
static int read_named(struct sampler *s, struct problem *problem)
{
    for (size_t i = 0; i < s->options.pid_count; i++) {
        pid_t pid = s->options.pids[i];
        if (process_of(s, pid, clock_monotonic_ns()))
            continue;
        bool gone = kill(pid, 0) < 0 && errno == ESRCH;
        return problem_set(problem, -ESRCH, "process %d: %s", pid,
                           gone ? strerror(ESRCH)
                                : "its mappings cannot be read: it is the kernel's, or not ours to see");
    }
    s->family = family_of(s->options.pids, s->options.pid_count, &s->family_count);
    if (!s->family)
        return problem_set(problem, -ENOMEM, "out of memory");
    for (size_t i = 0; i < s->family_count; i++)
        add_target(s, s->family[i], TARGET_RUNS);
    for (size_t i = s->options.pid_count; i < s->family_count && i < READ_AHEAD_MAX; i++)
        (void)process_of(s, s->family[i], clock_monotonic_ns());
    return 0;
}

/* Children that were forked before the kernel's half knew their parents. */
static int add_newborn(struct sampler *s)
{
    size_t count;
    pid_t *family = family_of(s->family, s->family_count, &count);
    if (!family)
        return -ENOMEM;
    for (size_t i = s->family_count; i < count; i++) {
        add_target(s, family[i], TARGET_RUNS);
        (void)process_of(s, family[i], clock_monotonic_ns());
    }
    free(s->family);
    s->family = family;
    s->family_count = count;
    return 0;
}

int sampler_start(struct sampler *s, struct problem *problem)
{
    int r = s->options.pid_count ? read_named(s, problem) : 0;
    if (r < 0)
        return r;
    if (s->options.whole_machine)
        read_ahead(s);
    if (s->family && (r = add_newborn(s)) < 0)
        return problem_set(problem, r, "out of memory");
    s->now_ns = s->started_ns = s->bpf->bss->started_ns = clock_monotonic_ns();
    ticks_start(&s->ticks, s->started_ns);
    return 0;
}

/* The last tick of the old rate may lie further back than the new rate would have it: until each processor
 * had a tick of the new one, times of the slower of both are no gaps. */
void sampler_set_frequency(struct sampler *s, unsigned frequency)
{
    struct sampler_options next = s->options;
    next.frequency = frequency;
    uint64_t before = s->ticks.period_ns, now = ticks_period(&next);
    if (!before || !now || before == now)
        return;
    s->options.frequency = frequency;
    s->bpf->bss->clock_limit_ns = MAX(s->bpf->bss->clock_limit_ns, ticks_limit(now));
    s->bpf->bss->clock_period_ns = now;
    ticks_set_period(&s->ticks, now, clock_monotonic_ns());
}

void sampler_stop(struct sampler *s)
{
    ticks_close(&s->ticks);
}

void sampler_close(struct sampler *s)
{
    if (!s)
        return;
    sampler_stop(s);
    if (s->stats_fd >= 0)
        close(s->stats_fd);
    ring_buffer__free(s->ring);
    sideband_free(s->sideband);
    map_foreach (&s->processes, slot)
        process_free((struct process *)(uintptr_t)slot->value);
    map_done(&s->processes);
    native_files_free(s->files);
    process_shared_done(&s->shared);
    if (s->tables.rows)
        munmap(s->tables.rows, (size_t)s->tables.row_limit * sizeof(struct unwind_row));
    if (s->tables.pages)
        munmap(s->tables.pages, (size_t)s->tables.page_limit * sizeof(uint64_t));
    tables_done(&s->tables);
    sampler_bpf__destroy(s->bpf);
    kernel_names_free(s->kernel);
    map_done(&s->thread_ids);
    array_done(&s->threads);
    free(s->family);
    free(s->description);
    free(s->stack);
    free(s);
}

static void add_program_time(struct bpf_program *program, struct sampler_counts *counts)
{
    struct bpf_prog_info info = {0};
    uint32_t size = sizeof(info);
    if (bpf_program__fd(program) >= 0 &&
        bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size) == 0) {
        counts->program_ns += info.run_time_ns;
        counts->program_runs += info.run_cnt;
    }
}

/* One that ended and that its parent has not asked for is still listed. */
static bool is_alive(pid_t pid)
{
    struct proc_stat stat;
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    return proc_open(pid, &proc) == 0 && proc_read_stat(proc, 0, &stat) == 0 && !strchr("ZX", stat.state);
}

bool sampler_ended(const struct sampler *s)
{
    for (size_t i = 0; i < s->family_count; i++)
        if (is_alive(s->family[i]))
            return false;
    return s->family_count > 0;
}

void sampler_counts(struct sampler *s, struct sampler_counts *ret_counts)
{
    struct sampler_counts c = {0};
    int cpus = libbpf_num_possible_cpus();
    uint64_t values[COUNT_MAX] = {0}, *each = calloc((size_t)MAX(cpus, 1), sizeof(*each));
    for (uint32_t i = 0; each && i < COUNT_MAX; i++)
        if (bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.counts), &i, each) == 0)
            for (int cpu = 0; cpu < cpus; cpu++)
                values[i] += each[cpu];
    free(each);
    c.ticks = values[COUNT_TICKS];
    c.samples = values[COUNT_SAMPLES];
    c.lost = values[COUNT_LOST];
    c.copies = values[COUNT_UNKNOWN];
    c.first_ns = s->first_ns;
    memcpy(c.ends, s->ends, sizeof(c.ends));
    c.stacks = s->named;
    c.complete = s->complete;
    memcpy(c.runtime_stacks, s->runtime_named, sizeof(c.runtime_stacks));
    memcpy(c.runtime_complete, s->runtime_complete, sizeof(c.runtime_complete));
    c.rows = s->tables.rows_used;
    c.map_bytes = (size_t)s->tables.row_limit * sizeof(struct unwind_row) +
                  (size_t)s->tables.page_limit * sizeof(uint64_t) + SAMPLER_RING_BYTES +
                  s->processes.count * sizeof(struct sampler_process);
    c.announcements_lost = s->sideband ? sideband_lost(s->sideband) : 0;
    map_foreach (&s->processes, slot)
        c.processes += slot->value != 0;
    c.folded = s->folded;
    c.too_large = native_files_too_large(s->files);
    add_program_time(s->bpf->progs.on_tick, &c);
    if (s->options.off_cpu)
        add_program_time(s->bpf->progs.on_switch, &c);
    if (s->options.off_cpu)
        add_program_time(s->bpf->progs.on_waking, &c);
    c.missed = bpf_missed_runs(s->bpf->obj);
    *ret_counts = c;
}
