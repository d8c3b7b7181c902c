/* Span files among the paths that `sonde serve` shows: their requests are compared in the view of
 * regressions, together with those that are received. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_SPAN_PATHS_H
#define SERVE_SPAN_PATHS_H

#include <stdbool.h>

#include "diagnose/diagnosis.h"

/* JSON and Parquet are known by their content; CSV by its name, since a profile may have commas too. */
bool span_path(const char *path);

/* Reads all that are span files into the diagnosis, before anything is received. 0, or a negative errno with
 * words; the first file that cannot be read ends it. */
int span_paths_read(const char *const *paths, size_t count, struct diagnosis *diagnosis,
                    struct problem *problem);

#endif
