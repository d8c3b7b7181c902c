/* The command line: the table of commands, exit statuses, and how commands speak to people.
 * Each command lives in cmd_NAME.c and is listed once, in main.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/macro.h"
#include "base/problem.h"
#include "base/proc.h"

/* Programs rely on these (doc/sonde.1). */
enum exit_status {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_PERMISSION = 3,  /* a permission is missing */
    EXIT_LOST = 4,        /* data was lost */
    EXIT_EMPTY = 5,       /* nothing is called so, or nothing happened: the result is empty */
    EXIT_FINDING = 10,    /* a finding at or above the gate; wins over EXIT_LOST */
    EXIT_NO_VERDICT = 11, /* a gate that can neither be passed nor be failed */
};

struct option_group;
struct confined_command;

struct command {
    const char *name;
    const char *arguments; /* "[OPTION...] DIR" */
    const char *summary;   /* one line, no full stop */
    const char *help;      /* what it does, before the list of options */
    /* With operands_end_options: whether this operand is the command's own all the same, into being its
     * options so far; NULL: none. */
    bool (*keeps_operand)(const char *operand, const void *into);
    int (*run)(const struct command *self, int argc, char **argv); /* argv[0] is the command's name */
    const struct option_group *options;                            /* options.h; NULL: help has them */
    const char *examples;      /* behind the list of options; NULL: help has them */
    bool operands_end_options; /* what follows the first operand is not this command's */
    /* What needs rights that the command gives up (cli/confine.h), once its options have been read into their
     * struct: 0 or a negative errno. NULL: nothing. */
    int (*prepare)(void *options, struct problem *problem);
    const struct confined_command
        *confined; /* what it reads and writes (cli/confine.h); NULL: confine.c says */
};

/* One per cmd_NAME.c; main.c lists them in COMMANDS, with those of targets (src/targets/NAME/cmd.c). */
extern const struct command command_diagnose, command_doctor, command_attach, command_detach, command_record,
    command_run;
extern const struct command command_report, command_spans;
extern const struct command command_stack, command_profile, command_top, command_diff;
extern const struct command command_convert, command_trace;
extern const struct command command_serve, command_watch;

/* Prints "sonde: WHAT" and the remedy to stderr; returns status. */
int cli_fail(int status, const struct problem *problem);

/* Prints a usage error with the command's usage line to stderr; returns EXIT_USAGE. */
int cli_usage(const struct command *command, const char *format, ...) _printf_(2, 3);

/* Prints usage, summary and help to stdout; returns EXIT_DONE. */
int cli_help(const struct command *command);

/* Takes hold of a process that the user named by its number: EXIT_DONE, or EXIT_FAILED once it was said that
 * there is none. */
int cli_open_process(pid_t pid, struct proc **ret_proc);

/* An option's value that is a number from least to most, and nothing else. */
bool cli_number(const char *text, double least, double most, double *ret_value);

/* Prints the report of a trace folder to stdout, as `sonde report` does; returns an exit status. */
int cli_report(const char *folder, bool json);

/* The same while it is recorded, as `sonde report --follow` does, in a process of its own: recorder is
 * observe_options.follow's. */
int cli_follow(const char *folder, bool json, int recorder);

/* Prints a document and a line break to stdout, and releases it; flags are Jansson's. 0, or -ENOMEM: it is
 * incomplete (also for NULL). cli_end() reports that in any case, so the return value may be ignored. */
int cli_print_json(json_t *document, size_t flags);

/* Ends a command: what could not be written (a full disk, no memory for a document) is no success, whatever
 * its status. Returns the exit status. */
int cli_end(int status);

/* Prints text that may hold what somebody's trace says. What a terminal would obey is escaped, but for line
 * breaks, tabs and the styles below. 0, or -EPIPE or another negative errno. */
int cli_put(FILE *to, const char *text);
int cli_printf(FILE *to, const char *format, ...) _printf_(2, 3);

/* ANSI colour only where it helps: "" unless stream (1 or 2) is a terminal and NO_COLOR is not set. */
enum cli_style { STYLE_NONE, STYLE_BOLD, STYLE_DIM, STYLE_RED, STYLE_YELLOW, STYLE_GREEN, STYLE_CYAN };
const char *cli_style(int fd, enum cli_style style);

#endif
