/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/trace.h"

#include <errno.h>

#include "event/event.h"
#include "trace_sample.h"

static const char META[] = SAMPLE_HEAD
    "env { hostname = \"here\"; tracer_name = \"other\"; };\n"
    "event { id = 1; name = \"plain\"; fields := struct { uint32_t number; string _text; uint8_t n;\n"
    "  uint16_t list[n]; }; };\n"
    /* The catalogue's event with its fields in another order, one missing and one unknown. */
    "event { id = 2; name = \"redis:command\"; fields := struct { int32_t fd; uint64_t client_id; uint64_t "
    "duration;\n"
    "  uint32_t extra; }; };\n";

static void put_plain(struct bytes *b, uint64_t time, uint32_t number, const char *text)
{
    put(b, 1, 2);
    put(b, time, 8);
    put(b, number, 4);
    put_text(b, text);
    put(b, 2, 1);
    put(b, number + 1, 2);
    put(b, number + 2, 2);
}

static struct trace *open_sample(const char *folder)
{
    struct trace *t = NULL;
    struct problem problem;
    if (trace_open(folder, NULL, &problem, &t) < 0)
        fail_msg("%s", problem.what);
    return t;
}

static void write_two_streams(const char *folder)
{
    struct bytes b = {.count = 0};
    sample_write(folder, "metadata", META, strlen(META));
    size_t p = sample_packet_begin(&b, 10, 30, 0, 7, 70);
    put_plain(&b, 10, 1, "a");
    put_plain(&b, 30, 3, "ccc");
    sample_packet_end(&b, p, 5);
    p = sample_packet_begin(&b, 40, 50, 4, 7, 70);
    put_plain(&b, 50, 5, "");
    sample_packet_end(&b, p, 0);
    sample_write(folder, "s0", b.at, b.count);
    b.count = 0;
    p = sample_packet_begin(&b, 20, 40, 0, 8, 80);
    put(&b, 2, 2);
    put(&b, 20, 8);
    put(&b, (uint64_t)-1, 4);
    put(&b, 99, 8);
    put(&b, 12345, 8);
    put(&b, 77, 4);
    put_plain(&b, 40, 4, "d");
    sample_packet_end(&b, p, 0);
    sample_write(folder, "s1", b.at, b.count);
}

static void merges_streams_by_time(void **state)
{
    char *folder = sample_folder();
    write_two_streams(folder);
    struct trace *t = open_sample(folder);
    const struct event *e;
    static const uint64_t TIMES[] = {1010, 1020, 1030, 1040, 1050};
    static const int64_t TIDS[] = {70, 80, 70, 80, 70};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(trace_next(t, &e), 1);
        assert_int_equal(e->time_ns, TIMES[i]);
        assert_int_equal(e->tid, TIDS[i]);
        assert_int_equal(e->pid, TIDS[i] / 10);
        if (i == 1)
            continue;
        int number = event_class_find(e->class, "number"), text = event_class_find(e->class, "text");
        int list = event_class_find(e->class, "list");
        assert_int_equal(e->id, EVENT_FOREIGN);
        assert_int_equal(e->values[number].u, i + 1);
        assert_int_equal(e->values[text].length, i == 2 ? 3 : i == 4 ? 0 : 1);
        assert_int_equal(e->values[list].length, 2);
        assert_int_equal(event_element(e, &e->class->fields[list], &e->values[list], 1, 0)->u, i + 3);
    }
    assert_int_equal(trace_next(t, &e), 0);
    size_t n;
    const struct trace_loss *losses = trace_losses(t, &n);
    assert_int_equal(n, 1);
    assert_int_equal(losses[0].kind, LOSS_DISCARDED_EVENTS);
    assert_int_equal(losses[0].count, 4);
    assert_string_equal(trace_host_at(t, 0)->name, "here");
    trace_close(t);
    sample_remove(folder);
}

/* Values of a known event stand where the catalogue says, whatever the trace's order. */
static void catalogue_order(void **state)
{
    char *folder = sample_folder();
    write_two_streams(folder);
    struct trace *t = open_sample(folder);
    const struct event *e;
    assert_int_equal(trace_next(t, &e), 1);
    assert_int_equal(trace_next(t, &e), 1);
    enum sonde_event_id id = event_by_name("redis:command");
    assert_int_equal(e->id, id);
    const struct event_description *d = &event_catalogue[id];
    for (uint32_t i = 0; i < d->field_count; i++) {
        bool there = strcmp(d->fields[i].name, "fd") == 0 || strcmp(d->fields[i].name, "client_id") == 0 ||
                     strcmp(d->fields[i].name, "duration") == 0;
        assert_string_equal(e->class->fields[i].name, d->fields[i].name);
        assert_int_equal(event_has(e, i), there);
        assert_int_equal(e->values[i].absent, !there);
        if (strcmp(d->fields[i].name, "fd") == 0)
            assert_int_equal(e->values[i].i, -1);
        if (strcmp(d->fields[i].name, "client_id") == 0)
            assert_int_equal(e->values[i].u, 99);
    }
    assert_int_equal(e->values[0].u, 12345);
    int extra = event_class_find(e->class, "extra");
    assert_int_equal(extra, d->field_count);
    assert_int_equal(e->values[extra].u, 77);
    trace_close(t);
    sample_remove(folder);
}

