/* Merges long stretches of the same place into faults, and lets the machine's load explain what it can. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "faults/faults.h"

static const uint64_t STUCK_NS = 1000000000;

enum {
    VICTIMS_KEPT = 2000,
};

struct fault *fault_get(struct analysis *a, enum finding_kind kind, const struct process *process,
                        const char *place)
{
    char key[1024];
    int length = snprintf(key, sizeof(key), "%d|%s|%s", (int)kind, process->service, place);
    bool added;
    uint64_t *slot = map_put(&a->faults, map_hash(key, MIN((size_t)length, sizeof(key) - 1)), &added);
    if (!slot) {
        a->failed = true;
        return NULL;
    }
    if (!added)
        return (struct fault *)(uintptr_t)*slot;
    struct fault *fault = calloc(1, sizeof(*fault));
    if (!fault || array_add(&a->fault_list, fault) < 0) {
        a->failed = true;
        free(fault);
        map_remove(&a->faults, map_hash(key, MIN((size_t)length, sizeof(key) - 1)));
        return NULL;
    }
    *slot = (uint64_t)(uintptr_t)fault;
    fault->kind = kind;
    fault->service = process->service;
    fault->pid = process->pid;
    fault->from_ns = UINT64_MAX;
    return fault;
}

void fault_free(struct fault *fault)
{
    if (!fault)
        return;
    array_foreach (&fault->victims, victim)
        free(victim->path);
    array_done(&fault->victims);
    map_done(&fault->victim_of);
    map_done(&fault->clients);
    free(fault->seen);
    free(fault);
}

void faults_free(struct analysis *a)
{
    array_foreach (&a->fault_list, fault)
        fault_free(*fault);
    array_clear(&a->fault_list);
}

/* share: how much of the delay is this fault's doing. */
static void merge_victims(struct analysis *a, struct fault *fault, struct stretch *s, double share)
{
    array_foreach (&s->victims, victim) {
        uint64_t delay_ns = (uint64_t)((double)victim->delay_ns * share);
        if (victim->role != VICTIM_UPSTREAM)
            fault->cost_ns += delay_ns;
        bool added;
        uint64_t *place = map_put(&fault->victim_of, victim->serial, &added);
        if (!place) {
            a->failed = true;
            return;
        }
        if (!added) {
            struct victim *known = *place < fault->victims.count ? &fault->victims.at[*place] : NULL;
            if (known && known->serial == victim->serial) {
                known->delay_ns += delay_ns;
                known->role = victim->role == VICTIM_CAUSED ? victim->role : known->role;
            }
            continue;
        }
        *place = fault->victims.count;
        if (fault->victims.count >= VICTIMS_KEPT) {
            *place = UINT64_MAX;
            fault->victims_left_out++;
            continue;
        }
        LIST_ADD(a, &fault->victims, *victim);
        if (!a->failed) {
            fault->victims.at[fault->victims.count - 1].delay_ns = delay_ns;
            victim->path = NULL; /* the fault has it now */
        }
    }
}

void fault_add_victim(struct analysis *a, struct fault *fault, const struct victim *victim, double share)
{
    uint64_t delay_ns = (uint64_t)((double)victim->delay_ns * share);
    fault->cost_ns += victim->role == VICTIM_UPSTREAM ? 0 : delay_ns;
    if (fault->victims.count >= VICTIMS_KEPT) {
        fault->victims_left_out++;
        return;
    }
    bool added;
    uint64_t *place = map_put(&fault->victim_of, victim->serial, &added);
    if (place && !added) {
        fault->victims.at[*place].delay_ns += delay_ns;
        return;
    }
    struct victim copy = *victim;
    copy.delay_ns = delay_ns;
    copy.path = strdup(victim->path ? victim->path : "");
    if (place)
        *place = fault->victims.count;
    if (!place || !copy.path || array_add(&fault->victims, copy) < 0) {
        map_remove(&fault->victim_of, victim->serial);
        free(copy.path);
        a->failed = true;
    }
}

void fault_add_request(struct analysis *a, struct fault *fault, const struct request *request,
                       uint64_t delay_ns, enum victim_role role)
{
    struct victim victim = request_victim(request, delay_ns, role);
    fault_add_victim(a, fault, &victim, 1);
    a->failed |= !victim.path;
    free(victim.path);
}

