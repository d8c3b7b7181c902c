/* See lock_kinds.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/lock_kinds.h"

#include <string.h>

#include "base/macro.h"
#include "profile/frame_name.h"

enum kind {
    KIND_MUTEX,
    KIND_RWLOCK,
    KIND_ONCE,
    KIND_GUARD,
    KIND_LIBRARY,
    KIND_PRIORITY,
    KIND_RUST,
    KIND_RUST_RWLOCK,
    KIND_PARKING,
    KIND_GO,
    KIND_GO_MUTEX,
    KIND_GO_RWMUTEX,
    KIND_GO_FILE,
    KIND_GO_SEMAPHORE,
    KIND_GO_GROUP,
    KIND_MONITOR,
    KIND_JAVA,
    KIND_GIL,
    KIND_VALUE,
    KIND_PYTHON,
    KIND_ATOMICS,
    KIND_SEMAPHORE,
    KIND_FUTEX,
    KIND_CONDITION,
    KIND_JOIN,
    KIND_BARRIER,
    KIND_PARK,
    KIND_GOROUTINES,
    KIND_JAVA_CONDITION,
    KIND_WRAPPER, /* none: a function between the program and the lock's own */
    KINDS,
};

static const struct lock_kind TABLE[KINDS] = {
    [KIND_MUTEX] = {"pthread mutex", LOCK_OWNED, LOCK_BY_ADDRESS, OWNER_PTHREAD},
    [KIND_RWLOCK] = {"pthread rwlock", LOCK_OWNED, LOCK_BY_ADDRESS, .words = 2},
    [KIND_ONCE] = {"pthread_once", LOCK_OWNED, LOCK_BY_ADDRESS},
    [KIND_GUARD] = {"C++ static variable's guard", LOCK_OWNED, LOCK_BY_ADDRESS},
    [KIND_LIBRARY] = {"lock of the C library", LOCK_OWNED, LOCK_BY_ADDRESS},
    [KIND_PRIORITY] = {"priority-inheriting futex", LOCK_OWNED, LOCK_BY_ADDRESS, OWNER_FUTEX},
    [KIND_RUST] = {"Rust mutex", LOCK_OWNED, LOCK_BY_ADDRESS},
    [KIND_RUST_RWLOCK] = {"Rust rwlock", LOCK_OWNED, LOCK_BY_ADDRESS},
    [KIND_PARKING] = {"Rust parking_lot lock", LOCK_OWNED, LOCK_BY_SITE},
    [KIND_GO] = {"lock of Go's runtime", LOCK_OWNED, LOCK_BY_ADDRESS},
    [KIND_GO_MUTEX] = {"Go mutex", LOCK_OWNED, LOCK_BY_ADDRESS},
    [KIND_GO_RWMUTEX] = {"Go rwmutex", LOCK_OWNED, LOCK_BY_ADDRESS, .words = 2},
    [KIND_GO_FILE] = {"Go file's lock", LOCK_OWNED, LOCK_BY_ADDRESS, .words = 2},
    [KIND_GO_SEMAPHORE] = {"semaphore of Go's runtime", LOCK_TURNS, LOCK_BY_ADDRESS},
    [KIND_GO_GROUP] = {"Go wait group", LOCK_CONDITION, LOCK_BY_ADDRESS},
    [KIND_MONITOR] = {"Java monitor", LOCK_OWNED, LOCK_BY_SITE, OWNER_UNKNOWN, .language = FRAME_JAVA},
    [KIND_JAVA] = {"java.util.concurrent lock", LOCK_OWNED, LOCK_BY_SITE, OWNER_UNKNOWN,
                   .language = FRAME_JAVA},
    [KIND_GIL] = {"Python's global lock", LOCK_OWNED, LOCK_BY_PROCESS, OWNER_UNKNOWN,
                  .language = FRAME_PYTHON},
    [KIND_VALUE] = {"lock", LOCK_OWNED, LOCK_BY_ADDRESS},
    [KIND_PYTHON] = {"Python lock", LOCK_TURNS, LOCK_BY_ADDRESS, OWNER_UNKNOWN, .language = FRAME_PYTHON},
    [KIND_ATOMICS] = {"Atomics.wait", LOCK_TURNS, LOCK_BY_SITE, OWNER_UNKNOWN, .language = FRAME_JS},
    [KIND_SEMAPHORE] = {"semaphore", LOCK_TURNS, LOCK_BY_ADDRESS},
    [KIND_FUTEX] = {"futex", LOCK_TURNS, LOCK_BY_ADDRESS},
    [KIND_CONDITION] = {"condition variable", LOCK_CONDITION, LOCK_BY_ADDRESS, .words = 2},
    [KIND_JOIN] = {"end of a thread", LOCK_CONDITION, LOCK_BY_SITE},
    [KIND_BARRIER] = {"barrier", LOCK_CONDITION, LOCK_BY_ADDRESS},
    [KIND_PARK] = {"parked thread", LOCK_CONDITION, LOCK_BY_SITE},
    [KIND_GOROUTINES] = {"thread without a goroutine", LOCK_CONDITION, LOCK_BY_SITE, .hides = true},
    [KIND_JAVA_CONDITION] = {"Java condition", LOCK_CONDITION, LOCK_BY_SITE, OWNER_UNKNOWN,
                             .language = FRAME_JAVA},
};

