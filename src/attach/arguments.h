/* What a server was told by its arguments, which are the program's to choose: read in the worker
 * (plan_worker.h), for what the server is called. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_ARGUMENTS_H
#define ATTACH_ARGUMENTS_H

#include <stddef.h>
#include <stdint.h>

/* The value of the last of the options (which end with NULL) among the arguments, length bytes from line of
 * which each ends with NUL: "-p 11211", "-p11211", "--port 11211", "--port=11211". Case counts with one dash
 * only. NULL: there is none. Within line. */
const char *argument_value(const char *line, size_t length, const char *const *options);

/* A number of a port, 0 for none; -1: the text (may be NULL) is no such number. */
int argument_port(const char *text);

/* What a service is called that does not listen on a port (yet): "redis:6380" by the port that it was told
 * (-1: it was told none, 0: to listen on none), "redis:/run/redis.sock" by the path of its socket (NULL: it
 * has none), or else by its usual port. Malloc'ed; NULL: memory ran out. */
char *argument_service(const char *service, int port, const char *path, uint16_t usual);

#endif
