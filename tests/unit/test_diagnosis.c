/* From spans to findings, on requests made here: skewed clocks, orphans, duplicates, and the story of the
 * disks that were created at once and then one after another. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/diagnosis.h"

#include <stdio.h>

#include "base/clock.h"
#include "diagnose/locate.h"
#include "span/trace_json.h"
#include "test.h"

struct scene {
    struct diagnosis *diagnosis;
    uint64_t next_id;
    struct stats_random random;
};

struct who {
    const char *service, *version, *host, *hardware;
};

static uint64_t put(struct scene *scene, struct who who, uint64_t trace, uint64_t parent, const char *name,
                    int kind, uint64_t start_us, uint64_t duration_us)
{
    struct span_attribute hardware = {SLICE("hardware.generation"), slice_of(who.hardware)};
    struct span_resource resource = {.service = slice_of(who.service),
                                     .version = slice_of(who.version),
                                     .host = slice_of(who.host),
                                     .attributes = &hardware,
                                     .attribute_count = 1};
    struct span span = {.trace_low = trace,
                        .id = ++scene->next_id,
                        .parent = parent,
                        .start_ns = (1000000 + start_us) * NS_PER_US,
                        .end_ns = (1000000 + start_us + duration_us) * NS_PER_US,
                        .name = slice_of(name),
                        .kind = (uint8_t)kind,
                        .resource = &resource};
    span_resource_conventions(&resource);
    assert_int_equal(span_sink_put(diagnosis_sink(scene->diagnosis), &span), 0);
    return span.id;
}

static struct scene begin(void)
{
    struct scene scene = {0};
    struct diagnosis_settings settings = {0};
    assert_int_equal(diagnosis_new(&settings, &scene.diagnosis), 0);
    stats_random_init(&scene.random, 4);
    return scene;
}

/* One VM creation: three disks at once, or one after another. */
static void create_vm(struct scene *scene, uint64_t trace, struct who agent, bool sequential)
{
    struct who api = {"api", "7", "api-1", ""};
    uint64_t noise = stats_random_next(&scene->random) % 3000, disk = 10000 + noise, start = trace * 100000;
    uint64_t disks = sequential ? 3 * disk : disk;
    uint64_t root = put(scene, api, trace, 0, "createVm", SPAN_KIND_SERVER, start, disks + 9000);
    uint64_t call = put(scene, api, trace, root, "POST /vm", SPAN_KIND_CLIENT, start + 1000, disks + 6000);
    uint64_t vm = put(scene, agent, trace, call, "vm", SPAN_KIND_SERVER, start + 2000, disks + 4000);
    for (uint64_t i = 0; i < 3; i++)
        put(scene, agent, trace, vm, "createDisk", SPAN_KIND_INTERNAL,
            start + 3000 + (sequential ? i * disk : i * 100), disk);
}

static void tell_the_story(struct scene *scene)
{
    char host[16];
    for (uint64_t i = 1; i <= 3000; i++) {
        const char *hardware = i % 3 == 0 ? "gen7" : i % 3 == 1 ? "gen5" : "gen6";
        bool newer = i > 2000;
        snprintf(host, sizeof(host), "%s-%d", hardware, (int)(i / 3 % 4));
        struct who agent = {"agent", newer ? "42" : "41", host, hardware};
        create_vm(scene, i, agent, newer && i % 3 == 0);
    }
    assert_int_equal(diagnosis_flush(scene->diagnosis, UINT64_MAX), 0);
}

