/* The account of requests: by stack and by what was asked of whom, in numbers, bytes and time, and places
 * that are the application's. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "profile/io.h"

struct world {
    struct profile *profile;
    struct io *io;
    uint64_t last;
};

static uint32_t frame(struct profile *p, const char *name, const char *module, enum profile_frame_kind kind)
{
    struct profile_frame f = {.name = profile_string(p, name), .kind = (uint8_t)kind};
    *(kind == FRAME_NATIVE ? &f.module : &f.file) = profile_string(p, module);
    return profile_add_frame(p, &f);
}

static void begin(struct world *w, enum io_kind kind)
{
    assert_int_equal(profile_new(&w->profile), 0);
    assert_int_equal(io_new(w->profile, kind, &w->io), 0);
}

static void end(struct world *w)
{
    assert_false(w->profile->failed);
    io_free(w->io);
    profile_free(w->profile);
}

/* Its number. */
static uint64_t begin_one(struct world *w, const uint32_t *frames, size_t count, bool by_kernel)
{
    uint32_t group =
        profile_named_frame(w->profile, by_kernel ? "[kworker/1:0] (9)" : "shop (7)", FRAME_GROUP);
    io_began(w->io, ++w->last, &(struct io_stack){&group, frames, 1, count, !by_kernel});
    return w->last;
}

static struct sampler_request request(uint64_t id, uint64_t took_ns, uint64_t bytes, uint32_t operation)
{
    return (struct sampler_request){
        .id = id, .took_ns = took_ns, .bytes = bytes, .stands_for = 1, .operation = operation, .disk = "vda"};
}

/* A stack of read() in a function of the program's. */
static size_t program_stack(struct world *w, const char *function, uint32_t frames[4])
{
    frames[0] = frame(w->profile, "submit_bio", "", FRAME_KERNEL);
    frames[1] = frame(w->profile, "read", "libc.so.6", FRAME_NATIVE);
    frames[2] = frame(w->profile, function, "shop", FRAME_NATIVE);
    frames[3] = frame(w->profile, "main", "shop", FRAME_NATIVE);
    return 4;
}

static void amounts_are_those_of_the_requests(void **state)
{
    struct world w = {0};
    struct io_sites sites;
    uint32_t frames[4];
    begin(&w, IO_BLOCK);
    for (uint64_t i = 1; i <= 100; i++) {
        struct sampler_request r =
            request(begin_one(&w, frames, program_stack(&w, "load", frames), false), i * 1000, 4096, 0);
        r.result = i == 7;
        io_ended(w.io, &r);
    }
    struct sampler_request wrote =
        request(begin_one(&w, frames, program_stack(&w, "load", frames), false), 5000, 512, 1);
    wrote.stands_for = 3;
    io_ended(w.io, &wrote);
    assert_int_equal(io_sites(w.io, NULL, &sites), 0);
    assert_int_equal(sites.count, 1);
    const struct io_site *s = &sites.at[0];
    assert_string_equal(profile_text(w.profile, w.profile->frames.at[s->frame].name), "load");
    assert_int_equal(s->amount.count, 103);
    assert_int_equal(s->amount.bytes, 100 * 4096 + 3 * 512);
    assert_int_equal(s->amount.total_ns, 5050000 + 3 * 5000);
    assert_int_equal(s->amount.longest_ns, 100000);
    assert_int_equal(s->amount.failed, 1);
    assert_in_range(s->amount.most_ns, 98000, 100000);
    assert_int_equal(s->part_count, 2);
    assert_string_equal(s->parts[0].what, "read");
    assert_string_equal(s->parts[0].where, "vda");
    assert_int_equal(s->parts[0].amount.count, 100); /* with the one that failed */
    assert_string_equal(s->parts[1].what, "write");
    assert_int_equal(s->parts[1].amount.count, 3);
    assert_int_equal(sites.all.count, 103);
    assert_int_equal(sites.by_kernel.count, 0);
    io_sites_done(&sites);
    end(&w);
}

