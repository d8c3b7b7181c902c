/* What the probe must know of Memcached: see event/config.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_MEMCACHED_CONFIG_H
#define TARGETS_MEMCACHED_CONFIG_H

#define SONDE_OFFSETS_memcached(O)
#define SONDE_WORDS_memcached(W)
#define SONDE_FUNCTIONS_memcached(A) A(memcached, ssl_get_fd, "int (SSL *)")

#endif
