/* The embedded span store: DuckDB's C API, loaded at run time. Rows go in by data chunks of 2,048 (the
 * appender); a commit is one transaction over the rows and the journal position. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/store.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "span/sketch.h"

/* DuckDB keeps what it has written in memory up to its limit, in case it is asked for. That is seldom, and
 * then it is read again. */
#define MEMORY_WRITING "64MB"
#define MEMORY_ASKING  "1GB"

/* What is used of DuckDB 1.4's duckdb.h; handles are pointers there too. */
typedef void *handle;
typedef uint64_t idx;
enum { DUCKDB_OK = 0 };
enum duckdb_type {
    TYPE_BOOLEAN = 1,
    TYPE_UTINYINT = 6,
    TYPE_USMALLINT = 7,
    TYPE_UBIGINT = 9,
    TYPE_VARCHAR = 17
};

struct duckdb_result {
    idx deprecated_column_count, deprecated_row_count, deprecated_rows_changed;
    void *deprecated_columns;
    char *deprecated_error_message;
    void *internal_data;
};

struct api {
    int (*open)(const char *path, handle *database);
    int (*connect)(handle database, handle *connection);
    void (*close)(handle *database);
    void (*disconnect)(handle *connection);
    int (*query)(handle connection, const char *sql, struct duckdb_result *result);
    const char *(*result_error)(struct duckdb_result *result);
    void (*destroy_result)(struct duckdb_result *result);
    idx (*column_count)(struct duckdb_result *result);
    idx (*row_count)(struct duckdb_result *result);
    const char *(*column_name)(struct duckdb_result *result, idx column);
    char *(*value_varchar)(struct duckdb_result *result, idx column, idx row);
    void (*free)(void *memory);
    int (*appender_create)(handle connection, const char *schema, const char *table, handle *appender);
    int (*appender_flush)(handle appender);
    int (*appender_destroy)(handle *appender);
    const char *(*appender_error)(handle appender);
    int (*append_data_chunk)(handle appender, handle chunk);
    handle (*create_logical_type)(int type);
    void (*destroy_logical_type)(handle *type);
    handle (*create_data_chunk)(handle *types, idx count);
    void (*destroy_data_chunk)(handle *chunk);
    void (*data_chunk_reset)(handle chunk);
    handle (*data_chunk_get_vector)(handle chunk, idx column);
    void (*data_chunk_set_size)(handle chunk, idx size);
    void *(*vector_get_data)(handle vector);
    void (*vector_assign_string)(handle vector, idx row, const char *text, idx length);
};

static const struct {
    const char *name;
    size_t offset;
} SYMBOLS[] = {
#define SYMBOL(member, name)                         \
    {                                                \
        "duckdb_" name, offsetof(struct api, member) \
    }
    SYMBOL(open, "open"),
    SYMBOL(connect, "connect"),
    SYMBOL(close, "close"),
    SYMBOL(disconnect, "disconnect"),
    SYMBOL(query, "query"),
    SYMBOL(result_error, "result_error"),
    SYMBOL(destroy_result, "destroy_result"),
    SYMBOL(column_count, "column_count"),
    SYMBOL(row_count, "row_count"),
    SYMBOL(column_name, "column_name"),
    SYMBOL(value_varchar, "value_varchar"),
    SYMBOL(free, "free"),
    SYMBOL(appender_create, "appender_create"),
    SYMBOL(appender_flush, "appender_flush"),
    SYMBOL(appender_destroy, "appender_destroy"),
    SYMBOL(appender_error, "appender_error"),
    SYMBOL(append_data_chunk, "append_data_chunk"),
    SYMBOL(create_logical_type, "create_logical_type"),
    SYMBOL(destroy_logical_type, "destroy_logical_type"),
    SYMBOL(create_data_chunk, "create_data_chunk"),
    SYMBOL(destroy_data_chunk, "destroy_data_chunk"),
    SYMBOL(data_chunk_reset, "data_chunk_reset"),
    SYMBOL(data_chunk_get_vector, "data_chunk_get_vector"),
    SYMBOL(data_chunk_set_size, "data_chunk_set_size"),
    SYMBOL(vector_get_data, "vector_get_data"),
    SYMBOL(vector_assign_string, "vector_assign_string_element_len"),
};

