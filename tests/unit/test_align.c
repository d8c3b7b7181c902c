/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/align.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "trace/trace.h"
#include "trace_sample.h"

static double uniform(void)
{
    return rand() / (RAND_MAX + 1.0);
}

/* Messages with random delays over a known line: the result lies within the error that it states, and the
 * error is small when delays are. */
static void finds_a_known_line(void **state)
{
    enum { N = 2000 };
    static struct bound upper[N], lower[N];
    srand(1);
    for (int round = 0; round < 200; round++) {
        double slope = (uniform() - 0.5) * 2e-4, intercept = (uniform() - 0.5) * 1e9,
               length = 1e9 + uniform() * 1e11;
        size_t nu = (size_t)(2 + rand() % (N - 2)), nl = (size_t)(2 + rand() % (N - 2)), all_u = nu,
               all_l = nl;
        static struct bound kept_upper[N], kept_lower[N];
        for (size_t i = 0; i < nu; i++) {
            double x = uniform() * length;
            kept_upper[i] = upper[i] =
                (struct bound){x, slope * x + intercept + 1000 - 100000 * log(1 - uniform())};
        }
        for (size_t i = 0; i < nl; i++) {
            double x = uniform() * length;
            kept_lower[i] = lower[i] =
                (struct bound){x, slope * x + intercept - 1000 + 100000 * log(1 - uniform())};
        }
        struct line line;
        assert_int_equal(align_fit(upper, &nu, lower, &nl, 0, length, &line), 0);
        for (size_t i = 0; i < all_u; i++)
            assert_true(line.slope * kept_upper[i].x + line.intercept <= kept_upper[i].y + 1e-3);
        for (size_t i = 0; i < all_l; i++)
            assert_true(line.slope * kept_lower[i].x + line.intercept >= kept_lower[i].y - 1e-3);
        for (double x = 0; x <= length; x += length / 4)
            assert_true(fabs((line.slope - slope) * x + line.intercept - intercept) <= line.error + 1e-3);
        assert_true(line.error_between <= line.error + 1e-3);
        if (all_u > 500 && all_l > 500)
            assert_true(line.error < 20000);
    }
}

static void refuses_what_cannot_be(void **state)
{
    struct bound upper[] = {{0, 10}, {10, 0}}, lower[] = {{0, 5}, {10, 5}};
    size_t nu = 2, nl = 2, none = 0;
    struct line line;
    assert_int_equal(align_fit(upper, &nu, lower, &nl, 0, 10, &line), -ERANGE);
    nu = 2;
    assert_int_equal(align_fit(upper, &nu, lower, &none, 0, 10, &line), -ENODATA);
}

enum { HOSTS = 2 };

/* A directory with the recordings of two hosts, of one event each. */
static char *two_recordings(void)
{
    static const char METADATA[] =
        SAMPLE_HEAD "event { name = \"a\"; id = 1; fields := struct { uint8_t x; }; };\n";
    char *folder = sample_folder();
    for (int host = 0; host < HOSTS; host++) {
        static struct bytes stream;
        char place[TEST_PATH + 16];
        stream.count = 0;
        size_t packet = sample_packet_begin(&stream, 1, 1, 0, 1, 1);
        put(&stream, 1, 2);
        put(&stream, 1, 8);
        put(&stream, 0, 1);
        sample_packet_end(&stream, packet, 0);
        snprintf(place, sizeof(place), "%s/%d", folder, host);
        assert_int_equal(mkdir(place, 0700), 0);
        sample_write(place, "metadata", METADATA, sizeof(METADATA) - 1);
        sample_write(place, "stream", stream.at, stream.count);
    }
    return folder;
}

/* One host is recorded for ten seconds amid the hundred of the other, and messages go to and fro only then:
 * outside of them the stated error is larger, and the clock is not further off than it says. */
static void states_the_error_of_the_whole_trace(void **state)
{
    enum { BRIEF = 0, LONG = 1, MESSAGES = 50 };
    const int64_t second = 1000000000, ends[] = {0, 100 * second};
    char *folder = two_recordings();
    struct problem problem = {0};
    struct trace *trace;
    assert_int_equal(trace_open(folder, NULL, &problem, &trace), 0);
    assert_int_equal(trace_host_count(trace), HOSTS);
    srand(1);
    for (int round = 0; round < 50; round++) {
        const double drift = (uniform() - 0.5) * 2e-4; /* of the long one's clock */
        struct aligner *aligner;
        struct alignment *found;
        assert_int_equal(align_begin(trace, &problem, &aligner), 0);
        align_saw(aligner, LONG, ends[0]);
        align_saw(aligner, BRIEF, 40 * second);
        for (int i = 0; i < 2 * MESSAGES; i++) {
            int64_t sent = 40 * second + (int64_t)(uniform() * 10e9),
                    received = sent + 1000 - (int64_t)(100000 * log(1 - uniform()));
            bool forth = i % 2;
            assert_int_equal(align_message(aligner, forth ? BRIEF : LONG, forth ? LONG : BRIEF,
                                           sent + (forth ? 0 : (int64_t)(drift * (double)sent)),
                                           received + (forth ? (int64_t)(drift * (double)received) : 0)),
                             0);
        }
        align_saw(aligner, BRIEF, 50 * second);
        align_saw(aligner, LONG, ends[1] + (int64_t)(drift * (double)ends[1]));
        assert_int_equal(align_end(aligner, &problem, &found), 0);
        const struct host_alignment *brief = &found->hosts[BRIEF], *other = &found->hosts[LONG];
        const uint64_t error = brief->error_ns + other->error_ns;
        assert_true(error > 3 * (brief->error_between_ns + other->error_between_ns));
        for (size_t i = 0; i < 2; i++) {
            double there = (double)ends[i] + drift * (double)ends[i], here = (double)ends[i];
            there -= (double)other->offset_ns + other->drift * (there - (double)other->origin_ns);
            here -= (double)brief->offset_ns + brief->drift * (here - (double)brief->origin_ns);
            assert_true(fabs(there - here) <= (double)error + 10);
        }
        alignment_free(found);
        aligner_free(aligner);
    }
    trace_close(trace);
    sample_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_a_known_line),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(states_the_error_of_the_whole_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
