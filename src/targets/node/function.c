/* Chosen JavaScript functions (--function): each call as a span of its request, what it took and what of that
 * the event loop was busy with it, and which of those asked for could not be seen. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/function.h"

#include <string.h>

#include "targets/node/node.h"

enum { FUNCTIONS_MAX = 256, PENDING_MAX = 65536 };

/* ---- calls ---- */

static struct function_sum *sum_of(struct analysis *a, struct process *process, const char *name,
                                   uint32_t *ret_index)
{
    size_t i = 0;
    while (i < node_process(process)->functions.count && node_process(process)->functions.at[i].name != name)
        i++;
    if (i == node_process(process)->functions.count) {
        if (i >= FUNCTIONS_MAX)
            return NULL;
        LIST_ADD(a, &node_process(process)->functions, (struct function_sum){.name = name});
        if (a->failed)
            return NULL;
    }
    *ret_index = (uint32_t)i;
    return &node_process(process)->functions.at[i];
}

static void took(struct analysis *a, struct function_sum *sum, uint64_t ns)
{
    sum->total_ns += ns;
    sum->worst_ns = MAX(sum->worst_ns, ns);
    if (sketch_add(&sum->took, ns) < 0)
        a->failed = true;
}

/* A call whose promise is not settled yet; a number is used again only after four thousand million. */
static void pend(struct turn *t, uint32_t call, const struct pending_call *pending)
{
    struct map *calls = &node_thread(t->thread)->function_calls;
    if (calls->count >= PENDING_MAX)
        return;
    struct pending_call *kept = malloc(sizeof(*kept));
    uint64_t *place = kept ? map_put(calls, call, NULL) : NULL;
    if (!place) {
        free(kept);
        t->a->failed = true;
        return;
    }
    free((void *)(uintptr_t)*place);
    *kept = *pending;
    *place = (uint64_t)(uintptr_t)kept;
}

void function_read(struct turn *t, const struct item *item, const struct context *c)
{
    const struct context whose = turn_told(t, item, c);
    uint64_t took_ns = item->end_ns - item->start_ns, outer_ns = t->functions_ns;
    const char *name = item->name ? item->name : "(unnamed)";
    struct context inner = *c;
    uint32_t span = VSPAN_NONE, index = 0;
    if (whose.owner) {
        inner = whose;
        span = request_add_span(t->a, whose.owner,
                                &(struct vspan){.start_ns = item->start_ns,
                                                .end_ns = item->count ? 0 : item->end_ns,
                                                .parent = whose.parent,
                                                .cause = VSPAN_NONE,
                                                .layer = LAYER_code,
                                                .kind = VSPAN_function,
                                                .known = whose.known,
                                                .told = whose.told,
                                                .name = name,
                                                .detail = item->small ? "it threw" : NULL,
                                                .work_start_ns = item->start_ns,
                                                .work_end_ns = item->end_ns});
        if (span != VSPAN_NONE)
            inner.parent = span;
    }
    t->functions_ns = 0;
    foreach_child(t, item, i) read_item(t, i, &inner);
    uint64_t self_ns = took_ns - MIN(took_ns, t->functions_ns);
    t->functions_ns = outer_ns + took_ns;
    struct function_sum *sum = sum_of(t->a, t->thread->process, name, &index);
    if (!sum)
        return;
    sum->count++;
    sum->threw += item->small != 0;
    sum->self_ns += self_ns;
    if (sketch_add(&sum->self, self_ns) < 0)
        t->a->failed = true;
    if (!item->count)
        took(t->a, sum, took_ns);
    else
        sum->pending++, pend(t, item->count,
                             &(struct pending_call){.start_ns = item->start_ns,
                                                    .end_ns = item->end_ns,
                                                    .owner = whose.owner ? whose.owner->serial : 0,
                                                    .span = span,
                                                    .sum = index});
}

void function_settled(struct turn *t, const struct item *item)
{
    uint64_t *known = map_get(&node_thread(t->thread)->function_calls, item->count);
    if (!known)
        return;
    struct pending_call *call = (struct pending_call *)(uintptr_t)*known;
    struct function_sum *sum = &node_process(t->thread->process)->functions.at[call->sum];
    struct request *owner = request_open(t->a, call->owner);
    bool seen = item->small != SONDE_settled_not_awaited;
    sum->pending--;
    sum->rejected += item->small == SONDE_settled_rejected;
    sum->not_awaited += !seen;
    if (seen)
        took(t->a, sum, item->end_ns - MIN(item->end_ns, call->start_ns));
    if (owner && call->span < owner->spans.count) {
        struct vspan *span = &owner->spans.at[call->span];
        span->end_ns = seen ? MAX(item->end_ns, call->end_ns) : call->end_ns;
        span->detail = item->small == SONDE_settled_rejected ? "its promise was rejected"
                       : !seen ? "its promise was not awaited at once: when it ended is not known"
                               : span->detail;
    }
    map_remove(&node_thread(t->thread)->function_calls, item->count);
    free(call);
}

