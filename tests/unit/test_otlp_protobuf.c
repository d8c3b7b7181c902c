/* The hand-written scanner against protobuf-c. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/otlp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "otlp.pb-c.h"
#include "span/batch.h"
#include "span/journal.h"
#include "span_list.h"
#include "test.h"

enum { SPANS = 40, ATTRIBUTES = 4 };

/* One request with random contents, built for protobuf-c, and what our decoder must say of it. */
struct sample {
    uint8_t *bytes;
    size_t length;
    struct text expected;
};

static char *random_name(void)
{
    char *name = malloc(24);
    snprintf(name, 24, "n%d", rand() % 1000);
    return name;
}

static void set_attribute(Otlp__KeyValue *pair, Otlp__AnyValue *value, const char *key, int kind,
                          struct text *words)
{
    otlp__key_value__init(pair);
    otlp__any_value__init(value);
    pair->key = (char *)(uintptr_t)key;
    pair->value = value;
    switch (kind) {
    case 0:
        value->value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
        value->string_value = (char *)(uintptr_t) "text";
        text_addf(words, " %s=text", key);
        break;
    case 1:
        value->value_case = OTLP__ANY_VALUE__VALUE_INT_VALUE;
        value->int_value = -(int64_t)rand();
        text_addf(words, " %s=%lld", key, (long long)value->int_value);
        break;
    case 2:
        value->value_case = OTLP__ANY_VALUE__VALUE_BOOL_VALUE;
        value->bool_value = 1;
        text_addf(words, " %s=true", key);
        break;
    default:
        value->value_case = OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE;
        value->double_value = 0.25 * (rand() % 100);
        text_addf(words, " %s=%.15g", key, value->double_value);
    }
}

static struct sample make_sample(void)
{
    static Otlp__Span spans[SPANS];
    static Otlp__KeyValue pairs[SPANS][ATTRIBUTES], resource_pairs[3];
    static Otlp__AnyValue values[SPANS][ATTRIBUTES], resource_values[3];
    static Otlp__KeyValue *pair_list[SPANS][ATTRIBUTES], *resource_list[3];
    static Otlp__Span *span_list[SPANS];
    static Otlp__Status failed, well;
    static Otlp__Event thrown, *events[] = {&thrown};
    static char exception[] = "exception";
    static uint8_t ids[SPANS][24];
    static char keys[ATTRIBUTES][32];
    struct sample sample = {0};
    struct text ignored = {0};
    const char *const resource_keys[] = {"service.name", "service.version", "host.name"};
    for (int i = 0; i < 3; i++) {
        set_attribute(&resource_pairs[i], &resource_values[i], resource_keys[i], 0, &ignored);
        resource_list[i] = &resource_pairs[i];
    }
    text_done(&ignored);
    otlp__status__init(&failed);
    failed.code = 2;
    otlp__status__init(&well);
    well.code = 1;
    otlp__event__init(&thrown);
    thrown.name = exception;
    for (int i = 0; i < SPANS; i++) {
        Otlp__Span *s = span_list[i] = &spans[i];
        struct text words = {0};
        otlp__span__init(s);
        for (int b = 0; b < 24; b++)
            ids[i][b] = (uint8_t)(rand() % 255 + 1);
        s->trace_id = (ProtobufCBinaryData){16, ids[i]};
        s->span_id = (ProtobufCBinaryData){8, ids[i] + 16};
        if (i % 2)
            s->parent_span_id = (ProtobufCBinaryData){8, ids[i / 2] + 16};
        s->name = random_name();
        s->kind = rand() % 6;
        s->start_time_unix_nano = 1700000000000000000ull + (uint64_t)rand();
        s->end_time_unix_nano = s->start_time_unix_nano + (uint64_t)rand();
        s->status = i % 5 == 0 ? &failed : i % 5 == 1 ? &well : NULL;
        s->n_events = i % 3 == 0;
        s->events = events;
        bool error = i % 5 == 0 || (i % 3 == 0 && i % 5 != 1);
        s->flags = 257;
        s->n_attributes = (size_t)(rand() % (ATTRIBUTES + 1));
        s->attributes = pair_list[i];
        for (size_t k = 0; k < s->n_attributes; k++) {
            snprintf(keys[k], sizeof(keys[k]), "k%zu", k);
            set_attribute(&pairs[i][k], &values[i][k], keys[k], rand() % 4, &words);
            pair_list[i][k] = &pairs[i][k];
        }
        uint64_t id[3] = {0};
        for (int b = 0; b < 24; b++)
            id[b / 8] = id[b / 8] << 8 | ids[i][b];
        uint64_t parent = 0;
        for (int b = 0; i % 2 && b < 8; b++)
            parent = parent << 8 | ids[i / 2][16 + b];
        text_addf(&sample.expected, "%llx%016llx %llx<-%llx %llu+%llu kind%d%s text|text|text|%s%s\n",
                  (unsigned long long)id[0], (unsigned long long)id[1], (unsigned long long)id[2],
                  (unsigned long long)parent, (unsigned long long)s->start_time_unix_nano,
                  (unsigned long long)(s->end_time_unix_nano - s->start_time_unix_nano), s->kind,
                  error ? " error" : "", s->name, text_get(&words));
        text_done(&words);
    }
    Otlp__Resource resource = OTLP__RESOURCE__INIT;
    Otlp__ScopeSpans scope = OTLP__SCOPE_SPANS__INIT, *scopes[] = {&scope};
    Otlp__ResourceSpans group = OTLP__RESOURCE_SPANS__INIT, *groups[] = {&group};
    Otlp__Request request = OTLP__REQUEST__INIT;
    resource.attributes = resource_list;
    resource.n_attributes = 3;
    scope.spans = span_list;
    scope.n_spans = SPANS;
    group.resource = &resource;
    group.scope_spans = scopes;
    group.n_scope_spans = 1;
    request.resource_spans = groups;
    request.n_resource_spans = 1;
    sample.length = otlp__request__get_packed_size(&request);
    sample.bytes = malloc(sample.length);
    otlp__request__pack(&request, sample.bytes);
    for (int i = 0; i < SPANS; i++)
        free(spans[i].name);
    return sample;
}

