/* Business functions: the application's own code ranked by what it costs, the libraries and runtimes it calls
 * included (Atys, section 4.2: a library function's cost belongs to the application function that called it).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_BUSINESS_H
#define PROFILE_BUSINESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/problem.h"
#include "profile/profile.h"

/* A rule of the user's: frames whose name, file or module holds text. */
struct business_rule {
    int kind; /* only frames of this enum profile_frame_kind; -1: of all */
    bool application;
    const char *text;
};

/* They come before the built-in ones; where several fit, the last one says what a frame is. */
struct business_rules {
    struct arena texts;
    ARRAY(struct business_rule) list;
};

/* Adds rules from text, one a line: "[LANGUAGE] application|library TEXT"; LANGUAGE is java, python,
 * javascript, native or jit; '#' begins a comment. -EINVAL with the line that is none. */
int business_rules_read(struct business_rules *rules, const char *text, struct problem *problem);
void business_rules_done(struct business_rules *rules);

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

/* Has the profile know for each of its nodes which application function it is of, for pprof's labels. What is
 * added later has none. 0 or -ENOMEM. */
int business_label(struct profile *profile, const struct business_rules *rules);

#endif
