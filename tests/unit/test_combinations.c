/* How many combinations of attribute values have enough requests on either side. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/combinations.h"

#include <stdio.h>

#include "test.h"

enum { KEYS = 3, VALUES = 4 };

/* A cell for each triple of values with one request on either side, but for those whose first value is 3:
 * they have none on the older side. */
static void build(struct book *book, struct excess_list *list, struct label *values)
{
    for (unsigned key = 0; key < KEYS; key++)
        for (unsigned value = 0; value < VALUES; value++) {
            char words[2][8];
            snprintf(words[0], sizeof(words[0]), "k%u", key);
            snprintf(words[1], sizeof(words[1]), "v%u", value);
            assert_true(labels_put(book->labels, slice_of(words[0]), slice_of(words[1]),
                                   &values[key * VALUES + value]));
        }
    for (unsigned i = 0; i < VALUES * VALUES * VALUES; i++) {
        struct label set[KEYS] = {values[i / 16], values[VALUES + i / 4 % 4], values[2 * VALUES + i % 4]};
        struct excess cell = {.n = 1};
        assert_int_equal(labels_set(book->labels, set, KEYS, &cell.labels), 0);
        assert_int_equal(array_add(&list->cells, cell), 0);
        if (i / 16 != 3)
            assert_int_equal(array_add(&list->older, cell), 0);
    }
}

static void check(double least, double one, double two, double three)
{
    struct names names = {0};
    struct labels labels = {0};
    struct book book;
    struct excess_list list = {0};
    struct label values[KEYS * VALUES];
    double counts[CAUSE_LENGTH_MAX + 1];
    struct combination_limits limits = {.least = least};
    book_init(&book, &names, &labels, &(struct book_settings){0});
    build(&book, &list, values);
    assert_int_equal(combinations_weigh(&book, &list, values, KEYS * VALUES, &limits, counts), 0);
    assert_float_equal(counts[1], one, 0.1);
    assert_float_equal(counts[2], two, 0.1);
    assert_float_equal(counts[3], three, 0.1);
    excess_done(&list);
    book_done(&book);
    labels_done(&labels);
    names_done(&names);
}

static void only_those_with_enough_requests_count(void **state)
{
    /* The first key has three values on both sides; pairs of the other two keys have three older requests. */
    check(1, 3 + 4 + 4, 12 + 12 + 16, 48);
    check(4, 3 + 4 + 4, 12 + 12, 0);
    check(5, 3 + 4 + 4, 0, 0);
    check(13, 3, 0, 0);
    check(17, 0, 0, 0);
}

/* Few requests, in which twice the latency could not be seen, take little of the level; enough take all. */
static void few_requests_weigh_little(void **state)
{
    struct combination_limits limits = {.least = 6, .noise = 0.2}, alike = {.least = 6};
    double least = combinations_weight(&limits, 6, 6), some = combinations_weight(&limits, 15, 15);
    assert_true(least >= 0.05 && least < 0.1);
    assert_true(some > 0.3 && some < 0.9);
    assert_float_equal(combinations_weight(&limits, 40, 40), 1, 1e-9);
    assert_float_equal(combinations_weight(&limits, 4000, 40), 1, 1e-9);
    assert_true(combinations_weight(&limits, 4000, 6) < some);
    assert_float_equal(combinations_weight(&alike, 6, 6), 1, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_those_with_enough_requests_count),
                                       cmocka_unit_test(few_requests_weigh_little)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
