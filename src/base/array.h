/* A growable array of any type.
 *
 *     ARRAY(struct span) spans = {0};
 *     if (array_add(&spans, span) < 0)
 *         return -ENOMEM;
 *     array_foreach(&spans, s) print(s);
 *     array_done(&spans);
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <errno.h>
#include <stdlib.h>

#define ARRAY(type)      \
    struct {             \
        type *at;        \
        size_t count;    \
        size_t capacity; \
    }

/* Room for n elements in all; 0 or -ENOMEM, which leaves the array as it was. */
#define array_reserve(array, n) \
    array_grow_((void **)&(array)->at, &(array)->capacity, sizeof(*(array)->at), (n))

/* Appends a copy of value; 0 or -ENOMEM. */
#define array_add(array, ...)                                                            \
    ((array)->count < (array)->capacity || array_reserve(array, (array)->count + 1) == 0 \
         ? ((array)->at[(array)->count++] = (__VA_ARGS__), 0)                            \
         : -ENOMEM)

#define array_foreach(array, it) \
    for (__typeof__((array)->at + 0) it = (array)->at; it < (array)->at + (array)->count; it++)

#define array_clear(array) ((void)((array)->count = 0))

#define array_done(array)                       \
    do {                                        \
        free((array)->at);                      \
        (array)->at = NULL;                     \
        (array)->count = (array)->capacity = 0; \
    } while (0)

static inline int array_grow_(void **at, size_t *capacity, size_t element, size_t need)
{
    if (need <= *capacity)
        return 0;
    size_t grown = *capacity ? *capacity + *capacity / 2 : 8;
    if (grown < need)
        grown = need;
    if (grown > (size_t)-1 / element)
        return -ENOMEM;
    void *moved = realloc(*at, grown * element);
    if (!moved)
        return -ENOMEM;
    *at = moved;
    *capacity = grown;
    return 0;
}

#endif
