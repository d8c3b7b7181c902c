/* The readers of what clients write to stores: however the bytes are cut, as many commands begin, and no byte
 * beyond a buffer is read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "probe/wire.h"
#include "probe/wire_memcached.h"
#include "probe/wire_mysql.h"
#include "probe/wire_postgresql.h"
#include "probe/wire_queues.h"
#include "probe/wire_resp.h"

/* Where the probe records; nothing is recorded here. */
struct sonde_shared *probe_shared;
struct probe_large probe_large;
struct probe_live probe_live;
bool queue_bee = true;
static struct probe_thread thread;

static uint32_t named;
static bool asked; /* for statements */

#define W(e, name, number, label) +1
enum { WIRES = SONDE_ENUM_wire(W, wire) };
#undef W

/* A name is one of those in the tables: short, and printable. */
uint32_t name_of_text(struct probe_thread *self, const char *text, uint32_t length)
{
    if (!length || length > 12)
        abort();
    for (uint32_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~')
            abort();
    return ++named;
}

uint32_t name_of_statement(struct probe_thread *self, const char *text, uint32_t length)
{
    if (!length || length > STATEMENT_BYTES)
        abort();
    return ++named;
}

static uint32_t follow(unsigned wire, struct commands *d, const uint8_t *bytes, size_t size)
{
    char *copy = malloc(size ? size : 1); /* of its size, so that a byte beyond it is noticed */
    if (!copy)
        abort();
    if (size)
        memcpy(copy, bytes, size);
    const struct buffer buffer = {copy, size};
    struct cursor cursor = {.buffers = &buffer, .count = 1, .left = size}, again = cursor;
    uint32_t operation = 0, begun = 0;
    struct statements statements;
    statements_begin(&statements, 1);
    thread.statements = asked ? &statements : NULL;
    switch (wire) {
#define W(e, name, number, label)                                      \
    case SONDE_wire_##name:                                            \
        (void)wire_##name##_begins(&again);                            \
        begun = wire_##name##_follow(&thread, d, &cursor, &operation); \
        break;
        SONDE_ENUM_wire(W, wire)
#undef W
    }
    statements_text_end(&thread, thread.statements, false);
    free(copy);
    d->number += begun; /* as its user does */
    return begun;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) /* nothing is written */
        return 0;
    unsigned wire = data[0] % WIRES;
    size_t most = 1 + data[1] % 16;
    asked = data[1] & 0x80;
    data += 2;
    size -= 2;
    struct commands whole = {0}, pieces = {0};
    uint32_t count = follow(wire, &whole, data, size), sum = 0;
    for (size_t at = 0; at < size; at += most)
        sum += follow(wire, &pieces, data + at, most < size - at ? most : size - at);
    if (count != sum || whole.lost != pieces.lost || count > size)
        abort();
    if (!asked && !whole.lost && (whole.state != pieces.state || whole.skip != pieces.skip))
        abort();
    return 0;
}
