/* See rows.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/rows.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"

/* What attributes are called, and their order within a process. "%s" is the name of the attribute above; the
 * first that fits counts. */
static const struct {
    const char *top, *leaf, *name;
    const char *above; /* only below an attribute of this name */
    bool counts, thread;
} KINDS[] = {{"Node", "Phase", "event loop %s: phase", .thread = true},
             {"Node", "Ready", "event loop %s: callbacks ready", .counts = true, .thread = true},
             {"Node", "Operations", "thread pool: waiting or running", .counts = true},
             {"Node", "Done", "thread pool: done, not yet collected", .counts = true},
             {"Redis", "Command", "command that runs", .above = "Requests"},
             {"Redis", "Command", "command of client %s"},
             {"Threads", "State", "thread %s", .thread = true},
             {"Threads", "System call", "thread %s: system call", .thread = true},
             {"Processors", "Thread", "CPU %s: thread that runs"}};

enum { OF_THREADS = 6 }; /* the first of them that is about a thread */

const char *const ROWS_QUIET[] = {
    "blocked",         "poll",  "idle",  "ended",  "epoll_wait", "epoll_pwait", "futex", "nanosleep",
    "clock_nanosleep", "wait4", "ppoll", "select", "pselect6",   NULL};

bool rows_at_work(struct history_value value)
{
    if (value.type == HISTORY_INT)
        return value.integer != 0;
    for (const char *const *quiet = ROWS_QUIET; value.type == HISTORY_STRING && *quiet; quiet++)
        if (strcmp(value.string, *quiet) == 0)
            return false;
    return value.type != HISTORY_NULL;
}

struct row_order {
    struct source_row row;
    unsigned group, kind;
    long long number; /* of thread, client or CPU */
    bool main;        /* the process' first thread */
};

struct naming {
    const struct history *history;
    json_t *processes;
    struct map by_thread; /* tid -> 1 + index in processes */
};

static void learn(struct naming *naming, const char *report)
{
    size_t i, k;
    json_t *process, *thread, *document = json_loads(report ? report : "{}", 0, NULL);
    naming->processes = json_incref(json_object_get(document, "processes"));
    json_array_foreach (naming->processes, i, process) {
        json_array_foreach (json_object_get(process, "threads"), k, thread) {
            uint64_t *place = map_put(&naming->by_thread, (uint64_t)json_integer_value(thread), NULL);
            if (place)
                *place = i + 1;
        }
        uint64_t pid = (uint64_t)json_integer_value(json_object_get(process, "process"));
        uint64_t *place = map_put(&naming->by_thread, pid, NULL);
        if (place)
            *place = i + 1;
    }
    json_decref(document);
}

static void set_group(const struct naming *naming, const char *top, long long id, struct row_order *o)
{
    const uint64_t *place = strcmp(top, "Processors") ? map_get(&naming->by_thread, (uint64_t)id) : NULL;
    const json_t *process = place ? json_array_get(naming->processes, *place - 1) : NULL;
    if (process) {
        const char *service = json_string_value(json_object_get(process, "service"));
        long long pid = json_integer_value(json_object_get(process, "process"));
        o->group = (unsigned)*place;
        o->row.process = pid;
        o->main = o->number == pid;
        snprintf(o->row.group, sizeof(o->row.group), "%.40s %lld", service ? service : "process", pid);
    } else {
        o->group = UINT32_MAX - (strcmp(top, "Processors") == 0);
        snprintf(o->row.group, sizeof(o->row.group), "%s",
                 strcmp(top, "Processors") == 0 ? "CPUs" : "other threads");
    }
}

/* From the path's names, the topmost first. False for what is no row: it only has others below it. */
static bool name_row(const struct naming *naming, uint32_t quark, struct row_order *o)
{
    const char *names[16], *leaf = history_name(naming->history, quark);
    size_t depth = 0;
    for (uint32_t at = quark; at != HISTORY_ROOT && depth < ARRAY_SIZE(names);
         at = history_parent(naming->history, at))
        names[depth++] = history_name(naming->history, at);
    if (history_first_child(naming->history, quark) != HISTORY_ROOT)
        return false;
    const char *above = depth > 1 ? names[1] : "";
    for (size_t top = depth; top-- > 0;) /* below the host's name where there are several */
        for (unsigned k = 0; k < ARRAY_SIZE(KINDS); k++)
            if (top > 0 && strcmp(names[top], KINDS[k].top) == 0 && strcmp(leaf, KINDS[k].leaf) == 0 &&
                (!KINDS[k].above || strcmp(above, KINDS[k].above) == 0)) {
                o->kind = k;
                o->number = atoll(above);
                o->row.names = strcmp(leaf, "Thread") == 0;
                o->row.counts = KINDS[k].counts;
                snprintf(o->row.name, sizeof(o->row.name), KINDS[k].name, above);
                o->row.thread = KINDS[k].thread ? o->number : 0;
                set_group(naming, KINDS[k].top, atoll(names[top - 1]), o);
                return true;
            }
    if (strcmp(leaf, "Name") == 0)
        return false;
    o->group = UINT32_MAX;
    o->kind = ARRAY_SIZE(KINDS);
    snprintf(o->row.group, sizeof(o->row.group), "%s", names[depth - 1]);
    snprintf(o->row.name, sizeof(o->row.name), "%s%s%s", depth > 2 ? above : "", depth > 2 ? ": " : "", leaf);
    return true;
}

static int by_order(const void *x, const void *y)
{
    const struct row_order *a = x, *b = y;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->main != b->main && (a->kind >= OF_THREADS) && (b->kind >= OF_THREADS))
        return a->main ? -1 : 1;
    bool threads = a->kind >= OF_THREADS && b->kind >= OF_THREADS && a->number != b->number;
    if (a->kind != b->kind && !threads)
        return a->kind < b->kind ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return (a->row.quark > b->row.quark) - (a->row.quark < b->row.quark);
}

int rows_list(const char *report, const struct history *history, struct source_row **ret_rows,
              size_t *ret_count)
{
    struct naming naming = {.history = history};
    ARRAY(struct row_order) all = {0};
    int r = 0;
    *ret_rows = NULL;
    *ret_count = 0;
    if (!history)
        return 0;
    learn(&naming, report);
    for (uint32_t quark = 0; r == 0 && quark < history_count(history); quark++) {
        struct row_order o = {.row.quark = quark};
        if (name_row(&naming, quark, &o))
            r = array_add(&all, o);
    }
    if (all.count)
        qsort(all.at, all.count, sizeof(*all.at), by_order);
    struct source_row *rows = calloc(all.count + 1, sizeof(*rows));
    for (size_t i = 0; r == 0 && rows && i < all.count; i++) {
        struct text path = {0};
        rows[i] = all.at[i].row;
        history_path(history, rows[i].quark, &path);
        rows[i].path = text_take(&path);
        r = rows[i].path ? 0 : -ENOMEM;
        *ret_count = i + 1;
    }
    json_decref(naming.processes);
    map_done(&naming.by_thread);
    array_done(&all);
    *ret_rows = rows;
    return rows ? r : -ENOMEM;
}
