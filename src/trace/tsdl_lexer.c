/* See tsdl_lexer.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/tsdl_lexer.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

void tsdl_lexer_init(struct tsdl_lexer *lexer, struct arena *arena, const char *text, size_t length)
{
    *lexer =
        (struct tsdl_lexer){.arena = arena, .at = text, .end = text + length, .line_start = text, .line = 1};
}

static void newline(struct tsdl_lexer *l)
{
    l->line++;
    l->line_start = l->at + 1;
}

/* Skips blanks, comments and lines that a C preprocessor left. False: an unfinished comment. */
static bool skip_blanks(struct tsdl_lexer *l)
{
    while (l->at < l->end) {
        char c = *l->at;
        if (c == '\n') {
            newline(l);
            l->at++;
        } else if (isspace((unsigned char)c) || c == '\0') {
            l->at++;
        } else if (c == '#' || (c == '/' && l->end - l->at > 1 && l->at[1] == '/')) {
            while (l->at < l->end && *l->at != '\n')
                l->at++;
        } else if (c == '/' && l->end - l->at > 1 && l->at[1] == '*') {
            for (l->at += 2;; l->at++) {
                if (l->end - l->at < 2)
                    return false;
                if (*l->at == '\n')
                    newline(l);
                if (l->at[0] == '*' && l->at[1] == '/')
                    break;
            }
            l->at += 2;
        } else {
            break;
        }
    }
    return true;
}

static struct tsdl_token bad(struct tsdl_token token, const char *why)
{
    token.kind = TOKEN_BAD;
    token.text = why;
    return token;
}

/* One character behind a backslash; moves at. */
static char unescape(struct tsdl_lexer *l)
{
    static const char FROM[] = "abfnrtv", TO[] = "\a\b\f\n\r\t\v";
    char c = *l->at++;
    const char *simple = c ? strchr(FROM, c) : NULL;
    if (simple)
        return TO[simple - FROM];
    unsigned v = 0;
    if (c == 'x') {
        for (int i = 0; i < 2 && l->at < l->end && text_hex_digit(*l->at) >= 0; i++)
            v = v * 16 + (unsigned)text_hex_digit(*l->at++);
        return (char)v;
    }
    if (c >= '0' && c <= '7') {
        v = (unsigned)(c - '0');
        for (int i = 0; i < 2 && l->at < l->end && *l->at >= '0' && *l->at <= '7'; i++)
            v = v * 8 + (unsigned)(*l->at++ - '0');
        return (char)v;
    }
    return c;
}

static struct tsdl_token lex_string(struct tsdl_lexer *l, struct tsdl_token token)
{
    const char *start = ++l->at;
    const char *p = start;
    while (p < l->end && *p != '"')
        p += *p == '\\' && p + 1 < l->end ? 2 : 1;
    if (p >= l->end)
        return bad(token, "a string that is not closed");
    char *out = arena_alloc(l->arena, (size_t)(p - start) + 1);
    if (!out)
        return bad(token, "a string too long for memory");
    size_t n = 0;
    while (l->at < p) {
        if (*l->at == '\n')
            newline(l);
        if (*l->at == '\\') {
            l->at++;
            out[n++] = unescape(l);
        } else {
            out[n++] = *l->at++;
        }
    }
    out[n] = '\0';
    l->at = p + 1;
    token.kind = TOKEN_STRING;
    token.text = out;
    return token;
}

static struct tsdl_token lex_integer(struct tsdl_lexer *l, struct tsdl_token token)
{
    unsigned base = 10;
    if (*l->at == '0' && l->end - l->at > 1) {
        if (l->at[1] == 'x' || l->at[1] == 'X') {
            base = 16;
            l->at += 2;
        } else if (l->at[1] == 'b' || l->at[1] == 'B') {
            base = 2;
            l->at += 2;
        } else {
            base = 8;
        }
    }
    uint64_t v = 0;
    const char *digits = l->at;
    for (int d; l->at < l->end && (d = text_hex_digit(*l->at)) >= 0 && (unsigned)d < base; l->at++)
        if (__builtin_mul_overflow(v, (uint64_t)base, &v) || __builtin_add_overflow(v, (uint64_t)d, &v))
            return bad(token, "an integer above 64 bits");
    if (l->at == digits)
        return bad(token, "a number without digits");
    while (l->at < l->end && (*l->at == 'u' || *l->at == 'U' || *l->at == 'l' || *l->at == 'L'))
        l->at++;
    if (l->at < l->end && (isalnum((unsigned char)*l->at) || *l->at == '_'))
        return bad(token, "a malformed number");
    token.kind = TOKEN_INTEGER;
    token.integer = v;
    return token;
}

