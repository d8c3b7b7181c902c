/* See profile_options.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/processes.h"
#include "cli/profile_event.h"

#define STORE_HZ       20
#define STORE_COST     0.15        /* per cent of all CPUs */
#define ALLOC_INTERVAL (512 << 10) /* bytes: as Go and tcmalloc sample */
#define HIT_LIMIT      5000        /* a second */

void profile_options_done(struct profile_options *o)
{
    business_rules_done(&o->rules);
}

int profile_options_find_container(struct profile_options *o)
{
    struct problem problem;
    struct text known = {0};
    const char *name = o->sampler.cgroup;
    if (!name || processes_in_cgroup(name))
        return 0;
    if (container_named(name, o->container, sizeof(o->container)) && processes_in_cgroup(o->container)) {
        o->sampler.cgroup = o->container;
        return 0;
    }
    cgroups_list(8, &known);
    problem_set(&problem, -ESRCH, "no process is in a container or cgroup called '%s'", name);
    if (known.length)
        problem_remedy(&problem, "There are: %s; /proc/PID/cgroup has the whole of a path.",
                       text_get(&known));
    text_done(&known);
    return cli_fail(EXIT_EMPTY, &problem);
}

/* ---- the table ---- */

static int take_rules(const char *path, void *into, struct problem *problem)
{
    struct profile_options *o = into;
    struct problem wrong = {0};
    _cleanup_(freep) char *text = NULL;
    int r = file_read(path, 1 << 20, &text, NULL);
    if (r < 0)
        return problem_set(problem, r, "%s: %s", path, strerror(-r));
    r = business_rules_read(&o->rules, text, &wrong);
    return r < 0 ? problem_set(problem, r, "%s: %s", path, wrong.what) : 0;
}

static int take_adaptive(const char *name, void *into, struct problem *problem)
{
    struct profile_options *o = into;
    const struct rate_options *preset = rate_preset(name ? name : "usual");
    if (!preset)
        return problem_set(problem, -EINVAL, "invalid preset '%s' (usual, paper, paper-fine)", name);
    o->rate = *preset;
    o->adaptive = true;
    return 0;
}

static int take_error(const char *value, void *into, struct problem *problem)
{
    struct profile_options *o = into;
    return certainty_target_read(value, &o->target) < 0
               ? problem_set(problem, -EINVAL, "invalid target '%s' (ERROR%%@SHARE%%, as in 5%%@1%%)", value)
               : 0;
}

/* A percentage from least to 100 that may be left out. */
static int take_percent(const char *value, double least, double usual, double *to, struct problem *problem)
{
    *to = usual;
    return value && !cli_number(value, least, 100, to)
               ? problem_set(problem, -EINVAL, "invalid percentage '%s' (%g to 100)", value, least)
               : 0;
}

static int take_cost(const char *value, void *into, struct problem *problem)
{
    struct profile_options *o = into;
    o->cost_said = true;
    return cli_number(value, 0, 100, &o->cost_percent)
               ? 0
               : problem_set(problem, -EINVAL, "invalid percentage '%s' (0 to 100)", value);
}

static int take_tune(const char *value, void *into, struct problem *problem)
{
    return take_percent(value, 0.001, 1, &((struct profile_options *)into)->tune, problem);
}

static int take_prune(const char *value, void *into, struct problem *problem)
{
    return take_percent(value, 1, 99, &((struct profile_options *)into)->prune, problem);
}

static int take_off_cpu_min(const char *value, void *into, struct problem *problem)
{
    double ms;
    if (!cli_number(value, 0, 1e9, &ms))
        return problem_set(problem, -EINVAL, "invalid duration '%s' (milliseconds)", value);
    ((struct profile_options *)into)->sampler.off_cpu_min_ns = (uint64_t)(ms * (double)NS_PER_MS);
    return 0;
}

static int take_wakers(const char *value, void *into, struct problem *problem)
{
    struct profile_options *o = into;
    if (value && strcmp(value, "stacks") != 0)
        return problem_set(problem, -EINVAL, "invalid value '%s' (stacks, or none)", value);
    o->sampler.wakers = true;
    o->sampler.waker_stacks |= value != NULL;
    return 0;
}

