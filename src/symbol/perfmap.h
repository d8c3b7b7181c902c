/* perf-PID.map files: how just-in-time compilers tell profilers the names of their code. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYMBOL_PERFMAP_H
#define SYMBOL_PERFMAP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macro.h"

struct perfmap;

/* Lines of "START SIZE NAME", numbers in hexadecimal. Lines that are none are passed over; where ranges
 * overlap, the later line wins. Takes over data. */
int perfmap_parse(char *data, size_t length, struct perfmap **ret_map);

/* Reads the file of a process, in its own file system and under its number there. -ENOENT when there is none.
 */
int perfmap_read(pid_t pid, struct perfmap **ret_map);
void perfmap_free(struct perfmap *map);
DEFINE_FREEP(struct perfmap, perfmap_free)

/* The name of the code at an address, borrowed; NULL when none is known. */
const char *perfmap_find(const struct perfmap *map, uint64_t address);
size_t perfmap_count(const struct perfmap *map);

#endif
