/* Hooks that are installed and never fire though they must: compilers inline functions and clone them, and
 * then the function that has the name is not the one that runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_SILENT_H
#define COLLECT_SILENT_H

#include "collect/program.h"

enum { SILENT_WORDS = 320 };

/* The n-th (from 0) thing that is not seen of a program because its hook stays silent: what, and in why the
 * reason with figures. false when there are no more. */
bool silent_hook(const struct program *program, unsigned n, const char **ret_what,
                 char ret_why[static SILENT_WORDS]);

#endif
