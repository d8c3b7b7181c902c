/* SPDX-License-Identifier: Apache-2.0 */
#include "feed_services.h"

enum { FS_READ = 3, WORK = 64, GETADDRINFO = 65 };

static void pool_request(struct feed *feed, uint64_t at, uint8_t kind, uint64_t took_ns)
{
    begin(feed, API, 30, "/x", at);
    FEED(feed, uv_submit, API, API, at + US(50), 0, .request = 99, .kind = kind);
    end_turn(feed, API, 30, at - US(50), at + US(100));
    FEED(feed, uv_run, API, API + 1, at + US(200) + took_ns, took_ns, .request = 99, .kind = kind);
    answer(feed, API, 30, at + US(400) + took_ns);
    FEED(feed, node_callback, API, API, at + US(500) + took_ns, US(180), .async_id = 5);
    FEED(feed, uv_done, API, API, at + US(500) + took_ns, US(200), .request = 99, .kind = kind);
}

static const struct finding *find(const struct report *report, enum finding_kind kind)
{
    array_foreach (&report->findings, f)
        if ((*f)->kind == kind)
            return *f;
    return NULL;
}

static void slow_files_and_names_are_named(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 20; i++)
        pool_request(&feed, MS(1000 * (i + 1)), FS_READ, i < 3 ? MS(120) : US(80));
    for (unsigned i = 0; i < 3; i++)
        pool_request(&feed, MS(30000 + 1000 * i), GETADDRINFO, MS(300));
    const struct report *report = feed_finish(&feed);
    assert_int_equal(report->findings.count, 2);
    const struct finding *dns = report->findings.at[0], *file = report->findings.at[1];
    assert_int_equal(dns->kind, FINDING_slow_io);
    assert_int_equal(file->kind, FINDING_slow_io);
    assert_string_equal(finding_get_evidence(dns, "operation")->text, "getaddrinfo");
    assert_string_equal(finding_get_evidence(file, "operation")->text, "fs_read");
    assert_int_equal(finding_get_evidence(file, "operations_count")->count, 3);
    assert_int_equal(file->cost_ns, 3 * MS(120));
    assert_true(finding_get_evidence(file, "usual_ns")->count < US(90));
    assert_int_equal(file->severity, SEVERITY_WARNING);
    feed_done(&feed);
}

/* Hashing a password takes its time. */
static void work_is_not_io(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 5; i++)
        pool_request(&feed, MS(1000 * (i + 1)), WORK, MS(120));
    assert_int_equal(feed_finish(&feed)->findings.count, 0);
    feed_done(&feed);
}

static void quick_operations_are_none(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 20; i++)
        pool_request(&feed, MS(1000 * (i + 1)), FS_READ, MS(20));
    assert_int_equal(feed_finish(&feed)->findings.count, 0);
    feed_done(&feed);
}

static void an_opaque_peer_is_named_by_its_address(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 4; i++) {
        uint64_t at = MS(1000 * (i + 1)), took_ns = i ? MS(150) : MS(1);
        begin(&feed, API, 30, "/db", at);
        FEED(&feed, stream_write, API, API, at + US(50), 0, .fd = 8, .generation = 1, .bytes = 60);
        end_turn(&feed, API, 30, at - US(50), at + US(100));
        answer(&feed, API, 30, at + took_ns);
        FEED(&feed, node_callback, API, API, at + took_ns + US(10), US(90), .async_id = 7);
        FEED(&feed, stream_io, API, API, at + took_ns + US(20), US(110), .fd = 8, .generation = 1,
             .events = 1);
    }
    const struct report *report = feed_finish(&feed);
    const struct finding *f = find(report, FINDING_slow_peer);
    assert_non_null(f);
    assert_int_equal(report->findings.count, 1);
    assert_string_equal(finding_get_evidence(f, "peer")->text, "127.0.0.1:3306");
    assert_string_equal(finding_get_evidence(f, "traced")->text, "no");
    assert_int_equal(finding_get_evidence(f, "calls_count")->count, 3);
    assert_string_equal(f->where.service, "api");
    feed_done(&feed);
}

/* Two requests at a time. OF_NOBODY: whose the call to the database is is not known. OF_OTHER: it is the
 * other one's, who made it for both, 20 ms before the second came. In either case both are answered in the
 * callback that brings its answer, or (BY_TIMER) the second 100 ms later in a timer's. AFTER_OWN: the second
 * one asked elsewhere first, and had that answer after 100 ms. */
