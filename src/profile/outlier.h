/* Instances and threads that cost more than their equals: processes of one name, threads of one pool. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_OUTLIER_H
#define PROFILE_OUTLIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

struct profile_outlier {
    uint32_t node;    /* of the process ("NAME (PID)") or thread ("thread NAME (TID)") */
    uint32_t process; /* node of its process; its own when it is one */
    bool is_thread;
    size_t equals;           /* how many it is compared with, itself not counted */
    uint64_t weight, median; /* its own, and that of its equals */
    uint32_t frame;          /* the function that makes most of the difference; 0 none */
    uint64_t frame_weight;   /* of it here */
    uint64_t frame_mean;     /* and on average among its equals */
};

/* The largest excess first; owned by the caller. NULL when memory ran out. Needs groups (by_process,
 * by_thread) in the profile; with fewer than three equals nobody is an outlier. */
struct profile_outlier *profile_outliers(const struct profile *profile, size_t *ret_count);

/* The parts of a group's name: "NAME (NUMBER)", "thread NAME (NUMBER)". The number is 0 when there is none.
 */
uint64_t profile_group_parts(const char *text, char *ret_name, size_t size);

/* Whether the node is a process ("NAME (NUMBER)", the outermost) or a thread of one ("thread NAME (NUMBER)",
 * below it), by its form: text does not say what is a group. */
bool profile_is_instance(const struct profile *profile, uint32_t node);

/* A copy in which processes of one name are one, and their threads of one name: two runs of a service, or all
 * its instances, have other numbers each. Also of text that does not say what is a group, by its form.
 * Samples that were kept one by one are not copied. */
int profile_by_service(const struct profile *profile, struct profile **ret_profile);

#endif
