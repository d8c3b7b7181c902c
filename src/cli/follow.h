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

/* What a follower of a recording needs. Looks whether the recording is complete; *ret_settled_ns: what ended
 * longer ago has been written. */
bool follow_look(const char *folder, uint64_t *ret_settled_ns);
void follow_pause_ms(unsigned ms);

/* Ctrl-C and its kin are remembered from now on. A signal that whoever started us has us ignore stays
 * ignored. */
void follow_catch_signals(void);
bool follow_stopped(void);

/* Starts `sonde ARGUMENT... FOLDER` in a process of its own, which follows the recording until it is complete
 * and prints its report then; its pid or a negative errno. arguments ends with NULL and has at most
 * FOLLOW_ARGUMENTS. */
enum { FOLLOW_ARGUMENTS = 12 };
int follow_start(const char *folder, const char *const arguments[]);

/* Waits for it; returns its exit status. */
int follow_wait(int pid);

#endif
