/* The states of a kernel trace as tracks for Perfetto: CPUs with the threads that run there, threads
 * with their states and system calls, arrows from who wakes to who is woken, interrupts, frequencies, disks.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CONVERT_STATES_H
#define CLI_CONVERT_STATES_H

#include "history/history.h"
#include "trace/perfetto.h"

/* Writes what a history of the trace's states holds (states/states.h), of hosts that sonde did not record:
 * those have spans. 0 or a negative errno. */
int convert_states(struct history *states, const struct trace *trace, struct perfetto *writer,
                   struct problem *problem);

#endif
