/* What passes one connection of a Memcached server, followed on both sides: which commands a client sends,
 * and what the answers say of them (doc/protocol.txt and doc/protocol-binary.txt of its source). Nothing is
 * kept but numbers; whatever a client sends, no byte beyond what it sent is read. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_MEMCACHED_PROBE_TEXT_H
#define TARGETS_MEMCACHED_PROBE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "targets/memcached/probe_words.h"

enum { BINARY_COMMAND = 0x80, BINARY_ANSWER = 0x81, KEYED = CACHE_GETS | CACHE_CHANGES };
enum { RUNS = 8, BINARY_BYTES = 24, OTHER = CACHE_WORDS_COUNT, ANSWER_MAX = 12, DATA_MAX = 1 << 30 };

/* Commands that came one after the other and are alike. */
struct run {
    uint8_t word;        /* in CACHE_WORDS; OTHER */
    uint8_t quiet : 4;   /* they need not be answered */
    uint8_t counted : 4; /* their client counts them (cache_counted()) */
    uint16_t keys;       /* of each */
    uint32_t commands, answered;
    uint32_t hits, refused, errors;
    uint64_t bytes, reply_bytes;
    uint64_t first; /* the first one's number among those that the client counts; 0: not known */
};

enum meaning { UNSEEN, CLIENT, NO_CLIENT };
/* IN_HEADER: of the binary protocol */
enum place { IN_WORD, IN_ARGUMENTS, IN_HEADER, IN_DATA };

/* A line that is being followed, and the data behind it. */
struct line {
    uint8_t place, length;
    uint8_t in_argument;
    uint8_t matched; /* how much of "noreply" is the argument, as far as it was read */
    uint8_t quiet;   /* a meta command has the flag q, or a binary one need not be answered */
    uint8_t binary, code;
    uint8_t number; /* the size is one */
    uint8_t word;
    uint32_t arguments; /* that have begun; of a binary answer its status */
    uint64_t size, skip, bytes;
    char text[ANSWER_MAX];
};

/* What is known of a descriptor. A connection belongs to one thread. */
struct cache_connection {
    uint32_t attachment; /* in which this was learnt */
    uint8_t meaning;
    uint8_t lost;       /* what is read is no text that can be followed */
    uint8_t answered;   /* since then */
    uint8_t midway;     /* it was open when sonde came: it may begin within a value */
    uint8_t unnumbered; /* some of its commands were not seen */
    uint8_t tls;        /* what passes its socket is encrypted */
    uint8_t run_count;
    uint64_t key;
    uint64_t number; /* of the newest command that the client counts */
    uint64_t ahead;  /* bytes of answers that were followed and not written yet */
    uint64_t in_bytes, out_bytes, unread_bytes;
    struct line command, answer;
    struct run runs[RUNS];
};

/* ---- lines ---- */

/* One byte of a line that is not its last; size_at: which argument is the size of what follows. */
static inline void line_byte(struct line *l, char b, uint8_t size_at)
{
    static const char NOREPLY[] = "noreply";
    if (b == ' ' || b == '\r') {
        l->in_argument = 0;
        return;
    }
    if (!l->in_argument) {
        l->in_argument = 1;
        l->arguments++;
        l->matched = 0;
        l->quiet |= b == 'q' && l->arguments > 1;
    }
    l->matched = l->matched < sizeof(NOREPLY) - 1 && b == NOREPLY[l->matched] ? l->matched + 1 : UINT8_MAX;
    if (!size_at || l->arguments != size_at)
        return;
    l->number = b >= '0' && b <= '9' && l->size < DATA_MAX && (l->number || !l->size);
    l->size = l->number ? l->size * 10 + (uint64_t)(b - '0') : DATA_MAX;
}

/* Of the bytes from at on those that make no difference: the rest of an argument that is neither the size nor
 * "noreply". Returns where they end. */
