/* Answers with errors, what had failed before them, retries, connects and processes that end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feed_services.h"

enum { CLIENT = 30 };

static void answer_with(struct feed *feed, int64_t pid, int32_t fd, uint16_t status, uint64_t at)
{
    FEED(feed, http_response, pid, pid, at, 0, .fd = fd, .generation = 1, .status = status,
         .header_bytes = 100, .content_length = 50);
    FEED(feed, stream_write, pid, pid, at, 0, .fd = fd, .generation = 1, .bytes = 150);
}

static void call(struct feed *feed, uint64_t at)
{
    FEED_TEXT(feed, "/stock");
    FEED(feed, http_request, API, API, at, 0, .fd = 7, .generation = 1, .side = 1, .method = 1);
}

static void call_answered_with(struct feed *feed, uint16_t status, uint64_t at)
{
    FEED(feed, http_response, API, API, at, 0, .fd = 7, .generation = 1, .status = status, .side = 1);
    FEED(feed, http_end, API, API, at, 0, .fd = 7, .generation = 1, .side = 1);
}

static const char *text_of(const struct finding *f, const char *name)
{
    return finding_get_evidence(f, name)->text;
}

static uint64_t count_of(const struct finding *f, const char *name)
{
    return finding_get_evidence(f, name)->count;
}

/* Of ten requests three are answered with 500, and nothing that they asked for failed. */
static void errors_of_the_own_code(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 10; i++) {
        uint64_t at = MS(100 * (i + 1));
        begin(&feed, API, CLIENT, "/a", at);
        answer_with(&feed, API, CLIENT, i < 3 ? 500 : i < 6 ? 404 : 200, at + US(50));
        end_turn(&feed, API, CLIENT, at - US(50), at + US(100));
    }
    feed_finish(&feed);
    assert_int_equal(feed.report.findings.count, 1);
    const struct finding *f = feed_finding(&feed, FINDING_server_errors);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_string_equal(text_of(f, "endpoint"), "GET /a");
    assert_string_equal(text_of(f, "status"), "500");
    assert_string_equal(text_of(f, "first_cause"), "own code");
    assert_int_equal(count_of(f, "errors_count"), 3);
    assert_int_equal(count_of(f, "requests_count"), 10);
    assert_float_equal(finding_get_evidence(f, "error_share")->real, 0.3, 1e-9);
    assert_int_equal(f->affected_count, 3);
    feed_done(&feed);
}

/* Two requests at a time ask and are answered with an error in the callback that brings an error. Of the
 * first round it is not known whose the calls are: it is one cause, and no more attempts are counted. */
static void an_error_of_a_call_whose_owner_is_not_known(void **state)
{
    enum { SECOND = 31, CONTEXT = 5 };
    struct feed feed;
    start(&feed);
    feed_connection(&feed, API, 12, 1, 5, 50007, 9000, US(3));
    for (uint32_t i = 0; i < 6; i++) {
        uint64_t at = MS(1000 * (i + 1));
        for (uint32_t k = 0; k < 2; k++) {
            FEED_TEXT(&feed, "/a");
            FEED(&feed, http_request, API, API, at + k * MS(1), 0, .fd = CLIENT + (int32_t)k, .generation = 1,
                 .method = 1, .context = CONTEXT + 2 * i + k);
            FEED_TEXT(&feed, "/stock");
            FEED(&feed, http_request, API, API, at + k * MS(1) + US(50), 0, .fd = k ? 12 : 7, .generation = 1,
                 .side = 1, .method = 1, .context = i ? CONTEXT + 2 * i + k : SONDE_CONTEXT_LOST);
            end_turn(&feed, API, CLIENT + (int32_t)k, at + k * MS(1) - US(50), at + k * MS(1) + US(100));
        }
        for (uint32_t k = 0; k < 2; k++) {
            uint64_t answered_ns = at + MS(20 + k);
            int32_t fd = k ? 12 : 7;
            FEED(&feed, http_response, API, API, answered_ns, 0, .fd = fd, .generation = 1, .status = 503,
                 .side = 1);
            FEED(&feed, http_end, API, API, answered_ns, 0, .fd = fd, .generation = 1, .side = 1);
            answer_with(&feed, API, CLIENT + (int32_t)k, 502, answered_ns + US(50));
            end_turn(&feed, API, fd, answered_ns - US(50), answered_ns + US(100));
        }
    }
    feed_finish(&feed);
    size_t errors = 0;
    array_foreach (&feed.report.findings, f)
        errors += (*f)->kind == FINDING_server_errors;
    assert_int_equal(errors, 2); /* of two addresses */
    array_foreach (&feed.report.findings, f)
        if ((*f)->kind == FINDING_server_errors) {
            assert_int_equal(count_of(*f, "errors_count"), 6);
            assert_non_null(strstr(text_of(*f, "first_cause"), "with 503"));
        }
    assert_null(feed_finding(&feed, FINDING_retry_storm));
    feed_done(&feed);
}

