/* Files that are written, and one that is opened before the right to make it is given up. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "test.h"

static char folder[] = "/tmp/sonde-owner-XXXXXX";

static void what_is_no_plain_file_is_written_where_it_is(void **state)
{
    char file[64], link[64];
    snprintf(file, sizeof(file), "%s/file", folder);
    snprintf(link, sizeof(link), "%s/link", folder);
    assert_int_equal(owner_is_plain(file), 1); /* there is nothing yet */
    assert_int_equal(file_replace(file, "text", 4), 0);
    assert_int_equal(symlink(file, link), 0);
    assert_int_equal(owner_is_plain(file), 1);
    assert_int_equal(owner_is_plain(link), 0);
    assert_int_equal(owner_is_plain("/dev/null"), 0);
    assert_int_equal(owner_unlink(link), 0);
    assert_int_equal(owner_unlink(file), 0);
    assert_int_equal(owner_unlink(file), -ENOENT);
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

/* Under sudo the caller's rights are the caller's alone. */
static void what_only_roots_group_may_write_is_not_the_callers(void **state)
{
    char place[64];
    if (geteuid() != 0)
        skip();
    snprintf(place, sizeof(place), "%s/of-the-group", folder);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(mkdir(place, 0700), 0);
    assert_int_equal(chmod(place, 0770), 0);
    pid_t pid = fork();
    if (pid == 0) { /* the decision is made once for a process */
        char file[96];
        const gid_t groups[] = {0};
        snprintf(file, sizeof(file), "%s/file", place);
        bool ok = setgroups(1, groups) == 0 && setenv("SUDO_UID", "65533", 1) == 0 &&
                  setenv("SUDO_GID", "65533", 1) == 0 && owner_append(file) == -EACCES;
        gid_t now[2];
        _exit(!(ok && getgroups(2, now) == 1 && now[0] == 0));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(rmdir(place), 0);
    assert_int_equal(status, 0);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_plain_file_is_written_where_it_is),
        cmocka_unit_test(what_only_roots_group_may_write_is_not_the_callers),
        cmocka_unit_test(a_temporary_file_has_no_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
