/* A request that is decoded once gives the spans that decoding it gives, as often as it is read, by several
 * threads at the same time, kept or not. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/batch.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <zlib.h>

#include "span/journal.h"
#include "span/otlp.h"
#include "span_list.h"
#include "test.h"

#define KEEP ((size_t)1 << 20)

/* Two documents; two resources, one without a name; escapes, numbers, an empty value, a span of each thing
 * that is counted. */
static const char SPANS[] =
    "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":"
    "\"sh\\u00f6p\"}},{\"key\":\"host.name\",\"value\":{\"stringValue\":\"h1\"}}]},\"scopeSpans\":[{"
    "\"spans\":["
    "{\"traceId\":\"01\",\"spanId\":\"02\",\"name\":\"say "
    "\\\"a\\\"\",\"kind\":2,\"startTimeUnixNano\":\"1000\","
    "\"endTimeUnixNano\":\"2000\",\"attributes\":[{\"key\":\"n\",\"value\":{\"intValue\":\"42\"}},{\"key\":"
    "\"\","
    "\"value\":{\"stringValue\":\"\"}},{\"key\":\"tab\\t\",\"value\":{\"boolValue\":true}}]},"
    "{\"traceId\":\"01\",\"spanId\":\"03\",\"parentSpanId\":\"02\",\"name\":\"\",\"startTimeUnixNano\":"
    "\"1500\","
    "\"endTimeUnixNano\":\"1400\",\"status\":{\"code\":2}},"
    "{\"spanId\":\"04\",\"name\":\"of no trace\",\"startTimeUnixNano\":\"1\",\"endTimeUnixNano\":\"2\"},"
    "{\"traceId\":\"01\",\"spanId\":\"05\",\"name\":\"never ended\",\"startTimeUnixNano\":\"1\"}]}]},"
    "{\"resource\":{},\"scopeSpans\":[{\"spans\":[{\"traceId\":\"06\",\"spanId\":\"07\",\"name\":\"b\","
    "\"startTimeUnixNano\":\"5\",\"endTimeUnixNano\":\"6\"}]}]}]}\n"
    "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":"
    "\"cart\"}},{\"key\":\"service.version\",\"value\":{\"stringValue\":\"7\"}}]},\"scopeSpans\":[{\"spans\":"
    "["
    "{\"traceId\":\"08\",\"spanId\":\"09\",\"name\":\"c\",\"startTimeUnixNano\":\"7\",\"endTimeUnixNano\":"
    "\"9\"}]}]}]"
    "}\n";

static struct span_batch *open_batch(uint32_t kind, const void *payload, size_t length)
{
    struct span_batch *batch = NULL;
    assert_int_equal(span_batch_new(kind, payload, length, &batch), 0);
    return batch;
}

/* What reading it gives: a list of spans, and counts. */
static void assert_gives(const struct span_batch *batch, const char *expected)
{
    struct text got = {0};
    struct span_sink sink = {.take = span_list_take, .context = &got};
    assert_int_equal(span_batch_read(batch, &sink), 0);
    assert_string_equal(text_get(&got), expected);
    assert_int_equal(sink.counts.spans, 4);
    assert_int_equal(sink.counts.without_id, 1);
    assert_int_equal(sink.counts.without_time, 1);
    assert_int_equal(sink.counts.backwards, 1);
    text_done(&got);
}

static char *decoded_directly(void)
{
    struct text list = {0};
    struct span_sink sink = {.take = span_list_take, .context = &list};
    assert_int_equal(otlp_json_decode(SPANS, strlen(SPANS), &sink, NULL), 0);
    assert_non_null(strstr(text_get(&list), "say \"a\" n=42 = tab\t=true"));
    assert_non_null(strstr(text_get(&list), "unknown_service"));
    return text_take(&list);
}

static void gives_what_decoding_gives(void **state)
{
    struct span_batch *batch = open_batch(JOURNAL_OTLP_JSON, SPANS, strlen(SPANS));
    _cleanup_(freep) char *expected = decoded_directly();
    assert_gives(batch, expected); /* before it was decoded, too */
    assert_int_equal(span_batch_decode(batch, KEEP, NULL), 0);
    assert_true(span_batch_is_kept(batch));
    assert_int_equal(span_batch_counts(batch)->spans, 4);
    assert_int_equal(span_batch_unpacked_bytes(batch), strlen(SPANS));
    assert_gives(batch, expected);
    assert_gives(batch, expected);
    span_batch_unref(batch);
}

