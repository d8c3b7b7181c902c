/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/sideband.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

struct announcement {
    struct perf_event_header header;
    uint8_t bytes[200];
};

static void put(struct announcement *a, const void *bytes, size_t size)
{
    memcpy((uint8_t *)a + a->header.size, bytes, size);
    a->header.size = (uint16_t)(a->header.size + size);
}

static void put_word(struct announcement *a, uint64_t word)
{
    put(a, &word, sizeof(word));
}

static void put_half(struct announcement *a, uint32_t half)
{
    put(a, &half, sizeof(half));
}

static int announce(struct sideband *s, struct announcement *a, uint64_t time_ns)
{
    put_half(a, 1);
    put_half(a, 1);
    put_word(a, time_ns);
    return sideband_take(s, a, a->header.size);
}

static int mapped(struct sideband *s, uint32_t pid, uint64_t start, uint64_t length, uint64_t offset,
                  uint64_t inode, const char *path, uint64_t time_ns)
{
    struct announcement a = {.header = {.type = PERF_RECORD_MMAP2, .size = sizeof(a.header)}};
    char padded[48] = {0};
    strncpy(padded, path, sizeof(padded) - 1);
    put_half(&a, pid);
    put_half(&a, pid);
    put_word(&a, start);
    put_word(&a, length);
    put_word(&a, offset);
    put_half(&a, 8);
    put_half(&a, 1);
    put_word(&a, inode);
    put_word(&a, 0);
    put_half(&a, 5);
    put_half(&a, 2);
    put(&a, padded, sizeof(padded));
    return announce(s, &a, time_ns);
}

static void began(struct sideband *s, uint32_t type, uint32_t pid, uint32_t parent, uint64_t time_ns)
{
    struct announcement a = {.header = {.type = type, .size = sizeof(a.header)}};
    put_half(&a, pid);
    put_half(&a, parent);
    put_half(&a, pid);
    put_half(&a, parent);
    put_word(&a, time_ns);
    assert_int_equal(announce(s, &a, time_ns), 0);
}

static void runs_program(struct sideband *s, uint32_t pid, uint64_t time_ns)
{
    struct announcement a = {
        .header = {.type = PERF_RECORD_COMM, .misc = PERF_RECORD_MISC_COMM_EXEC, .size = sizeof(a.header)}};
    put_half(&a, pid);
    put_half(&a, pid);
    put_word(&a, 'x');
    assert_int_equal(announce(s, &a, time_ns), 0);
}

static void count_changes(void *context, pid_t pid, uint64_t time_ns)
{
    *(int *)context += pid == 7;
}

static void keep_time(void *context, pid_t pid, uint64_t time_ns)
{
    *(uint64_t *)context = time_ns;
}

static void follows_a_process_in_order_of_time(void **state)
{
    struct sideband *s = NULL;
    struct sideband_process p;
    struct mapping_note *notes;
    size_t count;
    int changes = 0;
    assert_int_equal(sideband_new(&s), 0);
    /* Not in order, as several CPUs announce them. */
    assert_int_equal(mapped(s, 7, 0x1000, 0x1000, 0, 11, "/bin/late", 50), 0);
    runs_program(s, 7, 40);
    assert_int_equal(mapped(s, 7, 0x9000, 0x1000, 0, 10, "/bin/early", 30), 0);
    began(s, PERF_RECORD_FORK, 7, 3, 20);
    sideband_apply(s, 30, count_changes, &changes);
    assert_int_equal(changes, 1);
    assert_true(sideband_find(s, 7, &p));
    assert_int_equal(p.parent, 3);
    assert_int_equal(p.exec_ns, 0);
    assert_int_equal(p.next_exec_ns, 40); /* what can be read of it now is not what ran at 30 */
    sideband_apply(s, UINT64_MAX, count_changes, &changes);
    assert_int_equal(changes, 2);
    assert_true(sideband_find(s, 7, &p));
    assert_int_equal(p.exec_ns, 40);
    assert_int_equal(p.next_exec_ns, 0);
    assert_int_equal(p.mapping_count, 1); /* the earlier program's are gone */
    assert_int_equal(sideband_notes(s, 7, &notes, &count), 0);
    assert_int_equal(count, 1);
    assert_string_equal(notes[0].path, "/bin/late");
    free(notes);
    assert_int_equal(sideband_notes(s, 8, &notes, &count), -ENOENT);
    /* It ended; its news come late, so it stays for a while. */
    began(s, PERF_RECORD_EXIT, 7, 3, 60);
    sideband_apply(s, UINT64_MAX, NULL, NULL);
    assert_true(sideband_find(s, 7, &p));
    began(s, PERF_RECORD_FORK, 9, 3, 10000000000ull);
    sideband_apply(s, UINT64_MAX, NULL, NULL);
    assert_false(sideband_find(s, 7, &p));
    sideband_free(s);
}

static size_t count_ahead(struct sideband *s, pid_t pid, const char *first)
{
    struct mapping_note *notes;
    size_t count;
    int r = sideband_notes_ahead(s, pid, &notes, &count);
    if (r < 0) {
        assert_int_equal(r, -ENOENT);
        return 0;
    }
    assert_string_equal(notes[0].path, first);
    free(notes);
    return count;
}

