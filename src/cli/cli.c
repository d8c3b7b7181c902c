/* See cli.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/truncated.h"
#include "cli/options.h"

int cli_fail(int status, const struct problem *problem)
{
    cli_printf(stderr, "%ssonde: %s%s\n", cli_style(2, STYLE_RED), problem->what, cli_style(2, STYLE_NONE));
    if (problem->remedy[0])
        cli_printf(stderr, "  %s\n", problem->remedy);
    return status;
}

int cli_usage(const struct command *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "sonde %s: ", command->name);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nusage: sonde %s %s\n       sonde %s --help explains the options\n", command->name,
            command->arguments, command->name);
    return EXIT_USAGE;
}

int cli_help(const struct command *command)
{
    _cleanup_(text_done) struct text out = {0};
    text_addf(&out, "usage: sonde %s %s\n\n%s.\n%s%s", command->name, command->arguments, command->summary,
              command->help && *command->help ? "\n" : "", command->help ? command->help : "");
    if (command->options) {
        enum { HELP_WIDTH = 110 };
        text_add(&out, command->options->rows ? "\n" : "");
        options_help(&out, command->options, HELP_WIDTH);
        text_addf(&out, "\nExamples:\n%s", command->examples);
    }
    fputs(text_get(&out), stdout);
    return EXIT_DONE;
}

int cli_open_process(pid_t pid, struct proc **ret_proc)
{
    struct problem problem = {0};
    int r = proc_open(pid, ret_proc);
    if (r >= 0)
        return EXIT_DONE;
    if (r == -ESRCH)
        problem_set(&problem, r, "there is no process %d", pid);
    else
        problem_set(&problem, r, "process %d: %s", pid, strerror(-r));
    return cli_fail(r == -EPERM || r == -EACCES ? EXIT_PERMISSION : EXIT_FAILED, &problem);
}

bool cli_number(const char *text, double least, double most, double *ret_value)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= least && value <= most))
        return false;
    *ret_value = value;
    return true;
}

static const char *const STYLE_CODES[] = {"\033[0m",  "\033[1m",  "\033[2m", "\033[31m",
                                          "\033[33m", "\033[32m", "\033[36m"};

const char *cli_style(int fd, enum cli_style style)
{
    const char *no_color = getenv("NO_COLOR");
    if ((no_color && no_color[0]) || !isatty(fd))
        return "";
    const char *term = getenv("TERM");
    if (!term || strcmp(term, "dumb") == 0)
        return "";
    return STYLE_CODES[style];
}

/* Bytes of a line break, a tab or one of our styles at s; else 0. */
static size_t allowed(const char *s)
{
    if (*s == '\n' || *s == '\t')
        return 1;
    for (size_t i = 0; *s == '\033' && i < ARRAY_SIZE(STYLE_CODES); i++)
        if (strncmp(s, STYLE_CODES[i], strlen(STYLE_CODES[i])) == 0)
            return strlen(STYLE_CODES[i]);
    return 0;
}

int cli_put(FILE *to, const char *text)
{
    _cleanup_(text_done) struct text out = {0};
    while (*text) {
        size_t n = 0, as_is = 0;
        while (text[n] && !(as_is = allowed(text + n)))
            n++;
        text_add_visible(&out, text, n);
        text_add_bytes(&out, text + n, as_is);
        text += n + as_is;
    }
    errno = 0;
    if (out.failed)
        return -ENOMEM;
    return fputs(text_get(&out), to) >= 0 ? 0 : errno ? -errno : -EIO;
}

int cli_printf(FILE *to, const char *format, ...)
{
    va_list args;
    char *text = NULL;
    va_start(args, format);
    int r = vasprintf(&text, format, args);
    va_end(args);
    if (r < 0)
        return -ENOMEM;
    r = cli_put(to, text);
    free(text);
    return r;
}

static bool incomplete; /* a document that was printed */

int cli_print_json(json_t *document, size_t flags)
{
    int r = document ? json_dumpf(document, stdout, flags) : -1;
    json_decref(document);
    putchar('\n');
    if (r == 0 || ferror(stdout)) /* the end of the command tells what was not written */
        return 0;
    incomplete = true;
    return -ENOMEM;
}

/* Whoever closed the pipe wanted no more. */
static int check_output(int status)
{
    struct problem problem = {.what = ""};
    if (incomplete && (status == EXIT_DONE || status == EXIT_LOST)) {
        problem_set(&problem, -ENOMEM, "the JSON document on standard output is incomplete");
        return cli_fail(EXIT_FAILED, &problem);
    }
    errno = 0;
    if ((status != EXIT_DONE && status != EXIT_LOST) || (fflush(stdout) == 0 && !ferror(stdout)) ||
        errno == EPIPE)
        return status;
    problem_set(&problem, -EIO, "standard output: %s", errno ? strerror(errno) : "could not be written");
    return cli_fail(EXIT_FAILED, &problem);
}

int cli_end(int status)
{
    status = check_output(status);
    if (truncated_pages())
        fprintf(stderr, "sonde: files were truncated while in use; %" PRIu64 " pages read as zeros\n",
                truncated_pages());
    return status;
}