static void sequential_disks_on_one_generation(void **state)
{
    struct scene scene = begin();
    struct report report = {0};
    struct judgement judgement;
    struct judge_settings settings = {0};
    tell_the_story(&scene);
    assert_int_equal(diagnosis_report(scene.diagnosis, &settings, &report, &judgement), 0);
    assert_int_equal(report.findings.count, 1);
    const struct finding *f = report.findings.at[0];
    assert_string_equal(finding_get_evidence(f, "version")->text, "42");
    assert_string_equal(finding_get_evidence(f, "base_version")->text, "41");
    assert_string_equal(finding_get_evidence(f, "bucket")->text, "agent vm [hardware.generation=gen7]");
    assert_string_equal(finding_get_evidence(f, "path_change")->text, "sequential");
    assert_string_equal(finding_get_evidence(f, "request_type")->text, "api createVm");
    assert_non_null(strstr(finding_get_evidence(f, "path")->text, "agent createDisk"));
    assert_string_equal(finding_get_evidence(f, "cause")->text, "hardware.generation=gen7");
    assert_true(finding_get_evidence(f, "base_concurrency")->real > 2.5);
    assert_true(finding_get_evidence(f, "concurrency")->real < 1.05);
    assert_true(f->affected_count == 334);
    judgement_done(&judgement);
    report_done(&report);
    diagnosis_free(scene.diagnosis);
}

/* Twenty versions, slower since the twelfth, with one spike before: the newest is compared with all of them.
 */
static void since_is_a_change_point(void **state)
{
    struct scene scene = begin();
    char version[8];
    struct who who = {"shop", version, "h1", "g"};
    uint64_t trace = 0;
    for (int v = 0; v < 20; v++)
        for (int i = 0; i < 60; i++) {
            uint64_t noise = stats_random_next(&scene.random) % 3000, us = 10000 + noise;
            snprintf(version, sizeof(version), "%d", v + 1);
            trace++;
            put(&scene, who, trace, 0, "buy", SPAN_KIND_SERVER, trace * 50000,
                v == 5    ? 3 * us
                : v >= 11 ? us * 13 / 10
                          : us);
        }
    assert_int_equal(diagnosis_flush(scene.diagnosis, UINT64_MAX), 0);
    struct report report = {0};
    struct judgement judgement;
    struct judge_settings settings = {.regress.minimum_requests = 50, .regress.host_spread = 0.01};
    assert_int_equal(diagnosis_report(scene.diagnosis, &settings, &report, &judgement), 0);
    assert_int_equal(judgement.verdicts.count, 1);
    if (judgement.slower)
        assert_string_equal(finding_get_evidence(report.findings.at[0], "since_version")->text, "12");
    judgement_done(&judgement);
    /* Against the version before the change it is slower for certain. */
    struct judge_settings against = {.regress.minimum_requests = 50, .base = "11"};
    struct report second = {0};
    assert_int_equal(diagnosis_report(scene.diagnosis, &against, &second, &judgement), 0);
    assert_int_equal(judgement.slower, 1);
    judgement_done(&judgement);
    report_done(&report);
    report_done(&second);
    diagnosis_free(scene.diagnosis);
}

/* Critical times of a bucket add up to its mean latency, edges included. */
static void critical_times_add_up(void **state)
{
    struct scene scene = begin();
    tell_the_story(&scene);
    const struct book *book = diagnosis_book(scene.diagnosis);
    assert_int_equal(book->counts.requests, 3000);
    assert_int_equal(book_bucket_count(book), 3);
    uint64_t total = 0, critical = 0, edges = 0;
    array_foreach (&book->buckets, bucket)
        for (size_t g = 0; bucket->callee == NAMES_NONE && g < bucket->groups.count; g++)
            array_foreach (&bucket->groups.at[g].vertices, v) {
                critical += v->critical_ns + v->edge_critical_ns;
                edges += v->edge_critical_ns;
                total += book->paths.at[v->path].parent == BOOK_NONE ? v->total_ns : 0;
            }
    assert_true(critical == total);
    assert_true(edges ==
                2 * 3000ull * 2000 * NS_PER_US); /* of the whole request, and of the api where it stands */
    diagnosis_free(scene.diagnosis);
}

