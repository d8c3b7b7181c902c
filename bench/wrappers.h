/* Between wrappers.c, which counts, and wrappers_scenes.c, which has what is counted. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_WRAPPERS_H
#define BENCH_WRAPPERS_H

#include <stddef.h>

/* What stands in this section is the program's part: it is not counted. */
#define PROGRAM __attribute__((section("program"), noinline))
extern const char __start_program[], __stop_program[];

struct scene {
    const char *name;
    void (*run)(void);
    void (*prepare)(void); /* NULL: as the scene before; else in a thread of its own */
};

/* In this order: what is prepared stays so. */
extern const struct scene scenes[];
extern const size_t scene_count;

#endif
