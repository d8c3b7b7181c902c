/* See ctf_writer.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/ctf_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/owner.h"
#include "base/text.h"

enum {
    PACKET_HEADER = 24,
    PACKET_CONTEXT = 48,
    PACKET_START = PACKET_HEADER + PACKET_CONTEXT,
    PACKET_BYTES = 64 << 10,
    EVENT_BYTES_MAX = 16 << 10,
    JOINED_FIRST = 1000000, /* number of the first stream of a writer that joins: above those of the first */
    METADATA_MAX = 1 << 20,
};

/* A stream's file. */
struct file {
    uint32_t pid, tid, number; /* its name */
    uint64_t bytes, discarded, last_ns;
};

struct ctf_writer {
    char *folder;
    /* Files of streams that have ended, in the order in which they did: a server that forks has thousands of
     * threads that do not live for long, and a reader opens all files. */
    ARRAY(struct file) left;
    uint8_t uuid[16];
    uint32_t stream_count;
    struct ctf_totals totals;
    /* For each event: bytes of its numeric fields, which stand without holes at the record's start. */
    uint16_t numeric_bytes[SONDE_EVENT_COUNT];
    bool has_strings[SONDE_EVENT_COUNT];
};

struct ctf_stream {
    struct ctf_writer *writer;
    int fd;
    uint32_t pid, tid;
    struct file file;
    uint64_t first_ns;
    uint64_t packet_events;
    size_t used; /* bytes of packet, PACKET_START when empty */
    uint8_t packet[PACKET_BYTES + EVENT_BYTES_MAX];
};

/* ---- metadata ---- */

