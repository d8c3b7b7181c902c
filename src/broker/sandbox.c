/* See sandbox.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/sandbox.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/proc_code.h"

/* ---- Landlock (linux/landlock.h, of which Debian's headers know the oldest form only) ---- */

struct landlock_rules {
    uint64_t files, network, scopes;
};
enum {
    LANDLOCK_VERSION = 1, /* the flag that asks for it */
    FILES_1 = (1 << 13) - 1,
    FILES_2 = (1 << 14) - 1, /* and moving files between directories */
    FILES_3 = (1 << 15) - 1, /* and truncating */
    FILES_5 = (1 << 16) - 1, /* and ioctl of devices */
    NETWORK_4 = 3,           /* bind and connect */
    SCOPES_6 = 3             /* abstract sockets and signals */
};

static long landlock_version(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION);
}

/* The rights on files that this kernel's rules can rule. */
static uint64_t file_rights(long version)
{
    return version >= 5 ? FILES_5 : version >= 3 ? FILES_3 : version >= 2 ? FILES_2 : FILES_1;
}

/* What rules are to rule, as far as this kernel knows it: everything that is not allowed then is forbidden,
 * but for the network where that is to be free. A descriptor or -1. */
static int new_rules(bool network)
{
    long version = landlock_version();
    if (version < 1)
        return -1;
    struct landlock_rules rules = {.files = file_rights(version),
                                   .network = version >= 4 && !network ? NETWORK_4 : 0,
                                   .scopes = version >= 6 ? SCOPES_6 : 0};
    size_t size = version >= 6   ? sizeof(rules)
                  : version >= 4 ? offsetof(struct landlock_rules, scopes)
                                 : sizeof(rules.files);
    return (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0);
}

/* Takes the rules and closes them. */
static bool enter_rules(int rules)
{
    bool entered = rules >= 0 && syscall(SYS_landlock_restrict_self, rules, 0) == 0;
    if (rules >= 0)
        close(rules);
    return entered;
}

/* Rules that allow nothing. */
static bool forbid_files(void)
{
    return enter_rules(new_rules(false));
}

struct landlock_path {
    uint64_t files;
    int32_t path;
} __attribute__((packed));

enum {
    LANDLOCK_PATH = 1,
    WRITE_FILE = 1 << 1,
    READ_FILE = 1 << 2,
    READ_FOLDER = 1 << 3,
    REMOVE_FOLDER = 1 << 4,
    REMOVE_FILE = 1 << 5,
    MAKE_FOLDER = 1 << 7,
    MAKE_FILE = 1 << 8,
    MOVE = 1 << 13,
    TRUNCATE = 1 << 14,
    OF_FILES = WRITE_FILE | READ_FILE | TRUNCATE, /* what a rule for a file, not a directory, may say */
    READING = READ_FILE | READ_FOLDER,
    WRITING = READING | WRITE_FILE | TRUNCATE | REMOVE_FOLDER | REMOVE_FILE | MAKE_FOLDER | MAKE_FILE | MOVE
};

/* These rights on a file, or on a directory and all that is below it. What is not there need not be. */
static void allow(int rules, const char *path, uint64_t rights)
{
    struct stat st;
    struct landlock_path rule = {.files = rights & file_rights(landlock_version()),
                                 .path = open(path, O_PATH | O_CLOEXEC)};
    if (rule.path < 0)
        return;
    if (fstat(rule.path, &st) == 0 && !S_ISDIR(st.st_mode))
        rule.files &= OF_FILES;
    (void)syscall(SYS_landlock_add_rule, rules, LANDLOCK_PATH, &rule, 0);
    close(rule.path);
}

/* Where programs and their source maps lie: not what belongs to the system, nor what is hidden in root's
 * home. */
static void allow_scripts(int rules, const char *folder)
{
    static const char *const SYSTEM[] = {"boot", "dev", "etc", "proc", "root", "run", "sys"};
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        bool skip = entry->d_name[0] == '.';
        for (size_t i = 0; i < ARRAY_SIZE(SYSTEM); i++)
            skip |= strcmp(folder, "/") == 0 && strcmp(entry->d_name, SYSTEM[i]) == 0;
        char path[PATH_MAX];
        /* the slash at its end: no file */
        if (!skip && snprintf(path, sizeof(path), "%s/%s/", folder, entry->d_name) < (int)sizeof(path))
            allow(rules, path, READING);
    }
    if (dir)
        closedir(dir);
}

