/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

#include "analyze/folder.h"

enum { API = 10, WORKER = 12 };
static const uint64_t OURS = 0x1068, THEIRS = 0x2068;

static void post(struct feed *feed, int64_t tid, uint64_t from, uint64_t target, uint64_t at)
{
    FEED(feed, port_post, API, tid, at, 0, .from = from, .target = target);
}

static void receive(struct feed *feed, int64_t tid, uint64_t handle, uint64_t at)
{
    FEED(feed, port_receive, API, tid, at, 0, .handle = handle);
}

static void end_turn(struct feed *feed, int64_t tid, uint64_t handle, uint64_t start, uint64_t end)
{
    FEED(feed, node_callback, API, tid, end - US(1), end - start - US(2), .async_id = 77);
    FEED(feed, port_turn, API, tid, end, end - start, .handle = handle);
}

/* The thread said that it is ready; then a request posts, it works for 20 ms, posts back, and works on. */
static void a_request_waits_for_a_threads_answer(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    post(&feed, WORKER, THEIRS, OURS, MS(1));
    receive(&feed, API, OURS, MS(2));
    end_turn(&feed, API, OURS, MS(2), MS(3));
    FEED_TEXT(&feed, "/work");
    FEED(&feed, http_request, API, API, MS(10), 0, .fd = 30, .generation = 1, .method = 1);
    post(&feed, API, OURS, THEIRS, MS(11));
    FEED(&feed, node_callback, API, API, MS(12), MS(3), .async_id = 900);
    FEED(&feed, stream_io, API, API, MS(12) + US(1), MS(4), .fd = 30, .generation = 1, .events = 1);
    receive(&feed, WORKER, THEIRS, MS(15));
    post(&feed, WORKER, THEIRS, OURS, MS(35));
    receive(&feed, API, OURS, MS(36));
    FEED(&feed, http_response, API, API, MS(37), 0, .fd = 30, .generation = 1, .status = 200,
         .header_bytes = 100, .content_length = 0);
    FEED(&feed, stream_write, API, API, MS(37), 0, .fd = 30, .generation = 1, .bytes = 100, .result = 100);
    end_turn(&feed, API, OURS, MS(36), MS(38));
    end_turn(&feed, WORKER, THEIRS, MS(15), MS(50));
    json_t *channels = analysis_channels_json(feed.analysis);
    feed_finish(&feed);

    const struct request *request = feed_kept(&feed, "/work");
    const struct vspan *message = feed_span(request, VSPAN_ipc);
    assert_non_null(message);
    assert_string_equal(message->peer, "thread 12 of the same process");
    assert_int_equal(message->start_ns, MS(11));
    assert_int_equal(message->work_start_ns, MS(15));
    assert_int_equal(message->work_end_ns, MS(35));
    assert_int_equal(message->end_ns, MS(36));
    uint64_t waited_ns = 0;
    array_foreach (&request->path_steps, s)
        waited_ns += s->class == PATH_PEER ? s->end_ns - s->start_ns : 0;
    assert_int_equal(waited_ns, MS(20));

    assert_int_equal(json_array_size(channels), 2);
    size_t index;
    json_t *channel;
    json_array_foreach (channels, index, channel) {
        bool ours = json_integer_value(json_object_get(channel, "thread")) == API;
        assert_int_equal(json_integer_value(json_object_get(channel, "to_thread")), ours ? WORKER : API);
        assert_int_equal(json_integer_value(json_object_get(channel, "writes_count")), ours ? 1 : 2);
        assert_int_equal(json_integer_value(json_object_get(channel, "answers_count")), ours ? 1 : 0);
        if (ours)
            assert_int_equal(json_integer_value(json_object_get(channel, "answer_mean_ns")), MS(25));
    }
    json_decref(channels);
    feed_done(&feed);
}

/* The second message comes while the thread is still in the turn of the first, and is taken there: no receipt
 * tells of it, but one of a turn for nothing may follow its answer. */