static void what_99_of_100_took_is_known_to_an_eighth(void **state)
{
    for (uint64_t ns = 1; ns < 1ull << 40; ns = ns * 5 / 3 + 1) {
        struct world w = {0};
        struct io_sites sites;
        uint32_t frames[4];
        begin(&w, IO_BLOCK);
        for (int i = 0; i < 100; i++) {
            struct sampler_request r =
                request(begin_one(&w, frames, program_stack(&w, "load", frames), false), ns, 1, 0);
            io_ended(w.io, &r);
        }
        struct sampler_request longest =
            request(begin_one(&w, frames, program_stack(&w, "load", frames), false), 100 * ns, 1, 0);
        io_ended(w.io, &longest);
        assert_int_equal(io_sites(w.io, NULL, &sites), 0);
        assert_in_range(sites.all.most_ns, ns, ns + ns / 8 + 1);
        assert_int_equal(sites.all.longest_ns, 100 * ns);
        io_sites_done(&sites);
        end(&w);
    }
}

static void threads_of_the_kernel_are_apart(void **state)
{
    struct world w = {0};
    struct io_sites sites;
    uint32_t own[4];
    begin(&w, IO_BLOCK);
    uint32_t frames[] = {frame(w.profile, "submit_bio", "", FRAME_KERNEL),
                         frame(w.profile, "[write-back of buffered data]", "", FRAME_KERNEL)};
    struct sampler_request back = request(begin_one(&w, frames, 2, true), 9000, 8192, 1),
                           mine = request(begin_one(&w, own, program_stack(&w, "load", own), false), 4000,
                                          4096, 1);
    io_ended(w.io, &back);
    io_ended(w.io, &mine);
    assert_int_equal(io_sites(w.io, NULL, &sites), 0);
    assert_int_equal(sites.count, 2);
    assert_true(sites.at[0].by_kernel);
    assert_int_equal(sites.at[0].frame, frames[1]);
    assert_false(sites.at[1].by_kernel);
    assert_int_equal(sites.by_kernel.bytes, 8192);
    assert_int_equal(sites.all.bytes, 8192 + 4096);
    io_sites_done(&sites);
    end(&w);
}

static void the_application_comes_before_its_language_and_that_before_its_runtime(void **state)
{
    struct world w = {0};
    struct io_sites sites;
    begin(&w, IO_CONNECT);
    uint32_t connect_frame = frame(w.profile, "connect", "libc.so.6", FRAME_NATIVE),
             runtime = frame(w.profile, "internal_connect", "python3.11", FRAME_NATIVE),
             library = frame(w.profile, "create_connection", "/usr/lib/python3.11/socket.py", FRAME_PYTHON),
             application = frame(w.profile, "ask_shop", "/srv/shop.py", FRAME_PYTHON);
    uint32_t all[] = {connect_frame, runtime, library, application},
             none[] = {connect_frame, runtime, library};
    for (int i = 0; i < 2; i++) {
        struct sampler_request r = {.id = begin_one(&w, i ? none : all, i ? 3 : 4, false),
                                    .took_ns = 9 - (unsigned)i};
        io_ended(w.io, &r);
    }
    assert_int_equal(io_sites(w.io, NULL, &sites), 0);
    assert_int_equal(sites.count, 2);
    assert_int_equal(sites.at[0].frame, application);
    assert_int_equal(sites.at[1].frame, library);
    io_sites_done(&sites);
    end(&w);
}

