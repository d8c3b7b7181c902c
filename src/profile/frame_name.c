/* See frame_name.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/frame_name.h"

#include <string.h>

#include "base/macro.h"

size_t frame_plain_length(const char *name)
{
    static const char *const ENDS[] = {"@", ".abi0", ".part.", ".constprop.", ".isra.", ".cold"};
    size_t length = strlen(name);
    for (size_t i = 0; i < ARRAY_SIZE(ENDS); i++) {
        const char *end = strstr(name, ENDS[i]);
        if (end && end > name)
            length = MIN(length, (size_t)(end - name));
    }
    return length;
}

bool frame_in_c_library(const char *path)
{
    const char *slash = strrchr(path, '/'), *module = slash ? slash + 1 : path;
    return strncmp(module, "libc.", 5) == 0 || strncmp(module, "libc-", 5) == 0 ||
           strncmp(module, "libpthread", 10) == 0 || strncmp(module, "ld-musl", 7) == 0;
}
