/* The kernel's side of a recording: loads the BPF program (bpf/activity.bpf.c), says which processes it
 * follows, and moves its records into a stream, in order of time. Needs privileges; a recording without it
 * works, and says what is missing. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_KERNEL_H
#define COLLECT_KERNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macro.h"
#include "base/problem.h"
#include "event/kernel.h"
#include "trace/ctf_writer.h"

struct kernel_side;

/* "sys,tcp" or "all" to bits. -EINVAL with the problem when a name is none. */
int kernel_parse_families(const char *list, uint32_t *ret_families, struct problem *problem);

const char *kernel_family_name(enum sonde_family family);

/* Loads and attaches. -EPERM, -ENOTSUP (an old kernel, or one that does not describe its types) with a
 * problem that says what mends it. */
int kernel_new(uint32_t families, struct kernel_side **ret_kernel, struct problem *problem);
void kernel_free(struct kernel_side *kernel);
DEFINE_FREEP(struct kernel_side, kernel_free)

/* Follows a process, all its threads (a negative errno: there are too many processes); and no more. */
int kernel_add(struct kernel_side *kernel, pid_t pid);
void kernel_remove(struct kernel_side *kernel, pid_t pid);

/* Moves records into the stream: those of the last milliseconds stay, since a CPU may be late with one
 * that belongs before them; all when final. Returns how full the fullest CPU's ring was, in parts of 256. */
unsigned kernel_drain(struct kernel_side *kernel, struct ctf_stream *stream, bool final);

/* Does the kernel say whenever a thread of a followed process begins to run? */
bool kernel_tells_running(const struct kernel_side *kernel);

/* Has a thread of the process begun to run, as the records say that were drained since it was last forgotten?
 * True also when another process has, now and then. Where records were lost it may be without being said. */
bool kernel_has_run(const struct kernel_side *kernel, pid_t pid);
void kernel_forget_running(struct kernel_side *kernel);

/* A process that has other system call filters than before, as the records say that were drained; 0: no more
 * of them. And does this kernel tell that of each thread, when it leaves its CPU? */
pid_t kernel_take_filtered(struct kernel_side *kernel);
bool kernel_tells_filters(const struct kernel_side *kernel);

/* The same of threads. */
bool kernel_thread_has_run(const struct kernel_side *kernel, uint32_t tid);
void kernel_forget_running_threads(struct kernel_side *kernel);

/* A descriptor for poll(2) that is readable while there are records, or, once kernel_sleep() was called, when
 * a thread begins to run. */
int kernel_poll_fd(const struct kernel_side *kernel);
void kernel_sleep(struct kernel_side *kernel, bool asleep);

/* System calls and waits that have not ended are told as they are now. Before the last drain. */
void kernel_tell_unfinished(struct kernel_side *kernel);

/* Families that are on now. */
uint32_t kernel_families(const struct kernel_side *kernel);

/* Switches families on and off, while it runs: what is on from then on is returned, because an old kernel may
 * not have taken the programs of all. */
uint32_t kernel_switch(struct kernel_side *kernel, uint32_t families);

/* Switches everything off for good: no program stays attached. */
void kernel_stop(struct kernel_side *kernel);

/* What was lost so far, by enum sonde_family and then SONDE_COUNT_*. What the kernel itself counts, as part
 * of SONDE_COUNT_MISSED_RUNS, may be some seconds old before the last drain. */
void kernel_losses(struct kernel_side *kernel, uint64_t ret_counts[static SONDE_KERNEL_COUNTS]);

/* By family; sys has what system calls cost for tcp too, sched what wakeup does. */
struct kernel_cost {
    uint64_t events[SONDE_FAMILY_COUNT];
    uint64_t runs[SONDE_FAMILY_COUNT];   /* of its programs, for threads that are not traced too */
    uint64_t run_ns[SONDE_FAMILY_COUNT]; /* what they took: some of the runs are timed, all are counted */
    uint64_t memory_bytes;
    uint64_t ring_bytes; /* of each CPU's ring */
    unsigned fullest;    /* that one of them was, in parts of 256 */
};
void kernel_cost(const struct kernel_side *kernel, struct kernel_cost *ret_cost);

#endif
