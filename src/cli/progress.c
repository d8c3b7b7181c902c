/* See progress.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

#define SHOW_EVERY_NS (200 * NS_PER_MS)

const char *progress_bytes(uint64_t bytes, char *buffer, unsigned size)
{
    static const char *const UNITS[] = {"B", "kB", "MB", "GB", "TB"};
    double v = (double)bytes;
    unsigned unit = 0;
    for (; v >= 1000 && unit < 4; unit++)
        v /= 1000;
    snprintf(buffer, size, unit ? "%.1f %s" : "%.0f %s", v, UNITS[unit]);
    return buffer;
}

void progress_show(struct progress *progress, uint64_t done_bytes, uint64_t total_bytes)
{
    uint64_t now = clock_monotonic_ns();
    char done[24], total[24], left[24] = "?";
    if (!progress->start_ns)
        progress->start_ns = progress->shown_ns = now;
    if (now - progress->shown_ns < SHOW_EVERY_NS || !isatty(2))
        return;
    progress->shown_ns = now;
    progress->visible = true;
    if (done_bytes && done_bytes <= total_bytes)
        clock_format_duration((uint64_t)((double)(now - progress->start_ns) *
                                         (double)(total_bytes - done_bytes) / (double)done_bytes),
                              left, sizeof(left));
    fprintf(stderr, "\r\033[K%s of %s, %s left", progress_bytes(done_bytes, done, sizeof(done)),
            progress_bytes(total_bytes, total, sizeof(total)), left);
    fflush(stderr);
}

void progress_clear(struct progress *progress)
{
    if (progress->visible)
        fputs("\r\033[K", stderr);
    progress->visible = false;
}