enum asked { OF_NOBODY, OF_OTHER, BY_TIMER, AFTER_OWN };
static const struct report *answered_together(struct feed *feed, enum asked how)
{
    enum { FIRST = 30, SECOND = 31, CONTEXT = 5 };
    start(feed);
    feed_connection(feed, API, 9, 1, 7, 50009, 9000, US(3));
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t at = MS(1000 * (i + 1)), answered_ns = at + MS(170);
        uint32_t context = how == OF_OTHER ? CONTEXT + 2 * i : SONDE_CONTEXT_LOST;
        for (uint32_t k = 0; k < 2; k++) {
            uint64_t begun_ns = at + k * MS(20);
            FEED_TEXT(feed, k ? "/second" : "/first");
            FEED(feed, http_request, API, API, begun_ns, 0, .fd = k ? SECOND : FIRST, .generation = 1,
                 .method = 1, .context = CONTEXT + 2 * i + k);
            if (!k || how == AFTER_OWN)
                FEED(feed, stream_write, API, API, begun_ns + US(50), 0, .fd = k ? 9 : 8, .generation = 1,
                     .bytes = 60, .context = k ? CONTEXT + 2 * i + 1 : context);
            end_turn(feed, API, k ? SECOND : FIRST, begun_ns - US(50), begun_ns + US(100));
        }
        if (how == AFTER_OWN)
            FEED(feed, stream_io, API, API, at + MS(100), US(110), .fd = 9, .generation = 1, .events = 1);
        answer(feed, API, FIRST, answered_ns);
        if (how != BY_TIMER)
            answer(feed, API, SECOND, answered_ns + US(1));
        FEED(feed, node_callback, API, API, answered_ns + US(10), US(90), .async_id = 7);
        FEED(feed, stream_io, API, API, answered_ns + US(20), US(110), .fd = 8, .generation = 1, .events = 1);
        if (how == BY_TIMER) {
            answer(feed, API, SECOND, answered_ns + MS(100));
            FEED(feed, node_callback, API, API, answered_ns + MS(100) + US(50), US(90), .async_id = 9);
            FEED(feed, uv_phase, API, API, answered_ns + MS(100) + US(60), US(110), .phase = 0);
        }
    }
    return feed_finish(feed);
}

static uint64_t waits_of(const struct report *report, const char *name)
{
    const struct finding *f = find(report, FINDING_slow_peer);
    assert_non_null(f);
    assert_string_equal(finding_get_evidence(f, "peer")->text, "127.0.0.1:3306");
    return finding_get_evidence(f, name)->count;
}

/* Who is answered in the callback that brings an answer waited for that, whosever call it was: from then on,
 * from when it came, or from when it was last seen to do something else. Who is answered elsewhere may have
 * waited for anything. */
static void an_answer_that_others_are_answered_with(void **state)
{
    struct feed feed;
    const struct report *report = answered_together(&feed, OF_NOBODY);
    assert_int_equal(waits_of(report, "calls_count"), 8);
    assert_in_range(waits_of(report, "waited_ns"), 4 * MS(319), 4 * MS(320));
    assert_null(find(report, FINDING_unexplained_wait));
    const struct request *request = feed_kept(&feed, "/second");
    assert_non_null(request);
    assert_int_equal(path_dominant(request)->class, PATH_PEER);
    const struct vspan *span = &request->spans.at[path_dominant(request)->span];
    assert_int_equal(span->known, KNOWN_AMBIGUOUS);
    feed_done(&feed);

    report = answered_together(&feed, OF_OTHER);
    assert_int_equal(waits_of(report, "calls_count"), 8);
    assert_in_range(waits_of(report, "waited_ns"), 4 * MS(319), 4 * MS(320));
    assert_null(find(report, FINDING_unexplained_wait));
    feed_done(&feed);

    report = answered_together(&feed, AFTER_OWN);
    assert_in_range(waits_of(report, "waited_ns"), 4 * MS(239), 4 * MS(240));
    feed_done(&feed);

    report = answered_together(&feed, BY_TIMER);
    assert_int_equal(waits_of(report, "calls_count"), 4);
    assert_non_null(find(report, FINDING_unexplained_wait));
    feed_done(&feed);
}

