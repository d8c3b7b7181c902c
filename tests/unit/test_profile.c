/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/business.h"
#include "profile/formats.h"
#include "test.h"

/* "a;b;c" with its weight. */
static void add(struct profile *p, const char *stack, uint64_t weight)
{
    char copy[256], *state, *name;
    uint32_t node = 0;
    strcpy(copy, stack);
    for (name = strtok_r(copy, ";", &state); name; name = strtok_r(NULL, ";", &state))
        node = profile_child(p, node, profile_named_frame(p, name, FRAME_NATIVE));
    profile_count(p, node, 1, weight);
}

static int by_line(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The profile as sorted folded lines. */
static char *folded(const struct profile *p)
{
    struct text text = {0}, sorted = {0};
    char *lines[1000], *state;
    size_t count = 0;
    assert_int_equal(folded_write(p, &text), 0);
    text_add(&text, "");
    char *copy = text_take(&text);
    for (char *line = strtok_r(copy, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
        lines[count++] = line;
    qsort(lines, count, sizeof(*lines), by_line);
    for (size_t i = 0; i < count; i++)
        text_addf(&sorted, "%s\n", lines[i]);
    free(copy);
    text_add(&sorted, "");
    return text_take(&sorted);
}

static void assert_folded(const struct profile *p, const char *expected)
{
    char *text = folded(p);
    assert_string_equal(text, expected);
    free(text);
}

static uint32_t end_process(void *context, struct profile *p, uint32_t frame)
{
    const char *name = profile_text(p, p->frames.at[frame].name);
    return strncmp(name, "cc (", 4) == 0 ? profile_named_frame(p, "cc (" PROFILE_ENDED ")", FRAME_NATIVE)
                                         : frame;
}

static uint64_t weight_of(const struct profile *p, const char *function)
{
    size_t count;
    uint64_t self = 0;
    struct profile_function *list = profile_functions(p, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(profile_text(p, p->frames.at[list[i].frame].name), function) == 0)
            self += list[i].self;
    free(list);
    return self;
}

/* Programs may be called anything; exports are UTF-8. */
static void strings_are_utf8(void **state)
{
    struct profile *p;
    assert_int_equal(profile_new(&p), 0);
    uint32_t odd = profile_string(p, "pe\377rl");
    assert_string_equal(profile_text(p, odd), "pe\357\277\275rl");
    assert_int_equal(profile_string(p, "pe\377rl"), odd);
    assert_int_equal(profile_string(p, "pe\357\277\275rl"), odd);
    assert_false(p->failed);
    profile_free(p);
}

static void folded_processes_share_their_stacks(void **state)
{
    struct profile *p;
    assert_int_equal(profile_new(&p), 0);
    add(p, "cc (1);main;x", 3);
    add(p, "cc (2);main;x", 4);
    add(p, "cc (2);main", 1);
    add(p, "sh (3);main", 2);
    struct profile_sample kept = {.node = 3};
    p->sample_limit = 1;
    profile_keep(p, &kept);
    uint32_t before = p->serial;
    assert_int_equal(profile_fold(p, 1000, end_process, NULL), 0);
    assert_folded(p, "cc (ended);main 1\ncc (ended);main;x 7\nsh (3);main 2\n");
    assert_int_not_equal(p->serial, before);
    const struct profile_node *n = &p->nodes.at[p->samples.at[0].node];
    assert_string_equal(profile_text(p, p->frames.at[n->frame].name), "x");
    for (size_t i = 0; i < p->strings.count; i++) /* what nobody needs is forgotten */
        assert_null(strstr(p->strings.at[i], "cc (1)"));
    add(p, "cc (ended);main;x", 5); /* it is still the same trie */
    assert_folded(p, "cc (ended);main 1\ncc (ended);main;x 12\nsh (3);main 2\n");
    profile_free(p);
}

static void folding_loses_callers_never_weight(void **state)
{
    struct profile *p;
    char stack[128];
    uint64_t all = 1000000;
    assert_int_equal(profile_new(&p), 0);
    add(p, "a;hot;leaf", all);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 20000; i++, all += 10) {
            snprintf(stack, sizeof(stack), "a;b%d;c%d;d%d;leaf%d", i % 100, i % 1000, round * 20000 + i,
                     i % 5);
            add(p, stack, 10);
        }
        assert_int_equal(profile_fold(p, 2000, NULL, NULL), 0);
        assert_true(p->nodes.count <= 2000);
        assert_true(p->frames.count <= 2000);
        uint64_t *totals = profile_totals(p);
        assert_int_equal(totals[0], all);
        assert_true(profile_rare(p, totals) > 0 && profile_rare(p, totals) <= all - 1000000);
        free(totals);
        assert_int_equal(weight_of(p, "leaf"), 1000000);
    }
    profile_free(p);
}

/* As long as there is room, rare stacks keep their last function. */
static void folding_keeps_what_functions_take(void **state)
{
    struct profile *p;
    char stack[128];
    assert_int_equal(profile_new(&p), 0);
    for (int i = 0; i < 20000; i++) {
        snprintf(stack, sizeof(stack), "a;b;c%d;d%d;e%d;leaf%d", i, i, i, i % 5);
        add(p, stack, 10);
    }
    assert_int_equal(profile_fold(p, 2000, NULL, NULL), 0);
    for (int i = 0; i < 5; i++) {
        snprintf(stack, sizeof(stack), "leaf%d", i);
        assert_int_equal(weight_of(p, stack), 40000);
    }
    profile_free(p);
}

/* Half as many stacks would be a waste of the room. */
static void folding_uses_its_room(void **state)
{
    struct profile *p;
    char stack[128];
    uint64_t all = 0;
    assert_int_equal(profile_new(&p), 0);
    for (int i = 0; i < 20000; all += (uint64_t)++i) {
        snprintf(stack, sizeof(stack), "a;c%d;d%d;leaf%d", i, i, i % 5);
        add(p, stack, (uint64_t)i + 1);
    }
    assert_int_equal(profile_fold(p, 2000, NULL, NULL), 0);
    assert_in_range(p->nodes.count, 1500, 2000);
    uint64_t *totals = profile_totals(p);
    assert_int_equal(totals[0], all);
    free(totals);
    profile_free(p);
}

static void merging_is_addition(void **state)
{
    struct profile *a, *b, *ab, *ba;
    assert_int_equal(profile_new(&a) | profile_new(&b) | profile_new(&ab) | profile_new(&ba), 0);
    add(a, "main;x;y", 3);
    add(a, "main;x", 1);
    add(b, "other;z", 5);
    add(b, "main;x;y", 4);
    profile_merge(ab, a);
    profile_merge(ab, b);
    profile_merge(ba, b);
    profile_merge(ba, a);
    assert_folded(ab, "main;x 1\nmain;x;y 7\nother;z 5\n");
    char *first = folded(ab), *second = folded(ba);
    assert_string_equal(first, second);
    uint64_t *totals = profile_totals(ab);
    assert_int_equal(totals[0], 13);
    free(totals);
    free(first);
    free(second);
    profile_free(a);
    profile_free(b);
    profile_free(ab);
    profile_free(ba);
}

/* Two levels (node, group) give what one does. */
static void merging_in_levels_is_the_same(void **state)
{
    struct profile *parts[8], *groups[2], *flat, *tree;
    srand(11);
    assert_int_equal(
        profile_new(&flat) | profile_new(&tree) | profile_new(&groups[0]) | profile_new(&groups[1]), 0);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(profile_new(&parts[i]), 0);
        for (int k = 0; k < 50; k++) {
            char stack[64];
            snprintf(stack, sizeof(stack), "m;f%d;g%d;h%d", rand() % 4, rand() % 4, rand() % 4);
            add(parts[i], stack, (uint64_t)(rand() % 100) + 1);
        }
        profile_merge(flat, parts[i]);
        profile_merge(groups[i % 2], parts[i]);
        profile_free(parts[i]);
    }
    profile_merge(tree, groups[1]);
    profile_merge(tree, groups[0]);
    char *first = folded(flat), *second = folded(tree);
    assert_string_equal(first, second);
    free(first);
    free(second);
    profile_free(flat);
    profile_free(tree);
    profile_free(groups[0]);
    profile_free(groups[1]);
}

