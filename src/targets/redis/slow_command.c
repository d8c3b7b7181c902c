/* How commands that kept a server's one executing thread busy are judged and put into words. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "finding/prose.h"
#include "targets/redis/slow_command.h"

static const char *command_remedy(const char *command)
{
    static const struct {
        const char *command, *remedy;
    } REMEDIES[] = {
        {"KEYS", "Walk the keys with SCAN, or keep an index of the ones you need."},
        {"SMEMBERS", "Walk large sets with SSCAN, or ask for a part (SRANDMEMBER)."},
        {"HGETALL", "Ask for the fields you need (HMGET), or walk the hash with HSCAN."},
        {"HKEYS", "Ask for the fields you need (HMGET), or walk the hash with HSCAN."},
        {"LRANGE", "Ask for a page, not for the whole list."},
        {"ZRANGE", "Ask for a page, not for the whole set."},
        {"SORT", "Sort fewer elements (LIMIT does not help), keep a sorted set, or sort on a replica."},
        {"EVAL", "Make the script do less at a time: Redis executes nothing else while it runs."},
        {"EVALSHA", "Make the script do less at a time: Redis executes nothing else while it runs."},
        {"FCALL", "Make the function do less at a time: Redis executes nothing else while it runs."},
        {"EXEC", "Put fewer commands into one transaction: nothing else runs in the meantime."},
        {"DEL", "UNLINK frees the memory in the background."},
        {"FLUSHALL", "FLUSHALL ASYNC frees the memory in the background."},
        {"FLUSHDB", "FLUSHDB ASYNC frees the memory in the background."},
        {"SAVE", "BGSAVE writes the snapshot in a child process."},
        {"SUNION", "Intersect and unite on a replica, or keep the result up to date as elements change."},
        {"SINTER", "Intersect and unite on a replica, or keep the result up to date as elements change."},
    };
    for (size_t i = 0; i < ARRAY_SIZE(REMEDIES); i++)
        if (strcmp(REMEDIES[i].command, command) == 0)
            return REMEDIES[i].remedy;
    return NULL;
}

static void say_slow_command(struct analysis *a, struct finding *f, const struct fault *fault)
{
    struct duration queued;
    f->title = finding_say(f, "%s blocked %s %s", fault->command, fault->service, verdict_amount(f, fault));
    const char *sender =
        fault->caller ? finding_say(f, "sent by %s", fault->caller) : "sent by a client that is not traced";
    const char *size = fault->arguments > 0 ? finding_say(f, ", %lld argument%s", (long long)fault->arguments,
                                                          fault->arguments == 1 ? "" : "s")
                                            : "";
    const char *inner = fault->inner ? finding_say(f, " Inside it %s ran %llu times.", fault->inner,
                                                   (unsigned long long)fault->inner_calls)
                                     : "";
    const char *others = "No command was seen waiting behind it.";
    if (fault->queued_commands) {
        struct text count = {0};
        prose_count(&count, fault->queued_commands, "command");
        others = finding_say(f, "%s of other clients queued behind it, for %s in total.", text_get(&count),
                             say_ns(&queued, fault->queued_ns));
        text_done(&count);
    }
    f->detail =
        finding_say(f,
                    "%s (%s, client %llu%s) runs alone: all other commands wait until it has finished.%s "
                    "%s",
                    fault->command, sender, (unsigned long long)fault->client_id, size, inner, others);
    const char *remedy = command_remedy(fault->command);
    f->remedy = remedy ? remedy : f->remedy;
    verdict_place(f, fault, "redis");
    finding_add_text(f, "command", fault->command);
    finding_add_count(f, "calls_count", fault->count);
    finding_add_count(f, "executed_ns", fault->total_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_count(f, "run_queue_ns", fault->run_queue_ns);
    if (fault->argument_bytes)
        finding_add_count(f, "argument_bytes", fault->argument_bytes);
    if (fault->arguments > 0)
        finding_add_count(f, "arguments_count", (uint64_t)fault->arguments);
    if (fault->inner) {
        finding_add_text(f, "inner_command", fault->inner);
        finding_add_count(f, "inner_calls_count", fault->inner_calls);
    }
    finding_add_count(f, "client_id", fault->client_id);
    finding_add_count(f, "clients_count", fault->clients.count);
    finding_add_count(f, "queued_commands_count", fault->queued_commands);
    finding_add_count(f, "queued_ns", fault->queued_ns);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

static enum finding_severity severity(const struct analysis *a, const struct fault *fault)
{
    /* Whose clients are not traced cannot show who suffers: the command itself took that long. */
    return MAX(verdict_by_cost(fault, a->options.slow_command_ns),
               fault->others_unknown ? SEVERITY_WARNING : SEVERITY_INFO);
}

static bool always(const struct fault *fault)
{
    return true;
}

const struct verdict REDIS_VERDICTS[] = {{FINDING_slow_command, severity, say_slow_command, always}, {0}};