/* A file cut anywhere gives the events of its whole packets and counts the rest. */
static void truncated_file(void **state)
{
    char *folder = sample_folder();
    sample_write(folder, "metadata", META, strlen(META));
    struct bytes b = {.count = 0};
    size_t p = sample_packet_begin(&b, 10, 20, 0, 7, 70);
    put_plain(&b, 10, 1, "a");
    put_plain(&b, 20, 2, "b");
    sample_packet_end(&b, p, 3);
    size_t first = b.count;
    p = sample_packet_begin(&b, 30, 30, 0, 7, 70);
    put_plain(&b, 30, 3, "c");
    sample_packet_end(&b, p, 3);
    for (size_t cut = 1; cut < b.count; cut++) {
        sample_write(folder, "s", b.at, cut);
        struct trace *t = open_sample(folder);
        const struct event *e;
        int n = 0;
        while (trace_next(t, &e) > 0)
            n++;
        assert_int_equal(n, cut >= first ? 2 : 0);
        size_t losses;
        const struct trace_loss *l = trace_losses(t, &losses);
        uint64_t lost = cut >= first ? cut - first : cut;
        assert_int_equal(losses, lost ? 1 : 0);
        if (lost) {
            assert_int_equal(l->kind, LOSS_TRUNCATED);
            assert_int_equal(l->count, lost);
            assert_int_equal(l->offset, cut - lost);
        }
        trace_close(t);
    }
    sample_remove(folder);
}

static void damaged_event_is_counted(void **state)
{
    char *folder = sample_folder();
    sample_write(folder, "metadata", META, strlen(META));
    struct bytes b = {.count = 0};
    size_t p = sample_packet_begin(&b, 10, 20, 0, 7, 70);
    put_plain(&b, 10, 1, "a");
    size_t bad = b.count;
    put(&b, 999, 2);
    put(&b, 15, 8);
    sample_packet_end(&b, p, 0);
    p = sample_packet_begin(&b, 30, 30, 0, 7, 70);
    put_plain(&b, 30, 3, "c");
    sample_packet_end(&b, p, 0);
    sample_write(folder, "s", b.at, b.count);
    struct trace *t = open_sample(folder);
    const struct event *e;
    assert_int_equal(trace_next(t, &e), 1);
    assert_int_equal(trace_next(t, &e), 1);
    assert_int_equal(e->time_ns, 1030);
    assert_int_equal(trace_next(t, &e), 0);
    size_t n;
    const struct trace_loss *l = trace_losses(t, &n);
    assert_int_equal(n, 1);
    assert_int_equal(l->kind, LOSS_UNREADABLE);
    assert_int_equal(l->offset, bad);
    assert_int_equal(l->count, 10);
    assert_non_null(strstr(l->what, "999"));
    trace_close(t);
    sample_remove(folder);
}

static void seeks_by_time(void **state)
{
    char *folder = sample_folder();
    write_two_streams(folder);
    struct trace *t = open_sample(folder);
    const struct event *e;
    static const uint64_t TIMES[] = {1010, 1020, 1030, 1040, 1050};
    for (uint64_t to = 1000; to <= 1055; to++) {
        assert_int_equal(trace_seek_ns(t, to), 0);
        for (int i = 0; i < 5; i++) {
            if (TIMES[i] < to)
                continue;
            assert_int_equal(trace_next(t, &e), 1);
            assert_int_equal(e->time_ns, TIMES[i]);
        }
        assert_int_equal(trace_next(t, &e), 0);
    }
    trace_close(t);
    sample_remove(folder);
}

