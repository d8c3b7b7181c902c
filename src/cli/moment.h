/* Moments as users give them: +1.5s, +300ms (after the trace's first event); "2022-04-07 19:56:48.5" in UTC;
 * or ns since the Epoch. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_MOMENT_H
#define CLI_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/trace.h"

struct moment {
    bool given, relative; /* +DURATION: after the first event */
    int64_t ns;
};

bool moment_parse(const char *text, struct moment *ret_moment);

/* The moment on the trace's clock, whose first event is at first_ns. */
int64_t moment_ns(const struct moment *moment, int64_t first_ns, const struct trace *trace);

#endif
