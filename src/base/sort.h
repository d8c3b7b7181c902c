/* Sorting many small items by a number: some hundred thousand symbols or rows, before anything else can go
 * on. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_SORT_H
#define BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

/* Sorts count items of size bytes by key(), the smallest first; items of one key keep their order. Digit by
 * digit: linear in count, where qsort() compares each item twenty times. 0, or -ENOMEM (items are as before)
 * or -E2BIG (more than 2^32). */
int sort_by_key(void *items, size_t count, size_t size, uint64_t (*key)(const void *item));

#endif