void fault_absorb(struct analysis *a, struct fault *to, struct fault *from)
{
    from->absorbed = true;
    to->cost_ns += from->cost_ns;
    to->late_count += from->late_count;
    to->late_most_ns += from->late_most_ns;
    to->count += from->count;
    to->total_ns += from->total_ns;
    to->excused_count += from->excused_count;
    to->excused_ns += from->excused_ns;
    to->blamed_worst_ns = MAX(to->blamed_worst_ns, from->blamed_worst_ns);
    to->left_ns += from->left_ns;
    to->net_ns += from->net_ns;
    to->run_queue_ns += from->run_queue_ns;
    to->gc_ns += from->gc_ns;
    to->from_ns = MIN(to->from_ns, from->from_ns);
    to->to_ns = MAX(to->to_ns, from->to_ns);
    to->unfinished |= from->unfinished;
    to->later |= from->later;
    to->proven |= from->proven;
    to->open_ns = MAX(to->open_ns, from->open_ns);
    to->closed_ns = MAX(to->closed_ns, from->closed_ns);
    to->looks += from->looks;
    to->looks_agree += from->looks_agree;
    if (from->worst_ns >= to->worst_ns) {
        to->worst_ns = from->worst_ns;
        to->place = from->place.cause ? from->place : to->place;
        to->route = from->route;
        to->tid = from->tid;
    }
    to->victims_left_out += from->victims_left_out;
    array_foreach (&from->victims, victim) {
        bool added;
        uint64_t *place = map_put(&to->victim_of, victim->serial, &added);
        if (!place) {
            a->failed = true;
            return;
        }
        if (!added && *place < to->victims.count) {
            struct victim *known = &to->victims.at[*place];
            known->delay_ns += victim->delay_ns;
            known->role = victim->role == VICTIM_CAUSED ? victim->role : known->role;
            continue;
        }
        *place = to->victims.count;
        if (array_add(&to->victims, *victim) < 0)
            a->failed = true;
        else
            victim->path = NULL;
    }
}

static void merge_times(struct fault *fault, const struct thread *thread, const struct stretch *s,
                        uint64_t run_queue_ns)
{
    uint64_t took_ns = s->end_ns - s->start_ns;
    fault->count++;
    fault->total_ns += took_ns;
    fault->run_queue_ns += run_queue_ns - MIN(s->apart_ns, run_queue_ns);
    fault->net_ns += took_ns - run_queue_ns;
    fault->gc_ns += s->gc_ns;
    fault->from_ns = MIN(fault->from_ns, s->start_ns);
    fault->to_ns = MAX(fault->to_ns, s->end_ns);
    fault->unfinished |= s->unfinished;
    if (s->unfinished)
        fault->open_ns = MAX(fault->open_ns, took_ns - run_queue_ns);
    else
        fault->closed_ns = MAX(fault->closed_ns, took_ns - run_queue_ns);
    if (took_ns >= fault->worst_ns) {
        fault->worst_ns = took_ns;
        fault->pid = thread->process->pid;
        fault->tid = thread->tid;
    }
}

/* ---- turns ---- */

static bool is_placed(const struct look *look)
{
    return look->function || look->script;
}

/* Assembler code keeps no frames, so a sample of it may not see who called it. Where another one of the
 * stretch saw a built-in function at work in the same code, both are of that. */
static const struct look *whole(const struct stretch *s, const struct look *look)
{
    if (look->cause != SONDE_stall_cause_native || is_placed(look) || !look->detail)
        return look;
    array_foreach (&s->looks, other)
        if (other->cause == SONDE_stall_cause_builtin && other->stack && other->stack->leaf == look->detail)
            return other;
    return look;
}

