/* How the probe starts: its constructor runs before main, in every program that inherits LD_PRELOAD, and does
 * nothing unless the program contains a runtime we know and sonde answers. Sonde patches from outside while
 * the constructor waits; no ELF or instruction decoding happens in here. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/redis.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

enum {
    RING_BYTES = 512 << 10,
    SLOT_BYTES = SONDE_PAGE + RING_BYTES,
    WAIT_MS = 5000,
    OLD_KERNEL_SLOTS = 16, /* allotted at once where memory cannot be allotted later without a descriptor */
    POPULATE_WRITE = 23,   /* MADV_POPULATE_WRITE, Linux 5.14 */
};

EXPORTED struct sonde_config sonde_config __attribute__((aligned(64))); /* Redis' offsets: one cache line */

/* Filled in and read by sonde alone. */
EXPORTED struct sonde_pool sonde_pools[SONDE_POOLS];

struct probe_live probe_live;
__thread struct probe_self probe_self
    __attribute__((tls_model(PROBE_TLS_MODEL))) = {.attachment = PROBE_UNCLAIMED};

EXPORTED struct sonde_owner sonde_owner; /* written and read by sonde alone */

struct sonde_shared *probe_shared;
static int shared_fd = -1; /* closed once sonde has it: descriptors are the program's own business */
static uint32_t slots = SONDE_THREADS;
static uint32_t attachments = 1; /* that there were, and is now */

/* Present only in the runtimes we know; resolved by the loader, NULL elsewhere. */
extern int uv_run(void *, int) __attribute__((weak));
extern void aeMain(void *) __attribute__((weak));
extern char **environ __attribute__((weak));

/* The compiler may emit calls to these. */
void *memset(void *to, int value, size_t n);
void *memset(void *to, int value, size_t n)
{
    void *start = to;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(value) : "memory");
    return start;
}

void *memcpy(void *to, const void *from, size_t n);
void *memcpy(void *to, const void *from, size_t n)
{
    copy_bytes(to, from, n);
    return to;
}

static char *slot_address(uint32_t i)
{
    return (char *)probe_shared + SONDE_PAGE + (size_t)i * SLOT_BYTES;
}

static void forked(void);