/* A broker sends messages by itself: none answers what was written, and the broker is not late. */
static void a_broker_that_sends_by_itself_is_not_late(void **state)
{
    struct feed feed;
    start(&feed);
    FEED(&feed, stream_write, API, API, US(5), 0, .fd = 8, .generation = 1, .bytes = 20, .messages = 1,
         .first_message = 1, .wire = SONDE_wire_mqtt);
    for (unsigned i = 0; i < 4; i++) {
        uint64_t at = MS(1000 * (i + 1)), took_ns = MS(150);
        begin(&feed, API, 30, "/order", at);
        FEED(&feed, stream_write, API, API, at + US(50), 0, .fd = 8, .generation = 1, .bytes = 60);
        end_turn(&feed, API, 30, at - US(50), at + US(100));
        answer(&feed, API, 30, at + took_ns);
        FEED(&feed, node_callback, API, API, at + took_ns + US(10), US(90), .async_id = 7);
        FEED(&feed, stream_io, API, API, at + took_ns + US(20), US(110), .fd = 8, .generation = 1,
             .events = 1);
    }
    const struct report *report = feed_finish(&feed);
    assert_null(find(report, FINDING_slow_peer));
    const struct finding *f = find(report, FINDING_unexplained_wait);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_INFO);
    assert_string_equal(finding_get_evidence(f, "broker")->text, "mqtt at 127.0.0.1:3306");
    feed_done(&feed);
}

/* Four requests that each wait for what comes on a connection of which it is not known what it speaks. It is
 * answered in so many parts, gap_ns apart. */
static const struct report *exchanges(struct feed *feed, unsigned parts, uint64_t gap_ns)
{
    start(feed);
    for (unsigned i = 0; i < 4; i++) {
        uint64_t at = MS(1000 * (i + 1)), took_ns = MS(150);
        begin(feed, API, 30, "/order", at);
        FEED(feed, stream_write, API, API, at + US(50), 0, .fd = 8, .generation = 1, .bytes = 60);
        end_turn(feed, API, 30, at - US(50), at + US(100));
        answer(feed, API, 30, at + took_ns);
        FEED(feed, node_callback, API, API, at + took_ns + US(10), US(90), .async_id = 7);
        for (unsigned k = 0; k < parts; k++)
            FEED(feed, stream_io, API, API, at + took_ns + US(20) + k * gap_ns, US(110), .fd = 8,
                 .generation = 1, .events = 1, .bytes = 100);
    }
    return feed_finish(feed);
}

static void who_speaks_unasked_need_not_have_answered(void **state)
{
    struct feed feed;
    const struct finding *f = find(exchanges(&feed, 2, MS(300)), FINDING_slow_peer);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_INFO);
    assert_non_null(strstr(f->title, "127.0.0.1:3306, which also speaks by itself"));
    feed_done(&feed);
    /* The rest of a long answer follows at once. */
    f = find(exchanges(&feed, 9, US(500)), FINDING_slow_peer);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    feed_done(&feed);
}

/* What was sent before it is known that a broker is at the other end is no question either. */
static void what_turns_out_to_be_a_brokers_was_no_exchange(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 4; i++) {
        uint64_t at = MS(1000 * (i + 1)), took_ns = MS(1000);
        begin(&feed, API, 30, "/order", at);
        FEED(&feed, stream_write, API, API, at + US(50), 0, .fd = 8, .generation = 1, .bytes = 60);
        if (i == 0)
            FEED(&feed, stream_write, API, API, at + US(60), 0, .fd = 8, .generation = 1, .bytes = 60,
                 .messages = 1, .wire = SONDE_wire_amqp);
        end_turn(&feed, API, 30, at - US(50), at + US(100));
        answer(&feed, API, 30, at + took_ns - US(400));
        FEED(&feed, node_callback, API, API, at + took_ns - US(390), US(90), .async_id = 7);
        FEED(&feed, stream_io, API, API, at + took_ns - US(380), US(110), .fd = 8, .generation = 1,
             .events = 1, .bytes = 100);
    }
    const struct report *report = feed_finish(&feed);
    assert_null(find(report, FINDING_slow_peer));
    assert_non_null(find(report, FINDING_unexplained_wait));
    feed_done(&feed);
}

/* It takes some packets to know that it is a broker: what was asked before is not held against it. */
static void a_broker_that_is_known_late_is_not_late(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 4; i++) {
        uint64_t at = MS(1000 * (i + 1)), took_ns = MS(700);
        begin(&feed, API, 30, "/order", at);
        FEED(&feed, stream_write, API, API, at + US(50), 0, .fd = 8, .generation = 1, .bytes = 60,
             .messages = i == 1, .wire = SONDE_wire_mqtt);
        end_turn(&feed, API, 30, at - US(50), at + US(100));
        answer(&feed, API, 30, at + took_ns);
        FEED(&feed, node_callback, API, API, at + took_ns + US(10), US(90), .async_id = 7);
        FEED(&feed, stream_io, API, API, at + took_ns + US(20), US(110), .fd = 8, .generation = 1,
             .events = 1, .bytes = 100);
    }
    const struct report *report = feed_finish(&feed);
    const struct finding *f = find(report, FINDING_slow_peer);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_INFO);
    assert_int_equal(finding_get_evidence(f, "calls_count")->count, 1);
    feed_done(&feed);
}

