/* What a process that has given its rights up may still have written, and that nothing else is. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/owner.h"
#include "broker/protocol.h"
#include "broker/sandbox.h"
#include "in_child.h"
#include "socket_of.h"

static char folder[] = "/tmp/sonde-writer-XXXXXX", file[64], kept[64];

static const char *in(const char *where, const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", where, name);
    return path;
}

static bool opens(const char *path, int flags)
{
    int fd = owner_open(path, flags);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* What the writer answers to whatever is sent to it, past all that asks it properly. */
static int say(int socket, uint32_t verb, uint32_t question, const char *bytes, size_t length, int flags)
{
    struct broker_head head = {.verb = verb, .question = question, .start = (uint64_t)(unsigned)flags};
    int fd = -1;
    if (broker_send(socket, head, bytes, length, -1) < 0 || broker_receive(socket, &head, NULL, 0, &fd) < 0)
        return -EPIPE;
    if (fd >= 0)
        close(fd);
    return fd >= 0 ? fd : head.result;
}

/* One that was taken over asks for what was not named. */
static int taken_over(void)
{
    const char *const paths[] = {file, kept};
    char two[256], up[128], made[64], long_name[9000];
    struct problem problem = {0};
    snprintf(made, sizeof(made), "%s/made", folder);
    writer_may_remove(made);
    EXPECT(mkdir(made, 0700) == 0 && mkdir(in(made, "full"), 0700) == 0);
    EXPECT(writer_start(paths, ARRAY_SIZE(paths), &problem) == 0);
    int fd = socket_of_last(), length = snprintf(two, sizeof(two), "%s", file) + 1;
    EXPECT(fd >= 0);
    length += snprintf(two + length, sizeof(two) - (size_t)length, "%s/other", folder) + 1;
    EXPECT(say(fd, BROKER_QUESTION, OWNER_OPEN, "/etc/passwd", 12, O_RDONLY) == -EPERM);
    EXPECT(say(fd, BROKER_QUESTION, OWNER_OPEN, "/etc/passwd", 12, O_RDWR) == -EPERM);
    EXPECT(say(fd, BROKER_QUESTION, OWNER_RENAME, two, (size_t)length, 0) == -EPERM);
    EXPECT(say(fd, BROKER_QUESTION, OWNER_UNLINK, folder, sizeof(folder), 0) == -EPERM);
    EXPECT(say(fd, BROKER_QUESTION, OWNER_MKDIR, "/tmp/sonde-writer-other", 24, 0) == -EPERM);
    snprintf(up, sizeof(up), "%s/../../other", kept);
    EXPECT(say(fd, BROKER_QUESTION, OWNER_OPEN, up, strlen(up) + 1, O_WRONLY | O_CREAT) == -EPERM);
    EXPECT(say(fd, BROKER_QUESTION, OWNER_RMDIR, kept, strlen(kept) + 1, 0) == -EPERM);
    EXPECT(say(fd, BROKER_QUESTION, OWNER_RMDIR, in(made, "full"), strlen(made) + 6, 0) == -EPERM);
    EXPECT(say(fd, BROKER_QUESTION, OWNER_RMDIR, made, strlen(made) + 1, 0) == -ENOTEMPTY);
    EXPECT(rmdir(in(made, "full")) == 0);
    EXPECT(say(fd, BROKER_QUESTION, OWNER_RMDIR, made, strlen(made) + 1, 0) == 0);
    /* what is no question */
    EXPECT(say(fd, BROKER_QUESTION, OWNER_OPEN, two, (size_t)length, O_WRONLY | O_CREAT) == -EPERM);
    EXPECT(say(fd, BROKER_QUESTION, OWNER_RENAME, file, strlen(file) + 1, 0) == -EPERM);
    EXPECT(say(fd, BROKER_QUESTION, OWNER_OPEN, file, strlen(file), O_WRONLY | O_CREAT) == -EPERM);
    EXPECT(say(fd, BROKER_QUESTION, OWNER_OPEN, "", 1, O_RDONLY) == -EPERM);
    EXPECT(say(fd, BROKER_QUESTION, OWNER_OPEN, NULL, 0, O_RDONLY) == -EPERM);
    EXPECT(say(fd, BROKER_QUESTION, 99, file, strlen(file) + 1, 0) == -EPERM);
    EXPECT(say(fd, BROKER_GRANT, OWNER_OPEN, file, strlen(file) + 1, O_WRONLY | O_CREAT) == -EPERM);
    memset(long_name, 'a', sizeof(long_name));
    EXPECT(say(fd, BROKER_QUESTION, OWNER_OPEN, long_name, sizeof(long_name), O_RDONLY) == -EPERM);
    EXPECT(access(file, F_OK) < 0);
    EXPECT(say(fd, BROKER_QUESTION, OWNER_OPEN, file, strlen(file) + 1, O_WRONLY | O_CREAT) > 0);
    EXPECT(unlink(file) == 0);
    return 0;
}

