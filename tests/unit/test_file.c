/* A program is found as execvp() finds it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macro.h"
#include "test.h"

static char folder[] = "/tmp/sonde-test-file-XXXXXX";

static const char *in(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, mode_t mode)
{
    FILE *file = fopen(in(name), "w");
    assert_non_null(file);
    fputs(name, file);
    fclose(file);
    assert_int_equal(chmod(in(name), mode), 0);
}

/* first/ has a directory and a file that may not be executed, second/ the programs. */
static int make_folders(void **state)
{
    char path[3 * PATH_MAX];
    (void)state;
    if (!mkdtemp(folder) || mkdir(in("first"), 0700) < 0 || mkdir(in("first/directory"), 0700) < 0 ||
        mkdir(in("second"), 0700) < 0 || mkdir(in("here"), 0700) < 0)
        return -1;
    write_file("first/plain", 0600);
    write_file("second/plain", 0700);
    write_file("second/directory", 0700);
    write_file("second/both", 0700);
    write_file("here/both", 0700);
    write_file("here/only-here", 0700);
    snprintf(path, sizeof(path), "%s/first:%s/second", folder, folder);
    return setenv("PATH", path, 1) < 0 || chdir(in("here")) < 0 ? -1 : 0;
}

static int remove_folders(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"first/plain",
                                        "first/directory",
                                        "second/plain",
                                        "second/directory",
                                        "second/both",
                                        "here/both",
                                        "here/only-here",
                                        "first",
                                        "second",
                                        "here",
                                        ""};
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
        if (remove(in(NAMES[i])) < 0)
            return -1;
    return 0;
}

static void assert_finds(const char *name, const char *file)
{
    char text[64] = "";
    int fd = file_open_program(name);
    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    assert_string_equal(text, file);
}

static void passes_over_what_cannot_be_executed(void **state)
{
    (void)state;
    assert_finds("plain", "second/plain");
    assert_finds("directory", "second/directory");
    assert_int_equal(file_open_program("nowhere"), -ENOENT);
    assert_int_equal(file_open_program(""), -ENOENT);
}

static void takes_a_name_with_a_slash_as_a_path(void **state)
{
    (void)state;
    assert_finds("./both", "here/both");
    assert_int_equal(file_open_program("./nowhere"), -ENOENT);
    assert_int_equal(file_open_program("../first/directory"), -EACCES);
}

static void takes_an_empty_entry_as_the_working_directory(void **state)
{
    char path[2 * PATH_MAX];
    (void)state;
    assert_int_equal(file_open_program("only-here"), -ENOENT);
    snprintf(path, sizeof(path), "%s/second:", folder);
    assert_int_equal(setenv("PATH", path, 1), 0);
    assert_finds("only-here", "here/only-here");
    assert_finds("both", "second/both");
    snprintf(path, sizeof(path), ":%s/second", folder);
    assert_int_equal(setenv("PATH", path, 1), 0);
    assert_finds("both", "here/both");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_over_what_cannot_be_executed),
        cmocka_unit_test(takes_a_name_with_a_slash_as_a_path),
        cmocka_unit_test(takes_an_empty_entry_as_the_working_directory),
    };
    return cmocka_run_group_tests(tests, make_folders, remove_folders);
}
