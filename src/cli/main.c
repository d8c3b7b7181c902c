/* The program `sonde`: finds the command in the table and runs it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/truncated.h"
#include "base/schema.h"
#include "cli/options.h"
#include "cli/target_commands.h"

static int cmd_help(const struct command *self, int argc, char **argv);
static int cmd_version(const struct command *self, int argc, char **argv);

struct help_options {
    bool completion, documents;
};

static const struct option_row HELP_ROWS[] = {
    {"completion", .text = "print a script that completes sonde's commands and options in bash",
     .type = OPTION_FLAG, .at = offsetof(struct help_options, completion)},
    {"documents", .text = "print the list of JSON documents with the versions of their schemas",
     .type = OPTION_FLAG, .at = offsetof(struct help_options, documents)},
    {NULL},
};
static const struct option_group HELP_OPTIONS[] = {{HELP_ROWS, 0}, {NULL, 0}};
static const struct command command_help = {
    .name = "help",
    .arguments = "[OPTION...] [COMMAND]",
    .summary = "Show the commands, or one command's options and examples",
    .help = "",
    .options = HELP_OPTIONS,
    .examples = "  sonde help\n  sonde help run\n  source <(sonde help --completion)\n",
    .run = cmd_help,
};
static const struct command command_version = {
    .name = "version", .arguments = "", .summary = "Print the version", .help = "", .run = cmd_version};

#define C(target) extern const struct command command_##target;
TARGET_COMMANDS(C)
#undef C

/* In the order in which `sonde help` shows them; one a line. */
/* clang-format off */
static const struct command *const COMMANDS[] = {
#define C(target) &command_##target,
    &command_run,
    &command_record,
    &command_attach,
    &command_detach,
    &command_trace,
    &command_report,
    &command_spans,
    TARGET_COMMANDS(C)
    &command_convert,
    &command_diagnose,
    &command_watch,
    &command_serve,
    &command_stack,
    &command_doctor,
    &command_profile,
    &command_top,
    &command_diff,
    &command_help,
    &command_version,
#undef C
};
/* clang-format on */

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(COMMANDS); i++)
        if (strcmp(COMMANDS[i]->name, name) == 0)
            return COMMANDS[i];
    return NULL;
}

static void print_commands(FILE *to)
{
    fputs("sonde says why requests are slow, without rebuilding or instrumenting your services.\n\n"
          "usage: sonde COMMAND [OPTION...]\n\n",
          to);
    for (size_t i = 0; i < ARRAY_SIZE(COMMANDS); i++)
        fprintf(to, "  %-10s %s\n", COMMANDS[i]->name, COMMANDS[i]->summary);
    fputs("\n`sonde COMMAND --help` shows options and examples.\n", to);
}

static int unknown_command(const char *name)
{
    struct problem problem;
    problem_set(&problem, 0, "'%s' is not a command", name);
    problem_remedy(&problem, "`sonde help` lists the commands.");
    return cli_fail(EXIT_USAGE, &problem);
}

static int cmd_help(const struct command *self, int argc, char **argv)
{
    struct help_options asked = {0};
    int first, status = options_parse(self, argc, argv, &asked, &first);
    if (status >= 0)
        return status;
    if (asked.completion || asked.documents) {
        _cleanup_(text_done) struct text out = {0};
        if (asked.completion)
            options_completion(&out, COMMANDS, ARRAY_SIZE(COMMANDS));
        if (asked.documents)
            schema_write_manual(&out);
        fputs(text_get(&out), stdout);
        return EXIT_DONE;
    }
    if (first >= argc) {
        print_commands(stdout);
        return EXIT_DONE;
    }
    const struct command *command = find_command(argv[first]);
    return command ? cli_help(command) : unknown_command(argv[first]);
}

static int cmd_version(const struct command *self, int argc, char **argv)
{
    puts("sonde " SONDE_VERSION);
    return EXIT_DONE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_commands(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    const struct command *command = find_command(name);
    if (!command)
        return unknown_command(name);
    if (argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0))
        return cli_help(command);
    truncated_expect();
    return cli_end(command->run(command, argc - 1, argv + 1));
}
