/* The columnar store's file: killed builders, damage, cut ends, bounded memory, readers in several threads.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/map.h"
#include "history/columns.h"
#include "naive_history.h"

static char path[256];

static struct history *create(uint32_t segment_changes)
{
    struct problem problem = {0};
    struct history *h = NULL;
    struct history_options options = {.size = sizeof(options), .segment_changes = segment_changes};
    if (!*path) /* a forked builder keeps its parent's */
        temporary_path(path, sizeof(path), "test-columns");
    if (history_create(path, &options, &h, &problem) != 0)
        fail_msg("%s", problem.what);
    return h;
}

static struct history *open_good(void)
{
    struct problem problem = {0};
    struct history *h = NULL;
    if (history_open(path, &h, &problem) != 0)
        fail_msg("%s", problem.what);
    return h;
}

/* ---- Killed builders ---- */

enum { KILL_ATTRIBUTES = 60, KILL_STEPS = 400000, KILL_SEGMENTS = 8192 };

/* What a builder in another process says of itself; the steps before `step` are done. */
struct progress {
    uint64_t step, changes;
    uint32_t segments;
    uint64_t steps_of[KILL_SEGMENTS]; /* how many steps the first n segments contain */
};

static void build_until_killed(struct progress *progress, uint64_t seed, uint32_t segment,
                               uint32_t late_percent)
{
    struct naive naive;
    struct feed feed;
    struct history_info info;
    struct history *h = create(segment);
    naive_init(&naive, KILL_ATTRIBUTES, 0);
    feed_init(&feed, seed, &naive, late_percent);
    add_attributes(h, KILL_ATTRIBUTES);
    for (uint64_t step = 0; step < KILL_STEPS; step++) {
        __atomic_store_n(&progress->step, step, __ATOMIC_SEQ_CST);
        feed_change(&feed, h, &naive);
        history_get_info(h, &info);
        __atomic_store_n(&progress->changes, info.changes, __ATOMIC_SEQ_CST);
        if (info.segments > progress->segments && info.segments < KILL_SEGMENTS) {
            progress->steps_of[info.segments] =
                step; /* written before this step's change went into the log */
            __atomic_store_n(&progress->segments, info.segments, __ATOMIC_SEQ_CST);
        }
    }
    for (;;) /* who is to kill it may have had no CPU */
        pause();
}

/* The history that is left must be that of the steps which its segments contain, and no segment may be
 * missing. */
static void check_remains(const struct progress *progress, uint64_t seed, uint32_t segment,
                          uint32_t late_percent)
{
    struct history_info info;
    struct history *h = open_good();
    history_get_info(h, &info);
    assert_false(info.complete);
    assert_true(info.segments == progress->segments || info.segments == progress->segments + 1);
    assert_true(progress->changes - info.changes <= segment + segment / 4 + 1);
    uint64_t steps = info.segments == progress->segments ? progress->steps_of[info.segments] : progress->step;
    if (info.segments) {
        struct naive naive;
        struct feed feed;
        uint64_t random = seed;
        struct problem problem = {0};
        struct history *again = NULL; /* takes the changes, as the builder's did; only the model matters */
        struct history_options options = {.size = sizeof(options), .store = HISTORY_TREE};
        char other[300];
        snprintf(other, sizeof(other), "%s.again", path);
        assert_int_equal(history_create(other, &options, &again, &problem), 0);
        naive_init(&naive, KILL_ATTRIBUTES, 0);
        feed_init(&feed, seed, &naive, late_percent);
        add_attributes(again, KILL_ATTRIBUTES);
        for (uint64_t step = 0; step < steps; step++)
            feed_change(&feed, again, &naive);
        assert_int_equal(info.end_ns, naive.max_ns + 1);
        naive.end_ns = info.end_ns;
        check_everything(h, &naive, &random, 8);
        history_free(again);
        unlink(other);
        naive_done(&naive);
        free(feed.attribute_ns);
    }
    history_free(h);
}

