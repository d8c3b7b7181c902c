/* Which time two sides are compared over, slot by slot, and what time does to their levels by itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "diagnose/match_model.h"
#include "test.h"

enum { SLOTS = 32, HOSTS = 4 };

static const struct match_settings WHOLE = {.requests_min = 100},
                                   SHARED = {.requests_min = 100, .shared_time = true};

/* Pieces of one host and slot each, with their strata. */
struct plan {
    struct model model;
    struct stratum strata[2 * SLOTS * HOSTS];
    size_t count;
};

static void start(struct plan *plan)
{
    *plan = (struct plan){0};
    for (int i = 0; i < 2 * HOSTS; i++)
        assert_int_equal(array_add(&plan->model.hosts, (struct effect){0}), 0);
    assert_int_equal(array_add(&plan->model.classes, (struct known_class){0}), 0);
}

static void done(struct plan *plan)
{
    array_done(&plan->model.pieces);
    array_done(&plan->model.hosts);
    array_done(&plan->model.classes);
}

static void add(struct plan *plan, uint32_t host, bool newer, uint32_t slot, double n, double mean)
{
    struct stratum *stratum = &plan->strata[plan->count++];
    stratum->slot = slot;
    struct piece piece = {.stratum = stratum,
                          .newer = newer,
                          .host = host,
                          .host_at = host,
                          .weight = 1,
                          .n = n,
                          .mean = mean,
                          .variance = 0.04};
    assert_int_equal(array_add(&plan->model.pieces, piece), 0);
}

/* A side of HOSTS hosts in the slots from the first up to the last; mean: log, in the first slot, and what it
 * grows by in each further one. */
static void add_side(struct plan *plan, bool newer, uint32_t first, uint32_t last, double mean, double grows)
{
    for (uint32_t slot = first; slot <= last; slot++)
        for (uint32_t host = 0; host < HOSTS; host++)
            add(plan, host + (newer ? HOSTS : 0), newer, slot, 20, mean + grows * (slot - first));
}

/* The requests of a side that are compared. */
static double compared(const struct plan *plan, bool newer)
{
    double n = 0;
    array_foreach (&plan->model.pieces, p)
        n += p->newer == newer && p->block != BOOK_NONE ? p->n : 0;
    return n;
}

/* Side by side: each slot has enough of both sides to be a block of its own. */
static void sides_beside_each_other_share_all_their_time(void **state)
{
    struct plan plan;
    struct match match = {0};
    start(&plan);
    add_side(&plan, false, 0, 9, 16, 0);
    add_side(&plan, true, 0, 9, 16, 0);
    assert_int_equal(match_choose_time(&plan.model, &WHOLE, &match), 0);
    assert_true(match.concurrent && !match.shares_time && !match.uneven && !match.waiting);
    assert_int_equal(plan.model.block_count, 10);
    assert_true(compared(&plan, false) == 800 && compared(&plan, true) == 800);
    array_foreach (&plan.model.pieces, p)
        assert_true(p->block == p->stratum->slot && p->weight == 1);
    done(&plan);
}

/* Slots with few requests are joined to blocks that have enough, and what is left over to the last one. */
static void few_requests_share_a_block(void **state)
{
    struct plan plan;
    struct match match = {0};
    start(&plan);
    for (uint32_t slot = 0; slot < 11; slot++) {
        add(&plan, 0, false, slot, 10, 16);
        add(&plan, HOSTS, true, slot, 10, 16);
    }
    assert_int_equal(match_choose_time(&plan.model, &WHOLE, &match), 0);
    assert_true(match.concurrent);
    assert_int_equal(plan.model.block_count,
                     3); /* 25 requests of the older side: three slots; 11 = 3 + 3 + 5 */
    array_foreach (&plan.model.pieces, p)
        assert_int_equal(p->block, p->stratum->slot < 3 ? 0 : p->stratum->slot < 6 ? 1 : 2);
    done(&plan);
}

/* One after the other: nothing is beside it, and all of both is compared but a host's first slot. */
static void one_after_the_other_shares_nothing(void **state)
{
    struct plan plan;
    struct match match = {0};
    start(&plan);
    add_side(&plan, false, 0, 15, 16, 0);
    add_side(&plan, true, 16, 31, 16, 0);
    assert_int_equal(match_choose_time(&plan.model, &WHOLE, &match), 0);
    assert_true(!match.concurrent && !match.shares_time);
    assert_int_equal(plan.model.block_count, 1);
    assert_true(compared(&plan, false) == 1280);
    assert_true(compared(&plan, true) == 1200); /* a sixteenth is no more than may be left out */
    array_foreach (&plan.model.pieces, p)
        assert_true((p->block == BOOK_NONE) == (p->newer && p->stratum->slot == 16));
    done(&plan);
}

