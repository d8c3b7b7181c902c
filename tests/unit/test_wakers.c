/* Chains of wake-ups: which belong to a wait, and which do not. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/wakers.h"

#include <string.h>

#include "test.h"

enum { PID = 100, READER = 101, KEEPER = 102, CLERK = 103 };

struct fixture {
    struct profile *profile;
    struct wakers *wakers;
};

static void begin(struct fixture *f)
{
    assert_int_equal(profile_new(&f->profile), 0);
    assert_int_equal(wakers_new(&f->wakers), 0);
}

static void done(struct fixture *f)
{
    wakers_free(f->wakers);
    profile_free(f->profile);
}

static uint32_t frame(struct fixture *f, const char *name)
{
    return profile_named_frame(f->profile, name, FRAME_NATIVE);
}

/* At a stack of two functions. */
static void wakes(struct fixture *f, uint32_t tid, uint32_t waiter, uint64_t at, const char *function)
{
    struct sampler_sample head = {
        .time_ns = at, .pid = PID, .tid = tid, .weight = waiter, .kind = SAMPLE_WAKER};
    uint32_t frames[] = {frame(f, function), frame(f, "main")};
    wakers_woke(f->wakers, f->profile, &head, frames, 2);
}

/* The path of a wait [from, to) whose thread was woken at woken: "a;b;c". */
static const char *ended(struct fixture *f, uint32_t tid, uint64_t from, uint64_t woken, uint64_t to,
                         uint32_t by)
{
    static char text[512];
    struct sampler_sample wait = {
        .time_ns = from, .weight = to - from, .ready_ns = to - woken, .pid = PID, .tid = tid};
    char name[32];
    snprintf(name, sizeof(name), by ? "[%u]" : "[timer]", by);
    struct wakers_chain chain = wakers_ended(f->wakers, f->profile, &wait, frame(f, name), by);
    uint32_t node = wakers_below(f->wakers, f->profile, 0, &chain);
    *text = '\0';
    for (; node; node = f->profile->nodes.at[node].parent) {
        char rest[sizeof(text)];
        const struct profile_frame *at = &f->profile->frames.at[f->profile->nodes.at[node].frame];
        snprintf(rest, sizeof(rest), "%s", text);
        snprintf(text, sizeof(text), "%.31s%s%.400s", profile_text(f->profile, at->name), *rest ? ";" : "",
                 rest);
    }
    return text;
}

static void a_waker_and_its_own(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    /* All wait; a timer wakes the clerk, who wakes the keeper, who wakes the reader. */
    assert_string_equal(ended(&f, CLERK, 20, 50, 51, 0), "[timer]");
    wakes(&f, CLERK, KEEPER, 60, "orders");
    assert_string_equal(ended(&f, KEEPER, 10, 60, 61, CLERK), "[103];orders;main;[timer]");
    wakes(&f, KEEPER, READER, 70, "hands_over");
    assert_string_equal(ended(&f, READER, 10, 70, 75, KEEPER),
                        "[102];hands_over;main;[103];orders;main;[timer]");
    done(&f);
}

/* The reader began to wait when the keeper ran already: it waits for nobody's wake-up but the keeper's. */
static void what_came_before_is_no_reason(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    assert_string_equal(ended(&f, CLERK, 0, 5, 6, 0), "[timer]");
    wakes(&f, CLERK, KEEPER, 60, "orders");
    /* the clerk's own wait ended before the keeper's began */
    assert_string_equal(ended(&f, KEEPER, 10, 60, 61, CLERK), "[103];orders;main");
    wakes(&f, KEEPER, READER, 70, "hands_over");
    assert_string_equal(ended(&f, READER, 65, 70, 75, KEEPER), "[102];hands_over;main");
    done(&f);
}

/* A record of another wait, of another waker, or none. */
static void stacks_belong_to_their_wait(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    assert_string_equal(ended(&f, READER, 10, 20, 21, KEEPER), "[102]");
    wakes(&f, KEEPER, READER, 30, "hands_over");
    assert_string_equal(ended(&f, READER, 40, 50, 51, KEEPER), "[102]");
    wakes(&f, KEEPER, READER, 70, "hands_over");
    assert_string_equal(ended(&f, READER, 60, 70, 71, CLERK), "[103]");
    wakes(&f, KEEPER, READER, 90, "hands_over");
    assert_string_equal(ended(&f, READER, 80, 90, 91, 0), "[timer]");
    wakes(&f, KEEPER, READER, 110, "hands_over");
    assert_string_equal(ended(&f, READER, 100, 110, 111, KEEPER), "[102];hands_over;main");
    assert_string_equal(ended(&f, READER, 100, 110, 111, KEEPER), "[102]"); /* it is used up */
    done(&f);
}

/* What it knows is of one profile: another one has other frames. */
static void a_new_profile_begins_anew(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    wakes(&f, KEEPER, READER, 20, "hands_over");
    profile_free(f.profile);
    assert_int_equal(profile_new(&f.profile), 0);
    assert_string_equal(ended(&f, READER, 10, 20, 21, KEEPER), "[102]");
    done(&f);
}

/* However long a chain is, and however many threads there are. */
static void bounded(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    for (uint32_t i = 1; i < 70000; i++) {
        wakes(&f, 1000 + i - 1, 1000 + i, i, "passes");
        const char *path = ended(&f, 1000 + i, 0, i, i, 1000 + i - 1);
        size_t links = 0;
        for (const char *at = path; (at = strchr(at, '[')); at++)
            links++;
        assert_true(links >= 1 && links <= WOKEN_LINKS);
        assert_int_equal(links, i < 4 ? i : i < 65000 ? 4 : links);
    }
    done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waker_and_its_own),
        cmocka_unit_test(what_came_before_is_no_reason),
        cmocka_unit_test(stacks_belong_to_their_wait),
        cmocka_unit_test(a_new_profile_begins_anew),
        cmocka_unit_test(bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