static void grows(void **state)
{
    char *folder = sample_folder();
    sample_write(folder, "metadata", META, strlen(META));
    struct bytes b = {.count = 0};
    size_t p = sample_packet_begin(&b, 10, 20, 0, 7, 70);
    put_plain(&b, 10, 1, "a");
    sample_packet_end(&b, p, 0);
    sample_write(folder, "s", b.at, b.count);
    struct trace *t = open_sample(folder);
    const struct event *e;
    assert_int_equal(trace_next(t, &e), 1);
    assert_int_equal(trace_next(t, &e), 0);
    assert_int_equal(trace_refresh(t), 0);
    p = sample_packet_begin(&b, 30, 30, 0, 7, 70);
    put_plain(&b, 30, 3, "c");
    sample_packet_end(&b, p, 0);
    sample_write(folder, "s", b.at, b.count - 4); /* half written */
    assert_true(trace_refresh(t) > 0);
    assert_int_equal(trace_next(t, &e), 0);
    sample_write(folder, "s", b.at, b.count);
    assert_int_equal(trace_refresh(t), 4);
    assert_int_equal(trace_next(t, &e), 1);
    assert_int_equal(e->time_ns, 1030);
    size_t n;
    trace_losses(t, &n);
    assert_int_equal(n, 0);
    trace_close(t);
    sample_remove(folder);
}

/* A file that grows while its packet is read: the rest of the packet, then the new one. */
static void grows_under_the_reader(void **state)
{
    char *folder = sample_folder();
    sample_write(folder, "metadata", META, strlen(META));
    struct bytes b = {.count = 0};
    size_t p = sample_packet_begin(&b, 10, 20, 0, 7, 70);
    for (uint64_t i = 0; i < 3; i++)
        put_plain(&b, 10 + i, (uint32_t)i, "abc");
    sample_packet_end(&b, p, 0);
    sample_write(folder, "s", b.at, b.count);
    struct trace *t = open_sample(folder);
    const struct event *e;
    assert_int_equal(trace_next(t, &e), 1);
    p = sample_packet_begin(&b, 30, 30, 0, 7, 70);
    put_plain(&b, 30, 3, "d");
    sample_packet_end(&b, p, 0);
    sample_write(folder, "s", b.at, b.count);
    assert_true(trace_refresh(t) > 0);
    static const uint64_t TIMES[] = {1011, 1012, 1030};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(trace_next(t, &e), 1);
        assert_int_equal(e->time_ns, TIMES[i]);
        assert_int_equal(e->values[event_class_find(e->class, "number")].u, i + 1);
    }
    assert_int_equal(trace_next(t, &e), 0);
    trace_close(t);
    sample_remove(folder);
}

#define CTF2_U64(name, role)                                                                            \
    "{\"name\":\"" name "\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":64," \
    "\"alignment\":64,\"byte-order\":\"little-endian\",\"roles\":[\"" role "\"]}}"
#define CTF2_WIDE(name)                                                                                      \
    "{\"name\":\"" name "\",\"field-class\":{\"type\":\"null-terminated-string\",\"encoding\":\"utf-16le\"}" \
    "}"

static void put_wide(struct bytes *b, const char *text)
{
    for (size_t i = 0; i <= strlen(text); i++)
        put(b, (uint8_t)text[i], 2);
}

/* Texts of the packet's context, plain and converted, are there for all of its events, also when other
 * texts are converted and the file is mapped anew meanwhile. */
static void packet_texts_stay(void **state)
{
    static const char TEXTS[] =
        "\x1e{\"type\":\"preamble\",\"version\":2}\n"
        "\x1e{\"type\":\"clock-class\",\"id\":\"c\",\"frequency\":1000000000}\n"
        "\x1e{\"type\":\"data-stream-class\",\"default-clock-class-id\":\"c\",\"packet-context-field-class\":"
        "{\"type\":\"structure\",\"member-classes\":[" CTF2_U64(
            "size",
            "packet-content-length") ","
                                     "{\"name\":\"plain\",\"field-class\":{\"type\":\"null-terminated-"
                                     "string\"}}," CTF2_WIDE(
                                         "wide") "]},"
                                                 "\"event-record-header-field-class\":{\"type\":"
                                                 "\"structure\",\"member-classes\":[" CTF2_U64(
                                                     "time",
                                                     "default-clock-timestamp") "]}}\n"
                                                                                "\x1e{\"type\":\"event-"
                                                                                "record-class\",\"name\":"
                                                                                "\"x\",\"payload-field-"
                                                                                "class\":"
                                                                                "{\"type\":\"structure\","
                                                                                "\"member-classes\":"
                                                                                "[" CTF2_WIDE("text") "]}}\n";
    char *folder = sample_folder();
    sample_write(folder, "metadata", TEXTS, strlen(TEXTS));
    struct bytes b = {.count = 0};
    for (uint64_t i = 0; i < 2; i++) {
        size_t start = b.count;
        put(&b, 0, 8);
        put_text(&b, i ? "second" : "first");
        put_wide(&b, i ? "second" : "first");
        for (uint64_t j = 0; j < 3; j++) {
            b.count = (b.count + 7) & ~(size_t)7;
            put(&b, 10 * i + j, 8);
            put_wide(&b, "some text");
        }
        b.count = (b.count + 7) & ~(size_t)7;
        uint64_t bits = (b.count - start) * 8;
        memcpy(b.at + start, &bits, 8);
        if (i == 0)
            sample_write(folder, "s", b.at, b.count);
    }
    struct trace *t = open_sample(folder);
    const struct event *e;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(trace_next(t, &e), 1);
        assert_string_equal(e->packet[1].s, i < 3 ? "first" : "second");
        assert_int_equal(e->packet[2].length, e->packet[1].length);
        assert_memory_equal(e->packet[2].s, e->packet[1].s, e->packet[1].length);
        assert_int_equal(e->values[0].length, 9);
        if (i == 0) {
            sample_write(folder, "s", b.at, b.count);
            assert_true(trace_refresh(t) > 0);
        }
    }
    assert_int_equal(trace_next(t, &e), 0);
    trace_close(t);
    sample_remove(folder);
}

