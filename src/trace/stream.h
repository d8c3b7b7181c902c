/* One stream file: mapped, walked packet by packet and event by event. Private to src/trace. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_STREAM_H
#define TRACE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/layout.h"
#include "trace/trace.h"

/* Where a packet begins, and what was known before it. */
struct packet_entry {
    uint64_t offset, clock, discarded, sequence;
    int64_t begin_ns; /* before any correction */
    uint32_t file;
    bool counted_events, counted_packets;
};

struct stream_file {
    char *path;
    uint64_t size;
    int64_t begin_ns; /* of its first packet; files of one stream stand in this order */
};

#define CACHE_LINE 64

/* What the merge touches for every event stands in the first two cache lines, so that 1,000 streams stay in
 * the cache and can be fetched ahead. */
struct stream {
    uint8_t *packet;           /* the packet being read; NULL: none */
    uint64_t at, limit, clock; /* as in struct machine, of the next event's fields */
    int64_t time_ns;           /* of the next event, whose header is read and whose fields are not */
    const struct event_meta *event;
    const struct stream_meta *class;
    uint64_t *registers;
    const uint8_t *release_at; /* behind here, pages are given back to the kernel */
    struct value *packet_values;
    int64_t packet_pid, packet_tid;
    uint32_t index;
    bool aligned; /* the clock is corrected (align.h) */
    bool ended;
    const struct metadata *meta;

    struct trace_stream public;
    ARRAY(struct stream_file) files; /* several when the tracer rotated them */
    size_t file;                     /* the one that is mapped */
    uint64_t done_bytes;             /* of the files before it */
    uint8_t *data;                   /* the file, mapped, with at least 16 readable bytes behind */
    uint64_t size, mapped;
    uint8_t *before; /* where the packet's context was read from, when the file grew since; or NULL */
    uint64_t before_mapped;
    uint64_t released;     /* bytes at the start that were given back */
    uint64_t release_step; /* bytes; 0: RELEASE_BYTES */

    uint64_t packet_offset, packet_bytes;
    uint32_t packet_value_count, packet_value_capacity;
    struct arena packet_text;  /* what packet_values point at, where text was converted */
    uint64_t packet_end_clock; /* cycles; UINT64_MAX: not given */
    bool has_instance;         /* the packet says which stream it belongs to */
    uint64_t instance;

    int64_t align_origin_ns, align_offset_ns;
    double align_drift;

    /* Counters of the packet before. */
    bool counted_events, counted_packets;
    uint64_t discarded, sequence;

    /* Some packets in their order: all of them, or every n-th of many. Made when it is first needed. */
    ARRAY(struct packet_entry) index_entries;
    bool index_borrowed;
    bool news;             /* a file that was not there before, which is not read yet */
    uint64_t packet_count; /* counted while the index was made */

    /* Of a slice: only losses that were met at a time in [from, to) count here, the others in another slice.
     */
    bool sliced;
    int64_t slice_from_ns, slice_to_ns, met_ns;

    struct trace_loss *losses; /* by kind; NULL while there are none */
    uint64_t filler[2];        /* to whole cache lines */
};
_Static_assert(sizeof(struct stream) % CACHE_LINE == 0, "streams stand in an array, aligned");
_Static_assert(offsetof(struct stream, files) <= 2 * CACHE_LINE + 8, "what every event needs stands first");

/* Maps the file. -ENODATA when it is empty. */
int stream_open(struct stream *stream, const struct metadata *meta, const char *path,
                struct problem *problem);
void stream_done(struct stream *stream);

/* Gives the mappings of all streams back, several at once where they lie side by side: each call makes the
 * CPU forget what it knows of our memory. The streams can then only be ended. */
void streams_unmap(struct stream *streams, size_t count);

/* Reads the first packet's header, for class, instance and files[0].begin_ns, and goes back to the start.
 * -ENOMEM. */
int stream_probe(struct stream *stream, struct machine *machine);

/* Files of one class and instance are one stream: takes over other's file, and other is done. */
bool stream_same(const struct stream *stream, const struct stream *other);
int stream_join(struct stream *stream, struct stream *other);

/* Back to the first packet of the first file, counters and losses at zero. */
int stream_rewind(struct stream *stream);

/* Moves to the next event and reads its header: 1, or 0 at the end, or -ENOMEM. The event before must have
 * been decoded. Damage is counted in stream->losses. */
int stream_advance(struct stream *stream, struct machine *machine);

/* Makes the index of packets if there is none; the stream is rewound. 0 or -ENOMEM. */
int stream_index(struct stream *stream, struct machine *machine);

/* A second reader of the same file, at its start, with the same index. */
int stream_clone(const struct stream *stream, struct stream *ret_stream);

/* The packet's begin with the host's correction. */
int64_t stream_corrected(const struct stream *stream, int64_t ns);

/* Goes to the first event at or after time_ns (corrected time), through an index of the packets: as
 * stream_advance(). Losses are counted from there. */
int stream_seek(struct stream *stream, struct machine *machine, int64_t time_ns);

/* Decodes the fields of the event that stream_advance() found into machine->values. 0, or -EBADMSG: it is
 * damaged and counted, advance again; or -ENOMEM. */
int stream_decode(struct stream *stream, struct machine *machine);

/* The metadata has grown: from here on it is `meta`, which begins with the classes of the old one. -EINVAL
 * when it does not. */
int stream_adopt(struct stream *stream, const struct metadata *meta);

/* The file's size now; remaps when it grew. New bytes, or a negative errno. */
int64_t stream_refresh(struct stream *stream);

/* The reader's own view of a stream and of a host's metadata, for what rewrites traces (trace.c). */
const struct stream *trace_stream_private(const struct trace *trace, uint32_t index);
const struct metadata *trace_metadata(const struct trace *trace, uint32_t host);

/* Cycles of the class's clock to ns, with the origin unless the trace is our own. */
int64_t stream_time(const struct metadata *meta, const struct clock_class *clock, uint64_t cycles);

#endif
