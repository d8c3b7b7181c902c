/* See active_path.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/active_path.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { DEEPEST = 64 }; /* threads that wait for each other: what lies deeper is shown as a wait */

struct stretch {
    uint64_t from_ns, to_ns;
    char state[32], waker[48]; /* of a wait: who ended it */
    bool waits;
    bool unknown; /* nothing is known of the thread: if it was woken then, it waited, or was only made */
};

typedef ARRAY(struct stretch) stretches;

struct path {
    struct history *states;
    const char *prefix;
    int (*segment)(void *context, const struct active_segment *segment);
    void *context;
    struct problem *problem;
};

static bool is_wait(const char *state)
{
    static const char *const OTHERS[] = {"running", "switching", "runnable", "preempted",
                                         "stopped", "parked",    "ended",    ""};
    for (size_t i = 0; i < ARRAY_SIZE(OTHERS); i++)
        if (strcmp(state, OTHERS[i]) == 0)
            return false;
    return true;
}

static int find(const struct path *p, int64_t tid, const char *what, uint32_t *ret_quark)
{
    char path[320];
    snprintf(path, sizeof(path), "%sThreads/%" PRId64 "/%s", p->prefix, tid, what);
    return history_find_path(p->states, path, ret_quark);
}

static int collect(void *context, const struct history_interval *s)
{
    stretches *list = context;
    struct stretch stretch = {.from_ns = s->start_ns, .to_ns = s->end_ns};
    if (s->value.type == HISTORY_STRING)
        snprintf(stretch.state, sizeof(stretch.state), "%s", s->value.string);
    stretch.waits = is_wait(stretch.state);
    stretch.unknown = !*stretch.state || strcmp(stretch.state, "ended") == 0;
    return array_add(list, stretch);
}

/* Who woke the thread when the wait ended, or made it. */
static int find_wakers(const struct path *p, int64_t tid, stretches *list)
{
    uint32_t quark;
    struct history_info info;
    history_get_info(p->states, &info);
    int r = find(p, tid, "Waker", &quark);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    array_foreach (list, s) {
        struct history_interval waker;
        if (!(s->waits || s->unknown) || s->to_ns >= info.end_ns)
            continue;
        r = history_query(p->states, quark, s->to_ns, &waker, p->problem);
        if (r < 0)
            return r;
        if (waker.value.type == HISTORY_STRING && waker.start_ns == s->to_ns)
            snprintf(s->waker, sizeof(s->waker), "%s", waker.value.string);
    }
    return 0;
}

/* The threads that wait for one another, in whose wait another one is looked at. */
struct waiter {
    int64_t tid;
    int depth;
    const struct waiter *outer;
};

/* Two threads cannot wait for each other at one time; but times of switches are exact to some hundred
 * nanoseconds only, so that a thread may seem to have woken another one just after it fell asleep. */
static bool waits_already(const struct waiter *w, int64_t tid)
{
    while (w && w->tid != tid)
        w = w->outer;
    return w != NULL;
}

static int walk(const struct path *p, const struct waiter *who, uint64_t from_ns, uint64_t to_ns);

static int follow(const struct path *p, const struct waiter *who, const struct stretch *s)
{
    char *end;
    int64_t tid = who->tid, waker = strtoll(s->waker, &end, 10);
    if (end != s->waker && !*end && waker > 0 && who->depth < DEEPEST && !waits_already(who, waker)) {
        struct waiter next = {waker, who->depth + 1, who};
        int r = walk(p, &next, s->from_ns, s->to_ns);
        if (r != -ENOENT)
            return r;
    }
    struct active_segment segment = {s->from_ns, s->to_ns, tid, s->state, s->waits ? s->waker : NULL};
    return p->segment(p->context, &segment);
}

static int walk(const struct path *p, const struct waiter *who, uint64_t from_ns, uint64_t to_ns)
{
    int64_t tid = who->tid;
    stretches list = {0};
    uint32_t quark;
    int r = find(p, tid, "State", &quark);
    if (r >= 0)
        r = history_query_range(p->states, quark, from_ns, to_ns, collect, &list, p->problem);
    if (r >= 0)
        r = find_wakers(p, tid, &list);
    array_foreach (&list, s) {
        s->from_ns = MAX(s->from_ns, from_ns);
        s->to_ns = MIN(s->to_ns, to_ns);
        if (r >= 0 && s->from_ns < s->to_ns)
            r = follow(p, who, s);
    }
    array_done(&list);
    return r;
}

int active_path(struct history *states, const char *prefix, int64_t tid, uint64_t from_ns, uint64_t to_ns,
                int (*segment)(void *context, const struct active_segment *segment), void *context,
                struct problem *problem)
{
    struct path p = {states, prefix, segment, context, problem};
    struct waiter first = {tid, 0, NULL};
    int r = walk(&p, &first, from_ns, to_ns);
    return r == -ENOENT ? problem_set(problem, r, "%sThreads/%" PRId64 " has no states", prefix, tid) : r;
}