static void peers_and_ends(void **state)
{
    static const struct {
        uint64_t high, low;
        int result;
        const char *where, *what;
    } CASES[] = {{0, 0xffff7f000001, 0, "127.0.0.1:80", "established"},
                 {0, 1, -ECONNREFUSED, "[::1]:80", "refused"},
                 {0x20010db800000000, 2, -ETIMEDOUT, "[2001:db8::2]:80", "timed out"},
                 {0, 0xffffc0000201, -ENETUNREACH, "192.0.2.1:80", "unreachable"},
                 {0, 0xffffc0000202, -ECANCELED, "192.0.2.2:80", "closed before it was established"},
                 {0, 0xffffc0000203, -EPERM, "192.0.2.3:80", "failed"}};
    struct world w = {0};
    struct io_sites sites;
    uint32_t frames[4];
    begin(&w, IO_CONNECT);
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct sampler_request r = {.id = begin_one(&w, frames, program_stack(&w, "ask", frames), false),
                                    .took_ns = 100 - i,
                                    .peer_high = CASES[i].high,
                                    .peer_low = CASES[i].low,
                                    .peer_port = 80,
                                    .result = CASES[i].result};
        io_ended(w.io, &r);
    }
    struct sampler_request open = {.id = begin_one(&w, frames, program_stack(&w, "ask", frames), false),
                                   .took_ns = 1,
                                   .peer_low = 0xffff7f000001,
                                   .peer_port = 81};
    io_unfinished(w.io, &open);
    io_ended(w.io, &open);                                  /* it is known no more */
    io_ended(w.io, &(struct sampler_request){.id = 12345}); /* nor is this */
    assert_int_equal(io_sites(w.io, NULL, &sites), 0);
    const struct io_site *s = &sites.at[0];
    assert_int_equal(s->part_count, ARRAY_SIZE(CASES) + 1);
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        assert_string_equal(s->parts[i].where, CASES[i].where);
        assert_string_equal(s->parts[i].what, CASES[i].what);
    }
    assert_string_equal(s->parts[ARRAY_SIZE(CASES)].what, "not established yet");
    assert_int_equal(s->amount.failed, 5);
    assert_int_equal(s->amount.unfinished, 1);
    assert_int_equal(s->amount.count, 7);
    io_sites_done(&sites);
    end(&w);
}

static void a_crawler_does_not_fill_the_memory(void **state)
{
    struct world w = {0};
    struct io_sites sites;
    uint32_t frames[4];
    begin(&w, IO_CONNECT);
    for (uint32_t i = 0; i < 10000; i++) {
        struct sampler_request r = {.id = begin_one(&w, frames, program_stack(&w, "crawl", frames), false),
                                    .took_ns = 1,
                                    .peer_low = 0xffff0a000000 + i,
                                    .peer_port = 80};
        io_ended(w.io, &r);
    }
    assert_int_equal(io_sites(w.io, NULL, &sites), 0);
    assert_int_equal(sites.all.count, 10000);
    assert_int_equal(sites.at[0].part_count, 4096 + 1);
    io_sites_done(&sites);
    end(&w);
}

static void a_profile_of_numbers_of_bytes_of_time(void **state)
{
    static const struct {
        enum io_weight weight;
        uint64_t all;
    } CASES[] = {{IO_COUNT, 2}, {IO_BYTES, 4096 + 512}, {IO_TIME, 1000 + 3000}};
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct world w = {0};
        uint32_t frames[4];
        begin(&w, IO_BLOCK);
        w.profile->sample_limit = 10;
        struct sampler_request a = request(begin_one(&w, frames, program_stack(&w, "load", frames), false),
                                           1000, 4096, 0),
                               b = request(begin_one(&w, frames, program_stack(&w, "save", frames), false),
                                           3000, 512, 1);
        b.begun_ns = 77;
        b.pid = b.tid = 7;
        io_ended(w.io, &a);
        io_ended(w.io, &b);
        io_into_profile(w.io, CASES[i].weight);
        uint64_t *totals = profile_totals(w.profile), count = 0;
        assert_int_equal(totals[0], CASES[i].all);
        for (size_t n = 0; n < w.profile->nodes.count; n++)
            count += w.profile->nodes.at[n].count;
        assert_int_equal(count, 2);
        assert_int_equal(w.profile->samples.count, 2);
        const struct profile_sample *kept = &w.profile->samples.at[1];
        assert_int_equal(kept->time_ns, 77);
        assert_int_equal(kept->tid, 7);
        assert_string_equal(
            profile_text(w.profile, w.profile->frames.at[w.profile->nodes.at[kept->node].frame].name),
            "[write vda]");
        free(totals);
        end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amounts_are_those_of_the_requests),
        cmocka_unit_test(what_99_of_100_took_is_known_to_an_eighth),
        cmocka_unit_test(threads_of_the_kernel_are_apart),
        cmocka_unit_test(the_application_comes_before_its_language_and_that_before_its_runtime),
        cmocka_unit_test(peers_and_ends),
        cmocka_unit_test(a_crawler_does_not_fill_the_memory),
        cmocka_unit_test(a_profile_of_numbers_of_bytes_of_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
