/* See history.h. This file checks what callers ask for, keeps the ongoing states, and hands the rest to the
 * store. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "history/history.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "history/columns.h"
#include "history/model.h"
#include "history/tree.h"

enum { STACK_MAX = 100000 };

/* ---- Values ---- */

bool history_value_equal(struct history_value a, struct history_value b)
{
    if (a.type != b.type)
        return false;
    switch (a.type) {
    case HISTORY_INT:
        return a.integer == b.integer;
    case HISTORY_DOUBLE:
        return !memcmp(&a.number, &b.number, sizeof(a.number));
    case HISTORY_STRING:
        return !strcmp(a.string, b.string);
    default:
        return true;
    }
}

static int to_cell(struct history *history, struct history_value value, struct cell *ret_cell,
                   struct problem *problem)
{
    *ret_cell = (struct cell){.type = value.type};
    switch (value.type) {
    case HISTORY_NULL:
        return 0;
    case HISTORY_INT:
        ret_cell->bits = (uint64_t)value.integer;
        return 0;
    case HISTORY_DOUBLE:
        memcpy(&ret_cell->bits, &value.number, 8);
        return 0;
    case HISTORY_STRING:
        break;
    }
    if (value.type != HISTORY_STRING || !value.string)
        return problem_set(problem, -EINVAL, "%s: not a value", history->path);
    uint32_t number;
    int r = dictionary_add(&history->strings, value.string, strlen(value.string), &number);
    if (r < 0)
        return problem_set(problem, r, "%s: no memory for another string", history->path);
    ret_cell->bits = number;
    return 0;
}

static int from_cell(const struct history *history, struct cell cell, struct history_value *ret_value,
                     struct problem *problem)
{
    *ret_value = (struct history_value){.type = cell.type, .integer = (int64_t)cell.bits};
    if (cell.type != HISTORY_STRING)
        return 0;
    if (cell.bits >= history->strings.strings.count)
        return problem_set(problem, -EBADMSG, "%s: a state has string %" PRIu64 ", of which there are %zu",
                           history->path, cell.bits, history->strings.strings.count);
    ret_value->string = history->strings.strings.at[cell.bits];
    return 0;
}

static int from_state(const struct history *history, uint32_t quark, const struct state *state,
                      struct history_interval *ret_state, struct problem *problem)
{
    ret_state->start_ns = state->start_ns;
    ret_state->end_ns = state->end_ns;
    ret_state->quark = quark;
    return from_cell(history, state->cell, &ret_state->value, problem);
}

/* ---- Create, open, close ---- */

static struct history *new_history(const char *path)
{
    struct history *history = calloc(1, sizeof(*history));
    if (!history)
        return NULL;
    attributes_init(&history->attributes);
    history->path = strdup(path);
    if (!history->path) {
        history_free(history);
        return NULL;
    }
    return history;
}

int history_create(const char *path, const struct history_options *options, struct history **ret_history,
                   struct problem *problem)
{
    struct history_options all = {.size = sizeof(all)};
    if (options)
        memcpy(&all, options, MIN(options->size, sizeof(all)));
    if (all.start_ns == HISTORY_ONGOING)
        return problem_set(problem, -EINVAL, "%s: start_ns is the end of time", path);
    _cleanup_(history_freep) struct history *history = new_history(path);
    if (!history)
        return problem_set(problem, -ENOMEM, "%s: no memory", path);
    history->start_ns = history->max_ns = all.start_ns;
    history->end_ns = HISTORY_ONGOING;
    history->building = true;
    int r = all.store == HISTORY_TREE ? tree_create(history, &all, problem)
                                      : columns_create(history, &all, problem);
    if (r < 0)
        return r;
    *ret_history = history;
    history = NULL;
    return 0;
}

