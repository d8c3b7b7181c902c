/* Writing a trace of catalogue events as CTF 1.8: FOLDER/ctf with one stream file per thread, so that
 * FOLDER itself has room for manifest.json (readers of CTF take every file for a stream).
 *
 *     ctf/metadata   TSDL, generated from the event catalogue
 *     ctf/PID-TID-N  packets, back to back:
 *         packet header   u32 magic 0xC1FC1FC1, u8 uuid[16], u32 stream_id (0)
 *         packet context  u64 timestamp_begin, timestamp_end (ns), content_size, packet_size (bits),
 *                         events_discarded (since the stream began), u32 pid, tid
 *         events          u16 id, u64 timestamp (ns), [u64 duration (ns)], fields, strings NUL-terminated
 *
 * All integers are little endian and byte aligned. Times are CLOCK_MONOTONIC; the clock's offset makes them
 * wall-clock times for readers. A packet is written whole or not at all: a recording that is killed is
 * readable up to its last packet. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_CTF_WRITER_H
#define TRACE_CTF_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"
#include "base/problem.h"
#include "event/event.h"

struct ctf_writer;
struct ctf_stream;

/* Creates the folder (which may exist but must hold no trace: -EEXIST) and its metadata. */
int ctf_writer_create(const char *folder, struct ctf_writer **ret_writer, struct problem *problem);

/* Adds streams to a trace that exists, whether it is complete or still being written: a second writer beside
 * the one that made it. -ENOENT when there is none, -EPROTO when another version of sonde made it. */
int ctf_writer_join(const char *folder, struct ctf_writer **ret_writer, struct problem *problem);

/* Opens a stream for one thread's events. Its file appears with its first packet, or is that of a stream that
 * has ended before: pid and tid stand in each packet. Free with
 * ctf_stream_free(), which flushes; the writer must outlive its streams. */
int ctf_stream_open(struct ctf_writer *writer, uint32_t pid, uint32_t tid, struct ctf_stream **ret_stream);

/* Appends one event. record is a struct record_X of that event; strings (one per str field, in order) need
 * not be NUL-terminated, their lengths are in the record. end_ns that lies before the event before it is
 * raised to that. Never fails: events that cannot be written are counted in lost. */
void ctf_stream_write(struct ctf_stream *stream, enum sonde_event_id id, uint64_t end_ns,
                      uint64_t duration_ns, const void *record, const char *strings);

/* Tells that events were lost before they reached the stream. */
void ctf_stream_discarded(struct ctf_stream *stream, uint64_t count);

/* Writes what is buffered as a packet. 0, or the errno of the write that failed: the packet's events are then
 * counted as lost, the file is left as it was, and later packets are tried again. */
int ctf_stream_flush(struct ctf_stream *stream);

void ctf_stream_free(struct ctf_stream *stream);

struct ctf_totals {
    uint64_t events;        /* written to disk, all streams, closed ones included */
    uint64_t bytes;         /* on disk */
    uint64_t lost_events;   /* in packets that could not be written */
    int write_error;        /* the last one, a negative errno, or 0 */
    uint64_t late_ns_worst; /* how far a time had to be raised, at most */
};
void ctf_writer_totals(const struct ctf_writer *writer, struct ctf_totals *ret_totals);

const char *ctf_writer_folder(const struct ctf_writer *writer);

void ctf_writer_free(struct ctf_writer *writer);
DEFINE_FREEP(struct ctf_writer, ctf_writer_free)
DEFINE_FREEP(struct ctf_stream, ctf_stream_free)

#endif
