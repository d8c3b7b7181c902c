/* The hooks in the cluster bus of redis-server: its links, and the messages on them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/probe.h"

EXPORTED extern long (*sonde_orig_redis_io_read)(int fd, void *buffer, size_t size);
EXPORTED extern long (*sonde_orig_redis_io_write)(int fd, const void *buffer, size_t size);

static uint64_t bus_link(const void *connection)
{
    return connection && HAVE(conn_private) ? READ(uint64_t, connection, OFFSET(conn_private)) : 0;
}

static void bus_io(void *connection, void (*original)(void *), bool writes)
{
    struct probe_thread *self = probe_thread();
    if (!self) {
        original(connection);
        return;
    }
    int fd = connection_fd(connection);
    uint64_t link = bus_link(connection);
    if (fd >= 0)
        descriptor_use(self, fd, (uintptr_t)connection);
    struct probe_bytes *bytes = writes ? &self->redis_out : &self->redis_in;
    uint32_t depth = self->shared.depth;
    uint64_t start =
        span_open(self, writes ? SONDE_EVENT_redis_bus_write : SONDE_EVENT_redis_bus_read, (uint64_t)fd, 0);
    struct probe_bytes outer = bytes_begin(bytes, fd);
    original(connection);
    if (!span_close(self, depth))
        return;
    bool seen = writes ? sonde_orig_redis_io_write != NULL : sonde_orig_redis_io_read != NULL;
    int32_t plain, wire = bytes_end(bytes, outer, seen, &plain);
    if (writes)
        RECORD(self, redis_bus_write, start, ticks(), .link = link, .fd = fd, .bytes = wire);
    else
        RECORD(self, redis_bus_read, start, ticks(), .link = link, .fd = fd, .bytes = wire);
}

HOOK(void, redis_bus_read, void *connection)
{
    bus_io(connection, sonde_orig_redis_bus_read, false);
}

HOOK(void, redis_bus_write, void *connection)
{
    bus_io(connection, sonde_orig_redis_bus_write, true);
}

struct bus_message {
    uint32_t bytes, mark;
    uint16_t type;
};

/* A bus message begins "RCmb", length u32, version u16, port u16, type u16, all big endian. Its last bytes
 * are what differs from one to the next: the end of what is published, or of what is told of another node;
 * they are only looked at where there are surely room bytes. */
static struct bus_message bus_message(const unsigned char *m, uint64_t room)
{
    enum { HEADER = 16, MARKED = 64 };
    const uint64_t prime = 0x9e3779b97f4a7c15;
    struct bus_message message = {.type = 0xffff};
    if (!m || m[0] != 'R' || m[1] != 'C' || m[2] != 'm' || m[3] != 'b')
        return message;
    message.bytes = (uint32_t)m[4] << 24 | (uint32_t)m[5] << 16 | (uint32_t)m[6] << 8 | m[7];
    message.type = (uint16_t)(m[12] << 8 | m[13]);
    uint64_t hash = message.bytes;
    if (message.bytes < HEADER + MARKED || message.bytes > room)
        return message;
    for (uint32_t at = message.bytes - MARKED; at < message.bytes; at += 8) {
        hash = (hash ^ READ(uint64_t, m, at)) * prime;
        hash ^= hash >> 29;
    }
    message.mark = (uint32_t)(hash >> 32);
    return message;
}

HOOK(int, redis_bus_packet, void *link)
{
    struct probe_thread *self = probe_thread();
    if (!self)
        return sonde_orig_redis_bus_packet(link);
    struct bus_message message = {.type = 0xffff};
    if (UNLIKELY(!HAVE(link_rcvbuf) && redis_checks_left))
        redis_find_receive_buffer(link);
    if (HAVE(link_rcvbuf))
        message = bus_message(READ(unsigned char *, link, OFFSET(link_rcvbuf)),
                              READ(uint64_t, link, OFFSET(link_rcvbuf) + 8)); /* rcvbuf_len, since 7.0 */
    uint32_t depth = self->shared.depth;
    uint64_t start = span_open(self, SONDE_EVENT_redis_bus_packet, (uintptr_t)link, 0);
    self->in_bus_packet = 1;
    int result = sonde_orig_redis_bus_packet(link);
    if (span_close(self, depth))
        self->in_bus_packet = 0;
    RECORD(self, redis_bus_packet, start, ticks(), .link = (uintptr_t)link, .bytes = message.bytes,
           .mark = message.mark, .type = message.type);
    return result;
}

HOOK(void, redis_bus_send, void *link, unsigned char *message, size_t length)
{
    struct probe_thread *self = probe_thread();
    if (!self) {
        sonde_orig_redis_bus_send(link, message, length);
        return;
    }
    struct bus_message seen = bus_message(message, length);
    uint32_t depth = self->shared.depth;
    uint64_t start = span_open(self, SONDE_EVENT_redis_bus_send, (uintptr_t)link, 0);
    sonde_orig_redis_bus_send(link, message, length);
    span_close(self, depth);
    RECORD(self, redis_bus_send, start, ticks(), .link = (uintptr_t)link, .bytes = (uint32_t)length,
           .mark = seen.mark, .type = seen.type);
}

/* Since 7.2: (clusterLink *, clusterMsgSendBlock *), a size_t and an int, then the message. */
HOOK(void, redis_bus_send__block, void *link, const unsigned char *block)
{
    enum { MESSAGE = 16 };
    struct probe_thread *self = probe_thread();
    if (!self) {
        sonde_orig_redis_bus_send__block(link, block);
        return;
    }
    struct bus_message seen =
        bus_message(block + MESSAGE, READ(uint64_t, block, 0)); /* its length with this head */
    uint32_t depth = self->shared.depth;
    uint64_t start = span_open(self, SONDE_EVENT_redis_bus_send, (uintptr_t)link, 0);
    sonde_orig_redis_bus_send__block(link, block);
    span_close(self, depth);
    RECORD(self, redis_bus_send, start, ticks(), .link = (uintptr_t)link, .bytes = seen.bytes,
           .mark = seen.mark, .type = seen.type);
}