/* A batch that was decoded and is read later gives the same. */
static void assert_kept_alike(const struct sample *sample)
{
    struct text got = {0};
    struct span_sink sink = {.take = span_list_take, .context = &got};
    struct span_batch *batch = NULL;
    assert_int_equal(span_batch_new(JOURNAL_OTLP_PROTOBUF, sample->bytes, sample->length, &batch), 0);
    assert_int_equal(span_batch_decode(batch, (size_t)1 << 20, NULL), 0);
    assert_true(span_batch_is_kept(batch));
    assert_int_equal(span_batch_read(batch, &sink), 0);
    assert_string_equal(text_get(&got), text_get(&sample->expected));
    span_batch_unref(batch);
    text_done(&got);
}

static void decodes_what_protobuf_c_encodes(void **state)
{
    srand(11);
    for (int round = 0; round < 50; round++) {
        struct sample sample = make_sample();
        struct text got = {0};
        struct span_sink sink = {.take = span_list_take, .context = &got};
        struct span_counts counts;
        assert_int_equal(otlp_protobuf_decode(sample.bytes, sample.length, &sink, NULL), 0);
        assert_string_equal(text_get(&got), text_get(&sample.expected));
        assert_int_equal(otlp_protobuf_check(sample.bytes, sample.length, &counts, NULL), 0);
        assert_int_equal(counts.spans, SPANS);
        assert_kept_alike(&sample);
        text_done(&got);
        text_done(&sample.expected);
        free(sample.bytes);
    }
}

/* A cut or damaged message is refused wherever protobuf-c refuses it, and never read beyond its end. */
static void damage_is_refused(void **state)
{
    srand(12);
    struct sample sample = make_sample();
    size_t refused = 0;
    for (int round = 0; round < 3000; round++) {
        size_t length = (size_t)rand() % sample.length + 1;
        uint8_t *copy = malloc(length);
        struct text got = {0};
        struct span_sink sink = {.take = span_list_take, .context = &got};
        memcpy(copy, sample.bytes, length);
        copy[(size_t)rand() % length] = (uint8_t)rand();
        int r = otlp_protobuf_decode(copy, length, &sink, NULL);
        assert_true(r == 0 || r == -EBADMSG);
        refused += r < 0;
        Otlp__Request *oracle = otlp__request__unpack(NULL, length, copy);
        if (oracle) {
            size_t spans = 0;
            for (size_t g = 0; g < oracle->n_resource_spans; g++)
                for (size_t s = 0; s < oracle->resource_spans[g]->n_scope_spans; s++)
                    spans += oracle->resource_spans[g]->scope_spans[s]->n_spans;
            assert_int_equal(r, 0);
            assert_int_equal(sink.counts.spans + sink.counts.without_id + sink.counts.without_time, spans);
            otlp__request__free_unpacked(oracle, NULL);
        }
        text_done(&got);
        free(copy);
    }
    assert_true(refused > 1000);
    text_done(&sample.expected);
    free(sample.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(decodes_what_protobuf_c_encodes),
                                       cmocka_unit_test(damage_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
