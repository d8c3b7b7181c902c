/* See states.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/states.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "event/event.h"
#include "trace/event_names.h"

/* What an event of a foreign class says about threads, and in which fields. */
enum kernel_kind { KERNEL_OTHER, KERNEL_SWITCH, KERNEL_WAKEUP, KERNEL_ENTRY, KERNEL_EXIT };

struct kernel_class {
    enum kernel_kind kind;
    int previous_tid, previous_state, previous_name, next_tid, next_name, tid; /* fields; -1: none */
    int cpu;                                                                   /* of the packet's context */
    char call[64];                                                             /* a system call's name */
};

/* A thread's attributes, made when they are first needed. */
struct thread {
    uint32_t base, state, call, name;
};

struct host_attributes {
    uint32_t root, threads, processors, redis, node; /* EMIT_NONE: not there yet */
};

/* The thread pool of a Node process: operations in it, and those done that the loop has not taken. */
struct pool {
    uint32_t base, queued, done; /* attributes */
    int64_t in, out;
};

/* An event loop. */
struct loop {
    uint32_t phase, ready; /* attributes */
    int64_t callbacks;     /* since the last poll ended */
};

struct states {
    struct emit *emit;
    const struct trace *trace;
    ARRAY(struct host_attributes) hosts;
    ARRAY(struct thread) threads;
    ARRAY(struct kernel_class) classes;
    struct map thread_of; /* host and tid -> index into threads */
    struct map class_of;  /* the class's address -> index into classes */
    struct map running;   /* host and processor -> tid */
    struct map processor; /* host and processor -> attribute */
    struct map clients;   /* host, pid and client -> attribute */
    ARRAY(struct pool) pools;
    ARRAY(struct loop) loops;
    struct map pool_of; /* host and pid -> index into pools */
    struct map loop_of; /* host and tid -> index into loops */
    struct map queued;  /* hash of host, pid and request -> 1 in the pool, 2 done */
    struct event_names names;
};

/* ---- attributes ---- */

static uint64_t key_of(uint32_t host, uint64_t number)
{
    return (uint64_t)host << 48 ^ number;
}

static int below(struct states *s, uint32_t parent, uint32_t *quark, const char *name)
{
    return *quark == EMIT_NONE ? emit_attribute(s->emit, parent, name, quark) : 0;
}

static int host_at(struct states *s, uint32_t host, struct host_attributes **ret_host)
{
    while (s->hosts.count <= host) {
        struct host_attributes h = {HISTORY_ROOT, EMIT_NONE, EMIT_NONE, EMIT_NONE, EMIT_NONE};
        uint32_t number = (uint32_t)s->hosts.count;
        if (s->trace && trace_host_count(s->trace) > 1) {
            int r = emit_attribute(s->emit, HISTORY_ROOT, trace_host_at(s->trace, number)->name, &h.root);
            if (r < 0)
                return r;
        }
        if (array_add(&s->hosts, h) < 0)
            return -ENOMEM;
    }
    *ret_host = &s->hosts.at[host];
    return 0;
}

static int thread_at(struct states *s, uint32_t host, int64_t tid, struct thread **ret_thread)
{
    bool is_new;
    uint64_t *place = map_put(&s->thread_of, key_of(host, (uint64_t)tid), &is_new);
    if (!place)
        return -ENOMEM;
    if (is_new) {
        struct thread t = {EMIT_NONE, EMIT_NONE, EMIT_NONE, EMIT_NONE};
        struct host_attributes *h;
        char name[24];
        snprintf(name, sizeof(name), "%" PRId64, tid);
        int r = host_at(s, host, &h);
        if (r >= 0)
            r = below(s, h->root, &h->threads, "Threads");
        if (r >= 0)
            r = emit_attribute(s->emit, h->threads, name, &t.base);
        if (r >= 0)
            r = emit_attribute(s->emit, t.base, "State", &t.state);
        if (r >= 0 && array_add(&s->threads, t) < 0)
            r = -ENOMEM;
        if (r < 0) {
            map_remove(&s->thread_of, key_of(host, (uint64_t)tid));
            return r;
        }
        *place = s->threads.count - 1;
    }
    *ret_thread = &s->threads.at[*place];
    return 0;
}

