/* What is left to a command, as root, while it reads what others have made: recordings, profiles, spans. The
 * table in confine.c has a line for each such command, but for those of targets; options_parse() applies it,
 * so that a command need not think of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CONFINE_H
#define CLI_CONFINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/array.h"
#include "base/problem.h"

/* Every command reads its operands. Options are named as the command names them, with a space between. */
struct confined_command {
    const char *name;
    const char *reads;     /* options whose values are files that it reads too */
    const char *writes;    /* the option whose value is the file that it writes; - is standard output */
    const char *appends;   /* the option whose value is a file that it adds lines to, and reads */
    const char *folder;    /* "OPTION=VALUE" with which that is a directory */
    const char *keeps;     /* the option whose value is a directory that it keeps */
    const char *view;      /* unless this option is given, it writes into directories that it reads */
    const char *temporary; /* the option with which it needs a directory for temporary files; *: always */
    const char *connects;  /* options with which it sends something somewhere */
    const char *asks;      /* the option with which operands are names, to which it connects */
    bool scratch;          /* may need one temporary file */
    bool scripts;          /* looks for source maps beside the scripts that a recording names */
    bool optional;         /* an operand that is no file is a process or a port: then it records */
    bool listens;          /* has a server, and connects to what its options name */
    bool named;            /* operands are no files but names */
};

/* What a command line names, while it is read. */
struct confine {
    const struct confined_command *command; /* NULL: it is not confined */
    ARRAY(const char *) reads;
    size_t operands_at;                   /* in reads; before are values of options */
    const char *writes, *appends, *keeps; /* NULL: nothing */
    bool folder;                          /* it writes a directory */
    bool temporary, connects, asks, no_view, complete;
};

/* Of the command of that name. own: what it says itself (struct command.confined), NULL: the table says it.
 */
void confine_begin(struct confine *c, const char *command, const struct confined_command *own);

/* An option was given; value may be NULL. */
void confine_option(struct confine *c, const char *option, const char *value);

/* The command line has been read, and these are its operands. As root: has another process write what is to
 * be written (broker/writer.h), becomes the owner of what is read, and gives up all other rights, for good
 * and for all threads that are started from then on. Without root's rights nothing changes. 0 or a negative
 * errno with problem set: then nothing must be read. Ends the use of c. */
int confine_end(struct confine *c, const char *const *operands, size_t count, struct problem *problem);

/* The command line is wrong: nothing is done. Ends the use of c. */
void confine_drop(struct confine *c);

/* All of it for one that reads this one directory and writes nothing. */
int confine_reading(const char *command, const char *folder, struct problem *problem);

/* What one that samples other processes still does while it parses what they control: it reads, and what is
 * here. */
struct confine_sampler {
    const char *output, *trace, *store; /* a file and directories that it writes; NULL: none */
    const pid_t *pids;                  /* whom it samples, with all that they start; */
    size_t pid_count;                  /* 0: the child, the control group, or if there is neither everybody */
    const char *cgroup;                /* part of the path of a control group; NULL: none */
    bool connects;                     /* listens or connects */
    const char *const *marks;          /* of processes whose memory is read (sampler_marks()) */
    const struct worker_kind *readers; /* workers that read them; NULL: it parses for itself */
    pid_t child;                       /* which it may end; 0: none */
};

/* Starts the processes that write its outputs, ask debuginfod servers and open what others have for it:
 * called before anything foreign is read. 0 or a negative errno with problem set. */
int confine_sampler_begin(const struct confine_sampler *c, struct problem *problem);

/* Once the sampler is open, before it reads anything of other processes: all rights but that to use its BPF
 * maps are given up, for good and for all threads that are started from then on; also those of a user who is
 * not root. Root becomes a user that no other process has, or the owner of the store. What is to be read of
 * other processes is lent (broker/lender.h). */
int confine_sampler(const struct confine_sampler *c, struct problem *problem);

/* Lets a process without rights parse an open file: parse() fills in the result there, of so many bytes and
 * with what the caller put there, which is copied back and may be anything. Before confine_sampler(). 0 or a
 * negative errno: what parse() returned, or -EIO when it came to no end. */
int confine_parse(int fd, int (*parse)(int fd, void *result), void *result, size_t size);

/* The CPU time that opening for it has taken so far, in another process. */
uint64_t confine_lent_ns(void);

#endif