/* One connection was open before tracing began, so that what is asked on it is not known. */
static void one_peer_is_one_finding(void **state)
{
    enum { SELECT = 1, LATER = 14 };
    struct feed feed;
    start(&feed);
    feed_connection(&feed, API, LATER, 1, 9, 50019, 3306, US(3));
    feed_name(&feed, API, SELECT, "SELECT", US(4));
    for (unsigned i = 0; i < 6; i++) {
        uint64_t at = MS(1000 * (i + 1)), took_ns = MS(150);
        int32_t fd = i % 2 ? LATER : 8;
        begin(&feed, API, 30, "/db", at);
        if (i % 2)
            FEED(&feed, stream_write, API, API, at + US(50), 0, .fd = fd, .generation = 1, .bytes = 60,
                 .messages = 1, .first_message = 1 + i / 2, .operation = SELECT, .wire = SONDE_wire_mysql);
        else
            FEED(&feed, stream_write, API, API, at + US(50), 0, .fd = fd, .generation = 1, .bytes = 60);
        end_turn(&feed, API, 30, at - US(50), at + US(100));
        answer(&feed, API, 30, at + took_ns);
        FEED(&feed, node_callback, API, API, at + took_ns + US(10), US(90), .async_id = 7);
        FEED(&feed, stream_io, API, API, at + took_ns + US(20), US(110), .fd = fd, .generation = 1,
             .events = 1);
    }
    const struct report *report = feed_finish(&feed);
    const struct finding *f = find(report, FINDING_slow_peer);
    assert_non_null(f);
    assert_int_equal(report->findings.count, 1);
    assert_string_equal(finding_get_evidence(f, "peer")->text, "127.0.0.1:3306");
    assert_string_equal(finding_get_evidence(f, "call")->text, "SELECT");
    assert_int_equal(finding_get_evidence(f, "calls_count")->count, 6);
    assert_non_null(strstr(f->detail, "In 3 of these calls"));
    feed_done(&feed);
}

static void ask_statement(struct feed *feed, const char *route, uint64_t at, unsigned nth, uint32_t operation)
{
    begin(feed, API, 30, route, at);
    FEED(feed, stream_write, API, API, at + US(50), 0, .fd = 8, .generation = 1, .bytes = 60, .messages = 1,
         .first_message = nth, .operation = operation, .wire = SONDE_wire_postgresql);
    end_turn(feed, API, 30, at - US(50), at + US(100));
    answer(feed, API, 30, at + MS(150));
    FEED(feed, node_callback, API, API, at + MS(150) + US(10), US(90), .async_id = 7);
    FEED(feed, stream_io, API, API, at + MS(150) + US(20), US(110), .fd = 8, .generation = 1, .events = 1);
}

/* A statement is prepared once on each connection, and only its name is sent from then on. */
static void a_prepared_statement_is_one_finding_with_its_first_time(void **state)
{
    enum { SELECT = 1, EXECUTE };
    for (unsigned same = 0; same < 2; same++) {
        struct feed feed;
        start(&feed);
        feed_name(&feed, API, SELECT, "SELECT", US(4));
        feed_name(&feed, API, EXECUTE, "EXECUTE", US(4));
        for (unsigned i = 0; i < 6; i++)
            ask_statement(&feed, i < 3 || same ? "/db" : "/other", MS(1000 * (i + 1)), i + 1,
                          i < 3 ? SELECT : EXECUTE);
        const struct report *report = feed_finish(&feed);
        const struct finding *f = find(report, FINDING_slow_peer);
        assert_non_null(f);
        assert_int_equal(report->findings.count, same ? 1 : 2);
        assert_int_equal(finding_get_evidence(f, "calls_count")->count, same ? 6 : 3);
        if (same)
            assert_string_equal(finding_get_evidence(f, "call")->text, "SELECT");
        assert_int_equal(strstr(f->detail, "3 of these calls executed") != NULL, same);
        feed_done(&feed);
    }
}

