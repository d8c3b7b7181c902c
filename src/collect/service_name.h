/* What people call a Node.js program: as its process manager or its own package does, else by its script. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_SERVICE_NAME_H
#define COLLECT_SERVICE_NAME_H

#include "base/proc.h"

/* OTEL_SERVICE_NAME or pm2's name from its environment; or that of the script, where that is a word of its
 * own; or the package's that an index.js or dist/main.js belongs to, or its folder's. NULL: there is no
 * script, or no memory. The caller frees it. */
char *service_name(const struct proc *proc, const char *script);

#endif
