/* Long stretches: turns that kept an event loop, commands that kept Redis, who waited for them meanwhile, and
 * how much of each the machine's load explains (the thread was ready to run but had no CPU). */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "faults/faults.h"
#include "base/clock.h"

enum { STRETCHES_MAX = 256, VICTIMS_MAX = 4096, CHAIN_MAX = 16 };

/* A verdict waits so long for who comes late: requests that stood in the socket, commands behind others. */
static const uint64_t JUDGE_AFTER_NS = NS_PER_S;
/* A short wait for a thread of the pool (pieces.c), of which there may be many: nobody comes late for it. */
static const uint64_t JUDGE_SHORT_AFTER_NS = 100 * NS_PER_MS;
/* The sampler fits its clock on its own. */
static const uint64_t CLOCK_SLACK_NS = 200 * NS_PER_US;
/* What a thread has run and waited in all is about its age when it is young: it began then. */
static const uint64_t YOUNG_NS = 2 * NS_PER_S;
static const uint64_t CAME_BACK_NS = 100 * NS_PER_US;
/* A loop that did nothing for so long was waiting for something to do. */
static const uint64_t QUIET_NS = NS_PER_MS;

/* ---- samples of stalls ---- */

static const char *text_field(struct analysis *a, const struct event *e, uint32_t field)
{
    const struct value *v = &e->values[field];
    return e->present >> field & 1 && v->length ? intern(a, v->s, v->length) : NULL;
}

/* On a busy machine threads lose their CPUs in system calls more often than where they spend them, and
 * a sample sees where that was. At the time of the sample, or, where only a time after it is known, of the
 * last stop. */
static bool stood(const struct thread *thread, const struct look *look, bool brief)
{
    size_t first,
        n = activity_waits(thread, look->since_ns - MIN(look->since_ns, NS_PER_S), look->first_ns, &first);
    uint64_t at_ns = brief ? look->since_ns : look->first_ns;
    bool stopped = false;
    for (size_t i = first + n; i-- > first;) {
        const struct activity_wait *w = activity_wait_at(thread, i);
        if (w->start_ns > at_ns || w->brief)
            continue;
        if (w->reason == SONDE_off_reason_stopped && !stopped && (!brief || w->end_ns >= at_ns))
            stopped = true, at_ns = w->start_ns;
        else if (w->reason != SONDE_off_reason_stopped && (stopped || brief))
            return w->end_ns + CAME_BACK_NS >= at_ns && w->call != SONDE_SYSCALL_NONE;
    }
    return false;
}

/* The application's innermost function; of a regular expression the one that holds it, whose ever it is. */
static void own_place(struct analysis *a, struct look *look)
{
    const struct look_stack *stack = look->stack;
    look->loading = stack && stack->loading;
    look->called = stack ? stack->called : NULL;
    look->packaged = stack && stack->packaged;
    look->by_package = stack && stack->by_package;
    if (look->cause == SONDE_stall_cause_regexp || !stack || !stack->count) {
        stack_map_place(a, &look->script, &look->line, &look->column);
        return;
    }
    const struct stack_frame *frame = &stack->frames[stack->count - 1];
    look->function = frame->function;
    look->script = frame->script;
    look->line = frame->line;
    look->column = frame->column;
}

static void look_event(struct analysis *a, struct thread *none, const struct event *e)
{
    struct process *process = process_get(a, (int64_t)U(e, stall_sample_pid));
    struct thread *thread = process ? thread_get(a, process, (int64_t)U(e, stall_sample_tid)) : NULL;
    if (!thread)
        return;
    struct look look = {.since_ns = U(e, stall_sample_since_ns),
                        .first_ns = e->time_ns,
                        .last_ns = e->time_ns,
                        .run_ns = U(e, stall_sample_run_ns),
                        .count = 1,
                        .line = (uint32_t)U(e, stall_sample_line),
                        .column = (uint32_t)U(e, stall_sample_column),
                        .cause = (uint8_t)U(e, stall_sample_cause),
                        .stack = stack_of(a, process, e),
                        .function = text_field(a, e, FIELD_stall_sample_function),
                        .script = text_field(a, e, FIELD_stall_sample_script),
                        .detail = text_field(a, e, FIELD_stall_sample_detail)};
    own_place(a, &look);
    look.internal = stack_is_internal(a, process, look.script);
    bool brief = U(e, stall_sample_brief) != 0;
    look.stood = stood(thread, &look, brief);
    if (brief) {
        short_look(a, thread, &look);
        return;
    }
    if (stretch_late_look(a, thread, &look))
        return;
    array_foreach (&thread->looks, known)
        if (known->since_ns == look.since_ns && known->cause == look.cause && known->line == look.line &&
            known->column == look.column && known->function == look.function &&
            known->script == look.script && known->detail == look.detail && known->stood == look.stood &&
            known->stack == look.stack) {
            known->count++;
            known->last_ns = look.last_ns;
            known->run_ns = look.run_ns;
            return;
        }
    if (thread->looks.count < LOOKS_MAX)
        LIST_ADD(a, &thread->looks, look);
}