/* Functions, without what symbols append; where several are on a stack, the outermost one counts: it uses the
 * others. */
static const struct row {
    const char *name;
    bool prefix; /* names that begin so */
    enum kind kind;
} ROWS[] = {
    {"pthread_mutex_", true, KIND_MUTEX},
    {"__pthread_mutex_", true, KIND_MUTEX},
    {"___pthread_mutex_", true, KIND_MUTEX},
    {"pthread_rwlock_", true, KIND_RWLOCK},
    {"__pthread_rwlock_", true, KIND_RWLOCK},
    {"___pthread_rwlock_", true, KIND_RWLOCK},
    {"pthread_once", false, KIND_ONCE},
    {"__pthread_once", true, KIND_ONCE},
    {"__cxa_guard_acquire", false, KIND_GUARD},
    {"__lll_lock_wait_private", false, KIND_LIBRARY},
    {"pthread_cond_", true, KIND_CONDITION},
    {"__pthread_cond_", true, KIND_CONDITION},
    {"___pthread_cond_", true, KIND_CONDITION},
    {"cnd_wait", false, KIND_CONDITION},
    {"cnd_timedwait", false, KIND_CONDITION},
    {"pthread_join", false, KIND_JOIN},
    {"__pthread_clockjoin_ex", false, KIND_JOIN},
    {"pthread_barrier_wait", false, KIND_BARRIER},
    {"sem_wait", false, KIND_SEMAPHORE},
    {"sem_timedwait", false, KIND_SEMAPHORE},
    {"sem_clockwait", false, KIND_SEMAPHORE},
    {"__new_sem_wait", true, KIND_SEMAPHORE},
    /* C++ and libraries */
    {"std::", true, KIND_WRAPPER},
    {"__gthread_", true, KIND_WRAPPER},
    {"absl::", true, KIND_WRAPPER},
    {"boost::", true, KIND_WRAPPER},
    {"uv_mutex_", true, KIND_WRAPPER},
    {"uv_rwlock_", true, KIND_WRAPPER},
    {"uv_cond_", true, KIND_WRAPPER},
    {"uv_sem_", true, KIND_WRAPPER},
    {"uv__sem_", true, KIND_WRAPPER},
    {"v8::base::", true, KIND_WRAPPER},
    /* Rust */
    {"std::sys::sync::mutex::futex::Mutex::lock_contended", false, KIND_RUST},
    {"std::sys::unix::locks::futex_mutex::Mutex::lock_contended", false, KIND_RUST},
    {"std::sys::sync::rwlock::futex::RwLock::", true, KIND_RUST_RWLOCK},
    {"std::sys::unix::locks::futex_rwlock::RwLock::", true, KIND_RUST_RWLOCK},
    {"std::sys::sync::condvar::", true, KIND_CONDITION},
    {"std::sys::unix::locks::futex_condvar::", true, KIND_CONDITION},
    {"std::thread::park", true, KIND_PARK},
    {"parking_lot::raw_mutex::RawMutex::", true, KIND_PARKING},
    {"parking_lot::raw_rwlock::RawRwLock::", true, KIND_PARKING},
    {"parking_lot::condvar::", true, KIND_PARK},
    /* Go. Its mutex waits for a semaphore within a function of its own; who waits for that semaphore
     * otherwise does so in a function that may be inlined into the program's. */
    {"sync.(*Mutex).", true, KIND_GO_MUTEX},
    {"internal/sync.(*Mutex).", true, KIND_GO_MUTEX},
    {"sync.(*RWMutex).", true, KIND_GO_RWMUTEX},
    {"sync.runtime_SemacquireMutex", false, KIND_GO_RWMUTEX},
    {"sync.runtime_SemacquireRWMutex", true, KIND_GO_RWMUTEX},
    {"internal/poll.(*fdMutex).", true, KIND_GO_FILE},
    {"sync.(*WaitGroup).", true, KIND_GO_GROUP},
    {"sync.runtime_SemacquireWaitGroup", false, KIND_GO_GROUP},
    {"runtime.semacquire", true, KIND_GO_SEMAPHORE},
    {"runtime.semrelease", true, KIND_WRAPPER},
    {"sync.", true, KIND_WRAPPER},
    {"internal/sync.", true, KIND_WRAPPER},
    {"internal/poll.", true, KIND_WRAPPER},
    /* goroutines wait without a system call; what does is a thread of its runtime */
    {"runtime.notesleep", false, KIND_GOROUTINES},
    {"runtime.notetsleep", true, KIND_GOROUTINES},
    {"runtime.futexsleep", false, KIND_GOROUTINES},
    {"runtime.lock2", false, KIND_GO},
    /* HotSpot */
    {"PlatformMonitor::", true, KIND_WRAPPER},
    {"os::PlatformMonitor::", true, KIND_WRAPPER},
    {"PosixSemaphore::", true, KIND_WRAPPER},
    {"Monitor::", true, KIND_WRAPPER},
    {"MonitorLocker::", true, KIND_WRAPPER},
    {"Mutex::", true, KIND_WRAPPER},
    {"jdk.internal.misc.Unsafe.", true, KIND_WRAPPER},
    {"java.util.concurrent.locks.", true, KIND_WRAPPER},
    {"Unsafe_Park", false, KIND_JAVA_CONDITION},
    {"jdk.internal.misc.Unsafe.park", false, KIND_JAVA_CONDITION},
    {"java.util.concurrent.locks.LockSupport.park", true, KIND_JAVA_CONDITION},
    {"java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject.", true, KIND_JAVA_CONDITION},
    {"java.util.concurrent.locks.ReentrantLock.", true, KIND_JAVA},
    {"java.util.concurrent.locks.ReentrantLock$", true, KIND_JAVA},
    {"java.util.concurrent.locks.ReentrantReadWriteLock$", true, KIND_JAVA},
    {"java.util.concurrent.locks.StampedLock.", true, KIND_JAVA},
    {"ObjectMonitor::wait", true, KIND_JAVA_CONDITION},
    {"ObjectMonitor::", true, KIND_MONITOR},
    {"ObjectSynchronizer::enter", true, KIND_MONITOR},
    {"LightweightSynchronizer::enter", true, KIND_MONITOR},
    {"ObjectSynchronizer::wait", false, KIND_JAVA_CONDITION},
    {"java.lang.Object.wait", true, KIND_JAVA_CONDITION},
    /* CPython */
    {"take_gil", false, KIND_GIL},
    {"PyThread_acquire_lock_timed", false, KIND_PYTHON},
    {"_PyMutex_LockTimed", false, KIND_PYTHON},
    /* V8 */
    {"v8::internal::FutexEmulation::", true, KIND_ATOMICS},
};

