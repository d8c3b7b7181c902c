/* See idle.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/idle.h"

#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "profile/frame_name.h"
#include "profile/profile.h"

enum role {
    ROLE_UNKNOWN, /* not looked up yet */
    ROLE_OTHER,
    ROLE_IDLE,   /* whoever is in it, or below it, waits for work */
    ROLE_REAL,   /* waits for something in particular, even in an event loop's function */
    ROLE_MEANS,  /* how waits are made: who called it matters */
    ROLE_WORKER, /* waits for work if it waits itself, not in what it calls for a task */
};

struct row {
    const char *name;   /* without what symbols append: "@@GLIBC_2.3.2", ".abi0", ".part.0" */
    const char *module; /* part of the module's or the file's name; NULL: of any */
    enum role role;
};

static const struct row KERNEL[] = {
    {"do_epoll_wait", NULL, ROLE_IDLE},
    {"io_cqring_wait", NULL, ROLE_IDLE},
    {"inet_csk_accept", NULL, ROLE_IDLE},
    {"do_accept", NULL, ROLE_IDLE},
    {"do_sigtimedwait", NULL, ROLE_IDLE},
    {"__x64_sys_pause", NULL, ROLE_IDLE},
    {"__x64_sys_rt_sigsuspend", NULL, ROLE_IDLE},
    /* its own threads */
    {"process_one_work", NULL, ROLE_OTHER},
    {"worker_thread", NULL, ROLE_WORKER},
    {"rescuer_thread", NULL, ROLE_WORKER},
    {"smpboot_thread_fn", NULL, ROLE_WORKER},
    {"rcu_gp_kthread", NULL, ROLE_WORKER},
    {"rcu_gp_fqs_loop", NULL, ROLE_WORKER},
    {"kswapd", NULL, ROLE_WORKER},
    {"kcompactd", NULL, ROLE_WORKER},
    {"khugepaged", NULL, ROLE_WORKER},
    {"kauditd_thread", NULL, ROLE_WORKER},
    {"kjournald2", NULL, ROLE_WORKER},
};

