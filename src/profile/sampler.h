/* The sampler: loads the BPF program, teaches it the processes it meets, and turns what it sends into named
 * stacks of a profile. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_SAMPLER_H
#define PROFILE_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/problem.h"
#include "profile/profile.h"
#include "profile/io.h"
#include "unwind/sampler.h"

/* A function of malloc()'s family, of a virtual machine's heap, or of Go's locks, in a file that a process
 * has mapped. */
enum place_function {
    ALLOC_MALLOC,
    ALLOC_CALLOC,
    ALLOC_REALLOC,
    ALLOC_ALIGNED, /* aligned_alloc(), memalign() */
    ALLOC_POSIX_MEMALIGN,
    ALLOC_FREE,
    ALLOC_HEAP_SECOND, /* a virtual machine's, whose second parameter is how much of its heap is used up */
    ALLOC_HEAP_THIRD,  /* the third; it has so many bytes (bytes), 0: eight */
    ALLOC_HEAP_PAGE,   /* a page of a known size (bytes) is used up, when it returns */
    ALLOC_HEAP_AREA,   /* so far in its allocator (bytes) is a pointer to the area that it has got, when it
                          returns (bpf/allocs.h) */
    GO_WAITS,          /* one in which goroutines wait for locks (bpf/goroutines.h), */
    GO_IS_BACK,        /* its return, */
    GO_LETS_GO,        /* and one that lets others go on; bytes: SAMPLER_GO_BYTES() */
    PLACE_FUNCTIONS
};

struct sampler_place {
    pid_t pid;
    const char *path; /* of the file */
    uint64_t offset;  /* in it */
    enum place_function function;
    uint32_t bytes; /* of some functions */
};

/* Where a stack is taken (bpf/hits.h): a tracepoint of the kernel, or an instruction of a file. */
struct sampler_hit {
    const char *category, *name; /* of a tracepoint; NULL: none */
    const char *path;            /* of the file */
    uint64_t offset;             /* in it */
    uint64_t semaphore; /* where it counts who is interested, by which the program decides whether to come
                           here; 0: it has none */
};

struct sampler_options {
    const pid_t
        *pids; /* only these, their descendants, and the children they fork; none: the whole machine */
    size_t pid_count;
    bool whole_machine;
    const char *cgroup;    /* only processes whose cgroup path contains this; NULL: all */
    unsigned frequency;    /* samples per second and CPU (clock events) */
    bool rises;            /* it may be set to more (sampler_set_frequency()) */
    uint32_t event_type;   /* PERF_TYPE_SOFTWARE */
    uint64_t event_config; /* PERF_COUNT_SW_CPU_CLOCK */
    uint64_t event_period; /* 0: by frequency */
    bool on_cpu, off_cpu;
    bool locks;  /* waits for locks alone: neither of the two (locks.h) */
    bool allocs; /* allocations alone (allocs.h), at places, one for each so many bytes on average */
    const struct sampler_place
        *places; /* of both; with locks those of Go. Until sampler_open() has returned */
    size_t place_count;
    uint64_t alloc_interval;
    bool hits; /* at these places alone; the same program has them more than once where a compiler copied them
                */
    enum io_kind io;                      /* with hits: requests in place of places (io.h) */
    const struct sampler_hit *hit_places; /* as long as the sampler */
    size_t hit_place_count;
    pid_t hit_child;    /* the command's process, which is about to begin; 0: none */
    uint64_t hit_every; /* a stack at each N-th hit */
    uint64_t hit_limit; /* stacks a second on a CPU; with more hits than sampler_hits_most() says, it stops */
    uint64_t off_cpu_min_ns;
    bool wakers;       /* the innermost frame of a wait says who ended it */
    bool waker_stacks; /* and below it are its stack, and who woke it (wakers.h) */
    bool idle;         /* idle waits are kept, too (idle.h) */
    bool kernel;       /* kernel frames, too */
    bool by_process;   /* the first frame is the process */
    bool by_thread;    /* and the second the thread */
    bool threads;      /* keep what served each thread, for sampler_threads() */
    bool lines;        /* frames carry line numbers: one function may be several frames */
    bool source;       /* native frames carry file and line of their function, where there is DWARF */
    bool inlined;      /* functions inlined into native ones are frames of their own, where there is DWARF */
    size_t map_bytes;  /* for unwind rows in the kernel; 0: 32 MB */
};

struct sampler_counts {
    uint64_t ticks, samples, lost, copies;
    uint64_t not_kept; /* of those that were lost: sonde had no memory for them; others found no room in the
                          kernel's buffer */
    uint64_t ends[END_REASONS];   /* of stacks, as named, by enum sampler_end */
    uint64_t first_ns;            /* CLOCK_MONOTONIC when the first stack was named; 0: none was */
    uint64_t idle_waits, idle_ns; /* that were left out */
    uint64_t hits;                /* of options.hits, with those at which no stack was taken */
    uint64_t hits_stopped_ns;     /* CLOCK_MONOTONIC when there were too many; 0: there were not */
    uint64_t not_followed;        /* allocations that were sampled, but whose end was not seen */
    uint64_t births; /* processes that watched ones have started, where they are followed (follow.h) */
    uint64_t locks_left_out; /* waits for more locks, places and threads than are told apart */
    uint64_t complete;       /* stacks without a [truncated] frame, as named */
    uint64_t stacks;
    /* by the runtime that dominates them, named complete and all; FRAME_KERNEL: no user's part, as those of
     * the kernel's own threads */
    uint64_t runtime_complete[FRAME_KINDS], runtime_stacks[FRAME_KINDS];
    uint64_t program_ns, program_runs; /* time in the BPF programs, as they measure it */
    uint64_t missed;                   /* runs of the BPF programs that the kernel left out (bpf/missed.h) */
    uint64_t announcements_lost;       /* of the kernel, about processes and their mappings */
    size_t rows;                       /* unwind rows in the kernel */
    size_t unwind_bytes;               /* and the room for them */
    size_t map_bytes;                  /* what is shared with the kernel */
    size_t processes;
    size_t lacked_rows; /* whose files did not all find room for their unwind rows, for a time at least; who
                         * executed another program counts again */
    size_t folded;      /* that ended and share a place in the profile with others of their name */
    size_t too_large;   /* files whose source lines would have taken too much memory */
    size_t namers_short, namers_failed; /* that ran out of memory; that died or broke the rules (namer.h) */
    size_t namers_late; /* answers of theirs that were not waited for any longer (sampler_end_soon()) */
    uint64_t namer_ns, namer_bytes; /* CPU time and memory of who reads the processes (namer.h) */
};