static int take_process(const char *name, void *into, struct problem *problem)
{
    struct profile_options *o = into;
    if (o->name_count == ARRAY_SIZE(o->names))
        return problem_set(problem, -E2BIG, "more than %zu names", ARRAY_SIZE(o->names));
    o->names[o->name_count++] = name;
    return 0;
}

#define AT(member) offsetof(struct profile_options, member)

static const struct option_row ROWS[] = {
    {"output", 'o', "FILE", "where to write; - with --format: standard output", OPTION_TEXT,
     .at = AT(output)},
    {"format", 'f', "FORMAT", "folded, pprof, html, speedscope, firefox, otlp", OPTION_TEXT,
     .at = AT(format)},
    {"frequency", 'F', "N", "samples per second and CPU (99)", OPTION_COUNT, 1, 50000, AT(frequency)},
    {"error", .value = "E%[@A%]",
     .text =
         "stop when every function that takes A (1) % or more is known to E % of its share, at 95 %; report "
         "when that cannot be reached in the time that --duration allows",
     .type = OPTION_CALL, .take = take_error},
    {"store", .value = "DIR",
     .text =
         "run for weeks: keep windows of 10 seconds, a minute, an hour in DIR, at 20 Hz unless --frequency "
         "says otherwise; sonde diff --since compares them",
     .type = OPTION_TEXT, .at = AT(store)},
    {"store-quota", .value = "MB", .text = "remove the oldest windows when all take more than this (1074)",
     .type = OPTION_NUMBER, .least = 1, .most = 1e9, .at = AT(quota_mb)},
    {"cost", .value = "PERCENT",
     .text = "take at most PERCENT of the time of all CPUs, in the long run, by sampling less often than "
             "--frequency says (0.15 with --store where that is not given; 0: no limit)",
     .type = OPTION_CALL, .take = take_cost},
    {"metrics", .value = "ADDRESS",
     .text = "with --store: export what the hottest functions of each service took to Prometheus, at "
             "http://ADDRESS/metrics (127.0.0.1:9477)",
     .type = OPTION_TEXT, .at = AT(metrics)},
    {"tune", .value = "[=PERCENT]",
     .text =
         "recommend settings for what is sampled: how far --prune may go for an error of PERCENT (1), what "
         "a change of the hot functions is, and whether they change periodically",
     .type = OPTION_CALL, .take = take_tune},
    {"adaptive", .value = "[=PRESET]",
     .text =
         "let the rate follow the load: up at once when other functions become hot, down while nothing "
         "changes; on average at most 8 % of 999 Hz (usual; paper, paper-fine: the values of the Atys paper)",
     .type = OPTION_CALL, .take = take_adaptive},
    {"window", .value = "SECONDS", .text = "how often --adaptive decides (10)", .type = OPTION_NUMBER,
     .least = 1, .most = 3600, .at = AT(window_s)},
    {"duration", 'd', "SECONDS", "stop after this time (until Ctrl-C or the end)", OPTION_SECONDS,
     .at = AT(seconds)},
    {"all", 'a', .text = "the whole machine", .type = OPTION_FLAG, .at = AT(sampler.whole_machine)},
    {"container", 'c', "NAME",
     "a container of Docker or Podman, or processes whose cgroup path contains NAME", OPTION_TEXT,
     .at = AT(sampler.cgroup)},
    {"process", 'p', "NAME", "processes that run a program or script of this name, with their children",
     OPTION_CALL, .take = take_process},
    {"event", 'e', "EVENT",
     "cpu, wall, off-cpu, lock (who waits for which lock, and who holds it), alloc (who allocates, and what "
     "is "
     "not freed), alloc-live, block (who makes requests to disks), block-time, connect (who opens TCP "
     "connections), connect-time, page-faults, context-switches, cycles, instructions, rNNN ...; or a place: "
     "CATEGORY:NAME (a tracepoint), uprobe:BINARY:FUNCTION, usdt:BINARY:PROVIDER:NAME",
     OPTION_TEXT, .at = AT(event)},
    {"alloc-interval", .value = "BYTES",
     .text = "with --event alloc: how many bytes one sample stands for (524288); 1: every allocation",
     .type = OPTION_NUMBER, .least = 1, .most = 1e12, .at = AT(alloc_interval)},
    {"unwind-mb", .value = "MB",
     .text = "room for the rules by which stacks of programs are walked (32): for large ones, such as "
             "compilers",
     .type = OPTION_NUMBER, .least = 1, .most = 1024, .at = AT(unwind_mb)},
    {"every", .value = "N",
     .text = "with block, connect or an event that is a place: take a stack at each N-th (1)",
     .type = OPTION_NUMBER, .least = 1, .most = 1e12, .at = AT(every)},
    {"hit-limit", .value = "N",
     .text =
         "with block, connect or an event that is a place: take at most about N stacks a second on a CPU, "
         "and stop when a probe in a program is hit more than N times a second, anything else ten times "
         "that (5000)",
     .type = OPTION_NUMBER, .least = 1, .most = 1e9, .at = AT(hit_limit)},
    {"off-cpu-min", .value = "MS", .text = "leave out shorter waits (1; 0 with --event lock)",
     .type = OPTION_CALL, .take = take_off_cpu_min},
    {"wakers", .value = "[=stacks]",
     .text = "name what ended each wait in its innermost frame: a thread, a timer, an interrupt; with "
             "stacks, followed by that thread's stack, and by what had woken it",
     .type = OPTION_CALL, .take = take_wakers},
    {"idle", .text = "include idle waits: those of event loops and workers without work, left out otherwise",
     .type = OPTION_FLAG, .at = AT(sampler.idle)},
    {"threads", .text = "separate threads", .type = OPTION_FLAG, .at = AT(sampler.by_thread)},
    {"prune", .value = "[=PERCENT]",
     .text = "keep the busiest threads that have PERCENT (99) of each process; the others become one, [rare "
             "threads]; the error that this causes is measured and reported",
     .type = OPTION_CALL, .take = take_prune},
    {"by-service", .text = "merge processes of one name, and their threads of one name", .type = OPTION_FLAG,
     .at = AT(by_service)},
    {"lines", .text = "separate the lines of a function", .type = OPTION_FLAG, .at = AT(sampler.lines)},
    {"no-inline", .text = "count inlined functions as part of the function that they are inlined into",
     .type = OPTION_FLAG, .at = AT(no_inline)},
    {"no-kernel", .text = "leave out the kernel's frames", .type = OPTION_FLAG, .at = AT(no_kernel)},
    {"business", .text = "rank the application's functions with the library cost they cause",
     .type = OPTION_FLAG, .at = AT(business)},
    {"rules", .value = "FILE",
     .text = "what is library code and what is the application's: lines of \"[LANGUAGE] application|library "
             "TEXT\"",
     .type = OPTION_CALL, .take = take_rules},
    {"json",
     .text = "print one JSON document: findings (hot functions, outlier instances and threads) and "
             "functions",
     .type = OPTION_FLAG, .at = AT(json)},
    {"trace", .value = "DIR",
     .text = "add the samples to the recording in DIR of the same processes: `sonde spans` shows which "
             "functions ran in a span",
     .type = OPTION_TEXT, .at = AT(trace)},
    {"push", .value = "URL",
     .text = "send the profile to Pyroscope (.../ingest) or an OpenTelemetry collector "
             "(.../v1development/profiles)",
     .type = OPTION_TEXT, .at = AT(push)},
    {"service", .value = "NAME", .text = "the service name to send it under", .type = OPTION_TEXT,
     .at = AT(service)},
    {"runtimes", .text = "print what runs in each process, and which unwinders served its threads",
     .type = OPTION_FLAG, .at = AT(runtimes)},
    {"top", 'n', "N", "how many functions to list (30)", OPTION_COUNT, 1, 1e9, AT(top)},
    {"merge", .text = "no sampling: add up the profiles FILE... (pprof, folded) of instances or nodes",
     .type = OPTION_FLAG, .at = AT(merge)},
    {"quiet", 'q', .text = "no summary", .type = OPTION_FLAG, .at = AT(quiet)},
    {NULL}};