/* Names in a path are somebody's, not the program's: their errors are one endpoint's. */
static void errors_of_names_are_one(void **state)
{
    enum { NAMES = 25 };
    struct feed feed;
    char path[32];
    start(&feed);
    for (unsigned i = 0; i < NAMES; i++) {
        uint64_t at = MS(100 * (i + 1));
        snprintf(path, sizeof(path), "/user/n%c%c", 'a' + i % 5, 'a' + i / 5);
        begin(&feed, API, CLIENT, path, at);
        answer_with(&feed, API, CLIENT, i % 2 ? 500 : 200, at + US(50));
        end_turn(&feed, API, CLIENT, at - US(50), at + US(100));
    }
    feed_finish(&feed);
    assert_int_equal(feed.report.findings.count, 1);
    const struct finding *f = feed_finding(&feed, FINDING_server_errors);
    assert_non_null(f);
    assert_string_equal(text_of(f, "endpoint"), "GET /user/:id");
    assert_int_equal(count_of(f, "errors_count"), NAMES / 2);
    assert_int_equal(count_of(f, "requests_count"), NAMES);
    assert_int_equal(f->affected_count, NAMES / 2);
    array_foreach (&f->affected, affected)
        assert_string_equal(affected->route, "/user/:id");
    feed_done(&feed);
}

/* What it waited for is not seen, but a timer of the service's own ended that. */
static void a_time_limit_of_its_own(void **state)
{
    for (int timer = 0; timer < 2; timer++) {
        struct feed feed;
        start(&feed);
        for (unsigned i = 0; i < 4; i++) {
            uint64_t at = MS(1000 * (i + 1));
            begin(&feed, API, CLIENT, "/a", at);
            end_turn(&feed, API, CLIENT, at - US(50), at + US(100));
            answer_with(&feed, API, CLIENT, 504, at + MS(300));
            FEED(&feed, node_callback, API, API, at + MS(300) + US(50), US(90), .async_id = 9);
            FEED(&feed, uv_phase, API, API, at + MS(300) + US(60), US(110), .phase = timer ? 0 : 4);
        }
        feed_finish(&feed);
        const struct finding *f = feed_finding(&feed, FINDING_server_errors);
        assert_non_null(f);
        assert_int_equal(count_of(f, "errors_count"), 4);
        assert_string_equal(text_of(f, "first_cause"),
                            timer ? "a timer of the service's own went off: a time limit or a pause"
                                  : "own code");
        f = feed_finding(&feed, FINDING_unexplained_wait);
        assert_non_null(f);
        assert_true((strstr(f->detail, "timer of the program") != NULL) == (timer != 0));
        feed_done(&feed);
    }
}

/* The other service's error is passed on: one cause, told of where it is, with both services' requests. */
static void errors_that_are_passed_on_are_the_other_services(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 4; i++) {
        uint64_t at = MS(100 * (i + 1));
        begin(&feed, API, CLIENT, "/a", at);
        call(&feed, at + US(50));
        end_turn(&feed, API, CLIENT, at - US(50), at + US(100));
        begin(&feed, STOCK, 9, "/stock", at + US(200));
        answer_with(&feed, STOCK, 9, 503, at + US(250));
        end_turn(&feed, STOCK, 9, at + US(150), at + US(300));
        call_answered_with(&feed, 503, at + MS(1));
        answer_with(&feed, API, CLIENT, 502, at + MS(1) + US(20));
        end_turn(&feed, API, 7, at + MS(1) - US(50), at + MS(1) + US(50));
    }
    feed_finish(&feed);
    assert_int_equal(feed.report.findings.count, 1);
    const struct finding *f = feed_finding(&feed, FINDING_server_errors);
    assert_non_null(f);
    assert_string_equal(f->where.service, "stock");
    assert_string_equal(text_of(f, "status"), "503");
    assert_int_equal(f->affected_count, 8);
    feed_done(&feed);
}