/* ---- namespaces and a user of its own ---- */

/* An empty, read-only file system of its own as the root. */
static bool empty_root(void)
{
    return unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", "/tmp", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,mode=0") ==
               0 &&
           chdir("/tmp") == 0 && chroot(".") == 0;
}

static bool become(uid_t user)
{
    return setgroups(0, NULL) == 0 && setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0;
}

/* A number that no user has: the kernel gives a process to nobody else of the same user to trace. */
enum {
    FIRST = 1560281088,
    PIDS = 4 << 20
}; /* far from users, subordinate users (/etc/subuid) and systemd's */

static bool become_nobody_else(void)
{
    return become((uid_t)FIRST + (uid_t)getpid());
}

bool sandbox_is_nobody_else(uid_t user)
{
    return user >= FIRST && user < FIRST + PIDS;
}

/* All capabilities but these, of which those stay that the process has. */
static bool keep_capabilities(uint64_t kept)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct now[2], some[2] = {{0}};
    if (syscall(SYS_capget, &head, now) != 0)
        return false;
    for (int i = 0; i < 2; i++)
        some[i].effective = some[i].permitted = now[i].permitted & (uint32_t)(kept >> 32 * i);
    return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0 &&
           syscall(SYS_capset, &head, some) == 0;
}

/* ---- the filter of system calls ---- */

#define ALLOW(name) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))

/* Of a call whose argument of that number is, or has a bit of, this (32 bits of it); then the next rules. */
#define WITH(name, number, test, value, result)                                                         \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 4), LOAD(args[number]),                          \
        BPF_JUMP(BPF_JMP | (test) | BPF_K, (uint32_t)(value), 0, 1), BPF_STMT(BPF_RET | BPF_K, result), \
        LOAD(nr)
#define ALLOW_WITH(name, number, value)  WITH(name, number, BPF_JEQ, value, SECCOMP_RET_ALLOW)
#define REFUSE_WITH(name, number, value) WITH(name, number, BPF_JEQ, value, SECCOMP_RET_ERRNO | EPERM)
#define ALLOW_BITS(name, number, bits)   WITH(name, number, BPF_JSET, bits, SECCOMP_RET_ALLOW)
#define REFUSE_BITS(name, number, bits)  WITH(name, number, BPF_JSET, bits, SECCOMP_RET_ERRNO | EPERM)

/* What is not named fails with EPERM. Nothing here names a file, a process or an address; descriptors come
 * with messages. mmap and mprotect only without PROT_EXEC. */
