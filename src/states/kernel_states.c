/* Threads, CPUs, interrupts and disks over time, from the events of a kernel tracer. A thread's life:
 * fork, switches and wake-ups, sched_process_exit (it still runs then), its last switch; its number may begin
 * again at once, while sched_process_free of the former thread is still to come. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "states/kernel_states.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "states/kernel_events.h"
#include "states/task_state.h"

/* Nested interrupts are rare; those that lie deeper are not shown. */
enum { IRQ_DEPTH = 4 };

struct processor {
    uint32_t base, thread, call, irq, softirq, frequency; /* attributes */
    bool known;                                           /* which thread runs there */
    int64_t tid;
    uint32_t irq_depth;
    int64_t irqs[IRQ_DEPTH];
    int64_t softirq_now; /* -1: none */
};

struct line {
    uint32_t name, count; /* attributes of an interrupt: how many CPUs run it */
    int64_t running;
};

struct disk {
    uint32_t base, name, waiting, in_flight;
    int64_t waits, flies;
};

struct host_facts {
    unsigned kernel;    /* task_kernel() */
    int64_t prio_shift; /* LTTng leaves out the 100 real-time priorities */
    bool no_switches;   /* system calls are all that is known of threads */
};

struct kernel_states {
    struct state_places *places;
    ARRAY(struct kernel_class) classes; /* [0] is none */
    ARRAY(struct host_facts) facts;
    ARRAY(struct processor) processors;
    ARRAY(struct line) lines;
    ARRAY(struct disk) disks;
    struct map class_of;     /* the class's address -> index into classes */
    struct map processor_of; /* host and number -> index into CPUs */
    struct map line_of;      /* host and number, softirqs above 1 << 32 -> index into lines */
    struct map disk_of;      /* host and device -> index into disks */
    struct map requests;     /* hash of host, device and sector -> 1 waits, 2 at the device */
};

/* ---- what is known of hosts and classes ---- */

static int facts_of(struct kernel_states *s, uint32_t host, const struct host_facts **ret_facts)
{
    const struct trace *trace = s->places->trace;
    while (s->facts.count <= host) {
        struct host_facts f = {0};
        uint32_t h = (uint32_t)s->facts.count;
        if (trace) {
            const struct trace_host *at = trace_host_at(trace, h);
            const char *release = trace_host_environment(trace, h, "kernel_release");
            f.kernel = task_kernel(release ? release : trace_host_environment(trace, h, "release"));
            f.prio_shift = strncmp(at->tracer, "lttng", 5) == 0 ? 100 : 0;
            f.no_switches = true;
            for (uint32_t i = 0; i < at->class_count; i++)
                f.no_switches &= kernel_classify(at->classes[i]).kind != KERNEL_SWITCH;
        }
        if (array_add(&s->facts, f) < 0)
            return -ENOMEM;
    }
    *ret_facts = &s->facts.at[host];
    return 0;
}

static int class_at(struct kernel_states *s, const struct event_class *class, uint32_t *ret_index)
{
    bool is_new;
    uint64_t *place = map_put(&s->class_of, (uint64_t)(uintptr_t) class, &is_new);
    if (!place)
        return -ENOMEM;
    if (is_new) {
        struct kernel_class k = kernel_classify(class);
        if (array_add(&s->classes, k) < 0) {
            map_remove(&s->class_of, (uint64_t)(uintptr_t) class);
            return -ENOMEM;
        }
        *place = s->classes.count - 1;
    }
    *ret_index = (uint32_t)*place;
    return 0;
}

static int64_t number(const struct event *e, const struct kernel_class *k, enum kernel_field field,
                      int64_t otherwise)
{
    return k->field[field] < 0 || e->values[k->field[field]].absent ? otherwise
                                                                    : e->values[k->field[field]].i;
}

/* ---- setting attributes ---- */

static int set(struct kernel_states *s, uint32_t base, uint32_t *quark, const char *name, uint64_t time_ns,
               struct history_value value)
{
    int r = state_below(s->places, base, quark, name);
    return r < 0 ? r : emit_state(s->places->emit, time_ns, *quark, value);
}

