/* Several threads give the events and the losses that one gives. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/trace.h"

#include "trace_sample.h"

static const char META[] = SAMPLE_HEAD "event { id = 1; name = \"plain\"; fields := struct { uint32_t "
                                       "number; string text; uint8_t n; uint16_t list[n]; }; };\n";

/* About 1.5 MB a stream; packets of some hundred events, one with a hole in it, the last one cut. */
static void write_stream(const char *folder, int number)
{
    char path[512];
    static struct bytes b;
    snprintf(path, sizeof(path), "%s/s%d", folder, number);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    uint64_t time = 1000 + (uint64_t)number, discarded = 0;
    for (int packet = 0; packet < 40; packet++) {
        b.count = 0;
        discarded += packet % 7 == 3 ? 5 : 0;
        size_t p = sample_packet_begin(&b, time, time, discarded, 1, (uint32_t)number);
        for (int i = 0; i < 1000; i++) {
            if (packet == 20 && i == 500) {
                put(&b, 999, 2); /* no such event */
                put(&b, time, 8);
            }
            time += (uint64_t)(rand() % 50);
            put(&b, 1, 2);
            put(&b, time, 8);
            put(&b, (uint64_t)i, 4);
            put_text(&b, i % 3 ? "some text" : "");
            put(&b, (uint64_t)(i % 4), 1);
            for (int j = 0; j < i % 4; j++)
                put(&b, (uint64_t)j, 2);
        }
        sample_packet_end(&b, p, 0);
        size_t length = packet == 39 ? b.count - 100 : b.count;
        assert_int_equal(fwrite(b.at, 1, length, f), length);
    }
    fclose(f);
}

static void same_event(const struct event *a, const struct event *b)
{
    assert_int_equal(a->time_ns, b->time_ns);
    assert_int_equal(a->stream, b->stream);
    assert_int_equal(a->tid, b->tid);
    assert_int_equal(a->present, b->present);
    assert_string_equal(a->class->name, b->class->name);
    for (uint32_t i = 0; i < a->class->packet_field_count; i++)
        assert_int_equal(a->packet[i].u, b->packet[i].u);
    assert_int_equal(a->values[0].u, b->values[0].u);
    assert_int_equal(a->values[1].length, b->values[1].length);
    assert_memory_equal(a->values[1].s, b->values[1].s, a->values[1].length);
    assert_int_equal(a->values[3].length, b->values[3].length);
    for (uint32_t i = 0; i < a->values[3].length; i++)
        assert_int_equal(a->values[a->values[3].first + i].u, b->values[b->values[3].first + i].u);
}

static void same_losses(struct trace *a, struct trace *b)
{
    size_t na, nb;
    const struct trace_loss *la = trace_losses(a, &na), *lb = trace_losses(b, &nb);
    assert_int_equal(na, nb);
    for (size_t i = 0; i < na; i++) {
        assert_int_equal(la[i].kind, lb[i].kind);
        assert_int_equal(la[i].stream, lb[i].stream);
        assert_int_equal(la[i].count, lb[i].count);
        assert_int_equal(la[i].offset, lb[i].offset);
        assert_string_equal(la[i].path, lb[i].path);
        assert_string_equal(la[i].what, lb[i].what);
    }
}

static void equals_one_thread(void **state)
{
    char *folder = sample_folder();
    struct problem problem;
    struct trace *one, *many;
    const struct event *a, *b;
    srand(7);
    sample_write(folder, "metadata", META, strlen(META));
    for (int i = 0; i < 3; i++)
        write_stream(folder, i);
    for (unsigned threads = 2; threads <= 5; threads++) {
        struct trace_options options = {.threads = threads};
        assert_int_equal(trace_open(folder, NULL, &problem, &one), 0);
        assert_int_equal(trace_open(folder, &options, &problem, &many), 0);
        size_t events = 0;
        while (trace_next(one, &a) > 0) {
            assert_int_equal(trace_next(many, &b), 1);
            same_event(a, b);
            events++;
        }
        assert_int_equal(trace_next(many, &b), 0);
        assert_true(events > 110000);
        same_losses(one, many);
        size_t n;
        trace_losses(one, &n);
        assert_int_equal(n, 9); /* discarded, damaged and cut, in each stream */
        /* Left early, sought, and read again. */
        assert_int_equal(trace_rewind(many), 0);
        for (int i = 0; i < 1000; i++)
            assert_int_equal(trace_next(many, &b), 1);
        assert_int_equal(trace_seek_ns(many, 2000 + 1000), 0);
        assert_int_equal(trace_seek_ns(one, 2000 + 1000), 0);
        assert_int_equal(trace_next(one, &a), 1);
        assert_int_equal(trace_next(many, &b), 1);
        same_event(a, b);
        trace_close(one);
        trace_close(many);
    }
    sample_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_one_thread)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
