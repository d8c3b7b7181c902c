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
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static char folder[] = "/tmp/sonde-sandbox-XXXXXX", inside[64], others[64];
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

/* In a child: the number of the line that is wrong, 0 when none is. */
#define EXPECT(what)               \
    do {                           \
        if (!(what))               \
            return __LINE__ % 256; \
    } while (0)

static int read_only(void)
{
    char *const nothing[] = {NULL};
    struct problem problem = {0};
    bool root = geteuid() == 0;
    pthread_t thread;
    EXPECT(sandbox_read_only(folder, &problem) == 0);
    EXPECT(opens(inside, O_RDONLY));
    EXPECT(!root || !opens(others, O_RDONLY)); /* somebody else's: root's capabilities are gone */
    EXPECT(pthread_create(&thread, NULL, do_nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
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

static void a_reader_reads_and_does_nothing_else(void **state)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(read_only());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
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
    make(inside, 0);
    make(others, SOMEBODY);
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_reader_reads_and_does_nothing_else)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(inside);
    unlink(others);
    rmdir(folder);
    return failed;
}
