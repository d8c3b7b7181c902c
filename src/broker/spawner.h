/* A process with rights that does nothing but fork workers without, for a lender (lender.h), which has no
 * right to fork. Each worker has two sockets: one over which it is given work, by who samples, and one over
 * which it asks, the lender. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BROKER_SPAWNER_H
#define BROKER_SPAWNER_H

#include <sys/types.h>

#include "base/problem.h"
#include "broker/worker.h"

/* Forks it, before anything foreign is read; kind must outlive it. It ends with the socket, and its workers
 * end with it. */
int spawner_start(const struct worker_kind *kind, int *ret_spawner, struct problem *problem);

/* A worker: its number as a process, and our ends of its sockets, which do not block. A negative errno. */
int spawner_new_worker(int spawner, pid_t *ret_pid, int *ret_work, int *ret_questions);

/* Kills one of its workers, which may hang. */
void spawner_end_worker(int spawner, pid_t pid);

#endif