static const struct row USER[] = {
    {"epoll_wait", "libc", ROLE_IDLE},
    {"epoll_pwait", "libc", ROLE_IDLE},
    {"epoll_pwait2", "libc", ROLE_IDLE},
    {"accept", "libc", ROLE_IDLE},
    {"accept4", "libc", ROLE_IDLE},
    {"sigsuspend", "libc", ROLE_IDLE},
    {"sigtimedwait", "libc", ROLE_IDLE},
    {"sigwaitinfo", "libc", ROLE_IDLE},
    {"sigwait", "libc", ROLE_IDLE},
    {"pause", "libc", ROLE_IDLE},
    /* libuv, Node.js, V8 */
    {"uv_cond_wait", NULL, ROLE_MEANS},
    {"uv_cond_timedwait", NULL, ROLE_MEANS},
    {"uv_sem_wait", NULL, ROLE_MEANS},
    {"worker", "node", ROLE_WORKER},
    {"worker", "libuv", ROLE_WORKER},
    {"node::(anonymous namespace)::PlatformWorkerThread", NULL, ROLE_WORKER},
    {"node::PlatformWorkerThread", NULL, ROLE_WORKER},
    {"node::TaskQueue<v8::Task>::BlockingPop", NULL, ROLE_IDLE},
    {"node::TaskQueue::BlockingPop", NULL, ROLE_IDLE},
    {"v8::platform::DelayedTaskQueue::GetNext", NULL, ROLE_IDLE},
    {"node::inspector::(anonymous namespace)::StartIoThreadMain", NULL, ROLE_WORKER},
    {"node::SyncProcessRunner::TryInitializeAndRunLoop", NULL, ROLE_REAL}, /* spawnSync() */
    {"node::SyncProcessRunner::Spawn", NULL, ROLE_REAL},
    /* gRPC: a call that waits for its answer */
    {"grpc_completion_queue_pluck", NULL, ROLE_REAL},
    /* Java's library */
    {"java.util.concurrent.ThreadPoolExecutor.getTask", NULL, ROLE_IDLE},
    {"java.util.concurrent.ForkJoinPool.awaitWork", NULL, ROLE_IDLE},
    {"java.lang.ref.ReferenceQueue.remove", NULL, ROLE_IDLE},
    {"java.lang.ref.ReferenceQueue.await", NULL, ROLE_IDLE},
    {"java.lang.ref.Reference.waitForReferencePendingList", NULL, ROLE_IDLE},
    {"java.util.TimerThread.mainLoop", NULL, ROLE_WORKER},
    {"java.lang.Object.wait", NULL, ROLE_MEANS},
    {"java.lang.Object.wait0", NULL, ROLE_MEANS},
    {"sun.nio.ch.EPoll.wait", NULL, ROLE_IDLE},
    {"sun.nio.ch.NioSocketImpl.accept", NULL, ROLE_IDLE},
    {"sun.nio.ch.ServerSocketChannelImpl.accept", NULL, ROLE_IDLE},
    /* HotSpot */
    {"CompileQueue::get", NULL, ROLE_IDLE},
    {"G1ServiceThread::sleep_before_next_cycle", NULL, ROLE_IDLE},
    {"G1ServiceThread::wait_for_task", NULL, ROLE_IDLE},
    {"G1ConcurrentMarkThread::wait_for_next_cycle", NULL, ROLE_IDLE},
    {"G1ConcurrentRefineThread::wait_for_completed_buffers", NULL, ROLE_IDLE},
    {"G1PrimaryConcurrentRefineThread::wait_for_completed_buffers", NULL, ROLE_IDLE},
    {"G1SecondaryConcurrentRefineThread::wait_for_completed_buffers", NULL, ROLE_IDLE},
    {"GangWorker::wait_for_task", NULL, ROLE_IDLE},
    {"WorkerTaskDispatcher::worker_run_task", NULL, ROLE_WORKER},
    {"StringDedup::Processor::wait_for_requests", NULL, ROLE_IDLE},
    {"WatcherThread::sleep", NULL, ROLE_IDLE},
    {"VMThread::wait_for_operation", NULL, ROLE_IDLE},
    {"ZDirector::wait_for_tick", NULL, ROLE_IDLE},
    {"ZMetronome::wait_for_tick", NULL, ROLE_IDLE},
    {"os::signal_wait", NULL, ROLE_IDLE},
    {"wait_init_completed", "jvm", ROLE_IDLE},
    {"MonitorDeflationThread::monitor_deflation_thread_entry", NULL, ROLE_WORKER},
    {"ServiceThread::service_thread_entry", NULL, ROLE_WORKER},
    {"Monitor::wait", NULL, ROLE_MEANS},
    {"Monitor::wait_without_safepoint_check", NULL, ROLE_MEANS},
    {"os::PlatformMonitor::wait", NULL, ROLE_MEANS},
    {"PlatformMonitor::wait", NULL, ROLE_MEANS},
    {"os::PlatformEvent::park", NULL, ROLE_MEANS},
    {"PlatformEvent::park", NULL, ROLE_MEANS},
    {"PosixSemaphore::wait", NULL, ROLE_MEANS},
    {"Semaphore::wait", NULL, ROLE_MEANS},
    {"ObjectMonitor::wait", NULL, ROLE_MEANS},
    {"ObjectSynchronizer::wait", NULL, ROLE_MEANS},
    {"JVM_MonitorWait", NULL, ROLE_MEANS},
    /* Python */
    {"PyThread_acquire_lock_timed", NULL, ROLE_MEANS},
    {"PyObject_Vectorcall", NULL, ROLE_MEANS},
    {"_PyObject_MakeTpCall", NULL, ROLE_MEANS},
    {"_PyFunction_Vectorcall", NULL, ROLE_MEANS},
    {"_PollLikeSelector.select", "selectors.py", ROLE_MEANS},
    {"SelectSelector.select", "selectors.py", ROLE_MEANS},
    {"BaseServer.serve_forever", "socketserver.py", ROLE_WORKER},
    {"_worker", "concurrent/futures/thread.py", ROLE_WORKER},
    /* Go: a thread without a goroutine */
    {"runtime.findRunnable", NULL, ROLE_IDLE},
    {"runtime.findrunnable", NULL, ROLE_IDLE},
    {"runtime.stopm", NULL, ROLE_IDLE},
    {"runtime.sysmon", NULL, ROLE_IDLE},
    {"runtime.templateThread", NULL, ROLE_IDLE},
    /* Redis and Valkey, and jemalloc */
    {"bioProcessBackgroundJobs", NULL, ROLE_WORKER},
    {"IOThreadMain", NULL, ROLE_WORKER},
    {"background_thread_entry", NULL, ROLE_IDLE},
    /* MariaDB and MySQL: a connection without a statement, and threads of the background */
    {"do_command", NULL, ROLE_WORKER},
    {"my_net_read_packet", NULL, ROLE_MEANS},
    {"my_net_read_packet_reallen", NULL, ROLE_MEANS},
    {"vio_read", NULL, ROLE_MEANS},
    {"vio_socket_io_wait", NULL, ROLE_MEANS},
    {"vio_io_wait", NULL, ROLE_MEANS},
    {"handle_connections_sockets", NULL, ROLE_WORKER},
    {"tpool::thread_pool_generic::wait_for_tasks", NULL, ROLE_IDLE},
    /* PostgreSQL: all its waits are made by an event loop's function */
    {"PostmasterMain", NULL, ROLE_WORKER},
    {"ProcSleep", NULL, ROLE_REAL},
    {"ProcWaitForSignal", NULL, ROLE_REAL},
    {"ConditionVariableSleep", NULL, ROLE_REAL},
    {"ConditionVariableTimedSleep", NULL, ROLE_REAL},
    {"SyncRepWaitForLSN", NULL, ROLE_REAL},
    {"WaitForParallelWorkersToFinish", NULL, ROLE_REAL},
    {"shm_mq_receive", NULL, ROLE_REAL},
    {"shm_mq_sendv", NULL, ROLE_REAL},
    {"pg_sleep", NULL, ROLE_REAL},
};

