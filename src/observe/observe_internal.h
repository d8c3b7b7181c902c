/* What the files of src/observe share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OBSERVE_OBSERVE_INTERNAL_H
#define OBSERVE_OBSERVE_INTERNAL_H

#include "observe/observe.h"

/* Tells whoever made the observation. */
void observe_note(const struct observation *observation, const char *line);
void observe_warn(const struct observation *observation, const char *line);

/* user.c: whom a command runs as: the one who asked for it, not root because sonde needs to be. name: as
 * observe_options.user. *ret_user 0: as we are. 0, -EINVAL, -EPERM. */
int observe_find_user(const char *name, uid_t *ret_user, struct problem *problem);

/* preload.c: whether the command is a program without a dynamic loader, which ignores LD_PRELOAD. */
bool observe_is_static(const char *command);

/* follower.c: the process that options.follow is called in. */
struct follower {
    int socket; /* -1: there is none */
};

/* Starts it, before anything of the programs is read; it waits. context is options.context. */
int follower_start(struct follower *follower, const struct observe_options *options, const char *folder,
                   struct problem *problem);
/* There is a recording to follow. */
void follower_go(const struct follower *follower);
/* What it returned, or -ECHILD. */
int follower_wait(struct follower *follower);
/* The recorder is gone, as far as it is concerned. */
void follower_leave(struct follower *follower);

#endif
