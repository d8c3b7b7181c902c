/* From faults to findings: which are worth a finding, how severe it is, who suffered. How a fault of each
 * kind is judged and put into words is in one table, and a target's own kinds in a table of its analyzer; a
 * target reports faults of kinds that have no row itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "faults/faults.h"
#include "base/clock.h"

enum { AFFECTED_KEPT = 200 };

/* A stall that cost requests nothing is worth a finding only when it is long. */
static const uint64_t HARMLESS_STALL_NS = NS_PER_S;
/* Warming up is worth one when requests lost this by it. */
static const uint64_t WARMING_COST_NS = 100 * NS_PER_MS;

/* Slow operations and peers: a fault when requests lost so much to them, more than once or at once so much.
 */
static const uint64_t SLOW_COST_NS = 100 * NS_PER_MS, SLOW_ALONE_NS = 500 * NS_PER_MS;

/* ---- severity ---- */

/* One of those that always end may just not have ended yet. */
static bool had_not_ended(const struct fault *fault)
{
    return fault->unfinished && (!fault->open_ns || fault->open_ns > 2 * fault->closed_ns);
}

enum finding_severity verdict_by_cost(const struct fault *fault, uint64_t limit_ns)
{
    return had_not_ended(fault)         ? SEVERITY_CRITICAL
           : fault->cost_ns >= limit_ns ? SEVERITY_WARNING
                                        : SEVERITY_INFO;
}

static enum finding_severity of_stall(const struct analysis *a, const struct fault *fault)
{
    if (verdict_is_stall(fault) && !fault->proven)
        return SEVERITY_INFO;
    bool blocked = fault->kind == FINDING_event_loop_blocked && !fault->seen && !had_not_ended(fault);
    if (blocked && !fault->later)
        return SEVERITY_INFO;
    /* Once, shortly, and seen in one sample at most: that is no evidence against anything. */
    if (blocked && fault->count == 1 && fault->looks_agree < 2 && fault->net_ns < 2 * a->options.stall_ns)
        return SEVERITY_INFO;
    /* Who comes at any time during a stall waits for half of it on average: where that happens again and
     * again, it is known well enough that they waited. */
    uint64_t limit_ns = a->options.stall_ns, expected_ns = fault->count > 1 ? fault->late_most_ns / 2 : 0;
    return verdict_by_cost(fault, limit_ns - MIN(limit_ns, expected_ns));
}

static enum finding_severity of_pool(const struct analysis *a, const struct fault *fault)
{
    return verdict_by_cost(fault, a->options.pool_wait_ns);
}

static enum finding_severity of_wait(const struct analysis *a, const struct fault *fault)
{
    if (fault->kind == FINDING_worker_pool_starved && !fault->later) /* workers had to be started */
        return SEVERITY_INFO;
    bool long_enough = fault->count > 1 || fault->worst_ns >= SLOW_ALONE_NS;
    return verdict_by_cost(fault, long_enough ? SLOW_COST_NS : UINT64_MAX);
}

static enum finding_severity of_failure(const struct analysis *a, const struct fault *fault)
{
    return verdict_failure_severity(fault);
}

/* By the answers, or the waits for connections, that a lack of CPUs does not explain. */
static enum finding_severity of_peer(const struct analysis *a, const struct fault *fault)
{
    uint64_t count = fault->count - MIN(fault->excused_count, fault->count);
    if (verdict_is_unpaired(a, fault))
        return SEVERITY_INFO;
    if (!fault->excused_count)
        return of_wait(a, fault);
    bool long_enough = count > 1 || fault->blamed_worst_ns >= SLOW_ALONE_NS;
    uint64_t limit_ns = long_enough && count ? SLOW_COST_NS + fault->excused_ns : UINT64_MAX;
    return verdict_by_cost(fault, limit_ns);
}

/* Not the program's own doing, or its cause is not known. */
static enum finding_severity info(const struct analysis *a, const struct fault *fault)
{
    return SEVERITY_INFO;
}

/* ---- whether it is worth a finding ---- */

static bool cost_requests(const struct fault *fault)
{
    return fault->cost_ns >= SLOW_COST_NS;
}

static bool always(const struct fault *fault)
{
    return true;
}

/* ---- the table ---- */