/* The table, column by column: name, SQL type, API type. */
static const struct {
    const char *name, *sql;
    int type;
} COLUMNS[] = {
    {"trace_high", "UBIGINT", TYPE_UBIGINT}, {"trace_low", "UBIGINT", TYPE_UBIGINT},
    {"id", "UBIGINT", TYPE_UBIGINT},         {"parent", "UBIGINT", TYPE_UBIGINT},
    {"start_ns", "UBIGINT", TYPE_UBIGINT},   {"duration_ns", "UBIGINT", TYPE_UBIGINT},
    {"bin", "USMALLINT", TYPE_USMALLINT},    {"kind", "UTINYINT", TYPE_UTINYINT},
    {"error", "BOOLEAN", TYPE_BOOLEAN},      {"service", "VARCHAR", TYPE_VARCHAR},
    {"version", "VARCHAR", TYPE_VARCHAR},    {"host", "VARCHAR", TYPE_VARCHAR},
    {"name", "VARCHAR", TYPE_VARCHAR},       {"attributes", "VARCHAR", TYPE_VARCHAR},
};
enum { COLUMN_COUNT = ARRAY_SIZE(COLUMNS), CHUNK_ROWS = 2048 };

struct duckdb_store {
    struct span_store store;
    struct api api;
    void *library;
    handle database, connection, appender, chunk;
    handle asking; /* a connection of its own for query(), which other threads call */
    pthread_mutex_t asking_lock;
    handle types[COLUMN_COUNT];
    idx rows;                 /* in the chunk */
    void *data[COLUMN_COUNT]; /* of the chunk's vectors, while it has rows */
    handle vectors[COLUMN_COUNT];
    bool in_transaction;
    struct text attributes;
};

static void *open_library(char *tried, size_t size)
{
    const char *named = getenv("SONDE_DUCKDB");
    char program[2048] = "", path[4096];
    static const char *const beside[] = {
        "/libduckdb.so", "/../lib/sonde/libduckdb.so",
        "/../tests/system/node_modules/@duckdb/node-bindings-linux-x64/libduckdb.so"};
    if (named) {
        snprintf(tried, size, "%s", named);
        return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    }
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    program[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(beside); i++) {
        snprintf(path, sizeof(path), "%s%s", program, beside[i]);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
    }
    snprintf(tried, size, "libduckdb.so");
    return dlopen("libduckdb.so", RTLD_NOW | RTLD_LOCAL);
}

static int load(struct duckdb_store *s, struct problem *problem)
{
    char tried[256] = "";
    s->library = open_library(tried, sizeof(tried));
    if (!s->library) {
        problem_set(problem, -ENOENT, "the span store needs libduckdb.so, which is not found (%s)",
                    dlerror());
        problem_remedy(problem,
                       "Install the npm package @duckdb/node-bindings-linux-x64 and name its libduckdb.so in "
                       "SONDE_DUCKDB.");
        return -ENOENT;
    }
    for (size_t i = 0; i < ARRAY_SIZE(SYMBOLS); i++) {
        void *symbol = dlsym(s->library, SYMBOLS[i].name);
        if (!symbol)
            return problem_set(problem, -ENOSYS, "libduckdb.so has no %s: another version is needed",
                               SYMBOLS[i].name);
        memcpy((char *)&s->api + SYMBOLS[i].offset, &symbol, sizeof(symbol));
    }
    return 0;
}

