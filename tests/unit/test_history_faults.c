/* Every allocation and every system call of building and reading a history fails once, at each place where it
 * is made: the call returns an error in words, nothing leaks, and when it is made again the history is what
 * it would have been. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "naive_history.h"

/* ---- The faults: the linker sends these calls here (see meson.build) ---- */

enum fault { NO_FAULT, MEMORY, INPUT_OUTPUT, SHORT_WRITE };

static enum fault fault;
static long calls_left; /* until the fault */
static bool happened;
static bool full; /* the next write fails */

static bool fails(enum fault kind)
{
    if (fault != kind || --calls_left != 0)
        return false;
    happened = true;
    return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
int __real_open64(const char *path, int flags, ...);
ssize_t __real_pwrite64(int fd, const void *data, size_t length, off_t at);
ssize_t __real_pread64(int fd, void *data, size_t length, off_t at);
void *__real_mmap64(void *at, size_t length, int protection, int flags, int fd, off_t offset);
int __real_ftruncate64(int fd, off_t length);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *s);
int __wrap_open64(const char *path, int flags, int mode);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t length, off_t at);
ssize_t __wrap_pread64(int fd, void *data, size_t length, off_t at);
void *__wrap_mmap64(void *at, size_t length, int protection, int flags, int fd, off_t offset);
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_ftruncate64(int fd, off_t length);

void *__wrap_malloc(size_t size)
{
    return fails(MEMORY) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails(MEMORY) ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails(MEMORY) ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *s)
{
    return fails(MEMORY) ? NULL : __real_strdup(s);
}

int __wrap_open64(const char *path, int flags, int mode)
{
    errno = EMFILE;
    return fails(INPUT_OUTPUT) ? -1 : __real_open64(path, flags, mode);
}

ssize_t __wrap_pwrite64(int fd, const void *data, size_t length, off_t at)
{
    errno = ENOSPC;
    if (full) {
        full = false;
        return -1;
    }
    if (length > 1 && fails(SHORT_WRITE)) { /* half of it, then the disk is full */
        full = true;
        return __real_pwrite64(fd, data, length / 2, at);
    }
    return fails(INPUT_OUTPUT) ? -1 : __real_pwrite64(fd, data, length, at);
}

ssize_t __wrap_pread64(int fd, void *data, size_t length, off_t at)
{
    errno = EIO;
    return fails(INPUT_OUTPUT) ? -1 : __real_pread64(fd, data, length, at);
}

void *__wrap_mmap64(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
    errno = ENODEV;
    return fails(INPUT_OUTPUT) ? MAP_FAILED : __real_mmap64(at, length, protection, flags, fd, offset);
}

int __wrap_fsync(int fd)
{
    errno = EIO;
    return fails(INPUT_OUTPUT) ? -1 : 0; /* syncing for real would only take time */
}

int __wrap_fdatasync(int fd)
{
    errno = EIO;
    return fails(INPUT_OUTPUT) ? -1 : 0;
}

int __wrap_ftruncate64(int fd, off_t length)
{
    errno = EIO;
    return fails(INPUT_OUTPUT) ? -1 : __real_ftruncate64(fd, length);
}

/* ---- The scenario ---- */

static char path[256];
static int errors;

/* Makes a call again when it failed, which it may once. */
#define ONCE_MORE(call)                                        \
    do {                                                       \
        struct problem problem = {0};                          \
        int r_ = (call);                                       \
        if (r_ < 0) {                                          \
            assert_true(happened);                             \
            assert_true(problem.what[0]);                      \
            errors++;                                          \
            problem = (struct problem){0};                     \
            r_ = (call);                                       \
        }                                                      \
        if (r_ != 0)                                           \
            fail_msg("failed again: %d %s", r_, problem.what); \
    } while (0)

enum { ATTRIBUTES = 70, CHANGES = 700, SEGMENT = 40 };

/* The changes, made once without faults. */
struct script {
    uint32_t quark;
    uint64_t time_ns;
    struct history_value value;
};

static struct script script[CHANGES];
static struct naive naive;

