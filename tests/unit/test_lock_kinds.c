/* What a thread waits for, by the functions on its stack, and by the futex where they say nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/lock_kinds.h"

#include <string.h>

#include "test.h"

/* A stack with the outermost function first; "j:" is Java's, "s:" JavaScript's, "p:" Python's, "MODULE!"
 * native code of that module, else of "app". The innermost first in frames. */
static size_t stack_of(struct profile *p, const char *stack, uint32_t frames[32])
{
    char copy[768], *state = NULL;
    size_t count = 0;
    snprintf(copy, sizeof(copy), "%s", stack);
    for (char *word = strtok_r(copy, ";", &state); word; word = strtok_r(NULL, ";", &state)) {
        struct profile_frame f = {.kind = FRAME_NATIVE};
        char *mark = strchr(word, '!');
        if (word[1] == ':' && strchr("jsp", word[0])) {
            f.kind = word[0] == 'j' ? FRAME_JAVA : word[0] == 's' ? FRAME_JS : FRAME_PYTHON;
            word += 2;
        } else {
            f.module = mark ? profile_string_n(p, word, (size_t)(mark - word)) : profile_string(p, "app");
            word = mark ? mark + 1 : word;
        }
        f.name = profile_string(p, word);
        memmove(&frames[1], &frames[0], count++ * sizeof(*frames));
        frames[0] = profile_add_frame(p, &f);
    }
    return count;
}

static void assert_place(const char *stack, struct sampler_lock lock, const char *kind, enum lock_class class,
                         const char *site)
{
    struct profile *p;
    struct lock_frames known = {0};
    uint32_t frames[32];
    assert_int_equal(profile_new(&p), 0);
    size_t count = stack_of(p, stack, frames);
    for (int again = 0; again < 2; again++) {
        struct lock_place place = lock_kinds_place(&known, p, frames, count, &lock);
        assert_string_equal(place.kind->name, kind);
        assert_int_equal(place.kind->class, class);
        assert_string_equal(place.site ? profile_text(p, p->frames.at[place.site].name) : "", site);
    }
    lock_kinds_done(&known);
    profile_free(p);
}

static const struct sampler_lock TWO = {.operation = 128, .expected = 2}, BITSET = {.operation = 128 + 9},
                                 PRIORITY = {.operation = 128 + 6};

static void by_functions(void **state)
{
    (void)state;
    assert_place("main;books;libc.so.6!pthread_mutex_lock@@GLIBC_2.2.5;libc.so.6+0x8a1b0", TWO,
                 "pthread mutex", LOCK_OWNED, "books");
    assert_place("libc.so.6!start_thread;std::thread::_State_impl::_M_run;books;std::lock_guard<std::mutex>::"
                 "lock_guard;"
                 "std::mutex::lock;libc.so.6!___pthread_mutex_lock;libc.so.6!__lll_lock_wait",
                 TWO, "pthread mutex", LOCK_OWNED, "books");
    assert_place("main;books;libc.so.6!pthread_mutex_lock;libc.so.6!__lll_lock_wait", PRIORITY,
                 "priority-inheriting futex", LOCK_OWNED, "books");
    assert_place("main;reads;libc.so.6!pthread_rwlock_rdlock", BITSET, "pthread rwlock", LOCK_OWNED, "reads");
    assert_place("main;awaits;libc.so.6!pthread_cond_wait@@GLIBC_2.3.2", BITSET, "condition variable",
                 LOCK_CONDITION, "awaits");
    assert_place("main;awaits;libc.so.6!pthread_cond_wait@@GLIBC_2.3.2;libc.so.6!libc.so.6+0x8a", TWO,
                 "pthread mutex", LOCK_OWNED, "awaits"); /* it takes the mutex again */
    assert_place("main;awaits;libc.so.6!sem_wait", BITSET, "semaphore", LOCK_TURNS, "awaits");
    assert_place("main;app::books;std::sys::sync::mutex::futex::Mutex::lock_contended", BITSET, "Rust mutex",
                 LOCK_OWNED, "app::books");
}

