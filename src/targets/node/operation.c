/* Spans of what a request's code does itself and has the thread pool do: file operations, collections,
 * encoding, regular expressions. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "targets/node/node.h"

enum { REGEXP_SHOWN_NS = 50000 };

static const char *kind_name(struct analysis *a, uint8_t kind)
{
    const char *name = event_label(SONDE_MEANING_uv_kind, kind);
    return name ? name : "operation";
}

const char *node_endpoint_name(struct analysis *a, const struct request *request)
{
    char name[320];
    size_t length = strlen(request->method), route = MIN(strlen(request->route), (size_t)256);
    memcpy(name, request->method, length);
    name[length++] = ' ';
    memcpy(name + length, request->route, route);
    return intern(a, name, length + route);
}

void add_pool_span(struct turn *t, struct pool_op *op, struct request *owner, enum known known,
                   uint32_t parent)
{
    op->owner = owner->serial;
    op->known = (uint8_t)known;
    op->route = node_endpoint_name(t->a, owner);
    bool added;
    uint64_t *submitter =
        op->type ? map_put(&t->thread->process->submitters, (uintptr_t)op->type, &added) : NULL;
    if (submitter)
        *submitter = added || *submitter == (uintptr_t)op->route ? (uintptr_t)op->route : SEVERAL_SUBMITTERS;
    owner->open_calls++;
    op->span = request_add_span(t->a, owner,
                                &(struct vspan){.start_ns = op->submit_ns,
                                                .parent = parent,
                                                .cause = VSPAN_NONE,
                                                .layer = LAYER_loop,
                                                .kind = VSPAN_pool,
                                                .known = (uint8_t)known,
                                                .told = op->told,
                                                .name = kind_name(t->a, op->kind),
                                                .detail = op->type,
                                                .work_start_ns = op->run_start_ns,
                                                .work_end_ns = op->run_end_ns,
                                                .peer_tid = op->run_tid,
                                                .result = op->result});
    below_pool(t->a, op, owner);
}

/* Loading a module makes hundreds of synchronous calls: those that follow each other in one callback become
 * one span. */
static bool merge_sync(const struct context *c, const struct item *item)
{
    struct request *owner = c->owner;
    struct vspan *last = &owner->spans.at[owner->spans.count - 1]; /* there is always the root */
    if (last->kind != VSPAN_sync || last->parent != c->parent)
        return false;
    last->end_ns = item->end_ns;
    last->work_end_ns += item->end_ns - item->start_ns;
    last->times++;
    last->name = "file operations";
    return true;
}

void read_runtime_span(struct turn *t, const struct item *item, const struct context *c)
{
    uint64_t took_ns = activity_net_ns(t->thread, item->start_ns, item->end_ns);
    struct vspan span = {.start_ns = item->start_ns,
                         .end_ns = item->end_ns,
                         .parent = c->parent,
                         .cause = VSPAN_NONE,
                         .layer = LAYER_engine,
                         .known = c->known};
    if (item->event == SONDE_EVENT_v8_gc) {
        t->gc_ns += took_ns;
        const char *type = event_label(SONDE_MEANING_gc_type, item->small);
        span.kind = VSPAN_gc;
        span.name = "garbage collection";
        span.detail = type;
    } else if (item->event == SONDE_EVENT_uv_run) {
        t->sync_ns += took_ns;
        t->sync_count++;
        if (took_ns >= t->sync_worst_ns) {
            t->sync_worst_ns = took_ns;
            t->sync_kind = item->small;
        }
        if (c->owner && merge_sync(c, item))
            return;
        span.kind = VSPAN_sync;
        span.layer = LAYER_loop;
        span.name = kind_name(t->a, item->small);
        span.work_start_ns = item->start_ns;
        span.work_end_ns = item->end_ns;
        span.times = 1;
    } else if (item->event == SONDE_EVENT_v8_encode) {
        took_ns = encode_took_ns(t->thread, item->start_ns, item->end_ns);
        t->encode_ns += took_ns;
        if (took_ns > t->encode_worst_ns) {
            t->encode_worst_ns = took_ns;
            t->encode_what = item->small;
        }
        if (c->owner && c->known >= KNOWN_INFERRED)
            c->owner->encodes = true;
        span.kind = VSPAN_encode;
        span.layer = LAYER_code;
        span.name = event_label(SONDE_MEANING_encoding, item->small);
        span.name = span.name ? span.name : "encoding";
        span.argument_bytes = item->id;
    } else if (took_ns >= REGEXP_SHOWN_NS) {
        span.kind = VSPAN_regexp;
        span.name = "regular expression";
    } else {
        return;
    }
    if (c->owner)
        request_add_span(t->a, c->owner, &span);
}