static void write_script(void)
{
    uint64_t random = 8;
    naive_init(&naive, ATTRIBUTES, 0);
    for (uint32_t i = 0; i < CHANGES; i++) {
        struct feed feed = {.random = random_next(&random)};
        script[i].quark = (uint32_t)random_below(&random, i % 4 ? 5 : ATTRIBUTES);
        script[i].time_ns = 10 + i * 3;
        script[i].value = feed_value(&feed, script[i].quark);
        naive_modify(&naive, script[i].time_ns, script[i].quark, script[i].value);
    }
    naive.end_ns = naive.max_ns + 5;
}

static int count_state(void *context, const struct history_interval *s)
{
    ++*(int *)context;
    return 0;
}

static int count_summary(void *context, uint32_t column, const struct history_summary *s)
{
    ++*(int *)context;
    return 0;
}

static void ask(struct history *h, uint64_t end_ns)
{
    struct history_interval s;
    static struct history_interval all[ATTRIBUTES];
    int count = 0;
    uint32_t quark = 3;
    ONCE_MORE(history_query(h, quark, end_ns / 2, &s, &problem));
    ONCE_MORE(history_query_full(h, end_ns / 3, all, &problem));
    ONCE_MORE(history_query_range(h, quark, 0, end_ns, count_state, &count, &problem));
    ONCE_MORE(history_query_2d(h, &quark, 1, 0, end_ns, 9, count_state, &count, &problem));
    ONCE_MORE(history_summarize(h, &quark, 1, 0, end_ns, 9, count_summary, &count, &problem));
    assert_true(count > 9);
}

static void scenario(enum history_store store)
{
    struct history *h = NULL;
    struct history_options options = {
        .size = sizeof(options), .store = store, .segment_changes = SEGMENT, .durable = true};
    ONCE_MORE(history_create(path, &options, &h, &problem));
    for (uint32_t i = 0; i < ATTRIBUTES; i++) {
        char name[32];
        uint32_t quark;
        snprintf(name, sizeof(name), "attribute %u", i);
        ONCE_MORE(history_add_path(h, name, &quark, &problem));
        assert_int_equal(quark, i);
    }
    for (uint32_t i = 0; i < CHANGES; i++) {
        ONCE_MORE(history_modify(h, script[i].time_ns, script[i].quark, script[i].value, &problem));
        if (i == CHANGES / 2)
            ask(h, script[i].time_ns);
        if (i == CHANGES / 3)
            ONCE_MORE(history_flush(h, &problem));
    }
    ONCE_MORE(history_close(h, naive.end_ns, &problem));
    ask(h, naive.end_ns);
    history_free(h);
    h = NULL;
    ONCE_MORE(history_open(path, &h, &problem));
    ask(h, naive.end_ns);

    enum fault kind = fault;
    fault = NO_FAULT;
    uint64_t random = 1;
    check_everything(h, &naive, &random, 3);
    history_free(h);
    fault = kind;
}

/* Fails the first call of a kind, then the second, ... until there is none left to fail. */
static void fail_each(enum history_store store, enum fault kind, int at_least)
{
    long place = 0;
    errors = 0;
    do {
        fault = kind;
        calls_left = ++place;
        happened = false;
        scenario(store);
        fault = NO_FAULT;
    } while (happened);
    print_message("%ld places, %d errors\n", place - 1, errors);
    assert_true(place > at_least);
    assert_true(errors >= place / 2); /* some failures are made good on the spot */
    unlink(path);
}

static void memory_runs_out(void **state)
{
    fail_each(HISTORY_COLUMNS, MEMORY, 100);
    fail_each(HISTORY_TREE, MEMORY, 30);
}

static void input_and_output_fail(void **state)
{
    fail_each(HISTORY_COLUMNS, INPUT_OUTPUT, 80);
    fail_each(HISTORY_TREE, INPUT_OUTPUT, 5);
}

static void the_disk_is_full_half_way(void **state)
{
    fail_each(HISTORY_COLUMNS, SHORT_WRITE, 50);
    fail_each(HISTORY_TREE, SHORT_WRITE, 1);
}

int main(void)
{
    temporary_path(path, sizeof(path), "test-history-faults");
    write_script();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(input_and_output_fail),
        cmocka_unit_test(the_disk_is_full_half_way),
    };
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    naive_done(&naive);
    return r;
}
