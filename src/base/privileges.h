/* Giving up root's rights before data is read that somebody else has made. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PRIVILEGES_H
#define BASE_PRIVILEGES_H

#include "base/problem.h"

/* When we are root and path belongs to another user: becomes that user for good, with no way back, and
 * without being open to that user's debuggers. Otherwise does nothing. -EACCES when that user cannot get
 * there, and what setresuid(2) says: then nothing must be read. */
int privileges_leave_for(const char *path, struct problem *problem);

#endif