/* The service that answers at the address is traced, and so are other calls of it, on a connection whose end
 * there is not known: it is not called untraced, and there is one finding. */
static void a_traced_service_is_not_called_untraced(void **state)
{
    struct feed feed;
    start(&feed);
    feed_connection(&feed, API, 13, 1, 1, 50002, 8080, US(3));
    begin(&feed, STOCK, 9, "/stock", US(100));
    end_turn(&feed, STOCK, 9, US(50), US(200));
    answer(&feed, STOCK, 9, US(300));
    for (unsigned i = 0; i < 4; i++) {
        uint64_t at = MS(1000 * (i + 1)), took_ns = i ? MS(150) : MS(1);
        begin(&feed, API, 30, "/a", at);
        FEED(&feed, stream_write, API, API, at + US(50), 0, .fd = 13, .generation = 1, .bytes = 60);
        end_turn(&feed, API, 30, at - US(50), at + US(100));
        answer(&feed, API, 30, at + took_ns);
        FEED(&feed, node_callback, API, API, at + took_ns + US(10), US(90), .async_id = 7);
        FEED(&feed, stream_io, API, API, at + took_ns + US(20), US(110), .fd = 13, .generation = 1,
             .events = 1);
    }
    const struct report *report = feed_finish(&feed);
    const struct finding *f = find(report, FINDING_slow_peer);
    assert_non_null(f);
    assert_int_equal(report->findings.count, 1);
    assert_string_equal(finding_get_evidence(f, "peer")->text, "stock");
    assert_string_equal(finding_get_evidence(f, "traced")->text, "yes");
    assert_non_null(strstr(f->detail, "could not be joined"));
    assert_null(strstr(f->detail, "not traced"));
    feed_done(&feed);
}

/* A traced peer that waits for a timer is named, with its caller as who suffered. */
static void a_traced_peer_that_waits_is_named(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t at = MS(1000 * (i + 1));
        begin(&feed, API, 30, "/a", at);
        FEED_TEXT(&feed, "/stock");
        FEED(&feed, http_request, API, API, at + US(50), 0, .fd = 7, .generation = 1, .side = 1, .method = 1);
        end_turn(&feed, API, 30, at - US(50), at + US(100));
        begin(&feed, STOCK, 9, "/stock", at + US(200));
        end_turn(&feed, STOCK, 9, at + US(150), at + US(300));
        answer(&feed, STOCK, 9, at + MS(200));
        FEED(&feed, node_callback, STOCK, STOCK, at + MS(201), MS(2), .async_id = 7);
        FEED(&feed, uv_phase, STOCK, STOCK, at + MS(201), MS(2), .phase = 0);
        FEED(&feed, http_response, API, API, at + MS(202), 0, .fd = 7, .generation = 1, .status = 200,
             .side = 1);
        FEED(&feed, http_end, API, API, at + MS(202), 0, .fd = 7, .generation = 1, .side = 1);
        answer(&feed, API, 30, at + MS(203));
        end_turn(&feed, API, 7, at + MS(202) - US(50), at + MS(204));
    }
    const struct report *report = feed_finish(&feed);
    const struct finding *f = find(report, FINDING_slow_peer);
    assert_non_null(f);
    assert_int_equal(report->findings.count, 1);
    assert_string_equal(finding_get_evidence(f, "peer")->text, "stock");
    assert_string_equal(finding_get_evidence(f, "traced")->text, "yes");
    assert_int_equal(f->affected_count, 3);
    assert_string_equal(f->affected.at[0].service, "api");
    feed_done(&feed);
}

enum { EPOLL_WAIT = 232 };

static void slept(struct feed *feed, int64_t pid, uint64_t start_ns, uint64_t end_ns)
{
    FEED(feed, sched_switch, 1, 1, end_ns, end_ns - start_ns, .pid = (uint32_t)pid, .tid = (uint32_t)pid,
         .reason = SONDE_off_reason_blocked, .call = EPOLL_WAIT, .fd = 3);
}

/* A callback that is known to be of no request is in a synchronous call: the request that it keeps waits for
 * the loop, not for something that was not seen. */
