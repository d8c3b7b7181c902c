/* A string that grows: prose, tables, metadata. Errors are sticky, so that callers check once at the end. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"

/* Zero-initialise to use; text_done() when finished. */
struct text {
    char *at; /* NUL-terminated once anything was added; NULL before */
    size_t length;
    size_t capacity;
    bool failed; /* memory ran out; later additions do nothing */
};

void text_add(struct text *text, const char *string);
void text_add_bytes(struct text *text, const char *bytes, size_t length);
void text_addf(struct text *text, const char *format, ...) _printf_(2, 3);

/* Appends what a terminal would obey (control characters, those of U+0080 to U+009F too) as \x1b. */
void text_add_visible(struct text *text, const char *bytes, size_t length);

bool text_is_utf8(const char *bytes, size_t length);

/* Appends text with U+FFFD in place of bytes that are not UTF-8. */
void text_add_utf8(struct text *text, const char *bytes, size_t length);

/* The same as a JSON string with its quotes. */
void text_add_json(struct text *text, const char *bytes, size_t length);

/* The string (never NULL: "" when empty), borrowed until the next addition. */
const char *text_get(const struct text *text);

/* The string, owned by the caller who frees it, or NULL when memory ran out. The text is empty afterwards. */
char *text_take(struct text *text);

enum { TEXT_OF_BYTES = 24 };

/* "1.2 MB", "317 B": writes to to, and returns it. */
const char *text_of_bytes(uint64_t bytes, char to[static TEXT_OF_BYTES]);

/* The value of a hexadecimal digit of either case, or -1. */
int text_hex_digit(char c);

/* Decodes the "%5B" of a URL in place. Where a "%" has no two hexadecimal digits behind it, or stands for a
 * NUL, the string stays as it was: false. */
bool text_decode_percent(char *string);

void text_clear(struct text *text);
void text_done(struct text *text);

#endif