static int execute(struct duckdb_store *s, handle connection, const char *sql, struct problem *problem)
{
    struct duckdb_result result = {0};
    int r = s->api.query(connection, sql, &result) == DUCKDB_OK ? 0 : -EIO;
    if (r < 0) {
        const char *why = s->api.result_error(&result);
        if (why && strstr(why, "No space left"))
            r = -ENOSPC;
        problem_set(problem, r, "span store: %s", why ? why : "a query failed");
    }
    s->api.destroy_result(&result);
    return r;
}

static int run(struct duckdb_store *s, const char *sql, struct problem *problem)
{
    return execute(s, s->connection, sql, problem);
}

static int make_tables(struct duckdb_store *s, struct problem *problem)
{
    struct text sql = {0};
    text_add(&sql, "CREATE TABLE IF NOT EXISTS spans (");
    for (int c = 0; c < COLUMN_COUNT; c++)
        text_addf(&sql, "%s%s %s", c ? ", " : "", COLUMNS[c].name, COLUMNS[c].sql);
    text_add(&sql, "); CREATE TABLE IF NOT EXISTS kept (trace_high UBIGINT, trace_low UBIGINT); CREATE TABLE "
                   "IF NOT EXISTS journal (segment UINTEGER, position UBIGINT); INSERT INTO journal "
                   "SELECT 0, 0 WHERE NOT EXISTS (SELECT * FROM journal); SET memory_limit = '" MEMORY_WRITING
                   "'; SET "
                   "wal_autocheckpoint = '64MB'");
    int r = run(s, text_get(&sql), problem);
    text_done(&sql);
    return r;
}

static int make_appender(struct duckdb_store *s, struct problem *problem)
{
    for (int c = 0; c < COLUMN_COUNT; c++)
        s->types[c] = s->api.create_logical_type(COLUMNS[c].type);
    s->chunk = s->api.create_data_chunk(s->types, COLUMN_COUNT);
    if (s->api.appender_create(s->connection, NULL, "spans", &s->appender) != DUCKDB_OK)
        return problem_set(problem, -EIO, "span store: %s", s->api.appender_error(s->appender));
    return 0;
}

static int begin(struct duckdb_store *s)
{
    int r = s->in_transaction ? 0 : run(s, "BEGIN TRANSACTION", NULL);
    s->in_transaction |= r == 0;
    return r;
}

static int flush_chunk(struct duckdb_store *s)
{
    if (!s->rows)
        return 0;
    int r = begin(s);
    s->api.data_chunk_set_size(s->chunk, s->rows);
    if (r == 0 && s->api.append_data_chunk(s->appender, s->chunk) != DUCKDB_OK)
        r = -EIO;
    s->api.data_chunk_reset(s->chunk);
    s->rows = 0;
    return r;
}

static void put_text(struct duckdb_store *s, idx column, struct slice text)
{
    /* DuckDB wants UTF-8; anything else is replaced by a mark. */
    bool plain = true;
    for (size_t i = 0; plain && i < text.length; i++)
        plain = (unsigned char)text.at[i] < 0x80;
    if (!plain) {
        for (size_t i = 0; i < text.length;) {
            unsigned char c = (unsigned char)text.at[i];
            size_t more = c < 0x80                ? 0
                          : c >= 0xc2 && c < 0xe0 ? 1
                          : c >= 0xe0 && c < 0xf0 ? 2
                          : c >= 0xf0 && c < 0xf5 ? 3
                                                  : 9;
            bool good = more < 9 && i + more < text.length;
            for (size_t k = 1; good && k <= more; k++)
                good = ((unsigned char)text.at[i + k] & 0xc0) == 0x80;
            if (!good) {
                text = SLICE("(not UTF-8)");
                break;
            }
            i += more + 1;
        }
    }
    s->api.vector_assign_string(s->vectors[column], s->rows, text.at ? text.at : "", text.length);
}

