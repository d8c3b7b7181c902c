/* A recording: listens for probes, patches the programs they sit in, drains their rings into a trace folder,
 * looks into callbacks that are open too long, and ends cleanly whatever happens. One thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_SESSION_H
#define COLLECT_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/problem.h"
#include "collect/budget.h"
#include "base/macro.h"
#include "event/config.h"
#include "event/families.h"

struct session;

struct session_options {
    const char *folder;                 /* the trace's; made when absent */
    const char *probe_path;             /* libsonde-probe.so */
    uint64_t stall_ns;                  /* callbacks open for longer are looked into; 0: 20 ms */
    enum sonde_level level;             /* how much is recorded at first */
    uint32_t families;                  /* of kernel events at first, bits by enum sonde_family; 0: none */
    bool no_kernel;                     /* nor later, when the level is changed */
    enum sonde_context request_context; /* what is used at most to tell requests apart */
    struct budget_limits budget;        /* zero: the usual */
    /* JavaScript functions whose calls are to be seen, each on a line: "checkout", "Class.method",
     * "file.js:checkout"; "" for none. */
    char functions[SONDE_FUNCTIONS_BYTES];
    bool sql;                  /* the texts of SQL statements are recorded, without values */
    uint64_t written_every_ns; /* what was recorded is written so often; 0: every half second */
    const char *audit_file;    /* attachments are written down there (audit.h); NULL: in the system's log */
    uint64_t until_ns;         /* wall clock: when the caller means to end; 0: when interrupted */
    uid_t user;                /* the command runs as; 0: as sonde itself */
    /* Told in words as things happen (a stall, a program that cannot be traced, a full disk); may be NULL. */
    void (*note)(void *context, const char *line);
    void *context;
};

/* Makes the folder and the socket. -EEXIST when the folder holds a trace. */
int session_new(const struct session_options *options, struct session **ret_session, struct problem *problem);

/* Starts a command (argv ends with NULL) with the probe preloaded. *ret_pid is the child, which the session
 * watches: session_step() says when it is gone. -ENOENT, -EACCES when it cannot be run. */
int session_spawn(struct session *session, char *const argv[], pid_t *ret_pid, struct problem *problem);

/* Attaches to a process that runs, and shares its handle: loads the probe into it and patches it, without a
 * restart. -ENOTSUP when it is no runtime that sonde knows, -EALREADY when it is traced already, -EPERM,
 * -ETIMEDOUT, ... with the problem. */
int session_attach(struct session *session, struct proc *proc, struct problem *problem);

/* Takes the hooks out of a process that a killed sonde, of whatever build, has left in it; needs no session.
 * *ret_hooks: how many there were. -EALREADY when a sonde that lives traces it, -ENOTSUP, -EPERM, -EAGAIN,
 * ... with the problem. */
int session_disarm(struct proc *proc, unsigned *ret_hooks, struct problem *problem);

/* Has a step end early when fd can be read, and sets *readable then; fd is the caller's, and is watched as
 * long as it is open. */
int session_also_wait(struct session *session, int fd, bool *readable);

/* Does what is to be done, for about a few milliseconds. Returns 1 while there is more to wait for, 0 when
 * the child and the daemons that it left behind have ended or, without a child, all attached programs have,
 * a negative errno on failure. *ret_status: the child's wait status once it has ended. */
int session_step(struct session *session, int *ret_status);

/* Records more (1) or less (-1) from now on: the next level, if there is one. */
void session_change_level(struct session *session, int by);

/* Has the child not ended yet? False without one. */
bool session_command_runs(const struct session *session);

/* Ends recording: what is still in rings is drained, open spans are noted, the manifest completed. Programs
 * that live on are detached from: their code is as before. */
int session_finish(struct session *session, struct problem *problem);

/* What was seen, for messages. */
struct session_summary {
    unsigned programs; /* traced, in all */
    unsigned alive;    /* of those, still running */
    uint64_t events;   /* on disk */
    uint64_t bytes;
    uint64_t lost;         /* events, for any reason */
    uint32_t loss_reasons; /* a bit for each enum sonde_loss_reason that there was */
    int write_error;       /* negative errno of the last failed write, 0 */
    uint64_t collector_cpu_ns;
};
void session_summarise(const struct session *session, struct session_summary *ret_summary);

void session_free(struct session *session);
DEFINE_FREEP(struct session, session_free)

#endif
