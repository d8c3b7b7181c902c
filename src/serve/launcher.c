/* See launcher.h. A request is a message of broker/protocol.h whose bytes are the variables and whose
 * descriptor is the evidence; in the answer `start` is the outcome and `end` the status. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/launcher.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/macro.h"
#include "broker/apart.h"
#include "broker/protocol.h"

#define HOUR_NS (3600 * NS_PER_S)

extern char **environ;

struct launcher {
    const char *command;
    unsigned per_hour;
    double timeout_s;
    bool dry_run;
    uint64_t runs_ns[16]; /* times of the last runs, CLOCK_MONOTONIC; a ring */
    unsigned next;
};

static int socket_to_launcher = -1;

/* ---- in the launcher ---- */

static bool is_too_often(struct launcher *launcher, uint64_t now_ns)
{
    unsigned most = MIN(launcher->per_hour, (unsigned)ARRAY_SIZE(launcher->runs_ns)), lately = 0;
    for (size_t i = 0; i < ARRAY_SIZE(launcher->runs_ns); i++)
        lately += launcher->runs_ns[i] && now_ns - launcher->runs_ns[i] < HOUR_NS;
    if (lately >= most)
        return true;
    launcher->runs_ns[launcher->next++ % ARRAY_SIZE(launcher->runs_ns)] = MAX(now_ns, UINT64_C(1));
    return false;
}

typedef ARRAY(char *) strings;

/* The variables, which may be ours only, and then the environment as it was. They are not copied. */
static int make_environment(char *variables, size_t length, strings *ret_list)
{
    for (size_t at = 0; at < length; at += strlen(variables + at) + 1)
        if (variables[length - 1] || strncmp(variables + at, "SONDE_", 6) != 0 ||
            !strchr(variables + at, '='))
            return -EINVAL;
        else if (array_add(ret_list, variables + at) < 0)
            return -ENOMEM;
    for (char **one = environ; *one; one++)
        if (array_add(ret_list, *one) < 0)
            return -ENOMEM;
    return array_add(ret_list, NULL);
}

static int start(const char *command, int evidence, char *variables, size_t length, pid_t *ret_pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    strings environment = {0};
    char shell[] = "/bin/sh", flag[] = "-c", *arguments[] = {shell, flag, (char *)(uintptr_t)command, NULL};
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, evidence, STDIN_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    int r = make_environment(variables, length, &environment);
    if (r >= 0)
        r = -posix_spawn(ret_pid, arguments[0], &files, &attributes, arguments, environment.at);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    array_done(&environment);
    return r;
}

/* Waits for the process; kills it and its children when its time is over. */
static enum action_outcome await(pid_t pid, double timeout_s, int *ret_status)
{
    _cleanup_(file_closep) int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    bool late = fd >= 0 && poll(&poller, 1, (int)(timeout_s * 1000)) == 0;
    if (late)
        kill(-pid, SIGKILL);
    while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
        continue;
    return late                                                      ? ACTION_TIMED_OUT
           : WIFEXITED(*ret_status) && WEXITSTATUS(*ret_status) == 0 ? ACTION_DONE
                                                                     : ACTION_FAILED;
}

static int launch(struct launcher *launcher, int evidence, char *variables, size_t length,
                  enum action_outcome *ret_outcome, int *ret_status)
{
    pid_t pid;
    if (is_too_often(launcher, clock_monotonic_ns())) {
        *ret_outcome = ACTION_TOO_OFTEN;
        return 0;
    }
    if (launcher->dry_run) {
        *ret_outcome = ACTION_DRY;
        return 0;
    }
    int r = evidence < 0 ? -EBADF : start(launcher->command, evidence, variables, length, &pid);
    if (r == 0)
        *ret_outcome = await(pid, launcher->timeout_s, ret_status);
    return r;
}

static void run_launcher(void *context, int socket)
{
    static char variables[BROKER_BYTES_MAX];
    for (struct broker_head asked;;) {
        _cleanup_(file_closep) int evidence = -1;
        ptrdiff_t n = broker_receive(socket, &asked, variables, sizeof(variables), &evidence);
        if (n < 0)
            return;
        enum action_outcome outcome = ACTION_FAILED;
        int status = 0, r = launch(context, evidence, variables, (size_t)n, &outcome, &status);
        const struct broker_head head = {
            .verb = BROKER_ANSWER, .result = r, .start = outcome, .end = (uint64_t)(unsigned)status};
        if (broker_send(socket, head, NULL, 0, -1) < 0)
            return;
    }
}

/* ---- in the one that asks ---- */

int launcher_start(const struct action_settings *settings, struct problem *problem)
{
    struct launcher launcher = {.command = settings->command,
                                .dry_run = settings->dry_run,
                                .per_hour = settings->per_hour ? settings->per_hour : ACTION_PER_HOUR,
                                .timeout_s =
                                    settings->timeout_s > 0 ? settings->timeout_s : ACTION_TIMEOUT_S};
    if (!settings->command)
        return 0;
    return apart_start("sonde:launcher", run_launcher, &launcher, &socket_to_launcher, problem);
}

int launcher_run(int evidence, const char *variables, size_t length, enum action_outcome *ret_outcome,
                 int *ret_status)
{
    struct broker_head head = {.verb = BROKER_WORK};
    if (socket_to_launcher < 0)
        return -ENOTCONN;
    int r = broker_send(socket_to_launcher, head, variables, length, evidence);
    if (r < 0)
        return r;
    if (broker_receive(socket_to_launcher, &head, NULL, 0, NULL) < 0 || head.verb != BROKER_ANSWER ||
        head.start > ACTION_TOO_OFTEN)
        return -EPIPE;
    *ret_outcome = (enum action_outcome)head.start;
    *ret_status = (int)head.end;
    return head.result;
}
