/* What went wrong, in words, beside the negative errno that a function returns: the place, the fault and the
 * remedy. Libraries fill a problem in; commands print it. Every pointer to one may be NULL. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PROBLEM_H
#define BASE_PROBLEM_H

#include "base/macro.h"

struct problem {
    char what[512];   /* "trace/metadata:12:3: expected ';' before 'string'" */
    char remedy[256]; /* what the user can do next; may be empty */
};

/* Sets problem->what and returns error (a negative errno), so that callers write
 * `return problem_set(p, -EINVAL, "%s: ...", path)`. problem may be NULL. The remedy is cleared. */
int problem_set(struct problem *problem, int error, const char *format, ...) _printf_(3, 4);

/* Adds a remedy to a problem that is already set. problem may be NULL. */
void problem_remedy(struct problem *problem, const char *format, ...) _printf_(2, 3);

#endif
