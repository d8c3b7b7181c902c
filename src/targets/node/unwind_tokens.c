/* Reads the words of a JavaScript function. The one hard part of JavaScript's lexical grammar, whether '/'
 * divides or begins a regular expression, is decided by the word before it; which braces are bodies of inner
 * functions, by what stands before them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/unwind_tokens.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum { DEPTH_MAX = 512 };

/* What an open bracket is. */
enum bracket {
    PLAIN,       /* ( [ { */
    CONTROL,     /* ( of if, for, while, switch, catch, with */
    OWN_PARAMS,  /* ( of the function's own parameters */
    INNER_BODY,  /* { of an inner function */
    TEMPLATE,    /* ${ in a template literal */
    INNER_ARROW, /* no bracket: the expression after => */
    DO_BODY,     /* { after do */
};

struct reader {
    const struct v8_text *text;
    uint32_t at, end;
    struct js_tokens *out;
    int error;
    uint8_t brackets[DEPTH_MAX];
    int depth;
    int inner;         /* how many of the brackets are INNER_BODY or INNER_ARROW */
    uint32_t previous; /* last significant character, 'a' for a name, '0' for a number or string */
    bool keyword;      /* the last name is a keyword that an expression follows */
    bool control;      /* the last name is if, for, ... / the last ')' closed CONTROL */
    bool own;          /* the function's own head is still being read */
    bool after_own;    /* its parameters were just closed */
    bool after_do;
    bool callable;      /* the last name may be a function's that is called */
    bool not_called;    /* nor the name behind it: "function", "new" */
    int trailing_while; /* a do body was closed: the next while ends it */
};

static uint32_t unit(const struct reader *r, uint32_t at)
{
    return at < r->end ? v8_unit(r->text, at) : 0;
}

static bool is_name_start(uint32_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '$' || c == '_' || c == '#' ||
           (c > 127 && c != 0xa0 && c != 0xfeff && c != 0x2028 && c != 0x2029);
}

static bool is_digit(uint32_t c)
{
    return c >= '0' && c <= '9';
}

uint64_t js_key(const struct v8_text *text, uint32_t start, uint32_t length)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    for (uint32_t i = 0; i < length; i++)
        hash = (hash ^ v8_unit(text, start + i)) * 0x100000001b3ull;
    return hash ^ hash >> 29;
}

static void emit(struct reader *r, enum js_token_kind kind, uint32_t at, uint64_t key)
{
    struct js_token token = {.kind = kind, .at = at, .key = key};
    if (r->inner == 0 && array_add(&r->out->list, token) < 0)
        r->error = -ENOMEM;
}

static bool word_is(const struct reader *r, uint32_t at, uint32_t length, const char *word)
{
    if (strlen(word) != length)
        return false;
    for (uint32_t i = 0; i < length; i++)
        if (unit(r, at + i) != (unsigned char)word[i])
            return false;
    return true;
}

static bool word_in(const struct reader *r, uint32_t at, uint32_t length, const char *const *words)
{
    for (; *words; words++)
        if (word_is(r, at, length, *words))
            return true;
    return false;
}

static void open_bracket(struct reader *r, enum bracket kind)
{
    if (r->depth == DEPTH_MAX) {
        r->error = -E2BIG;
        return;
    }
    r->brackets[r->depth++] = (uint8_t)kind;
    r->inner += kind == INNER_BODY || kind == INNER_ARROW;
}

static enum bracket close_bracket(struct reader *r)
{
    if (r->depth == 0)
        return PLAIN;
    enum bracket kind = r->brackets[--r->depth];
    r->inner -= kind == INNER_BODY || kind == INNER_ARROW;
    return kind;
}

/* Expressions after => end where the bracket around them closes or a comma or semicolon follows. */
static void end_arrows(struct reader *r)
{
    while (r->depth && r->brackets[r->depth - 1] == INNER_ARROW)
        close_bracket(r);
}