static void recursion_counts_once(void **state)
{
    struct profile *p;
    size_t count;
    assert_int_equal(profile_new(&p), 0);
    add(p, "main;f;g;f;f", 10);
    add(p, "main;f", 1);
    struct profile_function *list = profile_functions(p, &count);
    assert_int_equal(count, 3);
    assert_string_equal(profile_text(p, p->frames.at[list[0].frame].name), "f");
    assert_int_equal(list[0].self, 11);
    assert_int_equal(list[0].total, 11);
    free(list);
    profile_free(p);
}

static void bounded_nodes_keep_the_sum(void **state)
{
    struct profile *p;
    assert_int_equal(profile_new(&p), 0);
    p->node_limit = 20;
    for (int i = 0; i < 100; i++) {
        char stack[32];
        snprintf(stack, sizeof(stack), "main;f%d", i);
        add(p, stack, 1);
    }
    assert_int_equal(p->nodes.count, 20);
    uint64_t *totals = profile_totals(p);
    assert_int_equal(totals[0], 100);
    assert_true(p->failed);
    free(totals);
    profile_free(p);
}

static void folded_round_trip(void **state)
{
    static const char text[] =
        "# a comment\nmain;x y;z_[k] 3\nmain;x y 1\r\nmain;x y;z_[k] 4\n\na 18446744073\n";
    struct profile *p;
    assert_int_equal(profile_new(&p), 0);
    assert_int_equal(folded_read(p, text, sizeof(text) - 1, NULL), 0);
    assert_folded(p, "a 18446744073\nmain;x y 1\nmain;x y;z_[k] 7\n");
    uint32_t main = profile_child(p, 0, profile_named_frame(p, "main", FRAME_NATIVE));
    uint32_t x_y = profile_child(p, main, profile_named_frame(p, "x y", FRAME_NATIVE));
    size_t nodes = p->nodes.count;
    profile_child(p, x_y, profile_named_frame(p, "z", FRAME_KERNEL));
    assert_int_equal(p->nodes.count, nodes); /* "_[k]" was read as a frame of the kernel, called z */
    profile_free(p);
    struct problem problem;
    assert_int_equal(profile_new(&p), 0);
    assert_int_equal(folded_read(p, "main;x 3\nno number\n", 19, &problem), -EBADMSG);
    assert_non_null(strstr(problem.what, "line 2"));
    profile_free(p);
}

