/* See names.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "history/names.h"

#include <string.h>

#include "history/bits.h"

int body_reserve(struct body *body, size_t more)
{
    return array_grow_((void **)&body->at, &body->capacity, 1, body->count + more);
}

static int add_bytes(struct body *body, const char *bytes)
{
    size_t length = strlen(bytes);
    if (body_reserve(body, length + VARINT_MAX) < 0)
        return -ENOMEM;
    uint8_t *p = varint_put(body->at + body->count, length);
    memcpy(p, bytes, length);
    body->count = (size_t)(p + length - body->at);
    return 0;
}

int names_write(const struct history *history, size_t from_attribute, size_t from_string, struct body *body)
{
    int r = 0;
    for (size_t i = from_attribute; r == 0 && i < history->attributes.all.count; i++) {
        const struct attribute *a = &history->attributes.all.at[i];
        r = body_reserve(body, VARINT_MAX);
        if (r == 0) {
            uint32_t parent = a->parent + 1; /* 0 for the root */
            body->count = (size_t)(varint_put(body->at + body->count, parent) - body->at);
            r = add_bytes(body, a->name);
        }
    }
    for (size_t i = from_string; r == 0 && i < history->strings.strings.count; i++)
        r = add_bytes(body, history->strings.strings.at[i]);
    return r;
}

static int read_name(struct history *history, bool attribute, const uint8_t **p, const uint8_t *end)
{
    uint64_t parent = 0, length = 0;
    if (attribute)
        *p = varint_get(*p, end, &parent);
    if (*p)
        *p = varint_get(*p, end, &length);
    if (!*p || length > (uint64_t)(end - *p) || parent > UINT32_MAX || memchr(*p, '\0', length))
        return -EBADMSG;
    const char *name = (const char *)*p;
    *p += length;
    uint32_t number;
    size_t expected = attribute ? history->attributes.all.count : history->strings.strings.count;
    int r = attribute ? attributes_add(&history->attributes, (uint32_t)parent - 1, name, length, &number)
                      : dictionary_add(&history->strings, name, length, &number);
    if (r == -ENOMEM)
        return r;
    return r < 0 || number != expected ? -EBADMSG : 0;
}

int names_read(struct history *history, const uint8_t *p, const uint8_t *end, uint32_t attributes,
               uint32_t strings, const uint8_t **ret_bad)
{
    for (uint64_t i = 0; i < (uint64_t)attributes + strings; i++) {
        *ret_bad = p;
        int r = read_name(history, i < attributes, &p, end);
        if (r < 0)
            return r;
    }
    return 0;
}
