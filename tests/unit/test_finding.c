/* SPDX-License-Identifier: Apache-2.0 */
#include "finding/finding.h"

#include <string.h>

#include "base/file.h"

#include "test.h"

static struct arena arena;

static int clean(void **state)
{
    arena_done(&arena);
    return 0;
}

static void done(struct finding *finding)
{
    array_done(&finding->evidence);
    array_done(&finding->affected);
}

static void names_are_unique_and_found(void **state)
{
    for (unsigned kind = 0; kind < FINDING_KIND_COUNT; kind++) {
        assert_int_equal(finding_kind_by_name(finding_kinds[kind].name), kind);
        assert_true(strlen(finding_kinds[kind].text) > 10 && strlen(finding_kinds[kind].remedy) > 10);
        assert_true(finding_kinds[kind].least <= finding_kinds[kind].most);
        assert_true(finding_kinds[kind].most < SEVERITY_COUNT);
        const struct finding_evidence_description *e = finding_kinds[kind].evidence;
        for (; e->name; e++)
            for (const struct finding_evidence_description *other = e + 1; other->name; other++)
                assert_string_not_equal(e->name, other->name);
    }
    assert_int_equal(finding_kind_by_name("no-such-kind"), FINDING_KIND_COUNT);
    assert_int_equal(finding_severity_by_name("warning"), SEVERITY_WARNING);
    assert_int_equal(finding_severity_by_name("loud"), SEVERITY_COUNT);
}

static void evidence_must_be_listed(void **state)
{
    struct finding finding = {.kind = FINDING_blocking_regexp, .arena = &arena};
    assert_int_equal(finding_add_count(&finding, "blocked_ns", 1234), 0);
    char pattern[] = "/^(a+)+$/";
    assert_int_equal(finding_add_text(&finding, "pattern", pattern), 0);
    pattern[1] = '?'; /* it was copied */
    assert_int_equal(finding_add_count(&finding, "executed_ns", 1), -22);
    assert_int_equal(finding.evidence.count, 2);
    assert_int_equal(finding_get_evidence(&finding, "blocked_ns")->count, 1234);
    assert_string_equal(finding_get_evidence(&finding, "pattern")->text, "/^(a+)+$/");
    assert_null(finding_get_evidence(&finding, "worst_ns"));
    done(&finding);
}

static void says_long_things(void **state)
{
    struct finding finding = {.arena = &arena};
    char word[1000];
    memset(word, 'x', sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    assert_string_equal(finding_say(&finding, "%d %s", 7, "short"), "7 short");
    const char *said = finding_say(&finding, "<%s>", word);
    assert_int_equal(strlen(said), 1001);
    assert_int_equal(said[1000], '>');
}

static void counts_affected_beyond_the_kept(void **state)
{
    struct finding finding = {.arena = &arena};
    for (int i = 0; i < 10; i++) {
        char path[16] = "/users/1";
        struct finding_affected affected = {.path = path, .count = i == 9 ? 5 : 0, .delay_ns = 7};
        assert_int_equal(finding_add_affected(&finding, &affected, 3), 0);
        path[0] = 'X';
    }
    assert_int_equal(finding.affected_count, 14);
    assert_int_equal(finding.affected.count, 3);
    assert_string_equal(finding.affected.at[2].path, "/users/1");
    assert_int_equal(finding.affected.at[2].count, 1);
    done(&finding);
}

/* doc/findings.md is what `sonde report --kinds` prints. */
static void manual_is_up_to_date(void **state)
{
    char *page = NULL;
    assert_int_equal(file_read(SOURCE_ROOT "/doc/findings.md", 1 << 20, &page, NULL), 0);
    struct text manual = {0};
    finding_write_manual(&manual);
    assert_string_equal(page, text_get(&manual));
    text_done(&manual);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unique_and_found),
        cmocka_unit_test_teardown(evidence_must_be_listed, clean),
        cmocka_unit_test_teardown(says_long_things, clean),
        cmocka_unit_test_teardown(counts_affected_beyond_the_kept, clean),
        cmocka_unit_test(manual_is_up_to_date),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
