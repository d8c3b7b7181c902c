/* What sonde's search names as the cause of more errors (src/diagnose/error_cause.c), in tables that other
 * methods read: a row for each combination of attribute values and period. bench/causes_public.py makes them.
 *
 *     cause_tables FILE...
 *
 * A file has a head, "period DISPERSION,KEY...,requests,errors", and rows; period 0 is judged, the others are
 * what was usual. Prints a line for each: "key=value&key=value", or nothing. DISPERSION is how much more
 * errors vary than chance makes them; where it is 0, periods show it, as hosts do elsewhere. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/book.h"
#include "diagnose/error_cause.h"

enum { KEYS_MAX = 32, LINE_MAX_BYTES = 4096, PRIOR_FREEDOM = 4, EXPECTED_MIN = 1 };

struct row {
    uint32_t period, labels;
    uint64_t requests, errors;
};

struct table {
    struct names names;
    struct labels labels;
    struct book book;
    ARRAY(struct row) rows;
    double dispersion; /* 0: from the periods */
};

static void must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "cause_tables: %s\n", what);
        exit(1);
    }
}

static size_t split(char *line, char **fields)
{
    size_t n = 0;
    for (char *field = strtok(line, ",\r\n"); field && n < KEYS_MAX; field = strtok(NULL, ",\r\n"))
        fields[n++] = field;
    return n;
}

static void read_table(const char *name, struct table *t)
{
    FILE *file = fopen(name, "re");
    char head[LINE_MAX_BYTES], line[LINE_MAX_BYTES], *keys[KEYS_MAX], *fields[KEYS_MAX];
    must(file && fgets(head, sizeof(head), file), name);
    size_t columns = split(head, keys);
    must(columns > 3, "too few columns");
    t->dispersion = strncmp(keys[0], "period ", 7) == 0 ? strtod(keys[0] + 7, NULL) : 0;
    while (fgets(line, sizeof(line), file)) {
        struct label set[KEYS_MAX]; /* of this row */
        must(split(line, fields) == columns, "a row has another number of columns");
        for (size_t i = 1; i + 2 < columns; i++)
            must(labels_put(&t->labels, slice_of(keys[i]), slice_of(fields[i]), &set[i - 1]),
                 "too many values");
        struct row row = {.period = (uint32_t)atoi(fields[0]),
                          .requests = strtoull(fields[columns - 2], NULL, 10),
                          .errors = strtoull(fields[columns - 1], NULL, 10)};
        must(labels_set(&t->labels, set, columns - 3, &row.labels) == 0 && array_add(&t->rows, row) == 0,
             "no memory");
    }
    fclose(file);
}

/* The usual periods of each set of labels about their own share: Pearson's statistic over its degrees of
 * freedom, as errors.c finds it from hosts. */
static double find_dispersion(const struct table *t)
{
    double sum = PRIOR_FREEDOM, freedom = PRIOR_FREEDOM;
    struct map seen = {0};
    array_foreach (&t->rows, r) {
        bool added;
        double requests = 0, errors = 0, periods = 0, squares = 0;
        must(map_put(&seen, r->labels, &added), "no memory");
        if (!added)
            continue;
        array_foreach (&t->rows, other)
            if (other->period && other->labels == r->labels) {
                requests += (double)other->requests;
                errors += (double)other->errors;
            }
        double share = requests > 0 ? errors / requests : 0;
        array_foreach (&t->rows, other) {
            double expected = (double)other->requests * share;
            if (!other->period || other->labels != r->labels || expected < EXPECTED_MIN || share >= 1)
                continue;
            squares += pow((double)other->errors - expected, 2) / (expected * (1 - share));
            periods++;
        }
        sum += squares;
        freedom += periods > 1 ? periods - 1 : 0;
    }
    map_done(&seen);
    return fmax(sum / freedom, 1);
}

static void add_cells(struct table *t)
{
    array_foreach (&t->rows, r) {
        struct cell cell = {.combination = r->period == 0, .labels = r->labels, .errors = r->errors};
        for (uint64_t i = 0; i < r->requests; i++)
            must(sketch_add(&cell.latency, 1000) == 0, "no memory");
        cell.errors = r->errors < r->requests ? r->errors : r->requests;
        must(array_add(&t->book.cells, cell) == 0, "no memory");
    }
}

static int is_newer(void *context, uint32_t combination)
{
    (void)context;
    return (int)combination;
}

static void name_cause(const char *file)
{
    struct table t = {0};
    struct error_cause cause, part;
    book_init(&t.book, &t.names, &t.labels, &(struct book_settings){0});
    read_table(file, &t);
    uint32_t none;
    must(labels_set(&t.labels, NULL, 0, &none) == 0, "no memory");
    add_cells(&t);
    struct excess_of of = {.type = 0, .labels = none, .is_newer = is_newer};
    must(error_cause_search(&t.book, &of, t.dispersion > 0 ? t.dispersion : find_dispersion(&t), &cause,
                            &part) == 0,
         "no memory");
    for (size_t i = 0; i < cause.cause.length; i++)
        printf("%s%s=%s", i ? "&" : "", labels_key_name(&t.labels, cause.cause.labels[i].key),
               labels_value_name(&t.labels, cause.cause.labels[i].key, cause.cause.labels[i].value));
    printf("\n");
    array_done(&t.rows);
    book_done(&t.book);
    labels_done(&t.labels);
    names_done(&t.names);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        name_cause(argv[i]);
    return 0;
}
