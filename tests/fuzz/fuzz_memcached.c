/* What passes a connection of a Memcached server: however the bytes are cut, the same is understood, and no
 * byte beyond a piece is read. The input: which pieces, how much of it are commands, commands and answers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "targets/memcached/probe_text.h"

static void take(struct cache_connection *c,
                 void (*follow)(struct cache_connection *, const char *, uint64_t), const uint8_t *bytes,
                 size_t size, size_t most)
{
    for (size_t at = 0; at < size; at += most) {
        size_t here = size - at < most ? size - at : most;
        char *copy = malloc(here); /* of its size, so that a byte beyond it is noticed */
        if (!copy)
            abort();
        memcpy(copy, bytes + at, here);
        follow(c, copy, here);
        free(copy);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t most = 1 + data[0] % 32, commands = (size - 2) * data[1] / 255;
    static struct cache_connection whole, cut;
    whole = cut = (struct cache_connection){0};
    take(&whole, commands_read, data + 2, commands, SIZE_MAX / 2);
    take(&cut, commands_read, data + 2, commands, most);
    take(&whole, answers_written, data + 2 + commands, size - 2 - commands, SIZE_MAX / 2);
    take(&cut, answers_written, data + 2 + commands, size - 2 - commands, most);
    uint64_t bytes = whole.unread_bytes + (whole.lost ? 0 : whole.command.bytes);
    if (whole.run_count != cut.run_count || whole.unread_bytes != cut.unread_bytes)
        abort();
    for (int i = 0; i < whole.run_count; i++) {
        const struct run *run = &whole.runs[i];
        if (memcmp(run, &cut.runs[i], sizeof(*run)) != 0 || run->answered > run->commands)
            abort();
        bytes += run->bytes;
    }
    if (bytes != commands)
        abort();
    return 0;
}