/* Functions of one name in two files are two: folded text, which has no files, says their stack twice, and
 * each export has the whole weight. */
static void one_name_in_two_files(void **state)
{
    struct profile *p, *q;
    struct text text = {0}, firefox = {0};
    assert_int_equal(profile_new(&p) | profile_new(&q), 0);
    strcpy(p->unit, "nanoseconds");
    uint32_t main = profile_child(p, 0, profile_named_frame(p, "main", FRAME_NATIVE));
    for (int i = 0; i < 2; i++) {
        struct profile_frame frame = {
            .name = profile_string(p, "f"), .file = profile_string(p, i ? "b.js" : "a.js"), .kind = FRAME_JS};
        profile_count(p, profile_child(p, main, profile_add_frame(p, &frame)), 1, i ? 7 : 1234567890123);
    }
    assert_folded(p, "main;f_[j] 1234567890123\nmain;f_[j] 7\n");
    assert_int_equal(firefox_write(p, "", &firefox), 0);
    assert_non_null(
        strstr(text_get(&firefox), "\"weight\":[1234567.890123,0.000007],\"weightType\":\"tracing-ms\""));
    assert_int_equal(folded_write(p, &text), 0);
    assert_int_equal(folded_read(q, text.at, text.length, NULL), 0);
    assert_folded(q, "main;f_[j] 1234567890130\n");
    text_done(&text);
    text_done(&firefox);
    profile_free(p);
    profile_free(q);
}

