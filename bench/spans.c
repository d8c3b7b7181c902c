/* Spans per second: decoding, bucketing and sketching on one core beside protobuf-c's unpacking; p95 of 4,800
 * groups beside DuckDB; a billion spans, and a billion attribute values, through the book with its memory;
 * and a sender for ingest over HTTP.
 *
 *     spans decode [SPANS]            spans quantiles [SPANS]
 *     spans endless [SPANS]           spans values [VALUES]
 *     spans send PORT [SPANS] [CONNECTIONS] [gzip] */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <math.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/macro.h"
#include "diagnose/diagnosis.h"
#include "otlp.pb-c.h"
#include "span/otlp.h"
#include "span/store.h"
#include "span_batches.h"

enum { KINDS = 24, RUNS = 3 }; /* hosts x versions that batches come from */

static double seconds_since(uint64_t started_ns)
{
    return (double)(clock_monotonic_ns() - started_ns) / 1e9;
}

static double peak_mb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

static int by_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print_runs(const char *name, double *rates, size_t n)
{
    qsort(rates, n, sizeof(*rates), by_double);
    printf("  %-44s %8.3f million spans/s (%.3f to %.3f)\n", name, rates[n / 2] / 1e6, rates[0] / 1e6,
           rates[n - 1] / 1e6);
}

static int take_nothing(void *context, const struct span *span)
{
    *(uint64_t *)context += span->end_ns - span->start_ns + span->name.length;
    return 0;
}

static double run_diagnosis(struct batch_bytes **batches, uint64_t spans, struct diagnosis **ret_diagnosis)
{
    struct diagnosis_settings settings = {.waiting_max = 200000};
    struct diagnosis *diagnosis;
    if (diagnosis_new(&settings, &diagnosis) < 0)
        exit(1);
    uint64_t started = clock_monotonic_ns();
    for (uint64_t number = 1; number * BATCH_SPANS <= spans; number++) {
        struct batch_bytes *b = batches[number % KINDS];
        batch_renumber(b, number);
        diagnosis_set_time(diagnosis, number);
        if (otlp_protobuf_decode(b->at, b->length, diagnosis_sink(diagnosis), NULL) < 0)
            exit(1);
        if (number % 16 == 0)
            diagnosis_flush(diagnosis, number - 8);
    }
    diagnosis_flush(diagnosis, UINT64_MAX);
    double rate = (double)(spans / BATCH_SPANS * BATCH_SPANS) / seconds_since(started);
    *ret_diagnosis = diagnosis;
    return rate;
}

static void bench_decode(uint64_t spans)
{
    struct batch_bytes *batches[KINDS];
    double ours[RUNS], scan[RUNS], oracle[RUNS];
    for (unsigned k = 0; k < KINDS; k++)
        batches[k] = batch_make(k / 2, k % 2);
    printf("OTLP protobuf, %.0f bytes a span, one core, %d runs: median (least to most)\n",
           (double)batches[0]->length / BATCH_SPANS, RUNS);
    for (int run = 0; run < RUNS; run++) {
        uint64_t sum = 0, count = spans / BATCH_SPANS, few = MAX(count / 20, (uint64_t)1);
        struct span_sink sink = {.take = take_nothing, .context = &sum};
        uint64_t started = clock_monotonic_ns();
        for (uint64_t i = 0; i < count; i++)
            otlp_protobuf_decode(batches[i % KINDS]->at, batches[i % KINDS]->length, &sink, NULL);
        scan[run] = (double)sink.counts.spans / seconds_since(started);
        started = clock_monotonic_ns();
        for (uint64_t i = 0; i < few; i++) {
            Otlp__Request *request =
                otlp__request__unpack(NULL, batches[i % KINDS]->length, batches[i % KINDS]->at);
            otlp__request__free_unpacked(request, NULL);
        }
        oracle[run] = (double)few * BATCH_SPANS / seconds_since(started);
        struct diagnosis *diagnosis;
        ours[run] = run_diagnosis(batches, spans, &diagnosis);
        if (run == 0)
            printf("  %llu requests in %zu buckets, %.1f MB held by the book\n",
                   (unsigned long long)diagnosis_book(diagnosis)->counts.requests,
                   diagnosis_book(diagnosis)->buckets.count, (double)diagnosis_held_bytes(diagnosis) / 1e6);
        diagnosis_free(diagnosis);
    }
    print_runs("decoding alone, attributes included", scan, RUNS);
    print_runs("protobuf-c unpacking", oracle, RUNS);
    print_runs("decoding, traces, buckets, paths, sketches", ours, RUNS);
    printf("  ratio to protobuf-c: decoding %.1f, all of it %.1f\n", scan[RUNS / 2] / oracle[RUNS / 2],
           ours[RUNS / 2] / oracle[RUNS / 2]);
    for (unsigned k = 0; k < KINDS; k++) {
        free(batches[k]->at);
        free(batches[k]);
    }
}

