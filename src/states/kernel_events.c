/* See kernel_events.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "states/kernel_events.h"

#include <stdio.h>
#include <string.h>

#include "base/macro.h"

/* A field's names in order of preference, by meaning. LTTng calls a thread's number tid and a process' pid;
 * for perf, as for the kernel, a thread's is pid. */
struct kernel_shape {
    const char *name;
    enum kernel_kind kind;
    const char *field[KERNEL_FIELDS][2];
    uint32_t needs; /* fields without which the event says nothing: bits */
};

#define NEEDS(field) (1u << (field))
#define WAKES        KERNEL_WAKEUP, {[KERNEL_TID] = {"tid", "pid"}}, NEEDS(KERNEL_TID)
#define BLOCK        {[KERNEL_DEVICE] = {"dev", NULL}, [KERNEL_SECTOR] = {"sector", NULL}}, NEEDS(KERNEL_DEVICE)

static const struct kernel_shape SHAPES[] = {
    {"sched_switch",
     KERNEL_SWITCH,
     {[KERNEL_TID] = {"prev_tid", "prev_pid"},
      [KERNEL_NEXT_TID] = {"next_tid", "next_pid"},
      [KERNEL_STATE] = {"prev_state", NULL},
      [KERNEL_NAME] = {"prev_comm", NULL},
      [KERNEL_NEXT_NAME] = {"next_comm", NULL},
      [KERNEL_PRIO] = {"prev_prio", NULL},
      [KERNEL_NEXT_PRIO] = {"next_prio", NULL}},
     NEEDS(KERNEL_TID) | NEEDS(KERNEL_NEXT_TID)},
    {"sched_wakeup", WAKES},
    {"sched_waking", WAKES},
    {"sched_wakeup_new", WAKES},
    {"sched_process_fork",
     KERNEL_FORK,
     {[KERNEL_TID] = {"child_tid", "child_pid"},
      [KERNEL_PID] = {"child_pid", NULL},
      [KERNEL_PARENT] = {"parent_pid", "parent_tid"},
      [KERNEL_NAME] = {"child_comm", NULL}},
     NEEDS(KERNEL_TID)},
    {"sched_process_exit", KERNEL_EXIT, {[KERNEL_TID] = {"tid", "pid"}}, NEEDS(KERNEL_TID)},
    {"sched_process_free", KERNEL_FREE, {[KERNEL_TID] = {"tid", "pid"}}, NEEDS(KERNEL_TID)},
    {"sched_pi_setprio",
     KERNEL_PRIORITY,
     {[KERNEL_TID] = {"tid", "pid"}, [KERNEL_PRIO] = {"newprio", NULL}},
     NEEDS(KERNEL_TID) | NEEDS(KERNEL_PRIO)},
    {"lttng_statedump_process_state",
     KERNEL_THREAD,
     {[KERNEL_TID] = {"tid", NULL},
      [KERNEL_PID] = {"pid", NULL},
      [KERNEL_PARENT] = {"ppid", NULL},
      [KERNEL_NAME] = {"name", NULL},
      [KERNEL_STATE] = {"status", NULL}},
     NEEDS(KERNEL_TID)},
    {"irq_handler_entry",
     KERNEL_IRQ_ENTRY,
     {[KERNEL_NUMBER] = {"irq", NULL}, [KERNEL_NAME] = {"name", NULL}},
     NEEDS(KERNEL_NUMBER)},
    {"irq_handler_exit", KERNEL_IRQ_EXIT, {[KERNEL_NUMBER] = {"irq", NULL}}, NEEDS(KERNEL_NUMBER)},
    {"softirq_entry", KERNEL_SOFTIRQ_ENTRY, {[KERNEL_NUMBER] = {"vec", NULL}}, NEEDS(KERNEL_NUMBER)},
    {"irq_softirq_entry", KERNEL_SOFTIRQ_ENTRY, {[KERNEL_NUMBER] = {"vec", NULL}}, NEEDS(KERNEL_NUMBER)},
    {"softirq_exit", KERNEL_SOFTIRQ_EXIT, {[KERNEL_NUMBER] = {"vec", NULL}}, NEEDS(KERNEL_NUMBER)},
    {"irq_softirq_exit", KERNEL_SOFTIRQ_EXIT, {[KERNEL_NUMBER] = {"vec", NULL}}, NEEDS(KERNEL_NUMBER)},
    {"cpu_frequency",
     KERNEL_FREQUENCY,
     {[KERNEL_STATE] = {"state", NULL}, [KERNEL_NUMBER] = {"cpu_id", NULL}},
     NEEDS(KERNEL_STATE) | NEEDS(KERNEL_NUMBER)},
    {"power_cpu_frequency",
     KERNEL_FREQUENCY,
     {[KERNEL_STATE] = {"state", NULL}, [KERNEL_NUMBER] = {"cpu_id", NULL}},
     NEEDS(KERNEL_STATE) | NEEDS(KERNEL_NUMBER)},
    {"block_rq_insert", KERNEL_BLOCK_INSERT, BLOCK},
    {"block_rq_issue", KERNEL_BLOCK_ISSUE, BLOCK},
    {"block_rq_complete", KERNEL_BLOCK_COMPLETE, BLOCK},
    {"lttng_statedump_block_device",
     KERNEL_DISK,
     {[KERNEL_DEVICE] = {"dev", NULL}, [KERNEL_NAME] = {"diskname", NULL}},
     NEEDS(KERNEL_DEVICE)},
};

