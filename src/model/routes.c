/* Endpoints that differ in a segment which is not one of the program's own names but somebody's: slugs,
 * codes, names of files. No pattern tells them apart from routes; what tells is that there are many and each
 * was asked for once or twice. They become one endpoint with :id in that place. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/model.h"

/* So many values in one place, most of them rare; more in the first, where programs have names of their own.
 */
enum {
    VALUES_MIN = 20,
    FIRST_VALUES_MIN = 100,
    RARE_COUNT = 2,
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

static const char *folded(struct analysis *a, struct map *places, const struct endpoint *e)
{
    char route[ROUTE_MAX];
    for (size_t i = 0; i < SEGMENTS_MAX && strlen(e->route) < ROUTE_MAX - 4; i++)
        if (without_segment(e->route, i, route) && is_value(places, e, route, i))
            return intern_string(a, route);
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

void routes_forget(struct analysis *a)
{
    array_foreach (&a->folded, e)
        sketch_done(&e->latency);
    array_clear(&a->folded);
}

void routes_fold(struct analysis *a)
{
    struct map places = {0}, known = {0};
    size_t left = 0;
    routes_forget(a);
    if (a->endpoint_list.count < VALUES_MIN)
        return;
    array_foreach (&a->endpoint_list, e)
        count_values(a, &places, e);
    for (size_t i = 0; i < a->endpoint_list.count; i++) {
        const struct endpoint e = a->endpoint_list.at[i];
        const char *route = folded(a, &places, &e);
        if (route == e.route) {
            a->endpoint_list.at[left++] = e;
            continue;
        }
        uint64_t words[] = {(uintptr_t)e.service, (uintptr_t)e.method, (uintptr_t)route};
        bool added;
        uint64_t *index = map_put(&known, map_hash(words, sizeof(words)), &added);
        if (!index || (added && array_add(&a->folded, (struct endpoint){.service = e.service,
                                                                        .method = e.method,
                                                                        .route = route}) < 0)) {
            a->failed = true;
            break;
        }
        *index = added ? a->folded.count - 1 : *index;
        add(a, &a->folded.at[*index], &e);
    }
    a->endpoint_list.count = left;
    array_foreach (&a->folded, e)
        LIST_ADD(a, &a->endpoint_list, *e);
    map_done(&places);
    map_done(&known);
}
