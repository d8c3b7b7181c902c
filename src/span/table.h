/* A table that is joined to spans: its first column names the attribute to join by (`host.name`,
 * `service.name`, or any resource attribute), its other columns become attributes. For what no convention
 * carries: a host's hardware generation, its VM type, software versions. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_TABLE_H
#define SPAN_TABLE_H

#include "base/problem.h"
#include "span/names.h"

struct table;

/* Reads a CSV table's text. -EINVAL when there is no header or no second column. */
int table_read(const char *text, size_t length, struct table **ret_table, struct problem *problem);

/* The attributes of a resource by this table: at most `room` are written to `to`. Borrowed from the table. */
size_t table_join(const struct table *table, const struct span_resource *resource, struct span_attribute *to,
                  size_t room);

void table_free(struct table *table);

#endif
