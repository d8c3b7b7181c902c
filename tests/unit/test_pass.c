/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/pass.h"

#include <errno.h>
#include <string.h>

#include "event/event.h"
#include "trace_sample.h"

static const char META[] =
    SAMPLE_HEAD "event { id = 1; name = \"foreign\"; fields := struct { uint32_t n; }; };\n"
                "event { id = 2; name = \"redis:command\"; fields := struct { int32_t fd; }; };\n"
                "event { id = 3; name = \"uv:submit\"; fields := struct { uint32_t n; }; };\n";

struct counter {
    int events, finished, stop_after;
    uint64_t last_ns;
    uint16_t only;
};

static int count(void *self, const struct event *event)
{
    struct counter *c = self;
    assert_true(event->time_ns >= c->last_ns);
    if (c->only)
        assert_int_equal(event->id, c->only);
    c->last_ns = event->time_ns;
    return ++c->events == c->stop_after ? -ECANCELED : 0;
}

static int finish(void *self)
{
    ((struct counter *)self)->finished++;
    return 0;
}

static int see_progress(void *context, uint64_t done, uint64_t total)
{
    assert_true(done <= total);
    *(uint64_t *)context = done;
    return 0;
}

static struct trace *sample(char **ret_folder)
{
    struct bytes b = {.count = 0};
    struct problem problem;
    struct trace *t;
    *ret_folder = sample_folder();
    size_t p = sample_packet_begin(&b, 0, 300, 0, 1, 1);
    for (uint64_t i = 0; i < 300; i++) {
        put(&b, 1 + i % 3, 2);
        put(&b, i, 8);
        put(&b, i, 4);
    }
    sample_packet_end(&b, p, 0);
    sample_write(*ret_folder, "metadata", META, strlen(META));
    sample_write(*ret_folder, "s", b.at, b.count);
    assert_int_equal(trace_open(*ret_folder, NULL, &problem, &t), 0);
    return t;
}

static void one_read_feeds_all(void **state)
{
    char *folder;
    struct trace *t = sample(&folder);
    uint16_t redis = (uint16_t)event_by_name("redis:command");
    const uint16_t only_redis[] = {redis, 0}, foreign_too[] = {redis, EVENT_FOREIGN, 0};
    struct counter all = {0}, one = {.only = redis}, two = {0};
    const struct pass passes[] = {
        {.name = "all", .event = count, .finish = finish, .self = &all},
        {.name = "one", .wanted = only_redis, .event = count, .finish = finish, .self = &one},
        {.name = "two", .wanted = foreign_too, .event = count, .self = &two},
    };
    uint64_t done = 0;
    assert_int_equal(trace_run(t, passes, 3, see_progress, &done), 0);
    assert_int_equal(all.events, 300);
    assert_int_equal(one.events, 100);
    assert_int_equal(two.events, 200);
    assert_int_equal(all.finished, 1);
    assert_int_equal(one.finished, 1);
    assert_true(done > 0);
    trace_close(t);
    sample_remove(folder);
}

static void an_error_ends_the_run(void **state)
{
    char *folder;
    struct trace *t = sample(&folder);
    struct counter c = {.stop_after = 5};
    const struct pass pass = {.name = "c", .event = count, .finish = finish, .self = &c};
    assert_int_equal(trace_run(t, &pass, 1, NULL, NULL), -ECANCELED);
    assert_int_equal(c.events, 5);
    assert_int_equal(c.finished, 0);
    trace_close(t);
    sample_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_read_feeds_all),
        cmocka_unit_test(an_error_ends_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