static void add_uuid(struct text *text, const uint8_t *uuid)
{
    for (int i = 0; i < 16; i++)
        text_addf(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static void add_integer(struct text *text, int bits, bool is_signed, const char *base)
{
    text_addf(text, "integer { size = %d; align = 8; signed = %s; base = %s; }", bits,
              is_signed ? "true" : "false", base);
}

static void add_field(struct text *text, const struct event_field *field)
{
    static const struct {
        int bits;
        bool is_signed;
    } TYPES[] = {
        [FIELD_TYPE_u8] = {8, false},   [FIELD_TYPE_u16] = {16, false}, [FIELD_TYPE_u32] = {32, false},
        [FIELD_TYPE_u64] = {64, false}, [FIELD_TYPE_i32] = {32, true},  [FIELD_TYPE_i64] = {64, true}};
    const struct event_meaning *meaning = &event_meanings[field->meaning];
    text_add(text, "\t\t");
    if (field->type == FIELD_TYPE_str) {
        text_add(text, "string { encoding = UTF8; }");
    } else if (meaning->label_count) {
        text_add(text, "enum : ");
        add_integer(text, TYPES[field->type].bits, TYPES[field->type].is_signed, "decimal");
        text_add(text, " { ");
        for (uint32_t i = 0; i < meaning->label_count; i++)
            text_addf(text, "%s\"%s\" = %u", i ? ", " : "", meaning->labels[i].label,
                      meaning->labels[i].value);
        text_add(text, " }");
    } else {
        bool hex = field->meaning == SONDE_MEANING_hex;
        add_integer(text, TYPES[field->type].bits, TYPES[field->type].is_signed,
                    hex ? "hexadecimal" : "decimal");
    }
    text_addf(text, " _%s;\n", field->name);
}

/* Which start of which machine this is: recordings of one share their clock and their loopback addresses. */
static void add_machine(struct text *text)
{
    enum { LENGTH = 36 };
    _cleanup_(freep) char *id = NULL;
    size_t length = 0;
    if (file_read("/proc/sys/kernel/random/boot_id", LENGTH + 1, &id, &length) == 0 && length >= LENGTH)
        text_addf(text, "\tboot_id = \"%.*s\";\n", LENGTH, id);
}

static void add_metadata(struct text *text, const uint8_t *uuid, int64_t clock_offset_ns)
{
    text_add(text, "/* CTF 1.8 */\n\ntrace {\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"");
    add_uuid(text, uuid);
    text_add(text, "\";\n\tbyte_order = le;\n\tpacket.header := struct {\n\t\t");
    add_integer(text, 32, false, "hexadecimal");
    text_add(text, " magic;\n\t\t");
    add_integer(text, 8, false, "decimal");
    text_add(text, " uuid[16];\n\t\t");
    add_integer(text, 32, false, "decimal");
    text_add(
        text,
        " stream_id;\n\t};\n};\n\nenv {\n\tdomain = \"ust\";\n\ttracer_name = \"sonde\";\n\ttracer_version "
        "= \"" SONDE_VERSION "\";\n");
    add_machine(text);
    text_add(text, "};\n\n");
    text_addf(text,
              "clock {\n\tname = \"monotonic\";\n\tdescription = \"CLOCK_MONOTONIC\";\n\tfreq = 1000000000;\n"
              "\toffset_s = %lld;\n\toffset = %lld;\n};\n\n",
              (long long)(clock_offset_ns / (int64_t)NS_PER_S),
              (long long)(clock_offset_ns % (int64_t)NS_PER_S));
    text_add(text,
             "typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := "
             "time_ns;\n\nstream {\n\tid = 0;\n\tpacket.context := struct {\n\t\ttime_ns timestamp_begin;\n"
             "\t\ttime_ns timestamp_end;\n");
    static const char *const CONTEXT[] = {"content_size", "packet_size", "events_discarded"};
    for (size_t i = 0; i < ARRAY_SIZE(CONTEXT); i++) {
        text_add(text, "\t\t");
        add_integer(text, 64, false, "decimal");
        text_addf(text, " %s;\n", CONTEXT[i]);
    }
    text_add(text, "\t\t");
    add_integer(text, 32, false, "decimal");
    text_add(text, " pid;\n\t\t");
    add_integer(text, 32, false, "decimal");
    text_add(text, " tid;\n\t};\n\tevent.header := struct {\n\t\t");
    add_integer(text, 16, false, "decimal");
    text_add(text, " id;\n\t\ttime_ns timestamp;\n\t};\n};\n");
    for (int id = 1; id < SONDE_EVENT_COUNT; id++) {
        const struct event_description *d = &event_catalogue[id];
        text_addf(text, "\nevent {\n\tname = \"%s\";\n\tid = %d;\n\tstream_id = 0;\n\tfields := struct {\n",
                  d->name, id);
        for (int f = d->span ? 0 : 1; f < d->field_count; f++)
            add_field(text, &d->fields[f]);
        text_add(text, "\t};\n};\n");
    }
}

static int write_metadata(const struct ctf_writer *writer, struct problem *problem)
{
    struct text text = {0};
    char path[PATH_MAX];
    int64_t offset = (int64_t)clock_realtime_ns() - (int64_t)clock_monotonic_ns();
    add_metadata(&text, writer->uuid, offset);
    snprintf(path, sizeof(path), "%s/ctf/metadata", writer->folder);
    int r = text.failed ? -ENOMEM : 0;
    _cleanup_(file_closep) int fd = -1;
    if (r == 0) {
        fd = owner_open(path, O_WRONLY | O_CREAT | O_EXCL);
        r = fd < 0 ? fd : file_write_all(fd, text.at, text.length);
    }
    text_done(&text);
    if (r == -EEXIST) {
        problem_set(problem, r, "%s already holds a trace", writer->folder);
        problem_remedy(problem, "Name another directory with -o, or remove this one.");
    } else if (r < 0) {
        problem_set(problem, r, "%s: cannot be written: %s", path, strerror(-r));
    }
    return r;
}

/* ---- writer ---- */

static uint16_t numeric_bytes(const struct event_description *d)
{
    static const uint8_t SIZE[] = {1, 2, 4, 8, 4, 8, 0};
    uint16_t end = 0;
    for (int f = 1; f < d->field_count; f++)
        end = (uint16_t)(end + SIZE[d->fields[f].type]);
    return end;
}

static int writer_new(const char *folder, struct ctf_writer **ret_writer)
{
    _cleanup_(ctf_writer_freep) struct ctf_writer *writer = calloc(1, sizeof(*writer));
    if (!writer || !(writer->folder = strdup(folder)))
        return -ENOMEM;
    for (int id = 1; id < SONDE_EVENT_COUNT; id++) {
        const struct event_description *d = &event_catalogue[id];
        writer->numeric_bytes[id] = numeric_bytes(d);
        for (int f = 1; f < d->field_count; f++)
            writer->has_strings[id] |= d->fields[f].type == FIELD_TYPE_str;
    }
    *ret_writer = writer;
    writer = NULL;
    return 0;
}

int ctf_writer_create(const char *folder, struct ctf_writer **ret_writer, struct problem *problem)
{
    char streams[PATH_MAX];
    snprintf(streams, sizeof(streams), "%s/ctf", folder);
    int r = file_make_folder(streams);
    if (r < 0) {
        problem_set(problem, r, "%s: the directory cannot be created: %s", folder, strerror(-r));
        problem_remedy(problem, "Name a directory that you may write to with -o.");
        return r;
    }
    _cleanup_(ctf_writer_freep) struct ctf_writer *writer = NULL;
    r = writer_new(folder, &writer);
    if (r < 0)
        return r;
    if (getrandom(writer->uuid, sizeof(writer->uuid), 0) != sizeof(writer->uuid))
        return -EIO;
    r = write_metadata(writer, problem);
    if (r < 0)
        return r;
    *ret_writer = writer;
    writer = NULL;
    return 0;
}

/* Takes the trace's identity from its metadata; false unless the rest is what this version writes. */
static bool read_identity(const char *metadata, uint8_t *uuid)
{
    static const char UUID[] = "uuid = \"", SECONDS[] = "\toffset_s = ";
    const char *at = strstr(metadata, UUID), *clock = strstr(metadata, SECONDS);
    long long seconds, rest;
    if (!at || !clock || sscanf(clock, " offset_s = %lld; offset = %lld;", &seconds, &rest) != 2)
        return false;
    at += strlen(UUID);
    for (int i = 0; i < 16; i++, at += 2) {
        at += *at == '-';
        if (sscanf(at, "%2hhx", &uuid[i]) != 1)
            return false;
    }
    struct text same = {0};
    add_metadata(&same, uuid, seconds * (int64_t)NS_PER_S + rest);
    bool is_same = !same.failed && strcmp(text_get(&same), metadata) == 0;
    text_done(&same);
    return is_same;
}

int ctf_writer_join(const char *folder, struct ctf_writer **ret_writer, struct problem *problem)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/ctf/metadata", folder);
    _cleanup_(freep) char *metadata = NULL;
    int r = file_read(path, METADATA_MAX, &metadata, NULL);
    if (r < 0)
        return problem_set(problem, r, "%s: no trace to add to: %s", path, strerror(-r));
    _cleanup_(ctf_writer_freep) struct ctf_writer *writer = NULL;
    r = writer_new(folder, &writer);
    if (r < 0)
        return r;
    if (!read_identity(metadata, writer->uuid))
        return problem_set(problem, -EPROTO, "%s: another version of sonde made this trace", folder);
    writer->stream_count = JOINED_FIRST;
    *ret_writer = writer;
    writer = NULL;
    return 0;
}

void ctf_writer_free(struct ctf_writer *writer)
{
    if (!writer)
        return;
    array_done(&writer->left);
    free(writer->folder);
    free(writer);
}

void ctf_writer_totals(const struct ctf_writer *writer, struct ctf_totals *ret_totals)
{
    *ret_totals = writer->totals;
}

const char *ctf_writer_folder(const struct ctf_writer *writer)
{
    return writer->folder;
}

/* ---- streams ---- */

int ctf_stream_open(struct ctf_writer *writer, uint32_t pid, uint32_t tid, struct ctf_stream **ret_stream)
{
    struct ctf_stream *stream = malloc(sizeof(*stream));
    if (!stream)
        return -ENOMEM;
    memset(stream, 0, offsetof(struct ctf_stream, packet));
    stream->writer = writer;
    stream->fd = -1;
    stream->pid = pid;
    stream->tid = tid;
    stream->file = (struct file){.pid = pid, .tid = tid, .number = writer->stream_count++};
    stream->used = PACKET_START;
    *ret_stream = stream;
    return 0;
}

static uint8_t *put(uint8_t *at, const void *value, size_t size)
{
    memcpy(at, value, size);
    return at + size;
}

#define NAME_EARLIER_NS (100 * NS_PER_MS)

void ctf_stream_write(struct ctf_stream *stream, enum sonde_event_id id, uint64_t end_ns,
                      uint64_t duration_ns, const void *record, const char *strings)
{
    const struct event_description *d = &event_catalogue[id];
    /* A name is made when it is first needed: what needs it happened before, and its thread may have been off
     * its CPU in between. It gives way, by less than a live reader waits for what comes late. */
    if (id == SONDE_EVENT_probe_name && stream->file.last_ns && end_ns > stream->file.last_ns)
        end_ns = MAX(stream->file.last_ns, end_ns - MIN(end_ns, NAME_EARLIER_NS));
    if (end_ns < stream->file.last_ns) {
        uint64_t late = stream->file.last_ns - end_ns;
        stream->writer->totals.late_ns_worst = MAX(stream->writer->totals.late_ns_worst, late);
        end_ns = stream->file.last_ns;
    }
    if (stream->used >= PACKET_BYTES)
        (void)ctf_stream_flush(stream);
    if (stream->used == PACKET_START)
        stream->first_ns = end_ns;
    stream->file.last_ns = end_ns;

    uint16_t number = (uint16_t)id;
    uint8_t *at = stream->packet + stream->used, *limit = stream->packet + sizeof(stream->packet);
    at = put(at, &number, sizeof(number));
    at = put(at, &end_ns, sizeof(end_ns));
    if (d->span)
        at = put(at, &duration_ns, sizeof(duration_ns));
    at = put(at, record, stream->writer->numeric_bytes[id]);
    for (int f = 1; f < d->field_count && stream->writer->has_strings[id]; f++) {
        if (d->fields[f].type != FIELD_TYPE_str)
            continue;
        uint16_t length;
        memcpy(&length, (const char *)record + d->fields[f].record_offset, sizeof(length));
        ptrdiff_t room = MAX(limit - at - 64, 0); /* later strings still get their NUL */
        size_t kept = MIN((size_t)length, (size_t)room);
        for (size_t i = 0; i < kept; i++)
            at[i] = strings[i] ? (uint8_t)strings[i] : '?';
        at[kept] = 0;
        at += kept + 1;
        strings += length;
    }
    stream->used = (size_t)(at - stream->packet);
    stream->packet_events++;
}

void ctf_stream_discarded(struct ctf_stream *stream, uint64_t count)
{
    stream->file.discarded += count;
}

static int open_named(const struct ctf_stream *stream, const struct file *file, int flags)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/ctf/%u-%u-%u", stream->writer->folder, file->pid, file->tid,
             file->number);
    return owner_open(path, flags);
}

