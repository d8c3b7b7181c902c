/* The broker's side: it has the rights, and parses nothing that a target controls. A worker (worker.h) has
 * none; for its own targets it may have files of /proc, the files that they have mapped or could open
 * themselves, and their memory to read: a fixed table of questions, each checked here.
 *
 * Order: broker_new() before the first target is met, since workers are made from what the process was then
 * (a worker knows no other target's secrets); broker_work() for each piece of work, which finds the worker of
 * the target's domain of trust (its user and user namespace), or begins one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BROKER_BROKER_H
#define BROKER_BROKER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/macro.h"
#include "base/proc.h"
#include "broker/sandbox.h"
#include "broker/worker.h"

struct broker;

/* Forks the process that workers are made from. kind must outlive the broker. */
int broker_new(const struct worker_kind *kind, struct broker **ret_broker, struct problem *problem);
void broker_free(struct broker *broker);
DEFINE_FREEP(struct broker, broker_free)

/* A piece of work about a process, which becomes a target of its worker and is held as one. is_ending (may be
 * NULL): says that no time is left, asked now and then. *ret_result, malloc'ed, is what the worker says:
 * check it.
 *
 * -EPIPE when the worker died of it (another one is made next time), -ETIMEDOUT when it was too slow,
 * -EINTR; otherwise what the worker answered, with its words. */
int broker_work(struct broker *broker, struct proc *proc, const void *bytes, size_t length,
                bool (*is_ending)(void), void **ret_result, size_t *ret_length, struct problem *problem);

/* Has a function called again and again, every few milliseconds, while broker_work() waits for a worker; it
 * may not give the broker work. */
void broker_while_waiting(struct broker *broker, void (*while_waiting)(void *context), void *context);

/* The process is no target any more: it has ended, or executes another program. */
void broker_forget(struct broker *broker, const struct proc *proc);

/* The workers that there are, for who shows them: their number, and up to room process numbers and walls. */
struct broker_worker {
    pid_t pid;
    unsigned targets, questions, refused; /* refused: questions that were none of its business */
    struct sandbox_walls walls;
};
size_t broker_workers(const struct broker *broker, struct broker_worker *ret_workers, size_t room);

/* The CPU time of all workers so far, as they said at the end of each piece of work: for our own
 * account, not for anything that must be true of one that was taken over. */
uint64_t broker_cpu_ns(const struct broker *broker);

/* Answers one question of a worker about one of its targets (proc NULL: of none): a descriptor, 0 for
 * PROC_EXISTS, or a negative errno; -EPERM for everything that is not in the table. */
int broker_answer(const struct proc *proc, uint32_t question, const char *name, size_t length, uint64_t start,
                  uint64_t end);

/* A file by its path in the process's root for one who looks for code and its names, and should get no other
 * secrets: one that everybody may read; with the rights of the process's user a program, library or file of
 * debug information (ELF, but no core dump), or the map of generated code that the user has written
 * (/tmp/perf-PID.map). A descriptor or a negative errno. */
int broker_code_file(const struct proc *proc, const char *name, size_t length);

/* A file by its path as we see it, if everybody may read it. */
int broker_public_file(const char *path);

/* The file that it has mapped there, for the same: if it is code (for root; else whatever it is). */
int broker_code_mapped(const struct proc *proc, uint64_t start, uint64_t end);

#endif