/* Confined as a sampler is: it opens nothing for writing itself, whatever its user. */
static int confined(void)
{
    const char *const paths[] = {NULL, file, kept};
    struct problem problem = {0};
    EXPECT(writer_start(paths, ARRAY_SIZE(paths), &problem) == 0);
    EXPECT(sandbox_confine(&(struct sandbox_rights){.observes = true}, &problem) == 0);
    /* what was named */
    EXPECT(file_replaceable(file) == 0 && access(file, F_OK) < 0);
    EXPECT(file_replace(file, "one", 3) == 0 && file_replace(file, "two", 3) == 0);
    EXPECT(opens(file, O_RDWR | O_APPEND) && owner_is_plain(file) == 1);
    EXPECT(file_make_folder(in(kept, "windows")) == 0 && file_make_folder(in(kept, "windows/")) == 0);
    EXPECT(file_replace(in(kept, "windows/1"), "one", 3) == 0);
    EXPECT(owner_rename(in(kept, "windows/1"), in(kept, "2")) == 0);
    EXPECT(owner_unlink(in(kept, "2")) == 0 && owner_unlink(in(kept, "2")) == -ENOENT);
    /* and nothing else */
    EXPECT(!opens(in(folder, "other"), O_WRONLY | O_CREAT));
    EXPECT(!opens(in(folder, "file.newer"), O_WRONLY | O_CREAT));
    EXPECT(!opens(in(folder, "fil"), O_WRONLY | O_CREAT));
    EXPECT(!opens("/etc/passwd", O_WRONLY));
    EXPECT(!opens(in(kept, "../other"), O_WRONLY | O_CREAT));
    EXPECT(!opens(in(kept, "x/../../other"), O_WRONLY | O_CREAT));
    EXPECT(!opens(in(kept, ".."), O_RDONLY | O_CREAT));
    EXPECT(owner_rename(file, in(folder, "other")) < 0 && owner_rename(in(folder, "secret"), file) < 0);
    EXPECT(owner_unlink(in(folder, "secret")) < 0 && owner_mkdir(in(folder, "directory")) < 0);
    EXPECT(access(in(folder, "secret"), F_OK) == 0);
    return 0;
}

static void one_that_was_taken_over_gets_nothing_else(void **state)
{
    in_a_child(taken_over);
}

static void what_was_named_is_written_and_nothing_else(void **state)
{
    _cleanup_(freep) char *text = NULL;
    assert_int_equal(file_replace(in(folder, "secret"), "", 0), 0);
    in_a_child(confined);
    assert_int_equal(file_read(file, 10, &text, NULL), 0);
    assert_string_equal(text, "two");
    assert_true(access(in(folder, "other"), F_OK) < 0 && access(in(folder, "file.new"), F_OK) < 0);
}

static void without_a_path_there_is_no_writer(void **state)
{
    const char *const paths[] = {NULL, NULL};
    assert_int_equal(writer_start(paths, ARRAY_SIZE(paths), NULL), 0);
    assert_int_equal(file_replace(file, "mine", 4), 0); /* by this process */
}

int main(void)
{
    char command[128];
    if (!mkdtemp(folder))
        return 1;
    snprintf(file, sizeof(file), "%s/file", folder);
    snprintf(kept, sizeof(kept), "%s/deep/er", folder);
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_that_was_taken_over_gets_nothing_else),
                                       cmocka_unit_test(what_was_named_is_written_and_nothing_else),
                                       cmocka_unit_test(without_a_path_there_is_no_writer)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command) || failed;
}
