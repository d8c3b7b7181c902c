/* See worker.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/macro.h"
#include "base/proc.h"
#include "base/truncated.h"
#include "broker/protocol.h"
#include "broker/sandbox.h"
#include "symbol/memory.h"

static int broker = -1; /* which is asked */
static int giver = -1;  /* which gives work */
static uint32_t asked;

/* What was answered about the process that was asked about last, during one piece of work: that it is there,
 * and its stat, which is the same process's for as long as it is open. Each question costs two changes of the
 * process that runs, which take long on a busy machine. */
static struct {
    pid_t pid;
    int stat; /* -1: not asked for yet */
} at_hand = {.stat = -1};

static void hand_over(pid_t pid)
{
    if (at_hand.stat >= 0)
        close(at_hand.stat);
    at_hand.pid = pid;
    at_hand.stat = -1;
}

static bool is_stat(enum proc_question question, const char *name)
{
    return question == PROC_TEXT && name && strcmp(name, "stat") == 0;
}

/* A descriptor, 0, or -1: it has to be asked. */
static int answer_at_hand(pid_t pid, enum proc_question question, const char *name)
{
    if (giver == broker || pid <= 0 || pid != at_hand.pid)
        return -1;
    if (question == PROC_EXISTS)
        return 0;
    return is_stat(question, name) && at_hand.stat >= 0 && lseek(at_hand.stat, 0, SEEK_SET) == 0
               ? dup(at_hand.stat)
               : -1;
}

static void keep_at_hand(pid_t pid, enum proc_question question, const char *name, int fd)
{
    if (giver == broker || pid <= 0)
        return;
    if (pid != at_hand.pid)
        hand_over(pid);
    if (is_stat(question, name) && at_hand.stat < 0 && fd >= 0)
        at_hand.stat = dup(fd);
}

/* proc_ask_fn. Nothing else than the answer comes while a question is open. */
static int ask(pid_t pid, enum proc_question question, const char *name, uint64_t start, uint64_t end)
{
    struct broker_head head = {.verb = BROKER_QUESTION,
                               .target = pid,
                               .question = question,
                               .start = start,
                               .end = end,
                               .serial = ++asked};
    int fd = answer_at_hand(pid, question, name);
    if (fd >= 0)
        return fd;
    /* Who asks whether a process is there asks for its stat next, which says it, too. */
    if (question == PROC_EXISTS && giver != broker && pid > 0) {
        fd = ask(pid, PROC_TEXT, "stat", 0, 0);
        if (fd >= 0)
            close(fd);
        return MIN(fd, 0);
    }
    int r = broker_send(broker, head, name, name ? strlen(name) + 1 : 0, -1);
    if (r < 0)
        return r;
    if (broker_receive(broker, &head, NULL, 0, &fd) < 0 || head.verb != BROKER_ANSWER || head.serial != asked)
        _exit(1); /* the broker is gone */
    if (head.result >= 0)
        keep_at_hand(pid, question, name, fd);
    return head.result < 0                                    ? head.result
           : question == PROC_EXISTS || question == PROC_PATH ? 0
           : fd >= 0                                          ? fd
                                                              : -EPROTO;
}

/* memory_open_fn, where memory is not granted but asked for. */
static int open_memory(pid_t pid)
{
    return ask(pid, PROC_MEMORY, NULL, 0, 0);
}

/* A target's memory, kept as long as it is granted. */
struct granted {
    pid_t pid;
    int memory;
};
static ARRAY(struct granted) granted;

static void drop(const struct worker_kind *kind, void *context, pid_t pid)
{
    array_foreach (&granted, g)
        if (g->pid == pid && g->memory >= 0) {
            close(g->memory);
            g->memory = -1;
            (void)memory_read_through_descriptor(pid, -1);
        }
    if (giver != broker)
        memory_forget(pid);
    kind->forget(context, pid);
}

static void take(pid_t pid, int memory)
{
    array_foreach (&granted, g)
        if (g->pid == pid) {
            if (g->memory >= 0)
                close(g->memory);
            g->memory = memory;
            (void)memory_read_through_descriptor(pid, memory);
            return;
        }
    if (array_add(&granted, (struct granted){pid, memory}) < 0 ||
        memory_read_through_descriptor(pid, memory) < 0)
        _exit(1);
}

