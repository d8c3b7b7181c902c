/* The model as one JSON object a server, for `sonde memcached --json`. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_MEMCACHED_SUMMARY_H
#define TARGETS_MEMCACHED_SUMMARY_H

#include <jansson.h>

#include "targets/memcached/model.h"

/* An array with one object for each server, a new reference; NULL when memory is exhausted. */
json_t *memcached_summary_json(const struct memcached_model *model);

#endif