static void a_loop_that_is_blocked_is_busy(void **state)
{
    for (int blocked = 0; blocked < 2; blocked++) {
        struct feed feed;
        start(&feed);
        for (unsigned i = 0; i < 4; i++) {
            uint64_t at = MS(1000 * (i + 1));
            begin(&feed, API, 30, "/a", at);
            end_turn(&feed, API, 30, at - US(50), at + US(100));
            FEED(&feed, sched_switch, 1, 1, at + MS(152), MS(150), .pid = API, .tid = API,
                 .reason = SONDE_off_reason_blocked, .call = EPOLL_WAIT, .fd = 22);
            if (blocked) {
                FEED(&feed, node_callback, API, API, at + MS(153), MS(152), .async_id = 77);
                FEED(&feed, uv_phase, API, API, at + MS(153), MS(152), .phase = 0);
            }
            answer(&feed, API, 30, at + MS(154));
            FEED(&feed, node_callback, API, API, at + MS(154) + US(50), US(90), .async_id = 78);
            FEED(&feed, uv_phase, API, API, at + MS(154) + US(60), US(110), .phase = 0);
        }
        const struct report *report = feed_finish(&feed);
        assert_int_equal(find(report, FINDING_unexplained_wait) != NULL, !blocked);
        feed_done(&feed);
    }
}

/* A loop that sleeps takes what has come: the peer had not answered until then, and after that nothing is
 * known of it. */
static void a_busy_loop_accuses_no_peer(void **state)
{
    for (uint64_t slept_ms = 30; slept_ms <= 110; slept_ms += 80) {
        struct feed feed;
        start(&feed);
        for (unsigned i = 0; i < 4; i++) {
            uint64_t at = MS(1000 * (i + 1)), took_ns = MS(150);
            begin(&feed, API, 30, "/db", at);
            FEED(&feed, stream_write, API, API, at + US(50), 0, .fd = 8, .generation = 1, .bytes = 60);
            end_turn(&feed, API, 30, at - US(50), at + US(100));
            slept(&feed, API, at + MS(1), at + MS(slept_ms));
            answer(&feed, API, 30, at + took_ns);
            FEED(&feed, node_callback, API, API, at + took_ns + US(10), US(90), .async_id = 7);
            FEED(&feed, stream_io, API, API, at + took_ns + US(20), US(110), .fd = 8, .generation = 1,
                 .events = 1);
        }
        const struct finding *f = find(feed_finish(&feed), FINDING_slow_peer);
        if (slept_ms == 30) {
            assert_null(f);
        } else {
            assert_non_null(f);
            uint64_t waited_ns = finding_get_evidence(f, "waited_ns")->count;
            assert_true(waited_ns > 4 * MS(109) && waited_ns <= 4 * MS(110));
        }
        feed_done(&feed);
    }
}

enum late { FULL = 1, ALL_LATE = 2, WAITS_ARE_RARE = 4, LONGER = 8, TAKEN_LATE = 16 };

/* A dozen calls, of which every fourth or all take 150 ms (600 ms where it works so long), while the program
 * itself waits for a CPU for 40 ms at a time, or once only among many short waits, and the machine's CPUs are
 * all busy, or one is not. TAKEN_LATE: it has no CPU to take the quick answers either. */
static enum finding_severity severity_of_late(unsigned how)
{
    struct feed feed;
    start(&feed);
    bool full = how & FULL, all = how & ALL_LATE;
    for (unsigned i = 0; i < 12; i++) {
        uint64_t at = MS(1000 * (i + 1)), took_ns = all || i % 4 == 3 ? MS(how & LONGER ? 600 : 150) : MS(5);
        uint64_t answered_ns = took_ns;
        if (how & TAKEN_LATE)
            took_ns = MAX(took_ns, MS(150));
        FEED(&feed, machine_cpu, 0, 0, at - MS(10), 0, .idlest_ns = full ? 0 : MS(900), .cpus = 2);
        begin(&feed, API, 30, "/db", at);
        FEED(&feed, stream_write, API, API, at + US(50), 0, .fd = 8, .generation = 1, .bytes = 60);
        end_turn(&feed, API, 30, at - US(50), at + US(100));
        slept(&feed, API, at + MS(1), at + answered_ns - US(100));
        if (took_ns > answered_ns)
            FEED(&feed, sched_switch, 1, 1, at + took_ns - US(100), took_ns - answered_ns,
                 .runnable_ns = took_ns - answered_ns, .pid = API, .tid = API,
                 .reason = SONDE_off_reason_preempted, .call = SONDE_SYSCALL_NONE, .fd = -1);
        answer(&feed, API, 30, at + took_ns);
        FEED(&feed, node_callback, API, API, at + took_ns + US(10), US(90), .async_id = 7);
        FEED(&feed, stream_io, API, API, at + took_ns + US(20), US(110), .fd = 8, .generation = 1,
             .events = 1);
        for (unsigned n = 0; n < (how & WAITS_ARE_RARE ? 20 : 1); n++)
            FEED(&feed, sched_switch, 1, 1, at + took_ns + MS(50 + 10 * n), MS(n ? 9 : 45),
                 .runnable_ns = n || (how & WAITS_ARE_RARE && i % 4) ? MS(1) : MS(40), .pid = API, .tid = API,
                 .reason = SONDE_off_reason_blocked, .call = EPOLL_WAIT, .fd = 3);
    }
    const struct finding *f = find(feed_finish(&feed), FINDING_slow_peer);
    assert_non_null(f);
    /* That all are late is known after some of them, as is how often a program waits. */
    const struct finding_evidence *excused = finding_get_evidence(f, "excused_count");
    bool rarely = how == FULL || how == (FULL | TAKEN_LATE);
    unsigned most = how == (FULL | WAITS_ARE_RARE) ? 1 : rarely || how == (FULL | ALL_LATE) ? 3 : 0;
    assert_in_range(excused ? excused->count : 0, rarely ? 3 : 0, most);
    enum finding_severity severity = f->severity;
    feed_done(&feed);
    return severity;
}

