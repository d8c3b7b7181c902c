/* See protocol.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/protocol.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
};

int broker_send(int socket, struct broker_head head, const void *bytes, size_t length, int fd)
{
    union control control = {
        .header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    if (length > BROKER_BYTES_MAX)
        return -EMSGSIZE;
    head.length = (uint32_t)length;
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    struct iovec parts[2] = {{&head, sizeof(head)}, {(void *)(uintptr_t)bytes, length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
    }
    ssize_t n;
    do
        n = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n == (ssize_t)(sizeof(head) + length) ? 0 : -EMSGSIZE;
}

/* The descriptor of a message, if it bears one; of several (there is room for two) none stays open. */
static int descriptor_of(struct msghdr *message)
{
    struct cmsghdr *control = CMSG_FIRSTHDR(message);
    int fds[sizeof(union control) / sizeof(int)];
    if (!control || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS ||
        control->cmsg_len < CMSG_LEN(sizeof(int)) || control->cmsg_len > sizeof(union control))
        return -1;
    size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(fds, CMSG_DATA(control), count * sizeof(int));
    if (count == 1)
        return fds[0];
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    return -1;
}

ptrdiff_t broker_receive(int socket, struct broker_head *ret_head, void *bytes, size_t room, int *ret_fd)
{
    union control control = {0};
    struct iovec parts[2] = {{ret_head, sizeof(*ret_head)}, {bytes, room}};
    struct msghdr message = {
        .msg_iov = parts, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t n;
    do
        n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return n < 0 ? -errno : -ECONNRESET;
    int fd = descriptor_of(&message);
    bool whole = (size_t)n >= sizeof(*ret_head) && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
                 ret_head->length == (size_t)n - sizeof(*ret_head);
    if (fd >= 0 && (!whole || !ret_fd)) {
        close(fd);
        fd = -1;
    }
    if (ret_fd)
        *ret_fd = fd;
    return whole ? n - (ssize_t)sizeof(*ret_head) : -EPROTO;
}
