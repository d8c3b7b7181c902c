/* Who took memory from malloc() and its family, and who still has it: accounts of allocations that were
 * sampled by bytes (bpf/allocs.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_ALLOCS_H
#define PROFILE_ALLOCS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"
#include "unwind/sampler.h"

struct allocs;

/* profile: whose frames all stacks here are of; it outlives the account, and is not folded before
 * allocs_into_profile(). interval_bytes: as the kernel's half samples. 0 or -ENOMEM. */
int allocs_new(struct profile *profile, uint64_t interval_bytes, struct allocs **ret_allocs);
void allocs_free(struct allocs *allocs);
DEFINE_FREEP(struct allocs, allocs_free)

/* Of e^-x * 2^32, in steps of 1/256 of x: what the kernel's half decides with. */
void allocs_decay(uint32_t ret_decay[SAMPLER_DECAYS]);

/* A stack: groups are process, thread and why it is truncated, the outermost first; frames the innermost
 * first. */
struct alloc_stack {
    const uint32_t *groups, *frames;
    size_t group_count, count;
};

/* Whether the stack is of a collector of garbage, which moves what is alive: that is no allocation. */
bool allocs_collects(const struct profile *profile, const uint32_t *frames, size_t count);

void allocs_made(struct allocs *allocs, const struct sampler_sample *head, const struct sampler_alloc *alloc,
                 const struct alloc_stack *stack);
void allocs_freed(struct allocs *allocs, uint32_t pid, uint64_t address);

/* The process has ended: what it had not freed stays in the account; or it runs another program, and begins
 * with nothing. forget: called with each address that no event will speak of any more. */
void allocs_ended(struct allocs *allocs, uint32_t pid, bool begins,
                  void (*forget)(void *context, uint64_t address), void *context);

/* Estimates; an error is half a 95 % interval. */
struct alloc_amount {
    double bytes, bytes_error;
    double count; /* of the pieces; 0: it is a virtual machine's heap, where they are not counted */
};

/* One place in the program: the innermost function that is no part of the C or C++ library, or, of a virtual
 * machine's heap, of the machine. */
struct alloc_site {
    uint32_t frame; /* 0: not known */
    uint32_t stack; /* the one with the most of it, in allocs_stacks() */
    struct alloc_amount made, alive;
};

/* By what is alive, then by what was made. To be freed; NULL when memory ran out. ret_all: the sum. */
struct alloc_site *allocs_sites(const struct allocs *allocs, struct alloc_site *ret_all, size_t *ret_count);

/* A trie whose frames are those of the profile; nodes carry no weight. */
const struct profile *allocs_stacks(const struct allocs *allocs);

/* Adds the bytes to the profile: those that are alive, or all that were allocated. */
void allocs_into_profile(const struct allocs *allocs, bool alive);

/* How many were sampled, and how many of these it will not be seen of that they are freed. */
uint64_t allocs_sampled(const struct allocs *allocs, uint64_t *ret_not_followed);

#endif
