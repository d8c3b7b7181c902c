/* See breakdown.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "model/breakdown.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/model.h"
#include "base/clock.h"

enum { ENDPOINTS_MAX = 1024, OPERATIONS_MAX = 1024, PARTS_MAX = 64, PORT_EPHEMERAL = 32768 };

static const uint64_t BLOCK_NS = 250 * NS_PER_MS;

/* ---- blocks ---- */

static void blocks_halve(struct blocks *blocks, uint8_t halvings)
{
    for (; blocks->halvings < halvings; blocks->halvings++)
        for (size_t i = 0; i < BREAKDOWN_BLOCKS; i++)
            blocks->sum[i] = 2 * i + 1 < BREAKDOWN_BLOCKS ? blocks->sum[2 * i] + blocks->sum[2 * i + 1] : 0;
}

static void blocks_add(const struct breakdown *b, struct blocks *blocks, size_t block, double value)
{
    blocks_halve(blocks, b->halvings);
    blocks->sum[block] += value;
}

static size_t block_at(struct breakdown *b, uint64_t at_ns)
{
    if (!b->first_ns)
        b->first_ns = at_ns;
    uint64_t since_ns = at_ns - MIN(b->first_ns, at_ns);
    while (since_ns / (b->block_ns << b->halvings) >= BREAKDOWN_BLOCKS)
        b->halvings++;
    return (size_t)(since_ns / (b->block_ns << b->halvings));
}

/* A ratio estimator: the variance of the blocks' sums about what their counts let expect. */
double blocks_mean(const struct breakdown *b, const struct blocks *sums, const struct blocks *counts,
                   double *ret_error, unsigned *ret_blocks)
{
    struct blocks s = *sums, n = *counts;
    blocks_halve(&s, b->halvings);
    blocks_halve(&n, b->halvings);
    double sum = 0, count = 0, squares = 0;
    unsigned used = 0;
    for (size_t i = 0; i < BREAKDOWN_BLOCKS; i++) {
        sum += s.sum[i];
        count += n.sum[i];
        used += n.sum[i] > 0;
    }
    double mean = count > 0 ? sum / count : 0;
    for (size_t i = 0; i < BREAKDOWN_BLOCKS; i++) {
        double off = s.sum[i] - mean * n.sum[i];
        squares += n.sum[i] > 0 ? off * off : 0;
    }
    *ret_blocks = used;
    *ret_error = used > 1 ? sqrt(squares * used / (used - 1)) / count : 0;
    return mean;
}

/* ---- what a request was doing, moment by moment ---- */

enum level { LEVEL_WAITS, LEVEL_WORKS, LEVEL_CALLBACK, LEVEL_RUNTIME };

struct stay {
    uint64_t start_ns, end_ns;
    uint8_t level;
    const struct vspan *span;
    const char *suffix;
};

typedef ARRAY(struct stay) stay_array;

static int add_stay(stay_array *stays, const struct request *request, const struct vspan *span,
                    uint64_t start_ns, uint64_t end_ns, enum level level, const char *suffix)
{
    start_ns = MAX(start_ns, request->start_ns);
    end_ns = MIN(end_ns, request->end_ns);
    if (start_ns >= end_ns)
        return 0;
    return array_add(stays, (struct stay){start_ns, end_ns, (uint8_t)level, span, suffix});
}

/* An operation: before its work, at work, and until somebody takes note of it. */
static int add_operation(stay_array *stays, const struct request *request, const struct vspan *span,
                         uint64_t work_start_ns, uint64_t work_end_ns, const char *const suffix[3])
{
    uint64_t end_ns = span->end_ns ? span->end_ns : request->end_ns;
    if (!work_end_ns || work_start_ns < span->start_ns || work_end_ns > end_ns)
        return add_stay(stays, request, span, span->start_ns, end_ns, LEVEL_WORKS, "");
    int r = add_stay(stays, request, span, span->start_ns, work_start_ns, LEVEL_WAITS, suffix[0]);
    if (r == 0)
        r = add_stay(stays, request, span, work_start_ns, work_end_ns, LEVEL_WORKS, suffix[1]);
    return r < 0 ? r : add_stay(stays, request, span, work_end_ns, end_ns, LEVEL_WAITS, suffix[2]);
}