/* An attribute that was never needed is null already. */
static int clear(struct kernel_states *s, uint32_t quark, uint64_t time_ns)
{
    return quark == EMIT_NONE ? 0 : emit_state(s->places->emit, time_ns, quark, history_null());
}

static int set_text(struct kernel_states *s, const struct event *e, const struct kernel_class *k,
                    enum kernel_field field, uint32_t base, uint32_t *quark)
{
    char text[128];
    if (k->field[field] < 0 || e->values[k->field[field]].absent)
        return 0;
    const struct value *v = &e->values[k->field[field]];
    snprintf(text, sizeof(text), "%.*s", (int)v->length, v->s);
    return set(s, base, quark, "Name", e->time_ns, history_string(text));
}

static int set_number(struct kernel_states *s, uint32_t base, uint32_t *quark, int64_t *now, const char *name,
                      uint64_t time_ns, int64_t value)
{
    if (value < 0 || *now == value)
        return 0;
    *now = value;
    return set(s, base, quark, name, time_ns, history_int(value));
}

static int set_priority(struct kernel_states *s, const struct event *e, const struct kernel_class *k,
                        enum kernel_field field, struct state_thread *t)
{
    const struct host_facts *facts;
    if (k->field[field] < 0)
        return 0;
    int r = facts_of(s, e->trace, &facts);
    return r < 0 ? r
                 : set_number(s, t->base, &t->priority, &t->priority_now, "Priority", e->time_ns,
                              number(e, k, field, 0) + facts->prio_shift);
}

static int set_state(struct kernel_states *s, struct state_thread *t, uint64_t time_ns, const char *state)
{
    t->seen = true;
    t->ended = false;
    return emit_state(s->places->emit, time_ns, t->state, history_string(state));
}

static int end_thread(struct kernel_states *s, struct state_thread *t, uint64_t time_ns)
{
    int r = set_state(s, t, time_ns, "ended");
    t->ended = true;
    t->exiting = t->forked = false;
    t->in_call = 0;
    if (r >= 0)
        r = clear(s, t->call, time_ns);
    return r < 0 ? r : clear(s, t->waker, time_ns);
}

/* NULL: the idle thread of a CPU, which is 0 on all. */
static int thread_at(struct kernel_states *s, const struct event *e, int64_t tid,
                     struct state_thread **ret_thread)
{
    *ret_thread = NULL;
    return tid > 0 ? state_thread_at(s->places, e->trace, tid, ret_thread) : 0;
}

/* ---- CPUs ---- */

static int processor_at(struct kernel_states *s, const struct event *e, uint64_t cpu,
                        struct processor **ret_processor)
{
    bool is_new;
    uint64_t *place = map_put(&s->processor_of, state_key(e->trace, cpu), &is_new);
    if (!place)
        return -ENOMEM;
    if (is_new) {
        struct processor p = {EMIT_NONE, EMIT_NONE, EMIT_NONE,        EMIT_NONE,
                              EMIT_NONE, EMIT_NONE, .softirq_now = -1};
        struct state_host *h;
        char name[24];
        snprintf(name, sizeof(name), "%" PRIu64, cpu);
        int r = state_host_at(s->places, e->trace, &h);
        if (r >= 0)
            r = state_below(s->places, h->root, &h->processors, "Processors");
        if (r >= 0)
            r = emit_attribute(s->places->emit, h->processors, name, &p.base);
        if (r >= 0 && array_add(&s->processors, p) < 0)
            r = -ENOMEM;
        if (r < 0) {
            map_remove(&s->processor_of, state_key(e->trace, cpu));
            return r;
        }
        *place = s->processors.count - 1;
    }
    *ret_processor = &s->processors.at[*place];
    return 0;
}

/* NULL: the event does not say where it happened. */
static int processor_of(struct kernel_states *s, const struct event *e, const struct kernel_class *k,
                        struct processor **ret_processor)
{
    *ret_processor = NULL;
    return k->cpu >= 0 && e->packet ? processor_at(s, e, e->packet[k->cpu].u, ret_processor) : 0;
}

