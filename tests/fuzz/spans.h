/* What the fuzz targets of span decoders share; SPAN_FORMAT names the decoder, and BATCH_KIND what a batch
 * calls it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/diagnosis.h"
#include "span/files.h"
#ifdef BATCH_KIND
#include "base/map.h"
#include "span/batch.h"
#include "span/journal.h"
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifdef BATCH_KIND
static uint64_t with_slice(uint64_t hash, struct slice string)
{
    return hash * 31 + map_hash(string.at, string.length);
}

static int hash_span(void *context, const struct span *span)
{
    uint64_t *hash = context;
    const uint64_t numbers[] = {span->trace_high, span->trace_low,      span->id,   span->parent,
                                span->start_ns,   span->end_ns,         span->kind, span->error,
                                span->shared,     span->attribute_count};
    *hash = *hash * 31 + map_hash(numbers, sizeof(numbers));
    *hash = with_slice(with_slice(*hash, span->name), span->resource->service);
    *hash = with_slice(with_slice(*hash, span->resource->version), span->resource->host);
    for (size_t i = 0; i < span->attribute_count; i++)
        *hash = with_slice(with_slice(*hash, span->attributes[i].key), span->attributes[i].value);
    for (size_t i = 0; i < span->resource->attribute_count; i++)
        *hash = with_slice(with_slice(*hash, span->resource->attributes[i].key),
                           span->resource->attributes[i].value);
    return 0;
}

/* What a batch keeps of the input is what the decoder makes of it, also where not all may be kept. */
static void compare_batch(const uint8_t *data, size_t size)
{
    struct span_batch *batch = NULL;
    uint64_t decoded = 0, kept = 0;
    struct span_sink first = {.take = hash_span, .context = &decoded};
    struct span_sink second = {.take = hash_span, .context = &kept};
    if (span_batch_new(BATCH_KIND, data, size, &batch) < 0)
        return;
    int r = span_batch_read(batch, &first);
    if (span_batch_decode(batch, size % 3 ? SIZE_MAX : size, NULL) != r)
        abort();
    if (r == 0 && (span_batch_read(batch, &second) < 0 || decoded != kept ||
                   memcmp(&first.counts, &second.counts, sizeof(first.counts)) != 0))
        abort();
    span_batch_unref(batch);
}
#endif

/* Behind the decoder, all of the diagnosis: odd trees, times and labels come from here too. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct diagnosis *diagnosis;
    struct diagnosis_settings settings = {0};
#ifdef BATCH_KIND
    compare_batch(data, size);
#endif
    if (diagnosis_new(&settings, &diagnosis) < 0)
        return 0;
    span_format_detect(data, size);
    span_decode(SPAN_FORMAT, data, size, NULL, diagnosis_sink(diagnosis), NULL);
    diagnosis_flush(diagnosis, UINT64_MAX);
    struct report report = {0};
    struct judge_settings judge_settings = {0};
    struct judgement judgement;
    if (diagnosis_report(diagnosis, &judge_settings, &report, &judgement) == 0)
        judgement_done(&judgement);
    report_done(&report);
    diagnosis_free(diagnosis);
    return 0;
}
