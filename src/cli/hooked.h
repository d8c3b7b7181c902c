/* Whether the code at a place of a file is what the file says, in the processes that have it mapped. Where
 * another tool has changed it (sonde's own hooks do, behind a function's first instruction where that is
 * possible), the kernel must not put a breakpoint: it would run the file's instruction and continue behind
 * it, in the middle of what stands there now. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HOOKED_H
#define CLI_HOOKED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One instruction of a file. */
struct place_code {
    uint64_t offset; /* in the file */
    uint8_t length;  /* 0: there is none that can be decoded */
    uint8_t bytes[15];
};

/* The instruction at an offset of the file; to be called where nothing is at stake, because it decodes what
 * the file holds. */
struct place_code place_code_read(int fd, uint64_t offset);

/* The first of the processes that has the file mapped and in which one of the instructions is another one; 0:
 * there is none. A breakpoint alone does not count. ret_offset: which place. */
pid_t hooked_process(int fd, const struct place_code *codes, size_t count, const pid_t *pids,
                     size_t pid_count, uint64_t *ret_offset);

#endif
