/* PostgreSQL's protocol, version 3, as clients write it (its documentation, "Message Formats"):
 *
 *     first    length u32, 196608 u32 (3.0), names and values; before it perhaps length 8, 80877103 (TLS,
 * please) or 80877104 (GSSAPI encryption, please), each of which is answered by one byte then     type u8,
 * length u32 (with itself, without the type), content
 *
 * A command is what the server answers with ReadyForQuery: a query (Q), a function call (F), or a series that
 * ends with Sync (P B D E C H ... S). Connecting is one, and so is each part of authentication (p). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_WIRE_POSTGRESQL_H
#define PROBE_WIRE_POSTGRESQL_H

#include "probe/sql.h"
#include "probe/statement.h"
#include "probe/wire.h"

enum {
    PG_FIRST, /* to PG_FIRST + 7: the length and the code are read */
    PG_TYPE = 8,
    PG_LENGTH, /* to PG_LENGTH + 3 */
    PG_BODY = PG_LENGTH + 4,
    PG_NAME, /* of a statement, up to a zero byte */
    PG_TEXT,
    PG_PORTAL,   /* whose name stands before ... */
    PG_PREPARED, /* ... that of the statement that is bound to it: where statements are asked for */
};

enum { PG_VERSION = 3, PG_TLS = 80877103, PG_GSSAPI = 80877104, PG_FIRST_MAX = 10000 };

/* In commands->items: the type of the message, that a series has begun, and how far a statement's text is
 * read. */
enum { PG_TYPE_BITS = 0xff, PG_SERIES = 0x100, PG_NAMED = 0x200, PG_SQL_SHIFT = 16 };

static WIRE_APART bool wire_postgresql_begins(struct cursor *c)
{
    uint64_t word = 0;
    for (int i = 0; i < 8; i++) {
        if (!at_least_one(c))
            return false;
        word = word << 8 | (uint8_t)next_byte(c);
    }
    uint32_t length = (uint32_t)(word >> 32), code = (uint32_t)word;
    return code == PG_TLS || code == PG_GSSAPI
               ? length == 8
               : code >> 16 == PG_VERSION && length > 8 && length <= PG_FIRST_MAX;
}

static inline void pg_name(struct probe_thread *self, const char *name, uint32_t length, uint32_t begun,
                           uint32_t *operation)
{
    if (begun == 1 && !*operation)
        *operation = name_of_text(self, name, length);
}

/* A message of that type begins; returns whether a command does. */
static inline bool pg_begins(struct probe_thread *self, struct commands *d, uint32_t begun,
                             uint32_t *operation)
{
    switch (d->items & PG_TYPE_BITS) {
    case 'Q':
        d->state = PG_TEXT;
        statements_text(self->statements, STATEMENT_POSTGRESQL, begun + 1);
        d->items &= ~(uint64_t)PG_SERIES;
        return true;
    case 'F':
        d->items &= ~(uint64_t)PG_SERIES;
        pg_name(self, "CALL", 4, begun + 1, operation);
        return true;
    case 'p':
        pg_name(self, "authenticate", 12, begun + 1, operation);
        return true;
    case 'S': {
        bool alone = !(d->items & PG_SERIES);
        d->items &= ~(uint64_t)PG_SERIES;
        return alone;
    }
    case 'P':
    case 'B': {
        bool first = !(d->items & PG_SERIES);
        if (first && (d->items & PG_TYPE_BITS) == 'P') {
            d->state = PG_NAME;
            statements_text(self->statements, STATEMENT_POSTGRESQL, begun + 1);
        } else if (first) {
            pg_name(self, "EXECUTE", 7, begun + 1, operation); /* of what was prepared before */
            d->state = PG_PORTAL;
        }
        if (self->statements) {
            self->statements->name = 0;
            self->statements->nth = begun + 1;
        }
        d->items |= PG_SERIES;
        return first;
    }
    case 'D':
    case 'E':
    case 'C':
    case 'H': {
        bool first = !(d->items & PG_SERIES);
        d->items |= PG_SERIES;
        return first;
    }
    case 'd': /* data and its end, which a query has asked for */
    case 'c':
    case 'f':
    case 'X':
        return false;
    }
    d->lost = 1;
    return false;
}

