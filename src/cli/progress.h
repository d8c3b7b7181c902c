/* Progress of a long read on stderr: bytes done, share, time left. Silent unless stderr is a terminal. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    uint64_t start_ns, shown_ns; /* CLOCK_MONOTONIC */
    bool visible;                /* a line stands on the terminal */
};

/* Shows the state at most five times a second. Zero-initialise progress. */
void progress_show(struct progress *progress, uint64_t done_bytes, uint64_t total_bytes);

/* Takes the line away; before anything else is printed to the terminal. */
void progress_clear(struct progress *progress);

/* "12.3 MB"; buffer has at least 24 bytes. */
const char *progress_bytes(uint64_t bytes, char *buffer, unsigned size);

#endif
