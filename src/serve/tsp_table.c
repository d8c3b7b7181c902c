/* The table of the Trace Server: all requests in the order in which they began. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "page/page.h"
#include "serve/tsp_view.h"

enum { LINES_MAX = 5000, EXPRESSION_MAX = 256, TAG_HIGHLIGHT = 8, CELL = 512 };

enum column { TIMESTAMP, START, LATENCY, SERVICE, METHOD, ROUTE, PATH, STATUS, MOSTLY, REQUEST, COLUMNS };

/* Viewers look for the times of lines in a column that is called "Timestamp ns". */
static const struct {
    const char *name, *tooltip, *type;
} HEADERS[COLUMNS] = {[TIMESTAMP] = {"Timestamp ns", "When it began", "TIMESTAMP"},
                      [START] = {"Began after", "The beginning of the recording", "STRING"},
                      [LATENCY] = {"Latency", "Until its response was written", "STRING"},
                      [SERVICE] = {"Service", "Who answered it", "STRING"},
                      [METHOD] = {"Method", "", "STRING"},
                      [ROUTE] = {"Route", "", "STRING"},
                      [PATH] = {"Path", "", "STRING"},
                      [STATUS] = {"Status", "", "STRING"},
                      [MOSTLY] = {"Mostly", "What took most of its time", "STRING"},
                      [REQUEST] = {"Request", "Its name in sonde", "STRING"}};

int tsp_table_columns(struct tsp_view *view, const json_t *parameters, struct text *to)
{
    text_add(to, "[");
    for (int i = 0; i < COLUMNS; i++)
        text_addf(to, "%s{\"id\":%d,\"name\":\"%s\",\"description\":\"%s\",\"type\":\"%s\"}", i ? "," : "", i,
                  HEADERS[i].name, HEADERS[i].tooltip, HEADERS[i].type);
    text_add(to, "]");
    return 0;
}

/* ---- what is asked for ---- */

struct asked {
    uint64_t index, count;
    enum column columns[COLUMNS];
    size_t column_count;
    regex_t expressions[COLUMNS]; /* of a column */
    bool searched[COLUMNS];
    int direction; /* +1, -1: to the next or previous match; 0: no search, matches are only marked */
};

static void asked_done(struct asked *asked)
{
    for (int i = 0; i < COLUMNS; i++)
        if (asked->searched[i])
            regfree(&asked->expressions[i]);
}

/* What makes an expression cost more than its length times that of the text is refused. */
static bool is_cheap(const char *expression)
{
    size_t length = strlen(expression);
    for (size_t i = 0; i < length; i++)
        if (expression[i] == '{' ||
            (expression[i] == '\\' && expression[i + 1] >= '0' && expression[i + 1] <= '9'))
            return false;
    return length <= EXPRESSION_MAX;
}

static int take_search(struct tsp_view *view, const json_t *parameters, struct asked *asked)
{
    const char *direction = json_string_value(json_object_get(parameters, "table_search_direction")), *key;
    json_t *expression;
    bool any = false;
    json_object_foreach (json_object_get(parameters, "table_search_expressions"), key, expression) {
        char *end;
        unsigned long column = strtoul(key, &end, 10);
        const char *text = json_string_value(expression);
        if (end == key || *end || column >= COLUMNS || !text || asked->searched[column])
            return problem_set(&view->problem, -EINVAL, "there is no column '%.40s' to search", key);
        if (!is_cheap(text) ||
            regcomp(&asked->expressions[column], text, REG_EXTENDED | REG_ICASE | REG_NOSUB))
            return problem_set(&view->problem, -EINVAL,
                               "'%.80s' is no regular expression of at most %d characters without bounds and "
                               "back references",
                               text, EXPRESSION_MAX);
        any = asked->searched[column] = true;
    }
    if (any && direction)
        asked->direction = strcmp(direction, "PREVIOUS") == 0 ? -1 : 1;
    return 0;
}

static void take_columns(const json_t *parameters, struct asked *asked)
{
    const json_t *ids = json_object_get(parameters, "requested_table_column_ids"), *id;
    size_t i;
    json_array_foreach (ids, i, id) {
        int64_t column;
        if (asked->column_count < COLUMNS && tsp_integer(id, &column) && column >= 0 && column < COLUMNS)
            asked->columns[asked->column_count++] = (enum column)column;
    }
    for (i = 0; !asked->column_count && i < COLUMNS; i++)
        asked->columns[i] = (enum column)i;
    asked->column_count = asked->column_count ? asked->column_count : COLUMNS;
}

