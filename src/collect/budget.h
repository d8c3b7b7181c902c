/* What tracing costs, live, and what is done when it is too much: the dearest family of events goes first,
 * then the next, and in the end tracing stops. This part only reckons; session code measures and acts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_BUDGET_H
#define COLLECT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/problem.h"

struct budget_limits {
    double cpu_share;      /* of all CPUs of the machine, 0.05 for 5 % */
    uint64_t memory_bytes; /* sonde's own, with rings; not pages of files that are mapped */
    uint64_t disk_bytes;   /* that the recording may take; 0: as much as there is */
};

#define BUDGET_DEFAULTS ((struct budget_limits){.cpu_share = 0.05, .memory_bytes = 128ull << 20})

/* "5,128,1000": percent of the machine's CPUs, MB of memory, MB on disk. The last ones may be missing.
 * -EINVAL with the problem. */
int budget_parse(const char *text, struct budget_limits *ret_limits, struct problem *problem);

/* Everything since the beginning; setup (finding symbols, patching) is not in it. */
struct budget_sample {
    uint64_t time_ns;
    uint64_t probe_ns, collector_ns, kernel_ns; /* CPU time */
    uint64_t memory_bytes, disk_bytes;
};

enum { BUDGET_WINDOW = 6 };

struct budget {
    struct budget_limits limits;
    double processors;
    struct budget_sample samples[BUDGET_WINDOW]; /* newest last */
    unsigned count;
    double share;     /* over the samples, of the machine */
    double own_share; /* the same, of sonde itself, of one CPU */
};

/* Sonde drains rings in one thread: when that needs more of its CPU, rings fill, however many CPUs are idle.
 */
#define BUDGET_OWN_SHARE 0.9

/* Adds a sample, taken about once a second. True when it is too much: over the limit, or BUDGET_OWN_SHARE, on
 * average over five seconds, or four times the limit over two. Memory and disk count at once. After that the
 * window begins anew. */
bool budget_add(struct budget *budget, const struct budget_sample *sample);

/* Is the recording too large? Leaving something out would not make it smaller. */
bool budget_disk_is_full(const struct budget *budget, const struct budget_sample *sample);

/* The index of the largest cost among those whose bit is set in on; -1 when there is none that costs
 * anything. */
int budget_dearest(const double *costs, int count, uint64_t on);

/* How long writing a record takes alone, in ns, measured here on work of the same kind: the unit of the
 * prices in event/families.h. */
double budget_record_ns(void);

#endif
