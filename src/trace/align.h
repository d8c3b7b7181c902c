/* Clocks of several hosts, brought together by the messages between them: a message is received after it was
 * sent, so every matched message bounds the difference of two clocks from one side. With messages both ways
 * the difference, taken as a line over time, lies between the two convex hulls of these bounds (Poirier, Roy,
 * Dagenais: Accurate offline synchronization of distributed traces using kernel-level events, 2010; section
 * on the convex hull). The line in the middle is taken; how far any other possible line is away from it is
 * the error that is reported. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_ALIGN_H
#define TRACE_ALIGN_H

#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"
#include "base/problem.h"
#include "trace/trace.h"

/* reference time = t - offset_ns - drift * (t - origin_ns), for a time t of this host. */
struct host_alignment {
    int64_t origin_ns, offset_ns;
    double drift;      /* ns per ns */
    uint64_t error_ns; /* at most, from the first to the last event of all hosts, against the reference */
    uint64_t error_between_ns; /* at most, from the first to the last matched message */
    uint64_t sent, received;   /* messages matched, to and from the neighbour it was aligned by */
    uint32_t neighbour;        /* that neighbour */
    uint32_t reference;        /* the host whose clock is kept */
};

struct alignment {
    uint32_t count, reference;
    struct host_alignment *hosts; /* by index of trace_host_at() */
};

/* Reads the trace once (and rewinds it). Messages are TCP segments seen by both hosts: inet_sock_local_out
 * and _in, net_dev_queue and net_if_receive_skb, matched by sequence numbers and flags. -ENODATA: a host
 * shares no messages with the others, in both directions; -ERANGE: its messages contradict a steady clock.
 * *ret_alignment is owned by the caller. */
int align_trace(struct trace *trace, struct problem *problem, struct alignment **ret_alignment);
void alignment_free(struct alignment *alignment);
DEFINE_FREEP(struct alignment, alignment_free)

/* The same from messages that the caller matches, in any order: align_begin(), align_saw() of every host's
 * times, align_message() of each, align_end(). Times are those of the trace as it stands. */
struct aligner;
int align_begin(struct trace *trace, struct problem *problem, struct aligner **ret_aligner);
void align_saw(struct aligner *aligner, uint32_t host, int64_t time_ns);
/* Of a host that was seen. 0 or -ENOMEM. */
int align_message(struct aligner *aligner, uint32_t from, uint32_t to, int64_t sent_ns, int64_t received_ns);
int align_end(struct aligner *aligner, struct problem *problem, struct alignment **ret_alignment);
void aligner_free(struct aligner *aligner);
DEFINE_FREEP(struct aligner, aligner_free)

/* From now on times are in the reference's clock. Rewinds the trace. 0 or a negative errno. */
int trace_set_alignment(struct trace *trace, const struct alignment *alignment);

/* ---- the mathematics, for tests ---- */

/* One bound: at time x the difference of the clocks is at most (upper) or at least (lower) y. */
struct bound {
    double x, y;
};

struct line {
    double slope, intercept; /* y = slope * x + intercept */
    double error;            /* no possible line is further away between x0 and x1 */
    double error_between;    /* the same between the first and the last bound */
};

/* The line in the middle between the bounds, which are sorted by x in place and thinned to their hulls.
 * -ENODATA: one side is empty; -ERANGE: no line fits. */
int align_fit(struct bound *upper, size_t *upper_count, struct bound *lower, size_t *lower_count, double x0,
              double x1, struct line *ret_line);

#endif
