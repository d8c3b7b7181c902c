/* Functions of programs that were built elsewhere, renamed, or made by generators. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/formats.h"
#include "test.h"

static void names(void **state)
{
    (void)state;
    static const char *const CASES[][2] = {
        {"parse", "parse"},
        {"parse.constprop.0", "parse"},
        {"parse.isra.0.cold", "parse"},
        {"parse.part.3", "parse"},
        {"hash.llvm.12345678901234", "hash"},
        {"core::iter::map::h0123456789abcdef", "core::iter::map"},
        {"core::iter::map::hello", "core::iter::map::hello"},
        {"Shop$$Lambda$14/0x00007f1234.run", "Shop$$Lambda.run"},
        {"jdk.internal.reflect.GeneratedMethodAccessor12.invoke",
         "jdk.internal.reflect.GeneratedMethodAccessor.invoke"},
        {"com.sun.proxy.$Proxy9.get", "com.sun.proxy.$Proxy.get"},
        {"main.main.func1", "main.main.func1"},
        {"std::vector<int>::push_back(int const&)", "std::vector<int>::push_back(int const&)"},
        {"module.partition", "module.partition"},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct text out = {0};
        identity_name(CASES[i][0], &out);
        assert_string_equal(text_get(&out), CASES[i][1]);
        text_done(&out);
    }
}

static void modules(void **state)
{
    (void)state;
    static const char *const CASES[][2] = {
        {"/usr/lib/x86_64-linux-gnu/libfoo.so.1.2.13", "libfoo.so"},
        {"libfoo.so.1.2.14", "libfoo.so"},
        {"/lib/libc-2.31.so", "libc.so"},
        {"/lib/libc.so.6", "libc.so"},
        {"/srv/v1/app", "app"},
        {"/srv/v2/app (deleted)", "app"},
        {"/srv/app-1.2.3", "app"},
        {"/srv/app_v2", "app"},
        {"/usr/bin/python3.11", "python3.11"},
        {"libstdc++.so.6.0.30", "libstdc++.so"},
        {"/usr/bin/node", "node"},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct text out = {0};
        identity_module(CASES[i][0], &out);
        assert_string_equal(text_get(&out), CASES[i][1]);
        text_done(&out);
    }
}

struct case_function {
    const char *name, *file, *module;
};

static struct profile_function *functions(struct profile *p, const struct case_function *list, size_t count)
{
    struct profile_function *f = calloc(count + 1, sizeof(*f));
    for (size_t i = 0; i < count; i++) {
        struct profile_frame frame = {.name = profile_string(p, list[i].name),
                                      .file = profile_string(p, list[i].file),
                                      .module = profile_string(p, list[i].module)};
        f[i].frame = profile_add_frame(p, &frame);
    }
    return f;
}

static void matches(void **state)
{
    (void)state;
    static const struct case_function BEFORE[] = {
        {"main", "/build/v1/src/main.c", ""},      /* 0: moved */
        {"parse", "", "/opt/v1/libfoo.so.1.2.13"}, /* 1: a newer library elsewhere */
        {"init", "/build/v1/a/util.c", ""},        /* 2, 3: two of one name in files of one name */
        {"init", "/build/v1/b/util.c", ""},
        {"serve", "", "/srv/server-old"},              /* 4: a renamed program */
        {"helper.isra.0", "/build/v1/src/help.c", ""}, /* 5: compiled otherwise, in another file */
        {"start", "", "/usr/lib/libssl.so.3"},         /* 6: not the same as libpng's */
        {"f(int)", "", "/srv/server-old"},             /* 7: other parameters */
        {"gone", "/build/v1/src/main.c", ""},          /* 8 */
        {"read", "", ""},                              /* 9: nothing but a name */
        {"more", "", "/usr/lib/libpng16.so.15"},       /* 10: libpng was there before, too */
    };
    static const struct case_function AFTER[] = {
        {"init", "/home/v2/b/util.c", ""},        {"init", "/home/v2/a/util.c", ""},
        {"main", "/home/v2/source/main.c", ""},   {"parse", "", "/opt/v2/libfoo.so.1.2.14"},
        {"serve", "", "/srv/server-new"},         {"helper", "/home/v2/source/helpers.c", ""},
        {"start", "", "/usr/lib/libpng16.so.16"}, {"other", "", "/usr/lib/libssl.so.3"},
        {"f(long)", "", "/srv/server-new"},       {"read", "", ""},
        {"more", "", "/usr/lib/libpng16.so.16"},
    };
    static const size_t EXPECTED[] = {2, 3, 1, 0, 4, 5, IDENTITY_NONE, 8, IDENTITY_NONE, 9, 10};
    struct profile *b, *a;
    size_t match[ARRAY_SIZE(BEFORE)];
    assert_int_equal(profile_new(&b), 0);
    assert_int_equal(profile_new(&a), 0);
    struct profile_function *before = functions(b, BEFORE, ARRAY_SIZE(BEFORE)),
                            *after = functions(a, AFTER, ARRAY_SIZE(AFTER));
    assert_int_equal(identity_match(b, before, ARRAY_SIZE(BEFORE), a, after, ARRAY_SIZE(AFTER), match), 0);
    for (size_t i = 0; i < ARRAY_SIZE(BEFORE); i++)
        if (match[i] != EXPECTED[i])
            fail_msg("%s (%zu) became %zu, not %zu", BEFORE[i].name, i, match[i], EXPECTED[i]);
    free(before);
    free(after);
    profile_free(b);
    profile_free(a);
}

static void add(struct profile *p, const char *file, const char *module, unsigned line, uint64_t weight)
{
    struct profile_frame main_frame = {.name = profile_string(p, "main"),
                                       .module = profile_string(p, module)},
                         frame = {.name = profile_string(p, "work"),
                                  .file = profile_string(p, file),
                                  .module = profile_string(p, module),
                                  .line = line};
    uint32_t node = profile_child(p, 0, profile_add_frame(p, &main_frame));
    profile_count(p, profile_child(p, node, profile_add_frame(p, &frame)), 1, weight);
}

/* Three instances of a program that were built at three places are one. */
static void merged(void **state)
{
    (void)state;
    for (int by_line = 0; by_line < 2; by_line++) {
        struct profile *p;
        size_t ends[3], count;
        assert_int_equal(profile_new(&p), 0);
        p->by_line = by_line;
        add(p, "/v1/work.c", "/v1/app", 10, 5);
        ends[0] = p->frames.count;
        add(p, "/v2/work.c", "/v2/app", 12, 7);
        ends[1] = p->frames.count;
        add(p, "/v3/src/work.c", "/v3/app-new", 12, 9);
        ends[2] = p->frames.count;
        assert_int_equal(identity_merge(p, ends, 3), 0);
        struct profile_function *list = profile_functions(p, &count);
        assert_non_null(list);
        assert_int_equal(count, by_line ? 3 : 2); /* main, and work's lines */
        assert_int_equal(list[0].self, by_line ? 16 : 21);
        assert_string_equal(profile_text(p, p->frames.at[list[0].frame].file), "/v1/work.c");
        free(list);
        profile_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(modules),
        cmocka_unit_test(matches),
        cmocka_unit_test(merged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