static bool is_within(const struct look *look, const struct stretch *s)
{
    return look->since_ns < s->end_ns && look->since_ns + CLOCK_SLACK_NS >= s->start_ns;
}

static void copy_looks(struct analysis *a, const struct thread *thread, struct stretch *s)
{
    array_foreach (&thread->looks, look)
        if (is_within(look, s))
            LIST_ADD(a, &s->looks, *look);
}

/* Moves samples into this stretch, and drops older ones. */
static void take_looks(struct analysis *a, struct thread *thread, struct stretch *s)
{
    size_t left = 0;
    copy_looks(a, thread, s);
    for (size_t i = 0; i < thread->looks.count; i++)
        if (thread->looks.at[i].since_ns >= s->end_ns)
            thread->looks.at[left++] = thread->looks.at[i];
    thread->looks.count = left;
}

bool stretch_late_look(struct analysis *a, struct thread *thread, const struct look *look)
{
    for (size_t i = thread->stretches.count; i-- > 0;) {
        struct stretch *s = thread->stretches.at[i];
        if (s->what != STRETCH_TURN || !is_within(look, s))
            continue;
        LIST_ADD(a, &s->looks, *look);
        if (s->encodes)
            seen_add(a, &thread->process->encode_seen, look);
        stretch_say_place(a, s);
        return true;
    }
    return false;
}

void stretch_say_place(struct analysis *a, const struct stretch *s)
{
    struct request *culprit = request_open(a, s->culprit);
    if (culprit && s->culprit_span != VSPAN_NONE)
        culprit->spans.at[s->culprit_span].detail = stretch_place(a, s);
}

/* ---- run-queue delay ---- */

static void sched_event(struct analysis *a, struct thread *none, const struct event *e)
{
    a->sched_events++;
    struct process *process = process_get(a, (int64_t)U(e, thread_sched_pid));
    struct thread *thread = process ? thread_get(a, process, (int64_t)U(e, thread_sched_tid)) : NULL;
    if (!thread)
        return;
    ANALYZERS_CALL(a, scheduled, a, thread, e->time_ns, U(e, thread_sched_run_ns),
                   U(e, thread_sched_wait_ns));
    uint64_t age_ns = U(e, thread_sched_run_ns) + U(e, thread_sched_wait_ns);
    if (!thread->sched_count && age_ns < YOUNG_NS && age_ns < e->time_ns)
        thread->sched[thread->sched_count++] = (struct sched_sample){.time_ns = e->time_ns - age_ns};
    thread->sched[thread->sched_count++ % SCHED_KEPT] = (struct sched_sample){
        e->time_ns, U(e, thread_sched_run_ns), U(e, thread_sched_wait_ns), thread->active_ns};
    thread->active_ns = 0;
    stretches_judge(a, thread, e->time_ns, false);
}

/* ---- a machine that stood still ---- */

static void machine_stall_event(struct analysis *a, struct thread *none, const struct event *e)
{
    a->stalls[a->stall_count++ % MACHINE_STALLS] =
        (struct machine_stall){e->time_ns - event_duration(e), e->time_ns};
}

const struct event_reading STRETCH_EVENTS[] = {{SONDE_EVENT_thread_sched, sched_event},
                                               {SONDE_EVENT_machine_stall, machine_stall_event},
                                               {SONDE_EVENT_stall_sample, look_event},
                                               {0}};

static uint64_t machine_stalled_ns(const struct analysis *a, uint64_t start_ns, uint64_t end_ns)
{
    uint64_t stalled_ns = 0;
    for (size_t i = 0; i < MIN(a->stall_count, (size_t)MACHINE_STALLS); i++) {
        uint64_t from = MAX(start_ns, a->stalls[i].start_ns), to = MIN(end_ns, a->stalls[i].end_ns);
        stalled_ns += to > from ? to - from : 0;
    }
    return stalled_ns;
}

/* ---- stretches ---- */

void stretch_free(struct stretch *s)
{
    array_foreach (&s->victims, victim)
        free(victim->path);
    array_done(&s->victims);
    array_done(&s->looks);
    free(s);
}

static void judge(struct analysis *a, struct thread *thread, struct stretch *s)
{
    uint64_t waited_ns = stretch_run_queue_ns(thread, s->start_ns, s->end_ns);
    fault_stretch(a, thread, s, MAX(waited_ns, machine_stalled_ns(a, s->start_ns, s->end_ns)));
}

