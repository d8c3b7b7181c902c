/* Request contexts without promise hooks: V8 keeps one value beside the code that runs, hands it to every
 * reaction that is added to a promise, and has it back while that reaction runs (its "continuation-preserved
 * embedder data"; Node uses it from 24 on). Nobody does in Node 18, 20 and 22: there the value is the number
 * of the request that is served, a small integer, so that no object is kept alive and no collection is
 * concerned.
 *
 * V8 does not carry it over the rest. What calls back natively (files, DNS, timers of libuv) opens a callback
 * scope: it gets the number that was current when its resource was made. Ticks run before the microtasks of
 * their callback: when all code since the last ticks was one request's, so are they. What remains is a value
 * that is not there, never another's: before microtasks run it is taken away, since a reaction that has none
 * runs with whatever stands. And a number is believed only where Node's own execution id says that no
 * AsyncResource has been entered meanwhile.
 *
 * Where more is lost than a few, probe_context.c goes over to its script's AsyncLocalStorage. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/probe_carried.h"

enum { NONE = NO_REQUEST };
/* Outside microtasks V8 leaves the value as it was set; so often it is looked whether anybody else does. */
enum { LOOK_ONE_OF = 64 };
#define ANYBODYS UINT32_MAX /* several requests', or not known */

/* v8::Value *Local: a pointer to a slot that holds a tagged value; small integers are in the upper half. */
typedef const uint64_t *local;

/* The hook below is where microtasks run: a compiler may have put another copy of that function elsewhere. */
static bool microtasks_seen;

static uint64_t small_integer(uint32_t number)
{
    return (uint64_t)number << 32;
}

static bool is_small_integer(uint64_t value)
{
    return !(value & UINT32_MAX);
}

static uint32_t number_of(uint64_t value)
{
    return (uint32_t)(value >> 32);
}

/* ---- ids: whose code took them ---- */

/* One of Node's ids, by its bits; 0: not known. */
static inline uint64_t id_bits(const struct carried *v, int at)
{
    return LIKELY(v->ids) ? (*v->ids)[at] : 0;
}

/* Node has given out ids since the value was set that stands: they are that request's, or no request's. */
static __attribute__((noinline)) void taken(struct carried *v, uint64_t newest)
{
    if (UNLIKELY(newest < v->taken_before)) { /* another environment's, or not believed any more */
        v->taker_count = 0;
    } else if (v->taken_before && v->value != v->value_nobody) {
        uint32_t place = (v->taker_count - 1) % CARRIED_TAKERS, number = number_of(v->value);
        bool goes_on =
            v->taker_count && v->takers[place].last == v->taken_before && v->takers[place].number == number;
        if (!goes_on) {
            place = v->taker_count++ % CARRIED_TAKERS;
            v->takers[place].before = v->taken_before;
        }
        v->takers[place].last = newest;
        v->takers[place].number = number;
    }
    v->taken_before = newest;
}

