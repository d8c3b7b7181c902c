/* A line for each process that is attached to: who did it, to whom, what is recorded, until when. It goes to
 * the system's log, where root's tools leave their traces, or to a file of the caller's choice. Called by the
 * session for processes that run already, also those that it follows; who starts a command under sonde
 * attaches to nobody else's process. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_AUDIT_H
#define COLLECT_AUDIT_H

#include <stdint.h>
#include <sys/types.h>

#include "base/problem.h"
#include "base/proc.h"

struct audit {
    int file;   /* that was asked for; -1: the system's log */
    int socket; /* of the system's log; -1: there is none */
    bool journal;
};

/* path: of the file, which is made (0600) or added to; NULL: the system's log, journald's socket or else
 * syslog's. Without a log there is none, which is no error; a file that cannot be written to is one. */
int audit_open(const char *path, struct audit *ret_audit, struct problem *problem);
void audit_close(struct audit *audit);

/* Where lines go, for people: "journald", "syslog", "a file", or NULL: nowhere. */
const char *audit_place(const struct audit *audit);

/* The same with sockets of the caller's, for tests. */
int audit_open_log(const char *journal, const char *syslog, struct audit *ret_audit);

/* what: what is recorded; until_ns: wall clock, 0 when until it is interrupted. A negative errno when the
 * line could not be written. */
int audit_attached(const struct audit *audit, const struct proc *proc, const char *name, const char *what,
                   uint64_t until_ns);

#endif
