/* What the kernel says of a process's control groups, whose names a container chooses: the group that has its
 * CPU quota, and the counts of a quota. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collect/quota.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *text_of(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct quota_counts counts = {0};
    char path[QUOTA_PATH_BYTES];
    bool version_1 = false;
    char *text = text_of(data, size);
    (void)quota_parse_stat(text, &counts);
    /* It is appended to the control groups' directory, and must not lead out of it. */
    if (quota_parse_group(text, text + size, path, &version_1) && (path[0] != '/' || strstr(path, "/../")))
        abort();
    free(text);
    return 0;
}
