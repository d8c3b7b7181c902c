/* SPDX-License-Identifier: Apache-2.0 */
#include "finding/prose.h"

#include <string.h>

#include "test.h"

static void wraps_at_the_width(void **state)
{
    struct text text = {0};
    prose_wrap(&text, "one two  three\nfour", 0, 2, 9);
    assert_string_equal(text_get(&text), "one two\n  three\n  four");
    text_clear(&text);
    prose_wrap(&text, "a-word-that-is-longer-than-the-line b", 0, 2, 10);
    assert_string_equal(text_get(&text), "a-word-that-is-longer-than-the-line\n  b");
    text_clear(&text);
    prose_wrap(&text, "\xc3\xa9\xc3\xa9\xc3\xa9 \xc3\xa9\xc3\xa9\xc3\xa9", 0, 0,
               7); /* 3 + 1 + 3 characters */
    assert_null(strchr(text_get(&text), '\n'));
    text_done(&text);
}

static void groups_digits(void **state)
{
    struct text text = {0};
    prose_count(&text, 1, "request");
    text_add(&text, "|");
    prose_count(&text, 999, "request");
    text_add(&text, "|");
    prose_count(&text, 1234567, "request");
    assert_string_equal(text_get(&text), "1 request|999 requests|1,234,567 requests");
    text_done(&text);
}

/* Every part of a finding is in the text, and no line is too wide. */
static void says_everything(void **state)
{
    struct report report = {0};
    struct finding *f = report_add_finding(&report, FINDING_blocking_regexp, SEVERITY_WARNING);
    f->title = "A regular expression held user for 1.43 s, three times, the longest of them for almost a "
               "whole second";
    f->detail = "/^(a+)+$/ backtracks.";
    f->where = (struct finding_place){.service = "user",
                                      .process = 7,
                                      .layer = "v8",
                                      .function = "validate",
                                      .file = "/s/user.js",
                                      .line = 3,
                                      .column = 9};
    f->cost_ns = 5000000;
    f->remedy = "Anchor it.";
    for (int i = 0; i < 7; i++) {
        char path[] = {'/', (char)('a' + i), 0};
        finding_add_affected(f, &(struct finding_affected){.method = "GET", .path = path, .count = 2}, 100);
    }
    struct text text = {0};
    prose_findings(&text, &report, &prose_plain, 80);
    const char *const parts[] = {"1. warning blocking-regexp: A regular",
                                 "user process 7, validate at /s/user.js:3:9",
                                 "layer v8",
                                 "/^(a+)+$/ backtracks.",
                                 "14 requests lost 5.00 ms in total: 2 x GET /a",
                                 "; and 3 more endpoints",
                                 "Anchor it."};
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        if (!strstr(text_get(&text), parts[i]))
            fail_msg("'%s' is not in:\n%s", parts[i], text_get(&text));
    for (const char *line = text_get(&text); *line;) {
        size_t length = strcspn(line, "\n");
        assert_true(length <= 80);
        line += length + (line[length] == '\n');
    }
    text_done(&text);
    report_done(&report);
}

static void groups_victims_by_endpoint(void **state)
{
    struct report report = {0};
    struct finding *f = report_add_finding(&report, FINDING_event_loop_blocked, SEVERITY_WARNING);
    for (int i = 1; i <= 5; i++) {
        char path[] = {'/', 'u', '/', (char)('0' + i), 0};
        finding_add_affected(f,
                             &(struct finding_affected){.service = "user",
                                                        .method = "GET",
                                                        .path = path,
                                                        .route = "/u/:id",
                                                        .role = i == 5 ? "ran it" : NULL,
                                                        .delay_ns = (uint64_t)i * 1000000},
                             100);
    }
    struct text text = {0};
    prose_findings(&text, &report, &prose_plain, 200);
    if (!strstr(text_get(&text), "5 requests: 4 x GET /u/:id of user waited for up to 4.00 ms; GET /u/:id of "
                                 "user ran it for 5.00 ms"))
        fail_msg("%s", text_get(&text));
    text_done(&text);
    report_done(&report);
}

static void says_what_is_lost_and_missing(void **state)
{
    struct report report = {.nothing = "No request was traced."};
    struct text text = {0};
    prose_limits(&text, &report, &prose_plain, 80);
    assert_string_equal(text_get(&text), "");
    prose_findings(&text, &report, &prose_plain, 80);
    assert_string_equal(text_get(&text), "No findings. No request was traced.\n");
    text_clear(&text);
    report_add_loss(&report, "ring-full", "api", 3);
    report_add_missing(&report, "TLS reads", "no symbol", "Install it.");
    prose_limits(&text, &report, &prose_plain, 80);
    assert_non_null(strstr(text_get(&text), "3 events: ring-full, api"));
    assert_non_null(strstr(text_get(&text), "TLS reads: no symbol. Install it."));
    text_done(&text);
    report_done(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wraps_at_the_width),
        cmocka_unit_test(groups_digits),
        cmocka_unit_test(says_everything),
        cmocka_unit_test(groups_victims_by_endpoint),
        cmocka_unit_test(says_what_is_lost_and_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
