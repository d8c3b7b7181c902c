/* The hooks in memcached. Debian's has no symbols, so that what it does is seen where it meets libc: the
 * bytes that it reads from a client, the answers that it writes, and its waits. A thread serves one
 * connection at a time: what it has read it has executed when it writes the answers, reads again or waits.
 *
 * Keys and values are skipped over by their lengths and never recorded. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "probe/probe.h"
#include "targets/memcached/probe_text.h"

extern int event_base_loop(void *base, int flags) __attribute__((weak, visibility("default")));

/* Whatever uses libevent; sonde then looks what it is. */
bool probe_wants_memcached(void)
{
    return event_base_loop != NULL;
}

typedef int ssl_get_fd_fn(const void *ssl);

static struct cache_connection connections[DESCRIPTORS];
static uint64_t opened;

static __attribute__((noinline)) void look(struct probe_thread *self, int fd, struct cache_connection *c)
{
    struct sockaddr_storage peer;
    uint32_t size = sizeof(peer);
    bool is_client = OWN_CALL(SYS_getpeername, fd, &peer, &size) >= 0;
    *c = (struct cache_connection){.attachment = probe_self.attachment,
                                   .meaning = is_client ? CLIENT : NO_CLIENT};
    if (!is_client)
        return;
    c->key = (uint64_t)fd + 1 + __atomic_add_fetch(&opened, DESCRIPTORS, __ATOMIC_RELAXED);
    const struct descriptor *d = descriptor_use(self, fd, c->key);
    c->midway = d && d->unnumbered;
    c->unnumbered = !d || d->unnumbered;
}

/* NULL when the descriptor is no client's. */
static inline struct cache_connection *client_at(struct probe_thread *self, int fd)
{
    if (UNLIKELY((unsigned)fd >= DESCRIPTORS))
        return NULL;
    struct cache_connection *c = &connections[fd];
    if (UNLIKELY(c->meaning == UNSEEN || c->attachment != probe_self.attachment))
        look(self, fd, c);
    return c->meaning == CLIENT ? c : NULL;
}

/* ---- records ---- */

static uint32_t name_of(struct probe_thread *self, uint8_t word)
{
    static const char other[] = "other";
    const char *text = word == OTHER ? other : CACHE_WORDS[word].word;
    uint32_t number = name_find((uintptr_t)text), length = 0;
    if (LIKELY(number))
        return number;
    while (length < CACHE_WORD_MAX && text[length])
        length++;
    return name_add(self, (uintptr_t)text, text, length);
}

static inline uint32_t executed(const struct run *run)
{
    return run->quiet ? run->commands : run->answered;
}

/* What was executed until now, since the thread did something else. */
static void record(struct probe_thread *self, struct cache_connection *c, int fd, uint64_t now)
{
    uint32_t together = 0, generation = 0;
    int left = 0;
    for (int i = 0; i < c->run_count; i++)
        together += executed(&c->runs[i]);
    if (!together)
        return;
    descriptor_generation(fd, &generation);
    for (int i = 0; i < c->run_count; i++) {
        struct run *run = &c->runs[i];
        uint32_t done = executed(run), name = done ? name_of(self, run->word) : 0;
        if (done) {
            /* Of commands that are not executed yet it has an equal share. */
            uint64_t bytes = done == run->commands ? run->bytes : run->bytes * done / run->commands;
            RECORD(self, memcached_command, self->cache_since_tsc, now, .bytes = bytes,
                   .reply_bytes = run->reply_bytes, .first_number = run->first, .name = name,
                   .commands = done, .keys = done * run->keys, .hits = run->hits, .refused = run->refused,
                   .errors = run->errors, .together = together, .generation = generation, .fd = fd);
            *run = (struct run){.word = run->word,
                                .quiet = run->quiet,
                                .counted = run->counted,
                                .keys = run->keys,
                                .commands = run->commands - done,
                                .bytes = run->bytes - bytes,
                                .first = run->first ? run->first + done : 0};
        }
        if (run->commands)
            c->runs[left++] = *run;
    }
    c->run_count = (uint8_t)left;
}

/* Commands that nothing answers are over when the thread turns to something else. */
static inline void burst_ends(struct probe_thread *self)
{
    if (LIKELY(!self->cache_fd))
        return;
    int fd = (int)self->cache_fd - 1;
    struct cache_connection *c = client_at(self, fd);
    self->cache_fd = 0;
    if (c && c->run_count)
        record(self, c, fd, ticks());
}

/* ---- what passes a connection, as its client has it ---- */

static inline void was_read(struct probe_thread *self, struct cache_connection *c, int fd, const char *bytes,
                            long got)
{
    if (got > 0) {
        c->in_bytes += (uint64_t)got;
        commands_read(c, bytes, (uint64_t)got);
        self->cache_fd = (uint32_t)fd + 1;
    }
    self->cache_since_tsc = ticks();
}

/* Before it is written, so that nobody has the answer of a command that is not recorded. Returns how many
 * bytes are offered. */
