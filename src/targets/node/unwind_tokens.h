/* The words of one JavaScript function in the order of its source: what bytecodes can be matched with. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_UNWIND_TOKENS_H
#define TARGETS_NODE_UNWIND_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "targets/node/unwind_heap.h"

enum js_token_kind { JS_NAME, JS_STRING, JS_NUMBER, JS_REGEXP, JS_LOOP, JS_NEW };

struct js_token {
    enum js_token_kind kind;
    uint32_t at;  /* unit offset in the text */
    uint64_t key; /* js_key() of a name, a string's or pattern's content; a small integer's value */
    bool calls;   /* a name, no property, with an opening parenthesis behind it */
};

struct js_tokens {
    ARRAY(struct js_token) list;
};

/* Reads the function in [start, end) of the text. The bodies of functions inside it are left out: their
 * bytecodes are elsewhere. This is a reader of tokens, not a parser: it never fails, at worst it misses
 * words. */
int js_tokens_read(const struct v8_text *text, uint32_t start, uint32_t end, struct js_tokens *ret_tokens);

/* The same key for the same characters, however they are stored. */
uint64_t js_key(const struct v8_text *text, uint32_t start, uint32_t length);

#endif
