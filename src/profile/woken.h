/* The waits of a profile by who ended them, from stacks that have their wakers behind them (wakers.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_WOKEN_H
#define PROFILE_WOKEN_H

#include <stddef.h>
#include <stdint.h>

#include "profile/business.h"
#include "profile/profile.h"

enum { WOKEN_LINKS = 4 }; /* wake-ups behind one wait, at most */

/* A wake-up: who, as the frame says it, and the application's function that did so; 0: not known. */
struct woken_link {
    uint32_t by, place;
};

/* Waits of one process in one function of the application that ended in the same way. */
struct woken_wait {
    uint32_t process, place; /* frames; 0: not known */
    size_t link_count;       /* at least 1 */
    struct woken_link links[WOKEN_LINKS];
    uint64_t waited_ns, count;
    uint32_t node; /* the stack that took most of it, with its wakers' behind it */
    uint64_t most_ns;
};

/* The longest first, as far as it is known who ended them. Owned by the caller; NULL when memory ran out. */
struct woken_wait *woken_waits(const struct profile *profile, const struct business_rules *rules,
                               size_t *ret_count);

#endif
