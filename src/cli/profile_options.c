/* See profile_options.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/processes.h"
#include "cli/profile_event.h"

#define STORE_HZ 20

static int read_rules(const struct command *self, struct profile_options *o, const char *path)
{
    _cleanup_(freep) char *text = NULL;
    struct problem problem = {0};
    int r = file_read(path, 1 << 20, &text, NULL);
    if (r < 0)
        return cli_usage(self, "%s: %s", path, strerror(-r));
    r = business_rules_read(&o->rules, text, &problem);
    return r < 0 ? cli_usage(self, "%s: %s", path, problem.what) : 0;
}

void profile_options_done(struct profile_options *o)
{
    business_rules_done(&o->rules);
}

/* What is no option at optind: a process, or a file to merge; else it begins the command. */
static bool is_operand(const struct profile_options *o, char **argv)
{
    const char *text = argv[optind];
    return strcmp(argv[optind - 1], "--") != 0 &&
           (o->merge || (*text && strspn(text, "0123456789") == strlen(text)));
}

/* Processes that are called so, to those that are watched. */
static int add_named(const struct command *self, struct profile_options *o, const char *name)
{
    struct problem problem;
    size_t room = ARRAY_SIZE(o->pids) - o->sampler.pid_count,
           count = processes_named(name, o->pids + o->sampler.pid_count, room);
    if (count == room)
        return cli_usage(self, "%zu processes at most; --all and --container watch more",
                         ARRAY_SIZE(o->pids));
    o->sampler.pid_count += count;
    if (count)
        return 0;
    problem_set(&problem, -ESRCH, "no process runs a program or script called '%s'", name);
    return cli_fail(EXIT_EMPTY, &problem);
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

int profile_options_parse(const struct command *self, int argc, char **argv, struct profile_options *o,
                          const char **ret_unit)
{
    enum {
        NO_KERNEL = 256,
        LINES,
        NO_INLINE,
        OFF_MIN,
        BUSINESS,
        RUNTIMES,
        THREADS,
        MERGE,
        JSON,
        RULES,
        PUSH,
        SERVICE,
        BY_SERVICE,
        TRACE,
        PRUNE,
        ADAPTIVE,
        WINDOW,
        TARGET,
        STORE,
        QUOTA,
        METRICS,
        WAKERS,
        TUNE,
    };
    static const struct option LONG[] = {{"output", required_argument, NULL, 'o'},
                                         {"format", required_argument, NULL, 'f'},
                                         {"frequency", required_argument, NULL, 'F'},
                                         {"duration", required_argument, NULL, 'd'},
                                         {"all", no_argument, NULL, 'a'},
                                         {"container", required_argument, NULL, 'c'},
                                         {"process", required_argument, NULL, 'p'},
                                         {"event", required_argument, NULL, 'e'},
                                         {"off-cpu-min", required_argument, NULL, OFF_MIN},
                                         {"no-kernel", no_argument, NULL, NO_KERNEL},
                                         {"lines", no_argument, NULL, LINES},
                                         {"no-inline", no_argument, NULL, NO_INLINE},
                                         {"business", no_argument, NULL, BUSINESS},
                                         {"runtimes", no_argument, NULL, RUNTIMES},
                                         {"threads", no_argument, NULL, THREADS},
                                         {"top", required_argument, NULL, 'n'},
                                         {"quiet", no_argument, NULL, 'q'},
                                         {"merge", no_argument, NULL, MERGE},
                                         {"json", no_argument, NULL, JSON},
                                         {"rules", required_argument, NULL, RULES},
                                         {"push", required_argument, NULL, PUSH},
                                         {"service", required_argument, NULL, SERVICE},
                                         {"by-service", no_argument, NULL, BY_SERVICE},
                                         {"trace", required_argument, NULL, TRACE},
                                         {"prune", optional_argument, NULL, PRUNE},
                                         {"adaptive", optional_argument, NULL, ADAPTIVE},
                                         {"window", required_argument, NULL, WINDOW},
                                         {"error", required_argument, NULL, TARGET},
                                         {"store", required_argument, NULL, STORE},
                                         {"store-quota", required_argument, NULL, QUOTA},
                                         {"wakers", no_argument, NULL, WAKERS},
                                         {"metrics", required_argument, NULL, METRICS},
                                         {"tune", optional_argument, NULL, TUNE},
                                         {0}};
    const char *event = "cpu";
    o->retention = STORE_USUAL;
    int files = 0, r;
    bool frequency_given = false;
    double number, window_s = 0;
    for (;;) {
        int c = getopt_long(argc, argv, "+o:f:F:d:ac:p:e:n:q", LONG, NULL);
        if (c == -1 && optind < argc && is_operand(o, argv)) { /* options may come behind it, too */
            if (o->merge)
                argv[1 + files++] = argv[optind++];
            else if (o->sampler.pid_count == ARRAY_SIZE(o->pids))
                return cli_usage(self, "%zu processes at most; --all and --container watch more",
                                 ARRAY_SIZE(o->pids));
            else
                o->pids[o->sampler.pid_count++] = atoi(argv[optind++]);
            continue;
        }
        if (c == -1)
            break;
        switch (c) {
        case 'o':
            o->output = optarg;
            break;
        case 'f':
            o->format = optarg;
            break;
        case 'F':
            if (!cli_number(optarg, 1, 50000, &number))
                return cli_usage(self, "a frequency is 1 to 50000 samples per second");
            o->sampler.frequency = (unsigned)number;
            frequency_given = true;
            break;
        case 'd':
            if (!cli_number(optarg, 0.001, 1e9, &o->seconds))
                return cli_usage(self, "--duration takes seconds, not '%s'", optarg);
            break;
        case 'a':
            o->sampler.whole_machine = true;
            break;
        case 'c':
            o->sampler.whole_machine = true;
            o->sampler.cgroup = optarg;
            break;
        case 'p':
            if ((r = add_named(self, o, optarg)))
                return r;
            break;
        case 'e':
            event = optarg;
            break;
        case OFF_MIN:
            if (!cli_number(optarg, 0, 1e9, &number))
                return cli_usage(self, "--off-cpu-min takes milliseconds, not '%s'", optarg);
            o->sampler.off_cpu_min_ns = (uint64_t)(number * 1e6);
            break;
        case NO_KERNEL:
            o->sampler.kernel = false;
            break;
        case LINES:
            o->sampler.lines = true;
            break;
        case NO_INLINE:
            o->sampler.inlined = false;
            break;
        case BUSINESS:
            o->business = true;
            break;
        case RUNTIMES:
            o->runtimes = o->sampler.threads = true;
            break;
        case THREADS:
            o->sampler.by_thread = true;
            break;
        case 'n':
            if (!cli_number(optarg, 1, 1e9, &number))
                return cli_usage(self, "--top takes a number of functions, not '%s'", optarg);
            o->top = (unsigned)number;
            break;
        case MERGE:
            o->merge = true;
            break;
        case JSON:
            o->json = true;
            o->sampler.by_thread = true;
            break;
        case RULES:
            if (read_rules(self, o, optarg))
                return EXIT_USAGE;
            break;
        case PUSH:
            o->push = optarg;
            break;
        case SERVICE:
            o->service = optarg;
            break;
        case BY_SERVICE:
            o->by_service = true;
            break;
        case TRACE:
            o->trace = optarg;
            break;
        case ADAPTIVE:
            if (!rate_preset(optarg ? optarg : "usual"))
                return cli_usage(self, "--adaptive takes usual, paper or paper-fine, not '%s'", optarg);
            o->rate = *rate_preset(optarg ? optarg : "usual");
            o->adaptive = true;
            break;
        case TARGET:
            if (certainty_target_read(optarg, &o->target) < 0)
                return cli_usage(self, "--error takes ERROR%%@SHARE%% (5%%@1%%), not '%s'", optarg);
            break;
        case TUNE:
            o->tune = 1;
            if (optarg && !cli_number(optarg, 0.001, 100, &o->tune))
                return cli_usage(self, "--tune takes the acceptable error in per cent, not '%s'", optarg);
            break;
        case STORE:
            o->store = optarg;
            break;
        case QUOTA:
            if (!cli_number(optarg, 1, 1e9, &number))
                return cli_usage(self, "--store-quota takes megabytes, not '%s'", optarg);
            o->retention.quota_bytes = (uint64_t)(number * 1e6);
            break;
        case WAKERS:
            o->sampler.wakers = true;
            break;
        case METRICS:
            o->metrics = optarg;
            break;
        case WINDOW:
            if (!cli_number(optarg, 1, 3600, &window_s))
                return cli_usage(self, "--window takes seconds (1 to 3600), not '%s'", optarg);
            break;
        case PRUNE:
            o->prune = 99;
            if (optarg && (!cli_number(optarg, 1, 100, &o->prune)))
                return cli_usage(self,
                                 "--prune takes the percentage of each process that is kept (1 to 100), "
                                 "not '%s'",
                                 optarg);
            break;
        case 'q':
            o->quiet = true;
            break;
        default:
            return cli_usage(self, "unknown option");
        }
    }
    o->event = event;
    o->keep_threads = o->sampler.by_thread;
    o->sampler.by_thread |= o->prune > 0;
    if (!profile_event_set(event, &o->sampler, ret_unit))
        return cli_usage(self, "'%s' is not an event", event);
    if (o->sampler.wakers && !o->sampler.off_cpu)
        return cli_usage(self, "--wakers says who ended waits: with --event off-cpu or wall");
    if (o->trace && (o->merge || strcmp(event, "cpu") != 0))
        return cli_usage(self, "only samples of --event cpu, taken now, can go into a trace");
    if (window_s > 0)
        o->rate.window_s = window_s;
    if (o->adaptive && !frequency_given) /* first a reference */
        o->sampler.frequency = (unsigned)o->rate.most;
    if (o->adaptive && (o->merge || strcmp(event, "cpu") != 0))
        return cli_usage(self, "--adaptive changes the rate of --event cpu while it samples");
    if (o->target.error > 0 && (o->merge || o->adaptive))
        return cli_usage(self, "--error says when sampling at one rate ends: not with %s",
                         o->merge ? "--merge" : "--adaptive");
    if (o->store &&
        (o->merge || o->adaptive || o->target.error > 0 || o->output || o->json || o->push || o->trace))
        return cli_usage(self,
                         "--store keeps windows in a directory, at one rate, and excludes other outputs");
    if (o->metrics && (!o->store || strcmp(event, "cpu") != 0))
        return cli_usage(self, "--metrics tells what --store keeps of --event cpu");
    if (o->tune > 0 &&
        (o->merge || o->adaptive || o->store || o->target.error > 0 || o->prune > 0 || o->output))
        return cli_usage(self, "--tune samples at one rate and only says what to set: no other output or way "
                               "to sample goes with it");
    if (o->tune > 0) {
        o->rate = RATE_USUAL;
        o->rate.least = o->rate.most = o->sampler.frequency;
        o->rate.window_s = window_s > 0 ? window_s : o->rate.window_s;
        o->adaptive = o->sampler.by_thread = true;
    }
    if (o->store && window_s > 0 && window_s != 1 && window_s != 2 && window_s != 5 && window_s != 10)
        return cli_usage(self, "the windows of a store are of 1, 2, 5 or 10 seconds");
    if (o->store && !(window_s > 0))
        o->rate.window_s = 10;
    if (o->store && !frequency_given)
        o->sampler.frequency = STORE_HZ;
    while (o->merge && optind < argc)
        argv[1 + files++] = argv[optind++];
    if (o->merge) {
        argv[1 + files] = NULL;
        o->command = argv + 1;
        return files ? 0 : cli_usage(self, "which profiles are to be merged?");
    }
    o->sampler.pids = o->pids;
    if (optind < argc)
        o->command = argv + optind;
    if (o->command && o->sampler.pid_count)
        return cli_usage(self, "processes (PID...) or a command, not both: '%s' is no process number",
                         *o->command);
    if (o->sampler.pid_count && o->sampler.whole_machine)
        return cli_usage(self, "processes (PID... or --process), or --all or --container: one of them");
    if (!o->command && !o->sampler.pid_count && !o->sampler.whole_machine)
        return cli_usage(self, "which command, processes (PID...) or --all?");
    return 0;
}
