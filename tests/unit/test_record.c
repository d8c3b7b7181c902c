/* SPDX-License-Identifier: Apache-2.0 */
#include "history/record.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "history/bits.h"
#include "naive_history.h"

enum { BIG = 300000 };

static char path[256];
static uint8_t big[BIG];

/* Three records: small, of several pages, without a body. */
static uint64_t write_file(void)
{
    struct record_file file;
    struct problem problem = {0};
    temporary_path(path, sizeof(path), "test-record");
    uint64_t random = 9;
    for (int i = 0; i < BIG; i++)
        big[i] = (uint8_t)random_next(&random);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(record_file_create(&file, fd, path, 77, &problem), 0);
    struct record_head small = {.kind = RECORD_SEGMENT, .body_bytes = 100, .slice_max_ns = 5};
    struct record_head large = {.kind = RECORD_SEGMENT, .body_bytes = BIG, .first = 1};
    struct record_head end = {.kind = RECORD_END};
    struct record record;
    assert_int_equal(record_append(&file, &small, big, NULL, &problem), 0);
    assert_int_equal(record_append(&file, &large, big, &record, &problem), 0);
    /* Readable while the file is still being written. */
    assert_int_equal(record_map(&file, &record, &problem), 0);
    assert_int_equal(record_check(&file, &record, 0, BIG, &problem), 0);
    assert_memory_equal(record.body, big, BIG);
    record_done(&file, &record);
    assert_int_equal(file.mapped_bytes, 0);
    assert_int_equal(record_append(&file, &end, "", NULL, &problem), 0);
    uint64_t bytes = file.bytes;
    record_file_done(&file);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, bytes);
    return bytes;
}

static void open_file(struct record_file *file, uint64_t bytes)
{
    struct problem problem = {0};
    uint64_t start_ns;
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(record_file_open(file, fd, bytes, path, &start_ns, &problem), 0);
    assert_int_equal(start_ns, 77);
}

/* The next record, accepted. */
static int take(struct record_file *file, struct record *record, struct problem *problem)
{
    int r = record_next(file, file->bytes, record, problem);
    if (r > 0) {
        file->bytes = record_end(record);
        file->records++;
    }
    return r;
}

static void records_come_back(void **state)
{
    struct record_file file;
    struct record record;
    struct problem problem = {0};
    uint64_t bytes = write_file();
    open_file(&file, bytes);
    assert_int_equal(take(&file, &record, &problem), 1);
    assert_int_equal(record.head.slice_max_ns, 5);
    assert_int_equal(record_check(&file, &record, 0, 100, &problem), 0);
    assert_true(record.all_checked);
    assert_memory_equal(record.body, big, 100);
    assert_int_equal(record_check(&file, &record, 50, 51, &problem), -EBADMSG); /* behind its end */
    assert_int_equal(record_check(&file, &record, UINT64_MAX, 2, &problem), -EBADMSG);
    record_done(&file, &record);
    assert_int_equal(take(&file, &record, &problem), 1);
    assert_int_equal(record_check(&file, &record, 70000, 1, &problem), 0); /* page by page */
    assert_false(record.all_checked);
    assert_int_equal(record_check(&file, &record, 0, BIG, &problem), 0);
    assert_true(record.all_checked);
    record_done(&file, &record);
    assert_int_equal(take(&file, &record, &problem), 1);
    assert_int_equal(record.head.kind, RECORD_END);
    record_done(&file, &record);
    assert_int_equal(file.bytes, bytes);
    assert_int_equal(take(&file, &record, &problem), 0);
    record_file_done(&file);
    unlink(path);
}

static void a_bad_page_is_named(void **state)
{
    struct record_file file;
    struct record record;
    struct problem problem = {0};
    uint64_t bytes = write_file();
    int fd = open(path, O_RDWR);
    /* file head, first record of 128 + 64 + 128 bytes, second's head and page table, its third page */
    off_t third = 64 + 320 + 128 + 64 + 2 * 65536;
    assert_int_equal(pwrite(fd, "x", 1, third + 5), 1);
    close(fd);
    open_file(&file, bytes);
    assert_int_equal(take(&file, &record, &problem), 1);
    record_done(&file, &record);
    assert_int_equal(take(&file, &record, &problem), 1);
    assert_int_equal(record_check(&file, &record, 0, 2 * 65536, &problem), 0);
    assert_int_equal(record_check(&file, &record, 2 * 65536 + 10, 1, &problem), -EBADMSG);
    char expected[64];
    snprintf(expected, sizeof(expected), "offset %lld: the checksum", (long long)third);
    assert_non_null(strstr(problem.what, expected));
    assert_int_equal(record_check(&file, &record, 3 * 65536, 1, &problem), 0);
    record_done(&file, &record);
    record_file_done(&file);
    unlink(path);
}

static void damage_and_an_unfinished_end_differ(void **state)
{
    struct record_file file;
    struct record record;
    struct problem problem = {0};
    uint64_t bytes = write_file();
    /* Cut within the second record: unfinished. */
    open_file(&file, bytes - 1000);
    assert_int_equal(take(&file, &record, &problem), 1);
    record_done(&file, &record);
    assert_int_equal(take(&file, &record, &problem), 0);
    record_file_done(&file);
    /* A bad head with others behind it: damage. */
    int fd = open(path, O_RDWR);
    assert_int_equal(pwrite(fd, "x", 1, 64 + 20), 1);
    close(fd);
    open_file(&file, bytes);
    assert_int_equal(take(&file, &record, &problem), -EBADMSG);
    assert_non_null(strstr(problem.what, "offset 64: the head of record 0 is damaged"));
    record_file_done(&file);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_back),
        cmocka_unit_test(a_bad_page_is_named),
        cmocka_unit_test(damage_and_an_unfinished_end_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