static bool is_text(enum kernel_field field)
{
    return field == KERNEL_NAME || field == KERNEL_NEXT_NAME;
}

static int find(const struct event_class *class, const char *name, bool text)
{
    int i = name ? event_class_find(class, name) : -1;
    if (i < 0)
        return -1;
    enum trace_type type = class->fields[i].type;
    return text == (type == TYPE_STRING) && (text || type <= TYPE_SIGNED) ? i : -1;
}

/* The part of a name behind a prefix, or NULL. */
static const char *behind(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 && name[n] ? name + n : NULL;
}

/* LTTng's names, old ones too ("sys_read", "exit_syscall"), and perf's. */
static void classify_call(struct kernel_class *k, const char *name)
{
    static const char *const ENTRIES[] = {"syscall_entry_", "compat_syscall_entry_", "sys_enter_", "sys_"};
    if (behind(name, "syscall_exit_") || strcmp(name, "exit_syscall") == 0 || behind(name, "sys_exit_") ||
        behind(name, "compat_syscall_exit_")) {
        k->kind = KERNEL_RETURN;
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(ENTRIES) && k->kind == KERNEL_OTHER; i++) {
        const char *call = behind(name, ENTRIES[i]);
        if (!call)
            continue;
        k->kind = KERNEL_ENTRY;
        k->exits = strcmp(call, "exit") == 0 || strcmp(call, "exit_group") == 0;
        snprintf(k->call, sizeof(k->call), "%s", call);
    }
}

struct kernel_class kernel_classify(const struct event_class *class)
{
    struct kernel_class k = {.cpu = -1};
    const char *colon = strrchr(class->name, ':'), *name = colon ? colon + 1 : class->name;
    memset(k.field, -1, sizeof(k.field));
    for (uint32_t i = 0; i < class->packet_field_count; i++)
        if (strcmp(class->packet_fields[i].name, "cpu_id") == 0 &&
            class->packet_fields[i].type <= TYPE_SIGNED)
            k.cpu = (int)i;
    for (size_t s = 0; s < ARRAY_SIZE(SHAPES); s++) {
        const struct kernel_shape *shape = &SHAPES[s];
        if (strcmp(name, shape->name) != 0)
            continue;
        k.kind = shape->kind;
        for (int f = 0; f < KERNEL_FIELDS; f++) {
            k.field[f] = find(class, shape->field[f][0], is_text(f));
            if (k.field[f] < 0)
                k.field[f] = find(class, shape->field[f][1], is_text(f));
            if (k.field[f] < 0 && (shape->needs & NEEDS(f)))
                k.kind = KERNEL_OTHER;
        }
        if (k.field[KERNEL_PID] == k.field[KERNEL_TID]) /* perf's: the number is the thread's */
            k.field[KERNEL_PID] = -1;
        return k;
    }
    classify_call(&k, name);
    return k;
}

const char *kernel_softirq(uint64_t vector)
{
    static const char *const NAMES[] = {"HI",       "TIMER",   "NET_TX", "NET_RX",  "BLOCK",
                                        "IRQ_POLL", "TASKLET", "SCHED",  "HRTIMER", "RCU"};
    return vector < ARRAY_SIZE(NAMES) ? NAMES[vector] : NULL;
}
