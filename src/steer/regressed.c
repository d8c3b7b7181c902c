/* See regressed.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/regressed.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "diagnose/stats.h"
#include "profile/formats.h"
#include "profile/identity.h"
#include "profile/windows.h"
#include "steer/keeping.h"

#define DAY_S 86400
#define REST                                                                                       \
    "[other functions]" /* of a service: what is too small to be a regression, and what is no code \
                         */

enum {
    SERVICES_MOST = 64,
    NODES_MOST = 100000, /* functions of services that are told apart */
    DAYS_BACK = 28,
    RUNS_MOST = 14, /* no more than WINDOWS */
};
#define COVERED    0.8 /* of what the judged stretch has, for an earlier one to count */
#define LEAST_PART 0.2 /* of the median of a service's stretches, for one to say something of it */

void regressed_done(struct regressed *regressed)
{
    array_foreach (&regressed->functions, f) {
        free(f->service);
        free(f->function);
        free(f->place);
    }
    array_done(&regressed->functions);
}

/* ---- one service ---- */

/* The function's share of each half of the stretch; by its frames' names, as the difference has it. */
static void shares_of_halves(const struct profile *p, const char *function, double ret_shares[static 2])
{
    const struct profile_windows *w = p->windows;
    double all[2] = {0};
    ret_shares[0] = ret_shares[1] = 0;
    for (size_t f = 1; w && f < w->frames.count && f < p->frames.count; f++)
        for (int half = 0; half < 2; half++) {
            double weight = (double)w->frames.at[f].self[half];
            all[half] += weight;
            if (strcmp(profile_text(p, p->frames.at[f].name), function) == 0)
                ret_shares[half] += weight;
        }
    for (int half = 0; half < 2; half++)
        ret_shares[half] = all[half] > 0 ? ret_shares[half] / all[half] : 0;
}

static int by_growth(const void *a, const void *b)
{
    const struct regressed_function *x = a, *y = b;
    return x->share.growth > y->share.growth ? -1 : x->share.growth < y->share.growth;
}

static int add_function(struct regressed *into, const char *service, const struct function_difference *f)
{
    struct regressed_function r = {
        .service = strdup(service), .function = strdup(f->name), .place = strdup(f->place), .share = f->self};
    if (r.service && r.function && r.place && array_add(&into->functions, r) == 0)
        return 0;
    free(r.service);
    free(r.function);
    free(r.place);
    return -ENOMEM;
}

int regressed_judge(const struct profile *before, const struct profile *after, const char *service,
                    double level, double least, struct regressed *into)
{
    struct profile_differences all;
    int r = profile_differences_of_runs(before, after, 2 * level, &all); /* half of it is of less */
    if (r < 0)
        return r;
    array_foreach (&all.functions, f) {
        const struct difference *d = &f->self;
        double halves[2];
        if (d->verdict != DIFFERENCE_SLOWER || strcmp(f->name, REST) == 0)
            continue;
        shares_of_halves(after, f->name, halves);
        double half = d->after - d->growth / 2;
        if (d->growth >= least && halves[0] >= half && halves[1] >= half)
            r = add_function(into, service, f);
        if (r < 0)
            break;
    }
    profile_differences_done(&all);
    if (into->functions.count)
        qsort(into->functions.at, into->functions.count, sizeof(*into->functions.at), by_growth);
    return r;
}

/* ---- which windows are read ---- */

/* Windows whose middle is in the stretch belong to it. */
struct stretch {
    uint64_t from_s, until_s;
};

/* What is added up of functions by service: a trie of two levels, with weights by run. */
struct row {
    float runs[WINDOWS];
    double samples;
};

struct tally {
    struct profile *trie;
    ARRAY(struct row) rows; /* by node */
};

enum phase { AFTER, BEFORE, READ };

struct regressed_search {
    char *path;
    struct regressed result;
    struct store_window *windows;
    size_t window_count, next;
    enum phase phase;
    struct stretch judged, runs[RUNS_MOST];
    struct tally after, before;
    struct map kept;     /* hashes of functions that may have grown enough, by service and name */
    struct map services; /* hashes of the names of those that are judged */
};

static bool is_within(const struct store_window *w, const struct stretch *s)
{
    uint64_t middle = w->start_s + w->length_s / 2;
    return middle >= s->from_s && middle < s->until_s;
}

