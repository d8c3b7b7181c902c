/* See choice.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/choice.h"

#include <stdio.h>

void choice_say(const char *const *names, size_t count, char *buffer, size_t size)
{
    size_t at = 0;
    buffer[0] = '\0';
    for (size_t i = 0; i < count && at < size; i++)
        at += (size_t)snprintf(buffer + at, size - at, "%s%s",
                               i == 0           ? ""
                               : i + 1 == count ? " or "
                                                : ", ",
                               names[i]);
}
