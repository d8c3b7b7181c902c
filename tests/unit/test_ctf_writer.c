/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/ctf_writer.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "trace/trace.h"
#include "test.h"
#include "test_folder.h"

static void write_command(struct ctf_stream *stream, uint64_t end_ns, uint64_t sequence)
{
    struct record_redis_command record = {.client_id = 7,
                                          .sequence = sequence,
                                          .bytes = sequence * 3,
                                          .name = 5,
                                          .fd = -1,
                                          .argument_count = 2,
                                          .db = 15,
                                          .kind = 2,
                                          .depth = 1};
    ctf_stream_write(stream, SONDE_EVENT_redis_command, end_ns, 1000 + sequence, &record, NULL);
}

/* Reads everything back and checks the fields; the number of commands. */
static uint64_t read_back(void)
{
    struct problem problem = {0};
    struct trace *trace;
    if (trace_open(folder, NULL, &problem, &trace) < 0)
        fail_msg("%s", problem.what);
    const struct event *event;
    uint64_t count = 0, last_ns = 0;
    int r;
    while ((r = trace_next(trace, &event)) > 0) {
        assert_true(event->time_ns >= last_ns);
        last_ns = event->time_ns;
        if (event->id != SONDE_EVENT_redis_command)
            continue;
        uint64_t sequence = event->values[FIELD_redis_command_sequence].u;
        count++;
        assert_int_equal(event->values[FIELD_DURATION].u, 1000 + sequence);
        assert_int_equal(event->values[FIELD_redis_command_client_id].u, 7);
        assert_int_equal(event->values[FIELD_redis_command_bytes].u, sequence * 3);
        assert_int_equal(event->values[FIELD_redis_command_fd].i, -1);
        assert_int_equal(event->values[FIELD_redis_command_db].i, 15);
        assert_int_equal(event->values[FIELD_redis_command_kind].u, 2);
    }
    assert_int_equal(r, 0);
    trace_close(trace);
    return count;
}