static struct text written_for_firefox(const struct profile *p)
{
    struct text text = {0};
    assert_int_equal(firefox_write(p, "", &text), 0);
    return text;
}

/* Times count from the profile's start, also when it was waited for the first sample. */
static void times_count_from_the_start(void **state)
{
    struct profile *p;
    assert_int_equal(profile_new(&p), 0);
    uint32_t node = profile_child(p, 0, profile_named_frame(p, "main", FRAME_NATIVE));
    const struct profile_sample samples[] = {{.time_ns = 6500000000, .weight = 1, .node = node},
                                             {.time_ns = 7000000000, .weight = 1, .node = node}};
    p->sample_limit = ARRAY_SIZE(samples);
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        profile_count(p, node, 1, 1);
        profile_keep(p, &samples[i]);
    }
    p->start_ns = 1000000000000;
    p->began_ns = 5000000000;
    struct text text = written_for_firefox(p);
    assert_non_null(strstr(text_get(&text), "\"startTime\":1000000.000"));
    assert_non_null(strstr(text_get(&text), "[1500.000000,2000.000000]"));
    text_done(&text);
    p->began_ns = 6600000000; /* one came before */
    text = written_for_firefox(p);
    assert_non_null(strstr(text_get(&text), "\"startTime\":999900.000"));
    assert_non_null(strstr(text_get(&text), "[0.000000,500.000000]"));
    text_done(&text);
    profile_free(p);
}

/* Libraries belong to the application's function that called them. */
static void pprof_labels(void **state)
{
    (void)state;
    struct profile *p, *q;
    struct text bytes = {0};
    assert_int_equal(profile_new(&p), 0);
    struct profile_frame library = {.name = profile_string(p, "memcpy"),
                                    .module = profile_string(p, "libc.so.6")};
    uint32_t group = profile_child(p, 0, profile_named_frame(p, "shop (7)", FRAME_GROUP)),
             own = profile_child(p, group, profile_named_frame(p, "serve", FRAME_NATIVE)),
             called = profile_child(p, own, profile_add_frame(p, &library)),
             alone = profile_child(p, group, profile_add_frame(p, &library));
    profile_count(p, called, 3, 30);
    profile_count(p, alone, 1, 10);
    assert_int_equal(business_label(p, NULL), 0);
    assert_string_equal(profile_text(p, p->business.at[own]), "serve");
    assert_string_equal(profile_text(p, p->business.at[called]), "serve");
    assert_int_equal(p->business.at[alone], 0);
    assert_int_equal(p->business.at[group], 0);
    assert_int_equal(pprof_write(p, &bytes), 0);
    assert_int_equal(profile_new(&q), 0);
    assert_int_equal(pprof_read(q, bytes.at, bytes.length, NULL), 0); /* labels are skipped */
    uint64_t *totals = profile_totals(q);
    assert_int_equal(totals[0], 40);
    free(totals);
    text_done(&bytes);
    profile_free(p);
    profile_free(q);
}

