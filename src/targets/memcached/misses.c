/* See misses.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/memcached/misses.h"

/* A window is a storm's when at least half of its keys are missed, and this much more of them than usual,
 * which must be known from so many keys. */
enum { WINDOW_KEYS = 1000, USUAL_KEYS = 2000 };
static const double LEAST_SHARE = 0.5, MORE_SHARE = 0.3;

static void count(struct memcached_keys *to, const struct memcached_keys *window)
{
    if (!to->asked)
        to->from_ns = window->from_ns;
    to->to_ns = window->to_ns;
    to->asked += window->asked;
    to->missed += window->missed;
}

static void window_full(struct memcached_misses *m)
{
    double share = memcached_missed_share(&m->window);
    m->raging = m->usual.asked >= USUAL_KEYS && share >= LEAST_SHARE &&
                share >= memcached_missed_share(&m->usual) + MORE_SHARE;
    if (m->raging && !m->storm.asked && m->last_flush_ns >= m->usual.from_ns)
        m->flushed_ns = m->last_flush_ns;
    count(m->raging ? &m->storm : &m->usual, &m->window);
    m->window = (struct memcached_keys){0};
}

void memcached_misses_add(struct memcached_misses *m, uint64_t now_ns, uint64_t asked, uint64_t missed)
{
    if (!asked)
        return;
    count(&m->window, &(struct memcached_keys){asked, missed < asked ? missed : asked, now_ns, now_ns});
    if (m->window.asked >= WINDOW_KEYS)
        window_full(m);
}

void memcached_misses_flush(struct memcached_misses *m, uint64_t now_ns)
{
    m->last_flush_ns = now_ns;
}