static const struct verdict VERDICTS[] = {
    {FINDING_blocking_regexp, of_stall, verdict_regexp},
    {FINDING_event_loop_blocked, of_stall, verdict_blocked},
    {FINDING_lock_wait, of_stall, verdict_blocked},
    {FINDING_cpu_throttled, of_stall, verdict_throttled},
    {FINDING_cpu_stolen, info, verdict_stolen},
    {FINDING_run_queue_wait, info, verdict_run_queue},
    {FINDING_thread_pool_starved, of_pool, verdict_starved},
    {FINDING_connection_pool_starved, of_peer, verdict_pool},
    {FINDING_worker_pool_starved, of_wait, verdict_pool},
    {FINDING_consumers_busy, of_wait, verdict_consumers},
    {FINDING_slow_io, of_wait, verdict_slow_io},
    {FINDING_slow_peer, of_peer, verdict_slow_peer},
    {FINDING_many_calls, of_wait, verdict_many},
    {FINDING_tcp_retransmissions, of_wait, verdict_retransmissions},
    {FINDING_ipc_blocked, of_wait, verdict_ipc},
    {FINDING_unexplained_wait, info, verdict_unexplained, cost_requests},
    {FINDING_server_errors, of_failure, verdict_server_errors, always},
    {FINDING_failed_calls, of_failure, verdict_failed_calls, verdict_failed_often},
    {FINDING_retry_storm, of_failure, verdict_retries, always},
    {FINDING_clients_gave_up, of_failure, verdict_gave_up, always},
    {FINDING_server_exited, of_failure, verdict_exited, always},
};

/* NULL: its target reports it. */
static const struct verdict *verdict_of(const struct analysis *a, enum finding_kind kind)
{
    for (size_t i = 0; i < ARRAY_SIZE(VERDICTS); i++)
        if (VERDICTS[i].kind == kind)
            return &VERDICTS[i];
    for (const struct analyzer *const *p = a->analyzers; *p; p++)
        for (const struct verdict *v = (*p)->verdicts; v && v->say; v++)
            if (v->kind == kind)
                return v;
    return NULL;
}

static enum finding_severity severity_of(const struct analysis *a, const struct verdict *verdict,
                                         const struct fault *fault)
{
    return fault->warming || fault->worker ? SEVERITY_INFO : verdict->severity(a, fault);
}

static bool worth_saying(const struct verdict *verdict, const struct fault *fault,
                         enum finding_severity severity)
{
    if (fault->warming)
        return fault->cost_ns >= WARMING_COST_NS;
    if (verdict->worth)
        return verdict->worth(fault);
    return severity > SEVERITY_INFO || fault->cost_ns >= NS_PER_MS || fault->worst_ns >= HARMLESS_STALL_NS;
}

/* ---- who suffered ---- */

static int by_delay(const void *x, const void *y)
{
    const struct victim *a = x, *b = y;
    if (a->delay_ns != b->delay_ns)
        return a->delay_ns > b->delay_ns ? -1 : 1;
    return (a->serial > b->serial) - (a->serial < b->serial);
}

static int add_affected(struct finding *f, struct fault *fault)
{
    static const char *const ROLES[VICTIM_ROLES] = {
        [VICTIM_WAITED] = "waited", [VICTIM_CAUSED] = "ran it", [VICTIM_UPSTREAM] = "waited upstream"};
    if (fault->victims.count)
        qsort(fault->victims.at, fault->victims.count, sizeof(*fault->victims.at), by_delay);
    array_foreach (&fault->victims, victim) {
        struct finding_affected affected = {.id = victim->name,
                                            .service = victim->service,
                                            .method = victim->method,
                                            .path = victim->path,
                                            .route = victim->route,
                                            .role = ROLES[victim->role],
                                            .count = 1,
                                            .start_ns = victim->start_ns,
                                            .delay_ns = victim->delay_ns};
        int r = finding_add_affected(f, &affected, AFFECTED_KEPT);
        if (r < 0)
            return r;
    }
    f->affected_count += fault->victims_left_out;
    f->cost_ns = fault->cost_ns;
    return 0;
}

int verdict_requests(struct analysis *a, struct finding *f, struct fault *fault)
{
    int r = add_affected(f, fault);
    if (r == 0 && f->affected.count)
        f->link = finding_say(f, "sonde spans --request %s %s", f->affected.at[0].id,
                              a->options.folder ? a->options.folder : "DIR");
    return r;
}

/* ---- faults that are one ---- */

static bool same_work(const struct fault *a, const struct fault *b)
{
    bool same = a->service == b->service && a->route == b->route;
    return same && (a->route || (a->callback && a->callback == b->callback));
}

static bool same_place(const struct fault *a, const struct fault *b)
{
    return a->place.function == b->place.function && a->place.script == b->place.script;
}

