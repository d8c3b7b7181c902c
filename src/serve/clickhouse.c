/* See clickhouse.h. There are no transactions, but one INSERT of one block is whole or not there. So each
 * commit is one INSERT, and every row carries the position in the journal that its commit reached: the newest
 * of them is what the store has. Rows go in as RowBinary: integers little-endian, strings behind their length
 * as LEB128. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/clickhouse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http/client.h"

#define COMMIT_SPANS   100000 /* below ClickHouse's size of one block */
#define TIMEOUT_MS     60000
#define MUTATION_LOOKS 300 /* a tenth of a second apart */
#define ERROR_SHOWN    200

static const char *const TABLES[] = {
    "CREATE TABLE IF NOT EXISTS spans (trace_high UInt64, trace_low UInt64, id UInt64, parent UInt64, "
    "start_ns "
    "UInt64, duration_ns UInt64, bin UInt16, kind UInt8, error UInt8, service String, version String, host "
    "String, name String, attributes String, segment UInt32, position UInt64) ENGINE = MergeTree ORDER BY "
    "(trace_low, trace_high)",
    "CREATE TABLE IF NOT EXISTS kept (trace_high UInt64, trace_low UInt64) ENGINE = MergeTree ORDER BY "
    "(trace_low, trace_high)",
    "CREATE TABLE IF NOT EXISTS journal (segment UInt32, position UInt64) ENGINE = MergeTree ORDER BY "
    "(segment, "
    "position)",
};

struct clickhouse_store {
    struct span_store store;
    char *url;
    struct text rows; /* of the batch, each but for its position, which is known at the commit */
    size_t *ends;     /* of each row in it */
    size_t count, capacity;
    struct text attributes;
};

static int post(const struct clickhouse_store *s, const char *query, const void *body, size_t length,
                struct text *answer, struct problem *problem)
{
    struct text url = {0}, own = {0};
    struct problem why = {0};
    text_add(&url, s->url);
    if (query) {
        text_addf(&url, "%squery=", strchr(s->url, '?') ? "&" : "?");
        http_escape(&url, query);
    }
    answer = answer ? answer : &own;
    size_t before = answer->length;
    int r = http_post(text_get(&url), "application/octet-stream", body, length, TIMEOUT_MS, answer, &why);
    if (r == -EPROTO)
        r = problem_set(problem, strstr(text_get(answer) + before, "No space left") ? -ENOSPC : -EIO,
                        "ClickHouse: %.*s", ERROR_SHOWN, text_get(answer) + before);
    else if (r < 0)
        r = problem_set(problem, r, "ClickHouse: %s", why.what);
    text_done(&own);
    text_done(&url);
    return r;
}

static int run(const struct clickhouse_store *s, const char *sql, struct problem *problem)
{
    return post(s, NULL, sql, strlen(sql), NULL, problem);
}

static void put_string(struct text *to, struct slice s)
{
    size_t rest = s.length;
    do {
        char byte = (char)((rest & 127) | (rest > 127 ? 128 : 0));
        text_add_bytes(to, &byte, 1);
        rest >>= 7;
    } while (rest);
    text_add_bytes(to, s.at, s.length);
}

static int append(struct span_store *store, const struct span *span)
{
    struct clickhouse_store *s = (struct clickhouse_store *)store;
    uint64_t duration = span->end_ns - span->start_ns;
    const uint64_t numbers[] = {span->trace_high, span->trace_low, span->id,
                                span->parent,     span->start_ns,  duration};
    const uint16_t bin = sketch_bin(duration);
    const uint8_t small[] = {span->kind, span->error};
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? s->capacity * 2 : 4096;
        size_t *grown = realloc(s->ends, capacity * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        s->ends = grown;
        s->capacity = capacity;
    }
    text_add_bytes(&s->rows, (const char *)numbers, sizeof(numbers));
    text_add_bytes(&s->rows, (const char *)&bin, sizeof(bin));
    text_add_bytes(&s->rows, (const char *)small, sizeof(small));
    put_string(&s->rows, span->resource->service);
    put_string(&s->rows, span->resource->version);
    put_string(&s->rows, span->resource->host);
    put_string(&s->rows, span->name);
    span_attributes_json(span, &s->attributes);
    put_string(&s->rows, (struct slice){text_get(&s->attributes), s->attributes.length});
    s->ends[s->count++] = s->rows.length;
    return s->rows.failed || s->attributes.failed ? -ENOMEM : 0;
}

