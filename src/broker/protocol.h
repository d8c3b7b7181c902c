/* What broker and worker say to each other: messages of a fixed head and some bytes over a pair of sockets
 * that keeps their borders (SOCK_SEQPACKET), and descriptors beside them (SCM_RIGHTS).
 *
 *   broker to worker: WORK, with the bytes of a piece of work and the target it is about; GRANT, with a
 *     target's memory as a descriptor; DROP, of a target that is gone; ANSWER to a question, with a
 *     descriptor or an error.
 *   worker to broker: QUESTION, while it works; RESULT, which ends the work.
 *
 * The worker is assumed to say anything: whatever the broker receives is checked by broker.c against the
 * table of questions and the worker's own targets. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BROKER_PROTOCOL_H
#define BROKER_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

enum broker_verb {
    BROKER_WORK = 1,
    BROKER_GRANT,
    BROKER_DROP,
    BROKER_ANSWER,
    BROKER_QUESTION,
    BROKER_RESULT,
    BROKER_READER, /* of a lender: which worker reads a process, and its socket when it is new */
    BROKER_END     /* of a lender: that worker is of no use any more */
};

/* A message may carry this many bytes, less than any socket's buffer. */
enum { BROKER_BYTES_MAX = 128 << 10 };

struct broker_head {
    uint32_t verb;
    int32_t target;      /* the process's number; only those that were granted */
    uint32_t question;   /* enum proc_question */
    int32_t result;      /* of an answer or a piece of work: 0 or a negative errno */
    uint64_t start, end; /* of a question; start of a result: the worker's CPU time so far, ns */
    uint32_t length;     /* of the bytes behind the head */
    uint32_t serial;     /* of the question that is answered */
};

/* The bytes are at most room; *ret_fd (may be NULL: descriptors are closed) is -1 when none came. The number
 * of bytes, or a negative errno; -EPROTO when it is no message; -ECONNRESET at the end. */
ptrdiff_t broker_receive(int socket, struct broker_head *ret_head, void *bytes, size_t room, int *ret_fd);
int broker_send(int socket, struct broker_head head, const void *bytes, size_t length, int fd);

#endif
