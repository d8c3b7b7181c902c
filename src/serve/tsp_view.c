/* See tsp_view.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/tsp_view.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "page/page.h"

bool tsp_integer(const json_t *value, int64_t *ret_number)
{
    if (json_is_integer(value)) {
        *ret_number = json_integer_value(value);
        return true;
    }
    double number = json_real_value(value);
    if (!json_is_real(value) || !(fabs(number) < 9e18))
        return false;
    *ret_number = (int64_t)number;
    return true;
}

static uint64_t within(const struct tsp_view *view, int64_t ns)
{
    uint64_t time_ns = ns < 0 ? 0 : (uint64_t)ns;
    return MIN(MAX(time_ns, view->start_ns), view->end_ns);
}

int tsp_range(struct tsp_view *view, const json_t *parameters, struct tsp_range *ret_range)
{
    const json_t *range = json_object_get(parameters, "requested_timerange");
    const json_t *samples = json_object_get(range, "nbTimes");
    int64_t start, end, columns = 1;
    if (!tsp_integer(json_object_get(range, "start"), &start) ||
        !tsp_integer(json_object_get(range, "end"), &end) || (samples && !tsp_integer(samples, &columns)))
        return problem_set(&view->problem, -EINVAL,
                           "requested_timerange must have a start and an end in nanoseconds");
    ret_range->from_ns = within(view, start);
    ret_range->to_ns = MAX(within(view, end), ret_range->from_ns);
    ret_range->columns = (uint32_t)MIN(MAX(columns, 1), TSP_COLUMNS_MAX);
    return 0;
}

void tsp_range_limit(struct tsp_range *range, size_t rows)
{
    if (rows)
        range->columns = (uint32_t)MAX(MIN(range->columns, TSP_CELLS_MAX / rows), 1);
}

int tsp_items(struct tsp_view *view, const json_t *parameters, size_t **ret_rows, size_t *ret_count)
{
    const json_t *items = json_object_get(parameters, "requested_items"), *item;
    size_t i, count = 0, *rows;
    if (!json_is_array(items))
        return problem_set(&view->problem, -EINVAL, "requested_items must be a list of entries' ids");
    rows = calloc(view->row_count + 1, sizeof(*rows));
    _cleanup_(freep) bool *seen = calloc(view->row_count + 1, sizeof(*seen));
    if (!rows || !seen) {
        free(rows);
        return -ENOMEM;
    }
    json_array_foreach (items, i, item) {
        int64_t id;
        if (!tsp_integer(item, &id) || id < 1 || (uint64_t)id > view->row_count || seen[id])
            continue;
        seen[id] = true;
        rows[count++] = (size_t)id - 1;
    }
    *ret_rows = rows;
    *ret_count = count;
    return 0;
}

uint64_t tsp_group_id(const struct tsp_view *view, size_t row, size_t *first)
{
    if (row == 0 || strcmp(view->rows[row].group, view->rows[*first].group) != 0)
        *first = row;
    return view->row_count + 1 + *first;
}

void tsp_entry(const struct tsp_view *view, struct text *to, uint64_t id, int64_t parent, bool has_data,
               bool timed, const char *const *labels)
{
    text_addf(to, "{\"id\":%" PRIu64 ",\"parentId\":%" PRId64 ",\"hasData\":%s,\"labels\":[", id, parent,
              has_data ? "true" : "false");
    for (size_t i = 0; labels[i]; i++) {
        text_add(to, i ? "," : "");
        page_json_string(to, labels[i]);
    }
    text_add(to, "]");
    if (timed)
        text_addf(to, ",\"start\":%" PRIu64 ",\"end\":%" PRIu64, view->start_ns, view->end_ns);
    text_add(to, "}");
}

void tsp_add_number(struct text *to, double number)
{
    char buffer[40] = "null";
    for (int digits = 15; isfinite(number) && digits > 0; digits--)
        if (snprintf(buffer, sizeof(buffer), "%.*g", digits, number) <= 15)
            break;
    text_add(to, buffer);
}

const char *tsp_words(struct history_value value, char *buffer, size_t size)
{
    switch (value.type) {
    case HISTORY_STRING:
        return value.string;
    case HISTORY_INT:
        snprintf(buffer, size, "%" PRId64, value.integer);
        return buffer;
    case HISTORY_DOUBLE:
        snprintf(buffer, size, "%.6g", value.number);
        return buffer;
    default:
        return "";
    }
}

/* As in web/src/colour.ts, which a test holds against this. */
static const struct {
    const char *value, *colour;
} KNOWN[] = {{"running", "#009e73"},
             {"runnable", "#f0c828"},
             {"preempted", "#e69f00"},
             {"blocked", "#96a0af"},
             {"uninterruptible", "#d55e00"},
             {"stopped", "#5a5a5a"},
             {"ended", "#3c3c3c"},
             {"poll", "#96b4d2"},
             {"timers", "#e69f00"},
             {"check", "#009e73"},
             {"pending", "#cc79a7"},
             {"closing", "#785ef0"},
             {"idle", "#aab4be"},
             {"prepare", "#56b4e9"}};
static const char *const PALETTE[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9",
                                      "#d55e00", "#785ef0", "#94823c", "#3c96aa", "#aa4465"};
static const char *const QUIET[] = {"blocked",     "poll",   "idle",      "ended",           "epoll_wait",
                                    "epoll_pwait", "futex",  "nanosleep", "clock_nanosleep", "wait4",
                                    "ppoll",       "select", "pselect6"};

static bool is_quiet(const char *value)
{
    for (size_t i = 0; i < ARRAY_SIZE(QUIET); i++)
        if (strcmp(value, QUIET[i]) == 0)
            return true;
    return false;
}

static unsigned palette_index(const char *value)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *c = value; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    return hash % ARRAY_SIZE(PALETTE);
}

const char *tsp_style_key(const char *value, char buffer[TSP_STYLE_KEY])
{
    for (size_t i = 0; i < ARRAY_SIZE(KNOWN); i++)
        if (strcmp(value, KNOWN[i].value) == 0)
            return KNOWN[i].value;
    if (is_quiet(value))
        return "blocked";
    snprintf(buffer, TSP_STYLE_KEY, "colour%u", palette_index(value));
    return buffer;
}

const char *tsp_colour(const char *value)
{
    return PALETTE[palette_index(value)];
}

/* A height of 0 would be ignored by viewers, and so would any other 0. */
static void add_style(struct text *to, const char *key, const char *colour, const char *height)
{
    text_addf(to, "\"%s\":{\"values\":{\"background-color\":\"%s\",\"height\":%s}},", key, colour, height);
}

int tsp_styles(struct tsp_view *view, const json_t *parameters, struct text *to)
{
    char key[TSP_STYLE_KEY];
    text_add(to, "{\"styles\":{");
    for (size_t i = 0; i < ARRAY_SIZE(KNOWN); i++)
        add_style(to, KNOWN[i].value, KNOWN[i].colour, is_quiet(KNOWN[i].value) ? "0.4" : "1.0");
    for (unsigned i = 0; i < ARRAY_SIZE(PALETTE); i++) {
        snprintf(key, sizeof(key), "colour%u", i);
        add_style(to, key, PALETTE[i], "1.0");
    }
    text_add(to,
             "\"" TSP_STYLE_FINDING "\":{\"values\":{\"background-color\":\"#d55e00\",\"color\":\"#d55e00\","
             "\"opacity\":0.3}},\"" TSP_STYLE_CALL "\":{\"values\":{\"color\":\"#0072b2\",\"width\":1.5}}}}");
    return 0;
}
