/* See jread.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/jread.h"

#include <errno.h>

void jread_init(struct jread *json, const char *text, size_t length, struct arena *scratch, struct problem *p)
{
    *json = (struct jread){.begin = text, .at = text, .end = text + length, .scratch = scratch, .problem = p};
}

struct jread jread_at(const struct jread *json, const char *place)
{
    struct jread other = *json;
    other.at = place;
    return other;
}

int jread_fail(struct jread *json, const char *what)
{
    if (json->error < 0)
        return json->error;
    json->error = -EBADMSG;
    if (!json->problem) /* lines are not counted for nobody */
        return json->error;
    size_t line = 1;
    for (const char *c = json->begin; c < json->at; c++)
        line += *c == '\n';
    return problem_set(json->problem, -EBADMSG, "JSON, line %zu (byte %zu): %s", line,
                       (size_t)(json->at - json->begin), what);
}

static void skip_space(struct jread *json)
{
    while (json->at < json->end && (unsigned char)*json->at <= ' ')
        json->at++;
}

char jread_peek(struct jread *json)
{
    if (json->error < 0)
        return 0;
    skip_space(json);
    if (json->at >= json->end) {
        jread_fail(json, "the text ends within a value");
        return 0;
    }
    return *json->at;
}

static void enter(struct jread *json, char bracket, const char *what)
{
    if (jread_peek(json) != bracket) {
        jread_fail(json, what);
        return;
    }
    if (json->depth >= JSON_DEPTH_MAX) {
        jread_fail(json, "nested too deeply");
        return;
    }
    json->at++;
    json->depth++;
    json->started &= ~(1ull << json->depth);
}

void jread_object(struct jread *json)
{
    enter(json, '{', "an object is expected");
}

void jread_array(struct jread *json)
{
    enter(json, '[', "an array is expected");
}

/* Past the comma before the next member or element, or past the closing bracket. */
static bool step(struct jread *json, char closing)
{
    char c = jread_peek(json);
    if (!c)
        return false;
    uint64_t bit = 1ull << json->depth;
    if (c == closing) {
        json->at++;
        json->depth--;
        return false;
    }
    if (json->started & bit) {
        if (c != ',') {
            jread_fail(json, "a comma or the end of the object or array is expected");
            return false;
        }
        const char *comma = json->at++;
        c = jread_peek(json);
        if (c == closing) {
            json->at = comma;
            jread_fail(json, "a comma before the end of the object or array; remove it");
        }
    }
    json->started |= bit;
    return json->error == 0;
}

static void colon(struct jread *json)
{
    if (jread_peek(json) == ':')
        json->at++;
    else
        jread_fail(json, "a colon is expected");
}

bool jread_member(struct jread *json, struct slice *ret_key)
{
    if (!step(json, '}'))
        return false;
    if (jread_peek(json) != '"') {
        jread_fail(json, "a member's name is expected");
        return false;
    }
    *ret_key = jread_string(json);
    colon(json);
    return json->error == 0;
}

bool jread_element(struct jread *json)
{
    return step(json, ']');
}

static int hex4(const char *at)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'                     ? c - '0'
                    : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                             : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static size_t put_utf8(char *to, unsigned code)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xc0 | code >> 6);
        to[1] = (char)(0x80 | (code & 63));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (char)(0xe0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 63));
        to[2] = (char)(0x80 | (code & 63));
        return 3;
    }
    to[0] = (char)(0xf0 | code >> 18);
    to[1] = (char)(0x80 | (code >> 12 & 63));
    to[2] = (char)(0x80 | (code >> 6 & 63));
    to[3] = (char)(0x80 | (code & 63));
    return 4;
}

