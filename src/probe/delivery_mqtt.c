/* Messages through a broker that speaks MQTT 3.1, 3.1.1 or 5. Packets (MQTT 5.0, 2.1 and 3.3):
 *
 *     type u4, flags u4; remaining length, 1 to 4 bytes of 7 bits, the lowest first, with bit 7 set in all
 *     but the last; then so many bytes
 *
 *     CONNECT (1), of the client, first: length u16, "MQTT" or "MQIsdp", level u8 (3, 4, or 5)
 *     CONNACK (2), the broker's answer: flags u8, code u8; at level 5 properties behind them
 *     PUBLISH (3), flags retain (bit 0), QoS (bits 1 and 2), again (bit 3): length u16, topic; with a QoS a
 *     packet identifier u16; at level 5 the length of properties, as above, and properties; the rest is the
 *     message
 *
 * An identity is made of topic and message: identifiers and properties are each end's own. Clients
 * acknowledge what they have received, not what they have dealt with, so that no message is ever told as
 * settled. What is sent again or was retained has been told before, or was sent to nobody. A topic that is
 * named by a number (an alias, level 5) is not followed. Of a connection that is older than sonde the level
 * is not known: properties are taken for a part of the message, as at its other end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/delivery_parts.h"

#include "probe/context.h"
#include "probe/wire.h"

enum { MQTT_HEAD, MQTT_LENGTH, MQTT_FIELDS, MQTT_PROPERTIES, MQTT_PROPERTY_BYTES, MQTT_BODY, MQTT_SKIP };
enum { CONNECT = 1, CONNACK, PUBLISH, TYPE_LAST = 15 };
enum { RETAINED = 1, QOS = 6, AGAIN = 8 };
enum { LEVEL_5 = 5, CONNACK_BYTES = 2, LENGTH_BYTES = 4, LENGTH_MORE = 0x80, TOPIC_MAX = QUEUE_LINE - 4 };

/* Of struct queue_way: channel is the level, as far as it is known, open_channel the packet's first byte,
 * body the number that is being read of 7 bits a byte, have the bytes in line, left those of the packet. */

static unsigned u16_at(const char *p)
{
    return (unsigned)(uint8_t)p[0] << 8 | (uint8_t)p[1];
}

/* One more byte of a length. Returns 1 when it was the last one, 0 when not, -1 when it is none. */
static int length_byte(struct queue_way *w, uint8_t byte)
{
    w->body |= (uint64_t)(byte & ~LENGTH_MORE) << 7 * w->have;
    if (!(byte & LENGTH_MORE))
        return 1;
    return ++w->have < LENGTH_BYTES ? 0 : -1;
}

static void message_begins(struct probe_thread *self, struct queue_way *w, bool out)
{
    unsigned topic = u16_at(w->line);
    w->open = topic && !(w->open_channel & (out ? AGAIN : AGAIN | RETAINED));
    w->hash = hash_bytes(hash_begin(), w->line + 2, topic);
    w->hashed = w->bytes = 0;
    w->number = 0;
    w->queue = w->open ? name_of_text(self, w->line + 2, topic) : 0;
    w->have = 0;
    w->body = 0;
    w->state = w->channel == LEVEL_5 ? MQTT_PROPERTIES : MQTT_BODY;
    if (w->state == MQTT_BODY)
        w->bytes = (uint32_t)w->left;
}

/* How many bytes a PUBLISH has before its properties, as far as it is known. */
static uint64_t fields_bytes(const struct queue_way *w)
{
    return w->have < 2 ? 2 : 2 + u16_at(w->line) + (w->open_channel & QOS ? 2 : 0);
}

/* The head is whole: the packet's length is in body. */
static void packet_begins(struct queue_way *w, bool out)
{
    unsigned type = w->open_channel >> 4;
    w->left = w->body;
    w->have = 0;
    w->open = 0;
    w->state = type == PUBLISH || (out && type == CONNECT) ? MQTT_FIELDS : MQTT_SKIP;
    if (!out && type == CONNACK)
        w->channel = w->left > CONNACK_BYTES ? LEVEL_5 : LEVEL_5 - 1;
}

/* A byte of the fields in front of a message. */
static void field_byte(struct probe_thread *self, struct queue_way *w, bool out, char byte)
{
    w->left--;
    w->line[w->have++] = byte;
    uint64_t needed = fields_bytes(w);
    bool connects = w->open_channel >> 4 == CONNECT;
    if (needed > TOPIC_MAX) { /* too long to be reported */
        w->state = MQTT_SKIP;
        return;
    }
    if (w->have < needed + connects)
        return;
    if (!connects) {
        message_begins(self, w, out);
        return;
    }
    w->channel = (uint8_t)w->line[needed];
    w->state = MQTT_SKIP;
}