/* A second writer adds streams beside those of one that is still at work, also twice for one thread. */
static void a_second_writer_joins(void **state)
{
    struct ctf_writer *first, *second, *third;
    struct ctf_stream *a, *b, *c;
    struct problem problem = {0};
    assert_int_equal(ctf_writer_join(folder, &second, &problem), -ENOENT);
    assert_int_equal(ctf_writer_create(folder, &first, NULL), 0);
    assert_int_equal(ctf_stream_open(first, 1, 2, &a), 0);
    write_command(a, 1000, 1);
    assert_int_equal(ctf_writer_join(folder, &second, NULL), 0);
    assert_int_equal(ctf_writer_join(folder, &third, NULL), 0);
    assert_int_equal(ctf_stream_open(second, 1, 2, &b), 0);
    assert_int_equal(ctf_stream_open(third, 1, 2, &c), 0);
    write_command(b, 500, 2);
    write_command(c, 1500, 3);
    ctf_stream_free(b);
    ctf_stream_free(c);
    ctf_stream_free(a);
    assert_int_equal(read_back(), 3);
    struct ctf_totals totals;
    ctf_writer_totals(third, &totals);
    assert_int_equal(totals.write_error, 0);
    ctf_writer_free(first);
    ctf_writer_free(second);
    ctf_writer_free(third);

    char command[TEST_PATH + 64];
    snprintf(command, sizeof(command), "sed -i s/_argument_count/_arguments/ %s/ctf/metadata", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(ctf_writer_join(folder, &first, &problem), -EPROTO);
}

/* A recorder whose catalogue numbers events in another way: its metadata says how. */
static void open_spans_are_named_by_their_recording(void **state)
{
    struct ctf_writer *writer;
    struct ctf_stream *stream;
    struct problem problem = {0};
    assert_int_equal(ctf_writer_create(folder, &writer, NULL), 0);
    assert_int_equal(ctf_stream_open(writer, 1, 2, &stream), 0);
    struct record_open_span record = {.since_ns = 5, .event = SONDE_EVENT_uv_submit};
    ctf_stream_write(stream, SONDE_EVENT_open_span, 1000, 0, &record, NULL);
    ctf_stream_free(stream);
    ctf_writer_free(writer);
    char command[TEST_PATH + 256];
    snprintf(command, sizeof(command),
             "sed -i 's/\"http:end\"/\"x\"/; s/\"http:trace\"/\"http:end\"/; s/\"uv:submit\"/\"y:y\"/' "
             "%s/ctf/metadata",
             folder);
    assert_int_equal(system(command), 0);
    struct trace *trace;
    const struct event *event;
    if (trace_open(folder, NULL, &problem, &trace) < 0)
        fail_msg("%s", problem.what);
    assert_int_equal(trace_next(trace, &event), 1);
    assert_int_equal(event->id, SONDE_EVENT_open_span);
    assert_int_equal(event_recorded_as(event, SONDE_EVENT_http_trace), SONDE_EVENT_http_end);
    assert_int_equal(event_recorded_as(event, SONDE_EVENT_http_request), SONDE_EVENT_http_request);
    assert_int_equal(event_recorded_as(event, event->values[FIELD_open_span_event].u), SONDE_EVENT_none);
    assert_int_equal(event_recorded_as(event, SONDE_EVENT_COUNT + 5), SONDE_EVENT_none);
    trace_close(trace);
}

static void what_is_written_is_read(void **state)
{
    struct ctf_writer *writer;
    struct ctf_stream *a, *b;
    assert_int_equal(ctf_writer_create(folder, &writer, NULL), 0);
    assert_int_equal(ctf_stream_open(writer, 1, 2, &a), 0);
    assert_int_equal(ctf_stream_open(writer, 1, 3, &b), 0);
    enum { COUNT = 20000 };
    for (uint64_t i = 0; i < COUNT; i++)
        write_command(i % 3 ? a : b, 5000000 + i * 10, i);
    struct record_probe_name name = {.id = 5, .text_length = 7};
    ctf_stream_write(a, SONDE_EVENT_probe_name, 9000000, 0, &name, "a\0b\"c;\n");
    ctf_stream_free(a);
    ctf_stream_free(b);
    struct ctf_totals totals;
    ctf_writer_totals(writer, &totals);
    assert_int_equal(totals.events, COUNT + 1);
    assert_int_equal(totals.lost_events, 0);
    ctf_writer_free(writer);
    assert_int_equal(read_back(), COUNT);
}

/* A name is recorded when it is first needed, by a thread that may then be off its CPU; the event that needs
 * it has the time from before. */
static void a_name_does_not_make_its_event_late(void **state)
{
    struct ctf_writer *writer;
    struct ctf_stream *stream;
    struct problem problem = {0};
    struct trace *trace;
    const struct event *event;
    const struct record_probe_name name = {.id = 5, .text_length = 3};
    assert_int_equal(ctf_writer_create(folder, &writer, NULL), 0);
    assert_int_equal(ctf_stream_open(writer, 1, 2, &stream), 0);
    write_command(stream, 1000000, 1);
    ctf_stream_write(stream, SONDE_EVENT_probe_name, 9000000, 0, &name, "get");
    write_command(stream, 2000000, 2);
    ctf_stream_free(stream);
    struct ctf_totals totals;
    ctf_writer_totals(writer, &totals);
    assert_int_equal(totals.late_ns_worst, 0);
    ctf_writer_free(writer);
    assert_int_equal(trace_open(folder, NULL, &problem, &trace), 0);
    const enum sonde_event_id ids[] = {SONDE_EVENT_redis_command, SONDE_EVENT_probe_name,
                                       SONDE_EVENT_redis_command};
    const uint64_t times[] = {1000000, 1000000, 2000000};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(trace_next(trace, &event), 1);
        assert_int_equal(event->id, ids[i]);
        assert_int_equal(event->time_ns, times[i]);
    }
    trace_close(trace);
}

static void a_folder_with_a_trace_is_refused(void **state)
{
    struct ctf_writer *writer;
    struct problem problem = {0};
    assert_int_equal(ctf_writer_create(folder, &writer, NULL), 0);
    ctf_writer_free(writer);
    assert_int_equal(ctf_writer_create(folder, &writer, &problem), -EEXIST);
    assert_non_null(strstr(problem.what, "already holds a trace"));
    assert_true(problem.remedy[0]);
}

static void an_unwritable_place_is_explained(void **state)
{
    struct ctf_writer *writer;
    struct problem problem = {0};
    assert_true(ctf_writer_create("/proc/nowhere/x", &writer, &problem) < 0);
    assert_non_null(strstr(problem.what, "/proc/nowhere"));
}

