/* States of threads, CPUs and Redis connections, as a streaming pass. It reads sonde's own traces and
 * any kernel trace with the events of Linux (LTTng, perf converted to CTF). The attributes, below the host's
 * name when the trace has several hosts:
 *
 *   Threads/TID/State         "running", "runnable" (woken, waits for a CPU), "preempted", "blocked",
 *                             "uninterruptible", "idle" (a kernel thread), "stopped", "parked", "ended",
 *                             "switching" (on and off a CPU, each time off too short for a record)
 *   Threads/TID/System call   its name while in it
 *   Threads/TID/Name          as the scheduler knows it
 *   Threads/TID/Waker         while runnable: what woke it: a thread's number, "irq N", "softirq NAME", or in
 *                             sonde's own traces "interrupt", "unknown"
 *   Threads/TID/Priority      the kernel's: 120 is that of nice 0, below 100 is real time
 *   Threads/TID/Process       number of its process; .../Parent: of the process that started it
 *   Processors/N/Thread       the thread that runs there, 0 for none
 *   Processors/N/System call  while it is in one; so .../IRQ and .../Softirq
 *   Processors/N/Frequency    in kHz
 *   IRQs/N/Processors         how many handle it; .../Name: the device. Softirqs/NAME/Processors
 *   Disks/MAJOR:MINOR/Waiting requests in the queue; .../In flight: at the device; .../Name
 *   Redis/PID/Connections/CLIENT/Command    the command that executes for this connection, and much more
 *                             of connections, requests, threads, loop and bus (targets/redis/states.c)
 *   Node/PID/Loops/TID/Phase  "timers", "pending", "idle", "prepare", "poll", "check", "closing"
 *   Node/PID/Loops/TID/Ready  during a poll: callbacks of streams, the pool and ports that were ready in it
 *   Node/PID/Thread pool/Operations    in the pool, waiting or at work
 *   Node/PID/Thread pool/Done          done, and not taken by the loop
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATES_STATES_H
#define STATES_STATES_H

#include "states/emit.h"
#include "trace/pass.h"

struct states;

/* emit and trace (for the hosts' names; NULL: one host) are borrowed. 0 or -ENOMEM. */
int states_new(struct emit *emit, const struct trace *trace, struct states **ret_states);
void states_free(struct states *states);
DEFINE_FREEP(struct states, states_free)

/* The pass, to be run beside others. */
struct pass states_pass(struct states *states);

#endif