const struct option_group profile_option_groups[] = {{ROWS, 0}, {NULL}};

/* ---- the command line ---- */

static bool is_number(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text);
}

bool profile_keeps_operand(const char *operand, const void *into)
{
    const struct profile_options *o = into;
    return o->merge || is_number(operand);
}

static int too_many(const struct command *self, const struct profile_options *o)
{
    return cli_usage(self, "%zu processes at most; --all and --container watch more", ARRAY_SIZE(o->pids));
}

/* Processes that are called so, to those that are watched. */
static int add_named(const struct command *self, struct profile_options *o, const char *name)
{
    struct problem problem;
    size_t room = ARRAY_SIZE(o->pids) - o->sampler.pid_count,
           count = processes_named(name, o->pids + o->sampler.pid_count, room);
    if (count == room)
        return too_many(self, o);
    o->sampler.pid_count += count;
    if (count)
        return 0;
    problem_set(&problem, -ESRCH, "no process runs a program or script called '%s'", name);
    return cli_fail(EXIT_EMPTY, &problem);
}

/* What is no option: profiles to merge, or processes, and what follows them (after "--" anything) is the
 * command. */
static int take_operands(const struct command *self, char **operands, struct profile_options *o)
{
    char **rest = operands;
    if (o->merge) {
        o->command = operands;
        for (char **at = operands; *at; at++)
            if (strcmp(*at, "--") != 0)
                *rest++ = *at;
        *rest = NULL;
        return *operands ? -1 : cli_usage(self, "missing profiles to merge");
    }
    for (; *rest && is_number(*rest); rest++) {
        if (o->sampler.pid_count == ARRAY_SIZE(o->pids))
            return too_many(self, o);
        o->pids[o->sampler.pid_count++] = atoi(*rest);
    }
    rest += *rest && strcmp(*rest, "--") == 0;
    for (size_t i = 0; i < o->name_count; i++) {
        int r = add_named(self, o, o->names[i]);
        if (r)
            return r;
    }
    o->sampler.pids = o->pids;
    o->command = *rest ? rest : NULL;
    if (o->command && o->sampler.pid_count)
        return cli_usage(self, "processes (PID...) or a command, not both: '%s' is no process number",
                         *o->command);
    if (o->sampler.pid_count && o->sampler.whole_machine)
        return cli_usage(self, "processes (PID... or --process), or --all or --container: one of them");
    if (!o->command && !o->sampler.pid_count && !o->sampler.whole_machine)
        return cli_usage(self, "missing command, processes (PID...) or --all");
    return -1;
}

