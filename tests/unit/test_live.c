/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/live.h"

#include <string.h>

#include "base/clock.h"
#include "event/event.h"
#include "trace/ctf_writer.h"
#include "trace_sample.h"

/* A recording that this test writes, of commands that a server executes. */
struct recording {
    char *folder;
    struct ctf_writer *writer;
    uint64_t start_ns; /* of its events' times: so long ago that all are settled */
};

static void say_complete(const struct recording *r, bool complete)
{
    char text[128];
    int n = snprintf(text, sizeof(text), "{\"complete\": %s, \"written_every_ms\": 1}",
                     complete ? "true" : "false");
    sample_write(r->folder, "manifest.json", text, (size_t)n);
}

static void begin(struct recording *r)
{
    struct problem problem = {0};
    r->folder = sample_folder();
    assert_int_equal(ctf_writer_create(r->folder, &r->writer, &problem), 0);
    r->start_ns = NS_PER_S; /* of a clock that began when the machine did */
    say_complete(r, false);
}

static void end(struct recording *r)
{
    ctf_writer_free(r->writer);
    sample_remove(r->folder);
}

static struct ctf_stream *stream(struct recording *r, uint32_t tid)
{
    struct ctf_stream *s = NULL;
    assert_int_equal(ctf_stream_open(r->writer, 10, tid, &s), 0);
    return s;
}

static void write_command(struct ctf_stream *s, uint64_t at_ns, uint64_t took_ns)
{
    const struct record_redis_command record = {.client_id = 7};
    ctf_stream_write(s, SONDE_EVENT_redis_command, at_ns, took_ns, &record, NULL);
}

static struct live *live_of(const struct recording *r)
{
    const struct analyze_options options = ANALYZE_DEFAULTS;
    struct problem problem = {0};
    struct live *live = NULL;
    assert_int_equal(live_new(r->folder, &options, &live, &problem), 0);
    return live;
}

static uint64_t read_now(struct live *live)
{
    struct problem problem = {0};
    assert_int_equal(live_read(live, &problem), 0);
    return live_counts(live)->events;
}

/* The number of events that the final report is of. */
static uint64_t finish(struct live *live)
{
    struct problem problem = {0};
    struct analysis *analysis = NULL;
    struct report report = {0};
    assert_int_equal(live_finish(live, NULL, &problem, &analysis, &report), 0);
    uint64_t events = analysis_counts(analysis)->events;
    report_done(&report);
    analysis_free(analysis);
    live_free(live);
    return events;
}

/* What is added is read, once; also in streams that are new, and at last what is young. */
static void reads_what_is_added(void **state)
{
    struct recording r;
    begin(&r);
    struct live *live = live_of(&r);
    assert_int_equal(read_now(live), 0);
    struct ctf_stream *a = stream(&r, 10);
    write_command(a, r.start_ns + 1000, 100);
    assert_int_equal(read_now(live), 0); /* nothing is on disk yet */
    assert_int_equal(ctf_stream_flush(a), 0);
    assert_int_equal(read_now(live), 1);
    assert_int_equal(read_now(live), 1);
    struct ctf_stream *b = stream(&r, 11);
    write_command(a, r.start_ns + 2000, 100);
    write_command(b, r.start_ns + 1500, 100);
    write_command(b, r.start_ns + 2500, 100);
    assert_int_equal(ctf_stream_flush(a), 0);
    assert_int_equal(ctf_stream_flush(b), 0);
    assert_int_equal(read_now(live), 4);
    assert_int_equal(live_read_ns(live), r.start_ns + 2500);
    /* Others may still be written that are older than this one. */
    write_command(a, clock_monotonic_ns() + 1000 * NS_PER_S, 100);
    assert_int_equal(ctf_stream_flush(a), 0);
    assert_int_equal(read_now(live), 4);
    assert_false(live_is_complete(live));
    say_complete(&r, true);
    assert_int_equal(read_now(live), 5);
    assert_true(live_is_complete(live));
    assert_int_equal(finish(live), 5);
    ctf_stream_free(a);
    ctf_stream_free(b);
    end(&r);
}

/* An event that comes after newer ones were read is left out of what is shown meanwhile, and not of the
 * report at the end. */
static void what_comes_too_late_is_in_the_report(void **state)
{
    struct recording r;
    begin(&r);
    struct live *live = live_of(&r);
    struct ctf_stream *a = stream(&r, 10), *b = stream(&r, 11);
    write_command(a, r.start_ns + 2000, 100);
    assert_int_equal(ctf_stream_flush(a), 0);
    assert_int_equal(read_now(live), 1);
    write_command(b, r.start_ns + 1000, 100);
    assert_int_equal(ctf_stream_flush(b), 0);
    assert_int_equal(read_now(live), 1);
    say_complete(&r, true);
    assert_int_equal(read_now(live), 1);
    assert_int_equal(finish(live), 2);
    ctf_stream_free(a);
    ctf_stream_free(b);
    end(&r);
}

/* Whoever stops following before the recording ends gets a report of what is there. */
static void a_recording_that_goes_on(void **state)
{
    struct recording r;
    begin(&r);
    struct live *live = live_of(&r);
    struct ctf_stream *a = stream(&r, 10);
    write_command(a, r.start_ns + 1000, 100);
    assert_int_equal(ctf_stream_flush(a), 0);
    assert_int_equal(read_now(live), 1);
    write_command(a, clock_monotonic_ns() + 1000 * NS_PER_S, 100);
    assert_int_equal(ctf_stream_flush(a), 0);
    assert_int_equal(finish(live), 2);
    ctf_stream_free(a);
    end(&r);
}

static void what_is_no_recording(void **state)
{
    struct problem problem = {0};
    char *folder = sample_folder();
    const struct recording nothing = {.folder = folder};
    struct live *live = live_of(&nothing);
    assert_int_equal(live_read(live, &problem), 0); /* it may become one */
    say_complete(&nothing, true);
    assert_true(live_read(live, &problem) < 0);
    assert_true(strlen(problem.what) > 0);
    live_free(live);
    sample_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_is_added),
        cmocka_unit_test(what_comes_too_late_is_in_the_report),
        cmocka_unit_test(a_recording_that_goes_on),
        cmocka_unit_test(what_is_no_recording),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
