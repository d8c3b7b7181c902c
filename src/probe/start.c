/* How the probe starts: its constructor runs before main, in every program that inherits LD_PRELOAD, and does
 * nothing unless the program contains a runtime we know and sonde answers. Sonde patches from outside while
 * the constructor waits; no ELF or instruction decoding happens in here. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe.h"

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

enum { WAIT_MS = 5000 };

EXPORTED struct sonde_config sonde_config
    __attribute__((aligned(64))); /* the first offsets: one cache line */

/* Filled in and read by sonde alone. */
EXPORTED struct sonde_pool sonde_pools[SONDE_POOLS];

struct probe_live probe_live;
__thread struct probe_self probe_self
    __attribute__((tls_model(PROBE_TLS_MODEL))) = {.attachment = PROBE_UNCLAIMED};

EXPORTED struct sonde_owner sonde_owner; /* written and read by sonde alone */

struct sonde_shared *probe_shared;
struct probe_large probe_large;
static uint64_t shared_bytes;    /* of the mapping */
static uint32_t slot_bytes;      /* as sonde made the memory */
static uint32_t attachments = 1; /* that there were, and is now */

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
    return (char *)probe_shared + SONDE_PAGE + (size_t)i * slot_bytes;
}

static void forked(void);

/* Where the C library keeps a thread's number, behind the thread pointer; 0: not known. */
static uint32_t tid_offset;

static uint32_t thread_word(uint32_t offset)
{
    uint32_t word;
    __asm__ volatile("movl %%fs:(%1), %0" : "=r"(word) : "r"((uint64_t)offset));
    return word;
}

/* struct pthread of musl and of glibc; musl's ends before the place of glibc's. */
static void find_tid_offset(void)
{
    static const uint32_t OFFSETS[] = {0x30, 0x2d0};
    uint32_t tid = (uint32_t)SYSTEM_CALL(SYS_gettid);
    tid_offset = 0;
    for (unsigned i = 0; i < sizeof(OFFSETS) / sizeof(OFFSETS[0]) && !tid_offset; i++)
        if (thread_word(OFFSETS[i]) == tid)
            tid_offset = OFFSETS[i];
}

/* The calling thread's number in its PID namespace; 0 when it is not to be had. */
static uint32_t own_tid(void)
{
    if (tid_offset)
        return thread_word(tid_offset);
    long tid = OWN_CALL(SYS_gettid);
    return tid > 0 ? (uint32_t)tid : 0;
}

