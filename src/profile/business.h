/* Business functions: the application's own code ranked by what it costs, the libraries and runtimes it calls
 * included (Atys, section 4.2: a library function's cost belongs to the application function that called it).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_BUSINESS_H
#define PROFILE_BUSINESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

/* More rules than the built-in ones: substrings of "name file module" that make a frame application or
 * library code; the application's win. Both may be NULL. */
struct business_rules {
    const char *const *application;
    size_t application_count;
    const char *const *library;
    size_t library_count;
};

struct business_function {
    uint32_t frame;
    uint64_t total;   /* weight of stacks whose innermost application frame this is */
    uint64_t own;     /* of it, in the function itself */
    uint32_t library; /* the library function it entered that cost the most; 0 none */
    uint64_t library_weight;
};

/* Is it code of a library, a runtime or the kernel? */
bool business_is_library(const struct profile *profile, const struct business_rules *rules, uint32_t frame);

/* The most expensive first; owned by the caller. NULL when memory ran out. */
struct business_function *business_functions(const struct profile *profile,
                                             const struct business_rules *rules, size_t *ret_count);

#endif