/* A frame's role is a row's number, or one of these. */
enum { ROLE_UNKNOWN = 255, ROLE_OTHER = 254, ROLE_LIBRARY = 253, ROLE_RUNTIME = 252, ROLE_LEAST = 252 };
_Static_assert(ARRAY_SIZE(ROWS) < ROLE_LEAST, "roles are bytes");

enum { DEPTH = 32 }; /* frames of a stack that are looked at */

/* Native code of a language's runtime, between the program and the lock. */
static bool is_runtime(const struct profile_frame *f, const char *name, const char *module)
{
    static const char *const MODULES[] = {"libjvm.so", "libnode.so", "libpython3", "python3"};
    if (f->kind != FRAME_NATIVE)
        return f->kind == FRAME_KERNEL || f->kind == FRAME_RUNTIME;
    for (size_t i = 0; i < ARRAY_SIZE(MODULES); i++)
        if (strncmp(module, MODULES[i], strlen(MODULES[i])) == 0)
            return true;
    return strcmp(module, "node") == 0 || strncmp(name, "v8::", 4) == 0 || strncmp(name, "node::", 6) == 0;
}

static uint8_t role_of(const struct profile *p, const struct profile_frame *f)
{
    const char *name = profile_text(p, f->name), *module = profile_text(p, f->module);
    size_t length = frame_plain_length(name);
    uint8_t found = ROLE_OTHER;
    for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
        const struct row *row = &ROWS[i];
        bool same = row->prefix ? strncmp(name, row->name, strlen(row->name)) == 0
                                : strncmp(name, row->name, length) == 0 && !row->name[length];
        if (same && (found == ROLE_OTHER || strlen(row->name) > strlen(ROWS[found].name)))
            found = (uint8_t)i; /* the longer name says more */
    }
    if (found == ROLE_OTHER && frame_in_c_library(module))
        return ROLE_LIBRARY;
    return found == ROLE_OTHER && is_runtime(f, name, module) ? ROLE_RUNTIME : found;
}

