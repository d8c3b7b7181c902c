/* See clock.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

#include "base/macro.h"

static uint64_t now(clockid_t clock)
{
    struct timespec t = {0};
    (void)clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

uint64_t clock_monotonic_ns(void)
{
    return now(CLOCK_MONOTONIC);
}

uint64_t clock_realtime_ns(void)
{
    return now(CLOCK_REALTIME);
}

uint64_t clock_process_cpu_ns(void)
{
    return now(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t clock_thread_cpu_ns(void)
{
    return now(CLOCK_THREAD_CPUTIME_ID);
}

const char *clock_format_duration(uint64_t duration_ns, char *buffer, size_t size)
{
    static const struct {
        double ns;
        const char *name;
    } UNITS[] = {{1, "ns"}, {1e3, "us"}, {1e6, "ms"}, {1e9, "s"}};

    if (duration_ns >= 60 * NS_PER_S) {
        uint64_t s = (duration_ns + NS_PER_S / 2) / NS_PER_S;
        if (s < 3600)
            snprintf(buffer, size, "%llu min %llu s", (unsigned long long)(s / 60),
                     (unsigned long long)(s % 60));
        else
            snprintf(buffer, size, "%llu h %llu min", (unsigned long long)(s / 3600),
                     (unsigned long long)(s % 3600 / 60));
        return buffer;
    }
    size_t unit = 0;
    /* 999.5 would print as "1e+03" or "1000": go to the next unit there. */
    while (unit + 1 < ARRAY_SIZE(UNITS) && (double)duration_ns >= UNITS[unit].ns * 999.5)
        unit++;
    double value = (double)duration_ns / UNITS[unit].ns;
    int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(buffer, size, "%.*f %s", decimals, value, UNITS[unit].name);
    return buffer;
}
