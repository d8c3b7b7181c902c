/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/requests.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/file.h"
#include "test.h"

enum { COUNT = 100 };

/* Request i of endpoint i % 4 took i + 1 milliseconds; every tenth failed. */
static void add(struct requests *requests, unsigned i)
{
    static const char *const ROUTES[] = {"/a", "/b", "/c", "/d"};
    char path[32];
    struct request request = {.service = i % 2 ? "odd" : "even",
                              .method = "GET",
                              .route = ROUTES[i % 4],
                              .path = path,
                              .status = i % 10 ? 200 : 500,
                              .state = REQUEST_FINISHED,
                              .start_ns = 1000000000 + i * 1000000ull};
    struct vspan root = {
        .start_ns = request.start_ns, .parent = VSPAN_NONE, .cause = VSPAN_NONE, .name = "GET"};
    snprintf(path, sizeof(path), "%s?Page=%u", ROUTES[i % 4], i);
    snprintf(request.name, sizeof(request.name), "7-%u", i);
    request.end_ns = root.end_ns = request.start_ns + (i + 1) * 1000000ull;
    assert_int_equal(array_add(&request.spans, root), 0);
    assert_int_equal(requests_add(requests, &request, NULL), 0);
    array_done(&request.spans);
}

static struct requests *made(char folder[TEST_PATH])
{
    struct requests *requests;
    assert_non_null(mkdtemp(test_path(folder)));
    assert_int_equal(requests_create(folder, &requests, NULL), 0);
    for (unsigned i = 0; i < COUNT; i++)
        add(requests, i * 37 % COUNT); /* not in the order in which they began */
    assert_int_equal(requests_close(requests, NULL), 0);
    return requests;
}

static void gone(const char *folder)
{
    char path[TEST_PATH + 16];
    snprintf(path, sizeof(path), "%s/requests", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/spans", folder);
    unlink(path);
    rmdir(folder);
}

static void expect(const struct requests *requests, struct requests_query query, const char *total,
                   const char *first)
{
    struct text to = {0};
    query.limit = 1;
    assert_int_equal(requests_query(requests, &query, &to), 0);
    assert_non_null(strstr(text_get(&to), total));
    if (first)
        assert_non_null(strstr(text_get(&to), first));
    else
        assert_non_null(strstr(text_get(&to), "\"rows\":[]"));
    text_done(&to);
}

static void ask(const struct requests *r)
{
    struct text to = {0};
    expect(r, (struct requests_query){0}, "\"total\":100", "\"id\":\"7-99\"");
    expect(r, (struct requests_query){.ascending = true}, "\"total\":100", "\"id\":\"7-0\"");
    expect(r, (struct requests_query){.sort = "start"}, "\"total\":100", "\"id\":\"7-99\"");
    expect(r, (struct requests_query){.service = "odd", .route = "/b", .method = "GET"}, "\"total\":25",
           "\"id\":\"7-97\"");
    expect(r, (struct requests_query){.failed = true}, "\"total\":10", "\"id\":\"7-90\"");
    expect(r, (struct requests_query){.text = "page=42"}, "\"total\":1,", "\"id\":\"7-42\"");
    expect(r, (struct requests_query){.min_ns = 10000000, .max_ns = 12000000}, "\"total\":3,",
           "\"id\":\"7-11\"");
    expect(r, (struct requests_query){.to_ns = 1000000001}, "\"total\":1,", "\"id\":\"7-0\"");
    expect(r, (struct requests_query){.offset = 1000}, "\"total\":100", NULL);
    expect(r, (struct requests_query){.service = "nobody"}, "\"total\":0", NULL);
    assert_int_equal(requests_query(r, &(struct requests_query){.sort = "nonsense"}, &to), -EINVAL);
    assert_int_equal(requests_one(r, "7-1000", &to), -ENOENT);
    assert_int_equal(requests_one(r, "7-99", &to), 0);
    assert_non_null(strstr(text_get(&to), "\"typical\":\"7-51\""));
    assert_non_null(strstr(text_get(&to), "\"slower_count\":0,\"of_count\":25"));
    assert_non_null(strstr(text_get(&to), "\"request\":{\"id\":\"7-99\""));
    text_done(&to);
}

static void answers_alike_when_made_and_when_kept(void **state)
{
    char folder[TEST_PATH];
    struct requests *requests = made(folder);
    ask(requests);
    requests_free(requests);
    assert_int_equal(requests_open(folder, &requests, NULL), 0);
    assert_int_equal(requests_count(requests), COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        struct request_facts facts;
        char name[16];
        snprintf(name, sizeof(name), "7-%u", i);
        requests_get(requests, i, &facts);
        assert_string_equal(facts.name, name);
        assert_int_equal(facts.start_ns, 1000000000 + i * 1000000ull);
        assert_int_equal(facts.latency_ns, (i + 1) * 1000000ull);
        assert_int_equal(facts.status, i % 10 ? 200 : 500);
        assert_string_equal(facts.state, "finished");
        assert_string_equal(facts.service, i % 2 ? "odd" : "even");
    }
    ask(requests);
    requests_free(requests);
    gone(folder);
}

/* Whatever lies in the files, opening them says so or answers; the sanitizers watch. */
static void damaged_files_are_refused_or_harmless(void **state)
{
    char folder[TEST_PATH], path[TEST_PATH + 16], *data;
    size_t length;
    uint64_t random = 7;
    requests_free(made(folder));
    snprintf(path, sizeof(path), "%s/requests", folder);
    assert_int_equal(file_read(path, 1 << 20, &data, &length), 0);
    for (unsigned i = 0; i < 2000; i++) {
        struct requests *requests;
        struct text to = {0};
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        size_t at = (random >> 20) % length, cut = i % 3 ? length : (random >> 33) % length;
        char before = data[at];
        data[at] = (char)(random >> 56);
        assert_int_equal(file_replace(path, data, cut), 0);
        data[at] = before;
        if (requests_open(folder, &requests, NULL) < 0)
            continue;
        requests_query(requests, &(struct requests_query){.limit = 1000}, &to);
        requests_one(requests, "7-50", &to);
        requests_free(requests);
        text_done(&to);
    }
    free(data);
    gone(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers_alike_when_made_and_when_kept),
                                       cmocka_unit_test(damaged_files_are_refused_or_harmless)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
