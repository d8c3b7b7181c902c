/* See owner.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/owner.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/aside.h"
#include "attach/hold.h"
#include "base/file.h"

/* The namespace that a machine begins with (include/linux/proc_ns.h): who is not seen from there is not. */
static const uint32_t INITIAL_PID_NAMESPACE = 0xeffffffc;

/* When a process was started, in clock ticks since the machine was; 0 when there is none, or it has ended. */
static uint64_t started(pid_t pid)
{
    char path[64], state;
    unsigned long long ticks;
    _cleanup_(freep) char *stat = NULL;
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    const char *end = file_read(path, 4096, &stat, NULL) == 0 ? strrchr(stat, ')') : NULL;
    if (!end ||
        sscanf(end, ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
               &state, &ticks) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : ticks;
}

static uint32_t pid_namespace_of(pid_t pid)
{
    char path[64];
    struct stat is;
    snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
    return stat(path, &is) == 0 ? (uint32_t)is.st_ino : 0;
}

static struct sonde_owner ourselves(void)
{
    pid_t pid = getpid();
    return (struct sonde_owner){
        .started_ticks = started(pid), .pid = (uint32_t)pid, .pid_namespace = pid_namespace_of(pid)};
}

static bool is_same(const struct sonde_owner *a, const struct sonde_owner *b)
{
    return a->pid == b->pid && a->started_ticks == b->started_ticks && a->pid_namespace == b->pid_namespace;
}

/* What a process is called in its own namespace. */
static pid_t innermost_pid(pid_t pid)
{
    char path[64];
    _cleanup_(freep) char *status = NULL;
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    const char *line = file_read(path, 1 << 16, &status, NULL) == 0 ? strstr(status, "\nNSpid:") : NULL;
    if (!line)
        return pid;
    line++;
    const char *end = line + strcspn(line, "\n"), *last = end;
    while (last > line && last[-1] != '\t')
        last--;
    return (pid_t)atoi(last);
}

static bool lives_elsewhere(const struct sonde_owner *owner, uint32_t our_namespace)
{
    DIR *processes = opendir("/proc");
    bool found = false;
    for (struct dirent *entry; processes && !found && (entry = readdir(processes));) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        found = pid > 0 && pid_namespace_of(pid) == owner->pid_namespace &&
                innermost_pid(pid) == (pid_t)owner->pid && started(pid) == owner->started_ticks;
    }
    if (processes)
        closedir(processes);
    return found || our_namespace != INITIAL_PID_NAMESPACE;
}

static bool lives(const struct sonde_owner *owner, const struct sonde_owner *us)
{
    if (!owner->pid)
        return false;
    if (owner->pid_namespace != us->pid_namespace)
        return lives_elsewhere(owner, us->pid_namespace);
    return started((pid_t)owner->pid) == owner->started_ticks;
}

static int find(const struct target_module *probe, uint64_t *ret_address)
{
    struct elf_symbol symbol;
    int r = elf_find(probe->elf, "sonde_owner", &symbol);
    if (r == 0 && symbol.size < sizeof(struct sonde_owner))
        r = -EPROTO;
    if (r == 0)
        *ret_address = symbol.value + probe->module->load_bias;
    return r;
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
    int r = hold_one(claim->target->pid, &hold, claim->problem);
    if (r < 0)
        return r;
    r = compare_and_swap(claim);
    hold_release(&hold);
    return r;
}

int owner_claim(struct target *target, const struct target_module *probe, bool waits, struct problem *problem)
{
    struct claim claim = {.target = target, .us = ourselves(), .problem = problem};
    int r = find(probe, &claim.address);
    if (r == -ENOENT) /* its symbols are not there yet */
        return problem_set(problem, -ESTALE, "process %d: another sonde is loading its probe", target->pid);
    if (r < 0)
        return problem_set(problem, r, "process %d has a probe of another version", target->pid);
    r = aside_share(claim_held, &claim);
    return r == -EPERM && waits ? compare_and_swap(&claim) : r;
}

void owner_release(struct target *target, const struct target_module *probe)
{
    const struct sonde_owner us = ourselves(), nobody = {0};
    struct sonde_owner owner;
    uint64_t address;
    if (find(probe, &address) == 0 && target_read(target, address, &owner, sizeof(owner)) == 0 &&
        is_same(&owner, &us))
        (void)target_write(target, address, &nobody, sizeof(nobody));
}
