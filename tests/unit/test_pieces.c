/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum {
    API = 10,
    POOL_THREAD = 11,
    KIND_READ = 3,
    KIND_WORK = 64,
    FSREQ = 1,
    PBKDF2 = 2,
    READS = 4,
    FILE_FD = 30,
    HASH = 100
};

/* Of async resources, in the order in which they are created. */
static uint64_t newest_id, id_of[2 * HASH];

static void start(struct feed *feed)
{
    feed_init(feed);
    newest_id = 5000;
    feed_process(feed, API, 1, "api", US(1));
    feed_name(feed, API, FSREQ, "FSREQCALLBACK", US(1));
    feed_name(feed, API, PBKDF2, "PBKDF2REQUEST", US(1));
}

static uint8_t kind_of(uint64_t key)
{
    return key < HASH ? KIND_READ : KIND_WORK;
}

/* fd: of the request's connection, which is also the number of its context. */
static void submit(struct feed *feed, int32_t fd, uint64_t key, uint64_t at)
{
    uint8_t kind = kind_of(key);
    id_of[key] = ++newest_id;
    FEED(feed, node_async_init, API, API, at, 0, .async_id = id_of[key],
         .type = kind == KIND_WORK ? PBKDF2 : FSREQ);
    FEED(feed, uv_submit, API, API, at, 0, .request = key, .kind = kind, .fd = -1, .context = (uint32_t)fd);
}

/* A request whose callback submits an operation; before that, another one, unless it is 0. */
static void receive(struct feed *feed, int32_t fd, const char *path, uint64_t before, uint64_t key,
                    uint64_t at)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, API, API, at, 0, .fd = fd, .generation = 1, .method = 1,
         .context = (uint32_t)fd);
    if (before)
        submit(feed, fd, before, at + US(1));
    submit(feed, fd, key, at + US(2));
    FEED(feed, node_callback, API, API, at + US(3), US(3), .async_id = 1000 + (uint64_t)fd);
    FEED(feed, stream_io, API, API, at + US(4), US(5), .fd = fd, .generation = 1, .events = 1);
}

static void run(struct feed *feed, uint64_t key, uint64_t start_ns, uint64_t end_ns)
{
    FEED(feed, uv_run, API, POOL_THREAD, end_ns, end_ns - start_ns, .request = key, .kind = kind_of(key));
}

/* The completion of a read, which submits another operation and the next read, unless they are 0. */
static void done(struct feed *feed, uint64_t key, uint64_t before, uint64_t next, uint64_t at)
{
    if (before)
        submit(feed, FILE_FD, before, at + US(1));
    if (next)
        submit(feed, FILE_FD, next, at + US(2));
    FEED(feed, node_callback, API, API, at + US(3), US(3), .async_id = id_of[key]);
    FEED(feed, uv_done, API, API, at + US(4), US(4), .request = key, .kind = KIND_READ);
}

/* A pool of one thread, and a request with some reads, one after the other, each of which waits for 10 ms
 * behind a hash of another request; or, with own, of its own. Returns when the last read ended. */
static uint64_t read_behind_hashes(struct feed *feed, bool own)
{
    for (uint64_t i = 0; i < READS; i++) {
        uint64_t at = MS(1 + 10 * i), hash = HASH + i, before = own ? hash : 0;
        if (!own)
            receive(feed, 40 + (int32_t)i, "/login", 0, hash, at);
        if (i) {
            run(feed, i, at + US(10), at + US(20));
            done(feed, i, before, i + 1, at + US(30));
        } else {
            receive(feed, FILE_FD, "/file", before, 1, at + US(30));
        }
        run(feed, hash, at + US(25), at + MS(10));
    }
    uint64_t end_ns = MS(1 + 10 * READS);
    run(feed, READS, end_ns + US(10), end_ns + US(20));
    done(feed, READS, 0, 0, end_ns + US(30));
    return end_ns;
}

static uint64_t count_of(const struct finding *f, const char *name)
{
    return finding_get_evidence(f, name)->count;
}