static int append(struct span_store *store, const struct span *span)
{
    struct duckdb_store *s = (struct duckdb_store *)store;
    idx row = s->rows;
    uint64_t duration = span->end_ns - span->start_ns;
    for (idx c = 0; row == 0 && c < COLUMN_COUNT; c++) {
        s->vectors[c] = s->api.data_chunk_get_vector(s->chunk, c);
        s->data[c] = s->api.vector_get_data(s->vectors[c]);
    }
    const uint64_t numbers[] = {span->trace_high, span->trace_low, span->id,
                                span->parent,     span->start_ns,  duration};
    for (idx c = 0; c < ARRAY_SIZE(numbers); c++)
        ((uint64_t *)s->data[c])[row] = numbers[c];
    ((uint16_t *)s->data[6])[row] = sketch_bin(duration);
    ((uint8_t *)s->data[7])[row] = span->kind;
    ((bool *)s->data[8])[row] = span->error;
    span_attributes_json(span, &s->attributes);
    if (s->attributes.failed)
        return -ENOMEM;
    put_text(s, 9, span->resource->service);
    put_text(s, 10, span->resource->version);
    put_text(s, 11, span->resource->host);
    put_text(s, 12, span->name);
    put_text(s, 13, (struct slice){text_get(&s->attributes), s->attributes.length});
    s->rows++;
    return s->rows == CHUNK_ROWS ? flush_chunk(s) : 0;
}

/* What was appended and not committed is gone; a fresh appender takes the place of one that failed. It may
 * have been too much for the memory that there is for writing: what is tried again has more. */
static void discard(struct span_store *store)
{
    struct duckdb_store *s = (struct duckdb_store *)store;
    s->api.appender_destroy(&s->appender);
    if (s->in_transaction)
        run(s, "ROLLBACK", NULL);
    run(s, "SET memory_limit = '" MEMORY_ASKING "'", NULL);
    s->in_transaction = false;
    s->api.data_chunk_reset(s->chunk);
    s->rows = 0;
    s->api.appender_create(s->connection, NULL, "spans", &s->appender);
}

static int commit(struct span_store *store, struct journal_position position, struct problem *problem)
{
    struct duckdb_store *s = (struct duckdb_store *)store;
    char sql[128];
    int r = begin(s);
    if (r == 0)
        r = flush_chunk(s);
    if (r == 0 && s->api.appender_flush(s->appender) != DUCKDB_OK)
        r = problem_set(problem, -EIO, "span store: %s", s->api.appender_error(s->appender));
    snprintf(sql, sizeof(sql), "UPDATE journal SET segment = %u, position = %llu", position.segment,
             (unsigned long long)position.offset);
    if (r == 0)
        r = run(s, sql, problem);
    if (r == 0)
        r = run(s, "COMMIT", problem);
    if (r < 0)
        discard(store);
    s->in_transaction = false;
    return r;
}

/* Between these two there is as much memory as a question may take. To lower the limit evicts what nothing
 * uses. */
static void begin_asking(struct duckdb_store *s)
{
    pthread_mutex_lock(&s->asking_lock);
    execute(s, s->asking, "SET memory_limit = '" MEMORY_ASKING "'", NULL);
}

static void end_asking(struct duckdb_store *s)
{
    execute(s, s->asking, "SET memory_limit = '" MEMORY_WRITING "'", NULL);
    pthread_mutex_unlock(&s->asking_lock);
}

static int query_on(struct duckdb_store *s, handle connection, const char *sql, struct text *to,
                    struct problem *problem)
{
    struct duckdb_result result = {0};
    if (s->api.query(connection, sql, &result) != DUCKDB_OK) {
        problem_set(problem, -EINVAL, "span store: %s", s->api.result_error(&result));
        s->api.destroy_result(&result);
        return -EINVAL;
    }
    idx columns = s->api.column_count(&result), rows = s->api.row_count(&result);
    for (idx row = 0; row < rows; row++) {
        for (idx c = 0; c < columns; c++) {
            char *value = s->api.value_varchar(&result, c, row);
            text_add(to, c ? "," : "{");
            span_json_string(to, slice_of(s->api.column_name(&result, c)));
            text_add(to, ":");
            if (value)
                span_json_string(to, slice_of(value));
            else
                text_add(to, "null");
            s->api.free(value);
        }
        text_add(to, "}\n");
    }
    s->api.destroy_result(&result);
    return to->failed ? -ENOMEM : 0;
}