/* The thread that an event happened on: its own context says so, or what runs on its CPU. */
static int current_thread(struct kernel_states *s, const struct event *e, const struct kernel_class *k,
                          struct state_thread **ret_thread)
{
    struct processor *p;
    *ret_thread = NULL;
    int r = processor_of(s, e, k, &p);
    int64_t tid = e->tid > 0 ? e->tid : r >= 0 && p && p->known ? p->tid : -1;
    return r < 0 ? r : thread_at(s, e, tid, ret_thread);
}

static int show_call(struct kernel_states *s, struct processor *p, uint64_t time_ns, uint32_t class)
{
    return class ? set(s, p->base, &p->call, "System call", time_ns,
                       history_string(s->classes.at[class].call))
                 : clear(s, p->call, time_ns);
}

/* ---- threads ---- */

static int leave(struct kernel_states *s, const struct event *e, const struct kernel_class *k)
{
    const struct host_facts *facts;
    struct state_thread *t;
    int r = thread_at(s, e, number(e, k, KERNEL_TID, 0), &t);
    if (r >= 0)
        r = facts_of(s, e->trace, &facts);
    if (r < 0 || !t)
        return r;
    enum { DEAD = 128 }; /* of a tracer that copies task->state; idle else (task_state.c) */
    int64_t raw = number(e, k, KERNEL_STATE, t->exiting ? DEAD : 1);
    const char *state = task_state(facts->kernel, raw);
    bool ends = strcmp(state, "ended") == 0 || (t->exiting && raw == DEAD);
    r = ends ? end_thread(s, t, e->time_ns) : set_state(s, t, e->time_ns, state);
    if (r >= 0)
        r = set_text(s, e, k, KERNEL_NAME, t->base, &t->name);
    return r < 0 ? r : set_priority(s, e, k, KERNEL_PRIO, t);
}

static int enter(struct kernel_states *s, const struct event *e, const struct kernel_class *k,
                 uint32_t *ret_call)
{
    struct state_thread *t;
    *ret_call = 0;
    int r = thread_at(s, e, number(e, k, KERNEL_NEXT_TID, 0), &t);
    if (r < 0 || !t)
        return r;
    *ret_call = t->in_call;
    r = set_state(s, t, e->time_ns, "running");
    if (r >= 0)
        r = clear(s, t->waker, e->time_ns);
    if (r >= 0)
        r = set_text(s, e, k, KERNEL_NEXT_NAME, t->base, &t->name);
    return r < 0 ? r : set_priority(s, e, k, KERNEL_NEXT_PRIO, t);
}

static int on_switch(struct kernel_states *s, const struct event *e, const struct kernel_class *k)
{
    struct processor *p;
    uint32_t call;
    int r = leave(s, e, k);
    if (r >= 0)
        r = enter(s, e, k, &call);
    if (r >= 0)
        r = processor_of(s, e, k, &p);
    if (r < 0 || !p)
        return r;
    p->known = true;
    p->tid = number(e, k, KERNEL_NEXT_TID, 0);
    r = set(s, p->base, &p->thread, "Thread", e->time_ns, history_int(p->tid));
    return r < 0 ? r : show_call(s, p, e->time_ns, call);
}

/* Who wakes: an interrupt that is handled on the CPU, or the thread that runs there. */
static int set_waker(struct kernel_states *s, const struct event *e, const struct kernel_class *k,
                     struct state_thread *woken)
{
    struct processor *p;
    char text[48] = "";
    int r = processor_of(s, e, k, &p);
    int64_t tid = e->tid > 0 ? e->tid : r >= 0 && p && p->known ? p->tid : -1;
    if (r >= 0 && p && p->irq_depth)
        snprintf(text, sizeof(text), "irq %" PRId64, p->irqs[MIN(p->irq_depth, (uint32_t)IRQ_DEPTH) - 1]);
    else if (r >= 0 && p && p->softirq_now >= 0) {
        const char *name = kernel_softirq((uint64_t)p->softirq_now);
        snprintf(text, sizeof(text), "softirq %s", name ? name : "?");
    } else if (tid >= 0)
        snprintf(text, sizeof(text), "%" PRId64, tid);
    if (r < 0 || !*text)
        return r;
    return set(s, woken->base, &woken->waker, "Waker", e->time_ns, history_string(text));
}