static void judge_at(struct analysis *a, struct thread *thread, size_t i)
{
    struct stretch *s = thread->stretches.at[i];
    memmove(thread->stretches.at + i, thread->stretches.at + i + 1,
            (--thread->stretches.count - i) * sizeof(*thread->stretches.at));
    if (thread->last_stretch == s)
        thread->last_stretch = NULL;
    judge(a, thread, s);
    stretch_free(s);
}

void stretches_judge(struct analysis *a, struct thread *thread, uint64_t now_ns, bool finish)
{
    for (size_t i = 0; i < thread->stretches.count;) {
        const struct stretch *s = thread->stretches.at[i];
        bool is_short = s->what == STRETCH_POOL && s->end_ns - s->start_ns < a->options.pool_wait_ns;
        if (finish || now_ns >= s->end_ns + (is_short ? JUDGE_SHORT_AFTER_NS : JUDGE_AFTER_NS))
            judge_at(a, thread, i);
        else
            i++;
    }
}

struct stretch *stretch_new(struct analysis *a, struct thread *thread, enum stretch_kind what,
                            uint64_t start_ns, uint64_t end_ns)
{
    if (thread->stretches.count >= STRETCHES_MAX)
        judge_at(a, thread, 0);
    struct stretch *s = calloc(1, sizeof(*s));
    if (!s || array_add(&thread->stretches, s) < 0) {
        a->failed = true;
        free(s);
        return NULL;
    }
    s->what = (uint8_t)what;
    s->start_ns = start_ns;
    s->end_ns = end_ns;
    thread->last_stretch = s;
    thread->polls_since_stretch = 0;
    return s;
}

void stretch_victim(struct analysis *a, struct stretch *s, const struct request *request, uint64_t delay_ns,
                    enum victim_role role)
{
    array_foreach (&s->victims, known)
        if (known->serial == request->serial) {
            known->delay_ns = MAX(known->delay_ns, delay_ns);
            return;
        }
    if (s->victims.count >= VICTIMS_MAX)
        return;
    struct victim victim = request_victim(request, delay_ns, role);
    if (!victim.path || array_add(&s->victims, victim) < 0) {
        free(victim.path);
        a->failed = true;
    }
}

void stretch_victim_chain(struct analysis *a, struct stretch *s, const struct request *request,
                          uint64_t delay_ns, enum victim_role role)
{
    for (int i = 0; request && i < CHAIN_MAX; i++, request = request->caller, role = VICTIM_UPSTREAM)
        stretch_victim(a, s, request, delay_ns, role);
}

/* When the first of the calls and operations that it waits for was done; 0: none was. */
static uint64_t open_done_ns(const struct request *request)
{
    uint64_t first_ns = 0;
    uint32_t left = request->open_calls;
    for (size_t i = request->spans.count; i > 1 && left; i--) {
        const struct vspan *span = &request->spans.at[i - 1];
        bool call = span->kind == VSPAN_pool || span->kind == VSPAN_command || span->kind == VSPAN_http ||
                    span->kind == VSPAN_other;
        if (!call || span->end_ns)
            continue;
        uint64_t done_ns = span->kind == VSPAN_pool ? span->work_end_ns : span->replied_ns;
        if (done_ns && (!first_ns || done_ns < first_ns))
            first_ns = done_ns;
        left--;
    }
    return first_ns;
}

/* How long a request in flight could not go on because of [start, end): from when what it waits for was done.
 * If that is still going on elsewhere, it lost nothing; if nothing is known of it, it could have gone on. */
uint64_t request_held_up_ns(const struct request *request, uint64_t start_ns, uint64_t end_ns)
{
    uint64_t ready_ns = open_done_ns(request);
    if (!ready_ns && request->open_calls)
        return 0;
    if (!ready_ns)
        ready_ns = request->start_ns;
    ready_ns = MAX(ready_ns, start_ns);
    return end_ns > ready_ns ? end_ns - ready_ns : 0;
}

/* What it waits for is to be done by its own process, as by a server that it hosts. */
static bool waits_for_itself(const struct process *process, const struct request *request)
{
    bool found = false;
    array_foreach (&request->spans, span) {
        bool call = span->kind == VSPAN_other || span->kind == VSPAN_command;
        if (!call || span->end_ns || !span->peer)
            continue;
        if (!peer_is_itself(process, span->peer))
            return false;
        found = true;
    }
    return found;
}