struct probe_thread *probe_thread_claim(void)
{
    if (!probe_live.original)
        forked();
    if (!probe_live.attachment)
        return NULL;
    /* Read before the slots: what is offered later is another offer. */
    uint32_t offer = __atomic_load_n(&probe_shared->slots_offered, __ATOMIC_ACQUIRE);
    bool refused = probe_self.refused == attachments;
    if (refused && probe_self.refused_offer == offer) {
        __atomic_fetch_add(&probe_shared->events_without_slot, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    uint32_t tid = own_tid();
    /* Only slots that have their pages: touching others might take memory that there is none of. */
    uint32_t ready = __atomic_load_n(&probe_shared->slots_ready, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < ready && tid; i++) {
        struct probe_thread *thread = (struct probe_thread *)slot_address(i);
        uint32_t nobody = 0;
        if (!__atomic_compare_exchange_n(&thread->shared.owner, &nobody, tid, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        for (uint32_t used = i; used <= i;
             used = __atomic_load_n(&probe_shared->slots_used, __ATOMIC_ACQUIRE))
            if (__atomic_compare_exchange_n(&probe_shared->slots_used, &used, i + 1, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_RELAXED))
                break;
        for (unsigned k = 0; k < sizeof(thread->shared.probes_own) / sizeof(thread->shared.probes_own[0]);
             k++)
            thread->shared.probes_own[k] = 0;
        if (!thread->shared.large)
            record_into(&thread->shared, (char *)thread + SONDE_PAGE, slot_bytes - SONDE_PAGE);
        memset(&thread->messages_pending, 0,
               (size_t)((char *)(thread + 1) - (char *)&thread->messages_pending));
        thread->stream_fd = -1;
        thread->shared.depth = 0;
        thread->shared.busy = 0;
        probe_self.thread = thread;
        compiler_barrier(); /* a signal handler sees both or neither */
        probe_self.attachment = attachments;
        return thread;
    }
    probe_self.refused = attachments;
    probe_self.refused_offer = offer;
    if (!refused)
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

/* Sonde's queue of those who connect may be full, and sonde stopped: the kernel would wait for good. */
static bool connect_soon(int fd, const struct sockaddr_un *address)
{
    enum { PAUSE_MS = 10 };
    long r = -EAGAIN;
    for (int i = 0; r == -EAGAIN && i < WAIT_MS / PAUSE_MS; i++) {
        r = SYSTEM_CALL(SYS_connect, fd, address, sizeof(*address));
        if (r == -EAGAIN)
            (void)SYSTEM_CALL(SYS_poll, NULL, 0, PAUSE_MS);
    }
    return r >= 0;
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = 0;
    for (; path[n] && n < sizeof(address.sun_path) - 1; n++)
        address.sun_path[n] = path[n];
    if (!n || path[n])
        return -1;
    int fd = (int)SYSTEM_CALL(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    if (!connect_soon(fd, &address)) {
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

/* Maps the memory that sonde made, over that of before when there is one: threads find their slots empty and
 * claim anew. Takes the descriptor: descriptors are the program's own business. */
static long map_shared_memory(int fd, uint64_t bytes)
{
    long at = fd;
    if (fd >= 0) {
        at = SYSTEM_CALL(SYS_mmap, probe_shared, bytes, PROT_READ | PROT_WRITE,
                         MAP_SHARED | (probe_shared ? MAP_FIXED : 0), fd, 0);
        SYSTEM_CALL(SYS_close, fd);
    }
    if (at < 0 && at > -4096)
        return at;
    (void)SYSTEM_CALL(SYS_madvise, at, bytes,
                      MADV_DONTDUMP); /* no core dump of the program's is larger for us */
    probe_shared = (struct sonde_shared *)at;
    shared_bytes = bytes;
    slot_bytes = SONDE_PAGE + probe_shared->small_bytes;
    probe_large = (struct probe_large){(char *)at + probe_shared->large_at, probe_shared->large_bytes,
                                       probe_shared->large_rings};
    find_tid_offset();
    return make_live_flag() ? 0 : -ENOMEM;
}

static void drop_shared_memory(void)
{
    probe_live.attachment = 0;
    if (probe_shared)
        SYSTEM_CALL(SYS_munmap, probe_shared, shared_bytes);
    probe_shared = NULL;
}

static bool say(int socket, const struct sonde_message *message)
{
    return SYSTEM_CALL(SYS_sendto, socket, message, sizeof(*message), MSG_NOSIGNAL, 0, 0) == sizeof(*message);
}

static bool say_hello(int socket, enum sonde_verb verb)
{
    const struct sonde_message hello = {
        .verb = verb,
        .a = (uint64_t)(uintptr_t)&sonde_config,
        .b = (uint64_t)(uintptr_t)&probe_live.attachment,
        .c = SONDE_SHARED_VERSION,
    };
    return say(socket, &hello);
}

/* The next message, and the descriptor that came with it, -1 none. */
static bool receive(int socket, struct sonde_message *message, int *ret_fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec data = {message, sizeof(*message)};
    struct msghdr envelope = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    struct pollfd wait = {.fd = socket, .events = POLLIN};
    *ret_fd = -1;
    if (SYSTEM_CALL(SYS_poll, &wait, 1, WAIT_MS) <= 0 ||
        SYSTEM_CALL(SYS_recvmsg, socket, &envelope, MSG_CMSG_CLOEXEC) != sizeof(*message))
        return false;
    if (envelope.msg_controllen && control.header.cmsg_type == SCM_RIGHTS)
        copy_bytes(ret_fd, CMSG_DATA(&control.header), sizeof(*ret_fd));
    return true;
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
    for (int fd; receive(socket, &message, &fd);) {
        if (message.verb == SONDE_GO)
            return probe_shared;
        if (message.verb == SONDE_WAIT)
            continue;
        if (message.verb == SONDE_MEMORY)
            message.a = (uint64_t)map_shared_memory(fd, message.b);
        else if (message.verb == SONDE_MAP)
            message.a = (uint64_t)map_code(message.a, message.b);
        else
            return false;
        if (!say(socket, &message))
            return false;
    }
    return false;
}

/* Connects, and does what sonde says. */
static void register_with_sonde(enum sonde_verb verb)
{
    const char *path = variable(SONDE_SOCKET_VARIABLE "=");
    int socket = path ? connect_to(path) : -1;
    if (socket < 0)
        return;
    bool go = say_hello(socket, verb) && obey(socket);
    SYSTEM_CALL(SYS_close, socket);
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
    /* What the parent may not do the child may not. */
    bool barred = probe_shared && __atomic_load_n(&probe_shared->calls_barred, __ATOMIC_RELAXED);
    probe_shared = NULL;
    if (!barred)
        register_with_sonde(SONDE_FORKED);
}

static struct sonde_attached attached;

/* Called by sonde in the main thread of a program that runs, while no function is hooked. open: one
 * more than the highest that is open. */
EXPORTED struct sonde_attached *sonde_attach_prepare(int open);
struct sonde_attached *sonde_attach_prepare(int open)
{
    probe_live.attachment = 0; /* a sonde that was killed left it as it was */
    attachments++;
    names_forget();
#define T(name)             \
    if (probe_again_##name) \
        probe_again_##name();
    SONDE_TARGETS_WITH_PROBE(T)
#undef T
    descriptors_begin_midway(open);
    attached.config = (uint64_t)(uintptr_t)&sonde_config;
    attached.live = (uint64_t)(uintptr_t)&probe_live.attachment;
    attached.attachment = attachments;
    attached.version = SONDE_SHARED_VERSION;
    attached.error = SYSTEM_CALL(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, attached.sockets);
    return &attached;
}

/* Maps the memory that sonde has sent (if it has) over the pair of sockets, and closes them. 0, or a negative
 * errno. */
EXPORTED long sonde_attach_memory(int sent);
long sonde_attach_memory(int sent)
{
    struct sonde_message message;
    int fd;
    long r = -EPROTO;
    if (sent && receive(attached.sockets[1], &message, &fd))
        r = map_shared_memory(fd, message.b);
    SYSTEM_CALL(SYS_close, attached.sockets[0]);
    SYSTEM_CALL(SYS_close, attached.sockets[1]);
    return r;
}

/* Executable memory at exactly address: that, or a negative errno. */
EXPORTED long sonde_attach_map(uint64_t address, uint64_t size);
long sonde_attach_map(uint64_t address, uint64_t size)
{
    return map_code(address, size);
}

/* Programs that no target wants are left at once. */
static bool is_wanted(void)
{
    bool wanted = false;
#define T(name) wanted = wanted || probe_wants_##name();
    SONDE_TARGETS_WITH_PROBE(T)
#undef T
    return wanted;
}

__attribute__((constructor)) static void start(void)
{
    if (is_wanted())
        register_with_sonde(SONDE_HELLO);
}
