/* Metadata of both versions, compiled and run over bytes written by hand. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/layout.h"

#include <errno.h>
#include <stdio.h>

#include <stdlib.h>
#include <string.h>

#include "test.h"

#define TSDL_HEAD                                                                            \
    "typealias integer { size = 8; align = 8; } := u8;\n"                                    \
    "trace { major = 1; minor = 8; byte_order = %s; packet.header := struct { u8 x; }; };\n" \
    "stream { event.header := struct { u8 id; }; };\n"

struct decoded {
    struct metadata *meta;
    const struct event_class *class;
    struct machine machine;
    struct arena text;
    uint64_t registers[64], stream_registers[64];
};

static void open_text(struct decoded *d, const char *text)
{
    struct problem problem;
    memset(d, 0, sizeof(*d));
    if (metadata_parse("metadata", text, strlen(text), &problem, &d->meta) < 0)
        fail_msg("%s", problem.what);
    assert_true(d->meta->register_count < 64);
    d->class = d->meta->streams->events->public;
}

static int decode(struct decoded *d, const void *data, size_t bits)
{
    static uint8_t padded[4096];
    memset(padded, 0xa5, sizeof(padded));
    memcpy(padded, data, (bits + 7) / 8);
    struct value *values = d->machine.values;
    uint32_t capacity = d->machine.value_capacity;
    d->machine = (struct machine){.data = padded,
                                  .limit = bits,
                                  .registers = d->registers,
                                  .stream_registers = d->stream_registers,
                                  .stream_register_count = d->meta->stream_register_count,
                                  .values = values,
                                  .value_capacity = capacity,
                                  .text = &d->text};
    return layout_run(&d->machine, d->meta->streams->events->program);
}

static const struct value *value(const struct decoded *d, const char *name)
{
    int i = event_class_find(d->class, name);
    if (i < 0)
        fail_msg("no field %s", name);
    return &d->machine.values[i];
}

static void done(struct decoded *d)
{
    free(d->machine.values);
    arena_done(&d->text);
    metadata_free(d->meta);
}

static void packs_bits_from_both_ends(void **state)
{
    static const uint8_t BYTES[] = {0xb5, 0x3c, 0x81};
    static const char FIELDS[] =
        "event { name = e; fields := struct { integer { size = 3; } a; integer { size = 7; signed = "
        "true; } b; integer { size = 14; } c; }; };";
    char text[1024];
    struct decoded d;
    snprintf(text, sizeof(text), TSDL_HEAD "%s", "le", FIELDS);
    open_text(&d, text);
    assert_int_equal(decode(&d, BYTES, 24), 0);
    uint32_t le = 0xb5 | 0x3c << 8 | 0x81 << 16;
    assert_int_equal(value(&d, "a")->u, le & 7);
    assert_int_equal(value(&d, "b")->i, ((int)(le >> 3 & 127) ^ 64) - 64);
    assert_int_equal(value(&d, "c")->u, le >> 10);
    done(&d);
    snprintf(text, sizeof(text), TSDL_HEAD "%s", "be", FIELDS);
    open_text(&d, text);
    assert_int_equal(decode(&d, BYTES, 24), 0);
    uint32_t be = 0xb5 << 16 | 0x3c << 8 | 0x81;
    assert_int_equal(value(&d, "a")->u, be >> 21);
    assert_int_equal(value(&d, "b")->i, ((int)(be >> 14 & 127) ^ 64) - 64);
    assert_int_equal(value(&d, "c")->u, be & 0x3fff);
    assert_int_equal(decode(&d, BYTES, 23), -EBADMSG);
    assert_int_equal(d.machine.error, DECODE_END);
    done(&d);
}

static void sequences_and_variants(void **state)
{
    char text[2048];
    struct decoded d;
    snprintf(text, sizeof(text),
             TSDL_HEAD "event { name = e; fields := struct { u8 _n; struct { u8 x; string s; } _list[_n];\n"
                       "  enum : u8 { one = 1, two = 2 ... 3 } _tag; variant <_tag> { u8 one; struct { u8 p; "
                       "u8 q; } two; } _v;\n"
                       "  integer { size = 8; align = 8; encoding = UTF8; } _text[4]; }; };",
             "le");
    open_text(&d, text);
    static const char BYTES[] = "\2\7ab\0\10\0\3\11\12hi\0x";
    assert_int_equal(decode(&d, BYTES, 8 * (sizeof(BYTES) - 1)), 0);
    const struct value *list = value(&d, "list");
    assert_int_equal(list->length, 2);
    const struct value *e = &d.machine.values[list->first];
    assert_int_equal(e[0].u, 7);
    assert_int_equal(e[1].length, 2);
    assert_memory_equal(e[1].s, "ab", 2);
    assert_int_equal(e[2].u, 8);
    assert_int_equal(e[3].length, 0);
    assert_int_equal(value(&d, "v.one")->absent, 1);
    assert_int_equal(value(&d, "v.two.p")->u, 9);
    assert_int_equal(value(&d, "v.two.q")->u, 10);
    assert_int_equal(value(&d, "text")->length, 2);
    static const char OTHER[] = "\0\1\11abcd";
    assert_int_equal(decode(&d, OTHER, 8 * (sizeof(OTHER) - 1)), 0);
    assert_int_equal(value(&d, "v.one")->u, 9);
    assert_int_equal(value(&d, "v.one")->absent, 0);
    assert_int_equal(value(&d, "v.two.p")->absent, 1);
    assert_int_equal(value(&d, "text")->length, 4);
    static const char BAD_TAG[] = "\0\7\11abcd";
    assert_int_equal(decode(&d, BAD_TAG, 8 * (sizeof(BAD_TAG) - 1)), -EBADMSG);
    assert_int_equal(d.machine.error, DECODE_VARIANT);
    static const char OPEN_STRING[] = "\1\7abcd";
    assert_int_equal(decode(&d, OPEN_STRING, 8 * (sizeof(OPEN_STRING) - 1)), -EBADMSG);
    assert_int_equal(d.machine.error, DECODE_STRING);
    done(&d);
}

/* "u8 *" is a type of its own, as wide as it says. */
static void pointers_are_types(void **state)
{
    char text[1024];
    struct decoded d;
    snprintf(text, sizeof(text),
             TSDL_HEAD "typealias integer { size = 64; align = 8; base = 16; } := const u8 * const *;\n"
                       "event { name = e; fields := struct { u8 const **p; u8 q; }; };",
             "le");
    open_text(&d, text);
    static const char BYTES[] = "\1\2\3\4\5\6\7\10\11";
    assert_int_equal(decode(&d, BYTES, 72), 0);
    assert_int_equal(value(&d, "p")->u, 0x0807060504030201);
    assert_int_equal(value(&d, "q")->u, 9);
    done(&d);
}