static void skip_comment(struct reader *r)
{
    bool line = unit(r, r->at + 1) == '/';
    r->at += 2;
    while (r->at < r->end) {
        if (line ? unit(r, r->at) == '\n' : unit(r, r->at) == '*' && unit(r, r->at + 1) == '/')
            break;
        r->at++;
    }
    if (!line)
        r->at += 2;
}

static void read_string(struct reader *r, uint32_t quote)
{
    uint32_t start = r->at++;
    bool escaped = false;
    while (r->at < r->end && unit(r, r->at) != quote && unit(r, r->at) != '\n') {
        if (unit(r, r->at) == '\\') {
            escaped = true;
            r->at++;
        }
        r->at++;
    }
    if (!escaped && r->at <= r->end)
        emit(r, JS_STRING, start, js_key(r->text, start + 1, r->at - start - 1));
    r->at++;
    r->previous = '0';
}

/* From after the ` or } up to the closing ` or the next ${. */
static void read_template(struct reader *r)
{
    while (r->at < r->end) {
        uint32_t c = unit(r, r->at++);
        if (c == '\\') {
            r->at++;
        } else if (c == '`') {
            r->previous = '0';
            return;
        } else if (c == '$' && unit(r, r->at) == '{') {
            r->at++;
            open_bracket(r, TEMPLATE);
            r->previous = '{';
            return;
        }
    }
}

static void read_regexp(struct reader *r)
{
    uint32_t start = r->at++;
    bool in_class = false;
    while (r->at < r->end && unit(r, r->at) != '\n') {
        uint32_t c = unit(r, r->at);
        if (c == '\\')
            r->at++;
        else if (c == '[')
            in_class = true;
        else if (c == ']')
            in_class = false;
        else if (c == '/' && !in_class)
            break;
        r->at++;
    }
    if (r->at < r->end)
        emit(r, JS_REGEXP, start, js_key(r->text, start + 1, r->at - start - 1));
    r->at++;
    while (is_name_start(unit(r, r->at)))
        r->at++;
    r->previous = '0';
}

static void read_number(struct reader *r)
{
    uint32_t start = r->at;
    uint64_t value = 0;
    bool integer = true;
    while (is_digit(unit(r, r->at)) || is_name_start(unit(r, r->at)) || unit(r, r->at) == '.') {
        uint32_t c = unit(r, r->at++);
        integer = integer && is_digit(c);
        value = value * 10 + (c - '0');
    }
    if (!integer && unit(r, start) == '0' && (unit(r, start + 1) | 32) == 'x') {
        value = 0;
        integer = r->at - start <= 10;
        for (uint32_t i = start + 2; i < r->at; i++) {
            uint32_t c = unit(r, i) | 32;
            value = value * 16 + (is_digit(c) ? c - '0' : c - 'a' + 10);
        }
    }
    if (integer && value <= INT32_MAX)
        emit(r, JS_NUMBER, start, value);
    r->previous = '0';
}

static void read_word(struct reader *r)
{
    static const char *const before_expression[] = {"return", "typeof", "case",  "in",         "of",
                                                    "delete", "void",   "throw", "new",        "else",
                                                    "do",     "yield",  "await", "instanceof", NULL};
    static const char *const control[] = {"if", "for", "while", "switch", "catch", "with", NULL};
    uint32_t start = r->at;
    while (is_name_start(unit(r, r->at)) || is_digit(unit(r, r->at)))
        r->at++;
    uint32_t length = r->at - start;
    bool property = r->previous == '.';
    r->keyword = !property && word_in(r, start, length, before_expression);
    bool awaiting = r->control && word_is(r, start, length, "await"); /* for await ( */
    r->control = !property && (awaiting || word_in(r, start, length, control));
    bool is_while = !property && word_is(r, start, length, "while");
    if (is_while && r->trailing_while > 0 && r->previous == '}')
        r->trailing_while--;
    else if (is_while || (!property && (word_is(r, start, length, "for") || word_is(r, start, length, "do"))))
        emit(r, JS_LOOP, start, 0);
    else if (!property && word_is(r, start, length, "new"))
        emit(r, JS_NEW, start, 0);
    else
        emit(r, JS_NAME, start, js_key(r->text, start, length));
    r->after_do = !property && word_is(r, start, length, "do");
    r->callable = !property && !r->keyword && !r->control && !r->not_called;
    r->not_called = !property && (word_is(r, start, length, "function") || word_is(r, start, length, "new"));
    r->previous = 'a';
}