/* A wakeup of a thread that runs, or was preempted and waits already, changes nothing. */
static int on_wakeup(struct kernel_states *s, const struct event *e, const struct kernel_class *k)
{
    struct state_thread *t;
    struct history_interval latest;
    if (!s->places->emit->states)
        return 0;
    int r = thread_at(s, e, number(e, k, KERNEL_TID, 0), &t);
    if (r < 0 || !t)
        return r;
    r = history_ongoing(s->places->emit->states, t->state, &latest);
    if (r < 0)
        return r;
    const char *state = latest.value.type == HISTORY_STRING ? latest.value.string : "";
    if (strcmp(state, "running") == 0 || strcmp(state, "preempted") == 0 || strcmp(state, "runnable") == 0)
        return 0;
    r = set_state(s, t, e->time_ns, "runnable");
    return r < 0 ? r : set_waker(s, e, k, t);
}

static int on_fork(struct kernel_states *s, const struct event *e, const struct kernel_class *k)
{
    struct state_thread *t;
    int64_t pid = number(e, k, KERNEL_PID, -1), parent = number(e, k, KERNEL_PARENT, -1);
    int r = thread_at(s, e, number(e, k, KERNEL_TID, 0), &t);
    if (r < 0 || !t)
        return r;
    t->forked = true;
    t->exiting = false;
    t->in_call = 0;
    r = set_state(s, t, e->time_ns, "runnable");
    if (r >= 0) /* who made it */
        r = set_waker(s, e, k, t);
    if (r >= 0)
        r = set_text(s, e, k, KERNEL_NAME, t->base, &t->name);
    if (r >= 0)
        r = set_number(s, t->base, &t->process, &t->process_now, "Process", e->time_ns, pid);
    if (r >= 0 && (pid < 0 || pid != parent)) /* else it is a further thread of the parent */
        r = set_number(s, t->base, &t->parent, &t->parent_now, "Parent", e->time_ns, parent);
    return r;
}

static int on_exit_or_free(struct kernel_states *s, const struct event *e, const struct kernel_class *k)
{
    struct state_thread *t;
    const struct host_facts *facts;
    int r = thread_at(s, e, number(e, k, KERNEL_TID, 0), &t);
    if (r >= 0)
        r = facts_of(s, e->trace, &facts);
    if (r < 0 || !t || t->ended)
        return r;
    if (k->kind == KERNEL_EXIT) {
        t->exiting = true;
        return facts->no_switches ? end_thread(s, t, e->time_ns) : 0;
    }
    /* The number may have been given to another thread since. */
    return t->exiting || !t->forked ? end_thread(s, t, e->time_ns) : 0;
}

/* What LTTng tells of the threads that there were when it began: of one that no event told of, the state
 * holds since the beginning, when it is asleep. */
static int on_thread(struct kernel_states *s, const struct event *e, const struct kernel_class *k)
{
    static const char *const STATES[] = {NULL,    "runnable", "runnable", "ended",
                                         "ended", "blocked",  "running",  "ended"};
    enum { WAIT = 5 };
    struct state_thread *t;
    struct history_info info = {0};
    int64_t status = number(e, k, KERNEL_STATE, 0);
    int r = thread_at(s, e, number(e, k, KERNEL_TID, 0), &t);
    if (r < 0 || !t)
        return r;
    if (!t->seen && status > 0 && status < (int64_t)ARRAY_SIZE(STATES)) {
        if (s->places->emit->states)
            history_get_info(s->places->emit->states, &info);
        r = set_state(s, t, status == WAIT ? info.start_ns : e->time_ns, STATES[status]);
        t->ended = strcmp(STATES[status], "ended") == 0;
    }
    if (r >= 0 && t->name == EMIT_NONE)
        r = set_text(s, e, k, KERNEL_NAME, t->base, &t->name);
    if (r >= 0)
        r = set_number(s, t->base, &t->process, &t->process_now, "Process", e->time_ns,
                       number(e, k, KERNEL_PID, -1));
    return r < 0 ? r
                 : set_number(s, t->base, &t->parent, &t->parent_now, "Parent", e->time_ns,
                              number(e, k, KERNEL_PARENT, -1));
}

