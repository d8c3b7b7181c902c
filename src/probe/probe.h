/* Inside the traced process: how a hook records. All of this runs in somebody's production program: no
 * allocation, no lock, no logging, no errno; on any doubt it stops recording and lets the program run.
 *
 * A hook is a pair: sonde_wrap_NAME, a function of exactly the hooked function's signature, and
 * sonde_orig_NAME, through which it calls the original. Sonde finds both by name in this library's symbol
 * table, points sonde_orig_NAME at a trampoline and the hooked function's first bytes at sonde_wrap_NAME. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_PROBE_H
#define PROBE_PROBE_H

#include <stdbool.h>

#include "event/catalogue.h"
#include "event/config.h"
#include "event/families.h"
#include "event/ring.h"
#include "event/short.h"
#include "probe/system.h"
#include "probe/target_thread.h"

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define EXPORTED    __attribute__((visibility("protected"))) /* reached without a detour through the GOT */

#define HOT __attribute__((hot)) /* with others of that kind on as few pages as may be */

#ifndef PROBE_TLS_MODEL
#define PROBE_TLS_MODEL "initial-exec"
#endif

#define HOOK(result, name, ...)                        \
    EXPORTED result (*sonde_orig_##name)(__VA_ARGS__); \
    EXPORTED result sonde_wrap_##name(__VA_ARGS__);    \
    EXPORTED result sonde_wrap_##name(__VA_ARGS__)

/* One that every request goes through. */
#define HOT_HOOK(result, name, ...)                     \
    HOT EXPORTED result sonde_wrap_##name(__VA_ARGS__); \
    HOOK(result, name, __VA_ARGS__)

/* Boundaries where one thing ends and the next begins with nothing but the runtime's own few lines between:
 * both are given one time, because looking at the clock is among the dearest things that a hook does. */
enum probe_boundary {
    BOUNDARY_COMPLETION = 1, /* an operation's completion begins: it calls back */
    BOUNDARY_CALLBACK,       /* a callback has ended: so does the completion that made it */
    BOUNDARY_COMPLETED,      /* that has ended: the next one in the queue begins */
    BOUNDARY_POLLED,         /* the loop has polled: it goes on to what checks */
    BOUNDARIES
};

/* Messages that ended in some bytes: how many, the first one's number, their payload. */
struct websocket_seen {
    uint64_t first, bytes;
    uint32_t messages;
};

/* A message of a broker that ended in some bytes, or that is dealt with (delivery.c). */
struct queue_seen {
    uint64_t identity, number, bytes;
    uint32_t queue; /* the name of where it goes, 0 none */
    uint8_t step;   /* enum sonde_queue_step */
};
enum { QUEUE_PENDING = 6 };

enum { HELD_BYTES = 24 }; /* of a record that may be held back */

/* Bytes that pass one descriptor while it is read or written, added up: those of the socket in the lower
 * half, what they were before or after encryption in the upper one. */
struct probe_bytes {
    uint64_t sums;
    int32_t fd;    /* whose they are */
    uint8_t tls;   /* libssl was asked for some */
    uint8_t asked; /* their descriptor was; of reads only */
};

/* On the first cache line of a thread whose connections are streams (write_seen()): which stream's events are
 * handled now, and the HTTP/2 session whose frames are written at once. It stands in the PROBE_LINE_NAME() of
 * the runtime whose streams they are. */
#define PROBE_LINE_STREAMS()          \
    uint32_t stream_generation;       \
    int32_t stream_fd; /* -1: none */ \
    uint64_t http2_sent;

/* A thread: its shared page (ring.h), then what only the probe needs, then its ring. */
struct probe_thread {
    /* Behind shared.owner stands, on the same cache line, what most hooks need of the thread. */
    union {
        struct sonde_thread shared;
#define T(target)             \
    struct {                  \
        PROBE_LINE_##target() \
    };
        PROBE_TARGETS_WITH_THREAD(T)
#undef T
    };
    /* All of the rest is zeroed when a thread claims the slot. */
    struct websocket_seen messages_pending;       /* received, waiting for the callback that carries them */
    struct queue_seen queue_taken[QUEUE_PENDING]; /* the same of brokers' messages */
    uint32_t queue_pending;
    uint8_t queue_wire;
    struct statements *statements; /* of the write that is being read; NULL: they are not asked for */
    /* The newest boundary between two things: when it was, and what boundary_mark() said then; 0: none. */
    uint64_t boundary_tsc, boundary_mark;
    uint64_t held_end; /* where the record ends that is held back */
#define T(target) PROBE_THREAD_##target()
    PROBE_TARGETS_WITH_THREAD(T)
#undef T
};
_Static_assert(sizeof(struct probe_thread) <= SONDE_PAGE, "a thread's state fits its page");
#define T(target)                                                                                 \
    _Static_assert(sizeof(struct {PROBE_LINE_##target()}) <= offsetof(struct sonde_thread, head), \
                   "what every hook needs is on the first cache line");
PROBE_TARGETS_WITH_THREAD(T)
#undef T

/* Written by sonde before any hook is active. */
EXPORTED extern struct sonde_config sonde_config;

#pragma GCC visibility push(hidden)

/* The memory shared with sonde. */
extern struct sonde_shared *probe_shared;

/* The large rings in it, as sonde made them: what stands there may have been overwritten since. */
struct probe_large {
    char *at;
    uint64_t ring_bytes, rings;
};
extern struct probe_large probe_large;

/* A system call that a hook makes for us, as long as none can do harm; else a negative number. */
#define OWN_CALL(number, ...)                                                 \
    (UNLIKELY(__atomic_load_n(&probe_shared->calls_barred, __ATOMIC_RELAXED)) \
         ? -1L                                                                \
         : SYSTEM_CALL(number, ##__VA_ARGS__))

/* A page that the kernel clears in a forked child. */
struct probe_live {
    uint32_t attachment; /* 0 until sonde has patched, in a forked child, and after sonde told us to stop;
                            else which of sonde's presences this is */
    uint32_t original;   /* tells a forked child (0) from the others (1) */
    char rest[SONDE_PAGE - 2 * sizeof(uint32_t)];
} __attribute__((aligned(SONDE_PAGE)));
extern struct probe_live probe_live;

/* What a thread knows of itself. When sonde comes back the memory is new, and so is the attachment. */
struct probe_self {
    struct probe_thread *thread; /* its slot */
    uint32_t attachment;         /* in which it was claimed: no live one is PROBE_UNCLAIMED */
    uint32_t refused;            /* the attachment in which there was none to be had, 0 none */
    uint32_t refused_offer;      /* sonde's offer of slots at that time */
};
#define PROBE_UNCLAIMED UINT32_MAX
extern __thread struct probe_self probe_self __attribute__((tls_model(PROBE_TLS_MODEL)));

/* Of each target with a probe.c of its own: may the program be one? Asked before main(), in every program
 * that inherits LD_PRELOAD: a look at a weak symbol, no more. Sonde then decides. */
#define T(name) bool probe_wants_##name(void);
SONDE_TARGETS_WITH_PROBE(T)
#undef T
/* Sonde comes anew, with what it has found out anew. A target need not have it. */
#define T(name) void probe_again_##name(void) __attribute__((weak));
SONDE_TARGETS_WITH_PROBE(T)
#undef T

/* The thread's state, claimed now, or NULL when nothing is to be recorded, or there is none to be had
 * (counted). In a forked child it first asks sonde, once, for memory of its own. */
struct probe_thread *probe_thread_claim(void);

#pragma GCC visibility pop

/* The calling thread's state, or NULL when it has none. */
static inline struct probe_thread *probe_thread_claimed(void)
{
    if (UNLIKELY(probe_self.attachment != probe_live.attachment))
        return NULL;
    struct probe_thread *self = probe_self.thread;
    if (!self)
        __builtin_unreachable();
    return self;
}

/* The calling thread's state, or NULL when nothing is to be recorded. */
static inline struct probe_thread *probe_thread(void)
{
    struct probe_thread *self = probe_thread_claimed();
    return LIKELY(self) ? self : probe_thread_claim();
}

/* True when what self points at is no longer this thread's: in a child that was forked while a hooked
 * function ran, and when sonde went and came back meanwhile. */
static inline bool probe_stale(const struct probe_thread *self)
{
    return UNLIKELY(probe_self.attachment != probe_live.attachment || probe_self.thread != self);
}

/* ---- records ---- */

/* The ring that the thread writes into from now on. */
static inline void record_into(struct sonde_thread *t, void *ring, uint64_t ring_bytes)
{
    t->ring = (uintptr_t)ring;
    t->ring_mask = ring_bytes - 1;
}

/* The next large ring that is ready, from 1 on; 0: there is none. */
static inline uint32_t take_large_ring(void)
{
    uint32_t *next = &probe_shared->large_used, used = __atomic_load_n(next, __ATOMIC_RELAXED);
    while (used < __atomic_load_n(&probe_shared->large_ready, __ATOMIC_ACQUIRE) && used < probe_large.rings)
        if (__atomic_compare_exchange_n(next, &used, used + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return used + 1;
    return 0;
}

/* The ring is full: from a small one into a large one. False (and counted): there is none, or the thread has
 * one. */
static __attribute__((noinline, cold, unused)) bool record_move(struct sonde_thread *t, uint64_t head)
{
    uint32_t large = t->large ? 0 : take_large_ring();
    if (!large) {
        t->lost_full++;
        compiler_barrier();
        t->busy = 0;
        return false;
    }
    record_into(t, probe_large.at + (large - 1) * probe_large.ring_bytes, probe_large.ring_bytes);
    t->moved_at = head;
    __atomic_store_n(&t->large, large, __ATOMIC_RELEASE);
    t->lap = t->ring - head;
    t->writable = __atomic_load_n(&t->tail, __ATOMIC_ACQUIRE) + probe_large.ring_bytes;
    return true;
}

/* What a thread's busy says; a signal handler may read it anywhere. */
enum {
    BUSY_WRITING = 1, /* a record is being written */
    BUSY_HOLDING,     /* one is written but for its time, and held back (record_short_later()) */
};

/* A record that is held back is one, at that time. */
static inline void record_release(struct probe_thread *self, uint64_t now)
{
    struct sonde_thread *t = &self->shared;
    ((struct sonde_record *)(t->lap + self->held_end - HELD_BYTES))->end_tsc = now;
    __atomic_store_n(&t->head, self->held_end, __ATOMIC_RELEASE);
    compiler_barrier();
    t->busy = 0;
}

/* The same with a short record right behind it. False: there is no room for that, and nothing was done. */
static inline bool record_release_short(struct probe_thread *self, uint64_t now, enum sonde_short id,
                                        uint64_t word, uint64_t rest)
{
    struct sonde_thread *t = &self->shared;
    uint64_t held_end = self->held_end, end = held_end + sizeof(struct sonde_record);
    if (UNLIKELY(end > t->writable))
        return false;
    struct sonde_record *at = (struct sonde_record *)(t->lap + held_end);
    at->end_tsc = word;
    at->meta = short_meta(id, sizeof(*at) / 8, rest);
    ((struct sonde_record *)((char *)at - HELD_BYTES))->end_tsc = now;
    t->written++;
    __atomic_store_n(&t->head, end, __ATOMIC_RELEASE);
    compiler_barrier();
    t->busy = 0;
    return true;
}

/* The thread is busy: with a record that is held back, which goes first; or this is a signal handler, in the
 * middle of one (false, counted). */
static __attribute__((noinline, cold, unused)) bool record_free(struct probe_thread *self, uint64_t now)
{
    if (self->shared.busy != BUSY_HOLDING) {
        self->shared.lost_signal++;
        return false;
    }
    record_release(self, now);
    return true;
}

/* Finds out how far records may reach now: to the end of the ring, or to what sonde has not read yet. A
 * record that does not fit before the end begins at the start (*head moves there). False (and counted) when
 * the ring is full and there is no larger one.
 * Its variables stay in memory: for each register that is changed here, those who record save one. */
static __attribute__((noinline, cold, unused)) bool record_look(struct probe_thread *self, uint64_t size,
                                                                volatile uint64_t *head)
{
    struct sonde_thread *t = &self->shared;
    const volatile uint64_t *mask = &t->ring_mask;
    uint64_t ring = *mask + 1, room = ring - ((*head - t->moved_at) & *mask);
    uint64_t fill = size > room ? room : 0, limit = __atomic_load_n(&t->tail, __ATOMIC_ACQUIRE) + ring;
    if (*head + fill + size > limit)
        return record_move(t, *head);
    if (fill >= sizeof(struct sonde_record))
        __asm__("movq $0, %0" : "=m"(((struct sonde_record *)(t->ring + ring - fill))->meta));
    *head += fill;
    uint64_t lap = *head - ((*head - t->moved_at) & *mask), end = lap + ring;
    t->lap = t->ring - lap; /* even if the program has written over head */
    t->writable = end < limit ? end : limit;
    return true;
}

/* Room for a record of payload bytes with its strings, that ends now, of a thread that is this one
 * (probe_stale()); NULL (and counted) when there is none. */
static inline void *record_room(struct probe_thread *self, uint32_t payload, uint64_t now, uint64_t *ret_end)
{
    struct sonde_thread *t = &self->shared;
    if (UNLIKELY(t->busy) && !record_free(self, now))
        return NULL;
    t->busy = BUSY_WRITING;
    compiler_barrier();
    uint64_t head = t->head;
    uint64_t size = (sizeof(struct sonde_record) + payload + 7) & ~7ull;
    if (UNLIKELY(head + size > t->writable) && !record_look(self, size, &head))
        return NULL;
    *ret_end = head + size;
    /* The lines ahead were last read by sonde on another CPU: have them back by the time they are written. */
    char *at = (char *)(t->lap + head);
    __builtin_prefetch(at + 512, 1);
    if (!at)
        __builtin_unreachable();
    return at;
}

/* The same of a thread that may not be this one any more: NULL then. */
static inline void *record_begin(struct probe_thread *self, uint32_t payload, uint64_t now, uint64_t *ret_end)
{
    return probe_stale(self) ? NULL : record_room(self, payload, now, ret_end);
}

/* Of what one callback or command contains there may be tens of thousands of records, more than sonde can
 * read meanwhile. The last eighth of a large ring is not for those: whatever contains them, and the answer
 * that ends a request, are recorded behind them, and must not be what is lost. True (and counted): this is
 * such a record (contained), and there is no room for it. */
static inline bool record_left_out(struct sonde_thread *t, bool contained)
{
    if (LIKELY(!contained || !t->large))
        return false;
    if (LIKELY(t->head - __atomic_load_n(&t->tail, __ATOMIC_RELAXED) < t->ring_mask - t->ring_mask / 8))
        return false;
    t->lost_full++;
    return true;
}

static inline void record_commit(struct probe_thread *self, uint64_t end)
{
    struct sonde_thread *t = &self->shared;
    t->written++;
    __atomic_store_n(&t->head, end, __ATOMIC_RELEASE);
    compiler_barrier();
    t->busy = 0;
}

/* Sonde may have switched its family off, when tracing cost too much. */
#define WANTED(self, event) LIKELY(!((self)->shared.families_off & sonde_family_bit(SONDE_EVENT_##event)))

/* The thread's state, or NULL when the event's family is off too: for hooks that only make this event. */
#define THREAD_WANTING(event)                                 \
    ({                                                        \
        struct probe_thread *self_ = probe_thread();          \
        LIKELY(self_) && WANTED(self_, event) ? self_ : NULL; \
    })

/* RECORD(self, redis_command, start_tsc or a constant 0 for an instant, end_tsc, .client_id = id, ...) */
#define RECORD(self, event, start, end, ...) \
    RECORD_(record_begin, WANTED(self, event), self, event, start, end, __VA_ARGS__)

/* The same right after probe_stale() or span_close() said that the thread is still this one. */
#define RECORD_OWN(self, event, start, end, ...) \
    RECORD_(record_room, WANTED(self, event), self, event, start, end, __VA_ARGS__)

/* The same where the event is wanted (THREAD_WANTING()). */
#define RECORD_WANTED(self, event, start, end, ...) \
    RECORD_(record_room, true, self, event, start, end, __VA_ARGS__)

#define RECORD_(begin, wanted, self, event, start, end, ...)                                       \
    do {                                                                                           \
        uint64_t r_next_, r_end_ = (end), r_start_ = (start);                                      \
        char *r_at_ = (wanted) ? begin(self, sizeof(struct record_##event), r_end_, &r_next_) : 0; \
        if (LIKELY(r_at_)) {                                                                       \
            struct sonde_record *r_head_ = (struct sonde_record *)r_at_;                           \
            r_head_->end_tsc = r_end_;                                                             \
            bool r_instant_ = __builtin_constant_p(r_start_) && !r_start_;                         \
            r_head_->meta = record_meta(SONDE_EVENT_##event, sizeof(struct record_##event),        \
                                        r_instant_ ? 0 : r_end_ - r_start_);                       \
            *(struct record_##event *)(r_at_ + sizeof(struct sonde_record)) =                      \
                (struct record_##event){__VA_ARGS__};                                              \
            record_commit(self, r_next_);                                                          \
        }                                                                                          \
    } while (0)

/* The same for an event with one string, whose length field is among the initialisers. */
#define RECORD_TEXT(self, event, now, string, length, ...)                                                 \
    do {                                                                                                   \
        uint64_t r_next_, r_end_ = (now);                                                                  \
        char *r_at_ = WANTED(self, event)                                                                  \
                          ? record_begin(self, sizeof(struct record_##event) + (length), r_end_, &r_next_) \
                          : 0;                                                                             \
        if (LIKELY(r_at_)) {                                                                               \
            struct sonde_record *r_head_ = (struct sonde_record *)r_at_;                                   \
            r_head_->end_tsc = r_end_;                                                                     \
            r_head_->meta = record_meta(SONDE_EVENT_##event, sizeof(struct record_##event) + (length), 0); \
            *(struct record_##event *)(r_at_ + sizeof(struct sonde_record)) =                              \
                (struct record_##event){__VA_ARGS__};                                                      \
            copy_bytes(r_at_ + sizeof(struct sonde_record) + sizeof(struct record_##event), (string),      \
                       (length));                                                                          \
            record_commit(self, r_next_);                                                                  \
        }                                                                                                  \
    } while (0)

/* A short record (short.h), right behind the one that says the rest, of a thread that is known to be this
 * one. False (and counted): there is no room. */
static inline bool record_short(struct probe_thread *self, uint64_t now, enum sonde_short id, uint64_t word,
                                uint64_t rest)
{
    uint64_t end;
    struct sonde_record *record = record_room(self, 0, now, &end);
    if (UNLIKELY(!record))
        return false;
    record->end_tsc = word;
    record->meta = short_meta(id, sizeof(*record) / 8, rest);
    record_commit(self, end);
    return true;
}

/* The same of one that has a time of its own. */
static inline bool record_short_timed(struct probe_thread *self, uint64_t now, enum sonde_short id,
                                      uint64_t word, uint64_t rest)
{
    uint64_t end;
    struct sonde_record *record = record_room(self, sizeof(word), now, &end);
    if (UNLIKELY(!record))
        return false;
    record->end_tsc = now;
    record->meta = short_meta(id, HELD_BYTES / 8, rest);
    *(uint64_t *)(record + 1) = word;
    record_commit(self, end);
    return true;
}

/* The same of an instant whose time is that of the thread's next record, which is known to follow at once:
 * that saves a reading of the clock. Where the event is wanted, and the thread not busy. */
static inline void record_short_later(struct probe_thread *self, enum sonde_short id, uint64_t word,
                                      uint64_t rest)
{
    _Static_assert(sizeof(struct sonde_record) + sizeof(word) == HELD_BYTES, "");
    struct sonde_record *record = record_room(self, sizeof(word), 0, &self->held_end);
    if (UNLIKELY(!record))
        return;
    record->meta = short_meta(id, HELD_BYTES / 8, rest);
    *(uint64_t *)(record + 1) = word;
    self->shared.written++;
    compiler_barrier();
    self->shared.busy = BUSY_HOLDING;
}

static inline uint64_t record_meta(uint64_t id, uint64_t payload, uint64_t duration)
{
    if (UNLIKELY(duration >> 48)) {
        compiler_barrier(); /* a jump is cheaper than to have the other value at hand */
        duration = (1ull << 48) - 1;
    }
    return id | (sizeof(struct sonde_record) + payload + 7) / 8 << 8 | duration << 16;
}

/* ---- open spans ---- */

/* Marks a span as open and returns its start. Pair with span_close(), which takes the depth of before. */
static inline uint64_t span_open_at(struct probe_thread *self, uint64_t now, uint32_t event,
                                    uint64_t argument, uint32_t name)
{
    struct sonde_thread *t = &self->shared;
    uint32_t depth = t->depth++;
    if (LIKELY(depth < SONDE_OPEN_SPANS)) {
        struct sonde_open_span *open = &t->open[depth];
        open->argument = argument;
        open->event = event;
        open->name = name;
        __atomic_store_n(&open->start_tsc, now, __ATOMIC_RELEASE);
    } else {
        t->lost_depth++;
    }
    return now;
}

static inline uint64_t span_open(struct probe_thread *self, uint32_t event, uint64_t argument, uint32_t name)
{
    return span_open_at(self, ticks(), event, argument, name);
}

/* Of a thread that is known to be this one. */
static inline void span_close_own(struct probe_thread *self, uint32_t depth_before)
{
    struct sonde_thread *t = &self->shared;
    t->depth = depth_before;
    if (LIKELY(depth_before < SONDE_OPEN_SPANS))
        __atomic_store_n(&t->open[depth_before].start_tsc, 0, __ATOMIC_RELAXED);
}

/* False: the thread is no longer this one, and nothing of it may be touched. */
static inline bool span_close(struct probe_thread *self, uint32_t depth_before)
{
    if (probe_stale(self))
        return false;
    span_close_own(self, depth_before);
    return true;
}

/* ---- boundaries ---- */

/* Another one for each boundary and number of records. */
static inline uint64_t boundary_mark(const struct probe_thread *self, enum probe_boundary boundary)
{
    _Static_assert(BOUNDARIES <= 8, "each has a number");
    return self->shared.written * 8 + boundary;
}

static inline void boundary_is(struct probe_thread *self, enum probe_boundary boundary, uint64_t now)
{
    self->boundary_mark = boundary_mark(self, boundary);
    self->boundary_tsc = now;
}

/* The time now: that of the boundary, when it was the last thing that happened on this thread. */
static inline uint64_t boundary(struct probe_thread *self, enum probe_boundary boundary)
{
    bool same = self->boundary_mark == boundary_mark(self, boundary);
    self->boundary_mark = 0;
    return LIKELY(same) ? self->boundary_tsc : ticks();
}

/* ---- names ---- */

/* The number of a text, told once per process with probe:name. key identifies the text within the process
 * (a pointer to an immutable string); at most 63 bytes of it are kept. */
uint32_t name_find(uint64_t key);
uint32_t name_add(struct probe_thread *self, uint64_t key, const char *text, uint32_t length);

/* The same for a text of 1 to 63 bytes that the program made up: only the first few hundred different ones
 * get a number, so that a program which never stops making them leaves room for others. */
uint32_t name_of_text(struct probe_thread *self, const char *text, uint32_t length);

/* The same for a statement without its values (statement.h), which may be longer. */
uint32_t name_of_statement(struct probe_thread *self, const char *text, uint32_t length);

/* A new trace begins: every name is told again. */
void names_forget(void);

/* ---- descriptors ---- */

/* One direction of a WebSocket connection. */
struct websocket {
    uint64_t left;      /* of the payload */
    uint64_t messages;  /* that ended */
    uint8_t header[14]; /* of the frame, as far as it was seen: have bytes */
    uint8_t have;
    uint8_t masked; /* what frames this way have in their mask bit */
    uint8_t lost;   /* these are no frames: nothing more is said */
};
enum { WEBSOCKET_IN, WEBSOCKET_OUT };

/* What commands need comes first: one cache line. */
/* Commands to a store: how far those on a connection have been followed (wire.h). */
struct commands {
    uint64_t number; /* begun on this connection */
    uint64_t skip;   /* the rest is the wire's own: bytes still to come */
    uint64_t value;  /* a number being read */
    uint64_t items;  /* parts of the command still to come */
    uint8_t wire;    /* enum sonde_wire */
    uint8_t lost;    /* they cannot be followed any more */
    uint8_t state;   /* 0 at first */
    uint8_t streams; /* RESP: commands of streams are among those that were written now */
};

struct descriptor {
    uint64_t key; /* whose it is: the handle's address or the client's id */
    uint32_t generation;
    uint8_t unnumbered; /* commands went over it before sonde came: theirs cannot be numbered */
    uint8_t known_peer; /* both addresses were recorded */
    uint8_t protocol;   /* enum protocol */
    uint8_t looks;      /* READS_MIDWAY: how often it was looked whether it is a broker's */
    struct commands commands;
    uint8_t websocket_server;
    uint8_t websocket_asked; /* HTTP client: the newest request wants the connection to become one */
    uint8_t chunked;         /* HTTP server: the response being written is chunked */
    uint8_t queue;           /* what is read on it is looked at: a broker's, 1 + its place in delivery.c;
                                READS_PREPARED, READS_MIDWAY; 0: it is not */
    uint8_t packets;         /* READS_MIDWAY: how often in a row what passed were packets of MQTT ... */
    uint8_t packets_message; /* ... and a message was among them */
    uint64_t http2_session;  /* the newest that was told */
    struct websocket websocket[2];
} __attribute__((aligned(64)));

/* Of a connection to MySQL: the answer to a statement that is prepared comes next. Of one that is older than
 * sonde: it may be a broker's (queue_midway()). */
enum { READS_MIDWAY = 254, READS_PREPARED };

enum protocol {
    PROTOCOL_UNKNOWN,
    PROTOCOL_HTTP_SERVER,
    PROTOCOL_HTTP_CLIENT,
    PROTOCOL_COMMANDS,
    PROTOCOL_HTTP2,
    PROTOCOL_WEBSOCKET,
    PROTOCOL_OTHER
};

enum { DESCRIPTORS = SONDE_DESCRIPTORS };
extern struct descriptor descriptors[DESCRIPTORS];

struct descriptor *descriptor_meet(struct probe_thread *self, int fd, uint64_t key);

/* NULL; one that is too high to be followed is counted. */
struct descriptor *descriptor_refuse(int fd);

/* The descriptor's state; a new generation and a net:connection event when key is not the one of before.
 * NULL when fd is out of range. */
static inline struct descriptor *descriptor_use(struct probe_thread *self, int fd, uint64_t key)
{
    if (UNLIKELY((unsigned)fd >= DESCRIPTORS))
        return descriptor_refuse(fd);
    struct descriptor *d = &descriptors[fd];
    return LIKELY(d->key == key && d->known_peer) ? d : descriptor_meet(self, fd, key);
}

/* Its state without looking whose it is now; NULL when it was never seen. */
struct descriptor *descriptor_get(int fd);

/* Which use of the descriptor this is now; false when it was never seen. */
bool descriptor_generation(int fd, uint32_t *ret_generation);

/* The descriptor is closed: its next use is a new generation. */
void descriptor_close(int fd, uint64_t key);

/* Sonde comes to a program that runs: what is open now, below count, began unseen. */
void descriptors_begin_midway(int count);

/* ---- what is written to streams (write.c) ---- */

struct buffer { /* uv_buf_t */
    const char *base;
    size_t length;
};

/* The number of a method's name (enum sonde_http_method). */
uint8_t http_method(const char *word, uint64_t length);

/* HTTP/2: the session's bytes go over that descriptor; told once. */
void http2_on(struct probe_thread *self, uint64_t session, int fd, struct descriptor *d, uint64_t now);

/* Looks at bytes that go out: recognises HTTP and commands, records http:request, http:response and
 * uv:write. now: no later than when they go, since the other end may read them at once. */
HOT void write_seen(struct probe_thread *self, int fd, uint64_t handle, const struct buffer *buffers,
                    unsigned count, uint64_t accepted, int64_t result, uint64_t now);

#endif
