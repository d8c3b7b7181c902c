/* `sonde redis --remote`: what a server says of itself to a client, for servers on other hosts and for who
 * may not attach to them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_CMD_REMOTE_H
#define TARGETS_REDIS_CMD_REMOTE_H

#include <stdbool.h>

#include "cli/options.h"

struct redis_remote_options {
    bool remote;
    bool tls;
    const char *authorities, *certificate, *private_key; /* PEM files; NULL: none */
    const char *user, *password_file;                    /* NULL: none */
};

/* --remote and what belongs to it, into struct redis_remote_options. */
extern const struct option_row redis_remote_rows[];

/* Asks HOST[:PORT] twice, seconds apart, and prints the difference and what was found. Returns the exit
 * status. */
int redis_remote_run(const struct command *self, const struct redis_remote_options *options,
                     const char *address, double seconds, bool json);

#endif
