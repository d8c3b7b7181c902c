/* `sonde trace states`, called by cmd_trace.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRACE_STATES_H
#define CLI_TRACE_STATES_H

#include "cli/cli.h"

/* argv[0] is "states". Returns an exit status. */
int trace_states(const struct command *self, int argc, char **argv);

#endif