static const struct sock_filter FILTER[] = {
    LOAD(arch),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    LOAD(nr),
    ALLOW(read),
    ALLOW(pread64),
    ALLOW(write),
    ALLOW(recvmsg),
    ALLOW(sendmsg),
    ALLOW(poll),
    ALLOW(ppoll),
    ALLOW(lseek),
    ALLOW(dup),
    ALLOW(close),
    ALLOW(fstat),
    ALLOW(munmap),
    ALLOW(mremap),
    ALLOW(madvise),
    ALLOW(brk),
    ALLOW(futex),
    ALLOW(getpid),
    ALLOW(gettid),
    ALLOW(getrandom),
    ALLOW(clock_gettime),
    ALLOW(clock_nanosleep),
    ALLOW(rt_sigreturn),
    ALLOW(rt_sigprocmask),
    ALLOW(rt_sigaction),
    ALLOW(restart_syscall),
    ALLOW(exit),
    ALLOW(exit_group),
    /* fstat() of glibc; a name leads nowhere in an empty root */
    ALLOW(newfstatat),
    ALLOW_WITH(ioctl, 1, PROC_CODE_QUERY), /* of an open list of mappings */
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 2, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    LOAD(args[2]),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static bool filter_calls(const struct sock_filter *filter, size_t count)
{
    const struct sock_fprog program = {.len = (unsigned short)count,
                                       .filter = (struct sock_filter *)(uintptr_t)filter};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

#define REFUSE_NUMBER(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define REFUSE(name) REFUSE_NUMBER(SYS_##name)
/* Calls that the headers of older machines do not name. */
enum { CALL_FCHMODAT2 = 452, CALL_SETXATTRAT = 463, CALL_REMOVEXATTRAT = 466, CALL_FILE_SETATTR = 469 };

enum {
    NEW_NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                     CLONE_NEWPID | CLONE_NEWNET,
    OPEN_TO_WRITE = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY)
};

/* For one that opens files by name and has threads: what is named fails with EPERM. It reaches other
 * processes, or parts of the kernel that reading files does not need; or it changes what a file is, for which
 * it suffices to own the file; or types on the terminal. */
static const struct sock_filter READER_FILTER[] = {
    LOAD(arch),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    LOAD(nr),
    /* the 32-bit numbers of x32 */
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    REFUSE(execve),
    REFUSE(execveat),
    REFUSE(ptrace),
    REFUSE(process_vm_writev),
    REFUSE(process_madvise),
    REFUSE(migrate_pages),
    REFUSE(move_pages),
    REFUSE(pidfd_getfd),
    REFUSE(pidfd_send_signal),
    REFUSE(rt_sigqueueinfo),
    REFUSE(rt_tgsigqueueinfo),
    REFUSE(tkill),
    REFUSE(setpriority),
    REFUSE(ioprio_set),
    ALLOW_WITH(prlimit64, 0, 0),
    REFUSE(prlimit64),
    ALLOW_WITH(sched_setaffinity, 0, 0),
    REFUSE(sched_setaffinity),
    REFUSE(sched_setscheduler),
    REFUSE(sched_setparam),
    REFUSE(sched_setattr),
    REFUSE(kcmp),
    REFUSE(perf_event_open),
    REFUSE(io_uring_setup),
    REFUSE(userfaultfd),
    REFUSE(unshare),
    REFUSE(setns),
    REFUSE_BITS(clone, 0, NEW_NAMESPACES),
    ALLOW_BITS(clone, 0, CLONE_THREAD),
    REFUSE(clone),
    REFUSE(fork),
    REFUSE(vfork),
    /* its flags are in memory, where no filter looks; libraries then use clone() */
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    REFUSE(mount),
    REFUSE(umount2),
    REFUSE(pivot_root),
    REFUSE(chroot),
    REFUSE(fsopen),
    REFUSE(fsmount),
    REFUSE(open_tree),
    REFUSE(move_mount),
    REFUSE(mount_setattr),
    REFUSE(open_by_handle_at),
    REFUSE(chmod),
    REFUSE(fchmod),
    REFUSE(fchmodat),
    REFUSE_NUMBER(CALL_FCHMODAT2),
    REFUSE(chown),
    REFUSE(fchown),
    REFUSE(lchown),
    REFUSE(fchownat),
    REFUSE(setxattr),
    REFUSE(lsetxattr),
    REFUSE(fsetxattr),
    REFUSE_NUMBER(CALL_SETXATTRAT),
    REFUSE(removexattr),
    REFUSE(lremovexattr),
    REFUSE(fremovexattr),
    REFUSE_NUMBER(CALL_REMOVEXATTRAT),
    REFUSE_NUMBER(CALL_FILE_SETATTR),
    REFUSE(utime),
    REFUSE(utimes),
    REFUSE(futimesat),
    REFUSE(utimensat),
    REFUSE_WITH(ioctl, 1, TIOCSTI),
    REFUSE_WITH(ioctl, 1, TIOCLINUX),
    REFUSE_WITH(ioctl, 1, FS_IOC_SETFLAGS),
    REFUSE_WITH(ioctl, 1, FS_IOC_FSSETXATTR),
    REFUSE(syslog),
    REFUSE(keyctl),
    REFUSE(add_key),
    REFUSE(request_key),
    REFUSE(shmget),
    REFUSE(shmat),
    REFUSE(msgget),
    REFUSE(semget),
    REFUSE(mq_open),
    REFUSE(personality),
};
/* And these, the network. */
static const struct sock_filter NETWORK_FILTER[] = {
    REFUSE(socket), REFUSE(socketpair), REFUSE(connect), REFUSE(bind),
    REFUSE(listen), REFUSE(accept),     REFUSE(accept4),
};
/* Who does not observe has nothing to do with other processes and BPF. */
static const struct sock_filter OBSERVER_FILTER[] = {
    REFUSE(process_vm_readv),
    REFUSE(pidfd_open),
    REFUSE(bpf),
};
/* Who does needs its maps and what its programs counted, but no other program or map; and where Landlock
 * cannot be had, it opens and changes nothing. The flags of openat2() are in memory, where no filter looks.
 */
static const struct sock_filter NO_WRITING_FILTER[] = {
    ALLOW_WITH(bpf, 0, BPF_MAP_LOOKUP_ELEM),
    ALLOW_WITH(bpf, 0, BPF_MAP_UPDATE_ELEM),
    ALLOW_WITH(bpf, 0, BPF_MAP_DELETE_ELEM),
    ALLOW_WITH(bpf, 0, BPF_MAP_GET_NEXT_KEY),
    ALLOW_WITH(bpf, 0, BPF_PROG_TEST_RUN),
    ALLOW_WITH(bpf, 0, BPF_OBJ_GET_INFO_BY_FD),
    REFUSE(bpf),
    REFUSE_BITS(open, 1, OPEN_TO_WRITE),
    REFUSE_BITS(openat, 2, OPEN_TO_WRITE),
    REFUSE(openat2),
    REFUSE(creat),
    REFUSE(truncate),
    REFUSE(mkdir),
    REFUSE(mkdirat),
    REFUSE(mknod),
    REFUSE(mknodat),
    REFUSE(rmdir),
    REFUSE(unlink),
    REFUSE(unlinkat),
    REFUSE(rename),
    REFUSE(renameat),
    REFUSE(renameat2),
    REFUSE(link),
    REFUSE(linkat),
    REFUSE(symlink),
    REFUSE(symlinkat),
};

struct filter {
    struct sock_filter at[512];
    size_t count;
};

static void add_rules(struct filter *filter, const struct sock_filter *rules, size_t count)
{
    assert(filter->count + count <= ARRAY_SIZE(filter->at));
    memcpy(filter->at + filter->count, rules, count * sizeof(*rules));
    filter->count += count;
}
#define ADD_RULES(filter, rules) add_rules(filter, rules, ARRAY_SIZE(rules))

/* Signals go to the process itself and to the one child; whether others are there may be asked (signal 0). */
static void add_signals(struct filter *filter, pid_t child)
{
    const struct sock_filter own[] = {
        ALLOW_WITH(kill, 1, 0),
        ALLOW_WITH(kill, 0, getpid()),
        ALLOW_WITH(kill, 0, child ? child : getpid()),
        REFUSE(kill),
        ALLOW_WITH(tgkill, 0, getpid()),
        REFUSE(tgkill),
    };
    ADD_RULES(filter, own);
}

/* Of other processes it has what a lender opens for it (lender.h); the kernel's own page is read in its own
 * memory. */
static void add_observing(struct filter *filter, bool lends)
{
    const struct sock_filter own[] = {ALLOW_WITH(process_vm_readv, 0, getpid()), REFUSE(process_vm_readv)};
    static const struct sock_filter NO_HANDLES[] = {REFUSE(pidfd_open)};
    ADD_RULES(filter, own);
    if (!lends)
        ADD_RULES(filter, NO_HANDLES);
    ADD_RULES(filter, NO_WRITING_FILTER);
}

static bool filter_reader(const struct sandbox_rights *rights)
{
    static const struct sock_filter ALLOW_OTHERS[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct filter filter = {.count = 0};
    ADD_RULES(&filter, READER_FILTER);
    add_signals(&filter, rights->child);
    if (!rights->network)
        ADD_RULES(&filter, NETWORK_FILTER);
    if (rights->observes)
        add_observing(&filter, rights->lends);
    else
        ADD_RULES(&filter, OBSERVER_FILTER);
    ADD_RULES(&filter, ALLOW_OTHERS);
    return filter_calls(filter.at, filter.count);
}

/* ---- all of it ---- */

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

void sandbox_close_standard(void)
{
    _cleanup_(file_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd < 3; fd++)
        dup2(null, fd);
}

void sandbox_close_others(const int *keep, int count)
{
    int kept[128];
    count = MIN(count, (int)ARRAY_SIZE(kept));
    memcpy(kept, keep, (size_t)count * sizeof(*kept));
    qsort(kept, (size_t)count, sizeof(*kept), by_number);
    unsigned first = 3;
    for (int i = 0; i < count; i++) {
        if ((unsigned)kept[i] > first)
            syscall(SYS_close_range, first, (unsigned)kept[i] - 1, 0);
        first = (unsigned)kept[i] + 1;
    }
    syscall(SYS_close_range, first, ~0u, 0);
}

int sandbox_enter(const int *keep, int count, struct sandbox_walls *ret_walls, struct problem *problem)
{
    enum { DESCRIPTORS = 512 };
    const struct rlimit none = {0, 0}, descriptors = {DESCRIPTORS, DESCRIPTORS};
    struct sandbox_walls walls = {0};
    sandbox_close_others(keep, count);
    sandbox_close_standard();
    if (geteuid() == 0) {
        walls.namespaces = empty_root();
        walls.own_user = become_nobody_else();
    }
    /* Where there is no such number (a container with user numbers of its own) root goes on without
     * capabilities; and so does a user who was granted some. */
    if (!walls.own_user && !keep_capabilities(0))
        return problem_set(problem, -EPERM, "a worker cannot give up its rights: %s", strerror(errno));
    setrlimit(RLIMIT_NPROC, &none);
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_FSIZE, &none);
    setrlimit(RLIMIT_NOFILE, &descriptors);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* a change of the user clears it */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return problem_set(problem, -errno, "a worker cannot be kept from new privileges: %s",
                           strerror(errno));
    walls.landlock = forbid_files();
    walls.filter = filter_calls(FILTER, ARRAY_SIZE(FILTER));
    if (!walls.filter)
        return problem_set(problem, -EPERM, "a worker's system calls cannot be filtered: %s",
                           strerror(errno));
    *ret_walls = walls;
    return 0;
}

/* What libraries read: time zones, other libraries, how many CPUs and how much memory there are (DuckDB fails
 * without its control group); and the addresses of hosts. */
static const char *const ALWAYS_READ[] = {"/dev/null",         "/dev/urandom",   "/usr/share/zoneinfo",
                                          "/etc/ld.so.cache",  "/usr/lib",       "/lib",
                                          "/proc/self/cgroup", "/sys/fs/cgroup", "/sys/devices/system/cpu",
                                          "/proc/meminfo",     "/proc/stat"},
                         *const NETWORK_READ[] = {
                             "/etc/resolv.conf", "/etc/hosts",    "/etc/nsswitch.conf",
                             "/etc/host.conf",   "/etc/gai.conf", "/etc/services",
                             "/etc/ssl",         "/etc/pki",      "/usr/share/ca-certificates"};

static void allow_each(int rules, const char *const *paths, size_t count, uint64_t rights)
{
    for (size_t i = 0; i < count; i++)
        allow(rules, paths[i], rights);
}

static void allow_all(int rules, const struct sandbox_rights *rights)
{
    allow_each(rules, rights->reads, rights->read_count, READING);
    allow_each(rules, rights->writes, rights->write_count, WRITING);
    allow_each(rules, ALWAYS_READ, ARRAY_SIZE(ALWAYS_READ), READING);
    if (rights->network)
        allow_each(rules, NETWORK_READ, ARRAY_SIZE(NETWORK_READ), READING);
    if (rights->empties)
        allow(rules, rights->empties, REMOVE_FOLDER);
    if (rights->scripts) {
        allow_scripts(rules, "/");
        allow_scripts(rules, "/root");
    }
}

int sandbox_confine(const struct sandbox_rights *rights, struct problem *problem)
{
    const uint64_t ports = rights->network && geteuid() == 0 ? 1ull << CAP_NET_BIND_SERVICE : 0;
    if (rights->user && geteuid() == 0) {
        /* Where there is no such number (a container with user numbers of its own) root goes on without what
         * is not kept below. */
        (void)prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
        (void)(rights->user == SANDBOX_NOBODY_ELSE ? become_nobody_else() : become(rights->user));
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || !keep_capabilities(rights->capabilities | ports))
        return problem_set(problem, -EPERM, "rights that are not needed cannot be given up: %s",
                           strerror(errno));
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    tzset(); /* of /etc/localtime, which is no directory */
    int rules = rights->observes || rights->all_files ? -1 : new_rules(rights->network);
    if (rules >= 0)
        allow_all(rules, rights);
    (void)enter_rules(rules);
    if (!filter_reader(rights))
        return problem_set(problem, -EPERM, "system calls cannot be filtered: %s", strerror(errno));
    return 0;
}

struct sandbox_walls sandbox_available(void)
{
    bool root = geteuid() == 0;
    return (struct sandbox_walls){.own_user = root,
                                  .namespaces = root,
                                  .landlock = landlock_version() >= 1,
                                  .filter = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0};
}
