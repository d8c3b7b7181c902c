/* Descriptors: which use of a number this is, and the two addresses of a connection, recorded at its first
 * use, so that processes can be joined without any privilege. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe.h"

#include <fcntl.h>
#include <poll.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

struct descriptor descriptors[DESCRIPTORS];

/* Was it open when sonde came, and has not been used since? Below which number all are that are marked so,
 * and all that have been used. */
static bool midway[DESCRIPTORS];
static int marked_below, used_below;

struct address {
    uint64_t high, low;
    uint16_t port, family;
};

static struct address address_of(long call, int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } name;
    uint32_t size = sizeof(name);
    name.any.sa_family = 0;
    if (OWN_CALL(call, fd, &name, &size) < 0)
        return (struct address){0};
    struct address address = {.family = name.any.sa_family};
    if (name.any.sa_family == AF_INET) {
        address.low = 0xffff00000000ull | __builtin_bswap32(name.v4.sin_addr.s_addr);
        address.port = __builtin_bswap16(name.v4.sin_port);
    } else if (name.any.sa_family == AF_INET6) {
        uint64_t half[2];
        copy_bytes(half, &name.v6.sin6_addr, sizeof(half));
        address.high = __builtin_bswap64(half[0]);
        address.low = __builtin_bswap64(half[1]);
        address.port = __builtin_bswap16(name.v6.sin6_port);
    }
    return address;
}

static void tell_connection(struct probe_thread *self, int fd, struct descriptor *d)
{
    struct address local = address_of(SYS_getsockname, fd), peer = address_of(SYS_getpeername, fd);
    struct stat st = {0};
    (void)OWN_CALL(SYS_fstat, fd, &st);
    d->known_peer = peer.family || !local.family;
    RECORD(self, net_connection, 0, ticks(), .key = d->key, .local_high = local.high, .local_low = local.low,
           .peer_high = peer.high, .peer_low = peer.low, .inode = st.st_ino, .generation = d->generation,
           .fd = fd, .local_port = local.port, .peer_port = peer.port, .family = local.family);
}

struct descriptor *descriptor_refuse(int fd)
{
    if (fd >= DESCRIPTORS)
        __atomic_fetch_add(&probe_shared->descriptors_beyond, 1, __ATOMIC_RELAXED);
    return NULL;
}

struct descriptor *descriptor_get(int fd)
{
    return (unsigned)fd < DESCRIPTORS && descriptors[fd].key ? &descriptors[fd] : NULL;
}

bool descriptor_generation(int fd, uint32_t *ret_generation)
{
    if ((unsigned)fd >= DESCRIPTORS || !descriptors[fd].key)
        return false;
    *ret_generation = descriptors[fd].generation;
    return true;
}

static void note_used(int fd)
{
    int below = __atomic_load_n(&used_below, __ATOMIC_RELAXED);
    while (below <= fd && !__atomic_compare_exchange_n(&used_below, &below, fd + 1, false, __ATOMIC_RELAXED,
                                                       __ATOMIC_RELAXED))
        ;
}

struct descriptor *descriptor_meet(struct probe_thread *self, int fd, uint64_t key)
{
    struct descriptor *d = &descriptors[fd];
    if (d->key != key) {
        note_used(fd);
        *d = (struct descriptor){.key = key,
                                 .generation = d->generation + 1,
                                 .unnumbered = midway[fd],
                                 .queue = midway[fd] ? READS_MIDWAY : 0};
        midway[fd] = false;
        tell_connection(self, fd, d);
    } else if (!d->commands.state && !d->commands.lost && !d->known_peer) {
        tell_connection(self, fd, d); /* it was still connecting */
    }
    return d;
}

void http2_on(struct probe_thread *self, uint64_t session, int fd, struct descriptor *d, uint64_t now)
{
    if (LIKELY(d->http2_session == session))
        return;
    d->http2_session = session;
    d->protocol = PROTOCOL_HTTP2;
    RECORD(self, http_session, 0, now, .session = session, .generation = d->generation, .fd = fd);
}

void descriptor_close(int fd, uint64_t key)
{
    if ((unsigned)fd < DESCRIPTORS) {
        midway[fd] = false;
        if (descriptors[fd].key == key)
            descriptors[fd].key = 0;
    }
}

/* Which of the descriptors from first on are open: one call tells it of many. This runs while the main thread
 * is held, where each system call takes two stops, and a service may have ten thousand connections. */
enum { ASKED_AT_ONCE = 128 };

static void ask_open(int first, struct pollfd asked[static ASKED_AT_ONCE])
{
    for (int i = 0; i < ASKED_AT_ONCE; i++)
        asked[i] = (struct pollfd){.fd = first + i};
    if (SYSTEM_CALL(SYS_poll, asked, ASKED_AT_ONCE, 0) < 0) /* a smaller limit of descriptors */
        for (int i = 0; i < ASKED_AT_ONCE; i++)
            asked[i].revents = SYSTEM_CALL(SYS_fcntl, first + i, F_GETFD) < 0 ? POLLNVAL : 0;
}

/* Memory that was never used is not touched: there is much of it. */
void descriptors_begin_midway(int count)
{
    struct pollfd asked[ASKED_AT_ONCE];
    int marked = count < DESCRIPTORS ? count : DESCRIPTORS;
    for (int fd = 0; fd < marked || fd < marked_below; fd++) {
        if (fd < marked && fd % ASKED_AT_ONCE == 0)
            ask_open(fd, asked);
        midway[fd] = fd < marked && !(asked[fd % ASKED_AT_ONCE].revents & POLLNVAL);
    }
    marked_below = marked;
    for (int fd = 0; fd < used_below; fd++)
        if (descriptors[fd].generation)
            descriptors[fd] = (struct descriptor){.generation = descriptors[fd].generation};
}
