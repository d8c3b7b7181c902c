/* Whether a process runs one of the runtimes whose state is read from memory: one of the files that it
 * executes holds a mark, a string such as the name of a symbol. For a lender, which parses no file but may
 * search it. A process that lets itself be taken for one gives its own memory away, and nobody else's. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BROKER_MARKS_H
#define BROKER_MARKS_H

#include <stdbool.h>

#include "base/proc.h"

struct marks;

/* marks: ends with NULL, lives as long as the result. 0 or -ENOMEM. */
int marks_new(const char *const *marks, struct marks **ret_marks);
void marks_free(struct marks *marks);

/* Remembered of files, and of a process until it executes another program. */
bool marks_in(struct marks *marks, const struct proc *proc);

#endif
