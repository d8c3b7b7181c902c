/* Expressions over the fields of an event, for `sonde trace events --where`:
 *
 *     duration > 5ms && name == "keys"
 *     $name =~ "redis:*" && (bytes >= 1M || !(fd == -1))
 *
 * Fields are named as events print them ("a.b" for nested ones; those of the packet's context too); $name,
 * $time, $pid, $tid, $host are the event's own. Numbers may carry a unit: ns us ms s min, k M G (powers of
 * 1,000), Ki Mi Gi. Operators: == != < <= > >=, =~ and
 * !~ (shell patterns), && || ! and brackets; a field alone is true when it is there and not 0. Strings
 * compare with texts, with the labels of enumerations, with the names of a bit map's bits ("read|write"), and
 * with the text behind a number that the catalogue calls a name. An event that does not have a field fails
 * every comparison with it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_FILTER_H
#define TRACE_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/macro.h"
#include "base/problem.h"
#include "trace/event.h"
#include "trace/event_names.h"

struct filter;

/* The text is not kept. problem names the column and what was expected. *ret_filter is owned by the caller.
 */
int filter_parse(const char *text, struct problem *problem, struct filter **ret_filter);
void filter_free(struct filter *filter);
DEFINE_FREEP(struct filter, filter_free)

/* Whether every comparison can be made: -EINVAL when one is between a text and a number in each of the
 * classes that have its fields; problem names the column, the field and an event. classes: count of them,
 * those that the filter will meet. */
int filter_check(const struct filter *filter, const struct event_class *const *classes, size_t count,
                 struct problem *problem);

/* Whether the event passes. host is the host's name (may be NULL); names resolves numbers to texts (may be
 * NULL). */
bool filter_matches(struct filter *filter, const struct event *event, const char *host,
                    const struct event_names *names);

/* The first field of the expression that no event seen so far has, or NULL: why a result is empty. */
const char *filter_unknown_field(const struct filter *filter);

#endif
