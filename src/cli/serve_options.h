/* The options of `sonde serve`. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SERVE_OPTIONS_H
#define CLI_SERVE_OPTIONS_H

#include "cli/cli.h"
#include "cli/diagnose_options.h"
#include "serve/action.h"
#include "serve/notify.h"

#define SERVE_HOSTS_MAX   16
#define SERVE_SOURCES_MAX 64

struct serve_options {
    struct diagnose_options common;
    const char *listen, *grpc, *folder, *token_file, *send_token_file, *clickhouse;
    bool no_store;
    double keep_gb, keep_days, store_gb, look_s, idle_s;
    unsigned connections_max;
    struct notifier notifier;
    struct action_settings action;
    double every_s;
    const char *hosts[SERVE_HOSTS_MAX + 1]; /* ends with NULL */
    size_t host_count;
    bool no_keep;
    char **paths;
    size_t path_count;
};

extern const char SERVE_HELP[], SERVE_EXAMPLES[];
extern const struct option_group SERVE_OPTIONS[];

/* Takes the command line. -1 to go on, else the exit status, as options_parse() has it. */
int serve_options_parse(const struct command *self, int argc, char **argv, struct serve_options *options);

#endif
