/* What goes over connections to brokers, put together for tests: frames of AMQP, packets of MQTT. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_BROKER_BYTES_H
#define TESTS_UNIT_BROKER_BYTES_H

#include <stdint.h>
#include <string.h>

static char bytes[200000];
static size_t length;

static inline void put(const void *text, size_t n)
{
    memcpy(bytes + length, text, n);
    length += n;
}
#define PUT(text) put(text, sizeof(text) - 1)

static inline void number(uint64_t value, int width)
{
    while (width--)
        bytes[length++] = (char)(value >> (8 * width));
}

static inline void text(const char *value)
{
    number(strlen(value), 1);
    put(value, strlen(value));
}

/* ---- AMQP ---- */

static size_t frame_at;

static inline void frame(int type, int channel)
{
    number((uint64_t)type, 1);
    number((uint64_t)channel, 2);
    frame_at = length;
    number(0, 4);
}

static inline void frame_end(void)
{
    size_t end = length;
    length = frame_at;
    number(end - frame_at - 4, 4);
    length = end;
    number(0xce, 1);
}

static inline void content(int channel, const char *properties, const char *body, size_t size, size_t cut)
{
    frame(2, channel);
    number(60, 2);
    number(0, 2);
    number(size, 8);
    number(0x8000, 2);
    text(properties);
    frame_end();
    for (size_t at = 0; at < size; at += cut) {
        frame(3, channel);
        put(body + at, size - at < cut ? size - at : cut);
        frame_end();
    }
}

static inline void publish(int channel, const char *exchange, const char *key, const char *body, size_t size)
{
    frame(1, channel);
    number(60, 2);
    number(40, 2);
    number(0, 2);
    text(exchange);
    text(key);
    number(0, 1);
    frame_end();
    content(channel, "application/json", body, size, 4000);
}

static inline void deliver(int channel, uint64_t tag, const char *exchange, const char *key, const char *body,
                           size_t size)
{
    frame(1, channel);
    number(60, 2);
    number(60, 2);
    text("consumer");
    number(tag, 8);
    number(0, 1);
    text(exchange);
    text(key);
    frame_end();
    content(channel, "application/json", body, size, 3000);
}

static inline void settle(int channel, int method, uint64_t tag, int bits)
{
    frame(1, channel);
    number(60, 2);
    number((uint64_t)method, 2);
    number(tag, 8);
    number((uint64_t)bits, 1);
    frame_end();
}

/* ---- MQTT ---- */

/* A packet without its head, which mqtt() puts in front: its length in 7 bits a byte. */
static inline void mqtt(int first, const char *p, size_t n)
{
    number((uint64_t)first, 1);
    for (size_t rest = n;; rest >>= 7) {
        number((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0), 1);
        if (rest <= 0x7f)
            break;
    }
    put(p, n);
}
#define MQTT(first, text) mqtt(first, text, sizeof(text) - 1)

#endif
