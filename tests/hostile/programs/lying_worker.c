/* Has the worker that parses files of programs lie, as it would if one of those files had taken it over:
 * changes what it says on its way to sonde, or only delays it (late). lying_worker LIE SPAWNER...   SPAWNER:
 * the processes that workers are forked from. Prints "ready", then "lied" for each plan or question that was
 * changed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/plan.h"
#include "broker/protocol.h"

enum { LATE_S = 7 }; /* a probe that hears nothing waits for 5 s */

static const char *lie;

static bool lies(const char *name)
{
    return strcmp(lie, name) == 0;
}

/* The arrays behind the head, as plan_encode() puts them. */
static void change_plan(struct plan_head *head)
{
    struct plan_module *modules = (void *)(head + 1);
    struct plan_hook *hooks = (void *)(modules + head->modules);
    struct plan_probe *probes = (void *)(hooks + head->hooks);
    uint64_t data = head->probes ? probes[0].owner : 0, code = head->library.open;
    uint64_t first = 0;
    for (uint32_t i = 0; i < head->hooks; i++) {
        if (!hooks[i].address)
            continue;
        if (!first)
            first = hooks[i].address;
        if (lies("outside"))
            hooks[i].address = 0x10000;
        else if (lies("data"))
            hooks[i].address = data;
        else if (lies("elsewhere"))
            hooks[i].address = code;
        else if (lies("overlap"))
            hooks[i].address = first + i % 4;
        else if (lies("bytes"))
            memset(hooks[i].code, 0xcc, sizeof(hooks[i].code));
    }
    if (lies("owner"))
        probes[0].owner = code;
    else if (lies("callee"))
        head->library.open = head->config.node.script_run = data;
    else if (lies("segments"))
        modules[0].image_end = ~0ull;
    else if (lies("counts"))
        head->hooks = ~0u;
}

static bool copy(pid_t pid, uint64_t address, void *bytes, size_t size, bool writes)
{
    struct iovec ours = {bytes, size}, theirs = {(void *)(uintptr_t)address, size};
    ssize_t n = writes ? process_vm_writev(pid, &ours, 1, &theirs, 1, 0)
                       : process_vm_readv(pid, &ours, 1, &theirs, 1, 0);
    return n == (ssize_t)size;
}

/* A message that the worker is about to send. */
static void change_message(pid_t pid, uint64_t address)
{
    static char bytes[BROKER_BYTES_MAX];
    struct msghdr message;
    struct iovec parts[2];
    struct broker_head head;
    if (!copy(pid, address, &message, sizeof(message), false) ||
        !copy(pid, (uintptr_t)message.msg_iov, parts, sizeof(parts), false) ||
        !copy(pid, (uintptr_t)parts[0].iov_base, &head, sizeof(head), false))
        return;
    bool changed = false;
    if (lies("questions") && head.verb == BROKER_QUESTION) {
        head.target = 1;
        changed = copy(pid, (uintptr_t)parts[0].iov_base, &head, sizeof(head), true);
    } else if (!lies("questions") && head.verb == BROKER_RESULT && head.result == 0 &&
               parts[1].iov_len >= sizeof(struct plan_head) && parts[1].iov_len <= sizeof(bytes) &&
               copy(pid, (uintptr_t)parts[1].iov_base, bytes, parts[1].iov_len, false)) {
        struct plan_head *plan = (void *)bytes;
        if (lies("late")) {
            sleep(LATE_S);
            changed = true;
        } else if (plan->kind) {
            change_plan(plan);
            changed = copy(pid, (uintptr_t)parts[1].iov_base, bytes, parts[1].iov_len, true);
        }
    }
    if (changed)
        puts("lied");
}

static void take_stop(pid_t pid, int status)
{
    struct user_regs_struct registers;
    int signal = WSTOPSIG(status), passes = 0;
    if (signal == (SIGTRAP | 0x80)) {
        if (ptrace(PTRACE_GETREGS, pid, NULL, &registers) == 0 && registers.orig_rax == SYS_sendmsg &&
            (int64_t)registers.rax == -ENOSYS)
            change_message(pid, registers.rsi);
    } else if (!(status >> 16)) {
        passes = signal;
    }
    (void)ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(intptr_t)passes);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    lie = argv[1];
    for (int i = 2; i < argc; i++)
        if (ptrace(PTRACE_SEIZE, atoi(argv[i]), NULL,
                   (void *)(intptr_t)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACECLONE)) <
            0) {
            perror("PTRACE_SEIZE");
            return 1;
        }
    puts("ready");
    for (int status;;) {
        pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0)
            return 0;
        if (WIFSTOPPED(status))
            take_stop(pid, status);
    }
}