static void read_open(struct reader *r, uint32_t c)
{
    enum bracket kind = PLAIN;
    if (c == '(' && r->own && r->previous == 0) {
        kind = OWN_PARAMS;
    } else if (c == '(' && r->previous == 'a' && r->control) {
        kind = CONTROL;
    } else if (c == '{' && (r->previous == ')' || r->previous == '>')) {
        if (r->after_own)
            r->own = r->after_own = false;
        else if (r->previous == '>' || !r->control)
            kind = INNER_BODY;
    } else if (c == '{' && r->after_do) {
        kind = DO_BODY;
    }
    if (c == '(' && r->previous == 'a' && r->callable && r->inner == 0 && r->out->list.count)
        r->out->list.at[r->out->list.count - 1].calls = true;
    open_bracket(r, kind);
    r->after_do = r->control = r->not_called = false;
    r->previous = c;
}

static void read_close(struct reader *r, uint32_t c)
{
    end_arrows(r);
    enum bracket kind = close_bracket(r);
    r->control = kind == CONTROL;
    r->after_own = kind == OWN_PARAMS;
    r->trailing_while += kind == DO_BODY;
    r->previous = c;
    if (kind == TEMPLATE)
        read_template(r);
}

static void read_arrow(struct reader *r)
{
    r->at += 2;
    r->previous = '>';
    if (r->own && r->depth == 0) { /* the function itself is an arrow function */
        r->after_own = true;
        uint32_t next = r->at;
        while (next < r->end && unit(r, next) <= ' ')
            next++;
        if (unit(r, next) != '{')
            r->own = r->after_own = false;
        return;
    }
    uint32_t next = r->at;
    while (next < r->end && unit(r, next) <= ' ')
        next++;
    if (unit(r, next) != '{')
        open_bracket(r, INNER_ARROW);
    r->after_own = false;
}

static void read_one(struct reader *r)
{
    uint32_t c = unit(r, r->at), next = unit(r, r->at + 1);
    if (c <= ' ' || c == 0xa0 || c == 0xfeff || c == 0x2028 || c == 0x2029) {
        r->at++;
    } else if (c == '/' && (next == '/' || next == '*')) {
        skip_comment(r);
    } else if (c == '"' || c == '\'') {
        read_string(r, c);
    } else if (c == '`') {
        r->at++;
        read_template(r);
    } else if (is_digit(c) || (c == '.' && is_digit(next))) {
        read_number(r);
    } else if (is_name_start(c)) {
        read_word(r);
    } else if (c == '/' && !((r->previous == 'a' && !r->keyword) || r->previous == '0' ||
                             r->previous == ']' || (r->previous == ')' && !r->control))) {
        read_regexp(r);
    } else if (c == '(' || c == '[' || c == '{') {
        r->at++;
        read_open(r, c);
    } else if (c == ')' || c == ']' || c == '}') {
        r->at++;
        read_close(r, c);
    } else if (c == '=' && next == '>') {
        read_arrow(r);
    } else {
        if (c == ',' || c == ';')
            end_arrows(r);
        r->at++;
        r->previous = c;
        r->after_do = false;
    }
}

int js_tokens_read(const struct v8_text *text, uint32_t start, uint32_t end, struct js_tokens *ret_tokens)
{
    struct js_tokens tokens = {0};
    struct reader r = {.text = text, .at = start, .end = MIN(end, text->length), .out = &tokens, .own = true};
    while (r.at < r.end && !r.error) {
        uint32_t before = r.at;
        read_one(&r);
        if (r.own && before == start && r.previous != '(' && r.previous != 'a')
            r.own = false; /* a script: no head */
    }
    if (r.error == -ENOMEM) {
        array_done(&tokens.list);
        return r.error;
    }
    *ret_tokens = tokens;
    return 0;
}