/* A byte of a statement's name; begun: of the commands, that it is of. */
static inline void pg_prepared(struct probe_thread *self, struct commands *d, uint8_t b, uint32_t begun)
{
    struct statements *s = self->statements;
    if (d->state == PG_PORTAL) {
        d->state = b ? PG_PORTAL : PG_PREPARED;
    } else if (b) {
        if (s)
            s->name = ((s->name ? s->name : 0xCBF29CE484222325ull) ^ b) * 0x100000001B3ull;
    } else if (d->state == PG_NAME) {
        d->state = PG_TEXT;
    } else {
        if (s && s->name && begun && s->nth == begun) /* all of the name is in this write */
            statements_prepared(s, s->name, begun);
        d->state = PG_BODY;
    }
}

static inline void pg_text(struct probe_thread *self, struct commands *d, int byte, uint32_t begun,
                           uint32_t *operation)
{
    uint8_t sql = (uint8_t)(d->items >> PG_SQL_SHIFT);
    if (sql_byte(&sql, &d->value, byte)) {
        uint32_t length = 0;
        const char *known = sql_word(d->value, &length);
        if (known)
            pg_name(self, known, length, begun, operation);
    }
    d->items = (d->items & (PG_TYPE_BITS | PG_SERIES | PG_NAMED)) | (uint64_t)sql << PG_SQL_SHIFT;
    struct statements *s = self->statements;
    if (byte < 0)
        statements_text_end(self, s, true);
    else
        statements_byte(s, (uint8_t)byte);
    if (sql == SQL_DONE && (byte < 0 || !s || !s->reading))
        d->state = PG_BODY;
}

static WIRE_APART uint32_t wire_postgresql_follow(struct probe_thread *self, struct commands *d,
                                                  struct cursor *c, uint32_t *operation)
{
    uint32_t begun = 0;
    while (!d->lost && at_least_one(c)) {
        if (d->state == PG_BODY) {
            skip_bytes(c, &d->skip);
            if (d->skip)
                break;
            d->state = PG_TYPE;
            continue;
        }
        uint8_t b = (uint8_t)next_byte(c);
        if (d->state < PG_TYPE) {
            d->value = d->value << 8 | b;
            if (d->state == PG_FIRST && b) { /* a length below 2^24: else it is TLS by now */
                d->lost = 1;
            } else if (++d->state == PG_TYPE) {
                uint32_t length = (uint32_t)(d->value >> 32), code = (uint32_t)d->value;
                d->value = 0;
                if (code == PG_TLS || code == PG_GSSAPI) {
                    d->state = PG_FIRST;
                } else if (code >> 16 != PG_VERSION || length < 8 || length > PG_FIRST_MAX) {
                    d->lost = 1;
                } else {
                    begun++;
                    pg_name(self, "connect", 7, begun, operation);
                    d->skip = length - 8;
                    d->state = d->skip ? PG_BODY : PG_TYPE;
                }
            }
        } else if (d->state == PG_TYPE) {
            d->items = (d->items & PG_SERIES) | b;
            d->value = 0;
            d->state = PG_LENGTH;
        } else if (d->state < PG_BODY) {
            d->value = d->value << 8 | b;
            if (++d->state < PG_BODY)
                continue;
            if (d->value < 4) {
                d->lost = 1;
                continue;
            }
            d->skip = d->value - 4;
            d->value = 0;
            begun += pg_begins(self, d, begun, operation);
            if (!d->skip)
                d->state = PG_TYPE;
        } else {
            d->skip--;
            if (d->state != PG_TEXT)
                pg_prepared(self, d, b, begun);
            else
                pg_text(self, d, b ? b : -1, begun, operation);
            if (!d->skip)
                d->state = PG_TYPE;
        }
    }
    return begun;
}

#endif
