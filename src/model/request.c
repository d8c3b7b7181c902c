/* Requests: from their first byte to their place among the examples, and the endpoints that they belong to.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "model/request.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "model/model.h"

enum { ENDPOINTS_MAX = 4096 }; /* more routes than that are not routes: the rest is counted together */

const char *layer_name(const struct vspan *span)
{
    static const char *const NAMES[LAYER_COUNT] = {"http", "js", "v8", "libuv", NULL, "kernel"};
    if (span->layer == LAYER_store) {
        const char *store = event_label(SONDE_MEANING_wire, span->wire);
        return store ? store : "store";
    }
    return span->layer < LAYER_COUNT ? NAMES[span->layer] : "?";
}

const char *known_name(enum known known)
{
    static const char *const NAMES[] = {"unknown", "ambiguous", "inferred", "proved"};
    return known < ARRAY_SIZE(NAMES) ? NAMES[known] : "?";
}

const char *request_state_name(enum request_state state)
{
    static const char *const NAMES[] = {"open", "answered", "finished", "unfinished", "aborted"};
    return state < ARRAY_SIZE(NAMES) ? NAMES[state] : "?";
}

const char *method_name(uint8_t method)
{
    const char *name = event_label(SONDE_MEANING_http_method, method);
    return name ? name : "other";
}

/* ---- routes ---- */

/* Whether a path segment is an identifier: a number, a UUID, a hexadecimal or mixed token, a code such as
 * AA135. */
static bool is_identifier(const char *segment, size_t length)
{
    enum { RANDOM_CHANGES = 4 }; /* from letters to digits and back: no word has so many */
    size_t digits = 0, hex = 0, dashes = 0, letters = 0, small = 0, underscores = 0, changes = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)segment[i];
        digits += isdigit(c) != 0;
        hex += isxdigit(c) != 0;
        letters += isalpha(c) != 0;
        small += islower(c) != 0;
        dashes += c == '-';
        underscores += c == '_';
        changes += i && isalnum(c) && isalnum((unsigned char)segment[i - 1]) &&
                   !isdigit(c) != !isdigit((unsigned char)segment[i - 1]);
    }
    if (!digits)
        return false;
    if (digits == length || (length == 36 && dashes == 4 && hex == 32))
        return true;
    if (digits >= 2 && letters && !small && digits + letters + dashes == length && length >= 4)
        return true; /* versions and names of things have small letters */
    if (length >= 7 && digits >= 2 && hex == length)
        return true;
    if (length >= 8 && changes >= RANDOM_CHANGES && digits + letters + dashes + underscores == length)
        return true;
    return (length >= 16 && hex + dashes == length) || (length >= 20 && digits + letters + dashes == length);
}

const char *route_of(struct analysis *a, const char *path)
{
    char route[256];
    size_t n = 0;
    while (*path && n + 8 < sizeof(route)) {
        if (*path == '/') {
            route[n++] = *path++;
            continue;
        }
        size_t length = strcspn(path, "/");
        if (is_identifier(path, length)) {
            memcpy(route + n, ":id", 3);
            n += 3;
        } else {
            size_t fits = MIN(length, sizeof(route) - 8 - n);
            memcpy(route + n, path, fits);
            n += fits;
        }
        path += length;
    }
    return intern(a, route, n);
}

/* ---- life ---- */

const char *vspan_prefix(const struct vspan *span)
{
    static const char *const PREFIX[] = {[VSPAN_measure] = "measure ",
                                         [VSPAN_function] = "function ",
                                         [VSPAN_http] = "call ",
                                         [VSPAN_other] = "exchange with "};
    bool socket = span->name && strcmp(span->name, "socket") == 0; /* whose other end is not known */
    if (span->kind == VSPAN_other && !span->peer && !socket)       /* an operation, such as connecting */
        return "";
    return span->kind < ARRAY_SIZE(PREFIX) && PREFIX[span->kind] ? PREFIX[span->kind] : "";
}

struct request *request_get(const struct analysis *a, uint64_t serial)
{
    uint64_t *known = serial ? map_get(&a->requests, serial) : NULL;
    return known ? (struct request *)(uintptr_t)*known : NULL;
}

struct request *request_open(const struct analysis *a, uint64_t serial)
{
    struct request *request = request_get(a, serial);
    return request && request->process ? request : NULL;
}

