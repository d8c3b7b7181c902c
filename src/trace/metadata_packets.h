/* Metadata in packets (metadata_packets.c); called by metadata.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_METADATA_PACKETS_H
#define TRACE_METADATA_PACKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"
#include "base/problem.h"

/* How many bytes the file ends before its last packet does, which begins at offset; none: 0. */
struct metadata_cut {
    uint64_t bytes, offset;
};

bool metadata_in_packets(const uint8_t *data, size_t length);

/* The text of all packets into text, which has room for length bytes. A file that ends within a packet gives
 * what is there of it. Fails with -EINVAL or -ENOTSUP, and says at which offset. */
int metadata_unpack(const char *path, const uint8_t *data, size_t length, char *text, size_t *ret_length,
                    struct metadata_cut *ret_cut, struct problem *problem);

#endif
