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

static int broker = -1;
static uint32_t asked;

/* proc_ask_fn. Nothing else than the answer comes while a question is open. */
static int ask(pid_t pid, enum proc_question question, const char *name, uint64_t start, uint64_t end)
{
    struct broker_head head = {.verb = BROKER_QUESTION,
                               .target = pid,
                               .question = question,
                               .start = start,
                               .end = end,
                               .serial = ++asked};
    int fd = -1, r = broker_send(broker, head, name, name ? strlen(name) + 1 : 0, -1);
    if (r < 0)
        return r;
    if (broker_receive(broker, &head, NULL, 0, &fd) < 0 || head.verb != BROKER_ANSWER || head.serial != asked)
        _exit(1); /* the broker is gone */
    return head.result < 0                                    ? head.result
           : question == PROC_EXISTS || question == PROC_PATH ? 0
           : fd >= 0                                          ? fd
                                                              : -EPROTO;
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
    int r = kind->work(context, target, bytes, length, &result, &size, &problem);
    struct timespec spent = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    const struct broker_head head = {.verb = BROKER_RESULT,
                                     .target = target,
                                     .result = MIN(r, 0),
                                     .start = (uint64_t)spent.tv_sec * NS_PER_S + (uint64_t)spent.tv_nsec};
    int sent = r < 0 ? broker_send(broker, head, &problem, sizeof(problem), -1)
                     : broker_send(broker, head, result, size, -1);
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

_Noreturn void worker_run(const struct worker_kind *kind, int socket)
{
    static char bytes[BROKER_BYTES_MAX];
    struct sandbox_walls walls;
    struct problem problem = {0};
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL); /* no handler of ours is this process's business; a fault ends it */
    truncated_expect();
    prctl(PR_SET_NAME, kind->name, 0, 0, 0);
    int r = sandbox_enter(&socket, 1, &walls, &problem);
    broker = socket;
    /* The first message says what keeps us in, or why nothing does. */
    const struct broker_head hello = {.verb = BROKER_RESULT, .result = r};
    if (broker_send(broker, hello, r < 0 ? (const void *)&problem : &walls,
                    r < 0 ? sizeof(problem) : sizeof(walls), -1) < 0 ||
        r < 0)
        _exit(1);
    proc_ask_from_now_on(ask);
    (void)memory_read_through_descriptor(0, -1); /* nothing is read by a number */
    void *context = kind->begin();
    for (struct broker_head head; context;) {
        int fd = -1;
        ptrdiff_t n = broker_receive(broker, &head, bytes, sizeof(bytes), &fd);
        if (n < 0)
            break;
        if (head.verb == BROKER_WORK && fd >= 0)
            work_file(kind, context, head.target, fd);
        else if (head.verb == BROKER_WORK)
            work(kind, context, head.target, bytes, (size_t)n);
        else if (head.verb == BROKER_DROP)
            drop(kind, context, head.target);
        else if (head.verb == BROKER_GRANT && fd >= 0)
            take(head.target, fd);
    }
    _exit(0);
}
