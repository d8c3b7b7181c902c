/* Metadata in packets, with the headers of CTF 1.8 and of CTF2-PMETA-1.0, in both byte orders. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/metadata_packets.h"

#include <errno.h>

#include "trace/metadata.h"
#include "trace/trace.h"
#include "trace_sample.h"

enum { HEADER = 37, HEADER_2 = 44 };

static const char CTF2[] =
    "\x1e{\"type\":\"preamble\",\"version\":2}\n"
    "\x1e{\"type\":\"trace-class\"}\n\x1e{\"type\":\"data-stream-class\"}\n"
    "\x1e{\"type\":\"event-record-class\",\"name\":\"an event in the second packet\"}\n";

static void put32(struct bytes *b, uint32_t value, bool big)
{
    put(b, big ? __builtin_bswap32(value) : value, 4);
}

/* One packet: its text, then some padding. */
static void put_packet(struct bytes *b, const char *text, size_t length, size_t header, unsigned major,
                       bool big, uint8_t first_of_uuid)
{
    uint32_t content = (uint32_t)(header + length) * 8;
    put32(b, 0x75d11d57, big);
    put(b, first_of_uuid, 8);
    put(b, 7, 8);
    put32(b, 0, big);
    put32(b, content, big);
    put32(b, content + 5 * 8, big);
    put(b, 0, 3);
    put(b, major, 1);
    put(b, major == 1 ? 8 : 0, 1);
    if (header >= HEADER_2) {
        put(b, 0, 3);
        put32(b, (uint32_t)header * 8, big);
        for (size_t i = HEADER_2; i < header; i++)
            put(b, 0xab, 1);
    }
    for (size_t i = 0; i < length; i++)
        put(b, (uint8_t)text[i], 1);
    put(b, 0, 5);
}

static int parse_packets(const char *text, size_t header, unsigned major, bool big, uint8_t second,
                         struct problem *problem, struct metadata **ret_metadata)
{
    struct bytes b = {.count = 0};
    size_t length = strlen(text), half = length / 2;
    put_packet(&b, text, half, header, major, big, 1);
    put_packet(&b, text + half, length - half, header, major, big, second);
    return metadata_parse("metadata", (const char *)b.at, b.count, problem, ret_metadata);
}

static void every_header_in_both_orders(void **state)
{
    static const struct {
        size_t header;
        unsigned major;
    } CASES[] = {{HEADER, 1}, {HEADER, 2}, {HEADER_2, 2}, {HEADER_2 + 12, 2}};
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
        for (int big = 0; big < 2; big++) {
            struct metadata *m = NULL;
            struct problem problem = {{0}};
            if (parse_packets(CTF2, CASES[i].header, CASES[i].major, big, 1, &problem, &m) < 0)
                fail_msg("header of %zu bytes, version %u, %s: %s", CASES[i].header, CASES[i].major,
                         big ? "big-endian" : "little-endian", problem.what);
            assert_int_equal(m->version, 2);
            assert_string_equal(m->streams->events->name, "an event in the second packet");
            metadata_free(m);
        }
}

static void refuses_what_is_no_packet_of_the_same_metadata(void **state)
{
    struct metadata *m = NULL;
    struct problem problem = {{0}};
    assert_int_equal(parse_packets(CTF2, HEADER_2, 2, false, 2, &problem, &m), -EINVAL);
    assert_non_null(strstr(problem.what, "expected the UUID of the metadata's first packet"));
    assert_int_equal(parse_packets(CTF2, 40, 2, true, 1, &problem, &m),
                     -EINVAL); /* a header of 40 bytes: text at 37 */
    assert_null(m);
}

static void a_trailing_comma_is_named(void **state)
{
    struct metadata *m = NULL;
    struct problem problem = {{0}};
    static const char OBJECT[] = "[{\"type\":\"preamble\",\"version\":2 , }]",
                      LIST[] = "{\"type\":\"preamble\",\"version\":[2,\n]}";
    assert_int_equal(metadata_parse("metadata", OBJECT, strlen(OBJECT), &problem, &m), -EINVAL);
    assert_non_null(strstr(problem.what, "a comma before the end"));
    assert_int_equal(metadata_parse("metadata", LIST, strlen(LIST), &problem, &m), -EINVAL);
    assert_non_null(strstr(problem.what, "a comma before the end"));
    assert_int_equal(metadata_parse("metadata", "[1 2]", 5, &problem, &m), -EINVAL);
    assert_null(strstr(problem.what, "a comma before the end"));
}

/* ---- a packet of another trace among a stream's ---- */

