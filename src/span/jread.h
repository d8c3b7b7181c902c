/* Reading JSON where it lies: a pull parser over one buffer, for span files that are mostly skipped over.
 * Depth is limited, strings without escapes are slices of the input, errors are sticky and name line and
 * byte.
 *
 *     for (jread_object(&j); jread_member(&j, &key);)
 *         if (slice_is(key, "name"))
 *             name = jread_string(&j);
 *         else
 *             jread_skip(&j);
 *     if (j.error < 0) ...
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_JREAD_H
#define SPAN_JREAD_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/problem.h"
#include "span/span.h"

#define JSON_DEPTH_MAX 60

struct jread {
    const char *begin, *at, *end;
    uint64_t started; /* bit per depth: a first member or element was read */
    unsigned depth;
    int error;             /* 0 or a negative errno; all calls do nothing once it is set */
    struct arena *scratch; /* for strings with escapes */
    struct problem *problem;
};

void jread_init(struct jread *json, const char *text, size_t length, struct arena *scratch,
                struct problem *p);

/* A parser at another place of the same text, for members that are needed in another order. */
struct jread jread_at(const struct jread *json, const char *place);

/* The first character of the next value: one of { [ " t f n - 0..9, or 0 at the end and after an error. */
char jread_peek(struct jread *json);

/* Enter an object or array, then step through it; false at its end and after an error. */
void jread_object(struct jread *json);
bool jread_member(struct jread *json, struct slice *ret_key);
void jread_array(struct jread *json);
bool jread_element(struct jread *json);

/* The next value. Strings and numbers may stand for each other, as OTLP and Zipkin mix them. */
struct slice jread_string(struct jread *json); /* also the text of a number, of true, false; empty for null */
uint64_t jread_u64(struct jread *json);
bool jread_boolean(struct jread *json);
void jread_skip(struct jread *json);

/* The next value skipped over; its text. */
struct slice jread_raw(struct jread *json);

int jread_fail(struct jread *json, const char *what);

/* Reads one document after another to the end and keeps nothing: 0, or -EBADMSG and where the text is no
 * JSON, and why not. */
int jread_check(const char *text, size_t length, struct problem *problem);

#endif