static void property_length_byte(struct queue_way *w, uint8_t byte)
{
    w->left--;
    int end = length_byte(w, byte);
    if (end < 0 || w->body > w->left) {
        w->lost = 1;
    } else if (end) {
        w->state = w->body ? MQTT_PROPERTY_BYTES : MQTT_BODY;
        w->bytes = (uint32_t)(w->left - w->body);
    }
}

static void packet_ended(struct queue_way *w, bool out, struct queue_seen_list *seen)
{
    if (w->state == MQTT_BODY)
        ended(w, out, seen);
    else if (w->state != MQTT_SKIP) /* it was too short for what it should have */
        w->lost = 1;
    w->state = MQTT_HEAD;
}

/* ---- packets in the middle of a connection ---- */

/* A topic with its length in front, of a packet of which so many bytes are left; they become fewer. */
static bool is_topic(struct cursor *c, uint64_t *left)
{
    uint64_t bytes = 0;
    for (int i = 0; i < 2; i++, --*left) {
        if (!*left || !at_least_one(c))
            return false;
        bytes = bytes << 8 | (uint8_t)next_byte(c);
    }
    if (!bytes || bytes > *left)
        return false;
    *left -= bytes;
    for (; bytes; bytes--) {
        char byte = at_least_one(c) ? next_byte(c) : 0;
        if ((uint8_t)byte < ' ' || byte == '+' || byte == '#')
            return false;
    }
    return true;
}

/* Whether a packet of that first byte and length is one that comes after the first. */
static bool is_packet(uint8_t first, uint64_t length)
{
    enum { PUBREL = 6, SUBSCRIBE = 8, UNSUBSCRIBE = 10, PINGREQ = 12, PINGRESP, FLAGS = 15, FLAGS_FIXED = 2 };
    unsigned type = first >> 4, flags = first & FLAGS;
    if (type == PUBLISH)
        return (flags & QOS) != QOS;
    if (type <= CONNACK)
        return false;
    if (type == PINGREQ || type == PINGRESP)
        return !flags && !length;
    return flags == (type == PUBREL || type == SUBSCRIBE || type == UNSUBSCRIBE ? FLAGS_FIXED : 0u);
}

enum queue_packets queue_packets_mqtt(const struct buffer *buffers, unsigned count, uint64_t length)
{
    struct cursor c = {.buffers = buffers, .count = count, .left = length};
    enum queue_packets packets = PACKETS_NONE;
    while (at_least_one(&c)) {
        struct queue_way head = {0};
        int end = 0;
        uint8_t first = (uint8_t)next_byte(&c);
        while (!end && at_least_one(&c))
            end = length_byte(&head, (uint8_t)next_byte(&c));
        uint64_t left = head.body;
        if (end <= 0 || left > c.left || !is_packet(first, left))
            return PACKETS_NONE;
        if (first >> 4 == PUBLISH) {
            packets = PACKETS_MESSAGE;
            if (!is_topic(&c, &left))
                return PACKETS_NONE;
        } else if (!packets) {
            packets = PACKETS_OTHER;
        }
        skip_bytes(&c, &left);
    }
    return packets;
}

void queue_bytes_mqtt(struct probe_thread *self, struct queue_way *w, bool out, const char *p, uint64_t n,
                      struct queue_seen_list *seen)
{
    for (uint64_t i = 0; i < n && !w->lost;) {
        uint64_t here = n - i < w->left ? n - i : w->left;
        switch (w->state) {
        case MQTT_HEAD:
            w->open_channel = (uint8_t)p[i++];
            w->lost = w->open_channel >> 4 == 0;
            w->body = w->have = 0;
            w->state = MQTT_LENGTH;
            continue;
        case MQTT_LENGTH: {
            int end = length_byte(w, (uint8_t)p[i++]);
            if (end > 0)
                packet_begins(w, out);
            w->lost = end < 0;
            if (end <= 0)
                continue;
            break;
        }
        case MQTT_FIELDS:
            field_byte(self, w, out, p[i++]);
            break;
        case MQTT_PROPERTIES:
            property_length_byte(w, (uint8_t)p[i++]);
            break;
        case MQTT_PROPERTY_BYTES:
            here = here < w->body ? here : w->body;
            w->body -= here;
            w->left -= here;
            i += here;
            if (!w->body)
                w->state = MQTT_BODY;
            break;
        default:
            if (w->state == MQTT_BODY && w->open)
                hash_body(w, p + i, here);
            w->left -= here;
            i += here;
        }
        if (!w->left && !w->lost)
            packet_ended(w, out, seen);
    }
}
