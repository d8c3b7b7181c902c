/* LTTng's index files: where each packet of a stream file is and when it begins, without touching the stream.
 * Private to src/trace. All numbers are big endian:
 *
 *     header  u32 magic 0xC1F1DCC1, u32 major, u32 minor, u32 bytes of an entry
 *     entry   u64 offset (bytes), packet size, content size (bits), timestamp begin, end (cycles), events
 * discarded, stream class id, and from version 1.1 stream instance id, packet sequence number
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_LTTNG_INDEX_H
#define TRACE_LTTNG_INDEX_H

#include <stddef.h>
#include <stdint.h>

struct lttng_index_entry {
    uint64_t offset, packet_bits, content_bits, begin, end, discarded, class_id, instance, sequence;
};

struct lttng_index {
    struct lttng_index_entry *entries;
    size_t count;
};

/* Reads FOLDER/index/NAME.idx for the stream file FOLDER/NAME of so many bytes. 0; -ENOENT: there is none;
 * -EINVAL: it does not describe this file packet by packet, to its end. *ret_index is freed with
 * free(entries). */
int lttng_index_read(const char *stream_path, uint64_t stream_bytes, struct lttng_index *ret_index);

#endif