static const char WITH_UUID[] =
    "/* CTF 1.8 */\n"
    "typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"
    "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
    "trace { major = 1; minor = 8; uuid = \"00010203-0405-0607-0809-0a0b0c0d0e0f\"; byte_order = le;\n"
    "  packet.header := struct { uint32_t magic; uint8_t uuid[16]; }; };\n"
    "stream { packet.context := struct { uint32_t content_size; uint32_t packet_size; };\n"
    "  event.header := struct { uint8_t id; }; };\n"
    "event { id = 0; name = \"e\"; fields := struct { uint8_t n; }; };\n";
static const char WITH_UUID_2[] =
    "\x1e{\"type\":\"preamble\",\"version\":2,\"uuid\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}\n"
    "\x1e{\"type\":\"field-class-alias\",\"name\":\"u8\",\"field-class\":{\"type\":\"fixed-length-unsigned-"
    "integer\","
    "\"length\":8,\"byte-order\":\"little-endian\",\"alignment\":8}}\n"
    "\x1e{\"type\":\"trace-class\",\"packet-header-field-class\":{\"type\":\"structure\",\"member-classes\":["
    "{\"name\":\"m\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":32,\"byte-"
    "order\":"
    "\"little-endian\",\"alignment\":8,\"roles\":[\"packet-magic-number\"]}},"
    "{\"name\":\"u\",\"field-class\":{\"type\":\"static-length-blob\",\"length\":16,\"roles\":[\"metadata-"
    "stream-uuid\"]"
    "}}]}}\n"
    "\x1e{\"type\":\"data-stream-class\",\"packet-context-field-class\":{\"type\":\"structure\",\"member-"
    "classes\":["
    "{\"name\":\"c\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":32,\"byte-"
    "order\":"
    "\"little-endian\",\"alignment\":8,\"roles\":[\"packet-content-length\"]}},"
    "{\"name\":\"p\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":32,\"byte-"
    "order\":"
    "\"little-endian\",\"alignment\":8,\"roles\":[\"packet-total-length\"]}}]},"
    "\"event-record-header-field-class\":{\"type\":\"structure\",\"member-classes\":[{\"name\":\"id\","
    "\"field-class\":"
    "{\"type\":\"fixed-length-unsigned-integer\",\"length\":8,\"byte-order\":\"little-endian\",\"alignment\":"
    "8,"
    "\"roles\":[\"event-record-class-id\"]}}]}}\n"
    "\x1e{\"type\":\"event-record-class\",\"id\":0,\"name\":\"e\",\"payload-field-class\":{\"type\":"
    "\"structure\","
    "\"member-classes\":[{\"name\":\"n\",\"field-class\":\"u8\"}]}}\n";

static void put_data_packet(struct bytes *b, uint8_t last_of_uuid, uint8_t n)
{
    put(b, 0xc1fc1fc1, 4);
    for (uint8_t i = 0; i < 15; i++)
        put(b, i, 1);
    put(b, last_of_uuid, 1);
    put(b, 30 * 8, 4);
    put(b, 30 * 8, 4);
    put(b, 0, 1);
    put(b, n, 1);
}

static void a_packet_of_another_trace_is_not_read(void **state)
{
    static const char *const METADATA[] = {WITH_UUID, WITH_UUID_2};
    for (size_t i = 0; i < ARRAY_SIZE(METADATA); i++) {
        char *folder = sample_folder();
        struct bytes b = {.count = 0};
        put_data_packet(&b, 15, 1);
        put_data_packet(&b, 99, 2);
        sample_write(folder, "metadata", METADATA[i], strlen(METADATA[i]));
        sample_write(folder, "stream", b.at, b.count);
        struct trace *t = NULL;
        struct problem problem;
        const struct event *e;
        size_t losses;
        assert_int_equal(trace_open(folder, NULL, &problem, &t), 0);
        assert_int_equal(trace_next(t, &e), 1);
        assert_int_equal(e->values[0].u, 1);
        assert_int_equal(trace_next(t, &e), 0);
        const struct trace_loss *loss = trace_losses(t, &losses);
        assert_int_equal(losses, 1);
        assert_int_equal(loss->kind, LOSS_UNREADABLE);
        assert_int_equal(loss->count, 30);
        assert_int_equal(loss->offset, 30 + 4);
        trace_close(t);
        sample_remove(folder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_header_in_both_orders),
        cmocka_unit_test(refuses_what_is_no_packet_of_the_same_metadata),
        cmocka_unit_test(a_trailing_comma_is_named),
        cmocka_unit_test(a_packet_of_another_trace_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