/* A stall of which no function was seen (no sample was taken of it, or only of native code or a collection)
 * is taken as one more of what is known to stall the same endpoint (the same kind of callback, where the
 * endpoint is not known), when that is one function only, and more often. */
static void join_unseen(struct analysis *a)
{
    array_foreach (&a->fault_list, place) {
        struct fault *unseen = *place, *known = NULL;
        if (unseen->kind != FINDING_event_loop_blocked || unseen->warming || unseen->absorbed ||
            unseen->seen || unseen->place.function || unseen->place.script)
            continue;
        bool several = false;
        array_foreach (&a->fault_list, other)
            if (*other != unseen && !(*other)->absorbed && !(*other)->warming && (*other)->looks &&
                ((*other)->place.function || (*other)->place.script) && same_work(*other, unseen) &&
                ((*other)->kind == FINDING_event_loop_blocked || (*other)->kind == FINDING_blocking_regexp)) {
                several |= known && !same_place(known, *other);
                known = known && known->count >= (*other)->count ? known : *other;
            }
        if (!known || several ||
            (unseen->place.cause == SONDE_stall_cause_gc && unseen->count >= known->count))
            continue;
        struct look kept = known->place;
        fault_absorb(a, known, unseen);
        known->place = kept;
    }
}

/* The collections that a function causes are part of what it takes, and only where they are most of all its
 * time, a cause of their own: one stretch may have a few more of them than the next. */
static bool is_beside_collections(const struct fault *whole, const struct fault *collections)
{
    uint64_t gc_ns = whole->gc_ns + collections->gc_ns, net_ns = whole->net_ns + collections->net_ns;
    return whole->place.cause != SONDE_stall_cause_gc &&
           (whole->net_ns >= collections->net_ns || gc_ns * 3 <= net_ns * 2);
}

/* One call of a function that is distinguished is one more variant where that function was also seen to do
 * several things in a stretch: one cause. */
static void join_variants(struct analysis *a)
{
    array_foreach (&a->fault_list, place) {
        struct fault *part = *place;
        if (part->kind != FINDING_event_loop_blocked || part->absorbed || part->warming || part->seen ||
            !part->apart || !part->place.script)
            continue;
        bool collects = part->place.cause == SONDE_stall_cause_gc;
        if (!collects && !part->apart[0])
            continue;
        array_foreach (&a->fault_list, other) {
            struct fault *whole = *other;
            if (whole == part || whole->kind != part->kind || whole->absorbed || whole->warming ||
                whole->seen || whole->service != part->service || whole->route != part->route ||
                whole->place.function != part->place.function || whole->place.script != part->place.script ||
                !whole->apart ||
                (collects ? !is_beside_collections(whole, part) : whole->apart[0] || !whole->place.variants))
                continue;
            struct look kept = whole->place;
            fault_absorb(a, whole, part);
            whole->place = kept;
            break;
        }
    }
}

/* Was the part's place called, at whatever depth, by the function that is the place of the whole? */
static bool is_called_by(const struct look *part, const struct look *whole)
{
    const struct look_stack *stack = part->stack;
    for (uint32_t i = 0; stack && i + 1 < stack->count; i++)
        if (stack->frames[i].function == whole->function && stack->frames[i].script == whole->script)
            return true;
    return false;
}

/* A function that calls the whole's place is a place of its own; but where no function of the application was
 * seen, both are a package's, and the outer one is what fewer samples saw of the same work. */
static bool is_within_package(const struct fault *part, const struct fault *whole)
{
    const struct look_stack *stack = whole->place.stack;
    return stack && stack->packaged && is_called_by(&whole->place, &part->place);
}

/* Samples of one stretch may all fall into one call of a function that others saw at several things, the more
 * easily the fewer there are: what it calls is part of it, while less of the time is known of that alone. */
static void join_called(struct analysis *a)
{
    array_foreach (&a->fault_list, place) {
        struct fault *part = *place;
        if (part->kind != FINDING_event_loop_blocked || part->absorbed || part->warming || part->seen ||
            part->worker || !part->place.script)
            continue;
        array_foreach (&a->fault_list, other) {
            struct fault *whole = *other;
            if (whole == part || whole->kind != part->kind || whole->absorbed || whole->warming ||
                whole->seen || whole->worker || !whole->place.script || !same_work(whole, part) ||
                same_place(whole, part) || whole->net_ns < part->net_ns ||
                !(is_called_by(&part->place, &whole->place) || is_within_package(part, whole)))
                continue;
            struct look kept = whole->place;
            fault_absorb(a, whole, part);
            whole->place = kept;
            break;
        }
    }
}