static void pprof_round_trip(void **state)
{
    struct profile *p, *q;
    struct text bytes = {0};
    assert_int_equal(profile_new(&p) | profile_new(&q), 0);
    struct profile_frame frame = {.name = profile_string(p, "leaf"),
                                  .file = profile_string(p, "/app/a.py"),
                                  .line = 42,
                                  .kind = FRAME_PYTHON};
    uint32_t node = profile_child(p, 0, profile_named_frame(p, "main", FRAME_NATIVE));
    node = profile_child(p, node, profile_add_frame(p, &frame));
    profile_count(p, node, 7, 700);
    add(p, "main;other", 5);
    p->start_ns = 1700000000000000000ull;
    p->end_ns = p->start_ns + 5;
    assert_int_equal(pprof_write(p, &bytes), 0);
    assert_int_equal(pprof_read(q, bytes.at, bytes.length, NULL), 0);
    char *first = folded(p), *second = folded(q);
    assert_string_equal(first, second);
    assert_string_equal(q->event, "cpu");
    assert_string_equal(q->unit, "nanoseconds");
    assert_int_equal(q->start_ns, p->start_ns);
    bool found = false;
    for (size_t i = 0; i < q->frames.count; i++)
        if (strcmp(profile_text(q, q->frames.at[i].name), "leaf") == 0)
            found |= q->frames.at[i].line == 42 && q->frames.at[i].kind == FRAME_PYTHON &&
                     strcmp(profile_text(q, q->frames.at[i].file), "/app/a.py") == 0;
    assert_true(found);
    /* Damage never reads outside; it may still yield something. */
    srand(2);
    for (int round = 0; round < 3000; round++) {
        struct profile *r;
        char *copy = malloc(bytes.length);
        memcpy(copy, bytes.at, bytes.length);
        copy[(size_t)rand() % bytes.length] = (char)rand();
        assert_int_equal(profile_new(&r), 0);
        pprof_read(r, copy, round % 2 ? bytes.length : (size_t)rand() % bytes.length, NULL);
        profile_free(r);
        free(copy);
    }
    free(first);
    free(second);
    text_done(&bytes);
    profile_free(p);
    profile_free(q);
}

static void reading_twice_adds(void **state)
{
    struct profile *p, *q;
    struct text bytes = {0};
    assert_int_equal(profile_new(&p) | profile_new(&q), 0);
    add(p, "main;x;y", 3);
    add(p, "main;x;z", 5);
    add(p, "main", 1);
    add(p, "other;x;y", 7);
    p->start_ns = 1000;
    p->end_ns = 2000;
    assert_int_equal(pprof_write(p, &bytes), 0);
    assert_int_equal(pprof_read(q, text_get(&bytes), bytes.length, NULL), 0);
    assert_folded(q, "main 1\nmain;x;y 3\nmain;x;z 5\nother;x;y 7\n");
    text_clear(&bytes);
    p->start_ns = 500;
    p->end_ns = 700;
    assert_int_equal(pprof_write(p, &bytes), 0);
    assert_int_equal(pprof_read(q, text_get(&bytes), bytes.length, NULL), 0);
    assert_folded(q, "main 2\nmain;x;y 6\nmain;x;z 10\nother;x;y 14\n");
    assert_int_equal(q->start_ns, 500);
    assert_int_equal(q->end_ns, 2000);
    text_done(&bytes);
    profile_free(p);
    profile_free(q);
}

static void charges_libraries_to_their_callers(void **state)
{
    struct profile *p;
    size_t count;
    assert_int_equal(profile_new(&p), 0);
    const char *names[] = {"java.lang.Thread.run", "app.Main.a", "java.util.UUID.randomUUID", "app.Main.b"};
    uint32_t f[4];
    for (int i = 0; i < 4; i++)
        f[i] = profile_named_frame(p, names[i], FRAME_JAVA);
    uint32_t run = profile_child(p, 0, f[0]);
    uint32_t a = profile_child(p, run, f[1]), b = profile_child(p, run, f[3]);
    profile_count(p, profile_child(p, a, f[2]), 1, 100);
    profile_count(p, profile_child(p, b, f[2]), 1, 300);
    profile_count(p, b, 1, 5);
    profile_count(p, run, 1, 7); /* no application function: nobody's */
    struct business_function *list = business_functions(p, NULL, &count);
    assert_int_equal(count, 2);
    assert_int_equal(list[0].frame, f[3]);
    assert_int_equal(list[0].total, 305);
    assert_int_equal(list[0].own, 5);
    assert_int_equal(list[0].library, f[2]);
    assert_int_equal(list[0].library_weight, 300);
    assert_int_equal(list[1].total, 100);
    free(list);
    profile_free(p);
}

