/* See stream.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "trace/lttng_index.h"

#define PACKET_MAGIC 0xc1fc1fc1u
#define PAGE         4096ull

/* Pages behind the reading position are given back in steps of this size, so that a long trace does not count
 * as memory of ours. */
#define RELEASE_BYTES      (1ull << 20)
#define FAULT_AROUND_BYTES (64ull << 10)

/* ---- the file ---- */

/* Maps size bytes of fd with a page of zeros behind, so that loads may reach over the end. */
static int map_file(int fd, uint64_t size, uint8_t **ret_data, uint64_t *ret_mapped)
{
    uint64_t mapped = ((size + PAGE - 1) & ~(PAGE - 1)) + PAGE;
    void *room = mmap(NULL, mapped, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return -errno;
    if (mmap(room, size, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        int r = -errno;
        munmap(room, mapped);
        return r;
    }
    madvise(room, size, MADV_SEQUENTIAL);
    *ret_data = room;
    *ret_mapped = mapped;
    return 0;
}

static int open_file(const char *path, uint64_t *ret_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0) {
        int r = -errno;
        close(fd);
        return r;
    }
    *ret_size = (uint64_t)st.st_size;
    return fd;
}

static int map_current(struct stream *s)
{
    uint64_t size = 0;
    struct stream_file *f = &s->files.at[s->file];
    _cleanup_(file_closep) int fd = open_file(f->path, &size);
    if (fd < 0)
        return fd;
    if (size == 0)
        return -ENODATA;
    uint8_t *data = NULL;
    uint64_t mapped = 0;
    int r = map_file(fd, size, &data, &mapped);
    if (r < 0)
        return r;
    if (s->packet && !s->before) { /* the file grew under the packet that is being read */
        s->before = s->data;
        s->before_mapped = s->mapped;
    } else if (s->data) {
        munmap(s->data, s->mapped);
    }
    s->data = data;
    s->mapped = mapped;
    s->public.bytes += size - f->size;
    s->size = f->size = size;
    if (s->packet) {
        s->packet = s->data + s->packet_offset;
        s->release_at = s->data;
    }
    return 0;
}

/* Nothing points into what the packet's context was read from any more. */
static void unmap_before(struct stream *s)
{
    if (s->before)
        munmap(s->before, s->before_mapped);
    s->before = NULL;
}

int stream_open(struct stream *stream, const struct metadata *meta, const char *path, struct problem *problem)
{
    struct stream_file file = {.path = strdup(path)};
    if (!file.path || array_add(&stream->files, file) < 0) {
        free(file.path);
        return problem_set(problem, -ENOMEM, "%s: not enough memory", path);
    }
    stream->meta = meta;
    stream->public.path = file.path;
    int r = map_current(stream);
    if (r < 0)
        return r == -ENODATA ? r : problem_set(problem, r, "%s: cannot read: %s", path, strerror(-r));
    stream->registers = calloc(meta->stream_register_count, sizeof(*stream->registers));
    return stream->registers ? 0 : problem_set(problem, -ENOMEM, "%s: not enough memory", path);
}

void streams_unmap(struct stream *streams, size_t count)
{
    uint8_t *begin = NULL, *end = NULL;
    for (size_t i = 0; i < count; i++) {
        struct stream *s = &streams[i];
        if (s->data && s->data + s->mapped == begin) { /* the kernel maps downwards */
            begin = s->data;
        } else if (s->data) {
            if (begin)
                munmap(begin, (size_t)(end - begin));
            begin = s->data;
            end = s->data + s->mapped;
        }
        s->data = NULL;
    }
    if (begin)
        munmap(begin, (size_t)(end - begin));
}

void stream_done(struct stream *stream)
{
    if (!stream)
        return;
    if (stream->data)
        munmap(stream->data, stream->mapped);
    unmap_before(stream);
    arena_done(&stream->packet_text);
    array_foreach (&stream->files, f)
        free(f->path);
    array_done(&stream->files);
    free(stream->registers);
    free(stream->packet_values);
    free(stream->losses);
    if (!stream->index_borrowed)
        array_done(&stream->index_entries);
    memset(stream, 0, sizeof(*stream));
}

static void forget_packet(struct stream *s)
{
    s->packet_offset = s->packet_bytes = s->released = 0;
    s->packet = NULL;
}

int stream_rewind(struct stream *s)
{
    bool first = s->file == 0;
    forget_packet(s);
    s->clock = s->done_bytes = 0;
    s->met_ns = INT64_MIN;
    s->counted_events = s->counted_packets = false;
    s->file = 0;
    free(s->losses);
    s->losses = NULL;
    s->ended = false;
    return first ? 0 : map_current(s);
}

bool stream_same(const struct stream *a, const struct stream *b)
{
    return a->has_instance && b->has_instance && a->instance == b->instance && a->class &&
           a->class == b->class && a->meta == b->meta && a->class->clock;
}

int stream_join(struct stream *stream, struct stream *other)
{
    struct stream_file file = other->files.at[0];
    if (array_add(&stream->files, file) < 0)
        return -ENOMEM;
    size_t i = stream->files.count - 1;
    for (; i > 0 && stream->files.at[i - 1].begin_ns > file.begin_ns; i--)
        stream->files.at[i] = stream->files.at[i - 1];
    stream->files.at[i] = file;
    stream->public.bytes += other->public.bytes;
    stream->public.path = stream->files.at[0].path;
    array_clear(&other->files);
    stream_done(other);
    return i == 0 ? map_current(stream) : 0;
}

/* On to the next file of the stream: 1, or 0 when there is none. */
static int next_file(struct stream *s)
{
    if (s->file + 1 >= s->files.count)
        return 0;
    s->done_bytes += s->size;
    s->file++;
    forget_packet(s);
    int r = map_current(s);
    return r == -ENOMEM ? r : r < 0 ? 0 : 1;
}

int64_t stream_refresh(struct stream *stream)
{
    struct stat st;
    if (stream->file + 1 < stream->files.count)
        return 0;
    if (stat(stream->files.at[stream->file].path, &st) < 0)
        return -errno;
    uint64_t before = stream->size;
    if ((uint64_t)st.st_size <= before)
        return 0;
    int r = map_current(stream);
    if (r < 0)
        return r;
    if (stream->losses)
        stream->losses[LOSS_TRUNCATED].count = 0;
    return (int64_t)(stream->size - before);
}

static void set_release(struct stream *s)
{
    uint64_t step = s->release_step ? s->release_step : RELEASE_BYTES;
    s->release_at = s->data + MIN(s->released + step, s->mapped);
}

/* Gives back what lies before a position. What is looked at again comes back from the file. The kernel maps
 * pages around the one that is touched (64 KiB, aligned), and so also some before it that were given back:
 * the range begins a little earlier. */
static void release_behind(struct stream *s, const uint8_t *position)
{
    uint64_t to = (uint64_t)(position - s->data) & ~(PAGE - 1);
    uint64_t from = s->released - MIN(s->released, FAULT_AROUND_BYTES);
    if (to > s->released)
        madvise(s->data + from, to - from, MADV_DONTNEED);
    s->released = to;
    set_release(s);
}

/* ---- losses ---- */

static void lose(struct stream *s, enum trace_loss_kind kind, uint64_t count, uint64_t offset,
                 const char *expected)
{
    if (s->sliced && (s->met_ns < s->slice_from_ns || s->met_ns >= s->slice_to_ns))
        return;
    if (!s->losses && !(s->losses = calloc(LOSS_KINDS, sizeof(*s->losses))))
        return;
    struct trace_loss *loss = &s->losses[kind];
    if (loss->count == 0) {
        loss->kind = kind;
        loss->stream = s->index;
        loss->path = s->files.at[s->file].path;
        loss->offset = offset;
        if (expected)
            snprintf(loss->what, sizeof(loss->what), "expected %s", expected);
    }
    loss->count += count;
}

static void lose_rest_of_packet(struct stream *s, uint64_t at_bits, const char *expected)
{
    uint64_t offset = s->packet_offset + at_bits / 8, end = s->packet_offset + s->packet_bytes;
    lose(s, LOSS_UNREADABLE, end > offset ? end - offset : 1, offset, expected);
}

/* ---- times ---- */

static uint64_t cycles_to_ns(uint64_t frequency, uint64_t cycles)
{
    if (frequency == 1000000000)
        return cycles;
    double ns = 1e9 * (double)cycles / (double)frequency; /* as babeltrace2 rounds */
    return ns >= (double)UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

int64_t stream_time(const struct metadata *meta, const struct clock_class *clock, uint64_t cycles)
{
    if (!clock)
        return 0;
    uint64_t ns = cycles_to_ns(clock->frequency, cycles);
    return (int64_t)(meta->own ? ns : ns + (uint64_t)clock->base_ns);
}

static inline int64_t corrected(const struct stream *s, int64_t ns)
{
    if (!s->aligned)
        return ns;
    return ns - s->align_offset_ns - (int64_t)(s->align_drift * (double)(ns - s->align_origin_ns));
}

int64_t stream_corrected(const struct stream *stream, int64_t ns)
{
    return corrected(stream, ns);
}

/* ---- packets ---- */

static uint64_t role(const struct machine *m, enum field_role role, uint64_t otherwise)
{
    return m->roles & 1u << role ? m->role[role] : otherwise;
}

static const struct stream_meta *find_class(const struct metadata *meta, const struct machine *m)
{
    if (!(m->roles & 1u << ROLE_STREAM_CLASS_ID))
        return meta->streams && !meta->streams->next ? meta->streams : NULL;
    for (const struct stream_meta *s = meta->streams; s; s = s->next)
        if (s->id == m->role[ROLE_STREAM_CLASS_ID])
            return s;
    return NULL;
}

/* Differences of the counters, modulo their widths' wrap, against the packet before. */
static void count_discarded(struct stream *s, const struct machine *m)
{
    if (m->roles & 1u << ROLE_DISCARDED) {
        uint64_t now = m->role[ROLE_DISCARDED], before = s->counted_events ? s->discarded : 0;
        if (now > before)
            lose(s, LOSS_DISCARDED_EVENTS, now - before, s->packet_offset, NULL);
        s->discarded = now;
        s->counted_events = true;
    }
    if (m->roles & 1u << ROLE_SEQUENCE_NUMBER) {
        uint64_t now = m->role[ROLE_SEQUENCE_NUMBER];
        if (s->counted_packets && now > s->sequence + 1)
            lose(s, LOSS_DISCARDED_PACKETS, now - s->sequence - 1, s->packet_offset, NULL);
        s->sequence = now;
        s->counted_packets = true;
    }
}

static int keep_packet_values(struct stream *s, const struct machine *m)
{
    if (m->value_count > s->packet_value_capacity) {
        struct value *moved = realloc(s->packet_values, m->value_count * sizeof(*moved));
        if (!moved)
            return -ENOMEM;
        s->packet_values = moved;
        s->packet_value_capacity = m->value_count;
    }
    s->packet_value_count = m->value_count;
    if (m->value_count)
        memcpy(s->packet_values, m->values, m->value_count * sizeof(*m->values));
    int32_t pid = s->class->packet_pid_slot, tid = s->class->packet_tid_slot;
    s->packet_pid = pid < 0 ? -1 : s->packet_values[pid].i;
    s->packet_tid = tid < 0 ? -1 : s->packet_values[tid].i;
    return 0;
}

/* The rest of the file cannot be understood, unless another packet header of this trace follows. */
static int give_up_packet(struct stream *s, uint64_t offset, const char *expected)
{
    uint64_t next = s->size;
    lose(s, LOSS_UNREADABLE, next - s->packet_offset, offset, expected);
    s->packet_offset = next;
    s->packet_bytes = 0;
    s->packet = NULL;
    return 0;
}

/* The packet's context; its converted texts stay until the next packet. */
static int read_context(struct stream *s, struct machine *m)
{
    struct arena *text = m->text;
    if (!m->keep_text) {
        arena_done(&s->packet_text);
        m->text = &s->packet_text;
    }
    int r = layout_run(m, s->class->packet_program);
    m->text = text;
    return r;
}

/* Reads packet header and context at packet_offset. 1: a packet; 0: the file ends; -EAGAIN: skipped; -ENOMEM.
 */
static int open_packet(struct stream *s, struct machine *m)
{
    s->packet_bytes = 0;
    s->packet = NULL;
    unmap_before(s);
    if (s->packet_offset >= s->size)
        return 0;
    uint64_t left = s->size - s->packet_offset;
    m->data = s->data + s->packet_offset;
    m->at = 0;
    m->limit = left * 8;
    m->clock = s->clock;
    m->roles = 0;
    m->stream_registers = s->registers;
    m->stream_register_count = s->meta->stream_register_count;
    int r = layout_run(m, s->meta->header_program);
    if (r >= 0 && role(m, ROLE_MAGIC, PACKET_MAGIC) != PACKET_MAGIC)
        return give_up_packet(s, s->packet_offset, "the start of a packet (0xc1fc1fc1)");
    int32_t uuid = s->meta->uuid_offset;
    if (r >= 0 && uuid >= 0 && left >= (uint64_t)uuid + 16 && memcmp(m->data + uuid, s->meta->uuid, 16) != 0)
        return give_up_packet(s, s->packet_offset + (uint64_t)uuid,
                              "the UUID of the trace, not of another one");
    s->class = r >= 0 ? find_class(s->meta, m) : NULL;
    if (r >= 0 && !s->class)
        return give_up_packet(s, s->packet_offset, "a stream id that the metadata declares");
    if (r >= 0)
        r = read_context(s, m);
    if (r < 0) {
        if (m->error == DECODE_MEMORY)
            return -ENOMEM;
        if (m->error == DECODE_END) {
            lose(s, LOSS_TRUNCATED, left, s->packet_offset, NULL);
            return 0;
        }
        return give_up_packet(s, s->packet_offset + m->at / 8, layout_expected(m->error));
    }
    uint64_t content = role(m, ROLE_CONTENT_SIZE, role(m, ROLE_PACKET_SIZE, left * 8));
    uint64_t packet = role(m, ROLE_PACKET_SIZE, role(m, ROLE_CONTENT_SIZE, left * 8));
    if (packet % 8 || packet < content || content < m->at)
        return give_up_packet(s, s->packet_offset, "packet and content sizes that fit each other");
    if (packet / 8 > left) {
        lose(s, LOSS_TRUNCATED, left, s->packet_offset, NULL);
        return 0;
    }
    s->packet_bytes = packet / 8;
    set_release(s);
    s->packet = s->data + s->packet_offset;
    s->at = m->at;
    s->limit = content;
    s->clock = m->clock;
    s->packet_end_clock = role(m, ROLE_TIME_END, UINT64_MAX);
    s->has_instance = m->roles & 1u << ROLE_STREAM_ID;
    s->instance = m->role[ROLE_STREAM_ID];
    s->met_ns = corrected(s, stream_time(s->meta, s->class->clock, s->clock));
    count_discarded(s, m);
    r = keep_packet_values(s, m);
    return r < 0 ? r : 1;
}

/* ---- events ---- */

static const struct event_meta *find_event(const struct stream_meta *class, uint64_t id)
{
    if (id < class->by_id_count)
        return class->by_id[id];
    for (const struct event_meta *e = class->events; e; e = e->next)
        if (e->id == id)
            return e;
    return NULL;
}

/* Registers of packets and headers are numbered in the order of the streams' classes, so that what they hold
 * stays valid when classes are appended. */
int stream_adopt(struct stream *s, const struct metadata *meta)
{
    const struct stream_meta *class = meta->streams;
    while (s->class && class && class->id != s->class->id)
        class = class->next;
    const struct event_meta *event = s->class && class && s->event ? find_event(class, s->event->id) : NULL;
    if ((s->class && !class) || (s->event && !event) ||
        meta->stream_register_count < s->meta->stream_register_count)
        return -EINVAL;
    uint64_t *registers = calloc(meta->stream_register_count + 1ul, sizeof(*registers));
    if (!registers)
        return -ENOMEM;
    memcpy(registers, s->registers, s->meta->stream_register_count * sizeof(*registers));
    free(s->registers);
    s->registers = registers;
    s->meta = meta;
    s->class = s->class ? class : NULL;
    s->event = event;
    return 0;
}

static void load(const struct stream *s, struct machine *m)
{
    m->data = s->packet;
    m->at = s->at;
    m->limit = s->limit;
    m->clock = s->clock;
    m->stream_registers = s->registers;
    m->stream_register_count = s->meta->stream_register_count;
}

static uint64_t load_le(const uint8_t *at, unsigned bytes)
{
    uint64_t v = 0;
    memcpy(&v, at, bytes);
    return v;
}

/* Event headers of the usual shapes, without the program. 1: *ret_id is the event's id and the clock has
 * moved; 0: it does not fit into the packet, or is of another shape. */
static inline int read_known_header(struct stream *s, uint64_t *ret_id)
{
    const struct program *p = s->class->header_program;
    uint64_t at = (s->at + 7) & ~7ull;
    const uint8_t *h = s->packet + (at >> 3);
    if (p->shape == SHAPE_FIXED && s->limit - at >= p->header_bits && at <= s->limit) {
        *ret_id = p->id_bytes == 2 ? load_le(h, 2) : load_le(h, p->id_bytes);
        h += p->id_bytes;
        s->clock = p->time_bytes == 8 ? load_le(h, 8) : clock_advance(s->clock, load_le(h, 4), 32);
        s->at = at + p->header_bits;
        return 1;
    }
    if (p->shape == SHAPE_COMPACT && at + 32 <= s->limit) {
        uint64_t word = load_le(h, 4);
        *ret_id = word & 31;
        if (*ret_id != 31) {
            s->clock = clock_advance(s->clock, word >> 5, 27);
            s->at = at + 32;
            return 1;
        }
        if (at + 104 > s->limit)
            return 0;
        *ret_id = load_le(h + 1, 4);
        s->clock = load_le(h + 5, 8);
        s->at = at + 104;
        return 1;
    }
    if (p->shape == SHAPE_LARGE && at + 48 <= s->limit) {
        *ret_id = load_le(h, 2);
        if (*ret_id != 65535) {
            s->clock = clock_advance(s->clock, load_le(h + 2, 4), 32);
            s->at = at + 48;
            return 1;
        }
        if (at + 112 > s->limit)
            return 0;
        *ret_id = load_le(h + 2, 4);
        s->clock = load_le(h + 6, 8);
        s->at = at + 112;
        return 1;
    }
    return 0;
}

/* The header of the event at s->at. 1, or 0: the packet is damaged from here on. */
static int read_header(struct stream *s, struct machine *m)
{
    uint64_t start = s->at, id;
    if (!read_known_header(s, &id)) {
        load(s, m);
        m->roles = 0;
        if (layout_run(m, s->class->header_program) < 0) {
            if (m->error == DECODE_MEMORY)
                return -ENOMEM;
            lose_rest_of_packet(s, m->at, layout_expected(m->error));
            return 0;
        }
        id = role(m, ROLE_EVENT_ID, s->class->events && !s->class->events->next ? s->class->events->id : 0);
        s->at = m->at;
        s->clock = m->clock;
    }
    s->event = find_event(s->class, id);
    if (!s->event) {
        char expected[64];
        snprintf(expected, sizeof(expected), "an event id that the metadata declares, found %" PRIu64, id);
        lose_rest_of_packet(s, start, expected);
        return 0;
    }
    if (s->packet + (s->at >> 3) >= s->release_at)
        release_behind(s, s->packet + (s->at >> 3));
    /* The fields are decoded when this stream is first in time: until then they come into the cache. */
    __builtin_prefetch(s->packet + (s->at >> 3));
    __builtin_prefetch(s->packet + (s->at >> 3) + 64);
    __builtin_prefetch(s->packet + (s->at >> 3) + 128);
    s->time_ns = stream_time(s->meta, s->class->clock, s->clock);
    if (s->aligned)
        s->time_ns -=
            s->align_offset_ns + (int64_t)(s->align_drift * (double)(s->time_ns - s->align_origin_ns));
    return 1;
}

/* The clock stands at the packet's end, so that the next packet's short times count from there. */
static void close_packet(struct stream *s)
{
    if (s->packet_end_clock != UINT64_MAX && s->packet_end_clock > s->clock)
        s->clock = s->packet_end_clock;
    s->packet_offset += s->packet_bytes;
    s->packet_bytes = 0;
    s->packet = NULL;
}

int stream_advance(struct stream *s, struct machine *m)
{
    for (;;) {
        if (!s->packet) {
            int r = open_packet(s, m);
            if (r == 0)
                r = next_file(s);
            if (r <= 0)
                return r;
            continue;
        }
        if (s->at < s->limit) {
            int r = read_header(s, m);
            if (r != 0)
                return r;
        }
        close_packet(s);
    }
}

int stream_probe(struct stream *s, struct machine *m)
{
    int r = open_packet(s, m);
    if (r > 0 && s->class->clock)
        s->files.at[0].begin_ns = stream_time(s->meta, s->class->clock, s->clock);
    if (r <= 0)
        s->class = NULL;
    return r < 0 ? r : stream_rewind(s);
}

int stream_decode(struct stream *s, struct machine *m)
{
    load(s, m);
    uint64_t start = s->at;
    if (m->text->held_bytes && !m->keep_text)
        arena_done(m->text);
    int r = layout_run(m, s->event->program);
    if (r < 0) {
        if (m->error == DECODE_MEMORY)
            return -ENOMEM;
        lose_rest_of_packet(s, m->at, layout_expected(m->error));
        s->at = s->limit;
        return r;
    }
    /* An event without a single bit would never end. */
    if (m->at == start && s->class->header_program->op_count == 1 && s->event->program->op_count == 1) {
        lose_rest_of_packet(s, start, "events that have a size");
        m->at = s->limit;
    }
    s->at = m->at;
    s->clock = m->clock;
    return 0;
}

/* ---- seeking ---- */

/* Beyond this, every second entry goes, and only every second packet is entered from then on. */
#define INDEX_MAX 2048

static int add_entry(struct stream *s, const struct packet_entry *e, uint64_t *stride)
{
    if (s->packet_count++ % *stride == 0 && array_add(&s->index_entries, *e) < 0)
        return -ENOMEM;
    if (s->index_entries.count >= INDEX_MAX) {
        for (size_t i = 0; i < INDEX_MAX / 2; i++)
            s->index_entries.at[i] = s->index_entries.at[2 * i];
        s->index_entries.count = INDEX_MAX / 2;
        *stride *= 2;
    }
    return 0;
}

/* From LTTng's own index, when there is one that fits: the stream's pages need not be touched. 1, 0 or
 * -ENOMEM. */
static int index_from_lttng(struct stream *s)
{
    struct lttng_index index;
    uint64_t stride = 1;
    if (s->files.count != 1 || lttng_index_read(s->files.at[0].path, s->size, &index) < 0)
        return 0;
    int r = index.count > 0;
    struct packet_entry e = {.discarded = 0};
    for (size_t i = 0; r > 0 && i < index.count; i++) {
        const struct lttng_index_entry *from = &index.entries[i];
        const struct stream_meta *class = s->meta->streams;
        while (class && class->id != from->class_id)
            class = class->next;
        if (!class || !class->clock) {
            array_clear(&s->index_entries);
            r = 0;
            break;
        }
        e.offset = from->offset;
        e.clock = from->begin;
        e.begin_ns = stream_time(s->meta, class->clock, from->begin);
        if (add_entry(s, &e, &stride) < 0)
            r = -ENOMEM;
        e.discarded = from->discarded; /* known before the next packet */
        e.sequence = from->sequence;
        e.counted_events = true;
        e.counted_packets = class->counts_packets;
    }
    free(index.entries);
    return r;
}

static int make_index(struct stream *s, struct machine *m)
{
    uint64_t stride = 1;
    s->packet_count = 0;
    int r = index_from_lttng(s);
    if (r != 0)
        return r < 0 ? r : 0;
    s->packet_count = 0;
    r = stream_rewind(s);
    while (r >= 0) {
        struct packet_entry e = {.offset = s->packet_offset,
                                 .clock = s->clock,
                                 .discarded = s->discarded,
                                 .sequence = s->sequence,
                                 .file = (uint32_t)s->file,
                                 .counted_events = s->counted_events,
                                 .counted_packets = s->counted_packets};
        r = open_packet(s, m);
        if (r == 0)
            r = next_file(s);
        if (r <= 0)
            break;
        if (!s->packet)
            continue;
        e.begin_ns = stream_time(s->meta, s->class->clock, s->clock);
        if (add_entry(s, &e, &stride) < 0)
            return -ENOMEM;
        close_packet(s);
    }
    return r;
}

static int go_to_packet(struct stream *s, const struct packet_entry *e)
{
    bool same = s->file == e->file;
    s->file = e->file;
    s->done_bytes = 0;
    for (size_t i = 0; i < s->file; i++)
        s->done_bytes += s->files.at[i].size;
    forget_packet(s);
    s->packet_offset = e->offset;
    s->clock = e->clock;
    s->discarded = e->discarded;
    s->sequence = e->sequence;
    s->counted_events = e->counted_events;
    s->counted_packets = e->counted_packets;
    return same ? 0 : map_current(s);
}

int stream_index(struct stream *s, struct machine *m)
{
    int r = s->index_entries.count || s->index_borrowed ? 0 : make_index(s, m);
    return r < 0 ? r : stream_rewind(s);
}

int stream_clone(const struct stream *from, struct stream *ret_stream)
{
    struct stream s = {.index = from->index,
                       .public.host = from->public.host,
                       .aligned = from->aligned,
                       .align_origin_ns = from->align_origin_ns,
                       .align_offset_ns = from->align_offset_ns,
                       .align_drift = from->align_drift};
    int r = stream_open(&s, from->meta, from->files.at[0].path, NULL);
    if (r < 0) {
        stream_done(&s);
        return r;
    }
    s.index_entries.at = from->index_entries.at;
    s.index_entries.count = from->index_entries.count;
    s.index_borrowed = true;
    *ret_stream = s;
    return 0;
}

int stream_seek(struct stream *s, struct machine *m, int64_t time_ns)
{
    int r = stream_index(s, m);
    size_t low = 0, high = s->index_entries.count; /* the last packet that begins before the time */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (corrected(s, s->index_entries.at[middle].begin_ns) < time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    if (r >= 0 && low > 0)
        r = go_to_packet(s, &s->index_entries.at[low - 1]);
    if (r < 0)
        return r;
    while ((r = stream_advance(s, m)) > 0 && s->time_ns < time_ns)
        if ((r = stream_decode(s, m)) < 0 && r != -EBADMSG)
            return r;
    return r;
}
