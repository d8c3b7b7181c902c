/* Counters for Prometheus: sums are whole, series stay, their number is bounded, and any name is a label. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/exposition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

static struct exposition *new_exposition(unsigned hot, unsigned functions, unsigned services, unsigned rest)
{
    struct exposition *e;
    struct exposition_options options = {hot, functions, services, rest};
    assert_int_equal(exposition_new(&options, &e), 0);
    return e;
}

static struct profile *new_window(void)
{
    struct profile *p;
    assert_int_equal(profile_new(&p), 0);
    return p;
}

/* "service;outer;inner" */
static void take(struct profile *p, const char *stack, uint64_t ns)
{
    char copy[512], *state;
    uint32_t node = 0;
    snprintf(copy, sizeof(copy), "%s", stack);
    for (char *name = strtok_r(copy, ";", &state); name; name = strtok_r(NULL, ";", &state))
        node = profile_child(p, node, profile_named_frame(p, name, node ? FRAME_NATIVE : FRAME_GROUP));
    profile_count(p, node, 1, ns);
}

static void add(struct exposition *e, struct profile *p)
{
    assert_int_equal(exposition_add(e, p, NULL), 0);
    profile_free(p);
}

/* The value of a series of functions themselves; -1: there is none. */
static double value(const struct exposition *e, const char *service, const char *function)
{
    struct text text = {0};
    char key[600];
    exposition_write(e, &text);
    assert_false(text.failed);
    snprintf(key, sizeof(key), "\nsonde_function_cpu_seconds_total{service=\"%s\",function=\"%s\"} ", service,
             function);
    const char *at = strstr(text_get(&text), key);
    double found = at ? atof(at + strlen(key)) : -1;
    if (at)
        assert_null(strstr(at + 1, key)); /* each series stands there once */
    text_done(&text);
    return found;
}

static double sum(const struct exposition *e, const char *family)
{
    struct text text = {0};
    double all = 0;
    exposition_write(e, &text);
    for (const char *line = text_get(&text); *line; line = strchr(line, '\n') + 1)
        if (strncmp(line, family, strlen(family)) == 0)
            all += atof(strstr(line, "} ") + 2);
    text_done(&text);
    return all;
}

static bool is_near(double a, double b)
{
    return a - b < 1e-6 && b - a < 1e-6;
}

static void sums_are_whole(void **state)
{
    (void)state;
    struct exposition *e = new_exposition(2, 3, 4, 5);
    for (int w = 0; w < 3; w++) {
        struct profile *p = new_window();
        take(p, "shop;main;hot", 5000000000);
        take(p, "shop;main;warm", 3000000000);
        take(p, "shop;main", 1);
        take(p, "shop;cold", 500000000);
        take(p, "shop;other", 250000000); /* a function that is called so is one of them */
        take(p, "redis;loop", 2000000000);
        add(e, p);
    }
    assert_true(is_near(value(e, "shop", "hot"), 15));
    assert_true(is_near(value(e, "shop", "warm"), 9));
    assert_true(value(e, "shop", "cold") < 0);
    assert_true(is_near(value(e, "shop", "other"), 3 * 0.75));
    assert_true(is_near(value(e, "redis", "loop"), 6));
    assert_true(is_near(sum(e, "sonde_function_cpu_seconds_total{"), 3 * 10.75));
    assert_true(is_near(sum(e, "sonde_business_function_cpu_seconds_total{"), 3 * 10.75));
    exposition_free(e);
}

/* What was hot once keeps its series, and its counter never falls, until there is no room and it has rested.
 */
static void series_stay(void **state)
{
    (void)state;
    struct exposition *e = new_exposition(1, 2, 4, 100);
    double before = 0;
    for (int w = 0; w < 400; w++) {
        struct profile *p = new_window();
        take(p, w < 50 ? "s;a" : w < 100 ? "s;b" : "s;c", 1000000000);
        take(p, "s;a", 1000000);
        add(e, p);
        double a = value(e, "s", "a");
        assert_true(w >= 150 || a >= before);
        before = a;
        assert_true(exposition_series(e) <= 2 * (1 + 1 + 2));
        if (w == 149)
            assert_true(value(e, "s", "c") < 0 && value(e, "s", "a") > 50);
    }
    /* a, which was not hot for 100 windows, made room */
    assert_true(value(e, "s", "a") < 0 && value(e, "s", "b") > 40 && value(e, "s", "c") > 100);
    exposition_free(e);
}

static void bounded(void **state)
{
    (void)state;
    struct exposition *e = new_exposition(10, 20, 8, 1000);
    char stack[64];
    double all = 0;
    for (int w = 0; w < 100; w++) {
        struct profile *p = new_window();
        for (int i = 0; i < 200; i++) {
            snprintf(stack, sizeof(stack), "service%d;f%d", i % 40, w * 200 + i);
            take(p, stack, 1000000);
            all += 0.001;
        }
        add(e, p);
    }
    assert_true(exposition_series(e) <= 2 * (1 + 8 * 21));
    assert_true(is_near(sum(e, "sonde_function_cpu_seconds_total{"), all));
    assert_true(value(e, "other", "other") > 0);
    exposition_free(e);
}

static void any_name_is_a_label(void **state)
{
    (void)state;
    struct exposition *e = new_exposition(9, 9, 9, 9);
    struct profile *p = new_window();
    char name[400], cut[512];
    memset(name, 'x', 399);
    memcpy(name, "s;", 2);
    name[399] = '\0';
    take(p, "s;say \"hi\"\n\\", 1000000000);
    take(p, "s;bad \xff", 1000000000);
    take(p, name, 1000000000);
    name[398] = 'y'; /* the same as far as it is told */
    take(p, name, 1000000000);
    add(e, p);
    assert_true(is_near(value(e, "s", "say \\\"hi\\\"\\n\\\\"), 1));
    assert_true(is_near(value(e, "s", "bad \xef\xbf\xbd"), 1));
    memset(cut, 'x', 200);
    cut[200] = '\0';
    assert_true(is_near(value(e, "s", cut), 2));
    exposition_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_whole),
        cmocka_unit_test(series_stay),
        cmocka_unit_test(bounded),
        cmocka_unit_test(any_name_is_a_label),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
