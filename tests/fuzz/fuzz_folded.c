/* Folded stacks, and perf map files. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "profile/formats.h"
#include "symbol/perfmap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct profile *p = NULL;
    struct perfmap *map = NULL;
    struct text text = {0};
    if (profile_new(&p) == 0 && folded_read(p, (const char *)data, size, NULL) == 0)
        folded_write(p, &text);
    text_clear(&text);
    if (p)
        page_write(p, p, "t", &text);
    text_done(&text);
    profile_free(p);
    char *copy = malloc(size + 1);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    copy[size] = '\0';
    if (perfmap_parse(copy, size, &map) == 0)
        perfmap_find(map, 0x1000);
    perfmap_free(map);
    return 0;
}
