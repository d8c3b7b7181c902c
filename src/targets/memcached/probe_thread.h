/* What the hooks in memcached keep of a thread: see struct probe_thread in probe/probe.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_MEMCACHED_PROBE_THREAD_H
#define TARGETS_MEMCACHED_PROBE_THREAD_H

#define PROBE_LINE_memcached()

#define PROBE_THREAD_memcached()                                              \
    uint64_t cache_since_tsc; /* when the newest read, write or wait ended */ \
    uint32_t cache_fd;        /* whose commands it may be executing since then, plus 1; 0: none */

#endif
