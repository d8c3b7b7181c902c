/* Plans on their way from a worker, which is assumed to be taken over: it may say anything. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/plan.h"

#include <errno.h>
#include <stddef.h>

#include "broker/protocol.h"
#include "plan_sample.h"
#include "test.h"

static struct modules modules;

static void a_plan_arrives(void **state)
{
    struct plan plan = sample_plan(), got;
    void *bytes;
    size_t length;
    struct problem problem = {0};
    snprintf(plan.missing.at[0].why, sizeof(plan.missing.at[0].why), "what a terminal obeys: \033[2J");
    assert_int_equal(plan_encode(&plan, &bytes, &length), 0);
    assert_true(length < BROKER_BYTES_MAX);
    assert_int_equal(plan_decode(bytes, length, &got), 0);
    assert_int_equal(plan_check(&got, &modules, &problem), 0);
    assert_int_equal(got.hooks.count, 3);
    assert_int_equal(got.hooks.at[2].address, 0x402000);
    assert_string_equal(got.hooks.at[1].why, "it is not there");
    assert_string_equal(got.probes.at[0].build_id, "fedcba98");
    assert_string_equal(got.missing.at[0].why, "what a terminal obeys: ?[2J");
    assert_int_equal(got.head.config.version, SONDE_SHARED_VERSION);
    free(bytes);
    plan_done(&plan);
    plan_done(&got);
}

/* Every length, and every byte replaced: refused, or in range. */
static void what_makes_no_sense_is_refused(void **state)
{
    struct plan plan = sample_plan(), got;
    void *bytes;
    size_t length, refused = 0;
    assert_int_equal(plan_encode(&plan, &bytes, &length), 0);
    plan_done(&plan);
    for (size_t n = 0; n < length; n++)
        assert_int_equal(plan_decode(bytes, n, &got), -EPROTO);
    char *copy = malloc(length);
    for (size_t i = 0; i < length; i++)
        for (int value = 0; value < 256; value += 51) {
            memcpy(copy, bytes, length);
            copy[i] = (char)value;
            int r = plan_decode(copy, length, &got);
            refused += r < 0;
            if (r < 0)
                continue;
            array_foreach (&got.hooks, h)
                assert_true(h->verdict < PLAN_VERDICTS && h->code_size <= PATCH_BYTES_MAX);
            plan_done(&got);
        }
    assert_true(refused > 100);
    free(copy);
    free(bytes);
}

static void counts_without_end_are_refused(void **state)
{
    static const size_t COUNTS[] = {offsetof(struct plan_head, kind), offsetof(struct plan_head, modules),
                                    offsetof(struct plan_head, hooks), offsetof(struct plan_head, probes),
                                    offsetof(struct plan_head, missing)};
    static const uint32_t HUGE[] = {5, PLAN_HOOKS_MAX + 1, 1u << 16, INT32_MAX, UINT32_MAX};
    struct plan plan = sample_plan(), got;
    void *bytes;
    size_t length;
    assert_int_equal(plan_encode(&plan, &bytes, &length), 0);
    plan_done(&plan);
    for (size_t i = 0; i < ARRAY_SIZE(COUNTS); i++)
        for (size_t k = 0; k < ARRAY_SIZE(HUGE); k++) {
            char *copy = malloc(length);
            memcpy(copy, bytes, length);
            memcpy(copy + COUNTS[i], &HUGE[k], sizeof(HUGE[k]));
            assert_int_equal(plan_decode(copy, length, &got), -EPROTO);
            free(copy);
        }
    free(bytes);
}

/* ---- lies ---- */

enum {
    OUTSIDE = 0x300000,
    DATA = 0x600000,
    BSS = 0x700000,
    HEAP = 0x800000,
    GENERATED = 0xa00000,
    LIBC = 0x10000000,
    LIBC_DATA = 0x10100000,
    PROBE = 0x20000000
};

static void refused_with(int error, struct plan *plan, const char *why)
{
    struct problem problem = {0};
    assert_int_equal(plan_check(plan, &modules, &problem), error);
    if (!strstr(problem.what, why))
        fail_msg("'%s' does not say: %s", problem.what, why);
    assert_true(problem.remedy[0]);
    plan_done(plan);
}

static void refused_for(struct plan *plan, const char *why)
{
    refused_with(-EPROTO, plan, why);
}

static void what_is_no_code_of_its_module_is_not_hooked(void **state)
{
    static const uint64_t PLACES[] = {OUTSIDE,     DATA,  BSS, HEAP,       GENERATED,
                                      LIBC,        PROBE, 1,   UINT64_MAX, UINT64_MAX - 31,
                                      0x500000 - 8 /* it ends behind the mapping */};
    for (size_t i = 0; i < ARRAY_SIZE(PLACES); i++) {
        struct plan plan = sample_plan();
        plan.hooks.at[0].address = PLACES[i];
        refused_for(&plan, "no code of its module");
        /* nor is it looked at for what an earlier sonde left there */
        plan = sample_plan();
        plan.hooks.at[0].verdict = PLAN_PASSED;
        plan.hooks.at[0].address = PLACES[i];
        refused_for(&plan, "no code of its module");
    }
}

