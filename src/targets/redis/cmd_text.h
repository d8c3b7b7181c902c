/* What `sonde redis` prints of a recording: findings, then each server's commands, callers, event loop,
 * threads and volume. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_CMD_TEXT_H
#define TARGETS_REDIS_CMD_TEXT_H

#include "finding/prose.h"
#include "targets/redis/model.h"

/* The whole to stdout. Sorts the model's commands and callers. */
void redis_print(struct redis_model *model, const struct report *report);

/* "config|set" as people write it: "CONFIG SET"; cut to size - 1 bytes. */
void redis_say_command(const char *name, char *to, size_t size);

#endif
