/* The protocol of MySQL and MariaDB as clients write it (MySQL's source documentation, "Client/Server
 * Protocol"): packets of length u24, number u8, content, little endian. The server greets; what the client
 * writes first is its answer:
 *
 *     capabilities u32, longest packet u32, character set u8, 19 zero bytes, 4 more, name, ...
 *
 * or only the first 32 bytes of it, when TLS follows. Then commands, whose packets begin with number 0: a
 * code u8, and for COM_QUERY the text. Packets with other numbers go on with what was begun: authentication,
 * a long text, a file. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_WIRE_MYSQL_H
#define PROBE_WIRE_MYSQL_H

#include "probe/sql.h"
#include "probe/statement.h"
#include "probe/wire.h"

enum {
    MYSQL_HEAD,             /* to MYSQL_HEAD + 3 */
    MYSQL_CAPABILITIES = 4, /* to MYSQL_CAPABILITIES + 3 */
    MYSQL_COMMAND = MYSQL_CAPABILITIES + 4,
    MYSQL_TEXT,
    MYSQL_BODY,
    MYSQL_PREPARED, /* to MYSQL_PREPARED + 3: which statement is executed */
};

/* commands->items; MYSQL_WITH_ATTRIBUTES: what stands before the text of a query says how many there are. */
enum {
    MYSQL_GREETED = 1,
    MYSQL_COMMANDED = 2,
    MYSQL_WITH_ATTRIBUTES = 4,
    MYSQL_KEPT = MYSQL_GREETED | MYSQL_COMMANDED | MYSQL_WITH_ATTRIBUTES,
    MYSQL_SQL_SHIFT = 16,
};

enum { MYSQL_QUERY = 0x03, MYSQL_PREPARE = 0x16, MYSQL_EXECUTE = 0x17, MYSQL_EXECUTE_MANY = 0xfa };

enum {
    MYSQL_COMPRESSED = 0x20,
    MYSQL_PROTOCOL_41 = 0x200,
    MYSQL_TLS = 0x800,
    MYSQL_ZSTD = 1 << 26,
    MYSQL_ATTRIBUTES = 1 << 27,
    MYSQL_TLS_BYTES = 32,
    MYSQL_ANSWER_MIN = 33,
};

static WIRE_APART bool wire_mysql_begins(struct cursor *c)
{
    enum { ZEROS_FROM = 4 + 9, ZEROS_TO = ZEROS_FROM + 19 };
    uint8_t head[ZEROS_FROM];
    for (int i = 0; i < ZEROS_TO; i++) {
        if (!at_least_one(c))
            return false;
        uint8_t b = (uint8_t)next_byte(c);
        if (i < ZEROS_FROM)
            head[i] = b;
        else if (b)
            return false;
    }
    uint32_t length = head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16;
    uint32_t capabilities = head[4] | (uint32_t)head[5] << 8;
    return head[3] == 1 && capabilities & MYSQL_PROTOCOL_41 && length >= MYSQL_TLS_BYTES;
}

struct mysql_word {
    const char *text;
    uint32_t length;
};

/* The name of a command's code; *ret_answered: the server answers it. NULL: no name. */
static inline struct mysql_word mysql_command(uint8_t code, bool *ret_answered, bool *ret_known)
{
    *ret_answered = *ret_known = true;
    switch (code) {
    case 0x01: /* quit */
    case 0x18: /* long data */
    case 0x19: /* a statement is closed */
        *ret_answered = false;
        return (struct mysql_word){0};
    case 0x02:
        return (struct mysql_word){"USE", 3};
    case 0x0e:
        return (struct mysql_word){"PING", 4};
    case 0x11:
        return (struct mysql_word){"authenticate", 12};
    case MYSQL_PREPARE:
        return (struct mysql_word){"PREPARE", 7};
    case MYSQL_EXECUTE:
    case MYSQL_EXECUTE_MANY: /* MariaDB's */
        return (struct mysql_word){"EXECUTE", 7};
    case 0x1c:
        return (struct mysql_word){"FETCH", 5};
    case 0x1a:
    case 0x1f:
        return (struct mysql_word){"RESET", 5};
    }
    *ret_known = code <= 0x1f;
    return (struct mysql_word){0};
}

static inline void mysql_name(struct probe_thread *self, const char *name, uint32_t length, uint32_t begun,
                              uint32_t *operation)
{
    if (name && begun == 1 && !*operation)
        *operation = name_of_text(self, name, length);
}

static inline void mysql_packet(struct probe_thread *self, struct commands *d, uint32_t *begun,
                                uint32_t *operation)
{
    uint8_t number = (uint8_t)d->value;
    uint64_t word = d->value >> 8;
    d->skip = (word >> 16 & 0xff) | (word & 0xff00) | (word & 0xff) << 16;
    d->value = 0;
    d->state = MYSQL_BODY;
    if (!(d->items & MYSQL_GREETED)) {
        d->items |= MYSQL_GREETED;
        d->state = MYSQL_CAPABILITIES;
        d->lost = number != 1 || d->skip < MYSQL_TLS_BYTES;
    } else if (number == 0) {
        d->items |= MYSQL_COMMANDED;
        d->state = MYSQL_COMMAND;
        d->lost = !d->skip;
    } else if (!(d->items & MYSQL_COMMANDED)) {
        mysql_name(self, "authenticate", 12, ++*begun, operation);
    }
}

