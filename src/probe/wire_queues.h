/* Connections to brokers: how they begin. Their messages are no commands that are answered in their order;
 * delivery.c follows them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_WIRE_QUEUES_H
#define PROBE_WIRE_QUEUES_H

#include "probe/wire.h"

static inline bool begins_with_text(struct cursor *c, const char *text, unsigned length)
{
    for (unsigned i = 0; i < length; i++)
        if (!at_least_one(c) || next_byte(c) != text[i])
            return false;
    return true;
}

/* AMQP 0-9-1: "AMQP" 0 0 9 1. */
static WIRE_APART bool wire_amqp_begins(struct cursor *c)
{
    return begins_with_text(c, "AMQP\0\0\x9\x1", 8);
}

/* NATS: the client's first line is CONNECT with an object. */
static WIRE_APART bool wire_nats_begins(struct cursor *c)
{
    return begins_with_text(c, "CONNECT {", 9);
}

/* MQTT: CONNECT, which is 0x10, how many bytes follow (1 to 4 bytes of 7 bits), and a protocol's name. */
static WIRE_APART bool wire_mqtt_begins(struct cursor *c)
{
    if (!at_least_one(c) || next_byte(c) != 0x10)
        return false;
    uint8_t byte = 0x80;
    for (unsigned i = 0; byte & 0x80; i++) {
        if (i == 4 || !at_least_one(c))
            return false;
        byte = (uint8_t)next_byte(c);
    }
    if (!at_least_one(c) || next_byte(c) != 0 || !at_least_one(c))
        return false;
    byte = (uint8_t)next_byte(c);
    return byte == 4 ? begins_with_text(c, "MQTT", 4) : byte == 6 && begins_with_text(c, "MQIsdp", 6);
}

/* One command is recorded, so that the connection is known for what it is. */
static WIRE_APART uint32_t wire_amqp_follow(struct probe_thread *self, struct commands *d, struct cursor *c,
                                            uint32_t *operation)
{
    c->left = 0;
    return d->number ? 0 : 1;
}

static WIRE_APART uint32_t wire_nats_follow(struct probe_thread *self, struct commands *d, struct cursor *c,
                                            uint32_t *operation)
{
    return wire_amqp_follow(self, d, c, operation);
}

static WIRE_APART uint32_t wire_mqtt_follow(struct probe_thread *self, struct commands *d, struct cursor *c,
                                            uint32_t *operation)
{
    return wire_amqp_follow(self, d, c, operation);
}

#endif
