/* See kernel_wakers.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/kernel_wakers.h"

#include "base/clock.h"
#include "base/macro.h"

/* Of one CPU: a third of a percent of it, at some 115 ns each. Below half of them they are followed again. */
enum { WAKEUPS_A_SECOND = 30000 };

/* Waits for locks that take a hundredth of the time are of interest all the time: a collection of garbage,
 * whose threads wait for each other for a few milliseconds now and then, does not make the host pay for ten
 * seconds. */
enum { KEPT_TIMES = 100 };

/* How long after the last wait for a lock at most; and how long a wait may take. A program whose first thread
 * only waits for the others to end does so in such a call, too. */
static const uint64_t KEPT_NS = 10 * NS_PER_S, FOR_GOOD_NS = 60 * NS_PER_S;

void kernel_wakers_cost(struct kernel_wakers *wakers, uint64_t runs, uint64_t passed_ns, bool followed)
{
    /* There are about as many switches as wakeups. */
    double wakeups = (double)runs * NS_PER_S / (double)(passed_ns ? passed_ns : 1) / (followed ? 2 : 1);
    wakers->costly = wakeups > (wakers->costly ? WAKEUPS_A_SECOND / 2 : WAKEUPS_A_SECOND);
}

bool kernel_wakers_look(struct kernel_wakers *wakers, const volatile uint64_t since_ns[SONDE_LOCK_PLACES],
                        uint64_t waited_ns, uint64_t now_ns)
{
    for (uint32_t i = 0; i < SONDE_LOCK_PLACES; i++) {
        uint64_t since = since_ns[i], waits_ns = since && now_ns > since ? now_ns - since : 0;
        if (waits_ns >= SONDE_LOCK_NS && waits_ns < FOR_GOOD_NS)
            waited_ns = MAX(waited_ns, waits_ns);
    }
    uint64_t kept_ns = MIN(waited_ns, KEPT_NS / KEPT_TIMES) * KEPT_TIMES;
    if (kept_ns)
        wakers->locks_until_ns = MAX(wakers->locks_until_ns, now_ns + kept_ns);
    return !wakers->costly || now_ns < wakers->locks_until_ns;
}
