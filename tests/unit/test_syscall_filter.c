/* Filters of other processes are run as the kernel would run them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/syscall_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "held.h"
#include "test.h"

#define NUMBER     offsetof(struct seccomp_data, nr)
#define PROTECTION (offsetof(struct seccomp_data, args) + 2 * 8)
#define OTHERWISE  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static uint32_t run(const struct sock_filter *program, size_t count, int number, uint64_t third)
{
    const struct seccomp_data call = {.nr = number, .arch = AUDIT_ARCH_X86_64, .args = {0, 0, third}};
    return syscall_filter_run(program, count, &call);
}

static void test_verdicts(void **state)
{
    /* What MemoryDenyWriteExecute= of systemd forbids: writable and executable at once. */
    const struct sock_filter strict[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, PROTECTION),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_WRITE | PROT_EXEC),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_WRITE | PROT_EXEC, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        OTHERWISE,
    };
    assert_int_equal(run(strict, ARRAY_SIZE(strict), SYS_read, 0), SECCOMP_RET_ALLOW);
    assert_int_equal(run(strict, ARRAY_SIZE(strict), SYS_mmap, PROT_READ | PROT_EXEC), SECCOMP_RET_ALLOW);
    assert_int_equal(run(strict, ARRAY_SIZE(strict), SYS_mmap, PROT_READ | PROT_WRITE | PROT_EXEC),
                     SECCOMP_RET_ERRNO | EPERM);
}

static void test_arithmetic_and_memory(void **state)
{
    const struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER),
        BPF_STMT(BPF_ST, 3),
        BPF_STMT(BPF_LD | BPF_IMM, 7),
        BPF_STMT(BPF_LDX | BPF_MEM, 3),
        BPF_STMT(BPF_ALU | BPF_MUL | BPF_X, 0),
        BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 4),
        BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, 2),
        BPF_STMT(BPF_JMP | BPF_JA, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    assert_int_equal(run(program, ARRAY_SIZE(program), 5, 0), 7 * 5 * 16 - 2);
}

static void test_what_is_no_filter_kills(void **state)
{
    const struct sock_filter beyond[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, sizeof(struct seccomp_data)),
                                         OTHERWISE};
    const struct sock_filter endless[] = {BPF_STMT(BPF_LD | BPF_IMM, 1)};
    const struct sock_filter division[] = {BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), OTHERWISE};
    const struct sock_filter leap[] = {BPF_STMT(BPF_JMP | BPF_JA, 1u << 30), OTHERWISE};
    assert_int_equal(run(beyond, 2, 0, 0), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(run(endless, 1, 0, 0), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(run(division, 2, 0, 0), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(run(leap, 2, 0, 0), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(run(leap, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
}

/* A process that may do everything but one call, for which it is killed. */
static pid_t start_without(int number)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            OTHERWISE,
        };
        struct sock_fprog program = {ARRAY_SIZE(filter), filter};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        char told = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
        if (write(ready[1], &told, 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    char told = 0;
    close(ready[1]);
    assert_int_equal(read(ready[0], &told, 1), 1);
    close(ready[0]);
    assert_true(told);
    return pid;
}

static int check(int number, struct problem *problem)
{
    pid_t pid = start_without(number);
    int r = syscall_filter_check(held(pid), problem);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return r;
}

static void test_a_process_that_would_be_killed_is_refused(void **state)
{
    struct problem problem = {0};
    assert_int_equal(check(SYS_recvmsg, &problem), -EPERM);
    assert_true(strstr(problem.what, "kill it for recvmsg") || strstr(problem.what, "may not be read"));
}

static void test_other_filters_do_no_harm(void **state)
{
    struct problem problem = {0};
    int r = check(SYS_reboot, &problem);
    if (r < 0 && strstr(problem.what, "may not be read"))
        skip();
    assert_int_equal(r, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_arithmetic_and_memory),
        cmocka_unit_test(test_what_is_no_filter_kills),
        cmocka_unit_test(test_a_process_that_would_be_killed_is_refused),
        cmocka_unit_test(test_other_filters_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