int profile_options_parse(const struct command *self, int argc, char **argv, struct profile_options *o,
                          const char **ret_unit)
{
    o->event = "cpu";
    o->retention = STORE_USUAL;
    int first, r = options_parse(self, argc, argv, o, &first);
    if (r >= 0)
        return r;
    if (o->quota_mb > 0)
        o->retention.quota_bytes = (uint64_t)(o->quota_mb * 1e6);
    if (o->frequency)
        o->sampler.frequency = o->frequency;
    o->sampler.kernel = !o->no_kernel;
    o->sampler.inlined = !o->no_inline;
    o->sampler.whole_machine |= o->sampler.cgroup != NULL;
    o->sampler.threads |= o->runtimes;
    o->sampler.by_thread |= o->json;
    o->keep_threads = o->sampler.by_thread;
    o->sampler.by_thread |= o->prune > 0;
    if (!profile_event_set(o->event, &o->sampler, ret_unit))
        return cli_usage(self, "'%s' is not an event", o->event);
    if (o->sampler.off_cpu_min_ns == UINT64_MAX)
        o->sampler.off_cpu_min_ns = o->sampler.locks ? 0 : NS_PER_MS;
    if (o->sampler.locks && (o->store || o->tune > 0 || o->prune > 0 || o->target.error > 0 || o->merge))
        return cli_usage(
            self, "--event lock counts every wait, in one go: not with --store, --tune, --prune, --error "
                  "or --merge");
    o->sampler.map_bytes = (size_t)(o->unwind_mb * (1 << 20)); /* 0: as usual */
    o->sampler.alloc_interval = o->alloc_interval > 0 ? (uint64_t)o->alloc_interval : ALLOC_INTERVAL;
    if (o->alloc_interval > 0 && !o->sampler.allocs)
        return cli_usage(self, "--alloc-interval is about allocations: with --event alloc or alloc-live");
    if (o->sampler.allocs && o->sampler.whole_machine)
        return cli_usage(self,
                         "each call of malloc() takes a trap into the kernel while --event %s watches: "
                         "name processes (PID..., --process NAME) or a command, not --all or "
                         "--container",
                         o->event);
    if (o->sampler.allocs && (o->store || o->tune > 0 || o->prune > 0 || o->target.error > 0 || o->merge))
        return cli_usage(self,
                         "--event %s samples by bytes, in one go: not with --store, --tune, --prune, "
                         "--error or --merge",
                         o->event);
    o->sampler.hit_every = o->every > 0 ? (uint64_t)o->every : 1;
    o->sampler.hit_limit = o->hit_limit > 0 ? (uint64_t)o->hit_limit : HIT_LIMIT;
    if ((o->every > 0 || o->hit_limit > 0) && !o->sampler.hits)
        return cli_usage(self,
                         "--every and --hit-limit are about places and requests: with --event CATEGORY:NAME, "
                         "uprobe:..., usdt:..., block or connect");
    if (o->sampler.hits && (o->store || o->tune > 0 || o->target.error > 0 || o->merge))
        return cli_usage(self, "--event %s counts every one: not with --store, --tune, --error or --merge",
                         o->event);
    if (o->sampler.wakers && !o->sampler.off_cpu)
        return cli_usage(self, "--wakers says who ended waits: with --event off-cpu or wall");
    if (o->sampler.idle && !o->sampler.off_cpu && !o->sampler.locks)
        return cli_usage(self, "--idle is about waits: with --event off-cpu, wall or lock");
    if (o->trace && (o->merge || strcmp(o->event, "cpu") != 0))
        return cli_usage(self, "only samples of --event cpu, taken now, can go into a trace");
    if (o->window_s > 0)
        o->rate.window_s = o->window_s;
    if (o->adaptive && !o->frequency)
        o->sampler.frequency = (unsigned)o->rate.first;
    if (o->adaptive && (o->merge || strcmp(o->event, "cpu") != 0))
        return cli_usage(self, "--adaptive changes the rate of --event cpu while it samples");
    o->sampler.rises = o->adaptive;
    if (o->target.error > 0 && (o->merge || o->adaptive))
        return cli_usage(self, "--error says when sampling at one rate ends: not with %s",
                         o->merge ? "--merge" : "--adaptive");
    if (o->store &&
        (o->merge || o->adaptive || o->target.error > 0 || o->output || o->json || o->push || o->trace))
        return cli_usage(self,
                         "--store keeps windows in a directory, at one rate, and excludes other outputs");
    if (o->cost_percent > 0 && (o->merge || o->adaptive || o->tune > 0 || o->target.error > 0))
        return cli_usage(self, "--cost changes the rate by what sampling costs: not with --merge, "
                               "--adaptive, --tune or --error");
    if (o->cost_percent > 0 && strcmp(o->event, "cpu") != 0)
        return cli_usage(self, "--cost changes the rate of --event cpu");
    if (o->store && !o->cost_said && !o->frequency && strcmp(o->event, "cpu") == 0)
        o->cost_percent = STORE_COST;
    if (o->metrics && (!o->store || strcmp(o->event, "cpu") != 0))
        return cli_usage(self, "--metrics exports what --store keeps of --event cpu");
    if (o->tune > 0 &&
        (o->merge || o->adaptive || o->store || o->target.error > 0 || o->prune > 0 || o->output))
        return cli_usage(self, "--tune samples at one rate and only says what to set: no other output or way "
                               "to sample goes with it");
    if (o->tune > 0) {
        o->rate = RATE_USUAL;
        o->rate.least = o->rate.most = o->sampler.frequency;
        o->rate.budget = 0;
        o->rate.window_s = o->window_s > 0 ? o->window_s : o->rate.window_s;
        o->adaptive = o->sampler.by_thread = true;
    }
    if (o->store && o->window_s > 0 && o->window_s != 1 && o->window_s != 2 && o->window_s != 5 &&
        o->window_s != 10)
        return cli_usage(self, "the windows of a store are of 1, 2, 5 or 10 seconds");
    if (o->store && !(o->window_s > 0))
        o->rate.window_s = 10;
    if (o->store && !o->frequency)
        o->sampler.frequency = STORE_HZ;
    return take_operands(self, argv + first, o);
}
