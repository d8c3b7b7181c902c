/* What a trace lost, in the words of every command that reads one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LOSSES_H
#define CLI_LOSSES_H

#include <stdio.h>

#include "trace/trace.h"

/* For JSON: "discarded-events", "truncated-bytes" ... */
const char *losses_kind(const struct trace_loss *loss);

/* One line for each stream and kind: how much, where, and what was expected there. */
void losses_print(const struct trace *trace, FILE *to);

#endif
