/* The append-only log of span batches: what was acknowledged is in it, whatever happens to the process.
 * Appends from several threads are made durable together (group commit). A reader follows it from any
 * position, also while it is being written, also from another process.
 *
 * A folder of segments journal-00000001, ... each a sequence of records:
 *
 *     0   u32  magic "SJR1"
 *     4   u32  kind (enum journal_kind, of the payload)
 *     8   u32  payload bytes
 *     12  u32  zero
 *     16  u64  xxh3 of the payload
 *     24       payload, then zeros up to a multiple of 8
 *
 * A record that is cut or whose hash is wrong is the end of its segment: it was never acknowledged. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_JOURNAL_H
#define SPAN_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"
#include "base/problem.h"

enum journal_kind {
    JOURNAL_OTLP_PROTOBUF = 1,
    JOURNAL_OTLP_JSON = 2,
    JOURNAL_GZIP = 0x100, /* or-ed in: the payload is compressed */
};

#define JOURNAL_UNPACKED_MAX ((size_t)64 << 20) /* bytes of a payload, unpacked; more is not accepted */

struct journal_position {
    uint32_t segment; /* from 1; 0: the beginning of what is kept */
    uint64_t offset;
};

struct journal;

/* Opens a folder for appending, made when absent; a torn tail is cut off. Segments beyond keep_bytes are
 * removed, oldest first (0: nothing is removed). */
int journal_open(const char *folder, uint64_t keep_bytes, struct journal **ret_journal,
                 struct problem *problem);

/* Appends and waits until it is on disk. The record lies in (ret_before, ret_end]: one record's end is the
 * next one's before, also across segments. Both may be NULL. -ENOSPC and the like leave the journal as it
 * was. Safe from several threads. */
int journal_append(struct journal *journal, uint32_t kind, const void *payload, size_t length,
                   struct journal_position *ret_before, struct journal_position *ret_end);

/* Who reads the journal behind its writer. */
enum journal_reading { JOURNAL_STORE, JOURNAL_DIAGNOSIS, JOURNAL_READINGS };

/* Segments from this one on are kept for this reader, whatever their size. */
void journal_hold(struct journal *journal, enum journal_reading reading, struct journal_position from);

/* The end of the last record. */
struct journal_position journal_end(struct journal *journal);

void journal_close(struct journal *journal);
DEFINE_FREEP(struct journal, journal_close)

/* Reads on from a position. */
struct journal_reader {
    const char *folder; /* borrowed */
    struct journal_position at;
    int fd;
    char *buffer; /* the last record's payload */
    size_t capacity;
};

void journal_reader_init(struct journal_reader *reader, const char *folder, struct journal_position from);

/* Reads on from another position. */
void journal_reader_seek(struct journal_reader *reader, struct journal_position to);

/* 1 and the next record (borrowed until the next call), 0 when there is none yet, or a negative errno. */
int journal_reader_next(struct journal_reader *reader, uint32_t *ret_kind, const void **ret_payload,
                        size_t *ret_length);

void journal_reader_done(struct journal_reader *reader);

#endif