static void odd_traces_are_counted(void **state)
{
    struct scene scene = begin();
    struct who a = {"a", "1", "h1", "g"}, b = {"b", "1", "h2", "g"};
    uint64_t root = put(&scene, a, 1, 0, "root", SPAN_KIND_SERVER, 0, 1000);
    put(&scene, a, 1, root, "call", SPAN_KIND_CLIENT, 100, 800);
    scene.next_id--; /* the same span again */
    uint64_t call = put(&scene, a, 1, root, "call", SPAN_KIND_CLIENT, 100, 800);
    put(&scene, b, 1, call, "serve", SPAN_KIND_SERVER, 50000, 600); /* b's clock is 49.9 ms ahead */
    put(&scene, a, 1, 999, "orphan", 0, 100, 10);
    put(&scene, a, 2, 998, "no root", 0, 0, 10);
    put(&scene, a, 3, 0, "of 300 years", 0, 0, 300ull * 365 * 86400 * 1000000);
    assert_int_equal(diagnosis_flush(scene.diagnosis, UINT64_MAX), 0);
    put(&scene, a, 1, root, "late", 0, 100, 10);
    const struct book *book = diagnosis_book(scene.diagnosis);
    assert_int_equal(diagnosis_sink(scene.diagnosis)->counts.without_time, 1);
    assert_int_equal(book->link_counts.duplicates, 1);
    assert_int_equal(book->link_counts.orphans, 2);
    assert_int_equal(book->link_counts.skewed, 1);
    assert_int_equal(book->counts.rootless, 1);
    assert_int_equal(book->counts.requests, 1);
    assert_int_equal(diagnosis_counts(scene.diagnosis)->late, 1);
    const struct group *group = &book->buckets.at[0].groups.at[0];
    array_foreach (&group->vertices, v)
        if (strcmp(names_get(book->names, book->paths.at[v->path].name), "serve") == 0) {
            assert_true(v->critical_ns == 600 * NS_PER_US); /* within its caller again */
            assert_true(v->edge_critical_ns == 200 * NS_PER_US);
        }
    diagnosis_free(scene.diagnosis);
}

/* A request that runs for a minute: its children were sent long ago, its root comes last. */
static void a_trace_without_its_root_is_still_running(void **state)
{
    struct scene scene = begin();
    struct who a = {"a", "1", "h1", "g"};
    const struct assembler_counts *counts = diagnosis_counts(scene.diagnosis);
    const struct book *book = diagnosis_book(scene.diagnosis);
    for (uint64_t second = 1; second <= 3; second++) {
        diagnosis_set_time(scene.diagnosis, second * 20 * NS_PER_S);
        scene.next_id = 10 + second;
        put(&scene, a, 1, 7, "step", 0, second * 20000000, 100);
        assert_int_equal(diagnosis_flush(scene.diagnosis, (second * 20 - 10) * NS_PER_S), 0);
    }
    assert_int_equal(counts->traces, 0);
    scene.next_id = 6;
    put(&scene, a, 1, 0, "root", SPAN_KIND_SERVER, 0, 70000000);
    put(&scene, a, 2, 99, "its root never comes", 0, 0, 10);
    assert_int_equal(diagnosis_flush(scene.diagnosis, 61 * NS_PER_S), 0);
    assert_int_equal(book->counts.requests, 1);
    assert_int_equal(book->link_counts.orphans, 0);
    assert_int_equal(book->buckets.at[0].groups.at[0].vertices.count, 2);
    assert_int_equal(diagnosis_flush(scene.diagnosis, 600 * NS_PER_S), 0);
    assert_int_equal(counts->traces, 1);
    assert_int_equal(diagnosis_flush(scene.diagnosis, 661 * NS_PER_S), 0);
    assert_int_equal(counts->traces, 2);
    assert_int_equal(book->counts.rootless, 1);
    diagnosis_free(scene.diagnosis);
}