static int query(struct span_store *store, const char *sql, struct text *to, struct problem *problem)
{
    struct duckdb_store *s = (struct duckdb_store *)store;
    begin_asking(s);
    int r = query_on(s, s->asking, sql, to, problem);
    end_asking(s);
    return r;
}

static int position(struct span_store *store, struct journal_position *ret_position, struct problem *problem)
{
    struct text row = {0};
    unsigned segment;
    unsigned long long offset;
    int r = query(store, "SELECT segment AS a, position AS b FROM journal", &row, problem);
    if (r == 0 && sscanf(text_get(&row), "{\"a\":\"%u\",\"b\":\"%llu\"}", &segment, &offset) != 2)
        r = problem_set(problem, -EBADMSG, "span store: no journal position in it");
    if (r == 0)
        *ret_position = (struct journal_position){segment, offset};
    text_done(&row);
    return r;
}

static int expire(struct span_store *store, uint64_t before_ns, const struct trace_id *keep,
                  size_t keep_count, struct problem *problem)
{
    struct duckdb_store *s = (struct duckdb_store *)store;
    struct text sql = {0};
    for (size_t i = 0; i < keep_count; i++)
        text_addf(&sql, "%s(%llu, %llu)", i ? ", " : "INSERT INTO kept SELECT * FROM (VALUES ",
                  (unsigned long long)keep[i].high, (unsigned long long)keep[i].low);
    if (keep_count)
        text_add(&sql, ") v(a, b) WHERE (a, b) NOT IN (SELECT (trace_high, trace_low) FROM kept); ");
    text_addf(
        &sql,
        "DELETE FROM spans WHERE start_ns < %llu AND (trace_high, trace_low) NOT IN (SELECT (trace_high, "
        "trace_low) FROM kept); CHECKPOINT",
        (unsigned long long)before_ns);
    begin_asking(s); /* so many spans are as much work as a question */
    int r = run(s, text_get(&sql), problem);
    end_asking(s);
    text_done(&sql);
    return r;
}

static int size(struct span_store *store, uint64_t *ret_bytes, struct problem *problem)
{
    struct duckdb_store *s = (struct duckdb_store *)store;
    struct text row = {0};
    unsigned long long bytes = 0;
    int r = run(s, "CHECKPOINT", problem); /* what is still in the log counts too */
    if (r == 0)
        r = query_on(s, s->connection, "SELECT block_size * used_blocks AS b FROM pragma_database_size()",
                     &row, problem);
    if (r == 0 && sscanf(text_get(&row), "{\"b\":\"%llu\"}", &bytes) != 1)
        r = problem_set(problem, -EBADMSG, "span store: its size is unknown");
    if (r == 0)
        *ret_bytes = bytes;
    text_done(&row);
    return r;
}

static void close_store(struct span_store *store)
{
    struct duckdb_store *s = (struct duckdb_store *)store;
    if (s->appender)
        s->api.appender_destroy(&s->appender);
    if (s->in_transaction)
        run(s, "ROLLBACK", NULL);
    if (s->chunk)
        s->api.destroy_data_chunk(&s->chunk);
    for (int c = 0; c < COLUMN_COUNT; c++)
        if (s->types[c])
            s->api.destroy_logical_type(&s->types[c]);
    if (s->asking)
        s->api.disconnect(&s->asking);
    if (s->connection)
        s->api.disconnect(&s->connection);
    if (s->database)
        s->api.close(&s->database);
    text_done(&s->attributes);
    pthread_mutex_destroy(&s->asking_lock);
    free(s); /* the library stays loaded: its threads may outlive the database */
}

