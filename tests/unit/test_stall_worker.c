/* Reports on their way from a worker, which may say anything. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/stall_worker.h"

#include <errno.h>
#include <string.h>

#include "broker/protocol.h"
#include "test.h"

static struct stall_report sample(void)
{
    struct stall_report report = {.cause = STALL_REGEXP,
                                  .loading = true,
                                  .count = 2,
                                  .where = 1,
                                  .truncated = "the copy of the stack ends here",
                                  .pattern = strdup("(a+)+$"),
                                  .flags = strdup(""),
                                  .system_call = -1};
    report.frames[0] = (struct stall_frame){.kind = STALL_FRAME_REGEXP};
    report.frames[1] = (struct stall_frame){.kind = STALL_FRAME_JS,
                                            .function = strdup("check\033[2J"),
                                            .script = strdup("/srv/app.js"),
                                            .line = 7,
                                            .column = 3,
                                            .exact = true};
    return report;
}

static void a_report_arrives(void **state)
{
    struct stall_report report = sample(), got;
    void *bytes;
    size_t length;
    assert_int_equal(stall_report_encode(&report, &bytes, &length), 0);
    assert_int_equal(stall_report_decode(bytes, length, &got), 0);
    assert_int_equal(got.cause, STALL_REGEXP);
    assert_true(got.loading);
    assert_int_equal(got.count, 2);
    assert_int_equal(got.where, 1);
    assert_string_equal(got.truncated, report.truncated);
    assert_string_equal(got.pattern, "(a+)+$");
    assert_string_equal(got.flags, "");
    assert_null(got.builtin);
    assert_null(got.frames[0].function);
    assert_string_equal(got.frames[1].function, "check?[2J"); /* what a terminal would obey is not kept */
    assert_string_equal(got.frames[1].script, "/srv/app.js");
    assert_int_equal(got.frames[1].line, 7);
    assert_true(got.frames[1].exact);
    stall_report_done(&report);
    stall_report_done(&got);
    free(bytes);
}

static void long_names_are_cut(void **state)
{
    struct stall_report report = {.where = -1, .count = STALL_FRAMES_MAX}, got;
    void *bytes;
    size_t length;
    for (size_t i = 0; i < STALL_FRAMES_MAX; i++) {
        report.frames[i].function = malloc(100001);
        memset(report.frames[i].function, 'x', 100000);
        report.frames[i].function[100000] = '\0';
        report.frames[i].script = strdup(report.frames[i].function);
    }
    assert_int_equal(stall_report_encode(&report, &bytes, &length), 0);
    assert_true(length <= BROKER_BYTES_MAX);
    assert_int_equal(stall_report_decode(bytes, length, &got), 0);
    assert_true(strlen(got.frames[0].function) < 1000);
    stall_report_done(&report);
    stall_report_done(&got);
    free(bytes);
}

/* Every length, and every byte replaced: refused, or a report that is in order. */
static void what_makes_no_sense_is_refused(void **state)
{
    struct stall_report report = sample(), got;
    void *bytes;
    size_t length, refused = 0;
    assert_int_equal(stall_report_encode(&report, &bytes, &length), 0);
    for (size_t n = 0; n < length; n++)
        assert_int_equal(stall_report_decode(bytes, n, &got), -EPROTO);
    for (size_t i = 0; i < length; i++)
        for (int value = 0; value < 256; value += 5) {
            char *copy = malloc(length);
            memcpy(copy, bytes, length);
            copy[i] = (char)value;
            int r = stall_report_decode(copy, length, &got);
            free(copy);
            refused += r < 0;
            if (r < 0)
                continue;
            assert_true(got.count <= STALL_FRAMES_MAX && got.where < (int)got.count && got.where >= -1);
            assert_true((unsigned)got.cause < STALL_CAUSES);
            stall_report_done(&got);
        }
    assert_true(refused > 1000);
    stall_report_done(&report);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_arrives),
        cmocka_unit_test(long_names_are_cut),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
