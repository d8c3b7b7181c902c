/* When far more of the keys that a cache is asked for are missing than usual: after a flush, a restart, when
 * it throws away what is needed, or when somebody asks for what nobody stores. Counted in windows of a number
 * of keys, so that it does not depend on how busy the server is. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_MEMCACHED_MISSES_H
#define TARGETS_MEMCACHED_MISSES_H

#include <stdbool.h>
#include <stdint.h>

struct memcached_keys {
    uint64_t asked, missed;
    uint64_t from_ns, to_ns;
};

/* Zero-initialise to use. */
struct memcached_misses {
    struct memcached_keys window; /* the newest, which is not full yet */
    struct memcached_keys usual;  /* of all windows as usual */
    struct memcached_keys storm;  /* of all in which more were missed */
    bool raging;                  /* the newest full window is one of the storm's */
    uint64_t flushed_ns;          /* when flush_all was executed, the newest before the storm; 0: never */
    uint64_t last_flush_ns;
};

/* Keys that were asked for until now_ns, and how many of them were not there. */
void memcached_misses_add(struct memcached_misses *m, uint64_t now_ns, uint64_t asked, uint64_t missed);
/* flush_all was executed. */
void memcached_misses_flush(struct memcached_misses *m, uint64_t now_ns);

static inline double memcached_missed_share(const struct memcached_keys *keys)
{
    return keys->asked ? (double)keys->missed / (double)keys->asked : 0;
}

#endif
