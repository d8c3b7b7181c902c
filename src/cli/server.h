/* A server that runs on this host, named by its port or its PID, as `sonde redis` and `sonde memcached` take
 * it: found, attached to, recorded until Ctrl-C or for some time, and left as it was. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SERVER_H
#define CLI_SERVER_H

#include <stdbool.h>

#include "base/proc.h"
#include "cli/cli.h"
#include "cli/recording.h"

/* Whether the operand means a server; a directory of that name comes first. */
bool server_is_meant(const char *operand);

/* ":6379" is a port, "pid:4711" a process; "6379" is a port when somebody listens on it, else a process.
 * EXIT_DONE with *ret_proc, which the caller owns, or an exit status once it was said why. */
int server_find(const struct command *self, const char *said, struct proc **ret_proc);

/* Records it. seconds: 0 until Ctrl-C. The exit status of the recording; where there is something to report,
 * *ret_folder, which the caller owns, and which is then all that may be read. */
int server_record(const struct command *self, struct recording *recording, struct proc *server,
                  double seconds, char **ret_folder);

#endif