/* What a program is called stands in reports and on terminals. */
static void names_end_and_are_printable(void **state)
{
    struct plan plan = sample_plan(), read;
    void *bytes;
    size_t length;
    memset(plan.head.name, '\033', sizeof(plan.head.name));
    memset(plan.head.script, 'x', sizeof(plan.head.script));
    assert_int_equal(plan_encode(&plan, &bytes, &length), 0);
    assert_int_equal(plan_decode(bytes, length, &read), 0);
    assert_int_equal(strlen(read.head.name), PLAN_NAME_BYTES - 1);
    assert_null(strchr(read.head.name, '\033'));
    assert_int_equal(strlen(read.head.script), PLAN_SCRIPT_BYTES - 1);
    free(bytes);
    plan_done(&plan);
    plan_done(&read);
}

static void functions_that_overlap_are_refused(void **state)
{
    for (uint64_t distance = 0; distance < 8; distance++) {
        struct plan plan = sample_plan();
        plan.hooks.at[2].address = plan.hooks.at[0].address + distance;
        refused_for(&plan, "overlap");
    }
    struct plan plan = sample_plan();
    plan.hooks.at[2].address = plan.hooks.at[0].address + 8;
    assert_int_equal(plan_check(&plan, &modules, NULL), 0);
    plan_done(&plan);
}

static void modules_that_are_not_there_are_refused(void **state)
{
    static const struct plan_module MODULES[] = {
        {0x400001, 0x400000, 0x700000},
        {OUTSIDE, OUTSIDE, OUTSIDE + 4096},
        {0x400000, 0x500000, 0x700000},
        {0x400000, 0x700000, 0x400000},
        {0x400000, 0x300000, 0x400000},
        {HEAP, HEAP, HEAP + 4096},
        {0x400000, 0x400000, 0x400000 + (3ull << 30)},
        {0x400000, 0, UINT64_MAX},
    };
    for (size_t i = 0; i < ARRAY_SIZE(MODULES); i++) {
        struct plan plan = sample_plan();
        plan.modules.at[0] = MODULES[i];
        refused_for(&plan, "module");
    }
}

/* Another sonde may be loading it as the mappings are read: then they are to be read again. */
static void what_a_probe_notes_lies_in_its_data(void **state)
{
    static const uint64_t PLACES[] = {PROBE, LIBC_DATA, DATA, BSS, HEAP, GENERATED, OUTSIDE, 0x20020000 - 8};
    for (size_t i = 0; i < ARRAY_SIZE(PLACES); i++) {
        struct plan plan = sample_plan();
        plan.probes.at[0].owner = PLACES[i];
        refused_with(-ESTALE, &plan, "no data of the probe");
        plan = sample_plan();
        plan.probes.at[0].pools = PLACES[i];
        refused_with(-ESTALE, &plan, "no data of the probe");
    }
    struct plan plan = sample_plan();
    plan.probes.at[0].start = 0x20010000;
    refused_with(-ESTALE, &plan, "no such module");
    plan = sample_plan();
    plan.probes.at[0].owner = plan.probes.at[0].pools = 0; /* not there yet */
    assert_int_equal(plan_check(&plan, &modules, NULL), 0);
    plan_done(&plan);
}

static void only_code_of_files_is_called(void **state)
{
    static const uint64_t PLACES[] = {OUTSIDE, DATA, BSS, HEAP, GENERATED, UINT64_MAX};
    for (size_t i = 0; i < ARRAY_SIZE(PLACES); i++) {
        struct plan plan = sample_plan();
        plan.head.library.map = PLACES[i];
        refused_for(&plan, "C library");
        plan = sample_plan();
        plan.head.config.node.script_run = PLACES[i];
        refused_for(&plan, "to be called");
        plan = sample_plan();
        plan.head.config.jobs.name = PLACES[i];
        refused_for(&plan, "to be called");
    }
    struct plan plan = sample_plan();
    plan.head.config.context = SONDE_CONTEXT_AUTO + 1;
    refused_for(&plan, "distinguish requests");
}

static int setup(void **state)
{
    return sample_modules(&modules);
}

static int teardown(void **state)
{
    modules_done(&modules);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_arrives),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(counts_without_end_are_refused),
        cmocka_unit_test(what_is_no_code_of_its_module_is_not_hooked),
        cmocka_unit_test(names_end_and_are_printable),
        cmocka_unit_test(functions_that_overlap_are_refused),
        cmocka_unit_test(modules_that_are_not_there_are_refused),
        cmocka_unit_test(what_a_probe_notes_lies_in_its_data),
        cmocka_unit_test(only_code_of_files_is_called),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