/* The first request that begins at a time or later. */
static size_t index_at(const struct requests *requests, uint64_t time_ns)
{
    size_t low = 0, high = requests_count(requests);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct request_facts facts;
        requests_get(requests, middle, &facts);
        if (facts.start_ns < time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int take_asked(struct tsp_view *view, const json_t *parameters, const struct requests *requests,
                      struct asked *asked)
{
    const json_t *times = json_object_get(parameters, "requested_times");
    int64_t index, count;
    bool by_time = json_is_array(times) && json_array_size(times);
    if (!tsp_integer(json_object_get(parameters, "requested_table_count"), &count) || count < 0 ||
        !tsp_integer(by_time ? json_array_get(times, 0)
                             : json_object_get(parameters, "requested_table_index"),
                     &index))
        return problem_set(&view->problem, -EINVAL,
                           "requested_table_count, and requested_table_index or requested_times, are needed");
    asked->count = MIN((uint64_t)count, LINES_MAX);
    asked->index = (uint64_t)MAX(index, 0);
    if (by_time)
        asked->index = requests ? index_at(requests, asked->index) : 0;
    take_columns(parameters, asked);
    return take_search(view, parameters, asked);
}

/* ---- lines ---- */

static const char *cell(const struct tsp_view *view, const struct request_facts *facts, enum column column,
                        char buffer[CELL])
{
    const char *const TEXTS[COLUMNS] = {
        [SERVICE] = facts->service, [METHOD] = facts->method,   [ROUTE] = facts->route,
        [PATH] = facts->path,       [MOSTLY] = facts->dominant, [REQUEST] = facts->name};
    if (TEXTS[column])
        return TEXTS[column];
    buffer[0] = '\0';
    if (column == TIMESTAMP)
        snprintf(buffer, CELL, "%" PRIu64, facts->start_ns);
    else if (column == START)
        clock_format_duration(facts->start_ns - MIN(view->start_ns, facts->start_ns), buffer, CELL);
    else if (column == LATENCY)
        clock_format_duration(facts->latency_ns, buffer, CELL);
    else if (column == STATUS && facts->status)
        snprintf(buffer, CELL, "%u", facts->status);
    else if (column == STATUS)
        snprintf(buffer, CELL, "%s", facts->state);
    return buffer;
}

/* True when every searched column fits; false when none is searched. */
static bool fits(const struct tsp_view *view, struct asked *asked, const struct request_facts *facts)
{
    bool any = false;
    char buffer[CELL];
    for (int i = 0; i < COLUMNS; i++) {
        if (!asked->searched[i])
            continue;
        if (regexec(&asked->expressions[i], cell(view, facts, (enum column)i, buffer), 0, NULL, 0))
            return false;
        any = true;
    }
    return any;
}

/* The next or previous line that fits, from the index on; false when there is none. */
static bool search(const struct tsp_view *view, const struct requests *requests, struct asked *asked)
{
    size_t total = requests_count(requests);
    struct request_facts facts;
    if (asked->direction < 0 && total)
        asked->index = MIN(asked->index, total - 1);
    for (; asked->index < total; asked->index += (uint64_t)(int64_t)asked->direction) { /* below 0: the end */
        requests_get(requests, asked->index, &facts);
        if (fits(view, asked, &facts))
            return true;
    }
    return false;
}

static void add_line(const struct tsp_view *view, struct asked *asked, const struct request_facts *facts,
                     uint64_t index, struct text *to)
{
    char buffer[CELL];
    text_addf(to, "{\"index\":%" PRIu64, index);
    if (fits(view, asked, facts))
        text_addf(to, ",\"tags\":%d", TAG_HIGHLIGHT);
    text_add(to, ",\"cells\":[");
    for (size_t i = 0; i < asked->column_count; i++) {
        text_add(to, i ? ",{\"content\":" : "{\"content\":");
        page_json_string(to, cell(view, facts, asked->columns[i], buffer));
        text_add(to, "}");
    }
    text_add(to, "]}");
}

static void add_lines(const struct tsp_view *view, const struct requests *requests, struct asked *asked,
                      struct text *to)
{
    size_t total = requests ? requests_count(requests) : 0;
    bool found = requests && (!asked->direction || search(view, requests, asked));
    text_addf(to, "{\"lowIndex\":%" PRIu64 ",\"size\":%zu,\"columnIds\":[",
              MIN(asked->index, (uint64_t)total), total);
    for (size_t i = 0; i < asked->column_count; i++)
        text_addf(to, "%s%d", i ? "," : "", asked->columns[i]);
    text_add(to, "],\"lines\":[");
    for (uint64_t i = 0; found && i < asked->count && asked->index + i < total; i++) {
        struct request_facts facts;
        requests_get(requests, asked->index + i, &facts);
        text_add(to, i ? "," : "");
        add_line(view, asked, &facts, asked->index + i, to);
    }
    text_add(to, "]}");
}

int tsp_table_lines(struct tsp_view *view, const json_t *parameters, struct text *to)
{
    const struct requests *requests = source_requests(view->source);
    struct asked asked = {0};
    int r = take_asked(view, parameters, requests, &asked);
    if (r == 0)
        add_lines(view, requests, &asked, to);
    asked_done(&asked);
    return r;
}