/* Who waits while the thread is in it. */
static void add_victims(struct analysis *a, const struct thread *thread, struct stretch *s, uint64_t culprit)
{
    array_foreach (&thread->open, place) {
        struct request *request = *place;
        if (request->serial == culprit) {
            request->blocked_ns += a->so_far ? 0 : s->end_ns - s->start_ns;
            stretch_victim_chain(a, s, request, s->end_ns - s->start_ns, VICTIM_CAUSED);
            continue;
        }
        bool over = request->state != REQUEST_OPEN && request->end_ns <= s->start_ns;
        if (over || request->start_ns >= s->start_ns)
            continue;
        uint64_t delay_ns = request_held_up_ns(request, s->start_ns, s->end_ns);
        if (!delay_ns && waits_for_itself(thread->process, request))
            delay_ns = s->end_ns - s->start_ns;
        if (delay_ns)
            stretch_victim_chain(a, s, request, delay_ns, VICTIM_WAITED);
    }
    for (const struct protocol *const *p = a->protocols; *p; p++)
        if ((*p)->stalled)
            (*p)->stalled(a, thread, s);
    ANALYZERS_CALL(a, stalled, a, thread, s);
}

struct stretch *stretch_turn(struct analysis *a, struct thread *thread, uint64_t start_ns, uint64_t end_ns,
                             uint64_t culprit)
{
    struct stretch *s = stretch_new(a, thread, STRETCH_TURN, start_ns, end_ns);
    if (!s)
        return NULL;
    take_looks(a, thread, s);
    add_victims(a, thread, s, culprit);
    return s;
}

/* ---- so far ---- */

static void judge_copy(struct analysis *a, struct thread *thread, const struct stretch *s)
{
    struct stretch *copy = malloc(sizeof(*copy));
    if (!copy) {
        a->failed = true;
        return;
    }
    *copy = *s;
    memset(&copy->looks, 0, sizeof(copy->looks));
    memset(&copy->victims, 0, sizeof(copy->victims));
    array_foreach (&s->looks, look)
        LIST_ADD(a, &copy->looks, *look);
    array_foreach (&s->victims, known) {
        struct victim victim = *known;
        victim.path = strdup(known->path);
        if (!victim.path || array_add(&copy->victims, victim) < 0) {
            free(victim.path);
            a->failed = true;
        }
    }
    judge(a, thread, copy);
    stretch_free(copy);
}

static void judge_open(struct analysis *a, struct thread *thread, uint64_t now_ns)
{
    const struct analyzer *target = thread->process->analyzer;
    const struct request *owner = NULL;
    struct stretch s = {.what = STRETCH_TURN, .unfinished = 1, .end_ns = now_ns};
    if (!target || !target->is_in || !target->is_in(a, thread, &s, &owner) ||
        s.start_ns + a->options.stall_ns > s.end_ns)
        return;
    s.first = owner ? endpoint_is_new(a, owner) : !thread->process->answered_count;
    copy_looks(a, thread, &s);
    add_victims(a, thread, &s, owner ? owner->serial : 0);
    judge(a, thread, &s);
    array_foreach (&s.victims, victim)
        free(victim->path);
    array_done(&s.victims);
    array_done(&s.looks);
}

void stretches_so_far(struct analysis *a, struct thread *thread, uint64_t now_ns, bool open)
{
    uint64_t told_ns = thread->queue_told_ns;
    array_foreach (&thread->stretches, s)
        judge_copy(a, thread, *s);
    if (open && !thread->process->gone)
        judge_open(a, thread, now_ns);
    thread->queue_told_ns = told_ns;
}

void stretch_late_request(struct analysis *a, struct thread *thread, const struct request *request,
                          uint64_t sent_ns, uint64_t opened_ns)
{
    struct stretch *s = thread->last_stretch;
    if (!s || s->what != STRETCH_TURN || request->start_ns < s->end_ns)
        return;
    if (sent_ns) {
        if (sent_ns < s->end_ns)
            stretch_victim_chain(a, s, request, s->end_ns - MAX(sent_ns, s->start_ns), VICTIM_WAITED);
        return;
    }
    /* Its sender is not traced. Only what is read without the loop having been idle since may have waited: in
     * the poll of the stalled turn, it was ready before that turn began; in the next, it came while the loop
     * stood, at a time unknown. Of the connections that came meanwhile libuv takes one in each turn of the
     * loop. */
    uint64_t quiet_ns =
        activity_net_ns(thread, MIN(thread->last_turn_end_ns, request->start_ns), request->start_ns);
    bool catching_up = opened_ns >= s->end_ns && request->start_ns - s->end_ns < s->end_ns - s->start_ns;
    if (quiet_ns > QUIET_NS || (thread->polls_since_stretch > 1 && !catching_up))
        thread->last_stretch = NULL;
    else
        stretch_victim(
            a, s, request,
            s->phase == SONDE_uv_phase_poll && !thread->polls_since_stretch ? s->end_ns - s->start_ns : 0,
            VICTIM_WAITED);
}
