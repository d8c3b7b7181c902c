/* See aside.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/aside.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* What parent and child share: the result, then the context. */
struct sheet {
    int result;
    _Alignas(16) char context[];
};

static void await_end(pid_t child)
{
    while (waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
        ;
}

int aside_run(int (*work)(void *context), void *context, size_t size)
{
    size_t length = sizeof(struct sheet) + size;
    struct sheet *sheet = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (sheet == MAP_FAILED)
        return -ENOMEM;
    memcpy(sheet->context, context, size);
    sheet->result = -ECHILD;
    pid_t child = fork();
    if (child == 0) {
        setsid();
        sheet->result = work(sheet->context);
        _exit(0);
    }
    int r = child < 0 ? -errno : 0;
    if (child > 0) {
        await_end(child);
        memcpy(context, sheet->context, size);
        r = sheet->result;
    }
    munmap(sheet, length);
    return r;
}

struct turn {
    int (*work)(void *context);
    void *context;
    int result;
};

static int take_turn(void *argument)
{
    struct turn *turn = argument;
    setsid();
    turn->result = turn->work(turn->context);
    return 0;
}

/* CLONE_VFORK: this thread stands still until the child has ended, so the child may use its errno and the
 * like. */
int aside_share(int (*work)(void *context), void *context)
{
    enum { STACK = 256 << 10 };
    struct turn turn = {work, context, -ECHILD};
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED)
        return -ENOMEM;
    pid_t child = clone(take_turn, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, &turn);
    int r = child < 0 ? -errno : 0;
    if (child > 0) {
        await_end(child);
        r = turn.result;
    }
    munmap(stack, STACK);
    return r;
}
