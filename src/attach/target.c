/* See target.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/target.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "attach/aside.h"
#include "base/text.h"
#include "broker/broker.h"

enum { MAPS_MAX = 64 << 20 };

/* The worker is given the text that our own mappings are read from, so that both speak of the same. */
static int ask_worker(struct target *target, struct broker *plans, const struct plan_work *work,
                      const char *maps, size_t length, struct problem *problem)
{
    struct text message = {0};
    _cleanup_(freep) void *result = NULL;
    size_t result_length;
    text_add_bytes(&message, (const char *)work, sizeof(*work));
    text_add_bytes(&message, maps, length);
    int r = message.failed ? -ENOMEM : 0;
    if (r >= 0) {
        broker_forget(plans, target->proc); /* its memory may be that of another program since */
        r = broker_work(plans, target->proc, text_get(&message), message.length, aside_is_ending, &result,
                        &result_length, problem);
        broker_forget(plans, target->proc);
    }
    text_done(&message);
    if (r >= 0) {
        r = plan_decode(result, result_length, &target->plan);
        if (r < 0)
            problem_set(problem, r, "process %d: the worker that reads its files gave no plan", target->pid);
    }
    return r < 0 ? r : plan_check(&target->plan, &target->modules, problem);
}

/* Its mappings, and what a worker says of the files behind them. */
static int look(struct target *target, struct broker *plans, struct plan_work *work, struct problem *problem)
{
    _cleanup_(freep) char *maps = NULL;
    size_t length;
    int r = proc_read(target->proc, "maps", MAPS_MAX, &maps, &length);
    if (r < 0)
        return modules_refused(target->pid, r, problem);
    r = modules_parse(target->proc, maps, length, false, &target->modules, problem);
    if (r < 0)
        return r;
    const struct module *program = modules_main(&target->modules);
    work->program = program ? program->inode : 0;
    return ask_worker(target, plans, work, maps, length, problem);
}

int target_open(struct proc *proc, struct broker *plans, enum target_depth depth, enum sonde_context context,
                struct target **ret_target, struct problem *problem)
{
    _cleanup_(target_freep) struct target *target = calloc(1, sizeof(*target));
    if (!target)
        return -ENOMEM;
    target->proc = proc_ref(proc);
    target->pid = proc->pid;
    /* First: it stays with the program that all the rest is of, also when the process executes another. */
    target->memory = proc_file_open(proc, "mem", O_RDWR);
    if (target->memory < 0) {
        int r = problem_set(problem, target->memory, "process %d: its memory cannot be written: %s",
                            target->pid, strerror(-target->memory));
        problem_remedy(problem, "Run sonde as the same user or as root (needs CAP_SYS_PTRACE).");
        return r;
    }
    struct plan_work work = {.whole = depth == TARGET_WHOLE, .context = context};
    int r = look(target, plans, &work, problem);
    if (r < 0)
        return r;
    target->kind = target->plan.head.kind ? TARGET_KINDS[target->plan.head.kind - 1] : NULL;
    memcpy(target->versions, target->plan.head.versions, sizeof(target->versions));
    *ret_target = target;
    target = NULL;
    return 0;
}

void target_free(struct target *target)
{
    if (!target)
        return;
    array_done(&target->code);
    array_done(&target->missing);
    plan_done(&target->plan);
    modules_done(&target->modules);
    arena_done(&target->arena);
    if (target->memory >= 0)
        close(target->memory);
    proc_unref(target->proc);
    free(target);
}

void target_layout(struct target *target, struct sonde_config *ret_config)
{
    array_foreach (&target->plan.missing, m)
        if (!m->of_copies)
            target_miss(target, m->what, m->why, m->remedy);
    *ret_config = target->plan.head.config;
}

void target_forget_plan(struct target *target)
{
    array_done(&target->plan.hooks);
    array_done(&target->plan.missing);
}
