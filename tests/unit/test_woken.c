/* Waits by who ended them, from a profile's stacks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/woken.h"

#include <string.h>

#include "test.h"

/* Frames: "[...]" is the kernel's, "lib:NAME" of the C library, "(NAME)" a process, others the application's.
 */
static void add(struct profile *p, uint64_t weight, const char *stack)
{
    char text[512], *rest = NULL;
    uint32_t node = 0;
    snprintf(text, sizeof(text), "%s", stack);
    for (char *name = strtok_r(text, ";", &rest); name; name = strtok_r(NULL, ";", &rest)) {
        bool library = strncmp(name, "lib:", 4) == 0;
        struct profile_frame frame = {.name = profile_string(p, library ? name + 4 : name),
                                      .module = profile_string(p, library ? "libc.so.6" : "shop"),
                                      .kind = *name == '['   ? FRAME_KERNEL
                                              : *name == '(' ? FRAME_GROUP
                                                             : FRAME_NATIVE};
        node = profile_child(p, node, profile_add_frame(p, &frame));
    }
    profile_count(p, node, 1, weight);
}

static const char *name_of(const struct profile *p, uint32_t frame)
{
    return frame ? profile_text(p, p->frames.at[frame].name) : "";
}

static void by_place_and_chain(void **state)
{
    (void)state;
    struct profile *p;
    struct business_rules rules = {0};
    size_t count;
    assert_int_equal(profile_new(&p), 0);
    add(p, 5,
        "(shop);main;reads;lib:wait;[futex];[woken by keeper (1)];[wake];lib:signal;hands_over;keeps;"
        "[woken by a timer]");
    add(p, 7,
        "(shop);main;reads;lib:waits_otherwise;[futex];[woken by keeper (1)];lib:unlock;hands_over;main;"
        "[woken by a timer]");
    add(p, 9, "(shop);main;reads;lib:wait;[futex];[woken by keeper (1)];lib:signal;hands_over;keeps");
    add(p, 30, "(shop);main;reads;lib:wait;[futex]");             /* who ended it is not known */
    add(p, 40, "(shop);main;reads;lib:wait;[waiting for a CPU]"); /* nobody could */
    add(p, 2, "(shop);lib:begins;lib:waits;[woken by other (2)];lib:signals;lib:runs");
    struct woken_wait *list = woken_waits(p, &rules, &count);
    assert_non_null(list);
    assert_int_equal(count, 3);
    assert_int_equal(list[0].waited_ns, 12);
    assert_int_equal(list[0].count, 2);
    assert_int_equal(list[0].link_count, 2);
    assert_string_equal(name_of(p, list[0].process), "(shop)");
    assert_string_equal(name_of(p, list[0].place), "reads");
    assert_string_equal(name_of(p, list[0].links[0].by), "[woken by keeper (1)]");
    assert_string_equal(name_of(p, list[0].links[0].place), "hands_over");
    assert_string_equal(name_of(p, list[0].links[1].by), "[woken by a timer]");
    assert_int_equal(list[0].links[1].place, 0);
    assert_int_equal(list[0].most_ns, 7);
    assert_int_equal(list[1].waited_ns, 9);
    assert_int_equal(list[1].link_count, 1);
    /* Where all is a library's, the innermost of it. */
    assert_string_equal(name_of(p, list[2].place), "waits");
    assert_string_equal(name_of(p, list[2].links[0].place), "signals");
    free(list);
    profile_free(p);
}

/* Lists of functions tell of those that wait: wakers' stacks are behind them, turned round. */
static void wakers_are_not_counted_as_functions(void **state)
{
    (void)state;
    struct profile *p;
    struct business_rules rules = {0};
    size_t count;
    assert_int_equal(profile_new(&p), 0);
    add(p, 10,
        "(shop);main;reads;lib:wait;[woken by keeper (1)];lib:signal;hands_over;main;[woken by a timer]");
    struct business_function *hot = business_functions(p, &rules, &count);
    assert_non_null(hot);
    assert_int_equal(count, 1);
    assert_string_equal(name_of(p, hot[0].frame), "reads");
    assert_string_equal(name_of(p, hot[0].library), "wait");
    assert_int_equal(hot[0].total, 10);
    free(hot);
    struct profile_function *list = profile_functions(p, &count);
    assert_non_null(list);
    for (size_t i = 0; i < count; i++) {
        const char *name = name_of(p, list[i].frame);
        assert_string_not_equal(name, "hands_over");
        assert_string_not_equal(name, "[woken by a timer]");
        assert_int_equal(list[i].self, strcmp(name, "[woken by keeper (1)]") == 0 ? 10 : 0);
        assert_int_equal(list[i].total, 10);
    }
    free(list);
    assert_int_equal(business_label(p, &rules), 0);
    assert_string_equal(profile_text(p, p->business.at[p->nodes.count - 1]), "reads");
    profile_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_place_and_chain),
        cmocka_unit_test(wakers_are_not_counted_as_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