/* What most samples saw: first the cause, then the place. Returns false when no sample was taken. */
static bool majority(struct analysis *a, const struct stretch *s, struct look *ret_place, uint64_t *ret_all)
{
    uint64_t by_cause[8] = {0}, all = 0;
    array_foreach (&s->looks, look) {
        by_cause[whole(s, look)->cause & 7] += look->count;
        all += look->count;
    }
    unsigned cause = 0;
    for (unsigned i = 1; i < ARRAY_SIZE(by_cause); i++)
        if (by_cause[i] > by_cause[cause])
            cause = i;
    const struct look *most = NULL;
    uint64_t agree = 0;
    array_foreach (&s->looks, look) {
        if ((look->cause & 7) != cause)
            continue;
        if (!most || look->count > most->count)
            most = look;
    }
    if (!most)
        return false;
    /* Lines differ within a loop: the place is the function. */
    array_foreach (&s->looks, look) {
        const struct look *seen = whole(s, look);
        if (seen->cause == most->cause && seen->function == most->function && seen->script == most->script &&
            seen->detail == most->detail)
            agree += look->count;
    }
    *ret_place = *most;
    ret_place->count = (uint32_t)agree;
    /* Nor which function of JavaScript that was: others did. */
    const struct look *placed = is_placed(most) ? most : NULL;
    array_foreach (&s->looks, look)
        if (!is_placed(most) && is_placed(look) && (!placed || look->count > placed->count))
            placed = look;
    if (placed) {
        ret_place->function = placed->function;
        ret_place->script = placed->script;
        ret_place->line = placed->line;
        ret_place->column = placed->column;
    }
    /* A pattern that backtracks is what most samples see; many short matches are one of the things that a
     * function does, as are leaves of native code that samples differ in. */
    bool regexp = most->cause == SONDE_stall_cause_regexp, mostly = by_cause[most->cause & 7] * 2 > all;
    bool common = !(regexp && mostly) && place_common(a, s->looks.at, s->looks.count, ret_place);
    bool leaves = most->cause == SONDE_stall_cause_native && !ret_place->called &&
                  !place_has_leaf(s->looks.at, s->looks.count, most->detail);
    if (common && (regexp || leaves))
        ret_place->cause = SONDE_stall_cause_javascript, ret_place->detail = NULL;
    *ret_all = all;
    return true;
}

/* Most samples saw one function at work: not the many things of starting up. */
static bool concentrated(const struct stretch *s)
{
    uint64_t looks = 0, most = 0;
    array_foreach (&s->looks, look) {
        uint64_t same = 0;
        array_foreach (&s->looks, other)
            same += other->function == look->function && other->script == look->script && !other->loading
                        ? other->count
                        : 0;
        looks += look->count;
        most = MAX(most, same);
    }
    return looks >= 3 && most * 10 >= looks * 6;
}

/* Starting up and the first request of an endpoint load and compile code; that is slow once, by nature. Looks
 * must have seen it: without any, only the main script and a turn full of a loader's calls are known to. */
static bool warming_up(const struct stretch *s)
{
    uint64_t loading = 0, looks = 0;
    array_foreach (&s->looks, look) {
        loading += look->loading ? look->count : 0;
        looks += look->count;
    }
    if (s->unfinished)
        return false;
    return looks ? loading * 2 >= looks : s->starting || s->many_calls;
}

static const char *short_path(const char *path)
{
    const char *slash = strrchr(path, '/'), *before = slash;
    while (before > path && before[-1] != '/')
        before--;
    return before && before > path ? before : path;
}

const char *stretch_place(struct analysis *a, const struct stretch *s)
{
    struct look place;
    uint64_t looks;
    if (!majority(a, s, &place, &looks))
        return NULL;
    struct text text = {0};
    if (place.cause == SONDE_stall_cause_regexp)
        text_add(&text, "regular expression ");
    const char *called = place.cause == SONDE_stall_cause_regexp ? place.detail : place_called(&place);
    if (called)
        text_add(&text, called);
    if (place.function && *place.function)
        text_addf(&text, "%sin %s", text.length ? " " : "", place.function);
    if (place.script)
        text_addf(&text, " (%s:%u:%u)", short_path(place.script), place.line, place.column);
    const char *said = intern_string(a, text_get(&text));
    text_done(&text);
    return *said ? said : NULL;
}

static const char *or_empty(const char *string)
{
    return string ? string : "";
}

/* Whether calls that took part_ns make up most of a stretch. Where the kernel did not report each wait, it is
 * not known how much of the time without a CPU was in them: then what most samples saw decides. */
static bool is_most(const struct stretch *s, uint64_t part_ns, uint64_t net_ns, bool exact, bool seen)
{
    uint64_t took_ns = s->end_ns - s->start_ns;
    return part_ns * 2 >= took_ns || (part_ns * 2 >= net_ns && (exact || seen || !s->looks.count));
}

static const char *encoding_name(struct analysis *a, uint8_t what)
{
    const char *name = event_label(SONDE_MEANING_encoding, what);
    return intern_string(a, name ? name : "encoding");
}

/* Where samples saw such calls, which a stretch mostly consists of. On a busy machine most samples see where
 * the thread lost its CPU, which says nothing of the calls. */
