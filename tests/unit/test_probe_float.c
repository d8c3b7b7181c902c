/* The id of what runs: asked of Node, until it is known where an environment has it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/probe_carried.h"
#include "targets/node/probe_context.h"
#include "targets/node/probe.h"

#include "probe_in_test.h"

/* What the other hooks of this file need, and these tests do not. */
struct probe_callback *callback_find(struct probe_thread *self, uint64_t scope)
{
    return NULL;
}
void callback_begin(struct probe_thread *self, uint64_t scope, uint64_t async_id)
{
}
void callback_end(struct probe_thread *self, struct probe_callback *callback, uint64_t scope,
                  uint64_t async_id, uint64_t trigger_id)
{
}
uint32_t v8_name(struct probe_thread *self, const uint64_t *handle)
{
    return 0;
}
void context_scope(struct probe_thread *self, uint64_t async_id)
{
}
void context_resource(struct probe_thread *self, const void *environment, const uint64_t *type,
                      uint64_t async_id)
{
}
struct carried *carried_own(void)
{
    return NULL;
}
void carried_closing(struct carried *v, struct probe_thread *self, const struct probe_callback *callback)
{
}
void carried_closed(struct carried *v, const struct probe_callback *callback, bool outermost)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asked_until_both_agree),
        cmocka_unit_test(asked_where_they_do_not),
        cmocka_unit_test(asked_where_the_place_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