/* Three requests, two of which are given up after a second and one after 80 ms. asks: the first one waits for
 * a store. */
static void give_up(struct feed *feed, bool asks)
{
    start(feed);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t at = MS(2000 * (i + 1)), until = at + (i == 2 ? MS(80) : MS(1000));
        FEED(feed, net_connection, API, API, at - US(60), 0, .generation = 1 + i, .fd = CLIENT, .family = 2);
        FEED_TEXT(feed, "/db");
        FEED(feed, http_request, API, API, at, 0, .fd = CLIENT, .generation = 1 + i, .method = 1);
        if (!i && asks)
            FEED(feed, stream_write, API, API, at + US(50), 0, .fd = 8, .generation = 1, .bytes = 60);
        FEED(feed, node_callback, API, API, at + US(99), US(140), .async_id = 9999);
        FEED(feed, stream_io, API, API, at + US(100), US(150), .fd = CLIENT, .generation = 1 + i,
             .events = 1);
        FEED(feed, stream_close, API, API, until, 0, .fd = CLIENT, .generation = 1 + i);
        FEED(feed, stream_io, API, API, until + US(10), US(20), .fd = CLIENT, .generation = 1 + i,
             .events = 1);
    }
    feed_finish(feed);
}

static void clients_that_give_up(void **state)
{
    struct feed feed;
    give_up(&feed, true);
    const struct finding *f = feed_finding(&feed, FINDING_clients_gave_up);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_string_equal(text_of(f, "endpoint"), "GET /db");
    assert_string_equal(text_of(f, "waited_for"), "an answer of 127.0.0.1:3306");
    assert_int_equal(count_of(f, "requests_count"), 2);
    assert_int_equal(count_of(f, "waited_ns"), MS(2000));
    assert_int_equal(f->affected_count, 2);
    feed_done(&feed);

    give_up(&feed, false); /* a long poll looks like this */
    f = feed_finding(&feed, FINDING_clients_gave_up);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_INFO);
    feed_done(&feed);
}

/* Three calls for each request, all answered with 503 by a service that is not traced. */
static void retries_are_counted(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t at = MS(1000 * (i + 1));
        begin(&feed, API, CLIENT, "/a", at);
        call(&feed, at + US(50));
        end_turn(&feed, API, CLIENT, at - US(50), at + US(100));
        for (unsigned k = 1; k <= 3; k++) {
            call_answered_with(&feed, 503, at + MS(10 * k));
            if (k < 3)
                call(&feed, at + MS(10 * k) + US(20));
            else
                answer_with(&feed, API, CLIENT, 200, at + MS(10 * k) + US(20));
            end_turn(&feed, API, 7, at + MS(10 * k) - US(50), at + MS(10 * k) + US(50));
        }
    }
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_retry_storm);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_string_equal(text_of(f, "call"), "GET /stock");
    assert_string_equal(text_of(f, "peer"), "127.0.0.1:8080");
    assert_int_equal(count_of(f, "requests_count"), 2);
    assert_int_equal(count_of(f, "calls_count"), 6);
    assert_int_equal(count_of(f, "failed_count"), 6);
    assert_int_equal(count_of(f, "most_count"), 3);
    /* The requests were answered all the same. */
    assert_null(feed_finding(&feed, FINDING_server_errors));
    const struct finding *calls = feed_finding(&feed, FINDING_failed_calls);
    assert_non_null(calls);
    assert_int_equal(count_of(calls, "failed_count"), 6);
    assert_int_equal(calls->severity, SEVERITY_INFO);
    feed_done(&feed);
}

/* The connection is closed before there is an answer: by this side, or, while it reads, by the other. */
static void unanswered(bool cut_off, const char *words)
{
    struct feed feed;
    start(&feed);
    uint64_t at = MS(100);
    begin(&feed, API, CLIENT, "/a", at);
    call(&feed, at + US(50));
    end_turn(&feed, API, CLIENT, at - US(50), at + US(100));
    at = MS(400);
    FEED(&feed, stream_close, API, API, at, 0, .handle = 1, .fd = 7, .generation = 1);
    answer_with(&feed, API, CLIENT, 504, at + US(20));
    if (cut_off) {
        end_turn(&feed, API, 7, at - US(50), at + US(50));
    } else {
        FEED(&feed, node_callback, API, API, at + US(40), US(90), .async_id = 9999);
        FEED(&feed, uv_phase, API, API, at + US(50), US(100), .phase = 0);
    }
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_server_errors);
    assert_non_null(f);
    assert_string_equal(text_of(f, "first_cause"), words);
    assert_null(feed_finding(&feed, FINDING_slow_peer));
    assert_null(feed_finding(&feed, FINDING_unexplained_wait));
    feed_done(&feed);
}

