/* What is found in what a server says of itself, and what it does not say. See remote.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/remote.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"

enum { US_PER_MS = 1000, SLOW_US = 10 * US_PER_MS, STORM_KEYS = 1000, FORK_US = 10 * US_PER_MS };

#define FROM_OUTSIDE                                                                          \
    " A server does not say who waited for it: record it on the server's host (`sonde redis " \
    "PID`)."

static struct finding *found(struct report *report, enum finding_kind kind, enum finding_severity severity,
                             const char *name)
{
    struct finding *f = report_add_finding(report, kind, severity);
    if (f)
        f->where = (struct finding_place){.service = finding_say(f, "%s", name), .layer = "redis"};
    return f;
}

/* All entries of the slow log with the name of the one at first, unless an earlier entry had it. */
static int report_slow(const struct redis_remote *now, size_t first, const char *name, struct report *report)
{
    const struct redis_remote_slow *worst = &now->slow.at[first];
    uint64_t calls = 0, took_us = 0;
    char longest[32];
    for (size_t i = 0; i < now->slow.count; i++) {
        const struct redis_remote_slow *slow = &now->slow.at[i];
        if (strcmp(slow->command, now->slow.at[first].command) != 0 || slow->took_us < SLOW_US)
            continue;
        if (i < first)
            return 0;
        calls++;
        took_us += slow->took_us;
        worst = slow->took_us > worst->took_us ? slow : worst;
    }
    struct finding *f = found(report, FINDING_slow_command, SEVERITY_INFO, name);
    if (!f)
        return -ENOMEM;
    clock_format_duration(worst->took_us * NS_PER_US, longest, sizeof(longest));
    f->title = finding_say(f, "%s ran for %s in %s%s", worst->command, longest, name,
                           calls > 1 ? finding_say(f, " (%" PRIu64 " slow calls)", calls) : "");
    f->detail = finding_say(f, "The slow log says so; the longest call came from %s." FROM_OUTSIDE,
                            worst->client[0] ? worst->client : "an unknown client");
    int r = finding_add_text(f, "command", worst->command);
    r = finding_add_count(f, "calls_count", calls) < 0 ? -ENOMEM : r;
    r = finding_add_count(f, "executed_ns", took_us * NS_PER_US) < 0 ? -ENOMEM : r;
    return finding_add_count(f, "worst_ns", worst->took_us * NS_PER_US) < 0 ? -ENOMEM : r;
}

static int report_evictions(const struct redis_remote *now, const struct redis_remote *before,
                            const char *name, struct report *report)
{
    uint64_t was = redis_remote_number(before, "evicted_keys"), is = redis_remote_number(now, "evicted_keys");
    char took[32];
    if (is < was || is - was < STORM_KEYS)
        return 0;
    struct finding *f = found(report, FINDING_redis_eviction_storm, SEVERITY_WARNING, name);
    if (!f)
        return -ENOMEM;
    f->title = finding_say(f, "%s evicted %" PRIu64 " keys within %s", name, is - was,
                           clock_format_duration(now->at_ns - before->at_ns, took, sizeof(took)));
    f->detail = finding_say(f, "Its counter evicted_keys says so; maxmemory is %s bytes, %s." FROM_OUTSIDE,
                            redis_remote_text(now, "maxmemory"), redis_remote_text(now, "maxmemory_policy"));
    return finding_add_count(f, "evicted_count", is - was);
}

static int report_fork(const struct redis_remote *now, const char *name, struct report *report)
{
    uint64_t us = redis_remote_number(now, "latest_fork_usec");
    char took[32];
    if (us < FORK_US)
        return 0;
    struct finding *f = found(report, FINDING_redis_fork_stall, SEVERITY_INFO, name);
    if (!f)
        return -ENOMEM;
    f->title = finding_say(f, "The newest fork of %s took %s", name,
                           clock_format_duration(us * NS_PER_US, took, sizeof(took)));
    f->detail = finding_say(f, "Its counter latest_fork_usec says so." FROM_OUTSIDE);
    int r = finding_add_count(f, "worst_ns", us * NS_PER_US);
    return finding_add_count(f, "memory_bytes", redis_remote_number(now, "used_memory")) < 0 ? -ENOMEM : r;
}

