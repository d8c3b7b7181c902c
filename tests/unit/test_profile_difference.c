/* Differences of made profiles, whose truth is known: what is named, how often intervals hold it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/profile_difference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/stats.h"
#include "profile/formats.h"
#include "profile/windows.h"
#include "test.h"

enum { FUNCTIONS = 20, PAIRS = 200, SECONDS = 16, SAMPLES_PER_SECOND = 1000, EACH_ROUND = 100 };

/* What is sampled: whether profiles have windows; whether samples come at regular times, so that each stretch
 * of the program's rounds has as many of them as it is long. */
struct how {
    bool windows, regular;
};

/* A run of a program whose functions cost as much as each other, but function 3 `planted` times that. Their
 * shares wander from second to second (burst), and differ from run to run by `run`, relative. */
static struct profile *run_of(struct stats_random *random, double planted, double burst, double run,
                              const char *folder, struct how how)
{
    struct profile *p;
    double base[FUNCTIONS];
    uint32_t nodes[FUNCTIONS];
    assert_int_equal(profile_new(&p), 0);
    strcpy(p->unit, "count");
    assert_true(!how.windows || profile_windows_begin(p) == 0);
    for (int f = 0; f < FUNCTIONS; f++) {
        char name[32], file[64];
        snprintf(name, sizeof(name), "function_%d", f);
        snprintf(file, sizeof(file), "%s/part_%d.c", folder, f / 4);
        struct profile_frame frame = {.name = profile_string(p, name), .file = profile_string(p, file)};
        nodes[f] = profile_child(p, 0, profile_add_frame(p, &frame));
        base[f] = (f == 3 ? planted : 1) * exp(run * stats_random_normal(random)) *
                  (how.regular ? 1 + 0.031 * f : 1); /* else each would take whole samples of a round */
    }
    for (int second = 0; second < SECONDS; second++) {
        double share[FUNCTIONS], sum = 0;
        for (int f = 0; f < FUNCTIONS; f++)
            sum += share[f] = base[f] * exp(burst * stats_random_normal(random));
        for (int i = 0; i < SAMPLES_PER_SECOND; i++) {
            double at = stats_random_unit(random);
            if (how.regular)
                at = (i % EACH_ROUND + at) / EACH_ROUND;
            at *= sum;
            int f = 0;
            while (f < FUNCTIONS - 1 && at >= share[f])
                at -= share[f++];
            profile_count(p, nodes[f], 1, 1);
            profile_windows_add(p, nodes[f], 1, 1000000000ull * (uint64_t)(second + 1));
        }
    }
    return p;
}

struct tally {
    int named, others, inside;
    int held, intervals; /* of all functions */
    double width;        /* their mean, of logarithms */
};

static struct tally compare_many(double planted, double burst, double run, struct how how)
{
    struct stats_random random;
    struct tally tally = {0};
    stats_random_init(&random, 17);
    for (int i = 0; i < PAIRS; i++) {
        struct profile *before = run_of(&random, 1, burst, run, "/build/v1/src", how),
                       *after = run_of(&random, planted, burst, run, "/home/x/v2/source", how);
        struct profile_differences all;
        assert_int_equal(profile_differences(before, after, &all), 0);
        assert_int_equal(all.functions.count, FUNCTIONS);
        bool other = false;
        array_foreach (&all.functions, f) {
            const struct difference *d = &f->self;
            bool named = d->verdict != DIFFERENCE_NOISE;
            double truth = strcmp(f->name, "function_3") == 0 ? planted : 1;
            tally.held += d->low <= truth && truth <= d->high;
            tally.intervals++;
            tally.width += (log(d->high) - log(d->low)) / (PAIRS * FUNCTIONS);
            if (strcmp(f->name, "function_3") == 0) {
                tally.named += d->verdict == DIFFERENCE_SLOWER;
                tally.inside += d->low <= planted && planted <= d->high;
                other |= planted == 1 && named;
            } else {
                other |= named;
            }
        }
        tally.others += other;
        profile_differences_done(&all);
        profile_free(before);
        profile_free(after);
    }
    return tally;
}

