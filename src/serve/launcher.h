/* The process that starts the operator's command. The one that reads what the network sends has no right to
 * start anything (cli/confine.h): it can only ask this one, which was forked before, for exactly that
 * command, and no more often than was allowed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_LAUNCHER_H
#define SERVE_LAUNCHER_H

#include "serve/action.h"

/* Forks it, if there is a command. Once in a process, before the first action_run(). 0 or a negative errno
 * with problem set. */
int launcher_start(const struct action_settings *settings, struct problem *problem);

/* Has the command run, if that is not too often, and waits for its end; evidence: a file that is its standard
 * input; variables: `length` bytes of "SONDE_NAME=value", each with its end, for its environment. *ret_status
 * is as waitpid(2)'s. A negative errno when it could not be started. */
int launcher_run(int evidence, const char *variables, size_t length, enum action_outcome *ret_outcome,
                 int *ret_status);

#endif