/* Memory of the process now, in MB. */
static double resident_mb(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*u %lu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

enum { ENDLESS_HOSTS = 40, ENDLESS_TYPES = 6, ENDLESS_KINDS = ENDLESS_HOSTS * ENDLESS_TYPES * 2, LINES = 20 };

/* Many spans through a few thousand groups and hosts: memory over time. With values_each, every span has so
 * many attributes whose values never repeat. */
static void bench_endless(uint64_t spans, unsigned values_each)
{
    static struct batch_bytes *batches[ENDLESS_KINDS];
    struct diagnosis_settings settings = {.waiting_max = 200000};
    struct diagnosis *diagnosis;
    uint64_t count = spans / BATCH_SPANS, started = clock_monotonic_ns(), shown = 0, values = 0;
    for (unsigned k = 0; k < ENDLESS_KINDS; k++) {
        char type[32];
        snprintf(type, sizeof(type), "GET /type-%u", k / 2 % ENDLESS_TYPES);
        batches[k] = batch_make_type(k / 2 / ENDLESS_TYPES, k % 2, type, values_each);
    }
    if (diagnosis_new(&settings, &diagnosis) < 0)
        exit(1);
    for (uint64_t number = 1; number <= count; number++) {
        struct batch_bytes *b = batches[number % ENDLESS_KINDS];
        batch_renumber(b, number);
        batch_revalue(b, values);
        values += b->value_count;
        diagnosis_set_time(diagnosis, number);
        if (otlp_protobuf_decode(b->at, b->length, diagnosis_sink(diagnosis), NULL) < 0)
            exit(1);
        if (number % 16 == 0)
            diagnosis_flush(diagnosis, number - 8);
        if (number * LINES / count == shown)
            continue;
        shown = number * LINES / count;
        printf("%6.0f million spans, %5.0f million values, %5.0f s, %zu buckets: book %.1f MB, process %.0f "
               "MB\n",
               (double)(number * BATCH_SPANS) / 1e6, (double)values / 1e6, seconds_since(started),
               diagnosis_book(diagnosis)->buckets.count, (double)diagnosis_held_bytes(diagnosis) / 1e6,
               resident_mb());
        fflush(stdout);
    }
    diagnosis_flush(diagnosis, UINT64_MAX);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 +
                 (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
    printf("%llu spans, %llu requests: %.3f million spans per second of processor time, peak %.0f MB\n",
           (unsigned long long)diagnosis_counts(diagnosis)->spans,
           (unsigned long long)diagnosis_book(diagnosis)->counts.requests,
           (double)diagnosis_counts(diagnosis)->spans / cpu / 1e6, peak_mb());
    struct report report = {0};
    diagnosis_report_losses(diagnosis, &report);
    array_foreach (&report.missing, missing)
        printf("%s: %s\n", missing->what, missing->why);
    array_foreach (&report.losses, loss)
        printf("%s: %llu\n", loss->reason, (unsigned long long)loss->count);
    report_done(&report);
    diagnosis_free(diagnosis);
}

/* ---- p95 of 4,800 groups ---- */

enum { GROUPS = 4800, THREADS = 2 };

struct columns {
    uint16_t *group, *bin;
    uint64_t count;
};

struct slice_work {
    const struct columns *columns;
    uint64_t from, to;
    uint16_t *counters; /* GROUPS windows of WINDOW bins: small ones, since random access is what costs */
    uint32_t *carried;  /* times that each of them went round */
};

enum { FIRST_BIN = 704, WINDOW = 576 }; /* of the durations made here: 65 us to 33 ms */

static inline void count_one(struct slice_work *w, size_t at)
{
    if (__builtin_expect(++w->counters[at] == 0, 0))
        w->carried[at]++;
}

static void *count_slice(void *context)
{
    struct slice_work *w = context;
    const uint16_t *group = w->columns->group, *bin = w->columns->bin;
    uint64_t i = w->from;
    for (; i + 32 < w->to; i++) { /* the counters are larger than the cache: fetch ahead */
        __builtin_prefetch(&w->counters[(size_t)group[i + 32] * WINDOW + bin[i + 32] - FIRST_BIN], 1);
        count_one(w, (size_t)group[i] * WINDOW + bin[i] - FIRST_BIN);
    }
    for (; i < w->to; i++)
        count_one(w, (size_t)group[i] * WINDOW + bin[i] - FIRST_BIN);
    return NULL;
}

/* Zeroed memory on huge pages where there are any: the accesses are random, and pages would cost as much as
 * lines. */
static void *allocate(size_t size)
{
    size = (size + (2u << 20) - 1) & ~(size_t)((2u << 20) - 1);
    void *at = aligned_alloc(2u << 20, size);
    if (!at)
        exit(1);
    madvise(at, size, MADV_HUGEPAGE);
    memset(at, 0, size);
    return at;
}

/* The counters of both threads added, then each group's p95 by rank. */
static void quantiles_of(struct slice_work *work, double *p95)
{
    for (size_t g = 0; g < GROUPS; g++) {
        uint64_t sums[WINDOW], total = 0, seen = 0;
        for (size_t b = 0; b < WINDOW; b++) {
            sums[b] = 0;
            for (int t = 0; t < THREADS; t++)
                sums[b] +=
                    work[t].counters[g * WINDOW + b] + ((uint64_t)work[t].carried[g * WINDOW + b] << 16);
            total += sums[b];
        }
        uint64_t rank = (uint64_t)ceil(0.95 * (double)total);
        for (size_t b = 0; b < WINDOW; b++) {
            seen += sums[b];
            if (seen >= rank) {
                p95[g] = sketch_bin_middle((uint16_t)(b + FIRST_BIN));
                break;
            }
        }
    }
}

static double our_quantiles(const struct columns *columns, double *p95)
{
    pthread_t threads[THREADS];
    struct slice_work work[THREADS];
    uint64_t started = clock_monotonic_ns();
    for (int t = 0; t < THREADS; t++) {
        size_t n = (size_t)GROUPS * WINDOW;
        work[t] = (struct slice_work){columns, columns->count * (uint64_t)t / THREADS,
                                      columns->count * (uint64_t)(t + 1) / THREADS,
                                      allocate(n * sizeof(uint16_t)), calloc(n, sizeof(uint32_t))};
        if (!work[t].carried)
            exit(1);
    }
    for (int t = 0; t < THREADS; t++)
        pthread_create(&threads[t], NULL, count_slice, &work[t]);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    quantiles_of(work, p95);
    double rate = (double)columns->count / seconds_since(started);
    for (int t = 0; t < THREADS; t++) {
        free(work[t].counters);
        free(work[t].carried);
    }
    return rate;
}

/* Durations as a multiplicative hash of the row makes them, so that SQL makes the same ones. */
static uint64_t duration_of(uint64_t row)
{
    uint64_t h = row * 2654435761u % 4294967296u;
    return 100000 + h % 1000003 * (1 + h % 17);
}

/* DuckDB over the same rows, in its own columns, in memory. */
static double duckdb_quantiles(uint64_t count, const char *function, double *p95_of_first)
{
    struct span_store *store;
    struct problem problem = {0};
    struct text sql = {0}, rows = {0};
    if (duckdb_store_open(NULL, &store, &problem) < 0) {
        printf("  DuckDB: %s\n", problem.what);
        return 0;
    }
    text_addf(&sql,
              "CREATE TABLE t AS SELECT CAST(i %% %d AS USMALLINT) AS g, CAST(100000 + h %% 1000003 * (1 + h "
              "%% 17) AS "
              "UBIGINT) AS d FROM (SELECT i, (i * 2654435761) %% 4294967296 AS h FROM range(%llu) r(i))",
              GROUPS, (unsigned long long)count);
    int r = store->operations->query(store, text_get(&sql), &rows, &problem);
    text_clear(&sql);
    text_clear(&rows);
    text_addf(&sql, "SELECT g, %s(d, 0.95) AS p FROM t GROUP BY g ORDER BY g", function);
    uint64_t started = clock_monotonic_ns();
    if (r == 0)
        r = store->operations->query(store, text_get(&sql), &rows, &problem);
    double rate = (double)count / seconds_since(started);
    if (r < 0)
        printf("  DuckDB: %s\n", problem.what);
    sscanf(text_get(&rows), "{\"g\":\"0\",\"p\":\"%lf\"", p95_of_first);
    text_done(&sql);
    text_done(&rows);
    span_store_close(store);
    return r < 0 ? 0 : rate;
}

static void bench_quantiles(uint64_t count)
{
    struct columns columns = {malloc(count * 2), malloc(count * 2), count};
    double p95[GROUPS], rates[RUNS], first = 0;
    if (!columns.group || !columns.bin)
        exit(1);
    for (uint64_t i = 0; i < count; i++) {
        columns.group[i] = (uint16_t)(i % GROUPS);
        columns.bin[i] = sketch_bin(duration_of(i)); /* at ingest */
    }
    printf("p95 of %d groups over %.0f million spans, two cores, %d runs: median (least to most)\n", GROUPS,
           (double)count / 1e6, RUNS);
    for (int run = 0; run < RUNS; run++)
        rates[run] = our_quantiles(&columns, p95);
    print_runs("sonde", rates, RUNS);
    free(columns.group);
    free(columns.bin);
    uint64_t fewer = count;
    const char *const functions[] = {"approx_quantile", "quantile_disc"};
    for (int f = 0; f < 2; f++) {
        double theirs = duckdb_quantiles(fewer, functions[f], &first);
        if (theirs > 0)
            printf("  DuckDB %s over %.0f million: %.3f million spans/s, ratio %.1f; p95 of the first group "
                   "%.0f, "
                   "ours %.0f (%.2f %% off)\n",
                   functions[f], (double)fewer / 1e6, theirs / 1e6, rates[RUNS / 2] / theirs, first, p95[0],
                   100 * fabs(p95[0] / first - 1));
    }
}

/* ---- ingest over HTTP ---- */

struct sender {
    uint16_t port;
    uint64_t batches, first;
    bool gzip;
    uint64_t accepted, bytes;
};

static int answer_status(int fd)
{
    char buffer[4096];
    size_t have = 0;
    for (;;) {
        ssize_t n = read(fd, buffer + have, sizeof(buffer) - 1 - have);
        if (n <= 0)
            return -1;
        have += (size_t)n;
        buffer[have] = '\0';
        char *end = strstr(buffer, "\r\n\r\n");
        if (end)
            return atoi(buffer + 9); /* bodies of success are empty */
    }
}

static bool write_all(int fd, const void *bytes, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t w = write(fd, (const char *)bytes + done, n - done);
        if (w <= 0)
            return false;
        done += (size_t)w;
    }
    return true;
}

/* As a collector's default: gzip at its least effort. */
static size_t compress_batch(const struct batch_bytes *from, char *to, size_t room)
{
    z_stream z = {.next_in = from->at,
                  .avail_in = (uInt)from->length,
                  .next_out = (Bytef *)to,
                  .avail_out = (uInt)room};
    if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflate(&z, Z_FINISH) != Z_STREAM_END)
        exit(1);
    deflateEnd(&z);
    return z.total_out;
}