static int set_state(struct states *s, const struct event *e, int64_t tid, uint64_t time_ns,
                     const char *state)
{
    struct thread *t;
    if (tid <= 0) /* each processor's idle thread is 0 */
        return 0;
    int r = thread_at(s, e->trace, tid, &t);
    return r < 0 ? r : emit_state(s->emit, time_ns, t->state, history_string(state));
}

static int set_call(struct states *s, const struct event *e, int64_t tid, uint64_t time_ns, const char *call)
{
    struct thread *t;
    if (tid <= 0)
        return 0;
    int r = thread_at(s, e->trace, tid, &t);
    if (r >= 0)
        r = below(s, t->base, &t->call, "System call");
    return r < 0 ? r : emit_state(s->emit, time_ns, t->call, call ? history_string(call) : history_null());
}

static int set_name(struct states *s, const struct event *e, int64_t tid, const struct value *name)
{
    struct thread *t;
    char text[64];
    if (tid <= 0 || name->absent)
        return 0;
    int r = thread_at(s, e->trace, tid, &t);
    if (r >= 0)
        r = below(s, t->base, &t->name, "Name");
    snprintf(text, sizeof(text), "%.*s", (int)name->length, name->s);
    return r < 0 ? r : emit_state(s->emit, e->time_ns, t->name, history_string(text));
}

static int set_processor(struct states *s, const struct event *e, uint64_t cpu, int64_t tid)
{
    bool is_new;
    uint64_t *place = map_put(&s->processor, key_of(e->trace, cpu), &is_new);
    if (!place)
        return -ENOMEM;
    if (is_new) {
        struct host_attributes *h;
        uint32_t quark = EMIT_NONE, thread = EMIT_NONE;
        char name[24];
        snprintf(name, sizeof(name), "%" PRIu64, cpu);
        int r = host_at(s, e->trace, &h);
        if (r >= 0)
            r = below(s, h->root, &h->processors, "Processors");
        if (r >= 0)
            r = emit_attribute(s->emit, h->processors, name, &quark);
        if (r >= 0)
            r = emit_attribute(s->emit, quark, "Thread", &thread);
        *place = thread;
        if (r < 0) {
            map_remove(&s->processor, key_of(e->trace, cpu));
            return r;
        }
    }
    return emit_state(s->emit, e->time_ns, (uint32_t)*place, history_int(tid));
}

/* ---- kernel events of other tracers ---- */

static int field(const struct event_class *class, const char *name, const char *otherwise)
{
    int i = event_class_find(class, name);
    return i < 0 && otherwise ? event_class_find(class, otherwise) : i;
}

static int number_field(const struct event_class *class, const char *name, const char *otherwise)
{
    int i = field(class, name, otherwise);
    return i >= 0 && class->fields[i].type <= TYPE_SIGNED ? i : -1;
}

static int text_field(const struct event_class *class, const char *name)
{
    int i = field(class, name, NULL);
    return i >= 0 && class->fields[i].type == TYPE_STRING ? i : -1;
}

/* The part of a name behind a prefix, or NULL. */
static const char *behind(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 && name[n] ? name + n : NULL;
}