static void a_killed_builder_loses_one_segment_at_most(void **state)
{
    struct progress *progress =
        mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(progress != MAP_FAILED);
    uint64_t random = 99;
    unsigned unfinished = 0;
    for (int round = 0; round < 40; round++) {
        memset(progress, 0, sizeof(*progress));
        uint64_t until = 1 + random_below(&random, 60000), bytes = 1 + random_below(&random, 800000);
        uint32_t late_percent = round % 3 ? 0 : 20, segment = round % 2 ? 20000 : 200;
        temporary_path(path, sizeof(path), "test-columns");
        unlink(path);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            build_until_killed(progress, (uint64_t)round, segment, late_percent);
        /* At any step; or just when the file grows, so that most are hit while they write a segment. */
        struct stat st = {0};
        while (__atomic_load_n(&progress->step, __ATOMIC_SEQ_CST) < (round % 2 ? 1 : until))
            sched_yield();
        while (round % 2 && stat(path, &st) == 0 && (uint64_t)st.st_size < bytes) {
        }
        assert_int_equal(kill(child, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        struct history_info info;
        struct history *h = open_good();
        history_get_info(h, &info);
        unfinished += info.lost_bytes > 0;
        history_free(h);
        check_remains(progress, (uint64_t)round, segment, late_percent);
    }
    munmap(progress, sizeof(*progress));
    print_message("%u of 40 builders were killed within a write\n", unfinished);
    unlink(path);
}

/* ---- Damage ---- */

struct sample {
    struct naive naive;
    char *data;
    size_t size;
};

/* A closed history of several segments and a group. */
static void make_sample(struct sample *sample, uint32_t attributes, uint32_t changes, uint32_t segment)
{
    struct feed feed;
    struct problem problem = {0};
    struct history *h = create(segment);
    naive_init(&sample->naive, attributes, 0);
    feed_init(&feed, 5, &sample->naive, 10);
    add_attributes(h, attributes);
    for (uint32_t i = 0; i < changes; i++)
        feed_change(&feed, h, &sample->naive);
    sample->naive.end_ns = sample->naive.max_ns + 100;
    assert_int_equal(history_close(h, sample->naive.end_ns, &problem), 0);
    history_free(h);
    free(feed.attribute_ns);
    assert_int_equal(file_read(path, 1 << 26, &sample->data, &sample->size), 0);
}

static void sample_done(struct sample *sample)
{
    free(sample->data);
    naive_done(&sample->naive);
    unlink(path);
}

static void write_file(const char *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, data, size), 0);
    close(fd);
}

struct compare {
    const struct naive *naive;
    bool complete;
};

static int same_state(void *context, const struct history_interval *s)
{
    const struct compare *compare = context;
    struct history_interval want =
        naive_state(compare->naive, s->quark, naive_at(compare->naive, s->quark, s->start_ns));
    if (compare->complete || s->end_ns == want.end_ns)
        assert_state_equal(s, &want);
    return 0;
}

static int same_summary(void *context, uint32_t column, const struct history_summary *s)
{
    return 0;
}

/* Every attribute's whole range, a full state and summaries. 0 or the first error, with its problem. */
static int read_everything(struct history *h, const struct naive *naive, struct problem *problem)
{
    struct history_info info;
    history_get_info(h, &info);
    struct compare compare = {naive, info.complete};
    struct history_interval *states = calloc(info.attributes + 1, sizeof(*states));
    int r = 0;
    for (uint32_t q = 0; r == 0 && q < info.attributes; q++) {
        r = history_query_range(h, q, info.start_ns, info.end_ns, same_state, &compare, problem);
        if (r == 0)
            r = history_summarize(h, &q, 1, info.start_ns, info.end_ns, 7, same_summary, NULL, problem);
        if (r == 0)
            r = history_query_2d(h, &q, 1, info.start_ns, info.end_ns, 13, same_state, &compare, problem);
    }
    for (uint64_t i = 0; r == 0 && i < 5; i++)
        r = history_query_full(h, info.start_ns + (info.end_ns - 1 - info.start_ns) / 4 * i, states, problem);
    free(states);
    return r;
}

