/* Why a report has no findings, in words. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "faults/faults.h"
#include "base/choice.h"
#include "base/clock.h"

/* The first traced process of a runtime that did not end well; NULL: there is none. */
static const struct process *failed_process(const struct analysis *a)
{
    array_foreach (&a->all_processes, place) {
        const struct process *process = *place;
        if (process->runtime != SONDE_runtime_other && process->ended_ns && process->exit_status > 0)
            return process;
    }
    return NULL;
}

/* It ended by itself before it was of use to anybody: what it printed says more than its events. */
static const char *ended_early(struct analysis *a, const struct process *process)
{
    char took[32], words[400];
    int status = process->exit_status;
    bool killed = WIFSIGNALED(status);
    uint64_t lived_ns = process->ended_ns > process->started_ns ? process->ended_ns - process->started_ns : 0;
    const char *signal = killed ? sigabbrev_np(WTERMSIG(status)) : NULL;
    char how[64];
    if (killed)
        snprintf(how, sizeof(how), "was killed by SIG%s", signal ? signal : "?");
    else
        snprintf(how, sizeof(how), "ended with status %d", WEXITSTATUS(status));
    snprintf(
        words, sizeof(words),
        "%.80s (process %lld) %s %s after it began, before it served a request or executed a command: see "
        "what it printed.",
        process->service, (long long)process->pid, how, clock_format_duration(lived_ns, took, sizeof(took)));
    return intern_string(a, words);
}

static bool has_process_of(const struct analysis *a, uint8_t runtime)
{
    array_foreach (&a->all_processes, process)
        if ((*process)->runtime == runtime)
            return true;
    return false;
}

/* The first of the targets that has words for it speaks. */
static const char *nothing_asked(struct analysis *a)
{
    for (const struct analyzer *const *analyzer = a->analyzers; *analyzer; analyzer++)
        if ((*analyzer)->unasked && has_process_of(a, (*analyzer)->runtime))
            return (*analyzer)->unasked;
    if (a->counts.of_targets)
        return "Only programs were traced that are not searched for slow requests.";
    const char *names[SONDE_RUNTIMES];
    size_t count = 0;
    char choice[200], words[260];
    for (const struct analyzer *const *analyzer = a->analyzers; *analyzer; analyzer++)
        if ((*analyzer)->called && count < ARRAY_SIZE(names))
            names[count++] = (*analyzer)->called;
    choice_say(names, count, choice, sizeof(choice));
    snprintf(words, sizeof(words), "No %s process was traced: sonde supports only these.", choice);
    return intern_string(a, words);
}

const char *verdict_nothing(struct analysis *a)
{
    const struct analysis_counts *c = &a->counts;
    const struct process *failed = !c->requests && !c->commands ? failed_process(a) : NULL;
    const char *words = failed ? ended_early(a, failed) : NULL;
    if (words)
        return words;
    if (!c->events)
        return "The trace holds no events: the program ended before anything happened, or nothing in it "
               "could be traced (see what is listed as not seen).";
    if (!c->requests && !c->commands)
        return nothing_asked(a);
    if (!c->requests)
        return "No HTTP request was served, and no Redis command took long.";
    if (a->requests_only)
        return "Only requests and commands were recorded, at least for a time: how long they took is known, "
               "and why is not (--level usual).";
    return "Every request that was served got its answer without one of the faults that sonde knows: no "
           "event loop was blocked, no thread pool starved, no Redis command slow.";
}