static void times_never_go_back(void **state)
{
    struct ctf_writer *writer;
    struct ctf_stream *stream;
    assert_int_equal(ctf_writer_create(folder, &writer, NULL), 0);
    assert_int_equal(ctf_stream_open(writer, 1, 2, &stream), 0);
    write_command(stream, 2000, 1);
    write_command(stream, 1000, 2);
    ctf_stream_free(stream);
    struct ctf_totals totals;
    ctf_writer_totals(writer, &totals);
    assert_int_equal(totals.late_ns_worst, 1000);
    ctf_writer_free(writer);
    assert_int_equal(read_back(), 2);
}

static unsigned count_streams(void)
{
    char path[TEST_PATH + 8];
    unsigned count = 0;
    snprintf(path, sizeof(path), "%s/ctf", folder);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.' && strcmp(entry->d_name, "metadata") != 0;
    closedir(dir);
    return count;
}

/* As those of a server's children, of which two live at a time. */
static void streams_that_have_ended_are_continued(void **state)
{
    enum { CHILDREN = 50 };
    struct ctf_writer *writer;
    struct ctf_stream *streams[CHILDREN];
    assert_int_equal(ctf_writer_create(folder, &writer, NULL), 0);
    for (uint32_t i = 0; i < CHILDREN; i++) {
        assert_int_equal(ctf_stream_open(writer, 100 + i, 200 + i, &streams[i]), 0);
        write_command(streams[i], 1000 * (i + 1), i + 1);
        assert_int_equal(ctf_stream_flush(streams[i]), 0);
        if (i % 10 == 0)
            ctf_stream_discarded(streams[i], 1);
        if (i)
            ctf_stream_free(streams[i - 1]);
    }
    ctf_stream_free(streams[CHILDREN - 1]);
    /* One whose events lie before the end of all others gets its own. */
    assert_int_equal(ctf_stream_open(writer, 7, 8, &streams[0]), 0);
    write_command(streams[0], 500, 0);
    ctf_stream_free(streams[0]);
    struct ctf_totals totals;
    ctf_writer_totals(writer, &totals);
    assert_int_equal(totals.late_ns_worst, 0);
    ctf_writer_free(writer);
    assert_int_equal(count_streams(), 3);

    struct trace *trace;
    const struct event *event;
    assert_int_equal(trace_open(folder, NULL, NULL, &trace), 0);
    assert_int_equal(trace_next(trace, &event), 1);
    assert_int_equal(event->pid, 7);
    assert_int_equal(event->time_ns, 500);
    for (uint32_t i = 0; i < CHILDREN; i++) {
        assert_int_equal(trace_next(trace, &event), 1);
        assert_int_equal(event->pid, 100 + i);
        assert_int_equal(event->tid, 200 + i);
        assert_int_equal(event->time_ns, 1000 * (i + 1));
    }
    assert_int_equal(trace_next(trace, &event), 0);
    trace_close(trace);
}

/* Writing fails in the middle of a packet, then works again: the packet is lost and counted, the rest is
 * whole. */
static void a_full_disk_costs_counted_packets(void **state)
{
    struct ctf_writer *writer;
    struct ctf_stream *stream;
    struct rlimit was, limit;
    assert_int_equal(ctf_writer_create(folder, &writer, NULL), 0);
    assert_int_equal(ctf_stream_open(writer, 1, 2, &stream), 0);
    write_command(stream, 1000, 1);
    assert_int_equal(ctf_stream_flush(stream), 0);
    for (uint64_t i = 2; i <= 101; i++)
        write_command(stream, 1000 * i, i);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &was);
    limit = was;
    limit.rlim_cur = 1024;
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_int_equal(ctf_stream_flush(stream), -EFBIG);
    setrlimit(RLIMIT_FSIZE, &was);
    for (uint64_t i = 102; i <= 111; i++)
        write_command(stream, 1000 * i, i);
    ctf_stream_free(stream);
    struct ctf_totals totals;
    ctf_writer_totals(writer, &totals);
    assert_int_equal(totals.lost_events, 100);
    assert_int_equal(totals.write_error, -EFBIG);
    assert_int_equal(totals.events, 11);
    ctf_writer_free(writer);
    assert_int_equal(read_back(), 11);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {T(a_second_writer_joins),
                                       T(open_spans_are_named_by_their_recording),
                                       T(what_is_written_is_read),
                                       T(a_name_does_not_make_its_event_late),
                                       T(a_folder_with_a_trace_is_refused),
                                       T(an_unwritable_place_is_explained),
                                       T(streams_that_have_ended_are_continued),
                                       T(times_never_go_back),
                                       T(a_full_disk_costs_counted_packets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