static void discard(struct span_store *store)
{
    struct clickhouse_store *s = (struct clickhouse_store *)store;
    text_done(&s->rows);
    s->rows = (struct text){0};
    s->count = 0;
}

static int commit(struct span_store *store, struct journal_position position, struct problem *problem)
{
    struct clickhouse_store *s = (struct clickhouse_store *)store;
    struct text body = {0};
    for (size_t i = 0; i < s->count; i++) {
        size_t from = i ? s->ends[i - 1] : 0;
        text_add_bytes(&body, text_get(&s->rows) + from, s->ends[i] - from);
        text_add_bytes(&body, (const char *)&position.segment, sizeof(position.segment));
        text_add_bytes(&body, (const char *)&position.offset, sizeof(position.offset));
    }
    int r = body.failed ? -ENOMEM : 0;
    if (r == 0 && s->count)
        r = post(s, "INSERT INTO spans FORMAT RowBinary", text_get(&body), body.length, NULL, problem);
    discard(store);
    text_done(&body);
    return r;
}

static void add_json_string(struct text *to, const char *tsv, size_t length)
{
    static const char from[] = "btnfr0", into[] = "\b\t\n\f\r\0";
    struct text plain = {0};
    for (size_t i = 0; i < length; i++) {
        const char *known = tsv[i] == '\\' && i + 1 < length ? strchr(from, tsv[i + 1]) : NULL;
        i += tsv[i] == '\\' && i + 1 < length;
        text_add_bytes(&plain, known && *known ? &into[known - from] : &tsv[i], 1);
    }
    span_json_string(to, (struct slice){text_get(&plain), plain.length});
    text_done(&plain);
}

/* A line of tab-separated cells as a JSON object, with the names from the first line. */
static void add_row(struct text *to, const char *names, const char *cells)
{
    text_add(to, "{");
    for (bool first = true; *names && *names != '\n'; first = false) {
        size_t n = strcspn(names, "\t\n"), m = strcspn(cells, "\t\n");
        text_add(to, first ? "" : ",");
        add_json_string(to, names, n);
        text_add(to, ":");
        if (m == 2 && memcmp(cells, "\\N", 2) == 0)
            text_add(to, "null");
        else
            add_json_string(to, cells, m);
        names += n + (names[n] == '\t');
        cells += m + (cells[m] == '\t');
    }
    text_add(to, "}\n");
}

static int query(struct span_store *store, const char *sql, struct text *to, struct problem *problem)
{
    const struct clickhouse_store *s = (const struct clickhouse_store *)store;
    struct text whole = {0}, answer = {0};
    text_addf(&whole, "%s FORMAT TabSeparatedWithNames", sql);
    int r = post(s, NULL, text_get(&whole), whole.length, &answer, problem);
    const char *names = text_get(&answer), *line = r == 0 ? strchr(names, '\n') : NULL;
    for (line = line ? line + 1 : ""; *line; line += strcspn(line, "\n"), line += *line == '\n')
        add_row(to, names, line);
    text_done(&whole);
    text_done(&answer);
    return r < 0 ? r : to->failed ? -ENOMEM : 0;
}

