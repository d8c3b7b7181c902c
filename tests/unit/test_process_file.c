/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "held.h"
#include "test.h"

static char folder[TEST_PATH];
static int root = -1; /* folder/box, as a container's root */

static void write_file(const char *name, const char *text)
{
    char path[2 * TEST_PATH];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(file_replace(path, text, strlen(text)), 0);
}

static void link_to(const char *target, const char *name)
{
    char path[2 * TEST_PATH];
    snprintf(path, sizeof(path), "%s/box/%s", folder, name);
    assert_int_equal(symlink(target, path), 0);
}

static int set_up(void **state)
{
    char path[2 * TEST_PATH];
    if (!mkdtemp(test_path(folder)))
        return -1;
    snprintf(path, sizeof(path), "%s/box/tmp", folder);
    if (file_make_folder(path) < 0)
        return -1;
    snprintf(path, sizeof(path), "%s/box", folder);
    root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root < 0 ? -1 : 0;
}

/* As a filter does that cannot see what it is to open. */
static int refuse_openat2(void **state)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {.len = ARRAY_SIZE(rules), .filter = rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) < 0;
}

static int tear_down(void **state)
{
    char command[TEST_PATH + 16];
    close(root);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

/* What a file below the root holds; the error's number when it cannot be opened. */
static const char *text_of(const char *path)
{
    static char text[64];
    _cleanup_(file_closep) int fd = process_file_open(root, path);
    if (fd < 0)
        return strerror(-fd);
    ssize_t n = read(fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void links_stay_below_the_root(void **state)
{
    char secret[2 * TEST_PATH];
    write_file("secret", "the host's");
    write_file("box/own", "the box's");
    snprintf(secret, sizeof(secret), "%s/secret", folder);
    link_to(secret, "absolute");
    link_to("../secret", "upwards");
    link_to("../../../../../../../../../../../../own", "far-upwards");
    link_to("/own", "within");
    link_to("/proc/self/root", "magic");
    assert_string_equal(text_of("/own"), "the box's");
    assert_string_equal(text_of("/within"), "the box's");
    assert_string_equal(text_of("/far-upwards"), "the box's");
    assert_string_equal(text_of("/tmp/../../own"), "the box's");
    assert_string_equal(text_of("/absolute"), strerror(ENOENT));
    assert_string_equal(text_of("/upwards"), strerror(ENOENT));
    assert_string_equal(text_of("/../secret"), strerror(ENOENT));
    assert_string_equal(text_of("/magic/etc/passwd"), strerror(ENOENT));
}

static void only_regular_files_are_opened(void **state)
{
    char path[2 * TEST_PATH];
    snprintf(path, sizeof(path), "%s/box/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(process_file_open(root, "/pipe"), -EINVAL);
    assert_int_equal(process_file_open(root, "/tmp"), -EINVAL);
    _cleanup_(file_closep) int tmp = process_folder_open(root, "/tmp");
    assert_true(tmp >= 0);
    assert_int_equal(process_folder_open(root, "/pipe"), -ENOTDIR);
    _cleanup_(file_closep) int host = process_root_open(NULL);
    assert_int_equal(process_file_open(host, "/dev/null"), -EINVAL);
}

static void links_without_end_and_long_names_are_refused(void **state)
{
    char name[300];
    write_file("box/own", "the box's");
    link_to("loop", "loop");
    link_to("one/x", "other");
    link_to("other/x", "one");
    assert_string_equal(text_of("/loop"), strerror(ELOOP));
    assert_string_equal(text_of("/one"), strerror(ELOOP));
    memset(name, 'a', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    assert_string_equal(text_of(name), strerror(ENAMETOOLONG));
    assert_string_equal(text_of("/own/"), strerror(ENOTDIR));
    assert_string_equal(text_of("/own/."), strerror(ENOTDIR));
    assert_string_equal(text_of("//tmp//.././own"), "the box's");
}

static void folders_are_not_led_astray(void **state)
{
    link_to("/", "up");
    link_to("/etc", "run");
    _cleanup_(file_closep) int up = process_folder_open(root, "/up");
    struct stat found, own;
    assert_int_equal(fstat(up, &found), 0);
    assert_int_equal(fstat(root, &own), 0);
    assert_int_equal(found.st_ino, own.st_ino);
    assert_int_equal(process_folder_open(root, "/run"), -ENOENT);
}

static void a_name_is_looked_for_in_the_working_folder(void **state)
{
    char before[TEST_PATH * 2];
    write_file("script.js", "");
    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(folder), 0);
    assert_true(process_has_path(held(getpid()), "script.js"));
    assert_true(process_has_path(held(getpid()), "./box/../script.js"));
    assert_false(process_has_path(held(getpid()), "script"));
    assert_false(process_has_path(held(getpid()), "console.log(1)"));
    assert_true(process_has_path(held(getpid()), "/proc"));
    assert_int_equal(chdir(before), 0);
}

static void a_mapped_file_is_opened_by_where_it_is_mapped(void **state)
{
    write_file("box/own", "the box's");
    _cleanup_(file_closep) int fd = process_file_open(root, "/own");
    void *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    uint64_t start = (uint64_t)(uintptr_t)at;
    _cleanup_(file_closep) int mapped = process_mapped_open(held(getpid()), start, start + 4096);
    assert_true(mapped >= 0 || mapped == -EPERM || mapped == -EACCES);
    munmap(at, 4096);
    assert_true(process_mapped_open(held(getpid()), start, start + 4096) < 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {T(links_stay_below_the_root),
                                       T(only_regular_files_are_opened),
                                       T(links_without_end_and_long_names_are_refused),
                                       T(folders_are_not_led_astray),
                                       T(a_name_is_looked_for_in_the_working_folder),
                                       T(a_mapped_file_is_opened_by_where_it_is_mapped)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed ? failed : cmocka_run_group_tests_name("without openat2()", tests, refuse_openat2, NULL);
}
