/* What fails: requests answered with an error of the server, with what had failed before; calls and connects
 * that fail though their request does not; calls repeated for one request; services that end with an error.
 *
 * One cause is reported once: an error that a service passes on from another traced one is the other one's.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "faults/faults.h"
#include "base/clock.h"

enum { SERVER_ERROR = 500, CONNECTS_KEPT = 1024, STORM_ATTEMPTS = 3, STORM_FAILED = 2, GROUPS_MAX = 64 };

/* What had not answered for so long when its request was answered is taken to have been given up. */
static const uint64_t UNANSWERED_NS = 100 * NS_PER_MS;
/* A shorter wait before a timer goes off is no time limit. */
static const uint64_t TIME_LIMIT_NS = 50 * NS_PER_MS;
/* Who closes its connection after so long has waited for an answer in vain. */
static const uint64_t GIVEN_UP_NS = 500 * NS_PER_MS;

/* ---- connects, as the kernel tells of them ---- */

struct connect_end {
    uint64_t start_ns, end_ns;
    int64_t tid;
    const char *peer;
    int error;       /* a negative errno, 0: connected */
    uint8_t resent;  /* how often the kernel asked again, since there was no answer */
    bool portless;   /* there was no local port for it */
    bool of_request; /* a request asked for it */
};

/* The newest at count - 1, modulo. */
struct connects {
    struct connect_end ends[CONNECTS_KEPT];
    size_t count, told; /* ever; of them, examined for those that no request made */
};

void failure_forget(struct process *process)
{
    free(process->connects);
}

static const char *error_words(const struct connect_end *end)
{
    switch (-end->error) {
    case ECANCELED:
        return end->portless ? "no local port was left" : "closed before there was an answer";
    case ECONNREFUSED:
        return "connection refused";
    case ETIMEDOUT:
        return "timed out";
    case EHOSTUNREACH:
    case ENETUNREACH:
        return "unreachable";
    case ECONNRESET:
        return "connection reset";
    }
    return strerrordesc_np(-end->error) ? strerrordesc_np(-end->error) : "an unknown error";
}

static const char *connect_words(struct analysis *a, const struct connect_end *end)
{
    char words[256];
    snprintf(words, sizeof(words), "connecting to %.80s failed: %.60s", end->peer, error_words(end));
    return intern_string(a, words);
}

/* How a fault is added to: of a call, a connect or a request. */
static struct fault *charge(struct analysis *a, enum finding_kind kind, const struct process *process,
                            const char *words, const char *peer, uint64_t start_ns, uint64_t end_ns)
{
    struct fault *fault = fault_get(a, kind, process, words);
    if (!fault)
        return NULL;
    uint64_t took_ns = end_ns > start_ns ? end_ns - start_ns : 0;
    fault->process = process;
    fault->command = words;
    fault->caller = peer;
    fault->count++;
    fault->total_ns += took_ns;
    fault->worst_ns = MAX(fault->worst_ns, took_ns);
    fault->from_ns = MIN(fault->from_ns, start_ns);
    fault->to_ns = MAX(fault->to_ns, end_ns);
    return fault;
}

/* One that no request asked for, of a client that connects again by itself for example. */
static void unasked(struct analysis *a, const struct process *process, const struct connect_end *end)
{
    if (end->error && !end->of_request)
        charge(a, FINDING_failed_calls, process, connect_words(a, end), end->peer, end->start_ns,
               end->end_ns);
}

static void connect_event(struct analysis *a, struct thread *none, const struct event *e)
{
    struct process *process = process_get(a, (int64_t)U(e, tcp_connect_pid));
    const struct analyzer *analyzer = process ? analyzer_of(a, process) : NULL;
    if (!analyzer || !analyzer->hosts_services)
        return;
    if (!process->connects && !(process->connects = calloc(1, sizeof(*process->connects)))) {
        a->failed = true;
        return;
    }
    struct connects *all = process->connects;
    struct connect_end *end = &all->ends[all->count % CONNECTS_KEPT];
    if (all->count - all->told >= CONNECTS_KEPT)
        unasked(a, process, &all->ends[all->told++ % CONNECTS_KEPT]);
    const struct address peer = {U(e, tcp_connect_peer_high), U(e, tcp_connect_peer_low),
                                 (uint16_t)U(e, tcp_connect_peer_port)};
    int64_t result = I(e, tcp_connect_result);
    *end = (struct connect_end){.start_ns = e->time_ns - event_duration(e),
                                .end_ns = e->time_ns,
                                .tid = (int64_t)U(e, tcp_connect_tid),
                                .peer = address_name(a, &peer),
                                .error = result < 0 && result > -4096 ? (int)result : 0,
                                .resent = (uint8_t)U(e, tcp_connect_resent),
                                .portless = !U(e, tcp_connect_local_port)};
    all->count++;
}

