/* The few macros everybody may use. Nothing else belongs here. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_MACRO_H
#define BASE_MACRO_H

#include <stddef.h>
#include <stdlib.h>

#define _cleanup_(f)     __attribute__((cleanup(f)))
#define _printf_(fmt, a) __attribute__((format(printf, fmt, a)))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)     ((a) < (b) ? (a) : (b))
#define MAX(a, b)     ((a) > (b) ? (a) : (b))

#define CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* _cleanup_(freep) char *name = NULL; */
static inline void freep(void *p)
{
    free(*(void **)p);
}

/* Defines x_freep() for _cleanup_ from x_free(). */
#define DEFINE_FREEP(type, free_fn)         \
    static inline void free_fn##p(type **p) \
    {                                       \
        free_fn(*p);                        \
    }

#endif
