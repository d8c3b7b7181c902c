/* A process that makes files for one that gives its rights up: the files and directories that the user named,
 * and nothing else. Whoever takes over the process that reads foreign data can then write what it was told to
 * write, and no other file. Used by src/cli/confine.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BROKER_WRITER_H
#define BROKER_WRITER_H

#include <stddef.h>

#include "base/problem.h"

/* Forks it, with the rights that the caller has now. From then on owner_...() (base/owner.h) of these paths
 * are done by it. A path is a file, which may be replaced by way of PATH.new, or a directory (also one that
 * is to be made) with all below it; a NULL is passed over. The paths are the caller's and must stay. Once in
 * a process. 0 or a negative errno with problem set. */
int writer_start(const char *const *paths, size_t count, struct problem *problem);

/* Called before: a directory that is made for what may come to nothing, and that owner_rmdir() may remove
 * when it is empty. The path is the caller's and must stay. */
void writer_may_remove(const char *directory);

#endif
