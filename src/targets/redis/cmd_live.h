/* `sonde redis --follow`: what Redis servers do, while they are being recorded. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_CMD_LIVE_H
#define TARGETS_REDIS_CMD_LIVE_H

#include <stdbool.h>
#include <stdint.h>

/* Which commands are printed one by one. */
struct redis_each {
    bool wanted;
    const char *name;   /* "get", "CONFIG SET"; NULL: any */
    const char *client; /* its id, its address, or that with its port; NULL: any */
    uint64_t least_ns;  /* that executed for so long */
};

struct redis_live_options {
    const char *folder;
    bool json;
    int recorder;      /* becomes readable when the recorder is gone; -1: nobody says so */
    double interval_s; /* from one view to the next */
    uint64_t slow_command_ns;
    struct redis_each each;
};

/* Shows what happens until the recording is complete, or a signal comes: on a terminal in place, else a line
 * for each server and interval, with json a document in a line each. EXIT_DONE, or an exit status after
 * saying what went wrong. */
int redis_live_run(const struct redis_live_options *options);

#endif