/* Any flipped bit either is noticed, by file and offset, or makes no difference. */
static void damage_is_named(void **state)
{
    struct sample sample;
    make_sample(&sample, 30, 4000, 150);
    uint64_t random = 3;
    unsigned noticed = 0, harmless = 0, unfinished = 0;
    for (int i = 0; i < 2500; i++) {
        size_t at = i < 300 ? (size_t)i : random_below(&random, sample.size);
        char before = sample.data[at];
        sample.data[at] = (char)(before ^ (1 << random_below(&random, 8)));
        write_file(sample.data, sample.size);
        sample.data[at] = before;
        struct problem problem = {0};
        struct history *h = NULL;
        int r = history_open(path, &h, &problem);
        if (r == 0) {
            struct history_info info;
            history_get_info(h, &info);
            unfinished += !info.complete;
            assert_true(info.complete || info.lost_bytes > 0);
            r = read_everything(h, &sample.naive, &problem);
        }
        history_free(h);
        if (r == 0) {
            harmless++;
            continue;
        }
        noticed++;
        assert_int_equal(r, -EBADMSG);
        assert_non_null(strstr(problem.what, path));
        assert_non_null(strstr(problem.what, "offset "));
    }
    assert_true(noticed >
                2000); /* what is not: padding, and the end mark, without which the file is unfinished */
    assert_true(unfinished < 50);
    sample_done(&sample);
}

/* A file cut anywhere opens up to its last whole segment. */
static void a_cut_file_opens(void **state)
{
    struct sample sample;
    make_sample(&sample, 30, 3000, 150);
    uint32_t segments_before = 0;
    for (size_t size = sizeof(struct file_head); size < sample.size; size += size % 5 ? 97 : 13) {
        write_file(sample.data, size);
        struct problem problem = {0};
        struct history_info info;
        struct history *h = open_good();
        history_get_info(h, &info);
        assert_false(info.complete);
        assert_int_equal(info.file_bytes + info.lost_bytes, size);
        assert_true(info.segments >= segments_before);
        segments_before = info.segments;
        if (read_everything(h, &sample.naive, &problem) != 0)
            fail_msg("%s", problem.what);
        history_free(h);
    }
    assert_true(segments_before > 10);
    struct problem problem = {0};
    struct history *h = NULL;
    write_file(sample.data, 63);
    assert_int_equal(history_open(path, &h, &problem), -EBADMSG);
    sample_done(&sample);
}

/* Garbage where the last segment's body should be counts as unfinished when there is no end mark. */
static void a_torn_last_segment_is_dropped(void **state)
{
    struct sample sample;
    make_sample(&sample, 30, 3000, 150);
    size_t end_mark = sizeof(struct record_head);
    memset(sample.data + sample.size - end_mark - 300, 0, 200); /* as after a power cut */
    write_file(sample.data, sample.size - end_mark);
    struct history_info info;
    struct problem problem = {0};
    struct history *h = open_good();
    history_get_info(h, &info);
    assert_false(info.complete);
    assert_true(info.lost_bytes > 300);
    assert_int_equal(read_everything(h, &sample.naive, &problem), 0);
    history_free(h);
    sample_done(&sample);
}

