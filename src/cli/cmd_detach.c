/* `sonde detach`: takes out of a process what a sonde that was killed has left in it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "observe/observe.h"

static int detach(pid_t pid)
{
    struct problem problem = {0};
    unsigned hooks;
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    int r = cli_open_process(pid, &proc);
    if (r != EXIT_DONE)
        return r;
    r = observe_clean(proc, &hooks, &problem);
    if (r == -EPERM || r == -EACCES)
        return cli_fail(EXIT_PERMISSION, &problem);
    if (r < 0)
        return cli_fail(EXIT_FAILED, &problem);
    if (hooks)
        printf("process %d: %u hook%s removed\n", pid, hooks, hooks == 1 ? "" : "s");
    else
        printf("process %d: it contains no hooks\n", pid);
    return EXIT_DONE;
}

static int run(const struct command *self, int argc, char **argv)
{
    int first, result = options_parse(self, argc, argv, NULL, &first);
    if (result >= 0)
        return result;
    if (first == argc)
        return cli_usage(self, "missing process number (PID)");
    result = EXIT_DONE;
    for (; first < argc; first++) {
        char *end;
        long pid = strtol(argv[first], &end, 10);
        if (*end || pid <= 0)
            return cli_usage(self, "invalid process number '%s'", argv[first]);
        int r = detach((pid_t)pid);
        result = r == EXIT_DONE ? result : r;
    }
    return result;
}

static const struct option_group GROUPS[] = {{NULL, 0}};

const struct command command_detach = {
    .name = "detach",
    .arguments = "PID...",
    .summary = "Remove what a killed sonde left in processes",
    .help =
        "A sonde that ends restores every byte, also after Ctrl-C. One that was killed (kill -9, out of "
        "memory)\n"
        "cannot: its hooks stay in place and pass through until another sonde attaches or this command\n"
        "removes them. It needs nothing from the sonde that left them, even if that was another version.\n"
        "Processes that a living sonde traces are left alone: end that sonde instead.\n",
    .options = GROUPS,
    .examples = "  sonde detach 4711\n"
                "  sonde detach $(pgrep -x redis-server)\n",
    .run = run,
};
