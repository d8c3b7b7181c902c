/* The findings about a Redis server: conflicts between its threads, its end by a signal, and slow commands
 * with those that queued behind them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "targets/redis/model.h"

/* What a terminal shows of a time within the recording: "0.706 s after the recording began". */
static double since_start_s(const struct redis_model *model, uint64_t time_ns)
{
    return time_ns > model->first_ns ? (double)(time_ns - model->first_ns) / 1e9 : 0;
}

static void place(struct finding *f, const struct redis_server *server, int64_t tid)
{
    f->where = (struct finding_place){.service = finding_say(f, "%s", server->name),
                                      .process = server->pid,
                                      .thread = tid,
                                      .layer = "redis"};
}

/* ---- conflicts ---- */

static const char *client_name(struct finding *f, const struct redis_server *server, uint64_t id)
{
    const uint64_t *known = map_get(&server->clients, id);
    const struct redis_client *client = known ? (const struct redis_client *)(uintptr_t)*known : NULL;
    if (!client || !client->peer[0])
        return finding_say(f, "client %" PRIu64, id);
    return client->caller ? finding_say(f, "client %" PRIu64 " (%s, %s)", id, client->caller, client->peer)
                          : finding_say(f, "client %" PRIu64 " (%s)", id, client->peer);
}

/* Adds what happened to one client, in sentences that each end in a space. */
static void add_what_happened(struct text *words, const struct redis_model *model,
                              const struct redis_conflict *conflict)
{
    if (conflict->kinds & REDIS_TWICE_ON_LIST) {
        text_addf(words,
                  "Thread %" PRId64
                  " put it on the list of pending reads at %.6f s, and again at %.6f s of the "
                  "recording, although no thread had read it in between. ",
                  conflict->added_by, since_start_s(model, conflict->first_added_ns),
                  since_start_s(model, conflict->second_added_ns));
        if (conflict->left_bytes > 0)
            text_addf(words,
                      "Before that, %" PRId64
                      " bytes had been left in its TLS buffer: both the pending TLS data and "
                      "the readable socket put it there. ",
                      conflict->left_bytes);
        if (conflict->thread_count == 2 && !(conflict->kinds & REDIS_READ_BY_TWO))
            text_addf(words, "Threads %" PRId64 " and %" PRId64 " then both read it. ", conflict->threads[0],
                      conflict->threads[1]);
        else if (conflict->thread_count == 1 && !(conflict->kinds & REDIS_READ_BY_TWO))
            text_addf(words, "Thread %" PRId64 " then read it for both entries. ", conflict->threads[0]);
    }
    if (conflict->kinds & REDIS_READ_BY_TWO) {
        char overlap[32];
        text_addf(words, "Threads %" PRId64 " and %" PRId64 " were inside the same connection for %s. ",
                  conflict->threads[0], conflict->threads[1],
                  clock_format_duration(conflict->overlap_ns, overlap, sizeof(overlap)));
    }
    if (conflict->kinds & REDIS_FREED_TWICE)
        text_addf(words, "It was freed at %.6f s and a second time at %.6f s. ",
                  since_start_s(model, conflict->freed_ns), since_start_s(model, conflict->freed_again_ns));
    if (conflict->kinds & REDIS_USED_AFTER_FREE)
        text_add(words, "A thread read it after it had been freed. ");
}

static const char *kinds_in_words(unsigned kinds)
{
    if (kinds & REDIS_TWICE_ON_LIST && kinds & REDIS_FREED_TWICE)
        return "queued one connection twice for its I/O threads and freed it twice";
    if (kinds & REDIS_READ_BY_TWO)
        return "let two threads use one connection at the same time";
    if (kinds & REDIS_USED_AFTER_FREE)
        return "read a connection after freeing it";
    return "queued one connection twice for its I/O threads";
}

/* By enum redis_conflict_origin: as evidence, and of several connections. */
static const struct {
    const char *operation, *several;
} ORIGINS[REDIS_ORIGINS] = {
    [REDIS_BEGAN_QUEUED] = {"queued twice", "queued connections twice for its I/O threads"},
    [REDIS_BEGAN_READING] = {"read at once", "let two threads read one connection at the same time"},
    [REDIS_BEGAN_WRITING] = {"written at once", "let two threads write to one connection at the same time"},
    [REDIS_BEGAN_FREED] = {"read after it was freed", "read connections after freeing them"},
};

