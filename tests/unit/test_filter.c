/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/filter.h"

#include <string.h>

#include "test.h"

static const struct trace_label LABELS[] = {{.low = 0, .high = 1, .name = "read"},
                                            {.low = 2, .high = 9, .name = "write"}};
static const struct trace_label BITS[] = {{.low = 0, .high = 1, .name = "low"},
                                          {.low = 2, .high = 9, .name = "high"}};
static const struct trace_field FIELDS[] = {
    {.name = "bytes", .type = TYPE_UNSIGNED},
    {.name = "fd", .type = TYPE_SIGNED},
    {.name = "ratio", .type = TYPE_REAL},
    {.name = "name", .type = TYPE_STRING},
    {.name = "kind", .type = TYPE_UNSIGNED, .labels = LABELS, .label_count = 2},
    {.name = "gone", .type = TYPE_UNSIGNED},
    {.name = "a.b", .type = TYPE_UNSIGNED},
    {.name = "bits", .type = TYPE_BITMAP, .labels = BITS, .label_count = 2},
};
static const struct trace_field PACKET[] = {{.name = "cpu_id", .type = TYPE_UNSIGNED},
                                            {.name = "fd", .type = TYPE_STRING}};
static const struct value PACKET_VALUES[] = {{.u = 5}, {.s = "hidden", .length = 6}};
static const struct value VALUES[] = {
    {.u = UINT64_MAX}, {.i = -1},     {.d = 0.5}, {.s = "keysX", .length = 4},
    {.u = 3},          {.absent = 1}, {.u = 0},   {.u = 5}};
static const struct event_class CLASS = {.name = "redis:command",
                                         .id = EVENT_FOREIGN,
                                         .field_count = 8,
                                         .fields = FIELDS,
                                         .packet_field_count = 2,
                                         .packet_fields = PACKET};
static const struct event EVENT = {.time_ns = 5000000,
                                   .class = &CLASS,
                                   .values = VALUES,
                                   .packet = PACKET_VALUES,
                                   .present = 0xdf,
                                   .pid = 7,
                                   .tid = 8,
                                   .id = EVENT_FOREIGN};

static bool passes(const char *text)
{
    struct problem problem;
    struct filter *f = NULL;
    if (filter_parse(text, &problem, &f) < 0)
        fail_msg("%s: %s", text, problem.what);
    bool r = filter_matches(f, &EVENT, "host", NULL);
    assert_int_equal(filter_matches(f, &EVENT, "host", NULL), r); /* from the cached binding */
    filter_free(f);
    return r;
}

static void compares(void **state)
{
    static const char *const TRUE[] = {
        "bytes == 18446744073709551615",
        "bytes > 1Gi",
        "fd == -1",
        "fd < 0",
        "fd < bytes",
        "ratio == 0.5",
        "ratio < 1",
        "ratio > -1",
        "name == \"keys\"",
        "name != 'key'",
        "name =~ \"k*s\"",
        "name !~ \"x*\"",
        "kind == \"write\"",
        "kind == 3",
        "kind != \"read\"",
        "kind =~ \"w*\"",
        "$name == \"redis:command\"",
        "$time == 5ms",
        "$time >= 4999us && $time <= 0.005s",
        "$pid == 7 && $tid == 8",
        "$host == \"host\"",
        "cpu_id == 5 && cpu_id",
        "bits == \"low|high\" && bits =~ \"*high*\" && bits == 5",
        "bytes",
        "!a.b",
        "!(bytes == 1) && !gone",
        "gone == 1 || fd == -1",
        "fd == -1 || bytes == 0 && ratio == 7",
        "!(fd == -1 && ratio == 7)",
    };
    static const char *const FALSE[] = {
        "bytes < 5",
        "fd > bytes",
        "fd >= 0",
        "name == \"keysX\"",
        "kind == \"read\"",
        "gone == 0",
        "gone != 0",
        "gone",
        "nothing == 1",
        "nothing != 1",
        "a.b",
        "name == 4",
        "$pid == 8",
        "cpu_id == 4",
        "bits == \"low\"",
        "(fd == -1 || bytes == 0) && ratio == 7",
    };
    for (size_t i = 0; i < sizeof(TRUE) / sizeof(*TRUE); i++)
        if (!passes(TRUE[i]))
            fail_msg("should pass: %s", TRUE[i]);
    for (size_t i = 0; i < sizeof(FALSE) / sizeof(*FALSE); i++)
        if (passes(FALSE[i]))
            fail_msg("should not pass: %s", FALSE[i]);
}

