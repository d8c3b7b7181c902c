/* Endpoints that differ in a segment which is not one of the program's own names but somebody's: slugs,
 * codes, names of files. No pattern tells them apart from routes; what tells is that there are many and each
 * was asked for once or twice. They become one endpoint with :id in that place. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "model/model.h"

/* So many values in one place, most of them rare; more in the first, where programs have names of their own.
 */
enum {
    VALUES_MIN = 20,
    FIRST_VALUES_MIN = 100,
    RARE_COUNT = 2,
    IDS_MIN = 5, /* requests whose segment there was somebody's identifier for sure (request.c) */
    TOKEN_MIN = 8,
    RARE_PERCENT = 70,
    SEGMENTS_MAX = 12,
    ROUTE_MAX = 256
};

/* Requests to the endpoints that are alike but for one segment. Packed: values << 32 | rare ones. */
static uint64_t *alike(struct map *places, const struct endpoint *e, const char *without)
{
    uint64_t words[] = {(uintptr_t)e->service, (uintptr_t)e->method, map_hash(without, strlen(without))};
    return map_put(places, map_hash(words, sizeof(words)), NULL);
}

/* The route with ":id" for its segment of that number (from 0); false when there is none, or it is folded
 * already. */
static bool without_segment(const char *route, size_t number, char ret_route[ROUTE_MAX])
{
    const char *at = route;
    for (size_t i = 0;; i++) {
        at += strspn(at, "/");
        size_t length = strcspn(at, "/");
        if (!length || (i == number && *at == ':'))
            return false;
        if (i == number) {
            snprintf(ret_route, ROUTE_MAX, "%.*s:id%s", (int)(at - route), route, at + length);
            return true;
        }
        at += length;
    }
}

static void count_values(struct analysis *a, struct map *places, const struct endpoint *e)
{
    char route[ROUTE_MAX];
    for (size_t i = 0; i < SEGMENTS_MAX && strlen(e->route) < ROUTE_MAX - 4; i++) {
        if (!without_segment(e->route, i, route))
            continue;
        uint64_t *place = alike(places, e, route);
        if (place)
            *place += (1ull << 32) + (e->count + e->unfinished <= RARE_COUNT);
        else
            a->failed = true;
    }
}

static bool is_value(struct map *places, const struct endpoint *e, const char *without, size_t number)
{
    const uint64_t *place = alike(places, e, without);
    uint64_t values = place ? *place >> 32 : 0, rare = place ? *place & UINT32_MAX : 0;
    return values >= (number ? VALUES_MIN : FIRST_VALUES_MIN) && rare * 100 >= values * RARE_PERCENT;
}

/* Beside identifiers that tell by themselves, one that might be a name of the program's: letters and digits.
 */
static bool is_token(const struct endpoint *e, const char *without)
{
    size_t before = strspn(e->route, "/"), length, digits = 0, others = 0;
    while (strncmp(e->route, without, before + 1) == 0)
        before++;
    const char *segment = e->route + before;
    while (segment > e->route && segment[-1] != '/')
        segment--;
    length = strcspn(segment, "/");
    for (size_t i = 0; i < length; i++) {
        digits += isdigit((unsigned char)segment[i]) != 0;
        others += !isalnum((unsigned char)segment[i]) && segment[i] != '-' && segment[i] != '_';
    }
    return length >= TOKEN_MIN && digits && !others && e->count + e->unfinished <= RARE_COUNT;
}

static const char *folded(struct analysis *a, struct map *places, struct map *ids, const struct endpoint *e)
{
    char route[ROUTE_MAX];
    for (size_t i = 0; i < SEGMENTS_MAX && strlen(e->route) < ROUTE_MAX - 4; i++) {
        if (!without_segment(e->route, i, route))
            continue;
        const uint64_t *known = alike(ids, e, route);
        if (is_value(places, e, route, i) || (known && *known >= IDS_MIN && is_token(e, route)))
            return intern_string(a, route);
    }
    return e->route;
}

static void add(struct analysis *a, struct endpoint *to, const struct endpoint *from)
{
    to->count += from->count;
    to->unfinished += from->unfinished;
    to->errors += from->errors;
    to->worst_ns = MAX(to->worst_ns, from->worst_ns);
    if (sketch_merge(&to->latency, &from->latency) < 0)
        a->failed = true;
}

static uint64_t endpoint_hash(const char *service, const char *method, const char *route)
{
    uint64_t words[] = {map_hash(service, strlen(service)), map_hash(method, strlen(method)),
                        map_hash(route, strlen(route))};
    return map_hash(words, sizeof(words));
}

const char *route_folded(const struct analysis *a, const char *service, const char *method, const char *route)
{
    const uint64_t *known = a->folds.count && service && method && route
                                ? map_get(&a->folds, endpoint_hash(service, method, route))
                                : NULL;
    return known ? (const char *)(uintptr_t)*known : route;
}

void routes_forget(struct analysis *a)
{
    map_done(&a->folds);
    array_foreach (&a->folded, e)
        sketch_done(&e->latency);
    array_clear(&a->folded);
}

/* The endpoint that others become part of. */
static struct endpoint *fold_at(struct analysis *a, struct map *known, const struct endpoint *e,
                                const char *route, bool make)
{
    uint64_t hash = endpoint_hash(e->service, e->method, route);
    const uint64_t *index = map_get(known, hash);
    if (index)
        return &a->folded.at[*index];
    uint64_t *slot = make ? map_put(known, hash, NULL) : NULL;
    if (make && (!slot || array_add(&a->folded, (struct endpoint){.service = e->service,
                                                                  .method = e->method,
                                                                  .route = route}) < 0)) {
        a->failed = true;
        return NULL;
    }
    if (!make)
        return NULL;
    *slot = a->folded.count - 1;
    return &a->folded.at[*slot];
}

void routes_fold(struct analysis *a)
{
    struct map places = {0}, ids = {0}, known = {0};
    size_t left = 0;
    routes_forget(a);
    if (a->endpoint_list.count < 2)
        return;
    array_foreach (&a->endpoint_list, e) {
        uint64_t *with_id = strchr(e->route, ':') ? alike(&ids, e, e->route) : NULL;
        if (with_id)
            *with_id += e->count + e->unfinished;
        count_values(a, &places, e);
    }
    array_foreach (&a->endpoint_list, e) {
        const char *route = folded(a, &places, &ids, e);
        uint64_t *fold = NULL;
        if (route == e->route)
            continue;
        if (fold_at(a, &known, e, route, true))
            fold = map_put(&a->folds, endpoint_hash(e->service, e->method, e->route), NULL);
        if (fold)
            *fold = (uintptr_t)route;
        else
            a->failed = true;
    }
    for (size_t i = 0; a->folded.count && i < a->endpoint_list.count; i++) {
        const struct endpoint e = a->endpoint_list.at[i];
        struct endpoint *of = fold_at(a, &known, &e, route_folded(a, e.service, e.method, e.route), false);
        if (of)
            add(a, of, &e);
        else
            a->endpoint_list.at[left++] = e;
    }
    a->endpoint_list.count = a->folded.count ? left : a->endpoint_list.count;
    array_foreach (&a->folded, e)
        LIST_ADD(a, &a->endpoint_list, *e);
    map_done(&places);
    map_done(&ids);
    map_done(&known);
}