/* Who is late now and then where no program has a CPU is not accused; who is always late is, and who is late
 * for longer, or more often, than the program's own waits for a CPU explain. */
static void a_peer_without_a_cpu_is_not_accused(void **state)
{
    assert_int_equal(severity_of_late(0), SEVERITY_WARNING);
    assert_int_equal(severity_of_late(FULL), SEVERITY_INFO);
    assert_int_equal(severity_of_late(FULL | TAKEN_LATE), SEVERITY_INFO);
    assert_int_equal(severity_of_late(FULL | ALL_LATE), SEVERITY_WARNING);
    assert_int_equal(severity_of_late(FULL | LONGER), SEVERITY_WARNING);
    assert_int_equal(severity_of_late(FULL | WAITS_ARE_RARE), SEVERITY_WARNING);
}

/* A traced peer is said to have waited only for what its thread neither ran nor was ready to. */
static void a_peer_that_ran_did_not_wait(void **state)
{
    for (uint64_t ran_ms = 80; ran_ms <= 140; ran_ms += 60) {
        struct feed feed;
        start(&feed);
        for (unsigned i = 0; i < 3; i++) {
            uint64_t at = MS(1000 * (i + 1));
            begin(&feed, API, 30, "/a", at);
            FEED_TEXT(&feed, "/stock");
            FEED(&feed, http_request, API, API, at + US(50), 0, .fd = 7, .generation = 1, .side = 1,
                 .method = 1);
            end_turn(&feed, API, 30, at - US(50), at + US(100));
            begin(&feed, STOCK, 9, "/stock", at + US(200));
            end_turn(&feed, STOCK, 9, at + US(150), at + US(300));
            slept(&feed, STOCK, at + US(400), at + MS(200 - ran_ms));
            answer(&feed, STOCK, 9, at + MS(200));
            FEED(&feed, node_callback, STOCK, STOCK, at + MS(201), MS(2), .async_id = 7);
            FEED(&feed, uv_phase, STOCK, STOCK, at + MS(201), MS(2), .phase = 0);
            FEED(&feed, http_response, API, API, at + MS(202), 0, .fd = 7, .generation = 1, .status = 200,
                 .side = 1);
            FEED(&feed, http_end, API, API, at + MS(202), 0, .fd = 7, .generation = 1, .side = 1);
            answer(&feed, API, 30, at + MS(203));
            end_turn(&feed, API, 7, at + MS(202) - US(50), at + MS(204));
        }
        const struct finding *f = find(feed_finish(&feed), FINDING_slow_peer);
        if (ran_ms == 140) {
            assert_null(f);
        } else {
            assert_non_null(f);
            assert_true(finding_get_evidence(f, "waited_ns")->count <= 3 * MS(120));
        }
        feed_done(&feed);
    }
}

static void resent(struct feed *feed, uint16_t local, uint16_t peer, uint64_t at)
{
    const uint64_t loopback = 0xffff7f000001ull;
    FEED(feed, tcp_retransmit, 1, 1, at, 0, .local_low = loopback, .peer_low = loopback, .pid = API,
         .local_port = local, .peer_port = peer, .family = 2);
}