static inline uint64_t line_passes(struct line *l, const char *bytes, uint64_t at, uint64_t count,
                                   uint8_t size_at)
{
    uint64_t from = at;
    if (!l->in_argument || l->matched != UINT8_MAX || l->arguments == size_at)
        return at;
    while (at < count && (uint8_t)bytes[at] > ' ')
        at++;
    l->bytes += at - from;
    return at;
}

/* Of count bytes those that are the line's data. */
static inline uint64_t line_data(struct line *l, uint64_t count)
{
    uint64_t here = l->skip < count ? l->skip : count;
    l->bytes += here;
    l->skip -= here;
    return here;
}

static inline void line_word(struct line *l, char b)
{
    if (b == '\r')
        return;
    if (l->length < sizeof(l->text))
        l->text[l->length] = b;
    l->length += l->length < UINT8_MAX;
}

/* Gathers the word's letters from at on; returns where something else comes. */
static inline uint64_t line_letters(struct line *l, const char *bytes, uint64_t at, uint64_t count)
{
    uint64_t from = at;
    while (at < count && bytes[at] > ' ' && bytes[at] <= '~' && l->length < sizeof(l->text))
        l->text[l->length++] = bytes[at++];
    l->bytes += at - from;
    return at;
}

/* The byte at that place of a line, which is neither its last nor of what follows it, and what may be passed
 * over behind it: returns the next one's place. word_of: what the gathered word is; size_at: which argument
 * of such a line is the size of what follows, 0: none. */
static inline uint64_t line_takes(struct line *l, const char *bytes, uint64_t at, uint64_t count,
                                  uint8_t (*word_of)(const struct line *), uint8_t (*size_at)(uint8_t word))
{
    char b = bytes[at++];
    if (l->place == IN_ARGUMENTS) {
        uint8_t size = size_at(l->word);
        line_byte(l, b, size);
        return line_passes(l, bytes, at, count, size);
    }
    if (b == ' ' && l->length) {
        l->word = word_of(l);
        l->place = IN_ARGUMENTS;
    } else {
        line_word(l, b);
        at = line_letters(l, bytes, at, count);
    }
    return at;
}

/* ---- commands ---- */

/* The word that was gathered. */
static uint8_t command_word(const struct line *l)
{
    int word = l->length <= sizeof(l->text) ? cache_word(l->text, l->length) : -1;
    return word < 0 ? OTHER : (uint8_t)word;
}

/* One byte of a binary header. True when it was the last; size is then that of what follows, arguments the
 * status, where it is an answer's. */
static inline bool header_byte(struct line *l, uint8_t b)
{
    enum { CODE = 1, STATUS = 6, SIZE = 8, SIZE_END = 12 };
    unsigned at = l->length++;
    if (at == CODE)
        l->code = b;
    else if (at >= STATUS && at < SIZE)
        l->arguments = l->arguments << 8 | b;
    else if (at >= SIZE && at < SIZE_END)
        l->size = l->size << 8 | b;
    if (l->length < BINARY_BYTES)
        return false;
    int word =
        l->code < CACHE_CODES_COUNT ? cache_word(CACHE_CODES[l->code].word, CACHE_CODES[l->code].length) : -1;
    l->word = word < 0 ? OTHER : (uint8_t)word;
    l->skip = l->size;
    l->place = IN_DATA;
    return true;
}

static uint8_t command_size_at(uint8_t word)
{
    return word == OTHER ? 0 : CACHE_WORDS[word].size_at;
}

static uint8_t does(uint8_t word)
{
    return word == OTHER ? CACHE_MANAGES : CACHE_WORDS[word].does;
}

