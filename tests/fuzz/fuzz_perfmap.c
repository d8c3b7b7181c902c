/* perf-PID.map files: any process may write anything there. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/perfmap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct perfmap *map = NULL;
    char *copy = malloc(size + 1);
    size_t length = 0;
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    copy[size] = '\0';
    if (perfmap_parse(copy, size, &map) < 0)
        return 0;
    for (uint64_t at = 0; at < 1 << 16; at = at * 3 + 1) {
        const char *name = perfmap_find(map, at);
        length += name ? strlen(name) : 0;
    }
    if (perfmap_find(map, UINT64_MAX) && !length)
        abort();
    perfmap_free(map);
    return 0;
}
