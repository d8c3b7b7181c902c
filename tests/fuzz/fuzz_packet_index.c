/* Packet index files (index/NAME.idx) beside a sound stream: whatever they say, opening, seeking and reading
 * end, and without an index that fits all events are read. Half of the inputs (by their first byte) get what
 * is checked first made right: head, offsets and sizes of packets. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "trace/lttng_index.h"
#include "trace/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PACKETS = 5, EVENTS = 3, PACKET = 128, HEAD = 16, ENTRY_MIN = 56, INPUT_MAX = 4096 };

static const char METADATA[] =
    "/* CTF 1.8 */\n"
    "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
    "typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"
    "trace { major = 1; minor = 8; byte_order = le; packet.header := struct { uint32_t magic; uint32_t "
    "stream_id; "
    "}; };\n"
    "clock { name = c; freq = 1000000000; offset = 5; };\n"
    "typealias integer { size = 64; align = 8; signed = false; map = clock.c.value; } := stamp;\n"
    "stream { id = 0; event.header := struct { uint32_t id; stamp timestamp; };\n"
    "  packet.context := struct { stamp timestamp_begin; stamp timestamp_end; uint64_t content_size; "
    "uint64_t "
    "packet_size; uint64_t events_discarded; uint64_t packet_seq_num; }; };\n"
    "event { name = \"e\"; id = 0; stream_id = 0; fields := struct { uint32_t f; }; };\n";

static char folder[64], stream_path[96], index_path[112];
static struct metadata *meta;

static void remove_all(void)
{
    char inner[96];
    snprintf(inner, sizeof(inner), "%s/index", folder);
    unlink(index_path);
    rmdir(inner);
    unlink(stream_path);
    rmdir(folder);
    metadata_free(meta);
}

static void put(uint8_t **at, uint64_t value, unsigned bytes)
{
    memcpy(*at, &value, bytes);
    *at += bytes;
}

/* PACKETS packets of EVENTS events each, a microsecond between events. */
static void make_stream(void)
{
    static uint8_t file[PACKETS * PACKET];
    struct problem problem;
    for (uint64_t p = 0; p < PACKETS; p++) {
        uint8_t *at = file + p * PACKET, *start = at;
        uint64_t begin = 1000 * EVENTS * p;
        put(&at, 0xc1fc1fc1, 4);
        put(&at, 0, 4);
        put(&at, begin, 8);
        put(&at, begin + 1000 * EVENTS - 1, 8);
        put(&at, (8 + 6 * 8 + EVENTS * 16) * 8, 8);
        put(&at, PACKET * 8, 8);
        put(&at, 0, 8);
        put(&at, p, 8);
        for (uint64_t e = 0; e < EVENTS; e++) {
            put(&at, 0, 4);
            put(&at, begin + 1000 * e, 8);
            put(&at, e, 4);
        }
        if (at > start + PACKET)
            abort();
    }
    snprintf(folder, sizeof(folder), "%s/sonde-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder))
        abort();
    atexit(remove_all);
    snprintf(stream_path, sizeof(stream_path), "%s/s", folder);
    snprintf(index_path, sizeof(index_path), "%s/index", folder);
    mkdir(index_path, 0700);
    snprintf(index_path, sizeof(index_path), "%s/index/s.idx", folder);
    FILE *f = fopen(stream_path, "w");
    if (!f || fwrite(file, 1, sizeof(file), f) != sizeof(file) || fclose(f) ||
        metadata_parse("metadata", METADATA, sizeof(METADATA) - 1, &problem, &meta) < 0)
        abort();
}

static void put_big(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
}

/* Makes the head and the packets' places right; times, counts and classes stay as they are. Its length. */
static size_t mend(uint8_t *index, size_t size)
{
    uint32_t entry = size > HEAD && index[15] & 1 ? 72 : ENTRY_MIN;
    size_t length = HEAD + (size_t)PACKETS * entry;
    if (size < length)
        return size;
    put_big(index, 0xc1f1dcc1, 4);
    put_big(index + 4, 1, 4);
    put_big(index + 12, entry, 4);
    for (unsigned p = 0; p < PACKETS; p++) {
        uint8_t *at = index + HEAD + (size_t)p * entry;
        put_big(at, (uint64_t)p * PACKET, 8);
        put_big(at + 8, PACKET * 8, 8);
        put_big(at + 16, PACKET * 8, 8);
        put_big(at + 48, at[55] & 7 ? 0 : at[55], 8); /* mostly the class that there is */
    }
    return length;
}

static size_t read_rest(struct stream *s, struct machine *machine, int r)
{
    size_t n = 0;
    for (; r > 0 && n <= (size_t)PACKETS * EVENTS; r = stream_advance(s, machine)) {
        n++;
        if (stream_decode(s, machine) < 0)
            abort(); /* the stream is sound */
    }
    return n;
}

static void use(bool fits, const uint8_t *asked, size_t size)
{
    struct stream s = {.index = 0};
    struct arena text = {0};
    struct machine machine = {.text = &text};
    struct problem problem;
    machine.registers = calloc(meta->register_count + 1, sizeof(*machine.registers));
    if (!machine.registers || stream_open(&s, meta, stream_path, &problem) < 0 ||
        stream_probe(&s, &machine) < 0)
        abort();
    for (unsigned i = 0; i < 4; i++) {
        int64_t time_ns = (int64_t)i * 4321;
        if (size >= 8 * (i + 1))
            memcpy(&time_ns, asked + size - 8 * (i + 1), 8);
        size_t n = read_rest(&s, &machine, stream_seek(&s, &machine, time_ns));
        if (n > PACKETS * EVENTS || (!fits && time_ns <= 0 && n != PACKETS * EVENTS))
            abort();
    }
    stream_done(&s);
    free(machine.registers);
    free(machine.values);
    arena_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!meta)
        make_stream();
    if (size < 2 || size > INPUT_MAX)
        return 0;
    uint8_t copy[INPUT_MAX];
    size_t length = size - 1;
    memcpy(copy, data + 1, length);
    if (data[0] & 1)
        length = mend(copy, length);
    FILE *f = fopen(index_path, "w");
    if (!f || fwrite(copy, 1, length, f) != length || fclose(f))
        abort();
    struct lttng_index index = {0};
    bool fits = lttng_index_read(stream_path, (uint64_t)PACKETS * PACKET, &index) == 0;
    uint64_t end = 0;
    for (size_t i = 0; fits && i < index.count; i++) {
        if (index.entries[i].offset != end)
            abort();
        end += index.entries[i].packet_bits / 8;
    }
    if (fits && end != (uint64_t)PACKETS * PACKET)
        abort();
    free(index.entries);
    use(fits, data, size);
    return 0;
}
