/* SPDX-License-Identifier: Apache-2.0 */
#include "span/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "test.h"
#include "test_folder.h"

static size_t count_records(struct journal_position from, struct journal_position *ret_end)
{
    struct journal_reader reader;
    uint32_t kind;
    const void *bytes;
    size_t length, n = 0;
    journal_reader_init(&reader, folder, from);
    while (journal_reader_next(&reader, &kind, &bytes, &length) > 0) {
        assert_int_equal(kind, JOURNAL_OTLP_JSON);
        assert_int_equal(length, strlen(bytes) + 1);
        n++;
    }
    if (ret_end)
        *ret_end = reader.at;
    journal_reader_done(&reader);
    return n;
}

static void what_was_appended_is_read_again(void **state)
{
    struct journal *journal;
    struct journal_position before, end, third = {0}, last = {0}, read_to;
    assert_int_equal(journal_open(folder, 0, &journal, NULL), 0);
    for (int i = 0; i < 10; i++) {
        char text[32];
        snprintf(text, sizeof(text), "batch %d", i);
        assert_int_equal(journal_append(journal, JOURNAL_OTLP_JSON, text, strlen(text) + 1, &before, &end),
                         0);
        if (i)
            assert_true(before.segment == last.segment && before.offset == last.offset);
        last = end;
        if (i == 2)
            third = end;
    }
    assert_int_equal(count_records((struct journal_position){0}, &read_to), 10);
    assert_true(read_to.offset == last.offset && read_to.segment == 1);
    assert_int_equal(count_records(third, NULL), 7);
    journal_close(journal);
    /* A torn record behind them is cut off, and appending goes on. */
    char path[TEST_PATH + 32];
    snprintf(path, sizeof(path), "%s/journal-00000001", folder);
    int fd = open(path, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "SJR1 and a record that was never finished", 41), 41);
    close(fd);
    assert_int_equal(count_records((struct journal_position){0}, NULL), 10);
    assert_int_equal(journal_open(folder, 0, &journal, NULL), 0);
    assert_true(journal_end(journal).offset == last.offset);
    assert_int_equal(journal_append(journal, JOURNAL_OTLP_JSON, "more", 5, NULL, NULL), 0);
    assert_int_equal(count_records((struct journal_position){0}, NULL), 11);
    journal_close(journal);
}

static void *append_many(void *context)
{
    for (int i = 0; i < 50; i++)
        assert_int_equal(journal_append(context, JOURNAL_OTLP_JSON, "threaded", 9, NULL, NULL), 0);
    return NULL;
}

static void threads_share_it(void **state)
{
    struct journal *journal;
    pthread_t threads[4];
    assert_int_equal(journal_open(folder, 0, &journal, NULL), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, append_many, journal), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(count_records((struct journal_position){0}, NULL), 200);
    journal_close(journal);
}

static void a_refused_record_leaves_it_whole(void **state)
{
    struct journal *journal;
    assert_int_equal(journal_open(folder, 0, &journal, NULL), 0);
    assert_int_equal(journal_append(journal, JOURNAL_OTLP_JSON, "first", 6, NULL, NULL), 0);
    assert_int_equal(journal_append(journal, JOURNAL_OTLP_JSON, "x", (size_t)2 << 30, NULL, NULL), -EFBIG);
    assert_int_equal(journal_append(journal, JOURNAL_OTLP_JSON, "second", 7, NULL, NULL), 0);
    assert_int_equal(count_records((struct journal_position){0}, NULL), 2);
    journal_close(journal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_appended_is_read_again, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(threads_share_it, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_refused_record_leaves_it_whole, make_folder, remove_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