static void command_read(struct cache_connection *c, uint32_t keys)
{
    struct line *l = &c->command;
    bool meta = does(l->word) & (CACHE_META_GETS | CACHE_META_STORES | CACHE_META_CHANGES);
    bool noreply = l->matched == sizeof("noreply") - 1;
    uint8_t counted = l->binary          ? cache_code_counted(l->code)
                      : l->word == OTHER ? 1
                                         : cache_counted(l->word, noreply);
    uint8_t quiet = meta || l->binary ? l->quiet : cache_silent(does(l->word), noreply);
    keys = keys > UINT16_MAX ? UINT16_MAX : keys;
    struct run *run = NULL;
    /* Where there are too many, their order is given up, not their number. */
    for (int i = c->run_count - 1; i >= 0 && !run && (i == c->run_count - 1 || c->run_count == RUNS); i--)
        if (c->runs[i].word == l->word && c->runs[i].keys == keys && c->runs[i].quiet == quiet &&
            c->runs[i].counted == counted)
            run = &c->runs[i];
    c->number += counted;
    if (!run && c->run_count < RUNS) {
        run = &c->runs[c->run_count++];
        *run = (struct run){.word = l->word, .quiet = quiet, .counted = counted, .keys = (uint16_t)keys};
        run->first = counted && !c->unnumbered ? c->number : 0;
    } else if (run && run != &c->runs[c->run_count - 1]) {
        run->first = 0;
    }
    if (run) {
        run->commands++;
        run->bytes += l->bytes;
    } else {
        c->lost = c->unnumbered = 1;
        c->answered = 0;
        c->unread_bytes += l->bytes;
    }
    *l = (struct line){0};
}

static void lose(struct cache_connection *c)
{
    c->lost = c->unnumbered = 1;
    c->answered = 0;
    c->unread_bytes += c->command.bytes;
}

static void command_line(struct cache_connection *c)
{
    struct line *l = &c->command;
    if (l->place == IN_WORD)
        l->word = command_word(l);
    if (l->word == OTHER && c->midway) {
        lose(c);
        return;
    }
    c->midway = 0;
    if (command_size_at(l->word) && l->number) {
        l->skip = l->size + 2;
        l->place = IN_DATA;
        return;
    }
    uint32_t keys_at = l->word == OTHER ? 0 : CACHE_WORDS[l->word].keys_at, keys = 0;
    if (keys_at && l->arguments >= keys_at)
        keys = does(l->word) & CACHE_GETS ? l->arguments - keys_at + 1
                                          : !(does(l->word) & (CACHE_STORES | CACHE_META_STORES));
    command_read(c, keys);
}

static void command_header(struct cache_connection *c, uint8_t b)
{
    struct line *l = &c->command;
    l->place = IN_HEADER;
    l->binary = 1;
    if (!header_byte(l, b))
        return;
    l->quiet = l->code < CACHE_CODES_COUNT && CACHE_CODES[l->code].quiet;
    c->midway = 0;
    if (l->skip > DATA_MAX)
        lose(c);
    else if (!l->skip)
        command_read(c, does(l->word) & KEYED ? 1 : 0);
}

/* What most clients send most of the time, "get KEY\r\n" as a whole: returns where it ends, at when it is not
 * that. It is read as the rest of this file would read it. */
static inline uint64_t single_get(struct cache_connection *c, const char *bytes, uint64_t at, uint64_t count)
{
    struct line *l = &c->command;
    uint64_t end = at + 4;
    if (l->bytes || count - at < 4 || bytes[at] != 'g' || bytes[at + 1] != 'e' || bytes[at + 2] != 't' ||
        bytes[at + 3] != ' ')
        return at;
    while (end < count && (uint8_t)bytes[end] > ' ')
        end++;
    if (end == at + 4 || count - end < 2 || bytes[end] != '\r' || bytes[end + 1] != '\n')
        return at;
    l->word = CACHE_GET;
    l->bytes = end + 2 - at;
    c->midway = 0;
    command_read(c, 1);
    return end + 2;
}

/* What its socket carries turns out to be encrypted: what was read of it so far was the handshake. */
static inline void connection_is_encrypted(struct cache_connection *c)
{
    c->tls = 1;
    c->lost = c->answered = c->run_count = 0;
    c->unnumbered = c->midway;
    c->command = c->answer = (struct line){0};
    c->number = c->ahead = c->in_bytes = c->out_bytes = c->unread_bytes = 0;
}

