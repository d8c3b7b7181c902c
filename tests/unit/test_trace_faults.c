/* Every allocation and every mapping of opening, reading, seeking and refreshing a trace fails once, at each
 * place where it is made: the call returns an error (opening one in words), nothing leaks or crashes, and
 * what was read without an error is whole. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/mman.h>

#include "trace/trace.h"
#include "trace_sample.h"

static long calls_left; /* until the fault; 0: none */
static bool happened;

static bool fails(void)
{
    if (calls_left == 0 || --calls_left != 0)
        return false;
    happened = true;
    errno = ENOMEM;
    return true;
}

/* The linker sends these calls here (see meson.build). */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *s);
void *__real_mmap64(void *at, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *s);
void *__wrap_mmap64(void *at, size_t length, int protection, int flags, int fd, off_t offset);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails() ? NULL : __real_realloc(p, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

char *__wrap_strdup(const char *s)
{
    return fails() ? NULL : __real_strdup(s);
}

void *__wrap_mmap64(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
    return fails() ? MAP_FAILED : __real_mmap64(at, length, protection, flags, fd, offset);
}

static const char META[] = SAMPLE_HEAD "event { id = 1; name = \"plain\"; fields := struct { uint32_t "
                                       "number; string text; uint8_t n; uint16_t list[n]; }; };\n";
static const char MORE[] =
    "event { id = 2; name = \"late\"; fields := struct { uint8_t n; uint8_t list[n]; }; };\n";

enum { PACKETS = 3, EVENTS = 20 };

static void write_stream(const char *folder, const char *name, uint64_t time, unsigned id)
{
    static struct bytes b;
    b.count = 0;
    for (int packet = 0; packet < PACKETS; packet++) {
        size_t p = sample_packet_begin(&b, time, time + EVENTS, 0, 1, 2);
        for (uint64_t i = 0; i < EVENTS; i++, time += 2) {
            put(&b, id, 2);
            put(&b, time, 8);
            if (id == 1) {
                put(&b, i, 4);
                put_text(&b, "text");
            }
            put(&b, i % 4, 1);
            for (uint64_t j = 0; j < i % 4; j++)
                put(&b, j, id == 1 ? 2 : 1);
        }
        sample_packet_end(&b, p, 0);
    }
    sample_write(folder, name, b.at, b.count);
}

/* Reads on to the end: the number of events, or a negative errno. */
static int read_all(struct trace *t)
{
    const struct event *e;
    int r, n = 0;
    uint64_t last = 0;
    while ((r = trace_next(t, &e)) > 0) {
        assert_true(e->time_ns >= last);
        last = e->time_ns;
        n++;
    }
    return r < 0 ? r : n;
}

/* Everything once, with the fault in it. Whether it went through to the end. */
static bool use(char *folder)
{
    struct problem problem = {{0}};
    struct trace *t = NULL;
    int r = trace_open(folder, NULL, &problem, &t);
    if (r < 0) {
        assert_null(t);
        assert_true(problem.what[0] != '\0');
        return false;
    }
    r = read_all(t);
    if (r >= 0) {
        assert_int_equal(r, 2 * PACKETS * EVENTS);
        r = trace_seek_ns(t, 1000 + 1000 + PACKETS * EVENTS);
        if (r >= 0 && (r = read_all(t)) >= 0)
            assert_in_range(r, PACKETS * EVENTS - EVENTS, PACKETS * EVENTS + EVENTS);
    }
    if (r >= 0) { /* it grows: another class, another stream */
        char whole[sizeof(META) + sizeof(MORE)];
        memcpy(whole, META, sizeof(META) - 1);
        memcpy(whole + sizeof(META) - 1, MORE, sizeof(MORE) - 1);
        sample_write(folder, "metadata", whole, sizeof(META) + sizeof(MORE) - 2);
        write_stream(folder, "s2", 9000, 2);
        int64_t more = trace_refresh(t);
        r = more < 0 ? (int)more : read_all(t);
        if (r > 0)
            assert_int_equal(r, PACKETS * EVENTS);
    }
    trace_close(t);
    return r > 0;
}

static void each_allocation_fails_once(void **state)
{
    (void)state;
    long call = 0;
    do {
        calls_left = 0;
        char *folder = sample_folder();
        sample_write(folder, "metadata", META, sizeof(META) - 1);
        write_stream(folder, "s0", 1000, 1);
        write_stream(folder, "s1", 1001, 1);
        happened = false;
        calls_left = ++call;
        bool whole = use(folder);
        calls_left = 0;
        assert_true(happened || whole);
        sample_remove(folder);
    } while (happened);
    print_message("%ld calls failed, one after the other\n", call - 1);
    assert_true(call > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_fails_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