/* LTTng's names, old ones too ("sys_read", "exit_syscall"), and perf's ("sched:sched_switch"). */
static struct kernel_class classify(const struct event_class *class)
{
    struct kernel_class k = {.cpu = -1};
    const char *colon = strrchr(class->name, ':'), *name = colon ? colon + 1 : class->name, *call;
    k.previous_tid = number_field(class, "prev_tid", "prev_pid");
    k.next_tid = number_field(class, "next_tid", "next_pid");
    k.previous_state = number_field(class, "prev_state", NULL);
    k.previous_name = text_field(class, "prev_comm");
    k.next_name = text_field(class, "next_comm");
    k.tid = number_field(class, "tid", "pid");
    for (uint32_t i = 0; i < class->packet_field_count; i++)
        if (strcmp(class->packet_fields[i].name, "cpu_id") == 0 &&
            class->packet_fields[i].type <= TYPE_SIGNED)
            k.cpu = (int)i;
    if (strcmp(name, "sched_switch") == 0 && k.previous_tid >= 0 && k.next_tid >= 0)
        k.kind = KERNEL_SWITCH;
    else if ((strcmp(name, "sched_wakeup") == 0 || strcmp(name, "sched_waking") == 0 ||
              strcmp(name, "sched_wakeup_new") == 0) &&
             k.tid >= 0)
        k.kind = KERNEL_WAKEUP;
    else if (behind(name, "syscall_exit_") || strcmp(name, "exit_syscall") == 0 ||
             behind(name, "sys_exit_") || behind(name, "compat_syscall_exit_"))
        k.kind = KERNEL_EXIT;
    else if ((call = behind(name, "syscall_entry_")) || (call = behind(name, "compat_syscall_entry_")) ||
             (call = behind(name, "sys_enter_")) || (call = behind(name, "sys_"))) {
        k.kind = KERNEL_ENTRY;
        snprintf(k.call, sizeof(k.call), "%s", call);
    }
    return k;
}

static int class_at(struct states *s, const struct event_class *class, const struct kernel_class **ret_class)
{
    bool is_new;
    uint64_t *place = map_put(&s->class_of, (uint64_t)(uintptr_t) class, &is_new);
    if (!place)
        return -ENOMEM;
    if (is_new) {
        struct kernel_class k = classify(class);
        if (array_add(&s->classes, k) < 0) {
            map_remove(&s->class_of, (uint64_t)(uintptr_t) class);
            return -ENOMEM;
        }
        *place = s->classes.count - 1;
    }
    *ret_class = &s->classes.at[*place];
    return 0;
}

/* TASK_* of the kernel, without the flags above them. */
static const char *off_state(int64_t state)
{
    state &= 0xff;
    return state == 0           ? "preempted"
           : state & 1          ? "blocked"
           : state & 2          ? "uninterruptible"
           : state & (4 | 8)    ? "stopped"
           : state & (16 | 32)  ? "ended"
           : state & (64 | 128) ? "blocked"
                                : "preempted";
}

static int on_switch(struct states *s, const struct event *e, const struct kernel_class *k)
{
    const struct value *v = e->values;
    int64_t previous = v[k->previous_tid].i, next = v[k->next_tid].i;
    const char *state = k->previous_state >= 0 ? off_state(v[k->previous_state].i) : "blocked";
    int r = set_state(s, e, previous, e->time_ns, state);
    if (r >= 0)
        r = set_state(s, e, next, e->time_ns, "running");
    if (r >= 0 && k->previous_name >= 0)
        r = set_name(s, e, previous, &v[k->previous_name]);
    if (r >= 0 && k->next_name >= 0)
        r = set_name(s, e, next, &v[k->next_name]);
    if (r < 0 || k->cpu < 0 || !e->packet)
        return r;
    uint64_t cpu = e->packet[k->cpu].u;
    uint64_t *running = map_put(&s->running, key_of(e->trace, cpu), NULL);
    if (!running)
        return -ENOMEM;
    *running = (uint64_t)next;
    return set_processor(s, e, cpu, next);
}

/* The thread that an event happened on: its own context says so, or what runs on its processor. */
static int64_t current_thread(const struct states *s, const struct event *e, const struct kernel_class *k)
{
    if (e->tid > 0)
        return e->tid;
    if (k->cpu < 0 || !e->packet)
        return -1;
    const uint64_t *running = map_get(&s->running, key_of(e->trace, e->packet[k->cpu].u));
    return running ? (int64_t)*running : -1;
}

/* A wakeup of a thread that runs, or was preempted and waits already, changes nothing. */
static int on_wakeup(struct states *s, const struct event *e, int64_t tid)
{
    struct thread *t;
    struct history_interval latest;
    if (tid <= 0 || !s->emit->states)
        return 0;
    int r = thread_at(s, e->trace, tid, &t);
    if (r >= 0)
        r = history_ongoing(s->emit->states, t->state, &latest);
    if (r < 0)
        return r;
    bool ready = latest.value.type == HISTORY_STRING && (strcmp(latest.value.string, "running") == 0 ||
                                                         strcmp(latest.value.string, "preempted") == 0);
    return ready ? 0 : set_state(s, e, tid, e->time_ns, "runnable");
}

