/* See options.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/confine.h"

struct found {
    const struct option_row *row;
    char *into; /* the group's struct */
};

static const struct option_row HELP = {"help", 'h', .text = "show this help", .type = OPTION_FLAG};

static bool takes_value(const struct option_row *row)
{
    return row->value != NULL;
}

/* Its value may be left out, and then stands behind an equals sign. */
static bool is_optional(const struct option_row *row)
{
    return row->value && row->value[0] == '[';
}

/* ---- finding an option ---- */

static bool by_letter(const struct command *self, char letter, char *into, struct found *ret_found)
{
    for (const struct option_group *g = self->options; g->rows; g++)
        for (const struct option_row *row = g->rows; row->name; row++)
            if (row->letter == letter) {
                *ret_found = (struct found){row, into + g->at};
                return true;
            }
    *ret_found = (struct found){&HELP, NULL};
    return letter == HELP.letter;
}

/* By its name, or by the beginning of one name only. -1: of several. */
static int by_name(const struct command *self, const char *name, size_t length, char *into,
                   struct found *ret_found)
{
    int matches = 0;
    for (const struct option_group *g = self->options; g->rows; g++)
        for (const struct option_row *row = g->rows; row->name; row++) {
            if (strncmp(row->name, name, length) != 0)
                continue;
            matches++;
            *ret_found = (struct found){row, into + g->at};
            if (!row->name[length])
                return 1;
        }
    if (!matches && length <= strlen(HELP.name) && strncmp(HELP.name, name, length) == 0) {
        *ret_found = (struct found){&HELP, NULL};
        return 1;
    }
    return matches > 1 ? -1 : matches;
}

/* How many characters must be inserted, removed, replaced or exchanged with their neighbour to make b of a
 * (optimal string alignment); more than any name has for long ones. */
static unsigned distance(const char *a, size_t n, const char *b)
{
    enum { LONGEST = 40 };
    unsigned rows[3][LONGEST + 1], *before = rows[0], *last = rows[1], *now = rows[2];
    size_t m = strlen(b);
    if (n > LONGEST || m > LONGEST)
        return LONGEST;
    for (unsigned j = 0; j <= m; j++)
        last[j] = j;
    for (size_t i = 1; i <= n; i++) {
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            now[j] = MIN(MIN(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = MIN(now[j], before[j - 2] + 1);
        }
        unsigned *spare = before;
        before = last, last = now, now = spare;
    }
    return last[m];
}

static const char *nearest(const struct command *self, const char *name, size_t length)
{
    const char *best = NULL;
    unsigned least = MIN((unsigned)length / 3 + 1, 3u) + 1;
    for (const struct option_group *g = self->options; g->rows; g++)
        for (const struct option_row *row = g->rows; row->name; row++) {
            unsigned d = distance(name, length, row->name);
            if (d < least)
                least = d, best = row->name;
        }
    return best;
}

static int unknown(const struct command *self, const char *name, size_t length)
{
    const char *meant = nearest(self, name, length);
    return meant ? cli_usage(self, "unknown option --%.*s (did you mean --%s?)", (int)length, name, meant)
                 : cli_usage(self, "unknown option --%.*s", (int)length, name);
}

/* ---- values ---- */

/* "30s", "10m", "2h", or a number of seconds. */
static bool take_time(const char *text, double *ret_seconds)
{
    char *end;
    double value = strtod(text, &end);
    value *= strcmp(end, "m") == 0 ? 60 : strcmp(end, "h") == 0 ? 3600 : 1;
    if (end == text || (*end && strcmp(end, "s") && strcmp(end, "m") && strcmp(end, "h")) || !(value > 0))
        return false;
    *ret_seconds = value;
    return true;
}

static int out_of_range(const struct option_row *row, const char *value, const char *what,
                        struct problem *problem)
{
    if (row->least == 0 && row->most == 0)
        return problem_set(problem, -EINVAL, "invalid %s '%s'", what, value);
    return problem_set(problem, -EINVAL, "invalid %s '%s' (%.10g to %.10g)", what, value, row->least,
                       row->most);
}

static int take(const struct option_row *row, const char *value, char *into, struct problem *problem)
{
    double number = 0;
    bool ranged = row->least != 0 || row->most != 0;
    void *at = into + row->at;
    switch (row->type) {
    case OPTION_FLAG:
        *(bool *)at = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)at = value;
        return 0;
    case OPTION_COUNT:
        if (!cli_number(value, ranged ? row->least : 0, ranged ? row->most : UINT32_MAX, &number) ||
            value[strspn(value, "0123456789")])
            return out_of_range(row, value, "number", problem);
        *(uint32_t *)at = (uint32_t)number;
        return 0;
    case OPTION_NUMBER:
        if (!cli_number(value, ranged ? row->least : -1e300, ranged ? row->most : 1e300, &number))
            return out_of_range(row, value, "number", problem);
        *(double *)at = number;
        return 0;
    case OPTION_MS:
        if (!cli_number(value, 0, 1e9, &number) || number <= 0)
            return problem_set(problem, -EINVAL, "invalid duration '%s' (milliseconds, above 0)", value);
        *(uint64_t *)at = (uint64_t)(number * (double)NS_PER_MS);
        return 0;
    case OPTION_SECONDS:
        if (!cli_number(value, 0, 1e9, &number) || number <= 0)
            return problem_set(problem, -EINVAL, "invalid duration '%s' (seconds, above 0)", value);
        *(double *)at = number;
        return 0;
    case OPTION_TIME:
        if (!take_time(value, at))
            return problem_set(problem, -EINVAL, "invalid duration '%s' (as in 90, 30s, 10m, 2h)", value);
        return 0;
    case OPTION_CALL:
        return row->take(value, into, problem);
    }
    return 0;
}

