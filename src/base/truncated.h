/* Files that somebody truncates while we have them mapped: a library that is replaced in place, a trace that
 * is emptied. A read behind the new end would be a SIGBUS; it gives zeros instead, which every parser of
 * files has to live with anyway, and is counted. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_TRUNCATED_H
#define BASE_TRUNCATED_H

#include <stdint.h>

/* From now on, for the whole process. */
void truncated_expect(void);

/* How many pages were read as zeros. */
uint64_t truncated_pages(void);

#endif
