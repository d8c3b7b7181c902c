/* Time: the clock that everything is on, and times for people to read. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull

/* Nanoseconds of CLOCK_MONOTONIC, and of the wall clock (CLOCK_REALTIME). */
uint64_t clock_monotonic_ns(void);
uint64_t clock_realtime_ns(void);

/* CPU time, user and system, that this process (all of its threads), or this thread, has taken. */
uint64_t clock_process_cpu_ns(void);
uint64_t clock_thread_cpu_ns(void);

/* A duration with three significant digits and its unit: "412 ns", "1.23 ms", "2.5 s", "3 min 12 s".
 * Written to buffer (at least 24 bytes) and returned. */
const char *clock_format_duration(uint64_t duration_ns, char *buffer, size_t size);

#endif