static void short_waits_are_added_up(void **state)
{
    struct feed feed;
    start(&feed);
    read_behind_hashes(&feed, false);
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_thread_pool_starved);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_int_equal(count_of(f, "operations_count"), READS);
    assert_true(count_of(f, "waited_ns") > MS(39) && count_of(f, "waited_ns") < MS(41));
    assert_true(count_of(f, "worst_ns") < MS(11));
    assert_int_equal(count_of(f, "run_ns"), READS * US(10));
    assert_int_equal(count_of(f, "delay_ns"), count_of(f, "waited_ns"));
    assert_string_equal(finding_get_evidence(f, "occupied_by")->text,
                        "PBKDF2REQUEST submitted by GET /login");
    assert_true(finding_get_evidence(f, "occupied_share")->real > 0.99);
    assert_int_equal(f->affected_count, 1);
    assert_string_equal(f->affected.at[0].path, "/file");
    feed_done(&feed);
}

/* What a request waits for its own operations is its own doing. */
static void behind_its_own_operations(void **state)
{
    struct feed feed;
    start(&feed);
    read_behind_hashes(&feed, true);
    feed_finish(&feed);
    assert_null(feed_finding(&feed, FINDING_thread_pool_starved));
    feed_done(&feed);
}

/* A request that took far longer does not feel it. */
static void a_small_part_of_the_latency(void **state)
{
    struct feed feed;
    start(&feed);
    read_behind_hashes(&feed, false);
    receive(&feed, 60, "/later", 0, READS + 1, MS(400));
    feed_finish(&feed);
    assert_null(feed_finding(&feed, FINDING_thread_pool_starved));
    feed_done(&feed);
}

/* The thread was runnable for most of that time: what is left is less than a long wait. */
static void load_is_no_starvation(void **state)
{
    struct feed feed;
    start(&feed);
    FEED(&feed, thread_sched, 1, 1, US(500), 0, .pid = API, .tid = POOL_THREAD, .run_ns = 0, .wait_ns = 0);
    uint64_t end_ns = read_behind_hashes(&feed, false);
    FEED(&feed, thread_sched, 1, 1, end_ns + MS(1), 0, .pid = API, .tid = POOL_THREAD, .run_ns = MS(10),
         .wait_ns = MS(30));
    feed_finish(&feed);
    assert_null(feed_finding(&feed, FINDING_thread_pool_starved));
    feed_done(&feed);
}

/* Two reads were submitted at once; one waits for 15 ms, the other for 30, which is long by itself. */
static void nothing_is_counted_twice(void **state)
{
    struct feed feed;
    start(&feed);
    receive(&feed, 40, "/login", 0, HASH, MS(1));
    receive(&feed, 41, "/login", 0, HASH + 1, MS(1) + US(10));
    receive(&feed, FILE_FD, "/file", 1, 2, MS(1) + US(30));
    run(&feed, HASH, MS(1) + US(25), MS(16));
    run(&feed, 1, MS(16) + US(1), MS(16) + US(2));
    run(&feed, HASH + 1, MS(16) + US(3), MS(31));
    run(&feed, 2, MS(31) + US(1), MS(31) + US(2));
    for (uint64_t i = 2; i < 5; i++) {
        uint64_t at = MS(31 + 15 * (i - 2));
        receive(&feed, 40 + (int32_t)i, "/login", 0, HASH + i, at + US(3));
        done(&feed, i, 0, i + 1, at + US(20));
        run(&feed, HASH + i, at + US(15), at + MS(15));
        run(&feed, i + 1, at + MS(15) + US(1), at + MS(15) + US(2));
    }
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_thread_pool_starved);
    assert_non_null(f);
    const struct request *file = feed_kept(&feed, "/file");
    assert_int_equal(count_of(f, "operations_count"), 5);
    assert_true(count_of(f, "delay_ns") > MS(59));
    assert_true(count_of(f, "delay_ns") <= request_latency_ns(file));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_waits_are_added_up),    cmocka_unit_test(behind_its_own_operations),
        cmocka_unit_test(a_small_part_of_the_latency), cmocka_unit_test(load_is_no_starvation),
        cmocka_unit_test(nothing_is_counted_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
