/* See regressed_watch.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/regressed_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EVERY_S     21600
#define REMEMBERS_S 86400

static const uint64_t LENGTHS_S[] = {21600, 86400};

struct seen {
    uint64_t first_s, last_s; /* when a function was found, since it is known */
};

struct regressed_watch {
    const char *path;
    uint64_t due_s; /* when the next judgement is, of a stretch that ends then */
    size_t length;  /* which of the lengths is next */
    struct regressed_search *search;
    struct regressed last;
    bool judged;
    ARRAY(struct regressed_function) found; /* their texts are our own */
    ARRAY(struct seen) seen;                /* of each of those */
};

int regressed_watch_new(const char *path, uint64_t now_s, struct regressed_watch **ret_watch)
{
    struct regressed_watch *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->path = path;
    w->due_s = (now_s / EVERY_S + 1) * EVERY_S;
    *ret_watch = w;
    return 0;
}

static void function_done(struct regressed_function *f)
{
    free(f->service);
    free(f->function);
    free(f->place);
}

void regressed_watch_free(struct regressed_watch *w)
{
    if (!w)
        return;
    regressed_search_free(w->search);
    regressed_done(&w->last);
    array_foreach (&w->found, f)
        function_done(f);
    array_done(&w->found);
    array_done(&w->seen);
    free(w);
}

static size_t index_of(const struct regressed_watch *w, const struct regressed_function *function)
{
    for (size_t i = 0; i < w->found.count; i++)
        if (strcmp(w->found.at[i].service, function->service) == 0 &&
            strcmp(w->found.at[i].function, function->function) == 0 &&
            strcmp(w->found.at[i].place, function->place) == 0)
            return i;
    return SIZE_MAX;
}

static void forget_old(struct regressed_watch *w, uint64_t now_s)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->found.count; i++) {
        if (now_s - w->seen.at[i].last_s > REMEMBERS_S) {
            function_done(&w->found.at[i]);
            continue;
        }
        w->found.at[kept] = w->found.at[i];
        w->seen.at[kept++] = w->seen.at[i];
    }
    w->found.count = w->seen.count = kept;
}

static int remember(struct regressed_watch *w, const struct regressed_function *function, uint64_t now_s)
{
    struct regressed_function copy = *function;
    size_t i = index_of(w, function);
    copy.service = strdup(function->service);
    copy.function = strdup(function->function);
    copy.place = strdup(function->place);
    struct seen seen = {.first_s = now_s, .last_s = now_s};
    bool failed = !copy.service || !copy.function || !copy.place;
    if (!failed && i != SIZE_MAX) {
        function_done(&w->found.at[i]);
        w->found.at[i] = copy;
        w->seen.at[i].last_s = now_s;
        return 0;
    }
    if (!failed && array_reserve(&w->found, w->found.count + 1) == 0 && array_add(&w->seen, seen) == 0) {
        w->found.at[w->found.count++] = copy;
        return 0;
    }
    function_done(&copy);
    return -ENOMEM;
}

/* A clock that was set forward leaves out what would have been judged between. */
static void next_stretch(struct regressed_watch *w, uint64_t now_s)
{
    regressed_search_free(w->search);
    w->search = NULL;
    if (++w->length < ARRAY_SIZE(LENGTHS_S))
        return;
    w->length = 0;
    w->due_s = (now_s / EVERY_S + 1) * EVERY_S;
}

static int begin(struct regressed_watch *w, struct problem *problem)
{
    struct regressed_options o = {.from_s = w->due_s - LENGTHS_S[w->length],
                                  .until_s = w->due_s,
                                  .level = REGRESSED_LEVEL,
                                  .least = REGRESSED_LEAST};
    return regressed_search_new(w->path, &o, &w->search, problem);
}

static int end(struct regressed_watch *w, uint64_t now_s, struct problem *problem)
{
    struct regressed judged;
    int r = regressed_search_end(w->search, &judged);
    if (r < 0)
        return problem_set(problem, r, "out of memory");
    regressed_done(&w->last);
    w->last = judged;
    w->judged = true;
    forget_old(w, now_s);
    array_foreach (&w->last.functions, f)
        if (r == 0)
            r = remember(w, f, now_s);
    return r < 0 ? problem_set(problem, r, "out of memory") : 1;
}

int regressed_watch_step(struct regressed_watch *w, uint64_t now_s, size_t windows, struct problem *problem)
{
    if (now_s + 2 * EVERY_S < w->due_s) { /* the clock was set back */
        w->length = ARRAY_SIZE(LENGTHS_S);
        next_stretch(w, now_s);
    }
    if (now_s < w->due_s)
        return 0;
    int r = w->search ? 0 : begin(w, problem);
    if (r == 0 && (r = regressed_search_step(w->search, windows, problem)) > 0)
        return 0;
    if (r == 0)
        r = end(w, now_s, problem);
    next_stretch(w, now_s);
    return r;
}

const struct regressed *regressed_watch_last(const struct regressed_watch *w)
{
    return w->judged ? &w->last : NULL;
}

bool regressed_watch_is_new(const struct regressed_watch *w, const struct regressed_function *function)
{
    size_t i = index_of(w, function);
    return i == SIZE_MAX || w->seen.at[i].first_s == w->seen.at[i].last_s;
}

const struct regressed_function *regressed_watch_found(const struct regressed_watch *w, size_t *ret_count)
{
    *ret_count = w->found.count;
    return w->found.at;
}
