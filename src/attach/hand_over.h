/* Descriptors of ours handed to another process: the memfd with the probe's code, and the one with the rings.
 *
 * The way is a pair of sockets that the process makes in a call of ours. One end is taken from it with
 * pidfd_getfd(2) and looked at before anything is sent; we open nothing, and write to nothing, that the
 * process chose. A path like /proc/SONDE/fd would not be seen by another user, nor in another PID namespace.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_HAND_OVER_H
#define ATTACH_HAND_OVER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "attach/hold.h"
#include "base/problem.h"

/* Our copy of a socket that process pid says is one end of a pair which it made (theirs, in its descriptor
 * table). -EBADF when it is anything else, -ENOSYS before Linux 5.6. */
int hand_over_socket(const struct proc *proc, int theirs, int *ret_socket, struct problem *problem);

/* Sends a message (size bytes, at least one) with a descriptor; does not wait. */
int hand_over_send(int socket, const void *message, size_t size, int fd);

/* Functions of the process that are needed to receive one where no probe is yet. */
struct hand_over_calls {
    uint64_t system_call, map, unmap; /* syscall(2), mmap(2) and munmap(2) of its C library */
};

/* Hands fd to a held process with calls in its main thread; the number that it has there. The caller closes
 * it there with hand_over_close(). */
int hand_over_into(struct hold *hold, const struct hand_over_calls *calls, int fd, int *ret_theirs,
                   struct problem *problem);
int hand_over_close(struct hold *hold, const struct hand_over_calls *calls, int theirs,
                    struct problem *problem);

#endif
