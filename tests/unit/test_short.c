/* Requests that are served in short callbacks, none of them a stall: what is said of them, and who waited. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feed_services.h"

enum { PIECES = 30, PIECES_FD = 30, OTHER_FD = 31, JAVASCRIPT = SONDE_stall_cause_javascript };
static const uint64_t FILE_READ = 0x1000, PIECE_NS = MS(10);

/* A callback of nobody's, as an immediate's is, in the check phase; stack: where a sample saw it, "": in a
 * function whose stack is not known, NULL: none did. */
static void piece_at(struct feed *feed, uint64_t start_ns, const char *stack)
{
    uint64_t end_ns = start_ns + PIECE_NS - US(50);
    if (stack) {
        FEED_TEXT(feed, "grind");
        FEED_TEXT(feed, "/srv/app.js");
        FEED_TEXT(feed, "");
        FEED_TEXT(feed, stack);
        FEED(feed, stall_sample, 1, 1, start_ns + MS(5), 0, .since_ns = start_ns + MS(5), .pid = API,
             .tid = API, .cause = JAVASCRIPT, .line = 7, .column = 1, .brief = 1);
    }
    FEED(feed, node_callback, API, API, end_ns, PIECE_NS - US(60), .async_id = 0);
    FEED(feed, uv_phase, API, API, end_ns + US(5), PIECE_NS - US(50), .phase = SONDE_uv_phase_check);
}

static void piece(struct feed *feed, uint64_t start_ns, bool seen)
{
    piece_at(feed, start_ns, seen ? "" : NULL);
}

/* Rounds of two requests. The first is served in pieces. The second reads a file; what it waits for is done
 * 2 ms later, and the loop gets to it after so many pieces. */
static void rounds(struct feed *feed, uint32_t waits)
{
    start(feed);
    for (uint64_t i = 1; i < 4; i++) {
        uint64_t at = MS(1000 * i), begins = at + MS(2);
        begin(feed, API, PIECES_FD, "/pieces", at);
        end_turn(feed, API, PIECES_FD, at - US(50), at + US(100));
        begin(feed, API, OTHER_FD, "/other", at + MS(1));
        FEED(feed, uv_submit, API, API, at + MS(1) + US(20), 0, .request = FILE_READ,
             .kind = SONDE_uv_kind_fs_read);
        end_turn(feed, API, OTHER_FD, at + MS(1) - US(50), at + MS(1) + US(100));
        FEED(feed, uv_run, API, API + 1, begins, US(500), .request = FILE_READ,
             .kind = SONDE_uv_kind_fs_read);
        for (uint32_t k = 0; k < PIECES; k++) {
            uint64_t next = begins + US(50) + k * PIECE_NS + (k >= waits ? MS(1) : 0);
            if (k == waits) {
                answer(feed, API, OTHER_FD, next - US(900));
                FEED(feed, node_callback, API, API, next - US(800), US(190), .async_id = 77);
                FEED(feed, uv_done, API, API, next - US(790), US(210), .request = FILE_READ,
                     .kind = SONDE_uv_kind_fs_read);
            }
            piece(feed, next, k % 4 == 0);
        }
        uint64_t ends = begins + PIECES * PIECE_NS + MS(2);
        answer(feed, API, PIECES_FD, ends);
        FEED(feed, node_callback, API, API, ends + US(100), US(150), .async_id = 0);
        FEED(feed, uv_phase, API, API, ends + US(110), US(170), .phase = SONDE_uv_phase_check);
    }
    feed_finish(feed);
}

static uint64_t lost(const struct finding *f, const char *route)
{
    uint64_t sum = 0;
    array_foreach (&f->affected, victim)
        sum += strcmp(victim->route, route) == 0 ? victim->delay_ns : 0;
    return sum;
}

static void whoever_waits_for_the_pieces_suffers(void **state)
{
    struct feed feed;
    rounds(&feed, 6);
    const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
    assert_non_null(f);
    assert_non_null(f->where.function);
    assert_string_equal(f->where.function, "grind");
    assert_in_range(lost(f, "/other"), 3 * (6 * PIECE_NS - MS(1)), 3 * 6 * PIECE_NS);
    assert_true(lost(f, "/pieces") > lost(f, "/other"));
    feed_done(&feed);
}

/* One piece is too little. */
static void who_waits_briefly_is_no_victim(void **state)
{
    struct feed feed;
    rounds(&feed, 1);
    const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
    assert_non_null(f);
    assert_int_equal(lost(f, "/other"), 0);
    feed_done(&feed);
}