static uint8_t known_role(struct lock_frames *known, const struct profile *p, uint32_t frame)
{
    if (known->serial != p->serial) {
        array_clear(&known->roles);
        known->serial = p->serial;
    }
    while (known->roles.count < p->frames.count)
        if (array_add(&known->roles, ROLE_UNKNOWN) < 0)
            return role_of(p, &p->frames.at[frame]);
    uint8_t *role = &known->roles.at[frame];
    if (*role == ROLE_UNKNOWN)
        *role = role_of(p, &p->frames.at[frame]);
    return *role;
}

/* Of futex(2), without its flags; most locks take the value 2 while somebody waits for them. */
enum { OPERATION_WAIT = 0, OPERATION_LOCK_PI = 6, OPERATION_LOCK_PI2 = 13 };

/* The first function from there on that is the program's, of the language if there is one. */
static uint32_t site_from(struct lock_frames *known, const struct profile *p, const uint32_t *frames,
                          size_t count, size_t from, enum profile_frame_kind language)
{
    for (size_t i = from; language != FRAME_NATIVE && i < count; i++)
        if (p->frames.at[frames[i]].kind == language && known_role(known, p, frames[i]) == ROLE_OTHER)
            return frames[i];
    for (size_t i = from; i < count; i++)
        if (known_role(known, p, frames[i]) == ROLE_OTHER)
            return frames[i];
    for (size_t i = from; i < count; i++) /* a runtime's own thread */
        if (known_role(known, p, frames[i]) == ROLE_RUNTIME)
            return frames[i];
    return count ? frames[MIN(from, count - 1)] : 0;
}

/* A condition variable's function takes the mutex again before it returns, and a monitor's wait the monitor.
 */
static bool taken_again(enum kind inner, enum kind outer)
{
    return (inner == KIND_MONITOR && outer == KIND_JAVA_CONDITION) ||
           (inner == KIND_MUTEX && outer == KIND_CONDITION);
}

static bool inherits_priority(const struct sampler_lock *lock)
{
    uint32_t operation = lock->operation & 0x7f;
    return operation == OPERATION_LOCK_PI || operation == OPERATION_LOCK_PI2;
}

struct lock_place lock_kinds_place(struct lock_frames *known, const struct profile *p, const uint32_t *frames,
                                   size_t count, const struct sampler_lock *lock)
{
    enum kind kind = KINDS;
    size_t behind = 0;
    bool has_value = (lock->operation & 0x7f) == OPERATION_WAIT && lock->expected == 2;
    for (size_t i = 0; i < count && i < DEPTH; i++) {
        uint8_t role = known_role(known, p, frames[i]);
        enum kind here = role < ROLE_LEAST ? ROWS[role].kind : KINDS;
        if (role == ROLE_OTHER && kind != KINDS)
            break;
        if (here == KINDS || (here == KIND_WRAPPER && kind == KINDS))
            continue;
        behind = i + 1;
        if (here == KIND_CONDITION && kind == KINDS && has_value)
            here = KIND_MUTEX;
        if (here != KIND_WRAPPER && !(kind != KINDS && taken_again(kind, here)))
            kind = here;
    }
    if (inherits_priority(lock) && (kind == KINDS || kind == KIND_MUTEX))
        kind = KIND_PRIORITY;
    if (kind == KINDS && has_value)
        kind = count && known_role(known, p, frames[0]) == ROLE_LIBRARY ? KIND_LIBRARY : KIND_VALUE;
    if (kind == KINDS)
        kind = KIND_FUTEX;
    return (struct lock_place){&TABLE[kind],
                               site_from(known, p, frames, count, behind, TABLE[kind].language)};
}

uint32_t lock_kinds_released(struct lock_frames *known, const struct profile *p, const struct lock_kind *kind,
                             const uint32_t *frames, size_t count)
{
    return site_from(known, p, frames, count, 0, kind->language);
}

uint32_t lock_kinds_owner(const struct lock_kind *kind, const struct sampler_lock *lock)
{
    if (kind->owner == OWNER_FUTEX && lock->known)
        return lock->words[0] & 0x3fffffff;
    /* glibc: int lock; unsigned count; int owner; unsigned users; int kind, of which ten bits are used. */
    if (kind->owner == OWNER_PTHREAD && lock->known == 5 && !(lock->words[4] & ~0x3ffu))
        return lock->words[2];
    return 0;
}

void lock_kinds_done(struct lock_frames *known)
{
    array_done(&known->roles);
}
