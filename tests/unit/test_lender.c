/* A lender opens what it was told to open, for one that may have been taken over since. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/lender.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/proc.h"
#include "base/process_file.h"
#include "symbol/memory.h"
#include "test.h"

static const char secret[] = "what is in a process's memory";
/* This program has one, others have not; or all have. */
static const char *const OWN_MARK[] = {"what is in a process's memory", NULL};
static const char *const ANY_MARK[] = {"there is no such text in a program", "libc.so.6", NULL};
static const char *const *marks = OWN_MARK;

struct sleeper {
    pid_t pid, child;
    int say; /* a byte: it executes another program; the end: it ends */
};

static void become(uid_t user)
{
    if (user &&
        (setgroups(0, NULL) < 0 || setresgid(user, user, user) < 0 || setresuid(user, user, user) < 0))
        _exit(1);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

/* A process of this user (0: ours), and one that it has started, of another. */
static struct sleeper begin_sleeper(uid_t user)
{
    int say[2], ready[2];
    char byte;
    pid_t pids[2];
    assert_int_equal(pipe2(say, O_CLOEXEC), 0);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(say[1]);
        pid_t started = fork();
        become(!user || started ? user : 65531);
        pid_t own = getpid();
        (void)!write(ready[1], &own, sizeof(own));
        while (!started)
            pause();
        if (read(say[0], &byte, 1) == 1)
            execlp("sleep", "sleep", "1000", NULL);
        _exit(0);
    }
    close(say[0]);
    for (int i = 0; i < 2; i++) /* whichever is first */
        assert_int_equal(read(ready[0], &pids[i], sizeof(pids[i])), sizeof(pids[i]));
    close(ready[0]);
    close(ready[1]);
    return (struct sleeper){pid, pids[pids[0] == pid], say[1]};
}

static void end(struct sleeper s)
{
    kill(s.child, SIGKILL);
    kill(s.pid, SIGKILL);
    waitpid(s.pid, NULL, 0);
    close(s.say);
}

static bool reads_secret(pid_t pid)
{
    char copy[sizeof(secret)];
    return memory_read(pid, (uintptr_t)secret, copy, sizeof(copy)) == 0 &&
           memcmp(copy, secret, sizeof(copy)) == 0;
}

static int open_of(pid_t pid, const char *text, const char *file)
{
    struct proc proc = {.pid = pid, .directory = -1, .pidfd = -1};
    int fd = text ? proc_file_open(&proc, text, O_RDONLY) : process_file_of(&proc, file);
    if (fd >= 0)
        close(fd);
    return fd;
}

static pid_t target, child, other, sleeping;
static uid_t target_user;
static struct sleeper targets;
static void *data; /* a private file that is mapped */

/* Each in a process of its own, since who has begun to ask does so for good; 0 or the number of the line that
 * is not as it should be. */
#define CHECK(condition)     \
    do {                     \
        if (!(condition))    \
            return __LINE__; \
    } while (0)

static int begin_asking(pid_t allowed)
{
    CHECK(lender_start(marks, NULL, NULL) == 0);
    CHECK(lender_allow(allowed) == 0);
    CHECK(lender_allow(INT32_MAX) == -ESRCH);
    lender_begin();
    return 0;
}

static int get_what_is_lent(void)
{
    int line = begin_asking(target);
    CHECK(!line);
    CHECK(reads_secret(target));
    CHECK(open_of(target, "maps", NULL) >= 0);
    CHECK(open_of(target, "stat", NULL) >= 0);
    CHECK(open_of(target, NULL, "/etc/passwd") >= 0);
    CHECK(reads_secret(child)); /* it was started by the target */
    CHECK(open_of(child, "maps", NULL) >= 0);
    return 0;
}

/* Asks for a file of that user's with these bytes that nobody else may read. */
static int open_made(uid_t user, mode_t mode, const char *path, const void *bytes, size_t size)
{
    unlink(path);
    _cleanup_(file_closep) int made = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (made < 0 || write(made, bytes, size) != (ssize_t)size || fchown(made, user, 0) < 0 ||
        fchmod(made, mode) < 0)
        abort();
    int fd = open_of(target, NULL, path);
    unlink(path);
    return fd;
}

/* How a program begins, a library, a memory dump. */
static int open_elf(uint16_t type)
{
    const Elf64_Ehdr head = {.e_ident = ELFMAG, .e_type = type};
    return open_made(target_user, 0600, "/tmp/sonde-lender-elf", &head, sizeof(head));
}

