/* What an operation is called: the span's name without the ids in it, and with the route where it only names
 * a method, so that operations are as few as a program has. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_OPERATION_H
#define SPAN_OPERATION_H

#include "span/span.h"

#define OPERATION_BYTES 240

/* The name, borrowed from the span or from buffer (OPERATION_BYTES). */
struct slice span_operation(const struct span *span, char *buffer);

/* The name with its ids as {}: "GET /orders/1042" and "GET /orders/7" are both "GET /orders/{}". */
struct slice span_name_template(struct slice name, char *buffer);

/* Whether it failed: its status, or an answer of 500 and above by a server that does not set it. */
bool span_failed(const struct span *span);

#endif