void functions_free(struct thread *thread)
{
    map_foreach (&node_thread(thread)->function_calls, slot) {
        free((void *)(uintptr_t)slot->value);
    }
    map_done(&node_thread(thread)->function_calls);
}

void function_sums_free(struct process *process)
{
    array_foreach (&node_process(process)->functions, sum) {
        sketch_done(&sum->took);
        sketch_done(&sum->self);
    }
    array_done(&node_process(process)->functions);
    array_done(&node_process(process)->chosen);
}

/* ---- which were asked for ---- */

void function_chosen(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct process *process = thread->process;
    const struct value *text = &e->values[FIELD_js_chosen_text];
    if (!HAS(e, js_chosen_text) || !text->length)
        return;
    const char *newline = memchr(text->s, '\n', text->length);
    size_t asked = newline ? (size_t)(newline - text->s) : text->length;
    struct chosen_function chosen = {
        .asked = intern(a, text->s, asked),
        .words = newline ? intern(a, newline + 1, text->length - asked - 1) : "",
        .places = (uint32_t)U(e, js_chosen_places),
        .state = (uint8_t)U(e, js_chosen_state),
    };
    array_foreach (&node_process(process)->chosen, known)
        if (known->asked == chosen.asked) {
            if (chosen.state != SONDE_chosen_not_found ||
                known->state == SONDE_chosen_not_found) /* a worker may have fewer modules */
                *known = chosen;
            return;
        }
    LIST_ADD(a, &node_process(process)->chosen, chosen);
}

/* Calls of what was found for it. */
static uint64_t calls_of(const struct process *process, const struct chosen_function *chosen)
{
    uint64_t calls = 0;
    array_foreach (&node_process(process)->functions, sum)
        if (strstr(chosen->words, sum->name))
            calls += sum->count;
    return calls;
}

static int report_one(const struct process *process, const struct chosen_function *chosen,
                      struct report *report)
{
    char what[160], why[900];
    const char *remedy = NULL;
    snprintf(what, sizeof(what), "the function %.100s", chosen->asked);
    if (chosen->state == SONDE_chosen_left_alone) {
        snprintf(
            why, sizeof(why),
            "%.200s of %.40s is called so often that seeing its calls would slow it down: it was left alone",
            chosen->words, process->service);
        remedy = "See how much time goes into it with sonde profile.";
    } else if (chosen->state == SONDE_chosen_refused) {
        snprintf(why, sizeof(why), "%.600s, in %.40s", chosen->words, process->service);
    } else if (chosen->state == SONDE_chosen_not_found) {
        snprintf(why, sizeof(why), "no function of that name was seen in %.40s%s%.600s", process->service,
                 chosen->words[0] ? "; what looks like it: " : "", chosen->words);
        remedy = "Choose one that a module exports, a method of a class or object that is exported, or a "
                 "handler of an "
                 "HTTP server.";
    } else if (!calls_of(process, chosen)) {
        snprintf(why, sizeof(why),
                 "%.40s has it (%.500s), and no call came through there: it was not called, or by modules "
                 "that took it "
                 "out before (const { f } = require(...))",
                 process->service, chosen->words);
    } else {
        return 0;
    }
    return report_add_missing(report, what, why, remedy);
}

int functions_report(struct analysis *a, struct report *report)
{
    int r = 0;
    array_foreach (&a->all_processes, process)
        array_foreach (&node_process(*process)->chosen, chosen)
            if (r >= 0)
                r = report_one(*process, chosen, report);
    return r;
}

/* ---- for programs ---- */

json_t *analysis_functions_json(const struct analysis *a)
{
    json_t *array = json_array();
    array_foreach (&a->all_processes, process)
        array_foreach (&node_process(*process)->functions, x) {
            bool ended = x->count > x->pending + x->not_awaited;
            json_t *object = json_pack(
                "{s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "service", (*process)->service,
                "process", (json_int_t)(*process)->pid, "name", x->name, "count", (json_int_t)x->count,
                "threw_count", (json_int_t)x->threw, "rejected_count", (json_int_t)x->rejected,
                "not_awaited_count", (json_int_t)x->not_awaited, "pending_count", (json_int_t)x->pending,
                "self_ns", (json_int_t)x->self_ns, "self_p50_ns", (json_int_t)sketch_quantile(&x->self, 0.5));
            if (object && ended) {
                json_object_set_new(object, "p50_ns",
                                    json_integer((json_int_t)sketch_quantile(&x->took, 0.5)));
                json_object_set_new(object, "p95_ns",
                                    json_integer((json_int_t)sketch_quantile(&x->took, 0.95)));
                json_object_set_new(object, "worst_ns", json_integer((json_int_t)x->worst_ns));
                json_object_set_new(object, "total_ns", json_integer((json_int_t)x->total_ns));
            }
            json_array_append_new(array, object);
        }
    return array;
}
