/* Conflicts between a server's threads over one connection, from its events alone.
 *
 * A client whose read is postponed is put on the list of pending reads (redis:pending_io); the next real read
 * of it, by whichever thread, takes it off. These cannot happen in a correct server:
 *
 *   twice on the list   put on it while it is on it: two threads will be given the same connection
 *   read by two         two reads (or two writes) of one connection overlap in time on different threads
 *   used after free     an I/O thread reads a client that was freed
 *   freed twice         freed again when it had lost its connection by being freed. A replica's cached
 * primary is freed twice too, legally, so that this counts only beside one of the others
 *
 * A postponed read is itself recorded as a read, which ends where the client was put on the list: it encloses
 * the redis:pending_io of its own thread and is not a real one.
 *
 * When events of the server were lost meanwhile, a missing read proves nothing: two additions are then no
 * conflict by themselves (`doubtful`). Losses are recorded up to REDIS_LOSS_DELAY_NS after they happened. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_CONFLICT_H
#define TARGETS_REDIS_CONFLICT_H

#include <stdbool.h>
#include <stdint.h>

struct redis_server;
struct redis_client;

enum redis_conflict_kind {
    REDIS_TWICE_ON_LIST = 1,
    REDIS_READ_BY_TWO = 2,
    REDIS_USED_AFTER_FREE = 4,
    REDIS_FREED_TWICE = 8,
};

/* Which two operations met: how a conflict began, whatever came of it. Conflicts of a server that began in
 * the same way are one fault, and one finding. */
enum redis_conflict_origin {
    REDIS_BEGAN_QUEUED, /* put on the list while it is on it */
    REDIS_BEGAN_READING,
    REDIS_BEGAN_WRITING,
    REDIS_BEGAN_FREED, /* read after it was freed */
    REDIS_ORIGINS
};

enum { REDIS_IO_RECENT = 4 };
#define REDIS_LOSS_DELAY_NS 2000000000ull

/* A client that one thread hands over to another is done with by the one just before the other begins. Both
 * times are read without keeping the order of what is around them, on two CPUs: they may seem to overlap by
 * some ten nanoseconds. A read or write takes several microseconds. */
#define REDIS_UNSURE_NS 1000

/* One read or write of a connection, in the trace's clock. */
struct redis_access {
    uint64_t start_ns, end_ns;
    int64_t tid;
    bool writes;
};

/* What is remembered of a client's connection. */
struct redis_io {
    uint64_t added_ns; /* when it was put on the list where it still is; 0: it is not */
    int64_t added_by;
    uint64_t added_lost; /* events lost by the server at that time */
    uint64_t postponed_ns;
    int64_t postponed_by; /* the newest addition, until the read that made it is seen; 0 none */
    struct redis_access recent[REDIS_IO_RECENT];
    unsigned accesses;
    int64_t left_bytes; /* left in the TLS buffer by the newest read that left some; 0 none */
    uint64_t left_ns;
    uint64_t freed_ns;
    int32_t freed_fd;
    int64_t freed_by;
    uint64_t conflict; /* 1 + index into the server's conflicts; 0 none */
};

/* What was found about one client. Times are 0 and threads -1 where unknown. */
struct redis_conflict {
    uint64_t client_id;
    int32_t fd;
    enum redis_conflict_origin origin;
    unsigned kinds; /* enum redis_conflict_kind, or-ed */
    uint64_t first_added_ns, second_added_ns;
    int64_t added_by;
    int64_t threads[2]; /* that read it after it was put on the list twice, or at the same time */
    unsigned thread_count;
    uint64_t overlap_ns;
    int64_t left_bytes; /* in the TLS buffer before that */
    uint64_t freed_ns, freed_again_ns;
    uint64_t from_ns, to_ns;
    bool doubtful; /* events were lost at that time: the additions alone prove nothing */
};

/* Each takes what the event of that name says of the client. 0 or -ENOMEM. */
int redis_conflict_postponed(struct redis_server *server, struct redis_client *client, int64_t tid,
                             uint64_t now_ns);
int redis_conflict_access(struct redis_server *server, struct redis_client *client,
                          const struct redis_access *access);
void redis_conflict_left(struct redis_client *client, int64_t left_bytes, uint64_t now_ns);
int redis_conflict_freed(struct redis_server *server, struct redis_client *client, int32_t fd, int64_t tid,
                         uint64_t now_ns);

/* Events of the server were lost, at now_ns or shortly before. */
void redis_conflict_lost(struct redis_server *server, uint64_t now_ns);

/* Whether it is certain: more than additions that a lost event may explain. */
bool redis_conflict_proved(const struct redis_conflict *conflict);

/* Whether a did more harm than b: freed twice, used after it was freed, used by two at once and for longer,
 * read by two after the other. */
bool redis_conflict_worse(const struct redis_conflict *a, const struct redis_conflict *b);

#endif
