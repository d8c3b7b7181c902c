/* See lender.h. The messages are those of protocol.h: GRANT adds a process, WORK ends that, QUESTION asks.
 * Who asks is assumed to have been taken over once it has begun to work. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/lender.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process_file.h"
#include "broker/apart.h"
#include "broker/broker.h"
#include "broker/domain.h"
#include "broker/marks.h"
#include "broker/protocol.h"
#include "broker/sandbox.h"
#include "broker/spawner.h"
#include "symbol/memory.h"

/* ---- in the lender: of which processes ---- */

/* Who a process belongs to, where it is asked which others belong to the same. */
struct belongs {
    long user;
    uint64_t user_namespace;
};

/* A worker that reads the processes of one domain. */
struct reader {
    struct domain domain;
    uint32_t number;
    int questions; /* its socket; -1: it has ended, and what is kept is when the next one may begin */
    pid_t pid;
    unsigned failures;
    uint64_t not_before_ns;
};

struct scope {
    bool all, closed;
    ARRAY(struct proc *) processes;
    ARRAY(struct belongs) belongings;
    int spawner; /* -1: there are no workers */
    ARRAY(struct reader) readers;
    uint32_t numbers; /* of readers so far */
    char *cgroup;     /* part of a path: all that are in such a group; NULL: none */
    struct marks *marks;
    struct proc *last; /* that was asked about, and is allowed: the next question is about it, too */
};

static struct belongs belongs_to(const struct proc *proc)
{
    struct stat namespace = {0};
    (void)fstatat(proc->directory, "ns/user", &namespace, 0);
    return (struct belongs){proc_status_number(proc, "Uid"), namespace.st_ino};
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
    return array_add(&scope->belongings, belongs_to(proc));
}

