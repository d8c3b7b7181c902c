/* The sampler's side of the namers (namer.h): finds the one of a process's domain, asks it, checks what it
 * answers, and gives what the kernel must know of a process rows of its own in the kernel's array. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_NAMERS_H
#define PROFILE_NAMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/array.h"
#include "base/macro.h"
#include "base/map.h"
#include "broker/lender.h"
#include "profile/process.h"
#include "profile/profile.h"
#include "profile/namer.h"
#include "profile/tables.h"
#include "symbol/modules.h"

struct namers;
struct namer;

/* One sampled process, as the sampler knows it. */
struct subject {
    pid_t pid;
    char name[32];
    uid_t owner; /* of /proc/PID, when it was read */
    struct namer *namer;
    uint32_t namer_number;
    char called[64];  /* what runs there: "native", "Python 3.11", "Node.js (V8)", "Java (HotSpot)" */
    bool compiles;    /* a runtime in it compiles code all the time: what is known of it is soon old */
    uint8_t unread;   /* languages in it that are not read: bits */
    uint8_t noted;    /* the same, as it was when the user looked last */
    bool lacks_rows;  /* some found no room when it was described last */
    bool lacked_rows; /* and that was counted */
    bool refresh_wanted;
    bool mapped; /* code was mapped since it was read */
    bool gone;   /* it ended; what is known is what the kernel announced */
    uint64_t born_ns, loaded_ns;
    uint64_t published_ns; /* when the kernel had its last description, for the user to set */
    ARRAY(uint32_t) rows;  /* serials of those that its description leads to */
    struct map stacks;     /* hash of a stack's words -> place in frames */
    ARRAY(uint32_t) frames;
    uint32_t epoch;     /* of its namer's numbers of frames, which these are */
    uint64_t stacks_ns; /* when the first of them was named */
    uint32_t batch;     /* in which it was found to be of the domain that it was of */
};

/* tables: of the kernel, must outlive it. */
int namers_new(const struct namer_options *options, struct tables *tables, struct namers **ret_namers);
void namers_free(struct namers *namers);

/* Where the workers come from; for a test. */
struct namers_source {
    int (*worker)(pid_t pid, struct lent_worker *ret_worker);
    int (*worker_of_ended)(uid_t user, struct lent_worker *ret_worker);
    void (*end)(uint32_t number, bool failed);
};
void namers_take_from(struct namers *namers, const struct namers_source *source);
/* The same: how long one is kept that is not asked; namers_tidy() ends it then, where few samples are taken
 * (lazy). A minute without this call. */
void namers_end_idle_after(struct namers *namers, uint64_t idle_ns);

/* Has a namer for the domain of a process that will be read soon: it takes a moment to begin. */
void namers_prepare(struct namers *namers, pid_t pid);

/* A stack that is to be named, or (walks) the sample of a copied stack that is to be walked before. */
struct namers_stack {
    struct subject *subject;
    const struct sampler_sample *sample;
    const uint64_t *words; /* the user's part; of a copy all */
    bool walks;
};

/* The stacks that come next, which are named together with the present one: from *at on, which is 0 at first,
 * and is where to go on then. False: there is no other. */
typedef bool namers_next_fn(void *context, size_t *at, struct namers_stack *ret_stack);

/* next: as above; meanwhile: called now and then while an answer is waited for; it may not ask for names. */
void namers_look_ahead(struct namers *namers, namers_next_fn *next, void (*meanwhile)(void *context),
                       void *context);

/* Before each batch of samples: what was read of memory for an earlier one is old. */
void namers_begin_batch(struct namers *namers);

/* Reads the process; of one that has ended, what the kernel announced of it, and whose it was. A negative
 * errno, -EUSERS when the processes of as many domains are read as may be. ret_description (NULL: it is not
 * wanted): subject_describe()'s. */
int subject_open(struct namers *namers, pid_t pid, struct sampler_process *ret_description,
                 struct subject **ret_subject);
