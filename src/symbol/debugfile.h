/* Where the symbols and lines of a stripped file are: its separate debug file, on this machine or from a
 * debuginfod server. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYMBOL_DEBUGFILE_H
#define SYMBOL_DEBUGFILE_H

#include <sys/types.h>

#include "symbol/elf.h"

/* Opens the debug file of elf, which process pid maps as path. Looked for below the process's own root, then
 * below ours: /usr/lib/debug/.build-id/ab/cdef.debug; the name in .gnu_debuglink beside the file, in .debug
 * there, and below /usr/lib/debug; then, with DEBUGINFOD_URLS set and libdebuginfod installed, at those
 * servers. It must have the same build-id, or the checksum that the link asks for. -ENOENT when there is
 * none. */
int debugfile_open(pid_t pid, const char *path, struct elf *elf, struct elf **ret_debug);

/* Asks the servers for the debug file of this build-id, in hexadecimal digits. Takes ten seconds at most, and
 * thirty in all calls together. A descriptor or a negative errno. */
int debugfile_fetch(const char *id);

/* From now on debugfile_open() has this ask the servers: another process may, where this one has no right to
 * (broker/fetcher.h). */
typedef int debugfile_fetch_fn(const char *id);
void debugfile_fetch_from_now_on(debugfile_fetch_fn *fetch);

#endif
