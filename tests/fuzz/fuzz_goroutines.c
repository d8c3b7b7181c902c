/* A program in which Go's locks are looked for: whatever it says, places lie within it, at instructions that
 * can be decoded, and no more of them come than there is room for. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/goroutines.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MOST = 12 };
    struct sampler_place places[MOST];
    struct elf *elf;
    size_t count = 0;
    if (elf_open_bytes(data, size, "input", &elf, NULL) < 0)
        return 0;
    int r = goroutines_places(elf, places, MOST, &count);
    if (count > MOST || (r < 0 && count))
        abort();
    for (size_t i = 0; i < count; i++) {
        bool returns = places[i].function == GO_IS_BACK;
        if (places[i].offset >= size || (returns && data[places[i].offset] != 0xc3) ||
            (!returns && places[i].function != GO_WAITS && places[i].function != GO_LETS_GO))
            abort();
    }
    elf_free(elf);
    return 0;
}