static enum role role_of(const struct profile *p, const struct profile_frame *f)
{
    const char *name = profile_text(p, f->name), *module = profile_text(p, f->module),
               *file = profile_text(p, f->file);
    bool kernel = f->kind == FRAME_KERNEL;
    const struct row *rows = kernel ? KERNEL : USER;
    size_t length = frame_plain_length(name), count = kernel ? ARRAY_SIZE(KERNEL) : ARRAY_SIZE(USER);
    for (size_t i = 0; i < count; i++)
        if (strncmp(rows[i].name, name, length) == 0 && !rows[i].name[length] &&
            (!rows[i].module || strstr(module, rows[i].module) || strstr(file, rows[i].module)))
            return rows[i].role;
    /* Frames without a name say nothing for or against. */
    if (kernel || f->kind == FRAME_RUNTIME || frame_in_c_library(module) || strstr(name, "+0x"))
        return ROLE_MEANS;
    return ROLE_OTHER;
}

bool idle_wait(struct idle_frames *known, const struct profile *p, const uint32_t *frames, size_t count)
{
    enum role caller = ROLE_MEANS; /* of the function that waits, whatever it uses to do so */
    bool idle = false;
    if (known->serial != p->serial) {
        array_clear(&known->roles);
        known->serial = p->serial;
    }
    while (known->roles.count < p->frames.count)
        if (array_add(&known->roles, ROLE_UNKNOWN) < 0)
            return false;
    for (size_t i = 0; i < count; i++) {
        uint8_t *role = &known->roles.at[frames[i]];
        if (*role == ROLE_UNKNOWN)
            *role = (uint8_t)role_of(p, &p->frames.at[frames[i]]);
        if (*role == ROLE_REAL)
            return false;
        idle |= *role == ROLE_IDLE;
        if (caller == ROLE_MEANS)
            caller = (enum role) * role;
    }
    return idle || caller == ROLE_WORKER;
}

void idle_done(struct idle_frames *known)
{
    array_done(&known->roles);
}
