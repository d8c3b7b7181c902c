/* Source maps: whoever wrote the traced program wrote them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/sourcemap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(struct source_map *map)
{
    for (uint32_t line = 0; line < 64; line++)
        for (uint32_t column = 0; column < 4096; column = column * 2 + 1) {
            struct source_place place;
            if (source_map_find(map, line, column, &place) && !place.line)
                abort();
        }
    source_map_free(map);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct source_map *map = NULL;
    if (source_map_parse((const char *)data, size, "/app", &map) == 0)
        look(map);
    map = NULL;
    if (source_map_of_text((const char *)data, size, "/nowhere/x.js", &map) == 0)
        look(map);
    return 0;
}