static size_t looks_at_calls(struct analysis *a, const struct stretch *s, bool (*is)(const struct look *),
                             struct look *place)
{
    struct stretch calls = {.start_ns = s->start_ns, .end_ns = s->end_ns};
    uint64_t looks;
    array_foreach (&s->looks, look)
        if (is(look))
            LIST_ADD(a, &calls.looks, *look);
    size_t count = calls.looks.count;
    if (!majority(a, &calls, place, &looks))
        *place = (struct look){0};
    array_done(&calls.looks);
    return count;
}

static void place_synchronous(struct analysis *a, const struct stretch *s, struct look *place)
{
    if (s->looks.count && !look_synchronous(place))
        (void)looks_at_calls(a, s, look_synchronous, place);
    place->cause = SONDE_stall_cause_waiting;
    place->detail = NULL;
}

static void place_encoding(struct analysis *a, const struct stretch *s, struct look *place)
{
    struct look seen = {0};
    if (!place->variants && !look_encodes(place) && looks_at_calls(a, s, look_encodes, &seen))
        *place = seen;
    place->cause = SONDE_stall_cause_builtin;
    place->detail = encoding_name(a, s->encode_what);
}

/* Calls that people make, which a function may make several of, are distinguished where a stretch consists of
 * one of them; the function's own work, in pieces with calls of others, is one. */
static const char *called_apart(const struct look *place, bool encodes)
{
    if (place->cause == SONDE_stall_cause_gc)
        return "gc";
    if (encodes)
        return place->variants && !place->called ? "" : "encoding";
    if (place->called)
        return place->called;
    return place->cause == SONDE_stall_cause_waiting ? or_empty(place->detail) : "";
}

static bool is_worker(const struct analysis *a, const struct thread *thread)
{
    const struct analyzer *analyzer = analyzer_of(a, thread->process);
    return analyzer && analyzer->hosts_services && thread->tid != thread->process->pid && !thread->serves;
}

static void blocked_turn(struct analysis *a, struct thread *thread, struct stretch *s, uint64_t run_queue_ns,
                         double share)
{
    struct look place = {0};
    uint64_t looks = 0, net_ns = s->end_ns - s->start_ns - run_queue_ns;
    majority(a, s, &place, &looks);
    bool regexp = place.cause == SONDE_stall_cause_regexp,
         javascript = place.cause == SONDE_stall_cause_javascript, encodes = false;
    struct activity_times times;
    bool exact = activity_times(thread, s->start_ns, s->end_ns, &times);
    if (is_most(s, s->sync_ns, net_ns, exact, !regexp && !javascript))
        place_synchronous(a, s, &place), looks = place.count ? looks : 0;
    else if (is_most(s, s->gc_ns, net_ns, exact, place.cause == SONDE_stall_cause_gc))
        place.cause = SONDE_stall_cause_gc;
    else if ((encodes = !regexp && is_most(s, s->encode_ns, net_ns, exact, !javascript)))
        place_encoding(a, s, &place), looks = place.count ? looks : 0;
    else
        s->sync_ns = 0;
    /* Where collections are measured and were short, samples that saw one saw the function that allocates. */
    if (place.cause == SONDE_stall_cause_gc && thread->collects && s->gc_ns * 4 < net_ns && is_placed(&place))
        place.cause = SONDE_stall_cause_javascript, place.detail = NULL;
    enum finding_kind kind =
        place.cause == SONDE_stall_cause_regexp ? FINDING_blocking_regexp
        : place.cause == SONDE_stall_cause_waiting && !s->sync_ns && is_named_lock(place.detail)
            ? FINDING_lock_wait
            : FINDING_event_loop_blocked;
    bool warming = warming_up(s);
    const char *apart = called_apart(&place, encodes);
    if (warming || is_worker(a, thread))
        kind = FINDING_event_loop_blocked;
    char key[768];
    if (warming)
        snprintf(key, sizeof(key), "warming up");
    else if (is_worker(a, thread))
        snprintf(key, sizeof(key), "worker|%s|%s", or_empty(place.function), or_empty(place.script));
    else if (kind == FINDING_blocking_regexp)
        snprintf(key, sizeof(key), "%s|%s|%s", or_empty(place.detail), or_empty(place.script),
                 or_empty(place.function));
    else if (place.function ||
             place.script) /* functions without a name are distinguished by whom they serve */
        snprintf(key, sizeof(key), "%s|%s|%s|%s", apart, or_empty(place.function), or_empty(place.script),
                 place.function && place.function[0] != '(' ? "" : or_empty(s->route));
    else
        snprintf(key, sizeof(key), "%u|%s|%s", place.cause, or_empty(place.detail),
                 or_empty(s->route ? s->route : s->callback));
    struct fault *fault = fault_get(a, kind, thread->process, key);
    if (!fault)
        return;
    fault->warming = warming;
    fault->apart = apart;
    fault->worker = is_worker(a, thread);
    fault->later |= !s->first || concentrated(s);
    bool worst = s->end_ns - s->start_ns >= fault->worst_ns;
    fault->phase_differs |= fault->count && fault->phase != s->phase;
    merge_times(fault, thread, s, run_queue_ns);
    fault->looks += looks;
    fault->looks_agree += place.count;
    bool lock = place.cause == SONDE_stall_cause_waiting && !s->sync_ns && is_lock(place.detail);
    fault->proven |= !lock || lock_proven(thread, s, &place);
    if (worst) {
        fault->place = place;
        fault->callback = s->callback;
        fault->route = s->route;
        fault->phase = s->phase;
        fault->sync_kind = s->sync_ns ? s->sync_kind : 0;
        fault->encodes = encodes;
    }
    array_foreach (&s->victims, victim)
        if (victim->role == VICTIM_WAITED && !victim->delay_ns) {
            fault->late_count++;
            fault->late_most_ns += (uint64_t)((double)(s->end_ns - s->start_ns) * share);
        }
    merge_victims(a, fault, s, share);
}