/* ---- the command line ---- */

struct reader {
    const struct command *self;
    int argc, at; /* the next argument */
    char **argv;
    char *into;
    bool help;
    struct confine confine;
};

/* Takes an option, named as it was typed for messages; attached: its value in the same argument, or NULL. */
static int take_option(struct reader *r, const struct found *found, const char *attached, const char *typed)
{
    const struct option_row *row = found->row;
    struct problem problem = {0};
    if (row == &HELP) {
        r->help = true;
        return -1;
    }
    if (attached && !takes_value(row))
        return cli_usage(r->self, "%s takes no value (found '%s')", typed, attached);
    const char *value = attached;
    if (!value && takes_value(row) && !is_optional(row)) {
        if (r->at >= r->argc)
            return cli_usage(r->self, "%s needs a value (%s)", typed, row->value);
        value = r->argv[r->at++];
    }
    if (take(row, value, found->into, &problem) < 0)
        return cli_usage(r->self, "%s: %s", typed, problem.what);
    confine_option(&r->confine, row->name, value);
    return -1;
}

static int long_option(struct reader *r, const char *argument)
{
    struct found found;
    size_t length = strcspn(argument, "=");
    int matches = by_name(r->self, argument, length, r->into, &found);
    if (matches == 0)
        return unknown(r->self, argument, length);
    if (matches < 0)
        return cli_usage(r->self, "--%.*s may be several options; write it out", (int)length, argument);
    char typed[64];
    snprintf(typed, sizeof(typed), "--%s", found.row->name);
    return take_option(r, &found, argument[length] ? argument + length + 1 : NULL, typed);
}

/* Letters in one argument: -q, -qj, -oDIR, -o DIR. */
static int letters(struct reader *r, const char *argument)
{
    for (size_t i = 0; argument[i]; i++) {
        struct found found;
        char typed[3] = {'-', argument[i], 0};
        if (!by_letter(r->self, argument[i], r->into, &found))
            return cli_usage(r->self, "unknown option %s", typed);
        bool rest = takes_value(found.row) && argument[i + 1];
        int status = take_option(r, &found, rest ? argument + i + 1 : NULL, typed);
        if (status >= 0 || rest || r->help)
            return status;
    }
    return -1;
}

/* Moves operands behind the options, in their order: argv[from, from + count) to before argv[to]. */
static void move_back(char **argv, int from, int count, int to)
{
    for (int i = 0; i < count; i++) {
        char *operand = argv[from];
        memmove(argv + from, argv + from + 1, (size_t)(to - from - 1) * sizeof(*argv));
        argv[to - 1] = operand;
    }
}