const struct event_reading FAILURE_EVENTS[] = {{SONDE_EVENT_tcp_connect, connect_event}, {0}};

/* The connect that a resource made for the request began: the first on its thread since. */
static struct connect_end *connect_of(const struct process *process, const struct request *request,
                                      const struct vspan *span)
{
    struct connects *all = process->connects;
    uint64_t until_ns = span->end_ns ? span->end_ns : request->end_ns;
    for (size_t i = all && all->count > CONNECTS_KEPT ? all->count - CONNECTS_KEPT : 0; all && i < all->count;
         i++) {
        struct connect_end *end = &all->ends[i % CONNECTS_KEPT];
        if (end->tid == request->tid && !end->of_request && end->start_ns >= span->start_ns &&
            end->start_ns <= until_ns)
            return end;
    }
    return NULL;
}

static bool is_connecting(const struct vspan *span)
{
    return span->kind == VSPAN_other && !span->peer && span->name && strcmp(span->name, "connecting") == 0;
}

/* ---- what failed for a request ---- */

static bool is_error(const struct request *request)
{
    return request->state != REQUEST_UNFINISHED && status_is_error(request->status, request->grpc);
}

struct failed {
    const char *words; /* interned */
    const char *peer;  /* the address or service; NULL */
    const char *name;  /* what was asked, of a connect "connecting" */
    uint64_t start_ns, end_ns;
    struct request *passed_on; /* the other service's request that was answered with an error; NULL */
    bool local;                /* a file operation: programs look for files that need not be there */
};

static const char *peer_of(const struct vspan *span)
{
    return span->child ? span->child->service : span->peer ? span->peer : "a socket";
}

/* Of a request that was answered with an error. Others may have sent it without waiting for an answer. */
static bool is_unanswered(const struct request *request, const struct vspan *span)
{
    return is_error(request) && !span->end_ns && request->end_ns - span->start_ns >= UNANSWERED_NS;
}

static bool http_failed(struct analysis *a, const struct request *request, const struct vspan *span,
                        struct failed *ret)
{
    const char *peer = peer_of(span);
    char words[512];
    if (span->message)
        return false;
    if (span->status < SERVER_ERROR && status_is_error(span->status, span->grpc))
        snprintf(words, sizeof(words), "%.100s answered %.300s with %.60s", peer, span->name,
                 grpc_status_words(span->grpc));
    else if (span->status >= SERVER_ERROR)
        snprintf(words, sizeof(words), "%.100s answered %.300s with %u", peer, span->name, span->status);
    else if (span->status)
        return false;
    else if (span->lost == VSPAN_CUT_OFF)
        snprintf(words, sizeof(words), "%.100s closed the connection without answering %.300s", peer,
                 span->name);
    else if (span->lost || is_unanswered(request, span))
        snprintf(words, sizeof(words), "%.300s to %.100s was given up without an answer%s", span->name, peer,
                 span->resends ? " while TCP sent it again and again" : "");
    else
        return false;
    ret->words = intern_string(a, words);
    ret->passed_on = span->child && span->child->failure ? span->child : NULL;
    return true;
}

/* Whether it failed. */
static bool span_failed(struct analysis *a, const struct process *process, const struct request *request,
                        struct vspan *span, struct failed *ret)
{
    uint64_t end_ns = span->end_ns && span->end_ns < request->end_ns ? span->end_ns : request->end_ns;
    char words[200];
    *ret =
        (struct failed){.start_ns = span->start_ns, .end_ns = end_ns, .name = span->name, .peer = span->peer};
    if (span->kind == VSPAN_http)
        return http_failed(a, request, span, ret);
    if (is_connecting(span)) {
        struct connect_end *end = connect_of(process, request, span);
        if (!end)
            return false;
        end->of_request = true;
        span->peer = end->peer;
        span->resends = end->resent;
        span->resent_ns = end->resent ? end->end_ns : 0;
        if (!end->error)
            return false;
        ret->peer = end->peer;
        ret->words = connect_words(a, end);
        return true;
    }
    if ((span->kind == VSPAN_other || span->kind == VSPAN_command) && span->peer &&
        is_unanswered(request, span)) {
        snprintf(words, sizeof(words), "%.100s had not answered", span->peer);
        ret->words = intern_string(a, words);
        return true;
    }
    if (span->kind == VSPAN_pool && span->result < 0 && span->name) {
        const char *error = strerrorname_np((int)-span->result);
        snprintf(words, sizeof(words), "%.60s failed: %.60s", span->name, error ? error : "unknown");
        ret->words = intern_string(a, words);
        ret->local = true;
        return true;
    }
    return false;
}