/* What only CTF 2 has. */
static void ctf2_kinds(void **state)
{
    static const char TEXT[] =
        "\x1e{\"type\":\"preamble\",\"version\":2}\n"
        "\x1e{\"type\":\"field-class-alias\",\"name\":\"u8\",\"field-class\":{\"type\":\"fixed-length-"
        "unsigned-integer\","
        "\"length\":8,\"byte-order\":\"little-endian\",\"alignment\":8}}\n"
        "\x1e{\"type\":\"trace-class\"}\n\x1e{\"type\":\"data-stream-class\"}\n"
        "\x1e{\"type\":\"event-record-class\",\"name\":\"e\",\"payload-field-class\":{\"type\":\"structure\","
        "\"member-classes\":["
        "{\"name\":\"b\",\"field-class\":{\"type\":\"fixed-length-boolean\",\"length\":8,\"byte-order\":"
        "\"big-endian\"}},"
        "{\"name\":\"o\",\"field-class\":{\"type\":\"optional\",\"selector-field-location\":{\"path\":[\"b\"]"
        "},"
        "\"field-class\":\"u8\"}},"
        "{\"name\":\"m\",\"field-class\":{\"type\":\"fixed-length-bit-map\",\"length\":8,\"byte-order\":"
        "\"little-endian\","
        "\"bit-order\":\"last-to-first\",\"flags\":{\"x\":[[0,3]]}}},"
        "{\"name\":\"v\",\"field-class\":{\"type\":\"variable-length-signed-integer\"}},"
        "{\"name\":\"w\",\"field-class\":{\"type\":\"variable-length-unsigned-integer\"}},"
        "{\"name\":\"s\",\"field-class\":{\"type\":\"static-length-string\",\"length\":6,\"encoding\":\"utf-"
        "16be\"}},"
        "{\"name\":\"d\",\"field-class\":{\"type\":\"dynamic-length-blob\",\"length-field-location\":"
        "{\"origin\":\"event-record-payload\",\"path\":[\"w\"]}}}]}}\n";
    struct decoded d;
    open_text(&d, TEXT);
    static const char BYTES[] = "\1\52\x80\x7b\x82\0\0A\x20\xac\0\0\xde\xad";
    assert_int_equal(decode(&d, BYTES, 8 * (sizeof(BYTES) - 1)), 0);
    assert_int_equal(value(&d, "b")->u, 1);
    assert_int_equal(value(&d, "o")->u, 42);
    assert_int_equal(value(&d, "m")->u, 1); /* the bits in the other order */
    assert_int_equal(value(&d, "v")->i, -5);
    assert_int_equal(value(&d, "w")->u, 2);
    assert_int_equal(value(&d, "s")->length, 4);
    assert_memory_equal(value(&d, "s")->s, "A\xe2\x82\xac", 4);
    assert_int_equal(value(&d, "d")->length, 2);
    assert_memory_equal(value(&d, "d")->s, "\xde\xad", 2);
    static const char WITHOUT[] = "\0\x80\x7b\0\0A\0B\0C";
    assert_int_equal(decode(&d, WITHOUT, 8 * (sizeof(WITHOUT) - 1)), 0);
    assert_int_equal(value(&d, "o")->absent, 1);
    assert_int_equal(value(&d, "s")->length, 3);
    done(&d);
}

