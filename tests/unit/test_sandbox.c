/* Who reads recordings can read them, and nothing else. (Workers: test_broker.c.) */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "in_child.h"

static char folder[] = "/tmp/sonde-sandbox-XXXXXX", inside[64], others[64], output[64], made[80];
static const char outside[] = "/etc/passwd", script[] = "/usr/bin/env";

static bool opens(const char *path, int flags)
{
    int fd = open(path, flags, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void *do_nothing(void *unused)
{
    return unused;
}

static int read_only(void)
{
    char *const nothing[] = {NULL};
    struct problem problem = {0};
    bool root = geteuid() == 0;
    pthread_t thread;
    const char *const reads[] = {folder, "/nowhere"};
    EXPECT(sandbox_confine(&(struct sandbox_rights){.reads = reads, .read_count = 2, .scripts = true},
                           &problem) == 0);
    EXPECT(opens(inside, O_RDONLY));
    EXPECT(!root || !opens(others, O_RDONLY)); /* somebody else's: root's capabilities are gone */
    EXPECT(pthread_create(&thread, NULL, do_nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
    EXPECT(fork() < 0 && errno == EPERM);
    EXPECT(socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EPERM);
    EXPECT(execve("/bin/true", nothing, nothing) < 0 && errno == EPERM);
    EXPECT(chown(inside, 1, 1) < 0);
    EXPECT(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2);
    if (!sandbox_available().landlock)
        return 0;
    EXPECT(!opens(outside, O_RDONLY) && errno == EACCES);
    EXPECT(opens(script, O_RDONLY)); /* it could have a source map */
    EXPECT(!opens(inside, O_WRONLY) && errno == EACCES);
    EXPECT(unlink(inside) < 0 && errno == EACCES);
    return 0;
}

/* One that writes a directory, and talks. */
static int writing(void)
{
    char *const nothing[] = {NULL};
    const char *const reads[] = {inside}, *const writes[] = {output};
    const struct sandbox_rights rights = {.reads = reads,
                                          .read_count = 1,
                                          .writes = writes,
                                          .write_count = 1,
                                          .empties = folder,
                                          .network = true};
    struct problem problem = {0};
    EXPECT(sandbox_confine(&rights, &problem) == 0);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(fd >= 0 && listen(fd, 1) == 0);
    EXPECT(execve("/bin/true", nothing, nothing) < 0 && errno == EPERM);
    EXPECT(opens(made, O_WRONLY | O_CREAT) && opens(made, O_RDWR | O_TRUNC) && opens(inside, O_RDONLY));
    EXPECT(unlink(made) == 0);
    if (!sandbox_available().landlock)
        return 0;
    EXPECT(!opens(script, O_RDONLY) && errno == EACCES); /* nobody looks for source maps */
    EXPECT(!opens(inside, O_WRONLY) && errno == EACCES);
    EXPECT(!opens(outside, O_RDONLY) && errno == EACCES);
    EXPECT(unlink(inside) < 0 && errno == EACCES);
    EXPECT(link(inside, made) < 0); /* no second name with other rights */
    EXPECT(rmdir(output) == 0);     /* which is empty */
    return 0;
}

static void a_reader_reads_and_does_nothing_else(void **state)
{
    in_a_child(read_only);
}

static void a_writer_writes_in_one_place(void **state)
{
    in_a_child(writing);
}

static void make(const char *path, uid_t owner)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd < 0 || (geteuid() == 0 && fchown(fd, owner, owner) < 0))
        exit(1);
    close(fd);
}

int main(void)
{
    enum { SOMEBODY = 12345 };
    if (!mkdtemp(folder))
        return 1;
    snprintf(inside, sizeof(inside), "%s/inside", folder);
    snprintf(others, sizeof(others), "%s/others", folder);
    snprintf(output, sizeof(output), "%s/output", folder);
    snprintf(made, sizeof(made), "%s/made", output);
    make(inside, 0);
    make(others, SOMEBODY);
    if (mkdir(output, 0700) < 0)
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_reader_reads_and_does_nothing_else),
                                       cmocka_unit_test(a_writer_writes_in_one_place)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(output);
    unlink(inside);
    unlink(others);
    rmdir(folder);
    return failed;
}
