/* A plan that is in order, for a process that there is not: for the test of the plan's reader and its fuzz
 * target. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_PLAN_SAMPLE_H
#define TESTS_PLAN_SAMPLE_H

#include <stdlib.h>
#include <string.h>

#include "attach/kind.h"
#include "attach/plan.h"

static const char SAMPLE_MAPS[] =
    "00400000-00500000 r-xp 00000000 08:01 11 /usr/bin/program\n"
    "00600000-00700000 rw-p 00100000 08:01 11 /usr/bin/program\n"
    "00700000-00710000 rw-p 00000000 00:00 0 \n"
    "00800000-00900000 rw-p 00000000 00:00 0 [heap]\n"
    "00a00000-00b00000 rwxp 00000000 00:00 0 \n"
    "10000000-10100000 r-xp 00000000 08:01 12 /usr/lib/libc.so.6\n"
    "10100000-10110000 rw-p 00100000 08:01 12 /usr/lib/libc.so.6\n"
    "20000000-20010000 r-xp 00000000 00:01 13 /memfd:libsonde-probe.so (deleted)\n"
    "20010000-20012000 rw-p 00010000 00:01 13 /memfd:libsonde-probe.so (deleted)\n"
    "20012000-20020000 rw-p 00000000 00:00 0 \n";

static inline int sample_modules(struct modules *ret_modules)
{
    static struct proc proc = {.pid = 4711, .directory = -1, .pidfd = -1, .references = 1u << 30};
    return modules_parse(&proc, SAMPLE_MAPS, sizeof(SAMPLE_MAPS) - 1, false, ret_modules, NULL);
}

static inline struct plan_hook sample_hook(uint8_t number, uint64_t address)
{
    struct plan_hook hook = {.address = address,
                             .code = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10},
                             .code_size = PATCH_BYTES_MAX,
                             .compared = 16,
                             .hook = number,
                             .verdict = PLAN_HOOKED};
    hook.moved = (struct moved){.code = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xe9},
                                .fields = {{.to = address + 8, .at = 9, .from = 13}},
                                .field_count = 1,
                                .size = 13,
                                .replaced = 8};
    return hook;
}

/* Of the first kind with three hooks. */
static inline struct plan sample_plan(void)
{
    struct plan plan = {.head = {.build_id = "0123456789abcdef",
                                 .library = {.open = 0x10000010, .map = 0x10000100, .is_glibc = 1}}};
    while (TARGET_KINDS[plan.head.kind] && TARGET_KINDS[plan.head.kind]->hook_count < 3)
        plan.head.kind++;
    plan.head.kind++;
    plan.head.config.node.v8_heap_size = 0x400400;
    (void)array_add(&plan.modules, (struct plan_module){0x400000, 0x400000, 0x700000});
    (void)array_add(&plan.hooks, sample_hook(0, 0x401000));
    (void)array_add(&plan.hooks,
                    (struct plan_hook){.hook = 1, .verdict = PLAN_REFUSED, .why = "it is not there"});
    (void)array_add(&plan.hooks, sample_hook(2, 0x402000));
    (void)array_add(&plan.probes, (struct plan_probe){.start = 0x20000000,
                                                      .owner = 0x20010100,
                                                      .pools = 0x20013000,
                                                      .build_id = "fedcba98"});
    (void)array_add(&plan.missing,
                    (struct plan_missing){.what = "fields", .why = "no symbol", .remedy = "another build"});
    return plan;
}

#endif