static bool belongs(const struct scope *scope, const struct proc *proc)
{
    const struct belongs its = belongs_to(proc);
    array_foreach (&scope->belongings, d)
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
    if (!scope->all && !in_cgroup(scope, proc) && !belongs(scope, proc) && !descends(scope, proc)) {
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

/* Who gives work to workers parses nothing of it: a few texts remain, which most hosts show to everybody. */
static int answer_giver(struct scope *scope, const struct broker_head *asked, const char *name, size_t length)
{
    bool text =
        asked->question == PROC_TEXT && !(length == sizeof("maps") && memcmp(name, "maps", length) == 0);
    return text || asked->question == PROC_EXISTS ? answer(scope, asked, name, length) : -EPERM;
}

/* Files of debug information and of processes that have ended are looked for by their paths as we see them:
 * what everybody may read. */
static int open_public_file(const char *name, size_t length)
{
    if (length < 2 || length > PATH_MAX || memchr(name, 0, length) != name + length - 1)
        return -EPERM;
    return broker_public_file(name);
}

/* A worker is lent what belongs to the processes of its domain, and what everybody may read. */
static int answer_reader(struct scope *scope, const struct reader *reader, const struct broker_head *asked,
                         const char *name, size_t length)
{
    struct domain domain;
    if (asked->target <= 0)
        return asked->question == PROC_OURS ? open_public_file(name, length) : -EPERM;
    const struct proc *proc = find(scope, asked->target);
    if (!proc || domain_of(proc, &domain) < 0 || !domain_same(&domain, &reader->domain))
        return -EPERM;
    return answer(scope, asked, name, length);
}

/* ---- in the lender: workers ---- */

enum {
    PATIENCE_S = 3600
}; /* at most so long, the next worker of a domain whose workers failed has to wait */

static void end_reader(struct scope *scope, struct reader *reader, bool failed)
{
    uint64_t wait_s = 1ull << MIN(2 * reader->failures, 16u);
    if (reader->questions < 0)
        return;
    close(reader->questions);
    reader->questions = -1;
    spawner_end_worker(scope->spawner, reader->pid);
    if (!failed)
        return;
    reader->failures++;
    reader->not_before_ns = clock_monotonic_ns() + MIN(wait_s, (uint64_t)PATIENCE_S) * NS_PER_S;
}

static size_t readers_alive(const struct scope *scope)
{
    size_t count = 0;
    array_foreach (&scope->readers, r)
        count += r->questions >= 0;
    return count;
}

/* The place of the domain's reader, which may have ended; NULL when memory ran out. */
static struct reader *place_of(struct scope *scope, const struct domain *domain)
{
    uint64_t now_ns = clock_monotonic_ns();
    struct reader *free = NULL;
    array_foreach (&scope->readers, r) {
        if (domain_same(&r->domain, domain))
            return r;
        if (r->questions < 0 && now_ns > r->not_before_ns)
            free = r;
    }
    const struct reader fresh = {.domain = *domain, .questions = -1};
    if (!free && array_add(&scope->readers, fresh) < 0)
        return NULL;
    if (!free)
        free = &scope->readers.at[scope->readers.count - 1];
    *free = fresh;
    return free;
}

/* The worker of a domain; its socket, or 0 when who asks has it. */
static int lend_worker(struct scope *scope, const struct domain *domain, struct reader **ret_reader)
{
    enum { PLACES = 4 * LENDER_WORKERS }; /* also of domains whose workers failed a moment ago */
    int work;
    struct reader *reader = place_of(scope, domain);
    if (!reader)
        return -ENOMEM;
    *ret_reader = reader;
    if (reader->questions >= 0)
        return 0;
    if (clock_monotonic_ns() < reader->not_before_ns)
        return -EAGAIN;
    if (readers_alive(scope) >= LENDER_WORKERS || scope->readers.count > PLACES)
        return -EUSERS;
    int r = spawner_new_worker(scope->spawner, &reader->pid, &work, &reader->questions);
    if (r < 0)
        return r;
    reader->number = ++scope->numbers;
    return work;
}

/* user: of a process that has ended, when pid is 0. */
static int which_worker(struct scope *scope, pid_t pid, uint64_t user, struct reader **ret_reader)
{
    struct domain domain;
    if (scope->spawner < 0)
        return -ENOSYS;
    if (!pid) {
        domain = domain_of_ended((uid_t)user);
        return lend_worker(scope, &domain, ret_reader);
    }
    const struct proc *proc = find(scope, pid);
    int r = proc ? domain_of(proc, &domain) : -ESRCH;
    return r < 0 ? r : lend_worker(scope, &domain, ret_reader);
}

static void end_numbered(struct scope *scope, uint64_t number, bool failed)
{
    array_foreach (&scope->readers, r)
        if (r->number == number)
            end_reader(scope, r, failed);
}

/* For memory and maps, mapped files by their place, the rights of a process's user on its files. */
#define NEEDED                                                                               \
    (1ull << CAP_SYS_PTRACE | 1ull << CAP_DAC_READ_SEARCH | 1ull << CAP_CHECKPOINT_RESTORE | \
     1ull << CAP_SETUID | 1ull << CAP_SETGID)

struct lending {
    struct scope scope;
    int asker; /* who samples */
    char name[PATH_MAX + 1];
};

/* One message of who samples. A negative errno: he has gone. */
static int serve_asker(struct lending *l)
{
    struct scope *scope = &l->scope;
    struct broker_head asked = {0};
    struct reader *reader = NULL;
    int fd = -1, r = -EPERM;
    ptrdiff_t n = broker_receive(l->asker, &asked, l->name, sizeof(l->name), &fd);
    if (n < 0 && n != -EPROTO)
        return (int)n;
    if (fd >= 0 && !scope->closed && scope->spawner < 0)
        r = scope->spawner = fd;
    else if (fd >= 0)
        close(fd);
    else if (n > 0 && asked.verb == BROKER_GRANT)
        r = allow_cgroup(scope, l->name, (size_t)n);
    else if (n == 0 && asked.verb == BROKER_GRANT)
        r = allow(scope, asked.target);
    else if (n >= 0 && asked.verb == BROKER_QUESTION)
        r = scope->spawner >= 0 ? answer_giver(scope, &asked, l->name, (size_t)n)
                                : answer(scope, &asked, l->name, (size_t)n);
    else if (n >= 0 && asked.verb == BROKER_READER)
        r = which_worker(scope, asked.target, asked.start, &reader);
    else if (n >= 0 && asked.verb == BROKER_END)
        end_numbered(scope, asked.start, asked.end);
    else if (n >= 0 && asked.verb == BROKER_WORK)
        r = 0;
    scope->closed |= asked.verb != BROKER_GRANT;
    bool has_file = r >= 0 && ((asked.verb == BROKER_QUESTION && asked.question != PROC_EXISTS) ||
                               (asked.verb == BROKER_READER && r > 0));
    struct domain_owner owner = {0};
    bool owned = reader && domain_owner(&reader->domain, &owner);
    const struct broker_head head = {.verb = BROKER_ANSWER,
                                     .target = reader ? reader->pid : asked.target,
                                     .question = asked.question,
                                     .result = MIN(r, 0),
                                     .start = clock_process_cpu_ns(),
                                     .end = reader ? reader->number : 0,
                                     .serial = asked.serial};
    int sent =
        broker_send(l->asker, head, owned ? &owner : NULL, owned ? sizeof(owner) : 0, has_file ? r : -1);
    if (has_file)
        close(r);
    return sent;
}

/* One message of a worker, which is assumed to say anything, and is not waited for. */
static void serve_reader(struct lending *l, struct reader *reader)
{
    struct broker_head asked = {0};
    ptrdiff_t n = broker_receive(reader->questions, &asked, l->name, sizeof(l->name), NULL);
    if (n == -EAGAIN)
        return;
    if (n < 0 || asked.verb != BROKER_QUESTION) {
        end_reader(&l->scope, reader, true);
        return;
    }
    int r = answer_reader(&l->scope, reader, &asked, l->name, (size_t)n);
    bool has_file = r >= 0 && asked.question != PROC_EXISTS;
    const struct broker_head head = {.verb = BROKER_ANSWER,
                                     .target = asked.target,
                                     .question = asked.question,
                                     .result = MIN(r, 0),
                                     .serial = asked.serial};
    if (broker_send(reader->questions, head, NULL, 0, has_file ? r : -1) < 0)
        end_reader(&l->scope, reader, true);
    if (has_file)
        close(r);
}

/* Until who samples has gone. */
static void lend(struct lending *l)
{
    struct pollfd waits[1 + 4 * LENDER_WORKERS + 1];
    for (;;) {
        size_t count = MIN(l->scope.readers.count, ARRAY_SIZE(waits) - 1);
        waits[0] = (struct pollfd){.fd = l->asker, .events = POLLIN};
        for (size_t i = 0; i < count; i++)
            waits[1 + i] = (struct pollfd){.fd = l->scope.readers.at[i].questions, .events = POLLIN};
        if (poll(waits, 1 + count, -1) < 0 && errno != EINTR)
            return;
        for (size_t i = 0; i < count; i++) /* one of each in turn */
            if (waits[1 + i].revents)
                serve_reader(l, &l->scope.readers.at[i]);
        if (waits[0].revents && serve_asker(l) < 0)
            return;
    }
}

static void run_lender(void *marks, int socket)
{
    static struct lending lending = {.scope = {.spawner = -1}};
    const struct sandbox_rights rights = {.observes = true, .lends = true, .capabilities = NEEDED};
    lending.asker = socket;
    sandbox_close_standard();
    /* The sampler waits for what it is lent, and goes first itself (profile/sampler_program.c). */
    apart_go_first();
    if (sandbox_confine(&rights, NULL) < 0 || marks_new(marks, &lending.scope.marks) < 0)
        return;
    lend(&lending);
}

/* ---- in the one that asks ---- */

static int lender = -1;
static uint32_t serial;
static uint64_t spent_ns; /* by the lender */

/* 0 or a negative errno; *ret_fd: -1 when none came. *ret_owner stays as it is when none came. */
static int exchange_with(struct broker_head *head, const char *name, int give, int *ret_fd,
                         struct domain_owner *ret_owner)
{
    struct domain_owner owner;
    int fd = -1;
    head->serial = ++serial;
    *ret_fd = -1;
    int r = broker_send(lender, *head, name, name ? strlen(name) + 1 : 0, give);
    if (r < 0)
        return r;
    ptrdiff_t n = broker_receive(lender, head, &owner, sizeof(owner), &fd);
    if (n < 0 || head->verb != BROKER_ANSWER || head->serial != serial) {
        if (fd >= 0)
            close(fd);
        return -EPIPE;
    }
    spent_ns = head->start;
    if (n == sizeof(owner))
        *ret_owner = owner;
    *ret_fd = fd;
    return MIN(head->result, 0);
}

/* 0, a descriptor, or a negative errno. */
static int exchange(struct broker_head head, const char *name)
{
    struct domain_owner owner;
    int fd, r = exchange_with(&head, name, -1, &fd, &owner);
    return r < 0 ? r : MAX(fd, 0);
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

int lender_start(const char *const *marks, const struct worker_kind *kind, struct problem *problem)
{
    _cleanup_(file_closep) int spawner = -1;
    struct broker_head head = {.verb = BROKER_GRANT};
    struct domain_owner owner;
    int none;
    int r = kind ? spawner_start(kind, &spawner, problem) : 0;
    if (r >= 0)
        r = apart_start("sonde:lender", run_lender, (void *)(uintptr_t)marks, &lender, problem);
    if (r >= 0 && kind) {
        r = exchange_with(&head, NULL, spawner, &none, &owner);
        if (r < 0)
            problem_set(problem, r, "no process opens what others have: %s", strerror(-r));
    }
    return r;
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

static int ask_for_worker(struct broker_head head, struct lent_worker *ret_worker)
{
    struct domain_owner owner = {0};
    int fd, r = exchange_with(&head, NULL, -1, &fd, &owner);
    if (r < 0)
        return r;
    *ret_worker = (struct lent_worker){(uint32_t)head.end, head.target, fd, owner};
    return 0;
}

int lender_worker(pid_t pid, struct lent_worker *ret_worker)
{
    return pid > 0 ? ask_for_worker((struct broker_head){.verb = BROKER_READER, .target = pid}, ret_worker)
                   : -ESRCH;
}

int lender_worker_of_ended(uid_t user, struct lent_worker *ret_worker)
{
    return ask_for_worker((struct broker_head){.verb = BROKER_READER, .start = user}, ret_worker);
}

void lender_end_worker(uint32_t number, bool failed)
{
    (void)exchange((struct broker_head){.verb = BROKER_END, .start = number, .end = failed}, NULL);
}

uint64_t lender_cpu_ns(void)
{
    return spent_ns;
}
