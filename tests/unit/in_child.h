/* Checks in a child process, which gives its rights up. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_IN_CHILD_H
#define TESTS_IN_CHILD_H

#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

/* In a child: the number of the line that is wrong, 0 when none is. */
#define EXPECT(what)               \
    do {                           \
        if (!(what))               \
            return __LINE__ % 256; \
    } while (0)

/* check() returns 0 in a child of this process. */
static inline void in_a_child(int (*check)(void))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(check());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#endif