static void pages_hold_their_data_safely(void **state)
{
    struct profile *p, *q;
    struct text page = {0};
    assert_int_equal(profile_new(&p) | profile_new(&q), 0);
    add(p, "</script><b>;\"quoted\\", 3);
    add(q, "gone", 4);
    assert_int_equal(page_write(p, NULL, "t</script>", &page), 0);
    assert_null(strstr(text_get(&page), "</script><b>")); /* the data is packed */
    text_clear(&page);
    assert_int_equal(profile_document(p, NULL, "t</script>", &page), 0);
    assert_non_null(strstr(text_get(&page), "\"</script><b>\",\"\\\"quoted\\\\\""));
    assert_null(strstr(text_get(&page), "\"before\""));
    text_clear(&page);
    assert_int_equal(profile_document(p, q, "diff", &page), 0);
    assert_non_null(strstr(text_get(&page), "\"weight\":[0,0,3,0]"));
    assert_non_null(strstr(text_get(&page), "\"before\":[0,0,0,4]"));
    text_done(&page);
    profile_free(p);
    profile_free(q);
}

/* What is asked of a window's frames is asked once, not for every window. */
static void restarting_keeps_names_alone(void **state)
{
    struct profile *p = NULL;
    assert_int_equal(profile_new(&p), 0);
    uint32_t frame = 0, serial = p->serial, node = 0;
    for (int window = 0; window < 3; window++) {
        for (int i = 0; i < 100; i++) {
            char name[32];
            snprintf(name, sizeof(name), "function-%d", i);
            frame = profile_named_frame(p, name, FRAME_NATIVE);
            node = profile_child(p, i % 10 ? node : 0, frame);
            profile_count(p, node, 1, 10);
        }
        uint64_t *totals = profile_totals(p);
        assert_int_equal(totals[0], 1000); /* of this window alone */
        free(totals);
        assert_int_equal(p->nodes.count, 101);
        assert_int_equal(p->frames.count, 101);
        assert_int_equal(p->serial, serial);
        assert_int_equal(profile_restart(p, 101), 0);
        assert_int_equal(p->nodes.count, 1);
        assert_int_equal(p->nodes.at[0].weight, 0);
    }
    assert_string_equal(profile_text(p, p->frames.at[frame].name), "function-99");
    assert_int_equal(profile_restart(p, 100), 0); /* too many */
    assert_int_not_equal(p->serial, serial);
    assert_int_equal(p->frames.count, 1);
    node = profile_child(p, 0, profile_named_frame(p, "again", FRAME_NATIVE));
    profile_count(p, node, 1, 7);
    assert_int_equal(p->nodes.at[node].weight, 7);
    assert_string_equal(profile_text(p, 0), "");
    profile_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(strings_are_utf8),
                                       cmocka_unit_test(restarting_keeps_names_alone),
                                       cmocka_unit_test(folded_processes_share_their_stacks),
                                       cmocka_unit_test(folding_loses_callers_never_weight),
                                       cmocka_unit_test(folding_keeps_what_functions_take),
                                       cmocka_unit_test(folding_uses_its_room),
                                       cmocka_unit_test(merging_is_addition),
                                       cmocka_unit_test(merging_in_levels_is_the_same),
                                       cmocka_unit_test(recursion_counts_once),
                                       cmocka_unit_test(bounded_nodes_keep_the_sum),
                                       cmocka_unit_test(folded_round_trip),
                                       cmocka_unit_test(one_name_in_two_files),
                                       cmocka_unit_test(times_count_from_the_start),
                                       cmocka_unit_test(pprof_labels),
                                       cmocka_unit_test(pprof_round_trip),
                                       cmocka_unit_test(reading_twice_adds),
                                       cmocka_unit_test(charges_libraries_to_their_callers),
                                       cmocka_unit_test(pages_hold_their_data_safely)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
