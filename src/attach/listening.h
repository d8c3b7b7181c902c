/* The ports on which a process listens, as the kernel has them: what it was started with may say otherwise,
 * or nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_LISTENING_H
#define ATTACH_LISTENING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/proc.h"

/* Fills at most limit ports, the lowest first; an entry is written only when there is one. Returns how many
 * there are; 0 also for a process whose files may not be read. */
size_t listening_ports(const struct proc *proc, uint16_t *ret_ports, size_t limit);

/* The other way round, for who looks for the process behind a port: the inodes of the TCP sockets that listen
 * on it in the process' network namespace, of whichever process (at most limit are filled; returns how many
 * there are), and whether a process holds one of them. */
size_t listening_sockets(const struct proc *proc, uint16_t port, uint64_t *ret_inodes, size_t limit);
bool listening_holds(const struct proc *proc, const uint64_t *inodes, size_t count);

#endif
