/* The parser of TSDL, the metadata language of CTF 1.8, as LTTng, barectf and babeltrace2 write it. Recursive
 * descent over tsdl_lexer.h; blocks become the model of metadata.h, in any order. Types are in tsdl_types.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "trace/tsdl_parser.h"

static int block_clock(struct tsdl_parser *p)
{
    struct clock_class *c = arena_alloc(&p->meta->arena, sizeof(*c));
    if (!c)
        return tsdl_no_memory(p);
    c->frequency = 1000000000;
    c->unix_epoch = true;
    int r = expect(p, '{', "'{'");
    while (r >= 0 && !accept(p, '}')) {
        const char *key;
        struct tsdl_token at;
        struct attribute_value v;
        if ((r = tsdl_parse_assignment(p, &key, &at, &v)) < 0)
            return r;
        if (strcmp(key, "name") == 0)
            r = tsdl_want_text(p, &at, &v, &c->name);
        else if (strcmp(key, "description") == 0)
            r = tsdl_want_text(p, &at, &v, &c->description);
        else if (strcmp(key, "uuid") == 0)
            r = tsdl_parse_uuid(p, &at, &v, c->uuid), c->has_uuid = true;
        else if (strcmp(key, "freq") == 0)
            r = tsdl_want_unsigned(p, &at, &v, 1, UINT64_MAX, &c->frequency);
        else if (strcmp(key, "offset") == 0)
            r = tsdl_want_unsigned(p, &at, &v, 0, UINT64_MAX, &c->offset_cycles);
        else if (strcmp(key, "offset_s") == 0)
            c->offset_s = v.kind == VALUE_INTEGER ? tsdl_value_signed(&v) : 0;
        else if (strcmp(key, "absolute") == 0)
            r = tsdl_want_bool(p, &at, &v, &c->unix_epoch), c->unix_epoch = true;
    }
    if (r < 0)
        return r;
    if (!c->name)
        return tsdl_fail_at(p, &p->token, "expected a name in this clock");
    struct clock_class **end = &p->meta->clocks;
    while (*end)
        end = &(*end)->next;
    *end = c;
    return accept(p, ';'), 0;
}

static int block_env(struct tsdl_parser *p)
{
    int r = expect(p, '{', "'{'");
    struct environment **end = &p->meta->environment;
    while (*end)
        end = &(*end)->next;
    while (r >= 0 && !accept(p, '}')) {
        const char *key;
        struct tsdl_token at;
        struct attribute_value v;
        if ((r = tsdl_parse_assignment(p, &key, &at, &v)) < 0)
            return r;
        struct environment *e = arena_alloc(&p->meta->arena, sizeof(*e));
        if (!e)
            return tsdl_no_memory(p);
        *e = (struct environment){.name = key, .string = v.text, .integer = tsdl_value_signed(&v)};
        *end = e;
        end = &e->next;
    }
    return r < 0 ? r : (accept(p, ';'), 0);
}

/* One scope of a block: KEY := TYPE ; the key is read already. */
static int parse_scope(struct tsdl_parser *p, const struct tsdl_token *at, struct field_class **scope)
{
    struct field_class *c;
    const char *ignored = NULL;
    int r = tsdl_parse_type(p, &c);
    if (r >= 0)
        r = tsdl_parse_declarator(p, c, &ignored, &c);
    if (r < 0)
        return r;
    if (c->kind != KIND_STRUCT)
        return tsdl_fail_at(p, at, "expected a structure here");
    *scope = c;
    return expect(p, ';', "';'");
}

/* What a block's attributes are put into. */
struct block {
    const char *key;
    struct field_class **scope;
};

/* KEY = VALUE; or KEY := TYPE; inside a trace, stream or event block. For the latter *ret_value is untouched
 * and *ret_is_scope true. Declarations are handled too (*ret_key NULL). */
