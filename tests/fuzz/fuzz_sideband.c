/* The kernel's announcements about processes: records with their lengths, in any order of time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "profile/sideband.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Mappings do not overlap, whatever was announced. Takes the notes. */
static void check(pid_t pid, struct mapping_note *notes, size_t count)
{
    struct modules modules;
    int r = modules_from_notes(pid, notes, count, false, &modules);
    free(notes);
    if (r == 0) {
        for (size_t i = 1; i < modules.mappings.count; i++)
            if (modules.mappings.at[i - 1].end > modules.mappings.at[i].start)
                abort();
        modules_done(&modules);
    }
}

static void changed(void *context, pid_t pid, uint64_t time_ns)
{
    struct mapping_note *notes;
    size_t count;
    if (sideband_notes(context, pid, &notes, &count) == 0)
        check(pid, notes, count);
    if (sideband_notes_ahead(context, pid, &notes, &count) == 0)
        check(pid, notes, count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sideband *s = NULL;
    struct sideband_process process;
    if (sideband_new(&s) < 0)
        return 0;
    for (uint16_t length; size >= 8; data += length, size -= length) {
        memcpy(&length, data + 6, sizeof(length));
        length = length < 8 ? 8 : length;
        if (length > size)
            length = (uint16_t)size;
        sideband_take(s, data, length);
        if (data[5] & 1)
            sideband_apply(s, data[4], changed, s);
    }
    sideband_apply(s, UINT64_MAX, changed, s);
    for (pid_t pid = 0; pid < 64; pid++)
        sideband_find(s, pid, &process);
    sideband_free(s);
    return 0;
}
