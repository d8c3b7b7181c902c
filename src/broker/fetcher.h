/* A process that asks debuginfod servers for one that gives its rights up: it may connect to them and keep
 * their files in the cache. Used by src/cli/confine.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BROKER_FETCHER_H
#define BROKER_FETCHER_H

#include "base/problem.h"

/* Forks it, if DEBUGINFOD_URLS names servers; from then on debugfile_open() asks it. 0 or a negative errno
 * with problem set. */
int fetcher_start(struct problem *problem);

/* The socket to it, for who passes it on to a process of his; -1: there is none. */
int fetcher_socket(void);

#endif
