/* The counters that a Java virtual machine keeps for jstat, read from its memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_HOTSPOT_UNWIND_COUNTERS_H
#define TARGETS_HOTSPOT_UNWIND_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

/* Where the value of a counter of 64 bits lies, as an offset in the counters' memory, of which bytes is a
 * copy. 0: there is none of that name (yet). */
size_t hotspot_counter(const uint8_t *bytes, size_t size, const char *name);

#endif
