/* Numbers that V8 carries: what stands while which code runs, when it is believed, and when it is lost. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/probe_carried.h"

#include "probe_in_test.h"

enum { UNDEFINED = 0x1001, OBJECT = 0x2001, NONE = 1, RESOURCE = 70, PARSER = 50 };

static struct probe_thread *thread;
static struct carried carried;
static uint64_t stands, slot, execution; /* V8's value; Node's execution id */
static int isolate, context;

extern int (*sonde_orig_v8_microtasks)(void *queue, void *isolate);
int sonde_wrap_v8_microtasks(void *queue, void *isolate);

static const uint64_t *v8_get(void *owner)
{
    assert_ptr_equal(owner, &context);
    slot = stands;
    return &slot;
}

static void v8_set(void *owner, const uint64_t *value)
{
    assert_ptr_equal(owner, &context);
    stands = *value;
}

static void nothing(void *object, void *of)
{
}

uint64_t execution_async_id(struct carried *of)
{
    assert_ptr_equal(of, &carried);
    return execution;
}

static int scopes_looked_at;
void execution_is(struct carried *of, uint64_t async_id)
{
    scopes_looked_at++;
}

struct carried *carried_own(void)
{
    return carried.on ? &carried : NULL;
}

static uint64_t number(uint32_t n)
{
    return (uint64_t)n << 32;
}

static uint32_t current(void)
{
    bool entered;
    uint32_t n = carried_current(&carried, thread, &entered);
    return entered ? UINT32_MAX : n;
}

static void open_scope(uint64_t async_id, uint32_t request, bool keep)
{
    struct probe_callback *callback = &thread->callbacks[thread->callback_count++];
    callback->self = thread->context_scope = 1000 + thread->callback_count;
    carried_scope(&carried, thread, async_id, request, keep);
    execution = async_id;
}

static struct probe_callback *innermost(void)
{
    return &thread->callbacks[thread->callback_count - 1];
}

static void close_scope(void)
{
    struct probe_callback *callback = innermost();
    bool outermost = thread->callback_count == 1;
    carried_closed(&carried, callback, outermost);
    thread->callback_count--;
}

static int (*in_microtasks)(void);
static int run_microtasks(void *queue, void *of)
{
    uint64_t outer = execution;
    execution = 0;
    int result = in_microtasks ? in_microtasks() : 0;
    execution = outer;
    return result;
}

static void microtasks(int (*what)(void))
{
    in_microtasks = what;
    sonde_wrap_v8_microtasks(NULL, &isolate);
}

static int set_up(void **state)
{
    sonde_config.node.carried_get = (uintptr_t)v8_get;
    sonde_config.node.carried_set = (uintptr_t)v8_set;
    sonde_config.node.carried_of_context = 1;
    sonde_config.node.script_handle_scope = sonde_config.node.script_handle_scope_end = (uintptr_t)nothing;
    sonde_orig_v8_microtasks = run_microtasks;
    thread = make_thread(1 << 16);
    stands = UNDEFINED;
    memset(&carried, 0, sizeof(carried));
    assert_true(carried_start(&carried, &isolate, &context, UNDEFINED));
    assert_int_equal(stands, UNDEFINED);
    carried.draining = 1; /* what was waiting when it began is over */
    microtasks(NULL);
    carried.draining = 0;
    return 0;
}

static int tear_down(void **state)
{
    free(thread);
    return 0;
}

static void not_where_the_value_is_somebodys(void **state)
{
    stands = OBJECT;
    struct carried other = {0};
    assert_false(carried_start(&other, &isolate, &context, UNDEFINED));
    assert_int_equal(stands, OBJECT);
}

static int nobody_in_microtasks(void)
{
    assert_int_equal(stands, UNDEFINED);
    assert_int_equal(current(), 0);
    return 0;
}

static int continuation(void)
{
    stands = number(7); /* as V8 does before a reaction */
    assert_int_equal(current(), 7);
    execution = RESOURCE; /* an AsyncResource was entered */
    assert_int_equal(current(), UINT32_MAX);
    execution = 0;
    stands = UNDEFINED;
    return 0;
}

