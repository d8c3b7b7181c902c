/* One traced process: its shared memory, its threads' rings and streams, its end. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_PROGRAM_H
#define COLLECT_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "collect/quota.h"
#include "attach/patch.h"
#include "attach/target.h"
#include "collect/clock_fit.h"
#include "collect/glance.h"
#include "collect/ring_reader.h"
#include "event/catalogue.h"
#include "event/ring.h"
#include "trace/ctf_writer.h"

/* A thread slot of the shared memory, as we follow it. */
struct program_thread {
    struct ring *ring; /* NULL: it has none (program.unseen) */
    uint32_t tid;      /* in our PID namespace; 0 when it ended before we looked */
    uint32_t owner;    /* the same in its own, as it stands in the slot */
    uint32_t missed;   /* times that it was not found among the process's */
    unsigned fullest;  /* that its ring was, in parts of 256 */
    bool drained;      /* records of it have arrived since the last tick */
    uint64_t shown_ns; /* when it was last seen to do something */
    uint64_t sched_read_ns, sched_read_run_ns, sched_read_wait_ns; /* schedstat, as read last, and when */
    struct ctf_stream *stream;
    uint64_t lost_full, lost_signal, lost_depth; /* already reported */
    uint64_t unreadable;
    uint64_t written_before;              /* by threads that had the slot before */
    int sched_fd;                         /* /proc/PID/task/TID/schedstat, -1 while it is not open */
    uint64_t sched_run_ns, sched_wait_ns; /* last told */
    uint64_t sched_told_ns;
    uint64_t stall_start_tsc; /* the open callback that was looked into last */
    uint64_t stall_next_ns;   /* when it is looked into again */
    uint64_t stall_run_ns;    /* CPU time of the thread when it was first seen open */
    uint64_t stall_noted_ns;  /* how long it was open when the user was last told */
    uint32_t stall_samples;
    uint32_t stall_looks; /* unseen: how often nothing was found open */
    struct glance glance;
};

/* How often and how long we held threads of a program still. */
struct session;
struct stops {
    struct session *session; /* whose other programs are drained meanwhile */
    uint64_t patience_ns;    /* how long to wait for a safe point */
    unsigned count;
    uint64_t longest_ns, total_ns;
};

struct program {
    /* Looked at in each step, of each program: they lie together, since there may be hundreds. */
    uint64_t ended_ns;                    /* 0 while it lives */
    uint64_t drain_next_ns;               /* when its rings are looked at though nothing is expected */
    uint64_t cpu_next_ns, cpu_ns, ran_ns; /* when its CPU time is read next, as read last, when it changed */
    uint64_t flushed_ns;                  /* when the last flush began that it was whole in (session.c) */
    uint32_t flush_next;                  /* of its threads, in the one that is under way */
    pid_t pid;
    bool gone;         /* it has ended, as its pidfd says; what is in its rings is drained yet */
    bool drained;      /* records of it have arrived since that was last asked */
    bool followed;     /* by the kernel's side */
    bool quiet;        /* no thread of it has run for a while (news.c) */
    bool came_to_rest; /* it has become quiet, and is tended once more */
    bool was_empty;    /* so were its rings when they were looked at last */

    struct proc *proc; /* shared with target */
    pid_t parent;
    uint8_t runtime; /* enum sonde_runtime */
    char *name;      /* short: the script or program */
    char *command;   /* the program and, for an interpreter, its script */
    char *exe;
    char build_id[48];
    struct target *target; /* what is missing, modules; kept for the manifest and for detaching */
    struct patch_set patches;
    struct stops stops;
    uint64_t live_address;
    struct ring_memory *rings;
    struct program_thread threads[SONDE_THREADS];
    uint32_t thread_count;
    /* Attached to while it ran: its main thread, until it begins a callback. It may be stuck in one that
     * began before we came, and then no slot tells of that. */
    bool midway;
    bool children_checked;
    bool attached;        /* not started under us: neither are its children */
    bool forked;          /* from one that was traced, and has called a hooked function since */
    uint64_t stack_start; /* of its main thread: another after an exec */
    struct program_thread unseen;
    uint64_t started_ns;
    bool has_cpu_clock;
    clockid_t cpu_clock;                  /* of all its threads */
    uint64_t woke_ns;                     /* when it was quiet last */
    uint64_t tended_cpu_ns, slots_cpu_ns; /* its time when its memory, and its slots, were looked at */
    bool checks_slots;                    /* it has run since its slots were looked through */
    bool checks_children;                 /* and since its children were looked for */
    long filters;                         /* of system calls, that it has; -1 when that is not known */
    uint64_t filters_seen_ns;             /* when they were counted last */
    bool calls_barred;                    /* it has one of late that the probe's calls might not survive */
    struct quota quota;
    uint64_t memory_bytes;        /* last told */
    uint64_t memory_next_ns;      /* when it is read again */
    uint64_t events_without_slot; /* already reported */
    uint64_t losses[8];           /* by enum sonde_loss_reason */
    uint64_t drained_events;
    uint64_t seen[SONDE_EVENT_COUNT];   /* of those, by event */
    uint64_t events[SONDE_EVENT_COUNT]; /* drained, by catalogue number */
};

/* The memory for the rings of process pid, to be handed to it; less at first for a forked child. */
int program_rings_new(pid_t pid, bool forked, struct ring_memory **ret_rings, struct problem *problem);

/* Describes the process, or calls it by the names of the program that it is like (may be NULL). The program
 * takes target, patches and rings, which the process has mapped. */
int program_new(struct target *target, struct patch_set *patches, struct ring_memory *rings,
                uint64_t live_address, const struct program *like, struct program **ret_program);
void program_free(struct program *program);

/* Where the stack of a process begins, which no two programs share; 0 when that cannot be read. */
uint64_t program_stack_of(const struct proc *proc);

/* Which programs' rings a process has mapped (ring_memory_inode()): its own, and in a forked child that
 * executes the same program still those of its ancestors. How many were found, at most room. */
size_t program_rings_mapped(const struct proc *proc, uint64_t *ret_rings, size_t room);

/* Moves all finished records into the streams. Returns how full the fullest ring was, in parts of 256. */
unsigned program_drain(struct program *program, struct ctf_writer *writer, const struct clock_fit *fit);

/* Its schedstat, opened when it is needed; -1 when it cannot be. */
int program_thread_sched(const struct program *program, struct program_thread *t);

/* Gives back the descriptors that are open for reading, when there are many threads. */
void program_close_scheds(struct program *program);

/* Has the thread certainly ended, while the process lives? */
bool program_thread_gone(const struct program *program, struct program_thread *t);

/* Its code runs in spans that are open long when it blocks. */
bool program_runs_callbacks(const struct program *program);

/* The probe can tell requests apart in it. */
bool program_tells_contexts(const struct program *program);

/* The outermost callback that is open on a thread; false: none is. */
bool program_find_callback(const struct program *program, const struct program_thread *t,
                           struct sonde_open_span *ret_open);

/* Is a thread amid something? Waiting for events, which an event loop does in a span of its own, is nothing.
 */
bool program_thread_is_amid(const struct program *program, const struct program_thread *t);

/* Is a callback open in one of its threads, which may be waiting in it? */
bool program_is_amid_callback(const struct program *program);

/* Stops recording in the process (it lives on): the hooks stay, and pass through. */
void program_silence(struct program *program);

/* Records written by the probe since it started. */
uint64_t program_events_written(const struct program *program);

#endif
