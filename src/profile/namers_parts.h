/* Between the parts of the sampler's side of the namers: namers.c (where they come from, asking, and what
 * they answer), subject.c (what is asked of each process). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_NAMERS_PARTS_H
#define PROFILE_NAMERS_PARTS_H

#include "base/text.h"
#include "profile/namers.h"

/* A frame that a namer has given a number. */
struct known_frame {
    uint32_t name, file, module, line; /* texts: in the namer's profile */
    uint32_t kind;
    uint32_t of[2], id[2]; /* what it is in these two profiles, by their serials */
};

/* Rows of a namer that the kernel has. */
struct copied_rows {
    uint32_t low, high;    /* where the namer has them */
    unsigned users;        /* 0: it stays until room is needed */
    uint64_t unused_since; /* then: the one that has the smallest number goes first */
    struct table_range range;
};

struct namer {
    uint32_t number;
    pid_t pid;
    struct domain_owner owner; /* as the lender has it */
    bool of_ended;             /* processes of this user that have ended */
    uid_t user;
    int socket;
    const struct unwind_row *rows; /* shared with it */
    uint64_t used_ns, cpu_ns;
    uint32_t epoch, too_large;
    struct profile *texts;
    size_t text_bytes;
    ARRAY(struct known_frame) frames; /* the first is none */
    struct map copied;                /* serial -> struct copied_rows * */
    ARRAY(int32_t) dropped;           /* processes that it has not been told yet to forget */
};

struct namers {
    struct namer_options options;
    struct namers_source source;
    struct tables *tables;
    ARRAY(struct namer *) list;
    uint32_t batch;
    uint64_t unused; /* how often rows had no user any more */
    uint64_t ended_cpu_ns, idle_ns;
    uint64_t ending_ns; /* since when the sampler is to end; 0: it is not */
    size_t ended_too_large, short_of_memory, failed, too_late;
    char *bytes; /* BROKER_BYTES_MAX, of an answer */
    struct text ask;
    struct text stacks; /* of an answer, while more frames are asked for */
    struct map asked;   /* the stacks of a question */
    namers_next_fn *next;
    void (*meanwhile)(void *context);
    uint64_t looked_ns; /* when that was called last */
    void *context;      /* of both */
    struct sampler_process description;
};

/* An answer that was checked; it lies in namers.bytes. */
struct answered {
    struct namer_answer head;
    const uint8_t *stacks; /* struct namer_stack, each with its numbers of frames */
    size_t stacks_length;
    const uint8_t *description; /* NULL: none came */
    size_t described;           /* its bytes */
};

/* pid 0: of processes of that user that have ended. */
int namers_find(struct namers *namers, pid_t pid, uid_t user, struct namer **ret_namer);
/* The one of the domain; NULL: there is none yet, or nothing is to be begun any more. */
struct namer *namers_of(const struct namers *namers, const struct domain_owner *owner);
struct namer *namers_numbered(const struct namers *namers, uint32_t number);

/* The question, to which more may be added, and its answer. What the namer cannot do is its own error; one
 * that breaks the rules is ended, with -EPIPE. */
void namers_begin_ask(struct namers *namers, const struct namer_ask *ask);
void namers_add(struct namers *namers, const void *bytes, size_t length);
int namers_exchange(struct namers *namers, struct namer *namer, pid_t pid, struct answered *ret_answered);
/* The same in two steps: several questions may be sent before their answers are received, in this order. */
int namers_send(struct namers *namers, struct namer *namer, pid_t pid);
int namers_receive(struct namers *namers, struct namer *namer, pid_t pid, struct answered *ret_answered);

/* The frames that did not fit into the last answer, which is overwritten. */
int namers_take_more(struct namers *namers, struct namer *namer, pid_t pid);

/* A description as the namer has it becomes one for the kernel (NULL: it is not wanted), which leads to rows
 * of this process's own alone. */
void namers_take_description(struct namers *namers, struct subject *subject, const struct answered *answered,
                             struct sampler_process *ret_description);
void namers_give_rows(struct namers *namers, struct namer *namer, const uint32_t *serials, size_t count);

#endif