static int add_span(stay_array *stays, const struct request *request, const struct vspan *span)
{
    static const char *const POOL[] = {": waits for a pool thread", ": at work",
                                       ": done, waits for the event loop"};
    static const char *const COMMAND[] = {": on its way or queued", ": executes",
                                          ": reply waits for the event loop"};
    static const char *const CALL[] = {": not read yet by the other side", ": the other side at work",
                                       ": response waits for the event loop"};
    uint64_t end_ns = span->end_ns ? span->end_ns : request->end_ns;
    switch (span->kind) {
    case VSPAN_request:
    case VSPAN_syscall: /* within what made it */
    case VSPAN_measure: /* around what happened in it */
        return 0;
    case VSPAN_function: /* what it waits for after it returned is there by itself */
        return add_stay(stays, request, span, span->start_ns, span->work_end_ns, LEVEL_CALLBACK, "");
    case VSPAN_callback:
        return add_stay(stays, request, span, span->start_ns, end_ns, LEVEL_CALLBACK, "");
    case VSPAN_pool:
        return add_operation(stays, request, span, span->work_start_ns, span->work_end_ns, POOL);
    case VSPAN_command:
        return add_operation(stays, request, span, span->work_start_ns, span->work_end_ns, COMMAND);
    case VSPAN_http:
        return add_operation(stays, request, span, span->child ? span->child->start_ns : 0,
                             span->child ? span->child->end_ns : 0, CALL);
    case VSPAN_other:
        return add_stay(stays, request, span, span->start_ns, end_ns, LEVEL_WORKS, "");
    case VSPAN_sync:
        return add_stay(stays, request, span, span->start_ns, end_ns, LEVEL_RUNTIME, ", synchronous");
    default:
        return add_stay(stays, request, span, span->start_ns, end_ns, LEVEL_RUNTIME, "");
    }
}

