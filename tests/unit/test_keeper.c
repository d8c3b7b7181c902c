/* The keeper against a store that refuses now and then: everything in the journal is stored once, in order,
 * and what is evidence is named when old spans go. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/keeper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

/* Keeps the ids of committed spans; fails as told. */
struct fake {
    struct span_store store;
    struct journal_position position;
    uint64_t batch[4096], committed[4096];
    size_t batch_count, committed_count;
    unsigned fail_appends, fail_commits, fail_positions; /* the next so many */
    unsigned lose_answers;                               /* commits that are made and reported as failed */
    uint64_t expired_before;
    size_t kept;
};

static int fake_append(struct span_store *store, const struct span *span)
{
    struct fake *fake = (struct fake *)store;
    if (fake->fail_appends) {
        fake->fail_appends--;
        return -EIO;
    }
    fake->batch[fake->batch_count++] = span->id;
    return 0;
}

static void fake_discard(struct span_store *store)
{
    ((struct fake *)store)->batch_count = 0;
}

static int fake_commit(struct span_store *store, struct journal_position position, struct problem *problem)
{
    struct fake *fake = (struct fake *)store;
    if (fake->fail_commits) {
        fake->fail_commits--;
        fake->batch_count = 0;
        return problem_set(problem, -ENOSPC, "no room");
    }
    for (size_t i = 0; i < fake->batch_count; i++)
        fake->committed[fake->committed_count++] = fake->batch[i];
    fake->batch_count = 0;
    fake->position = position;
    if (!fake->lose_answers)
        return 0;
    fake->lose_answers--;
    return problem_set(problem, -EIO, "no answer");
}

static int fake_position(struct span_store *store, struct journal_position *ret_position,
                         struct problem *problem)
{
    struct fake *fake = (struct fake *)store;
    if (fake->fail_positions) {
        fake->fail_positions--;
        return problem_set(problem, -EIO, "no answer");
    }
    *ret_position = fake->position;
    return 0;
}

static int fake_query(struct span_store *store, const char *sql, struct text *to, struct problem *problem)
{
    return -EINVAL;
}

static int fake_expire(struct span_store *store, uint64_t before_ns, const struct trace_id *keep,
                       size_t keep_count, struct problem *problem)
{
    struct fake *fake = (struct fake *)store;
    fake->kept = keep_count && keep[0].low == 77 ? keep_count : 0;
    fake->expired_before = before_ns;
    return 0;
}

static int fake_size(struct span_store *store, uint64_t *ret_bytes, struct problem *problem)
{
    *ret_bytes = 0;
    return 0;
}

static void fake_close(struct span_store *store)
{
}

static const struct span_store_operations FAKE = {fake_append, fake_commit, fake_discard, fake_position,
                                                  fake_query,  fake_expire, fake_size,    fake_close};

enum hand_over { GIVEN, WITHOUT_SPANS };

struct scene {
    char folder[TEST_PATH];
    enum hand_over how; /* batches are given */
    struct journal *journal;
    struct fake *fake;
    struct keeper *keeper;
    uint64_t next;
};

static void open_scene(struct scene *scene)
{
    struct problem problem;
    *scene = (struct scene){.next = 1};
    assert_non_null(mkdtemp(test_path(scene->folder)));
    assert_int_equal(journal_open(scene->folder, 0, &scene->journal, &problem), 0);
    scene->fake = calloc(1, sizeof(*scene->fake));
    assert_non_null(scene->fake);
    scene->fake->store.operations = &FAKE;
}

static void start(struct scene *scene, struct keeper_settings settings)
{
    struct problem problem;
    settings.folder = scene->folder;
    settings.journal = scene->journal;
    settings.store = &scene->fake->store;
    settings.held_max = settings.held_max ? settings.held_max : 1 << 20;
    assert_int_equal(keeper_new(&settings, &scene->keeper, &problem), 0);
}

