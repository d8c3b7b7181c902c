/* The words that Memcached's text commands begin with (doc/protocol.txt of its source): for clients that send
 * them (wire_memcached.h) and for the server that executes them (src/targets/memcached). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_MEMCACHED_PROBE_WORDS_H
#define TARGETS_MEMCACHED_PROBE_WORDS_H

#include <stdbool.h>
#include <stdint.h>

enum { CACHE_WORD_MAX = 10 };

/* What a command does decides how it is answered. Bits, so that an answer can say which of them it fits. */
enum {
    CACHE_GETS = 1,         /* values of some keys, then END */
    CACHE_STORES = 2,       /* a value follows */
    CACHE_CHANGES = 4,      /* one key that must exist */
    CACHE_META_GETS = 8,    /* the same of the meta commands, which can be told to be silent */
    CACHE_META_STORES = 16, /* when all is as usual */
    CACHE_META_CHANGES = 32,
    CACHE_META_MARKS = 64,
    CACHE_MANAGES = 128, /* anything else */
};

/* size_at: which argument is the number of bytes that follow, 0: none do. keys_at: the first argument that is
 * a key, 0: none is. */
static const struct {
    char word[CACHE_WORD_MAX];
    uint8_t size_at, keys_at, does;
} CACHE_WORDS[] = {
    {"get", 0, 1, CACHE_GETS},       {"gets", 0, 1, CACHE_GETS},         {"set", 4, 1, CACHE_STORES},
    {"add", 4, 1, CACHE_STORES},     {"replace", 4, 1, CACHE_STORES},    {"append", 4, 1, CACHE_STORES},
    {"prepend", 4, 1, CACHE_STORES}, {"cas", 4, 1, CACHE_STORES},        {"delete", 0, 1, CACHE_CHANGES},
    {"incr", 0, 1, CACHE_CHANGES},   {"decr", 0, 1, CACHE_CHANGES},      {"touch", 0, 1, CACHE_CHANGES},
    {"gat", 0, 2, CACHE_GETS},       {"gats", 0, 2, CACHE_GETS},         {"mg", 0, 1, CACHE_META_GETS},
    {"ms", 2, 1, CACHE_META_STORES}, {"md", 0, 1, CACHE_META_CHANGES},   {"ma", 0, 1, CACHE_META_CHANGES},
    {"mn", 0, 0, CACHE_META_MARKS},  {"me", 0, 1, CACHE_META_GETS},      {"version", 0, 0, CACHE_MANAGES},
    {"stats", 0, 0, CACHE_MANAGES},  {"flush_all", 0, 0, CACHE_MANAGES}, {"verbosity", 0, 0, CACHE_MANAGES},
    {"quit", 0, 0, CACHE_MANAGES},
};
enum {
    CACHE_WORDS_COUNT = sizeof(CACHE_WORDS) / sizeof(CACHE_WORDS[0]),
    CACHE_GET = 0,
    CACHE_QUIT = CACHE_WORDS_COUNT - 1
};

/* Whether a client that has sent such a command with "noreply" gets no answer. */
static inline uint8_t cache_silent(uint8_t does, bool noreply)
{
    return noreply && does & (CACHE_STORES | CACHE_CHANGES | CACHE_MANAGES);
}

/* Whether a client counts a command among those that it waits for; the server's end counts the same. */
static inline uint8_t cache_counted(unsigned word, bool noreply)
{
    return !cache_silent(CACHE_WORDS[word].does, noreply) && word != CACHE_QUIT;
}

/* The codes of the binary protocol, by number. quiet: they are answered only when something is to be said.
 * What has no length is not told apart. */
static const struct {
    char word[CACHE_WORD_MAX];
    uint8_t length, quiet;
} CACHE_CODES[] = {
    {"get", 3, 0},     {"set", 3, 0},     {"add", 3, 0},       {"replace", 7, 0},   {"delete", 6, 0},
    {"incr", 4, 0},    {"decr", 4, 0},    {"", 0, 0},          {"flush_all", 9, 0}, {"get", 3, 1},
    {"noop", 4, 0},    {"version", 7, 0}, {"gets", 4, 0},      {"gets", 4, 1},      {"append", 6, 0},
    {"prepend", 7, 0}, {"stats", 5, 0},   {"set", 3, 1},       {"add", 3, 1},       {"replace", 7, 1},
    {"delete", 6, 1},  {"incr", 4, 1},    {"decr", 4, 1},      {"", 0, 1},          {"flush_all", 9, 1},
    {"append", 6, 1},  {"prepend", 7, 1}, {"verbosity", 9, 0}, {"touch", 5, 0},     {"gat", 3, 0},
    {"gat", 3, 1},
};
enum { CACHE_CODES_COUNT = sizeof(CACHE_CODES) / sizeof(CACHE_CODES[0]), CACHE_SASL = 0x20 };

static inline uint8_t cache_code_counted(unsigned code)
{
    return code >= CACHE_SASL ||
           (code < CACHE_CODES_COUNT && CACHE_CODES[code].length && !CACHE_CODES[code].quiet);
}

/* The word's place in the table, or -1. */
static inline int cache_word(const char *bytes, uint32_t length)
{
    for (int i = 0; i < CACHE_WORDS_COUNT; i++) {
        uint32_t k = 0;
        while (k < length && CACHE_WORDS[i].word[k] == bytes[k])
            k++;
        if (k == length && k < CACHE_WORD_MAX && !CACHE_WORDS[i].word[k])
            return i;
    }
    return -1;
}

#endif
