/* What Linux's scheduler says about a thread that leaves its CPU: sched_switch's prev_state, whose bits
 * mean other things in other kernels. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATES_TASK_STATE_H
#define STATES_TASK_STATE_H

#include <stdint.h>

/* "4.14.2-foo" is 0x040e; 0 for NULL and for what is no kernel's release. */
unsigned task_kernel(const char *release);

/* "preempted", "blocked", "uninterruptible", "idle", "stopped", "parked" or "ended". kernel: as task_kernel()
 * returns it; 0, unknown, is read as a current one. */
const char *task_state(unsigned kernel, int64_t prev_state);

#endif