int options_parse(const struct command *self, int argc, char **argv, void *into, int *ret_first)
{
    struct reader r = {.self = self, .argc = argc, .at = 1, .argv = argv, .into = into};
    struct problem problem = {0};
    int operands = 0, status = -1; /* operands so far stand right before r.at */
    confine_begin(&r.confine, self->name, self->confined);
    while (r.at < argc && status < 0 && !r.help) {
        const char *argument = argv[r.at];
        if (strcmp(argument, "--") == 0) {
            if (self->keeps_operand) /* which looks for it itself */
                break;
            r.at++;
            move_back(argv, r.at - 1 - operands, operands, r.at);
            break;
        }
        if (argument[0] != '-' || !argument[1]) {
            if (self->operands_end_options && !(self->keeps_operand && self->keeps_operand(argument, into)))
                break;
            operands++;
            r.at++;
            continue;
        }
        int begin = r.at++;
        status = argument[1] == '-' ? long_option(&r, argument + 2) : letters(&r, argument + 1);
        move_back(argv, begin - operands, operands, r.at);
    }
    *ret_first = r.at - operands;
    if (r.help)
        status = cli_help(self);
    if (status >= 0) {
        confine_drop(&r.confine);
        return status;
    }
    int confined = self->prepare ? self->prepare(into, &problem) : 0;
    if (confined < 0)
        confine_drop(&r.confine);
    else
        confined = confine_end(&r.confine, (const char *const *)argv + *ret_first,
                               (size_t)(argc - *ret_first), &problem);
    if (confined < 0)
        return cli_fail(confined == -EACCES || confined == -EPERM ? EXIT_PERMISSION : EXIT_FAILED, &problem);
    return status;
}

/* ---- help ---- */

enum { TEXT_COLUMN = 26, INDENT = 2 };

static void add_spaces(struct text *to, size_t count)
{
    text_addf(to, "%*s", (int)count, "");
}

/* Words, wrapped, from column on. */
static void add_wrapped(struct text *to, const char *text, unsigned width)
{
    size_t column = TEXT_COLUMN;
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, " ");
        if (at > text) {
            if (column + 1 + length > width) {
                text_add(to, "\n");
                add_spaces(to, TEXT_COLUMN);
                column = TEXT_COLUMN;
            } else {
                text_add(to, " ");
                column++;
            }
        }
        text_add_bytes(to, at, length);
        column += length;
        at += length;
        at += strspn(at, " ");
    }
    text_add(to, "\n");
}

static void add_row(struct text *to, const struct option_row *row, unsigned width)
{
    char left[96], letter[5] = "    ";
    if (row->letter)
        snprintf(letter, sizeof(letter), "-%c, ", row->letter);
    snprintf(left, sizeof(left), "%s--%s%s%s", letter, row->name, row->value && !is_optional(row) ? " " : "",
             row->value ? row->value : "");
    size_t used = INDENT + strlen(left);
    add_spaces(to, INDENT);
    text_add(to, left);
    if (used + 2 > TEXT_COLUMN) {
        text_add(to, "\n");
        used = 0;
    }
    add_spaces(to, TEXT_COLUMN - used);
    add_wrapped(to, row->text, width);
}

void options_help(struct text *to, const struct option_group *groups, unsigned width)
{
    if (groups->rows)
        text_add(to, "Options:\n");
    for (; groups->rows; groups++)
        for (const struct option_row *row = groups->rows; row->name; row++)
            add_row(to, row, width);
}

/* ---- completion ---- */

void options_completion(struct text *to, const struct command *const *commands, size_t count)
{
    text_add(to,
             "# Completion of sonde's commands and options for bash; `sonde help --completion` prints it.\n"
             "_sonde()\n{\n"
             "    local word=${COMP_WORDS[COMP_CWORD]} options=\n"
             "    if [ \"$COMP_CWORD\" = 1 ]; then\n        COMPREPLY=($(compgen -W \"");
    for (size_t i = 0; i < count; i++)
        text_addf(to, "%s%s", i ? " " : "", commands[i]->name);
    text_add(to, "\" -- \"$word\"))\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; i < count; i++) {
        if (!commands[i]->options)
            continue;
        text_addf(to, "    %s) options=\"--help", commands[i]->name);
        for (const struct option_group *g = commands[i]->options; g->rows; g++)
            for (const struct option_row *row = g->rows; row->name; row++)
                text_addf(to, " --%s", row->name);
        text_add(to, "\" ;;\n");
    }
    text_add(to,
             "    esac\n"
             "    if [[ $word == -* ]]; then\n        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
             "    else\n        COMPREPLY=($(compgen -f -- \"$word\"))\n    fi\n}\n"
             "complete -o filenames -F _sonde sonde\n");
}