/* A profile with more nodes than this is folded (profile_fold()): processes that ended become one for each
 * name, then rare stacks lose their callers. About 12 MB, and as much again for a moment. */
#define SAMPLER_NODES 390000

/* Whether what is watched are places in programs of some processes, so that those which these start have to
 * be followed (follow.h). */
bool sampler_options_follow(const struct sampler_options *options);

/* What a sampler that is not root's needs; the last for the code of files that were deleted or replaced. */
#define SAMPLER_CAPABILITIES \
    "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_checkpoint_restore=ep"

struct sampler;
struct allocs;
struct locks;

/* Does all that takes rights, and reads nothing of other processes: the rights but those to read them, and to
 * use BPF maps, may be given up then (cli/confine.h). -EPERM with what to grant when the kernel refuses. */
int sampler_open(const struct sampler_options *options, struct sampler **ret_sampler,
                 struct problem *problem);
void sampler_close(struct sampler *sampler);
DEFINE_FREEP(struct sampler, sampler_close)

/* Adds a child of the caller that is about to run a command: it is sampled from its execve on. */
void sampler_add_command(struct sampler *sampler, pid_t pid);

/* Strings in files of runtimes whose state is read from the memory of the process: who lends memory to one
 * that has no rights asks for them (broker/lender.h). Ends with NULL. */
const char *const *sampler_marks(void);

/* Reads the processes that are there, and starts the clock. -ESRCH when one that was named is not. */
int sampler_start(struct sampler *sampler, struct problem *problem);
void sampler_stop(struct sampler *sampler);
/* After sampler_start(): whoever waits for it wants it to end. What takes more than two seconds from now on
 * to be named stays without names, and is counted (namers_late). */
void sampler_end_soon(struct sampler *sampler);

/* How long sampler_poll() may be let wait: at low rates it is woken by what cannot. */
int sampler_patience_ms(const struct sampler *sampler);

/* Changes the rate while it samples; nothing for events that are no clocks. A sample's weight is the time
 * since the tick before it, so that no time is lost or counted twice. */
void sampler_set_frequency(struct sampler *sampler, unsigned frequency);

/* Waits up to timeout_ms and adds what arrived to the profiles: on for stacks at events, off (may be NULL)
 * for waits; with options.locks off, always the same one, gets nothing but frames. The number of samples, or
 * a negative errno. */
int sampler_poll(struct sampler *sampler, int timeout_ms, struct profile *on, struct profile *off);

/* With options.locks, after the last poll into this one profile: who waited for which lock; borrowed, NULL
 * when there was no poll. Waits that go on end here. */
const struct locks *sampler_locks(struct sampler *sampler);

/* With options.hits: what each hit of a probe in a program takes here without a stack, as it was measured; 0:
 * it is not known, or a tracepoint. */
uint64_t sampler_trap_ns(const struct sampler *sampler);

/* Hits a second that are borne; with more the sampler leaves the places alone for good. */
uint64_t sampler_hits_most(const struct sampler_options *options);

/* The same with options.allocs, of the profile on. */
const struct allocs *sampler_allocs(const struct sampler *sampler);

/* The same with options.io. Those that go on end here: to be called once. */
const struct io *sampler_io(struct sampler *sampler);

/* Whether processes were named and none of them, nor of their descendants, is there any more. */
bool sampler_ended(const struct sampler *sampler);

void sampler_counts(struct sampler *sampler, struct sampler_counts *ret_counts);

/* Why a stack is truncated, for people; "" for the reasons that are none. */
const char *sampler_end_text(enum sampler_end end);

/* A thread that was sampled, and what its stacks were made of. */
struct sampler_thread {
    pid_t pid, tid;
    char name[16];
    uint32_t kinds; /* bits of enum profile_frame_kind that were met */
    uint64_t stacks, complete;
};

/* The threads of all processes, by process, the most sampled first; owned by the caller. NULL when memory ran
 * out. */
struct sampler_thread *sampler_threads(const struct sampler *sampler, size_t *ret_count);

/* A process that was sampled and runs a language (unread.h) whose functions were not read; 0: none. */
pid_t sampler_unread(const struct sampler *sampler, unsigned language);

/* What runs in a process, for people: "native", "Python 3.11", "Node.js (V8)", "Java (HotSpot)". NULL:
 * unknown. */
const char *sampler_runtime(struct sampler *sampler, pid_t pid);

#endif
