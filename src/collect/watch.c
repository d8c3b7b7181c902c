/* What sonde watches from outside while programs run: the CPU time and run-queue delay of their threads
 * (so that a busy machine is not mistaken for a blocked loop), their memory, callbacks that are open too
 * long, and losses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/session_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attach/syscall_filter.h"
#include "base/clock.h"
#include "base/text.h"
#include "collect/stall.h"

/* ---- CPU time ---- */

static bool read_sched(const struct program *program, struct program_thread *t, uint64_t *ret_run_ns,
                       uint64_t *ret_wait_ns)
{
    char line[128];
    struct proc_runs runs;
    int fd = program_thread_sched(program, t);
    ssize_t n = fd >= 0 ? pread(fd, line, sizeof(line), 0) : -1;
    if (n <= 0 || !proc_parse_runs(line, (size_t)n, &runs))
        return false;
    *ret_run_ns = runs.ran_ns;
    *ret_wait_ns = runs.waited_ns;
    return true;
}

/* The same once a tick, however many want it. */
static bool read_sched_at(const struct program *program, struct program_thread *t, uint64_t now_ns,
                          uint64_t *ret_run_ns, uint64_t *ret_wait_ns)
{
    if (t->sched_read_ns != now_ns) {
        if (!read_sched(program, t, &t->sched_read_run_ns, &t->sched_read_wait_ns))
            return false;
        t->sched_read_ns = now_ns;
    }
    *ret_run_ns = t->sched_read_run_ns;
    *ret_wait_ns = t->sched_read_wait_ns;
    return true;
}

/* What is read of every program at its time takes as much for a program that does little. With many of them
 * it is done more seldom, so that what is recorded costs the same, whoever records it. */
static uint64_t gap_ns(const struct session *session, uint64_t least_ns, uint64_t each_ns, uint64_t most_ns)
{
    enum { FEW = 16 };
    size_t many = session->programs.count > FEW ? session->programs.count : 0;
    return MAX(MIN(many * each_ns, most_ns), least_ns);
}

/* Between two readings of a thread's times. Where the kernel's side tells of each time off a CPU they say
 * little more. */
static uint64_t sched_gap_ns(const struct session *session, uint64_t now_ns)
{
    return session_kernel_reports(session, now_ns) ? gap_ns(session, 0, 3 * NS_PER_MS, 500 * NS_PER_MS)
                                                   : gap_ns(session, 0, NS_PER_MS, 200 * NS_PER_MS);
}

static void tell_sched(struct session *session, struct program *program, struct program_thread *t,
                       uint64_t now_ns, bool certainly)
{
    uint64_t run_ns, wait_ns;
    if (!certainly && now_ns - t->sched_read_ns < sched_gap_ns(session, now_ns))
        return;
    if (!read_sched_at(program, t, now_ns, &run_ns, &wait_ns))
        return;
    bool changed = run_ns != t->sched_run_ns || wait_ns != t->sched_wait_ns;
    bool due = wait_ns - t->sched_wait_ns > NS_PER_MS || run_ns - t->sched_run_ns > 4 * NS_PER_MS ||
               now_ns - t->sched_told_ns > NS_PER_S || certainly;
    if (!changed || !due)
        return;
    t->sched_run_ns = run_ns;
    t->sched_wait_ns = wait_ns;
    t->sched_told_ns = now_ns;
    struct record_thread_sched record = {
        .run_ns = run_ns, .wait_ns = wait_ns, .pid = (uint32_t)program->pid, .tid = t->tid};
    ctf_stream_write(session->own, SONDE_EVENT_thread_sched, now_ns, 0, &record, NULL);
}

/* ---- memory ---- */

static const uint64_t MEMORY_GAP_NS = 100 * NS_PER_MS, MEMORY_STEP_BYTES = 1 << 20;

