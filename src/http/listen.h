/* Where servers listen, how many connections they may have, and how tokens are compared. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/problem.h"
#include "http/guard.h"

/* Listens on "127.0.0.1:4318", "[::1]:0" (any free port). The guard gets the address. -EPERM for one beyond
 * loopback that is not guarded by a token, -EADDRINUSE and the like, all with words. */
int http_listen(const char *where, bool guarded, struct http_guard *ret_guard, uint16_t *ret_port,
                int *ret_fd, struct problem *problem);

/* As many as wanted, if there can be so many descriptors beside those that the rest of the program uses.
 * Raises the process' soft limit of descriptors to its hard one. */
uint64_t http_connections_allowed(unsigned wanted);

/* Whether `length` bytes are the token; in constant time for equal lengths. */
bool http_same_token(const char *token, const char *given, size_t length);

#endif
