/* `sonde redis --netflow`: the way of each request through a cluster, from the recordings of its nodes and
 * clients. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_CMD_NETFLOW_H
#define TARGETS_REDIS_CMD_NETFLOW_H

#include "cli/reading.h"

/* Reads the folder twice: once for the hosts' clocks, once for the stages. Returns the exit status. */
int redis_netflow_run(const struct reading_options *options);

#endif
