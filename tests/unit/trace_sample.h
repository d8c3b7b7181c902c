/* Small traces written by hand for the tests of src/trace: a growing byte buffer with little-endian fields,
 * and a folder in the temporary place that is removed afterwards. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_TRACE_SAMPLE_H
#define TESTS_UNIT_TRACE_SAMPLE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "test.h"

struct bytes {
    uint8_t at[65536];
    size_t count;
};

static inline void put(struct bytes *b, uint64_t value, unsigned width)
{
    assert_true(b->count + width <= sizeof(b->at));
    memcpy(b->at + b->count, &value, width);
    b->count += width;
}

static inline void put_text(struct bytes *b, const char *text)
{
    size_t n = strlen(text) + 1;
    assert_true(b->count + n <= sizeof(b->at));
    memcpy(b->at + b->count, text, n);
    b->count += n;
}

static inline char *sample_folder(void)
{
    char *folder = malloc(TEST_PATH);
    assert_non_null(folder);
    assert_non_null(mkdtemp(test_path(folder)));
    return folder;
}

static inline void sample_remove(char *folder)
{
    char command[TEST_PATH + 16];
    assert_non_null(strstr(folder, "/sonde-test-"));
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
    free(folder);
}

static inline void sample_write(const char *folder, const char *name, const void *data, size_t length)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, length, f), length);
    fclose(f);
}

/* A layout like that of sonde's own recordings; events follow as text. */
#define SAMPLE_HEAD                                                                                    \
    "/* CTF 1.8 */\n"                                                                                  \
    "typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"                         \
    "typealias integer { size = 16; align = 8; signed = false; } := uint16_t;\n"                       \
    "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"                       \
    "typealias integer { size = 32; align = 8; signed = true; } := int32_t;\n"                         \
    "typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"                       \
    "trace { major = 1; minor = 8; byte_order = le; packet.header := struct { uint32_t magic; }; };\n" \
    "clock { name = monotonic; freq = 1000000000; offset = 1000; };\n"                                 \
    "typealias integer { size = 64; align = 8; map = clock.monotonic.value; } := stamp_t;\n"           \
    "stream { packet.context := struct { stamp_t timestamp_begin; stamp_t timestamp_end; uint64_t "    \
    "content_size;\n"                                                                                  \
    "  uint64_t packet_size; uint64_t events_discarded; uint32_t pid; uint32_t tid; };\n"              \
    "  event.header := struct { uint16_t id; stamp_t timestamp; }; };\n"

/* Starts a packet; its sizes are filled in by sample_packet_end(). */
static inline size_t sample_packet_begin(struct bytes *b, uint64_t begin, uint64_t end, uint64_t discarded,
                                         uint32_t pid, uint32_t tid)
{
    size_t start = b->count;
    put(b, 0xc1fc1fc1, 4);
    put(b, begin, 8);
    put(b, end, 8);
    put(b, 0, 8);
    put(b, 0, 8);
    put(b, discarded, 8);
    put(b, pid, 4);
    put(b, tid, 4);
    return start;
}

static inline void sample_packet_end(struct bytes *b, size_t start, size_t padding)
{
    uint64_t content = (b->count - start) * 8, packet = content + padding * 8;
    memcpy(b->at + start + 20, &content, 8);
    memcpy(b->at + start + 28, &packet, 8);
    for (size_t i = 0; i < padding; i++)
        put(b, 0xee, 1);
}

#endif