static uint64_t covered_s(const struct regressed_search *s, const struct stretch *stretch)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->window_count; i++)
        if (is_within(&s->windows[i], stretch))
            sum += s->windows[i].length_s;
    return sum;
}

static bool is_weekend(uint64_t at_s)
{
    time_t at = (time_t)at_s;
    struct tm tm;
    return localtime_r(&at, &tm) && (tm.tm_wday == 0 || tm.tm_wday == 6);
}

/* Up to RUNS_MOST stretches before the judged one that are there, at multiples of the step; how many. kind:
 * of the same kind of day only. */
static size_t find_runs(struct regressed_search *s, uint64_t step_s, uint64_t length_s, size_t most,
                        bool kind)
{
    uint64_t needed_s = (uint64_t)(COVERED * (double)MIN(covered_s(s, &s->judged), length_s));
    size_t found = 0;
    for (size_t k = 1; k <= most && found < RUNS_MOST; k++) {
        uint64_t back_s = k * step_s;
        if (back_s > s->judged.from_s)
            break;
        struct stretch run = {s->judged.from_s - back_s, s->judged.from_s - back_s + length_s};
        if (kind && is_weekend(run.from_s) != is_weekend(s->judged.from_s))
            continue;
        if (needed_s && covered_s(s, &run) >= needed_s)
            s->runs[found++] = run;
    }
    return found;
}

/* Of more than a day, days are what is compared with. */
static void choose_runs(struct regressed_search *s)
{
    struct regressed *r = &s->result;
    uint64_t length_s = MIN(s->judged.until_s - s->judged.from_s, (uint64_t)DAY_S);
    r->by_day = r->one_kind = true;
    r->runs = find_runs(s, DAY_S, length_s, DAYS_BACK, true);
    if (r->runs >= REGRESSED_RUNS_LEAST)
        return;
    r->one_kind = false;
    r->runs = find_runs(s, DAY_S, length_s, DAYS_BACK, false);
    if (r->runs >= REGRESSED_RUNS_LEAST)
        return;
    r->by_day = false;
    r->runs = find_runs(s, length_s, length_s, RUNS_MOST, false);
    if (r->runs < REGRESSED_RUNS_LEAST)
        r->runs = 0;
}

/* ---- reading ---- */

static uint64_t hash_of(const char *service, const char *function)
{
    struct text name = {0};
    identity_name(function, &name);
    uint64_t words[2] = {map_hash(service, strlen(service)), map_hash(text_get(&name), name.length)};
    text_done(&name);
    return map_hash(words, sizeof(words));
}

static int tally_add(struct tally *t, uint32_t node, size_t run, uint64_t samples, uint64_t weight)
{
    struct row none = {0};
    while (t->rows.count <= node)
        if (array_add(&t->rows, none) < 0)
            return -ENOMEM;
    t->rows.at[node].runs[run] += (float)weight;
    t->rows.at[node].samples += (double)samples;
    profile_count(t->trie, node, samples, weight);
    return 0;
}

/* The service's node of a tally; 0: it is not judged. */
static uint32_t service_node(struct regressed_search *s, struct tally *t, const char *service)
{
    if (s->phase == BEFORE && !map_get(&s->services, map_hash(service, strlen(service))))
        return 0;
    return profile_child(t->trie, 0, profile_named_frame(t->trie, service, FRAME_GROUP));
}

/* What a text is wherever the program was built, and whichever version of it: earlier stretches may be of
 * several builds, whose functions are the same. */
static uint32_t plain_string(struct profile *p, const char *string, void plain(const char *, struct text *))
{
    struct text text = {0};
    plain(string, &text);
    uint32_t id = profile_string(p, text_get(&text));
    text_done(&text);
    return id;
}

