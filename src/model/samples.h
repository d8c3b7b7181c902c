/* The samples of a profile that was taken beside the recording: which functions ran in a span. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_SAMPLES_H
#define MODEL_SAMPLES_H

#include "base/array.h"
#include "profile/profile.h"

struct ran_function {
    const char *name; /* as long as the profile */
    uint64_t count;   /* samples in which it was the innermost function; of a caller: in which it was one */
    uint64_t weight;  /* CPU time that they stand for, ns */
    unsigned depth;   /* of a caller: how many frames deep it was first seen */
    size_t last;      /* (while they are counted) */
};

typedef ARRAY(struct ran_function) ran_functions;

struct ran {
    ran_functions functions; /* that ran themselves, the largest weight first */
    ran_functions callers;   /* that called them: from the innermost one that all samples share inwards, the
                                largest weight first, callers before those they call */
    uint64_t count, weight;  /* all samples */
};

/* What a thread ran in [start_ns, end_ns). Nothing (count 0) when samples is NULL, when nothing was sampled
 * in this time, or without memory. Release with ran_done(). samples are sorted by thread and time. */
void ran_find(const struct profile *samples, int64_t pid, int64_t tid, uint64_t start_ns, uint64_t end_ns,
              struct ran *ret_ran);
void ran_done(struct ran *ran);

#endif