/* Ranges of 64-bit enumerations reach beyond what JSON libraries call an integer. */
static void ctf2_ranges_of_64_bits(void **state)
{
    static const char TEXT[] =
        "\x1e{\"type\":\"preamble\",\"version\":2}\n"
        "\x1e{\"type\":\"data-stream-class\",\"name\":\"18446744073709551615\"}\n"
        "\x1e{\"type\":\"event-record-class\",\"name\":\"e\",\"payload-field-class\":{\"type\":\"structure\","
        "\"member-classes\":[{\"name\":\"n\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\","
        "\"length\":64,\"byte-order\":\"little-endian\",\"mappings\":{\"low\":[[0,9223372036854775807]],"
        "\"all but one\":[[ 9223372036854775808,18446744073709551614]],\"all\":[[18446744073709551615,"
        "18446744073709551615]]}}}]}}\n";
    struct decoded d;
    open_text(&d, TEXT);
    assert_string_equal(d.meta->streams->name, "18446744073709551615");
    static const struct {
        uint64_t n;
        const char *label;
    } CASES[] = {
        {7, "low"}, {1ull << 63, "all but one"}, {UINT64_MAX - 1, "all but one"}, {UINT64_MAX, "all"}};
    for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
        assert_int_equal(decode(&d, &CASES[i].n, 64), 0);
        assert_string_equal(trace_field_label(&d.class->fields[0], value(&d, "n")), CASES[i].label);
    }
    done(&d);
}

