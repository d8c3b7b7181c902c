/* A profile: stacks with their weights, merged into a trie from the outermost caller down. Merging is
 * addition, at any number of levels and in any order. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/macro.h"
#include "base/map.h"

enum profile_frame_kind {
    FRAME_NATIVE,
    FRAME_KERNEL,
    FRAME_PYTHON,
    FRAME_JS,
    FRAME_JAVA,
    FRAME_GENERATED, /* of another just-in-time compiler: named by a perf-map file */
    FRAME_RUNTIME,   /* part of a language's runtime: V8's builtins, HotSpot's stubs */
    FRAME_GROUP,     /* no code: a process, a thread */
    FRAME_TRUNCATED, /* "[truncated: reason]" */
    FRAME_RUBY,
    FRAME_KINDS,
};

/* "native", "kernel", ... */
const char *profile_kind_name(enum profile_frame_kind kind);

/* One function (or line of it), the same for all instances. Strings are ids (profile_text()); 0 is "". */
struct profile_frame {
    uint32_t name, file, module;
    uint32_t line; /* 0 unknown */
    uint8_t kind;  /* enum profile_frame_kind */
};

struct profile_node {
    uint32_t parent; /* 0 is the root, whose parent is itself */
    uint32_t frame;
    uint64_t count;  /* samples that end here */
    uint64_t weight; /* their weight, in the profile's unit */
};

/* Nodes are many: found by parent and frame, with less memory than a map takes. */
struct profile_node_index {
    uint32_t *slots; /* 0: free */
    size_t capacity; /* a power of two, or 0 */
};

/* One sample, kept when asked for: for timelines, and for the spans of traces to find what ran in them. */
struct profile_sample {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t weight;
    uint32_t pid, tid;
    uint32_t node;
};

struct profile_windows;
struct profile_intervals;

struct profile {
    struct arena texts;
    ARRAY(const char *) strings;
    ARRAY(struct profile_frame) frames;
    ARRAY(struct profile_node) nodes; /* parents before children; [0] is the root */
    struct map string_ids, frame_ids;
    struct profile_node_index node_index;
    ARRAY(struct profile_sample) samples;
    struct profile_windows *windows;     /* NULL: how weights spread over time is not kept (windows.h) */
    struct profile_intervals *intervals; /* NULL: how certain shares are is not known (intervals.h) */
    ARRAY(uint32_t) business;  /* by node: the name of its application function (business_label()); 0: none */
    size_t sample_limit;       /* 0: samples are not kept */
    size_t node_limit;         /* what does not fit counts for the node above */
    uint64_t start_ns, end_ns; /* CLOCK_REALTIME; 0 unknown */
    uint64_t began_ns;         /* start_ns by the samples' clock, CLOCK_MONOTONIC; 0 unknown */
    uint64_t period;           /* weight of one sample at the asked rate; 0 unknown */
    char event[32];            /* "cpu", "off-cpu", "page-faults" */
    char unit[16];             /* of weights: "nanoseconds", "count", "samples" */
    bool by_line;              /* lines of one function are told apart in lists and folded text, too */
    bool failed;               /* memory ran out: the profile lacks something */
    uint32_t serial;           /* ids are of this one; no two profiles ever share it */
};

/* What profile_fold() writes in place of what it gave up. */
#define PROFILE_ENDED "ended"
#define PROFILE_RARE  "[rare stacks]"

int profile_new(struct profile **ret_profile);
void profile_free(struct profile *profile);
DEFINE_FREEP(struct profile, profile_free)

/* Empties it, for the next of many profiles of the same programs: what frames are called stays, and the
 * serial with it, unless there are more than `most` of them. -ENOMEM: it can only be freed. */
int profile_restart(struct profile *profile, size_t most);

/* Ids, added when new; 0 (the empty string, the root) when memory ran out. Strings have U+FFFD in place of
 * what is not UTF-8. */
uint32_t profile_string(struct profile *profile, const char *string);
uint32_t profile_string_n(struct profile *profile, const char *string, size_t length);
uint32_t profile_add_frame(struct profile *profile, const struct profile_frame *frame);
uint32_t profile_named_frame(struct profile *profile, const char *name, enum profile_frame_kind kind);
uint32_t profile_child(struct profile *profile, uint32_t node, uint32_t frame);

static inline const char *profile_text(const struct profile *profile, uint32_t id)
{
    return profile->strings.at[id];
}

void profile_count(struct profile *profile, uint32_t node, uint64_t count, uint64_t weight);

/* Keeps the sample while there is room. */
void profile_keep(struct profile *profile, const struct profile_sample *sample);

/* For qsort: by process, thread and time. */
int profile_by_thread_and_time(const void *a, const void *b);

/* Adds all of from to into; frames are the same when name, file and kind are. 0 or -ENOMEM. */
int profile_merge(struct profile *into, const struct profile *from);

/* The same, with the node in into of each of from's; the caller's to free. */
int profile_merge_places(struct profile *into, const struct profile *from, uint32_t **ret_nodes);

/* Makes the profile smaller without losing weight: frames become what replace() says (NULL: stay what they
 * are), and when more than `keep` nodes are left, rare stacks end in PROFILE_RARE, until at most that many
 * are. Ids of strings, frames and nodes change, which the serial shows. -ENOMEM: it may be as large as it
 * was. */
int profile_fold(struct profile *profile, size_t keep,
                 uint32_t (*replace)(void *context, struct profile *profile, uint32_t frame), void *context);
uint32_t profile_next_serial(void);

/* After nodes' parents or frames were changed in place. There are no more of them than there were. */
void profile_index_again(struct profile *profile);

/* The weight in PROFILE_RARE. totals: of profile_totals(), NULL gives 0. */
uint64_t profile_rare(const struct profile *profile, const uint64_t *totals);

/* The weight at or below each node, in node order; owned by the caller, NULL when memory ran out. */
uint64_t *profile_totals(const struct profile *profile);

/* Whether waits are among what its weights are ("off-cpu", "wall", "lock"): each is known, none is a sample.
 */
bool profile_has_waits(const struct profile *profile);

/* Whether what the kernel's function calls is done for an interrupt, whose time is nobody's that it lands on.
 * A fault is the program's own. */
bool profile_begins_interrupt(const struct profile *profile, uint32_t frame);

/* Whether a frame says who ended a wait. What is below it in a stack is that thread's, the innermost frame
 * first. */
#define PROFILE_WOKEN_BY "[woken by "
bool profile_is_waker(const struct profile *profile, uint32_t frame);

/* By node: where the stack of the thread that it is of ends; itself, or the frame that says who ended its
 * wait. The caller's; NULL when memory ran out. */
uint32_t *profile_own_ends(const struct profile *profile);

/* A function over all stacks; the stacks of wakers are not counted. */
struct profile_function {
    uint32_t frame;
    uint64_t self, total; /* weights; total counts a recursive function once per stack */
};

/* The same for all frames of one function. */
uint64_t profile_function_key(const struct profile *profile, uint32_t frame);

/* All functions, the largest self first; owned by the caller. */
struct profile_function *profile_functions(const struct profile *profile, size_t *ret_count);

#endif