/* One trace id for everything that a broken program ever does: it is handed on once, and the rest is late. */
static void a_trace_that_never_ends_is_ended(void **state)
{
    struct scene scene = begin();
    struct who a = {"a", "1", "h1", "g"};
    put(&scene, a, 1, 0, "root", SPAN_KIND_SERVER, 0, 1000);
    for (uint64_t second = 1; second <= 3000; second++) {
        diagnosis_set_time(scene.diagnosis, second * NS_PER_S);
        put(&scene, a, 1, 1, "step", 0, second * 1000000, 100);
        assert_int_equal(diagnosis_flush(scene.diagnosis, second > 10 ? (second - 10) * NS_PER_S : 0), 0);
    }
    const struct assembler_counts *counts = diagnosis_counts(scene.diagnosis);
    assert_int_equal(counts->endless, 1);
    assert_int_equal(counts->traces, 1);
    assert_true(counts->late >= 2380 && counts->late <= 2390);
    struct report report = {0};
    assert_int_equal(diagnosis_report_losses(scene.diagnosis, &report), 0);
    assert_int_equal(report.losses.count, 2);
    report_done(&report);
    diagnosis_free(scene.diagnosis);
}

/* A period in which one service got slower, beside one whose times have two humps: about half of its calls
 * wait for something, a few more or less of them by chance. */
static struct scene period(unsigned waiting_percent, uint64_t steady_us)
{
    struct scene scene = begin();
    struct who front = {"front", "1", "h1", "g"}, wavy = {"wavy", "1", "h2", "g"},
               steady = {"steady", "1", "h3", "g"};
    for (uint64_t i = 1; i <= 200; i++) {
        uint64_t noise = stats_random_next(&scene.random) % 200;
        uint64_t wavy_us = i * 37 % 100 < waiting_percent ? 70000 : 1000;
        uint64_t root =
            put(&scene, front, i, 0, "GET /", SPAN_KIND_SERVER, 0, wavy_us + steady_us + 5000 + noise);
        put(&scene, wavy, i, root, "wait", SPAN_KIND_SERVER, 1000, wavy_us + noise);
        put(&scene, steady, i, root, "work", SPAN_KIND_SERVER, 2000 + wavy_us, steady_us + noise);
    }
    assert_int_equal(diagnosis_flush(scene.diagnosis, UINT64_MAX), 0);
    return scene;
}

static void two_humps_are_no_fault(void **state)
{
    struct scene normal = period(46, 10000), faulty = period(54, 14000);
    struct suspect suspects[8];
    size_t count;
    assert_int_equal(
        locate(diagnosis_book(normal.diagnosis), diagnosis_book(faulty.diagnosis), suspects, 8, &count), 0);
    assert_int_equal(count, 3);
    assert_string_equal(suspects[0].service, "steady");
    assert_non_null(strstr(suspects[0].why, "its own time is"));
    diagnosis_free(normal.diagnosis);
    diagnosis_free(faulty.diagnosis);
}

