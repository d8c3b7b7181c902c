/* Names in a row, for sentences. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CHOICE_H
#define BASE_CHOICE_H

#include <stddef.h>

/* "A", "A or B", "A, B or C"; "" where there are none, and cut off where the buffer ends. */
void choice_say(const char *const *names, size_t count, char *buffer, size_t size);

#endif
