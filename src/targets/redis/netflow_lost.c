/* See netflow.h: what is certain although records were lost. A command whose read or write is missing must
 * not take those of another one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "event/event.h"
#include "targets/redis/netflow_internal.h"

void flow_loss_event(struct flow_process *process)
{
    process->lost = true;
    map_foreach (&process->fds, slot) {
        struct flow_end *end = (struct flow_end *)(uintptr_t)slot->value;
        if (end)
            end->unsure = true;
    }
}

bool netflow_lost(const struct netflow *n)
{
    array_foreach (&n->all, process)
        if ((*process)->lost)
            return true;
    return false;
}

bool flow_written_later(const struct flow_process *process, int64_t tid, uint32_t turn, const struct event *e)
{
    return process->lost && tid == e->tid &&
           process->turns - turn > (process->active == process->turns ? 0 : 1);
}

bool flow_others_missing(const struct flow_process *process, const struct flow_client *client,
                         const struct event *e)
{
    bool missing = false;
    if (!process->lost)
        return false;
    array_foreach (&client->unwritten, place) {
        const struct flow *flow = *place;
        missing |= !flow->read_known || flow->at[FLOW_READ] != client->read ||
                   (flow->at[FLOW_BLOCKED] != FLOW_UNKNOWN && !flow->unblocked) ||
                   flow_written_later(process, flow->tid, flow->turn, e);
    }
    return missing;
}

void flow_written_with_losses(const struct flow_process *process, struct flow_link *link, int64_t bytes)
{
    int64_t sum = 0;
    for (size_t i = 0; i < queue_count(&link->sent); i++) {
        struct flow_sent *sent = &queue_at(&link->sent, i);
        sent->lost = process->turns - sent->turn > 1;
        sum += sent->lost ? 0 : sent->bytes;
    }
    for (size_t i = 0; bytes >= 0 && sum != bytes && i < queue_count(&link->sent); i++)
        queue_at(&link->sent, i).lost = true;
    link->done = link->queued;
}
