/* Words for the faults: each becomes a finding with its cause, its evidence, who suffered and what to do. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "faults/faults.h"
#include "base/clock.h"
#include "finding/prose.h"

enum { AFFECTED_KEPT = 200, PHASE_UNKNOWN = 255 };

/* A stall that hurt nobody is worth a line only when it is long. */
static const uint64_t HARMLESS_STALL_NS = NS_PER_S;
/* Warming up is worth one when requests lost this by it. */
static const uint64_t WARMING_COST_NS = 100 * NS_PER_MS;

/* Slow operations and peers: a fault when requests lost so much to them, more than once or at once so much.
 */
static const uint64_t SLOW_COST_NS = 100 * NS_PER_MS, SLOW_ALONE_NS = 500 * NS_PER_MS;

struct duration {
    char text[32];
};

static const char *say_ns(struct duration *d, uint64_t ns)
{
    return clock_format_duration(ns, d->text, sizeof(d->text));
}

static const char *phase_name(const struct fault *fault)
{
    const char *name =
        fault->phase == PHASE_UNKNOWN ? NULL : event_label(SONDE_MEANING_uv_phase, fault->phase);
    return name ? name : "unknown";
}

/* "worst 1.2 s, 3 times, 2.9 s in all" as far as there is more to say than the worst. */
static const char *say_amount(struct finding *f, const struct fault *fault)
{
    struct duration worst, total;
    if (fault->seen)
        return finding_say(f, "in %llu short callbacks, for up to %s a request, %s in all",
                           (unsigned long long)fault->count, say_ns(&worst, fault->worst_ns),
                           say_ns(&total, fault->total_ns));
    if (fault->unfinished)
        return finding_say(f, "for %s and had not returned when the trace ended",
                           say_ns(&worst, fault->worst_ns));
    if (fault->count == 1)
        return finding_say(f, "for %s", say_ns(&worst, fault->worst_ns));
    return finding_say(f, "%llu times, for up to %s, %s in all", (unsigned long long)fault->count,
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
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

/* "The loop stood in its poll phase, in a request handler of GET /x." and what the load adds. */
static const char *say_circumstances(struct finding *f, const struct fault *fault)
{
    struct duration queue;
    const char *during = fault->route      ? finding_say(f, " while it served %s", fault->route)
                         : fault->callback ? finding_say(f, " in a callback (%s)", fault->callback)
                                           : "";
    const char *phase = fault->phase_differs || fault->phase == PHASE_UNKNOWN
                            ? ""
                            : finding_say(f, " in its %s phase", phase_name(fault));
    const char *load = fault->run_queue_ns * 20 > fault->total_ns
                           ? finding_say(f,
                                         " The thread waited for a CPU for %s of that time; that is "
                                         "the machine's load and not counted here.",
                                         say_ns(&queue, fault->run_queue_ns))
                           : "";
    if (fault->seen)
        return finding_say(f, "No callback was long; those of one request took long together%s.%s", during,
                           load);
    return finding_say(f, "The event loop stood%s%s.%s", phase, during, load);
}

static const char *looked_into(const struct fault *fault)
{
    return fault->seen ? "its callbacks" : "the stalled callback";
}

static void say_regexp(struct finding *f, const struct fault *fault)
{
    const struct look *place = &fault->place;
    const char *pattern = place->detail ? place->detail : "a regular expression";
    const char *source = say_source(f, place);
    f->title = finding_say(f, "A regular expression kept the event loop of %s %s", fault->service,
                           say_amount(f, fault));
    f->detail =
        finding_say(f, "%s%s%s was matching in %llu of %llu looks into %s. %s", pattern,
                    *source ? " in " : "", source, (unsigned long long)fault->looks_agree,
                    (unsigned long long)fault->looks, looked_into(fault), say_circumstances(f, fault));
    f->remedy =
        "Rewrite the pattern so that no repeated group can match the same text in two ways, limit the "
        "length of the text before matching, or match in linear time (the re2 package).";
    verdict_place(f, fault, "v8");
    finding_add_text(f, "pattern", pattern);
    add_stall_evidence(f, fault);
}

/* What people call; the kind of operation, where only that is known; a leaf of native code where nothing is.
 * A function's own work with several calls in it has none. */
static const char *say_called(const struct fault *fault)
{
    const struct look *place = &fault->place;
    if (place->called && place->cause != SONDE_stall_cause_gc && fault->kind != FINDING_lock_wait)
        return place->called;
    if (fault->sync_kind)
        return event_label(SONDE_MEANING_uv_kind, fault->sync_kind);
    if (place->cause == SONDE_stall_cause_gc ||
        (place->variants && place->cause != SONDE_stall_cause_builtin))
        return NULL;
    return place->detail;
}

static bool is_stall(const struct fault *fault)
{
    return !fault->seen && (fault->kind == FINDING_event_loop_blocked || fault->kind == FINDING_lock_wait);
}

static void say_blocked(struct finding *f, const struct fault *fault)
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
        [SONDE_stall_cause_regexp] = "",
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
    const char *source = say_source(f, place);
    const char *called = say_called(fault);
    f->title = finding_say(f, "%s kept the event loop of %s %s", SUBJECT[cause], fault->service,
                           say_amount(f, fault));
    const char *who = called && *source ? finding_say(f, "%s, called from %s,", called, source)
                      : called          ? called
                                        : source;
    const char *seen = fault->looks ? finding_say(f, " in %llu of %llu looks into %s",
                                                  (unsigned long long)fault->looks_agree,
                                                  (unsigned long long)fault->looks, looked_into(fault))
                                    : "";
    const char *variants = place->variants ? finding_say(f, " Of these: %s.", place->variants) : "";
    f->detail =
        *who ? finding_say(f, "%s was running%s.%s %s", who, seen, variants, say_circumstances(f, fault))
             : say_circumstances(f, fault);
    f->remedy =
        fault->seen
            ? "It is in pieces already: do less of it for a request, keep its result for the next, or "
              "move it to a worker thread."
            : REMEDY[cause];
    if (fault->kind == FINDING_lock_wait) {
        f->title =
            finding_say(f, "The event loop of %s waited for a lock %s", fault->service, say_amount(f, fault));
        f->remedy =
            "Do not wait for other threads on the event loop's: send a message when they are done, or "
            "use Atomics.waitAsync; hold the lock for less long.";
    }
    if (is_stall(fault) && !fault->proven)
        f->detail = finding_say(f,
                                "%s It is not known which thread had what it waited for; threads of this "
                                "process lacked a CPU meanwhile, and that may be all of it.",
                                f->detail);
    if (fault->worker) {
        f->title = finding_say(f, "Work kept a worker thread of %s %s", fault->service, say_amount(f, fault));
        f->remedy = "Nothing but what waits for this thread is kept by it: see whether requests do.";
    }
    if (fault->warming) {
        f->title = finding_say(f, "%s was warming up %s", fault->service, say_amount(f, fault));
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

/* ---- Redis ---- */

static const char *command_remedy(const char *command)
{
    static const struct {
        const char *command, *remedy;
    } REMEDIES[] = {
        {"KEYS", "Walk the keys with SCAN, or keep an index of the ones you need."},
        {"SMEMBERS", "Walk large sets with SSCAN, or ask for a part (SRANDMEMBER)."},
        {"HGETALL", "Ask for the fields you need (HMGET), or walk the hash with HSCAN."},
        {"HKEYS", "Ask for the fields you need (HMGET), or walk the hash with HSCAN."},
        {"LRANGE", "Ask for a page, not for the whole list."},
        {"ZRANGE", "Ask for a page, not for the whole set."},
        {"SORT", "Sort fewer elements (LIMIT does not help), keep a sorted set, or sort on a replica."},
        {"EVAL", "Make the script do less at a time: Redis executes nothing else while it runs."},
        {"EVALSHA", "Make the script do less at a time: Redis executes nothing else while it runs."},
        {"FCALL", "Make the function do less at a time: Redis executes nothing else while it runs."},
        {"EXEC", "Put fewer commands into one transaction: nothing else runs in the meantime."},
        {"DEL", "UNLINK frees the memory in the background."},
        {"FLUSHALL", "FLUSHALL ASYNC frees the memory in the background."},
        {"FLUSHDB", "FLUSHDB ASYNC frees the memory in the background."},
        {"SAVE", "BGSAVE writes the snapshot in a child process."},
        {"SUNION", "Intersect and unite on a replica, or keep the result up to date as elements change."},
        {"SINTER", "Intersect and unite on a replica, or keep the result up to date as elements change."},
    };
    for (size_t i = 0; i < ARRAY_SIZE(REMEDIES); i++)
        if (strcmp(REMEDIES[i].command, command) == 0)
            return REMEDIES[i].remedy;
    return "Ask for less at a time, or run it on a replica: Redis executes one command at a time.";
}

static void say_slow_command(struct finding *f, const struct fault *fault)
{
    struct duration queued;
    f->title = finding_say(f, "%s held %s %s", fault->command, fault->service, say_amount(f, fault));
    const char *sender =
        fault->caller ? finding_say(f, "sent by %s", fault->caller) : "sent by a client that is not traced";
    const char *size = fault->arguments > 0 ? finding_say(f, ", %lld argument%s", (long long)fault->arguments,
                                                          fault->arguments == 1 ? "" : "s")
                                            : "";
    const char *inner = fault->inner ? finding_say(f, " Inside it %s ran %llu times.", fault->inner,
                                                   (unsigned long long)fault->inner_calls)
                                     : "";
    const char *others = "Nobody was seen to wait behind it.";
    if (fault->queued_commands) {
        struct text count = {0};
        prose_count(&count, fault->queued_commands, "command");
        others = finding_say(f, "%s of others queued behind it, for %s together.", text_get(&count),
                             say_ns(&queued, fault->queued_ns));
        text_done(&count);
    }
    f->detail =
        finding_say(f,
                    "%s (%s, client %llu%s) is executed alone: everybody else waits until it is done.%s "
                    "%s",
                    fault->command, sender, (unsigned long long)fault->client_id, size, inner, others);
    f->remedy = command_remedy(fault->command);
    verdict_place(f, fault, "redis");
    finding_add_text(f, "command", fault->command);
    finding_add_count(f, "calls_count", fault->count);
    finding_add_count(f, "executed_ns", fault->total_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_count(f, "run_queue_ns", fault->run_queue_ns);
    if (fault->argument_bytes)
        finding_add_count(f, "argument_bytes", fault->argument_bytes);
    if (fault->arguments > 0)
        finding_add_count(f, "arguments_count", (uint64_t)fault->arguments);
    if (fault->inner) {
        finding_add_text(f, "inner_command", fault->inner);
        finding_add_count(f, "inner_calls_count", fault->inner_calls);
    }
    finding_add_count(f, "client_id", fault->client_id);
    finding_add_count(f, "clients_count", fault->clients.count);
    finding_add_count(f, "queued_commands_count", fault->queued_commands);
    finding_add_count(f, "queued_ns", fault->queued_ns);
    finding_add_count(f, "delay_ns", fault->cost_ns);
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

static void say_starved(struct finding *f, const struct fault *fault)
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
                    "Operations of %s waited for a thread of the pool: %llu of them, for up to %s, %s in "
                    "all",
                    fault->service, (unsigned long long)fault->count, say_ns(&worst, fault->worst_ns),
                    say_ns(&total, fault->total_ns));
    f->detail =
        finding_say(f,
                    "%s%s held %.0f %% of the busy time of the pool's %u thread%s meanwhile, up to %s a run. "
                    "Those that waited (%s) took %s themselves, on average.",
                    occupant, strchr(occupant, ',') ? "," : "", share * 100, fault->pool_threads,
                    fault->pool_threads == 1 ? "" : "s", say_ns(&run, fault->occupant_run_ns),
                    text_get(&waiting), say_ns(&own, fault->run_ns / MAX(fault->count, 1)));
    text_done(&waiting);
    f->remedy =
        "Give the pool more threads (UV_THREADPOOL_SIZE), let fewer of the long operations run at once, or "
        "move them to worker threads or another process.";
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

static void say_run_queue(struct finding *f, const struct fault *fault)
{
    struct duration waited, ran;
    f->title = finding_say(f, "%s was ready to run but waited %s for a CPU", fault->service,
                           say_ns(&waited, fault->run_queue_ns));
    f->detail = finding_say(
        f,
        "%llu stretch%s of its work took long only for this reason%s. The machine had more to do than "
        "it has CPUs: this is not a fault of the program.",
        (unsigned long long)fault->count, fault->count == 1 ? "" : "es",
        fault->net_ns ? finding_say(f, "; they ran for %s together", say_ns(&ran, fault->net_ns)) : "");
    f->remedy = "Give the machine more CPUs or less work, or raise the service's CPU share.";
    verdict_place(f, fault, "kernel");
    finding_add_count(f, "stalls_count", fault->count);
    finding_add_count(f, "waited_ns", fault->run_queue_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_count(f, "cpu_ns", fault->net_ns);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

/* ---- others ---- */

static void say_slow_io(struct finding *f, const struct analysis *a, const struct fault *fault)
{
    struct duration worst, total, usual;
    const char *what = fault->command ? fault->command : "an operation";
    bool dns =
        strncmp(what, "getaddr", 7) == 0 || strncmp(what, "getname", 7) == 0 || strncmp(what, "DNS", 3) == 0;
    const struct attl *attl = attl_of(a, fault->service, what);
    f->title =
        finding_say(f, "%s of %s took long: requests waited %llu time%s, for up to %s, %s in all", what,
                    fault->service, (unsigned long long)fault->count, fault->count == 1 ? "" : "s",
                    say_ns(&worst, fault->worst_ns), say_ns(&total, fault->total_ns));
    uint64_t usual_ns =
        attl ? (uint64_t)sketch_quantile(attl->count && attl->work.count ? &attl->work : &attl->latency, 0.5)
             : 0;
    f->detail = finding_say(
        f, "%s. It waited at the system, not for a thread of the pool and not for the event loop.%s",
        dns ? strncmp(what, "DNS", 3) == 0
                  ? "A query that c-ares sent to a name server was answered late"
                  : "dns.lookup asks the system's resolver on a thread of the pool, which was answered late"
            : "The file system or the device behind it answered late",
        attl ? finding_say(f, " Half of the %llu such operations took at most %s.",
                           (unsigned long long)attl->count, say_ns(&usual, usual_ns))
             : "");
    f->remedy =
        dns ? "Look at the resolver (/etc/resolv.conf, search domains, timeouts), cache answers, keep "
              "connections alive so that fewer names are asked for."
            : "Look at the device and the file system behind it (iostat, network mounts, a pipe nobody "
              "writes to); keep what is read often in memory.";
    verdict_place(f, fault, dns ? "libuv" : "kernel");
    finding_add_text(f, "operation", what);
    finding_add_count(f, "operations_count", fault->count);
    finding_add_count(f, "waited_ns", fault->total_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_count(f, "usual_ns", usual_ns);
    finding_add_count(f, "all_count", attl ? attl->count : 0);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

static void say_slow_peer(struct finding *f, const struct fault *fault)
{
    struct duration worst, total;
    const char *name = fault->command ? fault->command : "a call";
    const char *peer = fault->caller ? fault->caller : name;
    const char *asked = fault->asked ? finding_say(f, " (%s)", fault->asked) : "";
    f->title =
        finding_say(f, "%s%s answered %s late: requests waited %llu time%s, for up to %s, %s in all", peer,
                    asked, fault->service, (unsigned long long)fault->count, fault->count == 1 ? "" : "s",
                    say_ns(&worst, fault->worst_ns), say_ns(&total, fault->total_ns));
    f->detail =
        fault->caller && fault->others_unknown
            ? finding_say(
                  f,
                  "%s had read the request and waited itself, for a timer or for something that is not "
                  "traced; neither its event loop nor its thread pool was busy with it.",
                  fault->caller)
        : fault->unjoined
            ? finding_say(
                  f,
                  "What was sent to %s was answered late. What %s did meanwhile could not be joined to it.",
                  fault->caller, fault->caller)
        : fault->caller
            ? finding_say(f, "%s had read the request and had not answered it.", fault->caller)
            : finding_say(
                  f,
                  "What was sent to %s was answered late. It is not traced, so only its socket is known; "
                  "the event loop of %s would have taken the answer.",
                  peer, fault->service);
    f->remedy =
        "Look into the peer (trace it, its own logs or slow query log); ask it less, in parallel, with a "
        "timeout or from a cache.";
    verdict_place(f, fault, "http");
    if (!fault->caller)
        f->where.layer = "kernel";
    finding_add_text(f, "peer", peer);
    if (fault->asked || fault->caller)
        finding_add_text(f, "call", fault->asked ? fault->asked : name);
    finding_add_text(f, "traced", fault->caller ? "yes" : "no");
    finding_add_count(f, "calls_count", fault->count);
    finding_add_count(f, "waited_ns", fault->total_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

static void say_ipc(struct finding *f, const struct fault *fault)
{
    struct duration worst, total;
    const char *channel = fault->command ? fault->command : "a pipe";
    bool full = fault->queued_commands * 2 > fault->count;
    const char *other = strncmp(channel, "thread ", 7) == 0 ? "thread" : "process";
    const char *amount = fault->unfinished
                             ? finding_say(f, "for %s and it had not answered when the trace ended",
                                           say_ns(&worst, fault->worst_ns))
                             : finding_say(f, "%llu time%s, for up to %s, %s in all",
                                           (unsigned long long)fault->count, fault->count == 1 ? "" : "s",
                                           say_ns(&worst, fault->worst_ns), say_ns(&total, fault->total_ns));
    f->title = full ? finding_say(f, "A pipe of %s was full: requests waited for its reader %s",
                                  fault->service, amount)
                    : finding_say(f, "Requests of %s waited for another %s's answer %s", fault->service,
                                  other, amount);
    f->detail =
        full ? finding_say(f,
                           "What was written to %s was not taken: the reader at the other end does not read, "
                           "or slower than is written.",
                           channel)
             : finding_say(f, "A message was sent to %s, and what came back next came late.", channel);
    f->remedy =
        full ? "Read the pipe in the other process, or do not open it; write no faster than it is read (heed "
               "write()'s return value and 'drain')."
             : "Look at what the other process does meanwhile (its own findings), or do not make requests "
               "wait "
               "for it.";
    verdict_place(f, fault, "kernel");
    finding_add_text(f, "channel", channel);
    finding_add_text(f, "waits_for", full ? "reader" : "answer");
    finding_add_count(f, "waits_count", fault->count);
    finding_add_count(f, "waited_ns", fault->total_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_text(f, "ended", fault->unfinished ? "no" : "yes");
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

/* ---- all ---- */

static enum finding_severity severity_of(const struct analysis *a, const struct fault *fault)
{
    uint64_t limit_ns = fault->kind == FINDING_redis_slow_command    ? a->options.slow_command_ns
                        : fault->kind == FINDING_thread_pool_starved ? a->options.pool_wait_ns
                                                                     : a->options.stall_ns;
    if (fault->kind == FINDING_run_queue_wait || fault->kind == FINDING_unexplained_wait || fault->warming ||
        fault->worker)
        return SEVERITY_INFO;
    if (verdict_is_failure(fault->kind))
        return verdict_failure_severity(fault);
    if (is_stall(fault) && !fault->proven)
        return SEVERITY_INFO;
    /* One of those that always end may just not have ended yet. */
    if (fault->unfinished && (!fault->open_ns || fault->open_ns > 2 * fault->closed_ns))
        return SEVERITY_CRITICAL;
    if (fault->kind == FINDING_event_loop_blocked && !fault->seen && !fault->later)
        return SEVERITY_INFO;
    if (fault->kind == FINDING_slow_io || fault->kind == FINDING_slow_peer ||
        fault->kind == FINDING_ipc_blocked || fault->kind == FINDING_connection_pool_starved ||
        fault->kind == FINDING_worker_pool_starved)
        return fault->cost_ns >= SLOW_COST_NS && (fault->count > 1 || fault->worst_ns >= SLOW_ALONE_NS)
                   ? SEVERITY_WARNING
                   : SEVERITY_INFO;
    /* Once, shortly, and seen in one look at most: that accuses nobody. */
    if (fault->kind == FINDING_event_loop_blocked && !fault->seen && fault->count == 1 &&
        fault->looks_agree < 2 && fault->net_ns < 2 * limit_ns)
        return SEVERITY_INFO;
    /* Whose clients are not traced cannot show who suffers: the command itself took that long. */
    bool unseen = fault->kind == FINDING_redis_slow_command && fault->others_unknown;
    return fault->cost_ns >= limit_ns || unseen ? SEVERITY_WARNING : SEVERITY_INFO;
}

static bool worth_saying(const struct fault *fault, enum finding_severity severity)
{
    if (fault->warming)
        return fault->cost_ns >= WARMING_COST_NS;
    if (fault->kind == FINDING_unexplained_wait)
        return fault->cost_ns >= SLOW_COST_NS;
    if (verdict_is_failure(fault->kind))
        return verdict_failure_matters(fault);
    return severity > SEVERITY_INFO || fault->cost_ns >= NS_PER_MS || fault->worst_ns >= HARMLESS_STALL_NS ||
           fault->kind == FINDING_redis_slow_command;
}

int verdict_requests(struct analysis *a, struct finding *f, struct fault *fault)
{
    int r = add_affected(f, fault);
    if (r == 0 && f->affected.count)
        f->link = finding_say(f, "sonde spans --request %s %s", f->affected.at[0].id,
                              a->options.folder ? a->options.folder : "DIR");
    return r;
}

static bool same_work(const struct fault *a, const struct fault *b)
{
    bool same = a->service == b->service && a->route == b->route;
    return same && (a->route || (a->callback && a->callback == b->callback));
}

/* A stall of which no function was seen (nobody looked into it, or only into native code or a collection) is
 * taken as one more of what is known to stall the same endpoint (the same kind of callback, where the
 * endpoint is not known), when that is one thing only, and more often. */
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
                several |= known != NULL;
                known = *other;
            }
        if (!known || several ||
            (unseen->place.cause == SONDE_stall_cause_gc && unseen->count >= known->count))
            continue;
        struct look kept = known->place;
        fault_absorb(a, known, unseen);
        known->place = kept;
    }
}

/* What is told apart as one call of a function is one more variant where that function was also seen to do
 * several things in a stretch: one cause. */
static void join_variants(struct analysis *a)
{
    array_foreach (&a->fault_list, place) {
        struct fault *part = *place;
        if (part->kind != FINDING_event_loop_blocked || part->absorbed || part->warming || part->seen ||
            !part->apart || !part->apart[0] || part->place.cause == SONDE_stall_cause_gc ||
            !part->place.script)
            continue;
        array_foreach (&a->fault_list, other) {
            struct fault *whole = *other;
            if (whole == part || whole->kind != part->kind || whole->absorbed || whole->warming ||
                whole->seen || whole->service != part->service || whole->route != part->route ||
                whole->place.function != part->place.function || whole->place.script != part->place.script ||
                !whole->apart || whole->apart[0] || !whole->place.variants)
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

int verdicts_report(struct analysis *a, struct report *report)
{
    name_peers(a);
    failures_judge(a);
    shorts_judge(a);
    join_unseen(a);
    join_variants(a);
    int result = 0;
    for (const struct analyzer *const *p = a->analyzers; *p && result >= 0; p++)
        if ((*p)->findings)
            result = (*p)->findings(a, report);
    if (result < 0)
        return result;
    array_foreach (&a->fault_list, place) {
        struct fault *fault = *place;
        if (fault->absorbed || fault->kind == FINDING_gc_pressure || fault->kind == FINDING_serialisation)
            continue; /* told of by their target, if at all */
        enum finding_severity severity = severity_of(a, fault);
        if (!worth_saying(fault, severity))
            continue;
        struct finding *f = report_add_finding(report, fault->kind, severity);
        if (!f)
            return -ENOMEM;
        if (fault->kind == FINDING_blocking_regexp)
            say_regexp(f, fault);
        else if (fault->kind == FINDING_redis_slow_command)
            say_slow_command(f, fault);
        else if (fault->kind == FINDING_thread_pool_starved)
            say_starved(f, fault);
        else if (fault->kind == FINDING_run_queue_wait)
            say_run_queue(f, fault);
        else if (fault->kind == FINDING_slow_io)
            say_slow_io(f, a, fault);
        else if (fault->kind == FINDING_slow_peer)
            say_slow_peer(f, fault);
        else if (fault->kind == FINDING_ipc_blocked)
            say_ipc(f, fault);
        else if (fault->kind == FINDING_connection_pool_starved || fault->kind == FINDING_worker_pool_starved)
            verdict_pool(a, f, fault);
        else if (fault->kind == FINDING_unexplained_wait)
            verdict_unexplained(f, fault);
        else if (verdict_is_failure(fault->kind))
            verdict_failure(a, f, fault);
        else if (fault->kind == FINDING_cpu_throttled)
            verdict_throttled(f, fault);
        else
            say_blocked(f, fault);
        int r = verdict_requests(a, f, fault);
        if (r < 0)
            return r;
    }
    return 0;
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
