/* manifest.json in a recording's directory, as whoever reads a recording finds it; collect/manifest.c writes
 * it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_MANIFEST_H
#define TRACE_MANIFEST_H

#include <jansson.h>
#include <stdbool.h>

/* Whether the directory has one: sonde recorded it. */
bool manifest_exists(const char *folder);

/* 0; -EBADMSG: it is damaged; another negative errno: it cannot be read, -ENOENT where there is none. The
 * caller releases *ret_manifest. */
int manifest_read(const char *folder, json_t **ret_manifest);

#endif