/* A batch of one span, numbered upwards: into the journal, and given to the keeper once there is one. */
static void put(struct scene *scene)
{
    char json[400];
    struct journal_position before, end;
    int n =
        snprintf(json, sizeof(json),
                 "{\"resourceSpans\":[{\"resource\":{},\"scopeSpans\":[{\"spans\":[{\"traceId\":\"%032llx\","
                 "\"spanId\":\"%016llx\",\"name\":\"a\",\"startTimeUnixNano\":\"1000\","
                 "\"endTimeUnixNano\":\"2000\"}]}]}]}",
                 (unsigned long long)scene->next, (unsigned long long)scene->next);
    scene->next++;
    assert_int_equal(journal_append(scene->journal, JOURNAL_OTLP_JSON, json, (size_t)n, &before, &end), 0);
    if (!scene->keeper)
        return;
    struct span_batch *spans = NULL;
    if (scene->how == GIVEN) {
        assert_int_equal(span_batch_new(JOURNAL_OTLP_JSON, json, (size_t)n, &spans), 0);
        assert_int_equal(span_batch_decode(spans, 4096, NULL), 0);
    }
    keeper_give(scene->keeper, spans, before, end);
    span_batch_unref(spans);
}

static void assert_all_stored(const struct scene *scene)
{
    assert_int_equal(scene->fake->committed_count, scene->next - 1);
    for (uint64_t i = 1; i < scene->next; i++)
        assert_int_equal(scene->fake->committed[i - 1], i);
}

static void close_scene(struct scene *scene)
{
    char command[TEST_PATH + 16];
    keeper_free(scene->keeper);
    journal_close(scene->journal);
    free(scene->fake);
    snprintf(command, sizeof(command), "rm -r %s", scene->folder);
    assert_int_equal(system(command), 0);
}

static void stores_what_the_journal_has(void **state)
{
    struct scene scene;
    open_scene(&scene);
    put(&scene);
    put(&scene);
    start(&scene, (struct keeper_settings){0});
    assert_all_stored(&scene); /* what was there before it began */
    for (int i = 0; i < 50; i++)
        put(&scene);
    keeper_drain(scene.keeper);
    assert_all_stored(&scene);
    close_scene(&scene);
}

/* Nothing of what is given is read again, but where the store refused it: then that, and what follows, once.
 */
static void stores_what_it_is_given(void **state)
{
    struct scene scene;
    struct keeper_counts counts;
    open_scene(&scene);
    put(&scene);
    start(&scene, (struct keeper_settings){0});
    for (int i = 0; i < 50; i++)
        put(&scene);
    keeper_drain(scene.keeper);
    assert_all_stored(&scene);
    keeper_get_counts(scene.keeper, &counts);
    assert_int_equal(counts.reread, 1); /* what was there before it began */
    scene.fake->fail_commits = 1;
    for (int i = 0; i < 50; i++)
        put(&scene);
    do
        keeper_drain(scene.keeper);
    while (scene.fake->committed_count < scene.next - 1);
    assert_all_stored(&scene);
    keeper_get_counts(scene.keeper, &counts);
    assert_in_range(counts.reread, 2, 51);
    close_scene(&scene);
}

/* What there is no room for is read from the journal, between what there was room for. */
static void reads_what_it_had_no_room_for(void **state)
{
    struct scene scene;
    struct keeper_counts counts;
    open_scene(&scene);
    start(&scene, (struct keeper_settings){0});
    for (int i = 0; i < 60; i++) {
        scene.how = i % 3 ? GIVEN : WITHOUT_SPANS;
        put(&scene);
    }
    keeper_drain(scene.keeper);
    assert_all_stored(&scene);
    keeper_get_counts(scene.keeper, &counts);
    assert_int_equal(counts.reread, 20);
    close_scene(&scene);
    open_scene(&scene);
    start(&scene, (struct keeper_settings){.held_max = 3000}); /* a few at a time */
    for (int i = 0; i < 300; i++)
        put(&scene);
    keeper_drain(scene.keeper);
    assert_all_stored(&scene);
    close_scene(&scene);
}

