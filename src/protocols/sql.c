/* Databases that are asked in SQL: PostgreSQL; MySQL and MariaDB. Where the texts of statements are recorded
 * (--sql), each comes before the write whose command it is, and waits for it by the command's number. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "model/reading.h"
#include "protocols/commands.h"
#include "protocols/protocols.h"

enum { POSTGRESQL_SHORTEST = 5 /* Sync */, MYSQL_SHORTEST = 5 /* a packet of one byte */ };

/* As many as the probe tells of one write, and some whose write was lost. */
enum { STATEMENTS_KEPT = 32 };

struct sql_statements {
    struct {
        uint64_t number;
        const char *text;
    } at[STATEMENTS_KEPT];
    size_t count;
};

static void statement_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct connection *c = connection_get(thread->process, (int32_t)I(e, sql_statement_fd),
                                          (uint32_t)U(e, sql_statement_generation));
    const char *text = process_name_of(thread->process, U(e, sql_statement_statement));
    if (!c || !text || !U(e, sql_statement_number))
        return;
    if (!c->statements && !(c->statements = calloc(1, sizeof(*c->statements)))) {
        a->failed = true;
        return;
    }
    struct sql_statements *s = c->statements;
    if (s->count == STATEMENTS_KEPT)
        memmove(s->at, s->at + 1, --s->count * sizeof(*s->at));
    s->at[s->count].number = U(e, sql_statement_number);
    s->at[s->count++].text = text;
}

const char *statement_of(struct connection *c, uint64_t number)
{
    struct sql_statements *s = c->statements;
    size_t gone = 0;
    while (gone < s->count && s->at[gone].number < number)
        gone++; /* their write was never read */
    const char *text = number && gone < s->count && s->at[gone].number == number ? s->at[gone++].text : NULL;
    s->count -= gone;
    memmove(s->at, s->at + gone, s->count * sizeof(*s->at));
    return text;
}

static void forget(struct analysis *a, struct connection *c)
{
    free(c->statements);
    c->statements = NULL;
}

static const struct event_reading EVENTS[] = {{SONDE_EVENT_sql_statement, statement_event}, {0}};

const struct protocol protocol_postgresql =
    COMMAND_PROTOCOL(postgresql, POSTGRESQL_SHORTEST, .events = EVENTS, .forget = forget);
const struct protocol protocol_mysql = COMMAND_PROTOCOL(mysql, MYSQL_SHORTEST);
