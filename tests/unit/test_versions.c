/* In which order versions were deployed, and which of them are the base. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/versions.h"

#include <stdio.h>

#include "base/clock.h"
#include "diagnose/diagnosis.h"
#include "test.h"

struct step {
    const char *version;
    uint64_t from_s, requests, ns;
};

static void serve(struct diagnosis *diagnosis, const struct step *steps, size_t count)
{
    uint64_t id = 0;
    for (size_t s = 0; s < count; s++)
        for (uint64_t i = 0; i < steps[s].requests; i++) {
            struct span_resource resource = {
                .service = SLICE("shop"), .version = slice_of(steps[s].version), .host = SLICE("h")};
            uint64_t start_ns = (1000000 + steps[s].from_s + i) * NS_PER_S;
            struct span span = {.trace_low = ++id,
                                .id = id,
                                .start_ns = start_ns,
                                .end_ns = start_ns + steps[s].ns + i % 7 * 1000,
                                .name = SLICE("buy"),
                                .kind = SPAN_KIND_SERVER,
                                .resource = &resource};
            span_resource_conventions(&resource);
            assert_int_equal(span_sink_put(diagnosis_sink(diagnosis), &span), 0);
        }
    assert_int_equal(diagnosis_flush(diagnosis, UINT64_MAX), 0);
}

/* The names of the sides: "newest against base ... (since)". */
static void check(const struct step *steps, size_t count, const char *newer, const char *base,
                  const char *since)
{
    struct diagnosis *diagnosis;
    struct diagnosis_settings settings = {0};
    struct version_sides sides;
    struct version_list list;
    assert_int_equal(diagnosis_new(&settings, &diagnosis), 0);
    serve(diagnosis, steps, count);
    const struct book *book = diagnosis_book(diagnosis);
    assert_int_equal(versions_list(book, names_find(book->names, SLICE("shop")), &list), 0);
    const struct bucket *entries = NULL;
    array_foreach (&book->buckets, bucket)
        entries = bucket->whole || bucket->callee != NAMES_NONE ? entries : bucket;
    assert_true(versions_choose(book, entries, list.versions, list.count, NULL, NULL, &sides));
    assert_false(list.unsure);
    assert_string_equal(names_get(book->names, sides.newer), newer);
    assert_string_equal(names_get(book->names, sides.older[sides.older_count - 1]), base);
    assert_string_equal(names_get(book->names, sides.since), since);
    free(list.versions);
    diagnosis_free(diagnosis);
}

static void deployment_beats_numbers(void **state)
{
    struct step steps[] = {{"2.0.0", 0, 100, 9000000}, {"1.9.9", 200, 100, 9000000}};
    check(steps, 2, "1.9.9", "2.0.0", "1.9.9");
    struct step commits[] = {{"f00", 0, 100, 9000000}, {"abc", 200, 100, 9000000}};
    check(commits, 2, "abc", "f00", "abc");
}

static void versions_from_the_beginning_go_by_number(void **state)
{
    struct step steps[] = {{"1.10", 0, 100, 9000000}, {"1.9", 1, 100, 9000000}};
    check(steps, 2, "1.10", "1.9", "1.10");
}

/* Both from the beginning: names with numbers in them, or what else shows it. */
static void names_with_numbers_go_by_them(void **state)
{
    static const char *const ordered[][2] = {{"release-9", "release-12"},
                                             {"2.4.0-rc1", "2.4.0-rc2"},
                                             {"1.2.0-14-gf3a9c41", "1.2.0-15-g0b71e2f"},
                                             {"build-7", "build-70"}};
    for (size_t i = 0; i < ARRAY_SIZE(ordered); i++) {
        struct step steps[] = {{ordered[i][1], 0, 100, 9000000}, {ordered[i][0], 1, 100, 9000000}};
        check(steps, 2, ordered[i][1], ordered[i][0], ordered[i][1]);
    }
}