static void request_ticks_and_microtasks(void **state)
{
    open_scope(PARSER, 7, true);
    assert_int_equal(current(), 7);
    execution = RESOURCE;
    assert_int_equal(current(), UINT32_MAX);
    execution = PARSER;
    carried_closing(&carried, thread, innermost());
    execution = 99; /* a tick's own */
    assert_int_equal(current(), 7);
    microtasks(nobody_in_microtasks);
    assert_int_equal(current(), 0); /* ticks that microtasks have made are anybody's */
    microtasks(continuation);
    assert_int_equal(stands, UNDEFINED);
    close_scope();
    assert_int_equal(stands, UNDEFINED);

    /* The parser's later callbacks are about that request. */
    open_scope(PARSER, 0, false);
    assert_int_equal(current(), 7);
    close_scope();
}

static void ticks_of_two_requests(void **state)
{
    open_scope(PARSER, 7, true); /* its queue is not run yet */
    close_scope();
    open_scope(PARSER, 8, true);
    carried_closing(&carried, thread, innermost());
    assert_int_equal(current(), 0);
    microtasks(NULL);
    close_scope();
    open_scope(PARSER, 9, true);
    carried_closing(&carried, thread, innermost());
    assert_int_equal(current(), 9);
    close_scope();
}

static void nested_callbacks(void **state)
{
    open_scope(PARSER, 7, true);
    open_scope(RESOURCE, 0, false);
    assert_int_equal(current(), NONE);
    close_scope();
    execution = PARSER;
    assert_int_equal(current(), 7);
    carried_closing(&carried, thread, innermost());
    assert_int_equal(current(), 0); /* the ticks are of both */
    close_scope();
}

static void nested_in_a_tick(void **state)
{
    open_scope(PARSER, 7, true);
    carried_closing(&carried, thread, innermost());
    open_scope(RESOURCE, 8, false);
    close_scope();
    assert_int_equal(current(), 0); /* a tick that the nested one has made may come before microtasks */
    microtasks(NULL);
    close_scope();
}

static void ticks_of_nobody(void **state)
{
    open_scope(RESOURCE, 0, false);
    carried_closing(&carried, thread, innermost());
    assert_int_equal(current(), NONE);
    microtasks(NULL);
    close_scope();
    open_scope(0, 0, false); /* timers */
    carried_closing(&carried, thread, innermost());
    assert_int_equal(current(), 0);
    close_scope();
}

static void microtasks_within_a_callback(void **state)
{
    open_scope(PARSER, 7, true);
    microtasks(nobody_in_microtasks);
    assert_int_equal(current(), 7);
    carried_closing(&carried, thread, innermost());
    assert_int_equal(current(), 0); /* which of the ticks has run is not known */
    close_scope();
}

static void resources(void **state)
{
    open_scope(PARSER, 7, true);
    carried_keep(&carried, RESOURCE, 7);
    carried_keep(&carried, RESOURCE + CARRIED_RESOURCES, 8); /* at the same place: the newest counts */
    close_scope();
    open_scope(RESOURCE, 0, false);
    assert_int_equal(current(), NONE);
    close_scope();
    open_scope(RESOURCE + CARRIED_RESOURCES, 0, false);
    assert_int_equal(current(), 8);
    carried_keep(&carried, RESOURCE + CARRIED_RESOURCES, NONE); /* another with that id has none */
    close_scope();
    open_scope(RESOURCE + CARRIED_RESOURCES, 0, false);
    assert_int_equal(current(), NONE);
    carried_keep(&carried, RESOURCE, 0); /* made where it was lost whose code runs: so are its callbacks */
    close_scope();
    open_scope(RESOURCE, 0, false);
    assert_int_equal(current(), 0);
    close_scope();
}

static void timers_are_lost(void **state)
{
    open_scope(0, 0, false);
    assert_int_equal(current(), 0);
    close_scope();
}

/* ---- ids ---- */

static double ids[4]; /* as Node has them: of what runs, ..., the newest */
static const struct {
    uint64_t other;
    const void *ids;
} environment = {.ids = ids};

/* The ids of the environment are believed. */
static void with_ids(void)
{
    ids[NEWEST_ID_AT] = 100;
    carried.ids = (const uint64_t *const *)&environment.ids;
}

static double made(void)
{
    return ++ids[NEWEST_ID_AT];
}

static uint32_t current_in(double id)
{
    execution = (uint64_t)id;
    ids[EXECUTION_ID_AT] = id;
    return current();
}

