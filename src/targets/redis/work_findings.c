/* The findings about what a server did beside executing commands, and about how its clients use it: children
 * that it forked, files that it forced to the disk, keys that expired or were evicted, large replies, clients
 * that do not take theirs, one client that has most of the server. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>

#include "base/clock.h"
#include "base/macro.h"
#include "targets/redis/model.h"

enum {
    DURATION = 32,
    STORM_KEYS = 1000, /* fewer are no storm */
    BIG_REPLY_BYTES = 1 << 20,
    HOT_CLIENTS_LEAST = 4, /* among fewer, one may well have most */
};
static const uint64_t TAKING_NS = 1000000000; /* a reply that takes so long to be taken */

/* Shares from which something is a finding. */
static const double SYNC_SHARE = 0.05, EVICTION_SHARE = 0.1, EXPIRY_SHARE = 0.1, HOT_SHARE = 0.5,
                    BUSY_SHARE = 0.5;

uint64_t redis_recorded_ns(const struct redis_server *server)
{
    return server->last_ns - server->first_ns;
}

static double part(uint64_t of, uint64_t whole)
{
    return whole ? (double)of / (double)whole : 0;
}

struct finding *redis_finding(struct report *report, const struct redis_server *server,
                              enum finding_kind kind, enum finding_severity severity)
{
    struct finding *f = report_add_finding(report, kind, severity);
    if (f)
        f->where = (struct finding_place){.service = finding_say(f, "%s", server->name),
                                          .process = server->pid,
                                          .thread = server->loop_tid ? server->loop_tid : server->pid,
                                          .layer = "redis"};
    return f;
}

static void worst_of(struct finding *f, const struct redis_sum *sum)
{
    f->to_ns = sum->worst_at_ns;
    f->from_ns = sum->worst_at_ns - MIN(sum->worst_ns, sum->worst_at_ns);
}

/* The stretch of that kind with the most waiters, NULL when none was long. *ret_waited_ns is what clients
 * waited behind all of them. */
static const struct redis_slow *waits(const struct redis_server *server, enum redis_stretch what,
                                      uint64_t *ret_waited_ns)
{
    const struct redis_slow *most = NULL;
    *ret_waited_ns = 0;
    array_foreach (&server->queue.slow, slow) {
        if (slow->what != what)
            continue;
        *ret_waited_ns += slow->waited_ns;
        if (!most || slow->waiters > most->waiters)
            most = slow;
    }
    return most;
}

/* "30 connections had a request waiting, up to 9.1 ms each." and its evidence. */
static const char *say_waits(struct finding *f, const struct redis_slow *slow, uint64_t waited_ns, int *r)
{
    char each[DURATION];
    f->cost_ns = MAX(f->cost_ns, waited_ns);
    if (!slow)
        return "";
    if (finding_add_count(f, "waiting_clients_count", slow->waiters) < 0 ||
        finding_add_count(f, "longest_wait_ns", slow->longest_ns) < 0 ||
        finding_add_count(f, "delay_ns", waited_ns) < 0)
        *r = -ENOMEM;
    if (!slow->waiters)
        return "No connection had a request waiting. ";
    return finding_say(f, "%" PRIu64 " connection%s had a request waiting, up to %s. ", slow->waiters,
                       slow->waiters == 1 ? "" : "s",
                       clock_format_duration(slow->longest_ns, each, sizeof(each)));
}

static int add_sum(struct finding *f, const struct redis_sum *sum, const char *count)
{
    return finding_add_count(f, count, sum->count) < 0 || finding_add_count(f, "took_ns", sum->time_ns) < 0 ||
                   finding_add_count(f, "worst_ns", sum->worst_ns) < 0
               ? -ENOMEM
               : 0;
}

#define NOT_IN_SLOWLOG "SLOWLOG does not show it: it has only the execution of commands."

