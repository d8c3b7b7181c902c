/* Callbacks that are none of them long enough to be a stall and take long together: a request that is served
 * in hundreds of short pieces. What each piece took is known from its turn; what they did is known from
 * samples that the sampler takes of them as its ticks fall, so that most samples see what takes most time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "faults/faults.h"
#include "base/clock.h"

enum { LOOKS_NEEDED = 3, CANDIDATES_MAX = 16, ENDPOINTS_MAX = 8 };
/* Where one request of an endpoint takes as long as a stall, others that take at least this part of a stall
 * are told with it. */
enum { LEAST_PART = 2 };
/* The application's function between those of packages is in at least this part of the samples. */
enum { GOES_ON_PART = 5 };

/* Who waited for less, in total, is no victim. */
static const uint64_t WAITED_MIN_NS = 10 * NS_PER_MS;

/* ---- what was seen ---- */

static bool same_place(const struct look *x, const struct look *y)
{
    return x->cause == y->cause && x->function == y->function && x->script == y->script &&
           x->detail == y->detail && x->packaged == y->packaged && x->by_package == y->by_package;
}

static void see(struct seen *seen, const struct look *look)
{
    seen->looks += look->count;
    seen->loading += look->loading ? look->count : 0;
    for (size_t i = 0; i < SEEN_PLACES; i++) {
        struct look *place = &seen->places[i];
        if (place->count && !same_place(place, look))
            continue;
        uint32_t count = place->count + look->count;
        *place = *look;
        place->count = count;
        return;
    }
}

void seen_add(struct analysis *a, struct seen **seen, const struct look *look)
{
    if (!*seen && !(*seen = calloc(1, sizeof(**seen)))) {
        a->failed = true;
        return;
    }
    see(*seen, look);
}

void seen_merge(struct seen *to, const struct seen *from)
{
    for (size_t i = 0; i < SEEN_PLACES && from->places[i].count; i++)
        see(to, &from->places[i]);
}

/* A sample is evaluated some time after it was taken: then the turn that it fell into has mostly been read.
 */
void short_look(struct analysis *a, struct thread *thread, const struct look *look)
{
    /* In short callbacks a call that waits tells nothing. */
    size_t n = thread->short_turns && look->cause != SONDE_stall_cause_waiting ? thread->short_turn_count : 0;
    if (look->stood)
        return;
    for (size_t i = n; i > 0 && n - i < SHORT_TURNS; i--) {
        const struct short_turn *turn = &thread->short_turns[(i - 1) % SHORT_TURNS];
        if (turn->end_ns <= look->since_ns)
            break;
        if (turn->start_ns > look->since_ns)
            continue;
        struct request *owner = request_get(a, turn->owner);
        if (owner)
            seen_add(a, &owner->seen, look);
        if (turn->encodes)
            seen_add(a, &thread->process->encode_seen, look);
        return;
    }
    if (!stretch_late_look(a, thread, look) && thread->looks.count < LOOKS_MAX)
        LIST_ADD(a, &thread->looks, *look);
}

/* ---- whose ---- */

/* Timers and immediates do not tell whose they are. The one request that is served and waits for nothing that
 * is seen; or, when there are several of one endpoint, any of them. */
static struct request *only_candidate(const struct thread *thread, uint64_t start_ns)
{
    struct request *found = NULL;
    if (thread->open.count > CANDIDATES_MAX)
        return NULL;
    array_foreach (&thread->open, place) {
        struct request *request = *place;
        if (request->state != REQUEST_OPEN || request->open_calls || request->start_ns >= start_ns)
            continue;
        if (found && (found->route != request->route || found->method != request->method))
            return NULL;
        if (!found || request->short_ns < found->short_ns)
            found = request;
    }
    return found;
}

void short_turn(struct analysis *a, struct thread *thread, struct request *owner, uint64_t start_ns,
                uint64_t end_ns, uint64_t net_ns, bool encodes)
{
    if (!owner)
        owner = only_candidate(thread, start_ns);
    if (!thread->short_turns && !(thread->short_turns = calloc(SHORT_TURNS, sizeof(*thread->short_turns)))) {
        a->failed = true;
        return;
    }
    thread->short_turns[thread->short_turn_count++ % SHORT_TURNS] =
        (struct short_turn){.start_ns = start_ns,
                            .end_ns = end_ns,
                            .owner = owner ? owner->serial : 0,
                            .method = owner ? owner->method : NULL,
                            .route = owner ? owner->route : NULL,
                            .encodes = encodes};
    size_t left = 0;
    for (size_t i = 0; i < thread->looks.count; i++) {
        const struct look look = thread->looks.at[i];
        if (look.since_ns < start_ns || look.since_ns >= end_ns) {
            thread->looks.at[left++] = look;
            continue;
        }
        if (owner && !look.stood)
            seen_add(a, &owner->seen, &look);
        if (encodes && !look.stood)
            seen_add(a, &thread->process->encode_seen, &look);
    }
    thread->looks.count = left;
    if (!owner)
        return;
    owner->short_ns += net_ns;
    owner->short_turns++;
}

