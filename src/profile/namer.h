/* Namers: workers without rights (broker/worker.h) that read the processes that are sampled, what they have
 * mapped and what is in their memory, and name their stacks; one for each domain of trust (broker/domain.h).
 * Here is what the sampler and a namer say to each other.
 *
 * The sampler asks (struct namer_ask, and what belongs to it), the namer answers (struct namer_answer, then
 * stacks, frames that are new, and the description for the kernel, as far as they belong to it). Frames have
 * numbers, by which they are known from then on. Rows lie in memory that both share. Many stacks are named at
 * once: the namer answers as many of them as fit into a message, and as it can name within a while. That a
 * process has ended is said with the next question: a message of its own would wake the namer for nothing.
 *
 * A namer is assumed to have been taken over by one of its processes: its answers are checked (namers.c), and
 * count for processes of its domain alone. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_NAMER_H
#define PROFILE_NAMER_H

#include <stddef.h>
#include <stdint.h>

#include "broker/worker.h"
#include "unwind/sampler.h"

extern const struct worker_kind namer_kind;

/* Comes with the shared memory, before anything is asked. */
struct namer_options {
    uint32_t row_limit; /* that is its size */
    uint8_t lines, source, inlined;
    uint8_t lazy; /* rows of a file are read when a stack leads into it, not when it is mapped */
};

enum namer_verb {
    NAMER_OPEN =
        1, /* reads the process; struct namer_note and paths, if any: what it is known to have mapped */
    NAMER_OPEN_ENDED, /* the same, of what the kernel announced of it, in the same form */
    NAMER_TAKE,       /* it has ended: what it mapped last, in the same form */
    NAMER_REFRESH,    /* reads it again; the same as with the first */
    NAMER_DESCRIBE,   /* answers with a description only */
    NAMER_NAME,       /* names stacks: each a struct namer_item and what belongs to it */
    NAMER_MORE,       /* answers with more new frames only */
    NAMER_TIDY        /* gives memory back */
};

struct namer_ask {
    uint32_t verb;  /* enum namer_verb */
    uint32_t batch; /* of samples: memory that was read for an earlier one is read again */
    uint64_t now_ns;
    uint32_t closed;  /* NAMER_TIDY: so many files that nothing has mapped may stay known */
    uint32_t count;   /* of notes, or of stacks */
    uint32_t dropped; /* processes that are of no interest any more: their numbers (int32_t) come last */
    uint32_t unused;
};

/* A stack that is to be named: a sample and its words behind those of the kernel; or one that is to be walked
 * before: the sample of a copy, registers and bytes. */
struct namer_item {
    int32_t pid;
    uint32_t walks;
    uint32_t length; /* of what belongs to it */
    uint32_t unused;
};

/* One executable mapping, followed by its path. */
struct namer_note {
    uint64_t start, end, offset, device, inode;
    uint32_t path_length, unused;
};

struct namer_answer {
    uint32_t epoch;        /* of the numbers of frames: with the next one they begin anew */
    uint32_t frames;       /* so many there are, beginning with 1 */
    uint32_t first, count; /* frames that are new in this answer */
    uint32_t stacks;       /* so many of those that were asked for, in their order */
    uint32_t too_large;    /* files whose source lines would have taken too much memory */
    uint8_t described;     /* a description comes last, without the mappings behind those that it has */
    uint8_t compiles;      /* a runtime in it compiles code all the time */
    uint8_t lacks_rows;    /* some found no room */
    uint8_t unread;        /* languages in it that are not read: bits in the order of unread_languages */
    char called[64];       /* what runs there, for people */
};

/* A stack, followed by the numbers of its frames, the innermost first. */
struct namer_stack {
    uint32_t count;
    uint8_t known;          /* the process is: else there is nothing else */
    uint8_t end;            /* enum sampler_end: where naming had to stop */
    uint8_t walked;         /* the same: where walking had to stop */
    uint8_t runtime;        /* enum profile_frame_kind: the language above native code */
    uint8_t unsettled;      /* a name will be another one soon */
    uint8_t refresh_wanted; /* the process has to be read again */
    uint8_t unused[2];
};

/* A frame, followed by its three texts. */
struct namer_frame {
    uint32_t line;
    uint16_t name_length, file_length, module_length;
    uint8_t kind; /* enum profile_frame_kind */
    uint8_t unused;
};

enum {
    NAMER_TEXT_MAX = 8192,      /* bytes of a text; what is longer is cut */
    NAMER_FRAMES_MAX = 1 << 16, /* in one epoch */
    NAMER_STACK_MAX = 1024,
    NAMER_STACKS_MAX = 256 /* in one question */
};

/* What is left of a message: bytes that the other side controls. */
struct namer_rest {
    const uint8_t *at;
    size_t left;
};

/* The next bytes of it, of any alignment. NULL: there are not so many, and none is taken. */
static inline const void *namer_take(struct namer_rest *rest, size_t length)
{
    const uint8_t *at = rest->at;
    if (length > rest->left)
        return NULL;
    rest->at += length;
    rest->left -= length;
    return at;
}

#endif
