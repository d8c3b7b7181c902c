/* Reading a trace folder for the commands that show what is in it: with progress on stderr, and with what the
 * manifest beside the trace knows (losses, what could not be hooked, the cost of recording). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_READING_H
#define CLI_READING_H

#include <getopt.h>

#include "analyze/analyze.h"
#include "base/problem.h"
#include "cli/cli.h"
#include "finding/prose.h"

/* Reads the trace to its end. 0 or a negative errno with problem set. The report has findings, losses,
 * overhead and what is missing; the caller frees both. */
int reading_run(const char *folder, struct analyze_options *options, struct problem *problem,
                struct analysis **ret_analysis, struct report *ret_report);

/* Styles for a descriptor, and its width in columns (100 unless it is a terminal or COLUMNS is set). */
const struct prose_style *reading_style(int fd);
unsigned reading_width(int fd);

/* What the commands that read one trace are asked. */
struct reading_options {
    struct analyze_options analyze;
    const char *folder;
    bool json;
    bool no_folder; /* none is needed */
};

/* The options that all of them have. */
#define READING_OPTIONS                                                 \
    {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, \
        {"stall-ms", required_argument, NULL, READING_STALL},           \
        {"slow-command-ms", required_argument, NULL, READING_COMMAND},  \
    {                                                                   \
        "pool-wait-ms", required_argument, NULL, READING_POOL           \
    }
enum { READING_STALL = 256, READING_COMMAND, READING_POOL, READING_OWN };

#define READING_HELP                                                                     \
    "      --stall-ms MS         an event loop stands when a turn takes longer (50)\n"   \
    "      --slow-command-ms MS  a Redis command is slow when it executes longer (10)\n" \
    "      --pool-wait-ms MS     an operation starves when it waits longer for a pool thread (20)\n"

/* Reads the command line: options (READING_OPTIONS and own ones from READING_OWN on, which go to own(), an
 * exit status or -1 to go on) and one folder. -1 to go on, or the command's exit status. */
int reading_parse(const struct command *self, int argc, char **argv, const struct option *options,
                  int (*own)(const struct command *self, int option, const char *value, void *context),
                  void *context, struct reading_options *o);

/* EXIT_LOST when events were lost, else EXIT_DONE. */
int reading_status(const struct report *report);

/* Prints a document to stdout and releases it. 0 or -ENOMEM. */
int reading_print_json(json_t *document);

#endif
