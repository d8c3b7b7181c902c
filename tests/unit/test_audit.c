/* The line about an attachment. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "held.h"
#include "test.h"

/* 2026-11-22 21:30:00 UTC */
#define UNTIL_NS (1795383000 * NS_PER_S)

static char folder[] = "/tmp/sonde-audit-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[64];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int log_named(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path_of(name));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static struct audit open_logs(const char *journal, const char *syslog)
{
    char first[64], second[64];
    struct audit audit;
    snprintf(first, sizeof(first), "%s/%s", folder, journal);
    snprintf(second, sizeof(second), "%s/%s", folder, syslog);
    assert_int_equal(audit_open_log(first, second, &audit), 0);
    return audit;
}

static void receive(int socket, char *text, size_t size)
{
    ssize_t n = recv(socket, text, size - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
}

static void journald_gets_fields(void **state)
{
    char text[2048], expected[64];
    int log = log_named("journal");
    struct audit audit = open_logs("journal", "syslog");
    assert_string_equal(audit_place(&audit), "journald");
    assert_int_equal(audit_attached(&audit, held(getpid()), "node", "level usual", UNTIL_NS), 0);
    receive(log, text, sizeof(text));
    snprintf(expected, sizeof(expected), "MESSAGE=sonde %d of user %u", getpid(), getuid());
    assert_int_equal(strncmp(text, expected, strlen(expected)), 0);
    snprintf(expected, sizeof(expected), " traces node (%d) of user %u: level usual; until ", getpid(),
             getuid());
    assert_non_null(strstr(text, expected));
    assert_non_null(strstr(text, "until 2026-11-22T21:30:00Z\nPRIORITY=5\n"));
    snprintf(expected, sizeof(expected), "\nOBJECT_PID=%d\n", getpid());
    assert_non_null(strstr(text, expected));
    assert_int_equal(text[strlen(text) - 1], '\n');
    audit_close(&audit);
    close(log);
    unlink(path_of("journal"));
}

static void without_journald_syslog_gets_a_line(void **state)
{
    char text[2048];
    int log = log_named("syslog");
    struct audit audit = open_logs("nobody", "syslog");
    assert_string_equal(audit_place(&audit), "syslog");
    assert_int_equal(audit_attached(&audit, held(getpid()), "node", "level usual", 0), 0);
    receive(log, text, sizeof(text));
    assert_int_equal(strncmp(text, "<85>", 4), 0);
    assert_non_null(strstr(text, "until it is interrupted"));
    assert_null(strchr(text, '\n'));
    close(log);
    assert_int_equal(audit_attached(&audit, held(getpid()), "node", "level usual", 0), -ECONNREFUSED);
    audit_close(&audit);
    unlink(path_of("syslog"));
}

static void without_a_log_there_is_none(void **state)
{
    struct audit audit = open_logs("nobody", "nobody either");
    assert_null(audit_place(&audit));
    assert_int_equal(audit_attached(&audit, held(getpid()), "node", "level usual", 0), 0);
    audit_close(&audit);
}

static void a_file_is_added_to(void **state)
{
    struct audit audit;
    struct problem problem = {0};
    struct stat st;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(audit_open(path_of("file"), &audit, &problem), 0);
        assert_int_equal(audit_attached(&audit, held(getpid()), i ? "second" : "first", "level usual", 0), 0);
        audit_close(&audit);
    }
    char *text = NULL;
    assert_int_equal(file_read(path_of("file"), 4096, &text, NULL), 0);
    char *line = strstr(text, "traces first ");
    assert_non_null(line);
    assert_non_null(strchr(line, '\n'));
    assert_non_null(strstr(strchr(line, '\n'), "traces second "));
    assert_int_equal(text[strlen(text) - 1], '\n');
    free(text);
    assert_int_equal(stat(path_of("file"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    unlink(path_of("file"));
}

static void a_file_that_is_a_link_is_refused(void **state)
{
    struct audit audit;
    struct problem problem = {0};
    assert_int_equal(symlink("/dev/null", path_of("link")), 0);
    assert_int_equal(audit_open(path_of("link"), &audit, &problem), -ELOOP);
    assert_non_null(strstr(problem.what, "link"));
    assert_true(problem.remedy[0]);
    unlink(path_of("link"));
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(journald_gets_fields),
        cmocka_unit_test(without_journald_syslog_gets_a_line),
        cmocka_unit_test(without_a_log_there_is_none),
        cmocka_unit_test(a_file_is_added_to),
        cmocka_unit_test(a_file_that_is_a_link_is_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
