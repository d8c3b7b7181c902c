/* What the command line of sonde profile says. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROFILE_OPTIONS_H
#define CLI_PROFILE_OPTIONS_H

#include <stdbool.h>

#include "cli/options.h"
#include "profile/business.h"
#include "profile/sampler.h"
#include "steer/certainty.h"
#include "steer/keeping.h"
#include "steer/rate.h"

struct profile_options {
    struct sampler_options sampler;
    uint32_t frequency; /* 0: the usual one */
    bool no_kernel, no_inline;
    const char *output, *format, *event;
    const char *trace;          /* the recording that it is taken beside */
    const char *push, *service; /* where the profile is sent, and under which name */
    struct business_rules rules;
    double seconds;
    double prune;             /* threads are kept that have this many per cent of their process; 0: all are */
    struct rate_options rate; /* when the rate follows the load */
    double every, hit_limit;
    double unwind_mb;      /* of --unwind-mb; 0: not said */
    double alloc_interval; /* of --alloc-interval; 0: not said */
    double window_s;       /* 0: the usual one */
    bool adaptive;
    double tune;       /* the acceptable error in per cent: recommend what to set; 0: no */
    const char *store; /* windows are kept there; NULL: nowhere */
    struct store_options retention;
    double quota_mb;     /* of them; 0: the usual one */
    double cost_percent; /* of all CPUs' time that sonde may take: the rate falls for that; 0: any */
    bool cost_said;
    const char *metrics;            /* the address where functions are told to Prometheus; NULL: nowhere */
    struct certainty_target target; /* to be reached; error 0: none */
    uint32_t top;
    bool business, runtimes, quiet, merge, json, by_service;
    bool keep_threads; /* they are told apart in what comes out, not only while pruning */
    char **command;
    pid_t pids[256];
    const char *names[32]; /* of programs, whose processes are among pids */
    size_t name_count;
    char container[128]; /* the id of one that was named */
};

/* The table of options, for struct command. */
extern const struct option_group profile_option_groups[];
bool profile_keeps_operand(const char *operand, const void *options);

/* -1 to go on, else the exit status: an error or help was printed. ret_unit: of the event's weights. */
int profile_options_parse(const struct command *self, int argc, char **argv, struct profile_options *options,
                          const char **ret_unit);

void profile_options_done(struct profile_options *options);

/* A container's name becomes what its processes' cgroups are called. The same. */
int profile_options_find_container(struct profile_options *options);

#endif