static void says_where_it_is_wrong(void **state)
{
    static const struct {
        const char *text, *expected;
    } WRONG[] = {
        {"", "column 1: expected a field"},
        {"a ==", "column 5: expected a field"},
        {"a == \"x", "column 8: expected the closing quote"},
        {"(a == 1", "column 8: expected ')'"},
        {"a == 5 b", "column 8: expected && or ||"},
        {"a == 5x", "column 7: expected a unit"},
        {"$foo == 1", "column 1: expected $name"},
        {"5", "column 2: expected a comparison"},
        {"a = 5", "column 3: expected a comparison"},
        {"a =~ 5", "expected a string pattern"},
        {"a == 99999999999999999999", "expected a number of 64 bits"},
    };
    for (size_t i = 0; i < sizeof(WRONG) / sizeof(*WRONG); i++) {
        struct problem problem;
        struct filter *f = NULL;
        assert_true(filter_parse(WRONG[i].text, &problem, &f) < 0);
        assert_null(f);
        if (!strstr(problem.what, WRONG[i].expected))
            fail_msg("%s: %s", WRONG[i].text, problem.what);
    }
}

static void says_which_types_do_not_fit(void **state)
{
    static const struct trace_field TEXT_FD[] = {{.name = "fd", .type = TYPE_STRING}};
    static const struct event_class OTHER = {
        .name = "other", .id = EVENT_FOREIGN, .field_count = 1, .fields = TEXT_FD};
    const struct event_class *const classes[] = {&CLASS, &OTHER};
    static const struct {
        const char *text, *expected; /* NULL: it fits */
        size_t classes;
    } CASES[] = {
        {"bytes > 5 && name > 5",
         "column 14: name is a string in redis:command and cannot be compared with 5, a number", 2},
        {"bytes == \"many\"", "column 1: bytes is a number in redis:command", 2},
        {"5 == name", "column 1: 5 is a number and cannot be compared with name, a string", 2},
        {"!(ratio =~ \"0*\")", "column 3: ratio is a number in redis:command, which no pattern", 2},
        {"name < bytes", "cannot be compared with bytes, a number", 2},
        {"$name == 5", "column 1: $name is a string and", 2},
        {"fd == \"x\"", "fd is a number in redis:command", 1},
        {"fd == \"x\"", NULL, 2},
        {"fd == 1 || kind == \"read\" || kind == 1 || nowhere == \"x\" || $host =~ \"h*\"", NULL, 2},
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
        struct problem problem = {{0}};
        struct filter *f = NULL;
        assert_int_equal(filter_parse(CASES[i].text, &problem, &f), 0);
        int r = filter_check(f, classes, CASES[i].classes, &problem);
        if (CASES[i].expected ? r >= 0 || !strstr(problem.what, CASES[i].expected) : r < 0)
            fail_msg("%s: %s", CASES[i].text, problem.what);
        filter_free(f);
    }
}

static void names_the_unknown_field(void **state)
{
    struct problem problem;
    struct filter *f = NULL;
    assert_int_equal(filter_parse("fd == -1 || nowhere == 2", &problem, &f), 0);
    filter_matches(f, &EVENT, NULL, NULL);
    assert_string_equal(filter_unknown_field(f), "nowhere");
    filter_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compares),
        cmocka_unit_test(says_where_it_is_wrong),
        cmocka_unit_test(says_which_types_do_not_fit),
        cmocka_unit_test(names_the_unknown_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
