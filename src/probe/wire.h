/* What stores speak, as their clients write it: how a connection of it begins and which commands begin in the
 * bytes that go out. One file for each, src/probe/wire_NAME.h, which write.c includes; the catalogue's list
 * (SONDE_ENUM_wire) has them in the order in which they are tried. They are parts of write.c so that its
 * common case stays quick.
 *
 * Keys, values and texts are skipped over by their lengths and never recorded. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_WIRE_H
#define PROBE_WIRE_H

#include "probe/probe.h"

/* Reads the bytes of several buffers as one string. */
struct cursor {
    const struct buffer *buffers;
    unsigned count, index;
    uint64_t offset; /* in the buffer at index */
    uint64_t left;   /* bytes still to be read, at most what was accepted */
};

static inline bool at_least_one(struct cursor *c)
{
    while (c->index < c->count && c->offset >= c->buffers[c->index].length) {
        c->offset = 0;
        c->index++;
    }
    return c->left && c->index < c->count;
}

static inline char next_byte(struct cursor *c)
{
    c->left--;
    return c->buffers[c->index].base[c->offset++];
}

static inline void skip_bytes(struct cursor *c, uint64_t *n)
{
    while (*n && at_least_one(c)) {
        uint64_t here = c->buffers[c->index].length - c->offset;
        here = here < *n ? here : *n;
        here = here < c->left ? here : c->left;
        c->offset += here;
        c->left -= here;
        *n -= here;
    }
}

/* Of those that are rarer than RESP: out of the way of what every write goes through. */
#define WIRE_APART __attribute__((noinline))

/* bool wire_NAME_begins(struct cursor *): whether the first bytes on a connection are of this wire; at the
 * cost of a few bytes.
 *
 * uint32_t wire_NAME_follow(struct probe_thread *, struct commands *, struct cursor *, uint32_t *operation):
 * reads what is written, piece by piece (its state lies in commands, and is 0 at first), and returns how many
 * commands began. Bytes that it does not understand set commands->lost for good: a join that cannot be proved
 * is not made. *operation may be set to the number of a name (name_of_text()) for the first command that
 * began; it is left alone where the name would tell of data. */

#endif
