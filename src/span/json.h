/* Reading JSON where it lies: a pull parser over one buffer, for span files that are mostly skipped over.
 * Depth is limited, strings without escapes are slices of the input, errors are sticky and name the byte.
 *
 *     for (json_object(&j); json_member(&j, &key);)
 *         if (slice_is(key, "name"))
 *             name = json_string(&j);
 *         else
 *             json_skip(&j);
 *     if (j.error < 0) ...
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_JSON_H
#define SPAN_JSON_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/problem.h"
#include "span/span.h"

#define JSON_DEPTH_MAX 60

struct json {
    const char *begin, *at, *end;
    uint64_t started; /* bit per depth: a first member or element was read */
    unsigned depth;
    int error;             /* 0 or a negative errno; all calls do nothing once it is set */
    struct arena *scratch; /* for strings with escapes */
    struct problem *problem;
};

void json_init(struct json *json, const char *text, size_t length, struct arena *scratch, struct problem *p);

/* A parser at another place of the same text, for members that are needed in another order. */
struct json json_at(const struct json *json, const char *place);

/* The first character of the next value: one of { [ " t f n - 0..9, or 0 at the end and after an error. */
char json_peek(struct json *json);

/* Enter an object or array, then step through it; false at its end and after an error. */
void json_object(struct json *json);
bool json_member(struct json *json, struct slice *ret_key);
void json_array(struct json *json);
bool json_element(struct json *json);

/* The next value. Strings and numbers may stand for each other, as OTLP and Zipkin mix them. */
struct slice json_string(struct json *json); /* also the text of a number, of true, false; empty for null */
uint64_t json_u64(struct json *json);
bool json_boolean(struct json *json);
void json_skip(struct json *json);

/* The next value skipped over; its text. */
struct slice json_raw(struct json *json);

int json_fail(struct json *json, const char *what);

#endif