struct victim request_victim(const struct request *request, uint64_t delay_ns, enum victim_role role)
{
    struct victim victim = {.serial = request->serial,
                            .start_ns = request->start_ns,
                            .delay_ns = delay_ns,
                            .service = request->service,
                            .method = request->method,
                            .route = request->route,
                            .path = strdup(request->path),
                            .role = (uint8_t)role};
    memcpy(victim.name, request->name, sizeof(victim.name));
    return victim;
}

struct request *request_ref(struct request *request)
{
    request->refs++;
    return request;
}

void request_unref(struct analysis *a, struct request *request)
{
    if (!request || --request->refs)
        return;
    map_remove(&a->requests, request->serial);
    array_foreach (&request->spans, span)
        if (span->child) {
            if (span->child->caller == request)
                span->child->caller = NULL;
            request_unref(a, span->child);
        }
    array_done(&request->spans);
    array_done(&request->path_steps);
    free(request->seen);
    array_done(&request->async_ids);
    free(request->path);
    free(request);
}

struct request *request_new(struct analysis *a, struct thread *thread, uint64_t start_ns, uint8_t method,
                            const char *path, size_t path_length)
{
    struct request *request = calloc(1, sizeof(*request));
    char *copy = strndup(path_length ? path : "", path_length);
    uint64_t serial = ++a->next_serial;
    uint64_t *place = map_put(&a->requests, serial, NULL);
    if (!request || !copy || !place || array_add(&thread->open, request) < 0) {
        a->failed = true;
        if (place)
            map_remove(&a->requests, serial);
        free(request);
        free(copy);
        return NULL;
    }
    *place = (uint64_t)(uintptr_t)request;
    request->serial = serial;
    request->refs = 1; /* of thread->open */
    thread->serves = 1;
    request->process = thread->process;
    request->service = thread->process->service;
    request->pid = thread->process->pid;
    request->tid = thread->tid;
    request->method_number = method;
    request->method = method_name(method);
    request->path = copy;
    request->route = route_of(a, copy);
    request->start_ns = start_ns;
    snprintf(request->name, sizeof(request->name), "%lld-%llu", (long long)request->pid,
             (unsigned long long)++thread->process->request_count);
    request_add_span(a, request,
                     &(struct vspan){.start_ns = start_ns,
                                     .parent = VSPAN_NONE,
                                     .cause = VSPAN_NONE,
                                     .layer = LAYER_http,
                                     .kind = VSPAN_request,
                                     .known = KNOWN_PROVED,
                                     .name = request->method});
    a->counts.requests++;
    if (!thread->process->first_request_ns) {
        thread->process->first_request_ns = start_ns;
        ANALYZERS_CALL(a, process_serves, thread);
    }
    return request;
}

uint64_t request_net_latency_ns(const struct process *process, const struct request *request)
{
    uint64_t *slot = map_get(&process->threads, (uint64_t)request->tid);
    if (!slot || request->end_ns <= request->start_ns)
        return request_latency_ns(request);
    return activity_net_ns((const struct thread *)(uintptr_t)*slot, request->start_ns, request->end_ns);
}

uint32_t request_add_span(struct analysis *a, struct request *request, const struct vspan *span)
{
    if (request->spans.count >= REQUEST_SPANS_MAX) {
        request->spans_left_out++;
        return VSPAN_NONE;
    }
    if (array_add(&request->spans, *span) < 0) {
        a->failed = true;
        return VSPAN_NONE;
    }
    return (uint32_t)(request->spans.count - 1);
}

/* ---- examples ---- */

static struct kept_endpoint *endpoint_of(struct analysis *a, const struct request *request)
{
    const char *route = request->route;
    if (a->endpoints.count >= ENDPOINTS_MAX)
        route = intern_string(a, "(other)");
    uint64_t words[] = {(uintptr_t)request->service, (uintptr_t)request->method, (uintptr_t)route};
    bool added;
    uint64_t *place = map_put(&a->endpoint_of, map_hash(words, sizeof(words)), &added);
    if (!place) {
        a->failed = true;
        return NULL;
    }
    if (added) {
        *place = a->endpoints.count;
        struct kept_endpoint fresh = {
            .endpoint = {.service = request->service, .method = request->method, .route = route}};
        if (array_add(&a->endpoints, fresh) < 0) {
            a->failed = true;
            return NULL;
        }
    }
    return &a->endpoints.at[*place];
}

