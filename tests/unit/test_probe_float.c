/* The id of what runs: asked of Node, until it is known where an environment has it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/probe_carried.h"
#include "targets/node/probe_context.h"
#include "targets/node/probe.h"

#include "probe_in_test.h"

static uint64_t begun[2];

/* What the other hooks of this file need, and these tests do not. */
void callback_begin(struct probe_thread *self, uint64_t scope, uint64_t async_id, uint64_t trigger_id)
{
    begun[0] = async_id;
    begun[1] = trigger_id;
}
void callback_known(struct probe_thread *self, uint64_t scope, uint64_t async_id, uint64_t trigger_id)
{
}
void context_scope(struct probe_thread *self, const void *of, uint64_t async_id)
{
}
void resource_made(struct probe_thread *self, const void *environment, const uint64_t *type,
                   uint64_t async_id, uint64_t trigger_id)
{
}

static double node_says, stands;
static int asked;
static struct {
    uint64_t other;
    const double *execution_id;
} environment = {.execution_id = &stands};

static double execution_id(void *isolate)
{
    asked++;
    return node_says;
}

static void prepare(struct carried *v, uint64_t field)
{
    sonde_config.node.execution_id = (uintptr_t)execution_id;
    sonde_config.node.execution_field = field;
    memset(v, 0, sizeof(*v));
    carried_environment(v, &environment);
    asked = 0;
}

static struct carried carried;

static void asked_until_both_agree(void **state)
{
    prepare(&carried, offsetof(__typeof__(environment), execution_id));
    for (int i = 0; i < 100; i++) {
        node_says = stands = 7; /* one and the same proves nothing */
        assert_int_equal(execution_async_id(&carried), 7);
    }
    assert_int_equal(asked, 100);
    for (int i = 0; i < 100; i++) {
        node_says = stands = i;
        assert_int_equal(execution_async_id(&carried), i);
    }
    assert_in_range(asked, 110, 120);

    /* Another environment is another place. */
    static const __typeof__(environment) other = {.execution_id = &stands};
    asked = 0;
    carried_environment(&carried, &other);
    assert_int_equal(execution_async_id(&carried), 99);
    assert_int_equal(asked, 1);
}

/* So does what callback scopes begin with. */
static void not_asked_once_scopes_agree(void **state)
{
    prepare(&carried, offsetof(__typeof__(environment), execution_id));
    for (int i = 0; i < 40; i++) {
        stands = i / 2; /* one and the same proves nothing */
        execution_is(&carried, (uint64_t)(i / 2));
        assert_int_equal(carried.ids != NULL, i >= 32);
    }
    stands = 7;
    assert_int_equal(execution_async_id(&carried), 7);
    assert_int_equal(asked, 0);
    prepare(&carried, offsetof(__typeof__(environment), execution_id));
    for (int i = 0; i < 40; i++) {
        stands = i % 10 ? i : 5; /* mostly */
        execution_is(&carried, (uint64_t)i);
        assert_null(carried.ids);
    }
}

static void asked_where_they_do_not(void **state)
{
    prepare(&carried, offsetof(__typeof__(environment), execution_id));
    for (int i = 0; i < 100; i++) {
        node_says = i;
        stands = i % 10 ? i : 1e300; /* mostly */
        assert_int_equal(execution_async_id(&carried), i);
    }
    assert_int_equal(asked, 100);
}

static void asked_where_the_place_is_unknown(void **state)
{
    prepare(&carried, 0);
    for (int i = 0; i < 100; i++) {
        node_says = stands = i;
        assert_int_equal(execution_async_id(&carried), i);
    }
    assert_int_equal(asked, 100);
    node_says = -1; /* no environment */
    assert_int_equal(execution_async_id(&carried), 0);
}

extern void (*sonde_orig_node_scope)(void *, void *, void *, const void *, int);
extern void sonde_wrap_node_scope(void *, void *, void *, const void *, int);

static void construct(void *scope, void *env, void *object, const void *context, int flags)
{
}

/* Ids of resources are whole numbers from 0 on; what is none is unknown. */
static void ids_of_a_scope_are_whole_numbers(void **state)
{
    static const struct {
        double id;
        uint64_t whole;
    } IDS[] = {{0, 0},      {1, 1},
               {77.5, 77},  {9007199254740991, 9007199254740991ull},
               {-1, 0},     {1e300, 0},
               {-1e300, 0}, {__builtin_nan(""), 0},
               {1e18, 0},   {9007199254740992, 0}};
    char scope[64] = "";
    sonde_orig_node_scope = construct;
    probe_self.thread = make_thread(1 << 12);
    for (size_t i = 0; i < sizeof(IDS) / sizeof(IDS[0]); i++) {
        const double context[2] = {IDS[i].id, 5};
        sonde_wrap_node_scope(scope, NULL, NULL, context, 0);
        assert_int_equal(begun[0], IDS[i].whole);
        assert_int_equal(begun[1], 5);
    }
    free(probe_self.thread);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asked_until_both_agree),
        cmocka_unit_test(not_asked_once_scopes_agree),
        cmocka_unit_test(asked_where_they_do_not),
        cmocka_unit_test(asked_where_the_place_is_unknown),
        cmocka_unit_test(ids_of_a_scope_are_whole_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
