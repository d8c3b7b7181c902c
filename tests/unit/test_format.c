/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/format.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

static const struct trace_label LABELS[] = {{.low = 1, .high = 1, .name = "read"}};
static const struct trace_field ELEMENTS[] = {{.name = "x", .type = TYPE_UNSIGNED, .base = 10},
                                              {.name = "y", .type = TYPE_STRING}};
static const struct trace_field FIELDS[] = {
    {.name = "hex", .type = TYPE_UNSIGNED, .base = 16},
    {.name = "negative", .type = TYPE_SIGNED, .base = 10},
    {.name = "text", .type = TYPE_STRING},
    {.name = "kind", .type = TYPE_UNSIGNED, .base = 10, .labels = LABELS, .label_count = 1},
    {.name = "list", .type = TYPE_ARRAY, .elements = ELEMENTS, .element_count = 2},
    {.name = "gone", .type = TYPE_UNSIGNED},
    {.name = "real", .type = TYPE_REAL},
    {.name = "vtid", .type = TYPE_SIGNED, .base = 10, .scope = SCOPE_COMMON_CONTEXT},
};
static const struct trace_field PACKET[] = {
    {.name = "cpu_id", .type = TYPE_UNSIGNED, .base = 10, .scope = SCOPE_PACKET_CONTEXT}};
static const struct value VALUES[] = {{.u = 255},
                                      {.i = INT64_MIN},
                                      {.s = "a\"\n\xc3\xa9\xff", .length = 6},
                                      {.u = 1},
                                      {.first = 8, .length = 2},
                                      {.absent = 1},
                                      {.d = NAN},
                                      {.i = 9},
                                      {.u = 1},
                                      {.s = "p", .length = 1},
                                      {.u = 2},
                                      {.s = "", .length = 0}};
static const struct value PACKET_VALUES[] = {{.u = 3}};
static const struct event_class CLASS = {.name = "some:event",
                                         .id = EVENT_FOREIGN,
                                         .field_count = 8,
                                         .fields = FIELDS,
                                         .packet_field_count = 1,
                                         .packet_fields = PACKET};
static const struct event EVENT = {.time_ns = 1649361408569332756,
                                   .class = &CLASS,
                                   .values = VALUES,
                                   .packet = PACKET_VALUES,
                                   .present = 0xdf,
                                   .pid = -1,
                                   .tid = 9,
                                   .id = EVENT_FOREIGN};

static void json(void **state)
{
    struct text out = {0};
    format_json(&out, &EVENT, "h", NULL);
    assert_string_equal(
        text_get(&out),
        "{\"time_ns\":1649361408569332756,\"name\":\"some:event\",\"host\":\"h\",\"tid\":9,\"stream\":0,"
        "\"fields\":{\"hex\":255,\"negative\":-9223372036854775808,\"text\":\"a\\\"\\u000a\xc3\xa9\\ufffd\","
        "\"kind\":1,\"kind.label\":\"read\",\"list\":[{\"x\":1,\"y\":\"p\"},{\"x\":2,\"y\":\"\"}],\"real\":"
        "null},"
        "\"context\":{\"vtid\":9},\"packet\":{\"cpu_id\":3}}");
    text_done(&out);
}

static void for_people(void **state)
{
    struct text out = {0};
    format_fields(&out, &EVENT, SCOPE_PAYLOAD, NULL);
    assert_string_equal(
        text_get(&out),
        "hex=0xff, negative=-9223372036854775808, text=\"a\\\"\\x0a\xc3\xa9\xff\", kind=read(1), "
        "list=[{x=1, y=\"p\"}, {x=2, y=\"\"}], real=nan");
    text_clear(&out);
    format_fields(&out, &EVENT, SCOPE_PACKET_CONTEXT, NULL);
    assert_string_equal(text_get(&out), "cpu_id=3");
    text_clear(&out);
    format_time(&out, 1649361408569332756);
    assert_string_equal(text_get(&out), "2022-04-07 19:56:48.569332756");
    text_clear(&out);
    format_time(&out, -1);
    assert_string_equal(text_get(&out), "1969-12-31 23:59:59.999999999");
    text_done(&out);
}

/* Labels of a bit map name positions of bits, not values; names of fields may need escapes. */
static void names_of_bits(void **state)
{
    static const struct trace_label BITS[] = {{.low = 0, .high = 0, .name = "read"},
                                              {.low = 3, .high = 4, .name = "write"},
                                              {.low = 63, .high = 63, .name = "last"},
                                              {.low = 0, .high = 63, .name = "any"},
                                              {.low = 64, .high = 70, .name = "never"}};
    static const struct trace_field FLAGS[] = {
        {.name = "a\"b", .type = TYPE_BITMAP, .base = 10, .labels = BITS, .label_count = 5}};
    static const struct event_class BITMAP = {
        .name = "e", .id = EVENT_FOREIGN, .field_count = 1, .fields = FLAGS};
    static const struct {
        uint64_t value;
        const char *label;
    } CASES[] = {
        {1, "read|any"}, {16, "write|any"}, {0, NULL}, {1ull << 63 | 1, "read|last|any"}, {2, "any"}};
    for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
        struct value v = {.u = CASES[i].value};
        struct event e = {.class = &BITMAP, .values = &v, .present = 1, .pid = -1, .tid = -1};
        struct text out = {0}, expected = {0};
        format_json(&out, &e, NULL, NULL);
        text_addf(&expected, "{\"time_ns\":0,\"name\":\"e\",\"stream\":0,\"fields\":{\"a\\\"b\":%llu",
                  (unsigned long long)CASES[i].value);
        if (CASES[i].label)
            text_addf(&expected, ",\"a\\\"b.label\":\"%s\"", CASES[i].label);
        text_add(&expected, "}}");
        assert_string_equal(text_get(&out), text_get(&expected));
        text_done(&out);
        text_done(&expected);
    }
}

/* Every two bytes: what is not UTF-8 is replaced, what is stays. */
static void json_is_always_utf8(void **state)
{
    for (unsigned a = 0; a < 256; a++)
        for (unsigned b = 0; b < 256; b++) {
            char s[2] = {(char)a, (char)b};
            struct text out = {0};
            text_add_json(&out, s, 2);
            const unsigned char *o = (const unsigned char *)text_get(&out);
            bool pair = a >= 0xc2 && a < 0xe0 && b >= 0x80 && b < 0xc0;
            for (size_t i = 0; i < out.length; i++)
                assert_true(o[i] >= ' ' && (o[i] < 0x80 || pair));
            text_clear(&out);
            text_add_utf8(&out, s, 2);
            assert_true(out.length >= 2);
            assert_true(pair ? out.length == 2 && memcmp(out.at, s, 2) == 0
                             : a < 0x80 || (unsigned char)out.at[0] == 0xef);
            text_done(&out);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json),
        cmocka_unit_test(for_people),
        cmocka_unit_test(names_of_bits),
        cmocka_unit_test(json_is_always_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