static uint32_t function_node(struct regressed_search *s, struct tally *t, uint32_t service,
                              const struct profile *window, uint32_t frame)
{
    struct profile_frame f = window->frames.at[frame];
    const char *name = profile_text(window, f.name);
    bool code = f.kind != FRAME_GROUP && f.kind != FRAME_TRUNCATED;
    const char *of = profile_text(t->trie, t->trie->frames.at[t->trie->nodes.at[service].frame].name);
    if (!code || t->trie->nodes.count > NODES_MOST ||
        (s->phase == BEFORE && !map_get(&s->kept, hash_of(of, name))))
        return profile_child(t->trie, service, profile_named_frame(t->trie, REST, FRAME_TRUNCATED));
    f = (struct profile_frame){.name = plain_string(t->trie, name, identity_name),
                               .file = plain_string(t->trie, profile_text(window, f.file), identity_module),
                               .module =
                                   plain_string(t->trie, profile_text(window, f.module), identity_module),
                               .kind = f.kind};
    return profile_child(t->trie, service, profile_add_frame(t->trie, &f));
}

/* What a function of a service took in a window. */
struct taken {
    uint32_t service, frame; /* frames of the window */
    uint64_t samples, weight;
};

static int add_taken(struct regressed_search *s, const struct profile *window, const struct taken *t,
                     size_t run)
{
    struct tally *tally = s->phase == AFTER ? &s->after : &s->before;
    uint32_t service = service_node(s, tally, profile_text(window, window->frames.at[t->service].name));
    if (!service)
        return tally->trie->failed ? -ENOMEM : 0;
    uint32_t node = function_node(s, tally, service, window, t->frame);
    return node ? tally_add(tally, node, run, t->samples, t->weight) : -ENOMEM;
}

static int add_window(struct regressed_search *s, const struct profile *window, size_t run)
{
    struct map index = {0};
    ARRAY(struct taken) taken = {0};
    uint32_t *service = calloc(window->nodes.count + 1, sizeof(*service));
    int r = service ? 0 : -ENOMEM;
    for (size_t i = 1; r == 0 && i < window->nodes.count; i++) {
        const struct profile_node *n = &window->nodes.at[i];
        struct taken fresh = {.frame = n->frame};
        bool added;
        fresh.service = service[i] = n->parent ? service[n->parent] : n->frame;
        if (!n->weight)
            continue;
        uint64_t *at = map_put(&index, (uint64_t)service[i] << 32 | n->frame, &added);
        if (!at || (added && array_add(&taken, fresh) < 0)) {
            r = -ENOMEM;
            break;
        }
        if (added)
            *at = taken.count - 1;
        taken.at[*at].weight += n->weight;
        taken.at[*at].samples += n->count;
    }
    array_foreach (&taken, t)
        if (r == 0)
            r = add_taken(s, window, t, run);
    free(service);
    map_done(&index);
    array_done(&taken);
    return r;
}

/* The run that the window is of in this phase: of the judged stretch its half. SIZE_MAX: none. */
static size_t run_of(const struct regressed_search *s, const struct store_window *w)
{
    if (s->phase == AFTER && is_within(w, &s->judged)) {
        uint64_t middle = w->start_s + w->length_s / 2;
        return middle >= s->judged.from_s + (s->judged.until_s - s->judged.from_s) / 2;
    }
    for (size_t i = 0; s->phase == BEFORE && i < s->result.runs; i++)
        if (is_within(w, &s->runs[i]))
            return i;
    return SIZE_MAX;
}

static int read_window(struct regressed_search *s, const struct store_window *w, size_t run,
                       struct problem *problem)
{
    _cleanup_(profile_freep) struct profile *window = NULL;
    char file[4200];
    store_window_path(file, sizeof(file), s->path, w);
    int r = profile_read_file(file, &window, problem);
    if (r == -EBADMSG || r == -ENOENT) { /* damaged, or tidied up meanwhile */
        s->result.damaged++;
        return 0;
    }
    if (r == 0 && add_window(s, window, run) < 0)
        r = problem_set(problem, -ENOMEM, "out of memory");
    return r;
}

/* ---- what may have grown ---- */

struct heavy {
    uint32_t node;
    double samples, weight;
};

static int by_heavy(const void *a, const void *b)
{
    const struct heavy *x = a, *y = b;
    return x->weight > y->weight ? -1 : x->weight < y->weight;
}