static int report_missing(const struct redis_remote *now, struct report *report)
{
    static const char *const WHAT[REDIS_QUESTIONS] = {[REDIS_ASK_INFO] = "counters (INFO)",
                                                      [REDIS_ASK_SLOWLOG] = "the slow log (SLOWLOG)",
                                                      [REDIS_ASK_LATENCY] = "latency events (LATENCY)",
                                                      [REDIS_ASK_NODES] =
                                                          "nodes of the cluster (CLUSTER NODES)"};
    struct text remedy = {0};
    int r = 0;
    for (unsigned i = 0; r >= 0 && i < REDIS_QUESTIONS; i++) {
        if (!now->refused[i])
            continue;
        bool acl = strncmp(now->refused[i], "NOPERM", strlen("NOPERM")) == 0;
        text_clear(&remedy);
        text_addf(&remedy, "ACL SETUSER with %s allows it.", REDIS_QUESTION_RIGHTS[i]);
        r = report_add_missing(report, WHAT[i], now->refused[i], acl ? text_get(&remedy) : NULL);
    }
    text_done(&remedy);
    if (r >= 0 && redis_remote_is_sentinel(now))
        r = report_add_missing(report, "commands, slow log and latency events",
                               "this is a Sentinel, which watches servers and stores nothing",
                               "Ask the servers that it watches.");
    if (r >= 0)
        r = report_add_missing(
            report, "who called, who waited for whom, the event loop, I/O threads, the bus",
            "a server does not report that to its clients", "Run `sonde redis PID` on the server's host.");
    return r;
}

int redis_remote_report(const struct redis_remote *now, const struct redis_remote *before, const char *name,
                        struct report *report)
{
    int r = 0;
    for (size_t i = 0; r >= 0 && i < now->slow.count; i++)
        if (now->slow.at[i].took_us >= SLOW_US)
            r = report_slow(now, i, name, report);
    if (r >= 0)
        r = report_evictions(now, before, name, report);
    if (r >= 0)
        r = report_fork(now, name, report);
    return r < 0 ? r : report_missing(now, report);
}

/* ---- the document ---- */

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)MIN(value, (uint64_t)INT64_MAX));
}

static json_t *commands_json(const struct redis_remote *now)
{
    json_t *all = json_array();
    array_foreach (&now->commands, c)
        if (c->calls || c->refused)
            json_array_append_new(all, json_pack("{s:s, s:o, s:o, s:o, s:o}", "name", c->name, "calls_count",
                                                 number(c->calls), "executed_ns",
                                                 number(c->time_us * NS_PER_US), "refused_count",
                                                 number(c->refused), "failed_count", number(c->failed)));
    return all;
}

static json_t *slow_json(const struct redis_remote *now)
{
    json_t *all = json_array();
    array_foreach (&now->slow, s)
        json_array_append_new(all, json_pack("{s:o, s:I, s:o, s:s, s:s}", "id", number(s->id), "unix_s",
                                             (json_int_t)s->at_s, "took_ns", number(s->took_us * NS_PER_US),
                                             "command", s->command, "client", s->client));
    return all;
}

static json_t *latency_json(const struct redis_remote *now)
{
    json_t *all = json_array();
    array_foreach (&now->latency, l)
        json_array_append_new(all,
                              json_pack("{s:s, s:I, s:o, s:o}", "event", l->event, "unix_s",
                                        (json_int_t)l->at_s, "latest_ns", number(l->latest_ms * NS_PER_MS),
                                        "worst_ns", number(l->worst_ms * NS_PER_MS)));
    return all;
}

static json_t *nodes_json(const struct redis_remote *now)
{
    json_t *all = json_array();
    array_foreach (&now->nodes, n)
        json_array_append_new(all,
                              json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", n->id, "address", n->address,
                                        "flags", n->flags, "link", n->link, "slots_count", number(n->slots)));
    return all;
}

json_t *redis_remote_json(const struct redis_remote *now, const struct redis_remote *before, const char *name)
{
    json_t *info = json_object();
    array_foreach (&now->info, line)
        json_object_set_new(info, line->name, json_string(line->value));
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "name", name, "version",
                     redis_remote_text(now, "redis_version"), "mode", redis_remote_text(now, "redis_mode"),
                     "interval_ns", number(now->at_ns - before->at_ns), "commands", commands_json(now),
                     "slow_log", slow_json(now), "latency_events", latency_json(now), "nodes",
                     nodes_json(now), "info", info);
}
