/* Between the parts of the sampler's user-space half: sampler.c (its start and end, and what becomes of
 * samples), sampler_records.c (what is still to be dealt with), sampler_processes.c (which processes it
 * knows, and what it forgets), sampler_program.c (the program in the kernel). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_SAMPLER_PARTS_H
#define PROFILE_SAMPLER_PARTS_H

#include <bpf/libbpf.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/map.h"
#include "profile/allocs.h"
#include "profile/idle.h"
#include "profile/kernel_names.h"
#include "profile/locks.h"
#include "profile/namers.h"
#include "profile/records.h"
#include "profile/io.h"
#include "profile/sampler.h"
#include "profile/sideband.h"
#include "profile/tables.h"
#include "profile/ticks.h"
#include "profile/unread.h"
#include "profile/wakers.h"
#include "sampler.skel.h"

struct sampler {
    pid_t *family; /* the processes that were named, and their descendants when it began */
    size_t family_count;
    pid_t command; /* that is about to run; 0: there is none */
    struct sampler_options options;
    struct sampler_bpf *bpf;
    struct ring_buffer *ring;
    struct records records; /* that have left it */
    struct tables tables;
    struct namers *namers;
    struct kernel_names *kernel;
    struct sideband *sideband; /* NULL: not to be had */
    uint64_t tidied_ns, made_room_ns, settled_ns;
    size_t lacked_rows;    /* processes whose files did not all find room */
    size_t folded;         /* processes that share a place in the profile with others of their name */
    uint64_t announced_ns; /* its news are known until then */
    struct map processes;  /* pid -> struct subject *, or 0: cannot be read */
    struct sampler_process *description; /* scratch: it is large */
    uint32_t serial;                     /* of the last description that was published */
    struct process_stack *stack;
    struct ticks ticks;
    uint64_t started_ns;
    uint64_t stopped_ns;      /* 0: not yet; what begins later is not counted */
    struct profile *on, *off; /* during a poll */
    int epoll;                /* of sampler_wait.c; -1: there is none */
    bool waits;               /* for it; else it sleeps */
    uint64_t now_ns;
    uid_t user; /* of the sample at hand: whose process it is of */
    uint64_t named, complete, runtime_named[FRAME_KINDS], runtime_complete[FRAME_KINDS], ends[END_REASONS];
    uint64_t first_ns; /* when the first stack was named */
    struct idle_frames idle;
    uint64_t idle_waits, idle_ns; /* that were left out */
    struct locks *locks;          /* NULL: none yet, or they are not asked for */
    struct wakers *wakers;        /* the same */
    struct allocs *allocs;        /* the same */
    struct io *io;                /* the same */
    struct follow *follow;        /* the same; follow.h */
    ARRAY(struct bpf_link *) alloc_links;
    ARRAY(pid_t) go_pids; /* processes in which those of Go's locks are */
    ARRAY(struct bpf_link *) hit_links;
    pid_t unread[UNREAD_LANGUAGES];                 /* a process that was sampled and runs it; 0: none */
    uint64_t trap_ns;                               /* what a probe in a program takes, without a stack */
    uint64_t hits, hits_looked_ns, hits_stopped_ns; /* as they were looked at last */
    int polled;
    unsigned taken;
    struct map thread_ids; /* (pid, tid) -> index in threads */
    ARRAY(struct sampler_thread) threads;
};

/* ---- sampler_processes.c ---- */

/* The process as it was at time_ns, read when it is new. NULL when it is not wanted or nothing is known. */
struct subject *sampler_process_of(struct sampler *s, pid_t pid, uint64_t time_ns);
/* Processes that may be new, each of them once: all are asked for before the first answer is waited for. */
struct sampler_newcomer {
    pid_t pid;
    uid_t user;
    uint64_t time_ns;
    const struct sampler_sample *sample; /* NULL: none */
};
enum { SAMPLER_NEWCOMERS = SUBJECT_OPEN_MAX };
void sampler_meet(struct sampler *s, const struct sampler_newcomer *newcomers, size_t count);
/* The one that has been read; NULL: none. */
struct subject *sampler_known_process(struct sampler *s, pid_t pid);
/* Gives what is known of it to the half in the kernel. */
void sampler_publish(struct sampler *s, struct subject *process);
/* Nothing of it is wanted. */
void sampler_ignore(struct sampler *s, pid_t pid);
/* It has ended, or runs another program. */
void sampler_drop(struct sampler *s, pid_t pid);
bool sampler_in_cgroup(const char *wanted, pid_t pid);
/* Reads it again if it may have changed. */
void sampler_refresh_if_due(struct sampler *s, struct subject *process);
/* Before each batch of samples: room for rows, where it is lacked not more often than that. */
#define SAMPLER_ROOM_NS NS_PER_S
void sampler_settle(struct sampler *s);
/* After each: profiles that are too large, processes that have ended. */
void sampler_tidy(struct sampler *s);
/* The busiest processes of the whole machine, before the clock starts. */
void sampler_read_ahead(struct sampler *s);
/* Those that were named, all of which must be there, and their descendants. */
int sampler_read_named(struct sampler *s, struct problem *problem);
/* Children that were forked before the half in the kernel was listening. */
int sampler_add_newborn(struct sampler *s);

