/* A directory of its own for each test of a group: set up with make_folder(), torn down with remove_folder().
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_TEST_FOLDER_H
#define TESTS_UNIT_TEST_FOLDER_H

#include <ftw.h>

#include "test.h"

static char folder[TEST_PATH];

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(test_path(folder)) ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st;
    (void)flag;
    (void)at;
    return remove(path);
}

static int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