/* What a store does while its packets are lost is nobody's fault; what it takes after that is its own. */
static void lost_packets_accuse_no_peer(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 4; i++) {
        uint64_t at = MS(2000 * (i + 1)), took_ns = i == 3 ? MS(900) : MS(610);
        begin(&feed, API, 30, "/db", at);
        FEED(&feed, stream_write, API, API, at + US(50), 0, .fd = 8, .generation = 1, .bytes = 60);
        end_turn(&feed, API, 30, at - US(50), at + US(100));
        resent(&feed, 50001, 3307, at + MS(190)); /* another connection */
        resent(&feed, 50001, 3306, at + MS(200));
        resent(&feed, 50001, 3306, at + MS(600));
        answer(&feed, API, 30, at + took_ns);
        FEED(&feed, node_callback, API, API, at + took_ns + US(10), US(90), .async_id = 7);
        FEED(&feed, stream_io, API, API, at + took_ns + US(20), US(110), .fd = 8, .generation = 1,
             .events = 1);
    }
    const struct report *report = feed_finish(&feed);
    const struct finding *f = find(report, FINDING_tcp_retransmissions),
                         *peer = find(report, FINDING_slow_peer);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_string_equal(finding_get_evidence(f, "peer")->text, "127.0.0.1:3306");
    assert_int_equal(finding_get_evidence(f, "calls_count")->count, 4);
    assert_int_equal(finding_get_evidence(f, "retransmissions_count")->count, 8);
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, 4 * MS(599), 4 * MS(600));
    assert_int_equal(f->affected_count, 4);
    assert_non_null(peer);
    assert_int_equal(finding_get_evidence(peer, "calls_count")->count, 1);
    assert_in_range(finding_get_evidence(peer, "waited_ns")->count, MS(299), MS(300));
    assert_int_equal(report->findings.count, 2);
    feed_done(&feed);
}

/* Between two traced services: the answer is sent again by the other end. */
static void an_answer_is_sent_again(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t at = MS(2000 * (i + 1));
        begin(&feed, API, 30, "/a", at);
        FEED_TEXT(&feed, "/stock");
        FEED(&feed, http_request, API, API, at + US(50), 0, .fd = 7, .generation = 1, .side = 1, .method = 1);
        end_turn(&feed, API, 30, at - US(50), at + US(100));
        begin(&feed, STOCK, 9, "/stock", at + US(200));
        answer(&feed, STOCK, 9, at + US(250));
        end_turn(&feed, STOCK, 9, at + US(150), at + US(300));
        resent(&feed, 8080, 50000, at + MS(210));
        FEED(&feed, http_response, API, API, at + MS(212), 0, .fd = 7, .generation = 1, .status = 200,
             .side = 1);
        FEED(&feed, http_end, API, API, at + MS(212), 0, .fd = 7, .generation = 1, .side = 1);
        answer(&feed, API, 30, at + MS(213));
        end_turn(&feed, API, 7, at + MS(212) - US(50), at + MS(214));
    }
    const struct report *report = feed_finish(&feed);
    const struct finding *f = find(report, FINDING_tcp_retransmissions);
    assert_non_null(f);
    assert_int_equal(report->findings.count, 1);
    assert_string_equal(finding_get_evidence(f, "call")->text, "GET /stock");
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, 2 * MS(209), 2 * MS(210));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_files_and_names_are_named),
        cmocka_unit_test(work_is_not_io),
        cmocka_unit_test(quick_operations_are_none),
        cmocka_unit_test(an_opaque_peer_is_named_by_its_address),
        cmocka_unit_test(a_traced_peer_that_waits_is_named),
        cmocka_unit_test(an_answer_that_others_are_answered_with),
        cmocka_unit_test(a_broker_that_sends_by_itself_is_not_late),
        cmocka_unit_test(who_speaks_unasked_need_not_have_answered),
        cmocka_unit_test(what_turns_out_to_be_a_brokers_was_no_exchange),
        cmocka_unit_test(a_broker_that_is_known_late_is_not_late),
        cmocka_unit_test(one_peer_is_one_finding),
        cmocka_unit_test(a_prepared_statement_is_one_finding_with_its_first_time),
        cmocka_unit_test(a_traced_service_is_not_called_untraced),
        cmocka_unit_test(a_loop_that_is_blocked_is_busy),
        cmocka_unit_test(a_busy_loop_accuses_no_peer),
        cmocka_unit_test(a_peer_without_a_cpu_is_not_accused),
        cmocka_unit_test(a_peer_that_ran_did_not_wait),
        cmocka_unit_test(lost_packets_accuse_no_peer),
        cmocka_unit_test(an_answer_is_sent_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