static int on_priority(struct kernel_states *s, const struct event *e, const struct kernel_class *k)
{
    struct state_thread *t;
    int r = thread_at(s, e, number(e, k, KERNEL_TID, 0), &t);
    return r < 0 || !t ? r : set_priority(s, e, k, KERNEL_PRIO, t);
}

/* ---- system calls ---- */

/* Where switches are not traced: the last that is known of a thread, and with exit_group() of its process. */
static int end_with_call(struct kernel_states *s, const struct event *e, struct state_thread *t,
                         const struct kernel_class *k)
{
    int64_t process = strcmp(k->call, "exit_group") == 0 ? t->process_now : -1;
    int r = end_thread(s, t, e->time_ns);
    array_foreach (&s->places->threads, other)
        if (r >= 0 && process > 0 && other->process_now == process && !other->ended)
            r = end_thread(s, other, e->time_ns);
    return r;
}

static int on_call(struct kernel_states *s, const struct event *e, uint32_t class)
{
    const struct kernel_class *k = &s->classes.at[class];
    const struct host_facts *facts;
    struct state_thread *t;
    struct processor *p;
    bool entry = k->kind == KERNEL_ENTRY;
    int r = current_thread(s, e, k, &t);
    if (r >= 0)
        r = facts_of(s, e->trace, &facts);
    if (r < 0 || !t)
        return r;
    t->in_call = entry ? class : 0;
    r = entry ? set(s, t->base, &t->call, "System call", e->time_ns, history_string(k->call))
              : clear(s, t->call, e->time_ns);
    if (r >= 0)
        r = set_number(s, t->base, &t->process, &t->process_now, "Process", e->time_ns, e->pid);
    if (r >= 0)
        r = processor_of(s, e, k, &p);
    if (r >= 0 && p)
        r = show_call(s, p, e->time_ns, t->in_call);
    if (r < 0 || !entry || !k->exits)
        return r;
    t->exiting = true;
    return facts->no_switches ? end_with_call(s, e, t, k) : 0;
}

/* ---- interrupts ---- */

static int line_at(struct kernel_states *s, const struct event *e, int64_t vector, bool soft,
                   struct line **ret_line)
{
    bool is_new;
    uint64_t key = state_key(e->trace, (uint64_t)vector | (uint64_t)soft << 32);
    uint64_t *place = map_put(&s->line_of, key, &is_new);
    if (!place)
        return -ENOMEM;
    if (is_new) {
        struct line line = {EMIT_NONE, EMIT_NONE, 0};
        struct state_host *h;
        uint32_t base = EMIT_NONE;
        char number[24];
        snprintf(number, sizeof(number), "%" PRId64, vector);
        const char *name = soft ? kernel_softirq((uint64_t)vector) : NULL;
        int r = state_host_at(s->places, e->trace, &h);
        if (r >= 0)
            r = soft ? state_below(s->places, h->root, &h->softirqs, "Softirqs")
                     : state_below(s->places, h->root, &h->irqs, "IRQs");
        if (r >= 0)
            r = emit_attribute(s->places->emit, soft ? h->softirqs : h->irqs, name ? name : number, &base);
        if (r >= 0)
            r = emit_attribute(s->places->emit, base, "Processors", &line.count);
        if (r >= 0 && !soft)
            r = emit_attribute(s->places->emit, base, "Name", &line.name);
        if (r >= 0 && array_add(&s->lines, line) < 0)
            r = -ENOMEM;
        if (r < 0) {
            map_remove(&s->line_of, key);
            return r;
        }
        *place = s->lines.count - 1;
    }
    *ret_line = &s->lines.at[*place];
    return 0;
}

static int count_line(struct kernel_states *s, const struct event *e, struct line *line, int change)
{
    if (line->running + change < 0) /* it began before the trace */
        return 0;
    line->running += change;
    return emit_state(s->places->emit, e->time_ns, line->count, history_int(line->running));
}

