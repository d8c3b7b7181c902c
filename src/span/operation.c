/* See operation.h. Semantic conventions of OpenTelemetry for HTTP, the present ones and those before 1.21. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/operation.h"

#include <ctype.h>

#include "base/macro.h"

#define DIGITS_MANY 4  /* in a row: an id */
#define HEX_LONG    8  /* hexadecimal digits with a decimal one among them: an id */
#define TOKEN_LONG  16 /* letters and digits with DIGITS_MANY digits among them: an id */

static struct slice attribute(const struct span *span, const char *const *keys)
{
    const char *const *first = keys;
    for (; *keys; keys++)
        for (size_t i = 0; i < span->attribute_count; i++)
            if (slice_is(span->attributes[i].key, *keys))
                return span->attributes[i].value;
    /* Where a format knows no resource, tags of spans stand there (Zipkin). */
    for (; !span->attribute_count && span->resource && *first; first++)
        for (size_t i = 0; i < span->resource->attribute_count; i++)
            if (slice_is(span->resource->attributes[i].key, *first))
                return span->resource->attributes[i].value;
    return (struct slice){0};
}

static bool is_uuid(const char *at, size_t length)
{
    if (length < 36)
        return false;
    for (size_t i = 0; i < 36; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? at[i] != '-' : !isxdigit((unsigned char)at[i]))
            return false;
    }
    return length == 36 || !isalnum((unsigned char)at[36]);
}

/* Whether a run of letters and digits is an id as a whole. */
static bool is_id(const char *token, size_t length)
{
    size_t digits = 0, hex = 0;
    for (size_t i = 0; i < length; i++) {
        digits += isdigit((unsigned char)token[i]) != 0;
        hex += isxdigit((unsigned char)token[i]) != 0;
    }
    return digits == length || (hex == length && length >= HEX_LONG && digits > 0) ||
           (length >= TOKEN_LONG && digits >= DIGITS_MANY);
}

static size_t digits_at(const char *at, size_t length)
{
    size_t n = 0;
    while (n < length && isdigit((unsigned char)at[n]))
        n++;
    return n;
}

struct writer {
    char *buffer;
    size_t length;
};

static void put(struct writer *to, const char *at, size_t length)
{
    length = MIN(length, (size_t)OPERATION_BYTES - to->length);
    memcpy(to->buffer + to->length, at, length);
    to->length += length;
}

/* A token that is no id as a whole, with long runs of digits replaced. */
static void put_token(struct writer *to, const char *token, size_t length)
{
    for (size_t i = 0; i < length;) {
        size_t digits = digits_at(token + i, length - i);
        if (digits >= DIGITS_MANY)
            put(to, "{}", 2);
        else
            put(to, token + i, MAX(digits, (size_t)1));
        i += MAX(digits, (size_t)1);
    }
}

struct slice span_name_template(struct slice name, char *buffer)
{
    bool plain = true;
    for (size_t i = 0; i < name.length && plain; i++)
        plain = !isdigit((unsigned char)name.at[i]) && name.at[i] != '?';
    if (plain)
        return name;
    struct writer to = {buffer, 0};
    for (size_t i = 0; i < name.length;) {
        size_t end = i, rest = name.length - i;
        if (name.at[i] == '?' && i && name.at[i - 1] != ' ')
            break; /* a query string */
        if (is_uuid(name.at + i, rest)) {
            put(&to, "{}", 2);
            i += 36;
            continue;
        }
        while (end < name.length && isalnum((unsigned char)name.at[end]))
            end++;
        if (end == i)
            put(&to, &name.at[i++], 1);
        else if (is_id(name.at + i, end - i))
            put(&to, "{}", 2);
        else
            put_token(&to, name.at + i, end - i);
        i = MAX(i, end);
    }
    return (struct slice){buffer, to.length};
}

struct slice span_operation(const struct span *span, char *buffer)
{
    static const char *const route_keys[] = {"http.route", NULL};
    static const char *const method_keys[] = {"http.request.method", "http.method", NULL};
    struct slice route = {0};
    if (span->kind == SPAN_KIND_SERVER || span->kind == SPAN_KIND_UNSPECIFIED)
        route = attribute(span, route_keys);
    if (!route.length || memmem(span->name.at, span->name.length, route.at, route.length))
        return span_name_template(span->name, buffer);
    struct slice method = attribute(span, method_keys);
    struct writer to = {buffer, 0};
    if (!method.length)
        method = span->name; /* most often the method */
    put(&to, method.at, method.length);
    put(&to, " ", 1);
    put(&to, route.at, route.length);
    return (struct slice){buffer, to.length};
}

bool span_failed(const struct span *span)
{
    static const char *const keys[] = {"http.response.status_code", "http.status_code", NULL};
    if (span->error || span->kind != SPAN_KIND_SERVER)
        return span->error;
    struct slice status = attribute(span, keys);
    return status.length == 3 && status.at[0] == '5';
}
