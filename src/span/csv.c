/* See csv.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/csv.h"

#include <errno.h>

/* A cell in quotes; *at is behind the opening quote, then behind the closing one. */
static int quoted(const char **at, const char *end, struct arena *scratch, struct slice *ret_cell)
{
    const char *from = *at, *p = from;
    bool doubled = false;
    for (; p < end; p++) {
        if (*p != '"')
            continue;
        if (p + 1 >= end || p[1] != '"')
            break;
        doubled = true;
        p++;
    }
    *at = p < end ? p + 1 : end;
    *ret_cell = (struct slice){from, (size_t)(p - from)};
    if (!doubled)
        return 0;
    char *copy = arena_alloc(scratch, ret_cell->length);
    if (!copy)
        return -ENOMEM;
    size_t n = 0;
    for (const char *q = from; q < p; q++) {
        copy[n++] = *q;
        q += *q == '"';
    }
    *ret_cell = (struct slice){copy, n};
    return 0;
}

int csv_record(const char **at, const char *end, struct arena *scratch, struct slice *cells,
               size_t *ret_count)
{
    size_t n = 0;
    const char *p = *at;
    while (p < end && (*p == '\n' || *p == '\r'))
        p++;
    if (p >= end) {
        *at = p;
        return 0;
    }
    for (;;) {
        struct slice cell = {p, 0};
        if (p < end && *p == '"') {
            p++;
            int r = quoted(&p, end, scratch, &cell);
            if (r < 0)
                return r;
            while (p < end && *p != ',' && *p != '\n')
                p++;
        } else {
            while (p < end && *p != ',' && *p != '\n')
                p++;
            cell.length = (size_t)(p - cell.at);
            if (cell.length && cell.at[cell.length - 1] == '\r')
                cell.length--;
        }
        if (n < CSV_COLUMNS_MAX)
            cells[n++] = cell;
        if (p >= end || *p == '\n')
            break;
        p++;
    }
    *at = p < end ? p + 1 : end;
    *ret_count = n;
    return 1;
}

int csv_decode(const char *text, size_t length, const struct mapping *mapping, struct span_sink *sink,
               struct problem *problem)
{
    static const struct mapping guess_all;
    struct slice cells[CSV_COLUMNS_MAX];
    struct arena header = {0}, scratch = {0};
    struct mapped mapped;
    size_t count = 0;
    const char *at = text, *end = text + length;
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        at += 3;
    int r = csv_record(&at, end, &header, cells, &count);
    if (r > 0)
        r = mapping_apply(mapping ? mapping : &guess_all, cells, count, &mapped, problem);
    else if (r == 0)
        r = problem_set(problem, -EINVAL, "CSV: the file is empty");
    while (r >= 0 && (r = csv_record(&at, end, &scratch, cells, &count)) > 0) {
        r = mapping_row(&mapped, cells, count, sink);
        if (scratch.held_bytes > (1u << 20))
            arena_done(&scratch);
    }
    arena_done(&header);
    arena_done(&scratch);
    return r;
}