/* /proc/PID/statm, in pages: size, resident, of that shared (with others, or a file's). */
static void tell_memory(struct session *session, struct program *program, uint64_t now_ns)
{
    _cleanup_(freep) char *line = NULL;
    unsigned long resident, shared;
    if (now_ns < program->memory_next_ns)
        return;
    program->memory_next_ns = now_ns + MEMORY_GAP_NS;
    if (proc_read(program->proc, "statm", 256, &line, NULL) < 0 ||
        sscanf(line, "%*u %lu %lu", &resident, &shared) != 2 || shared >= resident) /* equal: it is ending */
        return;
    uint64_t bytes = (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE), before = program->memory_bytes;
    if (MAX(bytes, before) - MIN(bytes, before) < MEMORY_STEP_BYTES)
        return;
    program->memory_bytes = bytes;
    struct record_process_memory record = {.anonymous_bytes = bytes, .pid = (uint32_t)program->pid};
    ctf_stream_write(session->own, SONDE_EVENT_process_memory, now_ns, 0, &record, NULL);
}

/* ---- CPU quotas ---- */

void session_tell_quota(struct session *session, struct program *program, uint64_t now_ns, bool last)
{
    struct quota_counts counts;
    if (!(last ? quota_read_last(&program->quota, program->proc, &counts)
               : quota_read(&program->quota, program->proc, now_ns, &counts)))
        return;
    struct record_cgroup_cpu record = {.throttled_ns = counts.throttled_ns,
                                       .periods = counts.periods,
                                       .throttled_periods = counts.throttled_periods,
                                       .quota_us = program->quota.quota_us,
                                       .period_us = program->quota.period_us,
                                       .pid = (uint32_t)program->pid};
    ctf_stream_write(session->own, SONDE_EVENT_cgroup_cpu, now_ns, 0, &record, NULL);
}

/* ---- the machine ---- */

static void tell_machine(struct session *session, uint64_t now_ns)
{
    struct machine_counts counts;
    if (session->level == SONDE_level_requests || !machine_read(&session->machine, now_ns, &counts))
        return;
    struct record_machine_cpu record = {
        .stolen_ns = counts.stolen_ns, .idlest_ns = counts.idlest_ns, .cpus = counts.cpus};
    ctf_stream_write(session->own, SONDE_EVENT_machine_cpu, now_ns, 0, &record, NULL);
}

/* ---- system call filters ---- */

/* Of a program that goes on for a while; and of one that rests, when the kernel's side tells of new filters,
 * since it may miss a thread that leaves its CPU now and then. */
static const uint64_t FILTERS_GAP_NS = 100 * NS_PER_MS, FILTERS_TOLD_GAP_NS = 5 * NS_PER_S;

/* A program that sandboxes itself after sonde came: the calls of the probe, which the filters of before let
 * through, are stopped at once, and made again only when the new filters let them through as well. */
static void watch_filters(struct session *session, struct program *program, uint64_t now_ns,
                          uint64_t least_gap_ns)
{
    if (now_ns - program->filters_seen_ns < gap_ns(session, least_gap_ns, 10 * NS_PER_MS, NS_PER_S))
        return;
    program->filters_seen_ns = now_ns;
    long filters = syscall_filter_count(program->proc);
    if (filters < 0 || filters == program->filters)
        return;
    program->filters = filters;
    ring_memory_bar_calls(program->rings, true);
    program->calls_barred = syscall_filter_check(program->proc, NULL) < 0;
    ring_memory_bar_calls(program->rings, program->calls_barred);
    if (!program->calls_barred)
        return;
    session->manifest_wanted = true;
    session_note(session,
                 "%s (%d) has a new system call filter: the probe asks the system for nothing any more",
                 program->name, program->pid);
}

void session_watch_filtered(struct session *session, uint64_t now_ns)
{
    for (pid_t pid; session->kernel && (pid = kernel_take_filtered(session->kernel));)
        array_foreach (&session->programs, p)
            if ((*p)->pid == pid && !(*p)->ended_ns) {
                (*p)->filters_seen_ns = 0;
                watch_filters(session, *p, now_ns, 0);
            }
}