static void commands_read(struct cache_connection *c, const char *bytes, uint64_t count)
{
    struct line *l = &c->command;
    if (c->lost && c->answered) { /* it begins anew with what a client says next */
        c->lost = c->answered = c->run_count = 0;
        c->command = c->answer = (struct line){0};
        c->ahead = 0;
    }
    uint64_t i = 0;
    while (i < count && !c->lost) {
        if (l->place == IN_DATA) {
            i += line_data(l, count - i);
            if (!l->skip)
                command_read(c, l->binary && does(l->word) & KEYED ? 1 : 0);
            continue;
        }
        uint64_t behind = single_get(c, bytes, i, count);
        if (behind != i) {
            i = behind;
            continue;
        }
        char b = bytes[i++];
        l->bytes++;
        if (l->place == IN_HEADER || (l->bytes == 1 && (uint8_t)b == BINARY_COMMAND)) {
            command_header(c, (uint8_t)b);
        } else if (b == '\n') {
            command_line(c);
        } else if (l->place == IN_WORD && b != '\r' && (b < ' ' || b > '~')) {
            lose(c); /* TLS, the middle of a value */
        } else {
            i = line_takes(l, bytes, i - 1, count, command_word, command_size_at);
        }
    }
    c->unread_bytes += count - i;
}

/* ---- answers ---- */

enum { HIT = 1, DONE = 2, REFUSED = 4, ERROR = 8 };

/* fits: which commands it can answer. */
static const struct {
    char word[ANSWER_MAX + 1];
    uint8_t fits, says, size_at;
} ANSWERS[] = {
    {"VALUE", CACHE_GETS, HIT, 3},
    {"END", CACHE_GETS | CACHE_MANAGES, DONE, 0},
    {"STORED", CACHE_STORES, DONE, 0},
    {"NOT_STORED", CACHE_STORES, DONE | REFUSED, 0},
    {"EXISTS", CACHE_STORES, DONE | REFUSED, 0},
    {"NOT_FOUND", CACHE_STORES | CACHE_CHANGES, DONE | REFUSED, 0},
    {"DELETED", CACHE_CHANGES, DONE | HIT, 0},
    {"TOUCHED", CACHE_CHANGES, DONE | HIT, 0},
    {"OK", CACHE_MANAGES, DONE, 0},
    {"VERSION", CACHE_MANAGES, DONE, 0},
    {"RESET", CACHE_MANAGES, DONE, 0},
    {"VA", CACHE_META_GETS | CACHE_META_CHANGES, DONE | HIT, 1},
    {"HD", CACHE_META_GETS | CACHE_META_STORES | CACHE_META_CHANGES, DONE | HIT, 0},
    {"EN", CACHE_META_GETS, DONE, 0},
    {"ME", CACHE_META_GETS, DONE | HIT, 0},
    {"NF", CACHE_META_STORES | CACHE_META_CHANGES, DONE | REFUSED, 0},
    {"NS", CACHE_META_STORES | CACHE_META_CHANGES, DONE | REFUSED, 0},
    {"EX", CACHE_META_STORES | CACHE_META_CHANGES, DONE | REFUSED, 0},
    {"MN", CACHE_META_MARKS, DONE, 0},
    {"ERROR", UINT8_MAX, DONE | ERROR, 0},
    {"CLIENT_ERROR", UINT8_MAX, DONE | ERROR, 0},
    {"SERVER_ERROR", UINT8_MAX, DONE | ERROR, 0},
};
enum { ANSWERS_COUNT = sizeof(ANSWERS) / sizeof(ANSWERS[0]), NO_ANSWER = UINT8_MAX };

/* Lines of any other kind (STAT ...) are parts of an answer. */
static uint8_t answer_of(const struct line *l)
{
    for (uint8_t i = 0; i < ANSWERS_COUNT; i++) {
        uint8_t k = 0;
        while (k < l->length && k < ANSWER_MAX && ANSWERS[i].word[k] == l->text[k])
            k++;
        if (k == l->length && !ANSWERS[i].word[k])
            return i;
    }
    return NO_ANSWER;
}