static int on_irq(struct kernel_states *s, const struct event *e, const struct kernel_class *k)
{
    struct processor *p;
    struct line *line;
    char text[160];
    bool entry = k->kind == KERNEL_IRQ_ENTRY;
    int64_t vector = number(e, k, KERNEL_NUMBER, 0);
    int r = line_at(s, e, vector, false, &line);
    if (r >= 0)
        r = count_line(s, e, line, entry ? 1 : -1);
    if (r >= 0 && k->field[KERNEL_NAME] >= 0)
        r = set_text(s, e, k, KERNEL_NAME, EMIT_NONE, &line->name);
    if (r >= 0)
        r = processor_of(s, e, k, &p);
    if (r < 0 || !p)
        return r;
    if (entry && p->irq_depth < IRQ_DEPTH)
        p->irqs[p->irq_depth] = vector;
    p->irq_depth = entry ? p->irq_depth + 1 : p->irq_depth ? p->irq_depth - 1 : 0;
    if (!p->irq_depth)
        return clear(s, p->irq, e->time_ns);
    snprintf(text, sizeof(text), "%" PRId64, p->irqs[MIN(p->irq_depth, (uint32_t)IRQ_DEPTH) - 1]);
    return set(s, p->base, &p->irq, "IRQ", e->time_ns, history_string(text));
}

static int on_softirq(struct kernel_states *s, const struct event *e, const struct kernel_class *k)
{
    struct processor *p;
    struct line *line;
    bool entry = k->kind == KERNEL_SOFTIRQ_ENTRY;
    int64_t vector = number(e, k, KERNEL_NUMBER, 0);
    const char *name = kernel_softirq((uint64_t)vector);
    int r = line_at(s, e, vector, true, &line);
    if (r >= 0)
        r = count_line(s, e, line, entry ? 1 : -1);
    if (r >= 0)
        r = processor_of(s, e, k, &p);
    if (r < 0 || !p)
        return r;
    p->softirq_now = entry ? vector : -1;
    return entry ? set(s, p->base, &p->softirq, "Softirq", e->time_ns, history_string(name ? name : "?"))
                 : clear(s, p->softirq, e->time_ns);
}

static int on_frequency(struct kernel_states *s, const struct event *e, const struct kernel_class *k)
{
    struct processor *p;
    int r = processor_at(s, e, (uint64_t)number(e, k, KERNEL_NUMBER, 0), &p);
    return r < 0 ? r
                 : set(s, p->base, &p->frequency, "Frequency", e->time_ns,
                       history_int(number(e, k, KERNEL_STATE, 0)));
}

/* ---- disks ---- */

static int disk_at(struct kernel_states *s, const struct event *e, uint64_t device, struct disk **ret_disk)
{
    bool is_new;
    uint64_t *place = map_put(&s->disk_of, state_key(e->trace, device), &is_new);
    if (!place)
        return -ENOMEM;
    if (is_new) {
        struct disk d = {EMIT_NONE, EMIT_NONE, EMIT_NONE, EMIT_NONE, 0, 0};
        struct state_host *h;
        char name[32]; /* the kernel's own numbering: 12 and 20 bits */
        snprintf(name, sizeof(name), "%" PRIu64 ":%" PRIu64, device >> 20, device & 0xfffff);
        int r = state_host_at(s->places, e->trace, &h);
        if (r >= 0)
            r = state_below(s->places, h->root, &h->disks, "Disks");
        if (r >= 0)
            r = emit_attribute(s->places->emit, h->disks, name, &d.base);
        if (r >= 0)
            r = emit_attribute(s->places->emit, d.base, "Waiting", &d.waiting);
        if (r >= 0)
            r = emit_attribute(s->places->emit, d.base, "In flight", &d.in_flight);
        if (r >= 0 && array_add(&s->disks, d) < 0)
            r = -ENOMEM;
        if (r < 0) {
            map_remove(&s->disk_of, state_key(e->trace, device));
            return r;
        }
        *place = s->disks.count - 1;
    }
    *ret_disk = &s->disks.at[*place];
    return 0;
}

