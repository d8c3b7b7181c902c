/* Reading a trace folder for the commands that show what is in it: with progress on stderr, and with what the
 * manifest beside the trace knows (losses, what could not be hooked, the cost of recording). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_READING_H
#define CLI_READING_H

#include "analyze/live.h"
#include "model/analysis.h"
#include "base/problem.h"
#include "cli/options.h"
#include "finding/prose.h"
#include "trace/pass.h"

/* Reads the trace to its end. 0 or a negative errno with problem set. The report has findings, losses,
 * overhead and what is missing; the caller frees both. */
int reading_run(const char *folder, struct analyze_options *options, struct problem *problem,
                struct analysis **ret_analysis, struct report *ret_report);

/* The end of a recording that was followed: the same. */
int reading_finish(struct live *live, struct problem *problem, struct analysis **ret_analysis,
                   struct report *ret_report);

/* Opens a trace and gives it to one pass. *ret_trace, which the caller closes, is set on success. 0 or a
 * negative errno with problem set. */
int reading_pass(const char *folder, struct pass pass, struct problem *problem, struct trace **ret_trace);

/* Styles for a descriptor, and its width in columns (100 unless it is a terminal or COLUMNS is set). */
const struct prose_style *reading_style(int fd);
unsigned reading_width(int fd);

/* What the commands that read one trace are asked. */
struct reading_options {
    struct analyze_options analyze;
    const char *folder;
    bool json;
};

/* The options that all of them have, into struct reading_options. */
extern const struct option_row reading_rows[];

/* The one operand, from argv[first] on: a recording. -1 to go on, or the command's exit status. */
int reading_operand(const struct command *self, int argc, char **argv, int first, struct reading_options *o);

/* EXIT_LOST when events were lost, else EXIT_DONE. */
int reading_status(const struct report *report);

/* Prints a report's document to stdout and releases it; followed: as the last of those that --follow printed,
 * in one line. 0 or -ENOMEM. */
int reading_print_end(json_t *document, bool followed);

#endif
