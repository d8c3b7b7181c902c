/* Words for waits of requests in front of something: pools that had too few connections or workers (lanes.c),
 * and what was not seen (unexplained.c). */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "faults/faults.h"

const struct holder *holder_of_most(const struct holder holders[8], double *ret_share)
{
    const struct holder *most = &holders[0];
    uint64_t all_ns = 0;
    for (size_t i = 0; i < 8; i++) {
        const struct holder *h = &holders[i];
        all_ns += h->total_ns;
        if (h->total_ns > most->total_ns)
            most = h;
    }
    *ret_share = all_ns ? (double)most->total_ns / (double)all_ns : 0;
    return most;
}

void verdict_pool(struct analysis *a, struct finding *f, const struct fault *fault)
{
    bool workers = fault->kind == FINDING_worker_pool_starved;
    struct duration worst, all, held, queue;
    double share, of_statements;
    const struct holder *most = holder_of_most(fault->holders, &share);
    const char *statement = holder_of_most(fault->statements, &of_statements)->route;
    const struct process *peer = process_serving(a, fault->command);
    const char *to = workers ? ""
                     : peer  ? finding_say(f, " to %s (%s)", peer->service, fault->command)
                             : finding_say(f, " to %s", fault->command);
    const char *lanes = workers ? "worker thread" : fault->limited ? "call" : "connection";
    f->title = finding_say(
        f, "Requests of %s waited for one of %u %s%s%s%s: %llu time%s, up to %s each, %s in total",
        fault->service, fault->lanes, lanes, fault->lanes == 1 ? "" : "s", to,
        fault->limited ? " at a time" : "", (unsigned long long)fault->count, fault->count == 1 ? "" : "s",
        say_ns(&worst, fault->worst_ns), say_ns(&all, fault->total_ns));
    const char *who = most->route ? most->route
                      : workers   ? "tasks whose requests are not known"
                                  : "others whose requests are not known";
    const char *machine =
        fault->run_queue_ns * 10 > fault->total_ns
            ? finding_say(
                  f,
                  " For %s of that time %s waited for a CPU, which is due to the machine's load and is "
                  "not counted as lost here.",
                  say_ns(&queue, fault->run_queue_ns), workers ? "the workers themselves" : "the event loop")
            : "";
    if (workers && !fault->later)
        machine = finding_say(f, "%s It was their first task, for which they were started.", machine);
    if (fault->excused_count)
        machine = finding_say(
            f,
            "%s In %llu of these waits no CPU of this machine was idle, and they took no longer than a peer "
            "may take that waits for a CPU as %s did: whether the connections are too few is not known "
            "from them.",
            machine, (unsigned long long)fault->excused_count, fault->service);
    f->detail = finding_say(
        f,
        "Nothing else was seen that they could have waited for, and %s busy all that time: %.0f %% of "
        "it with %s, up to %s at a time.%s %s%s",
        fault->lanes == 1 ? "it was" : "all of them were", share * 100, who, say_ns(&held, most->worst_ns),
        statement ? finding_say(f, " Most of it was for the statement: %s.", statement) : "",
        workers          ? "A worker does one task at a time."
        : fault->limited ? "More were never in progress, although there were connections for them, and when "
                           "one ended the next one began."
                         : "Each serves one request at a time.",
        machine);
    verdict_place(f, fault, workers ? "js" : "http");
    if (!workers)
        finding_add_text(f, "peer", peer ? peer->service : fault->command);
    finding_add_count(f, "lanes_count", fault->lanes);
    finding_add_count(f, "waits_count", fault->count);
    if (fault->excused_count)
        finding_add_count(f, "excused_count", fault->excused_count);
    finding_add_count(f, "waited_ns", fault->total_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_count(f, "run_queue_ns", fault->run_queue_ns);
    finding_add_text(f, "held_by", who);
    finding_add_real(f, "held_share", share);
    finding_add_count(f, "held_worst_ns", most->worst_ns);
    if (statement)
        finding_add_text(f, "statement", statement);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

void verdict_unexplained(struct analysis *a, struct finding *f, const struct fault *fault)
{
    struct duration worst, all;
    f->title = finding_say(
        f, "%s of %s waited for something that was not seen: %llu time%s, up to %s each, %s in total",
        fault->route, fault->service, (unsigned long long)fault->count, fault->count == 1 ? "" : "s",
        say_ns(&worst, fault->worst_ns), say_ns(&all, fault->total_ns));
    const char *busy =
        fault->command
            ? finding_say(f, " Meanwhile %s to %s busy with others, which may be why.",
                          fault->lanes == 1 ? "the only connection"
                                            : finding_say(f, "all %u connections", fault->lanes),
                          finding_say(f, "%s %s", fault->command, fault->lanes == 1 ? "was" : "were"))
            : "";
    const char *work = fault->inner
                           ? finding_say(f,
                                         " Meanwhile %s was worked on for one of several requests, it "
                                         "is not known which: these may have waited for it.",
                                         fault->inner)
                           : "";
    const char *ambiguous = fault->queued_commands
                                ? " What other requests and these started at once could not be distinguished."
                                : "";
    const char *timer =
        fault->failed == fault->count
            ? " A timer of the program ended it: a pause, a time limit, or that of a "
              "request for which these waited."
        : fault->failed ? finding_say(f,
                                      " %llu of them were ended by a timer of the program: a pause, a time "
                                      "limit, or that of a request for which these waited.",
                                      (unsigned long long)fault->failed)
                        : "";
    const char *broker =
        fault->asked ? finding_say(f,
                                   " The program exchanges messages through a broker (%s), none of which is "
                                   "known to answer another: these may have waited for one.",
                                   fault->asked)
                     : "";
    f->detail = finding_say(
        f,
        "For that long the event loop was free to go on with them, and none of their operations was known "
        "to be in progress: a lock or a "
        "queue of the program's own, an event of another request, a timer of a library, or "
        "something that sonde does not trace.%s%s%s%s%s",
        timer, busy, work, broker, ambiguous);
    verdict_place(f, fault, NULL);
    finding_add_count(f, "waits_count", fault->count);
    finding_add_count(f, "waited_ns", fault->total_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    if (fault->command) {
        finding_add_text(f, "busy_peer", fault->command);
        finding_add_count(f, "busy_count", fault->lanes);
    }
    if (fault->inner)
        finding_add_text(f, "work", fault->inner);
    if (fault->asked)
        finding_add_text(f, "broker", fault->asked);
    finding_add_count(f, "ambiguous_count", fault->queued_commands);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}