static void unpacks(void **state)
{
    unsigned char packed[4096];
    z_stream z = {.next_in = (Bytef *)(uintptr_t)SPANS,
                  .avail_in = (uInt)strlen(SPANS),
                  .next_out = packed,
                  .avail_out = sizeof(packed)};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    struct span_batch *batch = open_batch(JOURNAL_OTLP_JSON | JOURNAL_GZIP, packed, z.total_out),
                      *none = NULL;
    _cleanup_(freep) char *expected = decoded_directly();
    assert_int_equal(span_batch_decode(batch, KEEP, NULL), 0);
    assert_gives(batch, expected);
    assert_int_equal(span_batch_new(JOURNAL_OTLP_JSON | JOURNAL_GZIP, packed, z.total_out - 9, &none),
                     -EBADMSG);
    assert_null(none);
    deflateEnd(&z);
    span_batch_unref(batch);
}

/* However little may be kept: all or nothing is, and what is read is the same. */
static void what_is_not_kept_is_decoded_again(void **state)
{
    _cleanup_(freep) char *expected = decoded_directly();
    size_t kept = 0;
    for (size_t bytes = 0; bytes < 1200; bytes += 8) {
        struct span_batch *batch = open_batch(JOURNAL_OTLP_JSON, SPANS, strlen(SPANS));
        assert_int_equal(span_batch_decode(batch, bytes, NULL), 0);
        assert_int_equal(span_batch_counts(batch)->spans, 4);
        assert_true(kept == 0 || span_batch_is_kept(batch));
        kept += span_batch_is_kept(batch);
        assert_gives(batch, expected);
        span_batch_unref(batch);
    }
    assert_in_range(kept, 1, 149);
}

static void what_is_malformed_is_refused_as_a_whole(void **state)
{
    for (size_t length = strlen(SPANS) - 2; length > strlen(SPANS) - 200; length--) {
        struct problem problem = {0};
        struct span_batch *batch = open_batch(JOURNAL_OTLP_JSON, SPANS, length);
        assert_int_equal(span_batch_decode(batch, KEEP, &problem), -EBADMSG);
        assert_true(problem.what[0] != '\0');
        assert_false(span_batch_is_kept(batch));
        span_batch_unref(batch);
    }
}

struct reading {
    const struct span_batch *batch;
    const char *expected;
};

static void *read_often(void *context)
{
    const struct reading *reading = context;
    for (int i = 0; i < 200; i++)
        assert_gives(reading->batch, reading->expected);
    return NULL;
}

static void is_read_by_several_at_the_same_time(void **state)
{
    struct span_batch *batch = open_batch(JOURNAL_OTLP_JSON, SPANS, strlen(SPANS));
    _cleanup_(freep) char *expected = decoded_directly();
    struct reading reading = {batch, expected};
    pthread_t threads[3];
    assert_int_equal(span_batch_decode(batch, KEEP, NULL), 0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_often, &reading), 0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    struct span_batch *other = span_batch_ref(batch);
    span_batch_unref(batch);
    assert_gives(other, expected); /* the last reference frees it */
    span_batch_unref(other);
}

static int stop_at_the_second(void *context, const struct span *span)
{
    return ++*(int *)context == 2 ? -ENOSPC : 0;
}

static void ends_where_the_sink_wants(void **state)
{
    struct span_batch *batch = open_batch(JOURNAL_OTLP_JSON, SPANS, strlen(SPANS));
    int taken = 0;
    struct span_sink sink = {.take = stop_at_the_second, .context = &taken};
    assert_int_equal(span_batch_decode(batch, KEEP, NULL), 0);
    assert_int_equal(span_batch_read(batch, &sink), -ENOSPC);
    assert_int_equal(taken, 2);
    span_batch_unref(batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_what_decoding_gives),
        cmocka_unit_test(unpacks),
        cmocka_unit_test(what_is_not_kept_is_decoded_again),
        cmocka_unit_test(what_is_malformed_is_refused_as_a_whole),
        cmocka_unit_test(is_read_by_several_at_the_same_time),
        cmocka_unit_test(ends_where_the_sink_wants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