static const struct span_store_operations OPERATIONS = {append, commit, discard, position,
                                                        query,  expire, size,    close_store};

static int open_engine(const char *path, struct duckdb_store **ret_store, struct problem *problem)
{
    struct duckdb_store *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->store.operations = &OPERATIONS;
    pthread_mutex_init(&s->asking_lock, NULL);
    int r = load(s, problem);
    if (r == 0 && (s->api.open(path, &s->database) != DUCKDB_OK ||
                   s->api.connect(s->database, &s->connection) != DUCKDB_OK ||
                   s->api.connect(s->database, &s->asking) != DUCKDB_OK))
        r = problem_set(problem, -EIO, "%s: DuckDB cannot open it (is another process using it?)",
                        path ? path : "memory");
    if (r < 0) {
        if (s->library)
            close_store(&s->store);
        else
            free(s);
        return r;
    }
    *ret_store = s;
    return 0;
}

int duckdb_store_open(const char *path, struct span_store **ret_store, struct problem *problem)
{
    struct duckdb_store *s;
    int r = open_engine(path, &s, problem);
    if (r < 0)
        return r;
    r = make_tables(s, problem);
    if (r == 0)
        r = make_appender(s, problem);
    if (r < 0) {
        close_store(&s->store);
        return r;
    }
    *ret_store = &s->store;
    return 0;
}

/* Rows of a result to the sink, by the mapping. */
static int map_rows(struct duckdb_store *s, struct duckdb_result *result, const struct mapping *mapping,
                    struct span_sink *sink, struct problem *problem)
{
    enum { COLUMNS_MAX = 256 };
    static const struct mapping guess_all;
    struct slice cells[COLUMNS_MAX];
    struct mapped mapped;
    idx columns = MIN(s->api.column_count(result), (idx)COLUMNS_MAX), rows = s->api.row_count(result);
    for (idx c = 0; c < columns; c++)
        cells[c] = slice_of(s->api.column_name(result, c));
    int r = mapping_apply(mapping ? mapping : &guess_all, cells, columns, &mapped, problem);
    for (idx row = 0; r == 0 && row < rows; row++) {
        for (idx c = 0; c < columns; c++) {
            char *value = s->api.value_varchar(result, c, row);
            cells[c] = value ? slice_of(value) : (struct slice){0};
        }
        r = mapping_row(&mapped, cells, columns, sink);
        for (idx c = 0; c < columns; c++)
            s->api.free((void *)(uintptr_t)cells[c].at);
    }
    return r;
}

int duckdb_read_parquet(const char *path, const struct mapping *mapping, struct span_sink *sink,
                        struct problem *problem)
{
    enum { ROWS_AT_ONCE = 200000 };
    struct duckdb_store *s;
    int r = open_engine(NULL, &s, problem);
    if (r < 0)
        return r;
    for (uint64_t from = 0; r == 0; from += ROWS_AT_ONCE) {
        struct duckdb_result result = {0};
        struct text sql = {0};
        text_add(&sql, "SELECT * FROM read_parquet('");
        for (const char *p = path; *p; p++)
            text_addf(&sql, *p == '\'' ? "''" : "%c", *p);
        text_addf(&sql, "') LIMIT %d OFFSET %llu", ROWS_AT_ONCE, (unsigned long long)from);
        if (s->api.query(s->connection, text_get(&sql), &result) != DUCKDB_OK)
            r = problem_set(problem, -EBADMSG, "Parquet: %s", s->api.result_error(&result));
        idx rows = r == 0 ? s->api.row_count(&result) : 0;
        if (rows)
            r = map_rows(s, &result, mapping, sink, problem);
        s->api.destroy_result(&result);
        text_done(&sql);
        if (rows < ROWS_AT_ONCE)
            break;
    }
    close_store(&s->store);
    return r;
}
