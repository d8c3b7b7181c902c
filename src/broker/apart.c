/* See apart.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "broker/sandbox.h"

static _Noreturn void run_apart(const char *name, apart_fn *run, void *context, int socket, const int *keep,
                                int count)
{
    int kept[APART_KEEP + 1];
    sigset_t none;
    sigemptyset(&none);
    count = MIN(count, (int)APART_KEEP);
    if (count)
        memcpy(kept, keep, (size_t)count * sizeof(*keep));
    kept[count] = socket;
    sandbox_close_others(kept, count + 1);
    setsid();
    prctl(PR_SET_NAME, name, 0, 0, 0);
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    run(context, socket);
    _exit(0);
}

int apart_start(const char *name, apart_fn *run, void *context, int *ret_socket, struct problem *problem)
{
    return apart_start_keeping(name, run, context, NULL, 0, ret_socket, problem);
}

int apart_start_keeping(const char *name, apart_fn *run, void *context, const int *keep, int count,
                        int *ret_socket, struct problem *problem)
{
    int pair[2], status = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return problem_set(problem, -errno, "no process can be started (%s): %s", name, strerror(errno));
    /* No child of ours, but a grandchild: the children of a sonde are the programs that it runs. */
    pid_t pid = fork();
    if (pid == 0) {
        pid_t apart = fork();
        if (apart == 0)
            run_apart(name, run, context, pair[1], keep, count);
        _exit(apart < 0);
    }
    int error = pid < 0 ? errno : EAGAIN;
    close(pair[1]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
        close(pair[0]);
        return problem_set(problem, -error, "no process can be started (%s): %s", name, strerror(error));
    }
    *ret_socket = pair[0];
    return 0;
}

/* Without the group's, 80 ms of a worker's work took up to 4.5 s beside 18 busy programs (Linux 6.18). */
void apart_go_first(void)
{
    static const char NICE[] = "-10";
    if (setpriority(PRIO_PROCESS, 0, -10) < 0)
        return;
    _cleanup_(file_closep) int group = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
    if (group >= 0 && write(group, NICE, sizeof(NICE) - 1) < 0)
        return; /* it goes first among its own, then */
}