static void what_left_or_has_most_requests_is_older(void **state)
{
    struct step left[] = {{"0b71e2f", 0, 200, 9000000}, {"f3a9c41", 1, 100, 9000000}};
    check(left, 2, "0b71e2f", "f3a9c41", "0b71e2f");
    struct step canary[] = {{"0b71e2f", 0, 1, 9000000},
                            {"0b71e2f", 30, 1, 9000000},
                            {"0b71e2f", 90, 9, 9000000},
                            {"f3a9c41", 1, 100, 9000000}};
    check(canary, 4, "0b71e2f", "f3a9c41", "0b71e2f");
}

/* What is known of their order; without the versions. */
static struct version_list look(const struct step *steps, size_t count)
{
    struct diagnosis *diagnosis;
    struct diagnosis_settings settings = {0};
    struct version_list list;
    assert_int_equal(diagnosis_new(&settings, &diagnosis), 0);
    serve(diagnosis, steps, count);
    const struct book *book = diagnosis_book(diagnosis);
    assert_int_equal(versions_list(book, names_find(book->names, SLICE("shop")), &list), 0);
    free(list.versions);
    diagnosis_free(diagnosis);
    return (struct version_list){.count = list.count, .guessed = list.guessed, .unsure = list.unsure};
}

static bool is_unsure(const char *one, const char *other)
{
    struct step steps[] = {{one, 0, 100, 9000000}, {other, 1, 100, 9000000}};
    return look(steps, ARRAY_SIZE(steps)).unsure;
}

static void what_nothing_shows_is_said(void **state)
{
    assert_true(is_unsure("f3a9c41", "0b71e2f"));
    assert_true(is_unsure("main-7b71e2f", "main-0b71e2a")); /* digits of commits are no numbers */
    assert_true(is_unsure("blue", "green"));
    assert_false(is_unsure("1.9", "1.10"));
}

static void who_has_most_requests_is_a_guess(void **state)
{
    struct step share[] = {{"0b71e2f", 0, 1, 9000000},
                           {"0b71e2f", 30, 1, 9000000},
                           {"0b71e2f", 90, 9, 9000000},
                           {"f3a9c41", 1, 100, 9000000}};
    struct step numbers[] = {{"1.9", 0, 100, 9000000}, {"1.10", 1, 100, 9000000}};
    struct step time[] = {{"f3a9c41", 0, 100, 9000000}, {"0b71e2f", 200, 100, 9000000}};
    assert_true(look(share, ARRAY_SIZE(share)).guessed);
    assert_false(look(share, ARRAY_SIZE(share)).unsure);
    assert_false(look(numbers, ARRAY_SIZE(numbers)).guessed);
    assert_false(look(time, ARRAY_SIZE(time)).guessed);
}

static void the_base_holds_nothing_slow(void **state)
{
    struct step steps[] = {{"1", 0, 100, 9000000},
                           {"2", 200, 100, 14000000},
                           {"3", 400, 100, 14100000},
                           {"4", 600, 100, 13900000}};
    check(steps, 4, "4", "1", "2");
}

static void what_was_mended_is_no_base(void **state)
{
    struct step steps[] = {{"1", 0, 100, 9000000}, {"2", 200, 100, 15000000}, {"3", 400, 100, 9000000}};
    check(steps, 3, "3", "1", "3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(deployment_beats_numbers),
                                       cmocka_unit_test(versions_from_the_beginning_go_by_number),
                                       cmocka_unit_test(names_with_numbers_go_by_them),
                                       cmocka_unit_test(what_left_or_has_most_requests_is_older),
                                       cmocka_unit_test(what_nothing_shows_is_said),
                                       cmocka_unit_test(who_has_most_requests_is_a_guess),
                                       cmocka_unit_test(the_base_holds_nothing_slow),
                                       cmocka_unit_test(what_was_mended_is_no_base)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
