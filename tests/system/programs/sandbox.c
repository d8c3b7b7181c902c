/* Runs a program in a sandbox of the kind that containers and systemd units make, for the tests of attach:
 *
 *   sandbox [--root FOLDER] [--namespaces] [--proc] [--user N] [--noexec FOLDER]... [--strict] [--filter
 * FILE]
 * [--without CALL] PROGRAM...
 *
 * --root: FOLDER becomes its root, with a /dev/shm of 64 KiB. --namespaces: mounts, processes, network, IPC
 * and users of its own; --proc: and a /proc that shows them. --noexec: nothing in any mount may be executed
 * but what lies below these folders.
 * --strict: memory that is written is never executed, by a filter as systemd's MemoryDenyWriteExecute makes
 * it and, where there is one, by the kernel itself. --filter: the numbers of the only calls that do not kill
 * it.
 * --without: the number of a call that does.
 *
 * Whatever it mounts, it mounts in a namespace of its own, from which nothing spreads: it is gone with its
 * last process, however that ended. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUMBER     offsetof(struct seccomp_data, nr)
#define PROTECTION (offsetof(struct seccomp_data, args) + 2 * 8)

static void try(int result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "sandbox: %s: %s\n", what, strerror(errno));
    exit(77);
}

static void install(struct sock_filter *filter, unsigned short count)
{
    struct sock_fprog program = {count, filter};
    try(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "a filter");
}

static void deny_write_execute(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pkey_mprotect, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 6),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, PROTECTION),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_WRITE | PROT_EXEC),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_WRITE | PROT_EXEC, 2, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, PROTECTION),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    install(filter, sizeof(filter) / sizeof(filter[0]));
    prctl(65 /* PR_SET_MDWE, Linux 6.3 */, 1, 0, 0, 0);
}

static void kill_for(int number)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    install(filter, 4);
}

static void allow_only(const char *path)
{
    static struct sock_filter filter[2 * 512 + 2];
    unsigned short count = 0;
    FILE *file = fopen(path, "r");
    try(file ? 0 : -1, path);
    filter[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER);
    for (int number; fscanf(file, "%d", &number) == 1 && count < 1000;) {
        filter[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1);
        filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    fclose(file);
    filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    install(filter, count);
}

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        try(-1, path);
    close(fd);
}

static void enter_root(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/dev", folder);
    mkdir(path, 0755);
    snprintf(path, sizeof(path), "%s/dev/shm", folder);
    mkdir(path, 01777);
    try(mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k"), "a small /dev/shm");
    try(chroot(folder), folder);
    try(chdir("/"), "/");
}

/* Every mount becomes noexec, as NoExecPaths=/ does; the folders given are mounted over themselves first. */
static void forbid_execution(const char *const *folders, int count)
{
    for (int i = 0; i < count; i++)
        try(mount(folders[i], folders[i], NULL, MS_BIND | MS_REC, NULL), folders[i]);
    FILE *mounts = fopen("/proc/self/mountinfo", "r");
    try(mounts ? 0 : -1, "mountinfo");
    for (char line[4096], place[4096]; fgets(line, sizeof(line), mounts);) {
        if (sscanf(line, "%*s %*s %*s %*s %4095s", place) != 1)
            continue;
        bool exempt = false;
        for (int i = 0; i < count; i++)
            exempt |= strcmp(place, folders[i]) == 0;
        if (!exempt)
            mount(NULL, place, NULL, MS_REMOUNT | MS_BIND | MS_NOEXEC, NULL);
    }
    fclose(mounts);
}

int main(int argc, char **argv)
{
    const char *root = NULL, *filter = NULL, *exec[16];
    int execs = 0, without = -1, user = 0, i = 1;
    bool namespaces = false, strict = false, proc = false;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--root") == 0)
            root = argv[++i];
        else if (strcmp(argv[i], "--filter") == 0)
            filter = argv[++i];
        else if (strcmp(argv[i], "--without") == 0)
            without = atoi(argv[++i]);
        else if (strcmp(argv[i], "--user") == 0)
            user = atoi(argv[++i]);
        else if (strcmp(argv[i], "--noexec") == 0 && execs < 16)
            exec[execs++] = argv[++i];
        else if (strcmp(argv[i], "--namespaces") == 0)
            namespaces = true;
        else if (strcmp(argv[i], "--proc") == 0)
            proc = true;
        else if (strcmp(argv[i], "--strict") == 0)
            strict = true;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (root || namespaces || execs || proc) { /* nothing is mounted before */
        try(unshare(CLONE_NEWNS |
                    (namespaces ? CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUSER : 0)),
            "namespaces");
        if (namespaces) {
            write_file("/proc/self/setgroups", "deny");
            write_file("/proc/self/uid_map", "0 0 1");
            write_file("/proc/self/gid_map", "0 0 1");
        }
        try(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten with another user's namespace */
    }
    if (execs)
        forbid_execution(exec, execs);
    if (root)
        enter_root(root);
    if (namespaces) { /* its process 1 is our child */
        pid_t child = fork();
        int status = 0;
        try(child, "fork");
        if (child > 0) {
            waitpid(child, &status, 0);
            return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    if (proc)
        try(mount("proc", "/proc", "proc", 0, NULL), "/proc");
    if (user)
        try(setgid((gid_t)user) < 0 ? -1 : setuid((uid_t)user), "another user");
    prctl(PR_SET_DUMPABLE, 1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    try(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges");
    if (strict)
        deny_write_execute();
    if (without >= 0)
        kill_for(without);
    if (filter)
        allow_only(filter);
    execv(argv[i], argv + i);
    try(-1, argv[i]);
}
