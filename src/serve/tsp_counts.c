/* The charts of the Trace Server: rows that count something as lines over time, and a tree of how long each
 * state was held. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "page/page.h"
#include "serve/tsp_view.h"

/* What a row's values were over a range, the longest held first. */
struct shares {
    struct history_summary *of; /* by row */
    size_t row;
    const struct tsp_view *view;
};

static int take_summary(void *context, uint32_t column, const struct history_summary *summary)
{
    struct shares *s = context;
    while (s->row < s->view->row_count && s->view->rows[s->row].quark != summary->quark)
        s->row++;
    if (s->row == s->view->row_count)
        return -EINVAL;
    s->of[s->row] = *summary;
    return 0;
}

/* One summary for each row; *ret_shares is the caller's. An empty range has none. */
static int summarize(struct tsp_view *view, uint64_t from_ns, uint64_t to_ns,
                     struct history_summary **ret_shares)
{
    struct shares s = {.of = calloc(view->row_count + 1, sizeof(*s.of)), .view = view};
    _cleanup_(freep) uint32_t *quarks = calloc(view->row_count + 1, sizeof(*quarks));
    int r = s.of && quarks ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < view->row_count; i++)
        quarks[i] = view->rows[i].quark;
    if (r == 0 && view->row_count && to_ns > from_ns)
        r = history_summarize(view->history, quarks, view->row_count, from_ns, to_ns, 1, take_summary, &s,
                              &view->problem);
    if (r < 0)
        free(s.of);
    else
        *ret_shares = s.of;
    return r < 0 ? r : 0;
}

static bool is_number(struct history_value value)
{
    return value.type == HISTORY_INT || value.type == HISTORY_DOUBLE;
}

/* A row counts when it had a number for the most part, nothing aside. */
static bool counts(const struct source_row *row, const struct history_summary *summary)
{
    bool found = false;
    for (uint32_t i = 0; i < summary->shares; i++) {
        if (summary->share[i].value.type == HISTORY_STRING)
            return false;
        found |= is_number(summary->share[i].value);
    }
    return found && !row->names;
}

int tsp_counts_tree(struct tsp_view *view, const json_t *parameters, struct text *to)
{
    _cleanup_(freep) struct history_summary *shares = NULL;
    size_t first = 0;
    uint64_t shown = 0; /* the group whose entry was written last */
    int r = summarize(view, view->start_ns, view->end_ns, &shares);
    if (r < 0)
        return r;
    text_add(
        to, "{\"headers\":[{\"name\":\"Name\",\"tooltip\":\"Process, then what is counted\"}],\"entries\":[");
    tsp_entry(view, to, tsp_root_id(view), -1, false, false, (const char *[]){view->name, NULL});
    for (size_t i = 0; i < view->row_count; i++) {
        uint64_t group = tsp_group_id(view, i, &first);
        if (!counts(&view->rows[i], &shares[i]))
            continue;
        if (group != shown) {
            text_add(to, ",");
            tsp_entry(view, to, group, (int64_t)tsp_root_id(view), false, false,
                      (const char *[]){view->rows[i].group, NULL});
        }
        shown = group;
        text_add(to, ",");
        tsp_entry(view, to, tsp_row_id(i), (int64_t)group, true, false,
                  (const char *[]){view->rows[i].name, NULL});
    }
    text_add(to, "]}");
    return 0;
}

/* ---- lines ---- */

struct line {
    struct tsp_range range;
    uint32_t column; /* the next sample to be written */
    struct text *to;
};

/* As history_query_2d() has them. */
static uint64_t sample_ns(const struct tsp_range *range, uint32_t column)
{
    return range->from_ns +
           (uint64_t)((unsigned __int128)column * (range->to_ns - range->from_ns) / range->columns);
}

static void add_samples(struct line *line, uint64_t until_ns, double value)
{
    for (; line->column < line->range.columns && sample_ns(&line->range, line->column) < until_ns;
         line->column++) {
        text_add(line->to, line->column ? "," : "");
        tsp_add_number(line->to, value);
    }
}

static int add_value(void *context, const struct history_interval *state)
{
    struct line *line = context;
    add_samples(line, state->start_ns, 0); /* nothing was counted yet */
    add_samples(line, state->end_ns,
                state->value.type == HISTORY_INT      ? (double)state->value.integer
                : state->value.type == HISTORY_DOUBLE ? state->value.number
                                                      : 0);
    return line->to->failed ? -ENOMEM : 0;
}