/* ---- open spans ---- */

static void tell_open_span(struct session *session, const struct program *program,
                           const struct program_thread *t, uint32_t depth, const struct sonde_open_span *open,
                           bool final)
{
    struct record_open_span record = {.since_ns = clock_fit_ns(&session->fit, open->start_tsc),
                                      .argument = open->argument,
                                      .pid = (uint32_t)program->pid,
                                      .tid = t->tid,
                                      .event = open->event,
                                      .name = open->name,
                                      .depth = (uint8_t)depth,
                                      .final = final};
    ctf_stream_write(session->own, SONDE_EVENT_open_span, clock_monotonic_ns(), 0, &record, NULL);
}

static void tell_thread_open(struct session *session, struct program *program, struct program_thread *t,
                             bool final)
{
    for (uint32_t depth = 0; depth < ring_open_count(t->ring); depth++) {
        struct sonde_open_span open;
        if (ring_open_span(t->ring, depth, &open))
            tell_open_span(session, program, t, depth, &open, final);
    }
}

void session_tell_open(struct session *session, struct program *program, bool final)
{
    uint64_t now_ns = clock_monotonic_ns();
    for (uint32_t i = 0; i < program->thread_count; i++) {
        tell_sched(session, program, &program->threads[i], now_ns, true);
        tell_thread_open(session, program, &program->threads[i], final);
    }
}

/* ---- stalls ---- */

/* What the sampler calls by other names, the catalogue's. */
static uint8_t catalogue_cause(enum stall_cause cause)
{
    static const uint8_t CAUSES[] = {
        [STALL_REGEXP] = SONDE_stall_cause_regexp,   [STALL_JAVASCRIPT] = SONDE_stall_cause_javascript,
        [STALL_BUILTIN] = SONDE_stall_cause_builtin, [STALL_GC] = SONDE_stall_cause_gc,
        [STALL_NATIVE] = SONDE_stall_cause_native,   [STALL_WAITING] = SONDE_stall_cause_waiting};
    return CAUSES[cause];
}

/* The regular expression, the builtin, or the innermost native function. */
static void add_detail(struct text *text, const struct stall_report *report)
{
    if (report->cause == STALL_REGEXP && report->pattern)
        text_addf(text, "/%s/%s", report->pattern, report->flags ? report->flags : "");
    else if (report->cause == STALL_BUILTIN && report->builtin)
        text_add(text, report->builtin);
    else if (report->cause != STALL_JAVASCRIPT && report->count &&
             report->frames[0].kind == STALL_FRAME_NATIVE && report->frames[0].function)
        text_add(text, report->frames[0].function);
}

enum { STACK_MAX = 16000 };

static size_t length_of(const struct stall_frame *f)
{
    enum { MARKS = 32 }; /* semicolon, brackets, line and column */
    return (f->function ? strlen(f->function) : 1) + (f->script ? strlen(f->script) : 0) + MARKS;
}

static void add_frames(struct text *text, const struct stall_frame *frames, size_t count)
{
    while (count-- > 0) {
        const struct stall_frame *f = &frames[count];
        text_addf(text, "%s%s", text->length ? ";" : "", f->function ? f->function : "?");
        if (f->script)
            text_addf(text, " (%s:%u:%u)", f->script, f->line, f->column);
    }
}

/* Outermost first, as flame graphs want them; of a long stack both ends. */
static void add_stack(struct text *text, const struct stall_report *report)
{
    const struct stall_frame *frames = report->frames;
    size_t inner = 0, outer = report->count, length = 0;
    while (outer > 0 && frames[outer - 1].kind != STALL_FRAME_LEFT_OUT &&
           (length += length_of(&frames[outer - 1])) < STACK_MAX / 2)
        outer--;
    length = 0;
    while (inner < outer && frames[inner].kind != STALL_FRAME_LEFT_OUT &&
           (length += length_of(&frames[inner])) < STACK_MAX / 2)
        inner++;
    add_frames(text, frames + outer, report->count - outer);
    if (inner < outer)
        text_addf(text, "%s%s", text->length ? ";" : "", SONDE_FRAMES_LEFT_OUT);
    add_frames(text, frames, inner);
}

