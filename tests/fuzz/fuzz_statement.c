/* Statements without their values. Any bytes give printable text of bounded length; and of a statement that
 * is put together of known parts, in either dialect and either of the settings that decide what a backslash
 * is, no byte of a value stays, wherever the statement ends. Values consist of capitals, digits and what
 * could be taken for the end of one; everything else of lower case. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/statement.h"
#include "probe/probe.h"

/* Where the probe records; nothing is recorded here. */
struct sonde_shared *probe_shared;
struct probe_large probe_large;
struct probe_live probe_live;

uint32_t name_of_statement(struct probe_thread *self, const char *text, uint32_t length)
{
    return 1;
}

static struct statement s;

static uint32_t print(enum statement_dialect dialect, const uint8_t *bytes, size_t size)
{
    char *copy = malloc(size ? size : 1); /* of its size, so that a byte beyond it is noticed */
    if (!copy)
        abort();
    if (size)
        memcpy(copy, bytes, size);
    memset(&s, 0xa5, sizeof(s));
    statement_begin(&s, dialect);
    for (size_t i = 0; i < size; i++)
        statement_byte(&s, (uint8_t)copy[i]);
    free(copy);
    uint32_t length = statement_end(&s, size % 2);
    if (length > STATEMENT_BYTES)
        abort();
    for (uint32_t i = 0; i < length; i++)
        if (s.text[i] < ' ' || s.text[i] > '~')
            abort();
    return length;
}

/* ---- statements of known parts ---- */

enum { TEXT_MAX = 4096 };

struct made {
    const uint8_t *data;
    size_t size, at;
    uint8_t text[TEXT_MAX];
    size_t length;
    bool mysql, escapes;
};

static uint8_t take(struct made *m)
{
    return m->at < m->size ? m->data[m->at++] : 0;
}

static void add(struct made *m, const char *text)
{
    size_t n = strlen(text);
    if (m->length + n <= TEXT_MAX) {
        memcpy(m->text + m->length, text, n);
        m->length += n;
    }
}

/* The content of a string, which the server reads as one. */
static void add_content(struct made *m, char quote, bool escapes)
{
    static const char *const PARTS[] = {"A",  "Z9", "0",  " ",  ",",    "(",        ")", "--",
                                        "/*", "*/", "#",  "$$", "$",    "`",        ";", "\n",
                                        "\"", "'",  "\\", "E",  "NULL", "\xe8\x41", "=", "$Q$"};
    for (uint8_t n = take(m) % 8; n; n--) {
        const char *part = PARTS[take(m) % (sizeof(PARTS) / sizeof(*PARTS))];
        bool twice = (part[0] == quote) || (part[0] == '\\' && escapes);
        if (part[0] == quote && escapes && take(m) % 2)
            add(m, "\\"), twice = false;
        add(m, part);
        if (twice)
            add(m, part);
    }
}

static void add_string(struct made *m)
{
    char quote[] = {m->mysql && take(m) % 2 ? '"' : '\'', '\0'};
    bool escapes = m->escapes;
    add(m, " "); /* or it goes on with the string before it */
    if (!m->mysql && take(m) % 3 == 0) {
        add(m, "e");
        escapes = true;
    }
    add(m, quote);
    add_content(m, quote[0], escapes);
    add(m, quote);
}

/* Of no `$`, and no quote that ends anything. */
static void add_dollar(struct made *m)
{
    static const char *const PARTS[] = {"A", "'", "\"", "--", "\\", "/*", "9", "\n", "$9", "$A", "Q"};
    const char *tag = take(m) % 2 ? "$q$" : "$$";
    add(m, " ");
    add(m, tag);
    for (uint8_t n = take(m) % 8; n; n--) {
        const char *part = PARTS[take(m) % (sizeof(PARTS) / sizeof(*PARTS))];
        add(m, part);
    }
    add(m, " ");
    add(m, tag);
}

static void add_comment(struct made *m)
{
    static const char *const PARTS[] = {"A", "'", "\"", "9", "$$", "`", "-", "\\", " * ", "/ "};
    uint8_t kind = take(m) % 3;
    add(m, kind == 0 ? "-- " : kind == 1 && m->mysql ? "#" : "/* ");
    for (uint8_t n = take(m) % 8; n; n--)
        add(m, PARTS[take(m) % (sizeof(PARTS) / sizeof(*PARTS))]);
    add(m, kind == 0 || (kind == 1 && m->mysql) ? "\n" : " */");
}

static void make(struct made *m)
{
    static const char *const PLAIN[] = {
        "select",  " ",      "a",    ".",       ",",    "(",     ")",       "=",   "- ", "+",     "/ ",
        "* ",      " from ", " in ", " where ", "null", " is ",  "e ",      " x ", ";",  " set ", " to ",
        "values ", " not ",  "<",    ">=",      " ::t", " and ", "update ", "@",   "[",  "]"};
    static const char *const NUMBERS[] = {"9", "1.5", "0xFF", "7E-9", "1E", "42", ".9"};
    while (m->at < m->size && m->length < TEXT_MAX) {
        uint8_t b = take(m);
        if (b < 128)
            add(m, PLAIN[b % (sizeof(PLAIN) / sizeof(*PLAIN))]);
        else if (b < 150)
            add(m, " "), add(m, NUMBERS[b % (sizeof(NUMBERS) / sizeof(*NUMBERS))]), add(m, " ");
        else if (b < 200)
            add_string(m);
        else if (b < 215)
            add_comment(m);
        else if (b < 230 && !m->mysql)
            add_dollar(m);
        else if (b < 240)
            add(m, m->mysql ? " `a``b`" : " \"a\"\"b\"");
        else
            add(m, m->mysql ? " ? " : " $1 ");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    enum statement_dialect dialect = data[0] % 2 ? STATEMENT_MYSQL : STATEMENT_POSTGRESQL;
    print(dialect, data + 1, size - 1);
    static struct made m;
    m = (struct made){.data = data + 1, .size = size - 1, .mysql = data[0] % 2, .escapes = data[0] / 2 % 2};
    make(&m);
    for (int once = 0; once < 2; once++) {
        size_t end = once ? m.length : m.length * data[0] / 256;
        uint32_t length = print(dialect, m.text, end);
        for (uint32_t i = 0; i < length; i++)
            if ((s.text[i] >= 'A' && s.text[i] <= 'Z') || (s.text[i] >= '0' && s.text[i] <= '9')) {
                fprintf(stderr, "'%.*s' leaves '%.*s'\n", (int)end, (const char *)m.text, (int)length,
                        s.text);
                abort();
            }
    }
    return 0;
}
