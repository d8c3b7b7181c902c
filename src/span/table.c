/* See table.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/table.h"

#include <errno.h>

#include "base/macro.h"
#include "span/csv.h"

struct table {
    struct arena arena;
    struct names keys;         /* values of the first column: a row's number */
    ARRAY(struct slice) cells; /* column_count to a row; the header is row 0 of `columns` */
    struct slice columns[CSV_COLUMNS_MAX];
    size_t column_count;
};

static int read_rows(struct table *table, const char *at, const char *end, struct problem *problem)
{
    struct slice cells[CSV_COLUMNS_MAX];
    size_t count;
    int r = csv_record(&at, end, &table->arena, table->columns, &table->column_count);
    if (r < 0)
        return r;
    if (r == 0 || table->column_count < 2) {
        problem_set(problem, -EINVAL, "the table has no header with at least two columns");
        problem_remedy(problem,
                       "The first column is what to join by, such as `host.name,hardware.generation`.");
        return -EINVAL;
    }
    while ((r = csv_record(&at, end, &table->arena, cells, &count)) > 0) {
        size_t rows = table->keys.strings.count;
        if (names_put(&table->keys, cells[0]) != rows)
            continue; /* the first row of a key stands */
        for (size_t i = 1; i < table->column_count; i++)
            if (array_add(&table->cells, i < count ? cells[i] : (struct slice){0}) < 0)
                return -ENOMEM;
    }
    return r;
}

int table_read(const char *text, size_t length, struct table **ret_table, struct problem *problem)
{
    struct table *table = calloc(1, sizeof(*table));
    if (!table)
        return -ENOMEM;
    char *copy = arena_strndup(&table->arena, text, length);
    int r = copy ? read_rows(table, copy, copy + length, problem) : -ENOMEM;
    if (r < 0) {
        table_free(table);
        return r;
    }
    *ret_table = table;
    return 0;
}

static struct slice join_value(const struct table *table, const struct span_resource *resource)
{
    struct slice by = table->columns[0];
    if (slice_is(by, "service.name"))
        return resource->service;
    for (size_t i = 0; i < resource->attribute_count; i++)
        if (slice_equal(resource->attributes[i].key, by))
            return resource->attributes[i].value;
    return slice_is(by, "host.name") || slice_is(by, "host") ? resource->host : (struct slice){0};
}

size_t table_join(const struct table *table, const struct span_resource *resource, struct span_attribute *to,
                  size_t room)
{
    struct slice value = join_value(table, resource);
    uint32_t row = value.length ? names_find(&table->keys, value) : NAMES_NONE;
    if (row == NAMES_NONE)
        return 0;
    size_t n = 0, columns = table->column_count - 1;
    for (size_t i = 0; i < columns && n < room; i++) {
        struct slice cell = table->cells.at[row * columns + i];
        if (cell.length)
            to[n++] = (struct span_attribute){table->columns[i + 1], cell};
    }
    return n;
}

void table_free(struct table *table)
{
    if (!table)
        return;
    arena_done(&table->arena);
    names_done(&table->keys);
    array_done(&table->cells);
    free(table);
}