static void announces_a_program_before_it_is_applied(void **state)
{
    struct sideband *s = NULL;
    struct announcement lost = {.header = {.type = PERF_RECORD_LOST, .size = sizeof(lost.header)}};
    uint64_t at_ns = 0;
    assert_int_equal(sideband_new(&s), 0);
    assert_int_equal(mapped(s, 7, 0x1000, 0x1000, 0, 10, "/bin/first", 10), 0);
    assert_int_equal(count_ahead(s, 7, ""), 0); /* that it mapped more before is possible */
    runs_program(s, 7, 20);
    assert_int_equal(count_ahead(s, 7, ""), 0);
    assert_int_equal(mapped(s, 7, 0x5000, 0x1000, 0, 12, "/lib/late", 40), 0);
    assert_int_equal(mapped(s, 7, 0x1000, 0x1000, 0, 11, "/bin/second", 30), 0);
    assert_int_equal(mapped(s, 8, 0x1000, 0x1000, 0, 11, "/bin/other", 35), 0);
    assert_int_equal(count_ahead(s, 7, "/bin/second"), 2);
    sideband_apply(s, 30, keep_time, &at_ns);
    assert_int_equal(at_ns, 30);
    assert_int_equal(count_ahead(s, 7, "/bin/second"), 2);
    assert_int_equal(mapped(s, 7, 0x0000, 0x3000, 0, 13, "/lib/over", 50), 0);
    assert_int_equal(count_ahead(s, 7, "/lib/late"), 2); /* in the place of the program */
    began(s, PERF_RECORD_EXIT, 7, 3, 55);
    assert_int_equal(count_ahead(s, 7, "/lib/late"), 2);
    /* What of it was lost cannot be known. */
    put_word(&lost, 1);
    put_word(&lost, 3);
    assert_int_equal(announce(s, &lost, 60), 0);
    assert_int_equal(count_ahead(s, 7, ""), 0);
    runs_program(s, 8, 70);
    assert_int_equal(mapped(s, 8, 0x1000, 0x1000, 0, 11, "/bin/second", 80), 0);
    assert_int_equal(count_ahead(s, 8, "/bin/second"), 1);
    began(s, PERF_RECORD_FORK, 8, 3, 90); /* another one with its number */
    assert_int_equal(count_ahead(s, 8, ""), 0);
    sideband_free(s);
}

/* Most programs map the same libraries. */
static void a_path_is_kept_once(void **state)
{
    struct sideband *s = NULL;
    struct mapping_note *first, *second, *ahead;
    size_t count;
    assert_int_equal(sideband_new(&s), 0);
    for (uint32_t pid = 7; pid <= 8; pid++) {
        runs_program(s, pid, pid);
        assert_int_equal(mapped(s, pid, 0x1000, 0x1000, 0, 10, "/lib/shared", 10 + pid), 0);
        assert_int_equal(
            mapped(s, pid, 0x3000, 0x1000, 0, 11, pid == 7 ? "/lib/share" : "/lib/shared2", 20 + pid), 0);
    }
    sideband_apply(s, UINT64_MAX, NULL, NULL);
    assert_int_equal(sideband_notes(s, 7, &first, &count), 0);
    assert_int_equal(sideband_notes(s, 8, &second, &count), 0);
    assert_int_equal(count, 2);
    assert_ptr_equal(first[0].path, second[0].path);
    assert_string_equal(first[1].path, "/lib/share");
    assert_string_equal(second[1].path, "/lib/shared2");
    free(first);
    free(second);
    runs_program(s, 7, 40); /* one of them has it no more */
    assert_int_equal(mapped(s, 9, 0x1000, 0x1000, 0, 10, "/lib/shared", 50), 0);
    sideband_apply(s, UINT64_MAX, NULL, NULL);
    assert_int_equal(sideband_notes(s, 7, &first, &count), -ENOENT);
    assert_int_equal(sideband_notes(s, 8, &second, &count), 0);
    assert_int_equal(sideband_notes(s, 9, &ahead, &count), 0);
    assert_string_equal(second[0].path, "/lib/shared");
    assert_ptr_equal(second[0].path, ahead[0].path);
    free(second);
    free(ahead);
    sideband_free(s);
}

static void refuses_damaged_records(void **state)
{
    struct sideband *s = NULL;
    struct announcement a = {.header = {.type = PERF_RECORD_MMAP2, .size = sizeof(a.header)}};
    assert_int_equal(sideband_new(&s), 0);
    put_word(&a, 1);
    assert_int_equal(announce(s, &a, 1), -EBADMSG);        /* too short for a mapping */
    assert_int_equal(sideband_take(s, &a, 4), -EBADMSG);   /* shorter than a header */
    assert_int_equal(sideband_take(s, &a, 100), -EBADMSG); /* says another size */
    assert_int_equal(mapped(s, 7, UINT64_MAX - 10, 0x1000, 0, 1, "/x", 1), -EBADMSG); /* wraps */
    sideband_apply(s, UINT64_MAX, NULL, NULL);
    sideband_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(follows_a_process_in_order_of_time),
                                       cmocka_unit_test(announces_a_program_before_it_is_applied),
                                       cmocka_unit_test(a_path_is_kept_once),
                                       cmocka_unit_test(refuses_damaged_records)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
