/* What is this thread doing right now, and why does it take so long? For an event loop whose callback has
 * been open for tens of milliseconds: one look at the thread's stack from outside, which stops the thread for
 * well under a millisecond. Needs the right to trace the process (the same user, or root) and nothing else.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_STALL_H
#define COLLECT_STALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macro.h"
#include "base/problem.h"
#include "base/proc.h"

#define STALL_FRAMES_MAX 128

enum stall_cause {
    STALL_REGEXP,     /* matching a regular expression */
    STALL_JAVASCRIPT, /* running JavaScript */
    STALL_BUILTIN,    /* a long call of JavaScript's or Node.js's library: JSON.parse, pbkdf2Sync */
    STALL_GC,         /* collecting garbage */
    STALL_NATIVE,     /* other native code */
    STALL_WAITING,    /* in a system call: not running */
    STALL_CAUSES,
};

/* "regexp", "javascript", ... */
const char *stall_cause_name(enum stall_cause cause);

enum stall_frame_kind {
    STALL_FRAME_NATIVE,
    STALL_FRAME_JS,
    STALL_FRAME_BUILTIN,
    STALL_FRAME_REGEXP,
    STALL_FRAME_ENTRY,
    STALL_FRAME_LEFT_OUT, /* stands for those that there was no room for: its neighbours did not call one
                             another */
};

/* Strings are owned by the report; NULL when unknown. Lines and columns count from 1; 0 is unknown. */
struct stall_frame {
    enum stall_frame_kind kind;
    char *function;
    char *script;
    uint32_t line, column;
    bool exact; /* the position is V8's own, not found by matching bytecodes with the source */
};

struct stall_report {
    enum stall_cause cause;
    struct stall_frame frames[STALL_FRAMES_MAX]; /* the innermost first; of a deep stack both ends */
    size_t count;
    bool loading;       /* the runtime loads modules, which takes long by nature */
    char truncated[64]; /* why frames are missing; "" when none is */
    int where; /* index of the JavaScript frame responsible: the innermost one of a script of the user,
                  otherwise the innermost; -1 when no JavaScript runs */
    char *pattern, *flags; /* of the regular expression when cause is STALL_REGEXP and it was found */
    char *builtin;         /* what is called when cause is STALL_BUILTIN: "JSON.parse" */
    int64_t system_call;   /* number of the system call when cause is STALL_WAITING, otherwise -1 */
    uint64_t at_ns;        /* CLOCK_MONOTONIC, when the thread was stopped */
    uint64_t stopped_ns;   /* for how long */
};

struct stall_sampler;

/* Keeps what it learnt of a few processes (mappings, V8's layout, symbols) from look to look. */
int stall_sampler_new(struct stall_sampler **ret_sampler);
void stall_sampler_free(struct stall_sampler *sampler);
DEFINE_FREEP(struct stall_sampler, stall_sampler_free)

/* Reads the process's layout beforehand, so that the first look is quick. 0, or why it cannot be sampled. */
int stall_prepare(struct stall_sampler *sampler, struct proc *proc, struct problem *problem);

/* One look at a thread. The report is released with stall_report_done(). -ESRCH when the thread is gone,
 * -EPERM when it may not be traced (or a debugger does already), -ETIMEDOUT when it did not stop in time. */
int stall_sample(struct stall_sampler *sampler, struct proc *proc, pid_t tid, struct stall_report *ret_report,
                 struct problem *problem);
void stall_report_done(struct stall_report *report);

/* Forgets a process that ended, or executes another program. */
void stall_forget(struct stall_sampler *sampler, const struct proc *proc);

/* What else there is to do while a look is taken, as broker_while_waiting(). */
void stall_while_waiting(struct stall_sampler *sampler, void (*while_waiting)(void *context), void *context);

/* Its workers (broker/broker.h). */
struct broker;
const struct broker *stall_broker(const struct stall_sampler *sampler);

#endif
