/* Has another process make system calls, as somebody would who has taken it over: everything that does harm.
 * Prints a line for each that was allowed; the last line is "asked N". takeover PID VICTIM FOLDER    VICTIM:
 * another process; FOLDER: with a file `mine` The process goes on afterwards as if nothing had been. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t taken, victim;
static const char *folder;
static struct user_regs_struct before;
static uint64_t room; /* memory of its own, for what is passed by address */
static unsigned asked;

static void fail(const char *what)
{
    perror(what);
    if (taken)
        ptrace(PTRACE_DETACH, taken, NULL, NULL);
    exit(1);
}

/* Some bytes at room + at; where they are. */
static uint64_t put(size_t at, const void *bytes, size_t size)
{
    struct iovec ours = {(void *)(uintptr_t)bytes, size}, theirs = {(void *)(uintptr_t)(room + at), size};
    if (process_vm_writev(taken, &ours, 1, &theirs, 1, 0) != (ssize_t)size)
        fail("process_vm_writev");
    return room + at;
}

static uint64_t path(const char *name)
{
    char text[512];
    snprintf(text, sizeof(text), "%s%s%s", *name == '/' ? "" : folder, *name == '/' ? "" : "/", name);
    return put(0, text, strlen(text) + 1);
}

static uint64_t other_path(const char *name)
{
    char text[512];
    snprintf(text, sizeof(text), "%s/%s", folder, name);
    return put(1024, text, strlen(text) + 1);
}

static long call(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
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
    regs.r8 = e;
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
            exit(0);
        }
        if (WSTOPSIG(status) == SIGTRAP && status >> 16 == 0)
            break;
    }
    if (ptrace(PTRACE_GETREGS, taken, NULL, &regs) < 0 || ptrace(PTRACE_POKETEXT, taken, before.rip, old) < 0)
        fail("ptrace");
    return (long)regs.rax;
}

static void note(const char *what, long result)
{
    asked++;
    if (result >= 0)
        printf("%s\n", what);
}

static void files(void)
{
    struct open_how how = {.flags = O_RDWR};
    char other[64];
    snprintf(other, sizeof(other), "/proc/%d/mem", victim);
    note("opened a file for writing", call(SYS_open, path("mine"), O_WRONLY, 0, 0, 0));
    note("opened a file for both", call(SYS_openat, (uint64_t)AT_FDCWD, path("mine"), O_RDWR, 0, 0));
    note("truncated a file by opening it",
         call(SYS_openat, (uint64_t)AT_FDCWD, path("mine"), O_RDONLY | O_TRUNC, 0, 0));
    note("made a file", call(SYS_openat, (uint64_t)AT_FDCWD, path("made"), O_RDONLY | O_CREAT, 0600, 0));
    note("made a file without a name",
         call(SYS_openat, (uint64_t)AT_FDCWD, path("."), O_TMPFILE | O_RDWR, 0600, 0));
    note("created a file", call(SYS_creat, path("created"), 0600, 0, 0, 0));
    note("opened a file for writing the new way",
         call(SYS_openat2, (uint64_t)AT_FDCWD, path("mine"), put(1024, &how, sizeof(how)), sizeof(how), 0));
    note("opened another process's memory", call(SYS_open, path(other), O_RDWR, 0, 0, 0));
    note("opened its own memory", call(SYS_open, path("/proc/self/mem"), O_RDWR, 0, 0, 0));
    note("truncated a file", call(SYS_truncate, path("mine"), 0, 0, 0, 0));
    note("made a directory", call(SYS_mkdir, path("directory"), 0700, 0, 0, 0));
    note("made a pipe", call(SYS_mknod, path("pipe"), S_IFIFO | 0600, 0, 0, 0));
    note("made a link", call(SYS_symlink, path("/etc/passwd"), other_path("link"), 0, 0, 0));
    note("gave a file a second name", call(SYS_link, path("mine"), other_path("hard"), 0, 0, 0));
    note("renamed a file", call(SYS_rename, path("mine"), other_path("mine"), 0, 0, 0));
    note("changed a file's rights", call(SYS_chmod, path("mine"), 0644, 0, 0, 0));
    note("changed a file's owner", call(SYS_chown, path("mine"), 0, 0, 0, 0));
    note("changed a file's time", call(SYS_utime, path("mine"), 0, 0, 0, 0));
    note("removed a file", call(SYS_unlink, path("unimportant"), 0, 0, 0, 0));
    note("read a file of root's", call(SYS_open, path("mine"), O_RDONLY, 0, 0, 0));
    note("read another process's memory as a file", call(SYS_open, path(other), O_RDONLY, 0, 0, 0));
    long fd = call(SYS_open, path("public"), O_RDONLY, 0, 0, 0);
    if (fd < 0)
        printf("could not read a file\n");
    note("changed an open file's rights", call(SYS_fchmod, (uint64_t)fd, 0644, 0, 0, 0));
    note("changed an open file's owner", call(SYS_fchown, (uint64_t)fd, 0, 0, 0, 0));
    int flags = 0;
    long got = call(SYS_ioctl, (uint64_t)fd, FS_IOC_SETFLAGS, put(0, &flags, sizeof(flags)), 0, 0);
    note("changed an open file's flags", got == -ENOTTY ? -1 : got);
    call(SYS_close, (uint64_t)fd, 0, 0, 0, 0);
}