static int open_by_link(void)
{
    static const char MAP[] = "/tmp/perf-2147480001.map", PRIVATE[] = "/tmp/sonde-lender-linked";
    _cleanup_(file_closep) int made = open(PRIVATE, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (made < 0 || fchown(made, target_user, 0) < 0 || symlink(PRIVATE, MAP) < 0)
        abort();
    int fd = open_of(target, NULL, MAP);
    unlink(MAP);
    unlink(PRIVATE);
    return fd;
}

static int get_code_and_no_other_secrets(void)
{
    int line = begin_asking(0);
    CHECK(!line);
    CHECK(setresuid(65530, 65530, 65530) == 0 || geteuid() != 0);
    CHECK(open_of(target, "maps", NULL) >= 0);
    CHECK(open_of(target, "environ", NULL) < 0);
    CHECK(open_of(target, "cwd", NULL) < 0);
    struct proc proc = {.pid = target, .directory = -1, .pidfd = -1};
    CHECK(proc_ask(&proc, PROC_PATH, "/etc/passwd", 0, 0) < 0);
    return 0;
}

/* What the target has mapped there: the text in this program, or a file of
 * data. */
static int open_mapped(const void *at)
{
    uint64_t start = (uintptr_t)at & ~4095ull;
    char *maps = NULL, *line;
    unsigned long from, to;
    size_t length;
    struct proc proc = {.pid = target, .directory = -1, .pidfd = -1};
    if (proc_read(&proc, "maps", 1 << 20, &maps, &length) < 0)
        abort();
    int fd = -ENOENT;
    for (char *rest = maps; (line = strsep(&rest, "\n"));)
        if (sscanf(line, "%lx-%lx", &from, &to) == 2 && from <= start && start < to)
            fd = proc_ask(&proc, PROC_MAPPED, NULL, from, to);
    free(maps);
    if (fd >= 0)
        close(fd);
    return fd;
}

static int get_files_of_code(void)
{
    int line = begin_asking(0);
    CHECK(!line);
    CHECK(open_mapped(secret) >= 0);
    CHECK(open_mapped(data) == -EPERM);
    CHECK(open_made(target_user, 0600, "/tmp/sonde-lender-key", "secret", 6) < 0);
    CHECK(open_made(0, 0600, "/tmp/sonde-lender-key", "secret", 6) < 0);
    CHECK(open_made(0, 0644, "/tmp/sonde-lender-key", "public", 6) >= 0);
    CHECK(open_elf(ET_EXEC) >= 0);
    CHECK(open_elf(ET_DYN) >= 0);
    CHECK(open_elf(ET_CORE) < 0);
    CHECK(open_made(target_user, 0600, "/tmp/perf-2147480001.map", "1000 10 f\n", 10) >= 0);
    CHECK(open_made(target_user, 0600, "/tmp/perf-2147480001.map2", "1000 10 f\n", 10) < 0);
    CHECK(open_by_link() < 0);
    return 0;
}

/* A program that is not this one, under a user of its own. */
static bool reads_program(pid_t pid)
{
    char *maps = NULL, head[4] = "";
    size_t length;
    uint64_t start = 0;
    struct proc proc = {.pid = pid, .directory = -1, .pidfd = -1};
    if (proc_read(&proc, "maps", 1 << 20, &maps, &length) < 0)
        abort();
    bool read = sscanf(maps, "%lx", &start) == 1 && memory_read(pid, start, head, sizeof(head)) == 0;
    free(maps);
    return read && memcmp(head, "\177ELF", 4) == 0;
}

static int get_memory_of_runtimes(void)
{
    int line = begin_asking(0);
    CHECK(!line);
    CHECK(reads_secret(target));
    CHECK(!reads_program(sleeping));
    return 0;
}

static int get_memory_of_what_was_named(void)
{
    int line = begin_asking(sleeping);
    CHECK(!line);
    CHECK(reads_program(sleeping));
    return 0;
}

/* Of the group in which this process is, and its targets are, and of another one. */
static int get_what_is_in_a_group(void)
{
    char *groups = NULL, *path;
    CHECK(file_read("/proc/self/cgroup", 1 << 16, &groups, NULL) == 0);
    path = strrchr(groups, ':') + 1;
    path[strcspn(path, "\n")] = '\0';
    CHECK(lender_start(marks, NULL, NULL) == 0);
    CHECK(lender_allow_cgroup(path) == 0);
    CHECK(lender_allow_cgroup(path) == -EPERM);
    lender_begin();
    CHECK(lender_allow_cgroup("/") == -EPERM);
    CHECK(reads_secret(target));
    CHECK(open_of(other, "maps", NULL) >= 0);
    free(groups);
    return 0;
}

static int get_nothing_of_another_group(void)
{
    CHECK(lender_start(marks, NULL, NULL) == 0);
    CHECK(lender_allow_cgroup("/there-is-no-such-group") == 0);
    lender_begin();
    CHECK(!reads_secret(target));
    CHECK(proc_ask(&(struct proc){.pid = target}, PROC_TEXT, "maps", 0, 0) < 0);
    CHECK(open_of(target, NULL, "/etc/passwd") < 0);
    return 0;
}

static int get_nothing_else(void)
{
    static const char *const TEXTS[] = {"mem",  "../1/maps", "maps/../mem", "task/1/mem",
                                        "fd/0", "syscall",   "pagemap"};
    const gid_t groups[] = {0}; /* as root has it after a login */
    CHECK(setgroups(1, groups) == 0);
    int line = begin_asking(target);
    CHECK(!line);
    CHECK(lender_allow(other) == -EPERM);
    CHECK(lender_allow(0) == -EPERM);
    CHECK(open_made(0, 0640, "/tmp/sonde-lender-group", "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0", 18) <
          0); /* root's group is not the target's */
    /* What everybody may read is opened here, with rights that one who is confined does not have. */
    CHECK(setresuid(65530, 65530, 65530) == 0);
    for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++)
        CHECK(open_of(target, TEXTS[i], NULL) < 0);
    CHECK(!reads_secret(other));
    CHECK(open_of(other, "maps", NULL) < 0);
    CHECK(open_of(other, NULL, "/etc/passwd") < 0);
    CHECK(open_of(1, "maps", NULL) < 0);
    CHECK(open_of(1, NULL, "/etc/passwd") < 0);
    CHECK(open_of(target, NULL, "/proc/1/mem") < 0);
    CHECK(open_of(target, NULL, "/etc/shadow") < 0);
    struct proc proc = {.pid = other, .directory = -1, .pidfd = -1};
    for (unsigned question = 0; question < PROC_QUESTIONS + 50; question++)
        if (question != PROC_EXISTS && question != PROC_OURS)
            CHECK(proc_ask(&proc, question, "maps", 0, 1) < 0);
    return 0;
}

