/* Counters of functions for Prometheus, fed with the windows of a profile by service: its text format, with a
 * number of series that stays bounded for weeks.
 *
 *     sonde_function_cpu_seconds_total{service,function}           time in the function itself
 *     sonde_business_function_cpu_seconds_total{service,function}  with the libraries that it called
 * (business.h)
 *
 * A function is exported when it is among its service's hottest, and then stays: a series that comes and goes
 * costs more than one that rests. Only where there is no room is one given up, which has not been hot for an
 * hour. What is not exported counts for the function "other" of its service, a service for which there is no
 * room for the service "other": so sums of rates are whole. What a series that is given up has counted goes
 * with it; no counter that stays ever falls. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEER_EXPOSITION_H
#define STEER_EXPOSITION_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "profile/business.h"
#include "profile/profile.h"

struct exposition_options {
    unsigned hot;       /* a function is exported when it is among so many of its service */
    unsigned functions; /* exported of one service at most, "other" not counted */
    unsigned services;  /* at most, "other" not counted */
    unsigned rest;      /* windows that a series has not been hot for before it may be given up */
};
extern const struct exposition_options EXPOSITION_USUAL; /* 10 of a service, at most 20 of each of 64 */

struct exposition;

int exposition_new(const struct exposition_options *options, struct exposition **ret_exposition);
void exposition_free(struct exposition *exposition);
DEFINE_FREEP(struct exposition, exposition_free)

/* Adds a window: a profile in nanoseconds whose outermost frames are services (profile_by_service()). rules:
 * may be NULL. 0 or -ENOMEM, after which it may lack some of the window. */
int exposition_add(struct exposition *exposition, const struct profile *services,
                   const struct business_rules *rules);

/* How many series it has now. */
size_t exposition_series(const struct exposition *exposition);

/* Adds both families to text. Failures stay in the text. */
void exposition_write(const struct exposition *exposition, struct text *text);

/* Adds a label's value, without its quotes: what is no UTF-8 is replaced, '\', '"' and line ends are escaped.
 */
void exposition_add_label(struct text *text, const char *value);

#endif
