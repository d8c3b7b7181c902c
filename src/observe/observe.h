/* Observing programs while they run: starting one, attaching to some, recording, stopping. What the command
 * line, an agent or a page does with programs goes through here.
 *
 *     struct observe_options options = {.folder = "/tmp/trace", .duration_ns = 10 * NS_PER_S};
 *     struct observation *o;
 *     struct observe_summary summary;
 *     int r = observe_new(&options, &o, &problem);
 *     if (r >= 0)
 *         r = observe_attach(o, proc, &problem);            or observe_start(o, argv, &problem)
 *     if (r >= 0)
 *         r = observe_run(o, &problem);
 *     if (r >= 0)
 *         r = observe_end(o, &summary, &problem);
 *     observe_free(o);
 *     then folder_read() (analyze/folder.h): findings, requests, states.
 *
 * Findings while it is recorded: options.follow and analyze/live.h. Which processes: observe/choose.h.
 *
 * Nothing here prints, exits or waits for signals. One thread, and one observation at a time in a process;
 * observe_stop() may be called from any thread, and from a signal's handler. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OBSERVE_OBSERVE_H
#define OBSERVE_OBSERVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macro.h"
#include "base/problem.h"
#include "base/proc.h"
#include "event/config.h"

struct observation;

/* Zero is the usual for all of them. Strings are borrowed until observe_free(). */
struct observe_options {
    const char *folder; /* the recording's: made when absent, must not hold one; NULL: named by the time, in
                           the working directory, and removed again when nothing came of it */
    const char *probe;  /* libsonde-probe.so; NULL: observe_probe_path() */
    const char *level;  /* how much is recorded: "requests", "usual", "everything"; NULL: usual */
    const char *kernel; /* families of kernel events, "sched,tcp" or "all"; "": the usual ones; NULL: the
                           level's */
    bool no_kernel;     /* none, also when the level is changed */
    const char *budget; /* "PERCENT,MB,MB" of CPU, memory and disk; NULL: 5 %, 128 MB, no limit */
    const char *user;   /* name or number: whom a command runs as; NULL: who called sudo, else our own */
    const char *audit;  /* a file that gets a line about each attachment; NULL: the system's log */
    const char *functions; /* JavaScript functions whose calls are recorded, each on a line; NULL: none */
    bool sql;              /* statements of SQL are recorded, without values */
    const char *request_context; /* how operations are attributed to requests: "auto", "script", "native",
                                  "bounded", "off"; NULL: auto */
    uint64_t duration_ns;        /* observe_run() ends by itself after that; 0: it does not */
    uint64_t written_every_ns;   /* how often what was recorded is written; 0: every half second */
    /* Told in words, without a line break, as things happen: a stall, a program that cannot be traced. NULL:
     * nobody. */
    void (*note)(void *context, const char *line);
    /* The same for what failed while the rest goes on. NULL: note. */
    void (*warn)(void *context, const char *line);
    /* Called in a process of its own, which was made before anything of the programs was read and has no
     * descriptor of ours: to read and show what is recorded while it is. recorder becomes readable when the
     * recorder is gone. It should give up its rights first, and returns once the recording is complete; what
     * it returns is what observe_wait() does. NULL: none. */
    int (*follow)(void *context, const char *folder, int recorder);
    void *context; /* of the three */
};

/* Makes the recording's directory, and all that is needed before programs can be traced. 0 or a negative
 * errno: -EEXIST when the directory holds a recording, -EINVAL when an option is not understood, -EPERM. */
int observe_new(const struct observe_options *options, struct observation **ret_observation,
                struct problem *problem);

/* Frees all. What had not been ended with observe_end() is given up: programs are left as they were. */
void observe_free(struct observation *observation);
DEFINE_FREEP(struct observation, observe_free)

/* The recording's directory. Borrowed. */
const char *observe_folder(const struct observation *observation);

/* Starts a command with the probe loaded into it and its children; argv ends with NULL. Once. 0; -ENOENT,
 * -EACCES when it cannot be run, or another negative errno. */
int observe_start(struct observation *observation, char *const argv[], struct problem *problem);

/* Attaches to a process that runs, whose handle is shared: its functions are redirected while its threads are
 * stopped for about a millisecond. 0; -ENOTSUP when it is no program that sonde knows, -EALREADY when it is
 * traced already, -ESRCH when it has ended, -EPERM, -ETIMEDOUT, -EINTR once it was stopped. */
int observe_attach(struct observation *observation, struct proc *proc, struct problem *problem);

/* Also calls ready() during observe_run() when fd can be read, which ready() is to do. fd stays the caller's
 * and must be open until then. 0 or a negative errno. */
int observe_also_wait(struct observation *observation, int fd, void (*ready)(void *context), void *context);

/* Records until the command and what it left in the background have ended, all attached processes have, the
 * duration is over, or it was stopped. 0 or a negative errno. */
int observe_run(struct observation *observation, struct problem *problem);

/* Has observe_run() end soon. A command gets two seconds to end by itself (whoever stops an observation sends
 * it a signal, too); the second time it is left at once. */
void observe_stop(struct observation *observation);

/* Records more (1) or less (-1) from now on. */
void observe_change_level(struct observation *observation, int by);

/* The command's process while it runs; 0: there is none. */
pid_t observe_command(const struct observation *observation);

/* After observe_run(): the exit status that the command stands for, as a shell says it: 128 and the number of
 * the signal that ended it; 128 + SIGINT when it still runs; 0 without a command. */
int observe_status(const struct observation *observation);

struct observe_summary {
    unsigned programs;      /* traced, in all */
    uint64_t events, bytes; /* on disk */
    uint64_t lost;          /* events, for any reason */
    uint32_t loss_reasons;  /* a bit for each enum sonde_loss_reason that there was */
};

/* Ends the recording: what is still in memory is written, programs that live on are as they were before. 0 or
 * a negative errno. */
int observe_end(struct observation *observation, struct observe_summary *ret_summary,
                struct problem *problem);

/* After observe_end(): waits for options.follow to return. What it returned, or -ECHILD when there is none or
 * it failed. */
int observe_wait(struct observation *observation);

/* Takes the hooks out of a process that were left there by one that was killed; needs no observation.
 * *ret_hooks: how many there were. 0; -EALREADY when somebody traces it, -ENOTSUP, -EPERM, -EAGAIN. */
int observe_clean(struct proc *proc, unsigned *ret_hooks, struct problem *problem);

/* What can be traced, in words: "Node, Redis or Memcached". */
void observe_kinds(char *buffer, size_t size);

/* Where the probe is: SONDE_PROBE, beside the program, or where it was installed. The caller frees; NULL: no
 * memory. */
char *observe_probe_path(void);

#endif
