/* See woken.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/woken.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"

/* What a frame is, looked up once. */
enum { IS_LIBRARY = 1, IS_NO_CODE = 2, IS_GROUP = 4, IS_WAKER = 8 };

static uint8_t *classify(const struct profile *p, const struct business_rules *rules)
{
    uint8_t *is = calloc(p->frames.count + 1, 1);
    for (size_t i = 0; is && i < p->frames.count; i++) {
        uint8_t kind = p->frames.at[i].kind;
        bool none = kind == FRAME_KERNEL || kind == FRAME_TRUNCATED || kind == FRAME_GROUP;
        is[i] = (uint8_t)((business_is_library(p, rules, (uint32_t)i) ? IS_LIBRARY : 0) |
                          (none ? IS_NO_CODE : 0) | (kind == FRAME_GROUP ? IS_GROUP : 0) |
                          (profile_is_waker(p, (uint32_t)i) ? IS_WAKER : 0));
    }
    return is;
}

typedef ARRAY(uint32_t) path_list;

/* The frames of a stack, the outermost first. */
static int read_path(const struct profile *p, uint32_t node, path_list *path)
{
    int r = 0;
    array_clear(path);
    for (; node && r == 0; node = p->nodes.at[node].parent)
        r = array_add(path, p->nodes.at[node].frame);
    for (size_t i = 0; i < path->count / 2; i++) {
        uint32_t frame = path->at[i];
        path->at[i] = path->at[path->count - 1 - i];
        path->at[path->count - 1 - i] = frame;
    }
    return r;
}

/* What waits and who ended it. A function is the innermost of the application; where all is a library's, the
 * innermost that is not the kernel's. Wakers' stacks have it first, the one that waits has it last. */
static void read_wait(const path_list *path, const uint8_t *is, struct woken_wait *ret_wait)
{
    struct woken_wait wait = {0};
    struct woken_link *link = NULL;
    bool own = false;
    for (size_t i = 0; i < path->count; i++) {
        uint32_t frame = path->at[i];
        bool of_application = !(is[frame] & IS_LIBRARY);
        if (is[frame] & IS_WAKER) {
            if (wait.link_count == WOKEN_LINKS)
                break;
            link = &wait.links[wait.link_count++];
            link->by = frame;
            own = false;
        } else if (!wait.process && !link && is[frame] & IS_GROUP) {
            wait.process = frame;
        } else if (!(is[frame] & IS_NO_CODE) && !link && (of_application || !own)) {
            wait.place = frame;
            own |= of_application;
        } else if (!(is[frame] & IS_NO_CODE) && link && (!link->place || (of_application && !own))) {
            link->place = frame;
            own |= of_application;
        }
    }
    *ret_wait = wait;
}

static int by_waited(const void *a, const void *b)
{
    const struct woken_wait *x = a, *y = b;
    return x->waited_ns > y->waited_ns ? -1 : x->waited_ns < y->waited_ns;
}

struct woken_wait *woken_waits(const struct profile *p, const struct business_rules *rules, size_t *ret_count)
{
    ARRAY(struct woken_wait) list = {0};
    struct map ids = {0};
    path_list path = {0};
    uint8_t *is = classify(p, rules);
    int r = is ? 0 : -ENOMEM;
    for (size_t i = 1; r == 0 && i < p->nodes.count; i++) {
        const struct profile_node *n = &p->nodes.at[i];
        struct woken_wait wait;
        if (!n->weight || (r = read_path(p, (uint32_t)i, &path)) < 0)
            continue;
        read_wait(&path, is, &wait);
        if (!wait.link_count)
            continue;
        uint32_t key[2 + 2 * WOKEN_LINKS] = {wait.process, wait.place};
        memcpy(key + 2, wait.links, sizeof(wait.links));
        bool added;
        uint64_t *at = map_put(&ids, map_hash(key, sizeof(key)), &added);
        r = !at ? -ENOMEM : added ? array_add(&list, wait) : 0;
        if (r < 0)
            break;
        if (added)
            *at = list.count - 1;
        struct woken_wait *known = &list.at[*at];
        known->waited_ns += n->weight;
        known->count += n->count;
        if (n->weight > known->most_ns) {
            known->most_ns = n->weight;
            known->node = (uint32_t)i;
        }
    }
    free(is);
    map_done(&ids);
    array_done(&path);
    if (r < 0) {
        array_done(&list);
        return NULL;
    }
    if (list.count)
        qsort(list.at, list.count, sizeof(*list.at), by_waited);
    *ret_count = list.count;
    return list.at ? list.at : calloc(1, sizeof(*list.at));
}
