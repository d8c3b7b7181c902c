/* See queue.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/queue.h"

#include <errno.h>

#include "base/macro.h"
#include "targets/redis/model.h"

static int keep(struct redis_queue *queue, const struct redis_slow *slow)
{
    if (queue->slow.count < REDIS_SLOW_KEPT)
        return array_add(&queue->slow, *slow);
    struct redis_slow *least = queue->slow.at;
    array_foreach (&queue->slow, s)
        if (s->end_ns - s->start_ns < least->end_ns - least->start_ns)
            least = s;
    if (slow->end_ns - slow->start_ns > least->end_ns - least->start_ns)
        *least = *slow;
    return 0;
}

static int close_now(struct redis_queue *queue)
{
    int r = queue->now.end_ns ? keep(queue, &queue->now) : 0;
    queue->now = (struct redis_slow){0};
    queue->next_iteration = false;
    map_clear(&queue->counted);
    return r;
}

/* A slow command that follows another in one iteration takes over: who waits for the second waited for the
 * first too, and each wait is counted once, for the command that ended last. */
int redis_queue_command(struct redis_server *server, const struct redis_slow *slow)
{
    struct redis_queue *queue = &server->queue;
    queue->slow_count++;
    queue->slow_ns += slow->end_ns - slow->start_ns;
    int r = close_now(queue);
    queue->now = *slow;
    return r;
}

int redis_queue_read(struct redis_server *server, const struct redis_client *client, uint64_t start_ns)
{
    struct redis_queue *queue = &server->queue;
    struct redis_slow *slow = &queue->now;
    if (!slow->end_ns || client->id == slow->client_id || start_ns < slow->end_ns ||
        client->first_ns > slow->end_ns)
        return 0;
    bool added;
    if (!map_put(&queue->counted, client->id, &added))
        return -ENOMEM;
    uint64_t since_ns = MAX(slow->start_ns, client->last_reply_ns);
    if (!added || since_ns >= slow->end_ns)
        return 0;
    slow->waiters++;
    slow->waited_ns += slow->end_ns - since_ns;
    slow->longest_ns = MAX(slow->longest_ns, slow->end_ns - since_ns);
    return 0;
}

int redis_queue_iteration(struct redis_server *server, uint64_t start_ns, uint64_t end_ns)
{
    struct redis_queue *queue = &server->queue;
    if (!queue->now.end_ns || end_ns < queue->now.end_ns)
        return 0;
    if (!queue->next_iteration && start_ns <= queue->now.start_ns) {
        queue->next_iteration = true;
        return 0;
    }
    return close_now(queue);
}

int redis_queue_finish(struct redis_server *server)
{
    return close_now(&server->queue);
}

void redis_queue_done(struct redis_queue *queue)
{
    array_done(&queue->slow);
    map_done(&queue->counted);
}
