/* Streams: the input is metadata, a NUL, and a stream file. Every event is decoded, then the stream is
 * sought. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trace/format.h"
#include "trace/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { EVENTS_MAX = 2000 };

/* Reads everything that a value points to. */
static uint64_t touch(const struct metadata *m, const struct stream *s, const struct machine *machine)
{
    struct event e = {.class = s->event->public, .values = machine->values, .packet = s->packet_values};
    struct text text = {0};
    (void)m;
    for (uint32_t i = 0; i < e.class->field_count; i++)
        if (e.values[i].length > 100000)
            return 0;
    format_json(&text, &e, NULL, NULL);
    uint64_t n = text.length;
    text_done(&text);
    return n;
}

static void read_stream(const struct metadata *m, const char *path)
{
    struct stream s = {.index = 0};
    struct arena text = {0};
    struct machine machine = {.text = &text};
    struct problem problem;
    machine.registers = calloc(m->register_count + 1, sizeof(*machine.registers));
    int64_t middle = 0;
    if (machine.registers && stream_open(&s, m, path, &problem) >= 0 && stream_probe(&s, &machine) >= 0) {
        for (int n = 0; n < EVENTS_MAX && stream_advance(&s, &machine) > 0; n++) {
            if (stream_decode(&s, &machine) == 0)
                touch(m, &s, &machine);
            if (n == EVENTS_MAX / 8)
                middle = s.time_ns;
        }
        if (stream_seek(&s, &machine, middle) > 0)
            stream_decode(&s, &machine);
    }
    stream_done(&s);
    free(machine.registers);
    free(machine.values);
    arena_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct problem problem;
    struct metadata *m = NULL;
    const uint8_t *end = memchr(data, 0, size);
    if (!end || metadata_parse("metadata", (const char *)data, (size_t)(end - data), &problem, &m) < 0)
        return 0;
    int fd = memfd_create("stream", MFD_CLOEXEC);
    size_t length = size - (size_t)(end + 1 - data);
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (fd >= 0 && write(fd, end + 1, length) == (ssize_t)length)
        read_stream(m, path);
    if (fd >= 0)
        close(fd);
    metadata_free(m);
    return 0;
}
