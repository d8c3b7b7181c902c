/* Node's types of asynchronous resources, as people know them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_RESOURCE_H
#define TARGETS_NODE_RESOURCE_H

/* What its callback is called; the type itself where nothing better is known, "callback" for NULL. */
const char *resource_callback(const char *type);

/* Resources that are operations of their own and use neither the pool nor a connection that is seen: a query
 * of c-ares, the establishment of a connection. Theirs ends with their callback. NULL: it is none. */
const char *resource_operation(const char *type);

#endif
