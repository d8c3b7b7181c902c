/* Words for faults: stalls, slow commands, waits for a pool, a CPU, a device or a peer. Each becomes a
 * finding with its cause, its evidence and what to do. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "faults/faults.h"
#include "finding/prose.h"

static const char *phase_name(const struct fault *fault)
{
    const char *name =
        fault->phase == PHASE_UNKNOWN ? NULL : event_label(SONDE_MEANING_uv_phase, fault->phase);
    return name ? name : "unknown";
}

/* The machine had no CPU for it in more than a twentieth of the time. */
static bool machine_took_part(const struct fault *fault)
{
    return fault->run_queue_ns * 20 > fault->total_ns;
}

const char *verdict_amount(struct finding *f, const struct fault *fault)
{
    struct duration worst, total;
    if (machine_took_part(fault) && !fault->unfinished)
        return finding_say(
            f, "%s%s%s, not counting waits for a CPU",
            fault->seen ? finding_say(f, "in %llu short callbacks, ", (unsigned long long)fault->count)
            : fault->count == 1 ? "for "
                                : finding_say(f, "%llu times, ", (unsigned long long)fault->count),
            say_ns(&total, fault->total_ns - MIN(fault->run_queue_ns, fault->total_ns)),
            fault->count == 1 && !fault->seen ? "" : " in total");
    if (fault->seen)
        return finding_say(f, "in %llu short callbacks, up to %s per request, %s in total",
                           (unsigned long long)fault->count, say_ns(&worst, fault->worst_ns),
                           say_ns(&total, fault->total_ns));
    if (fault->unfinished && machine_took_part(fault))
        return finding_say(f,
                           "for %s, not counting waits for a CPU, and had not returned when the trace ended",
                           say_ns(&worst, fault->open_ns ? fault->open_ns : fault->net_ns));
    if (fault->unfinished)
        return finding_say(f, "for %s and had not returned when the trace ended",
                           say_ns(&worst, fault->worst_ns));
    if (fault->count == 1)
        return finding_say(f, "for %s", say_ns(&worst, fault->worst_ns));
    return finding_say(f, "%llu times, up to %s each, %s in total", (unsigned long long)fault->count,
                       say_ns(&worst, fault->worst_ns), say_ns(&total, fault->total_ns));
}

static const char *say_source(struct finding *f, const struct look *place)
{
    const char *function = place->function && *place->function ? place->function : NULL;
    if (!place->script)
        return function ? function : "";
    const char *position = place->script;
    if (place->line && place->column)
        position = finding_say(f, "%s:%u:%u", place->script, place->line, place->column);
    else if (place->line)
        position = finding_say(f, "%s:%u", place->script, place->line);
    return function ? finding_say(f, "%s (%s)", function, position) : position;
}

void verdict_place(struct finding *f, const struct fault *fault, const char *layer)
{
    f->where = (struct finding_place){.service = finding_say(f, "%s", fault->service),
                                      .process = fault->pid,
                                      .thread = fault->tid,
                                      .layer = layer};
    if (fault->place.function)
        f->where.function = finding_say(f, "%s", fault->place.function);
    if (fault->place.script)
        f->where.file = finding_say(f, "%s", fault->place.script);
    f->where.line = fault->place.line;
    f->where.column = fault->place.column;
    f->from_ns = fault->from_ns;
    f->to_ns = fault->unfinished ? UINT64_MAX : fault->to_ns;
}

