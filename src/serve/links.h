/* Where the page shows each finding of a recording. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_LINKS_H
#define SERVE_LINKS_H

#include <stddef.h>

#include "base/text.h"

/* Appends for each finding of a report's document its title and its address below base ("http://host:1/"),
 * each on a line of its own; at most most of them, then how many more there are. number: of the source. */
void links_add(const char *report, const char *base, size_t number, size_t most, struct text *to);

#endif
