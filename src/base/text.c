/* See text.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool reserve(struct text *text, size_t extra)
{
    if (text->failed)
        return false;
    size_t need = text->length + extra + 1;
    if (need <= text->capacity)
        return true;
    size_t grown = MAX(need, text->capacity * 2);
    grown = MAX(grown, (size_t)64);
    char *moved = realloc(text->at, grown);
    if (!moved) {
        text->failed = true;
        return false;
    }
    text->at = moved;
    text->capacity = grown;
    return true;
}

void text_add_bytes(struct text *text, const char *bytes, size_t length)
{
    if (!reserve(text, length))
        return;
    if (length)
        memcpy(text->at + text->length, bytes, length);
    text->length += length;
    text->at[text->length] = '\0';
}

void text_add(struct text *text, const char *string)
{
    text_add_bytes(text, string, strlen(string));
}

void text_add_visible(struct text *text, const char *bytes, size_t length)
{
    size_t clean = 0; /* start of what needs no escaping */
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)bytes[i], next = i + 1 < length ? (unsigned char)bytes[i + 1] : '\0';
        bool wide = c == 0xc2 && next >= 0x80 && next < 0xa0;
        if (c >= ' ' && c != 0x7f && !wide)
            continue;
        text_add_bytes(text, bytes + clean, i - clean);
        i += wide;
        text_addf(text, "\\x%02x", wide ? next : c);
        clean = i + 1;
    }
    text_add_bytes(text, bytes + clean, length - clean);
}

void text_addf(struct text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n >= 0 && reserve(text, (size_t)n)) {
        vsnprintf(text->at + text->length, (size_t)n + 1, format, again);
        text->length += (size_t)n;
    }
    va_end(again);
}

const char *text_get(const struct text *text)
{
    return text->at ? text->at : "";
}

char *text_take(struct text *text)
{
    char *taken = NULL;
    if (!text->failed && reserve(text, 0)) {
        text->at[text->length] = '\0';
        taken = text->at;
        text->at = NULL;
    }
    text_done(text);
    return taken;
}

void text_clear(struct text *text)
{
    text->length = 0;
    text->failed = false;
    if (text->at)
        text->at[0] = '\0';
}

void text_done(struct text *text)
{
    free(text->at);
    *text = (struct text){0};
}
