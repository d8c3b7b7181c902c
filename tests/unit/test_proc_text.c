/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc_text.h"

#include <string.h>

#include "test.h"

static bool stat_of(const char *text, struct proc_stat *ret)
{
    return proc_parse_stat(text, strlen(text), ret);
}

static void a_name_may_hold_anything(void **state)
{
    struct proc_stat stat;
    const char *text = "7 (a) Z 1 (b) S 5 7 7 0 -1 4194560 1 2 3 4 11 12 5 6 20 0 1 0 987 8888 9 "
                       "18446744073709551615 1 2 140737488347000 0";
    assert_true(stat_of(text, &stat));
    assert_int_equal(stat.state, 'S');
    assert_int_equal(stat.parent, 5);
    assert_int_equal(stat.user_ticks, 11);
    assert_int_equal(stat.system_ticks, 12);
    assert_int_equal(stat.started_ticks, 987);
    assert_int_equal(stat.stack_start, 140737488347000);
    assert_int_equal(stat.exit_code, 0); /* it ends before that */
}

static void no_stat(void **state)
{
    static const char *const TEXTS[] = {"", ")", ") ", ") S", ") S ", ") S x", "(", "1 (x)", "1 (x)S 1"};
    struct proc_stat stat;
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++)
        assert_false(stat_of(TEXTS[i], &stat));
}

static void runs_of_schedstat(void **state)
{
    static const char text[] = "7345 18446744073709551615 12\n";
    static const char *const NONE[] = {"",     "\n",     "1",      "1 2",
                                       "1 2 ", "1  2 3", "-1 2 3", "1 18446744073709551616 3"};
    struct proc_runs runs;
    assert_true(proc_parse_runs(text, strlen(text), &runs));
    assert_int_equal(runs.ran_ns, 7345);
    assert_true(runs.waited_ns == UINT64_MAX);
    assert_int_equal(runs.times, 12);
    for (size_t i = 0; i < sizeof(NONE) / sizeof(NONE[0]); i++)
        assert_false(proc_parse_runs(NONE[i], strlen(NONE[i]), &runs));
}

static void numbers_of_status(void **state)
{
    static const char text[] =
        "Name:\tPPid:\t9\nPPid:\t42\nTracerPid:\t0\nNSpid:\t1234\t17\t3\nSeccomp:\t-2\nLast:";
    long number;
    unsigned levels;
    assert_true(proc_parse_status_number(text, sizeof(text) - 1, "PPid", &number));
    assert_int_equal(number, 42); /* not what the process calls itself */
    assert_true(proc_parse_status_number(text, sizeof(text) - 1, "Seccomp", &number));
    assert_int_equal(number, -2);
    assert_false(proc_parse_status_number(text, sizeof(text) - 1, "Last", &number));
    char words[4];
    assert_true(proc_parse_status_text(text, sizeof(text) - 1, "PPid", words, sizeof(words)));
    assert_string_equal(words, "42");
    assert_false(proc_parse_status_text(text, sizeof(text) - 1, "PP", words, sizeof(words)));
    assert_false(proc_parse_status_number(text, sizeof(text) - 1, "PP", &number));
    assert_int_equal(proc_parse_memory("Name:\tRssAnon: 1\nRssAnon:\t    5 kB\n", 35), 5 * 1024);
    assert_int_equal(proc_parse_memory("RssAnon:\t-5 kB\n", 15), 0);
    assert_int_equal(proc_parse_memory("RssAnon", 7), 0);
    assert_int_equal(proc_parse_innermost(text, sizeof(text) - 1, &levels), 3);
    assert_int_equal(levels, 3);
    assert_int_equal(proc_parse_innermost("x", 1, &levels), 0);
    assert_int_equal(levels, 0);
}

static void lines_of_maps(void **state)
{
    static const char text[] = "00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/a name\n"
                               "nonsense\n"
                               "7f00-7e00 r-xp 0 0:0 0\n" /* it ends before it begins */
                               "123456789abcdef01-2 r-xp 0 0:0 0\n"
                               "7f00-8f00 rw-s 0 0:0 0";
    const char *at = text, *end = text + sizeof(text) - 1;
    struct proc_mapping m;
    assert_true(proc_next_mapping(&at, end, &m));
    assert_int_equal(m.start, 0x400000);
    assert_int_equal(m.end, 0x452000);
    assert_int_equal(m.offset, 0x1000);
    assert_true(m.readable && !m.writable && m.executable && !m.shared);
    assert_int_equal(m.major, 8);
    assert_int_equal(m.inode, 173521);
    assert_int_equal(m.path_length, strlen("/usr/bin/a name"));
    assert_memory_equal(m.path, "/usr/bin/a name", m.path_length);
    assert_true(proc_next_mapping(&at, end, &m));
    assert_int_equal(m.start, 0x7f00);
    assert_true(m.shared && m.writable);
    assert_int_equal(m.path_length, 0);
    assert_false(proc_next_mapping(&at, end, &m));
}

static void lines_of_cgroup(void **state)
{
    static const char text[] = "12:cpu,freezer:/a:b\n:x\n3:name=systemd:/\n0::/user.slice/freezer\nbroken";
    const char *at = text, *end = text + sizeof(text) - 1;
    struct proc_cgroup c;
    assert_true(proc_next_cgroup(&at, end, &c));
    assert_false(c.unified);
    assert_true(proc_cgroup_controls(&c, "freezer"));
    assert_true(proc_cgroup_controls(&c, "cpu"));
    assert_false(proc_cgroup_controls(&c, "free"));
    assert_int_equal(c.path_length, 4);
    assert_memory_equal(c.path, "/a:b", 4);
    assert_true(proc_next_cgroup(&at, end, &c));
    assert_false(proc_cgroup_controls(&c, "freezer"));
    assert_true(proc_next_cgroup(&at, end, &c));
    assert_true(c.unified);
    assert_false(proc_cgroup_controls(&c, "freezer")); /* its path is none of its controllers */
    assert_false(proc_next_cgroup(&at, end, &c));
}

static void names_and_words(void **state)
{
    char name[PROC_NAME_BYTES], long_name[300];
    proc_parse_name("a\033[2Jb\n", 7, name);
    assert_string_equal(name, "a?[2Jb");
    memset(long_name, 'x', sizeof(long_name));
    proc_parse_name(long_name, sizeof(long_name), name);
    assert_int_equal(strlen(name), PROC_NAME_BYTES - 1);
    static const char line[] = "node\0-e\0\0last";
    const char *word = proc_next_word(line, sizeof(line) - 1, NULL);
    assert_string_equal(word, "node");
    assert_string_equal(word = proc_next_word(line, sizeof(line) - 1, word), "-e");
    assert_string_equal(word = proc_next_word(line, sizeof(line) - 1, word), "");
    assert_string_equal(word = proc_next_word(line, sizeof(line) - 1, word), "last");
    assert_null(proc_next_word(line, sizeof(line) - 1, word));
    assert_null(proc_next_word(NULL, 0, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_may_hold_anything),
        cmocka_unit_test(no_stat),
        cmocka_unit_test(runs_of_schedstat),
        cmocka_unit_test(numbers_of_status),
        cmocka_unit_test(lines_of_maps),
        cmocka_unit_test(lines_of_cgroup),
        cmocka_unit_test(names_and_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
