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

static bool holds_most_of(const struct redis_slow *inner, const struct redis_slow *outer)
{
    return inner->end_ns && inner->start_ns >= outer->start_ns && inner->end_ns <= outer->end_ns &&
           (inner->end_ns - inner->start_ns) * 2 >= outer->end_ns - outer->start_ns;
}

/* One that was executed before it in the same iteration, or in the one that ended before it began: replies
 * are written when the iteration is over. That of who blocks, or copies the data, is none. */
static bool is_unanswered(const struct redis_server *server, const struct redis_client *client,
                          const struct redis_slow *slow)
{
    return client->id != slow->client_id && client->replies && !client->blocked_ns && !client->replica &&
           !client->freed_ns && client->executed_ns > client->last_reply_ns &&
           client->executed_ns >= server->iteration_ns && client->executed_ns <= slow->start_ns;
}

/* Counts one that waits since then until the end. 0 or -ENOMEM. */
static int waits(struct redis_queue *queue, uint64_t client_id, uint64_t since_ns)
{
    struct redis_slow *slow = &queue->now;
    bool added;
    if (!map_put(&queue->counted, client_id, &added))
        return -ENOMEM;
    if (!added || since_ns >= slow->end_ns)
        return 0;
    slow->waiters++;
    slow->waited_ns += slow->end_ns - since_ns;
    slow->longest_ns = MAX(slow->longest_ns, slow->end_ns - since_ns);
    return 0;
}

/* What follows another in one iteration takes over: who waits for the second waited for the first too, and
 * each wait is counted once, for the one that ended last. */
int redis_queue_slow(struct redis_server *server, const struct redis_slow *slow)
{
    struct redis_queue *queue = &server->queue;
    if (slow->what == REDIS_STRETCH_COMMAND && queue->now.what != REDIS_STRETCH_COMMAND &&
        holds_most_of(&queue->now, slow)) {
        queue->now.client_id = slow->client_id; /* who asked for it does not wait behind it */
        return 0;
    }
    int r = close_now(queue);
    queue->now = *slow;
    map_foreach (&server->clients, slot) {
        if (r == 0 && is_unanswered(server, (const struct redis_client *)(uintptr_t)slot->value, slow))
            r = waits(queue, slot->key, slow->start_ns);
    }
    return r;
}

int redis_queue_read(struct redis_server *server, const struct redis_client *client, uint64_t start_ns)
{
    struct redis_queue *queue = &server->queue;
    struct redis_slow *slow = &queue->now;
    if (!slow->end_ns || client->id == slow->client_id || start_ns < slow->end_ns ||
        client->first_ns > slow->end_ns)
        return 0;
    return waits(queue, client->id, MAX(slow->start_ns, client->last_reply_ns));
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

int redis_queue_turn(struct redis_server *server, uint64_t start_ns, uint64_t took_ns)
{
    struct redis_turn *turn = &server->turn;
    bool crowded = turn->longest_command_ns < took_ns / 10;
    int r = 0;
    array_foreach (&turn->reads, began) {
        if (*began < start_ns)
            continue;
        redis_sum_add(&turn->waits, *began - start_ns, *began);
        if (crowded)
            redis_sum_add(&turn->crowded, *began - start_ns, *began);
        if (r == 0 && server->model->options.windows)
            r = sketch_add(&turn->recent, *began - start_ns);
    }
    return r;
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