static void absurd_lengths_are_refused(void **state)
{
    char text[1024];
    struct decoded d;
    snprintf(text, sizeof(text),
             TSDL_HEAD "event { name = e; fields := struct { integer { size = 32; align = 8; } n;\n"
                       "  struct { } empty[n]; }; };",
             "le");
    open_text(&d, text);
    static const uint8_t MANY[] = {0xff, 0xff, 0x0f, 0}, FEW[] = {5, 0, 0, 0};
    assert_int_equal(decode(&d, FEW, 32), 0);
    assert_int_equal(decode(&d, MANY, 32), -EBADMSG);
    done(&d);
}

static void names_line_and_expectation(void **state)
{
    static const struct {
        const char *text, *expected;
    } WRONG[] = {
        {"trace { major = 1; byte_order = le; };\nevent { name = e; fields := struct { nothing x; }; };",
         "metadata:2:38: type 'nothing' is not declared"},
        {"trace { major = 1; byte_order = le; };\nevent { fields := struct { integer { size = 99; } x; }; };",
         "metadata:2:38: expected an integer from 1 to 64 as the value of 'size'"},
        {"trace { major = 1; byte_order = le; };\nevent { name = e; fields := struct { string s; integer { "
         "size = 8; } "
         "a[s]; }; };",
         "is not an unsigned integer"},
        {"trace { major = 1; byte_order = le; };\nevent { name = \"open", "a string that is not closed"},
        {"typealias integer { size = 8; } := u8;\ntrace { major = 1; byte_order = le; };\n"
         "event { name = e; fields := struct { u8 *p; }; };",
         "metadata:3:38: type 'u8 *' is not declared"},
        {"/* open", "a comment that is not closed"},
        {"trace { major = 2; };", "expected 1 as the value of 'major'"},
        {"clock { name = far; freq = 1000000000; offset_s = 1351530929945824323; }; trace { byte_order = le; "
         "};",
         "metadata: clock 'far': expected an offset that fits into nanoseconds since the Epoch"},
        {"{\"type\":\"preamble\",\"version\":3}", "expected an integer from 2 to 2 as 'version'"},
        {"{\"type\":\"preamble\",\"version\":2}\n{\"type\":\"event-record-class\",\"payload-field-class\":{"
         "\"type\":\"odd\"}}",
         "metadata:2: event-record-class: field class type 'odd' is unknown"},
        {"{\"type\":\"preamble\",\"version\":2}\n{", "expected JSON"},
        {"{\"type\":\"preamble\",\"version\":2,\"extensions\":{\"space\":{\"packing\":{}}}}",
         "metadata:1: preamble: extension 'packing' of 'space' is not supported"},
        /* also when no stream says so */
        {"{\"type\":\"preamble\",\"version\":2}\n{\"type\":\"trace-class\",\"packet-header-field-class\":{"
         "\"type\":\"structure\",\"member-classes\":[{\"name\":\"maybe\",\"field-class\":{\"type\":"
         "\"optional\","
         "\"selector-field-location\":{\"path\":[\"nowhere\"]},\"field-class\":{\"type\":"
         "\"null-terminated-string\"}}}]}}",
         "all streams, packet header: the selector of 'maybe', field 'nowhere', is not found before it"},
    };
    for (size_t i = 0; i < sizeof(WRONG) / sizeof(*WRONG); i++) {
        struct problem problem;
        struct metadata *m = NULL;
        assert_true(metadata_parse("metadata", WRONG[i].text, strlen(WRONG[i].text), &problem, &m) < 0);
        assert_null(m);
        if (!strstr(problem.what, WRONG[i].expected))
            fail_msg("expected \"%s\", found \"%s\"", WRONG[i].expected, problem.what);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packs_bits_from_both_ends),  cmocka_unit_test(sequences_and_variants),
        cmocka_unit_test(pointers_are_types),         cmocka_unit_test(ctf2_kinds),
        cmocka_unit_test(ctf2_ranges_of_64_bits),     cmocka_unit_test(absurd_lengths_are_refused),
        cmocka_unit_test(names_line_and_expectation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
