/* The model as one JSON object a server, for `sonde redis --json`. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_SUMMARY_H
#define TARGETS_REDIS_SUMMARY_H

#include <jansson.h>

#include "targets/redis/model.h"

/* An array with one object for each server, a new reference; NULL when memory is exhausted. */
json_t *redis_summary_json(const struct redis_model *model);

#endif
