/* See store.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/store.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 8

/* A JSON string's text in place, from behind its opening quote; returns what follows the closing one, or
 * NULL. Of the escapes, \uXXXX is the one that stores write for control characters, quotes and backslashes.
 */
static char *unescape(char *at)
{
    char *to = at;
    for (; *at && *at != '"'; at++) {
        if (*at != '\\') {
            *to++ = *at;
            continue;
        }
        at++;
        if (*at == 'u') {
            char digits[5] = {0};
            for (int i = 0; i < 4 && isxdigit((unsigned char)at[1 + i]); i++)
                digits[i] = at[1 + i];
            *to++ = (char)strtoul(digits, NULL, 16);
            at += strlen(digits);
        } else if (*at) {
            *to++ = *at == 'n' ? '\n' : *at == 't' ? '\t' : *at == 'r' ? '\r' : *at;
        } else {
            return NULL;
        }
    }
    if (!*at)
        return NULL;
    *to = '\0';
    return at + 1;
}

size_t span_store_row(char *line, const char **ret_values, size_t room)
{
    size_t n = 0;
    char *at = strchr(line, '{');
    while (at && n < room && (at = strchr(at, '"'))) {
        char *behind = unescape(at + 1); /* the key */
        if (!behind || behind[0] != ':' || behind[1] != '"')
            break;
        ret_values[n] = behind + 2;
        at = unescape(behind + 2);
        n += at != NULL;
    }
    return n;
}

/* The group that rows are added to; rows come ordered by group. */
struct grouping {
    char *values[COLUMNS_MAX];
    size_t count;
    struct sketch sketch;
    int (*take)(void *context, const char *const *values, size_t count, const struct sketch *sketch);
    void *context;
};

static void forget(struct grouping *g)
{
    for (size_t i = 0; i < g->count; i++)
        free(g->values[i]);
    g->count = 0;
    sketch_done(&g->sketch);
}

static int end_group(struct grouping *g)
{
    int r = g->count ? g->take(g->context, (const char *const *)g->values, g->count, &g->sketch) : 0;
    forget(g);
    return r;
}

static int add_row(struct grouping *g, const char **values, size_t columns)
{
    bool same = g->count == columns;
    for (size_t i = 0; same && i < columns; i++)
        same = strcmp(g->values[i], values[i]) == 0;
    if (!same) {
        int r = end_group(g);
        if (r < 0)
            return r;
        for (; g->count < columns; g->count++)
            if (!(g->values[g->count] = strdup(values[g->count])))
                return -ENOMEM;
    }
    unsigned long bin = strtoul(values[columns], NULL, 10);
    if (bin >= SKETCH_BINS)
        return -EBADMSG;
    return sketch_add_bin(&g->sketch, (uint16_t)bin, strtoull(values[columns + 1], NULL, 10));
}

int span_store_sketches(struct span_store *store, const char *columns,
                        int (*take)(void *context, const char *const *values, size_t count,
                                    const struct sketch *sketch),
                        void *context, struct problem *problem)
{
    struct grouping g = {.take = take, .context = context};
    struct text sql = {0}, rows = {0};
    size_t wanted = 1;
    for (const char *p = columns; *p; p++) {
        if (!isalnum((unsigned char)*p) && *p != '_' && *p != ',')
            return problem_set(problem, -EINVAL, "columns are names with commas between them");
        wanted += *p == ',';
    }
    if (wanted > COLUMNS_MAX - 2)
        return problem_set(problem, -EINVAL, "at most %d columns", COLUMNS_MAX - 2);
    text_addf(&sql, "SELECT %s, bin, count(*) AS n FROM spans GROUP BY %s, bin ORDER BY %s, bin", columns,
              columns, columns);
    int r = store->operations->query(store, text_get(&sql), &rows, problem);
    char *all = text_take(&rows), *rest = all, *line;
    while (r == 0 && rest && (line = strsep(&rest, "\n"))) {
        const char *values[COLUMNS_MAX];
        if (!*line)
            continue;
        r = span_store_row(line, values, COLUMNS_MAX) == wanted + 2 ? add_row(&g, values, wanted) : -EBADMSG;
    }
    if (r == 0)
        r = end_group(&g);
    forget(&g);
    free(all);
    text_done(&sql);
    return r;
}

void span_json_string(struct text *to, struct slice s)
{
    text_add(to, "\"");
    size_t plain = 0;
    for (size_t i = 0; i <= s.length; i++) {
        unsigned char c = i < s.length ? (unsigned char)s.at[i] : '"';
        if (c >= ' ' && c != '"' && c != '\\')
            continue;
        text_add_bytes(to, s.at + plain, i - plain);
        plain = i + 1;
        if (i < s.length)
            text_addf(to, "\\u%04x", c);
    }
    text_add(to, "\"");
}

void span_attributes_json(const struct span *span, struct text *to)
{
    text_clear(to);
    text_add(to, "{");
    for (size_t i = 0; i < span->attribute_count; i++) {
        text_add(to, i ? "," : "");
        span_json_string(to, span->attributes[i].key);
        text_add(to, ":");
        span_json_string(to, span->attributes[i].value);
    }
    text_add(to, "}");
}