/* The metadata in packets of so many bytes of text; returns its length. */
static size_t in_packets(const char *text, size_t step, uint8_t *out)
{
    size_t length = strlen(text), n = 0;
    for (size_t at = 0; at < length; at += step) {
        size_t part = length - at < step ? length - at : step;
        uint32_t bits = (uint32_t)(37 + part) * 8;
        memset(out + n, 0, 37);
        memcpy(out + n, &(uint32_t){0x75d11d57}, 4);
        memcpy(out + n + 24, &bits, 4);
        memcpy(out + n + 28, &bits, 4);
        out[n + 35] = 1;
        memcpy(out + n + 37, text + at, part);
        n += 37 + part;
    }
    return n;
}

/* Metadata cut anywhere: what is declared whole is read as ever, what is missing is told. */
static void cut_metadata(void **state)
{
    static uint8_t packets[65536];
    char *folder = sample_folder();
    write_two_streams(folder);
    size_t length = in_packets(META, 700, packets), opened = 0, events[6] = {0};
    for (size_t cut = 1; cut <= length; cut += length - cut > 90 ? 7 : 1) {
        struct trace *t = NULL;
        struct problem problem = {{0}};
        const struct event *e;
        size_t n = 0, losses;
        sample_write(folder, "metadata", packets, cut);
        int r = trace_open(folder, NULL, &problem, &t);
        if (r < 0) {
            assert_int_equal(opened, 0); /* what was enough stays enough */
            assert_string_not_equal(problem.what, "");
            assert_true(cut < 37 || strstr(problem.remedy, "The metadata is cut off"));
            continue;
        }
        opened++;
        while (trace_next(t, &e) > 0)
            n++;
        assert_true(n < 6);
        events[n]++;
        const struct trace_loss *l = trace_losses(t, &losses);
        if (cut < length) {
            assert_true(losses > 0);
            assert_int_equal(l->kind, LOSS_METADATA);
            assert_int_equal(l->stream, LOSS_NO_STREAM);
            assert_int_equal(l->offset % 737, 0);
            assert_true(l->count > 0 && l->count <= 737);
        } else {
            assert_int_equal(n, 5);
        }
        trace_close(t);
    }
    assert_true(opened > 20 && events[0] && events[3] && events[5]);
    sample_remove(folder);
}

static void explains_what_is_missing(void **state)
{
    struct problem problem;
    struct trace *t = NULL;
    char *folder = sample_folder();
    assert_int_equal(trace_open(folder, NULL, &problem, &t), -ENOENT);
    assert_null(t);
    assert_non_null(strstr(problem.what, "metadata"));
    sample_write(folder, "metadata", "/* CTF 1.8 */\ntrace { major = 1;\n  byte_order = xx; };\n", 56);
    assert_int_equal(trace_open(folder, NULL, &problem, &t), -EINVAL);
    assert_non_null(strstr(problem.what, "metadata:3:3: expected le, be"));
    sample_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_streams_by_time),
        cmocka_unit_test(catalogue_order),
        cmocka_unit_test(truncated_file),
        cmocka_unit_test(cut_metadata),
        cmocka_unit_test(damaged_event_is_counted),
        cmocka_unit_test(seeks_by_time),
        cmocka_unit_test(grows),
        cmocka_unit_test(grows_under_the_reader),
        cmocka_unit_test(packet_texts_stay),
        cmocka_unit_test(explains_what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