static uint16_t add_string(struct text *strings, const char *string)
{
    size_t before = strings->length, length = string ? MIN(strlen(string), (size_t)STACK_MAX) : 0;
    text_add_bytes(strings, string ? string : "", length);
    return (uint16_t)(strings->length - before);
}

static void tell_sample(struct session *session, const struct program *program,
                        const struct program_thread *t, uint64_t since_ns, uint64_t run_ns, bool brief,
                        const struct stall_report *report)
{
    const struct stall_frame none = {0}, *where = report->where >= 0 ? &report->frames[report->where] : &none;
    struct text strings = {0}, detail = {0}, stack = {0};
    add_detail(&detail, report);
    add_stack(&stack, report);
    struct record_stall_sample record = {.since_ns = since_ns,
                                         .run_ns = run_ns,
                                         .pid = (uint32_t)program->pid,
                                         .tid = t->tid,
                                         .line = where->line,
                                         .column = where->column,
                                         .brief = brief,
                                         .cause = catalogue_cause(report->cause)};
    record.function_length = add_string(&strings, where->function);
    record.script_length = add_string(&strings, where->script);
    record.detail_length = add_string(&strings, text_get(&detail));
    record.stack_length = add_string(&strings, text_get(&stack));
    if (!strings.failed)
        ctf_stream_write(session->own, SONDE_EVENT_stall_sample, clock_monotonic_ns(), 0, &record,
                         text_get(&strings));
    text_done(&strings);
    text_done(&detail);
    text_done(&stack);
}

/* A line for the user, at first when a stall has lasted NOTE_NS and then each time it has doubled. Waiting
 * for a CPU is no stall of the program's own. */
enum { NOTE_MS = 300 };

/* Loading modules, and the main script, keeps nobody: there is no service yet. */
static const uint64_t STARTING_NS = 3 * NS_PER_S;

static void note_stall(struct session *session, const struct program *program, struct program_thread *t,
                       uint64_t open_ns, uint64_t run_ns, const struct stall_report *report)
{
    static const char *const WORDS[] = {
        [STALL_REGEXP] = "regular expression", [STALL_JAVASCRIPT] = "JavaScript",
        [STALL_BUILTIN] = "call of",           [STALL_GC] = "garbage collection",
        [STALL_NATIVE] = "native code",        [STALL_WAITING] = "a system call"};
    uint64_t lost_ns = report->cause == STALL_WAITING ? open_ns : run_ns;
    if (lost_ns < STARTING_NS && report->loading)
        return;
    if (lost_ns < NOTE_MS * NS_PER_MS || open_ns < 2 * t->stall_noted_ns)
        return;
    t->stall_noted_ns = open_ns;
    struct text detail = {0}, place = {0};
    add_detail(&detail, report);
    if (report->where >= 0) {
        const struct stall_frame *f = &report->frames[report->where];
        text_addf(&place, " in %s (%s:%u:%u)",
                  f->function && f->function[0] ? f->function : "an anonymous function",
                  f->script ? f->script : "?", f->line, f->column);
    }
    char duration[32];
    session_note(session, "%s (%d): event loop blocked for %s: %s%s%s%s", program->name, program->pid,
                 clock_format_duration(open_ns, duration, sizeof(duration)), WORDS[report->cause],
                 detail.length ? " " : "", text_get(&detail), text_get(&place));
    text_done(&detail);
    text_done(&place);
}

/* The kernel's letter for the thread's state: R runnable, S and D waiting in a system call, ...; 0 unknown.
 */
static char thread_state(const struct program *program, const struct program_thread *t)
{
    struct proc_stat stat;
    return t->tid && proc_read_stat(program->proc, (pid_t)t->tid, &stat) == 0 ? stat.state : 0;
}

