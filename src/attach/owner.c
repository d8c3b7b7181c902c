/* See owner.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/owner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/aside.h"
#include "attach/hold.h"
#include "base/proc.h"

/* The namespace that a machine begins with (include/linux/proc_ns.h): who is not seen from there is not. */
static const uint32_t INITIAL_PID_NAMESPACE = 0xeffffffc;

/* When a process was started, in clock ticks since the machine was; 0 when it has ended. */
static uint64_t started(const struct proc *proc)
{
    struct proc_stat stat;
    if (proc_read_stat(proc, 0, &stat) < 0)
        return 0;
    return stat.state == 'Z' || stat.state == 'X' ? 0 : stat.started_ticks;
}

static uint32_t pid_namespace_of(const struct proc *proc)
{
    struct stat is;
    return fstatat(proc->directory, "ns/pid", &is, 0) == 0 ? (uint32_t)is.st_ino : 0;
}

static struct sonde_owner ourselves(void)
{
    _cleanup_(proc_unrefp) struct proc *us = NULL;
    if (proc_open(getpid(), &us) < 0)
        return (struct sonde_owner){.pid = (uint32_t)getpid()};
    return (struct sonde_owner){
        .started_ticks = started(us), .pid = (uint32_t)us->pid, .pid_namespace = pid_namespace_of(us)};
}

static bool is_same(const struct sonde_owner *a, const struct sonde_owner *b)
{
    return a->pid == b->pid && a->started_ticks == b->started_ticks && a->pid_namespace == b->pid_namespace;
}

/* Is the process with this number the owner? */
static bool is_owner(pid_t pid, const struct sonde_owner *owner)
{
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    return proc_open(pid, &proc) == 0 && pid_namespace_of(proc) == owner->pid_namespace &&
           proc_innermost_pid(proc) == (pid_t)owner->pid && started(proc) == owner->started_ticks;
}

static bool lives_elsewhere(const struct sonde_owner *owner, uint32_t our_namespace)
{
    size_t count;
    bool found = false;
    _cleanup_(freep) pid_t *pids = proc_all(&count);
    for (size_t i = 0; i < count && !found; i++)
        found = is_owner(pids[i], owner);
    return found || our_namespace != INITIAL_PID_NAMESPACE;
}

static bool lives(const struct sonde_owner *owner, const struct sonde_owner *us)
{
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    if (!owner->pid)
        return false;
    if (owner->pid_namespace != us->pid_namespace)
        return lives_elsewhere(owner, us->pid_namespace);
    return proc_open((pid_t)owner->pid, &proc) == 0 && started(proc) == owner->started_ticks;
}

struct claim {
    struct target *target;
    uint64_t address;
    struct sonde_owner us;
    struct problem *problem;
};

static int compare_and_swap(const struct claim *claim)
{
    struct sonde_owner owner;
    int r = target_read(claim->target, claim->address, &owner, sizeof(owner));
    if (r < 0)
        return problem_set(claim->problem, r, "process %d: its memory cannot be read: %s", claim->target->pid,
                           strerror(-r));
    if (!is_same(&owner, &claim->us) && lives(&owner, &claim->us)) {
        problem_set(claim->problem, -EALREADY, "process %d is traced already, by sonde %u%s",
                    claim->target->pid, owner.pid,
                    owner.pid_namespace == claim->us.pid_namespace ? "" : " of another PID namespace");
        return -EALREADY;
    }
    return target_write(claim->target, claim->address, &claim->us, sizeof(claim->us));
}

static int claim_held(void *context)
{
    const struct claim *claim = context;
    struct hold hold;
    int r = hold_one(claim->target->proc, &hold, claim->problem);
    if (r < 0)
        return r;
    r = compare_and_swap(claim);
    hold_release(&hold);
    return r;
}

int owner_claim(struct target *target, const struct probe *probe, bool waits, struct problem *problem)
{
    struct claim claim = {.target = target, .address = probe->owner, .us = ourselves(), .problem = problem};
    if (probe->foreign)
        return problem_set(problem, -EPROTO, "process %d has a probe of another version", target->pid);
    if (!probe->owner)
        return problem_set(problem, -ESTALE, "process %d: another sonde is loading its probe", target->pid);
    int r = aside_share(claim_held, &claim, NULL, NULL);
    return r == -EPERM && waits ? compare_and_swap(&claim) : r;
}

void owner_release(struct target *target, const struct probe *probe)
{
    const struct sonde_owner us = ourselves(), nobody = {0};
    struct sonde_owner owner;
    if (probe->owner && !probe->foreign && target_read(target, probe->owner, &owner, sizeof(owner)) == 0 &&
        is_same(&owner, &us))
        (void)target_write(target, probe->owner, &nobody, sizeof(nobody));
}
