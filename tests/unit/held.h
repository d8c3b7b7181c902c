/* A handle of a process, for tests that deal with it by its number; released by the end of the test program.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HELD_H
#define HELD_H

#include "base/array.h"
#include "base/proc.h"

#include "test.h"

static inline struct proc *held(pid_t pid)
{
    static ARRAY(struct proc *) all;
    struct proc *proc;
    array_foreach (&all, p)
        if ((*p)->pid == pid && proc_exists(*p))
            return *p;
    assert_int_equal(proc_open(pid, &proc), 0);
    assert_int_equal(array_add(&all, proc), 0);
    return proc;
}

#endif