static int report_fork(const struct redis_server *server, struct report *report)
{
    const struct redis_work *work = &server->work;
    uint64_t waited_ns;
    const struct redis_slow *slow = waits(server, REDIS_STRETCH_FORK, &waited_ns);
    if (!slow)
        return 0;
    struct finding *f = redis_finding(report, server, FINDING_redis_fork_stall,
                                      slow->waiters ? SEVERITY_WARNING : SEVERITY_INFO);
    char worst[DURATION];
    if (!f)
        return -ENOMEM;
    int r = add_sum(f, &work->forks, "forks_count");
    worst_of(f, &work->forks);
    clock_format_duration(work->forks.worst_ns, worst, sizeof(worst));
    f->title = finding_say(f, "Forking for %s stopped %s for %s", work->fork_purpose, server->name, worst);
    f->detail = finding_say(f,
                            "%sThe kernel copies the page tables of %.0f MB during that time, and no client "
                            "is served. " NOT_IN_SLOWLOG,
                            say_waits(f, slow, waited_ns, &r), (double)work->fork_memory_bytes / 1e6);
    return finding_add_count(f, "memory_bytes", work->fork_memory_bytes) < 0 ? -ENOMEM : r;
}

static int report_fsync(const struct redis_server *server, struct report *report)
{
    const struct redis_work *work = &server->work;
    double share = part(work->syncs.time_ns, redis_recorded_ns(server));
    uint64_t waited_ns;
    const struct redis_slow *slow = waits(server, REDIS_STRETCH_FILE, &waited_ns);
    if (!slow && (share < SYNC_SHARE || !work->aof_writes.count))
        return 0;
    bool syncs = share >= SYNC_SHARE || (slow && work->syncs.worst_ns * 2 >= slow->end_ns - slow->start_ns);
    const struct redis_sum *sum = syncs ? &work->syncs : &work->aof_writes;
    struct finding *f = redis_finding(report, server, FINDING_redis_fsync_stall, SEVERITY_WARNING);
    char worst[DURATION], all[DURATION];
    if (!f)
        return -ENOMEM;
    int r = add_sum(f, sum, syncs ? "syncs_count" : "writes_count");
    worst_of(f, sum);
    clock_format_duration(sum->worst_ns, worst, sizeof(worst));
    clock_format_duration(sum->time_ns, all, sizeof(all));
    f->title =
        syncs ? finding_say(f, "Forcing the append-only file to the disk held %s for %s (%" PRIu64 " times)",
                            server->name, all, sum->count)
              : finding_say(f, "Writing the append-only file held %s for %s", server->name, worst);
    f->cost_ns = sum->time_ns;
    f->detail = finding_say(
        f, "That is %.0f %% of the time that was recorded; the longest took %s. %s%s" NOT_IN_SLOWLOG,
        100 * part(sum->time_ns, redis_recorded_ns(server)), worst, say_waits(f, slow, waited_ns, &r),
        syncs ? "" : "A write waits while another thread forces the file to the disk. ");
    return finding_add_real(f, "time_share", part(sum->time_ns, redis_recorded_ns(server))) < 0 ? -ENOMEM : r;
}

static int report_eviction(const struct redis_server *server, struct report *report)
{
    const struct redis_work *work = &server->work;
    double share = part(work->evictions.time_ns, server->command_ns + work->evictions.time_ns);
    uint64_t waited_ns;
    const struct redis_slow *slow = waits(server, REDIS_STRETCH_EVICTION, &waited_ns);
    if (!slow && (work->evicted < STORM_KEYS ||
                  (share < EVICTION_SHARE && work->evicted * 10 < server->commands_count)))
        return 0;
    struct finding *f = redis_finding(report, server, FINDING_redis_eviction_storm, SEVERITY_WARNING);
    char all[DURATION], worst[DURATION];
    if (!f)
        return -ENOMEM;
    int r = add_sum(f, &work->evictions, "evictions_count");
    worst_of(f, &work->evictions);
    clock_format_duration(work->evictions.time_ns, all, sizeof(all));
    clock_format_duration(work->evictions.worst_ns, worst, sizeof(worst));
    f->cost_ns = work->evictions.time_ns;
    f->title = finding_say(f, "%s evicted %" PRIu64 " keys, %.1f for each 10 commands", server->name,
                           work->evicted, 10 * part(work->evicted, server->commands_count));
    f->detail = finding_say(
        f,
        "It took %s, the longest %s, before the commands that wanted room were executed. %s%s" NOT_IN_SLOWLOG,
        all, worst, work->evictions_failed ? "Some of them found nothing to delete and were refused. " : "",
        say_waits(f, slow, waited_ns, &r));
    return finding_add_count(f, "evicted_count", work->evicted) < 0 ? -ENOMEM : r;
}

