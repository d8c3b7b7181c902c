/* See conflict.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/conflict.h"

#include <errno.h>

#include "base/macro.h"
#include "targets/redis/model.h"

/* The conflict that this client is part of, begun when there is none yet; NULL when memory is exhausted. */
static struct redis_conflict *conflict_of(struct redis_server *server, struct redis_client *client,
                                          enum redis_conflict_origin origin, uint64_t from_ns)
{
    struct redis_io *io = &client->io;
    if (!io->conflict) {
        struct redis_conflict begun = {.client_id = client->id,
                                       .fd = client->fd,
                                       .origin = origin,
                                       .added_by = -1,
                                       .threads = {-1, -1},
                                       .left_bytes = io->left_bytes,
                                       .from_ns = from_ns};
        if (array_add(&server->conflicts, begun) < 0)
            return NULL;
        io->conflict = server->conflicts.count;
    }
    return &server->conflicts.at[io->conflict - 1];
}

static void add_thread(struct redis_conflict *conflict, int64_t tid)
{
    for (unsigned i = 0; i < conflict->thread_count; i++)
        if (conflict->threads[i] == tid)
            return;
    if (conflict->thread_count < ARRAY_SIZE(conflict->threads))
        conflict->threads[conflict->thread_count++] = tid;
}

static bool lost_since_added(const struct redis_server *server, const struct redis_io *io)
{
    return server->lost != io->added_lost;
}

int redis_conflict_postponed(struct redis_server *server, struct redis_client *client, int64_t tid,
                             uint64_t now_ns)
{
    struct redis_io *io = &client->io;
    if (io->added_ns && !lost_since_added(server, io)) {
        struct redis_conflict *conflict = conflict_of(server, client, REDIS_BEGAN_QUEUED, io->added_ns);
        if (!conflict)
            return -ENOMEM;
        if (!(conflict->kinds & REDIS_TWICE_ON_LIST)) {
            conflict->first_added_ns = io->added_ns;
            conflict->second_added_ns = now_ns;
            conflict->added_by = tid;
            conflict->left_bytes = io->left_bytes;
        }
        conflict->kinds |= REDIS_TWICE_ON_LIST;
        conflict->to_ns = now_ns;
    } else {
        io->added_ns = now_ns;
        io->added_by = tid;
        io->added_lost = server->lost;
    }
    io->postponed_ns = now_ns;
    io->postponed_by = tid;
    return 0;
}

/* The read that only put the client on the list. */
static bool only_postponed(struct redis_io *io, const struct redis_access *access)
{
    bool encloses = !access->writes && io->postponed_ns && io->postponed_by == access->tid &&
                    access->start_ns <= io->postponed_ns && io->postponed_ns <= access->end_ns;
    if (encloses)
        io->postponed_ns = 0;
    return encloses;
}

static uint64_t overlap_ns(const struct redis_access *a, const struct redis_access *b)
{
    uint64_t from = MAX(a->start_ns, b->start_ns), to = MIN(a->end_ns, b->end_ns);
    return a->writes == b->writes && a->tid != b->tid && to > from + REDIS_UNSURE_NS ? to - from : 0;
}

static int check_overlap(struct redis_server *server, struct redis_client *client,
                         const struct redis_access *access)
{
    struct redis_io *io = &client->io;
    for (unsigned i = 0; i < MIN(io->accesses, (unsigned)REDIS_IO_RECENT); i++) {
        const struct redis_access *other = &io->recent[i];
        uint64_t overlap = overlap_ns(access, other);
        if (!overlap)
            continue;
        struct redis_conflict *conflict =
            conflict_of(server, client, access->writes ? REDIS_BEGAN_WRITING : REDIS_BEGAN_READING,
                        MIN(access->start_ns, other->start_ns));
        if (!conflict)
            return -ENOMEM;
        if (!(conflict->kinds & REDIS_READ_BY_TWO)) { /* those two are named */
            conflict->thread_count = 0;
            add_thread(conflict, other->tid);
            add_thread(conflict, access->tid);
        }
        conflict->kinds |= REDIS_READ_BY_TWO;
        conflict->overlap_ns = MAX(conflict->overlap_ns, overlap);
        conflict->to_ns = access->end_ns;
    }
    return 0;
}

int redis_conflict_access(struct redis_server *server, struct redis_client *client,
                          const struct redis_access *access)
{
    struct redis_io *io = &client->io;
    if (only_postponed(io, access))
        return 0;
    int r = check_overlap(server, client, access);
    if (r < 0)
        return r;
    if (!access->writes) {
        struct redis_conflict *conflict = io->conflict ? &server->conflicts.at[io->conflict - 1] : NULL;
        bool by_other =
            io->freed_ns && access->tid != io->freed_by && access->start_ns > io->freed_ns + REDIS_UNSURE_NS;
        if (by_other) {
            conflict = conflict_of(server, client, REDIS_BEGAN_FREED, io->freed_ns);
            if (!conflict)
                return -ENOMEM;
            conflict->kinds |= REDIS_USED_AFTER_FREE;
        }
        if (conflict && (conflict->kinds & REDIS_TWICE_ON_LIST || by_other)) {
            add_thread(conflict, access->tid);
            conflict->to_ns = MAX(conflict->to_ns, access->end_ns);
        }
        io->added_ns = 0;
    }
    io->recent[io->accesses++ % REDIS_IO_RECENT] = *access;
    return 0;
}

void redis_conflict_left(struct redis_client *client, int64_t left_bytes, uint64_t now_ns)
{
    if (left_bytes > 0) {
        client->io.left_bytes = left_bytes;
        client->io.left_ns = now_ns;
    }
}

int redis_conflict_freed(struct redis_server *server, struct redis_client *client, int32_t fd, int64_t tid,
                         uint64_t now_ns)
{
    struct redis_io *io = &client->io;
    struct redis_conflict *conflict = io->conflict ? &server->conflicts.at[io->conflict - 1] : NULL;
    if (conflict && !conflict->freed_ns)
        conflict->freed_ns = now_ns;
    if (conflict && io->freed_ns && io->freed_fd >= 0 && fd < 0) {
        conflict->kinds |= REDIS_FREED_TWICE;
        conflict->freed_again_ns = now_ns;
    }
    if (conflict)
        conflict->to_ns = MAX(conflict->to_ns, now_ns);
    io->freed_ns = now_ns;
    io->freed_fd = fd;
    io->freed_by = tid;
    io->added_ns = 0; /* freeing takes it off every list */
    return 0;
}

void redis_conflict_lost(struct redis_server *server, uint64_t now_ns)
{
    array_foreach (&server->conflicts, conflict)
        if (conflict->second_added_ns + REDIS_LOSS_DELAY_NS >= now_ns)
            conflict->doubtful = true;
}

bool redis_conflict_proved(const struct redis_conflict *conflict)
{
    return conflict->kinds & (REDIS_READ_BY_TWO | REDIS_USED_AFTER_FREE) ||
           (conflict->kinds & REDIS_TWICE_ON_LIST && !conflict->doubtful) ||
           (conflict->kinds & REDIS_TWICE_ON_LIST && conflict->kinds & REDIS_FREED_TWICE);
}

bool redis_conflict_worse(const struct redis_conflict *a, const struct redis_conflict *b)
{
    if (a->kinds != b->kinds) /* their bits are in the order of harm */
        return a->kinds > b->kinds;
    if (a->overlap_ns != b->overlap_ns)
        return a->overlap_ns > b->overlap_ns;
    return a->thread_count > b->thread_count;
}
