/* The bits of prev_state, from include/linux/sched.h and include/trace/events/sched.h of each series:
 *
 *            before 4.14: task->state as it is            from 4.14 on: one bit, of what is reported
 *     1, 2   TASK_INTERRUPTIBLE, TASK_UNINTERRUPTIBLE     the same
 *     4, 8   stopped, traced                              the same
 *     16, 32 exit states                                  the same (dead, zombie)
 *     64     TASK_DEAD                                    parked
 *     128    TASK_WAKEKILL (with 2: killable)             idle: a kernel thread without work
 *     256    TASK_WAKING                                  preempted
 *     512    TASK_PARKED from 3.9 on, else preempted
 *     1024   TASK_NOLOAD from 4.2 on (with 2: idle), from 3.9 on preempted
 *     2048   TASK_NEW from 4.8 on, from 4.2 on preempted
 *     4096   preempted from 4.8 on
 *
 * A tracer that copies task->state of a newer kernel shows several bits, or one above those of the right
 * column: 64 parked, 128 dead, 256 wakekill, 512 waking, 1024 noload, 2048 new, then flags that change
 * nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "states/task_state.h"

#include <stdbool.h>
#include <stdio.h>

enum {
    INTERRUPTIBLE = 1,
    UNINTERRUPTIBLE = 2,
    STOPPED = 4 | 8,
    EXITED = 16 | 32,
};

unsigned task_kernel(const char *release)
{
    unsigned major, minor;
    return release && sscanf(release, "%u.%u", &major, &minor) == 2 && major < 256 && minor < 256
               ? major << 8 | minor
               : 0;
}

static const char *state_of(int64_t state, int64_t dead, int64_t parked, int64_t noload)
{
    bool idle = (state & UNINTERRUPTIBLE) && (state & noload);
    return state & (dead | EXITED)   ? "ended"
           : state & STOPPED         ? "stopped"
           : idle                    ? "idle"
           : state & UNINTERRUPTIBLE ? "uninterruptible"
           : state & INTERRUPTIBLE   ? "blocked"
           : state & parked          ? "parked"
                                     : "preempted"; /* it could have gone on */
}

const char *task_state(unsigned kernel, int64_t state)
{
    if (kernel && kernel < 0x040e) {
        int64_t above = kernel < 0x0309 ? 512 : kernel < 0x0402 ? 1024 : kernel < 0x0408 ? 2048 : 4096;
        return state & above ? "preempted"
                             : state_of(state, 64, kernel < 0x0309 ? 0 : 512, kernel < 0x0402 ? 0 : 1024);
    }
    if (state == 256)
        return "preempted";
    if (state == 128)
        return "idle";
    return state_of(state, 128, 64, 1024);
}
