/* What `sonde run`, `record`, `attach` and `redis` share: an observation on the command line, its options,
 * its signals, what is printed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_RECORDING_H
#define CLI_RECORDING_H

#include <stdbool.h>

#include "cli/options.h"
#include "observe/observe.h"

struct recording {
    struct observe_options observe;
    bool quiet, json;
    bool report; /* at the end */
    bool follow; /* findings while it goes on (follow.h) */
    /* Shows them, in a process of its own, and the report at the end: an exit status. NULL: as `sonde report
     * --follow`. recorder: as observe_options.follow's. */
    int (*follow_by)(void *context, const char *folder, int recorder);
    void *follow_context;
    char functions[SONDE_FUNCTIONS_BYTES]; /* for observe.functions */
    struct observation *observation;
};

/* The options that all recording commands have, and those of the commands that report: into struct recording.
 */
extern const struct option_row recording_rows[], recording_report_rows[];

/* Makes the observation. */
int recording_open(struct recording *recording, struct problem *problem);

/* From here on Ctrl-C and its kin wait for recording_run(), which then ends in good order: for what must not
 * be left half done, as processes that are attached to. Children that are made later inherit this. */
void recording_hold_signals(void);

/* Records until what is observed has ended, or somebody presses Ctrl-C. */
int recording_run(struct recording *recording, struct problem *problem);

/* After recording_run(): prints the summary and, if wanted, the report. status is what it or the steps before
 * it returned (a negative errno: problem says what). Returns the command's exit status; the observation is
 * freed. */
int recording_close(struct recording *recording, int status, const struct problem *problem);

#endif
