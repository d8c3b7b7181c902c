/* Slow commands as faults of requests: how they become findings. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_SLOW_COMMAND_H
#define TARGETS_REDIS_SLOW_COMMAND_H

#include "faults/faults.h"

extern const struct verdict REDIS_VERDICTS[]; /* ends with one without say() */

#endif
