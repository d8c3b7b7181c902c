/* The time graph of the Trace Server: rows of states, the calls between threads as arrows, findings as
 * annotations, and what a tooltip says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/map.h"
#include "page/page.h"
#include "serve/tsp_view.h"

enum { TAG_DIMMED = 1, KEY_DIMMED = 1, KEY_EXCLUDED = 4, FILTERS = 16 };
enum { ARROW_REQUESTS = 50, ARROW_DEPTH = 16 };

int tsp_states_tree(struct tsp_view *view, const json_t *parameters, struct text *to)
{
    size_t first = 0;
    text_add(
        to,
        "{\"headers\":[{\"name\":\"Name\",\"tooltip\":\"Process, then what a row shows\"}],\"entries\":[");
    /* The recording comes first: viewers put arrows where its start is. */
    tsp_entry(view, to, tsp_root_id(view), -1, false, true, (const char *[]){view->name, NULL});
    for (size_t i = 0; i < view->row_count; i++) {
        uint64_t group = tsp_group_id(view, i, &first);
        if (first == i) {
            text_add(to, ",");
            tsp_entry(view, to, group, (int64_t)tsp_root_id(view), false, true,
                      (const char *[]){view->rows[i].group, NULL});
        }
        text_add(to, ",");
        tsp_entry(view, to, tsp_row_id(i), (int64_t)group, true, true,
                  (const char *[]){view->rows[i].name, NULL});
    }
    text_add(to, "]}");
    return 0;
}

/* ---- states ---- */

/* "filter_query_parameters": words that a state's label has to have, so as not to be dimmed, or blank. */
struct filters {
    const char *words[FILTERS];
    bool excludes[FILTERS]; /* makes blank; or else it dims */
    size_t count;
};

static void take_filters(const json_t *parameters, struct filters *f)
{
    static const struct {
        const char *key;
        bool excludes;
    } KEYS[] = {{"1", false}, {"4", true}};
    const json_t *map = json_object_get(json_object_get(parameters, "filter_query_parameters"),
                                        "filter_expressions_map"),
                 *expression;
    size_t i;
    for (size_t k = 0; k < ARRAY_SIZE(KEYS); k++) {
        json_array_foreach (json_object_get(map, KEYS[k].key), i, expression) {
            const char *words = json_string_value(expression);
            if (words && *words && f->count < FILTERS) {
                f->excludes[f->count] = KEYS[k].excludes;
                f->words[f->count++] = words;
            }
        }
    }
}

struct states {
    struct tsp_view *view;
    const size_t *rows;
    size_t count, open; /* rows that were begun */
    struct filters filters;
    struct text *to;
    bool any; /* the row that was begun last has states */
};

static void begin_row(struct states *s)
{
    text_addf(s->to, "%s{\"entryId\":%" PRIu64 ",\"states\":[", s->open ? "]}," : "",
              tsp_row_id(s->rows[s->open]));
    s->open++;
    s->any = false;
}

static int add_state(void *context, const struct history_interval *state)
{
    struct states *s = context;
    char buffer[40], key[TSP_STYLE_KEY];
    unsigned tags = 0;
    while (!s->open || s->view->rows[s->rows[s->open - 1]].quark != state->quark) {
        if (s->open == s->count)
            return -EINVAL;
        begin_row(s);
    }
    bool blank =
        state->value.type == HISTORY_NULL; /* a state without a style, or else a viewer draws a gap */
    const char *label = tsp_words(state->value, buffer, sizeof(buffer));
    for (size_t i = 0; !blank && i < s->filters.count; i++) {
        bool has = strcasestr(label, s->filters.words[i]) != NULL;
        blank = !has && s->filters.excludes[i];
        tags |= has ? 0 : TAG_DIMMED;
    }
    text_addf(s->to, "%s{\"start\":%" PRIu64 ",\"end\":%" PRIu64, s->any ? "," : "", state->start_ns,
              MIN(state->end_ns, s->view->end_ns));
    if (!blank) {
        text_add(s->to, ",\"label\":");
        page_json_string(s->to, label);
        if (tags)
            text_addf(s->to, ",\"tags\":%u", tags);
        text_addf(s->to, ",\"style\":{\"parentKey\":\"%s\",\"values\":{}}", tsp_style_key(label, key));
    }
    text_add(s->to, "}");
    s->any = true;
    return s->to->failed ? -ENOMEM : 0;
}

