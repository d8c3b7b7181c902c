/* Words for what fails (failure.c). */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "faults/faults.h"
#include "base/clock.h"

/* Once, an error may be anybody's; a call that failed for requests that were answered matters when it cost
 * them this. */
enum { ERRORS_MIN = 2, RETRYING_MIN = 2, MANY_ATTEMPTS = 5, UNASKED_MIN = 5 };
static const uint64_t FAILED_COST_NS = 100 * NS_PER_MS;

static const char *times(struct finding *f, uint64_t count)
{
    return count == 1 ? "once" : finding_say(f, "%llu times", (unsigned long long)count);
}

/* One or two failed connection attempts while services start are not worth a finding. */
bool verdict_failed_often(const struct fault *fault)
{
    return fault->count >= (fault->victims.count ? 2 : UNASKED_MIN);
}

enum finding_severity verdict_failure_severity(const struct fault *fault)
{
    switch ((int)fault->kind) {
    case FINDING_server_exited:
        return SEVERITY_CRITICAL;
    case FINDING_clients_gave_up: /* who waits for nothing that was seen may do so by design: a long poll */
        return fault->asked && fault->count >= ERRORS_MIN ? SEVERITY_WARNING : SEVERITY_INFO;
    case FINDING_server_errors:
        return fault->count >= ERRORS_MIN ? SEVERITY_WARNING : SEVERITY_INFO;
    case FINDING_retry_storm:
        return fault->count >= RETRYING_MIN || fault->most_attempts >= MANY_ATTEMPTS ? SEVERITY_WARNING
                                                                                     : SEVERITY_INFO;
    default:
        return fault->count > 1 && fault->cost_ns >= FAILED_COST_NS ? SEVERITY_WARNING : SEVERITY_INFO;
    }
}

/* The requests of "GET /x" in all. */
static uint64_t requests_of(const struct analysis *a, const struct fault *fault)
{
    uint64_t count = 0;
    array_foreach (&a->endpoints, place) {
        const struct endpoint *e = &place->endpoint;
        const char *route = route_folded(a, e->service, e->method, e->route);
        size_t length = strlen(e->method);
        if (e->service == fault->service && strncmp(fault->route, e->method, length) == 0 &&
            fault->route[length] == ' ' && strcmp(fault->route + length + 1, route) == 0)
            count += e->count;
    }
    return count ? count : fault->count;
}

const char *grpc_status_words(uint8_t grpc)
{
    static const char *const WORDS[] = {"OK (gRPC status 0)",
                                        "CANCELLED (gRPC status 1)",
                                        "UNKNOWN (gRPC status 2)",
                                        "INVALID_ARGUMENT (gRPC status 3)",
                                        "DEADLINE_EXCEEDED (gRPC status 4)",
                                        "NOT_FOUND (gRPC status 5)",
                                        "ALREADY_EXISTS (gRPC status 6)",
                                        "PERMISSION_DENIED (gRPC status 7)",
                                        "RESOURCE_EXHAUSTED (gRPC status 8)",
                                        "FAILED_PRECONDITION (gRPC status 9)",
                                        "ABORTED (gRPC status 10)",
                                        "OUT_OF_RANGE (gRPC status 11)",
                                        "UNIMPLEMENTED (gRPC status 12)",
                                        "INTERNAL (gRPC status 13)",
                                        "UNAVAILABLE (gRPC status 14)",
                                        "DATA_LOSS (gRPC status 15)",
                                        "UNAUTHENTICATED (gRPC status 16)"};
    return grpc && grpc <= ARRAY_SIZE(WORDS) ? WORDS[grpc - 1] : "an unknown gRPC status";
}

