/* Who makes requests that take a while (bpf/io.h): to disks, or for connections. Accounts of how many
 * there were, how large, how long they took and what came of them, by stack. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_IO_H
#define PROFILE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/business.h"
#include "profile/profile.h"
#include "unwind/sampler.h"

enum io_kind { IO_NONE, IO_BLOCK, IO_CONNECT };

struct io;

/* profile: whose frames all stacks here are of; it outlives the account, and is not folded before
 * io_into_profile(). 0 or -ENOMEM. */
int io_new(struct profile *profile, enum io_kind kind, struct io **ret_io);
void io_free(struct io *io);
DEFINE_FREEP(struct io, io_free)

/* A stack: groups are process, thread and why it is truncated, the outermost first; frames the innermost
 * first. */
struct io_stack {
    const uint32_t *groups, *frames;
    size_t group_count, count;
    bool has_program; /* false: of the kernel's own threads, who make it for others */
};

void io_began(struct io *io, uint64_t id, const struct io_stack *stack);
/* One whose beginning was not seen is left out. */
void io_ended(struct io *io, const struct sampler_request *request);
/* One that goes on when sampling ends: took_ns is how long it has until then. */
void io_unfinished(struct io *io, const struct sampler_request *request);

struct io_amount {
    uint64_t count, bytes;
    uint64_t total_ns, longest_ns;
    uint64_t most_ns; /* what 99 % of them took at most, to an eighth */
    uint64_t failed;
    uint64_t unfinished; /* are not among failed */
};

/* What the requests of a place were: "write" to which disk, or to which peer and with which end. */
struct io_part {
    const char *what;  /* "write", "read", ...; "established", "refused", ... */
    const char *where; /* "vda"; "127.0.0.1:5432" */
    struct io_amount amount;
};

/* One place in the program: its innermost function that is no library's (business.h). Of the kernel's
 * threads: why they do it. */
struct io_site {
    uint32_t frame; /* 0: not known */
    uint32_t stack; /* the one with the most time, in io_stacks() */
    bool by_kernel;
    struct io_amount amount;
    struct io_part *parts; /* by time */
    size_t part_count;
};

struct io_sites {
    struct io_site *at; /* by time */
    size_t count;
    struct io_amount all, by_kernel; /* the latter is a part of the former */
};

/* 0 or -ENOMEM. */
int io_sites(const struct io *io, const struct business_rules *rules, struct io_sites *ret_sites);
void io_sites_done(struct io_sites *sites);

enum io_kind io_kind_of(const struct io *io);

/* A trie whose frames are those of the profile; nodes carry no weight. */
const struct profile *io_stacks(const struct io *io);

/* What a weight of the profile is. */
enum io_weight { IO_COUNT, IO_BYTES, IO_TIME };

/* Adds them to the profile, and keeps each as a sample as far as the profile keeps samples. */
void io_into_profile(const struct io *io, enum io_weight weight);

/* What came of one, in a word or some: "established", "refused"; of a disk: "failed" or "". */
const char *io_outcome(enum io_kind kind, int result);

#endif