/* Three requests that are served in so many pieces, each of them seen; which: the stack of a piece, by its
 * number. */
static const struct finding *served_in(struct feed *feed, const char *(*which)(uint32_t),
                                       const uint32_t pieces[3])
{
    start(feed);
    for (uint64_t i = 1; i < 4; i++) {
        uint64_t at = MS(1000 * i), begins = at + MS(2), ends = begins + pieces[i - 1] * PIECE_NS + MS(2);
        begin(feed, API, PIECES_FD, "/pieces", at);
        end_turn(feed, API, PIECES_FD, at - US(50), at + US(100));
        for (uint32_t k = 0; k < pieces[i - 1]; k++)
            piece_at(feed, begins + k * PIECE_NS, which(k));
        answer(feed, API, PIECES_FD, ends);
        FEED(feed, node_callback, API, API, ends + US(100), US(150), .async_id = 0);
        FEED(feed, uv_phase, API, API, ends + US(110), US(170), .phase = SONDE_uv_phase_check);
    }
    feed_finish(feed);
    return feed_finding(feed, FINDING_event_loop_blocked);
}

static const struct finding *seen_at(struct feed *feed, const char *(*which)(uint32_t))
{
    return served_in(feed, which, (const uint32_t[]){PIECES, PIECES, PIECES});
}

#define PACKAGE "next (/srv/node_modules/level/index.js:3:1)"

static const char *between_packages(uint32_t k)
{
    return k % 3 == 0 ? "RunMicrotasks;scan (/srv/app.js:7:1)" : "RunMicrotasks;" PACKAGE;
}

static const char *seldom(uint32_t k)
{
    return k % 10 == 0 ? "RunMicrotasks;scan (/srv/app.js:7:1)" : "RunMicrotasks;" PACKAGE;
}

static const char *called_by_the_package(uint32_t k)
{
    return k % 3 == 0 ? "RunMicrotasks;" PACKAGE ";scan (/srv/app.js:7:1)" : "RunMicrotasks;" PACKAGE;
}

static const char *two_functions(uint32_t k)
{
    return k % 3 == 0 ? "RunMicrotasks;scan (/srv/app.js:7:1)"
           : k == 1   ? "RunMicrotasks;sum (/srv/app.js:9:1)"
                      : "RunMicrotasks;" PACKAGE;
}

/* What awaits the functions of a package is not on the stack while they run. */
static void goes_on_between_packages(void **state)
{
    struct feed feed;
    const struct finding *f = seen_at(&feed, between_packages);
    assert_non_null(f);
    assert_string_equal(f->where.function, "scan");
    assert_string_equal(f->where.file, "/srv/app.js");
    assert_int_equal(finding_get_evidence(f, "samples_count")->count, 3 * PIECES);
    assert_int_equal(finding_get_evidence(f, "samples_agree_count")->count, PIECES);
    assert_non_null(strstr(f->detail, "functions of packages"));
    feed_done(&feed);
}

/* 40 ms are no fault by themselves, but as much a part of one as the 60 ms of another request. */
static void what_is_nearly_as_long_is_part_of_it(void **state)
{
    struct feed feed;
    const struct finding *f = served_in(&feed, between_packages, (const uint32_t[]){4, 6, 4});
    assert_non_null(f);
    assert_in_range(finding_get_evidence(f, "cpu_ns")->count, 14 * MS(9), 14 * MS(10));
    feed_done(&feed);
    assert_null(served_in(&feed, between_packages, (const uint32_t[]){4, 4, 4}));
    feed_done(&feed);
}

static void what_a_package_does_is_its_own(void **state)
{
    const char *(*const which[])(uint32_t) = {seldom, called_by_the_package, two_functions};
    for (size_t i = 0; i < ARRAY_SIZE(which); i++) {
        struct feed feed;
        const struct finding *f = seen_at(&feed, which[i]);
        assert_non_null(f);
        assert_string_equal(f->where.function, "next");
        assert_null(strstr(f->detail, "functions of packages"));
        feed_done(&feed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_waits_for_the_pieces_suffers),
        cmocka_unit_test(who_waits_briefly_is_no_victim),
        cmocka_unit_test(goes_on_between_packages),
        cmocka_unit_test(what_is_nearly_as_long_is_part_of_it),
        cmocka_unit_test(what_a_package_does_is_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
