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

/* Bytes of the UTF-8 sequence at s, or 0 when it is none. */
static size_t utf8_length(const unsigned char *s, size_t room)
{
    static const uint32_t LEAST[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = s[0] < 0x80                   ? 1
               : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
               : (s[0] & 0xf0) == 0xe0       ? 3
               : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                             : 0;
    if (n < 2)
        return n;
    uint32_t c = s[0] & (0x7fu >> n);
    if (n > room)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    return c < LEAST[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

bool text_is_utf8(const char *bytes, size_t length)
{
    const unsigned char *s = (const unsigned char *)bytes;
    for (size_t i = 0, n; i < length; i += n)
        if ((n = utf8_length(s + i, length - i)) == 0)
            return false;
    return true;
}

void text_add_utf8(struct text *text, const char *string, size_t length)
{
    const unsigned char *s = (const unsigned char *)string;
    size_t clean = 0;
    for (size_t i = 0; i < length;) {
        size_t n = utf8_length(s + i, length - i);
        if (n == 0) {
            text_add_bytes(text, string + clean, i - clean);
            text_add(text, "\xef\xbf\xbd");
            clean = i + 1;
        }
        i += n ? n : 1;
    }
    text_add_bytes(text, string + clean, length - clean);
}

void text_add_json(struct text *text, const char *string, size_t length)
{
    const unsigned char *s = (const unsigned char *)string;
    size_t clean = 0; /* start of what needs no escaping */
    text_add_bytes(text, "\"", 1);
    for (size_t i = 0; i < length;) {
        size_t n = utf8_length(s + i, length - i);
        if (n > 1 || (n == 1 && s[i] >= ' ' && s[i] != '"' && s[i] != '\\')) {
            i += n;
            continue;
        }
        text_add_bytes(text, string + clean, i - clean);
        if (n == 0)
            text_add(text, "\\ufffd");
        else if (s[i] == '"' || s[i] == '\\')
            text_addf(text, "\\%c", s[i]);
        else
            text_addf(text, "\\u%04x", s[i]);
        clean = ++i;
    }
    text_add_bytes(text, string + clean, length - clean);
    text_add_bytes(text, "\"", 1);
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

const char *text_of_bytes(uint64_t bytes, char to[static TEXT_OF_BYTES])
{
    static const char *const UNITS[] = {"B", "KB", "MB", "GB", "TB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1000 && unit + 1 < ARRAY_SIZE(UNITS)) {
        value /= 1000;
        unit++;
    }
    snprintf(to, TEXT_OF_BYTES, unit && value < 10 ? "%.1f %s" : "%.0f %s", value, UNITS[unit]);
    return to;
}

int text_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool text_decode_percent(char *string)
{
    for (const char *at = string; (at = strchr(at, '%')); at += 3) {
        int high = text_hex_digit(at[1]), low = high < 0 ? -1 : text_hex_digit(at[2]);
        if (low < 0 || high * 16 + low == 0)
            return false;
    }
    char *to = string;
    for (const char *from = string; *from;) {
        bool encoded = *from == '%';
        *to++ = encoded ? (char)(text_hex_digit(from[1]) * 16 + text_hex_digit(from[2])) : *from;
        from += encoded ? 3 : 1;
    }
    *to = '\0';
    return true;
}