static uint8_t answer_size_at(uint8_t word)
{
    return word == NO_ANSWER ? 0 : ANSWERS[word].size_at;
}

/* fits: which commands it can answer; word: which one alone, OTHER: any. */
static void answer(struct cache_connection *c, uint8_t fits, uint8_t word, uint8_t says)
{
    struct line *l = &c->answer;
    for (int i = 0; i < c->run_count; i++) {
        struct run *run = &c->runs[i];
        if (!(does(run->word) & fits) || run->answered == run->commands ||
            (word != OTHER && word != run->word))
            continue;
        run->hits += run->keys && says & HIT;
        run->refused += !!(says & REFUSED);
        run->errors += !!(says & ERROR);
        run->answered += !!(says & DONE);
        run->reply_bytes += l->bytes;
        l->bytes = 0;
        break;
    }
    *l = (struct line){.bytes = l->bytes};
}

static void answer_binary(struct cache_connection *c)
{
    enum { FINE, NOT_FOUND, EXISTS, NOT_STORED = 5 };
    struct line *l = &c->answer;
    uint32_t status = l->arguments;
    bool refused = status == NOT_FOUND || status == EXISTS || status == NOT_STORED;
    uint8_t says = status == FINE ? HIT | DONE : refused && l->word != OTHER ? DONE | REFUSED : DONE | ERROR;
    if (refused && does(l->word) & CACHE_GETS)
        says = DONE;
    answer(c, l->word == OTHER ? CACHE_MANAGES : UINT8_MAX, l->word, says);
}

/* It is whole, with the data behind it. */
static void answer_ends(struct cache_connection *c)
{
    struct line *l = &c->answer;
    if (l->binary)
        answer_binary(c);
    else
        answer(c, ANSWERS[l->word].fits, OTHER, ANSWERS[l->word].says);
}

static void answer_line(struct cache_connection *c)
{
    struct line *l = &c->answer;
    if (l->place == IN_WORD)
        l->word = answer_of(l);
    if (l->word == NO_ANSWER) {
        bool number = l->length && l->text[0] >= '0' && l->text[0] <= '9';
        answer(c, number ? CACHE_CHANGES : 0, OTHER, DONE | HIT);
    } else if (answer_size_at(l->word) && l->number) {
        l->skip = l->size + 2;
        l->place = IN_DATA;
    } else {
        answer_ends(c);
    }
}

/* The end of a get's answer, as a whole; read as the rest of this file would read it. */
static inline bool is_end(const struct cache_connection *c, const char *bytes, uint64_t left)
{
    const struct line *l = &c->answer;
    return l->place == IN_WORD && !l->length && left >= 5 && bytes[0] == 'E' && bytes[1] == 'N' &&
           bytes[2] == 'D' && bytes[3] == '\r' && bytes[4] == '\n';
}

static void answers_written(struct cache_connection *c, const char *bytes, uint64_t count)
{
    struct line *l = &c->answer;
    for (uint64_t i = 0; i < count;) {
        if (l->place == IN_DATA) {
            i += line_data(l, count - i);
            if (!l->skip)
                answer_ends(c);
            continue;
        }
        if (is_end(c, bytes + i, count - i)) {
            i += 5;
            l->bytes += 5;
            answer(c, CACHE_GETS | CACHE_MANAGES, OTHER, DONE);
            continue;
        }
        char b = bytes[i++];
        l->bytes++;
        if (l->place == IN_HEADER || (l->place == IN_WORD && !l->length && (uint8_t)b == BINARY_ANSWER)) {
            l->place = IN_HEADER;
            l->binary = 1;
            if (header_byte(l, (uint8_t)b) && !l->skip)
                answer_ends(c);
        } else if (b == '\n') {
            answer_line(c);
        } else {
            i = line_takes(l, bytes, i - 1, count, answer_of, answer_size_at);
        }
    }
}

#endif
