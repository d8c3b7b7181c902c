/* The reader of JavaScript's words, on one- and two-byte text. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "targets/node/unwind_tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int wide = 0; wide < 2; wide++) {
        struct v8_text text = {(void *)(uintptr_t)data, (uint32_t)(size >> wide), wide != 0};
        struct js_tokens tokens;
        if (wide && (uintptr_t)data % 2)
            continue;
        if (js_tokens_read(&text, 0, text.length, &tokens) < 0)
            continue;
        array_foreach (&tokens.list, t)
            if (t->at >= text.length)
                abort();
        array_done(&tokens.list);
    }
    return 0;
}
