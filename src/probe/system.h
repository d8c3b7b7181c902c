/* System calls without libc, and the few memory functions the compiler wants. errno is never touched. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_SYSTEM_H
#define PROBE_SYSTEM_H

#include <stddef.h>
#include <stdint.h>

/* Returns the result or a negative errno. */
static inline long system_call(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

#define SYSTEM_CALL_6_(n, a, b, c, d, e, f, ...) \
    system_call(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define SYSTEM_CALL(n, ...) SYSTEM_CALL_6_(n, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)

static inline uint64_t ticks(void)
{
    uint64_t low, high; /* the upper halves of both registers are cleared */
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return high << 32 | low;
}

/* For bytes whose number is only known at run time; short, so a string instruction beats a library. */
static inline void copy_bytes(void *to, const void *from, size_t n)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

#define compiler_barrier() __asm__ volatile("" ::: "memory")

#endif