static int report_expiry(const struct redis_server *server, struct report *report)
{
    const struct redis_work *work = &server->work;
    uint64_t waited_ns;
    const struct redis_slow *slow = waits(server, REDIS_STRETCH_EXPIRY, &waited_ns);
    if (work->expired < STORM_KEYS ||
        (!slow && part(work->expiry.time_ns, redis_recorded_ns(server)) < EXPIRY_SHARE))
        return 0;
    struct finding *f = redis_finding(report, server, FINDING_redis_expiry_storm,
                                      slow && slow->waiters ? SEVERITY_WARNING : SEVERITY_INFO);
    char all[DURATION], worst[DURATION];
    if (!f)
        return -ENOMEM;
    int r = add_sum(f, &work->expiry, "cycles_count");
    worst_of(f, &work->expiry);
    clock_format_duration(work->expiry.time_ns, all, sizeof(all));
    clock_format_duration(work->expiry.worst_ns, worst, sizeof(worst));
    f->cost_ns = work->expiry.time_ns;
    f->title = finding_say(f, "Deleting %" PRIu64 " expired keys held %s for up to %s at a time",
                           work->expired, server->name, worst);
    f->detail = finding_say(f,
                            "In all it took %s. %s%" PRIu64
                            " more were deleted because somebody asked for them. " NOT_IN_SLOWLOG,
                            all, say_waits(f, slow, waited_ns, &r), work->expired_on_access);
    r = finding_add_count(f, "expired_count", work->expired) < 0 ? -ENOMEM : r;
    return finding_add_count(f, "expired_on_access_count", work->expired_on_access) < 0 ? -ENOMEM : r;
}

static void upper(const char *name, char to[static 64])
{
    size_t n = 0;
    for (; name[n] && n < 63; n++)
        to[n] = (char)(name[n] == '|' ? ' ' : toupper((unsigned char)name[n]));
    to[n] = '\0';
}

static int report_reply(const struct redis_server *server, const struct redis_command *command,
                        struct report *report)
{
    if (command->largest_reply_bytes < BIG_REPLY_BYTES)
        return 0;
    struct finding *f = redis_finding(report, server, FINDING_redis_big_reply, SEVERITY_INFO);
    char name[64];
    if (!f)
        return -ENOMEM;
    upper(command->name, name);
    f->from_ns = f->to_ns = command->largest_reply_at_ns;
    f->title = finding_say(f, "A reply to %s had %.1f MB in %s", name,
                           (double)command->largest_reply_bytes / 1e6, server->name);
    f->detail = finding_say(
        f,
        "It went to client %" PRIu64 ". All replies to %s together had %.1f MB in %" PRIu64
        " requests. The server keeps a reply in memory until the client has taken it, and SLOWLOG "
        "has the time of making it only.",
        command->largest_reply_client, name, (double)command->reply_bytes / 1e6, command->replies);
    return finding_add_text(f, "command", name) < 0 ||
                   finding_add_count(f, "reply_bytes", command->largest_reply_bytes) < 0 ||
                   finding_add_count(f, "all_replies_bytes", command->reply_bytes) < 0 ||
                   finding_add_count(f, "client_id", command->largest_reply_client) < 0
               ? -ENOMEM
               : 0;
}