/* The same in two steps: the namers read while others are begun. Nothing else may be asked of them until each
 * that was begun has ended, in this order; ret_description is not wanted of one that fails. */
struct subject_seen {
    struct domain_owner owner; /* as the kernel has it; user_namespace 0: not known */
    const char *name;          /* of the process; NULL: not known */
    const struct mapping_note *notes;
    size_t count;      /* 0: they are not known */
    uint64_t until_ns; /* the notes are complete until then */
};
/* seen (NULL: nothing): what is known of it. Where that is enough, the process may have ended. */
int subject_begin_open(struct namers *namers, pid_t pid, const struct subject_seen *seen,
                       struct subject **ret_subject);
int subject_end_open(struct namers *namers, struct subject *subject, struct sampler_process *ret_description);
enum { SUBJECT_OPEN_MAX = 16 }; /* that may have been begun: what is sent has room in the sockets */
int subject_open_ended(struct namers *namers, pid_t pid, uid_t user, const struct mapping_note *notes,
                       size_t count, struct subject **ret_subject);

/* Its rows stay in the kernel's array until tables_settle(). */
void subject_free(struct namers *namers, struct subject *subject);

/* Its namer has ended, or it is of another domain by now: it has to be opened again. */
bool subject_is_lost(const struct namers *namers, struct subject *subject);

/* Its namer has ended: rows that the kernel's description of it leads to were given back. */
bool subject_has_no_namer(const struct namers *namers, const struct subject *subject);

/* Reads it again; seen (NULL: nothing): as subject_begin_open()'s, of which the notes count. -ESRCH when it
 * ended: then what is known is all that will be, but for what the kernel announced. */
int subject_refresh(struct namers *namers, struct subject *subject, const struct subject_seen *seen,
                    struct sampler_process *ret_description);
int subject_take(struct namers *namers, struct subject *subject, const struct mapping_note *notes,
                 size_t count);

/* What the kernel needs to walk its stacks. */
int subject_describe(struct namers *namers, struct subject *subject, struct sampler_process *ret_description);

/* Names the user's part of a sample. */
void subject_name(struct namers *namers, struct subject *subject, struct profile *profile,
                  const struct sampler_sample *sample, const uint64_t *user, uint64_t now_ns,
                  struct process_stack *ret_stack);

/* Walks and names a stack from a copy of its top: pc, sp, fp and the bytes, which the sample is. */
void subject_walk(struct namers *namers, struct subject *subject, struct profile *profile,
                  const struct sampler_sample *sample, const uint64_t *words, uint64_t now_ns,
                  struct process_stack *ret_stack, enum sampler_end *ret_end);

/* Whether it is one of the namers: what they do is no part of a profile. */
bool namers_has(const struct namers *namers, pid_t pid);

/* Of the rows in the kernel's array that no subject leads to any more, those that have had none for the
 * longest time are given back: they stay there until then, for the next process that maps their file. False:
 * there are none. */
bool namers_forget_oldest_rows(struct namers *namers);

/* Gives memory back: of files that nothing has mapped so many stay known. */
void namers_tidy(struct namers *namers, uint32_t closed);

/* The sampler has been interrupted and is to end. From now on it waits half a second for each answer, plus
 * the time in which its namer had no CPU, but no more than two seconds for all answers together. A signal
 * that arrives while it waits for an answer has the same effect. */
void namers_end_soon(struct namers *namers);

struct namers_counts {
    size_t namers;    /* that there are */
    size_t too_large; /* files whose source lines would have taken too much memory */
    size_t short_of_memory,
        failed;      /* that ran out of the memory that they may have; that died or broke the rules */
    size_t too_late; /* answers that were not waited for any longer when the sampler was to end */
    uint64_t cpu_ns; /* of all of them so far, as they say */
    uint64_t bytes;  /* memory of their own */
};
struct namers_counts namers_counts(const struct namers *namers);

#endif
