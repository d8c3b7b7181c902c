/* See diagnosis.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/diagnosis.h"

#include <errno.h>
#include <string.h>

#include "base/macro.h"

struct diagnosis {
    struct diagnosis_settings settings;
    struct span_sink sink;
    struct assembler *assembler;
    struct book book;
    uint64_t now_ns;
};

static int take_span(void *context, const struct span *span)
{
    struct diagnosis *diagnosis = context;
    return assembler_add(diagnosis->assembler, span, diagnosis->now_ns);
}

static int take_trace(void *context, struct trace *trace)
{
    struct diagnosis *diagnosis = context;
    uint64_t requests = diagnosis->book.counts.requests;
    int r = book_add(&diagnosis->book, trace);
    if (r == 0 && diagnosis->settings.request && diagnosis->book.counts.requests > requests)
        r = diagnosis->settings.request(diagnosis->settings.request_context, trace, diagnosis->book.times.at);
    return r;
}

int diagnosis_new(const struct diagnosis_settings *settings, struct diagnosis **ret_diagnosis)
{
    struct diagnosis *d = calloc(1, sizeof(*d));
    if (!d)
        return -ENOMEM;
    d->settings = *settings;
    d->sink = (struct span_sink){.take = take_span, .context = d};
    struct assembler_settings assembler = {.waiting_max = settings->waiting_max,
                                           .waiting_bytes_max = settings->waiting_bytes_max,
                                           .patience_ns = settings->patience_ns,
                                           .tables = settings->tables,
                                           .table_count = settings->table_count,
                                           .take = take_trace,
                                           .context = d};
    int r = assembler_new(&assembler, &d->assembler);
    if (r < 0) {
        free(d);
        return r;
    }
    struct book_settings book = {.bucket_by = settings->bucket_by, .days = settings->days};
    book_init(&d->book, assembler_names(d->assembler), assembler_labels(d->assembler), &book);
    *ret_diagnosis = d;
    return 0;
}

struct span_sink *diagnosis_sink(struct diagnosis *diagnosis)
{
    return &diagnosis->sink;
}

void diagnosis_set_time(struct diagnosis *diagnosis, uint64_t now_ns)
{
    diagnosis->now_ns = now_ns;
}

int diagnosis_flush(struct diagnosis *diagnosis, uint64_t idle_since_ns)
{
    return assembler_flush(diagnosis->assembler, idle_since_ns);
}

const struct book *diagnosis_book(const struct diagnosis *diagnosis)
{
    return &diagnosis->book;
}

const struct assembler_counts *diagnosis_counts(const struct diagnosis *diagnosis)
{
    return assembler_get_counts(diagnosis->assembler);
}

size_t diagnosis_held_bytes(const struct diagnosis *diagnosis)
{
    return book_held_bytes(&diagnosis->book);
}

void diagnosis_oddities(const struct diagnosis *diagnosis, struct diagnosis_oddity *ret_oddities)
{
    const struct link_counts *c = &diagnosis->book.link_counts;
    const struct diagnosis_oddity oddities[DIAGNOSIS_ODDITIES] = {
        {"duplicates", "came more than once", c->duplicates},
        {"orphans", "name a parent that never came", c->orphans},
        {"cycles", "are their own ancestors", c->cycles},
        {"skew_corrected", "traces had a host's clock put right", c->skewed},
        {"skew_unexplained", "calls between hosts have times that no clock explains", c->unskewable}};
    memcpy(ret_oddities, oddities, sizeof(oddities));
}

void diagnosis_input_words(const struct diagnosis *diagnosis, struct text *to)
{
    const struct book *book = &diagnosis->book;
    struct diagnosis_oddity odd[DIAGNOSIS_ODDITIES];
    bool any = false;
    text_addf(to, "%llu spans, %llu requests, %zu bucket%s\n",
              (unsigned long long)assembler_get_counts(diagnosis->assembler)->spans,
              (unsigned long long)book->counts.requests, book_bucket_count(book),
              book_bucket_count(book) == 1 ? "" : "s");
    diagnosis_oddities(diagnosis, odd);
    for (size_t i = 0; i < DIAGNOSIS_ODDITIES; i++) {
        if (!odd[i].count)
            continue;
        text_addf(to, "%s%llu %s", any ? ", " : "Of these: ", (unsigned long long)odd[i].count, odd[i].words);
        any = true;
    }
    text_add(to, any ? "\n" : "");
}

static int add_loss(struct report *report, const char *reason, uint64_t count)
{
    return count ? report_add_loss(report, reason, NULL, count) : 0;
}

/* Attributes with too many values, by name: nothing is folded silently. */
static int say_folded(const struct book *book, struct report *report)
{
    struct text keys = {0};
    size_t n = 0;
    for (uint32_t key = 0; key < book->labels->key_info.count; key++)
        if (book->labels->key_info.at[key].folded && n++ < 12)
            text_addf(&keys, "%s%s", n > 1 ? ", " : "", labels_key_name(book->labels, key));
    int r = 0;
    if (n) {
        struct text why = {0};
        text_addf(&why, "%zu attribute%s with more than %d values: %s%s", n, n == 1 ? "" : "s",
                  LABELS_VALUES_MAX, text_get(&keys), n > 12 ? ", ..." : "");
        r = report_add_missing(report, "slow-downs along attributes of many values", text_get(&why), NULL);
        text_done(&why);
    }
    text_done(&keys);
    return r;
}

int diagnosis_report_losses(const struct diagnosis *diagnosis, struct report *report)
{
    const struct span_counts *in = &diagnosis->sink.counts;
    const struct assembler_counts *assembled = assembler_get_counts(diagnosis->assembler);
    const struct book *book = &diagnosis->book;
    const struct {
        const char *reason;
        uint64_t count;
    } losses[] = {{"span-without-id", in->without_id},
                  {"span-without-time", in->without_time},
                  {"span-ends-before-start", in->backwards},
                  {"span-malformed", in->malformed},
                  {"attribute-dropped", in->attributes_dropped},
                  {"span-late", assembled->late},
                  {"span-of-oversized-trace", assembled->oversized},
                  {"trace-hurried", assembled->hurried},
                  {"trace-endless", assembled->endless},
                  {"trace-without-root", book->counts.rootless},
                  {"bucket-folded", book->counts.folded_buckets},
                  {"version-combination-folded", book->counts.folded_groups},
                  {"host-folded", book->counts.folded_hosts},
                  {"call-path-folded", book->counts.folded_vertices},
                  {"attribute-combination-folded", book->counts.folded_cells},
                  {"request-class-folded", book->counts.folded_classes},
                  {"attribute-key-folded", book->labels->keys_left_out},
                  {"attribute-set-left-out", book->labels->sets_left_out},
                  {"name-folded", assembled->names_folded}};
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(losses); i++)
        r = add_loss(report, losses[i].reason, losses[i].count);
    return r == 0 ? say_folded(book, report) : r;
}

void diagnosis_free(struct diagnosis *diagnosis)
{
    if (!diagnosis)
        return;
    book_done(&diagnosis->book);
    assembler_free(diagnosis->assembler);
    free(diagnosis);
}