static void *send_batches(void *context)
{
    struct sender *s = context;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(s->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return NULL;
    struct batch_bytes *batches[KINDS];
    char packed[256 << 10];
    for (unsigned k = 0; k < KINDS; k++)
        batches[k] = batch_make(k / 2, k % 2);
    for (uint64_t i = 0; i < s->batches; i++) {
        struct batch_bytes *b = batches[i % KINDS];
        char head[256];
        batch_renumber(b, s->first + i);
        const void *body = s->gzip ? (const void *)packed : b->at;
        size_t length = s->gzip ? compress_batch(b, packed, sizeof(packed)) : b->length;
        int n =
            snprintf(head, sizeof(head),
                     "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
                     "%sContent-Length: %zu\r\n\r\n",
                     s->gzip ? "Content-Encoding: gzip\r\n" : "", length);
        int status = 503;
        while (status == 503) {
            if (!write_all(fd, head, (size_t)n) || !write_all(fd, body, length))
                return NULL;
            status = answer_status(fd);
            if (status == 503) {
                usleep(20000);
                char rest[256]; /* the words of the refusal */
                if (recv(fd, rest, sizeof(rest), MSG_DONTWAIT) < 0)
                    continue;
            }
        }
        s->accepted += status == 200 ? BATCH_SPANS : 0;
        s->bytes += length;
    }
    close(fd);
    return NULL;
}

static void bench_send(uint16_t port, uint64_t spans, unsigned connections, bool gzip)
{
    pthread_t threads[64];
    struct sender senders[64];
    uint64_t accepted = 0, bytes = 0;
    connections = MIN(connections, 64u);
    uint64_t started = clock_monotonic_ns();
    for (unsigned i = 0; i < connections; i++) {
        senders[i] =
            (struct sender){port, spans / BATCH_SPANS / connections, (uint64_t)(i + 1) << 40, gzip, 0, 0};
        pthread_create(&threads[i], NULL, send_batches, &senders[i]);
    }
    for (unsigned i = 0; i < connections; i++) {
        pthread_join(threads[i], NULL);
        accepted += senders[i].accepted;
        bytes += senders[i].bytes;
    }
    double took = seconds_since(started);
    printf("{\"spans\": %llu, \"bytes\": %llu, \"seconds\": %.3f}\n", (unsigned long long)accepted,
           (unsigned long long)bytes, took);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "decode") == 0)
        bench_decode(argc > 2 ? strtoull(argv[2], NULL, 10) : 4000000);
    else if (strcmp(what, "quantiles") == 0)
        bench_quantiles(argc > 2 ? strtoull(argv[2], NULL, 10) : 100000000);
    else if (strcmp(what, "endless") == 0)
        bench_endless(argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000000, 0);
    else if (strcmp(what, "values") == 0)
        bench_endless((argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000000) / BATCH_VALUES_MAX,
                      BATCH_VALUES_MAX);
    else if (strcmp(what, "send") == 0 && argc > 2)
        bench_send((uint16_t)atoi(argv[2]), argc > 3 ? strtoull(argv[3], NULL, 10) : 2000000,
                   argc > 4 ? (unsigned)atoi(argv[4]) : 4, argc > 5 && strcmp(argv[5], "gzip") == 0);
    else
        return 2;
    return 0;
}
