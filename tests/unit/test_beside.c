/* What was found beside slower versions becomes alerts: once for each thing, for as long as it is so. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/beside.h"

#include <string.h>

#include "base/clock.h"
#include "diagnose/diagnosis.h"
#include "test.h"

/* A book of two versions of a service, and an empty judgement of it. */
struct scene {
    struct diagnosis *diagnosis;
    struct judgement judgement;
    struct alerts alerts;
    uint32_t bucket, service, version, base;
    uint64_t requests;
};

static void serve_requests(struct scene *s, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        uint64_t number = ++s->requests, start_ns = (1000000 + number) * NS_PER_S;
        struct span_resource resource = {
            .service = SLICE("shop"), .version = number % 2 ? SLICE("2") : SLICE("1"), .host = SLICE("a")};
        struct span span = {.trace_low = number,
                            .id = number,
                            .start_ns = start_ns,
                            .end_ns = start_ns + 10 * NS_PER_MS,
                            .name = SLICE("buy"),
                            .kind = SPAN_KIND_SERVER,
                            .resource = &resource};
        span_resource_conventions(&resource);
        assert_int_equal(span_sink_put(diagnosis_sink(s->diagnosis), &span), 0);
    }
    assert_int_equal(diagnosis_flush(s->diagnosis, UINT64_MAX), 0);
}

static void start(struct scene *s)
{
    struct diagnosis_settings settings = {0};
    *s = (struct scene){0};
    assert_int_equal(diagnosis_new(&settings, &s->diagnosis), 0);
    serve_requests(s, 100);
    const struct book *book = diagnosis_book(s->diagnosis);
    while (book->buckets.at[s->bucket].whole || book->buckets.at[s->bucket].callee != NAMES_NONE)
        s->bucket++;
    s->service = book->paths.at[book->buckets.at[s->bucket].type].service;
    array_foreach (&book->service_versions, v)
        *(strcmp(names_get(book->names, v->version), "2") == 0 ? &s->version : &s->base) = v->version;
    assert_string_equal(names_get(book->names, s->base), "1");
}

static void done(struct scene *s)
{
    alerts_done(&s->alerts);
    judgement_done(&s->judgement);
    diagnosis_free(s->diagnosis);
}

static void add_throughput(struct scene *s, enum throughput_outcome outcome, double ratio)
{
    struct throughput t = {.bucket = s->bucket,
                           .service = s->service,
                           .version = s->version,
                           .base = s->base,
                           .outcome = outcome,
                           .tested = true,
                           .ratio = ratio};
    array_clear(&s->judgement.throughputs);
    assert_int_equal(array_add(&s->judgement.throughputs, t), 0);
}

/* One look; whether a version is to blame. */
static bool look(struct scene *s)
{
    bool version;
    alerts_begin(&s->alerts);
    assert_int_equal(beside_see(&s->alerts, diagnosis_book(s->diagnosis), &s->judgement, &version), 0);
    alerts_end(&s->alerts);
    return version;
}

static unsigned firing(const struct scene *s)
{
    unsigned n = 0;
    array_foreach (&s->alerts.list, alert)
        n += alert->state == ALERT_FIRING;
    return n;
}

static void nothing_found_is_no_alert(void **state)
{
    struct scene s;
    start(&s);
    assert_false(look(&s));
    add_throughput(&s, THROUGHPUT_NOT_FEWER, 0.95);
    assert_false(look(&s));
    add_throughput(&s, THROUGHPUT_CANNOT_TELL, 0.5);
    assert_false(look(&s));
    assert_int_equal(s.alerts.list.count, 0);
    done(&s);
}

static void less_throughput_blames_the_version(void **state)
{
    struct scene s;
    start(&s);
    add_throughput(&s, THROUGHPUT_FEWER, 0.5);
    assert_true(look(&s));
    assert_int_equal(firing(&s), 1);
    assert_true(beside_blames_version(&s.alerts.list.at[0]));
    assert_non_null(strstr(s.alerts.list.at[0].title, "0.50 times as many requests"));
    serve_requests(&s, 2);
    assert_true(look(&s));
    assert_int_equal(s.alerts.list.count, 1); /* the same thing */
    done(&s);
}

/* Evidence that was enough once stays enough, unless the version does better than the older one by now; what
 * never was enough is no alert. */