/* Right checksums over nonsense: a segment that speaks of attributes which it does not have. */
static void blocks_of_unknown_attributes_are_refused(void **state)
{
    struct sample sample;
    make_sample(&sample, 12, 500, 0);
    struct record_head head;
    char *at = sample.data + sizeof(struct file_head), *body = at + sizeof(head) + RECORD_ALIGN;
    memcpy(&head, at, sizeof(head));
    assert_int_equal(head.kind, RECORD_SEGMENT);
    assert_true(head.body_bytes < 65536); /* one page */
    memset(body + head.directory_at, 0xff, 8);
    uint32_t sum = (uint32_t)map_hash(body, head.body_bytes);
    memcpy(at + sizeof(head), &sum, sizeof(sum));
    head.pages_checksum = map_hash(&sum, sizeof(sum));
    head.checksum = map_hash(&head, offsetof(struct record_head, checksum));
    memcpy(at, &head, sizeof(head));
    write_file(sample.data, sample.size);
    struct problem problem = {0};
    struct history *h = open_good();
    struct history_interval states[12];
    assert_int_equal(history_query_full(h, 10, states, &problem), -EBADMSG);
    assert_non_null(strstr(problem.what, "offset "));
    assert_int_equal(history_query(h, 3, 10, states, &problem), -EBADMSG);
    history_free(h);
    sample_done(&sample);
}

/* ---- Memory, threads ---- */

static void a_builder_maps_little(void **state)
{
    struct naive naive;
    struct feed feed;
    uint64_t random = 2;
    struct history *h = create(300);
    struct columns *c = h->store;
    c->mapped_max = 20000;
    naive_init(&naive, 50, 0);
    feed_init(&feed, 6, &naive, 5);
    add_attributes(h, 50);
    for (uint32_t i = 0; i < 30000; i++) {
        feed_change(&feed, h, &naive);
        if (i % 3000 == 2999) {
            uint64_t mapped = c->file.mapped_bytes;
            check_everything(h, &naive, &random, 1);
            assert_true(c->file.mapped_bytes > 0);
            columns_trim(h);
            assert_true(c->file.mapped_bytes <= c->mapped_max);
            assert_true(mapped <= c->mapped_max);
        }
    }
    history_free(h);
    unlink(path);
    naive_done(&naive);
    free(feed.attribute_ns);
}

static void memory_does_not_grow_with_the_trace(void **state)
{
    struct problem problem = {0};
    struct history_info info;
    struct history *h = create(5000);
    uint64_t early = 0;
    add_attributes(h, 100);
    for (uint64_t i = 0; i < 1000000; i++) {
        assert_int_equal(history_modify(h, i * 100, (uint32_t)(i * 7 % 100),
                                        history_int((int64_t)(i / 100 % 9)), &problem),
                         0);
        if (i == 50000) {
            history_get_info(h, &info);
            early = info.memory_bytes;
        }
    }
    history_get_info(h, &info);
    assert_true(info.segments > 150);
    assert_true(info.memory_bytes < early + 100000); /* an index entry a segment */
    history_free(h);
    unlink(path);
}

struct reading {
    struct history *h;
    const struct naive *naive;
    uint64_t random;
    int rounds;
};

static void *read_in_thread(void *context)
{
    struct reading *reading = context;
    check_everything(reading->h, reading->naive, &reading->random, reading->rounds);
    return NULL;
}

static void many_threads_read(void **state)
{
    struct sample sample;
    make_sample(&sample, 200, 50000, 1000);
    struct reading readings[4];
    pthread_t threads[4];
    struct history *h = open_good();
    for (unsigned i = 0; i < 4; i++) {
        readings[i] = (struct reading){h, &sample.naive, i, 30};
        assert_int_equal(pthread_create(&threads[i], NULL, read_in_thread, &readings[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    history_free(h);
    sample_done(&sample);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_builder_loses_one_segment_at_most),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(a_cut_file_opens),
        cmocka_unit_test(a_torn_last_segment_is_dropped),
        cmocka_unit_test(blocks_of_unknown_attributes_are_refused),
        cmocka_unit_test(a_builder_maps_little),
        cmocka_unit_test(memory_does_not_grow_with_the_trace),
        cmocka_unit_test(many_threads_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