static void work(const struct worker_kind *kind, void *context, pid_t target, const void *bytes,
                 size_t length)
{
    struct problem problem = {0};
    void *result = NULL;
    size_t size = 0;
    hand_over(0);
    int r = kind->work(context, target, bytes, length, &result, &size, &problem);
    const struct broker_head head = {
        .verb = BROKER_RESULT, .target = target, .result = MIN(r, 0), .start = clock_process_cpu_ns()};
    int sent = r < 0 ? broker_send(giver, head, &problem, sizeof(problem), -1)
                     : broker_send(giver, head, result, size, -1);
    free(result);
    if (sent < 0)
        _exit(1);
}

static void work_file(const struct worker_kind *kind, void *context, pid_t target, int fd)
{
    struct stat st;
    void *bytes =
        fstat(fd, &st) < 0 ? MAP_FAILED : mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        _exit(1);
    work(kind, context, target, bytes, (size_t)st.st_size);
    munmap(bytes, (size_t)st.st_size);
}

static void share(const struct worker_kind *kind, void *context, int fd, const void *bytes, size_t length)
{
    if (!kind->share)
        _exit(1);
    kind->share(context, fd, bytes, length);
    close(fd);
}

/* What it may allocate, so that what it parses cannot use up the machine: half of the memory there is, and no
 * more than any program's symbols, rows and lines take. Files that it maps, however large, do not count. */
static void limit_memory(void)
{
#if !defined(__SANITIZE_ADDRESS__) /* which reserves far more than that */
    enum { LEAST_MB = 256, MOST_MB = 4096 };
    const uint64_t mb = 1 << 20, pages = (uint64_t)MAX(sysconf(_SC_PHYS_PAGES), 0l),
                   half = pages * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    const rlim_t most = MIN(MAX(half, LEAST_MB * mb), MOST_MB * mb);
    (void)setrlimit(RLIMIT_DATA, &(struct rlimit){most, most});
#endif
}

static _Noreturn void run(const struct worker_kind *kind, int fetcher)
{
    static _Alignas(16) char bytes[BROKER_BYTES_MAX];
    const int keep[] = {giver, broker, fetcher < 0 ? giver : fetcher};
    struct sandbox_walls walls;
    struct problem problem = {0};
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL); /* no handler of ours is this process's business; a fault ends it */
    truncated_expect();
    prctl(PR_SET_NAME, kind->name, 0, 0, 0);
    if (giver != broker)
        limit_memory();
    int r = sandbox_enter(keep, 3, &walls, &problem);
    /* The first message says what keeps us in, or why nothing does. */
    const struct broker_head hello = {.verb = BROKER_RESULT, .result = r};
    if (broker_send(giver, hello, r < 0 ? (const void *)&problem : &walls,
                    r < 0 ? sizeof(problem) : sizeof(walls), -1) < 0 ||
        r < 0)
        _exit(1);
    proc_ask_from_now_on(ask);
    (void)memory_read_through_descriptor(0, -1); /* nothing is read by a number */
    if (giver != broker)
        memory_open_from_now_on(open_memory);
    void *context = kind->begin();
    for (struct broker_head head; context;) {
        int fd = -1;
        ptrdiff_t n = broker_receive(giver, &head, bytes, sizeof(bytes), &fd);
        if (n < 0)
            break;
        if (head.verb == BROKER_WORK && fd >= 0)
            work_file(kind, context, head.target, fd);
        else if (head.verb == BROKER_WORK)
            work(kind, context, head.target, bytes, (size_t)n);
        else if (head.verb == BROKER_DROP)
            drop(kind, context, head.target);
        else if (head.verb == BROKER_GRANT && fd >= 0 && !head.target)
            share(kind, context, fd, bytes, (size_t)n);
        else if (head.verb == BROKER_GRANT && fd >= 0)
            take(head.target, fd);
    }
    _exit(0);
}

_Noreturn void worker_run(const struct worker_kind *kind, int socket)
{
    giver = broker = socket;
    run(kind, -1);
}

_Noreturn void worker_run_lent(const struct worker_kind *kind, int work_socket, int questions, int fetcher)
{
    giver = work_socket;
    broker = questions;
    run(kind, fetcher);
}