/* ---- commands and operations of the pool ---- */

static void slow_command(struct analysis *a, struct thread *thread, struct stretch *s, uint64_t run_queue_ns,
                         double share)
{
    char key[256];
    snprintf(key, sizeof(key), "%s|%s", s->command, or_empty(s->caller));
    struct fault *fault = fault_get(a, s->kind, thread->process, key);
    if (!fault)
        return;
    bool worst = s->end_ns - s->start_ns >= fault->worst_ns;
    merge_times(fault, thread, s, run_queue_ns);
    fault->command = s->command;
    fault->caller = s->caller;
    fault->others_unknown |= !s->caller;
    fault->queued_commands += s->queued_commands;
    fault->queued_ns += (uint64_t)((double)s->queued_ns * share);
    map_put(&fault->clients, s->client_id, NULL);
    if (worst) {
        fault->client_id = s->client_id;
        fault->arguments = s->arguments;
        fault->argument_bytes = s->argument_bytes;
        fault->inner = s->inner;
        fault->inner_calls = s->inner_calls;
    }
    merge_victims(a, fault, s, share);
}

static void starved_operation(struct analysis *a, struct thread *thread, struct stretch *s,
                              uint64_t run_queue_ns, double share)
{
    struct fault *fault = pieces_fault(a, thread->process, s);
    if (!fault)
        return;
    merge_times(fault, thread, s, run_queue_ns);
    fault->tid = 0;
    fault->occupant_share_sum += s->occupant_share * (double)(s->end_ns - s->start_ns);
    pieces_waited(fault, s->waiting_kind, 1);
    merge_victims(a, fault, s, share);
}

static void waited_for_processor(struct analysis *a, struct thread *thread, struct stretch *s,
                                 uint64_t run_queue_ns, double share)
{
    struct fault *fault = fault_get(a, FINDING_run_queue_wait, thread->process, "");
    if (!fault)
        return;
    /* Operations that stood in a queue at once waited for the same: of their times, what overlaps is added up
     * once, so that the sum is never more than the threads' own counters. */
    uint64_t worst_ns = fault->worst_ns, before_ns = fault->run_queue_ns;
    struct stretch rest = *s;
    rest.start_ns = MAX(s->start_ns, MIN(thread->queue_told_ns, s->end_ns));
    thread->queue_told_ns = MAX(thread->queue_told_ns, s->end_ns);
    merge_times(fault, thread, &rest,
                rest.start_ns == s->start_ns
                    ? run_queue_ns
                    : MIN(run_queue_ns, stretch_run_queue_ns(thread, rest.start_ns, rest.end_ns)));
    fault->worst_ns = MAX(worst_ns, run_queue_ns - s->apart_ns);
    if (machine_had_idle_cpu(a, s->start_ns, s->end_ns))
        fault->idle_cpu_ns += fault->run_queue_ns - before_ns;
    merge_victims(a, fault, s, share);
}

