/* `sonde detach`: takes out of a process what a sonde that was killed has left in it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "collect/session.h"

static int detach(pid_t pid)
{
    struct problem problem = {0};
    unsigned hooks;
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    int r = cli_open_process(pid, &proc);
    if (r != EXIT_DONE)
        return r;
    r = session_disarm(proc, &hooks, &problem);
    if (r == -EPERM || r == -EACCES)
        return cli_fail(EXIT_PERMISSION, &problem);
    if (r < 0)
        return cli_fail(EXIT_FAILED, &problem);
    if (hooks)
        printf("process %d: %u hook%s taken out\n", pid, hooks, hooks == 1 ? "" : "s");
    else
        printf("process %d: no hook of a sonde is in it\n", pid);
    return EXIT_DONE;
}

static int run(const struct command *self, int argc, char **argv)
{
    static const struct option LONG[] = {{"help", no_argument, NULL, 'h'}, {0}};
    int result = EXIT_DONE;
    optind = 0;
    for (int c; (c = getopt_long(argc, argv, "h", LONG, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(self);
        return cli_usage(self, "unknown option %s", argv[optind - 1]);
    }
    if (optind == argc)
        return cli_usage(self, "which processes? Give PIDs");
    for (; optind < argc; optind++) {
        char *end;
        long pid = strtol(argv[optind], &end, 10);
        if (*end || pid <= 0)
            return cli_usage(self, "'%s' is not a process number", argv[optind]);
        int r = detach((pid_t)pid);
        result = r == EXIT_DONE ? result : r;
    }
    return result;
}

const struct command command_detach = {
    "detach",
    "PID...",
    "Take out of processes what a killed sonde has left in them",
    "A sonde that ends puts every byte back, also after Ctrl-C. One that was killed (kill -9, want of "
    "memory)\n"
    "cannot: its hooks stay in place and pass through, until another sonde attaches, or this command takes "
    "them "
    "out.\n"
    "It needs nothing of the sonde that left them, also when that was of another version. Processes that a "
    "living\n"
    "sonde traces are left alone: end that sonde.\n\n"
    "Examples:\n"
    "  sonde detach 4711\n"
    "  sonde detach $(pgrep -x redis-server)\n",
    run,
};
