/* Which waits are idle: by the function that waits, whatever it uses to do so. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/idle.h"

#include <string.h>

#include "profile/profile.h"
#include "test.h"

/* A stack as folded text has it: the outermost first; "k:" is the kernel's, "j:" Java's, "p:FILE:" Python's,
 * "MODULE!" native code of that module. */
static bool is_idle(struct idle_frames *known, struct profile *p, const char *stack)
{
    uint32_t frames[32];
    size_t count = 0;
    char copy[512], *state = NULL;
    snprintf(copy, sizeof(copy), "%s", stack);
    for (char *word = strtok_r(copy, ";", &state); word; word = strtok_r(NULL, ";", &state)) {
        struct profile_frame f = {.kind = FRAME_NATIVE};
        char *mark = strchr(word, '!');
        if (strncmp(word, "k:", 2) == 0) {
            f.kind = FRAME_KERNEL;
            word += 2;
        } else if (strncmp(word, "j:", 2) == 0) {
            f.kind = FRAME_JAVA;
            word += 2;
        } else if (strncmp(word, "p:", 2) == 0) {
            char *name = strchr(word + 2, ':');
            f.kind = FRAME_PYTHON;
            f.file = profile_string_n(p, word + 2, (size_t)(name - word) - 2);
            word = name + 1;
        } else if (mark) {
            f.module = profile_string_n(p, word, (size_t)(mark - word));
            word = mark + 1;
        }
        f.name = profile_string(p, word);
        memmove(&frames[1], &frames[0], count++ * sizeof(*frames));
        frames[0] = profile_add_frame(p, &f);
    }
    return idle_wait(known, p, frames, count);
}

static const char *const IDLE[] = {
    "node!uv_run;node!uv__io_poll;libc.so.6!epoll_pwait;k:do_syscall_64;k:do_epoll_wait",
    "[truncated];k:do_epoll_wait;k:schedule_hrtimeout_range_clock",
    "libc.so.6!start_thread;node!worker;node!uv_cond_wait;libc.so.6!pthread_cond_wait@@GLIBC_2.3.2;k:futex_"
    "wait",
    "libc.so.6!start_thread;libuv.so.1!worker;libuv.so.1!uv_cond_wait;libc.so.6!pthread_cond_wait",
    "j:java.lang.Thread.run;j:java.util.concurrent.ThreadPoolExecutor.getTask;j:java.util.concurrent."
    "LinkedBlockingQueue.take;"
    "os::PlatformEvent::park;libc.so.6!pthread_cond_wait@@GLIBC_2.3.2;k:futex_wait",
    "j:java.util.TimerThread.mainLoop;j:java.lang.Object.wait;JVM_MonitorWait;ObjectMonitor::wait;os::"
    "PlatformEvent::park;k:futex_wait",
    "libjvm.so!WatcherThread::run;libjvm.so!WatcherThread::sleep;libjvm.so!Monitor::wait_without_safepoint_"
    "check;k:futex_wait",
    "p:/usr/lib/python3.11/socketserver.py:BaseServer.serve_forever;p:/usr/lib/python3.11/"
    "selectors.py:_PollLikeSelector.select;"
    "PyObject_Vectorcall;python3.11+0x5699f0;libc.so.6!__poll;k:do_sys_poll",
    "runtime.mcall;runtime.park_m;runtime.schedule;runtime.findRunnable;runtime.stopm;runtime.futex.abi0;k:"
    "futex_wait",
    "redis-server!bioProcessBackgroundJobs;libc.so.6!pthread_cond_wait@@GLIBC_2.3.2;k:futex_wait",
    "mariadbd!do_command;mariadbd!my_net_read_packet;mariadbd+0xbb6120;mariadbd!vio_read;mariadbd!vio_io_"
    "wait;libc.so.6!__poll",
    "postgres!PostgresMain;postgres!pq_getbyte;postgres!secure_read;postgres!WaitEventSetWait;libc.so.6!"
    "epoll_wait;k:do_epoll_wait",
    "k:ret_from_fork;k:kthread;k:worker_thread",
};

static const char *const REAL[] = {
    /* a lock, within what a worker does for a task */
    "libc.so.6!start_thread;node!worker;node!uv__work;addon.node!lock;libc.so.6!pthread_mutex_lock;k:futex_"
    "wait",
    /* a function of the same name elsewhere */
    "libc.so.6!start_thread;mine!worker;libc.so.6!pthread_cond_wait;k:futex_wait",
    "mine!accept;libc.so.6!pthread_cond_wait;k:futex_wait",
    "mine!worker_thread;libc.so.6!pthread_cond_wait;k:futex_wait",
    "j:java.util.TimerThread.mainLoop;j:shop.Task.run;j:java.lang.Object.wait;ObjectMonitor::wait;k:futex_"
    "wait",
    "j:java.util.concurrent.ThreadPoolExecutor.runWorker;j:shop.Task.run;ObjectMonitor::enter;os::"
    "PlatformEvent::park;k:futex_wait",
    /* a client that polls for an answer, and one that sleeps because it was told to */
    "psql!main;libpq.so.5!PQgetResult;libpq.so.5!pqSocketPoll;libc.so.6!__poll;k:do_sys_poll",
    "p:shop.py:hold;libc.so.6!clock_nanosleep@GLIBC_2.2.5;k:do_nanosleep",
    "p:/usr/lib/python3.11/subprocess.py:Popen.communicate;p:/usr/lib/python3.11/"
    "selectors.py:_PollLikeSelector.select;libc.so.6!__poll",
    /* a row that another transaction has locked */
    "postgres!heap_update;postgres!LockAcquireExtended;postgres!ProcSleep;postgres!WaitLatch;postgres!"
    "WaitEventSetWait;"
    "libc.so.6!epoll_wait;k:do_epoll_wait",
    "mariadbd!do_command;mariadbd!dispatch_command;mariadbd!lock_wait;libc.so.6!pthread_cond_wait",
    "k:ret_from_fork;k:kthread;k:worker_thread;k:process_one_work;k:io_schedule",
    "libc.so.6!read;k:vfs_read;k:io_schedule",
    "node!node::SyncProcessRunner::Spawn;node!uv_run;node!uv__io_poll;libc.so.6!epoll_pwait;k:do_epoll_wait",
};

static void by_the_function_that_waits(void **state)
{
    (void)state;
    struct idle_frames known = {0};
    struct profile *p;
    assert_int_equal(profile_new(&p), 0);
    for (int again = 0; again < 2; again++) { /* also with what is known by then */
        for (size_t i = 0; i < ARRAY_SIZE(IDLE); i++)
            if (!is_idle(&known, p, IDLE[i]))
                fail_msg("a wait for something: %s", IDLE[i]);
        for (size_t i = 0; i < ARRAY_SIZE(REAL); i++)
            if (is_idle(&known, p, REAL[i]))
                fail_msg("an idle wait: %s", REAL[i]);
    }
    assert_false(is_idle(&known, p, ""));
    profile_free(p);
    idle_done(&known);
}

static void another_profile_has_other_frames(void **state)
{
    (void)state;
    struct idle_frames known = {0};
    struct profile *a, *b;
    assert_int_equal(profile_new(&a), 0);
    assert_int_equal(profile_new(&b), 0);
    assert_true(is_idle(&known, a, "libc.so.6!epoll_wait"));
    assert_false(is_idle(&known, b, "shop!pay"));
    assert_true(is_idle(&known, a, "libc.so.6!epoll_wait"));
    profile_free(a);
    profile_free(b);
    idle_done(&known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_the_function_that_waits),
        cmocka_unit_test(another_profile_has_other_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