static int by_start(const void *x, const void *y)
{
    const struct stay *a = x, *b = y;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

/* Innermost on the loop: what began last. Elsewhere what ends last. */
static bool outranks(const struct stay *a, const struct stay *b)
{
    if (a->level != b->level)
        return a->level > b->level;
    if (a->level >= LEVEL_CALLBACK)
        return a->start_ns >= b->start_ns;
    return a->end_ns > b->end_ns;
}

/* ---- names ---- */

/* A peer's port that was given out by the system says nothing in another run. */
static void add_name(char *to, size_t size, const char *name)
{
    const char *colon = strrchr(name, ':');
    unsigned long port = colon ? strtoul(colon + 1, NULL, 10) : 0;
    if (port >= PORT_EPHEMERAL && port < 65536)
        snprintf(to, size, "%.*s:*", (int)(colon - name), name);
    else
        snprintf(to, size, "%s", name);
}

static void name_span(char *to, size_t size, const struct vspan *span, const char *suffix)
{
    char name[160];
    add_name(name, sizeof(name), span->name ? span->name : "?");
    snprintf(to, size, "%s%s%s", vspan_prefix(span), name, suffix);
}

/* ---- sums ---- */

static uint64_t *index_of(struct analysis *a, const void *words, size_t size, bool *ret_added)
{
    uint64_t *place = map_put(&a->breakdown->index, map_hash(words, size), ret_added);
    if (!place)
        a->failed = true;
    return place;
}

static struct breakdown_endpoint *endpoint_get(struct analysis *a, const struct request *request)
{
    struct breakdown *b = a->breakdown;
    const char *route = b->endpoints.count < ENDPOINTS_MAX ? request->route : intern_string(a, "(other)");
    const uint64_t words[] = {(uintptr_t)request->service, (uintptr_t)request->method, (uintptr_t)route};
    bool added;
    uint64_t *place = index_of(a, words, sizeof(words), &added);
    if (!place)
        return NULL;
    if (added) {
        struct breakdown_endpoint fresh = {
            .service = request->service, .method = request->method, .route = route};
        *place = b->endpoints.count;
        LIST_ADD(a, &b->endpoints, fresh);
    }
    return a->failed ? NULL : &b->endpoints.at[*place];
}

static struct part *part_get(struct analysis *a, struct breakdown_endpoint *endpoint, const char *layer,
                             const char *name)
{
    if (endpoint->parts.count >= PARTS_MAX)
        layer = "", name = "(other)";
    const char *known = intern_string(a, name);
    array_foreach (&endpoint->parts, part)
        if (part->name == known && strcmp(part->layer, layer) == 0)
            return part;
    LIST_ADD(a, &endpoint->parts, (struct part){.layer = layer, .name = known});
    return a->failed ? NULL : &endpoint->parts.at[endpoint->parts.count - 1];
}

static void charge(struct analysis *a, struct breakdown_endpoint *endpoint, size_t block, uint64_t serial,
                   const struct stay *stay, uint64_t ns)
{
    char name[256];
    if (stay)
        name_span(name, sizeof(name), stay->span, stay->suffix);
    struct part *part =
        stay ? part_get(a, endpoint, layer_name(stay->span), name)
             : part_get(a, endpoint, "libuv", "waits for the event loop, a timer or what was not seen");
    if (!part)
        return;
    part->requests += part->newest != serial;
    part->newest = serial;
    blocks_add(a->breakdown, &part->time_ns, block, (double)ns);
}

/* Goes through the moments at which something begins or ends. */
static void charge_all(struct analysis *a, struct breakdown_endpoint *endpoint, size_t block,
                       const struct request *request, stay_array *stays)
{
    ARRAY(const struct stay *) open = {0};
    size_t next = 0;
    for (uint64_t now_ns = request->start_ns; now_ns < request->end_ns;) {
        while (next < stays->count && stays->at[next].start_ns <= now_ns)
            LIST_ADD(a, &open, &stays->at[next++]);
        uint64_t until_ns = next < stays->count ? stays->at[next].start_ns : request->end_ns;
        const struct stay *best = NULL;
        size_t left = 0;
        for (size_t i = 0; i < open.count; i++) {
            const struct stay *stay = open.at[i];
            if (stay->end_ns <= now_ns)
                continue;
            open.at[left++] = stay;
            until_ns = MIN(until_ns, stay->end_ns);
            if (!best || outranks(stay, best))
                best = stay;
        }
        open.count = left;
        charge(a, endpoint, block, request->serial, best, until_ns - now_ns);
        now_ns = until_ns;
        if (a->failed)
            break;
    }
    array_done(&open);
}

static void add_attl(struct analysis *a, const struct request *request, const struct vspan *span,
                     size_t block)
{
    struct breakdown *b = a->breakdown;
    if (!span->end_ns || (span->kind != VSPAN_pool && span->kind != VSPAN_command &&
                          span->kind != VSPAN_http && span->kind != VSPAN_other && span->kind != VSPAN_sync &&
                          span->kind != VSPAN_measure && span->kind != VSPAN_function))
        return;
    char text[256];
    name_span(text, sizeof(text), span, span->kind == VSPAN_sync ? ", synchronous" : "");
    const char *name = intern_string(a, b->operations.count < OPERATIONS_MAX ? text : "(other)");
    const uint64_t words[] = {(uintptr_t)request->service, (uintptr_t)name, span->layer, 0};
    bool added;
    uint64_t *place = index_of(a, words, sizeof(words), &added);
    if (!place)
        return;
    if (added) {
        *place = b->operations.count;
        LIST_ADD(
            a, &b->operations,
            (struct operation_kind){.service = request->service, .layer = layer_name(span), .name = name});
        if (a->failed)
            return;
    }
    struct operation_kind *kind = &b->operations.at[*place];
    if (sketch_add(&kind->attl, span->end_ns - span->start_ns) < 0)
        a->failed = true;
    kind->gc_ns += span->gc_ns;
    blocks_add(b, &kind->count, block, 1);
    blocks_add(b, &kind->total_ns, block, (double)(span->end_ns - span->start_ns));
}

void breakdown_request(struct analysis *a, const struct request *request)
{
    struct breakdown *b = a->breakdown;
    if (!b || request->state == REQUEST_UNFINISHED || request->state == REQUEST_ABORTED)
        return;
    struct breakdown_endpoint *endpoint = endpoint_get(a, request);
    if (!endpoint)
        return;
    size_t block = block_at(b, request->end_ns);
    stay_array stays = {0};
    array_foreach (&request->spans, span) {
        if (add_span(&stays, request, span) < 0)
            a->failed = true;
        add_attl(a, request, span, block);
    }
    if (stays.count)
        qsort(stays.at, stays.count, sizeof(*stays.at), by_start);
    endpoint->count++;
    blocks_add(b, &endpoint->requests, block, 1);
    blocks_add(b, &endpoint->latency_ns, block, (double)request_latency_ns(request));
    charge_all(a, endpoint, block, request, &stays);
    array_done(&stays);
}

/* ---- life ---- */

struct breakdown *breakdown_new(void)
{
    struct breakdown *b = calloc(1, sizeof(*b));
    if (b)
        b->block_ns = BLOCK_NS;
    return b;
}

void breakdown_free(struct breakdown *b)
{
    if (!b)
        return;
    array_foreach (&b->endpoints, endpoint)
        array_done(&endpoint->parts);
    array_foreach (&b->operations, kind)
        sketch_done(&kind->attl);
    array_done(&b->endpoints);
    array_done(&b->operations);
    map_done(&b->index);
    free(b);
}

const struct breakdown *analysis_breakdown(const struct analysis *a)
{
    return a->breakdown;
}