/* The heaviest services with enough samples; owned by the caller. NULL when memory ran out. */
static struct heavy *heavy_services(const struct tally *t, size_t *ret_count)
{
    const struct profile *p = t->trie;
    struct heavy *list = calloc(p->nodes.count + 1, sizeof(*list));
    size_t kept = 0;
    for (size_t i = 1; list && i < p->nodes.count; i++) {
        const struct profile_node *n = &p->nodes.at[i];
        size_t service = n->parent ? n->parent : i;
        list[service].node = (uint32_t)service;
        list[service].weight += (double)n->weight;
        list[service].samples += (double)n->count;
    }
    for (size_t i = 1; list && i < p->nodes.count; i++)
        if (list[i].node && list[i].samples >= REGRESSED_SAMPLES)
            list[kept++] = list[i];
    if (kept)
        qsort(list, kept, sizeof(*list), by_heavy);
    *ret_count = MIN(kept, (size_t)SERVICES_MOST);
    return list;
}

/* Only what has grown enough now can be a regression: so much of what was before is read. */
static int choose_functions(struct regressed_search *s)
{
    const struct profile *p = s->after.trie;
    size_t count;
    struct heavy *services = heavy_services(&s->after, &count);
    int r = services ? 0 : -ENOMEM;
    for (size_t k = 0; r == 0 && k < count; k++) {
        const char *service = profile_text(p, p->frames.at[p->nodes.at[services[k].node].frame].name);
        if (!map_put(&s->services, map_hash(service, strlen(service)), NULL))
            r = -ENOMEM;
        for (size_t i = 1; r == 0 && i < p->nodes.count; i++) {
            const struct profile_node *n = &p->nodes.at[i];
            if (n->parent != services[k].node ||
                (double)n->weight < s->result.options.least * services[k].weight)
                continue;
            if (!map_put(&s->kept, hash_of(service, profile_text(p, p->frames.at[n->frame].name)), NULL))
                r = -ENOMEM;
        }
    }
    free(services);
    return r;
}

/* ---- the search ---- */

int regressed_search_new(const char *path, const struct regressed_options *options,
                         struct regressed_search **ret_search, struct problem *problem)
{
    _cleanup_(regressed_search_freep) struct regressed_search *s = calloc(1, sizeof(*s));
    if (!s || !(s->path = strdup(path)) || profile_new(&s->after.trie) < 0 ||
        profile_new(&s->before.trie) < 0)
        return problem_set(problem, -ENOMEM, "out of memory");
    s->result.options = *options;
    s->judged = (struct stretch){options->from_s, options->until_s};
    int r = store_list(path, &s->windows, &s->window_count, problem);
    if (r < 0)
        return r;
    s->result.empty = s->window_count == 0;
    choose_runs(s);
    if (!s->result.runs)
        s->phase = READ;
    *ret_search = s;
    s = NULL;
    return 0;
}

static void tally_done(struct tally *t)
{
    profile_free(t->trie);
    array_done(&t->rows);
}

void regressed_search_free(struct regressed_search *s)
{
    if (!s)
        return;
    regressed_done(&s->result);
    tally_done(&s->after);
    tally_done(&s->before);
    map_done(&s->kept);
    map_done(&s->services);
    free(s->windows);
    free(s->path);
    free(s);
}

int regressed_search_step(struct regressed_search *s, size_t windows, struct problem *problem)
{
    int r = 0;
    while (r == 0 && windows && s->phase != READ) {
        if (s->next == s->window_count) {
            s->next = 0;
            if (s->phase++ == AFTER && choose_functions(s) < 0)
                r = problem_set(problem, -ENOMEM, "out of memory");
            continue;
        }
        const struct store_window *w = &s->windows[s->next++];
        size_t run = run_of(s, w);
        if (run == SIZE_MAX)
            continue;
        r = read_window(s, w, run, problem);
        windows--;
    }
    return r < 0 ? r : s->phase != READ;
}

/* A service of a tally as a profile of its own, with its runs one after another: those that ret_runs (of
 * WINDOWS) says, NULL: all. */
