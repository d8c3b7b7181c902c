/* See glance.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/glance.h"

#include "base/clock.h"
#include "base/macro.h"

/* They are looked into when one is not very short, or when the thread is busy for a good part of the time: at
 * each tick at first, since a request that is served in callbacks of a fraction of a millisecond may take no
 * more than some tens of milliseconds, and five times a second when it goes on. A look stops the thread for
 * some 30 us, and takes half a millisecond to a whole one of ours. */
static const uint64_t AGE_NS = 2 * NS_PER_MS, EACH_NS = 200 * NS_PER_MS;
enum { BURST = 64 };
/* One that waits for a CPU stands where it was taken off, which tells nothing. */
static const uint64_t RUN_NS = NS_PER_MS / 2;
static const double LOAD = 0.4;

void glance_weigh(struct glance *glance, uint64_t run_ns, uint64_t wait_ns, uint64_t now_ns)
{
    uint64_t ran_ns = run_ns - glance->run_ns, waited_ns = wait_ns - glance->wait_ns,
             elapsed_ns = now_ns - glance->read_ns;
    glance->running = ran_ns >= RUN_NS;
    if (glance->read_ns && elapsed_ns > waited_ns)
        glance->load += (MIN((double)ran_ns / (double)(elapsed_ns - waited_ns), 1.0) - glance->load) / 2;
    glance->read_ns = now_ns;
    glance->run_ns = run_ns;
    glance->wait_ns = wait_ns;
}

bool glance_is_due(struct glance *glance, uint64_t since_ns, uint64_t now_ns)
{
    bool is_short = now_ns - MIN(since_ns, now_ns) < AGE_NS;
    if (!glance->running || glance->paid_ns > now_ns + (BURST - 1) * EACH_NS ||
        (is_short && glance->load < LOAD))
        return false;
    glance->paid_ns = MAX(glance->paid_ns, now_ns) + EACH_NS;
    return true;
}
