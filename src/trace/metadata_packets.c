/* A metadata file in packets: a header, then a part of the text. Its numbers are in the byte order that the
 * magic number shows.
 *
 *     byte  0  magic number 0x75d11d57        32  compression   (0: none)
 *           4  UUID, 16 bytes                 33  encryption    (0: none)
 *          20  checksum                       34  checksum scheme
 *          24  bits of header and content     35  major version
 *          28  bits of the whole packet       36  minor version
 *
 * CTF 1.8 (7.1) ends the header there, and so do tracers that put CTF 2's text in such packets.
 * CTF2-PMETA-1.0 has version 2.0, three reserved bytes and, from byte 40, the bits of the header, which may
 * grow. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/metadata_packets.h"

#include <errno.h>
#include <string.h>

#define MAGIC 0x75d11d57u
enum { HEADER_BYTES = 37, HEADER_BYTES_2 = 44 };

static uint32_t get32(const uint8_t *at, bool big)
{
    uint32_t v;
    memcpy(&v, at, 4);
    return big ? __builtin_bswap32(v) : v;
}

bool metadata_in_packets(const uint8_t *data, size_t length)
{
    return length >= 4 && (get32(data, false) == MAGIC || get32(data, true) == MAGIC);
}

/* The header's length in a packet of content bytes (header included), left of which are in the file. What
 * follows the shorter header is text, which does not begin with the zeros of reserved bytes. */
static size_t header_bytes(const uint8_t *h, size_t content, size_t left, bool big)
{
    static const uint8_t RESERVED[3] = {0};
    if (h[35] < 2 || MIN(content, left) < HEADER_BYTES_2 ||
        memcmp(h + HEADER_BYTES, RESERVED, sizeof(RESERVED)))
        return HEADER_BYTES;
    return get32(h + 40, big) / 8;
}

int metadata_unpack(const char *path, const uint8_t *data, size_t length, char *text, size_t *ret_length,
                    struct metadata_cut *ret_cut, struct problem *problem)
{
    bool big = get32(data, false) != MAGIC;
    size_t at = 0, out = 0;
    while (at < length) {
        const uint8_t *h = data + at;
        size_t left = length - at;
        if (left < HEADER_BYTES) {
            *ret_cut = (struct metadata_cut){HEADER_BYTES - left, at};
            break;
        }
        if (get32(h, big) != MAGIC)
            return problem_set(problem, -EINVAL,
                               "%s: offset %zu: expected the start of a metadata packet (0x%08x)", path, at,
                               MAGIC);
        if (memcmp(h + 4, data + 4, 16) != 0)
            return problem_set(problem, -EINVAL,
                               "%s: offset %zu: expected the UUID of the metadata's first packet", path,
                               at + 4);
        size_t content = get32(h + 24, big) / 8, packet = get32(h + 28, big) / 8;
        size_t header = header_bytes(h, content, left, big);
        if (header < HEADER_BYTES || content < header || packet < content)
            return problem_set(
                problem, -EINVAL,
                "%s: offset %zu: expected a metadata packet's size, found %zu bytes (%zu used, %zu of "
                "them the header)",
                path, at, packet, content, header);
        if (h[32] || h[33])
            return problem_set(problem, -ENOTSUP, "%s: offset %zu: compressed or encrypted metadata", path,
                               at + 32);
        if (packet > left)
            *ret_cut = (struct metadata_cut){packet - left, at};
        content = MIN(content, left);
        if (content > header) {
            memcpy(text + out, h + header, content - header);
            out += content - header;
        }
        at += MIN(packet, left);
    }
    *ret_length = out;
    return 0;
}