/* A \uXXXX at `at` (after the u), a pair of surrogates joined; advances. -1 when it is malformed. */
static int unescape_unicode(const char **at, const char *end)
{
    if (end - *at < 4)
        return -1;
    int code = hex4(*at);
    *at += 4;
    if (code < 0xd800 || code > 0xdfff)
        return code;
    if (code < 0xdc00 && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u') {
        int low = hex4(*at + 2);
        if (low >= 0xdc00 && low <= 0xdfff) {
            *at += 6;
            return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    return 0xfffd;
}

/* The text between the quotes [from, to), which has escapes. */
static struct slice unescape(struct jread *json, const char *from, const char *to)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char *copy = arena_alloc(json->scratch, (size_t)(to - from) + 1);
    if (!copy) {
        json->error = -ENOMEM;
        return (struct slice){0};
    }
    size_t n = 0;
    while (from < to) {
        char c = *from++;
        if (c != '\\') {
            copy[n++] = c;
            continue;
        }
        c = *from++;
        if (c == 'u') {
            int code = unescape_unicode(&from, to);
            if (code < 0) {
                jread_fail(json, "a \\u escape without four hexadecimal digits");
                return (struct slice){0};
            }
            n += put_utf8(copy + n, (unsigned)code);
            continue;
        }
        const char *name = c ? strchr(names, c) : NULL;
        if (!name) {
            jread_fail(json, "an unknown escape in a string");
            return (struct slice){0};
        }
        copy[n++] = values[name - names];
    }
    return (struct slice){copy, n};
}

static struct slice quoted(struct jread *json)
{
    const char *from = ++json->at, *at = from;
    bool escapes = false;
    for (;;) {
        while (at < json->end && *at != '"' && *at != '\\')
            at++;
        if (at >= json->end || (*at == '\\' && at + 1 >= json->end)) {
            jread_fail(json, "a string without its end");
            return (struct slice){0};
        }
        if (*at == '"')
            break;
        escapes = true;
        at += 2;
    }
    json->at = at + 1;
    return escapes ? unescape(json, from, at) : (struct slice){from, (size_t)(at - from)};
}

static bool of_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '+' || c == '.';
}

/* A number, true, false or null. */
static struct slice word(struct jread *json)
{
    const char *from = json->at;
    while (json->at < json->end && of_word(*json->at))
        json->at++;
    struct slice text = {from, (size_t)(json->at - from)};
    bool number = text.length && ((from[0] >= '0' && from[0] <= '9') || (from[0] == '-' && text.length > 1));
    if (!number && !slice_is(text, "true") && !slice_is(text, "false") && !slice_is(text, "null")) {
        json->at = from;
        jread_fail(json, "a value is expected");
    }
    return text;
}

struct slice jread_string(struct jread *json)
{
    char c = jread_peek(json);
    if (c == '"')
        return quoted(json);
    if (c == '{' || c == '[')
        return jread_raw(json);
    if (!c)
        return (struct slice){0};
    struct slice text = word(json);
    return slice_is(text, "null") ? (struct slice){0} : text;
}

uint64_t jread_u64(struct jread *json)
{
    struct slice text = jread_string(json);
    uint64_t value = 0;
    size_t i = 0;
    for (; i < text.length && text.at[i] >= '0' && text.at[i] <= '9'; i++) {
        unsigned digit = (unsigned)(text.at[i] - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            jread_fail(json, "a number above 64 bits");
            return 0;
        }
        value = value * 10 + digit;
    }
    if (i < text.length && text.at[i] != '.') {
        jread_fail(json, "a whole number is expected");
        return 0;
    }
    return value;
}

bool jread_boolean(struct jread *json)
{
    struct slice text = jread_string(json);
    return slice_is(text, "true") || slice_is(text, "1");
}

/* Past a string, whatever its escapes. */
static void skip_string(struct jread *json)
{
    const char *at = json->at + 1;
    while (at < json->end && *at != '"')
        at += *at == '\\' ? 2 : 1;
    if (at >= json->end)
        jread_fail(json, "a string without its end");
    else
        json->at = at + 1;
}

/* Past a member's name and its colon. */
static void skip_name(struct jread *json)
{
    if (jread_peek(json) != '"') {
        jread_fail(json, "a member's name is expected");
        return;
    }
    skip_string(json);
    colon(json);
}

void jread_skip(struct jread *json)
{
    const unsigned base = json->depth;
    uint64_t objects = 0; /* by depth: an object, not an array */
    do {
        bool object = objects >> json->depth & 1;
        if (json->depth > base && !step(json, object ? '}' : ']'))
            continue;
        if (json->depth > base && object)
            skip_name(json);
        char c = jread_peek(json);
        if (c == '{' || c == '[') {
            enter(json, c, "");
            objects &= ~(1ull << json->depth);
            objects |= (uint64_t)(c == '{') << json->depth;
        } else if (c == '"') {
            skip_string(json);
        } else if (c) {
            word(json);
        }
    } while (json->error == 0 && json->depth > base);
}

struct slice jread_raw(struct jread *json)
{
    if (!jread_peek(json))
        return (struct slice){0};
    const char *from = json->at;
    jread_skip(json);
    return json->error < 0 ? (struct slice){0} : (struct slice){from, (size_t)(json->at - from)};
}

int jread_check(const char *text, size_t length, struct problem *problem)
{
    struct jread json;
    jread_init(&json, text, length, NULL, problem);
    do {
        jread_skip(&json);
        skip_space(&json);
    } while (json.error == 0 && json.at < json.end);
    return json.error;
}