static int query_states(struct states *s, const struct tsp_range *range)
{
    _cleanup_(freep) uint32_t *quarks = calloc(s->count + 1, sizeof(*quarks));
    if (!quarks)
        return -ENOMEM;
    for (size_t i = 0; i < s->count; i++)
        quarks[i] = s->view->rows[s->rows[i]].quark;
    uint64_t to_ns = MIN(MAX(range->to_ns, range->from_ns + 1), s->view->end_ns);
    uint64_t from_ns = MIN(range->from_ns, to_ns - 1);
    return history_query_2d(s->view->history, quarks, s->count, from_ns, to_ns, range->columns, add_state, s,
                            &s->view->problem);
}

int tsp_states(struct tsp_view *view, const json_t *parameters, struct text *to)
{
    struct tsp_range range;
    struct states s = {.view = view, .to = to};
    _cleanup_(freep) size_t *rows = NULL;
    int r = tsp_range(view, parameters, &range);
    if (r == 0)
        r = tsp_items(view, parameters, &rows, &s.count);
    if (r < 0)
        return r;
    s.rows = rows;
    take_filters(parameters, &s.filters);
    tsp_range_limit(&range, s.count);
    text_add(to, "{\"rows\":[");
    if (view->history && s.count)
        r = query_states(&s, &range);
    while (s.open < s.count)
        begin_row(&s);
    text_add(to, s.count ? "]}]}" : "]}");
    return r < 0 ? r : 0;
}

/* ---- arrows ---- */

struct arrows {
    struct tsp_view *view;
    struct map rows; /* tid -> row of its state */
    struct tsp_range range;
    struct text *to;
    bool any;
    size_t count;
};

/* The row of thread 4711 is "Threads/4711/State", or where the kernel was not recorded that of its event
 * loop, "Node/4700/Loops/4711/Phase". */
static int learn_threads(struct arrows *a, const char *wanted_above, const char *wanted_leaf)
{
    const struct history *history = a->view->history;
    for (size_t i = 0; i < a->view->row_count; i++) {
        uint32_t quark = a->view->rows[i].quark, thread = history_parent(history, quark);
        uint32_t above = thread == HISTORY_ROOT ? HISTORY_ROOT : history_parent(history, thread);
        bool added;
        if (above == HISTORY_ROOT || strcmp(history_name(history, quark), wanted_leaf) != 0 ||
            strcmp(history_name(history, above), wanted_above) != 0)
            continue;
        uint64_t *place = map_put(&a->rows, strtoull(history_name(history, thread), NULL, 10), &added);
        if (!place)
            return -ENOMEM;
        *place = added ? i : *place;
    }
    return 0;
}

static bool row_of(const struct arrows *a, const json_t *request, uint64_t *ret_id)
{
    const uint64_t *row = map_get(&a->rows, (uint64_t)json_integer_value(json_object_get(request, "thread")));
    if (row)
        *ret_id = tsp_row_id(*row);
    return row != NULL;
}