static void what_a_request_has_made_is_its(void **state)
{
    with_ids();
    double before = made();
    open_scope(PARSER, 7, true);
    double first = made(), second = made();
    close_scope();
    open_scope(RESOURCE, 0, false);
    double nobodys = made();
    close_scope();
    open_scope(PARSER, 8, true);
    double third = made();
    carried_closing(&carried, thread, innermost());
    double in_ticks = made();
    assert_int_equal(current_in(99), 0); /* a tick of which nothing is known, of whoever went before */
    microtasks(NULL);
    double after_microtasks = made();
    close_scope();
    double outside = made();

    open_scope(0, 0, false); /* immediates, one after the other */
    assert_int_equal(current_in(first), 7);
    assert_int_equal(current_in(second), 7);
    assert_int_equal(current_in(nobodys), NONE);
    assert_int_equal(current_in(third), 8);
    double in_immediate = made();
    assert_int_equal(current_in(before), 0);
    assert_int_equal(current_in(in_ticks), 0);
    assert_int_equal(current_in(after_microtasks), 0);
    assert_int_equal(current_in(outside), 0);
    assert_int_equal(current_in(in_immediate), 0);
    assert_int_equal(current_in(0), 0);
    assert_int_equal(current_in(made() + 1), 0);
    close_scope();
}

static double made_in_reaction, made_later;
static int reaction_and_another(void)
{
    stands = number(7);
    assert_int_equal(current(), 7);
    made_in_reaction = made();
    open_scope(RESOURCE, 8, false);
    close_scope();
    stands = UNDEFINED; /* the next reaction, which nobody sees begin */
    made_later = made();
    return 1;
}

/* One after the other is one piece. */
static void what_goes_on_is_one_piece(void **state)
{
    with_ids();
    open_scope(PARSER, 7, true);
    double first = made();
    carried_closing(&carried, thread, innermost());
    double in_tick = made();
    close_scope();
    assert_int_equal(carried.taker_count, 1);
    open_scope(PARSER, 8, true);
    double other = made();
    close_scope();
    open_scope(0, 0, false);
    assert_int_equal(current_in(first), 7);
    assert_int_equal(current_in(in_tick), 7);
    assert_int_equal(current_in(other), 8);
    close_scope();
}

static void in_microtasks_who_makes_what_is_not_known(void **state)
{
    with_ids();
    open_scope(PARSER, 7, true);
    microtasks(reaction_and_another);
    close_scope();
    open_scope(0, 0, false);
    assert_int_equal(current_in(made_in_reaction), 0);
    assert_int_equal(current_in(made_later), 0);
    close_scope();
}

static double resource_of_8;
static int bound_in_microtasks(void)
{
    stands = UNDEFINED;
    assert_int_equal(current_in(resource_of_8), 8); /* queueMicrotask() */
    stands = number(7);
    assert_int_equal(current_in(resource_of_8),
                     UINT32_MAX); /* a promise's, or somebody has entered a resource */
    return 0;
}

static void resources_that_are_entered(void **state)
{
    with_ids();
    open_scope(PARSER, 8, true);
    resource_of_8 = made();
    close_scope();
    open_scope(PARSER, 7, true);
    assert_int_equal(current_in(resource_of_8), 8);
    assert_int_equal(current_in(PARSER), 7);
    assert_int_equal(current_in(made()), 7);
    microtasks(bound_in_microtasks);
    close_scope();
}

static void nested_callbacks_make_their_own(void **state)
{
    with_ids();
    open_scope(PARSER, 7, true);
    double first = made();
    open_scope(RESOURCE, 8, true);
    double inner = made();
    close_scope();
    double second = made();
    carried_closing(&carried, thread, innermost());
    close_scope();
    open_scope(0, 0, false);
    assert_int_equal(current_in(first), 7);
    assert_int_equal(current_in(inner), 8);
    assert_int_equal(current_in(second), 7);
    close_scope();
}

/* An inner scope's end was not seen: what came last may be of either. */
static void a_scope_that_ended_unseen(void **state)
{
    with_ids();
    open_scope(PARSER, 7, true);
    open_scope(RESOURCE, 8, true);
    double last = made();
    carried_closing(&carried, thread, &thread->callbacks[0]);
    thread->callback_count = 1;
    close_scope();
    open_scope(0, 0, false);
    assert_int_equal(current_in(last), 0);
    close_scope();
}