/* ---- sampler_program.c ---- */

/* Loads the program and shares its memory; on_event gets the records. 0 or a negative errno with problem set.
 */
int sampler_load(struct sampler *s, ring_buffer_sample_fn on_event, struct problem *problem);
/* What takes rights, before anything of other processes is read. The same. */
int sampler_attach(struct sampler *s, struct problem *problem);
void sampler_detach_allocs(struct sampler *s);
/* Descriptors, for follow.h: of the programs that an allocation function begins and ends with (-1: none), of
 * the one of places, of the ring of news. */
struct place_programs {
    int begin, end;
};
struct place_programs sampler_place_programs(const struct sampler *s, enum place_function function);
int sampler_hit_program(const struct sampler *s);
int sampler_births(const struct sampler *s);

/* ---- follow.c ---- */

/* Ends the process that follows, and with it its breakpoints. NULL does nothing. */
void follow_stop(struct follow *follow);
void follow_free(struct follow *follow);
DEFINE_FREEP(struct follow, follow_free)

/* ---- sampler_wait.c ---- */

/* Whatever their rate is: it may change. */
bool sampler_has_ticks_alone(const struct sampler_options *options);
/* Ticks alone, and so few of them that what is done once for each look counts. */
bool sampler_is_slow(const struct sampler_options *options);
void sampler_wait_open(struct sampler *s);
/* After the rate has changed. */
void sampler_wait_set(struct sampler *s);
void sampler_wait_close(struct sampler *s);
/* For that long, or less when something comes that cannot wait. */
void sampler_wait(struct sampler *s, int timeout_ms);

/* ---- sampler.c ---- */

/* Names the user's part of a sample, into s->stack, with frames of the profile. False: it is not wanted.
 * ret_process: NULL when nothing is known of it. */
bool sampler_name(struct sampler *s, struct profile *profile, const struct sampler_sample *sample,
                  const uint64_t *words, struct subject **ret_process);

enum { SAMPLER_GROUPS = 3 };

/* The frames above a stack that was named last, the outermost first: process and thread, as far as they are
 * asked for, and why it is truncated. How many. */
size_t sampler_groups(struct sampler *s, struct profile *profile, const struct subject *process,
                      const struct sampler_sample *sample, enum sampler_end end,
                      uint32_t ret_frames[SAMPLER_GROUPS]);

/* Counts a stack that was named last. */
void sampler_count_stack(struct sampler *s, const struct profile *profile,
                         const struct sampler_sample *sample, enum sampler_end end);

/* Why a stack that was named last ends where it does; end: as the kernel's half has it. */
enum sampler_end sampler_end_of(struct sampler *s, const struct sampler_sample *sample, enum sampler_end end);

/* ---- sampler_records.c ---- */

/* How long one poll goes on, where more comes than can be named. */
#define SAMPLER_POLL_NS (100 * NS_PER_MS)

/* ring_buffer_sample_fn; context is the sampler. */
int sampler_keep_record(void *context, void *data, size_t size);
/* Takes what there is. 0 or a negative errno. */
int sampler_empty_ring(struct sampler *s);
/* The same of the kernel's announcements. */
void sampler_listen(struct sampler *s);
/* Processes that nothing is known of are read before anything is named: while they are there, and so that no
 * more copies of their stacks have to be made. */
void sampler_meet_new(struct sampler *s);
/* From now on what is asked of the namers is asked for what comes next, too. */
void sampler_look_ahead(struct sampler *s);

/* ---- sampler_locks.c ---- */

/* One of the records of a wait for a futex, with so many words behind its head. */
void sampler_on_lock(struct sampler *s, const struct sampler_sample *sample, const uint64_t *words,
                     size_t count);

/* ---- sampler_hits.c ---- */

void sampler_configure_hits(struct sampler *s);
/* 0 or a negative errno. */
int sampler_attach_hits(struct sampler *s, struct problem *problem);
void sampler_detach_hits(struct sampler *s);
/* After each poll: stops when there are too many. */
void sampler_watch_hits(struct sampler *s);

/* ---- sampler_io.c ---- */

void sampler_configure_io(struct sampler *s);
/* 0 or a negative errno. */
int sampler_attach_io(struct sampler *s);
/* How many of the innermost frames of a stack at a tracepoint are what traces it. */
uint32_t sampler_trace_frames(struct sampler *s, const uint64_t *kernel, uint32_t count);
/* A stack, below its groups, with room for another frame. */
void sampler_io_began(struct sampler *s, const struct sampler_sample *sample, const uint32_t *groups,
                      size_t group_count, uint32_t *frames, size_t count);
void sampler_on_io_end(struct sampler *s, const struct sampler_sample *sample, const uint64_t *words,
                       size_t count);

/* ---- sampler_allocs.c ---- */

/* An allocation, or its end. */
void sampler_on_alloc(struct sampler *s, const struct sampler_sample *sample, const uint64_t *words,
                      size_t count);
/* The process has ended, or (begins) runs another program. */
void sampler_allocs_ended(struct sampler *s, uint32_t pid, bool begins);

#endif
