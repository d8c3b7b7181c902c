/* Protocol buffers on the wire: numbers, bytes and messages as fields, appended to a text. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_WIRE_H
#define PROFILE_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

void wire_varint(struct text *out, uint64_t value);

/* Nothing when the value is 0: that is what absent fields are. */
void wire_number(struct text *out, unsigned field, uint64_t value);
void wire_fixed64(struct text *out, unsigned field, uint64_t value);
void wire_bytes(struct text *out, unsigned field, const char *bytes, size_t length);
void wire_string(struct text *out, unsigned field, const char *string);

/* Adds message as a field and empties it. */
void wire_message(struct text *out, unsigned field, struct text *message);

#endif