static void keeper_offer(struct analysis *a, struct keeper *keeper, uint32_t limit, struct request *request)
{
    uint64_t latency = request_latency_ns(request);
    if (!limit ||
        (keeper->at.count >= limit && latency <= request_latency_ns(keeper->at.at[keeper->at.count - 1])))
        return;
    if (keeper->at.count >= limit)
        request_unref(a, keeper->at.at[--keeper->at.count]);
    if (array_add(&keeper->at, request_ref(request)) < 0) {
        a->failed = true;
        return;
    }
    for (size_t i = keeper->at.count - 1; i > 0 && request_latency_ns(keeper->at.at[i - 1]) < latency; i--) {
        keeper->at.at[i] = keeper->at.at[i - 1];
        keeper->at.at[i - 1] = request;
    }
}

void keeper_done(struct analysis *a, struct keeper *keeper)
{
    array_foreach (&keeper->at, request)
        request_unref(a, *request);
    array_done(&keeper->at);
}

static void keep(struct analysis *a, struct request *request, struct kept_endpoint *endpoint)
{
    if (a->options.request && strcmp(a->options.request, request->name) != 0)
        return;
    if (a->options.path && !strstr(request->path, a->options.path))
        return;
    keeper_offer(a, &a->slowest, a->options.keep_slowest, request);
    if (endpoint)
        keeper_offer(a, &endpoint->slowest, a->options.keep_per_endpoint, request);
}

/* ---- end ---- */

static uint64_t endpoint_key(const struct request *request)
{
    uint64_t words[] = {(uintptr_t)request->method, (uintptr_t)request->route};
    return map_hash(words, sizeof(words));
}

bool endpoint_is_new(const struct analysis *a, const struct request *request)
{
    return request->process && !map_get(&request->process->endpoints, endpoint_key(request));
}

static void leave_thread(struct analysis *a, struct request *request)
{
    uint64_t *slot = map_get(&request->process->threads, (uint64_t)request->tid);
    struct thread *thread = slot ? (struct thread *)(uintptr_t)*slot : NULL;
    if (!thread)
        return;
    array_foreach (&request->async_ids, id) {
        uint64_t *owner = map_get(&thread->async, *id);
        if (owner && async_serial(*owner) == request->serial)
            map_remove(&thread->async, *id);
    }
    array_done(&request->async_ids);
    context_ends(thread, request);
    thread->left_ns = MAX(thread->left_ns, request->end_ns);
    for (size_t i = 0; i < thread->open.count; i++)
        if (thread->open.at[i] == request) {
            thread->open.at[i] = thread->open.at[--thread->open.count];
            break;
        }
}

/* Whether what was called for it has answered and is not read to its end: its turn still runs. A message that
 * was not answered is not waited for. */
static bool is_unread(const struct vspan *call)
{
    const struct request *callee = call->child;
    if (!callee || (!callee->process && !callee->finishing))
        return false;
    return call->message ? call->end_ns > call->start_ns : callee->end_ns != 0;
}

static bool waits_for_callees(const struct request *request)
{
    array_foreach (&request->spans, span)
        if (is_unread(span))
            return true;
    return false;
}

/* What is known only once everything called for it is read to its end. The reference of thread->open ends. */
static void complete(struct analysis *a, struct request *request)
{
    const struct process *process = request->finishing;
    const uint64_t *slot = map_get(&process->threads, (uint64_t)request->tid);
    request->finishing = NULL;
    critical_find(a, request, slot ? (const struct thread *)(uintptr_t)*slot : NULL);
    ANALYZERS_CALL(a, request_complete, a, process, request);
    struct kept_endpoint *endpoint = endpoint_of(a, request);
    if (endpoint && request->state == REQUEST_UNFINISHED) {
        endpoint->endpoint.unfinished++;
        a->counts.unfinished++;
    } else if (endpoint) {
        endpoint->endpoint.count++;
        endpoint->endpoint.errors += status_is_error(request->status, request->grpc);
        if (sketch_add(&endpoint->endpoint.latency, request_latency_ns(request)) < 0)
            a->failed = true;
    }
    if (endpoint)
        endpoint->endpoint.worst_ns = MAX(endpoint->endpoint.worst_ns, request_latency_ns(request));
    breakdown_request(a, request);
    keep(a, request, endpoint);
    if (a->options.on_request && a->options.on_request(a->options.on_request_context, request) < 0)
        a->failed = true;
    struct request *caller = request->caller;
    request_unref(a, request);
    if (caller && caller->finishing && !waits_for_callees(caller))
        complete(a, caller);
}