static void a_message_taken_in_the_turn_of_another(void **state)
{
    for (int late = 0; late < 2; late++) {
        struct feed feed;
        feed_init(&feed);
        feed_process(&feed, API, 1, "api", US(1));
        post(&feed, WORKER, THEIRS, OURS, MS(1));
        receive(&feed, API, OURS, MS(2));
        end_turn(&feed, API, OURS, MS(2), MS(3));
        for (int i = 0; i < 2; i++) {
            uint64_t from = MS(10) + (uint64_t)i * MS(20);
            FEED_TEXT(&feed, i ? "/second" : "/first");
            FEED(&feed, http_request, API, API, from, 0, .fd = 30 + i, .generation = 1, .method = 1);
            post(&feed, API, OURS, THEIRS, from + MS(1));
            FEED(&feed, node_callback, API, API, from + MS(2), MS(2), .async_id = 900);
            FEED(&feed, stream_io, API, API, from + MS(2) + US(1), MS(3), .fd = 30 + i, .generation = 1,
                 .events = 1);
            if (!i)
                receive(&feed, WORKER, THEIRS, from + MS(3));
            post(&feed, WORKER, THEIRS, OURS, from + MS(15));
            if (i && late) {
                end_turn(&feed, WORKER, THEIRS, MS(13), from + MS(15) + US(5));
                receive(&feed, WORKER, THEIRS, from + MS(15) + US(10));
            }
            receive(&feed, API, OURS, from + MS(16));
            FEED(&feed, http_response, API, API, from + MS(17), 0, .fd = 30 + i, .generation = 1,
                 .status = 200, .header_bytes = 100, .content_length = 0);
            FEED(&feed, stream_write, API, API, from + MS(17), 0, .fd = 30 + i, .generation = 1, .bytes = 100,
                 .result = 100);
            end_turn(&feed, API, OURS, from + MS(16), from + MS(18));
        }
        feed_finish(&feed);
        const struct vspan *first = feed_span(feed_kept(&feed, "/first"), VSPAN_ipc),
                           *second = feed_span(feed_kept(&feed, "/second"), VSPAN_ipc);
        assert_int_equal(first->work_start_ns, MS(13));
        assert_int_equal(first->work_end_ns, MS(25));
        assert_int_equal(second->work_start_ns, MS(31)); /* the thread had answered the first at 25 ms */
        assert_int_equal(second->work_end_ns, MS(45));
        feed_done(&feed);
    }
}

/* A pool of two threads gives tasks of its queue in the callbacks of others, and takes the answer of one in
 * the turn of the other's: the requests that are answered there waited for them, in that order. before: the
 * callback in which they are given is known to be a request's. */
static void two_answers_in_one_turn(bool before)
{
    enum { OTHER = 13 };
    const uint64_t ours[] = {0x1068, 0x1168}, theirs[] = {0x2068, 0x2168};
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    for (int i = 0; i < 2 + before; i++) {
        FEED_TEXT(&feed, i == 2 ? "/before" : i ? "/second" : "/first");
        FEED(&feed, http_request, API, API, MS(1) + MS((uint64_t)i), 0, .fd = 30 + i, .generation = 1,
             .method = 1);
        FEED(&feed, node_callback, API, API, MS(1) + MS((uint64_t)i) + US(20), US(30), .async_id = 900);
        FEED(&feed, stream_io, API, API, MS(1) + MS((uint64_t)i) + US(30), US(50), .fd = 30 + i,
             .generation = 1, .events = 1);
    }
    if (before) {
        post(&feed, API, ours[0], theirs[0], MS(10));
        FEED(&feed, node_callback, API, API, MS(11), MS(2), .async_id = 901);
        FEED(&feed, uv_phase, API, API, MS(11) + US(1), MS(3), .phase = 0);
        receive(&feed, WORKER, theirs[0], MS(12));
        post(&feed, WORKER, theirs[0], ours[0], MS(40));
        receive(&feed, API, ours[0], MS(49));
        FEED(&feed, http_response, API, API, MS(49) + US(500), 0, .fd = 32, .generation = 1, .status = 200,
             .header_bytes = 100, .content_length = 0);
        FEED(&feed, stream_write, API, API, MS(49) + US(500), 0, .fd = 32, .generation = 1, .bytes = 100,
             .result = 100);
    }
    post(&feed, API, ours[0], theirs[0], MS(50));
    post(&feed, API, ours[1], theirs[1], MS(51));
    if (before) {
        end_turn(&feed, API, ours[0], MS(48), MS(52));
    } else {
        FEED(&feed, node_callback, API, API, MS(52), MS(3), .async_id = 901);
        FEED(&feed, uv_phase, API, API, MS(52) + US(1), MS(4), .phase = 0);
    }
    receive(&feed, WORKER, theirs[0], MS(53));
    receive(&feed, OTHER, theirs[1], MS(53));
    post(&feed, WORKER, theirs[0], ours[0], MS(150));
    post(&feed, OTHER, theirs[1], ours[1], MS(155));
    receive(&feed, API, ours[0], MS(160));
    for (int i = 0; i < 2; i++)
        FEED(&feed, http_response, API, API, MS(161) + US((uint64_t)i), 0, .fd = 30 + i, .generation = 1,
             .status = 200, .header_bytes = 100, .content_length = 0);
    end_turn(&feed, API, ours[0], MS(160), MS(162));
    receive(&feed, API, ours[1], MS(162) + US(1));
    end_turn(&feed, API, ours[1], MS(162) + US(1), MS(162) + US(5));
    feed_finish(&feed);
    const struct vspan *first = feed_span(feed_kept(&feed, "/first"), VSPAN_ipc),
                       *second = feed_span(feed_kept(&feed, "/second"), VSPAN_ipc);
    assert_non_null(first);
    assert_non_null(second);
    assert_int_equal(first->start_ns, MS(50));
    assert_int_equal(first->work_end_ns, MS(150));
    assert_int_equal(second->start_ns, MS(51));
    assert_int_equal(second->work_end_ns, MS(155));
    assert_int_equal(second->end_ns, MS(160));
    feed_done(&feed);
}

static void answers_of_two_threads_in_one_turn(void **state)
{
    two_answers_in_one_turn(false);
    two_answers_in_one_turn(true);
}

