/* A connection of bytes to another host, with TLS where that is wanted: for protocols that are not HTTP. One
 * thread at a time; every call waits until the connection's deadline at most. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_TCP_H
#define HTTP_TCP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/macro.h"
#include "base/problem.h"

struct tcp;

/* The other end, and how it is known. Files of TLS are PEM. */
struct tcp_address {
    const char *host; /* a name or an address, IPv6 without brackets */
    unsigned port;
    bool tls;
    const char *authorities; /* whose certificates are believed; NULL: the system's */
    const char *certificate; /* of ours; NULL: none */
    const char *private_key; /* of ours; NULL: in the certificate's file */
};

/* Connects, by no proxy. 0 or a negative errno with problem set; free with tcp_free(). */
int tcp_open(const struct tcp_address *address, unsigned timeout_ms, struct tcp **ret_tcp,
             struct problem *problem);
void tcp_free(struct tcp *tcp);
DEFINE_FREEP(struct tcp, tcp_free)

/* From now on: -ETIMEDOUT unless what is called next is done within timeout_ms. */
void tcp_deadline(struct tcp *tcp, unsigned timeout_ms);

/* All of it. 0 or a negative errno. */
int tcp_send(struct tcp *tcp, const void *bytes, size_t length);

/* What has come, at least a byte: how many; 0: the other end has closed; or a negative errno. */
int tcp_receive(struct tcp *tcp, void *buffer, size_t size);

#endif
