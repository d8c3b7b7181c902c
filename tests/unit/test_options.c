/* Options from a table: what they take, what they refuse and how that is said, help and completion. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "test.h"

struct inner {
    uint32_t count;
    uint64_t time_ns;
};

struct wanted {
    bool quick;
    const char *output;
    double share, seconds;
    char taken[64];
    struct inner inner;
};

static int take_word(const char *value, void *into, struct problem *problem)
{
    struct wanted *w = into;
    if (value && strcmp(value, "bad") == 0)
        return problem_set(problem, -EINVAL, "invalid word '%s' (good)", value);
    snprintf(w->taken, sizeof(w->taken), "%s", value ? value : "(none)");
    return 0;
}

#define AT(member) offsetof(struct wanted, member)

static const struct option_row ROWS[] = {
    {"quick", 'q', .text = "be quick", .type = OPTION_FLAG, .at = AT(quick)},
    {"output", 'o', "FILE", "where it goes", OPTION_TEXT, .at = AT(output)},
    {"share", .value = "PART", .text = "of all", .type = OPTION_NUMBER, .least = 0.5, .most = 2,
     .at = AT(share)},
    {"duration", 'd', "SECONDS", "how long", OPTION_SECONDS, .at = AT(seconds)},
    {"word", .value = "[=WORD]", .text = "a word", .type = OPTION_CALL, .take = take_word},
    {NULL},
};
static const struct option_row INNER[] = {
    {"count", 'n', "N",
     "how many of them, with a text that is long enough to be broken into more than one line of help",
     OPTION_COUNT, .least = 1, .most = 9, .at = offsetof(struct inner, count)},
    {"time-ms", .value = "MS", .text = "how long", .type = OPTION_MS, .at = offsetof(struct inner, time_ns)},
    {NULL},
};
static const struct option_group GROUPS[] = {{ROWS, 0}, {INNER, AT(inner)}, {NULL, 0}};
static const struct command COMMAND = {.name = "test",
                                       .arguments = "[OPTION...] FILE...",
                                       .summary = "Test",
                                       .help = "About.\n",
                                       .options = GROUPS,
                                       .examples = "  sonde test\n"};
static const struct command RUNS = {.name = "runs",
                                    .arguments = "-- COMMAND",
                                    .summary = "Test",
                                    .help = "",
                                    .options = GROUPS,
                                    .examples = "",
                                    .operands_end_options = true};
static bool keeps_numbers(const char *operand, const void *into)
{
    const struct wanted *w = into;
    return w->quick || (*operand >= '0' && *operand <= '9');
}

static const struct command WATCHES = {.name = "watches",
                                       .arguments = "PID... | -- COMMAND",
                                       .summary = "Test",
                                       .help = "",
                                       .options = GROUPS,
                                       .examples = "",
                                       .operands_end_options = true,
                                       .keeps_operand = keeps_numbers};

/* The words of a command line; argv ends with NULL. */
struct line {
    char text[256];
    char *argv[32];
    int argc, first, status;
    char said[2048]; /* on stderr */
    struct wanted got;
};

static void parse(struct line *l, const struct command *command, const char *words)
{
    *l = (struct line){.argc = 0};
    snprintf(l->text, sizeof(l->text), "%s", words);
    for (char *at = strtok(l->text, " "); at; at = strtok(NULL, " "))
        l->argv[l->argc++] = at;
    char path[TEST_PATH];
    int fd = mkstemp(test_path(path)), before = dup(2);
    assert_true(fd >= 0 && before >= 0);
    fflush(stderr);
    assert_int_equal(dup2(fd, 2), 2);
    l->status = options_parse(command, l->argc, l->argv, &l->got, &l->first);
    fflush(stderr);
    dup2(before, 2);
    close(before);
    ssize_t n = pread(fd, l->said, sizeof(l->said) - 1, 0);
    assert_true(n >= 0);
    close(fd);
    unlink(path);
}

static void takes_values_in_every_spelling(void **state)
{
    struct line l;
    parse(&l, &COMMAND, "test a -q -oOUT --share=1.5 b -d 2 --word=x -n 3 --time-ms 1.5 - c");
    assert_int_equal(l.status, -1);
    assert_true(l.got.quick);
    assert_string_equal(l.got.output, "OUT");
    assert_true(l.got.share == 1.5 && l.got.seconds == 2);
    assert_string_equal(l.got.taken, "x");
    assert_int_equal(l.got.inner.count, 3);
    assert_int_equal(l.got.inner.time_ns, 1500000);
    assert_int_equal(l.argc - l.first, 4);
    static const char *const OPERANDS[] = {"a", "b", "-", "c"};
    for (int i = 0; i < 4; i++)
        assert_string_equal(l.argv[l.first + i], OPERANDS[i]);

    parse(&l, &COMMAND, "test -qo OUT --word a --out LAST --wo -- -q --share");
    assert_int_equal(l.status, -1);
    assert_string_equal(l.got.output, "LAST");  /* the beginning of a name is enough */
    assert_string_equal(l.got.taken, "(none)"); /* a value that may be left out needs its equals sign */
    assert_int_equal(l.argc - l.first, 3);
    assert_string_equal(l.argv[l.first], "a");
    assert_string_equal(l.argv[l.first + 1], "-q");
    assert_string_equal(l.argv[l.first + 2], "--share");
}