static void begin_in(struct feed *feed, int32_t fd, uint32_t context, const char *path, uint64_t at)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, API, API, at, 0, .fd = fd, .generation = 1, .method = 1, .context = context);
}

static void post_in(struct feed *feed, uint32_t context, uint64_t from, uint64_t target, uint64_t at)
{
    FEED(feed, port_post, API, API, at, 0, .from = from, .target = target, .context = context);
}

static void read_ends(struct feed *feed, int32_t fd, uint64_t start, uint64_t end)
{
    FEED(feed, node_callback, API, API, end - US(1), end - start - US(2), .async_id = 900 + (uint64_t)fd);
    FEED(feed, stream_io, API, API, end, end - start, .fd = fd, .generation = 1, .events = 1);
}

/* The worker takes its task at start and has done it 98 ms later; starved: it had no CPU for 95 ms. The
 * request is answered, and the pool gives it the next one's task. */
static void task(struct feed *feed, int32_t fd, bool starved, uint32_t next, uint64_t start)
{
    uint64_t done = start + MS(98);
    receive(feed, WORKER, THEIRS, start);
    if (starved)
        FEED(feed, sched_switch, 1, 1, start + MS(96), MS(95), .pid = API, .tid = WORKER,
             .runnable_ns = MS(95), .reason = SONDE_off_reason_preempted);
    post(feed, WORKER, THEIRS, OURS, done);
    end_turn(feed, WORKER, THEIRS, start, done + US(10));
    receive(feed, API, OURS, done + US(50));
    FEED(feed, http_response, API, API, done + US(60), 0, .fd = fd, .generation = 1, .status = 200,
         .header_bytes = 100, .content_length = 0);
    FEED(feed, stream_write, API, API, done + US(60), 0, .fd = fd, .generation = 1, .bytes = 100,
         .result = 100);
    if (next)
        post_in(feed, next, OURS, THEIRS, done + US(70));
    end_turn(feed, API, OURS, done + US(40), done + US(90));
}

/* Its first task is the one in which it is started. */
static void a_worker_that_is_started(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    for (uint32_t i = 0; i < 3; i++) {
        begin_in(&feed, 30 + (int32_t)i, 5 + i, "/work", MS(1000 + i));
        if (!i)
            post_in(&feed, 5, OURS, THEIRS, MS(1000) + US(100));
        read_ends(&feed, 30 + (int32_t)i, MS(1000 + i) - US(10), MS(1000 + i) + US(200));
    }
    task(&feed, 30, false, 6, MS(1050));
    task(&feed, 31, false, 0, MS(1150));
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_worker_pool_starved);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_INFO);
    assert_non_null(strstr(f->detail, "first task"));
    feed_done(&feed);
}

/* A pool of one worker. That has a second channel, as for its output, which requests have used, too. */
static void one_worker_with_two_channels(void **state)
{
    static const uint64_t OTHER = 0x3068, OTHERS_END = 0x4068;
    for (int starved = 0; starved < 2; starved++) {
        struct feed feed;
        feed_init(&feed);
        feed_process(&feed, API, 1, "api", US(1));
        for (uint32_t i = 0; i < 4; i++) {
            uint64_t at = MS(1000 * (i + 1));
            begin_in(&feed, 30, 5 + 10 * i, "/first", at);
            post_in(&feed, 5 + 10 * i, OTHER, OTHERS_END, at + US(50));
            post_in(&feed, 5 + 10 * i, OURS, THEIRS, at + US(100));
            read_ends(&feed, 30, at - US(10), at + US(200));
            receive(&feed, WORKER, OTHERS_END, at + US(300));
            post(&feed, WORKER, OTHERS_END, OTHER, at + US(310));
            end_turn(&feed, WORKER, OTHERS_END, at + US(300), at + US(320));
            receive(&feed, API, OTHER, at + US(400));
            end_turn(&feed, API, OTHER, at + US(400), at + US(410));
            begin_in(&feed, 31, 6 + 10 * i, "/second", at + MS(1));
            read_ends(&feed, 31, at + MS(1) - US(10), at + MS(1) + US(200));
            task(&feed, 30, starved, 6 + 10 * i, at + MS(2));
            task(&feed, 31, starved, 0, at + MS(101));
        }
        feed_finish(&feed);
        const struct finding *f = feed_finding(&feed, FINDING_worker_pool_starved);
        assert_non_null(f);
        assert_int_equal(finding_get_evidence(f, "lanes_count")->count, 1);
        assert_in_range(finding_get_evidence(f, "waited_ns")->count, MS(4 * 95), MS(4 * 105));
        assert_in_range(finding_get_evidence(f, "run_queue_ns")->count, starved ? MS(4 * 90) : 0,
                        starved ? MS(4 * 96) : 0);
        assert_int_equal(f->severity, starved ? SEVERITY_INFO : SEVERITY_WARNING);
        feed_done(&feed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_waits_for_a_threads_answer),
        cmocka_unit_test(a_message_taken_in_the_turn_of_another),
        cmocka_unit_test(answers_of_two_threads_in_one_turn),
        cmocka_unit_test(one_worker_with_two_channels),
        cmocka_unit_test(a_worker_that_is_started),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
