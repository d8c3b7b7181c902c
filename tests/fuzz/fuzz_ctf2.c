/* CTF 2 metadata: parse, resolve, compile. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>

#include "trace/metadata.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct problem problem;
    struct metadata *m = NULL;
    if (size == 0 || (data[0] != '{' && data[0] != 0x1e))
        return 0;
    metadata_parse("metadata", (const char *)data, size, &problem, &m);
    metadata_free(m);
    return 0;
}