/* Whose code took the id that runs: of an immediate, a timer, a tick, an AsyncResource. 0: not known. */
static uint32_t taker_of_running(struct carried *v)
{
    uint64_t id = id_bits(v, EXECUTION_ID_AT), newest = id_bits(v, NEWEST_ID_AT);
    if (v->taken_before && newest != v->taken_before)
        taken(v, newest);
    uint32_t high = v->taker_count, low = high > CARRIED_TAKERS ? high - CARRIED_TAKERS : 0;
    while (low < high) { /* the newest that begins before it */
        uint32_t middle = low + (high - low) / 2;
        if (v->takers[middle % CARRIED_TAKERS].before < id)
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t place = (low - 1) % CARRIED_TAKERS;
    return low && v->takers[place].before < id && id <= v->takers[place].last ? v->takers[place].number : 0;
}

/* ---- the value ---- */

static void set(struct carried *v, uint64_t value)
{
    uint64_t newest = id_bits(v, NEWEST_ID_AT);
    if (newest != v->taken_before)
        taken(v, newest);
    v->value = value;
    ((void (*)(void *, local))(uintptr_t)sonde_config.node.carried_set)(v->owner, &value);
}

/* Other code than the value says may run until it is set again. */
static void others_run(struct carried *v)
{
    v->taken_before = 0;
}

static uint64_t get(const struct carried *v)
{
    uint64_t handle_scope[8];
    ((void (*)(void *, void *))(uintptr_t)sonde_config.node.script_handle_scope)(handle_scope, v->isolate);
    uint64_t value = *((local(*)(void *))(uintptr_t)sonde_config.node.carried_get)(v->owner);
    ((void (*)(void *))(uintptr_t)sonde_config.node.script_handle_scope_end)(handle_scope);
    return value;
}

/* The value that stands now. Asking V8 for it takes three calls. */
static uint64_t standing(struct carried *v)
{
    return UNLIKELY(v->in_microtasks || ++v->looks % LOOK_ONE_OF == 0) ? get(v) : v->value;
}

/* Sets it, if it is not what it is to be already. */
static void change(struct carried *v, uint64_t value)
{
    if (v->in_microtasks || v->value != value)
        set(v, value);
}

bool carried_possible(bool *ret_later)
{
    *ret_later = sonde_config.node.carried_set && !microtasks_seen;
    return sonde_config.node.carried_set && microtasks_seen;
}

bool carried_start(struct carried *v, void *isolate, void *context, uint64_t undefined)
{
    v->isolate = isolate;
    v->owner = sonde_config.node.carried_of_context ? context : isolate;
    v->value_nobody = undefined;
    v->environment = NULL;
    v->ids = NULL;
    v->ticks_are = ANYBODYS; /* those that wait now */
    v->taker_count = 0;
    others_run(v);
    v->settling = CARRIED_SETTLING;
    v->fading = v->foreign = v->draining = v->in_microtasks = v->found = v->lost = 0;
    for (uint32_t i = 0; i < CARRIED_RESOURCES; i++)
        v->resources[i].async_id = 0;
    if (get(v) != undefined) /* somebody else's */
        return false;
    set(v, small_integer(NONE));
    v->on = get(v) == small_integer(NONE);
    set(v, undefined);
    return v->on;
}

void carried_stop(struct carried *v)
{
    v->on = 0;
    if (!v->foreign)
        set(v, v->value_nobody);
}

void carried_again(struct carried *v)
{
    v->ticks_are = ANYBODYS;
    v->draining = v->in_microtasks = 0;
    v->settling = CARRIED_SETTLING;
    others_run(v);
    set(v, v->value_nobody);
}

void carried_keep(struct carried *v, uint64_t async_id, uint32_t number)
{
    uint32_t place = (uint32_t)(async_id % CARRIED_RESOURCES);
    if (number != NONE)
        v->resources[place].number = number ? number : ANYBODYS;
    else if (v->resources[place].async_id != async_id)
        return;
    v->resources[place].async_id = number != NONE ? async_id : 0;
}

/* ANYBODYS: whose code made it was lost; 0: it is not known at all, and so no request's. */
static uint32_t kept(const struct carried *v, uint64_t async_id)
{
    uint32_t place = (uint32_t)(async_id % CARRIED_RESOURCES);
    return async_id && v->resources[place].async_id == async_id ? v->resources[place].number : 0;
}

void carried_scope(struct carried *v, struct probe_thread *self, uint64_t async_id, uint32_t number,
                   bool keep)
{
    struct probe_callback *callback =
        self->callback_count ? &self->callbacks[self->callback_count - 1] : NULL;
    if (!callback ||
        callback->self != self->context_scope) { /* one that is not kept: nobody would take it back */
        change(v, small_integer(NONE));
        others_run(v);
        return;
    }
    if (UNLIKELY(v->settling)) {
        v->settling--;
        execution_is(v, async_id);
    }
    if (keep)
        carried_keep(v, async_id, number);
    else if (!number)
        number = kept(v, async_id);
    callback->async_id = async_id;
    callback->outer_value = v->value_nobody;
    if (self->callback_count > 1) {
        callback->outer_value = standing(v);
        if (!is_small_integer(callback->outer_value) && callback->outer_value != v->value_nobody) {
            v->foreign = 1;
            return;
        }
    }
    /* Timers and immediates come in a scope of no resource: each has its own request. */
    uint32_t whose = number ? number : async_id ? NONE : ANYBODYS;
    v->ticks_are = !v->ticks_are || v->ticks_are == whose ? whose : ANYBODYS;
    change(v, whose == ANYBODYS ? v->value_nobody : small_integer(whose));
}

void carried_closing(struct carried *v, struct probe_thread *self, const struct probe_callback *callback)
{
    if (UNLIKELY(self->callback_count != 1)) {
        if (callback != &self->callbacks[self->callback_count - 1])
            others_run(v); /* inner ones ended unseen */
        if (callback != self->callbacks)
            return;
    }
    v->draining = 1;
    change(v, v->ticks_are && v->ticks_are != ANYBODYS ? small_integer(v->ticks_are) : v->value_nobody);
}

void carried_closed(struct carried *v, const struct probe_callback *callback, bool outermost)
{
    if (outermost) {
        change(v, v->value_nobody);
        v->draining = v->in_microtasks = 0;
        return;
    }
    /* Among ticks: those that it has made come before microtasks, too. */
    uint64_t value = callback->outer_value;
    if (v->draining && !v->in_microtasks && value != small_integer(v->ticks_are))
        value = v->value_nobody;
    change(v, value);
    if (v->in_microtasks) /* one reaction follows the other unseen */
        others_run(v);
}

/* Node's execution id is what it must be, where no AsyncResource has been entered: the resource's of the
 * callback scope, and none in microtasks. Ticks have ids of their own. */
static bool same_execution(struct carried *v, const struct probe_thread *self)
{
    uint32_t open = self->callback_count;
    if (v->in_microtasks && open == v->microtasks_outer)
        return execution_async_id(v) == 0;
    if (v->draining && open == 1)
        return true;
    return open && execution_async_id(v) == self->callbacks[open - 1].async_id;
}

uint32_t carried_current(struct carried *v, const struct probe_thread *self, bool *ret_entered)
{
    uint64_t value = standing(v);
    *ret_entered = false;
    if (!is_small_integer(value) && value != v->value_nobody) {
        v->foreign = 1;
        return 0;
    }
    uint32_t number = value == v->value_nobody ? 0 : number_of(value);
    if (LIKELY(number == NONE || (number && same_execution(v, self))))
        return number;
    /* A promise reaction that Node's hooks are told of runs under its promise's id; the caller must be told.
     */
    bool reaction = number && v->in_microtasks && self->callback_count == v->microtasks_outer;
    uint32_t taker = reaction ? 0 : taker_of_running(v);
    *ret_entered = number && !taker;
    return taker ? taker : number;
}

void carried_drop(struct carried *v)
{
    change(v, v->value_nobody);
}

/* int v8::internal::MicrotaskQueue::RunMicrotasks(Isolate *) */
HOT_HOOK(int, v8_microtasks, void *queue, void *isolate)
{
    struct carried *v = carried_own();
    struct probe_thread *self = v && v->isolate == isolate ? probe_thread() : NULL;
    microtasks_seen = true;
    if (!self)
        return sonde_orig_v8_microtasks(queue, isolate);
    uint64_t outer = v->draining && !v->in_microtasks ? v->value_nobody : standing(v);
    uint32_t was_in = v->in_microtasks, was_outer = v->microtasks_outer;
    change(v, v->value_nobody);
    v->ticks_are = v->draining ? 0 : ANYBODYS; /* they are yet to run */
    v->in_microtasks = 1;
    v->microtasks_outer = self->callback_count;
    int run = sonde_orig_v8_microtasks(queue, isolate);
    if (carried_own() != v || probe_stale(self))
        return run;
    v->in_microtasks = was_in;
    v->microtasks_outer = was_outer;
    if (UNLIKELY(!is_small_integer(outer) && outer != v->value_nobody))
        return run;
    if (run)
        set(v, outer);
    else
        change(v, outer); /* there were none: nothing has changed it */
    return run;
}

/* node::errors::TriggerUncaughtException(Isolate *, Local<Value>, Local<Message>, bool): where the program
 * goes on after it, ticks are left over, which run with the next callback's. */
HOOK(void, node_uncaught, void *isolate, void *error, void *message, bool from_promise)
{
    struct carried *v = carried_own();
    if (v && v->isolate == isolate) {
        v->ticks_are = ANYBODYS;
        others_run(v);
    }
    sonde_orig_node_uncaught(isolate, error, message, from_promise);
}
