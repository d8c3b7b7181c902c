/* Requests that ask the same store or service again and again, each time for the answer to the last: none of
 * these calls is slow, all of them are (a statement for each row of another one, "N+1"). */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "faults/faults.h"
#include "base/clock.h"

enum { CALLS_MIN = 20, PEERS_MAX = 8 };

static const uint64_t TOGETHER_MIN_NS = 50 * NS_PER_MS;
/* One that takes longer is slow by itself (slow.c). */
static const uint64_t CALL_MAX_NS = 30 * NS_PER_MS;

struct asked {
    const char *peer;
    uint64_t calls, net_ns, until_ns;
    /* The statement that most of them are, if one is (Boyer and Moore's majority vote). */
    const char *statement;
    uint64_t votes;
};

static void vote(struct asked *asked, const char *statement)
{
    if (!asked->votes)
        asked->statement = statement;
    asked->votes += asked->statement == statement ? 1 : UINT64_MAX;
}

static struct asked *asked_of(struct asked *list, size_t *count, const char *peer)
{
    for (size_t i = 0; i < *count; i++)
        if (list[i].peer == peer)
            return &list[i];
    if (*count == PEERS_MAX)
        return NULL;
    list[*count] = (struct asked){.peer = peer};
    return &list[(*count)++];
}

static void charge(struct analysis *a, const struct process *process, struct request *request,
                   const struct asked *asked)
{
    char key[700];
    snprintf(key, sizeof(key), "%s %.256s|%.128s", request->method, request->route, asked->peer);
    struct fault *fault = fault_get(a, FINDING_many_calls, process, key);
    if (!fault)
        return;
    snprintf(key, sizeof(key), "%s %.256s", request->method, request->route);
    fault->route = intern_string(a, key);
    fault->command = asked->peer;
    fault->count++;
    fault->attempts += asked->calls;
    if (asked->calls > fault->most_attempts)
        fault->statement = asked->votes ? asked->statement : NULL;
    fault->most_attempts = MAX(fault->most_attempts, asked->calls);
    fault->total_ns += asked->net_ns;
    fault->worst_ns = MAX(fault->worst_ns, asked->net_ns);
    fault->from_ns = MIN(fault->from_ns, request->start_ns);
    fault->to_ns = MAX(fault->to_ns, request->end_ns);
    fault_add_request(a, fault, request, asked->net_ns, VICTIM_CAUSED);
}

void many_request_done(struct analysis *a, const struct process *process, struct request *request)
{
    struct asked list[PEERS_MAX];
    size_t count = 0;
    const uint64_t *slot = map_get(&process->threads, (uint64_t)request->tid);
    uint64_t latency_ns = request_latency_ns(request);
    if (!slot || request->state != REQUEST_FINISHED || request->messages || latency_ns < TOGETHER_MIN_NS)
        return;
    const struct thread *thread = (const struct thread *)(uintptr_t)*slot;
    array_foreach (&request->spans, span) {
        bool call = span->kind == VSPAN_command || span->kind == VSPAN_http || span->kind == VSPAN_other;
        if (!call || span->shared || !span->peer || span->end_ns <= span->start_ns ||
            span->end_ns > request->end_ns || span->end_ns - span->start_ns > CALL_MAX_NS)
            continue;
        struct asked *asked = asked_of(list, &count, span->peer);
        if (!asked || span->start_ns < asked->until_ns) /* at once with others, or behind them */
            continue;
        asked->calls++;
        vote(asked, span->statement);
        asked->net_ns += activity_net_ns(thread, span->start_ns, span->end_ns);
        asked->until_ns = span->end_ns;
    }
    for (size_t i = 0; i < count; i++)
        if (list[i].calls >= CALLS_MIN && list[i].net_ns >= TOGETHER_MIN_NS &&
            list[i].net_ns * 2 >= latency_ns)
            charge(a, process, request, &list[i]);
}

void verdict_many(struct analysis *a, struct finding *f, const struct fault *fault)
{
    struct duration worst, all;
    const struct process *peer = process_serving(a, fault->command);
    const char *name = peer ? finding_say(f, "%s (%s)", peer->service, fault->command) : fault->command;
    f->title = finding_say(
        f,
        "%s of %s called %s up to %llu times, one after another: %llu request%s, up to %s each, %s in total",
        fault->route, fault->service, name, (unsigned long long)fault->most_attempts,
        (unsigned long long)fault->count, fault->count == 1 ? "" : "s", say_ns(&worst, fault->worst_ns),
        say_ns(&all, fault->total_ns));
    f->detail =
        finding_say(f,
                    "None of these calls took long, but each began only when the one before was answered: "
                    "%llu calls in total, most of the time of these requests.",
                    (unsigned long long)fault->attempts);
    if (fault->statement)
        f->detail = finding_say(f, "%s The statement that was repeated: %s", f->detail, fault->statement);
    verdict_place(f, fault, "http");
    finding_add_text(f, "endpoint", fault->route);
    if (fault->statement)
        finding_add_text(f, "statement", fault->statement);
    finding_add_text(f, "peer", peer ? peer->service : fault->command);
    finding_add_count(f, "requests_count", fault->count);
    finding_add_count(f, "calls_count", fault->attempts);
    finding_add_count(f, "most_count", fault->most_attempts);
    finding_add_count(f, "waited_ns", fault->total_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}
