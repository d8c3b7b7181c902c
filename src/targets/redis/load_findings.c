/* The findings about how a server is loaded: requests that wait for each other, and what a cluster's bus
 * costs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/macro.h"
#include "targets/redis/model.h"

enum {
    DURATION = 32,
    QUEUED_LEAST = 1000, /* requests; what fewer waited says little about the server */
    PUBLISH = 4,         /* CLUSTERMSG_TYPE_PUBLISH */
    NAME_BYTES = sizeof("publish") - 1,
};
/* A request waits so long on average, where every command is quick. Sixty clients that ask for all they can
 * get wait for less than a millisecond. */
static const uint64_t QUEUED_NS = 5000000;
static const double BUS_SHARE = 0.25, AMPLIFICATION = 10;
static const uint64_t AMPLIFIED_BYTES = 1000000;

static double part(uint64_t of, uint64_t whole)
{
    return whole ? (double)of / (double)whole : 0;
}

static int report_queueing(const struct redis_server *server, struct report *report)
{
    const struct redis_sum *waits = &server->turn.crowded;
    if (waits->count < QUEUED_LEAST || waits->time_ns / waits->count < QUEUED_NS)
        return 0;
    struct finding *f = redis_finding(report, server, FINDING_redis_queueing, SEVERITY_WARNING);
    char each[DURATION], longest[DURATION];
    double busy = part(server->busy_ns, redis_recorded_ns(server));
    if (!f)
        return -ENOMEM;
    clock_format_duration(waits->time_ns / waits->count, each, sizeof(each));
    clock_format_duration(waits->worst_ns, longest, sizeof(longest));
    f->from_ns = waits->worst_at_ns - MIN(waits->worst_ns, waits->worst_at_ns);
    f->to_ns = waits->worst_at_ns;
    f->cost_ns = waits->time_ns;
    f->title = finding_say(f, "Requests to %s waited %s for each other, though every command was quick",
                           server->name, each);
    f->detail = finding_say(
        f,
        "%" PRIu64 " requests were ready at the same time as others and were read one after the other, the "
        "last ones %s later; no command took a tenth of such an iteration. The event loop was busy for %.0f "
        "%% "
        "of the recording. SLOWLOG shows none of it: each execution is short.",
        waits->count, longest, 100 * busy);
    return finding_add_count(f, "requests_count", waits->count) < 0 ||
                   finding_add_count(f, "mean_wait_ns", waits->time_ns / waits->count) < 0 ||
                   finding_add_count(f, "longest_wait_ns", waits->worst_ns) < 0 ||
                   finding_add_count(f, "delay_ns", waits->time_ns) < 0 ||
                   finding_add_real(f, "busy_share", busy) < 0
               ? -ENOMEM
               : 0;
}

static int report_bus(const struct redis_server *server, struct report *report)
{
    const struct redis_work *work = &server->work;
    uint64_t took_ns = work->bus_reads.time_ns + work->bus_writes.time_ns, bus = work->bus_in + work->bus_out;
    uint64_t clients = work->clients.in + work->clients.out;
    double share = part(took_ns, redis_recorded_ns(server));
    if (share < BUS_SHARE || bus <= clients)
        return 0;
    struct finding *f = redis_finding(report, server, FINDING_redis_bus_overload, SEVERITY_WARNING);
    char took[DURATION];
    if (!f)
        return -ENOMEM;
    unsigned most = 0;
    for (unsigned type = 1; type < REDIS_BUS_TYPES; type++)
        if (server->bus[type].sent_bytes + server->bus[type].received_bytes >
            server->bus[most].sent_bytes + server->bus[most].received_bytes)
            most = type;
    f->from_ns = server->model->first_ns;
    f->to_ns = server->model->last_ns;
    f->cost_ns = took_ns;
    f->title = finding_say(f, "The cluster bus takes %.0f %% of the time of %s", 100 * share, server->name);
    f->detail = finding_say(f,
                            "Reading and writing %.1f MB of other nodes' messages took %s; clients had %.1f "
                            "MB in that time. Most of "
                            "it are %s messages. The thread that does it executes all commands.",
                            (double)bus / 1e6, clock_format_duration(took_ns, took, sizeof(took)),
                            (double)clients / 1e6, redis_bus_type(most));
    if (most == PUBLISH)
        f->remedy =
            "PUBLISH goes to every node: use SPUBLISH and SSUBSCRIBE, which stay in one shard (Redis 7), "
            "or a separate server for messages.";
    return finding_add_count(f, "bus_bytes", bus) < 0 || finding_add_count(f, "client_bytes", clients) < 0 ||
                   finding_add_count(f, "took_ns", took_ns) < 0 ||
                   finding_add_real(f, "time_share", share) < 0
               ? -ENOMEM
               : 0;
}

/* What scripts publish has no arguments of its own in the recording: nothing is said then. */
static int report_amplification(const struct redis_server *server, struct report *report)
{
    const struct redis_traffic *sent = &server->bus[PUBLISH];
    const struct redis_command *publish = NULL;
    array_foreach (&server->commands, command)
        publish = strcmp((*command)->name, "publish") == 0 ? *command : publish;
    if (!publish || publish->inner_calls || !publish->calls || !sent->sent)
        return 0;
    uint64_t published =
        server->publish_bytes - NAME_BYTES * MIN(publish->calls, server->publish_bytes / NAME_BYTES);
    double amplification = part(sent->sent_bytes, published);
    if (sent->sent_bytes < AMPLIFIED_BYTES || amplification < AMPLIFICATION)
        return 0;
    double copies = part(sent->sent, publish->calls);
    double envelope = part(sent->sent_bytes, sent->sent) - part(published, publish->calls);
    struct finding *f = redis_finding(report, server, FINDING_redis_publish_amplification, SEVERITY_INFO);
    if (!f)
        return -ENOMEM;
    f->from_ns = server->model->first_ns;
    f->to_ns = server->model->last_ns;
    f->title = finding_say(f, "PUBLISH put %.0f times its bytes on the cluster bus of %s", amplification,
                           server->name);
    f->detail = finding_say(
        f,
        "%" PRIu64
        " messages of %.0f bytes with their channels became %.1f MB: each goes to %.1f other nodes, "
        "whether somebody subscribes there or not, in an envelope of %.0f bytes.",
        publish->calls, part(published, publish->calls), (double)sent->sent_bytes / 1e6, copies, envelope);
    return finding_add_count(f, "messages_count", publish->calls) < 0 ||
                   finding_add_count(f, "published_bytes", published) < 0 ||
                   finding_add_count(f, "bus_bytes", sent->sent_bytes) < 0 ||
                   finding_add_real(f, "amplification", amplification) < 0 ||
                   finding_add_real(f, "copies", copies) < 0 ||
                   finding_add_count(f, "envelope_bytes", (uint64_t)MAX(envelope, 0)) < 0
               ? -ENOMEM
               : 0;
}

int redis_model_report_load(const struct redis_model *model, struct report *report)
{
    static int (*const REPORTS[])(const struct redis_server *,
                                  struct report *) = {report_queueing, report_bus, report_amplification};
    array_foreach (&model->list, place)
        for (size_t i = 0; i < ARRAY_SIZE(REPORTS); i++)
            if (REPORTS[i](*place, report) < 0)
                return -ENOMEM;
    return 0;
}