/* Calls that could not be joined to what their peer did name an address; when a traced process answers there,
 * it is known who that is. */
static void name_peers(struct analysis *a)
{
    array_foreach (&a->fault_list, place) {
        struct fault *fault = *place, *known = NULL;
        const struct process *peer = fault->kind == FINDING_slow_peer && !fault->caller && !fault->absorbed
                                         ? process_serving(a, fault->command)
                                         : NULL;
        if (!peer)
            continue;
        array_foreach (&a->fault_list, other)
            if (*other != fault && (*other)->kind == FINDING_slow_peer && !(*other)->absorbed &&
                (*other)->service == fault->service && (*other)->caller == peer->service &&
                !(*other)->others_unknown)
                known = *other;
        fault->caller = peer->service;
        fault->unjoined = true;
        if (known)
            fault_absorb(a, known, fault);
    }
}

/* What probes call the command that executes what was prepared before (probe/wire_postgresql.h,
 * wire_mysql.h). */
static const char EXECUTED[] = "EXECUTE";

static bool suffers_of(const struct fault *fault, const struct victim *one)
{
    array_foreach (&fault->victims, v)
        if (v->service == one->service && v->route == one->route && v->method == one->method)
            return true;
    return false;
}

/* Two calls of one peer that may be of one thing. Of a statement that was prepared before it is only known
 * that it was executed: then those who suffer are the same. */
static bool may_be_same(const struct fault *unnamed, const struct fault *other)
{
    if (other == unnamed || other->kind != FINDING_slow_peer || other->absorbed || other->caller ||
        other->service != unnamed->service || other->command != unnamed->command || !other->asked ||
        strcmp(other->asked, "connect") == 0)
        return false;
    if (!unnamed->asked)
        return true;
    array_foreach (&unnamed->victims, v)
        if (!suffers_of(other, v))
            return false;
    return true;
}

/* On a connection that was open before tracing began it may not be known what is asked, nor which statement
 * it was that was prepared before. Where one thing is known to be asked at the address, these are calls of
 * the same peer, not another one. */
static void join_unnamed(struct analysis *a)
{
    array_foreach (&a->fault_list, place) {
        struct fault *unnamed = *place, *known = NULL;
        size_t count = 0;
        bool prepared = unnamed->asked && strcmp(unnamed->asked, EXECUTED) == 0 && !unnamed->statement;
        if (unnamed->kind != FINDING_slow_peer || unnamed->absorbed || unnamed->caller ||
            (unnamed->asked && !prepared))
            continue;
        array_foreach (&a->fault_list, other)
            if (may_be_same(unnamed, *other)) {
                known = *other;
                count++;
            }
        if (count != 1)
            continue;
        *(prepared ? &known->prepared : &known->unnamed) += unnamed->count;
        fault_absorb(a, known, unnamed);
    }
}

int verdicts_report(struct analysis *a, struct report *report)
{
    name_peers(a);
    join_unnamed(a);
    failures_judge(a);
    faults_fold_routes(a);
    shorts_judge(a);
    join_called(a);
    join_unseen(a);
    join_variants(a);
    int r = 0;
    for (const struct analyzer *const *p = a->analyzers; *p && r >= 0; p++)
        if ((*p)->findings)
            r = (*p)->findings(a, report);
    for (size_t i = 0; r >= 0 && i < a->fault_list.count; i++) {
        struct fault *fault = a->fault_list.at[i];
        const struct verdict *verdict = fault->absorbed ? NULL : verdict_of(a, fault->kind);
        if (!verdict)
            continue;
        enum finding_severity severity = severity_of(a, verdict, fault);
        if (!worth_saying(verdict, fault, severity))
            continue;
        struct finding *f = report_add_finding(report, fault->kind, severity);
        if (!f)
            return -ENOMEM;
        verdict->say(a, f, fault);
        r = verdict_requests(a, f, fault);
    }
    return r < 0 ? r : 0;
}

int analysis_report(struct analysis *a, struct report *report)
{
    int r = verdicts_report(a, report);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(a->losses.count); i++) {
        const char *reason = event_label(SONDE_MEANING_loss_reason, i);
        r = report_add_loss(report, reason ? reason : "other", NULL, a->losses.count[i]);
    }
    for (const struct analyzer *const *p = a->analyzers; *p && r == 0; p++)
        if ((*p)->limits)
            r = (*p)->limits(a, report);
    report_sort(report);
    report->nothing = verdict_nothing(a);
    report->from_ns = a->counts.first_ns;
    report->to_ns = a->counts.last_ns;
    return r;
}
