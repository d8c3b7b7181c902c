/* The Node hooks whose arguments are doubles (async ids), and the callback scopes that carry them. The other
 * hooks are compiled without floating point, so that they cannot disturb such arguments. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/probe.h"
#include "targets/node/probe_carried.h"
#include "targets/node/probe_context.h"

#include <emmintrin.h>

struct async_context {
    double async_id, trigger_async_id;
};

/* 0 for what is no id. Of a signed number: to an unsigned one, which has no instruction of its own, takes
 * twice as long. What is beyond its range becomes its least, by the CPU's own rule. */
static uint64_t whole(double id)
{
    enum { BITS = 53 }; /* that a double holds exactly */
    uint64_t number = (uint64_t)_mm_cvttsd_si64(_mm_set_sd(id));
    return LIKELY(number >> BITS == 0) ? number : 0;
}

/* Asking Node takes five calls of V8. Where its own code showed sonde from where it loads the id, it is
 * loaded from there. */
static uint64_t loaded_id(const uint64_t *const *ids)
{
    double id;
    __builtin_memcpy(&id, *ids + EXECUTION_ID_AT, sizeof(id));
    return whole(id);
}

void execution_is(struct carried *v, uint64_t async_id)
{
    if (LIKELY(v->ids || !v->environment) || async_id == v->agreed_id)
        return;
    const uint64_t *const *ids = (const uint64_t *const *)(const void *)((const char *)v->environment +
                                                                         sonde_config.node.execution_field);
    v->agreed = loaded_id(ids) == async_id ? v->agreed + 1 : 0;
    v->agreed_id = async_id;
    if (v->agreed == CARRIED_AGREEMENTS)
        v->ids = ids;
}

uint64_t execution_async_id(struct carried *v)
{
    if (LIKELY(v->ids))
        return loaded_id(v->ids);
    uint64_t id = whole(((double (*)(void *))(uintptr_t)sonde_config.node.execution_id)(v->isolate));
    execution_is(v, id);
    return id;
}

uint64_t running_async_id(void)
{
    uint64_t isolate_of = sonde_config.node.script_isolate, id_of = sonde_config.node.execution_id;
    void *isolate = isolate_of && id_of ? ((void *(*)(void))(uintptr_t)isolate_of)() : NULL;
    return isolate ? whole(((double (*)(void *))(uintptr_t)id_of)(isolate)) : 0;
}

/* node::AsyncWrap::EmitAsyncInit(Environment*, Local<Object>, Local<String>, double, double) */
HOT_HOOK(void, node_async_init, void *env, void *object, const uint64_t *type, double async_id,
         double trigger_id)
{
    struct probe_thread *self = probe_thread();
    if (self)
        resource_made(self, env, type, whole(async_id), whole(trigger_id));
    sonde_orig_node_async_init(env, object, type, async_id, trigger_id);
}

/* Where a scope keeps the context it was made with: learnt from the first scope whose context stands there
 * once and nowhere else. Scopes are larger than what is searched. */
static void find_context(const void *scope, const struct async_context *context)
{
    enum { SEARCHED = 48 };
    if (LIKELY(sonde_config.node.scope_context != SONDE_NO_OFFSET) || context->async_id <= 1)
        return;
    int found = SONDE_NO_OFFSET, count = 0;
    for (int at = 0; at + (int)sizeof(*context) <= SEARCHED; at += 8) {
        const struct async_context *there = (const struct async_context *)((const char *)scope + at);
        if (there->async_id == context->async_id && there->trigger_async_id == context->trigger_async_id) {
            found = at;
            count++;
        }
    }
    if (count == 1)
        sonde_config.node.scope_context = found;
}

static void scope_begun(struct probe_thread *self, const void *scope, const void *environment,
                        uint64_t async_id)
{
    self->context_scope = (uintptr_t)scope;
    context_scope(self, environment, async_id);
}

/* InternalCallbackScope::InternalCallbackScope(Environment*, Local<Object>, async_context const&, int): to
 * 22.6. 22.7 to 22.19, 23 and the first 24 have a Local<Value> more, the async context frame. */
HOT_HOOK(void, node_scope, void *scope, void *env, void *object, const struct async_context *context,
         int flags, void *frame)
{
    struct probe_thread *self = probe_thread();
    uint64_t async_id = whole(context->async_id);
    if (self)
        callback_begin(self, (uintptr_t)scope, async_id, whole(context->trigger_async_id));
    sonde_orig_node_scope(scope, env, object, context, flags, frame);
    if (self) {
        find_context(scope, context);
        scope_begun(self, scope, env, async_id);
    }
}

/* std::variant<Local<Object>, Local<Object>*>: trivial, and so in two registers. */
struct object_or_slot {
    void *object;
    uint64_t which;
};

/* The same since 22.20: (Environment*, variant<Local<Object>, Local<Object>*>, async_context const&, int,
 * Local<Value>). */
HOT_HOOK(void, node_scope_variant, void *scope, void *env, struct object_or_slot object,
         const struct async_context *context, int flags, void *frame)
{
    struct probe_thread *self = probe_thread();
    uint64_t async_id = whole(context->async_id);
    if (self)
        callback_begin(self, (uintptr_t)scope, async_id, whole(context->trigger_async_id));
    sonde_orig_node_scope_variant(scope, env, object, context, flags, frame);
    if (self) {
        find_context(scope, context);
        scope_begun(self, scope, env, async_id);
    }
}

/* InternalCallbackScope::InternalCallbackScope(AsyncWrap*, int). It may or may not go through the other
 * constructor; callback_begin() takes a scope once. */
HOT_HOOK(void, node_scope_wrap, void *scope, void *wrap, int flags)
{
    struct probe_thread *self = probe_thread();
    if (self)
        callback_begin(self, (uintptr_t)scope, 0, 0);
    if (self)
        self->context_scope = 0;
    sonde_orig_node_scope_wrap(scope, wrap, flags);
    int32_t at = sonde_config.node.scope_context;
    if (!self || self->context_scope == (uintptr_t)scope || at < 0)
        return;
    const struct async_context *context = (const struct async_context *)((const char *)scope + at);
    uint64_t async_id = whole(context->async_id);
    callback_known(self, (uintptr_t)scope, async_id, whole(context->trigger_async_id));
    scope_begun(self, scope, NULL, async_id);
}