/* What is said to have kept a CPU busy cannot have taken longer than the thread ran. The rest is the
 * machine's: other programs, or a hypervisor that gave the CPU to somebody else; *ret_stolen_ns is what that
 * took, as far as the steal time of the machine grew meanwhile. */
static uint64_t machine_share_ns(struct analysis *a, const struct thread *thread, const struct stretch *s,
                                 uint64_t run_queue_ns, uint64_t *ret_stolen_ns)
{
    uint64_t took_ns = s->end_ns - s->start_ns, looks;
    struct look place = {0};
    struct activity_times times;
    bool exact = activity_times(thread, s->start_ns, s->end_ns, &times),
         seen = majority(a, s, &place, &looks);
    /* A collection waits for threads of V8's own, which may have no CPU. */
    bool collects = s->gc_ns * 2 >= took_ns || (seen && place.cause == SONDE_stall_cause_gc);
    if (collects || (seen && place.cause == SONDE_stall_cause_waiting && is_lock(place.detail)))
        run_queue_ns = lock_machine_ns(thread, s, run_queue_ns, collects);
    /* Waits that the kernel tells of late are known to an interval only: never more than it did not run. */
    run_queue_ns = MIN(run_queue_ns, took_ns - MIN(stretch_ran_ns(thread, s->start_ns, s->end_ns), took_ns));
    bool waits = s->what == STRETCH_POOL || (seen && place.cause == SONDE_stall_cause_waiting) ||
                 s->sync_ns * 2 >= took_ns;
    uint64_t cpu_ns = waits           ? UINT64_MAX
                      : s->unfinished ? stretch_open_cpu_ns(thread, s->start_ns, s->end_ns)
                                      : stretch_cpu_ns(thread, s->start_ns, s->end_ns);
    /* What it was blocked for is no lack of CPUs. */
    uint64_t blocked_ns = exact ? times.blocked_ns - MIN(times.held_ns, times.blocked_ns) : 0;
    uint64_t known_ns = cpu_ns < took_ns ? MIN(cpu_ns + blocked_ns, took_ns) : took_ns;
    uint64_t share_ns = MAX(run_queue_ns, took_ns - known_ns);
    *ret_stolen_ns = machine_stolen_ns(a, s->start_ns, s->end_ns, share_ns - run_queue_ns);
    return share_ns;
}

/* The program was ending, and waits for its threads, or its memory to be freed: it serves no requests any
 * more. */
static bool is_exiting(const struct stretch *s)
{
    uint64_t exiting = 0, looks = 0;
    array_foreach (&s->looks, look) {
        exiting += look->stack && look->stack->exiting ? look->count : 0;
        looks += look->count;
    }
    return exiting * 2 > looks;
}

/* A callback that was open at the end is stuck when it kept a CPU busy at one place, or for long (net_ns:
 * without what the machine had no CPU for; what did not run is seen at one place, too). A program that ends
 * itself does so inside a callback, as a rule a signal's, and may take a while to end. */
static bool is_stuck(struct analysis *a, const struct stretch *s, uint64_t net_ns)
{
    struct look place = {0};
    uint64_t looks = 0;
    if (is_exiting(s) || (!s->looks.count && s->callback && strcmp(s->callback, "signal") == 0))
        return false;
    if (net_ns >= STUCK_NS)
        return true;
    return net_ns >= a->options.stall_ns && majority(a, s, &place, &looks) && concentrated(s) &&
           place.cause >= SONDE_stall_cause_regexp && place.cause < SONDE_stall_cause_gc;
}

static bool is_wait(const struct look *look)
{
    return look->cause == SONDE_stall_cause_waiting || is_lock(look->detail) ||
           (look->called && strcmp(look->called, "Atomics.wait") == 0);
}

/* A thread that is given tasks (worker_threads) waits for the next one inside of a callback (Atomics.wait),
 * which is neither a stall nor part of one. Returns whether anything is left. */