static void repeats_what_was_refused(void **state)
{
    struct scene scene;
    struct keeper_counts counts;
    open_scene(&scene);
    for (int i = 0; i < 20; i++)
        put(&scene);
    scene.fake->fail_commits = 1;
    start(&scene, (struct keeper_settings){0});
    keeper_get_counts(scene.keeper, &counts);
    assert_int_equal(counts.errors, 1);
    if (counts.last_error[0]) /* else it was repeated already */
        assert_string_equal(counts.last_error, "no room");
    keeper_drain(scene.keeper);
    assert_all_stored(&scene);
    scene.fake->fail_appends = 1;
    for (int i = 0; i < 20; i++)
        put(&scene);
    do { /* the first one ends at the failure */
        keeper_drain(scene.keeper);
        keeper_get_counts(scene.keeper, &counts);
    } while (scene.fake->committed_count < scene.next - 1);
    keeper_drain(scene.keeper); /* until the keeper knows of the commit, too */
    keeper_get_counts(scene.keeper, &counts);
    assert_all_stored(&scene);
    assert_int_equal(counts.errors, 2);
    assert_string_equal(counts.last_error, "");
    close_scene(&scene);
}

/* A store behind a network that goes away: what it has is not known until it answers again. */
static void repeats_nothing_that_was_taken_without_an_answer(void **state)
{
    struct scene scene;
    open_scene(&scene);
    start(&scene, (struct keeper_settings){0});
    scene.fake->lose_answers = 1;
    scene.fake->fail_positions = 2;
    for (int i = 0; i < 20; i++)
        put(&scene);
    do /* each failure ends one */
        keeper_drain(scene.keeper);
    while (scene.fake->committed_count < scene.next - 1);
    put(&scene);
    do
        keeper_drain(scene.keeper);
    while (scene.fake->committed_count < scene.next - 1);
    keeper_free(scene.keeper);
    scene.keeper = NULL;
    assert_all_stored(&scene);
    close_scene(&scene);
}

static void stores_the_rest_at_the_end(void **state)
{
    struct scene scene;
    open_scene(&scene);
    start(&scene, (struct keeper_settings){0});
    for (int i = 0; i < 5; i++)
        put(&scene);
    keeper_free(scene.keeper);
    scene.keeper = NULL;
    assert_all_stored(&scene);
    close_scene(&scene);
}

static void begins_anew_when_the_journal_was_removed(void **state)
{
    struct scene scene;
    open_scene(&scene);
    scene.fake->position = (struct journal_position){9, 4711};
    put(&scene);
    start(&scene, (struct keeper_settings){0});
    assert_all_stored(&scene);
    close_scene(&scene);
}

static size_t name_one(void *context, struct trace_id *ids, size_t room)
{
    assert_true(room > 0);
    ids[0] = (struct trace_id){0, 77};
    return 1;
}

static void old_spans_go_with_the_evidence_named(void **state)
{
    struct scene scene;
    struct keeper_counts counts;
    open_scene(&scene);
    start(&scene,
          (struct keeper_settings){.keep_ns = 3600ull * 1000000000, .look_ns = 1, .exemplars = name_one});
    do {
        put(&scene); /* whatever wakes it */
        keeper_drain(scene.keeper);
        keeper_get_counts(scene.keeper, &counts);
    } while (!counts.expirations);
    keeper_free(scene.keeper);
    scene.keeper = NULL;
    assert_int_equal(scene.fake->kept, 1);
    assert_true(scene.fake->expired_before > 1000000000ull * 1500000000ull);
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stores_what_the_journal_has),
        cmocka_unit_test(stores_what_it_is_given),
        cmocka_unit_test(reads_what_it_had_no_room_for),
        cmocka_unit_test(repeats_what_was_refused),
        cmocka_unit_test(repeats_nothing_that_was_taken_without_an_answer),
        cmocka_unit_test(stores_the_rest_at_the_end),
        cmocka_unit_test(begins_anew_when_the_journal_was_removed),
        cmocka_unit_test(old_spans_go_with_the_evidence_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
