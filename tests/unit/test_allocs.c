/* The account of sampled allocations: estimates are right on average, what is freed is not alive, and places
 * are the program's own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/allocs.h"

enum { INTERVAL = 4096, PID = 7 };

struct world {
    struct profile *profile;
    struct allocs *allocs;
    uint32_t malloc_frame, caller, main_frame;
};

static uint32_t frame(struct profile *p, const char *name, const char *module)
{
    struct profile_frame f = {
        .name = profile_string(p, name), .module = profile_string(p, module), .kind = FRAME_NATIVE};
    return profile_add_frame(p, &f);
}

static int set_up(void **state)
{
    static struct world w;
    memset(&w, 0, sizeof(w));
    assert_int_equal(profile_new(&w.profile), 0);
    assert_int_equal(allocs_new(w.profile, INTERVAL, &w.allocs), 0);
    w.malloc_frame = frame(w.profile, "strdup", "/usr/lib/x86_64-linux-gnu/libc.so.6");
    w.caller = frame(w.profile, "caller", "/opt/program");
    w.main_frame = frame(w.profile, "main", "/opt/program");
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    allocs_free(w->allocs);
    profile_free(w->profile);
    return 0;
}

static void make(struct world *w, uint64_t address, uint64_t size, uint64_t followed)
{
    uint32_t frames[] = {w->malloc_frame, w->caller, w->main_frame};
    struct sampler_sample head = {.pid = PID, .kind = SAMPLE_ALLOC, .weight = size};
    struct sampler_alloc alloc = {.address = address, .size = size, .followed = followed != 0};
    allocs_made(w->allocs, &head, &alloc, &(struct alloc_stack){NULL, frames, 0, 3});
}

static struct alloc_site the_site(struct world *w)
{
    struct alloc_site all, site;
    size_t count;
    struct alloc_site *sites = allocs_sites(w->allocs, &all, &count);
    assert_non_null(sites);
    assert_int_equal(count, 1);
    site = sites[0];
    assert_true(fabs(all.made.bytes - site.made.bytes) < 1e-6);
    free(sites);
    return site;
}

static void what_is_freed_is_not_alive(void **state)
{
    struct world *w = *state;
    make(w, 0x1000, 100000, 1); /* so large that it is always chosen */
    make(w, 0x2000, 200000, 1);
    allocs_freed(w->allocs, PID + 1, 0x1000); /* another process's */
    allocs_freed(w->allocs, PID, 0x1000);
    allocs_freed(w->allocs, PID, 0x3000); /* not known */
    struct alloc_site s = the_site(w);
    assert_int_equal(s.frame, w->caller);
    assert_true(fabs(s.made.bytes - 300000) < 1);
    assert_true(fabs(s.alive.bytes - 200000) < 1);
    assert_true(fabs(s.alive.count - 1) < 1e-6);
    make(w, 0x2000, 400000, 1); /* the end of what was there was not seen */
    s = the_site(w);
    assert_true(fabs(s.alive.bytes - 400000) < 1);
    make(w, 0x5000, 500000, 0);
    s = the_site(w);
    assert_true(fabs(s.alive.bytes - 400000) < 1);
    assert_true(fabs(s.made.bytes - 1200000) < 1);
}

/* Of pieces that are smaller than the interval, those that are chosen stand for the others. */
static void estimates_are_right_on_average(void **state)
{
    struct world *w = *state;
    const uint64_t sizes[] = {16, 300, 4096, 20000};
    double truth = 0;
    srand48(3);
    for (int i = 0; i < 40000; i++) {
        uint64_t size = sizes[i % 4];
        truth += (double)size;
        if (drand48() < -expm1(-(double)size / INTERVAL))
            make(w, (uint64_t)(i + 1) << 4, size, 1);
    }
    struct alloc_site s = the_site(w);
    assert_true(fabs(s.made.bytes - truth) < 2 * s.made.bytes_error);
    assert_true(s.made.bytes_error < 0.02 * truth);
    assert_true(fabs(s.made.count - 40000) < 0.1 * 40000);
}

static void forgets(void *context, uint64_t address)
{
    *(uint64_t *)context += address;
}

static void an_end_keeps_what_was_not_freed(void **state)
{
    struct world *w = *state;
    uint64_t sum = 0;
    make(w, 0x1000, 100000, 1);
    make(w, 0x2000, 200000, 1);
    allocs_freed(w->allocs, PID, 0x1000);
    allocs_ended(w->allocs, PID, false, forgets, &sum);
    assert_int_equal(sum, 0x2000);
    allocs_ended(w->allocs, PID, false, forgets, &sum);
    assert_int_equal(sum, 0x2000);
    assert_true(fabs(the_site(w).alive.bytes - 200000) < 1);
    make(w, 0x4000, 300000, 1);
    allocs_ended(w->allocs, PID, true, forgets, &sum); /* another program: its memory is gone */
    assert_true(fabs(the_site(w).alive.bytes - 200000) < 1);
    allocs_into_profile(w->allocs, true);
    uint64_t *totals = profile_totals(w->profile);
    assert_int_equal(totals[0], 200000);
    free(totals);
}

static void a_heap_stands_for_itself(void **state)
{
    struct world *w = *state;
    uint32_t frames[] = {w->malloc_frame, w->caller, profile_named_frame(w->profile, "Cart.add", FRAME_JAVA),
                         w->main_frame};
    uint32_t moves[] = {frame(w->profile, "v8::internal::Heap::CollectGarbage", "/usr/bin/node")};
    struct sampler_sample head = {.pid = PID, .kind = SAMPLE_ALLOC};
    struct sampler_alloc alloc = {.size = 1 << 20, .in_heap = 1};
    for (int i = 0; i < 4; i++)
        allocs_made(w->allocs, &head, &alloc, &(struct alloc_stack){NULL, frames, 0, 4});
    struct alloc_site s = the_site(w);
    assert_int_equal(s.frame, frames[2]);
    assert_true(fabs(s.made.bytes - (4 << 20)) < 1);
    assert_true(s.alive.bytes < 1);
    assert_true(allocs_collects(w->profile, moves, 1));
    assert_false(allocs_collects(w->profile, frames, 4));
}

/* The kernel's half decides with this table and a series for small sizes. */
static void the_table_is_of_e_to_the_minus_x(void **state)
{
    (void)state;
    static uint32_t decay[SAMPLER_DECAYS];
    allocs_decay(decay);
    assert_int_equal(decay[0], UINT32_MAX);
    for (size_t i = 1; i < SAMPLER_DECAYS; i++)
        assert_true(fabs((double)decay[i] / 4294967296.0 - exp(-(double)i / 256)) < 3e-10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_freed_is_not_alive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(estimates_are_right_on_average, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_end_keeps_what_was_not_freed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_heap_stands_for_itself, set_up, tear_down),
        cmocka_unit_test(the_table_is_of_e_to_the_minus_x),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