static int service_profile(const struct tally *t, uint32_t service, const bool *runs,
                           struct profile **ret_profile)
{
    _cleanup_(profile_freep) struct profile *p = NULL;
    if (profile_new(&p) < 0 || profile_windows_begin(p) < 0)
        return -ENOMEM;
    for (size_t i = 1; i < t->trie->nodes.count; i++) {
        const struct profile_node *n = &t->trie->nodes.at[i];
        const struct profile_frame *f = &t->trie->frames.at[n->frame];
        if (n->parent != service || i >= t->rows.count)
            continue;
        const struct row *row = &t->rows.at[i];
        struct profile_frame copy = {.name = profile_string(p, profile_text(t->trie, f->name)),
                                     .file = profile_string(p, profile_text(t->trie, f->file)),
                                     .module = profile_string(p, profile_text(t->trie, f->module)),
                                     .kind = f->kind};
        uint32_t node = profile_child(p, 0, profile_add_frame(p, &copy)), at = 0;
        double all = 0, weight = 0;
        for (int run = 0; run < WINDOWS; run++) {
            all += (double)row->runs[run];
            if (runs && !runs[run])
                continue;
            weight += (double)row->runs[run];
            profile_windows_add_at(p, node, (uint64_t)row->runs[run], at++);
        }
        if (weight > 0) /* samples of runs that are left out are left out in proportion */
            profile_count(p, node, (uint64_t)(row->samples * weight / all + 0.5), (uint64_t)weight);
    }
    if (p->failed || !p->windows)
        return -ENOMEM;
    *ret_profile = p;
    p = NULL;
    return 0;
}

/* The runs in which the service did about as much as usual: of others its shares say little. */
static size_t usual_runs(const struct regressed_search *s, uint32_t service, bool ret_runs[static WINDOWS])
{
    const struct tally *t = &s->before;
    double weights[WINDOWS] = {0}, sorted[WINDOWS];
    size_t usual = 0;
    for (size_t i = 1; i < t->rows.count; i++)
        for (size_t run = 0; t->trie->nodes.at[i].parent == service && run < s->result.runs; run++)
            weights[run] += (double)t->rows.at[i].runs[run];
    memcpy(sorted, weights, sizeof(sorted));
    double least = LEAST_PART * stats_median(sorted, s->result.runs);
    for (size_t run = 0; run < WINDOWS; run++) {
        ret_runs[run] = run < s->result.runs && weights[run] > 0 && weights[run] >= least;
        usual += ret_runs[run];
    }
    return usual;
}

/* The node of a service of that name; 0: none. */
static uint32_t find_service(struct profile *p, const char *name)
{
    for (size_t i = 1; i < p->nodes.count; i++)
        if (!p->nodes.at[i].parent &&
            strcmp(profile_text(p, p->frames.at[p->nodes.at[i].frame].name), name) == 0)
            return (uint32_t)i;
    return 0;
}

static int judge_service(struct regressed_search *s, uint32_t after_node, double level)
{
    const struct profile *trie = s->after.trie;
    const char *service = profile_text(trie, trie->frames.at[trie->nodes.at[after_node].frame].name);
    uint32_t before_node = find_service(s->before.trie, service);
    bool runs[WINDOWS];
    if (!before_node || usual_runs(s, before_node, runs) < REGRESSED_RUNS_LEAST) {
        s->result.unjudged++;
        return 0;
    }
    _cleanup_(profile_freep) struct profile *before = NULL;
    _cleanup_(profile_freep) struct profile *after = NULL;
    int r = service_profile(&s->before, before_node, runs, &before);
    if (r == 0)
        r = service_profile(&s->after, after_node, NULL, &after);
    if (r == 0)
        r = regressed_judge(before, after, service, level, s->result.options.least, &s->result);
    s->result.services += r == 0;
    return r;
}

int regressed_search_end(struct regressed_search *s, struct regressed *ret_regressed)
{
    size_t count = 0;
    struct heavy *services = heavy_services(&s->after, &count);
    int r = services && !s->after.trie->failed && !s->before.trie->failed ? 0 : -ENOMEM;
    for (size_t k = 0; r == 0 && k < count; k++)
        r = judge_service(s, services[k].node, s->result.options.level / (double)count);
    free(services);
    if (r < 0)
        return r;
    *ret_regressed = s->result;
    s->result = (struct regressed){0};
    return 0;
}

int regressed_find(const char *path, const struct regressed_options *options, struct regressed *ret_regressed,
                   struct problem *problem)
{
    _cleanup_(regressed_search_freep) struct regressed_search *search = NULL;
    int r = regressed_search_new(path, options, &search, problem);
    while (r == 0 && (r = regressed_search_step(search, SIZE_MAX, problem)) > 0)
        r = 0;
    if (r == 0 && regressed_search_end(search, ret_regressed) < 0)
        r = problem_set(problem, -ENOMEM, "out of memory");
    return r;
}