/* Zipkin's way: client and server share an id. With both halves, and where the client is not instrumented. */
static void halves_that_share_an_id_are_caller_and_callee(void **state)
{
    struct scene scene = begin();
    static const char text[] = "[{\"traceId\":\"1\",\"id\":\"2\",\"name\":\"get\",\"kind\":\"CLIENT\","
                               "\"timestamp\":100,\"duration\":900,"
                               "\"localEndpoint\":{\"serviceName\":\"front\"}},"
                               "{\"traceId\":\"1\",\"id\":\"2\",\"name\":\"get\",\"kind\":\"SERVER\","
                               "\"timestamp\":200,\"duration\":700,"
                               "\"shared\":true,\"localEndpoint\":{\"serviceName\":\"cart\"}},"
                               "{\"traceId\":\"1\",\"id\":\"3\",\"parentId\":\"2\",\"name\":\"sql\","
                               "\"timestamp\":300,\"duration\":500,"
                               "\"localEndpoint\":{\"serviceName\":\"cart\"}},"
                               "{\"traceId\":\"4\",\"id\":\"4\",\"name\":\"get\",\"kind\":\"SERVER\","
                               "\"timestamp\":200,\"duration\":700,"
                               "\"shared\":true,\"localEndpoint\":{\"serviceName\":\"cart\"}},"
                               "{\"traceId\":\"4\",\"id\":\"5\",\"parentId\":\"4\",\"name\":\"sql\","
                               "\"timestamp\":300,\"duration\":500,"
                               "\"localEndpoint\":{\"serviceName\":\"cart\"}}]";
    assert_int_equal(zipkin_json_decode(text, strlen(text), diagnosis_sink(scene.diagnosis), NULL), 0);
    assert_int_equal(diagnosis_flush(scene.diagnosis, UINT64_MAX), 0);
    const struct book *book = diagnosis_book(scene.diagnosis);
    assert_int_equal(book->counts.requests, 2);
    assert_int_equal(book->link_counts.orphans + book->link_counts.duplicates, 0);
    struct text chain = {0};
    for (uint32_t path = 0; path < book->paths.count; path++) {
        book_path_chain(book, path, &chain);
        text_add(&chain, "; ");
    }
    assert_string_equal(text_get(&chain),
                        "front get; front get > cart get; front get > cart get > cart sql; cart get; "
                        "cart get > cart sql; ");
    text_done(&chain);
    diagnosis_free(scene.diagnosis);
}

/* The same spans backwards, and shuffled among other traces: the same book. */
static void order_does_not_matter(void **state)
{
    uint64_t critical[3] = {0}, self[3] = {0};
    for (int order = 0; order < 3; order++) {
        struct scene scene = begin();
        struct who a = {"a", "1", "h1", "g"}, b = {"b", "1", "h2", "g"};
        for (uint64_t i = 0; i < 6000; i++) {
            uint64_t at = order == 0 ? i : order == 1 ? 5999 - i : i * 3607 % 6000;
            uint64_t trace = at / 6 + 1, span = at % 6;
            scene.next_id = span; /* parents: the root, a call, what it calls, and three steps of that */
            put(&scene, span < 2 ? a : b, trace, span < 3 ? span : 3, span < 3 ? "call" : "step",
                span == 1 ? SPAN_KIND_CLIENT : SPAN_KIND_SERVER, trace * 1000 + span * 50,
                900 - span * 100 - trace % 7);
        }
        assert_int_equal(diagnosis_flush(scene.diagnosis, UINT64_MAX), 0);
        const struct book *book = diagnosis_book(scene.diagnosis);
        assert_int_equal(book->counts.requests, 1000);
        assert_int_equal(book->link_counts.orphans, 0);
        array_foreach (&book->buckets.at[0].groups.at[0].vertices, v) {
            critical[order] += v->critical_ns * 3 + v->on_path;
            self[order] += v->self_ns * 3 + v->busy_ns;
        }
        diagnosis_free(scene.diagnosis);
    }
    assert_true(critical[0] && critical[0] == critical[1] && critical[0] == critical[2]);
    assert_true(self[0] == self[1] && self[0] == self[2]);
}

/* Shapes that cost the square of their size when walked carelessly (then the test's own limit of time ends
 * it): a chain, a ring, and a fan of names. */
static void huge_traces_are_linked_in_time(void **state)
{
    struct scene scene = begin();
    struct who a = {"a", "1", "h1", "g"};
    char name[32] = "call";
    const uint64_t n = 99000;
    for (uint64_t i = 1; i <= n; i++) {
        scene.next_id = i - 1;
        put(&scene, a, 1, i - 1, "call", 0, i, 200000 - i);
        scene.next_id = i - 1;
        put(&scene, a, 2, i == 1 ? n : i - 1, "call", 0, i, 200000 - i);
        scene.next_id = i - 1;
        snprintf(name, sizeof(name), "%d", (int)i);
        put(&scene, a, 3, i > 1, name, 0, i, i > 1 ? i * 7919 % 1000 : 200000);
    }
    assert_int_equal(diagnosis_flush(scene.diagnosis, UINT64_MAX), 0);
    const struct book *book = diagnosis_book(scene.diagnosis);
    assert_int_equal(book->counts.requests, 2);
    assert_int_equal(book->counts.rootless, 1);
    assert_int_equal(book->link_counts.cycles, 1);
    diagnosis_free(scene.diagnosis);
}

