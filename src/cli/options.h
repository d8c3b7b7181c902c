/* Options of a command as one table, from which come its parser, its help and its shell completion; a test
 * compares the table with the manual page.
 *
 *     struct mine { bool json; uint32_t slowest; struct reading_options reading; };
 *     static const struct option_row ROWS[] = {
 *         {"json", .text = "one JSON document", .type = OPTION_FLAG, .at = offsetof(struct mine, json)},
 *         {"slowest", .value = "N", .text = "the N slowest requests (10)", .type = OPTION_COUNT, .least = 1,
 *          .most = 1000, .at = offsetof(struct mine, slowest)},
 *         {NULL}};
 *     static const struct option_group GROUPS[] = {{ROWS, 0},
 *                                                  {READING_ROWS, offsetof(struct mine, reading)}, {NULL}};
 *     const struct command command_mine = {..., .options = GROUPS};
 *
 *     int first, r = options_parse(self, argc, argv, &mine, &first);
 *     if (r >= 0)
 *         return r;
 *
 * -h and --help are understood everywhere. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/problem.h"
#include "base/text.h"
#include "cli/cli.h"

enum option_type {
    OPTION_FLAG,    /* bool; takes no value */
    OPTION_TEXT,    /* const char *, as it stands on the command line */
    OPTION_COUNT,   /* uint32_t: a whole number from least to most */
    OPTION_NUMBER,  /* double from least to most */
    OPTION_MS,      /* uint64_t in ns, from milliseconds above zero */
    OPTION_SECONDS, /* double above zero */
    OPTION_TIME,    /* double in seconds above zero, from "90", "30s", "10m", "2h" */
    OPTION_CALL,    /* take() */
};

struct option_row {
    const char *name;  /* "slowest", without the dashes; NULL ends the table */
    char letter;       /* 'o'; 0: none */
    const char *value; /* "N", as help shows it; "[=FAMILY,...]" may be left out; NULL for a flag */
    const char *text;  /* what it does; help wraps it */
    enum option_type type;
    double least, most; /* both 0: any */
    size_t at;          /* of its value in the group's struct */
    /* OPTION_CALL: takes the value (NULL where none is given) into the group's struct. 0, or a negative errno
     * with what is wrong in problem ("invalid level 'x' (requests, usual, everything)"). */
    int (*take)(const char *value, void *into, struct problem *problem);
};

/* Options that go into one struct, which lies at bytes into the command's own. */
struct option_group {
    const struct option_row *rows; /* NULL ends the list */
    size_t at;
};

/* Reads a command's options into the struct that its groups describe. What is no option keeps its order and
 * begins at *ret_first in argv; with self->operands_end_options the first operand that self->keeps_operand
 * does not keep ends the options, and "--" stays where it is. -1 to go on, else the exit status: the error
 * was printed, or help. A command of the table in confine.c has no rights from then on but those to read what
 * the command line names and to write where it says. */
int options_parse(const struct command *self, int argc, char **argv, void *into, int *ret_first);

/* The "Options:" part of a command's help, at most width columns wide. */
void options_help(struct text *to, const struct option_group *groups, unsigned width);

/* A script for bash that completes commands, their options and files. count commands. */
void options_completion(struct text *to, const struct command *const *commands, size_t count);

#endif
