/* See hotspot_counters.h. Version 2 of the layout, since Java 1.4.2:
 *
 *     prologue    0 magic ca fe c0 c0   4 byte order (1: little endian)   5 major version   24 offset of the
 *                 first entry   28 number of entries
 *     entry       0 its length   4 offset of the name   8 vector length (0: one value)   12 type ('J': 64
 *                 bits)   16 offset of the value
 *
 * It is the process's memory: all of it is checked. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/hotspot/unwind_counters.h"

#include <string.h>

enum { PROLOGUE = 32, ENTRY = 20, LITTLE = 1, MAJOR = 2, ENTRIES = 4096 };

static uint32_t number_at(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

size_t hotspot_counter(const uint8_t *bytes, size_t size, const char *name)
{
    static const uint8_t MAGIC[] = {0xca, 0xfe, 0xc0, 0xc0};
    size_t name_size = strlen(name) + 1;
    if (size < PROLOGUE || memcmp(bytes, MAGIC, sizeof(MAGIC)) != 0 || bytes[4] != LITTLE ||
        bytes[5] != MAJOR)
        return 0;
    size_t at = number_at(bytes + 24);
    for (uint32_t i = 0, count = number_at(bytes + 28); i < count && i < ENTRIES; i++) {
        if (at > size || size - at < ENTRY)
            return 0;
        const uint8_t *entry = bytes + at;
        uint32_t length = number_at(entry), name_at = number_at(entry + 4), value_at = number_at(entry + 16);
        if (length < ENTRY || length > size - at)
            return 0;
        if (entry[12] == 'J' && number_at(entry + 8) == 0 && name_at <= length &&
            length - name_at >= name_size && memcmp(entry + name_at, name, name_size) == 0)
            return value_at <= length && length - value_at >= sizeof(uint64_t) ? at + value_at : 0;
        at += length;
    }
    return 0;
}
