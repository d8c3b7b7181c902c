/* What the targets add to the analysis, from the table in event/targets.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_TARGETS_H
#define TARGETS_TARGETS_H

#include "model/analyzer.h"

/* In the order of their numbers; ends with NULL. */
extern const struct analyzer *const TARGETS[];

/* That of a process of the runtime (enum sonde_runtime); NULL: none. */
const struct analyzer *target_analyzer(uint64_t runtime);

#endif
