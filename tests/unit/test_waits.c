/* Waits: what passed before a thread was woken and what then, and that no time of it is lost. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/waits.h"

#include <string.h>

#include "test.h"

static uint64_t weight_of(const struct profile *p, const char *name)
{
    uint64_t sum = 0;
    for (size_t i = 1; i < p->nodes.count; i++)
        if (strcmp(profile_text(p, p->frames.at[p->nodes.at[i].frame].name), name) == 0)
            sum += p->nodes.at[i].weight;
    return sum;
}

static void wait_of(uint64_t weight, uint64_t ready, uint64_t blocked_said, uint64_t ready_said)
{
    struct profile *p;
    struct sampler_sample sample = {.weight = weight, .ready_ns = ready, .time_ns = 1, .kind = SAMPLE_OFF};
    assert_int_equal(profile_new(&p), 0);
    uint32_t node = profile_child(p, 0, profile_named_frame(p, "lock", FRAME_NATIVE));
    waits_count(p, &sample, node, false, NULL, NULL);
    assert_int_equal(weight_of(p, "lock"), blocked_said);
    assert_int_equal(weight_of(p, WAITS_READY), ready_said);
    uint64_t count = 0;
    array_foreach (&p->nodes, n)
        count += n->count;
    assert_int_equal(count, 1);
    profile_free(p);
}

static void parts_of_a_wait(void **state)
{
    (void)state;
    wait_of(5000000, 0, 5000000, 0);
    wait_of(5000000, 2000000, 3000000, 2000000);
    wait_of(5000000, 5000000, 0, 5000000); /* preempted: it never slept */
    wait_of(5000000, 20000, 5000000, 0);   /* what switching takes */
    wait_of(200000, 20000, 180000, 20000); /* of a short wait it is a part to speak of */
    wait_of(5000000, 9000000, 0, 5000000); /* never more than the whole */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_of_a_wait)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