static void the_newest_takers_are_kept(void **state)
{
    with_ids();
    double ids_of[CARRIED_TAKERS + 10];
    for (uint32_t i = 0; i < CARRIED_TAKERS + 10; i++) {
        open_scope(PARSER, 1000 + i, true);
        ids_of[i] = made();
        close_scope();
    }
    open_scope(0, 0, false);
    for (uint32_t i = 0; i < CARRIED_TAKERS + 10; i++)
        assert_int_equal(current_in(ids_of[i]), i < 10 ? 0 : 1000 + i);
    close_scope();
}

/* Sonde was away; or the ids are another environment's, or no longer believed. */
static void ids_that_are_begun_anew(void **state)
{
    with_ids();
    open_scope(PARSER, 7, true);
    double away = made();
    carried_again(&carried);
    double unseen = made();
    close_scope();
    open_scope(PARSER, 8, true);
    double later = made();
    close_scope();
    open_scope(0, 0, false);
    assert_int_equal(current_in(away), 0);
    assert_int_equal(current_in(unseen), 0);
    assert_int_equal(current_in(later), 8);
    close_scope();
    ids[NEWEST_ID_AT] = 50;
    open_scope(PARSER, 9, true); /* which has not made that */
    assert_int_equal(current_in(later), UINT32_MAX);
    close_scope();
}

static void ids_that_are_not_believed(void **state)
{
    with_ids();
    open_scope(PARSER, 7, true);
    double first = made();
    close_scope();
    carried.ids = NULL;
    scopes_looked_at = 0;
    open_scope(0, 0, false);
    assert_int_equal(scopes_looked_at, 1); /* they may be later */
    assert_int_equal(current_in(first), 0);
    close_scope();
}

static void somebody_elses_value(void **state)
{
    open_scope(PARSER, 7, true);
    stands = OBJECT;
    uint32_t seen = 7;
    for (int i = 0; i < 64 && !carried.foreign; i++) /* what stands is looked at now and then */
        seen = current();
    assert_true(carried.foreign);
    assert_int_equal(seen, 0);
    carried_stop(&carried);
    assert_int_equal(stands, OBJECT);
    thread->callback_count = 0;
}

extern void (*sonde_orig_node_uncaught)(void *of, void *error, void *message, bool from_promise);
void sonde_wrap_node_uncaught(void *of, void *error, void *message, bool from_promise);
static void go_on(void *of, void *error, void *message, bool from_promise)
{
}

static void ticks_left_over_by_an_exception(void **state)
{
    sonde_orig_node_uncaught = go_on;
    open_scope(PARSER, 7, true);
    carried_closing(&carried, thread, innermost());
    microtasks(NULL);
    sonde_wrap_node_uncaught(&isolate, NULL, NULL, false); /* of a tick that microtasks have made */
    close_scope();
    open_scope(PARSER, 8, true);
    carried_closing(&carried, thread, innermost());
    assert_int_equal(current(), 0);
    microtasks(NULL);
    close_scope();
}

static void scopes_that_are_not_kept(void **state)
{
    open_scope(PARSER, 7, true);
    thread->context_scope = 5; /* one beyond those that a thread keeps */
    carried_scope(&carried, thread, RESOURCE, 0, false);
    assert_int_equal(stands, number(NONE));
    close_scope();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(not_where_the_value_is_somebodys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(request_ticks_and_microtasks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ticks_of_two_requests, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nested_callbacks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nested_in_a_tick, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ticks_of_nobody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(microtasks_within_a_callback, set_up, tear_down),
        cmocka_unit_test_setup_teardown(resources, set_up, tear_down),
        cmocka_unit_test_setup_teardown(timers_are_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_request_has_made_is_its, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_goes_on_is_one_piece, set_up, tear_down),
        cmocka_unit_test_setup_teardown(in_microtasks_who_makes_what_is_not_known, set_up, tear_down),
        cmocka_unit_test_setup_teardown(resources_that_are_entered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nested_callbacks_make_their_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_scope_that_ended_unseen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_newest_takers_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ids_that_are_begun_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ids_that_are_not_believed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(somebody_elses_value, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ticks_left_over_by_an_exception, set_up, tear_down),
        cmocka_unit_test_setup_teardown(scopes_that_are_not_kept, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