static int on_foreign(struct states *s, const struct event *e)
{
    const struct kernel_class *k;
    int r = class_at(s, e->class, &k);
    if (r < 0)
        return r;
    switch (k->kind) {
    case KERNEL_SWITCH:
        return on_switch(s, e, k);
    case KERNEL_WAKEUP:
        return on_wakeup(s, e, e->values[k->tid].i);
    case KERNEL_ENTRY:
        return set_call(s, e, current_thread(s, e, k), e->time_ns, k->call);
    case KERNEL_EXIT:
        return set_call(s, e, current_thread(s, e, k), e->time_ns, NULL);
    default:
        return 0;
    }
}

/* ---- sonde's own events: spans, whose time is their end ---- */

static uint64_t start_of(const struct event *e)
{
    uint64_t duration = e->values[0].absent ? 0 : e->values[0].u;
    return e->time_ns > duration ? e->time_ns - duration : 0;
}

static int on_off_processor(struct states *s, const struct event *e)
{
    const struct value *v = e->values;
    uint64_t runnable = v[FIELD_sched_switch_runnable_ns].u, start = start_of(e);
    const char *reason = event_label(SONDE_MEANING_off_reason, v[FIELD_sched_switch_reason].u);
    int64_t tid = (int64_t)v[FIELD_sched_switch_tid].u;
    int r = set_state(s, e, tid, start, reason ? reason : "blocked");
    if (r >= 0 && runnable && runnable < e->time_ns - start)
        r = set_state(s, e, tid, e->time_ns - runnable, "runnable");
    if (r >= 0 && !v[FIELD_sched_switch_unfinished].u)
        r = set_state(s, e, tid, e->time_ns, "running");
    return r;
}

static int on_call(struct states *s, const struct event *e)
{
    const char *call = event_label(SONDE_MEANING_syscall, e->values[FIELD_sys_call_call].u);
    int64_t tid = (int64_t)e->values[FIELD_sys_call_tid].u;
    int r = set_call(s, e, tid, start_of(e), call ? call : "other");
    return r < 0 ? r : set_call(s, e, tid, e->time_ns, NULL);
}

static int client_at(struct states *s, const struct event *e, uint32_t *ret_quark)
{
    uint64_t id = e->values[FIELD_redis_command_client_id].u, words[3] = {e->trace, (uint64_t)e->pid, id};
    uint64_t key = map_hash(words, sizeof(words));
    bool is_new;
    uint64_t *place = map_put(&s->clients, key, &is_new);
    if (!place)
        return -ENOMEM;
    if (is_new) {
        struct host_attributes *h;
        uint32_t quark = EMIT_NONE;
        char pid[24], client[24];
        snprintf(pid, sizeof(pid), "%" PRId64, e->pid);
        snprintf(client, sizeof(client), "%" PRIu64, id);
        int r = host_at(s, e->trace, &h);
        if (r >= 0)
            r = below(s, h->root, &h->redis, "Redis");
        if (r >= 0)
            r = emit_attribute(s->emit, h->redis, pid, &quark);
        if (r >= 0)
            r = emit_attribute(s->emit, quark, "Connections", &quark);
        if (r >= 0)
            r = emit_attribute(s->emit, quark, client, &quark);
        if (r >= 0)
            r = emit_attribute(s->emit, quark, "Command", &quark);
        if (r < 0) {
            map_remove(&s->clients, key);
            return r;
        }
        *place = quark;
    }
    *ret_quark = (uint32_t)*place;
    return 0;
}

static int on_redis_command(struct states *s, const struct event *e)
{
    uint32_t quark;
    int r = client_at(s, e, &quark);
    const char *name = event_names_get(&s->names, e->trace, e->pid, e->values[FIELD_redis_command_name].u);
    return r < 0 ? r
                 : emit_interval(s->emit, start_of(e), e->time_ns, quark,
                                 history_string(name ? name : "unknown"));
}