/* Where a host's first slot is too much of its side it is not left out. */
static void a_short_newer_side_keeps_its_first_slot(void **state)
{
    struct plan plan;
    struct match match = {0};
    start(&plan);
    add_side(&plan, false, 0, 15, 16, 0);
    add_side(&plan, true, 16, 19, 16, 0);
    assert_int_equal(match_choose_time(&plan.model, &WHOLE, &match), 0);
    assert_true(compared(&plan, true) == 320);
    done(&plan);
}

/* A shared time that is short: said at first, compared when asked for; of it only what is beyond a host's
 * first slot, and of neither side what was alone. */
static void a_short_shared_time_is_compared_when_asked_for(void **state)
{
    struct plan plan;
    struct match match = {0};
    start(&plan);
    add_side(&plan, false, 0, 12, 16, 0);
    add_side(&plan, true, 8, 31, 16, 0);
    assert_int_equal(match_choose_time(&plan.model, &WHOLE, &match), 0);
    assert_true(!match.concurrent && match.shares_time);
    match = (struct match){0};
    assert_int_equal(match_choose_time(&plan.model, &SHARED, &match), 0);
    assert_true(match.concurrent && !match.shares_time);
    array_foreach (&plan.model.pieces, p)
        assert_true((p->block != BOOK_NONE) == (p->stratum->slot >= 9 && p->stratum->slot <= 12));
    done(&plan);
}

/* Two slots of time, or too few requests in it, are no time that both share. */
static void too_little_shared_time_is_none(void **state)
{
    struct plan plan;
    struct match match = {0};
    start(&plan);
    add_side(&plan, false, 0, 9, 16, 0);
    add_side(&plan, true, 8, 31, 16, 0);
    assert_int_equal(match_choose_time(&plan.model, &WHOLE, &match), 0);
    assert_true(!match.concurrent && !match.shares_time);
    done(&plan);
    start(&plan);
    add_side(&plan, false, 0, 12, 16, 0);
    add_side(&plan, true, 8, 31, 16, 0);
    struct match_settings many = {.requests_min = 500}; /* 400 requests of either side */
    match = (struct match){0};
    assert_int_equal(match_choose_time(&plan.model, &many, &match), 0);
    assert_true(!match.concurrent && !match.shares_time);
    done(&plan);
}

/* Hosts that warm up lose their second slot with the newer version, too. */
static void what_warms_up_is_left_out(void **state)
{
    for (int warms = 0; warms < 2; warms++) {
        struct plan plan;
        struct match match = {0};
        start(&plan);
        add_side(&plan, false, 0, 20, 16, 0);
        for (uint32_t slot = 8; slot < SLOTS; slot++)
            for (uint32_t host = 0; host < HOSTS; host++)
                add(&plan, HOSTS + host, true, slot, 20, slot < 10 && warms ? 17 : 16);
        assert_int_equal(match_choose_time(&plan.model, &SHARED, &match), 0);
        array_foreach (&plan.model.pieces, p)
            if (p->newer && p->stratum->slot < 11)
                assert_true(p->starting == (p->stratum->slot < (warms ? 10 : 9)));
        done(&plan);
    }
}

/* Of different times: a slot in which all of a side was slow is left out; many such are no incident. */
static void an_incident_of_one_side_is_left_out(void **state)
{
    for (uint32_t slow = 1; slow <= 4; slow += 3) {
        struct plan plan;
        struct match match = {0};
        start(&plan);
        for (uint32_t slot = 0; slot < 16; slot++)
            for (uint32_t host = 0; host < HOSTS; host++)
                add(&plan, host, false, slot, 20, slot >= 5 && slot < 5 + slow ? 17 : 16);
        add_side(&plan, true, 16, 31, 16, 0);
        assert_int_equal(match_choose_time(&plan.model, &WHOLE, &match), 0);
        array_foreach (&plan.model.pieces, p)
            if (!p->newer)
                assert_true((p->block == BOOK_NONE) == (slow == 1 && p->stratum->slot == 5));
        done(&plan);
    }
}

/* While the older side fades out and time moves the level, either side gets about as much of each slot; while
 * nothing moves, no request is wasted. */
