/* A file of checksummed records: what the columnar store writes its segments, summaries and end mark into.
 * Each record is written in one go, checked when it is first touched (in pages of 64 KiB, so that a query
 * never reads more than it needs), and mapped, not read. The format's essay is in columns.c. Private to
 * src/history. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HISTORY_RECORD_H
#define HISTORY_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/problem.h"

enum record_kind { RECORD_SEGMENT = 1, RECORD_GROUP = 2, RECORD_END = 3 };

enum {
    RECORD_MAGIC = 0x63657268, /* "hrec" */
    RECORD_ALIGN = 64,
    RECORD_PAGE_SHIFT = 16,
    FILE_VERSION = 1,
};

/* At offset 0 of the file, RECORD_ALIGN bytes. */
struct file_head {
    char magic[8]; /* "SNDHIST\n" */
    uint32_t version;
    uint32_t reserved;
    uint64_t start_ns; /* of the history */
    uint64_t reserved_words[4];
    uint64_t checksum; /* XXH3 of the bytes before */
};

/* In front of every record; see the byte table in columns.c. */
struct record_head {
    uint32_t magic;
    uint8_t kind, level;
    uint16_t reserved;
    uint32_t number; /* of the record in the file, from 0 */
    uint32_t first;  /* segments: its own index; groups: the index of their first segment */
    uint64_t body_bytes;
    uint64_t slice_start_ns, slice_max_ns, min_ns;
    uint64_t changes;
    uint32_t attributes;     /* in the directory */
    uint32_t new_attributes; /* in the names section */
    uint32_t new_strings;
    uint32_t reserved2;
    uint32_t directory_at, snapshots_at, blocks_at; /* offsets into the body; names are at 0 */
    uint32_t reserved3[7];
    uint64_t pages_checksum; /* XXH3 of the page table */
    uint64_t checksum;       /* XXH3 of the bytes before */
};
_Static_assert(sizeof(struct file_head) == RECORD_ALIGN, "written as is");
_Static_assert(sizeof(struct record_head) == 2 * RECORD_ALIGN, "written as is");

struct record {
    struct record_head head;
    uint64_t file_at;    /* of the head */
    const uint8_t *body; /* NULL while not mapped */
    uint64_t *checked;   /* one bit a page; NULL until first mapped */
    uint32_t pages;
    bool all_checked;
    void *map; /* its own mapping, while the file is being written */
    size_t map_bytes;
};

struct record_file {
    int fd;
    const char *path; /* borrowed */
    uint64_t bytes;   /* valid so far */
    uint32_t records;
    bool durable;
    const uint8_t *map; /* the whole file, when opened for reading */
    size_t map_bytes;
    uint64_t mapped_bytes; /* by records' own mappings */
};

/* Writes the file head into an empty file; file->fd is owned from now on. */
int record_file_create(struct record_file *file, int fd, const char *path, uint64_t start_ns,
                       struct problem *problem);

/* Maps a whole file and checks its head; file->fd is owned from now on, also after an error. */
int record_file_open(struct record_file *file, int fd, uint64_t bytes, const char *path,
                     uint64_t *ret_start_ns, struct problem *problem);
void record_file_done(struct record_file *file);

/* Appends a record. head's kind, level, first and below are set by the caller, the rest here. body must end
 * with BITS_SLACK zero bytes. On failure the file is cut back to what it was. */
int record_append(struct record_file *file, struct record_head *head, const void *body,
                  struct record *ret_record, struct problem *problem);

/* Undoes the newest record_append(). */
void record_take_back(struct record_file *file, const struct record *record);

/* Reads the record at offset `at` (file->bytes is set behind it by the caller's acceptance). 1: a good head
 * whose body fits the file; 0: nothing but an unfinished record from here on; -EBADMSG: damage. */
int record_next(struct record_file *file, uint64_t at, struct record *ret_record, struct problem *problem);

/* How far the record reaches in the file. */
uint64_t record_end(const struct record *record);

/* Maps the record if it is not. */
int record_map(struct record_file *file, struct record *record, struct problem *problem);
void record_done(struct record_file *file, struct record *record);
void record_unmap(struct record_file *file, struct record *record);

/* Makes body[from .. from + length) safe to read: inside the body, checksums right. The record must be
 * mapped. */
int record_check_slow(const struct record_file *file, struct record *record, uint64_t from, uint64_t length,
                      struct problem *problem);

static inline int record_check(const struct record_file *file, struct record *record, uint64_t from,
                               uint64_t length, struct problem *problem)
{
    if (__atomic_load_n(&record->all_checked, __ATOMIC_ACQUIRE) && from <= record->head.body_bytes &&
        length <= record->head.body_bytes - from)
        return 0;
    return record_check_slow(file, record, from, length, problem);
}

/* "FILE:offset N: expected ...": the error for a decoder that found nonsense behind right checksums. */
int record_damaged(const struct record_file *file, const struct record *record, uint64_t body_at,
                   const char *expected, struct problem *problem);

#endif
