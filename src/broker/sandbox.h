/* Giving up every right, for a process that parses what others control. What it needs afterwards it has as
 * open descriptors, or asks its broker for. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BROKER_SANDBOX_H
#define BROKER_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/problem.h"

/* What keeps a confined process in, as far as this kernel and our rights go; for doctor and the record. */
struct sandbox_walls {
    bool own_user;   /* a user that no other process has (only root can give itself one) */
    bool namespaces; /* no file system, network or System V objects (only root) */
    bool landlock;   /* opens no file, whatever its rights */
    bool filter;     /* system calls: those of a process that computes */
};

/* Confines the calling process for good: no capability, a user of its own, an empty file system, no network,
 * no new privileges, not dumpable, and only the system calls of one that computes and talks over descriptors
 * that it has. keep: descriptors above standard error that stay open, and how many; all others are closed.
 * The standard ones become /dev/null. It dies with its parent.
 *
 * The filter and no_new_privs are demanded: a negative errno, with the problem in words, when there is none;
 * then nothing must be parsed. Everything else is taken as far as it is to be had (*ret_walls). */
int sandbox_enter(const int *keep, int count, struct sandbox_walls *ret_walls, struct problem *problem);

/* The first parts of it: descriptors above standard error are closed but for these; the standard ones become
 * /dev/null. */
void sandbox_close_others(const int *keep, int count);
void sandbox_close_standard(void);

#define SANDBOX_NOBODY_ELSE ((uid_t)-1)

/* Whether it is a user that confined processes of sonde become, each one of its own. */
bool sandbox_is_nobody_else(uid_t user);

/* What is left to a process that reads what others have made. Paths are files or directories, then with all
 * that is below them; one that does not exist is passed over. */
struct sandbox_rights {
    const char *const *reads;
    size_t read_count;
    const char *const *writes; /* and made, replaced and removed there */
    size_t write_count;
    const char *empties; /* a directory below which empty directories may be removed; may be NULL */
    bool scripts;        /* reads where scripts and their source maps lie: all but the system's own
                          * directories, and what is hidden in root's home */
    bool all_files;      /* no rule on files: what the process's user and capabilities allow */
    bool network;        /* listens and connects, and reads what names of hosts need; root keeps the right to
                          * listen on ports below 1024 */
    bool observes;       /* reads files, uses the BPF maps that it has open, and asks which processes are
                          * there; opens, makes, renames and removes nothing for writing. (Landlock would
                          * forbid reading other processes' files and memory, also to those who lend them:
                          * it is left to the filter of system calls.) */
    bool lends;          /* who observes may also hold processes: for a lender */
    uid_t user;          /* whom root becomes, who observes; SANDBOX_NOBODY_ELSE: a user that no other
                          * process has; 0: it stays root */
    pid_t child;         /* whom it may send signals to, besides itself; 0: nobody */
    uint64_t capabilities; /* 1 << CAP_...: kept as far as the process has them */
};

/* Confines the calling process, with all threads that it will have, for good to these rights: no other
 * capability, no new privileges, no other file to be opened from then on (but time zones and what libraries
 * read of the machine); no other program, process or kernel object, and without `network` no socket.
 * Descriptors that are open stay so. For who parses what others control with rights that the parser does not
 * need. Called while there is one thread.
 *
 * Taken as far as it is to be had: without Landlock (Linux 5.13) files can be opened as before. A negative
 * errno, with the problem in words, when capabilities cannot be given up or calls cannot be filtered. */
int sandbox_confine(const struct sandbox_rights *rights, struct problem *problem);

/* What there would be, without entering it. */
struct sandbox_walls sandbox_available(void);

#endif