/* Of the rows and of what was noted when rows were removed. */
static int position(struct span_store *store, struct journal_position *ret_position, struct problem *problem)
{
    struct text row = {0};
    struct journal_position at = {0};
    unsigned segment;
    unsigned long long offset;
    int r =
        query(store,
              "SELECT segment, max(position) AS p FROM (SELECT segment, position FROM spans UNION ALL SELECT "
              "segment, position FROM journal) GROUP BY segment ORDER BY segment DESC LIMIT 1",
              &row, problem);
    if (r == 0 && row.length) {
        if (sscanf(text_get(&row), "{\"segment\":\"%u\",\"p\":\"%llu\"}", &segment, &offset) == 2)
            at = (struct journal_position){segment, offset};
        else
            r = problem_set(problem, -EBADMSG, "ClickHouse: no position in %.60s", text_get(&row));
    }
    if (r == 0)
        *ret_position = at;
    text_done(&row);
    return r;
}

static int wait_for_mutations(struct clickhouse_store *s, struct problem *problem)
{
    for (int look = 0; look < MUTATION_LOOKS; look++) {
        struct text row = {0};
        int r =
            query(&s->store,
                  "SELECT count() AS n FROM system.mutations WHERE database = currentDatabase() AND table = "
                  "'spans' AND is_done = 0",
                  &row, problem);
        bool done = r == 0 && strcmp(text_get(&row), "{\"n\":\"0\"}\n") == 0;
        text_done(&row);
        if (r < 0 || done)
            return r;
        nanosleep(&(struct timespec){0, 100000000}, NULL);
    }
    return 0; /* it goes on behind */
}

static int expire(struct span_store *store, uint64_t before_ns, const struct trace_id *keep,
                  size_t keep_count, struct problem *problem)
{
    struct clickhouse_store *s = (struct clickhouse_store *)store;
    struct journal_position at;
    struct text sql = {0};
    int r = position(store, &at, problem);
    text_addf(&sql, "INSERT INTO journal VALUES (%u, %llu)", at.segment, (unsigned long long)at.offset);
    if (r == 0)
        r = run(s, text_get(&sql), problem);
    text_clear(&sql);
    for (size_t i = 0; i < keep_count; i++)
        text_addf(&sql, "%s(%llu, %llu)", i ? ", " : "INSERT INTO kept VALUES ",
                  (unsigned long long)keep[i].high, (unsigned long long)keep[i].low);
    if (r == 0 && keep_count)
        r = run(s, text_get(&sql), problem);
    text_clear(&sql);
    text_addf(&sql,
              "ALTER TABLE spans DELETE WHERE start_ns < %llu AND (trace_high, trace_low) NOT IN (SELECT "
              "trace_high, trace_low FROM kept)",
              (unsigned long long)before_ns);
    if (r == 0)
        r = run(s, text_get(&sql), problem);
    if (r == 0)
        r = wait_for_mutations(s, problem);
    text_done(&sql);
    return r;
}

static int size(struct span_store *store, uint64_t *ret_bytes, struct problem *problem)
{
    struct text row = {0};
    unsigned long long bytes;
    int r = query(store,
                  "SELECT sum(bytes_on_disk) AS b FROM system.parts WHERE active AND database = "
                  "currentDatabase() AND table = 'spans'",
                  &row, problem);
    if (r == 0 && sscanf(text_get(&row), "{\"b\":\"%llu\"}", &bytes) != 1)
        r = problem_set(problem, -EBADMSG, "ClickHouse does not state the size");
    if (r == 0)
        *ret_bytes = bytes;
    text_done(&row);
    return r;
}

static void close_store(struct span_store *store)
{
    struct clickhouse_store *s = (struct clickhouse_store *)store;
    text_done(&s->rows);
    text_done(&s->attributes);
    free(s->ends);
    free(s->url);
    free(s);
}

static const struct span_store_operations OPERATIONS = {append, commit, discard, position,
                                                        query,  expire, size,    close_store};

int clickhouse_store_open(const char *url, struct span_store **ret_store, struct problem *problem)
{
    struct clickhouse_store *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->store.operations = &OPERATIONS;
    s->store.commit_spans = COMMIT_SPANS;
    s->url = strdup(url);
    int r = s->url ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(TABLES); i++)
        r = run(s, TABLES[i], problem);
    if (r < 0) {
        close_store(&s->store);
        return r;
    }
    *ret_store = &s->store;
    return 0;
}
