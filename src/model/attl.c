/* The latency of atomic operations (ATTL, Node Compass 3.2: from submission to the callback of its
 * completion) and their time at work, as distributions per service and kind, so that an unusual one stands
 * out. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "model/attl.h"

#include <string.h>

#include "model/model.h"
#include "base/clock.h"

enum { KINDS_MAX = 1024, ENOUGH = 20, UNUSUAL_FACTOR = 10 };

static uint64_t key_of(const char *service, uint8_t kind, const char *name)
{
    uint64_t words[] = {(uintptr_t)service, kind, (uintptr_t)name};
    return map_hash(words, sizeof(words));
}

static float unusual(const struct attl *attl, uint64_t took_ns)
{
    double middle = attl->count >= ENOUGH && took_ns >= NS_PER_MS ? sketch_quantile(&attl->latency, 0.5) : 0;
    return middle > 0 && (double)took_ns >= UNUSUAL_FACTOR * middle ? (float)((double)took_ns / middle) : 0;
}

float attl_add(struct analysis *a, const char *service, const struct vspan *span)
{
    bool added;
    uint64_t key = key_of(service, span->kind, span->name);
    if (a->attl.count >= KINDS_MAX && !map_get(&a->attl_of, key))
        return 0;
    uint64_t *place = map_put(&a->attl_of, key, &added);
    if (!place) {
        a->failed = true;
        return 0;
    }
    if (added) {
        *place = a->attl.count;
        LIST_ADD(a, &a->attl, (struct attl){.service = service, .name = span->name, .kind = span->kind});
    }
    if (*place >= a->attl.count)
        return 0;
    struct attl *attl = &a->attl.at[*place];
    uint64_t took_ns = span->end_ns - span->start_ns;
    float factor = unusual(attl, took_ns);
    attl->count++;
    attl->total_ns += took_ns;
    attl->gc_ns += span->gc_ns;
    attl->gc_hits += span->gc_ns > 0;
    attl->worst_ns = MAX(attl->worst_ns, took_ns);
    if (sketch_add(&attl->latency, took_ns) < 0)
        a->failed = true;
    if (span->work_end_ns && sketch_add(&attl->work, span->work_end_ns - span->work_start_ns) < 0)
        a->failed = true;
    return factor;
}

const struct attl *attl_of(const struct analysis *a, const char *service, const char *name)
{
    array_foreach (&a->attl, attl)
        if (attl->service == service && attl->kind != ATTL_STATEMENT && attl->name &&
            strcmp(attl->name, name) == 0)
            return attl;
    return NULL;
}

void attl_free(struct analysis *a)
{
    array_foreach (&a->attl, attl) {
        sketch_done(&attl->latency);
        sketch_done(&attl->work);
    }
    array_done(&a->attl);
    map_done(&a->attl_of);
}

static const char *kind_name(uint8_t kind)
{
    return kind == VSPAN_pool       ? "pool"
           : kind == VSPAN_http     ? "call"
           : kind == VSPAN_ipc      ? "message"
           : kind == VSPAN_command  ? "command"
           : kind == ATTL_STATEMENT ? "statement"
                                    : "exchange";
}

json_t *analysis_operations_json(const struct analysis *a)
{
    json_t *array = json_array();
    array_foreach (&a->attl, x) {
        json_t *object = json_pack(
            "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "service", x->service, "kind",
            kind_name(x->kind), "name", x->name ? x->name : "?", "count", (json_int_t)x->count, "attl_p50_ns",
            (json_int_t)sketch_quantile(&x->latency, 0.5), "attl_p95_ns",
            (json_int_t)sketch_quantile(&x->latency, 0.95), "attl_p99_ns",
            (json_int_t)sketch_quantile(&x->latency, 0.99), "attl_worst_ns", (json_int_t)x->worst_ns, "gc_ns",
            (json_int_t)x->gc_ns, "gc_hits_count", (json_int_t)x->gc_hits);
        if (x->kind == VSPAN_pool || x->kind == VSPAN_command) {
            json_object_set_new(object, "work_p50_ns",
                                json_integer((json_int_t)sketch_quantile(&x->work, 0.5)));
            json_object_set_new(object, "work_p99_ns",
                                json_integer((json_int_t)sketch_quantile(&x->work, 0.99)));
        }
        if (x->kind == ATTL_STATEMENT)
            json_object_set_new(object, "total_ns", json_integer((json_int_t)x->total_ns));
        json_array_append_new(array, object);
    }
    return array;
}