static int report_slow_clients(const struct redis_server *server, struct report *report)
{
    const struct redis_client *slowest = NULL;
    uint64_t clients = 0, closed = server->work.output_limit_clients;
    map_foreach (&server->clients, slot) {
        const struct redis_client *client = (const struct redis_client *)(uintptr_t)slot->value;
        if (client->taking_ns < TAKING_NS || client->taking_bytes < BIG_REPLY_BYTES)
            continue;
        clients++;
        if (!slowest || client->taking_ns > slowest->taking_ns)
            slowest = client;
    }
    if (!slowest && !closed)
        return 0;
    struct finding *f = redis_finding(report, server, FINDING_redis_slow_client, SEVERITY_WARNING);
    char took[DURATION] = "";
    if (!f)
        return -ENOMEM;
    if (slowest)
        clock_format_duration(slowest->taking_ns, took, sizeof(took));
    f->from_ns = server->model->first_ns;
    f->to_ns = server->model->last_ns;
    f->title = closed ? finding_say(f, "%s closed %" PRIu64 " connection%s that did not take their replies",
                                    server->name, closed, closed == 1 ? "" : "s")
                      : finding_say(f, "A client of %s took %s to take its replies", server->name, took);
    const char *who = slowest
                          ? finding_say(f, "Client %" PRIu64 "%s%s took %s for replies of up to %.1f MB. ",
                                        slowest->id, slowest->peer[0] ? ", " : "", slowest->peer, took,
                                        (double)slowest->taking_bytes / 1e6)
                          : "";
    f->detail = finding_say(f, "%sWhat a client does not take stays in the server's memory%s.", who,
                            closed ? ", up to client-output-buffer-limit, where it is closed" : "");
    int r =
        finding_add_count(f, "clients_count", clients) < 0 || finding_add_count(f, "closed_count", closed) < 0
            ? -ENOMEM
            : 0;
    if (slowest && (finding_add_count(f, "client_id", slowest->id) < 0 ||
                    finding_add_count(f, "taking_ns", slowest->taking_ns) < 0 ||
                    finding_add_count(f, "reply_bytes", slowest->taking_bytes) < 0))
        return -ENOMEM;
    return r;
}

static int report_hot(const struct redis_server *server, struct report *report)
{
    const struct redis_client *hottest = NULL;
    uint64_t clients = 0;
    map_foreach (&server->clients, slot) {
        const struct redis_client *client = (const struct redis_client *)(uintptr_t)slot->value;
        clients += client->commands > 1;
        if (!hottest || client->time_ns > hottest->time_ns)
            hottest = client;
    }
    if (!hottest || clients < HOT_CLIENTS_LEAST || hottest->commands < STORM_KEYS ||
        part(hottest->time_ns, server->command_ns) < HOT_SHARE ||
        part(server->busy_ns, redis_recorded_ns(server)) < BUSY_SHARE)
        return 0;
    struct finding *f = redis_finding(report, server, FINDING_redis_hot_connection, SEVERITY_INFO);
    if (!f)
        return -ENOMEM;
    double share = part(hottest->time_ns, server->command_ns);
    f->from_ns = server->model->first_ns;
    f->to_ns = server->model->last_ns;
    f->title = finding_say(f, "One of %" PRIu64 " connections has %.0f %% of what %s executes", clients,
                           100 * share, server->name);
    f->detail = finding_say(f,
                            "Client %" PRIu64 "%s%s sent %" PRIu64 " of %" PRIu64
                            " commands, and the event loop was busy for %.0f %% of the time.",
                            hottest->id, hottest->peer[0] ? ", " : "", hottest->peer, hottest->commands,
                            server->commands_count, 100 * part(server->busy_ns, redis_recorded_ns(server)));
    return finding_add_count(f, "client_id", hottest->id) < 0 ||
                   finding_add_count(f, "commands_count", hottest->commands) < 0 ||
                   finding_add_count(f, "executed_ns", hottest->time_ns) < 0 ||
                   finding_add_real(f, "executed_share", share) < 0
               ? -ENOMEM
               : 0;
}

int redis_model_report_work(const struct redis_model *model, struct report *report)
{
    static int (*const REPORTS[])(const struct redis_server *, struct report *) = {
        report_fork, report_fsync, report_eviction, report_expiry, report_slow_clients, report_hot};
    array_foreach (&model->list, place) {
        for (size_t i = 0; i < ARRAY_SIZE(REPORTS); i++)
            if (REPORTS[i](*place, report) < 0)
                return -ENOMEM;
        array_foreach (&(*place)->commands, command)
            if (report_reply(*place, *command, report) < 0)
                return -ENOMEM;
    }
    return 0;
}