static void calls_that_are_never_answered(void **state)
{
    unanswered(false, "GET /stock to 127.0.0.1:8080 was given up without an answer");
    unanswered(true, "127.0.0.1:8080 closed the connection without answering GET /stock");
}

static void connect_end(struct feed *feed, int64_t result, uint64_t start_ns, uint64_t end_ns)
{
    const uint64_t loopback = 0xffff7f000001ull;
    FEED(feed, tcp_connect, 0, 0, end_ns, end_ns - start_ns, .local_low = loopback, .peer_low = loopback,
         .result = result, .pid = API, .tid = API, .fd = 20, .local_port = 40000, .peer_port = 5432,
         .family = 2);
}

static void refused(unsigned unasked)
{
    struct feed feed;
    start(&feed);
    feed_name(&feed, API, 5, "TCPCONNECTWRAP", US(3));
    for (unsigned i = 0; i < 3; i++) {
        uint64_t at = MS(100 * (i + 1)), id = 500 + i;
        begin(&feed, API, CLIENT, "/a", at);
        FEED(&feed, node_async_init, API, API, at + US(10), 0, .async_id = id, .type = 5);
        connect_end(&feed, -111, at + US(20), at + US(60));
        end_turn(&feed, API, CLIENT, at - US(50), at + US(100));
        answer_with(&feed, API, CLIENT, 500, at + US(300));
        FEED(&feed, node_callback, API, API, at + US(350), US(150), .async_id = id);
    }
    for (unsigned i = 0; i < unasked; i++) /* that no request asked for */
        connect_end(&feed, -111, MS(800 + 2 * i), MS(801 + 2 * i));
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_server_errors);
    assert_non_null(f);
    assert_string_equal(text_of(f, "first_cause"), "connecting to 127.0.0.1:5432 failed: connection refused");
    assert_int_equal(count_of(f, "errors_count"), 3);
    const struct finding *calls = feed_finding(&feed, FINDING_failed_calls);
    assert_int_equal(calls != NULL, unasked > 1);
    if (calls) {
        assert_int_equal(count_of(calls, "failed_count"), unasked);
        assert_int_equal(calls->affected_count, 0);
        assert_int_equal(calls->severity, SEVERITY_INFO);
    }
    feed_done(&feed);
}

static void connects_that_are_refused(void **state)
{
    refused(1);
    refused(6);
}

static void exits(int status, bool is_told)
{
    struct feed feed;
    start(&feed);
    feed_request(&feed, API, CLIENT, "/a", MS(50), MS(60));
    begin(&feed, API, CLIENT, "/b", MS(100));
    end_turn(&feed, API, CLIENT, MS(100) - US(50), MS(100) + US(100));
    FEED(&feed, process_exit, 0, 0, MS(200), 0, .pid = API, .status = status);
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_server_exited);
    assert_int_equal(f != NULL, is_told);
    if (is_told) {
        assert_int_equal(f->severity, SEVERITY_CRITICAL);
        assert_string_equal(text_of(f, "exit_status"), "1");
        assert_int_equal(f->affected_count, 1);
        assert_string_equal(f->affected.at[0].path, "/b");
    }
    feed_done(&feed);
}

/* As wait() has it: 1; 0; SIGTERM; a program that ends itself when it is asked to; not known. */
static void services_that_end_with_an_error(void **state)
{
    exits(1 << 8, true);
    exits(0, false);
    exits(15, false);
    exits(143 << 8, false);
    exits(-1, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_of_the_own_code),
        cmocka_unit_test(an_error_of_a_call_whose_owner_is_not_known),
        cmocka_unit_test(errors_of_names_are_one),
        cmocka_unit_test(a_time_limit_of_its_own),
        cmocka_unit_test(errors_that_are_passed_on_are_the_other_services),
        cmocka_unit_test(clients_that_give_up),
        cmocka_unit_test(retries_are_counted),
        cmocka_unit_test(calls_that_are_never_answered),
        cmocka_unit_test(connects_that_are_refused),
        cmocka_unit_test(services_that_end_with_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