/* What failed last before the answer is its cause; of files only where nothing else did. */
static void keep_cause(struct failed *cause, const struct failed *one)
{
    if (cause->words &&
        (one->local > cause->local || (one->local == cause->local && one->end_ns < cause->end_ns)))
        return;
    *cause = *one;
}

/* ---- attempts ---- */

struct attempts {
    const char *name, *peer, *words;
    uint64_t count, failed, first_failed_ns, last_ns;
};

static struct attempts *attempts_of(struct attempts *groups, size_t *count, const char *name,
                                    const char *peer)
{
    for (size_t i = 0; i < *count; i++)
        if (groups[i].name == name && groups[i].peer == peer)
            return &groups[i];
    if (*count == GROUPS_MAX)
        return NULL;
    groups[*count] = (struct attempts){.name = name, .peer = peer};
    return &groups[(*count)++];
}

static void count_attempt(struct attempts *groups, size_t *count, const struct vspan *span,
                          const struct failed *failed)
{
    const char *peer = failed ? failed->peer : span->peer;
    struct attempts *group = peer && (span->kind == VSPAN_http || is_connecting(span))
                                 ? attempts_of(groups, count, span->name, peer)
                                 : NULL;
    if (!group)
        return;
    group->count++;
    group->last_ns = MAX(group->last_ns, span->start_ns);
    if (!failed)
        return;
    group->words = failed->words;
    group->first_failed_ns = group->failed++ ? MIN(group->first_failed_ns, failed->end_ns) : failed->end_ns;
}

static void judge_attempts(struct analysis *a, const struct process *process, struct request *request,
                           const struct attempts *group)
{
    if (group->count < STORM_ATTEMPTS || group->failed < STORM_FAILED ||
        group->last_ns <= group->first_failed_ns)
        return;
    struct fault *fault = charge(a, FINDING_retry_storm, process, group->words, group->peer,
                                 group->first_failed_ns, group->last_ns);
    if (!fault)
        return;
    fault->asked = group->name;
    fault->attempts += group->count;
    fault->failed += group->failed;
    fault->most_attempts = MAX(fault->most_attempts, group->count);
    fault_add_request(a, fault, request, group->last_ns - group->first_failed_ns, VICTIM_WAITED);
}

/* ---- requests ---- */

/* The request's process ended with an error before it was answered. */
static bool is_ended_by_error(const struct process *process)
{
    enum { INTERRUPTED = 128 + 2, TERMINATED = 128 + 15 }; /* as programs end themselves that are asked to */
    int status = process->exit_status;
    if (status < 0 || !WIFEXITED(status))
        return false;
    return WEXITSTATUS(status) && WEXITSTATUS(status) != INTERRUPTED && WEXITSTATUS(status) != TERMINATED;
}

static bool was_running(const struct request *request)
{
    array_foreach (&request->spans, span)
        if (span->kind == VSPAN_callback && !span->end_ns)
            return true;
    return false;
}

static void ended_with_process(struct analysis *a, const struct process *process, struct request *request)
{
    struct fault *fault =
        charge(a, FINDING_server_exited, process, "", NULL, process->ended_ns, process->ended_ns);
    if (!fault)
        return;
    fault->pid = process->pid;
    fault->status = WEXITSTATUS(process->exit_status);
    bool running = was_running(request);
    if (running)
        fault->route = request->route;
    fault_add_request(a, fault, request, request_latency_ns(request),
                      running ? VICTIM_CAUSED : VICTIM_WAITED);
}

/* What a request waited for longest, as a clause; NULL: it was not seen. */
static const char *longest_wait(struct analysis *a, const struct request *request)
{
    char words[200];
    const struct path_step *most = path_dominant(request);
    if (!most || most->class == PATH_OTHER)
        return NULL;
    const struct vspan *span = most->span != VSPAN_NONE ? &request->spans.at[most->span] : NULL;
    const char *peer = span && span->peer ? span->peer : most->service;
    if (most->class == PATH_PEER || most->class == PATH_QUEUE || most->class == PATH_STORE)
        snprintf(words, sizeof(words), "an answer of %.100s", peer ? peer : "another program");
    else if (most->class == PATH_POOL || most->class == PATH_POOL_QUEUE)
        snprintf(words, sizeof(words), "%.60s on the thread pool", most->name ? most->name : "an operation");
    else
        snprintf(words, sizeof(words), "the event loop");
    return intern_string(a, words);
}

