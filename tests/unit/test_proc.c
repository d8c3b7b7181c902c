/* Handles of processes, also where a number changes hands: in a PID namespace of the test's own the next
 * number can be chosen. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/hold.h"
#include "attach/target.h"
#include "base/process_file.h"
#include "test.h"

static pid_t sleeper(void)
{
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void what_is_read_is_its_own(void **state)
{
    struct proc *proc;
    struct proc_stat stat;
    char name[PROC_NAME_BYTES], exe[TEST_PATH];
    assert_int_equal(proc_open(getpid(), &proc), 0);
    assert_true(proc_exists(proc));
    assert_false(proc_has_ended(proc));
    assert_true(proc_has_thread(proc, getpid()));
    assert_false(proc_has_thread(proc, 1));
    assert_int_equal(proc_read_stat(proc, 0, &stat), 0);
    assert_int_equal(stat.parent, getppid());
    assert_true(stat.started_ticks > 0);
    assert_true(stat.stack_start > 0);
    assert_int_equal(proc_status_number(proc, "PPid"), getppid());
    assert_int_equal(proc_status_number(proc, "Nothing"), -1);
    uint64_t before = proc_own_memory();
    size_t size = 8 << 20;
    char *more = malloc(size);
    assert_non_null(more);
    memset(more, 1, size);
    assert_true(before > 0 && proc_own_memory() >= before + size / 2);
    free(more);
    proc_read_name(proc, name);
    assert_string_equal(name, "test_proc");
    assert_true(proc_read_link(proc, "exe", exe, sizeof(exe)) > 0);
    assert_non_null(strstr(exe, "test_proc"));
    proc_unref(proc);
}

static void one_that_has_ended(void **state)
{
    struct proc *proc;
    struct proc_stat stat;
    siginfo_t news;
    char *text;
    pid_t pid = sleeper();
    assert_int_equal(proc_open(pid, &proc), 0);
    kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)pid, &news, WEXITED | WNOWAIT), 0);
    assert_true(proc_has_ended(proc));
    assert_true(proc_exists(proc)); /* the number is its own until it is waited for */
    assert_int_equal(proc_read_stat(proc, 0, &stat), 0);
    assert_int_equal(stat.state, 'Z');
    waitpid(pid, NULL, 0);
    assert_false(proc_exists(proc));
    assert_true(proc_has_ended(proc));
    assert_int_equal(proc_read(proc, "stat", 4096, &text, NULL), -ESRCH);
    assert_int_equal(proc_read_stat(proc, 0, &stat), -ESRCH);
    assert_null(proc_list(proc, "task"));
    proc_unref(proc);
    assert_int_equal(proc_open(pid, &proc), -ESRCH);
    assert_int_equal(proc_open(-1, &proc), -ESRCH);
}

/* ---- a number that another process has by now ---- */

#define CHECK(condition) \
    if (!(condition))    \
    return __LINE__

static int give_number(pid_t pid)
{
    char text[16];
    int n = snprintf(text, sizeof(text), "%d", pid - 1);
    int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
    CHECK(fd >= 0 && write(fd, text, (size_t)n) == n);
    close(fd);
    return 0;
}

/* Everything that deals with a process is given the handle of the one before, and reaches neither. */
static int deal_with(struct proc *proc)
{
    struct target *target;
    struct modules modules;
    struct hold hold;
    char *text, link[TEST_PATH];
    CHECK(!proc_exists(proc));
    CHECK(!proc_has_thread(proc, proc->pid));
    CHECK(proc_read(proc, "cmdline", 4096, &text, NULL) == -ESRCH);
    CHECK(proc_file_open(proc, "mem", O_RDWR) == -ESRCH);
    CHECK(proc_read_link(proc, "exe", link, sizeof(link)) < 0);
    CHECK(process_root_open(proc) == -ESRCH);
    CHECK(modules_read(proc, &modules, NULL) == -ESRCH);
    CHECK(target_open(proc, NULL, TARGET_KIND, SONDE_CONTEXT_OFF, &target, NULL) == -ESRCH);
    CHECK(hold_one(proc, &hold, NULL) == -ESRCH);
    CHECK(hold_all(proc, &hold, NULL) == -ESRCH);
    return 0;
}

static int scenario(void)
{
    struct proc *proc, *other;
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(mount("proc", "/proc", "proc", 0, NULL) == 0);
    pid_t first = sleeper();
    CHECK(proc_open(first, &proc) == 0);
    end(first);
    int r = give_number(first);
    CHECK(r == 0);
    pid_t second = sleeper();
    CHECK(second == first); /* the number changed hands */
    r = deal_with(proc);
    CHECK(proc_open(second, &other) == 0);
    if (r == 0 && (proc_status_number(other, "TracerPid") != 0 || proc_has_ended(other)))
        r = __LINE__;
    struct proc_stat stat;
    if (r == 0 && (proc_read_stat(other, 0, &stat) < 0 || strchr("tTZX", stat.state)))
        r = __LINE__;
    proc_unref(proc);
    proc_unref(other);
    end(second);
    return r;
}

/* Exit statuses have eight bits: which line failed is said on stderr. */
static void a_number_that_another_process_has_by_now(void **state)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
            _exit(77);
        pid_t inner = fork();
        if (inner == 0) {
            int line = scenario();
            if (line)
                fprintf(stderr, "test_proc.c:%d\n", line);
            _exit(line != 0);
        }
        int status = -1;
        waitpid(inner, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(); /* not root: no namespace of its own */
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void lists_every_process_once(void **state)
{
    size_t count, us = 0, it = 0;
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    assert_true(child > 0);
    _cleanup_(freep) pid_t *pids = proc_all(&count);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_non_null(pids);
    for (size_t i = 0; i < count; i++) {
        assert_true(pids[i] > 0);
        us += pids[i] == getpid();
        it += pids[i] == child;
    }
    assert_int_equal(us, 1);
    assert_int_equal(it, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_is_its_own),
        cmocka_unit_test(lists_every_process_once),
        cmocka_unit_test(one_that_has_ended),
        cmocka_unit_test(a_number_that_another_process_has_by_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
