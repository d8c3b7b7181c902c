/* Names: texts that events carry as numbers. One table for the process, filled without locks: a place is
 * claimed by its key, and its number is published last. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe.h"

enum { NAMES = 4096, TRIES = 16, TEXTS = 256 };

static struct {
    uint64_t key;
    uint32_t number;
} names[NAMES];
static uint32_t last_number, text_count;

static uint32_t place_of(uint64_t key)
{
    return (uint32_t)((key * 0x9E3779B97F4A7C15ull) >> 52);
}

uint32_t name_find(uint64_t key)
{
    uint32_t place = place_of(key);
    for (int i = 0; i < TRIES; i++, place = (place + 1) % NAMES) {
        uint64_t found = __atomic_load_n(&names[place].key, __ATOMIC_RELAXED);
        if (found == key)
            return __atomic_load_n(&names[place].number, __ATOMIC_ACQUIRE);
        if (!found)
            break;
    }
    return 0;
}

uint32_t name_add(struct probe_thread *self, uint64_t key, const char *text, uint32_t length)
{
    if (length > 63)
        length = 63;
    uint32_t place = place_of(key);
    for (int i = 0; i < TRIES; i++, place = (place + 1) % NAMES) {
        uint64_t found = 0;
        if (__atomic_compare_exchange_n(&names[place].key, &found, key, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            uint32_t number = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
            RECORD_TEXT(self, probe_name, ticks(), text, length, .id = number,
                        .text_length = (uint16_t)length);
            __atomic_store_n(&names[place].number, number, __ATOMIC_RELEASE);
            return number;
        }
        if (found == key) /* another thread is just naming it */
            return __atomic_load_n(&names[place].number, __ATOMIC_ACQUIRE);
    }
    return 0; /* the neighbourhood is full: unnamed, never wrongly named */
}

uint32_t name_of_text(struct probe_thread *self, const char *text, uint32_t length)
{
    if (!length || length > 63)
        return 0;
    uint64_t key = 0xCBF29CE484222325ull;
    for (uint32_t i = 0; i < length; i++)
        key = (key ^ (uint8_t)text[i]) * 0x100000001B3ull;
    key |= 1ull << 63; /* no pointer has it */
    uint32_t number = name_find(key);
    if (number || __atomic_load_n(&text_count, __ATOMIC_RELAXED) >= TEXTS)
        return number;
    __atomic_add_fetch(&text_count, 1, __ATOMIC_RELAXED);
    return name_add(self, key, text, length);
}

void names_forget(void)
{
    if (!last_number)
        return; /* memory that was never used is not touched */
    text_count = 0;
    for (uint32_t i = 0; i < NAMES; i++) {
        names[i].key = 0;
        names[i].number = 0;
    }
}
