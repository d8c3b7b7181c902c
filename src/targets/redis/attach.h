/* Redis and Valkey as they are attached to: attach.c, attach_layout.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_ATTACH_H
#define TARGETS_REDIS_ATTACH_H

#include "attach/target.h"

/* Indices of target.versions. */
enum {
    REDIS_VERSION,   /* 0xMMmmpp */
    REDIS_IS_VALKEY, /* 1: a Redis by its functions and structures, with version numbers of its own */
};

void redis_layout(struct target *target, enum sonde_context context, struct sonde_config *config);

#endif