struct probe_thread *probe_thread_claim(void)
{
    if (!probe_live.original)
        forked();
    if (!probe_live.attachment)
        return NULL;
    if (probe_self.refused == attachments) { /* no slot for this thread */
        __atomic_fetch_add(&probe_shared->events_without_slot, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    uint32_t tid = (uint32_t)SYSTEM_CALL(SYS_gettid);
    for (uint32_t i = 0; i < slots; i++) {
        struct probe_thread *thread = (struct probe_thread *)slot_address(i);
        /* Memory is allotted before it is touched: a full tmpfs would otherwise kill us with SIGBUS. */
        if (i >= __atomic_load_n(&probe_shared->slots_used, __ATOMIC_ACQUIRE) && slots == SONDE_THREADS &&
            SYSTEM_CALL(SYS_madvise, thread, SLOT_BYTES, POPULATE_WRITE) < 0)
            break;
        uint32_t nobody = 0;
        if (!__atomic_compare_exchange_n(&thread->shared.owner, &nobody, tid, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        for (uint32_t used = i; used <= i;
             used = __atomic_load_n(&probe_shared->slots_used, __ATOMIC_ACQUIRE))
            if (__atomic_compare_exchange_n(&probe_shared->slots_used, &used, i + 1, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_RELAXED))
                break;
        thread->shared.ring_mask = RING_BYTES - 1;
        for (unsigned k = 0; k < sizeof(thread->shared.probes_own) / sizeof(thread->shared.probes_own[0]);
             k++)
            thread->shared.probes_own[k] = 0;
        thread->stream_fd = -1;
        thread->in_before_sleep = thread->context_counted = 0;
        thread->shared.depth = 0;
        thread->shared.busy = 0;
        probe_self.thread = thread;
        compiler_barrier(); /* a signal handler sees both or neither */
        probe_self.attachment = attachments;
        return thread;
    }
    probe_self.refused = attachments;
    __atomic_fetch_add(&probe_shared->threads_without_slot, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&probe_shared->events_without_slot, 1, __ATOMIC_RELAXED);
    return NULL;
}

static bool starts_with(const char *s, const char *prefix)
{
    while (*prefix)
        if (*s++ != *prefix++)
            return false;
    return true;
}

static const char *variable(const char *assignment)
{
    if (&environ && environ)
        for (char **e = environ; *e; e++)
            if (starts_with(*e, assignment)) {
                const char *value = *e;
                while (*value++ != '=')
                    ;
                return value;
            }
    return NULL;
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = 0;
    for (; path[n] && n < sizeof(address.sun_path) - 1; n++)
        address.sun_path[n] = path[n];
    if (!n || path[n])
        return -1;
    int fd = (int)SYSTEM_CALL(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    if (SYSTEM_CALL(SYS_connect, fd, &address, sizeof(address)) < 0) {
        SYSTEM_CALL(SYS_close, fd);
        return -1;
    }
    return fd;
}

/* A page that the kernel clears in a forked child: the child shares the rings' memory with its parent and
 * must leave it alone. */
static bool make_live_flag(void)
{
    if (SYSTEM_CALL(SYS_madvise, &probe_live, sizeof(probe_live), MADV_WIPEONFORK) < 0)
        return false;
    probe_live.original = 1;
    return true;
}

/* A limit on the size of files (ulimit -f) holds for a memfd too: beyond it the kernel sends SIGXFSZ, of
 * which a program ends. */
static long set_size(int fd, size_t size)
{
    const uint64_t too_big = 1ull << (SIGXFSZ - 1);
    const struct timespec at_once = {0};
    uint64_t before;
    long r = SYSTEM_CALL(SYS_rt_sigprocmask, SIG_BLOCK, &too_big, &before, sizeof(before));
    if (r < 0)
        return r;
    r = SYSTEM_CALL(SYS_ftruncate, fd, size);
    if (r == -EFBIG)
        SYSTEM_CALL(SYS_rt_sigtimedwait, &too_big, 0, &at_once, sizeof(too_big));
    SYSTEM_CALL(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof(before));
    return r;
}

/* Maps a new memfd, over the memory of before when there is one: threads find their slots empty and claim
 * anew. */
static long map_shared_memory(void)
{
    size_t size = SONDE_PAGE + (size_t)SONDE_THREADS * SLOT_BYTES;
    long r = set_size(shared_fd, size);
    if (r < 0)
        return r;
    long at = SYSTEM_CALL(SYS_mmap, probe_shared, size, PROT_READ | PROT_WRITE,
                          MAP_SHARED | (probe_shared ? MAP_FIXED : 0), shared_fd, 0);
    if (at < 0)
        return at;
    probe_shared = (struct sonde_shared *)at;
    if (SYSTEM_CALL(SYS_madvise, at, SONDE_PAGE, POPULATE_WRITE) < 0) {
        slots = OLD_KERNEL_SLOTS;
        r = SYSTEM_CALL(SYS_fallocate, shared_fd, 0, 0, SONDE_PAGE + (size_t)slots * SLOT_BYTES);
        if (r < 0)
            return r;
    }
    *probe_shared = (struct sonde_shared){
        .magic = SONDE_SHARED_MAGIC,
        .version = SONDE_SHARED_VERSION,
        .pid = (uint32_t)SYSTEM_CALL(SYS_getpid),
        .ring_bytes = RING_BYTES,
        .thread_slots = slots,
        .start_tsc = ticks(),
    };
    return make_live_flag() ? 0 : -ENOMEM;
}

static void close_shared_memory(void)
{
    if (shared_fd >= 0)
        SYSTEM_CALL(SYS_close, shared_fd);
    shared_fd = -1;
}

/* 0, with shared_fd open, or a negative errno. */
static long make_shared_memory(void)
{
    shared_fd = (int)SYSTEM_CALL(SYS_memfd_create, "sonde", MFD_CLOEXEC);
    long r = shared_fd < 0 ? shared_fd : map_shared_memory();
    if (r < 0)
        close_shared_memory();
    return r;
}

static void drop_shared_memory(void)
{
    probe_live.attachment = 0;
    if (probe_shared)
        SYSTEM_CALL(SYS_munmap, probe_shared, SONDE_PAGE + (size_t)SONDE_THREADS * SLOT_BYTES);
    probe_shared = NULL;
}

/* That it cannot be traced, and why. */
static void say_why_not(int socket, long error)
{
    struct sonde_message message = {.verb = SONDE_UNABLE, .a = (uint64_t)error};
    SYSTEM_CALL(SYS_sendto, socket, &message, sizeof(message), MSG_NOSIGNAL, 0, 0);
}

static bool say_hello(int socket, enum sonde_verb verb)
{
    struct sonde_message hello = {
        .verb = verb,
        .a = (uint64_t)(uintptr_t)&sonde_config,
        .b = (uint64_t)(uintptr_t)&probe_live.attachment,
        .c = SONDE_SHARED_VERSION,
    };
    struct iovec data = {&hello, sizeof(hello)};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {
        .header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    copy_bytes(CMSG_DATA(&control.header), &shared_fd, sizeof(int));
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(sizeof(int))};
    return SYSTEM_CALL(SYS_sendmsg, socket, &message, MSG_NOSIGNAL) == sizeof(hello);
}

static bool receive(int socket, struct sonde_message *message)
{
    struct pollfd wait = {.fd = socket, .events = POLLIN};
    return SYSTEM_CALL(SYS_poll, &wait, 1, WAIT_MS) > 0 &&
           SYSTEM_CALL(SYS_recvfrom, socket, message, sizeof(*message), 0, 0, 0) == sizeof(*message);
}

static long map_code(uint64_t address, uint64_t size)
{
    return SYSTEM_CALL(SYS_mmap, address, size, PROT_READ | PROT_EXEC,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

/* Does what sonde asks until it says go or leave, or stays silent for too long. */
static bool obey(int socket)
{
    struct sonde_message message;
    while (receive(socket, &message)) {
        if (message.verb == SONDE_GO)
            return true;
        if (message.verb != SONDE_MAP)
            return false;
        message.a = (uint64_t)map_code(message.a, message.b);
        if (SYSTEM_CALL(SYS_sendto, socket, &message, sizeof(message), MSG_NOSIGNAL, 0, 0) != sizeof(message))
            return false;
    }
    return false;
}

/* Connects, shows sonde our memory and waits for its word. */
static void register_with_sonde(enum sonde_verb verb)
{
    const char *path = variable(SONDE_SOCKET_VARIABLE "=");
    int socket = path ? connect_to(path) : -1;
    if (socket < 0)
        return;
    long made = make_shared_memory();
    if (made < 0)
        say_why_not(socket, made);
    bool go = made == 0 && say_hello(socket, verb) && obey(socket);
    SYSTEM_CALL(SYS_close, socket);
    close_shared_memory();
    if (go)
        probe_live.attachment = attachments;
    else
        drop_shared_memory();
}

/* The parent's memory stays mapped, untouched: open spans of this thread may still point into it. */
static void forked(void)
{
    probe_self = (struct probe_self){.attachment = PROBE_UNCLAIMED};
    probe_live.original = 1;
    probe_shared = NULL;
    register_with_sonde(SONDE_FORKED);
}

/* Called by sonde in the main thread of a program that runs, while no function is hooked. open: one
 * more than the highest that is open. */
EXPORTED struct sonde_attached *sonde_attach_prepare(int open);
struct sonde_attached *sonde_attach_prepare(int open)
{
    static struct sonde_attached attached;
    probe_live.attachment = 0; /* a sonde that was killed left it as it was */
    attachments++;
    names_forget();
    redis_check_again();
    descriptors_begin_midway(open);
    long made = make_shared_memory();
    attached.config = (uint64_t)(uintptr_t)&sonde_config;
    attached.live = (uint64_t)(uintptr_t)&probe_live.attachment;
    attached.attachment = attachments;
    attached.shared_fd = made < 0 ? made : shared_fd;
    attached.version = SONDE_SHARED_VERSION;
    return &attached;
}

EXPORTED void sonde_attach_done(void);
void sonde_attach_done(void)
{
    close_shared_memory();
}

/* Executable memory at exactly address: that, or a negative errno. */
EXPORTED long sonde_attach_map(uint64_t address, uint64_t size);
long sonde_attach_map(uint64_t address, uint64_t size)
{
    return map_code(address, size);
}

__attribute__((constructor)) static void start(void)
{
    if (uv_run || aeMain)
        register_with_sonde(SONDE_HELLO);
}