/* All proved conflicts of a server that began in the same way. */
struct conflict_sum {
    uint64_t count, at_once, freed_twice, after_free;
    const struct redis_conflict *first, *worst;
    uint64_t from_ns, to_ns;
};

static struct conflict_sum sum_conflicts(const struct redis_server *server, enum redis_conflict_origin origin)
{
    struct conflict_sum sum = {.from_ns = UINT64_MAX};
    array_foreach (&server->conflicts, conflict) {
        if (conflict->origin != origin || !redis_conflict_proved(conflict))
            continue;
        sum.count++;
        sum.at_once += !!(conflict->kinds & REDIS_READ_BY_TWO);
        sum.freed_twice += !!(conflict->kinds & REDIS_FREED_TWICE);
        sum.after_free += !!(conflict->kinds & REDIS_USED_AFTER_FREE);
        if (!sum.first)
            sum.first = conflict;
        if (!sum.worst || redis_conflict_worse(conflict, sum.worst))
            sum.worst = conflict;
        sum.from_ns = MIN(sum.from_ns, conflict->from_ns);
        sum.to_ns = MAX(sum.to_ns, conflict->to_ns);
    }
    return sum;
}

/* Adds how many of the connections fared how. */
static void add_counts(struct text *words, const struct conflict_sum *sum)
{
    const struct {
        uint64_t count;
        const char *what;
    } FARED[] = {{sum->at_once, "used by two threads at the same time"},
                 {sum->freed_twice, "freed twice"},
                 {sum->after_free, "read after being freed"}};
    const char *before = ": ";
    text_addf(words, "%" PRIu64 " connections in total", sum->count);
    for (size_t i = 0; i < ARRAY_SIZE(FARED); i++) {
        if (!FARED[i].count)
            continue;
        text_addf(words, "%s%" PRIu64 " %s %s", before, FARED[i].count, FARED[i].count == 1 ? "was" : "were",
                  FARED[i].what);
        before = ", ";
    }
    text_add(words, ". ");
}

static const char *conflicts_in_words(struct finding *f, const struct redis_server *server,
                                      const struct conflict_sum *sum)
{
    struct text words = {0};
    if (sum->first != sum->worst) {
        text_addf(&words, "First %s: ", client_name(f, server, sum->first->client_id));
        add_what_happened(&words, server->model, sum->first);
    }
    if (sum->count > 1)
        text_addf(&words, "%s %s: ", sum->first == sum->worst ? "First and worst" : "Worst",
                  client_name(f, server, sum->worst->client_id));
    add_what_happened(&words, server->model, sum->worst);
    if (sum->count > 1)
        add_counts(&words, sum);
    text_add(&words,
             "What the server does after this is undefined: it may crash, at once or later, or mix up data.");
    const char *said = finding_say(f, "%s", text_get(&words));
    text_done(&words);
    return said;
}

/* Evidence about one conflict; 0 or -ENOMEM. */
static int add_conflict(struct finding *f, const struct redis_conflict *conflict)
{
    int r = finding_add_count(f, "client_id", conflict->client_id);
    if (conflict->kinds & REDIS_TWICE_ON_LIST) {
        r = finding_add_count(f, "first_added_ns", conflict->first_added_ns) < 0 ? -ENOMEM : r;
        r = finding_add_count(f, "second_added_ns", conflict->second_added_ns) < 0 ? -ENOMEM : r;
        r = finding_add_count(f, "added_by_thread", (uint64_t)conflict->added_by) < 0 ? -ENOMEM : r;
    }
    static const char *const THREADS[] = {"first_thread", "second_thread"};
    for (unsigned i = 0; i < conflict->thread_count; i++)
        r = finding_add_count(f, THREADS[i], (uint64_t)conflict->threads[i]) < 0 ? -ENOMEM : r;
    if (conflict->kinds & REDIS_READ_BY_TWO)
        r = finding_add_count(f, "overlap_ns", conflict->overlap_ns) < 0 ? -ENOMEM : r;
    if (conflict->left_bytes > 0)
        r = finding_add_count(f, "tls_left_bytes", (uint64_t)conflict->left_bytes) < 0 ? -ENOMEM : r;
    if (conflict->freed_ns)
        r = finding_add_count(f, "freed_ns", conflict->freed_ns) < 0 ? -ENOMEM : r;
    if (conflict->kinds & REDIS_FREED_TWICE)
        r = finding_add_count(f, "freed_again_ns", conflict->freed_again_ns) < 0 ? -ENOMEM : r;
    return r;
}