/* Goes on in the file of a stream that has ended, the one that did so first, if that was before. False: there
 * is none, and it gets a new one. */
static bool open_left(struct ctf_stream *stream)
{
    struct ctf_writer *writer = stream->writer;
    if (!writer->left.count || writer->left.at[0].last_ns > stream->first_ns)
        return false;
    struct file file = writer->left.at[0];
    memmove(writer->left.at, writer->left.at + 1, --writer->left.count * sizeof(*writer->left.at));
    int fd = open_named(stream, &file, O_WRONLY | O_NOFOLLOW);
    if (fd < 0 || lseek(fd, 0, SEEK_END) != (off_t)file.bytes) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    file.discarded += stream->file.discarded;
    file.last_ns = stream->file.last_ns;
    stream->file = file;
    stream->fd = fd;
    return true;
}

static int open_file(struct ctf_stream *stream)
{
    if (open_left(stream))
        return 0;
    do { /* others may have joined before */
        stream->fd = open_named(stream, &stream->file, O_WRONLY | O_CREAT | O_EXCL);
    } while (stream->fd == -EEXIST && stream->file.number++ >= JOINED_FIRST);
    return MIN(stream->fd, 0);
}

static void fill_header(struct ctf_stream *stream)
{
    const uint32_t magic = 0xC1FC1FC1, stream_id = 0;
    const uint64_t bits = stream->used * 8;
    uint8_t *at = stream->packet;
    at = put(at, &magic, sizeof(magic));
    at = put(at, stream->writer->uuid, sizeof(stream->writer->uuid));
    at = put(at, &stream_id, sizeof(stream_id));
    at = put(at, &stream->first_ns, sizeof(stream->first_ns));
    at = put(at, &stream->file.last_ns, sizeof(stream->file.last_ns));
    at = put(at, &bits, sizeof(bits));
    at = put(at, &bits, sizeof(bits));
    at = put(at, &stream->file.discarded, sizeof(stream->file.discarded));
    at = put(at, &stream->pid, sizeof(stream->pid));
    put(at, &stream->tid, sizeof(stream->tid));
}

