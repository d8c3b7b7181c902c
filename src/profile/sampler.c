/* The sampler's user-space half: its start and end, and what becomes of samples (sampler_parts.h has the
 * others). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/sampler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/clock.h"
#include "base/proc.h"
#include "bpf/missed.h"
#include "profile/instance.h"
#include "profile/sampler_parts.h"
#include "profile/waits.h"
#include "profile/windows.h"

#define THREAD_LIMIT 65536
#define EAGER_NS     (200 * NS_PER_MS)
#define EAGER_MS     1
#define MAPPED_BYTES (128 << 10) /* from this size on, freed memory goes back at once */

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

const char *sampler_end_text(enum sampler_end end)
{
    return end < END_REASONS ? ENDS[end] : "";
}

/* ---- samples ---- */

static void process_frame_text(char *text, size_t size, const struct subject *process,
                               const struct sampler_sample *sample)
{
    bool kernel = sample->end == END_KERNEL;
    snprintf(text, size, kernel ? "[%.31s] (%u)" : "%.31s (%u)",
             process && *process->name ? process->name : sample->name, sample->pid);
}

/* What outliers are judged by, once for each process and thread. */
static void note_instance(struct sampler *s, struct profile *profile, uint32_t frame,
                          const struct sampler_sample *sample, uint32_t tid)
{
    struct sideband_process seen;
    if (!profile->windows)
        return;
    struct profile_instance *instance = profile_windows_instance(profile, frame);
    if (!instance || instance->known)
        return;
    instance_read((pid_t)sample->pid, (pid_t)tid, instance);
    if (!tid && s->sideband && sideband_find(s->sideband, (pid_t)sample->pid, &seen))
        instance->from_ns = MAX(instance->from_ns, seen.exec_ns);
}

/* The process has ended, or runs another program, which is another instance. */
static void note_end(struct sampler *s, struct profile *profile, const struct sampler_sample *sample)
{
    char text[64];
    const struct subject *process = sampler_known_process(s, (pid_t)sample->pid);
    if (!process || !profile || !profile->windows || !s->options.by_process)
        return;
    process_frame_text(text, sizeof(text), process, sample);
    struct profile_instance *instance =
        profile_windows_instance(profile, profile_named_frame(profile, text, FRAME_GROUP));
    if (instance)
        instance->until_ns = sample->time_ns;
}