static int report_conflicts(const struct redis_server *server, enum redis_conflict_origin origin,
                            struct report *report)
{
    struct conflict_sum sum = sum_conflicts(server, origin);
    if (!sum.count)
        return 0;
    struct finding *f = report_add_finding(report, FINDING_redis_connection_conflict, SEVERITY_CRITICAL);
    if (!f)
        return -ENOMEM;
    const struct redis_conflict *worst = sum.worst;
    place(f, server, worst->added_by >= 0 ? worst->added_by : worst->threads[0]);
    const char *who = client_name(f, server, worst->client_id);
    f->title = sum.count == 1 ? finding_say(f, "%s %s: %s", server->name, kinds_in_words(worst->kinds), who)
                              : finding_say(f, "%s %s, %" PRIu64 " times; worst: %s", server->name,
                                            ORIGINS[origin].several, sum.count, who);
    f->detail = conflicts_in_words(f, server, &sum);
    f->from_ns = sum.from_ns;
    f->to_ns = sum.to_ns;
    int r = finding_add_text(f, "operation", ORIGINS[origin].operation);
    r = finding_add_count(f, "conflicts_count", sum.count) < 0 ? -ENOMEM : r;
    r = finding_add_count(f, "used_at_once_count", sum.at_once) < 0 ? -ENOMEM : r;
    r = finding_add_count(f, "freed_twice_count", sum.freed_twice) < 0 ? -ENOMEM : r;
    r = finding_add_count(f, "used_after_free_count", sum.after_free) < 0 ? -ENOMEM : r;
    if (sum.first != worst)
        r = finding_add_count(f, "first_client_id", sum.first->client_id) < 0 ? -ENOMEM : r;
    return add_conflict(f, worst) < 0 ? -ENOMEM : r;
}

/* ---- its end ---- */

static bool killed_by_fault(const struct redis_server *server)
{
    if (server->status < 0 || !WIFSIGNALED(server->status))
        return false;
    switch (WTERMSIG(server->status)) {
    case SIGSEGV:
    case SIGBUS:
    case SIGABRT:
    case SIGILL:
    case SIGFPE:
    case SIGKILL:
    case SIGSYS:
        return true;
    }
    return false; /* asked to end by somebody */
}

static int report_killed(const struct redis_server *server, struct report *report)
{
    int signal = WTERMSIG(server->status);
    const struct redis_conflict *cause = NULL;
    array_foreach (&server->conflicts, conflict)
        cause = redis_conflict_proved(conflict) ? conflict : cause;
    struct finding *f = report_add_finding(report, FINDING_server_killed, SEVERITY_CRITICAL);
    if (!f)
        return -ENOMEM;
    place(f, server, server->pid);
    f->title = finding_say(f, "%s was ended by SIG%s, %.3f s into the recording", server->name,
                           sigabbrev_np(signal) ? sigabbrev_np(signal) : "UNKNOWN",
                           since_start_s(server->model, server->ended_ns));
    f->detail =
        cause
            ? finding_say(
                  f,
                  "The conflict over client %" PRIu64 " came %.3f ms before its end and is the likely cause.",
                  cause->client_id,
                  server->ended_ns > cause->to_ns ? (double)(server->ended_ns - cause->to_ns) / 1e6 : 0)
        : signal == SIGKILL
            ? "Somebody sent SIGKILL: an operator, a supervisor, or the kernel for want of memory (see the "
              "kernel's log and the cgroup's memory.events)."
            : "It crashed. Nothing in the recording proves why; its log has the stack trace.";
    if (cause)
        f->remedy = "See the conflict.";
    f->from_ns = f->to_ns = server->ended_ns;
    const char *signal_name =
        finding_say(f, "SIG%s", sigabbrev_np(signal) ? sigabbrev_np(signal) : "UNKNOWN");
    return finding_add_text(f, "signal", signal_name) < 0 ||
                   finding_add_count(f, "ended_ns", server->ended_ns) < 0
               ? -ENOMEM
               : 0;
}

int redis_model_report(const struct redis_model *model, struct report *report)
{
    array_foreach (&model->list, place_of) {
        const struct redis_server *server = *place_of;
        for (enum redis_conflict_origin origin = 0; origin < REDIS_ORIGINS; origin++)
            if (report_conflicts(server, origin, report) < 0)
                return -ENOMEM;
        if (killed_by_fault(server) && report_killed(server, report) < 0)
            return -ENOMEM;
    }
    int r = redis_model_report_work(model, report);
    return r < 0 ? r : redis_model_report_load(model, report);
}