void verdict_server_errors(struct analysis *a, struct finding *f, const struct fault *fault)
{
    uint64_t all = MAX(requests_of(a, fault), fault->count);
    double share = (double)fault->count / (double)all;
    const char *cause = fault->command;
    const char *status =
        fault->grpc > 1 ? grpc_status_words(fault->grpc) : finding_say(f, "%d", fault->status);
    f->title = finding_say(f, "%s answered %s with %s, %s of %llu (%.0f %%)%s%s", fault->service,
                           fault->route, status, times(f, fault->count), (unsigned long long)all, share * 100,
                           cause ? ": " : "", cause ? cause : "");
    f->detail = cause ? finding_say(f, "Before the answer was written, %s.", cause)
                      : "None of the calls that these requests made failed: the service's own code "
                        "answered with it, as frameworks do when a handler throws.";
    if (!cause)
        f->remedy = "The service's log has the exception.";
    verdict_place(f, fault, "http");
    finding_add_text(f, "endpoint", fault->route);
    finding_add_text(f, "status", status);
    finding_add_count(f, "errors_count", fault->count);
    finding_add_count(f, "requests_count", all);
    finding_add_real(f, "error_share", share);
    finding_add_text(f, "first_cause", cause ? cause : "own code");
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

void verdict_failed_calls(struct analysis *a, struct finding *f, const struct fault *fault)
{
    struct duration cost;
    f->title = finding_say(f, "%s: %s, %s", fault->service, fault->command, times(f, fault->count));
    f->detail = fault->victims.count
                    ? finding_say(f,
                                  "The requests that it happened to were answered without an error "
                                  "nevertheless; they spent %s on it.",
                                  say_ns(&cost, fault->cost_ns))
                    : "No request is known to have caused it: a client that reconnects by itself, for "
                      "example.";
    verdict_place(f, fault, "http");
    finding_add_text(f, "what", fault->command);
    finding_add_text(f, "peer", fault->caller ? fault->caller : "unknown");
    finding_add_count(f, "failed_count", fault->count);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

void verdict_retries(struct analysis *a, struct finding *f, const struct fault *fault)
{
    struct duration cost;
    double mean = (double)fault->attempts / (double)fault->count;
    const char *asked = fault->asked ? fault->asked : "a call";
    f->title =
        finding_say(f,
                    "Requests of %s made %s to %s again and again: %llu calls for %llu request%s, up to "
                    "%llu for one",
                    fault->service, asked, fault->caller, (unsigned long long)fault->attempts,
                    (unsigned long long)fault->count, fault->count == 1 ? "" : "s",
                    (unsigned long long)fault->most_attempts);
    f->detail =
        finding_say(f,
                    "%llu of the calls failed: %s. From the first failure to the last call it took "
                    "these requests %s in total, and the callee gets %.1f times the load when "
                    "it can least bear it.",
                    (unsigned long long)fault->failed, fault->command, say_ns(&cost, fault->cost_ns), mean);
    verdict_place(f, fault, "http");
    finding_add_text(f, "what", fault->command);
    finding_add_text(f, "peer", fault->caller);
    finding_add_text(f, "call", asked);
    finding_add_count(f, "requests_count", fault->count);
    finding_add_count(f, "calls_count", fault->attempts);
    finding_add_count(f, "failed_count", fault->failed);
    finding_add_real(f, "calls_per_request", mean);
    finding_add_count(f, "most_count", fault->most_attempts);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

void verdict_exited(struct analysis *a, struct finding *f, const struct fault *fault)
{
    f->title = finding_say(f, "%s ended with exit status %d and left %llu request%s without an answer",
                           fault->service, fault->status, (unsigned long long)fault->count,
                           fault->count == 1 ? "" : "s");
    f->detail = finding_say(
        f, "%s%s",
        fault->status == 1
            ? "Node.js exits with status 1 when an exception or a rejected promise is not caught; "
              "a program may also do so itself (process.exit)."
            : "",
        fault->route ? finding_say(f, " It ended in a callback of %s.", fault->route) : "");
    verdict_place(f, fault, "js");
    finding_add_text(f, "exit_status", finding_say(f, "%d", fault->status));
    finding_add_count(f, "open_count", fault->count);
    finding_add_count(f, "ended_ns", fault->to_ns);
}

void verdict_gave_up(struct analysis *a, struct finding *f, const struct fault *fault)
{
    struct duration worst, mean;
    f->title = finding_say(
        f, "Connections of %llu request%s to %s (%s) were closed before they were answered, after %s%s",
        (unsigned long long)fault->count, fault->count == 1 ? "" : "s", fault->service, fault->route,
        fault->count == 1 ? "" : "up to ", say_ns(&worst, fault->worst_ns));
    f->detail = finding_say(
        f,
        "As a rule a client closes its connection when its time limit is over: these had waited for %s on "
        "average.%s",
        say_ns(&mean, fault->total_ns / MAX(fault->count, 1)),
        fault->asked ? finding_say(f, " One of them had waited for %s most of the time.", fault->asked) : "");
    verdict_place(f, fault, "http");
    finding_add_text(f, "endpoint", fault->route);
    finding_add_count(f, "requests_count", fault->count);
    finding_add_count(f, "waited_ns", fault->total_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    if (fault->asked)
        finding_add_text(f, "waited_for", fault->asked);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

void verdict_retransmissions(struct analysis *a, struct finding *f, const struct fault *fault)
{
    struct duration worst, total;
    bool connecting = strcmp(fault->asked, "connecting") == 0;
    const char *peer = fault->caller ? fault->caller : fault->command;
    const char *what =
        connecting ? finding_say(f, "%s did not answer connects of %s", peer, fault->service)
                   : finding_say(f, "Packets between %s and %s were not acknowledged", fault->service, peer);
    f->title =
        finding_say(f, "%s: requests waited %s for TCP to send them again, up to %s each, %s in total", what,
                    times(f, fault->count), say_ns(&worst, fault->worst_ns), say_ns(&total, fault->total_ns));
    f->detail = finding_say(
        f,
        "In these waits TCP sent %llu segment%s again: packets, or their acknowledgements, were "
        "lost on the way, or the other machine %s. Waiting after the last of them is not counted "
        "here.",
        (unsigned long long)fault->attempts, fault->attempts == 1 ? "" : "s",
        connecting ? "had no room for another connection (a full listen queue)" : "made no progress");
    if (connecting)
        f->remedy = "See whether the other side accepts its connections (ss -ltn there: a Recv-Q that is as "
                    "large as Send-Q is a full listen queue), whether a firewall drops packets, and keep "
                    "connections open.";
    verdict_place(f, fault, "kernel");
    finding_add_text(f, "peer", peer);
    finding_add_text(f, "call", fault->asked);
    finding_add_count(f, "calls_count", fault->count);
    finding_add_count(f, "retransmissions_count", fault->attempts);
    finding_add_count(f, "waited_ns", fault->total_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}
