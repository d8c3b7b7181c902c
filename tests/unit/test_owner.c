/* Files that are opened before the right to open them is given up. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "test.h"

static char folder[] = "/tmp/sonde-owner-XXXXXX";

static void path_of(const char *name, char path[64])
{
    snprintf(path, 64, "%s/%s", folder, name);
}

static void holds(const char *path, const char *text)
{
    _cleanup_(freep) char *found = NULL;
    assert_int_equal(file_read(path, 100, &found, NULL), 0);
    assert_string_equal(found, text);
}

static void a_reserved_file_is_written_where_none_could_be_opened(void **state)
{
    char path[64], beside[80], moved[64];
    path_of("report", path);
    path_of("moved", moved);
    snprintf(beside, sizeof(beside), "%s.new", path);
    assert_false(owner_reserved(path));
    assert_int_equal(owner_reserve(path), 0);
    assert_true(owner_reserved(path));
    /* Whoever opened the path now would find nothing: it is the held file that is written. */
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(file_replaceable(path), 0);
    assert_int_equal(file_replace(path, "a long one", 10), 0);
    holds(moved, "a long one");
    assert_int_equal(file_replace(path, "again", 5), 0); /* as often as it is asked for */
    holds(moved, "again");
    assert_true(access(path, F_OK) < 0 && access(beside, F_OK) < 0);
    unlink(moved);
}

static void what_a_reserved_file_holds_stays_until_it_is_written(void **state)
{
    char path[64];
    path_of("kept", path);
    assert_int_equal(file_replace(path, "before", 6), 0);
    assert_int_equal(owner_reserve(path), 0);
    holds(path, "before");
    _cleanup_(file_closep) int fd = owner_open(path, O_WRONLY | O_CREAT | O_TRUNC);
    assert_true(fd >= 0);
    holds(path, "");
    unlink(path);
}

static void a_file_that_cannot_be_made_is_an_error(void **state)
{
    char path[64];
    path_of("nowhere/report", path);
    assert_int_equal(owner_reserve(path), -ENOENT);
    assert_false(owner_reserved(path));
}

static void a_temporary_file_has_no_name(void **state)
{
    char path[PATH_MAX];
    struct stat st;
    setenv("TMPDIR", folder, 1);
    assert_int_equal(owner_temporary(path, sizeof(path)), 0); /* not reserved: a file */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(owner_reserve_temporary(), 0);
    assert_int_equal(owner_temporary(path, sizeof(path)), 0);
    assert_true(access(path, F_OK) < 0);
    _cleanup_(file_closep) int fd = owner_open(path, O_RDWR | O_CREAT | O_TRUNC);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_nlink, 0);
    assert_int_equal(rmdir(folder), 0); /* nothing is left */
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reserved_file_is_written_where_none_could_be_opened),
        cmocka_unit_test(what_a_reserved_file_holds_stays_until_it_is_written),
        cmocka_unit_test(a_file_that_cannot_be_made_is_an_error),
        cmocka_unit_test(a_temporary_file_has_no_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