/* ---- slow commands ---- */

/* All slow calls of one command name. */
struct slow_sum {
    uint64_t calls, time_ns, waited_ns;
    const struct redis_slow *worst, *most; /* longest; with the most waiters */
};

static void upper(const char *name, char to[static 64])
{
    size_t n = 0;
    for (; name[n] && n < 63; n++)
        to[n] = (char)(name[n] == '|' ? ' ' : toupper((unsigned char)name[n]));
    to[n] = '\0';
}

static int report_slow(const struct redis_server *server, const struct slow_sum *sum, struct report *report)
{
    struct finding *f = report_add_finding(report, FINDING_slow_command,
                                           sum->most->waiters ? SEVERITY_WARNING : SEVERITY_INFO);
    if (!f)
        return -ENOMEM;
    char name[64], worst[32], each[32];
    const struct redis_slow *w = sum->worst, *m = sum->most;
    upper(w->name, name);
    place(f, server, server->pid);
    f->title = finding_say(f, "%s ran for %s in %s%s", name,
                           clock_format_duration(w->end_ns - w->start_ns, worst, sizeof(worst)), server->name,
                           sum->calls > 1 ? finding_say(f, " (%" PRIu64 " slow calls)", sum->calls) : "");
    f->detail =
        m->waiters
            ? finding_say(
                  f,
                  "%" PRIu64 " other connection%s had a request waiting when it ended and waited up to %s%s. "
                  "It came from client %" PRIu64
                  "%s%s. While a command runs, the server reads from no other client.",
                  m->waiters, m->waiters == 1 ? "" : "s",
                  clock_format_duration(m->longest_ns, each, sizeof(each)), m->waiters == 1 ? "" : " each",
                  w->client_id, w->caller ? ", " : "", w->caller ? w->caller : "")
            : finding_say(
                  f,
                  "No other connection had a request waiting when it ended. It came from client %" PRIu64
                  "%s%s.",
                  w->client_id, w->caller ? ", " : "", w->caller ? w->caller : "");
    f->remedy =
        "Ask for less at a time (SCAN instead of KEYS, ranges with a LIMIT, UNLINK instead of DEL), or move "
        "the work to a replica. SLOWLOG shows it only above slowlog-log-slower-than and never shows who "
        "waited: their own commands were quick.";
    f->from_ns = w->start_ns;
    f->to_ns = w->end_ns;
    f->cost_ns = sum->waited_ns;
    int r = finding_add_text(f, "command", name);
    r = finding_add_count(f, "calls_count", sum->calls) < 0 ? -ENOMEM : r;
    r = finding_add_count(f, "executed_ns", sum->time_ns) < 0 ? -ENOMEM : r;
    r = finding_add_count(f, "worst_ns", w->end_ns - w->start_ns) < 0 ? -ENOMEM : r;
    r = finding_add_count(f, "argument_bytes", w->argument_bytes) < 0 ? -ENOMEM : r;
    r = w->arguments >= 0 && finding_add_count(f, "arguments_count", (uint64_t)w->arguments) < 0 ? -ENOMEM
                                                                                                 : r;
    r = finding_add_count(f, "client_id", w->client_id) < 0 ? -ENOMEM : r;
    r = finding_add_count(f, "waiting_clients_count", m->waiters) < 0 ? -ENOMEM : r;
    r = finding_add_count(f, "longest_wait_ns", m->longest_ns) < 0 ? -ENOMEM : r;
    return finding_add_count(f, "delay_ns", sum->waited_ns) < 0 ? -ENOMEM : r;
}

int redis_model_report_slow(const struct redis_model *model, struct report *report)
{
    array_foreach (&model->list, place_of) {
        const struct redis_server *server = *place_of;
        array_foreach (&server->commands, command) {
            struct slow_sum sum = {0};
            array_foreach (&server->queue.slow, slow) {
                if (slow->name != (*command)->name)
                    continue;
                sum.calls++;
                sum.time_ns += slow->end_ns - slow->start_ns;
                sum.waited_ns += slow->waited_ns;
                if (!sum.worst || slow->end_ns - slow->start_ns > sum.worst->end_ns - sum.worst->start_ns)
                    sum.worst = slow;
                if (!sum.most || slow->waiters > sum.most->waiters)
                    sum.most = slow;
            }
            if (sum.calls && report_slow(server, &sum, report) < 0)
                return -ENOMEM;
        }
    }
    return 0;
}
