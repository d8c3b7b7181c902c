/* How much is recorded: three levels, each with the families of events that belong to it. The tables are
 * event/families.h and event/kernel.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_LEVEL_H
#define COLLECT_LEVEL_H

#include <stdint.h>

#include "base/problem.h"
#include "event/families.h"

/* "requests", "usual" or "everything". -EINVAL with the problem. */
int level_parse(const char *name, enum sonde_level *ret_level, struct problem *problem);

const char *level_name(enum sonde_level level);

/* The kernel's families of a level, bits by enum sonde_family; and those of the probe that are left out, bits
 * by enum sonde_probe_family. */
uint32_t level_kernel_families(enum sonde_level level);
uint32_t level_families_off(enum sonde_level level);

#endif