/* 'c' or '\n': its number. */
static struct tsdl_token lex_character(struct tsdl_lexer *l, struct tsdl_token token)
{
    if (l->end - l->at < 3)
        return bad(token, "a character that is not closed");
    char c = *++l->at;
    l->at++;
    if (c == '\\')
        c = unescape(l);
    if (l->at >= l->end || *l->at != '\'')
        return bad(token, "a character that is not closed");
    l->at++;
    token.kind = TOKEN_INTEGER;
    token.integer = (unsigned char)c;
    return token;
}

struct tsdl_token tsdl_lexer_next(struct tsdl_lexer *l)
{
    bool closed = skip_blanks(l);
    struct tsdl_token token = {.line = l->line, .column = (uint32_t)(l->at - l->line_start) + 1};
    if (!closed)
        return bad(token, "a comment that is not closed");
    if (l->at >= l->end)
        return token;
    char c = *l->at;
    if (isalpha((unsigned char)c) || c == '_') {
        const char *start = l->at;
        while (l->at < l->end && (isalnum((unsigned char)*l->at) || *l->at == '_'))
            l->at++;
        token.kind = TOKEN_NAME;
        token.text = arena_strndup(l->arena, start, (size_t)(l->at - start));
        return token.text ? token : bad(token, "a name too long for memory");
    }
    if (isdigit((unsigned char)c))
        return lex_integer(l, token);
    if (c == '"')
        return lex_string(l, token);
    if (c == '\'')
        return lex_character(l, token);
    token.kind = TOKEN_PUNCTUATION;
    if (l->end - l->at > 1 && c == ':' && l->at[1] == '=') {
        token.punctuation = 'A';
        l->at += 2;
    } else if (l->end - l->at > 2 && c == '.' && l->at[1] == '.' && l->at[2] == '.') {
        token.punctuation = 'E';
        l->at += 3;
    } else if (c == '-' && l->end - l->at > 1 && l->at[1] == '>') {
        token.punctuation = '.'; /* a->b is a.b */
        l->at += 2;
    } else if (strchr("{}[]()<>;:,.*-+=", c)) {
        token.punctuation = c;
        l->at++;
    } else {
        return bad(token, "a character that TSDL does not have");
    }
    return token;
}

size_t tsdl_whole(const char *text, size_t length)
{
    struct arena names = {0};
    struct tsdl_lexer lexer;
    size_t whole = 0, depth = 0;
    tsdl_lexer_init(&lexer, &names, text, length);
    for (;;) {
        struct tsdl_token token = tsdl_lexer_next(&lexer);
        if (token.kind == TOKEN_END || token.kind == TOKEN_BAD)
            break;
        if (token.kind != TOKEN_PUNCTUATION)
            continue;
        depth += token.punctuation == '{';
        depth -= token.punctuation == '}' && depth;
        if (token.punctuation == ';' && !depth)
            whole = (size_t)(lexer.at - text);
    }
    arena_done(&names);
    return whole;
}

const char *tsdl_token_show(const struct tsdl_token *token, char *buffer, size_t size)
{
    switch (token->kind) {
    case TOKEN_END:
        return "the end of the file";
    case TOKEN_NAME:
        snprintf(buffer, size, "'%.40s'", token->text);
        break;
    case TOKEN_STRING:
        snprintf(buffer, size, "\"%.40s\"", token->text);
        break;
    case TOKEN_INTEGER:
        snprintf(buffer, size, "%llu", (unsigned long long)token->integer);
        break;
    case TOKEN_PUNCTUATION:
        if (token->punctuation == 'A')
            return "':='";
        if (token->punctuation == 'E')
            return "'...'";
        snprintf(buffer, size, "'%c'", token->punctuation);
        break;
    case TOKEN_BAD:
        return token->text;
    }
    return buffer;
}