size_t sampler_groups(struct sampler *s, struct profile *profile, const struct subject *process,
                      const struct sampler_sample *sample, enum sampler_end end,
                      uint32_t ret_frames[SAMPLER_GROUPS])
{
    char text[96];
    size_t count = 0;
    if (s->options.by_process) {
        process_frame_text(text, sizeof(text), process, sample);
        ret_frames[count] = profile_named_frame(profile, text, FRAME_GROUP);
        note_instance(s, profile, ret_frames[count++], sample, 0);
    }
    if (s->options.by_thread) {
        snprintf(text, sizeof(text), "thread %.16s (%u)", sample->name, sample->tid);
        ret_frames[count] = profile_named_frame(profile, text, FRAME_GROUP);
        note_instance(s, profile, ret_frames[count++], sample, sample->tid);
    }
    if (*ENDS[end]) {
        snprintf(text, sizeof(text), "[truncated: %s]", ENDS[end]);
        ret_frames[count++] = profile_named_frame(profile, text, FRAME_TRUNCATED);
    }
    return count;
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

/* And where a thread wakes another one: our own program, what called it, and what all wake-ups pass. */
static uint32_t wake_frames(struct sampler *s, const uint64_t *kernel, uint32_t count)
{
    for (uint32_t i = 0; i + 1 < count && i < 8; i++) {
        const char *name = kernel_names_at(s->kernel, kernel[i] - (i > 0));
        if (name && strcmp(name, "try_to_wake_up") == 0)
            return i + 1;
    }
    return 0;
}

/* The kernel's frames and then the user's, the innermost first. */
static size_t all_frames(struct sampler *s, struct profile *profile, const struct sampler_sample *sample,
                         const uint64_t *kernel, uint32_t *frames)
{
    uint32_t first = sample->kind == SAMPLE_OFF     ? switch_frames(s, kernel, sample->kernel_words)
                     : sample->kind == SAMPLE_WAKER ? wake_frames(s, kernel, sample->kernel_words)
                     : s->options.io                ? sampler_trace_frames(s, kernel, sample->kernel_words)
                                                    : 0;
    size_t count = 0;
    for (uint32_t i = first; i < sample->kernel_words; i++) {
        const char *name = kernel_names_at(s->kernel, kernel[i] - (i > 0));
        frames[count++] = profile_named_frame(profile, name ? name : "[kernel]", FRAME_KERNEL);
    }
    memcpy(&frames[count], s->stack->frames, s->stack->count * sizeof(*frames));
    return count + s->stack->count;
}

enum sampler_end sampler_end_of(struct sampler *s, const struct sampler_sample *sample, enum sampler_end end)
{
    if (s->stack->end != END_COMPLETE && end != END_NO_MODULE)
        end = s->stack->end;
    if (end >= END_REASONS)
        end = END_NO_ROW;
    if (sample->user_words > 0 || end == END_GONE)
        return end;
    s->stack->runtime = FRAME_KERNEL;
    return END_COMPLETE;
}

void sampler_count_stack(struct sampler *s, const struct profile *profile,
                         const struct sampler_sample *sample, enum sampler_end end)
{
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

/* Counts a wait below the stack that waited. */
static void add_wait(struct sampler *s, struct profile *profile, const struct sampler_sample *sample,
                     uint32_t node, bool idle, const struct sampler_waker *waker,
                     const struct wakers_chain *chain)
{
    if (!chain->count) {
        waits_count(profile, sample, node, idle, waker, s->options.wakers ? s->kernel : NULL);
        return;
    }
    uint64_t blocked = waits_count_ready(profile, sample, node, idle);
    if (blocked)
        waits_count_at(profile, sample, wakers_below(s->wakers, profile, node, chain), 1, blocked);
}

static void add_stack(struct sampler *s, struct profile *profile, const struct subject *process,
                      const struct sampler_sample *sample, const uint64_t *kernel, enum sampler_end end,
                      const struct sampler_waker *waker)
{
    uint32_t frames[SAMPLER_KERNEL + ARRAY_SIZE(s->stack->frames) + 1], groups[SAMPLER_GROUPS], node = 0;
    end = sampler_end_of(s, sample, end);
    size_t count = all_frames(s, profile, sample, kernel, frames);
    bool idle = sample->kind == SAMPLE_OFF && !s->options.idle && idle_wait(&s->idle, profile, frames, count);
    uint64_t left_out = idle ? sample->weight - waits_ready(sample) : 0;
    s->idle_waits += idle;
    s->idle_ns += left_out;
    struct wakers_chain chain = {0};
    if (sample->kind == SAMPLE_OFF && waker && s->wakers) { /* idle or not: it may wake others now */
        uint32_t thread, by = waits_waker_frame(s->kernel, profile, waker, &thread);
        chain = wakers_ended(s->wakers, profile, sample, by, thread);
    }
    if (idle && left_out == sample->weight)
        return;
    size_t group_count = sampler_groups(s, profile, process, sample, end, groups);
    if (s->options.io) {
        sampler_io_began(s, sample, groups, group_count, frames, count);
        sampler_count_stack(s, profile, sample, end);
        return;
    }
    for (size_t i = 0; i < group_count; i++)
        node = profile_child(profile, node, groups[i]);
    while (count-- > 0)
        node = profile_child(profile, node, frames[count]);
    if (sample->kind == SAMPLE_OFF)
        add_wait(s, profile, sample, node, idle, waker, &chain);
    else
        waits_count_at(profile, sample, node, 1, sample->weight);
    sampler_count_stack(s, profile, sample, end);
}

bool sampler_name(struct sampler *s, struct profile *profile, const struct sampler_sample *sample,
                  const uint64_t *words, struct subject **ret_process)
{
    pid_t pid = (pid_t)sample->pid;
    struct subject *process = NULL;
    if (sample->end != END_KERNEL) {
        process = sampler_process_of(s, pid, sample->time_ns);
    } else if (s->options.cgroup && !sampler_in_cgroup(s->options.cgroup, pid)) {
        sampler_ignore(s, pid);
        return false;
    }
    if (!profile || (s->options.cgroup && !process && sample->end != END_KERNEL))
        return false;
    s->stack->count = 0;
    s->stack->runtime = FRAME_NATIVE;
    s->stack->end = END_COMPLETE;
    const uint64_t *user = words + sample->kernel_words;
    if (process && sample->user_words) {
        process->refresh_wanted |= sample->end == END_NO_MODULE || sample->end == END_NO_ROW;
        sampler_refresh_if_due(s, process);
        subject_name(s->namers, process, profile, sample, user, s->now_ns, s->stack);
    } else if (sample->user_words) {
        s->stack->end = END_GONE;
    }
    *ret_process = process;
    return true;
}

/* waker: NULL when it is not known who ended the wait. */
static void on_stack(struct sampler *s, const struct sampler_sample *sample, const uint64_t *words,
                     const struct sampler_waker *waker)
{
    struct profile *profile = sample->kind == SAMPLE_OFF ? s->off : s->on;
    struct subject *process;
    if (sampler_name(s, profile, sample, words, &process))
        add_stack(s, profile, process, sample, words, (enum sampler_end)sample->end, waker);
}

/* A thread is about to end another one's wait. */
static void on_waker(struct sampler *s, const struct sampler_sample *sample, const uint64_t *words)
{
    uint32_t frames[SAMPLER_KERNEL + ARRAY_SIZE(s->stack->frames) + 1];
    struct subject *process;
    char text[96];
    if (!s->wakers || !sampler_name(s, s->off, sample, words, &process))
        return;
    size_t count = all_frames(s, s->off, sample, words, frames);
    enum sampler_end end = sampler_end_of(s, sample, (enum sampler_end)sample->end);
    if (*ENDS[end]) { /* not of the kind that counts as a truncated stack: the one that waited may be complete
                       */
        snprintf(text, sizeof(text), "[truncated: %s]", ENDS[end]);
        frames[count++] = profile_named_frame(s->off, text, FRAME_KERNEL);
    }
    wakers_woke(s->wakers, s->off, sample, frames, count);
}

/* The kernel's half may have lost the process to an execve, or have met code whose rows it has not: for a
 * copy that was made although it had the description. Of many processes there is no second one. Where rows
 * find no room, each sample is a copy: there may be some after a while. */
static void tell(struct sampler *s, struct subject *process, const struct sampler_sample *sample)
{
    if (process && !process->gone && process->pid == (pid_t)sample->pid &&
        sample->time_ns > process->published_ns + (process->lacks_rows ? SAMPLER_ROOM_NS : 0))
        sampler_publish(s, process);
}

/* A process that the kernel's half does not know: this sample is walked here. */
static void on_copy(struct sampler *s, const struct sampler_sample *sample, const uint64_t *words)
{
    struct subject *process = sampler_process_of(s, (pid_t)sample->pid, sample->time_ns);
    if (!s->on || !sample->weight || (s->options.cgroup && !process)) {
        tell(s, process, sample);
        return;
    }
    s->stack->count = 0;
    s->stack->runtime = FRAME_NATIVE;
    s->stack->end = END_COMPLETE;
    enum sampler_end end;
    if (process && sample->user_words > 3) {
        if (process->mapped)
            sampler_refresh_if_due(s, process);
        subject_walk(s->namers, process, s->on, sample, words, s->now_ns, s->stack, &end);
        process->refresh_wanted |= end == END_NO_MODULE || end == END_NO_ROW;
        sampler_refresh_if_due(s, process);
        if (end == END_NO_MEMORY && 8 * (sample->user_words - 3ul) == SAMPLER_COPY_BYTES)
            end = END_DEPTH;
    } else {
        end = process ? END_NO_MEMORY : END_GONE;
    }
    tell(s, process, sample);
    add_stack(s, s->on, process, sample, words + sample->user_words, end, NULL);
}

/* Code was mapped: the process is read again before its next stack is named. */
static void on_mapped(void *context, pid_t pid, uint64_t time_ns)
{
    struct sampler *s = context;
    struct subject *process = sampler_known_process(s, pid);
    if (process && (process->gone || time_ns > process->loaded_ns))
        process->mapped = true; /* else it was read after that */
}

/* A negative number: what comes next can wait. */
static int on_record(struct sampler *s, const void *data, size_t size)
{
    const struct sampler_sample *sample = data;
    if (size < sizeof(*sample))
        return 0;
    s->user = sample->user;
    if (s->stopped_ns && sample->time_ns > s->stopped_ns)
        return 0; /* where more comes than can be named, there would be no end */
    if (namers_has(s->namers, (pid_t)sample->pid)) { /* what we cause is no part of the profile */
        sampler_ignore(s, (pid_t)sample->pid);
        return 0;
    }
    if (s->sideband) {
        if (sample->time_ns > s->announced_ns) /* it came while others were named */
            sampler_listen(s);
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
    case SAMPLE_WAKER:
        if ((uint64_t)sample->kernel_words + sample->user_words + sample->python_words <= count)
            on_waker(s, sample, words);
        break;
    case SAMPLE_COPY:
        if (sample->user_words >= 3 && (uint64_t)sample->user_words + sample->kernel_words <= count)
            on_copy(s, sample, words);
        break;
    case SAMPLE_LOCK:
    case SAMPLE_LOCK_WAKER:
    case SAMPLE_LOCK_END:
    case SAMPLE_LOCK_RELEASE:
        sampler_on_lock(s, sample, words, count);
        break;
    case SAMPLE_ALLOC:
    case SAMPLE_FREE:
        sampler_on_alloc(s, sample, words, count);
        break;
    case SAMPLE_REQUEST_END:
        sampler_on_io_end(s, sample, words, count);
        break;
    case SAMPLE_EXEC:
    case SAMPLE_EXIT:
        sampler_allocs_ended(s, sample->pid, sample->kind == SAMPLE_EXEC);
        note_end(s, s->on, sample);
        sampler_drop(s, (pid_t)sample->pid);
        break;
    }
    /* Where more comes than can be named, the caller still gets its turn. */
    return ++s->taken % 8 == 0 && clock_monotonic_ns() - s->now_ns > SAMPLER_POLL_NS ? -ECANCELED : 0;
}

/* ---- polling ---- */

int sampler_poll(struct sampler *s, int timeout_ms, struct profile *on, struct profile *off)
{
    s->on = on;
    s->off = off;
    s->polled = 0;
    if (!s->first_ns && s->now_ns - s->started_ns < EAGER_NS) /* the first stack is waited for */
        timeout_ms = MIN(timeout_ms, EAGER_MS);
    struct record record;
    sampler_wait(s, records_ahead(&s->records, 0, &record) ? 0 : timeout_ms); /* they have waited already */
    s->now_ns = clock_monotonic_ns();
    if (ticks_redraw(&s->ticks, s->now_ns))
        s->bpf->bss->clock_limit_ns = ticks_limit(s->ticks.period_ns);
    sampler_settle(s);
    namers_begin_batch(s->namers);
    if (s->sideband)
        sampler_listen(s);
    int r = sampler_empty_ring(s);
    sampler_meet_new(s);
    while (r == 0 && records_take(&s->records, &record) && on_record(s, record.data, record.size) == 0)
        ;
    if (s->sideband) {
        sideband_apply(s->sideband, UINT64_MAX, on_mapped, s);
        map_foreach (&s->processes, slot) {
            struct subject *process = (struct subject *)(uintptr_t)slot->value;
            if (process && process->mapped && clock_monotonic_ns() - s->now_ns < 2 * SAMPLER_POLL_NS)
                sampler_refresh_if_due(s, process);
        }
    }
    sampler_tidy(s);
    if (s->options.hits)
        sampler_watch_hits(s);
    return r < 0 ? r : MAX(s->polled, records_ahead(&s->records, 0, &record));
}

/* ---- start and end ---- */

int sampler_open(const struct sampler_options *options, struct sampler **ret_sampler, struct problem *problem)
{
    _cleanup_(sampler_closep) struct sampler *s = calloc(1, sizeof(*s));
    if (!s)
        return problem_set(problem, -ENOMEM, "out of memory");
    s->options = *options;
    s->epoll = -1;
    mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES); /* else it grows with what was freed */
    s->description = calloc(1, sizeof(*s->description));
    s->stack = calloc(1, sizeof(*s->stack));
    if (options->waker_stacks && wakers_new(&s->wakers) < 0)
        return problem_set(problem, -ENOMEM, "out of memory");
    if (!s->description || !s->stack)
        return problem_set(problem, -ENOMEM, "out of memory");
    int r = sampler_load(s, sampler_keep_record, problem);
    const struct namer_options reads = {.row_limit = s->tables.row_limit,
                                        .lines = options->lines,
                                        .source = options->source || options->lines,
                                        .inlined = options->inlined,
                                        .lazy = sampler_is_slow(options) && !options->rises};
    if (r >= 0 && namers_new(&reads, &s->tables, &s->namers) < 0)
        r = problem_set(problem, -ENOMEM, "out of memory");
    if (r >= 0)
        sampler_look_ahead(s);
    if (r >= 0)
        r = sampler_attach(s, problem);
    if (r < 0)
        return r;
    *ret_sampler = s;
    s = NULL;
    return 0;
}

int sampler_start(struct sampler *s, struct problem *problem)
{
    int r = s->options.pid_count ? sampler_read_named(s, problem) : 0;
    if (r < 0)
        return r;
    if (s->command)
        namers_prepare(s->namers, s->command);
    if (s->options.whole_machine)
        sampler_read_ahead(s);
    if (s->family && (r = sampler_add_newborn(s)) < 0)
        return problem_set(problem, r, "out of memory");
    s->now_ns = s->started_ns = s->bpf->bss->started_ns = clock_monotonic_ns();
    ticks_start(&s->ticks, s->started_ns);
    sampler_wait_open(s);
    return 0;
}

/* The last tick of the old rate may lie further back than the new rate would have it: until each CPU
 * had a tick of the new one, times of the slower of both are no gaps. */
void sampler_set_frequency(struct sampler *s, unsigned frequency)
{
    struct sampler_options next = s->options;
    next.frequency = frequency;
    uint64_t before = s->ticks.period_ns, now = ticks_period(&next);
    if (!before || !now || before == now)
        return;
    s->options.frequency = frequency;
    sampler_wait_set(s);
    s->bpf->bss->clock_limit_ns = MAX(s->bpf->bss->clock_limit_ns, ticks_limit(now));
    s->bpf->bss->clock_period_ns = now;
    ticks_set_period(&s->ticks, now, clock_monotonic_ns());
}

void sampler_stop(struct sampler *s)
{
    ticks_close(&s->ticks);
    sampler_detach_hits(s);
    follow_stop(s->follow);
    if (!s->stopped_ns)
        s->stopped_ns = clock_monotonic_ns();
}

void sampler_end_soon(struct sampler *s)
{
    namers_end_soon(s->namers);
}

void sampler_close(struct sampler *s)
{
    if (!s)
        return;
    sampler_stop(s);
    sampler_wait_close(s);
    ring_buffer__free(s->ring);
    sideband_free(s->sideband);
    map_foreach (&s->processes, slot)
        subject_free(s->namers, (struct subject *)(uintptr_t)slot->value);
    map_done(&s->processes);
    namers_free(s->namers);
    records_done(&s->records);
    if (s->tables.rows)
        munmap(s->tables.rows, (size_t)s->tables.row_limit * sizeof(struct unwind_row));
    if (s->tables.pages)
        munmap(s->tables.pages, (size_t)s->tables.page_limit * sizeof(uint64_t));
    tables_done(&s->tables);
    sampler_detach_allocs(s);
    array_done(&s->go_pids);
    follow_free(s->follow);
    sampler_bpf__destroy(s->bpf);
    kernel_names_free(s->kernel);
    map_done(&s->thread_ids);
    array_done(&s->threads);
    idle_done(&s->idle);
    locks_free(s->locks);
    allocs_free(s->allocs);
    io_free(s->io);
    wakers_free(s->wakers);
    free(s->family);
    free(s->description);
    free(s->stack);
    free(s);
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
    c.not_kept = s->records.not_kept;
    c.lost = values[COUNT_LOST] + c.not_kept;
    c.copies = values[COUNT_UNKNOWN];
    c.program_runs = values[COUNT_TICKS] + values[COUNT_RUNS];
    c.program_ns = values[COUNT_TICKS_NS] + values[COUNT_TIMED_NS] * SAMPLER_TIMED_RUNS;
    c.not_followed = values[COUNT_NOT_FOLLOWED];
    c.births = values[COUNT_BIRTHS];
    c.first_ns = s->first_ns;
    memcpy(c.ends, s->ends, sizeof(c.ends));
    c.stacks = s->named;
    c.idle_waits = s->idle_waits;
    c.idle_ns = s->idle_ns;
    if (s->locks) {
        struct locks_counts locks = locks_counts(s->locks);
        c.idle_waits += locks.idle_waits;
        c.idle_ns += locks.idle_ns;
        c.locks_left_out = locks.crowded;
    }
    c.complete = s->complete;
    memcpy(c.runtime_stacks, s->runtime_named, sizeof(c.runtime_stacks));
    memcpy(c.runtime_complete, s->runtime_complete, sizeof(c.runtime_complete));
    c.rows = s->tables.rows_used;
    c.unwind_bytes = (size_t)s->tables.row_limit * sizeof(struct unwind_row);
    c.map_bytes = (size_t)s->tables.row_limit * sizeof(struct unwind_row) +
                  (size_t)s->tables.page_limit * sizeof(uint64_t) + SAMPLER_RING_BYTES +
                  s->processes.count * sizeof(struct sampler_process);
    c.announcements_lost = s->sideband ? sideband_lost(s->sideband) : 0;
    map_foreach (&s->processes, slot)
        c.processes += slot->value != 0;
    c.folded = s->folded;
    c.lacked_rows = s->lacked_rows;
    const struct namers_counts namers = namers_counts(s->namers);
    c.too_large = namers.too_large;
    c.namer_ns = namers.cpu_ns;
    c.namers_short = namers.short_of_memory;
    c.namers_failed = namers.failed;
    c.namers_late = namers.too_late;
    c.namer_bytes = namers.bytes;
    c.hits = s->hits;
    c.hits_stopped_ns = s->hits_stopped_ns;
    c.missed = bpf_missed_runs(s->bpf->obj);
    *ret_counts = c;
}