static inline uint64_t will_be_written(struct probe_thread *self, struct cache_connection *c, int fd,
                                       const struct iovec *pieces, size_t count)
{
    uint64_t now = ticks(), total = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t known = c->ahead > total ? c->ahead - total : 0;
        if (!c->lost && known < pieces[i].iov_len)
            answers_written(c, (const char *)pieces[i].iov_base + known, pieces[i].iov_len - known);
        total += pieces[i].iov_len;
    }
    record(self, c, fd, now);
    self->cache_fd = 0;
    return total;
}

static inline void was_written(struct probe_thread *self, struct cache_connection *c, uint64_t offered,
                               long taken)
{
    uint64_t written = taken > 0 ? (uint64_t)taken : 0;
    c->answered = 1;
    c->ahead = (c->ahead > offered ? c->ahead : offered) - written;
    c->out_bytes += written;
    self->cache_since_tsc = ticks();
}

/* ---- hooks ---- */

HOOK(long, memcached_read, int fd, void *buffer, size_t size)
{
    struct probe_thread *self = THREAD_WANTING(memcached_command);
    struct cache_connection *c = self ? client_at(self, fd) : NULL;
    if (!c || c->tls)
        return sonde_orig_memcached_read(fd, buffer, size);
    burst_ends(self);
    long got = sonde_orig_memcached_read(fd, buffer, size);
    if (!probe_stale(self))
        was_read(self, c, fd, buffer, got);
    return got;
}

HOOK(long, memcached_sendmsg, int fd, const struct msghdr *message, int flags)
{
    struct probe_thread *self = THREAD_WANTING(memcached_command);
    struct cache_connection *c = self ? client_at(self, fd) : NULL;
    bool datagram = self && !c && message->msg_name;
    if (!c && !datagram)
        return sonde_orig_memcached_sendmsg(fd, message, flags);
    uint64_t offered = c ? will_be_written(self, c, fd, message->msg_iov, message->msg_iovlen) : 0;
    long taken = sonde_orig_memcached_sendmsg(fd, message, flags);
    if (probe_stale(self))
        return taken;
    if (c)
        was_written(self, c, offered, taken);
    else if (taken > 0)
        RECORD(self, memcached_datagram, 0, ticks(), .bytes = (uint64_t)taken);
    return taken;
}

/* The client of a TLS connection; NULL where its descriptor is not known. */
static struct cache_connection *client_of_tls(struct probe_thread *self, const void *ssl, int *ret_fd)
{
    ssl_get_fd_fn *get_fd = (ssl_get_fd_fn *)sonde_config.memcached.ssl_get_fd;
    *ret_fd = get_fd ? get_fd(ssl) : -1;
    struct cache_connection *c = client_at(self, *ret_fd);
    if (c && !c->tls)
        connection_is_encrypted(c);
    return c;
}

HOOK(int, memcached_ssl_read, void *ssl, void *buffer, int size)
{
    int fd;
    struct probe_thread *self = THREAD_WANTING(memcached_command);
    struct cache_connection *c = self ? client_of_tls(self, ssl, &fd) : NULL;
    if (!c)
        return sonde_orig_memcached_ssl_read(ssl, buffer, size);
    burst_ends(self);
    int got = sonde_orig_memcached_ssl_read(ssl, buffer, size);
    if (!probe_stale(self))
        was_read(self, c, fd, buffer, got);
    return got;
}

HOOK(int, memcached_ssl_write, void *ssl, const void *buffer, int size)
{
    int fd;
    struct probe_thread *self = THREAD_WANTING(memcached_command);
    struct cache_connection *c = self ? client_of_tls(self, ssl, &fd) : NULL;
    if (!c || size <= 0)
        return sonde_orig_memcached_ssl_write(ssl, buffer, size);
    struct iovec piece = {(void *)(uintptr_t)buffer, (size_t)size};
    uint64_t offered = will_be_written(self, c, fd, &piece, 1);
    int taken = sonde_orig_memcached_ssl_write(ssl, buffer, size);
    if (!probe_stale(self))
        was_written(self, c, offered, taken);
    return taken;
}

HOOK(int, memcached_wait, int epoll, void *events, int most, int timeout)
{
    struct probe_thread *self = THREAD_WANTING(memcached_wait);
    if (!self)
        return sonde_orig_memcached_wait(epoll, events, most, timeout);
    burst_ends(self);
    uint64_t start = ticks();
    int ready = sonde_orig_memcached_wait(epoll, events, most, timeout);
    if (probe_stale(self))
        return ready;
    self->cache_since_tsc = ticks();
    RECORD_OWN(self, memcached_wait, start, self->cache_since_tsc, .ready = ready);
    return ready;
}

HOOK(int, memcached_close, int fd)
{
    struct probe_thread *self = THREAD_WANTING(memcached_close);
    struct cache_connection *c = (unsigned)fd < DESCRIPTORS ? &connections[fd] : NULL;
    if (self && c && c->meaning == CLIENT && c->attachment == probe_self.attachment) {
        uint32_t generation = 0;
        burst_ends(self);
        descriptor_generation(fd, &generation);
        RECORD(self, memcached_close, 0, ticks(), .in_bytes = c->in_bytes, .out_bytes = c->out_bytes,
               .unread_bytes = c->unread_bytes, .generation = generation, .fd = fd);
        descriptor_close(fd, c->key);
    }
    if (c)
        c->meaning = UNSEEN;
    return sonde_orig_memcached_close(fd);
}