/* ---- event loops and thread pools ---- */

/* What lies below Node/PID, found by key: its index in its list; *ret_new: it is to be added there. */
static int node_place(const struct event *e, struct map *map, int64_t number, size_t count,
                      uint64_t *ret_index, bool *ret_new)
{
    uint64_t *place = map_put(map, key_of(e->trace, (uint64_t)number), ret_new);
    if (!place)
        return -ENOMEM;
    if (*ret_new)
        *place = count;
    *ret_index = *place;
    return 0;
}

static int node_base(struct states *s, const struct event *e, uint32_t *ret_quark)
{
    struct host_attributes *h;
    char pid[24];
    snprintf(pid, sizeof(pid), "%" PRId64, e->pid);
    int r = host_at(s, e->trace, &h);
    if (r >= 0)
        r = below(s, h->root, &h->node, "Node");
    return r < 0 ? r : emit_attribute(s->emit, h->node, pid, ret_quark);
}

static int pool_at(struct states *s, const struct event *e, struct pool **ret_pool)
{
    bool is_new;
    uint64_t index;
    int r = node_place(e, &s->pool_of, e->pid, s->pools.count, &index, &is_new);
    if (r >= 0 && is_new) {
        struct pool p = {EMIT_NONE, EMIT_NONE, EMIT_NONE, 0, 0};
        r = node_base(s, e, &p.base);
        if (r >= 0)
            r = emit_attribute(s->emit, p.base, "Thread pool", &p.base);
        if (r >= 0)
            r = emit_attribute(s->emit, p.base, "Operations", &p.queued);
        if (r >= 0)
            r = emit_attribute(s->emit, p.base, "Done", &p.done);
        if (r >= 0 && array_add(&s->pools, p) < 0)
            r = -ENOMEM;
        if (r < 0)
            map_remove(&s->pool_of, key_of(e->trace, (uint64_t)e->pid));
    }
    if (r >= 0)
        *ret_pool = &s->pools.at[index];
    return r;
}

static int loop_at(struct states *s, const struct event *e, struct loop **ret_loop)
{
    bool is_new;
    uint64_t index;
    int r = node_place(e, &s->loop_of, e->tid, s->loops.count, &index, &is_new);
    if (r >= 0 && is_new) {
        struct loop l = {EMIT_NONE, EMIT_NONE, 0};
        uint32_t quark = EMIT_NONE;
        char tid[24];
        snprintf(tid, sizeof(tid), "%" PRId64, e->tid);
        r = node_base(s, e, &quark);
        if (r >= 0)
            r = emit_attribute(s->emit, quark, "Loops", &quark);
        if (r >= 0)
            r = emit_attribute(s->emit, quark, tid, &quark);
        if (r >= 0)
            r = emit_attribute(s->emit, quark, "Phase", &l.phase);
        if (r >= 0)
            r = emit_attribute(s->emit, quark, "Ready", &l.ready);
        if (r >= 0 && array_add(&s->loops, l) < 0)
            r = -ENOMEM;
        if (r < 0)
            map_remove(&s->loop_of, key_of(e->trace, (uint64_t)e->tid));
    }
    if (r >= 0)
        *ret_loop = &s->loops.at[index];
    return r;
}

static int set_pool(struct states *s, const struct event *e, const struct pool *pool)
{
    int r = emit_state(s->emit, e->time_ns, pool->queued, history_int(pool->in));
    return r < 0 ? r : emit_state(s->emit, e->time_ns, pool->done, history_int(pool->out));
}

/* uv:submit, uv:run, uv:done of one request, in this order; what was not submitted (the synchronous
 * functions, what was under way when the trace began) does not count. */
