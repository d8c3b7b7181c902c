/* Has a process that reads others for sonde, without rights, ask for what belongs to others, as somebody
 * would who has taken it over. asker PID OWN OTHER    OWN: a process that it reads; OTHER: one that it does
 * not. Prints a line for each question about these that was answered, "own: ..." or "other: ..."; the last
 * line is "asked N". The process goes on afterwards as if nothing had been. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"
#include "broker/protocol.h"

static pid_t taken;
static struct user_regs_struct before;
static uint64_t room;

static void fail(const char *what)
{
    perror(what);
    if (taken)
        ptrace(PTRACE_DETACH, taken, NULL, NULL);
    exit(1);
}

static void copy(uint64_t at, void *bytes, size_t size, bool put)
{
    struct iovec ours = {bytes, size}, theirs = {(void *)(uintptr_t)at, size};
    ssize_t n = put ? process_vm_writev(taken, &ours, 1, &theirs, 1, 0)
                    : process_vm_readv(taken, &ours, 1, &theirs, 1, 0);
    if (n != (ssize_t)size)
        fail("its memory");
}

static long call(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    struct user_regs_struct regs = before;
    long old = ptrace(PTRACE_PEEKTEXT, taken, before.rip, NULL);
    int status;
    regs.rax = (unsigned long long)number;
    regs.orig_rax = ~0ull; /* nothing is restarted */
    regs.rdi = a;
    regs.rsi = b;
    regs.rdx = c;
    regs.r10 = d;
    regs.r8 = ~0ull;
    regs.r9 = 0;
    /* syscall; int3 */
    if (ptrace(PTRACE_POKETEXT, taken, before.rip, (old & ~0xffffffl) | 0xcc050f) < 0 ||
        ptrace(PTRACE_SETREGS, taken, NULL, &regs) < 0)
        fail("ptrace");
    for (int signal = 0;; signal = 0) {
        if (ptrace(PTRACE_CONT, taken, NULL, signal) < 0 || waitpid(taken, &status, __WALL) != taken)
            fail("ptrace");
        if (!WIFSTOPPED(status)) {
            printf("ended it (call %ld)\n", number);
            exit(1);
        }
        if (WSTOPSIG(status) == SIGTRAP && status >> 16 == 0)
            break;
    }
    if (ptrace(PTRACE_GETREGS, taken, NULL, &regs) < 0 || ptrace(PTRACE_POKETEXT, taken, before.rip, old) < 0)
        fail("ptrace");
    return (long)regs.rax;
}

/* The socket over which it asks is the one that was made last. */
static int socket_of(pid_t pid)
{
    char path[64], link[64];
    int last = -1;
    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    DIR *list = opendir(path);
    for (const struct dirent *e; list && (e = readdir(list));) {
        ssize_t n = readlinkat(dirfd(list), e->d_name, link, sizeof(link));
        if (n > 7 && memcmp(link, "socket:", 7) == 0 && atoi(e->d_name) > last)
            last = atoi(e->d_name);
    }
    if (list)
        closedir(list);
    return last;
}

/* What the lender says to one question: 0, or a negative errno. */
static int question(int socket, pid_t about, uint32_t what, const char *name, uint64_t start, uint64_t end)
{
    struct message {
        struct msghdr head;
        struct iovec parts[1];
        struct broker_head ask;
        char name[256];
        char control[64];
    } m = {.ask = {.verb = BROKER_QUESTION,
                   .target = about,
                   .question = what,
                   .start = start,
                   .end = end,
                   .serial = 4711,
                   .length = name ? (uint32_t)strlen(name) + 1 : 0}};
    snprintf(m.name, sizeof(m.name), "%s", name ? name : "");
    m.parts[0] = (struct iovec){(void *)(uintptr_t)(room + offsetof(struct message, ask)),
                                sizeof(m.ask) + m.ask.length};
    m.head.msg_iov = (struct iovec *)(uintptr_t)(room + offsetof(struct message, parts));
    m.head.msg_iovlen = 1;
    copy(room, &m, sizeof(m), true);
    if (call(SYS_sendmsg, (uint64_t)socket, room, 0, 0) < 0)
        return -EPIPE;
    m.parts[0].iov_len = sizeof(m.ask);
    m.head.msg_control = (void *)(uintptr_t)(room + offsetof(struct message, control));
    m.head.msg_controllen = sizeof(m.control);
    copy(room, &m, sizeof(m), true);
    if (call(SYS_recvmsg, (uint64_t)socket, room, 0, 0) < 0)
        return -EPIPE;
    copy(room, &m, sizeof(m), false);
    return m.ask.verb == BROKER_ANSWER && m.ask.serial == 4711 ? m.ask.result : -EPROTO;
}

int main(int argc, char **argv)
{
    static const char *const TEXTS[] = {"maps", "stat", "status", "comm", "cmdline", "environ", "mem", "cwd"};
    unsigned asked = 0;
    int status;
    if (argc != 4)
        return 2;
    taken = atoi(argv[1]);
    int socket = socket_of(taken);
    if (ptrace(PTRACE_SEIZE, taken, NULL, NULL) < 0 || ptrace(PTRACE_INTERRUPT, taken, NULL, NULL) < 0 ||
        waitpid(taken, &status, __WALL) != taken || ptrace(PTRACE_GETREGS, taken, NULL, &before) < 0)
        fail("ptrace");
    room = (uint64_t)call(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    if ((int64_t)room < 0)
        fail("no memory");
    for (int of = 0; of < 2; of++) {
        pid_t about = atoi(argv[2 + of]);
        const char *who = of ? "other" : "own";
        for (size_t i = 0; i < sizeof(TEXTS) / sizeof(*TEXTS); i++, asked++)
            if (question(socket, about, PROC_TEXT, TEXTS[i], 0, 0) == 0)
                printf("%s: %s\n", who, TEXTS[i]);
        for (uint32_t what = 0; what < PROC_QUESTIONS + 10; what++, asked++)
            if (what != PROC_TEXT && question(socket, about, what, "/etc/passwd", 0x1000, 0x2000) == 0)
                printf("%s: question %u\n", who, what);
    }
    if (ptrace(PTRACE_SETREGS, taken, NULL, &before) < 0 || ptrace(PTRACE_DETACH, taken, NULL, NULL) < 0)
        fail("ptrace");
    printf("asked %u\n", asked);
    return 0;
}