static int read_the_next_program(void)
{
    marks = ANY_MARK;
    char *maps = NULL, head[4] = "";
    size_t length;
    struct proc proc = {.pid = target, .directory = -1, .pidfd = -1};
    int line = begin_asking(0);
    CHECK(!line);
    CHECK(reads_secret(target));
    CHECK(reads_secret(other)); /* all are lent */
    CHECK(write(targets.say, "x", 1) == 1);
    for (int i = 0; i < 60000 && memcmp(head, "\177ELF", 4) != 0; i++) {
        uint64_t start = 0;
        CHECK(proc_read(&proc, "maps", 1 << 20, &maps, &length) == 0);
        if (!strstr(maps, "sleep") || sscanf(maps, "%lx", &start) != 1 ||
            memory_read(target, start, head, sizeof(head)) < 0)
            usleep(1000);
        free(maps);
    }
    CHECK(memcmp(head, "\177ELF", 4) == 0);
    CHECK(!reads_secret(target));
    return 0;
}

/* Another program than this one; it is running when this returns. */
static pid_t begin_program(void)
{
    int running[2];
    char byte;
    assert_int_equal(pipe2(running, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        become(geteuid() == 0 ? 65534 : 0);
        execlp("sleep", "sleep", "1000", NULL);
        _exit(1);
    }
    close(running[1]);
    assert_int_equal(read(running[0], &byte, 1), 0); /* closed by the exec */
    close(running[0]);
    return pid;
}

static void run(int (*asks)(void))
{
    int status;
    struct sleeper others = begin_sleeper(geteuid() == 0 ? 65532 : 0);
    target_user = geteuid() == 0 ? 65533 : 0;
    targets = begin_sleeper(target_user);
    sleeping = begin_program();
    target = targets.pid;
    child = targets.child;
    other = others.pid;
    pid_t asking = fork();
    if (asking == 0)
        _exit(asks() % 256);
    assert_int_equal(waitpid(asking, &status, 0), asking);
    end(targets);
    end(others);
    kill(sleeping, SIGKILL);
    waitpid(sleeping, NULL, 0);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status))
        fail_msg("line %d (modulo 256) is not as it should be", WEXITSTATUS(status));
}

static void what_was_allowed_is_lent(void **state)
{
    run(get_what_is_lent);
}

static void and_nothing_else(void **state)
{
    if (geteuid() != 0)
        skip(); /* all processes that could be asked for are the same user's */
    run(get_nothing_else);
}

static void of_files_only_code_and_what_is_public(void **state)
{
    run(get_code_and_no_other_secrets);
    if (geteuid() != 0)
        skip(); /* the lender has the rights of who asks */
    run(get_files_of_code);
}

static void of_memory_only_that_of_runtimes_unless_it_was_named(void **state)
{
    run(get_memory_of_runtimes);
    run(get_memory_of_what_was_named);
}

static void of_a_control_group(void **state)
{
    run(get_what_is_in_a_group);
    run(get_nothing_of_another_group);
}

static void a_process_that_executes_another_program(void **state)
{
    run(read_the_next_program);
}

int main(void)
{
    static const char DATA[] = "/tmp/sonde-lender-data";
    _cleanup_(file_closep) int file = open(DATA, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    data =
        file < 0 || ftruncate(file, 4096) < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    unlink(DATA);
    if (data == MAP_FAILED)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_allowed_is_lent),
        cmocka_unit_test(and_nothing_else),
        cmocka_unit_test(of_files_only_code_and_what_is_public),
        cmocka_unit_test(of_memory_only_that_of_runtimes_unless_it_was_named),
        cmocka_unit_test(of_a_control_group),
        cmocka_unit_test(a_process_that_executes_another_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