static void what_was_shown_once_stays(void **state)
{
    struct scene s;
    start(&s);
    add_throughput(&s, THROUGHPUT_FEWER, 0.5);
    look(&s);
    serve_requests(&s, 2);
    add_throughput(&s, THROUGHPUT_CANNOT_TELL, 0.8);
    assert_true(look(&s));
    assert_int_equal(firing(&s), 1);
    serve_requests(&s, 2);
    s.judgement.throughputs.at[0].tested = false;
    assert_false(look(&s));
    assert_int_equal(firing(&s), 0);
    add_throughput(&s, THROUGHPUT_FEWER, 0.5);
    serve_requests(&s, 2);
    assert_true(look(&s));
    add_throughput(&s, THROUGHPUT_CANNOT_TELL, 1.1);
    assert_false(look(&s));
    assert_int_equal(firing(&s), 0);
    done(&s);
}

/* A rollback: the older version's requests alone go on, and the bucket's count with them; another version is
 * another thing. */
static void another_version_is_another_alert(void **state)
{
    struct scene s;
    start(&s);
    add_throughput(&s, THROUGHPUT_FEWER, 0.5);
    look(&s);
    s.judgement.throughputs.at[0].version = s.base;
    s.judgement.throughputs.at[0].base = s.version;
    look(&s);
    assert_int_equal(s.alerts.list.count, 2);
    assert_int_equal(firing(&s), 1); /* of the first nothing is seen any more */
    done(&s);
}

static void queues_and_days_blame_no_version(void **state)
{
    struct scene s;
    struct backlog backlog = {.wait_ns = 9e9, .usual_wait_ns = 1e6, .completed = 0.8};
    struct day_change change = {.measure = DAY_MIDDLE,
                                .now = {.hour = 480000, .requests = 200, .level = {17, 18}},
                                .yesterday = {.hour = 479976, .requests = 200, .level = {16, 17}},
                                .hours = 2,
                                .ratio = 2.7};
    start(&s);
    backlog.bucket = change.bucket = s.bucket;
    assert_int_equal(array_add(&s.judgement.backlogs, backlog), 0);
    assert_int_equal(array_add(&s.judgement.days, change), 0);
    assert_false(look(&s));
    assert_int_equal(firing(&s), 2);
    assert_false(beside_blames_version(&s.alerts.list.at[0]));
    assert_false(beside_blames_version(&s.alerts.list.at[1]));
    assert_non_null(strstr(s.alerts.list.at[0].title, "completes 80 % of what comes"));
    assert_non_null(strstr(s.alerts.list.at[1].title, "at this hour it was"));
    array_clear(&s.judgement.backlogs);
    serve_requests(&s, 2);
    look(&s);
    assert_int_equal(firing(&s), 1); /* the queue is gone, the days are not */
    done(&s);
}

/* An alert fires while there are new requests. */
static void without_requests_it_is_over(void **state)
{
    struct scene s;
    start(&s);
    add_throughput(&s, THROUGHPUT_FEWER, 0.5);
    look(&s);
    for (int i = 0; i < ALERTS_QUIET_LOOKS; i++) {
        assert_int_equal(firing(&s), 1);
        look(&s);
    }
    assert_int_equal(firing(&s), 0);
    done(&s);
}

/* What blames a version: by the kind of the finding, whatever else it says. */
static void kinds_that_blame_a_version(void **state)
{
    static const struct {
        const char *kind;
        bool blames;
    } kinds[] = {{"regression", true}, {"less-throughput", true}, {"growing-queue", false}, {"", false}};
    for (size_t i = 0; i < 4; i++) {
        struct alert alert = {.finding = json_pack("{s:s}", "kind", kinds[i].kind)};
        assert_int_equal(beside_blames_version(&alert), kinds[i].blames);
        json_decref(alert.finding);
    }
    struct alert none = {.finding = json_object()};
    assert_false(beside_blames_version(&none));
    json_decref(none.finding);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_found_is_no_alert),
                                       cmocka_unit_test(less_throughput_blames_the_version),
                                       cmocka_unit_test(what_was_shown_once_stays),
                                       cmocka_unit_test(another_version_is_another_alert),
                                       cmocka_unit_test(queues_and_days_blame_no_version),
                                       cmocka_unit_test(without_requests_it_is_over),
                                       cmocka_unit_test(kinds_that_blame_a_version)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
