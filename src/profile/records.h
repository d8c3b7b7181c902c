/* Records of the kernel's half that have left its buffer and are still to be dealt with: while one waits for
 * the names of some, others come. A record stays where it is until the next one is taken. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_RECORDS_H
#define PROFILE_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

struct record {
    const void *data; /* aligned as a uint64_t */
    size_t size;
};

struct waiting {
    struct record record;
    size_t block; /* its number, counted from the beginning */
};

/* Zeros to use. */
struct records {
    ARRAY(struct waiting) list;
    ARRAY(uint8_t *) blocks;
    size_t gone;       /* blocks that are not there any more */
    size_t used;       /* bytes of the last block */
    size_t bytes;      /* of all records that were not taken */
    size_t next;       /* the first of them */
    uint64_t not_kept; /* by records_add(), which failed */
};

enum {
    RECORDS_BYTES_MAX = 32 << 20, /* records_full() from then on: what comes then stays with the kernel */
    RECORD_BYTES_MAX = 256 << 10
};

void records_done(struct records *records);

/* Copies it. 0, -ENOMEM, or -E2BIG; what is not kept is counted. */
int records_add(struct records *records, const void *data, size_t size);
bool records_full(const struct records *records);

/* The next one. False: there is none, and those before are gone. */
bool records_take(struct records *records, struct record *ret_record);

/* That many behind the one that was taken last, beginning with 0. False: there are not so many. */
bool records_ahead(const struct records *records, size_t distance, struct record *ret_record);

#endif