void request_finish(struct analysis *a, struct request *request, enum request_state state, uint64_t end_ns)
{
    struct process *process = request->process;
    if (!process)
        return;
    if (request->messages && request->state == REQUEST_ANSWERED && state == REQUEST_UNFINISHED) {
        state = REQUEST_FINISHED; /* a message without an answer */
        end_ns = request->end_ns;
    }
    request->state = (uint8_t)state;
    request->end_ns = MAX(end_ns, request->start_ns);
    for (const struct protocol *const *p = a->protocols; *p; p++)
        if ((*p)->request_done)
            (*p)->request_done(request);
    leave_thread(a, request);
    process->answered_count++;
    process->last_request_ns = request->end_ns;
    process->latency_ns += request_net_latency_ns(process, request);
    request->first = !map_get(&process->endpoints, endpoint_key(request));
    if (process->endpoints.count < ENDPOINTS_MAX &&
        !map_put(&process->endpoints, endpoint_key(request), NULL))
        a->failed = true;
    const uint64_t *loop = map_get(&process->threads, (uint64_t)request->tid);
    if (loop)
        request->timed = activity_times((const struct thread *)(uintptr_t)*loop, request->start_ns,
                                        request->end_ns, &request->spent);
    ANALYZERS_CALL(a, request_done, a, process, request);
    request->process = NULL;
    request->finishing = process;
    request->spans.at[0].end_ns = request->end_ns;
    if (!waits_for_callees(request))
        complete(a, request);
}

void requests_settle(struct analysis *a, struct thread *thread)
{
    for (size_t i = 0; i < thread->answered.count; i++) {
        struct request *request = request_open(a, thread->answered.at[i]);
        if (request)
            request_finish(a, request, request->state == REQUEST_ABORTED ? REQUEST_ABORTED : REQUEST_FINISHED,
                           request->end_ns);
    }
    array_clear(&thread->answered);
}

static int slower(const void *x, const void *y)
{
    const struct request *a = *(const struct request *const *)x, *b = *(const struct request *const *)y;
    uint64_t la = request_latency_ns(a), lb = request_latency_ns(b);
    if (la != lb)
        return la > lb ? -1 : 1;
    return (a->serial > b->serial) - (a->serial < b->serial);
}

const struct request *const *analysis_requests(struct analysis *a, size_t *ret_count)
{
    array_clear(&a->kept);
    array_foreach (&a->slowest.at, request)
        LIST_ADD(a, &a->kept, *request);
    array_foreach (&a->endpoints, endpoint)
        array_foreach (&endpoint->slowest.at, request)
            LIST_ADD(a, &a->kept, *request);
    size_t n = 0;
    if (a->kept.count)
        qsort(a->kept.at, a->kept.count, sizeof(*a->kept.at), slower);
    for (size_t i = 0; i < a->kept.count; i++)
        if (!n || a->kept.at[n - 1] != a->kept.at[i])
            a->kept.at[n++] = a->kept.at[i];
    a->kept.count = n;
    *ret_count = n;
    return a->kept.at;
}

static int endpoint_order(const void *x, const void *y)
{
    const struct endpoint *a = x, *b = y;
    double ta = sketch_mean(&a->latency) * (double)a->count, tb = sketch_mean(&b->latency) * (double)b->count;
    if (ta != tb)
        return ta > tb ? -1 : 1;
    int by_service = strcmp(a->service, b->service);
    return by_service ? by_service : strcmp(a->route, b->route);
}

const struct endpoint *analysis_endpoints(struct analysis *a, size_t *ret_count)
{
    array_clear(&a->endpoint_list);
    array_foreach (&a->endpoints, endpoint)
        LIST_ADD(a, &a->endpoint_list, endpoint->endpoint);
    routes_fold(a);
    if (a->endpoint_list.count)
        qsort(a->endpoint_list.at, a->endpoint_list.count, sizeof(*a->endpoint_list.at), endpoint_order);
    *ret_count = a->endpoint_list.count;
    return a->endpoint_list.at;
}
