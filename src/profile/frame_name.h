/* What tables of functions compare frames by (idle.c, lock_kinds.c). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_FRAME_NAME_H
#define PROFILE_FRAME_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* How long a function's name is without what symbols append ("@@GLIBC_2.3.2", ".abi0", ".part.0"); names of
 * Java and C++ have dots and colons inside. */
size_t frame_plain_length(const char *name);

/* Whether a file is the C library, or a part of it. */
bool frame_in_c_library(const char *path);

#endif
