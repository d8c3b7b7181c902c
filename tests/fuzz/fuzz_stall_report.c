/* Reports of workers, which are assumed to say anything. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collect/stall_worker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was accepted is in order, and is the same when it has been sent on. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stall_report report, again;
    void *bytes;
    size_t length;
    if (stall_report_decode(data, size, &report) < 0)
        return 0;
    if (report.count > STALL_FRAMES_MAX || report.where >= (int)report.count || report.where < -1 ||
        (unsigned)report.cause >= STALL_CAUSES)
        abort();
    if (stall_report_encode(&report, &bytes, &length) < 0)
        return 0;
    if (stall_report_decode(bytes, length, &again) < 0 || again.count != report.count)
        abort();
    free(bytes);
    stall_report_done(&again);
    stall_report_done(&report);
    return 0;
}
