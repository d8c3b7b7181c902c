/* Names: texts that events carry as numbers. One table for the process, filled without locks: a place is
 * claimed by its key, and its number is published last. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe.h"

enum { NAMES = 4096, TRIES = 16, TEXTS = 256, STATEMENTS = 1024, NAME_BYTES = 63 };

static struct {
    uint64_t key;
    uint32_t number;
} names[NAMES];
static uint32_t last_number, text_count, statement_count;

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

static uint32_t add(struct probe_thread *self, uint64_t key, const char *text, uint32_t length)
{
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

uint32_t name_add(struct probe_thread *self, uint64_t key, const char *text, uint32_t length)
{
    return add(self, key, text, length < NAME_BYTES ? length : NAME_BYTES);
}

/* *count: how many different ones there were so far, of at most `most`. */
static uint32_t of_text(struct probe_thread *self, const char *text, uint32_t length, uint32_t *count,
                        uint32_t most)
{
    uint64_t key = 0xCBF29CE484222325ull;
    for (uint32_t i = 0; i < length; i++)
        key = (key ^ (uint8_t)text[i]) * 0x100000001B3ull;
    key |= 1ull << 63; /* no pointer has it */
    uint32_t number = name_find(key);
    if (number || __atomic_load_n(count, __ATOMIC_RELAXED) >= most)
        return number;
    __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
    return add(self, key, text, length);
}

uint32_t name_of_text(struct probe_thread *self, const char *text, uint32_t length)
{
    if (!length || length > NAME_BYTES)
        return 0;
    return of_text(self, text, length, &text_count, TEXTS);
}

uint32_t name_of_statement(struct probe_thread *self, const char *text, uint32_t length)
{
    return of_text(self, text, length, &statement_count, STATEMENTS);
}

void names_forget(void)
{
    if (!last_number)
        return; /* memory that was never used is not touched */
    text_count = statement_count = 0;
    for (uint32_t i = 0; i < NAMES; i++) {
        names[i].key = 0;
        names[i].number = 0;
    }
}
