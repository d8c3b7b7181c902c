/* See lender.h. The messages are those of protocol.h: GRANT adds a process, WORK ends that, QUESTION asks.
 * Who asks is assumed to have been taken over once it has begun to work. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/lender.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process_file.h"
#include "broker/apart.h"
#include "broker/broker.h"
#include "broker/marks.h"
#include "broker/protocol.h"
#include "broker/sandbox.h"
#include "symbol/memory.h"

/* ---- in the lender: of which processes ---- */

/* Who a process belongs to, as far as others are concerned. */
struct domain {
    long user;
    uint64_t user_namespace;
};

struct scope {
    bool all, closed;
    ARRAY(struct proc *) processes;
    ARRAY(struct domain) domains;
    char *cgroup; /* part of a path: all that are in such a group; NULL: none */
    struct marks *marks;
    struct proc *last; /* that was asked about, and is allowed: the next question is about it, too */
};

static struct domain domain_of(const struct proc *proc)
{
    struct stat namespace = {0};
    (void)fstatat(proc->directory, "ns/user", &namespace, 0);
    return (struct domain){proc_status_number(proc, "Uid"), namespace.st_ino};
}

static int allow(struct scope *scope, pid_t pid)
{
    struct proc *proc = NULL;
    if (scope->closed || pid < 0)
        return -EPERM;
    if (!pid) {
        scope->all = true;
        return 0;
    }
    int r = proc_open(pid, &proc);
    if (r < 0)
        return r;
    if (array_add(&scope->processes, proc) < 0) {
        proc_unref(proc);
        return -ENOMEM;
    }
    return array_add(&scope->domains, domain_of(proc));
}

static bool in_domain(const struct scope *scope, const struct proc *proc)
{
    const struct domain its = domain_of(proc);
    array_foreach (&scope->domains, d)
        if (its.user >= 0 && d->user == its.user && d->user_namespace == its.user_namespace)
            return true;
    return false;
}

/* As the sampler chooses them: where one of its control groups has this in its path. */
static bool in_cgroup(const struct scope *scope, const struct proc *proc)
{
    enum { CGROUP_MAX = 1 << 16 };
    _cleanup_(freep) char *text = NULL;
    return scope->cgroup && proc_read(proc, "cgroup", CGROUP_MAX, &text, NULL) == 0 &&
           strstr(text, scope->cgroup);
}

/* Is it one of them, or was it started by one, directly or not? */
static bool descends(const struct scope *scope, const struct proc *proc)
{
    enum { GENERATIONS = 64 };
    pid_t pid = proc->pid;
    for (int i = 0; scope->processes.count && i < GENERATIONS && pid > 1; i++) {
        array_foreach (&scope->processes, p)
            if ((*p)->pid == pid && proc_exists(*p))
                return true;
        _cleanup_(proc_unrefp) struct proc *at = NULL;
        if (proc_open(pid, &at) < 0)
            return false;
        pid = (pid_t)proc_status_number(at, "PPid");
    }
    return false;
}

static int allow_cgroup(struct scope *scope, const char *name, size_t length)
{
    if (scope->closed || scope->cgroup || length < 2 || memchr(name, 0, length) != name + length - 1)
        return -EPERM;
    scope->cgroup = strdup(name);
    return scope->cgroup ? 0 : -ENOMEM;
}

/* The process, borrowed; NULL: it is none of the caller's business, or gone. */
static const struct proc *find(struct scope *scope, pid_t pid)
{
    struct proc *proc = NULL;
    if (scope->last && scope->last->pid == pid && proc_exists(scope->last))
        return scope->last;
    if (proc_open(pid, &proc) < 0)
        return NULL;
    if (!scope->all && !in_cgroup(scope, proc) && !in_domain(scope, proc) && !descends(scope, proc)) {
        proc_unref(proc);
        return NULL;
    }
    proc_unref(scope->last);
    return scope->last = proc;
}

/* ---- in the lender: answers ---- */

/* Stacks are unwound and named without a process's memory, but for runtimes that keep their names there. Of
 * processes that were named, or were started by those, it is lent anyway. */
static int open_memory_of(const struct scope *scope, const struct proc *proc)
{
    if (!descends(scope, proc) && !marks_in(scope->marks, proc))
        return -EPERM;
    return proc_file_open(proc, "mem", O_RDONLY);
}

/* What a profiler asks for, and no more than that. A table of its own: a worker asks for other things. */
static int open_text_of(const struct proc *proc, const char *name, size_t length)
{
    static const char *const TEXTS[] = {"maps", "stat", "status", "comm", "cmdline"};
    for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++)
        if (length == strlen(TEXTS[i]) + 1 && memcmp(name, TEXTS[i], length) == 0)
            return proc_file_open(proc, TEXTS[i], O_RDONLY);
    return -EPERM;
}

static int answer(struct scope *scope, const struct broker_head *asked, const char *name, size_t length)
{
    const struct proc *proc = asked->target > 0 ? find(scope, asked->target) : NULL;
    if (asked->target > 0 && !proc)
        return -EPERM;
    switch (asked->question) {
    case PROC_MEMORY:
        return proc ? open_memory_of(scope, proc) : -EPERM;
    case PROC_PROGRAM:
        return proc ? proc_file_open(proc, "exe", O_PATH) : -EPERM;
    case PROC_TEXT:
        return proc ? open_text_of(proc, name, length) : -EPERM;
    case PROC_FILE:
        return proc ? broker_code_file(proc, name, length) : -EPERM;
    case PROC_MAPPED:
        return proc ? broker_code_mapped(proc, asked->start, asked->end) : -EPERM;
    case PROC_OURS:
    case PROC_EXISTS:
        return broker_answer(proc, asked->question, name, length, asked->start, asked->end);
    }
    return -EPERM;
}