static void of_runtimes(void **state)
{
    (void)state;
    assert_place(
        "j:java.lang.Thread.run;j:Shop.books;libjvm.so!SharedRuntime::complete_monitor_locking_C;libjvm.so!"
        "ObjectMonitor::enter;libjvm.so!ObjectMonitor::EnterI;libjvm.so!os::PlatformEvent::park;libc.so.6!"
        "pthread_cond_wait",
        BITSET, "Java monitor", LOCK_OWNED, "Shop.books");
    assert_place("j:Shop.awaits;j:java.lang.Object.wait;libjvm.so!JVM_MonitorWait;libjvm.so!ObjectMonitor::"
                 "wait;libjvm.so!"
                 "os::PlatformEvent::park;libc.so.6!pthread_cond_wait",
                 BITSET, "Java condition", LOCK_CONDITION, "Shop.awaits");
    assert_place("j:Shop.awaits;j:java.lang.Object.wait;libjvm.so!ObjectMonitor::wait;libjvm.so!"
                 "ObjectMonitor::ReenterI;"
                 "libjvm.so!os::PlatformEvent::park;libc.so.6!pthread_cond_wait",
                 BITSET, "Java monitor", LOCK_OWNED, "Shop.awaits"); /* it takes the monitor again */
    assert_place(
        "j:Shop.books;j:java.util.concurrent.locks.ReentrantLock.lock;j:java.util.concurrent.locks."
        "ReentrantLock$Sync.lock;j:java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire;j:java.util."
        "concurrent.locks.LockSupport.park;j:jdk.internal.misc.Unsafe.park;libjvm.so!Unsafe_Park;libjvm.so!"
        "Parker::park;libc.so.6!pthread_cond_wait",
        BITSET, "java.util.concurrent lock", LOCK_OWNED, "Shop.books");
    assert_place(
        "j:Shop.takes;j:java.util.concurrent.LinkedBlockingQueue.take;j:java.util.concurrent.locks."
        "AbstractQueuedSynchronizer$ConditionObject.await;j:java.util.concurrent.locks.LockSupport.park;j:"
        "jdk."
        "internal.misc.Unsafe.park;libjvm.so!Unsafe_Park;libjvm.so!Parker::park;libc.so.6!pthread_cond_wait",
        BITSET, "Java condition", LOCK_CONDITION, "java.util.concurrent.LinkedBlockingQueue.take");
    assert_place(
        "s:books;s:lock;node!v8::internal::Builtin_AtomicsWait;node!v8::internal::FutexEmulation::Wait;node!"
        "v8::base::ConditionVariable::Wait;libc.so.6!pthread_cond_wait",
        BITSET, "Atomics.wait", LOCK_TURNS, "lock");
    assert_place(
        "p:books;python3.11!_PyEval_EvalFrame;python3.11!PyThread_acquire_lock_timed;libc.so.6!sem_clockwait",
        BITSET, "Python lock", LOCK_TURNS, "books");
    assert_place("p:burns;python3.11!_PyEval_EvalFrame;python3.11!take_gil;libc.so.6!pthread_cond_timedwait",
                 BITSET, "Python's global lock", LOCK_OWNED, "burns");
    assert_place(
        "runtime.mcall;runtime.park_m;runtime.schedule;runtime.findRunnable;runtime.stopm;runtime.notesleep;"
        "runtime.futexsleep;runtime.futex.abi0",
        (struct sampler_lock){.operation = 128}, "thread without a goroutine", LOCK_CONDITION,
        "runtime.stopm");
    assert_place("main.books;runtime.lock2;runtime.futexsleep;runtime.futex.abi0", TWO,
                 "lock of Go's runtime", LOCK_OWNED, "main.books");
    const struct sampler_lock none = {.address = 0x1000};
    assert_place("runtime.goexit;main.main;main.books;sync.(*Mutex).lockSlow", none, "Go mutex", LOCK_OWNED,
                 "main.books");
    assert_place("main.books;sync.(*Mutex).Lock;internal/sync.(*Mutex).Lock;internal/sync.(*Mutex).lockSlow",
                 none, "Go mutex", LOCK_OWNED, "main.books");
    assert_place("main.books;sync.(*RWMutex).Lock;sync.(*Mutex).lockSlow", none, "Go rwmutex", LOCK_OWNED,
                 "main.books");
    assert_place("main.reads;sync.runtime_SemacquireRWMutexR;runtime.semacquire1", none, "Go rwmutex",
                 LOCK_OWNED, "main.reads"); /* inlined */
    assert_place("main.awaits;sync.(*Cond).Wait;sync.(*Mutex).Lock;sync.(*Mutex).lockSlow", none, "Go mutex",
                 LOCK_OWNED, "main.awaits"); /* it takes the mutex again */
    assert_place("main.once;sync.(*Once).doSlow;sync.(*Mutex).lockSlow", none, "Go mutex", LOCK_OWNED,
                 "main.once");
    assert_place("main.main;sync.(*WaitGroup).Wait;sync.runtime_Semacquire;runtime.semacquire1", none,
                 "Go wait group", LOCK_CONDITION, "main.main");
    assert_place("main.writes;os.(*File).Write;internal/poll.(*FD).Write;internal/poll.(*fdMutex).rwlock;"
                 "internal/poll.runtime_Semacquire;runtime.semacquire1",
                 none, "Go file's lock", LOCK_OWNED, "os.(*File).Write");
}

