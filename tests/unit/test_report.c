/* SPDX-License-Identifier: Apache-2.0 */
#include "finding/report.h"

#include <string.h>

#include "test.h"

static struct finding *add(struct report *report, enum finding_kind kind, enum finding_severity severity,
                           uint64_t cost_ns)
{
    struct finding *finding = report_add_finding(report, kind, severity);
    assert_non_null(finding);
    finding->cost_ns = cost_ns;
    finding->title = finding_say(finding, "cost %d", (int)cost_ns);
    return finding;
}

static void ranks_by_what_requests_lost(void **state)
{
    struct report report = {0};
    add(&report, FINDING_run_queue_wait, SEVERITY_INFO, 900);
    add(&report, FINDING_slow_command, SEVERITY_WARNING, 20);
    add(&report, FINDING_blocking_regexp, SEVERITY_CRITICAL, 10);
    add(&report, FINDING_thread_pool_starved, SEVERITY_WARNING, 30);
    report_sort(&report);
    const uint64_t order[] = {30, 20, 10, 900};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(report.findings.at[i]->cost_ns, order[i]);
    report_done(&report);
}

static void gates(void **state)
{
    struct report report = {0};
    assert_int_equal(report_gate(&report, "warning"), 0);
    add(&report, FINDING_run_queue_wait, SEVERITY_INFO, 1);
    assert_int_equal(report_gate(&report, "warning"), 0);
    assert_int_equal(report_gate(&report, "info"), 1);
    assert_int_equal(report_gate(&report, "run-queue-wait"), 0); /* information passes a gate by kind */
    add(&report, FINDING_blocking_regexp, SEVERITY_WARNING, 1);
    assert_int_equal(report_gate(&report, "warning"), 1);
    assert_int_equal(report_gate(&report, "critical"), 0);
    assert_int_equal(report_gate(&report, "blocking-regexp"), 1);
    assert_int_equal(report_gate(&report, "slow-io"), 0);
    assert_int_equal(report_gate(&report, "whatever"), -22);
    report_done(&report);
}

static void losses_add_up(void **state)
{
    struct report report = {0};
    assert_false(report_lost(&report));
    assert_int_equal(report_add_loss(&report, "ring-full", "api", 0), 0);
    assert_false(report_lost(&report));
    assert_int_equal(report_add_loss(&report, "ring-full", "api", 3), 0);
    assert_int_equal(report_add_loss(&report, "ring-full", "api", 4), 0);
    assert_int_equal(report_add_loss(&report, "ring-full", NULL, 5), 0);
    assert_true(report_lost(&report));
    assert_int_equal(report.losses.count, 2);
    assert_int_equal(report.losses.at[0].count, 7);
    report_done(&report);
}

static void document_has_its_parts_in_order(void **state)
{
    struct report report = {.from_ns = 5, .to_ns = 10};
    struct finding *f = add(&report, FINDING_blocking_regexp, SEVERITY_CRITICAL, 3);
    f->where =
        (struct finding_place){.service = "api", .process = 42, .layer = "v8", .file = "/a.js", .line = 7};
    f->to_ns = UINT64_MAX;
    finding_add_text(f, "pattern", "/\xff(a+)+$/"); /* not UTF-8 */
    finding_add_count(f, "worst_ns", 12);
    finding_add_affected(f, &(struct finding_affected){.method = "GET", .path = "/x", .delay_ns = 3}, 9);
    report_add_missing(&report, "connTLSRead", "not in the symbols", NULL);
    report_add_overhead(&report, "events_count", 12345);
    report_add_overhead(&report, "cpu_share", 0.25);
    report.requests = json_array();
    json_array_append_new(report.requests, json_string("r"));

    assert_string_equal(f->remedy,
                        finding_kinds[FINDING_blocking_regexp].remedy); /* unless it gets its own */
    json_t *document = report_json(&report);
    assert_non_null(document);
    const char *const keys[] = {"schema",   "findings", "requests", "losses",
                                "overhead", "missing",  "from_ns",  "to_ns"};
    size_t i = 0;
    const char *key;
    json_t *value;
    json_object_foreach (document, key, value) {
        assert_true(i < sizeof(keys) / sizeof(*keys));
        assert_string_equal(key, keys[i++]);
    }
    assert_int_equal(i, sizeof(keys) / sizeof(*keys));

    json_t *finding = json_array_get(json_object_get(document, "findings"), 0);
    assert_string_equal(json_string_value(json_object_get(finding, "kind")), "blocking-regexp");
    assert_string_equal(json_string_value(json_object_get(finding, "severity")), "critical");
    assert_true(json_is_null(json_object_get(finding, "to_ns")));
    json_t *where = json_object_get(finding, "where");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(where, "source"), "line")), 7);
    assert_true(json_is_null(json_object_get(where, "thread")));
    json_t *evidence = json_object_get(finding, "evidence");
    assert_string_equal(json_string_value(json_object_get(evidence, "pattern")), "/\357\277\275(a+)+$/");
    assert_int_equal(json_integer_value(json_object_get(evidence, "worst_ns")), 12);
    json_t *affected = json_array_get(json_object_get(finding, "affected"), 0);
    assert_string_equal(json_string_value(json_object_get(affected, "role")), "waited");
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(document, "overhead"), "events_count")), 12345);
    assert_int_equal(json_array_size(json_object_get(document, "requests")), 1);
    json_decref(document);
    report_done(&report);
}

static void empty_document_says_why(void **state)
{
    struct report report = {.nothing = "nothing was traced"};
    json_t *document = report_json(&report);
    assert_int_equal(json_array_size(json_object_get(document, "findings")), 0);
    assert_int_equal(json_array_size(json_object_get(document, "requests")), 0);
    assert_string_equal(json_string_value(json_object_get(document, "nothing")), "nothing was traced");
    json_decref(document);
    report_done(&report);
}

/* A large loss leads, and nothing is critical beside it; a small one is told among the limits only. */
static void losses_lead(void **state)
{
    static const struct {
        uint64_t lost, read;
        int severity; /* -1: no finding */
    } CASES[] = {
        {1, 1000, -1}, {20, 980, SEVERITY_INFO}, {950, 50, SEVERITY_WARNING}, {5, 0, SEVERITY_WARNING}};
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct report report = {0};
        struct finding *other = report_add_finding(&report, FINDING_blocking_regexp, SEVERITY_CRITICAL);
        other->cost_ns = 1000000;
        assert_int_equal(report_add_loss(&report, "ring-full", NULL, CASES[i].lost), 0);
        assert_int_equal(report_judge_losses(&report, CASES[i].read, 100, 200), 0);
        bool said = CASES[i].severity >= 0;
        assert_int_equal(report.findings.count, said ? 2 : 1);
        assert_int_equal(report.findings.at[0]->kind, said ? FINDING_events_lost : FINDING_blocking_regexp);
        if (said) {
            assert_int_equal((int)report.findings.at[0]->severity, CASES[i].severity);
            assert_int_equal(report.findings.at[0]->from_ns, 100);
            assert_int_equal(report.findings.at[0]->to_ns, 200);
            assert_int_equal(finding_get_evidence(report.findings.at[0], "lost_count")->count, CASES[i].lost);
        }
        assert_int_equal(other->severity,
                         CASES[i].severity == SEVERITY_WARNING ? SEVERITY_WARNING : SEVERITY_CRITICAL);
        report_done(&report);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_by_what_requests_lost),
        cmocka_unit_test(gates),
        cmocka_unit_test(losses_add_up),
        cmocka_unit_test(losses_lead),
        cmocka_unit_test(document_has_its_parts_in_order),
        cmocka_unit_test(empty_document_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