static uint64_t cpu_ns(void)
{
    struct timespec spent = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return (uint64_t)spent.tv_sec * NS_PER_S + (uint64_t)spent.tv_nsec;
}

/* For memory and maps, mapped files by their place, the rights of a process's user on its files. */
#define NEEDED                                                                               \
    (1ull << CAP_SYS_PTRACE | 1ull << CAP_DAC_READ_SEARCH | 1ull << CAP_CHECKPOINT_RESTORE | \
     1ull << CAP_SETUID | 1ull << CAP_SETGID)

static void run_lender(void *marks, int socket)
{
    static char name[PATH_MAX + 1];
    const struct sandbox_rights rights = {.observes = true, .lends = true, .capabilities = NEEDED};
    struct scope scope = {0};
    sandbox_close_standard();
    /* The sampler waits for what it is lent, and goes first itself (profile/sampler_program.c). */
    (void)setpriority(PRIO_PROCESS, 0, -10);
    if (sandbox_confine(&rights, NULL) < 0 || marks_new(marks, &scope.marks) < 0)
        return;
    for (struct broker_head asked = {0};;) {
        ptrdiff_t n = broker_receive(socket, &asked, name, sizeof(name), NULL);
        if (n < 0 && n != -EPROTO)
            return;
        int r = -EPERM;
        if (n > 0 && asked.verb == BROKER_GRANT)
            r = allow_cgroup(&scope, name, (size_t)n);
        else if (n == 0 && asked.verb == BROKER_GRANT)
            r = allow(&scope, asked.target);
        else if (n >= 0 && asked.verb == BROKER_QUESTION)
            r = answer(&scope, &asked, name, (size_t)n);
        else if (n >= 0 && asked.verb == BROKER_WORK)
            r = 0;
        scope.closed |= asked.verb != BROKER_GRANT;
        bool has_file = r >= 0 && asked.verb == BROKER_QUESTION && asked.question != PROC_EXISTS;
        const struct broker_head head = {.verb = BROKER_ANSWER,
                                         .target = asked.target,
                                         .question = asked.question,
                                         .result = MIN(r, 0),
                                         .start = cpu_ns(),
                                         .serial = asked.serial};
        int sent = broker_send(socket, head, NULL, 0, has_file ? r : -1);
        if (has_file)
            close(r);
        if (sent < 0)
            return;
    }
}

/* ---- in the one that asks ---- */

static int lender = -1;
static uint32_t serial;
static uint64_t spent_ns; /* by the lender */

/* 0, a descriptor, or a negative errno. */
static int exchange(struct broker_head head, const char *name)
{
    int fd = -1;
    head.serial = ++serial;
    int r = broker_send(lender, head, name, name ? strlen(name) + 1 : 0, -1);
    if (r < 0)
        return r;
    if (broker_receive(lender, &head, NULL, 0, &fd) < 0 || head.verb != BROKER_ANSWER ||
        head.serial != serial) {
        if (fd >= 0)
            close(fd);
        return -EPIPE;
    }
    spent_ns = head.start;
    return head.result < 0 ? head.result : fd >= 0 ? fd : 0;
}

static int borrow(pid_t pid, enum proc_question question, const char *name, uint64_t start, uint64_t end)
{
    int r = exchange(
        (struct broker_head){
            .verb = BROKER_QUESTION, .target = pid, .question = question, .start = start, .end = end},
        name);
    return r == 0 && question != PROC_EXISTS && question != PROC_PATH ? -EPROTO : r;
}

/* What everybody may read needs nobody's rights. */
static int open_public(pid_t pid, const char *name)
{
    char path[64];
    if (strcmp(name, "maps") == 0 ||
        snprintf(path, sizeof(path), "/proc/%d/%s", pid, name) >= (int)sizeof(path))
        return -EPERM;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int open_ours(const char *path)
{
    _cleanup_(file_closep) int root = process_root_open(NULL);
    return root < 0 ? root : process_file_open(root, path);
}

/* proc_ask_fn. */
static int ask(pid_t pid, enum proc_question question, const char *name, uint64_t start, uint64_t end)
{
    int fd = -EPERM;
    if (question == PROC_EXISTS)
        return kill(pid, 0) < 0 && errno == ESRCH ? -ESRCH : 0;
    if (question == PROC_TEXT)
        fd = open_public(pid, name);
    else if (question == PROC_OURS)
        fd = open_ours(name);
    return fd >= 0 ? fd : borrow(pid, question, name, start, end);
}

/* memory_open_fn. */
static int open_memory(pid_t pid)
{
    return borrow(pid, PROC_MEMORY, NULL, 0, 0);
}

int lender_start(const char *const *marks, struct problem *problem)
{
    return apart_start("sonde:lender", run_lender, (void *)(uintptr_t)marks, &lender, problem);
}

int lender_allow(pid_t pid)
{
    return exchange((struct broker_head){.verb = BROKER_GRANT, .target = pid}, NULL);
}

int lender_allow_cgroup(const char *cgroup)
{
    return exchange((struct broker_head){.verb = BROKER_GRANT}, cgroup);
}

void lender_begin(void)
{
    (void)exchange((struct broker_head){.verb = BROKER_WORK}, NULL);
    proc_ask_from_now_on(ask);
    memory_open_from_now_on(open_memory);
}

uint64_t lender_cpu_ns(void)
{
    return spent_ns;
}