/* One look into a thread whose callback is open too long. */
static void look_into(struct session *session, struct program *program, struct program_thread *t,
                      uint64_t since_ns)
{
    struct stall_report report;
    uint64_t run_ns = 0, wait_ns;
    char state = thread_state(program, t);
    if (stall_sample(session->sampler, program->proc, (pid_t)t->tid, &report, NULL) < 0)
        return;
    if (read_sched(program, t, &run_ns, &wait_ns))
        run_ns -= MIN(run_ns, t->stall_run_ns);
    struct sonde_open_span open;
    /* In a system call and yet runnable: it was taken off its CPU there, and waits for nothing of its
     * own. */
    bool preempted = report.cause == STALL_WAITING && state == 'R';
    bool still =
        !t->ring || (program_find_callback(program, t, &open) && open.start_tsc == t->stall_start_tsc);
    if (still && !preempted) {
        tell_sample(session, program, t, since_ns, run_ns, false, &report);
        note_stall(session, program, t, clock_monotonic_ns() - since_ns, run_ns, &report);
    } else if (!preempted && report.where >= 0) { /* it has ended since: the time says what it was of */
        tell_sample(session, program, t, report.at_ns, 0, true, &report);
    }
    stall_report_done(&report);
}

static void weigh_load(const struct program *program, struct program_thread *t, uint64_t now_ns)
{
    uint64_t run_ns, wait_ns;
    if (read_sched_at(program, t, now_ns, &run_ns, &wait_ns))
        glance_weigh(&t->glance, run_ns, wait_ns, now_ns);
}

/* Native code between JavaScript says nothing of the program: then another look follows. */
static void glance_into(struct session *session, struct program *program, struct program_thread *t,
                        uint64_t since_ns, uint64_t now_ns)
{
    enum { LOOKS_A_TICK = 2 };
    struct stall_report report;
    bool told = false;
    for (int i = 0; i < LOOKS_A_TICK && !told && glance_is_due(&t->glance, since_ns, now_ns); i++) {
        if (stall_sample(session->sampler, program->proc, (pid_t)t->tid, &report, NULL) < 0)
            return;
        told = report.where >= 0 && report.cause != STALL_WAITING;
        if (told)
            tell_sample(session, program, t, report.at_ns, 0, true, &report);
        stall_report_done(&report);
    }
}

static void watch_thread(struct session *session, struct program *program, struct program_thread *t,
                         uint64_t now_ns)
{
    struct sonde_open_span open;
    if (!program_find_callback(program, t, &open)) {
        if (t->stall_start_tsc) /* it has ended: how much of it was waiting for a CPU? */
            tell_sched(session, program, t, now_ns, true);
        t->stall_start_tsc = 0;
        return;
    }
    uint64_t since_ns = clock_fit_ns(&session->fit, open.start_tsc);
    if (open.start_tsc != t->stall_start_tsc) {
        t->stall_start_tsc = open.start_tsc;
        t->stall_next_ns = since_ns + session->options.stall_ns;
        t->stall_samples = 0;
        t->stall_noted_ns = 0;
        uint64_t wait_ns;
        if (!read_sched(program, t, &t->stall_run_ns, &wait_ns))
            t->stall_run_ns = 0;
        tell_sched(session, program, t, now_ns, true);
    }
    if (now_ns < t->stall_next_ns) {
        if (!t->stall_samples)
            glance_into(session, program, t, since_ns, now_ns);
        return;
    }
    tell_sched(session, program, t, now_ns, true);
    tell_thread_open(session, program, t, false);
    look_into(session, program, t, since_ns);
    t->stall_samples++;
    /* Often at first, then ever less: a stall of minutes needs no thousand looks. */
    uint64_t pause = session->options.stall_ns * (t->stall_samples < 5 ? 1 : MIN(t->stall_samples, 25u));
    t->stall_next_ns = clock_monotonic_ns() + pause;
    if (t->stall_samples < 5) { /* what is known so far must survive our own end */
        (void)ctf_stream_flush(session->own);
        if (t->stream)
            (void)ctf_stream_flush(t->stream);
    }
}

