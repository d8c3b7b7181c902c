/* What the two halves of the TSDL parser share: tsdl_types.c (types and values) and tsdl.c (blocks). Private
 * to them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_TSDL_PARSER_H
#define TRACE_TSDL_PARSER_H

#include <stdbool.h>
#include <string.h>

#include "base/array.h"
#include "trace/metadata.h"
#include "trace/tsdl_lexer.h"

enum type_space { SPACE_ALIAS, SPACE_STRUCT, SPACE_ENUM, SPACE_VARIANT };

/* A name for a type, visible until the block that declared it ends. */
struct type_name {
    enum type_space space;
    const char *name;
    struct field_class *class;
};

struct tsdl_parser {
    struct metadata *meta;
    struct tsdl_lexer lexer;
    struct tsdl_token token; /* the one to look at */
    struct problem *problem;
    ARRAY(struct type_name) types;
    int depth;
};

/* What an attribute may have as its value. */
struct attribute_value {
    enum { VALUE_NAME, VALUE_STRING, VALUE_INTEGER } kind;
    const char *text; /* name (dotted) or string */
    uint64_t magnitude;
    bool negative;
};

/* Errors at a token, at the current token, and of memory (or of its cap). */
int tsdl_fail_at(struct tsdl_parser *p, const struct tsdl_token *token, const char *format, ...)
    _printf_(3, 4);
int tsdl_expected(struct tsdl_parser *p, const char *what);
int tsdl_no_memory(struct tsdl_parser *p);
int tsdl_parse_dotted(struct tsdl_parser *p, const char **ret_text);
int tsdl_parse_value(struct tsdl_parser *p, struct attribute_value *ret_value);
int tsdl_parse_assignment(struct tsdl_parser *p, const char **ret_key, struct tsdl_token *ret_at,
                          struct attribute_value *ret_value);
int tsdl_want_unsigned(struct tsdl_parser *p, const struct tsdl_token *at, const struct attribute_value *v,
                       uint64_t low, uint64_t high, uint64_t *ret_value);
int tsdl_want_text(struct tsdl_parser *p, const struct tsdl_token *at, const struct attribute_value *v,
                   const char **ret_text);
int tsdl_want_bool(struct tsdl_parser *p, const struct tsdl_token *at, const struct attribute_value *v,
                   bool *ret_value);
int tsdl_want_order(struct tsdl_parser *p, const struct tsdl_token *at, const struct attribute_value *v,
                    uint8_t *ret_order);
int tsdl_parse_uuid(struct tsdl_parser *p, const struct tsdl_token *at, const struct attribute_value *v,
                    uint8_t ret_uuid[16]);
int tsdl_parse_type(struct tsdl_parser *p, struct field_class **ret_class);
int tsdl_parse_declarator(struct tsdl_parser *p, struct field_class *class, const char **ret_name,
                          struct field_class **ret_class);
int tsdl_parse_typealias(struct tsdl_parser *p);
int tsdl_parse_typedef(struct tsdl_parser *p);
int64_t tsdl_value_signed(const struct attribute_value *v);

/* ---- the current token ---- */

static inline void next(struct tsdl_parser *p)
{
    p->token = tsdl_lexer_next(&p->lexer);
}

static inline bool is(const struct tsdl_parser *p, char punctuation)
{
    return p->token.kind == TOKEN_PUNCTUATION && p->token.punctuation == punctuation;
}

static inline bool is_name(const struct tsdl_parser *p, const char *name)
{
    return p->token.kind == TOKEN_NAME && strcmp(p->token.text, name) == 0;
}

static inline bool accept(struct tsdl_parser *p, char punctuation)
{
    if (!is(p, punctuation))
        return false;
    next(p);
    return true;
}

static inline int expect(struct tsdl_parser *p, char punctuation, const char *shown)
{
    return accept(p, punctuation) ? 0 : tsdl_expected(p, shown);
}

#endif
