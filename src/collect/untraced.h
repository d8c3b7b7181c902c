/* Programs that came to sonde and are not traced, and why: what the manifest says of them. Of a reason that
 * many share the first are listed by name, and the others counted. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_UNTRACED_H
#define COLLECT_UNTRACED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/array.h"

struct untraced_reason {
    char *why;
    uint64_t count;
};

enum { UNTRACED_NAMED = 20, UNTRACED_REASONS = 200 };

/* Zero-initialise to use. */
struct untraced {
    ARRAY(char *) lines;
    ARRAY(struct untraced_reason) reasons;
    uint64_t count; /* of programs */
};

/* Takes note of one; how many there are of its reason, or -ENOMEM: it is counted all the same. */
int untraced_add(struct untraced *untraced, const char *name, pid_t pid, const char *why);

/* Strings, for the manifest. NULL: no memory. */
json_t *untraced_array(const struct untraced *untraced);

void untraced_done(struct untraced *untraced);

#endif
