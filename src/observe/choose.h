/* Which processes are to be observed: by number, by the name of their program, by their control group.
 *
 * They are held from where they were chosen: another process that is given such a number later is not meant.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OBSERVE_CHOOSE_H
#define OBSERVE_CHOOSE_H

#include "base/array.h"
#include "observe/observe.h"

/* Zero-initialise; chosen_done() when finished. No process is in it twice. */
struct chosen {
    struct proc **at;
    size_t count, capacity;
};

void chosen_done(struct chosen *chosen);

/* Adds a process, whose handle is shared. 0 or -ENOMEM. */
int choose_process(struct chosen *chosen, struct proc *proc);

/* Adds every process but our own whose program's name begins so: "node" is also node20. How many there were.
 */
int choose_named(struct chosen *chosen, const char *name);

/* Adds every process but our own whose program is called as those are that can be traced. How many there
 * were. */
int choose_all(struct chosen *chosen);

/* Adds the processes of a cgroup's directory and of those below it (a container, a systemd unit). How many
 * there were; -1: it is not such a directory. */
int choose_cgroup(struct chosen *chosen, const char *folder);

/* Attaches to all of them. What cannot be attached to is reported by options.warn, when there are several;
 * picky: also what is no program that sonde knows. *ret_attached: how many were. 0, or when none was the last
 * one's error with problem set. */
int observe_attach_all(struct observation *observation, const struct chosen *chosen, bool picky,
                       unsigned *ret_attached, struct problem *problem);

#endif
