/* What `sonde run`, `record` and `attach` share: a recording on the command line, its notes, its signals, its
 * end. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_RECORDING_H
#define CLI_RECORDING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/options.h"
#include "collect/kernel.h"
#include "collect/session.h"

struct recording {
    const char *folder; /* NULL until recording_open(): then a folder named by the time */
    bool quiet, json, report;
    const char *level;  /* how much is recorded; NULL: the usual */
    const char *kernel; /* families of kernel events asked for; NULL or "": the usual ones */
    bool no_kernel;
    const char *user;             /* whom the command runs as; NULL: who called sudo, or sonde's own */
    const char *budget;           /* "PERCENT,MB"; NULL: the usual */
    const char *audit;            /* file for lines about attachments; NULL: the system's log */
    uint64_t until_ns;            /* wall clock, when it is to end; 0: unknown */
    bool follow;                  /* findings while it goes on (follow.h) */
    const char *const *follow_by; /* the arguments of who shows them; NULL: `sonde report --follow` */
    uint64_t written_every_ns;    /* as session_options' */
    int follower;                 /* its process; 0: none */
    enum sonde_context request_context;
    bool context_chosen;
    char functions[SONDE_FUNCTIONS_BYTES]; /* as session_options' */
    struct session *session;
    char folder_name[64];
};

/* The options that all recording commands have, and those of the commands that report: into struct recording.
 */
extern const struct option_row recording_rows[], recording_report_rows[];

/* Makes the session. */
int recording_open(struct recording *recording, struct problem *problem);

/* From here on Ctrl-C and its kin wait for recording_loop(), which then ends in good order: for what must not
 * be left half done, as processes that are attached to. Children that are made later inherit this. */
void recording_hold_signals(void);

/* Records until the child (0: none) has ended, all programs have, deadline_ns (0: none) has come, or somebody
 * presses Ctrl-C: a child gets two seconds to end then. *ret_status is the exit status that the child stands
 * for: its own, 128 + signal; 0 without one. */
int recording_loop(struct recording *recording, pid_t child, uint64_t deadline_ns, int *ret_status,
                   struct problem *problem);

/* After recording_loop(): prints the summary and, if wanted, the report. status is what the loop or the steps
 * before it returned (a negative errno: problem says what); child_status what the child stands for. Returns
 * the command's exit status; the session is freed. */
int recording_close(struct recording *recording, int status, int child_status, const struct problem *problem);

#endif
