/* A forked child is the program that its parent is: what sonde knows of the one holds for the other. Looking
 * for it again would take several milliseconds of a CPU, while the child waits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "attach/target.h"

/* What detaching needs of the plan; nothing is to be planned any more. */
static int inherit_plan(const struct target *parent, struct target *target)
{
    int r = 0;
    target->plan.head = parent->plan.head;
    array_foreach (&parent->plan.probes, probe)
        if (r >= 0)
            r = array_add(&target->plan.probes, *probe);
    return r;
}

int target_inherit(const struct target *parent, struct proc *proc, int memory, struct target **ret_target)
{
    _cleanup_(target_freep) struct target *target = calloc(1, sizeof(*target));
    if (!target)
        return -ENOMEM;
    target->memory = -1;
    target->proc = proc ? proc_ref(proc) : NULL;
    target->pid = proc ? proc->pid : parent->pid;
    target->kind = parent->kind;
    memcpy(target->versions, parent->versions, sizeof(target->versions));
    int r = modules_copy(&parent->modules, proc, &target->modules);
    if (r >= 0)
        r = inherit_plan(parent, target);
    if (r < 0)
        return r;
    array_foreach (&parent->missing, m)
        target_miss(target, m->what, m->why, m->remedy);
    target->memory = memory;
    *ret_target = target;
    target = NULL;
    return 0;
}
