/* A process beside this one, for what must not be done in the same memory as something else: it is forked
 * before anything foreign was read, and ends with the socket that connects the two. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BROKER_APART_H
#define BROKER_APART_H

#include "base/problem.h"

/* Called in the new process, with no descriptor open but the standard ones and this end of a pair of sockets
 * for messages of protocol.h. When it returns the process ends. */
typedef void apart_fn(void *context, int socket);

/* Starts one that runs `run` under that name (prctl(2), PR_SET_NAME); *ret_socket is this end. It is no
 * child, has a session of its own (Ctrl-C is not meant for it) and no signal handler. 0 or a negative errno.
 */
int apart_start(const char *name, apart_fn *run, void *context, int *ret_socket, struct problem *problem);

/* The same, with further descriptors that stay open in it: at most APART_KEEP. */
enum { APART_KEEP = 120 };
int apart_start_keeping(const char *name, apart_fn *run, void *context, const int *keep, int count,
                        int *ret_socket, struct problem *problem);

/* In such a process, for one that somebody waits for who goes before others himself: it does so too, if it
 * may, and what it forks. Its session is a group to the scheduler (autogroup), so that a nice value of its
 * own counts for nothing there; the group's does. */
void apart_go_first(void);

#endif
