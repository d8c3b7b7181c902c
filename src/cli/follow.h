/* Findings as they appear, from a trace that is being recorded: `sonde report --follow` and `sonde run
 * --follow`.
 *
 * The trace on disk is read as it grows, by the same passes. What the findings would be now is asked of a
 * copy of the analysis (a forked process), because finishing an analysis changes it: so a live report is what
 * a report of the trace up to this moment says, a callback that has not returned included. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_FOLLOW_H
#define CLI_FOLLOW_H

#include "cli/reading.h"

/* Shows findings until the recording is complete, or a signal comes: on a terminal in place, else a line
 * each, with json a document in a line each. EXIT_DONE, or an exit status after saying what went wrong. */
int follow_run(const struct reading_options *options);

/* Starts `sonde report --follow` on a folder in a process of its own; its pid or a negative errno. It prints
 * the full report when the recording is complete. */
int follow_start(const char *folder, bool json);

/* Waits for it; returns its exit status. */
int follow_wait(int pid);

#endif