/* The main thread of a program that we attached to, until it begins a callback: when it computes all the time
 * it is stuck in one that began before we came. It may show itself meanwhile, as by its collections; then it
 * takes more to believe that, since short callbacks may begin and end between our looks. */
enum { LOOKS_MIN = 30, UNSTUCK_PART = 16 };
static const double STUCK_LOAD = 0.5;

static const struct program_thread *main_thread(const struct program *program)
{
    for (uint32_t i = 0; i < program->thread_count; i++)
        if (program->threads[i].tid == (uint32_t)program->pid)
            return &program->threads[i];
    return NULL;
}

static void watch_unseen(struct session *session, struct program *program, uint64_t now_ns)
{
    struct program_thread *t = &program->unseen;
    const struct program_thread *shown = main_thread(program);
    uint64_t run_ns, wait_ns, elapsed_ns = now_ns - program->started_ns;
    struct sonde_open_span open;
    if (shown && program_find_callback(program, shown, &open)) {
        program->midway = false;
        return;
    }
    t->stall_looks++;
    if (!t->tid) {
        t->tid = (uint32_t)program->pid;
        (void)read_sched(program, t, &t->stall_run_ns, &t->sched_wait_ns);
        t->stall_next_ns = program->started_ns + 2 * session->options.stall_ns;
    }
    if (now_ns < t->stall_next_ns || !read_sched(program, t, &run_ns, &wait_ns) ||
        (shown && (t->stall_looks < LOOKS_MIN || elapsed_ns < NOTE_MS * NS_PER_MS)))
        return;
    double load = (double)(run_ns - t->stall_run_ns + wait_ns - t->sched_wait_ns) / (double)elapsed_ns;
    if (load < STUCK_LOAD) { /* it takes ever longer until it can have been stuck for most of the time */
        t->stall_next_ns = now_ns + elapsed_ns / UNSTUCK_PART;
        return;
    }
    struct record_open_span record = {.since_ns = program->started_ns,
                                      .pid = (uint32_t)program->pid,
                                      .tid = t->tid,
                                      .event = program->target->kind->callback_event};
    ctf_stream_write(session->own, SONDE_EVENT_open_span, now_ns, 0, &record, NULL);
    look_into(session, program, t, program->started_ns);
    t->stall_samples++;
    t->stall_next_ns = clock_monotonic_ns() + session->options.stall_ns * MIN(t->stall_samples, 25u);
}

/* Threads show what they do by records and open spans, and the kernel's side says when they run. Of those
 * that show nothing times are read now and then: a pool has many that wait for work. */
static const uint64_t SHOWS_NS = 1200 * NS_PER_MS, UNSHOWN_GAP_NS = 2 * NS_PER_S;

static bool shows_itself(const struct session *session, const struct program *program,
                         struct program_thread *t, uint64_t now_ns)
{
    if (t->drained || program_thread_is_amid(program, t) ||
        (session->kernel && kernel_thread_has_run(session->kernel, t->tid)))
        t->shown_ns = now_ns;
    t->drained = false;
    return now_ns - t->shown_ns < SHOWS_NS;
}

/* What changes slowly is not read of a program that wakes up for a moment (news.c), unless it has run for
 * longer in many of them together. */
static const uint64_t MOMENT_NS = 50 * NS_PER_MS, MOMENTS_CPU_NS = 5 * NS_PER_MS;

