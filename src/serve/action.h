/* What is done by itself when a rollout is slower: a command of the operator's, with the evidence on its
 * standard input, no more often than allowed and for no longer, and each run in an audit log whose lines are
 * chained by hashes, so that none can be changed or taken out without its showing. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_ACTION_H
#define SERVE_ACTION_H

#include "base/problem.h"
#include "serve/alerts.h"

#define ACTION_PER_HOUR  3
#define ACTION_TIMEOUT_S 60

struct action_settings {
    const char *command; /* for /bin/sh -c; NULL: nothing is done */
    bool dry_run;        /* only the audit log is written */
    unsigned per_hour;   /* runs; 0: ACTION_PER_HOUR */
    double timeout_s;    /* then it is killed; 0: ACTION_TIMEOUT_S */
    const char *audit;   /* file; NULL: no log */
};

enum action_outcome { ACTION_DONE, ACTION_FAILED, ACTION_TIMED_OUT, ACTION_DRY, ACTION_TOO_OFTEN };

/* Has the command run for a firing alert (by serve/launcher.h) and waits for its end. The evidence is
 * alert_json(). A negative errno when it could not be started or logged; what became of it is in ret_outcome.
 */
int action_run(const struct action_settings *settings, const struct alert *alert,
               enum action_outcome *ret_outcome, struct problem *problem);

const char *action_outcome_name(enum action_outcome outcome);

/* Whether the lines of an audit log follow from each other. -EBADMSG with the first line that does not. */
int action_audit_check(const char *path, uint64_t *ret_lines, struct problem *problem);

#endif