/* Its connection was closed before it was answered. Callers that are traced say so themselves, and what is
 * cut off soon is the end of a test or a page that somebody left. */
static void closed_without_answer(struct analysis *a, const struct process *process, struct request *request)
{
    char key[320];
    if (request->caller || request->messages || request_latency_ns(request) < GIVEN_UP_NS)
        return;
    snprintf(key, sizeof(key), "%s %.256s", request->method, request->route);
    struct fault *fault =
        charge(a, FINDING_clients_gave_up, process, key, NULL, request->start_ns, request->end_ns);
    if (!fault)
        return;
    fault->route = intern_string(a, key);
    if (!fault->asked)
        fault->asked = longest_wait(a, request);
    fault_add_request(a, fault, request, request_latency_ns(request), VICTIM_WAITED);
}

static void answered_with_error(struct analysis *a, const struct process *process, struct request *request,
                                const struct failed *cause)
{
    struct failed timed_out = {0};
    if (cause->passed_on) {
        request->failure = cause->passed_on->failure;
        fault_add_request(a, request->failure, request, request_latency_ns(request), VICTIM_UPSTREAM);
        return;
    }
    /* Nothing failed, but a timer ended what it waited for, whatever that was. */
    if (!cause->words && request->answered_by_timer && request_latency_ns(request) >= TIME_LIMIT_NS) {
        timed_out.words = intern_string(a, "a timer of the service's own went off: a time limit or a pause");
        cause = &timed_out;
    }
    char key[1000], route[320];
    snprintf(route, sizeof(route), "%s %.256s", request->method, request->route);
    snprintf(key, sizeof(key), "%s|%u|%u|%s", route, request->status, request->grpc,
             cause->words ? cause->words : "");
    struct fault *fault =
        charge(a, FINDING_server_errors, process, key, cause->peer, request->start_ns, request->end_ns);
    if (!fault)
        return;
    fault->command = cause->words;
    fault->route = intern_string(a, route);
    fault->status = request->status;
    fault->grpc = request->grpc;
    request->failure = fault;
    fault_add_request(a, fault, request, request_latency_ns(request), VICTIM_WAITED);
}

bool failure_covers(const struct request *request, uint64_t start_ns, uint64_t end_ns)
{
    array_foreach (&request->spans, span) {
        if (!span->lost && !(span->kind != VSPAN_callback && is_unanswered(request, span)))
            continue;
        uint64_t until_ns = span->end_ns ? MIN(span->end_ns, end_ns) : end_ns;
        uint64_t from_ns = MAX(span->start_ns, start_ns);
        if (until_ns > from_ns && (until_ns - from_ns) * 10 >= (end_ns - start_ns) * 9)
            return true;
    }
    return false;
}

void failure_request_done(struct analysis *a, const struct process *process, struct request *request)
{
    struct attempts groups[GROUPS_MAX];
    struct failed cause = {0}, failed;
    size_t group_count = 0;
    bool error = is_error(request);
    if (request->state == REQUEST_UNFINISHED) {
        if (is_ended_by_error(process))
            ended_with_process(a, process, request);
        return;
    }
    if (request->state == REQUEST_ABORTED) {
        closed_without_answer(a, process, request);
        return;
    }
    array_foreach (&request->spans, span) {
        bool bad = span_failed(a, process, request, span, &failed);
        if (!span->shared)
            count_attempt(groups, &group_count, span, bad ? &failed : NULL);
        if (!bad)
            continue;
        keep_cause(&cause, &failed);
        struct fault *fault = error || span->shared || failed.local || failed.passed_on
                                  ? NULL
                                  : charge(a, FINDING_failed_calls, process, failed.words, failed.peer,
                                           failed.start_ns, failed.end_ns);
        if (fault)
            fault_add_request(a, fault, request, failed.end_ns - failed.start_ns, VICTIM_WAITED);
    }
    for (size_t i = 0; i < group_count; i++)
        judge_attempts(a, process, request, &groups[i]);
    if (error)
        answered_with_error(a, process, request, &cause);
}

void failures_judge(struct analysis *a)
{
    array_foreach (&a->all_processes, place) {
        struct connects *all = (*place)->connects;
        for (size_t i = all ? all->told : 0; all && i < all->count; i++)
            unasked(a, *place, &all->ends[i % CONNECTS_KEPT]);
        if (all && !a->so_far)
            all->told = all->count;
    }
}