static void by_value(void **state)
{
    (void)state;
    assert_place("main;books;libc.so.6!malloc;libc.so.6!libc.so.6+0x8a", TWO, "lock of the C library",
                 LOCK_OWNED, "books");
    assert_place("main;my_lock", TWO, "lock", LOCK_OWNED, "my_lock");
    assert_place("main;my_wait", BITSET, "futex", LOCK_TURNS, "my_wait");
    assert_place("main;my_lock", PRIORITY, "priority-inheriting futex", LOCK_OWNED, "my_lock");
    assert_place("", TWO, "lock", LOCK_OWNED, "");
}

static void owners(void **state)
{
    (void)state;
    struct profile *p;
    struct lock_frames known = {0};
    uint32_t frames[32];
    struct sampler_lock lock = {.operation = 128, .expected = 2, .words = {2, 0, 4711, 1, 0}, .known = 5};
    assert_int_equal(profile_new(&p), 0);
    size_t count = stack_of(p, "main;books;libc.so.6!pthread_mutex_lock", frames);
    const struct lock_kind *mutex = lock_kinds_place(&known, p, frames, count, &lock).kind;
    assert_int_equal(lock_kinds_owner(mutex, &lock), 4711);
    lock.words[4] = 0xdeadbeef; /* no kind that there is */
    assert_int_equal(lock_kinds_owner(mutex, &lock), 0);
    lock.words[4] = 0;
    lock.known = 1;
    assert_int_equal(lock_kinds_owner(mutex, &lock), 0);
    lock = (struct sampler_lock){.operation = 128 + 6, .words = {0x80000000u | 4711}, .known = 1};
    assert_int_equal(lock_kinds_owner(lock_kinds_place(&known, p, frames, count, &lock).kind, &lock), 4711);
    lock.known = 0;
    assert_int_equal(lock_kinds_owner(lock_kinds_place(&known, p, frames, count, &lock).kind, &lock), 0);
    count = stack_of(
        p,
        "j:Thread.run;j:Shop.books;j:java.util.concurrent.locks.ReentrantLock.unlock;j:jdk.internal.misc."
        "Unsafe.unpark;libjvm.so!Unsafe_Unpark;libc.so.6!pthread_cond_signal",
        frames);
    struct lock_kind java = {.language = FRAME_JAVA};
    uint32_t where = lock_kinds_released(&known, p, &java, frames, count);
    assert_string_equal(profile_text(p, p->frames.at[where].name), "Shop.books");
    assert_int_equal(lock_kinds_released(&known, p, &java, frames, 0), 0);
    lock_kinds_done(&known);
    profile_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_functions),
        cmocka_unit_test(of_runtimes),
        cmocka_unit_test(by_value),
        cmocka_unit_test(owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