static void nothing_changed(void **state)
{
    (void)state;
    static const struct {
        double burst, run;
        bool windows;
    } CASES[] = {{0, 0, true}, {0.3, 0, true}, {0.1, 0.02, true}, {0, 0, false}, {0.2, 0.02, false}};
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct tally t =
            compare_many(1, CASES[i].burst, CASES[i].run, (struct how){.windows = CASES[i].windows});
        print_message("burst %.1f, runs %.2f, %s: %d of %d pairs name a function, %d intervals hold\n",
                      CASES[i].burst, CASES[i].run, CASES[i].windows ? "windows" : "none", t.others, PAIRS,
                      t.inside);
        assert_true(t.others <= PAIRS / 14); /* 5 %, and what 200 pairs may differ from that */
        assert_true(t.inside >= PAIRS * 92 / 100);
    }
}

static void planted_changes(void **state)
{
    (void)state;
    static const struct {
        double planted, burst, run;
        int named; /* per cent, at least */
    } CASES[] = {{1.2, 0, 0, 20}, {1.35, 0.05, 0.01, 80}, {1.5, 0.3, 0.01, 20}, {2, 0.3, 0.02, 80}};
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct tally t = compare_many(CASES[i].planted, CASES[i].burst, CASES[i].run, (struct how){true});
        print_message("planted %.2f, burst %.2f: named in %d of %d, others in %d, %d intervals hold it\n",
                      CASES[i].planted, CASES[i].burst, t.named, PAIRS, t.others, t.inside);
        assert_true(t.named * 100 >= CASES[i].named * PAIRS);
        assert_true(t.others <= PAIRS / 14);
        assert_in_range(t.inside, PAIRS * 91 / 100, PAIRS);
    }
}

/* Regular samples say more than as many random ones, which shows in how functions scatter, also where there
 * are no windows: small changes are named. */
static void regular_samples(void **state)
{
    (void)state;
    static const struct {
        double planted;
        bool windows;
        int named, most_inside;
    } CASES[] = {{1, true, 0, 98}, {1, false, 0, 100}, {1.07, true, 80, 99}, {1.1, false, 80, 100}};
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct tally t = compare_many(CASES[i].planted, 0, 0, (struct how){CASES[i].windows, true});
        print_message("regular, planted %.2f, %s: named in %d of %d, others in %d, %d intervals hold it\n",
                      CASES[i].planted, CASES[i].windows ? "windows" : "none", t.named, PAIRS, t.others,
                      t.inside);
        assert_true(t.named * 100 >= CASES[i].named * PAIRS);
        assert_true(t.others <= PAIRS / 14);
        assert_in_range(t.inside, PAIRS * 91 / 100, PAIRS * CASES[i].most_inside / 100);
    }
}

/* How often intervals hold, counted of all functions: near 95 %, whether samples are random or regular, and
 * whether profiles have windows. */
static void intervals_hold(void **state)
{
    (void)state;
    static const struct {
        double planted, burst, run;
        struct how how;
    } CASES[] = {{1, 0, 0, {true, false}},   {1, 0.3, 0, {true, false}}, {1.1, 0.1, 0.01, {true, false}},
                 {1, 0, 0, {true, true}},    {1.05, 0, 0, {true, true}}, {1, 0, 0.005, {true, true}},
                 {1, 0.02, 0, {true, true}}, {1, 0, 0, {false, false}},  {1, 0, 0, {false, true}},
                 {1.1, 0, 0, {false, true}}, {1, 0.1, 0, {false, true}}};
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct tally t = compare_many(CASES[i].planted, CASES[i].burst, CASES[i].run, CASES[i].how);
        double held = 100.0 * t.held / t.intervals;
        print_message(
            "planted %.2f, burst %.2f, runs %.3f, %s, %s: %.2f %% of %d intervals hold, %.2f %% wide\n",
            CASES[i].planted, CASES[i].burst, CASES[i].run, CASES[i].how.windows ? "windows" : "none",
            CASES[i].how.regular ? "regular" : "random", held, t.intervals, 100 * t.width);
        /* One that has changed is one of those that say how the others scatter. */
        assert_true(held >= 93 && held <= (CASES[i].planted > 1 ? 98 : 97));
    }
}

