/* The text of a statement of SQL without its values, and the statements that connections have prepared. Only
 * where statements are asked for (sonde_config.statements).
 *
 * Kept are words, names, operators and the parentheses; every literal becomes `?`, lists of them and rows of
 * the same form one, and comments are left out. The text is read byte by byte and nothing of a literal is
 * ever stored. Where the rest could be understood in two ways, one of which takes a value for a name, the
 * text ends there with "...". */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_STATEMENT_H
#define PROBE_STATEMENT_H

#include <stdbool.h>
#include <stdint.h>

struct probe_thread;

enum statement_dialect { STATEMENT_POSTGRESQL, STATEMENT_MYSQL };

enum {
    STATEMENT_BYTES = 1000,     /* of the result, at most */
    STATEMENT_READ_MAX = 16384, /* of a text that is read; what is longer ends there */
    STATEMENT_DEPTH = 12,       /* of parentheses whose repetition is noticed */
    STATEMENT_TAG_BYTES = 24,   /* PostgreSQL's $tag$; a longer one ends the text */
    STATEMENTS_OF_A_WRITE = 16, /* that are recorded; those of further commands are not */
};

struct statement {
    uint8_t dialect, state, quote;
    uint8_t before;   /* the word before this one, where it matters (enum word) */
    uint8_t first;    /* the statement's first word, likewise */
    uint8_t sets;     /* its values may be words */
    uint8_t escapes;  /* in this string a backslash escapes */
    uint8_t odd;      /* an odd number of backslashes stands before this byte */
    uint8_t hint;     /* the comment is one that may hold quotes */
    uint8_t gap;      /* white space or a comment stands before this byte */
    uint8_t cut;      /* the rest is left out */
    uint8_t exponent; /* of a number: its last byte was an e */
    uint8_t depth;    /* of parentheses, also beyond those that are kept */
    uint8_t tag_bytes, matched;
    uint16_t length, word, words;
    uint16_t comments; /* how many are open */
    uint32_t read;
    uint16_t open[STATEMENT_DEPTH];
    uint16_t group_start[STATEMENT_DEPTH], group_end[STATEMENT_DEPTH]; /* the newest at each depth */
    char tag[STATEMENT_TAG_BYTES];
    char text[STATEMENT_BYTES];
};

void statement_begin(struct statement *s, enum statement_dialect dialect);
void statement_byte(struct statement *s, uint8_t byte);

/* The text is over; whole: it was read to its end. Returns the length of s->text, 0: nothing can be said. */
uint32_t statement_end(struct statement *s, bool whole);

/* MySQL's numbers have 32 bits; as names of prepared statements: the one that was prepared last, and whether
 * the connection's answers are not known to belong to what was asked (1). */
#define STATEMENT_NEWEST (1ull << 32)
#define STATEMENT_DOUBT  (1ull << 33)

/* What is found in one write (self->statements, while a wire follows it). */
struct statements {
    uint64_t connection; /* identifies it as long as it lasts */
    uint64_t name;       /* PostgreSQL: a hash of the statement's name; 0 none */
    uint32_t count;
    uint32_t nth;      /* of which of the write's commands the text is */
    uint8_t reading;   /* text is being read */
    uint8_t preparing; /* MySQL: it is prepared; the answer says under which number */
    uint8_t prepares;  /* how many such there are; at most 2 */
    uint8_t skip;      /* MySQL: bytes before the text, which say that no attributes come */
    struct {
        uint32_t nth, name;
    } at[STATEMENTS_OF_A_WRITE];
    struct statement text;
};

static inline void statements_begin(struct statements *s, uint64_t connection)
{
    s->connection = connection;
    s->count = 0;
    s->reading = s->preparing = s->prepares = s->skip = 0;
    s->nth = 0;
    s->name = 0;
}

/* The text of a command begins, the nth of those that begin in this write, from 1. s: NULL does nothing. */
void statements_text(struct statements *s, enum statement_dialect dialect, uint32_t nth);
static inline void statements_byte(struct statements *s, uint8_t byte)
{
    if (s && s->reading)
        statement_byte(&s->text, byte);
}
/* It is over. */
void statements_text_end(struct probe_thread *self, struct statements *s, bool whole);
/* A command runs what was prepared under that name or number. */
void statements_prepared(struct statements *s, uint64_t name, uint32_t nth);

/* What a connection has prepared: the number of the text's name, 0 unknown. The table is bounded, and forgets
 * what does not fit. */
uint32_t prepared_get(uint64_t connection, uint64_t name);
void prepared_put(uint64_t connection, uint64_t name, uint32_t statement);

/* A statement is prepared in what is written to MySQL: `prepares` of them, while an answer to an earlier one
 * is still to come (awaited). Returns whether the next bytes that come are its answer, for
 * statement_answered(). */
bool statement_awaits(uint64_t connection, uint8_t prepares, bool awaited);
void statement_answered(uint64_t connection, const char *bytes, uint64_t length);

#endif
