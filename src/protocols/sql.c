/* Databases that are asked in SQL: PostgreSQL; MySQL and MariaDB. Where the texts of statements are recorded
 * (--sql), each comes before the write whose command it is, and waits for it by the command's number.
 *
 * A transaction belongs to one request: what was sent in it by nobody who is known is that of the request
 * which both began and ended it on this connection. With a statement of another's in it, or one that may end
 * it, nothing is concluded. */
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

/* ---- transactions ---- */

enum { TRANSACTION_CALLS = 256 };

struct ended_call {
    struct call call;
    uint64_t end_ns;
};

struct sql_transaction {
    uint64_t owner;    /* serial of the request that began it; 0: none is open */
    uint64_t begun_ns; /* when its BEGIN was sent */
    bool told;         /* whose that was is known from a context's number only */
    /* Of unknown owner, sent since then. */
    ARRAY(struct ended_call) ended;
};

/* A command's name is its statement's first word, in capitals. */
static bool begins(const struct call *call)
{
    return strcmp(call->name, "BEGIN") == 0 || strcmp(call->name, "START") == 0;
}

static bool ends(const struct call *call)
{
    return strcmp(call->name, "COMMIT") == 0 || strcmp(call->name, "ROLLBACK") == 0;
}

static void leave_transaction(struct sql_transaction *t)
{
    t->owner = 0;
    array_clear(&t->ended);
}

static void begin_transaction(struct analysis *a, struct connection *c, const struct call *call)
{
    if (!c->transaction && !(c->transaction = calloc(1, sizeof(*c->transaction)))) {
        a->failed = true;
        return;
    }
    leave_transaction(c->transaction);
    c->transaction->owner = call->owner;
    c->transaction->begun_ns = call->sent_ns;
    c->transaction->told = call->told;
}

static bool is_unknown_in(const struct sql_transaction *t, const struct call *call)
{
    return call->settled && !call->owner && call->known == KNOWN_AMBIGUOUS && call->sent_ns > t->begun_ns;
}

/* What rests on a number that turns out to be wrong is ambiguous, as the number's own. */
static void claim_all(struct analysis *a, struct connection *c, const struct call *last)
{
    struct sql_transaction *t = c->transaction;
    struct request *owner = request_open(a, t->owner);
    if (!owner)
        return;
    bool told = t->told || last->told;
    array_foreach (&t->ended, one) {
        one->call.told = told;
        call_claim_ended(a, &one->call, owner, one->end_ns);
    }
    for (struct call *call = c->calls.at + c->first_call; call < last; call++) {
        if (!is_unknown_in(t, call))
            continue;
        call->told = told;
        call_claim(a, call, owner);
    }
}

/* A command that may be the end of a transaction or the beginning of another one. */
static bool may_leave(const struct connection *c, const struct call *call)
{
    return begins(call) || ends(call) || strcmp(call->name, c->protocol->command) == 0;
}

static void settled(struct analysis *a, struct connection *c, const struct call *call)
{
    struct sql_transaction *t = c->transaction;
    bool inside = t && t->owner;
    bool others = call->owner ? inside && call->owner != t->owner
                              : call->known != KNOWN_AMBIGUOUS || may_leave(c, call);
    if (inside && !others && call->owner && ends(call))
        claim_all(a, c, call);
    if (inside && (others || (call->owner && ends(call))))
        leave_transaction(t);
    if (call->owner && begins(call))
        begin_transaction(a, c, call);
}

static void call_ended(struct analysis *a, struct connection *c, const struct call *call, uint64_t end_ns)
{
    struct sql_transaction *t = c->transaction;
    if (!t || !t->owner || !is_unknown_in(t, call))
        return;
    if (t->ended.count == TRANSACTION_CALLS) {
        leave_transaction(t);
        return;
    }
    LIST_ADD(a, &t->ended, (struct ended_call){*call, end_ns});
}

static void forget(struct analysis *a, struct connection *c)
{
    free(c->statements);
    c->statements = NULL;
    if (c->transaction)
        array_done(&c->transaction->ended);
    free(c->transaction);
    c->transaction = NULL;
}

static const struct event_reading EVENTS[] = {{SONDE_EVENT_sql_statement, statement_event}, {0}};

const struct protocol protocol_postgresql =
    COMMAND_PROTOCOL(postgresql, POSTGRESQL_SHORTEST, .events = EVENTS, .forget = forget, .settled = settled,
                     .call_ended = call_ended);
const struct protocol protocol_mysql =
    COMMAND_PROTOCOL(mysql, MYSQL_SHORTEST, .settled = settled, .call_ended = call_ended);
