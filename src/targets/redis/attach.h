/* Redis and Valkey as they are attached to: attach.c, attach_layout.c, attach_name.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_ATTACH_H
#define TARGETS_REDIS_ATTACH_H

#include "attach/target.h"

/* Indices of target.versions. */
enum {
    REDIS_VERSION,   /* 0xMMmmpp */
    REDIS_IS_VALKEY, /* 1: a Redis by its functions and structures, with version numbers of its own */
};

/* attach_name.c: by its port or socket, from its title, or else its arguments and its configuration. */
void redis_name(const struct target *target, const char *line, size_t length, struct target_names *names);

void redis_layout(struct target *target, enum sonde_context context, struct sonde_config *config);

#endif
