/* Tokens of TSDL, the metadata language of CTF 1.8. Private to tsdl.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_TSDL_LEXER_H
#define TRACE_TSDL_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/problem.h"

enum tsdl_token_kind {
    TOKEN_END,
    TOKEN_NAME,    /* identifier or keyword */
    TOKEN_STRING,  /* text without the quotes, escapes resolved */
    TOKEN_INTEGER, /* magnitude in .integer */
    TOKEN_PUNCTUATION,
    TOKEN_BAD, /* text says why */
};

struct tsdl_token {
    enum tsdl_token_kind kind;
    const char *text; /* name or string, NUL-terminated, in the arena */
    uint64_t integer;
    char punctuation; /* one of {}[]()<>;:,.*-+=; 'A' for ":=", 'E' for "..." */
    uint32_t line, column;
};

struct tsdl_lexer {
    struct arena *arena;
    const char *at, *end, *line_start;
    uint32_t line;
};

void tsdl_lexer_init(struct tsdl_lexer *lexer, struct arena *arena, const char *text, size_t length);

/* The next token. After TOKEN_END and TOKEN_BAD the same is returned again and again. */
struct tsdl_token tsdl_lexer_next(struct tsdl_lexer *lexer);

/* How much of a text that is cut off somewhere consists of whole declarations and blocks: up to the last ';'
 * outside of braces. */
size_t tsdl_whole(const char *text, size_t length);

/* The token as a message shows it; buffer is at least 64 bytes. */
const char *tsdl_token_show(const struct tsdl_token *token, char *buffer, size_t size);

#endif
