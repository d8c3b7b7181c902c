/* Protocol buffers on the wire. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/wire.h"

#include <string.h>

void wire_varint(struct text *out, uint64_t value)
{
    char bytes[10];
    size_t n = 0;
    do {
        bytes[n++] = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value);
    text_add_bytes(out, bytes, n);
}

void wire_number(struct text *out, unsigned field, uint64_t value)
{
    if (!value)
        return;
    wire_varint(out, field << 3);
    wire_varint(out, value);
}

void wire_fixed64(struct text *out, unsigned field, uint64_t value)
{
    if (!value)
        return;
    wire_varint(out, field << 3 | 1);
    text_add_bytes(out, (const char *)&value, sizeof(value));
}

void wire_bytes(struct text *out, unsigned field, const char *bytes, size_t length)
{
    wire_varint(out, field << 3 | 2);
    wire_varint(out, length);
    text_add_bytes(out, bytes, length);
}

void wire_string(struct text *out, unsigned field, const char *string)
{
    wire_bytes(out, field, string, strlen(string));
}

void wire_message(struct text *out, unsigned field, struct text *message)
{
    wire_bytes(out, field, text_get(message), message->length);
    out->failed |= message->failed;
    text_clear(message);
}
