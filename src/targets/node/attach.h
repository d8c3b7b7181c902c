/* Node.js as it is attached to: attach.c, attach_layout.c, attach_name.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_ATTACH_H
#define TARGETS_NODE_ATTACH_H

#include "attach/target.h"

/* Indices of target.versions. */
enum {
    NODE_UV, /* of libuv, 0xMMmmpp; 0: not known */
    NODE_V8, /* of V8, 0xMMmm00; 0: not known */
};

enum { UV_1_24 = 0x11800, V8_9_5 = 0x90500, V8_10_2 = 0xa0200, V8_11_0 = 0xb0000, V8_13_0 = 0xd0000 };
/* What comes after the newest V8 that this was tried with: Node 26 has 14.6. */
enum { V8_NEWER = 0xe0700 };

void node_layout(struct target *target, enum sonde_context context, struct sonde_config *config);

/* Whether this build has a hook that sees each callback scope with its async id. Without one contexts cannot
 * begin. */
bool node_tells_scopes(struct target *target);

/* What to do about a build that lacks something. */
const char *node_other_build(const struct target *target);

/* The symbols of what a port's uv_async_t calls, a lambda in its constructor; NULL after the last. */
extern const char *const NODE_PORT_CALLED[];

/* What people call the program: OTEL_SERVICE_NAME or pm2's name from its environment; or that of the script,
 * where that is a word of its own; or the package's that an index.js or dist/main.js belongs to, or its
 * directory's. NULL: there is no script, or no memory. The caller frees it. */
char *node_service_name(const struct proc *proc, const char *script);

/* The script among the program's arguments; NULL when there is none. */
const char *node_find_script(const struct proc *proc, const char *line, size_t length);

#endif