static void sides_get_as_much_of_each_slot(void **state)
{
    for (int moves = 0; moves < 2; moves++) {
        struct plan plan;
        struct match match = {0};
        start(&plan);
        for (uint32_t slot = 0; slot < 10; slot++)
            for (uint32_t host = 0; host < HOSTS; host++) {
                double mean = 16 + (moves ? 0.05 * slot : 0);
                add(&plan, host, false, slot, 5 * (10 - slot), mean);
                add(&plan, HOSTS + host, true, slot, 5 * (slot + 1), mean);
            }
        assert_int_equal(match_choose_time(&plan.model, &WHOLE, &match), 0);
        assert_true(match.concurrent);
        assert_int_equal(match.uneven, moves);
        double early[2] = {0}, late[2] = {0};
        array_foreach (&plan.model.pieces, p) {
            assert_true(p->weight > 0 && p->weight <= 1);
            *(p->stratum->slot < 5 ? &early[p->newer] : &late[p->newer]) += p->n * p->weight;
        }
        double older = early[0] / (early[0] + late[0]), newer = early[1] / (early[1] + late[1]);
        assert_true(moves ? older - newer < 0.3 : older - newer > 0.4);
        done(&plan);
    }
}

/* Somebody who watches waits while the older side runs beside, but has not served enough. */
static void a_watch_waits_for_the_older_side(void **state)
{
    struct plan plan;
    struct match match = {0};
    struct match_settings watching = {.requests_min = 20, .watching = true};
    start(&plan);
    for (uint32_t slot = 0; slot < 5; slot++) {
        add(&plan, 0, false, slot, 20, 16);
        add(&plan, HOSTS, true, slot, 20, 16);
    }
    assert_int_equal(match_choose_time(&plan.model, &watching, &match), 0);
    assert_true(match.waiting); /* 100 requests, of MATCH_CONCURRENT_MIN */
    for (uint32_t host = 0; host < HOSTS; host++)
        add(&plan, host, false, 4, 60, 16);
    match = (struct match){0};
    assert_int_equal(match_choose_time(&plan.model, &watching, &match), 0);
    assert_false(match.waiting);
    done(&plan);
}

static struct match spread_of(double older_grows, double newer_from, double newer_grows, bool shares)
{
    struct plan plan;
    struct match match = {.shares_time = shares};
    start(&plan);
    add_side(&plan, false, 0, 15, 16, older_grows);
    for (uint32_t slot = 8; slot < SLOTS; slot++)
        for (uint32_t host = 0; host < HOSTS; host++)
            add(&plan, HOSTS + host, true, slot, 20, 16 + (slot >= newer_from ? newer_grows : 0));
    assert_int_equal(match_find_spread(&plan.model, &match), 0);
    done(&plan);
    return match;
}

/* What time does to the older side without a new version is what it may do to the newer one. */
static void what_the_older_side_moves_by_is_its_spread(void **state)
{
    struct match still = spread_of(0, SLOTS, 0, false), moves = spread_of(0.02, SLOTS, 0, false);
    assert_true(still.time_spread == 0 && still.grew == 0);
    assert_true(fabs(moves.time_spread - 0.16) < 0.01); /* 8 slots: from one half to the other */
    assert_true(moves.grew == 0);
}

/* What the newer side grew by later counts as a part of all of it, and only where both shared a time. */
static void growth_of_the_newer_side_is_found(void **state)
{
    struct match match = spread_of(0, 20, 0.4, true);
    assert_true(fabs(match.grew - 0.2) < 0.01); /* 12 slots of 24 */
    assert_true(match.time_spread == match.grew);
    match = spread_of(0, 20, 0.4, false);
    assert_true(match.time_spread == 0 && match.grew == 0);
    match = spread_of(0.02, 20, 0.3, true); /* the older side moves by as much */
    assert_true(match.grew == 0 && match.time_spread > 0.14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sides_beside_each_other_share_all_their_time),
                                       cmocka_unit_test(few_requests_share_a_block),
                                       cmocka_unit_test(one_after_the_other_shares_nothing),
                                       cmocka_unit_test(a_short_newer_side_keeps_its_first_slot),
                                       cmocka_unit_test(a_short_shared_time_is_compared_when_asked_for),
                                       cmocka_unit_test(too_little_shared_time_is_none),
                                       cmocka_unit_test(what_warms_up_is_left_out),
                                       cmocka_unit_test(an_incident_of_one_side_is_left_out),
                                       cmocka_unit_test(sides_get_as_much_of_each_slot),
                                       cmocka_unit_test(a_watch_waits_for_the_older_side),
                                       cmocka_unit_test(what_the_older_side_moves_by_is_its_spread),
                                       cmocka_unit_test(growth_of_the_newer_side_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
