/* What a process that has given its rights up may still have written, and that nothing else is. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/owner.h"
#include "broker/sandbox.h"
#include "test.h"

static char folder[] = "/tmp/sonde-writer-XXXXXX", file[64], kept[64];

static const char *in(const char *where, const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", where, name);
    return path;
}

/* In a child: the number of the line that is wrong, 0 when none is. */
#define EXPECT(what)               \
    do {                           \
        if (!(what))               \
            return __LINE__ % 256; \
    } while (0)

static bool opens(const char *path, int flags)
{
    int fd = owner_open(path, flags);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
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

static void what_was_named_is_written_and_nothing_else(void **state)
{
    _cleanup_(freep) char *text = NULL;
    int status = 0;
    assert_int_equal(file_replace(in(folder, "secret"), "", 0), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(confined());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_named_is_written_and_nothing_else),
                                       cmocka_unit_test(without_a_path_there_is_no_writer)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command) || failed;
}
