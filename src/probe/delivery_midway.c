/* Connections to brokers that are older than sonde: they are joined where some bytes that are read or written
 * at a time begin with a frame of AMQP, a line of NATS or a packet of MQTT, as nearly all do. What is proof
 * that they are: only such, whole, one behind the other, up to the last byte; or several, when the last is
 * not whole. Of MQTT, whose packets have less that tells them from other bytes, several such pieces. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/delivery_parts.h"

enum { WHOLE_MIN = 3 };

/* What some bytes begin with. */
struct row {
    uint64_t whole; /* frames or messages */
    bool begins;    /* one does, whole or not */
    bool ends;      /* with the last byte */
};

static bool amqp_is_method(const char *p, uint64_t n)
{
    enum { CONNECTION = 10, CHANNEL = 20, EXCHANGE = 40, QUEUE = 50, BASIC = 60, CONFIRM = 85, TX = 90 };
    enum { METHOD_MIN = 10, METHOD_MAX = 120 };
    if (n < 4)
        return false;
    uint64_t class = number_at(p, 2), method = number_at(p + 2, 2);
    return (class == CONNECTION || class == CHANNEL || class == EXCHANGE || class == QUEUE ||
            class == BASIC || class == CONFIRM || class == TX) &&
           method >= METHOD_MIN && method <= METHOD_MAX;
}

/* The first is a method or a heartbeat: what begins in the middle of a message is left out. */
static struct row amqp_row(const char *p, uint64_t n)
{
    struct row row = {0};
    uint64_t at = 0;
    while (n - at > FRAME_HEAD) {
        uint8_t type = (uint8_t)p[at];
        uint64_t channel = number_at(p + at + 1, 2), size = number_at(p + at + 3, 4);
        if (size >= n - at - FRAME_HEAD || (uint8_t)p[at + FRAME_HEAD + size] != FRAME_END)
            break;
        const char *payload = p + at + FRAME_HEAD;
        bool content = type == FRAME_CONTENT && size >= CONTENT_HEAD && number_at(payload, 4) == 60 << 16;
        if (!(type == FRAME_METHOD && amqp_is_method(payload, size)) &&
            !(type == FRAME_HEARTBEAT && !channel && !size) &&
            !(row.whole && (content || type == FRAME_BODY)))
            break;
        row.whole++;
        at += FRAME_HEAD + size + 1;
    }
    row.begins = row.whole > 0;
    row.ends = at == n;
    return row;
}

/* Where a line ends, without \r\n; 0: it does not. */
static uint64_t nats_line(const char *p, uint64_t n)
{
    uint64_t end = 0, most = n < QUEUE_LINE ? n : QUEUE_LINE;
    while (end < most && p[end] != '\r')
        end++;
    return end < most && n - end >= 2 && p[end + 1] == '\n' ? end : 0;
}

/* Where the body of a message begins that a line announces, of *ret_bytes; 0: it announces none. */
static uint64_t nats_body(bool out, const char *p, uint64_t n, uint64_t *ret_bytes)
{
    struct part parts[NATS_PARTS];
    bool plain = out ? BEGINS_WITH(p, n, "PUB ") : BEGINS_WITH(p, n, "MSG "),
         headers = out ? BEGINS_WITH(p, n, "HPUB ") : BEGINS_WITH(p, n, "HMSG ");
    uint64_t end = plain || headers ? nats_line(p, n) : 0;
    if (!end)
        return 0;
    unsigned count = parts_of(p, end, parts), fixed = (out ? 2 : 3) + (plain ? 1 : 2);
    if ((count != fixed && count != fixed + 1) || !decimal(&parts[count - 1], ret_bytes) ||
        *ret_bytes > NATS_BODY_MAX)
        return 0;
    return end + 2;
}

/* How long a line without a message is; 0: it is none. They prove nothing: others have a PING as well. */
static uint64_t nats_word(bool out, const char *p, uint64_t n)
{
    bool either = BEGINS_WITH(p, n, "PING\r") || BEGINS_WITH(p, n, "PONG\r"),
         one = out ? BEGINS_WITH(p, n, "SUB ") || BEGINS_WITH(p, n, "UNSUB ")
                   : BEGINS_WITH(p, n, "+OK\r") || BEGINS_WITH(p, n, "INFO {");
    uint64_t end = either || one ? nats_line(p, n) : 0;
    return end ? end + 2 : 0;
}

static struct row nats_row(bool out, const char *p, uint64_t n)
{
    struct row row = {0};
    uint64_t at = 0;
    while (at < n) {
        uint64_t bytes = 0, word = nats_word(out, p + at, n - at),
                 body = word ? 0 : nats_body(out, p + at, n - at, &bytes);
        if (!word && !body)
            break;
        row.begins = true;
        if (word) {
            at += word;
            continue;
        }
        if (n - at - body < bytes + 2 || p[at + body + bytes] != '\r' || p[at + body + bytes + 1] != '\n')
            break;
        row.whole++;
        at += body + bytes + 2;
    }
    row.ends = at == n;
    return row;
}

static bool is_proof(const struct row *row)
{
    return row->whole && (row->ends || row->whole >= WHOLE_MIN);
}

static int wire_of(bool out, const char *p, uint64_t n)
{
    struct row amqp = amqp_row(p, n), nats = nats_row(out, p, n);
    return is_proof(&amqp) ? SONDE_wire_amqp : is_proof(&nats) ? SONDE_wire_nats : -1;
}

bool queue_begins_here(uint8_t wire, bool out, const char *p, uint64_t n)
{
    return wire == SONDE_wire_amqp ? amqp_row(p, n).begins : nats_row(out, p, n).begins;
}

int queue_midway_wire(struct descriptor *d, bool out, const struct buffer *buffers, unsigned count,
                      uint64_t length)
{
    unsigned first = 0;
    while (first < count && !buffers[first].length)
        first++;
    if (first == count)
        return -1;
    uint64_t here = buffers[first].length < length ? buffers[first].length : length;
    int wire = wire_of(out, buffers[first].base, here);
    if (wire >= 0)
        return wire;
    enum queue_packets packets = queue_packets_mqtt(buffers, count, length);
    d->packets = packets ? d->packets + 1 : 0;
    d->packets_message = packets && (d->packets_message || packets == PACKETS_MESSAGE);
    return d->packets >= WHOLE_MIN && d->packets_message ? SONDE_wire_mqtt : -1;
}