static int add_line(struct tsp_view *view, size_t row, const struct tsp_range *range, struct text *to)
{
    struct line line = {.range = *range, .to = to};
    char name[192];
    snprintf(name, sizeof(name), "%s: %s", view->rows[row].group, view->rows[row].name);
    text_addf(to, "{\"seriesId\":%" PRIu64 ",\"seriesName\":", tsp_row_id(row));
    page_json_string(to, name);
    text_add(to, ",\"xValues\":[");
    for (uint32_t i = 0; i < range->columns; i++)
        text_addf(to, "%s%" PRIu64, i ? "," : "", sample_ns(range, i));
    text_add(to, "],\"yValues\":[");
    int r = history_query_2d(view->history, &view->rows[row].quark, 1, range->from_ns, range->to_ns,
                             range->columns, add_value, &line, &view->problem);
    add_samples(&line, UINT64_MAX, 0);
    text_addf(to,
              "],\"style\":{\"values\":{\"series-type\":\"line\",\"color\":\"%s\",\"width\":1.5}},"
              "\"xValuesDescription\":{\"label\":\"Time\",\"unit\":\"ns\",\"dataType\":\"TIMESTAMP\"},"
              "\"yValuesDescription\":{\"label\":",
              tsp_colour(name));
    page_json_string(to, view->rows[row].name);
    text_add(to, ",\"unit\":\"\",\"dataType\":\"NUMBER\"}}");
    return r < 0 ? r : 0;
}

int tsp_counts(struct tsp_view *view, const json_t *parameters, struct text *to)
{
    struct tsp_range range;
    _cleanup_(freep) size_t *rows = NULL;
    size_t count;
    int r = tsp_range(view, parameters, &range);
    if (r == 0)
        r = tsp_items(view, parameters, &rows, &count);
    if (r < 0)
        return r;
    if (range.to_ns == range.from_ns)
        count = 0;
    else /* no two samples at the same time */
        range.columns = (uint32_t)MIN(range.columns, range.to_ns - range.from_ns);
    tsp_range_limit(&range, count);
    text_add(to, "{\"title\":\"Counts\",\"series\":[");
    for (size_t i = 0; r == 0 && i < count; i++) {
        text_add(to, i ? "," : "");
        r = add_line(view, rows[i], &range, to);
    }
    text_add(to, "]}");
    return r;
}

/* ---- shares ---- */

static void add_share(const struct tsp_view *view, struct text *to, uint64_t id, uint64_t parent,
                      const char *name, uint64_t held_ns, uint64_t of_ns)
{
    char duration[64], percent[32];
    clock_format_duration(held_ns, duration, sizeof(duration));
    snprintf(percent, sizeof(percent), "%.2g %%", of_ns ? 100.0 * (double)held_ns / (double)of_ns : 0);
    text_add(to, ",");
    tsp_entry(view, to, id, (int64_t)parent, false, false, (const char *[]){name, duration, percent, NULL});
}

/* A row's values; what the summary does not tell apart is one entry. Ids follow behind those of rows. */
static void add_shares(const struct tsp_view *view, size_t row, const struct history_summary *summary,
                       struct text *to)
{
    uint64_t id = tsp_root_id(view) + 1 + row * (HISTORY_SHARES + 1),
             of_ns = summary->end_ns - summary->start_ns;
    char buffer[40];
    for (uint32_t i = 0; i < summary->shares; i++) {
        struct history_value value = summary->share[i].value;
        add_share(view, to, id + i, tsp_row_id(row),
                  value.type == HISTORY_NULL ? "(nothing)" : tsp_words(value, buffer, sizeof(buffer)),
                  summary->share[i].held_ns, of_ns);
    }
    if (summary->other_ns)
        add_share(view, to, id + HISTORY_SHARES, tsp_row_id(row), "(others)", summary->other_ns, of_ns);
}

int tsp_shares_tree(struct tsp_view *view, const json_t *parameters, struct text *to)
{
    static const char HEADERS[] =
        "{\"headers\":["
        "{\"name\":\"Name\",\"tooltip\":\"Process, row, and what it was\",\"dataType\":\"STRING\"},"
        "{\"name\":\"Time\",\"tooltip\":\"How long altogether\",\"dataType\":\"STRING\"},"
        "{\"name\":\"Share\",\"tooltip\":\"Of the time asked for\",\"dataType\":\"STRING\"}"
        "],\"autoExpandLevel\":1,\"entries\":[";
    struct tsp_range range = {.from_ns = view->start_ns, .to_ns = view->end_ns};
    _cleanup_(freep) struct history_summary *shares = NULL;
    size_t first = 0;
    int r = json_object_get(parameters, "requested_timerange") ? tsp_range(view, parameters, &range) : 0;
    if (r == 0)
        r = summarize(view, range.from_ns, range.to_ns, &shares);
    if (r < 0)
        return r;
    text_add(to, HEADERS);
    tsp_entry(view, to, tsp_root_id(view), -1, false, false, (const char *[]){view->name, "", "", NULL});
    for (size_t i = 0; i < view->row_count; i++) {
        uint64_t group = tsp_group_id(view, i, &first);
        if (first == i) {
            text_add(to, ",");
            tsp_entry(view, to, group, (int64_t)tsp_root_id(view), false, false,
                      (const char *[]){view->rows[i].group, "", "", NULL});
        }
        text_add(to, ",");
        tsp_entry(view, to, tsp_row_id(i), (int64_t)group, false, false,
                  (const char *[]){view->rows[i].name, "", "", NULL});
        add_shares(view, i, &shares[i], to);
    }
    text_add(to, "]}");
    return 0;
}