/* Only requests whose beginning is in the trace are counted. */
static int on_block(struct kernel_states *s, const struct event *e, const struct kernel_class *k)
{
    enum { NONE, WAITS, FLIES };
    struct disk *d;
    uint64_t device = (uint64_t)number(e, k, KERNEL_DEVICE, 0),
             words[3] = {e->trace, device, (uint64_t)number(e, k, KERNEL_SECTOR, 0)},
             key = map_hash(words, sizeof(words));
    int r = disk_at(s, e, device, &d);
    if (r < 0)
        return r;
    uint64_t *stage = map_get(&s->requests, key), was = stage ? *stage : NONE,
             is = k->kind == KERNEL_BLOCK_INSERT  ? WAITS
                  : k->kind == KERNEL_BLOCK_ISSUE ? FLIES
                                                  : NONE;
    if (is == NONE)
        map_remove(&s->requests, key);
    else if (!stage && !(stage = map_put(&s->requests, key, NULL)))
        return -ENOMEM;
    else
        *stage = is;
    d->waits += (is == WAITS) - (was == WAITS);
    d->flies += (is == FLIES) - (was == FLIES);
    r = emit_state(s->places->emit, e->time_ns, d->waiting, history_int(d->waits));
    return r < 0 ? r : emit_state(s->places->emit, e->time_ns, d->in_flight, history_int(d->flies));
}

static int on_disk(struct kernel_states *s, const struct event *e, const struct kernel_class *k)
{
    struct disk *d;
    int r = disk_at(s, e, (uint64_t)number(e, k, KERNEL_DEVICE, 0), &d);
    return r < 0 ? r : set_text(s, e, k, KERNEL_NAME, d->base, &d->name);
}

/* ---- all of it ---- */

int kernel_states_event(struct kernel_states *s, const struct event *e)
{
    uint32_t class;
    int r = class_at(s, e->class, &class);
    if (r < 0)
        return r;
    const struct kernel_class *k = &s->classes.at[class];
    switch (k->kind) {
    case KERNEL_SWITCH:
        return on_switch(s, e, k);
    case KERNEL_WAKEUP:
        return on_wakeup(s, e, k);
    case KERNEL_FORK:
        return on_fork(s, e, k);
    case KERNEL_EXIT:
    case KERNEL_FREE:
        return on_exit_or_free(s, e, k);
    case KERNEL_PRIORITY:
        return on_priority(s, e, k);
    case KERNEL_THREAD:
        return on_thread(s, e, k);
    case KERNEL_ENTRY:
    case KERNEL_RETURN:
        return on_call(s, e, class);
    case KERNEL_IRQ_ENTRY:
    case KERNEL_IRQ_EXIT:
        return on_irq(s, e, k);
    case KERNEL_SOFTIRQ_ENTRY:
    case KERNEL_SOFTIRQ_EXIT:
        return on_softirq(s, e, k);
    case KERNEL_FREQUENCY:
        return on_frequency(s, e, k);
    case KERNEL_BLOCK_INSERT:
    case KERNEL_BLOCK_ISSUE:
    case KERNEL_BLOCK_COMPLETE:
        return on_block(s, e, k);
    case KERNEL_DISK:
        return on_disk(s, e, k);
    case KERNEL_OTHER:
        break;
    }
    return 0;
}

int kernel_states_new(struct state_places *places, struct kernel_states **ret_states)
{
    struct kernel_states *s = calloc(1, sizeof(*s));
    struct kernel_class none = {.cpu = -1};
    if (!s || array_add(&s->classes, none) < 0) {
        free(s);
        return -ENOMEM;
    }
    s->places = places;
    *ret_states = s;
    return 0;
}

void kernel_states_free(struct kernel_states *s)
{
    if (!s)
        return;
    array_done(&s->classes);
    array_done(&s->facts);
    array_done(&s->processors);
    array_done(&s->lines);
    array_done(&s->disks);
    map_done(&s->class_of);
    map_done(&s->processor_of);
    map_done(&s->line_of);
    map_done(&s->disk_of);
    map_done(&s->requests);
    free(s);
}
