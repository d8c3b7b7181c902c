/* Findings as they appear, from a trace that is being recorded: `sonde report --follow` and `sonde run
 * --follow`.
 *
 * The trace on disk is read as it grows (analyze/live.h), each event once. A live report is what a report of
 * the trace up to this moment says, a callback that has not returned included. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_FOLLOW_H
#define CLI_FOLLOW_H

#include "cli/reading.h"

/* Shows findings until the recording is complete, or a signal comes: on a terminal in place, else a line
 * each, with json a document in a line each. Then the report of the whole, which the caller frees, and the
 * analysis. recorder: becomes readable when the recorder is gone (observe_options.follow), -1: nobody says
 * so. 0 or a negative errno with problem set; -ECANCELED without: it is gone. */
int follow_run(const struct reading_options *options, int recorder, struct problem *problem,
               struct analysis **ret_analysis, struct report *ret_report);

/* What a follower of a recording needs. Waits; whether the recorder is gone. */
bool follow_pause_ms(int recorder, unsigned ms);

/* Ctrl-C and its kin are remembered from now on. A signal that whoever started us has us ignore stays
 * ignored. */
void follow_catch_signals(void);
bool follow_stopped(void);

#endif