static void many_values_are_folded_and_said(void **state)
{
    struct scene scene = begin();
    char hardware[32];
    struct who who = {"a", "1", "h1", hardware};
    for (uint64_t i = 1; i < 2000; i++) {
        snprintf(hardware, sizeof(hardware), "value-%d", (int)i);
        put(&scene, who, i, 0, "root", SPAN_KIND_SERVER, i, 1000);
    }
    assert_int_equal(diagnosis_flush(scene.diagnosis, UINT64_MAX), 0);
    struct report report = {0};
    assert_int_equal(diagnosis_report_losses(scene.diagnosis, &report), 0);
    assert_int_equal(report.missing.count, 1);
    assert_non_null(strstr(report.missing.at[0].why, "hardware.generation"));
    assert_true(book_bucket_count(diagnosis_book(scene.diagnosis)) <= LABELS_VALUES_MAX + 1);
    report_done(&report);
    diagnosis_free(scene.diagnosis);
}

/* Everything that a sender can make up without end: names, hosts, versions, services, values, and their
 * combinations. What is held stops growing, and what was folded is said. */
static void memory_is_bounded_whatever_is_sent(void **state)
{
    struct scene scene = begin();
    char name[32], host[32], version[32], service[32], hardware[32];
    struct who who = {service, version, host, hardware};
    size_t held[2] = {0};
    for (uint64_t i = 1; i <= 320000; i++) {
        snprintf(name, sizeof(name), "GET /orders/%d", (int)i);
        snprintf(host, sizeof(host), "10.0.%d", (int)i);
        snprintf(version, sizeof(version), "build-%d", (int)(i % 70000));
        snprintf(service, sizeof(service), "job-%d", (int)(i % 50000));
        snprintf(hardware, sizeof(hardware), "cpu-%d", (int)i);
        put(&scene, who, i, 0, name, SPAN_KIND_SERVER, i, 1000);
        if (i % 160000 == 0) {
            assert_int_equal(diagnosis_flush(scene.diagnosis, UINT64_MAX), 0);
            held[i / 160000 - 1] = diagnosis_held_bytes(scene.diagnosis);
        }
    }
    assert_true(held[1] <= held[0] + held[0] / 20);
    const struct book *book = diagnosis_book(scene.diagnosis);
    assert_true(book->names->strings.count <= 100000);
    assert_int_equal(book->counts.requests, 320000);
    struct report report = {0};
    assert_int_equal(diagnosis_report_losses(scene.diagnosis, &report), 0);
    bool names = false, groups = false;
    array_foreach (&report.losses, loss) {
        names |= strcmp(loss->reason, "name-folded") == 0 && loss->count > 100000;
        groups |= strcmp(loss->reason, "version-combination-folded") == 0 && loss->count > 100000;
    }
    assert_true(names && groups);
    report_done(&report);
    diagnosis_free(scene.diagnosis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sequential_disks_on_one_generation),
                                       cmocka_unit_test(since_is_a_change_point),
                                       cmocka_unit_test(critical_times_add_up),
                                       cmocka_unit_test(odd_traces_are_counted),
                                       cmocka_unit_test(a_trace_without_its_root_is_still_running),
                                       cmocka_unit_test(a_trace_that_never_ends_is_ended),
                                       cmocka_unit_test(two_humps_are_no_fault),
                                       cmocka_unit_test(halves_that_share_an_id_are_caller_and_callee),
                                       cmocka_unit_test(order_does_not_matter),
                                       cmocka_unit_test(huge_traces_are_linked_in_time),
                                       cmocka_unit_test(many_values_are_folded_and_said),
                                       cmocka_unit_test(memory_is_bounded_whatever_is_sent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