void session_tend_rest(struct session *session, struct program *program, uint64_t now_ns)
{
    program->came_to_rest = false;
    bool told =
        program->followed && session_kernel_reports(session, now_ns) && kernel_tells_filters(session->kernel);
    watch_filters(session, program, now_ns, told ? FILTERS_TOLD_GAP_NS : 0);
    if (!program->cpu_ns || program->cpu_ns - program->tended_cpu_ns > MOMENTS_CPU_NS) {
        program->tended_cpu_ns = program->cpu_ns;
        tell_machine(session, now_ns);
        session_tell_quota(session, program, now_ns, false);
        program->memory_next_ns = 0;
        if (program_runs_callbacks(program))
            tell_memory(session, program, now_ns);
    }
    for (uint32_t i = 0; i < program->thread_count; i++) {
        struct program_thread *t = &program->threads[i];
        if (ring_owner(t->ring) && shows_itself(session, program, t, now_ns) &&
            t->shown_ns > t->sched_told_ns + sched_gap_ns(session, now_ns))
            tell_sched(session, program, t, now_ns, true);
    }
    program_close_scheds(program);
}

void session_tend(struct session *session, uint64_t now_ns)
{
    array_foreach (&session->programs, p) {
        struct program *program = *p;
        if (program->ended_ns || program->quiet)
            continue;
        bool awake = now_ns - program->woke_ns > MOMENT_NS;
        if (awake) {
            tell_machine(session, now_ns);
            watch_filters(session, program, now_ns, FILTERS_GAP_NS);
            session_tell_quota(session, program, now_ns,
                               false); /* before the threads' times, which are judged with it */
        }
        if (program->midway && program_runs_callbacks(program))
            watch_unseen(session, program, now_ns);
        if (awake && program_runs_callbacks(program))
            tell_memory(session, program, now_ns);
        for (uint32_t i = 0; i < program->thread_count; i++) {
            struct program_thread *t = &program->threads[i];
            if (!ring_owner(t->ring))
                continue;
            session_apply_families_to(session, t);
            bool shows = shows_itself(session, program, t, now_ns);
            if (shows || (awake && now_ns - t->sched_read_ns > UNSHOWN_GAP_NS))
                tell_sched(session, program, t, now_ns, false);
            if (shows && program_runs_callbacks(program) && ring_open_count(t->ring))
                weigh_load(program, t, now_ns);
            watch_thread(session, program, t, now_ns);
        }
    }
    if (session->kernel)
        kernel_forget_running_threads(session->kernel);
}

/* ---- losses ---- */

static void tell_loss(struct session *session, struct program *program, uint32_t tid, int reason,
                      uint64_t total, uint64_t *told, struct ctf_stream *stream)
{
    if (total <= *told)
        return;
    uint64_t count = total - *told;
    *told = total;
    program->losses[reason] += count;
    if (stream && reason != SONDE_loss_reason_open_span_depth)
        ctf_stream_discarded(stream, count);
    struct record_loss record = {
        .count = count, .pid = (uint32_t)program->pid, .tid = tid, .reason = (uint8_t)reason};
    ctf_stream_write(session->own, SONDE_EVENT_loss, clock_monotonic_ns(), 0, &record, NULL);
}

void session_tell_thread_losses(struct session *session, struct program *program, struct program_thread *t)
{
    struct ring_counts counts;
    ring_counts(t->ring, &counts);
    tell_loss(session, program, t->tid, SONDE_loss_reason_ring_full, counts.lost_full, &t->lost_full,
              t->stream);
    tell_loss(session, program, t->tid, SONDE_loss_reason_signal_handler, counts.lost_signal, &t->lost_signal,
              t->stream);
    tell_loss(session, program, t->tid, SONDE_loss_reason_open_span_depth, counts.lost_depth, &t->lost_depth,
              NULL);
    uint64_t unreadable = t->unreadable;
    t->unreadable = 0;
    uint64_t none = 0;
    tell_loss(session, program, t->tid, SONDE_loss_reason_unreadable_record, unreadable, &none, t->stream);
}

void session_tell_losses(struct session *session, struct program *program)
{
    for (uint32_t i = 0; i < program->thread_count; i++)
        session_tell_thread_losses(session, program, &program->threads[i]);
    struct sonde_shared header;
    ring_memory_header(program->rings, &header);
    tell_loss(session, program, 0, SONDE_loss_reason_no_thread_slot, header.events_without_slot,
              &program->events_without_slot, NULL);
}