static bool worked(struct analysis *a, const struct thread *thread, struct stretch *s)
{
    struct look place = {0};
    uint64_t looks, took_ns = s->end_ns - s->start_ns;
    uint64_t cpu_ns = stretch_cpu_ns(thread, s->start_ns, s->end_ns);
    if (cpu_ns == UINT64_MAX && majority(a, s, &place, &looks) && place.cause == SONDE_stall_cause_waiting)
        return false;
    s->start_ns = s->end_ns - MIN(cpu_ns, took_ns);
    size_t left = 0; /* samples of the wait are none of the work */
    for (size_t i = 0; i < s->looks.count; i++)
        if (!is_wait(&s->looks.at[i]))
            s->looks.at[left++] = s->looks.at[i];
    s->looks.count = left;
    return s->end_ns - s->start_ns >= a->options.stall_ns;
}

/* What a quota or the hypervisor took of a stretch is a fault of its own; NULL: there is no memory. */
static void told_apart(struct analysis *a, struct fault *fault, const struct thread *thread,
                       struct stretch *s, uint64_t kept_ns, uint64_t run_queue_ns)
{
    uint64_t took_ns = s->end_ns - s->start_ns;
    if (!fault)
        return;
    s->apart_ns += kept_ns;
    fault->process = thread->process;
    fault->pid = thread->process->pid;
    fault->count++;
    fault->total_ns += kept_ns;
    fault->net_ns += took_ns - run_queue_ns;
    fault->worst_ns = MAX(fault->worst_ns, kept_ns);
    fault->from_ns = MIN(fault->from_ns, s->start_ns);
    fault->to_ns = MAX(fault->to_ns, s->end_ns);
    array_foreach (&s->victims, victim)
        fault_add_victim(a, fault, victim, (double)kept_ns / (double)took_ns);
}

void fault_stretch(struct analysis *a, struct thread *thread, struct stretch *s, uint64_t run_queue_ns)
{
    if (s->what == STRETCH_TURN && is_worker(a, thread) && !worked(a, thread, s))
        return;
    uint64_t took_ns = s->end_ns - s->start_ns;
    uint64_t stolen_ns;
    run_queue_ns = machine_share_ns(a, thread, s, MIN(run_queue_ns, took_ns), &stolen_ns);
    uint64_t net_ns = took_ns - run_queue_ns;
    uint64_t limit_ns = s->what == STRETCH_TURN      ? a->options.stall_ns
                        : s->what == STRETCH_COMMAND ? a->options.slow_command_ns
                                                     : a->options.pool_wait_ns;
    double share = took_ns ? (double)net_ns / (double)took_ns : 0;
    if (s->waiter)
        pieces_judged(a, thread, s, net_ns, net_ns >= limit_ns);
    if (s->what == STRETCH_POOL && took_ns < limit_ns)
        return;
    if (s->unfinished && !is_stuck(a, s, net_ns))
        return;
    /* Of what stood for the machine's sake for the most part, the rest is not known so exactly, unless the
     * kernel told of each wait or the thread was seen to run for so long. */
    struct activity_times times;
    bool exact = activity_times(thread, s->start_ns, s->end_ns, &times);
    bool mostly_waited = s->what == STRETCH_TURN && !exact && net_ns * 3 < took_ns && net_ns < 3 * limit_ns &&
                         stretch_ran_ns(thread, s->start_ns, s->end_ns) < limit_ns;
    /* Of the time without a CPU, what the hypervisor and the quota took is accounted separately; the rest is
     * the machine's. */
    uint64_t throttled_ns = quota_kept_ns(thread, s, run_queue_ns - stolen_ns);
    if (stolen_ns)
        told_apart(a, fault_get(a, FINDING_cpu_stolen, thread->process, ""), thread, s, stolen_ns,
                   run_queue_ns);
    if (throttled_ns)
        told_apart(a, fault_get(a, FINDING_cpu_throttled, thread->process, ""), thread, s, throttled_ns,
                   run_queue_ns);
    uint64_t machine_ns = run_queue_ns - s->apart_ns;
    bool waited = (net_ns < limit_ns || mostly_waited) && !s->unfinished;
    if (waited && s->apart_ns && machine_ns < MAX(s->apart_ns, limit_ns))
        return;
    if (waited)
        waited_for_processor(a, thread, s, run_queue_ns, (double)machine_ns / (double)MAX(took_ns, 1u));
    else if (s->what == STRETCH_TURN)
        blocked_turn(a, thread, s, run_queue_ns, share);
    else if (s->what == STRETCH_COMMAND)
        slow_command(a, thread, s, run_queue_ns, share);
    else
        starved_operation(a, thread, s, run_queue_ns, share);
}