static void add_stall_evidence(struct finding *f, const struct fault *fault)
{
    finding_add_text(f, "phase", fault->phase_differs ? "several" : phase_name(fault));
    finding_add_count(f, "stalls_count", fault->count);
    finding_add_count(f, "blocked_ns", fault->total_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_count(f, "cpu_ns", fault->net_ns);
    finding_add_count(f, "run_queue_ns", fault->run_queue_ns);
    finding_add_count(f, "gc_ns", fault->gc_ns);
    finding_add_count(f, "samples_count", fault->looks);
    finding_add_count(f, "samples_agree_count", fault->looks_agree);
    finding_add_text(f, "ended", fault->unfinished ? "no" : "yes");
    if (fault->late_count) {
        finding_add_count(f, "late_count", fault->late_count);
        finding_add_count(f, "late_most_ns", fault->late_most_ns);
    }
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

/* "The event loop was blocked in its poll phase while it served GET /x." and what the load adds. */
static const char *say_circumstances(struct finding *f, const struct fault *fault)
{
    struct duration queue, most;
    const char *during = fault->route ? finding_say(f, " while it served %s", fault->route)
                         : fault->callback && strcmp(fault->callback, "callback") != 0
                             ? finding_say(f, " in a callback (%s)", fault->callback)
                             : "";
    const char *phase = fault->phase_differs || fault->phase == PHASE_UNKNOWN
                            ? ""
                            : finding_say(f, " in its %s phase", phase_name(fault));
    const char *load = machine_took_part(fault)
                           ? finding_say(f,
                                         " The thread waited for a CPU for %s of that time; that is "
                                         "due to the machine's load and not counted here.",
                                         say_ns(&queue, fault->run_queue_ns))
                           : "";
    const char *late =
        fault->late_count
            ? finding_say(
                  f,
                  " %llu request%s arrived while it was blocked. How long they waited is not known: up to "
                  "%s in total.",
                  (unsigned long long)fault->late_count, fault->late_count == 1 ? "" : "s",
                  say_ns(&most, fault->late_most_ns))
            : "";
    if (fault->seen)
        return finding_say(f, "No single callback%s took long, only those of one request together.%s", during,
                           load);
    return finding_say(f, "The event loop was blocked%s%s.%s%s", phase, during, late, load);
}

static const char *sampled(const struct fault *fault)
{
    return fault->seen ? "its callbacks" : "the stalled callback";
}

void verdict_regexp(struct analysis *a, struct finding *f, const struct fault *fault)
{
    const struct look *place = &fault->place;
    const char *pattern = place->detail ? place->detail : "a regular expression";
    const char *source = say_source(f, place);
    f->title = finding_say(f, "A regular expression blocked the event loop of %s %s", fault->service,
                           verdict_amount(f, fault));
    f->detail = finding_say(f, "%s%s%s was running in %llu of %llu samples of %s. %s", pattern,
                            *source ? " in " : "", source, (unsigned long long)fault->looks_agree,
                            (unsigned long long)fault->looks, sampled(fault), say_circumstances(f, fault));
    verdict_place(f, fault, "v8");
    finding_add_text(f, "pattern", pattern);
    add_stall_evidence(f, fault);
}

/* What people call; the kind of operation, where only that is known; a leaf of native code where nothing is.
 * A function's own work with several calls in it has none. */
static const char *say_called(const struct fault *fault)
{
    struct look place = fault->place;
    if (fault->kind == FINDING_lock_wait)
        place.called = NULL;
    bool named = place.called && place.cause != SONDE_stall_cause_gc;
    return fault->sync_kind && !named ? event_label(SONDE_MEANING_uv_kind, fault->sync_kind)
                                      : place_called(&place);
}

/* Why the report names no place of a stall, where it names none. */
static const char *say_unsampled(const struct fault *fault, unsigned cause)
{
    const struct look *place = &fault->place;
    if (fault->looks || fault->seen || place->function || place->script || cause == SONDE_stall_cause_gc)
        return "";
    return machine_took_part(fault) ? " No sample saw where in the code it was; the machine was busy."
                                    : " No sample saw where in the code it was.";
}

bool verdict_is_stall(const struct fault *fault)
{
    return !fault->seen && (fault->kind == FINDING_event_loop_blocked || fault->kind == FINDING_lock_wait);
}

void verdict_blocked(struct analysis *a, struct finding *f, const struct fault *fault)
{
    static const char *const SUBJECT[] = {[SONDE_stall_cause_unknown] = "A callback",
                                          [SONDE_stall_cause_regexp] = "A regular expression",
                                          [SONDE_stall_cause_javascript] = "JavaScript",
                                          [SONDE_stall_cause_builtin] = "A built-in function",
                                          [SONDE_stall_cause_gc] = "Garbage collection",
                                          [SONDE_stall_cause_native] = "Native code",
                                          [SONDE_stall_cause_waiting] = "A synchronous call"};
    static const char *const REMEDY[] = {
        [SONDE_stall_cause_unknown] =
            "Record again while it happens: the stall sampler names the line of callbacks that take "
            "longer than 20 ms.",
        [SONDE_stall_cause_javascript] =
            "Split the work into pieces with setImmediate between them, or move it to a worker "
            "thread.",
        [SONDE_stall_cause_builtin] =
            "Make its input smaller, split the work into pieces, or move it to a worker thread.",
        [SONDE_stall_cause_gc] = "Allocate less per request, keep less alive, or give the heap more room "
                                 "(--max-old-space-size, --max-semi-space-size).",
        [SONDE_stall_cause_native] = "Use the asynchronous form of the call, or move it to a worker thread.",
        [SONDE_stall_cause_waiting] =
            "Use the asynchronous form of the call: no other request can be served in the meantime."};
    const struct look *place = &fault->place;
    unsigned cause = MIN(place->cause, SONDE_stall_cause_waiting);
    if (place->variants && cause == SONDE_stall_cause_native)
        cause = SONDE_stall_cause_javascript; /* it does several things, of which that was seen in one */
    const char *source = say_source(f, place);
    const char *called = say_called(fault);
    f->title = finding_say(f, "%s blocked the event loop of %s %s", SUBJECT[cause], fault->service,
                           verdict_amount(f, fault));
    const char *who = called && *source ? finding_say(f, "%s, called from %s,", called, source)
                      : called          ? called
                                        : source;
    const char *seen = fault->looks ? finding_say(f, " in %llu of %llu samples of %s",
                                                  (unsigned long long)fault->looks_agree,
                                                  (unsigned long long)fault->looks, sampled(fault))
                                    : "";
    const char *variants = place->variants  ? finding_say(f, " Of these: %s.", place->variants)
                           : fault->between ? " The others saw functions of packages that none of the "
                                              "application's had called: it is the only one that goes on "
                                              "between them."
                                            : "";
    f->detail =
        finding_say(f, "%s%s%s", *who ? finding_say(f, "%s was running%s.%s ", who, seen, variants) : "",
                    say_circumstances(f, fault), say_unsampled(fault, cause));
    if (fault->kind == FINDING_lock_wait)
        f->title = finding_say(f, "The event loop of %s waited for a lock %s", fault->service,
                               verdict_amount(f, fault));
    else if (fault->seen)
        f->remedy = "It is in pieces already: do less of it for a request, keep its result for the next, or "
                    "move it to a worker thread.";
    else if (REMEDY[cause])
        f->remedy = REMEDY[cause];
    if (verdict_is_stall(fault) && !fault->proven)
        f->detail =
            finding_say(f,
                        "%s Which thread held what it waited for is not known. Other threads of this "
                        "process were waiting for a CPU at the same time, which may explain all of it.",
                        f->detail);
    if (fault->worker) {
        f->title = finding_say(f, "Work occupied a worker thread of %s %s", fault->service,
                               verdict_amount(f, fault));
        f->remedy = "Only what waits for this thread is delayed by it: check whether requests do.";
    }
    if (fault->warming) {
        f->title = finding_say(f, "%s was warming up %s", fault->service, verdict_amount(f, fault));
        f->detail =
            finding_say(f,
                        "Code is loaded and compiled when it is first used: the main script, modules, an "
                        "endpoint's first request. %s",
                        say_circumstances(f, fault));
        f->remedy =
            "Load what requests need before listening; send each endpoint one request before taking traffic.";
    }
    verdict_place(f, fault,
                  cause == SONDE_stall_cause_gc        ? "v8"
                  : cause == SONDE_stall_cause_waiting ? "libuv"
                                                       : "js");
    finding_add_text(f, "cause", event_label(SONDE_MEANING_stall_cause, cause));
    if (called)
        finding_add_text(f, "called", called);
    if (place->variants)
        finding_add_text(f, "variants", place->variants);
    add_stall_evidence(f, fault);
}

/* ---- the pool ---- */

/* "pbkdf2 (PBKDF2REQUEST) submitted by GET /login". */
static const char *say_occupant(struct finding *f, const struct fault *fault)
{
    const char *kind = event_label(SONDE_MEANING_uv_kind, fault->occupant_kind);
    const char *what = fault->occupant_type && fault->occupant_kind >= 64 ? fault->occupant_type
                       : kind                                             ? kind
                                                                          : "other work";
    const uint64_t *submitter =
        fault->occupant_type ? map_get(&fault->process->submitters, (uintptr_t)fault->occupant_type) : NULL;
    if (!fault->occupant_route && submitter && *submitter != SEVERAL_SUBMITTERS)
        return finding_say(f, "%s, which %s submits", what, (const char *)(uintptr_t)*submitter);
    return fault->occupant_route ? finding_say(f, "%s submitted by %s", what, fault->occupant_route) : what;
}

void verdict_starved(struct analysis *a, struct finding *f, const struct fault *fault)
{
    struct duration worst, total, run, own;
    const char *occupant = say_occupant(f, fault);
    double share = fault->total_ns ? fault->occupant_share_sum / (double)fault->total_ns : 0;
    struct text waiting = {0};
    for (size_t i = 0; i < ARRAY_SIZE(fault->waiting) && fault->waiting[i].kind; i++)
        text_addf(&waiting, "%s%llu %s", i ? ", " : "", (unsigned long long)fault->waiting[i].count,
                  fault->waiting[i].kind);
    f->title =
        finding_say(f,
                    "Operations of %s waited for a thread of the pool: %llu of them, up to %s each, %s in "
                    "total",
                    fault->service, (unsigned long long)fault->count, say_ns(&worst, fault->worst_ns),
                    say_ns(&total, fault->total_ns));
    f->detail = finding_say(f,
                            "%s%s accounted for %.0f %% of the busy time of the pool's %u thread%s "
                            "during that time, in runs of up to %s. "
                            "The operations that waited (%s) then ran for %s on average.",
                            occupant, strchr(occupant, ',') ? "," : "", share * 100, fault->pool_threads,
                            fault->pool_threads == 1 ? "" : "s", say_ns(&run, fault->occupant_run_ns),
                            text_get(&waiting), say_ns(&own, fault->run_ns / MAX(fault->count, 1)));
    text_done(&waiting);
    verdict_place(f, fault, "libuv");
    finding_add_count(f, "operations_count", fault->count);
    finding_add_count(f, "waited_ns", fault->total_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_count(f, "run_ns", fault->run_ns);
    finding_add_count(f, "pool_threads_count", fault->pool_threads);
    finding_add_text(f, "occupied_by", occupant);
    finding_add_real(f, "occupied_share", share);
    finding_add_count(f, "occupant_worst_ns", fault->occupant_run_ns);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

void verdict_run_queue(struct analysis *a, struct finding *f, const struct fault *fault)
{
    struct duration waited, ran, idle;
    f->title = finding_say(f, "%s was runnable but waited %s for a CPU", fault->service,
                           say_ns(&waited, fault->run_queue_ns));
    const char *why =
        fault->idle_cpu_ns * 2 < fault->run_queue_ns
            ? "The machine had more work than CPUs: this is not a fault of the program."
            : finding_say(f,
                          "For %s of that time another CPU was idle: the program may be restricted to some "
                          "CPUs (taskset, a cpuset of its container) that others use, too.",
                          say_ns(&idle, fault->idle_cpu_ns));
    f->detail = finding_say(
        f, "%llu stretch%s of work took long for this reason alone%s. %s", (unsigned long long)fault->count,
        fault->count == 1 ? "" : "es",
        fault->net_ns ? finding_say(f, "; they ran for %s in total", say_ns(&ran, fault->net_ns)) : "", why);
    verdict_place(f, fault, "kernel");
    finding_add_count(f, "stalls_count", fault->count);
    finding_add_count(f, "waited_ns", fault->run_queue_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_count(f, "cpu_ns", fault->net_ns);
    if (fault->idle_cpu_ns)
        finding_add_count(f, "idle_cpu_ns", fault->idle_cpu_ns);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

/* ---- others ---- */

void verdict_slow_io(struct analysis *a, struct finding *f, const struct fault *fault)
{
    struct duration worst, total, usual;
    const char *what = fault->command ? fault->command : "an operation";
    bool dns =
        strncmp(what, "getaddr", 7) == 0 || strncmp(what, "getname", 7) == 0 || strncmp(what, "DNS", 3) == 0;
    const struct attl *attl = attl_of(a, fault->service, what);
    f->title =
        finding_say(f, "%s was slow in %s: requests waited %llu time%s, up to %s each, %s in total", what,
                    fault->service, (unsigned long long)fault->count, fault->count == 1 ? "" : "s",
                    say_ns(&worst, fault->worst_ns), say_ns(&total, fault->total_ns));
    uint64_t usual_ns =
        attl ? (uint64_t)sketch_quantile(attl->count && attl->work.count ? &attl->work : &attl->latency, 0.5)
             : 0;
    f->detail = finding_say(
        f,
        "%s. The time was spent in the kernel, not waiting for a thread of the pool or for the event loop.%s",
        dns ? strncmp(what, "DNS", 3) == 0
                  ? "A query that c-ares sent to a name server was answered late"
                  : "dns.lookup asks the system's resolver on a thread of the pool, which was answered late"
            : "The file system or the device behind it answered late",
        attl ? finding_say(f, " Half of all %llu such operations took at most %s.",
                           (unsigned long long)attl->count, say_ns(&usual, usual_ns))
             : "");
    if (dns)
        f->remedy = "Check the resolver (/etc/resolv.conf, search domains, timeouts), cache answers, or "
                    "keep connections alive so that fewer names are looked up.";
    verdict_place(f, fault, dns ? "libuv" : "kernel");
    finding_add_text(f, "operation", what);
    finding_add_count(f, "operations_count", fault->count);
    finding_add_count(f, "waited_ns", fault->total_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_count(f, "usual_ns", usual_ns);
    finding_add_count(f, "all_count", attl ? attl->count : 0);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

bool verdict_is_unpaired(const struct analysis *a, const struct fault *fault)
{
    return fault->kind == FINDING_slow_peer && !fault->caller && !fault->asked &&
           peer_speaks_unasked(a, fault->command);
}

void verdict_slow_peer(struct analysis *a, struct finding *f, const struct fault *fault)
{
    struct duration worst, total;
    const char *name = fault->command ? fault->command : "a call";
    const char *peer = fault->caller ? fault->caller : name;
    const char *asked = fault->asked ? finding_say(f, " (%s)", fault->asked) : "";
    f->title =
        finding_say(f, "%s%s answered %s late: requests waited %llu time%s, up to %s each, %s in total", peer,
                    asked, fault->service, (unsigned long long)fault->count, fault->count == 1 ? "" : "s",
                    say_ns(&worst, fault->worst_ns), say_ns(&total, fault->total_ns));
    f->detail =
        fault->caller && fault->others_unknown
            ? finding_say(
                  f,
                  "%s had read the request and was waiting itself, for a timer or for something that is not "
                  "traced; neither its event loop nor its thread pool was busy with it.",
                  fault->caller)
        : fault->unjoined ? finding_say(f,
                                        "What was sent to %s was answered late. What %s did during that time "
                                        "could not be joined to it.",
                                        fault->caller, fault->caller)
        : fault->caller
            ? finding_say(f, "%s had read the request and had not answered it.", fault->caller)
            : finding_say(
                  f,
                  "What was sent to %s was answered late. It is not traced, so only its socket is known; "
                  "the event loop of %s was free to read the answer.",
                  peer, fault->service);
    if (verdict_is_unpaired(a, fault)) {
        f->title =
            finding_say(f,
                        "Requests of %s waited for %s, which also speaks by itself: %llu time%s, up "
                        "to %s each, %s in total",
                        fault->service, peer, (unsigned long long)fault->count, fault->count == 1 ? "" : "s",
                        say_ns(&worst, fault->worst_ns), say_ns(&total, fault->total_ns));
        f->detail =
            finding_say(f,
                        "After something was sent to %s nothing came from it for that long. It also sends "
                        "without being asked, as brokers do: what came need not be an answer, and who let "
                        "the requests wait is not known.",
                        peer);
    }
    if (fault->unnamed)
        f->detail = finding_say(f,
                                "%s In %llu of these calls it is not known what was asked: their connections "
                                "were open before tracing began.",
                                f->detail, (unsigned long long)fault->unnamed);
    if (fault->prepared)
        f->detail = finding_say(f,
                                "%s %llu of these calls executed a statement that was prepared before, for "
                                "the same requests: which one it was is not known.",
                                f->detail, (unsigned long long)fault->prepared);
    if (fault->excused_count)
        f->detail = finding_say(
            f,
            "%s In %llu of these calls no CPU of this machine was idle, and it took no longer than a program "
            "needs that waits for one as %s did: whether that was all is not known.",
            f->detail, (unsigned long long)fault->excused_count, fault->service);
    if (fault->statement)
        f->detail = finding_say(f, "%s The statement: %s", f->detail, fault->statement);
    verdict_place(f, fault, "http");
    if (!fault->caller)
        f->where.layer = "kernel";
    finding_add_text(f, "peer", peer);
    if (fault->asked || fault->caller)
        finding_add_text(f, "call", fault->asked ? fault->asked : name);
    finding_add_text(f, "traced", fault->caller ? "yes" : "no");
    if (fault->statement)
        finding_add_text(f, "statement", fault->statement);
    finding_add_count(f, "calls_count", fault->count);
    if (fault->excused_count)
        finding_add_count(f, "excused_count", fault->excused_count);
    finding_add_count(f, "waited_ns", fault->total_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

void verdict_ipc(struct analysis *a, struct finding *f, const struct fault *fault)
{
    struct duration worst, total;
    const char *channel = fault->command ? fault->command : "a pipe";
    bool full = fault->queued_commands * 2 > fault->count;
    const char *other = strncmp(channel, "thread ", 7) == 0 ? "thread" : "process";
    const char *amount = fault->unfinished
                             ? finding_say(f, "for %s and it had not answered when the trace ended",
                                           say_ns(&worst, fault->worst_ns))
                             : finding_say(f, "%llu time%s, up to %s each, %s in total",
                                           (unsigned long long)fault->count, fault->count == 1 ? "" : "s",
                                           say_ns(&worst, fault->worst_ns), say_ns(&total, fault->total_ns));
    f->title = full ? finding_say(f, "A pipe of %s was full: requests waited for its reader %s",
                                  fault->service, amount)
                    : finding_say(f, "Requests of %s waited for another %s's answer %s", fault->service,
                                  other, amount);
    f->detail =
        full ? finding_say(f,
                           "What was written to %s was not read: the reader at the other end does not read, "
                           "or reads more slowly than is written.",
                           channel)
             : finding_say(f, "A message was sent to %s, and the next answer from there came late.", channel);
    if (full)
        f->remedy =
            "Read the pipe in the other process, or do not open it; write no faster than it is read (heed "
            "write()'s return value and 'drain').";
    verdict_place(f, fault, "kernel");
    finding_add_text(f, "channel", channel);
    finding_add_text(f, "waits_for", full ? "reader" : "answer");
    finding_add_count(f, "waits_count", fault->count);
    finding_add_count(f, "waited_ns", fault->total_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_text(f, "ended", fault->unfinished ? "no" : "yes");
    finding_add_count(f, "delay_ns", fault->cost_ns);
}
