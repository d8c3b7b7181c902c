/* Writing any trace that can be read as CTF 1.8 that every reader takes: one folder per host, byte-aligned
 * and little-endian, times in ns. Fields, their names and their structure stay; corrected clocks are written
 * corrected. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_REWRITE_H
#define TRACE_REWRITE_H

#include "base/problem.h"
#include "trace/pass.h"
#include "trace/trace.h"

/* Reads the trace to its end and writes it below folder, which is created: FOLDER itself for one host, else
 * FOLDER/NUMBER-HOST. -EEXIST: there is a trace already. -ENOTSUP: a layout that CTF 1.8 cannot say; problem
 * names the field. progress may be NULL (see trace_run()). */
int rewrite_ctf(struct trace *trace, const char *folder, struct problem *problem, trace_progress_fn progress,
                void *context);

#endif
