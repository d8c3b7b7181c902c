/* See hand_over.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hand_over.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"

/* ---- our side ---- */

static bool option_is(int socket, int option, int value)
{
    int found = -1;
    socklen_t size = sizeof(found);
    return getsockopt(socket, SOL_SOCKET, option, &found, &size) == 0 && found == value;
}

static bool is_unnamed(int (*name_of)(int, struct sockaddr *, socklen_t *), int socket)
{
    struct sockaddr_un address;
    socklen_t size = sizeof(address);
    return name_of(socket, (struct sockaddr *)&address, &size) == 0 && size == sizeof(address.sun_family);
}

static int own_name(int socket, struct sockaddr *address, socklen_t *size)
{
    return getsockname(socket, address, size);
}

static int peer_name(int socket, struct sockaddr *address, socklen_t *size)
{
    return getpeername(socket, address, size);
}

/* Both ends of a pair bear the credentials of who made it. A socket that is connected to anybody else would
 * carry our message, and our credentials, to them. */
static bool is_end_of_own_pair(int socket, pid_t pid)
{
    struct stat st;
    struct ucred peer;
    socklen_t size = sizeof(peer);
    return fstat(socket, &st) == 0 && S_ISSOCK(st.st_mode) && option_is(socket, SO_DOMAIN, AF_UNIX) &&
           option_is(socket, SO_TYPE, SOCK_SEQPACKET) &&
           getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == pid &&
           is_unnamed(own_name, socket) && is_unnamed(peer_name, socket);
}

int hand_over_socket(const struct proc *proc, int theirs, int *ret_socket, struct problem *problem)
{
    _cleanup_(file_closep) int socket = (int)syscall(SYS_pidfd_getfd, proc->pidfd, theirs, 0);
    if (socket < 0) {
        int r = -errno;
        problem_set(problem, r, "process %d: no descriptor can be taken from it: %s", proc->pid,
                    strerror(-r));
        if (r == -ENOSYS)
            problem_remedy(problem, "Attaching needs Linux 5.6 or newer.");
        return r;
    }
    if (!is_end_of_own_pair(socket, proc->pid))
        return problem_set(problem, -EBADF,
                           "process %d: it names a descriptor that is no end of a pair of sockets of its own",
                           proc->pid);
    *ret_socket = socket;
    socket = -1;
    return 0;
}

int hand_over_send(int socket, const void *message, size_t size, int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {
        .header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
    struct iovec data = {(void *)(uintptr_t)message, size};
    struct msghdr envelope = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t n = sendmsg(socket, &envelope, MSG_NOSIGNAL | MSG_DONTWAIT);
    return n == (ssize_t)size ? 0 : n < 0 ? -errno : -EMSGSIZE;
}

/* ---- theirs ---- */

/* What calls in the process read and write, on the main thread's stack, at the same place each time. */
struct letter {
    int32_t sockets[2];
    struct msghdr envelope;
    struct iovec data;
    char byte;
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
};

/* letter (may be NULL): as it is before the call, and after it. */
static int call(struct hold *hold, const struct hand_over_calls *calls, const uint64_t *arguments, int count,
                struct letter *letter, int64_t *ret_result, struct problem *problem)
{
    uint64_t result;
    int r = hold_call(hold, calls->system_call, arguments, count, letter, letter ? sizeof(*letter) : 0,
                      &result, problem);
    ssize_t n = r < 0 || !letter ? 0 : pread(hold->memory, letter, sizeof(*letter), (off_t)hold->data);
    if (r >= 0 && letter && n != (ssize_t)sizeof(*letter))
        r = n < 0 ? -errno : -EFAULT;
    if (r >= 0)
        *ret_result = (int64_t)result;
    return r;
}

int hand_over_close(struct hold *hold, const struct hand_over_calls *calls, int theirs,
                    struct problem *problem)
{
    const uint64_t close_it[] = {SYS_close, (uint64_t)theirs};
    int64_t ignored;
    return call(hold, calls, close_it, ARRAY_SIZE(close_it), NULL, &ignored, problem);
}

/* Both, in one call where they are neighbours, which they are as a rule, and where no filter may forbid it
 * (close_range(2), Linux 5.9). */
static int close_pair(struct hold *hold, const struct hand_over_calls *calls, const int32_t sockets[2],
                      struct problem *problem)
{
    const uint64_t close_both[] = {SYS_close_range, (uint64_t)sockets[0], (uint64_t)sockets[1], 0};
    int64_t closed = -1;
    int r = 0;
    if (hold->may_signal && sockets[1] == sockets[0] + 1)
        r = call(hold, calls, close_both, ARRAY_SIZE(close_both), NULL, &closed, problem);
    for (int i = 0; i < 2 && r >= 0 && closed != 0; i++)
        r = hand_over_close(hold, calls, sockets[i], problem);
    return r;
}

/* The receiving end takes the message in; where its parts are in the process is known only now. */
static int receive_there(struct hold *hold, const struct hand_over_calls *calls, struct letter *letter,
                         int *ret_theirs, struct problem *problem)
{
    const uint64_t at = hold->data;
    letter->data = (struct iovec){(void *)(uintptr_t)(at + offsetof(struct letter, byte)), 1};
    letter->envelope =
        (struct msghdr){.msg_iov = (void *)(uintptr_t)(at + offsetof(struct letter, data)),
                        .msg_iovlen = 1,
                        .msg_control = (void *)(uintptr_t)(at + offsetof(struct letter, control)),
                        .msg_controllen = sizeof(letter->control)};
    const uint64_t receive[] = {SYS_recvmsg, (uint64_t)letter->sockets[1],
                                at + offsetof(struct letter, envelope), MSG_CMSG_CLOEXEC | MSG_DONTWAIT};
    int64_t received = 0;
    int r = call(hold, calls, receive, ARRAY_SIZE(receive), letter, &received, problem);
    if (r < 0)
        return r;
    if (received != 1 || letter->control.header.cmsg_type != SCM_RIGHTS)
        return problem_set(
            problem, -EPERM,
            "process %d received no descriptor (a system call filter, or its limit of open files?)",
            hold->pid);
    int32_t theirs;
    memcpy(&theirs, CMSG_DATA(&letter->control.header), sizeof(theirs));
    *ret_theirs = theirs;
    return 0;
}

int hand_over_into(struct hold *hold, const struct hand_over_calls *calls, int fd, int *ret_theirs,
                   struct problem *problem)
{
    struct letter letter = {0};
    const uint64_t make[] = {SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, HOLD_DATA};
    _Static_assert(offsetof(struct letter, sockets) == 0, "what is made is written there");
    _cleanup_(file_closep) int socket = -1;
    int64_t made = -1;
    int r = call(hold, calls, make, ARRAY_SIZE(make), &letter, &made, problem);
    if (r < 0)
        return r;
    if (made != 0)
        return problem_set(
            problem, -EPERM,
            "process %d may not make sockets (a system call filter, or its limit of open files?)", hold->pid);
    r = hand_over_socket(hold->proc, letter.sockets[0], &socket, problem);
    if (r >= 0)
        r = hand_over_send(socket, "", 1, fd);
    if (r >= 0)
        r = receive_there(hold, calls, &letter, ret_theirs, problem);
    int closed = r == -ESRCH ? r : close_pair(hold, calls, letter.sockets, r < 0 ? NULL : problem);
    return r < 0 ? r : closed;
}