/* ---- the verdict on a request ---- */

/* The first request of an endpoint may load modules, which is slow once: samples must have seen that it did
 * something else. */
static bool was_warm(const struct request *request)
{
    return request->seen && request->seen->loading * 2 < request->seen->looks;
}

/* What callbacks of that endpoint's requests are to blame for, if anything: judge() decides. */
static struct fault *fault_of(struct analysis *a, const struct process *process, const char *method,
                              const char *route)
{
    char key[512];
    snprintf(key, sizeof(key), "short|%s %s", method, route);
    struct fault *fault = fault_get(a, FINDING_event_loop_blocked, process, key);
    if (!fault || (!fault->seen && !(fault->seen = calloc(1, sizeof(*fault->seen)))))
        return NULL;
    fault->route = intern_string(a, key + strlen("short|"));
    return fault;
}

void short_request_done(struct analysis *a, struct process *process, struct request *request)
{
    uint64_t *slot = map_get(&process->threads, (uint64_t)request->tid);
    const struct thread *thread = slot ? (const struct thread *)(uintptr_t)*slot : NULL;
    struct activity_times times;
    uint64_t queue_ns = 0;
    uint64_t least_ns = a->options.stall_ns / LEAST_PART;
    if ((request->first && !was_warm(request)) || request->short_ns < least_ns || request->short_turns < 2)
        return;
    /* What they waited for a CPU is not in short_ns where it is known exactly. */
    if (thread && !activity_times(thread, request->start_ns, request->end_ns, &times))
        queue_ns = stretch_run_queue_ns(thread, request->start_ns, request->end_ns);
    uint64_t net_ns = request->short_ns - MIN(queue_ns, request->short_ns);
    if (request->short_ns * 3 < request_net_latency_ns(process, request) || net_ns < least_ns)
        return;
    struct fault *fault = fault_of(a, process, request->method, request->route);
    if (!fault)
        return;
    for (size_t i = 0; request->seen && i < SEEN_PLACES && request->seen->places[i].count; i++)
        see(fault->seen, &request->seen->places[i]);
    fault->count += request->short_turns;
    fault->total_ns += request->short_ns;
    fault->net_ns += net_ns;
    fault->run_queue_ns += request->short_ns - net_ns;
    fault->worst_ns = MAX(fault->worst_ns, request->short_ns);
    fault->from_ns = MIN(fault->from_ns, request->start_ns);
    fault->to_ns = MAX(fault->to_ns, request->end_ns);
    fault->phase_differs = true;
    fault->later |= !request->first && net_ns >= a->options.stall_ns;
    fault_add_request(a, fault, request, net_ns, VICTIM_CAUSED);
}

/* What the request lost to callbacks of one endpoint. */
struct lost_to {
    const char *method, *route;
    uint64_t ns;
};

static void add_lost(struct lost_to lost[ENDPOINTS_MAX], const struct short_turn *turn, uint64_t ns)
{
    for (size_t i = 0; i < ENDPOINTS_MAX; i++) {
        if (lost[i].route && (lost[i].route != turn->route || lost[i].method != turn->method))
            continue;
        lost[i] = (struct lost_to){turn->method, turn->route, lost[i].ns + ns};
        return;
    }
}

/* Finds out in whose callbacks the event loop was while the request waited for it, as far back as short turns
 * are kept. Stalls are left out: they are findings of their own, with their own victims. */