static void processes(void)
{
    struct rlimit limit = {1000, 1000};
    uint64_t cpus = 1, place = put(512, "x", 1);
    struct iovec one = {(void *)(uintptr_t)place, 1};
    uint64_t vector = put(0, &one, sizeof(one));
    note("traced another process", call(SYS_ptrace, PTRACE_SEIZE, (uint64_t)victim, 0, 0, 0));
    /* to an address that need not be there: who gets so far was allowed to */
    long wrote = call(SYS_process_vm_writev, (uint64_t)victim, vector, 1, vector, 1);
    note("wrote another process's memory", wrote == -EFAULT ? 0 : wrote);
    note("gave another process a limit",
         call(SYS_prlimit64, (uint64_t)victim, RLIMIT_NOFILE, put(0, &limit, sizeof(limit)), 0, 0));
    note("changed another process's priority",
         call(SYS_setpriority, PRIO_PROCESS, (uint64_t)victim, 5, 0, 0));
    note("moved another process",
         call(SYS_sched_setaffinity, (uint64_t)victim, sizeof(cpus), put(0, &cpus, sizeof(cpus)), 0, 0));
    long fd = call(SYS_pidfd_open, (uint64_t)victim, 0, 0, 0, 0);
    if (fd >= 0) {
        note("took another process's descriptor", call(SYS_pidfd_getfd, (uint64_t)fd, 0, 0, 0, 0));
        note("sent a signal by a handle", call(SYS_pidfd_send_signal, (uint64_t)fd, SIGCONT, 0, 0, 0));
        note("entered another process's namespace", call(SYS_setns, (uint64_t)fd, CLONE_NEWUTS, 0, 0, 0));
        call(SYS_close, (uint64_t)fd, 0, 0, 0, 0);
    }
    note("sent a signal", call(SYS_kill, (uint64_t)victim, SIGCONT, 0, 0, 0));
    note("sent a signal to a thread", call(SYS_tgkill, (uint64_t)victim, (uint64_t)victim, SIGCONT, 0, 0));
    note("sent signals to everybody of a group", call(SYS_kill, (uint64_t)-victim, SIGCONT, 0, 0, 0));
}

static void kernel(void)
{
    struct perf_event_attr event = {
        .size = sizeof(event), .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY};
    union bpf_attr map = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    union bpf_attr next = {.start_id = 0};
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct all[2] = {{~0u, ~0u, 0}, {~0u >> 23, ~0u >> 23, 0}};
    uint64_t clone_args[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
    char key = '\n';
    note("made a socket of the network", call(SYS_socket, AF_INET, SOCK_STREAM, 0, 0, 0));
    note("made a local socket", call(SYS_socket, AF_UNIX, SOCK_STREAM, 0, 0, 0));
    note("made a socket of the kernel", call(SYS_socket, AF_NETLINK, SOCK_RAW, 0, 0, 0));
    note("made a BPF map", call(SYS_bpf, BPF_MAP_CREATE, put(0, &map, sizeof(map)), sizeof(map), 0, 0));
    long listed = call(SYS_bpf, BPF_PROG_GET_NEXT_ID, put(0, &next, sizeof(next)), sizeof(next), 0, 0);
    note("listed BPF programs", listed == -ENOENT ? 0 : listed);
    note("opened an event",
         call(SYS_perf_event_open, put(0, &event, sizeof(event)), 0, (uint64_t)-1, (uint64_t)-1, 0));
    note("took all capabilities",
         call(SYS_capset, put(0, &head, sizeof(head)), put(64, all, sizeof(all)), 0, 0, 0));
    /* what is no mount cannot be mounted anew: who gets so far was allowed to */
    long mounted = call(SYS_mount, put(0, "none", 5), other_path("."), 0, MS_REMOUNT | MS_BIND, 0);
    note("mounted", mounted == -EINVAL ? 0 : mounted);
    note("made a user namespace", call(SYS_unshare, CLONE_NEWUSER, 0, 0, 0, 0));
    note("made a namespace", call(SYS_unshare, CLONE_NEWUTS, 0, 0, 0, 0));
    note("cloned itself the new way",
         call(SYS_clone3, put(0, clone_args, sizeof(clone_args)), 64, 0, 0, 0) == -ENOSYS ? -1 : 0);
    note("typed on a terminal", call(SYS_ioctl, 0, TIOCSTI, put(0, &key, 1), 0, 0) == -EPERM ? -1 : 0);
    note("read the kernel's log", call(SYS_syslog, 10, 0, 0, 0, 0));
    note("made a ring for calls", call(SYS_io_uring_setup, 1, put(0, (char[128]){0}, 128), 0, 0, 0));
    uint64_t arguments[] = {room + 512, 0};
    put(512, "true", 5);
    note("executed a program", call(SYS_execve, path("/bin/true"), put(600, arguments, 16), 0, 0, 0));
}

int main(int argc, char **argv)
{
    int status;
    if (argc != 4)
        return 2;
    taken = atoi(argv[1]);
    victim = atoi(argv[2]);
    folder = argv[3];
    if (ptrace(PTRACE_SEIZE, taken, NULL, NULL) < 0 || ptrace(PTRACE_INTERRUPT, taken, NULL, NULL) < 0 ||
        waitpid(taken, &status, __WALL) != taken || ptrace(PTRACE_GETREGS, taken, NULL, &before) < 0)
        fail("ptrace");
    long mapped = call(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1);
    if (mapped < 0 && mapped > -4096)
        fail("mmap");
    room = (uint64_t)mapped;
    files();
    processes();
    kernel();
    call(SYS_munmap, room, 4096, 0, 0, 0);
    /* A call that was interrupted begins anew. */
    if (ptrace(PTRACE_SETREGS, taken, NULL, &before) < 0 || ptrace(PTRACE_DETACH, taken, NULL, NULL) < 0)
        fail("ptrace");
    printf("asked %u\n", asked);
    return 0;
}