static inline void mysql_statement_byte(struct statements *s, uint8_t byte)
{
    if (s && s->skip) /* no attribute, in one set; else their values stand before the text */
        s->reading &= byte == 2 - s->skip--;
    else
        statements_byte(s, byte);
}

static inline void mysql_text(struct probe_thread *self, struct commands *d, int byte, uint32_t begun,
                              uint32_t *operation)
{
    uint8_t sql = (uint8_t)(d->items >> MYSQL_SQL_SHIFT);
    if (sql_byte(&sql, &d->value, byte)) {
        uint32_t length = 0;
        const char *known = sql_word(d->value, &length);
        mysql_name(self, known, length, begun, operation);
    }
    d->items = (d->items & MYSQL_KEPT) | (uint64_t)sql << MYSQL_SQL_SHIFT;
    struct statements *s = self->statements;
    if (byte >= 0)
        mysql_statement_byte(s, (uint8_t)byte);
    if (sql == SQL_DONE && (!s || !s->reading))
        d->state = MYSQL_BODY;
}

/* A command whose code is `code` begins, the nth in this write: what of it is read. */
static inline uint8_t mysql_begins(struct probe_thread *self, const struct commands *d, uint8_t code,
                                   uint32_t nth)
{
    struct statements *s = self->statements;
    if (s && (code == MYSQL_QUERY || code == MYSQL_PREPARE)) {
        statements_text(s, STATEMENT_MYSQL, nth);
        s->preparing = code == MYSQL_PREPARE;
        s->prepares += s->preparing && s->prepares < 2;
        s->skip = code == MYSQL_QUERY && d->items & MYSQL_WITH_ATTRIBUTES ? 2 : 0;
    }
    if (s && (code == MYSQL_EXECUTE || code == MYSQL_EXECUTE_MANY))
        return MYSQL_PREPARED;
    return code == MYSQL_QUERY || (s && code == MYSQL_PREPARE) ? MYSQL_TEXT : MYSQL_BODY;
}

static WIRE_APART uint32_t wire_mysql_follow(struct probe_thread *self, struct commands *d, struct cursor *c,
                                             uint32_t *operation)
{
    uint32_t begun = 0;
    while (!d->lost && at_least_one(c)) {
        if (d->state == MYSQL_BODY) {
            skip_bytes(c, &d->skip);
            if (d->skip)
                break;
            d->state = MYSQL_HEAD;
            continue;
        }
        uint8_t b = (uint8_t)next_byte(c);
        if (d->state < MYSQL_CAPABILITIES) {
            d->value = d->value << 8 | b;
            if (++d->state == MYSQL_CAPABILITIES) {
                mysql_packet(self, d, &begun, operation);
                if (!d->skip)
                    d->state = MYSQL_HEAD;
            }
        } else if (d->state < MYSQL_COMMAND) {
            d->value |= (uint64_t)b << 8 * (d->state - MYSQL_CAPABILITIES);
            d->skip--;
            if (++d->state < MYSQL_COMMAND)
                continue;
            /* Compressed or encrypted: nothing more can be read. */
            d->lost = (d->value & (MYSQL_COMPRESSED | MYSQL_ZSTD)) != 0 ||
                      (d->value & MYSQL_TLS && d->skip < MYSQL_ANSWER_MIN - 4);
            if (!d->lost)
                mysql_name(self, "connect", 7, ++begun, operation);
            if (d->value & MYSQL_ATTRIBUTES)
                d->items |= MYSQL_WITH_ATTRIBUTES;
            d->value = 0;
            d->state = MYSQL_BODY;
        } else if (d->state == MYSQL_COMMAND) {
            bool answered = true, known = true;
            const struct mysql_word name = mysql_command(b, &answered, &known);
            d->lost = !known;
            begun += answered && known;
            if (answered && known)
                mysql_name(self, name.text, name.length, begun, operation);
            d->items &= MYSQL_KEPT;
            d->state = mysql_begins(self, d, b, begun);
            if (!--d->skip)
                d->state = MYSQL_HEAD;
        } else if (d->state >= MYSQL_PREPARED) {
            d->value |= (uint64_t)b << 8 * (d->state - MYSQL_PREPARED);
            if (++d->state == MYSQL_PREPARED + 4) {
                uint64_t number = (uint32_t)d->value;
                d->value = 0;
                d->state = MYSQL_BODY;
                statements_prepared(self->statements, number == UINT32_MAX ? STATEMENT_NEWEST : number,
                                    begun);
            }
            if (!--d->skip)
                d->state = MYSQL_HEAD;
        } else {
            d->skip--;
            mysql_text(self, d, b, begun, operation);
            if (!d->skip) {
                mysql_text(self, d, -1, begun, operation);
                statements_text_end(self, self->statements, true);
                d->state = MYSQL_HEAD;
            }
        }
    }
    return begun;
}

#endif
