/* The targets: runtimes and stores that sonde attaches to, or whose stacks it walks. Everything of one lies
 * in src/targets/NAME, and this table is the only list of them. The number stands in recordings and is never
 * given again.
 *
 * LABEL(enumeration, ident, number, "label"), one a line: src/event/meson.build reads it too. jobs is the
 * example (examples/jobs): the smallest target with all parts of one that is attached to. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_TARGETS_H
#define EVENT_TARGETS_H

#define SONDE_TARGETS(L, e)         \
    L(e, node, 1, "node")           \
    L(e, redis, 2, "redis")         \
    L(e, jobs, 3, "jobs")           \
    L(e, memcached, 4, "memcached") \
    L(e, hotspot, 5, "hotspot")     \
    L(e, python, 6, "python")       \
    L(e, go, 7, "go")               \
    L(e, ruby, 8, "ruby")

#endif