static void the_first_operand_may_end_options(void **state)
{
    struct line l;
    parse(&l, &RUNS, "runs -q ls -o x --fnord");
    assert_int_equal(l.status, -1);
    assert_null(l.got.output);
    assert_int_equal(l.argc - l.first, 4);
    assert_string_equal(l.argv[l.first], "ls");
    parse(&l, &RUNS, "runs -q -- -ls -o");
    assert_int_equal(l.argc - l.first, 2);
    assert_string_equal(l.argv[l.first], "-ls");
}

static void some_operands_may_not_end_them(void **state)
{
    struct line l;
    parse(&l, &WATCHES, "watches 12 -o x 13 ls -q");
    assert_int_equal(l.status, -1);
    assert_string_equal(l.got.output, "x");
    assert_false(l.got.quick);
    assert_int_equal(l.argc - l.first, 4);
    assert_string_equal(l.argv[l.first], "12");
    assert_string_equal(l.argv[l.first + 1], "13");
    assert_string_equal(l.argv[l.first + 2], "ls");
    parse(&l, &WATCHES, "watches -q ls -o x cat"); /* by an option before them */
    assert_string_equal(l.got.output, "x");
    assert_string_equal(l.argv[l.first], "ls");
    assert_string_equal(l.argv[l.first + 1], "cat");
    parse(&l, &WATCHES, "watches 12 -- 13 -o");
    assert_string_equal(l.argv[l.first], "12");
    assert_string_equal(l.argv[l.first + 1], "--");
    assert_int_equal(l.argc - l.first, 4);
}

static void mistakes_are_named(void **state)
{
    static const struct {
        const char *words, *said;
    } CASES[] = {
        {"test --count 10", "--count: invalid number '10' (1 to 9)"},
        {"test --count=1.5", "--count: invalid number '1.5' (1 to 9)"},
        {"test -n 0x3", "-n: invalid number '0x3' (1 to 9)"},
        {"test --share 15x", "--share: invalid number '15x' (0.5 to 2)"},
        {"test --share nan", "--share: invalid number 'nan' (0.5 to 2)"},
        {"test -d 15x", "-d: invalid duration '15x' (seconds, above 0)"},
        {"test --time-ms 0", "--time-ms: invalid duration '0' (milliseconds, above 0)"},
        {"test --word=bad", "--word: invalid word 'bad' (good)"},
        {"test --output", "--output needs a value (FILE)"},
        {"test a b -qo", "-o needs a value (FILE)"},
        {"test --quick=yes", "--quick takes no value (found 'yes')"},
        {"test --quikc", "unknown option --quikc (did you mean --quick?)"},
        {"test --outptu=x", "unknown option --outptu (did you mean --output?)"},
        {"test --entirely-different", "unknown option --entirely-different\n"},
        {"test -qx", "unknown option -x"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct line l;
        parse(&l, &COMMAND, CASES[i].words);
        assert_int_equal(l.status, EXIT_USAGE);
        if (!strstr(l.said, CASES[i].said))
            fail_msg("%s: said: %s", CASES[i].words, l.said);
        assert_non_null(strstr(l.said, "usage: sonde test [OPTION...] FILE..."));
    }
}

static void help_and_completion_come_from_the_table(void **state)
{
    struct text out = {0};
    options_help(&out, GROUPS, 80);
    assert_string_equal(text_get(&out),
                        "Options:\n"
                        "  -q, --quick             be quick\n"
                        "  -o, --output FILE       where it goes\n"
                        "      --share PART        of all\n"
                        "  -d, --duration SECONDS  how long\n"
                        "      --word[=WORD]       a word\n"
                        "  -n, --count N           how many of them, with a text that is long enough to\n"
                        "                          be broken into more than one line of help\n"
                        "      --time-ms MS        how long\n");
    text_clear(&out);
    const struct command *const commands[] = {&COMMAND};
    options_completion(&out, commands, 1);
    assert_non_null(
        strstr(text_get(&out),
               "test) options=\"--help --quick --output --share --duration --word --count --time-ms\""));
    text_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_values_in_every_spelling),
        cmocka_unit_test(the_first_operand_may_end_options),
        cmocka_unit_test(some_operands_may_not_end_them),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(help_and_completion_come_from_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