static int parse_entry(struct tsdl_parser *p, const struct block *scopes, size_t scope_count,
                       const char **ret_key, struct tsdl_token *ret_at, struct attribute_value *ret_value)
{
    *ret_key = NULL;
    *ret_at = p->token;
    if (is_name(p, "typealias"))
        return tsdl_parse_typealias(p);
    if (is_name(p, "typedef"))
        return tsdl_parse_typedef(p);
    if (is_name(p, "struct") || is_name(p, "variant") || is_name(p, "enum")) {
        struct field_class *ignored;
        int r = tsdl_parse_type(p, &ignored);
        return r < 0 ? r : expect(p, ';', "';'");
    }
    const char *key;
    int r = tsdl_parse_dotted(p, &key);
    if (r < 0)
        return r;
    if (accept(p, 'A')) {
        for (size_t i = 0; i < scope_count; i++)
            if (strcmp(key, scopes[i].key) == 0)
                return parse_scope(p, ret_at, scopes[i].scope);
        struct field_class *ignored = NULL; /* a scope of other tools */
        return parse_scope(p, ret_at, &ignored);
    }
    if ((r = expect(p, '=', "'=' or ':='")) < 0 || (r = tsdl_parse_value(p, ret_value)) < 0 ||
        (r = expect(p, ';', "';'")) < 0)
        return r;
    *ret_key = key;
    return 0;
}

static int block_trace(struct tsdl_parser *p)
{
    struct metadata *m = p->meta;
    const struct block scopes[] = {{"packet.header", &m->packet_header}};
    uint64_t major = 1;
    uint8_t order = ORDER_NATIVE;
    size_t visible = p->types.count;
    int r = expect(p, '{', "'{'");
    while (r >= 0 && !accept(p, '}')) {
        const char *key;
        struct tsdl_token at;
        struct attribute_value v;
        if ((r = parse_entry(p, scopes, ARRAY_SIZE(scopes), &key, &at, &v)) < 0)
            return r;
        if (!key)
            continue;
        if (strcmp(key, "major") == 0) {
            r = tsdl_want_unsigned(p, &at, &v, 1, 1, &major);
        } else if (strcmp(key, "byte_order") == 0) {
            if ((r = tsdl_want_order(p, &at, &v, &order)) >= 0 && order == ORDER_NATIVE)
                r = tsdl_fail_at(p, &at, "expected le or be as the trace's byte order");
            m->order = order;
        } else if (strcmp(key, "uuid") == 0) {
            r = tsdl_parse_uuid(p, &at, &v, m->uuid);
            m->has_uuid = true;
        }
    }
    p->types.count = visible;
    return r < 0 ? r : (accept(p, ';'), 0);
}

static int block_stream(struct tsdl_parser *p)
{
    struct stream_meta *s = arena_alloc(&p->meta->arena, sizeof(*s));
    if (!s)
        return tsdl_no_memory(p);
    const struct block scopes[] = {{"packet.context", &s->packet_context},
                                   {"event.header", &s->event_header},
                                   {"event.context", &s->event_context}};
    size_t visible = p->types.count;
    struct tsdl_token start = p->token;
    int r = expect(p, '{', "'{'");
    while (r >= 0 && !accept(p, '}')) {
        const char *key;
        struct tsdl_token at;
        struct attribute_value v;
        if ((r = parse_entry(p, scopes, ARRAY_SIZE(scopes), &key, &at, &v)) < 0)
            return r;
        if (key && strcmp(key, "id") == 0) {
            r = tsdl_want_unsigned(p, &at, &v, 0, UINT64_MAX, &s->id);
            s->has_id = true;
        }
    }
    if (r < 0)
        return r;
    p->types.count = visible;
    struct stream_meta **end = &p->meta->streams;
    for (; *end; end = &(*end)->next)
        if ((*end)->id == s->id)
            return tsdl_fail_at(p, &start, "a second stream with id %" PRIu64, s->id);
    *end = s;
    return accept(p, ';'), 0;
}

