/* The few headers of an HTTP/1 message that say how long it is and what it becomes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_HEADERS_H
#define PROBE_HEADERS_H

#include <stdbool.h>
#include <stdint.h>

struct headers {
    int64_t content_length; /* -1: not said */
    uint64_t bytes;         /* with the first line and the empty one; 0: they do not end here */
    bool chunked;
    bool websocket; /* "Upgrade: websocket" */
};

/* Reads at most n bytes, and no more than a few KB, from the first line on. Uses vector registers: only for
 * hooks of functions whose arguments are none. */
void headers_read(const char *p, uint64_t n, struct headers *ret_headers);

#endif