static int on_operation(struct states *s, const struct event *e, uint64_t request)
{
    struct pool *pool;
    uint64_t words[3] = {e->trace, (uint64_t)e->pid, request}, key = map_hash(words, sizeof(words));
    int r = pool_at(s, e, &pool);
    if (r < 0)
        return r;
    uint64_t *step = map_get(&s->queued, key);
    uint64_t was = step ? *step : 0;
    if (e->id == SONDE_EVENT_uv_submit) {
        if (!step && !(step = map_put(&s->queued, key, NULL)))
            return -ENOMEM;
        *step = 1;
        pool->in += was != 1;
        pool->out -= was == 2;
    } else if (e->id == SONDE_EVENT_uv_run && was == 1) {
        *step = 2;
        pool->in--;
        pool->out++;
    } else if (e->id == SONDE_EVENT_uv_done && was) {
        map_remove(&s->queued, key);
        pool->in -= was == 1; /* it was cancelled */
        pool->out -= was == 2;
    }
    return set_pool(s, e, pool);
}

static int on_phase(struct states *s, const struct event *e)
{
    enum { PHASE_POLL = 4 };
    struct loop *loop;
    int r = loop_at(s, e, &loop);
    uint64_t phase = e->values[FIELD_uv_phase_phase].u;
    const char *name = event_label(SONDE_MEANING_uv_phase, phase);
    if (r >= 0)
        r = emit_interval(s->emit, start_of(e), e->time_ns, loop->phase,
                          history_string(name ? name : "other"));
    if (r >= 0 && phase == PHASE_POLL) {
        r = emit_interval(s->emit, start_of(e), e->time_ns, loop->ready, history_int(loop->callbacks));
        loop->callbacks = 0;
    }
    return r;
}

static int on_callback(struct states *s, const struct event *e)
{
    struct loop *loop;
    int r = loop_at(s, e, &loop);
    if (r >= 0)
        loop->callbacks++;
    return r;
}

/* ---- the pass ---- */

static int on_event(void *self, const struct event *e)
{
    struct states *s = self;
    switch (e->id) {
    case EVENT_FOREIGN:
        return on_foreign(s, e);
    case SONDE_EVENT_probe_name:
        return event_names_learn(&s->names, e);
    case SONDE_EVENT_redis_command:
        return on_redis_command(s, e);
    case SONDE_EVENT_uv_submit:
        return on_operation(s, e, e->values[FIELD_uv_submit_request].u);
    case SONDE_EVENT_uv_run:
        return on_operation(s, e, e->values[FIELD_uv_run_request].u);
    case SONDE_EVENT_uv_done: {
        int r = on_callback(s, e);
        return r < 0 ? r : on_operation(s, e, e->values[FIELD_uv_done_request].u);
    }
    case SONDE_EVENT_uv_io:
    case SONDE_EVENT_port_turn:
        return on_callback(s, e);
    case SONDE_EVENT_uv_phase:
        return on_phase(s, e);
    case SONDE_EVENT_sched_switch:
        return on_off_processor(s, e);
    case SONDE_EVENT_sys_call:
        return on_call(s, e);
    default:
        return 0;
    }
}

struct pass states_pass(struct states *states)
{
    static const uint16_t WANTED[] = {
        EVENT_FOREIGN,        SONDE_EVENT_probe_name,   SONDE_EVENT_redis_command, SONDE_EVENT_uv_submit,
        SONDE_EVENT_uv_run,   SONDE_EVENT_uv_done,      SONDE_EVENT_uv_io,         SONDE_EVENT_port_turn,
        SONDE_EVENT_uv_phase, SONDE_EVENT_sched_switch, SONDE_EVENT_sys_call,      0};
    return (struct pass){.name = "states", .wanted = WANTED, .event = on_event, .self = states};
}

int states_new(struct emit *emit, const struct trace *trace, struct states **ret_states)
{
    struct states *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->emit = emit;
    s->trace = trace;
    *ret_states = s;
    return 0;
}

void states_free(struct states *s)
{
    if (!s)
        return;
    array_done(&s->hosts);
    array_done(&s->threads);
    array_done(&s->classes);
    map_done(&s->thread_of);
    map_done(&s->class_of);
    map_done(&s->running);
    map_done(&s->processor);
    map_done(&s->clients);
    array_done(&s->pools);
    array_done(&s->loops);
    map_done(&s->pool_of);
    map_done(&s->loop_of);
    map_done(&s->queued);
    event_names_done(&s->names);
    free(s);
}
