/* The pictures of an evidence page: distributions, intervals, and a request as a waterfall, as inline SVG and
 * HTML that need no script. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_BUNDLE_PLOT_H
#define DIAGNOSE_BUNDLE_PLOT_H

#include "diagnose/book.h"

/* Text between tags or within a quoted attribute. */
void plot_escape(struct text *to, const char *s);

/* Two curves over a logarithmic axis of latency: how often each latency is met, and the share of requests
 * that are slower than it (also logarithmic, so that the tail shows). */
void plot_density(const struct sketch *older, const struct sketch *newer, struct text *to);
void plot_tail(const struct sketch *older, const struct sketch *newer, struct text *to);

/* A ratio with its interval on a logarithmic axis that reaches from 1/reach to reach. */
void plot_interval(double ratio, double low, double high, double reach, bool slower, struct text *to);

/* A request's spans under each other; those on its critical path are solid. scale_ns: the axis' length. */
void plot_request(const struct book *book, const struct exemplar *exemplar, uint64_t scale_ns,
                  const char *class, struct text *to);

#endif