int ctf_stream_flush(struct ctf_stream *stream)
{
    if (stream->used == PACKET_START)
        return 0;
    struct ctf_totals *totals = &stream->writer->totals;
    int r = stream->fd >= 0 ? 0 : open_file(stream);
    fill_header(stream);
    if (r == 0)
        r = file_write_all(stream->fd, stream->packet, stream->used);
    if (r == 0) {
        stream->file.bytes += stream->used;
        totals->bytes += stream->used;
        totals->events += stream->packet_events;
    } else {
        /* Part of a packet would hide those behind it: cut it off. */
        if (stream->fd >= 0 && (ftruncate(stream->fd, (off_t)stream->file.bytes) < 0 ||
                                lseek(stream->fd, (off_t)stream->file.bytes, SEEK_SET) < 0))
            r = -errno;
        totals->lost_events += stream->packet_events;
        totals->write_error = r;
        stream->file.discarded += stream->packet_events;
    }
    stream->used = PACKET_START;
    stream->packet_events = 0;
    return r;
}

void ctf_stream_free(struct ctf_stream *stream)
{
    if (!stream)
        return;
    enum { LEFT_MAX = 64 };
    struct ctf_writer *writer = stream->writer;
    (void)ctf_stream_flush(stream);
    if (stream->fd >= 0) {
        close(stream->fd);
        if (writer->left.count < LEFT_MAX)
            (void)array_add(&writer->left, stream->file); /* -ENOMEM: nobody goes on in it */
    }
    free(stream);
}
