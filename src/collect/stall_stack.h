/* What a stalled thread's registers and stack say: the part of a look (stall.h) that reads the program's
 * files and memory. It runs in a worker without rights (stall_worker.c). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_STALL_STACK_H
#define COLLECT_STALL_STACK_H

#include <sys/user.h>

#include "collect/stall.h"
#include "unwind/native.h"

/* A runtime whose callbacks are looked into when they are open too long: `const struct stall_source
 * stall_source_NAME` in src/targets/NAME/stall.c. */
struct stall_source {
    /* What it must know of the process: mappings, layouts. -ENOENT, with words: the runtime is not in it. */
    int (*open)(pid_t pid, void **ret_state, struct problem *problem);
    /* The mappings may have changed since; negative: it is another process now. */
    int (*refresh)(void *state);
    void (*free)(void *state);
    /* Names the frames and judges them; see stall_reader_read(). */
    int (*read)(void *state, const struct user_regs_struct *registers, const struct stack_copy *copy,
                bool waiting, struct stall_report *report, struct problem *problem);
};

/* Keeps what it learnt of a few processes (mappings, layouts, symbols) from look to look. */
struct stall_reader;
int stall_reader_new(struct stall_reader **ret_reader);
void stall_reader_free(struct stall_reader *reader);

/* Reads the process's layout. 0, or why it cannot be done, in words. */
int stall_reader_prepare(struct stall_reader *reader, pid_t pid, struct problem *problem);

/* Names the frames and judges them. waiting: the thread is in a system call. Of the report the system call's
 * number and the times are left to the caller. */
int stall_reader_read(struct stall_reader *reader, pid_t pid, const struct user_regs_struct *registers,
                      const struct stack_copy *copy, bool waiting, struct stall_report *ret_report,
                      struct problem *problem);

/* Forgets a process that ended. */
void stall_reader_forget(struct stall_reader *reader, pid_t pid);

#endif
