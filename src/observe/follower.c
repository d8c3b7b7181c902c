/* The process that follows a recording beside the one that records: it parses what the recorded programs
 * control, and the recorder has rights, so the two have nothing in common but a socket. On it the recorder
 * says once that there is a recording, and the follower, in the end, what it returned; when the recorder is
 * gone, it is closed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/truncated.h"
#include "broker/apart.h"
#include "observe/observe_internal.h"

struct following {
    const struct observe_options *options;
    const char *folder;
};

static ssize_t receive(int socket, void *bytes, size_t size)
{
    ssize_t n;
    do
        n = recv(socket, bytes, size, 0);
    while (n < 0 && errno == EINTR);
    return n;
}

static void run(void *context, int socket)
{
    static const int ENDING[] = {SIGINT, SIGTERM, SIGHUP};
    const struct following *following = context;
    char go;
    for (size_t i = 0; i < ARRAY_SIZE(ENDING); i++) /* its recorder ends it */
        (void)signal(ENDING[i], SIG_IGN);
    truncated_expect();
    if (receive(socket, &go, sizeof(go)) != sizeof(go))
        return;
    int32_t status = following->options->follow(following->options->context, following->folder, socket);
    fflush(stdout);
    (void)!send(socket, &status, sizeof(status), MSG_NOSIGNAL);
}

int follower_start(struct follower *follower, const struct observe_options *options, const char *folder,
                   struct problem *problem)
{
    struct following following = {options, folder};
    follower->socket = -1;
    if (!options->follow)
        return 0;
    fflush(NULL); /* or both would write what is buffered */
    return apart_start("sonde:follow", run, &following, &follower->socket, problem);
}

void follower_go(const struct follower *follower)
{
    if (follower->socket >= 0)
        (void)!send(follower->socket, "g", 1, MSG_NOSIGNAL);
}

int follower_wait(struct follower *follower)
{
    int32_t status;
    bool said = follower->socket >= 0 && receive(follower->socket, &status, sizeof(status)) == sizeof(status);
    follower_leave(follower);
    return said ? status : -ECHILD;
}

void follower_leave(struct follower *follower)
{
    if (follower->socket >= 0)
        close(follower->socket);
    follower->socket = -1;
}