static int block_event(struct tsdl_parser *p, struct event_meta ***end)
{
    struct event_meta *e = arena_alloc(&p->meta->arena, sizeof(*e));
    if (!e)
        return tsdl_no_memory(p);
    e->log_level = -1;
    const struct block scopes[] = {{"context", &e->context}, {"fields", &e->payload}};
    size_t visible = p->types.count;
    struct tsdl_token start = p->token;
    int r = expect(p, '{', "'{'");
    while (r >= 0 && !accept(p, '}')) {
        const char *key;
        struct tsdl_token at;
        struct attribute_value v;
        if ((r = parse_entry(p, scopes, ARRAY_SIZE(scopes), &key, &at, &v)) < 0)
            return r;
        if (!key)
            continue;
        if (strcmp(key, "name") == 0) {
            r = tsdl_want_text(p, &at, &v, &e->name);
        } else if (strcmp(key, "id") == 0) {
            r = tsdl_want_unsigned(p, &at, &v, 0, UINT64_MAX, &e->id);
            e->has_id = true;
        } else if (strcmp(key, "stream_id") == 0) {
            r = tsdl_want_unsigned(p, &at, &v, 0, UINT64_MAX, &e->stream_id);
            e->has_stream_id = true;
        } else if (strcmp(key, "loglevel") == 0 && v.kind == VALUE_INTEGER && v.magnitude < 256) {
            e->log_level = (int)v.magnitude;
        }
    }
    if (r < 0)
        return r;
    p->types.count = visible;
    if (!e->name)
        e->name = "";
    (void)start;
    **end = e;
    *end = &e->next;
    return accept(p, ';'), 0;
}

/* Blocks of other tools, such as callsite. */
static int skip_block(struct tsdl_parser *p)
{
    int depth = 0;
    do {
        if (p->token.kind == TOKEN_END || p->token.kind == TOKEN_BAD)
            return tsdl_expected(p, "'}'");
        depth += is(p, '{') ? 1 : is(p, '}') ? -1 : 0;
        next(p);
    } while (depth > 0);
    return accept(p, ';'), 0;
}

static int parse_top(struct tsdl_parser *p, struct event_meta ***events_end)
{
    if (is_name(p, "typealias"))
        return tsdl_parse_typealias(p);
    if (is_name(p, "typedef"))
        return tsdl_parse_typedef(p);
    static const char *const BLOCKS[] = {"trace", "stream", "event", "clock", "env", "callsite"};
    for (size_t i = 0; i < ARRAY_SIZE(BLOCKS); i++) {
        if (!is_name(p, BLOCKS[i]))
            continue;
        next(p);
        switch (i) {
        case 0:
            return block_trace(p);
        case 1:
            return block_stream(p);
        case 2:
            return block_event(p, events_end);
        case 3:
            return block_clock(p);
        case 4:
            return block_env(p);
        default:
            return skip_block(p);
        }
    }
    if (is_name(p, "struct") || is_name(p, "variant") || is_name(p, "enum")) {
        struct field_class *ignored;
        int r = tsdl_parse_type(p, &ignored);
        return r < 0 ? r : expect(p, ';', "';'");
    }
    return accept(p, ';') ? 0
                          : tsdl_expected(p, "trace, stream, event, clock, env, or a declaration of a type");
}

int tsdl_parse(struct metadata *metadata, const char *text, size_t length, struct problem *problem)
{
    struct tsdl_parser p = {.meta = metadata, .problem = problem};
    if (metadata->cut_bytes)
        length = tsdl_whole(text, length);
    tsdl_lexer_init(&p.lexer, &metadata->arena, text, length);
    struct event_meta **events_end = &metadata->events;
    int r = 0;
    next(&p);
    while (r >= 0 && p.token.kind != TOKEN_END)
        r = parse_top(&p, &events_end);
    array_done(&p.types);
    return r < 0 ? r : 0;
}
