/* See spawner.h. The messages are those of protocol.h: WORK asks for a worker, DROP ends one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "broker/apart.h"
#include "broker/fetcher.h"
#include "broker/protocol.h"
#include "broker/sandbox.h"

struct spawned {
    pid_t pid;
    int pidfd;
};
typedef ARRAY(struct spawned) spawned_list;

static void close_pair(const int pair[2])
{
    close(pair[0]);
    close(pair[1]);
}

/* A pair of sockets whose first end does not block: its owner waits for nobody. */
static int new_pair(int ret_pair[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_pair) < 0)
        return -errno;
    if (fcntl(ret_pair[0], F_SETFL, O_RDWR | O_NONBLOCK) == 0)
        return 0;
    int r = -errno;
    close_pair(ret_pair);
    return r;
}

/* Who asks debuginfod servers for one worker asks for no other: an answer is meant for who has asked. */
static int new_fetcher(void)
{
    signal(SIGCHLD, SIG_DFL); /* it is waited for on its way */
    int fetcher = fetcher_start(NULL) < 0 ? -1 : fetcher_socket();
    signal(SIGCHLD, SIG_IGN);
    return fetcher;
}

/* A negative errno, or 0 and the worker. */
static int fork_worker(const struct worker_kind *kind, int work, int questions, struct spawned *ret_spawned)
{
    int fetcher = new_fetcher();
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGCHLD, SIG_DFL);
        worker_run_lent(kind, work, questions, fetcher);
    }
    int r = pid < 0 ? -errno : 0;
    if (fetcher >= 0)
        close(fetcher);
    if (r == 0)
        *ret_spawned = (struct spawned){pid, (int)syscall(SYS_pidfd_open, pid, 0)};
    return r;
}

static int spawn(const struct worker_kind *kind, int socket, spawned_list *list)
{
    int work[2], questions[2];
    struct spawned spawned = {0, -1};
    int r = new_pair(work);
    if (r < 0)
        return broker_send(socket, (struct broker_head){.verb = BROKER_ANSWER, .result = r}, NULL, 0, -1);
    r = new_pair(questions);
    if (r == 0) {
        r = fork_worker(kind, work[1], questions[1], &spawned);
        if (r == 0 && array_add(list, spawned) < 0)
            r = -ENOMEM; /* it ends with its sockets */
    }
    struct broker_head head = {.verb = BROKER_ANSWER, .target = spawned.pid, .result = r};
    int sent = broker_send(socket, head, NULL, 0, r < 0 ? -1 : work[0]);
    if (sent >= 0 && r == 0)
        sent = broker_send(socket, head, NULL, 0, questions[0]);
    close_pair(work);
    if (r == 0)
        close_pair(questions);
    return sent;
}

static void end(spawned_list *list, pid_t pid)
{
    size_t kept = 0;
    array_foreach (list, s)
        if (s->pid != pid) {
            list->at[kept++] = *s;
        } else {
            (void)syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0);
            close(s->pidfd);
        }
    list->count = kept;
}

static void run_spawner(void *context, int socket)
{
    spawned_list list = {0};
    sandbox_close_standard();
    /* Who samples waits for workers, and goes first itself (profile/sampler_program.c). */
    apart_go_first();
    signal(SIGCHLD, SIG_IGN); /* workers are not waited for */
    for (struct broker_head head;;) {
        if (broker_receive(socket, &head, NULL, 0, NULL) < 0)
            return;
        if (head.verb == BROKER_DROP)
            end(&list, head.target);
        else if (head.verb != BROKER_WORK || spawn(context, socket, &list) < 0)
            return;
    }
}

int spawner_start(const struct worker_kind *kind, int *ret_spawner, struct problem *problem)
{
    return apart_start("sonde:spawner", run_spawner, (void *)(uintptr_t)kind, ret_spawner, problem);
}

int spawner_new_worker(int spawner, pid_t *ret_pid, int *ret_work, int *ret_questions)
{
    struct broker_head head = {.verb = BROKER_WORK};
    int work = -1, questions = -1;
    int r = broker_send(spawner, head, NULL, 0, -1);
    if (r < 0)
        return r;
    if (broker_receive(spawner, &head, NULL, 0, &work) < 0)
        return -EPIPE;
    if (head.result < 0 || work < 0)
        return head.result < 0 ? head.result : -EPROTO;
    if (broker_receive(spawner, &head, NULL, 0, &questions) < 0 || questions < 0) {
        close(work);
        return -EPIPE;
    }
    *ret_pid = head.target;
    *ret_work = work;
    *ret_questions = questions;
    return 0;
}

void spawner_end_worker(int spawner, pid_t pid)
{
    (void)broker_send(spawner, (struct broker_head){.verb = BROKER_DROP, .target = pid}, NULL, 0, -1);
}