void short_request_waited(struct analysis *a, const struct process *process, const struct request *request)
{
    const uint64_t *slot = map_get(&process->threads, (uint64_t)request->tid);
    const struct thread *thread = slot ? (const struct thread *)(uintptr_t)*slot : NULL;
    struct lost_to lost[ENDPOINTS_MAX] = {0};
    uint64_t waited_ns = 0;
    array_foreach (&request->path_steps, step)
        waited_ns += step->class == PATH_LOOP && !step->of_child ? step->end_ns - step->start_ns : 0;
    if (!thread || !thread->short_turns || waited_ns < WAITED_MIN_NS)
        return;
    size_t last = request->path_steps.count;
    for (size_t n = thread->short_turn_count, i = n; i > 0 && n - i < SHORT_TURNS; i--) {
        const struct short_turn *turn = &thread->short_turns[(i - 1) % SHORT_TURNS];
        if (turn->end_ns <= request->start_ns)
            break;
        if (!turn->route || turn->owner == request->serial ||
            turn->end_ns - turn->start_ns >= a->options.stall_ns)
            continue;
        while (last > 0 && request->path_steps.at[last - 1].start_ns >= turn->end_ns)
            last--;
        for (size_t k = last; k > 0 && request->path_steps.at[k - 1].end_ns > turn->start_ns; k--) {
            const struct path_step *step = &request->path_steps.at[k - 1];
            uint64_t from_ns = MAX(step->start_ns, turn->start_ns), to_ns = MIN(step->end_ns, turn->end_ns);
            if (step->class == PATH_LOOP && !step->of_child && from_ns < to_ns)
                add_lost(lost, turn, activity_net_ns(thread, from_ns, to_ns));
        }
    }
    for (size_t i = 0; i < ENDPOINTS_MAX && lost[i].route; i++) {
        struct fault *fault =
            lost[i].ns >= WAITED_MIN_NS ? fault_of(a, process, lost[i].method, lost[i].route) : NULL;
        if (fault)
            fault_add_request(a, fault, request, lost[i].ns, VICTIM_WAITED);
    }
}

/* ---- the verdict on an endpoint ---- */

static bool same_function(const struct look *x, const struct look *y)
{
    return x->function == y->function && x->script == y->script;
}

static bool is_own(const struct look *place)
{
    return place->script && !place->packaged && !place->internal;
}

/* The function in which most samples saw them; own: of the application's. NULL: none did. */
static const struct look *most_of(const struct seen *seen, bool own, uint64_t *ret_agree)
{
    const struct look *most = NULL;
    uint64_t agree = 0;
    for (size_t i = 0; i < SEEN_PLACES && seen->places[i].count; i++) {
        const struct look *place = &seen->places[i];
        uint64_t same = 0;
        if (own && !is_own(place))
            continue;
        for (size_t k = 0; k < SEEN_PLACES; k++)
            if (same_function(&seen->places[k], place))
                same += seen->places[k].count;
        if (same > agree || (same == agree && most && place->count > most->count))
            most = place, agree = same;
    }
    *ret_agree = agree;
    return most;
}

/* Whether it is the one function of the application that these callbacks go on with: what awaits a package's
 * functions is not on the stack while they run, in callbacks of their own. */
static bool goes_on(const struct seen *seen, const struct look *own, uint64_t agree)
{
    for (size_t i = 0; i < SEEN_PLACES && seen->places[i].count; i++) {
        const struct look *place = &seen->places[i];
        if (same_function(place, own) ? place->by_package : is_own(place))
            return false;
    }
    return agree >= LOOKS_NEEDED && agree * GOES_ON_PART >= seen->looks;
}

/* The function in which most samples saw them, when it is most of the samples; what it called, by the same
 * rule. Where that is a package's, or none, the application's one that goes on between packages' functions.
 * Without that there is no evidence, and nothing is said; nor of an endpoint's first request alone, which
 * runs code that is not compiled yet. */
static void judge(struct fault *fault)
{
    const struct seen *seen = fault->seen;
    uint64_t agree, own_agree;
    const struct look *most = most_of(seen, false, &agree), *own = most_of(seen, true, &own_agree);
    bool most_agree = most && agree >= LOOKS_NEEDED && agree * 2 >= seen->looks;
    if (own && !(most_agree && is_own(most)) && goes_on(seen, own, own_agree)) {
        most = own, agree = own_agree, most_agree = true;
        fault->between = true;
    }
    fault->absorbed = !fault->later || !most_agree || !most->script || most->internal;
    if (fault->absorbed)
        return;
    fault->place = *most;
    fault->looks = seen->looks;
    fault->looks_agree = agree;
    fault->encodes = look_encodes(most);
    if (most->cause == SONDE_stall_cause_regexp)
        fault->kind = FINDING_blocking_regexp;
}

/* What takes long in short callbacks may also have been a stall: that is one fault. */
static void join_stall(struct analysis *a, struct fault *fault)
{
    array_foreach (&a->fault_list, place) {
        struct fault *stall = *place;
        if (stall->seen || stall->absorbed || stall->warming || stall->kind != fault->kind ||
            stall->service != fault->service || stall->place.function != fault->place.function ||
            stall->place.script != fault->place.script)
            continue;
        bool more = stall->cost_ns > fault->cost_ns;
        fault_absorb(a, more ? stall : fault, more ? fault : stall);
        return;
    }
}

void shorts_judge(struct analysis *a)
{
    array_foreach (&a->fault_list, fault) {
        if (!(*fault)->seen)
            continue;
        judge(*fault);
        if (!(*fault)->absorbed)
            join_stall(a, *fault);
    }
}
