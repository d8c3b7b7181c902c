/* Two traces of one service compared, for `sonde diff`. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRACE_DIFF_H
#define CLI_TRACE_DIFF_H

#include <stdbool.h>

/* Whether path is a folder that holds a trace. */
bool trace_diff_is_trace(const char *path);

/* Compares the traces in the two folders and prints what changed; returns an exit status. top: how many parts
 * and operations are listed. */
int trace_diff(const char *before, const char *after, bool json, unsigned top);

#endif