static void read_folded(const char *text, struct profile **ret_profile)
{
    struct problem problem;
    assert_int_equal(profile_new(ret_profile), 0);
    assert_int_equal(folded_read(*ret_profile, text, strlen(text), &problem), 0);
}

/* What the machine did while the program ran says nothing of how its functions scatter; nor is a function
 * slower that takes a few of a hundred thousand samples more. */
static void machine_and_borders(void **state)
{
    (void)state;
    static const int WEIGHTS[] = {10010, 9980, 10030, 9990, 10020, 10000, 10900};
    struct profile *before, *after;
    struct profile_differences all;
    char old[2000] = "main 1\n", now[2000] = "main 40\n";
    for (int i = 0; i < 7; i++) {
        snprintf(old + strlen(old), 100, "main;stage_%d 10000\n", i);
        snprintf(now + strlen(now), 100, "main;stage_%d %d\n", i, WEIGHTS[i]);
    }
    for (int i = 0; i < 6; i++) {
        snprintf(old + strlen(old), 100, "main;asm_common_interrupt_[k];device_%d_[k] 60\n", i);
        snprintf(now + strlen(now), 100, "main;asm_common_interrupt_[k];device_%d_[k] %d\n", i, 60 + 90 * i);
    }
    read_folded(old, &before);
    read_folded(now, &after);
    assert_int_equal(profile_differences(before, after, &all), 0);
    assert_true(fabs(all.scale - 1.001) < 0.001);
    array_foreach (&all.functions, f) {
        bool device = strncmp(f->name, "device", 6) == 0;
        enum difference_verdict expected = device                             ? DIFFERENCE_MACHINE
                                           : strcmp(f->name, "stage_6") == 0  ? DIFFERENCE_SLOWER
                                           : strncmp(f->name, "asm_", 4) == 0 ? f->self.verdict
                                                                              : DIFFERENCE_NOISE;
        if (f->self.verdict != expected)
            print_message("%s: %s\n", f->name, difference_verdict_name(f->self.verdict));
        assert_int_equal(f->self.verdict, expected);
    }
    profile_differences_done(&all);
    profile_free(before);
    profile_free(after);
}

/* Also without blocks a function that is new or gone has a verdict, and what is rare has none. */
static void new_gone_and_rare(void **state)
{
    (void)state;
    struct profile *before, *after;
    struct profile_differences all;
    struct problem problem;
    char old[2000] = "", now[2000] = "";
    for (int i = 0; i < 8; i++) {
        snprintf(old + strlen(old), 100, "main;same_%d 500\n", i);
        snprintf(now + strlen(now), 100, "main;same_%d 510\n", i);
    }
    strcat(old, "main;gone 400\nmain;rare 2\n");
    strcat(now, "main;new 400\nmain;rare 5\nmain;once 1\n");
    assert_int_equal(profile_new(&before), 0);
    assert_int_equal(profile_new(&after), 0);
    assert_int_equal(folded_read(before, old, strlen(old), &problem), 0);
    assert_int_equal(folded_read(after, now, strlen(now), &problem), 0);
    assert_int_equal(profile_differences(before, after, &all), 0);
    assert_true(all.by_median);
    assert_true(fabs(all.scale - 1.02) < 0.002);
    array_foreach (&all.functions, f) {
        enum difference_verdict expected =
            strcmp(f->name, "new") == 0    ? DIFFERENCE_SLOWER
            : strcmp(f->name, "gone") == 0 ? DIFFERENCE_FASTER
            : strcmp(f->name, "rare") == 0 || strcmp(f->name, "once") == 0 || strcmp(f->name, "main") == 0
                ? DIFFERENCE_UNKNOWN
                : DIFFERENCE_NOISE;
        assert_int_equal(f->self.verdict, expected);
        if (strcmp(f->name, "main") == 0)
            assert_int_equal(f->total.verdict, DIFFERENCE_NOISE);
    }
    profile_differences_done(&all);
    profile_free(before);
    profile_free(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_changed),     cmocka_unit_test(planted_changes),
        cmocka_unit_test(regular_samples),     cmocka_unit_test(intervals_hold),
        cmocka_unit_test(machine_and_borders), cmocka_unit_test(new_gone_and_rare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