static uint64_t time_of(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static void add_arrow(struct arrows *a, uint64_t source, uint64_t target, uint64_t start_ns, uint64_t end_ns)
{
    if (end_ns < start_ns || end_ns < a->range.from_ns || start_ns > a->range.to_ns ||
        a->count >= a->range.columns)
        return;
    text_addf(a->to,
              "%s{\"sourceId\":%" PRIu64 ",\"targetId\":%" PRIu64 ",\"start\":%" PRIu64 ",\"end\":%" PRIu64
              ",\"style\":{\"parentKey\":\"" TSP_STYLE_CALL "\",\"values\":{}}}",
              a->any ? "," : "", source, target, start_ns, end_ns);
    a->any = true;
    a->count++;
}

/* To each request that it made, and back. */
static void add_calls(struct arrows *a, const json_t *request, unsigned depth)
{
    size_t i;
    const json_t *span;
    uint64_t source, target;
    if (!row_of(a, request, &source) || depth > ARROW_DEPTH)
        return;
    json_array_foreach (json_object_get(request, "spans"), i, span) {
        const json_t *child = json_object_get(span, "request");
        if (!child || !row_of(a, child, &target))
            continue;
        uint64_t begun_ns = time_of(child, "start_ns"), ended_ns = begun_ns + time_of(child, "latency_ns");
        add_arrow(a, source, target, time_of(span, "start_ns"), begun_ns);
        if (json_is_integer(json_object_get(span, "end_ns")))
            add_arrow(a, target, source, ended_ns, time_of(span, "end_ns"));
        add_calls(a, child, depth + 1);
    }
}

/* The slowest requests in the range, since more arrows than those cannot be told apart anyway. */
static int add_requests(struct arrows *a, const struct requests *requests)
{
    struct text found = {0};
    size_t i;
    const json_t *row;
    const struct requests_query query = {
        .from_ns = a->range.from_ns, .to_ns = a->range.to_ns, .limit = ARROW_REQUESTS};
    int r = requests_query(requests, &query, &found);
    json_t *document = r == 0 ? json_loads(text_get(&found), 0, NULL) : NULL;
    json_array_foreach (json_object_get(document, "rows"), i, row) {
        struct text one = {0};
        if (requests_one(requests, json_string_value(json_object_get(row, "id")), &one) == 0) {
            json_t *request = json_loads(text_get(&one), 0, NULL);
            add_calls(a, json_object_get(request, "request"), 0);
            json_decref(request);
        }
        text_done(&one);
    }
    json_decref(document);
    text_done(&found);
    return r;
}

int tsp_arrows(struct tsp_view *view, const json_t *parameters, struct text *to)
{
    struct arrows a = {.view = view, .to = to};
    const struct requests *requests = source_requests(view->source);
    int r = tsp_range(view, parameters, &a.range);
    if (r < 0)
        return r;
    text_add(to, "[");
    if (view->history && requests)
        r = learn_threads(&a, "Threads", "State");
    if (r == 0 && view->history && requests)
        r = learn_threads(&a, "Loops", "Phase");
    if (r == 0 && a.rows.count)
        r = add_requests(&a, requests);
    text_add(to, "]");
    map_done(&a.rows);
    return r;
}

/* ---- findings ---- */

static json_t *load_report(const struct tsp_view *view)
{
    struct text document = {0};
    source_document(view->source, &document);
    json_t *report = json_loads(text_get(&document), 0, NULL);
    text_done(&document);
    return report;
}

static bool wants_findings(const json_t *parameters)
{
    const char *set = json_string_value(json_object_get(parameters, "requested_marker_set"));
    const json_t *categories = json_object_get(parameters, "requested_marker_categories"), *category;
    bool found = !json_is_array(categories);
    size_t i;
    json_array_foreach (categories, i, category)
        found |= json_is_string(category) && strcmp(json_string_value(category), TSP_MARKERS) == 0;
    return found && (!set || !*set || strcmp(set, TSP_MARKERS) == 0);
}

int tsp_annotations(struct tsp_view *view, const json_t *parameters, struct text *to)
{
    struct tsp_range range;
    const json_t *finding;
    bool any = false;
    size_t i;
    int r = tsp_range(view, parameters, &range);
    if (r < 0)
        return r;
    json_t *report = wants_findings(parameters) ? load_report(view) : NULL;
    text_add(to, "{\"annotations\":{\"" TSP_MARKERS "\":[");
    json_array_foreach (json_object_get(report, "findings"), i, finding) {
        uint64_t from_ns = time_of(finding, "from_ns"), end_ns = MAX(time_of(finding, "to_ns"), from_ns);
        if (!from_ns || end_ns < range.from_ns || from_ns > range.to_ns)
            continue;
        text_addf(to,
                  "%s{\"entryId\":-1,\"type\":\"CHART\",\"time\":%" PRIu64 ",\"duration\":%" PRIu64
                  ",\"label\":",
                  any ? "," : "", from_ns, end_ns - from_ns);
        page_json_string(to, json_string_value(json_object_get(finding, "title")));
        text_add(to, ",\"style\":{\"parentKey\":\"" TSP_STYLE_FINDING "\",\"values\":{}}}");
        any = true;
    }
    text_add(to, "]}}");
    json_decref(report);
    return 0;
}

/* ---- tooltips ---- */

static void add_line(struct text *to, const char *name, const char *value)
{
    text_add(to, to->at[to->length - 1] == '{' ? "" : ",");
    page_json_string(to, name);
    text_add(to, ":");
    page_json_string(to, value ? value : "");
}

static void add_duration(struct text *to, const char *name, uint64_t ns)
{
    char buffer[64];
    add_line(to, name, clock_format_duration(ns, buffer, sizeof(buffer)));
}

static int tell_state(struct tsp_view *view, size_t row, uint64_t time_ns, struct text *to)
{
    struct history_interval state;
    char buffer[40];
    int r = history_query(view->history, view->rows[row].quark, time_ns, &state, &view->problem);
    if (r < 0)
        return r;
    add_line(to, "Process", view->rows[row].group);
    add_line(to, "Row", view->rows[row].name);
    add_line(to, "State", tsp_words(state.value, buffer, sizeof(buffer)));
    add_duration(to, "Begins after", state.start_ns - view->start_ns);
    add_duration(to, "Lasts", MIN(state.end_ns, view->end_ns) - state.start_ns);
    return 0;
}

static void tell_finding(const struct tsp_view *view, uint64_t time_ns, struct text *to)
{
    static const char *const PARTS[][2] = {{"Finding", "title"}, {"Detail", "detail"}, {"Remedy", "remedy"}};
    json_t *report = load_report(view);
    const json_t *finding;
    size_t i;
    json_array_foreach (json_object_get(report, "findings"), i, finding) {
        if (time_of(finding, "from_ns") != time_ns)
            continue;
        for (size_t k = 0; k < ARRAY_SIZE(PARTS); k++)
            add_line(to, PARTS[k][0], json_string_value(json_object_get(finding, PARTS[k][1])));
        break;
    }
    json_decref(report);
}

int tsp_tooltip(struct tsp_view *view, const json_t *parameters, struct text *to)
{
    const json_t *element = json_object_get(parameters, "requested_element");
    const char *type = json_string_value(json_object_get(element, "elementType"));
    const json_t *times = json_object_get(parameters, "requested_times");
    _cleanup_(freep) size_t *rows = NULL;
    size_t count;
    int64_t time, duration;
    int r = tsp_items(view, parameters, &rows, &count);
    if (r < 0)
        return r;
    if (!type || !tsp_integer(json_object_get(element, "time"), &time) || !json_is_array(times))
        return problem_set(&view->problem, -EINVAL,
                           "requested_times and requested_element with elementType and time are needed");
    uint64_t at_ns = (uint64_t)time;
    text_add(to, "{");
    if (strcmp(type, "ANNOTATION") == 0)
        tell_finding(view, at_ns, to);
    else if (strcmp(type, "ARROW") == 0 && tsp_integer(json_object_get(element, "duration"), &duration))
        add_duration(to, "Took", (uint64_t)MAX(duration, 0));
    else if (view->history && count && tsp_integer(json_array_get(times, 0), &time) &&
             (uint64_t)time >= view->start_ns && (uint64_t)time < view->end_ns)
        r = tell_state(view, rows[0], (uint64_t)time, to);
    text_add(to, "}");
    return r;
}