static int open_store(struct history *history, struct problem *problem)
{
    int fd = open(history->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return problem_set(problem, -errno, "%s: cannot open: %s", history->path, strerror(errno));
    struct stat st;
    char magic[8] = "";
    if (fstat(fd, &st) < 0 || pread(fd, magic, sizeof(magic), 0) < 0) {
        int r = -errno;
        close(fd);
        return problem_set(problem, r, "%s: cannot read: %s", history->path, strerror(-r));
    }
    bool tree = !memcmp(magic, TREE_MAGIC, sizeof(magic));
    return tree ? tree_open(history, fd, (uint64_t)st.st_size, problem)
                : columns_open(history, fd, (uint64_t)st.st_size, problem);
}

int history_open(const char *path, struct history **ret_history, struct problem *problem)
{
    _cleanup_(history_freep) struct history *history = new_history(path);
    if (!history)
        return problem_set(problem, -ENOMEM, "%s: no memory", path);
    int r = open_store(history, problem);
    if (r < 0)
        return r;
    *ret_history = history;
    history = NULL;
    return 0;
}

static int not_building(const struct history *history, struct problem *problem)
{
    return problem_set(problem, -EINVAL, "%s: this history is closed: it takes no more changes",
                       history->path);
}

int history_flush(struct history *history, struct problem *problem)
{
    return history->building ? history->ops->flush(history, problem) : not_building(history, problem);
}

int history_close(struct history *history, uint64_t end_ns, struct problem *problem)
{
    if (!history->building)
        return not_building(history, problem);
    history->end_ns = MAX(end_ns, history->max_ns + 1);
    int r = history->ops->close(history, problem);
    if (r < 0) {
        history->end_ns = HISTORY_ONGOING;
        return r;
    }
    history->building = false;
    history->complete = true;
    array_done(&history->ongoing);
    return 0;
}

void history_free(struct history *history)
{
    if (!history)
        return;
    if (history->ops)
        history->ops->free(history);
    attributes_done(&history->attributes);
    dictionary_done(&history->strings);
    array_done(&history->ongoing);
    free(history->path);
    free(history);
}

void history_get_info(const struct history *history, struct history_info *ret_info)
{
    const struct attributes *a = &history->attributes;
    const struct dictionary *s = &history->strings;
    *ret_info = (struct history_info){
        .store = history->ops->find == columns_find ? HISTORY_COLUMNS : HISTORY_TREE,
        .start_ns = history->start_ns,
        .end_ns = history->building ? history->max_ns + 1 : history->end_ns,
        .changes = history->changes,
        .attributes = (uint32_t)a->all.count,
        .strings = (uint32_t)s->strings.count,
        .building = history->building,
        .complete = history->complete,
        .lost_bytes = history->lost_bytes,
        .memory_bytes = a->all.capacity * sizeof(*a->all.at) +
                        a->by_name.capacity * sizeof(*a->by_name.slots) + a->names.held_bytes +
                        s->strings.capacity * sizeof(*s->strings.at) +
                        s->by_hash.capacity * sizeof(*s->by_hash.slots) + s->arena.held_bytes +
                        history->ongoing.capacity * sizeof(*history->ongoing.at),
    };
    history->ops->info(history, ret_info);
}

/* ---- Attributes ---- */

uint32_t history_count(const struct history *history)
{
    return (uint32_t)history->attributes.all.count;
}

int history_find(const struct history *history, uint32_t parent, const char *name, uint32_t *ret_quark)
{
    return attributes_find(&history->attributes, parent, name, strlen(name), ret_quark);
}

/* Every attribute begins null: brings `ongoing` up to the number of attributes. */
static int add_ongoing(struct history *history, struct problem *problem)
{
    while (history->ongoing.count < history->attributes.all.count)
        if (array_add(&history->ongoing, (struct ongoing){.start_ns = history->start_ns}) < 0)
            return problem_set(problem, -ENOMEM, "%s: no memory for another attribute", history->path);
    return 0;
}

/* What creating an attribute comes down to once it is in the tree, or failed to get there. */
static int added(struct history *history, int r, const char *name, struct problem *problem)
{
    if (r == -EINVAL)
        return problem_set(
            problem, r,
            "%s: cannot create attribute '%.200s': its name is empty or too long, or its parent unknown",
            history->path, name);
    if (r < 0)
        return problem_set(problem, r, "%s: no memory for another attribute", history->path);
    return add_ongoing(history, problem);
}

int history_add(struct history *history, uint32_t parent, const char *name, uint32_t *ret_quark,
                struct problem *problem)
{
    if (!history->building)
        return not_building(history, problem);
    uint32_t quark;
    int r = attributes_add(&history->attributes, parent, name, strlen(name), &quark);
    r = added(history, r, name, problem);
    if (r == 0)
        *ret_quark = quark;
    return r;
}

int history_find_path(const struct history *history, const char *path, uint32_t *ret_quark)
{
    return attributes_path((struct attributes *)&history->attributes, path, false, ret_quark);
}

int history_add_path(struct history *history, const char *path, uint32_t *ret_quark, struct problem *problem)
{
    if (!history->building)
        return not_building(history, problem);
    uint32_t quark;
    int r = attributes_path(&history->attributes, path, true, &quark);
    int r2 = r < 0 ? add_ongoing(history, NULL) : 0; /* parents may have been made before it failed */
    r = added(history, r < 0 ? r : r2, path, problem);
    if (r == 0)
        *ret_quark = quark;
    return r;
}

int history_list(const struct history *history, const char *pattern, uint32_t **ret_quarks, size_t *ret_count)
{
    return attributes_list(&history->attributes, pattern, ret_quarks, ret_count);
}

static const struct attribute *attribute(const struct history *history, uint32_t quark)
{
    return quark < history->attributes.all.count ? &history->attributes.all.at[quark] : NULL;
}

uint32_t history_first_child(const struct history *history, uint32_t parent)
{
    if (parent == HISTORY_ROOT)
        return history->attributes.first_root;
    const struct attribute *a = attribute(history, parent);
    return a ? a->first_child : HISTORY_ROOT;
}

uint32_t history_next_sibling(const struct history *history, uint32_t quark)
{
    const struct attribute *a = attribute(history, quark);
    return a ? a->next_sibling : HISTORY_ROOT;
}

uint32_t history_parent(const struct history *history, uint32_t quark)
{
    const struct attribute *a = attribute(history, quark);
    return a ? a->parent : HISTORY_ROOT;
}

const char *history_name(const struct history *history, uint32_t quark)
{
    const struct attribute *a = attribute(history, quark);
    return a ? a->name : NULL;
}

void history_path(const struct history *history, uint32_t quark, struct text *text)
{
    attributes_print(&history->attributes, quark, text);
}

/* ---- Building ---- */

static int bad_quark(const struct history *history, uint32_t quark, struct problem *problem)
{
    return problem_set(problem, -EINVAL, "%s: no attribute %u: there are %zu", history->path, quark,
                       history->attributes.all.count);
}

static int out_of_order(const struct history *history, uint32_t quark, uint64_t time_ns,
                        struct problem *problem)
{
    if (time_ns < history->start_ns || time_ns == HISTORY_ONGOING)
        return problem_set(problem, -ERANGE,
                           "%s: a change at %" PRIu64 " ns, outside of the history, which begins at %" PRIu64,
                           history->path, time_ns, history->start_ns);
    struct text path = {0};
    history_path(history, quark, &path);
    int r = problem_set(problem, -EINVAL, "%s: '%.200s' changed at %" PRIu64 " ns already, then at %" PRIu64,
                        history->path, text_get(&path), history->ongoing.at[quark].start_ns, time_ns);
    problem_remedy(problem, "the changes of one attribute must come in time order");
    text_done(&path);
    return r;
}

static inline bool in_order(const struct history *history, uint32_t quark, uint64_t time_ns)
{
    return time_ns >= history->ongoing.at[quark].start_ns && time_ns != HISTORY_ONGOING;
}

static int change(struct history *history, uint64_t time_ns, uint32_t quark, struct cell cell,
                  struct problem *problem)
{
    if (!in_order(history, quark, time_ns))
        return out_of_order(history, quark, time_ns, problem);
    struct ongoing *o = &history->ongoing.at[quark];
    if (cell_equal(ongoing_cell(o), cell))
        return 0;
    int r = history->ops->change(history, quark, time_ns, cell, problem);
    if (r < 0)
        return r;
    o->start_ns = time_ns;
    o->bits = cell.bits;
    o->type = cell.type;
    if (time_ns > history->max_ns)
        history->max_ns = time_ns;
    return 0;
}

/* -EINVAL for what cannot be changed. */
static int check_change(const struct history *history, uint32_t quark, struct problem *problem)
{
    if (!history->building)
        return not_building(history, problem);
    return quark < history->ongoing.count ? 0 : bad_quark(history, quark, problem);
}

int history_modify(struct history *history, uint64_t time_ns, uint32_t quark, struct history_value value,
                   struct problem *problem)
{
    struct cell cell;
    int r = check_change(history, quark, problem);
    if (r == 0)
        r = to_cell(history, value, &cell, problem);
    return r < 0 ? r : change(history, time_ns, quark, cell, problem);
}

/* The depth that a stack's attribute holds. */
static int stack_depth(const struct history *history, uint32_t quark, uint32_t *ret_depth,
                       struct problem *problem)
{
    struct cell cell = ongoing_cell(&history->ongoing.at[quark]);
    if (cell.type != HISTORY_NULL && (cell.type != HISTORY_INT || !cell.bits || cell.bits > STACK_MAX))
        return problem_set(problem, -EINVAL, "%s: attribute %u holds no stack's depth", history->path, quark);
    *ret_depth = (uint32_t)cell.bits;
    return 0;
}

static struct cell depth_cell(uint32_t depth)
{
    return depth ? (struct cell){depth, HISTORY_INT} : (struct cell){0};
}

int history_push(struct history *history, uint64_t time_ns, uint32_t quark, struct history_value value,
                 struct problem *problem)
{
    struct cell cell;
    uint32_t depth = 0, child;
    int r = check_change(history, quark, problem);
    if (r == 0)
        r = stack_depth(history, quark, &depth, problem);
    if (r == 0 && depth == STACK_MAX)
        r = problem_set(problem, -EINVAL, "%s: %u states are stacked on attribute %u: are they ever popped?",
                        history->path, depth, quark);
    if (r == 0)
        r = to_cell(history, value, &cell, problem);
    if (r < 0)
        return r;
    char name[16];
    snprintf(name, sizeof(name), "%u", depth + 1);
    r = history_add(history, quark, name, &child, problem);
    if (r == 0 && !in_order(history, quark, time_ns))
        r = out_of_order(history, quark, time_ns, problem);
    if (r == 0)
        r = change(history, time_ns, child, cell, problem);
    return r < 0 ? r : change(history, time_ns, quark, depth_cell(depth + 1), problem);
}

int history_pop(struct history *history, uint64_t time_ns, uint32_t quark, struct history_value *ret_value,
                struct problem *problem)
{
    uint32_t depth = 0, child;
    struct history_value value = history_null();
    int r = check_change(history, quark, problem);
    if (r == 0)
        r = stack_depth(history, quark, &depth, problem);
    if (r < 0)
        return r;
    if (depth) {
        char name[16];
        snprintf(name, sizeof(name), "%u", depth);
        r = history_find(history, quark, name, &child);
        if (r < 0)
            return problem_set(problem, -EINVAL, "%s: attribute %u holds no stack's depth", history->path,
                               quark);
        r = from_cell(history, ongoing_cell(&history->ongoing.at[child]), &value, problem);
        if (r == 0 && !in_order(history, quark, time_ns))
            r = out_of_order(history, quark, time_ns, problem);
        if (r == 0)
            r = change(history, time_ns, child, (struct cell){0}, problem);
        if (r == 0)
            r = change(history, time_ns, quark, depth_cell(depth - 1), problem);
    }
    if (r == 0 && ret_value)
        *ret_value = value;
    return r;
}

/* The attribute behind `quark` in a walk over everything below `top`, itself first; HISTORY_ROOT at the end.
 */
static uint32_t next_below(const struct history *history, uint32_t top, uint32_t quark)
{
    uint32_t next = history_first_child(history, quark);
    while (next == HISTORY_ROOT && quark != top) {
        next = history_next_sibling(history, quark);
        quark = history_parent(history, quark);
    }
    return next;
}

int history_remove(struct history *history, uint64_t time_ns, uint32_t quark, struct problem *problem)
{
    int r = check_change(history, quark, problem);
    if (r < 0)
        return r;
    if (time_ns < history->start_ns)
        return out_of_order(history, quark, time_ns, problem);
    for (uint32_t q = quark; q != HISTORY_ROOT; q = next_below(history, quark, q))
        if (history->ongoing.at[q].type != HISTORY_NULL && !in_order(history, q, time_ns))
            return out_of_order(history, q, time_ns, problem);
    for (uint32_t q = quark; r == 0 && q != HISTORY_ROOT; q = next_below(history, quark, q))
        if (history->ongoing.at[q].type != HISTORY_NULL)
            r = change(history, time_ns, q, (struct cell){0}, problem);
    return r;
}

/* ---- Queries ---- */

static int check_time(const struct history *history, uint64_t time_ns, struct problem *problem)
{
    if (time_ns >= history->start_ns && time_ns < history->end_ns)
        return 0;
    return problem_set(problem, -ERANGE,
                       "%s: %" PRIu64 " ns lies outside of the history, which has [%" PRIu64 ", %" PRIu64 ")",
                       history->path, time_ns, history->start_ns, history->end_ns);
}

static int check_span(const struct history *history, uint64_t start_ns, uint64_t end_ns,
                      struct problem *problem)
{
    if (start_ns >= end_ns)
        return problem_set(problem, -EINVAL, "%s: from %" PRIu64 " to %" PRIu64 " ns is no span of time",
                           history->path, start_ns, end_ns);
    int r = check_time(history, start_ns, problem);
    return r < 0 ? r : check_time(history, end_ns - 1, problem);
}

static void prepare(struct history *history)
{
    if (history->ops->find == columns_find)
        columns_trim(history);
}

static int find(struct history *history, uint32_t quark, uint64_t time_ns, struct state *ret_state,
                struct problem *problem)
{
    if (history->building && time_ns >= history->ongoing.at[quark].start_ns) {
        const struct ongoing *o = &history->ongoing.at[quark];
        *ret_state = (struct state){o->start_ns, HISTORY_ONGOING, ongoing_cell(o)};
        return 0;
    }
    prepare(history);
    return history->ops->find(history, quark, time_ns, ret_state, problem);
}

int history_ongoing(const struct history *history, uint32_t quark, struct history_interval *ret_state)
{
    return history_query((struct history *)history, quark, history->end_ns - 1, ret_state, NULL);
}

int history_query(struct history *history, uint32_t quark, uint64_t time_ns,
                  struct history_interval *ret_state, struct problem *problem)
{
    if (quark >= history->attributes.all.count)
        return bad_quark(history, quark, problem);
    struct state state;
    int r = check_time(history, time_ns, problem);
    if (r == 0)
        r = find(history, quark, time_ns, &state, problem);
    return r < 0 ? r : from_state(history, quark, &state, ret_state, problem);
}

int history_query_full(struct history *history, uint64_t time_ns, struct history_interval *ret_states,
                       struct problem *problem)
{
    int r = check_time(history, time_ns, problem);
    if (r < 0)
        return r;
    prepare(history);
    r = history->ops->full(history, time_ns, ret_states, problem);
    for (uint32_t quark = 0; r == 0 && quark < history_count(history); quark++) {
        struct history_interval *state = &ret_states[quark];
        state->quark = quark;
        if (!state->end_ns)
            state->end_ns = history->end_ns;
        if (state->start_ns > time_ns || state->end_ns <= time_ns)
            return problem_set(problem, -EBADMSG, "%s: attribute %u has no state at %" PRIu64 " ns",
                               history->path, quark, time_ns);
        if (state->value.type == HISTORY_STRING)
            r = from_cell(history, (struct cell){(uint64_t)state->value.integer, HISTORY_STRING},
                          &state->value, problem);
    }
    return r;
}

/* Stands between a store, which hands out cells, and the caller, who wants values. */
struct hand_out {
    struct history *history;
    const struct grid *grid;
    history_state_fn *state_fn;
    history_summary_fn *summary_fn;
    void *context;
    struct problem *problem;
};

static int hand_out_state(void *context, uint32_t quark, const struct state *state)
{
    struct hand_out *out = context;
    struct history_interval interval;
    int r = from_state(out->history, quark, state, &interval, out->problem);
    return r < 0 ? r : out->state_fn(out->context, &interval);
}

static int hand_out_summary(void *context, uint32_t quark, uint32_t column, struct summary *summary)
{
    struct hand_out *out = context;
    struct history_summary result = {.start_ns = column_start(out->grid, column),
                                     .end_ns = column_start(out->grid, column + 1),
                                     .changes = summary->changes,
                                     .quark = quark};
    summary_trim(summary, HISTORY_SHARES);
    result.other_ns = summary->other_ns;
    result.shares = summary->count;
    for (unsigned i = 0; i < summary->count; i++) {
        result.share[i].held_ns = summary->share[i].ns;
        int r = from_cell(out->history, summary->share[i].cell, &result.share[i].value, out->problem);
        if (r < 0)
            return r;
    }
    return out->summary_fn(out->context, column, &result);
}

int history_query_range(struct history *history, uint32_t quark, uint64_t start_ns, uint64_t end_ns,
                        history_state_fn *fn, void *context, struct problem *problem)
{
    if (quark >= history->attributes.all.count)
        return bad_quark(history, quark, problem);
    int r = check_span(history, start_ns, end_ns, problem);
    if (r < 0)
        return r;
    struct hand_out out = {.history = history, .state_fn = fn, .context = context, .problem = problem};
    prepare(history);
    return history->ops->range(history, quark, start_ns, end_ns, hand_out_state, &out, problem);
}

static int check_grid(const struct history *history, const struct grid *grid, struct problem *problem)
{
    for (size_t i = 0; i < grid->count; i++)
        if (grid->quarks[i] >= history->attributes.all.count)
            return bad_quark(history, grid->quarks[i], problem);
    if (!grid->columns)
        return problem_set(problem, -EINVAL, "%s: a view without columns", history->path);
    return check_span(history, grid->start_ns, grid->end_ns, problem);
}

int history_query_2d(struct history *history, const uint32_t *quarks, size_t count, uint64_t start_ns,
                     uint64_t end_ns, uint32_t columns, history_state_fn *fn, void *context,
                     struct problem *problem)
{
    struct grid grid = {quarks, count, start_ns, end_ns, columns};
    struct hand_out out = {.history = history, .state_fn = fn, .context = context, .problem = problem};
    int r = check_grid(history, &grid, problem);
    if (r < 0)
        return r;
    prepare(history);
    return history->ops->grid(history, &grid, hand_out_state, &out, problem);
}

int history_summarize(struct history *history, const uint32_t *quarks, size_t count, uint64_t start_ns,
                      uint64_t end_ns, uint32_t columns, history_summary_fn *fn, void *context,
                      struct problem *problem)
{
    struct grid grid = {quarks, count, start_ns, end_ns, columns};
    struct hand_out out = {
        .history = history, .grid = &grid, .summary_fn = fn, .context = context, .problem = problem};
    int r = check_grid(history, &grid, problem);
    if (r < 0)
        return r;
    prepare(history);
    return history->ops->summarize(history, &grid, hand_out_summary, &out, problem);
}

int history_next_change(struct history *history, uint32_t quark, uint64_t time_ns,
                        struct history_interval *ret_state, struct problem *problem)
{
    struct history_interval state = {0};
    int r = history_query(history, quark, time_ns, &state, problem);
    if (r < 0)
        return r;
    if (state.end_ns >= history->end_ns)
        return -ENOENT;
    return history_query(history, quark, state.end_ns, ret_state, problem);
}

int history_previous_change(struct history *history, uint32_t quark, uint64_t time_ns,
                            struct history_interval *ret_state, struct problem *problem)
{
    if (time_ns == history->start_ns)
        return quark < history->attributes.all.count ? -ENOENT : bad_quark(history, quark, problem);
    return history_query(history, quark, time_ns - 1, ret_state, problem);
}
