/* What operations are called. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/operation.h"

#include "test.h"

static void check_template(const char *name, const char *expected)
{
    char buffer[OPERATION_BYTES];
    struct slice is = span_name_template(slice_of(name), buffer);
    if (!slice_is(is, expected))
        fail_msg("%s became %.*s instead of %s", name, (int)is.length, is.at, expected);
}

static void ids_are_left_out(void **state)
{
    check_template("GET /orders/1042", "GET /orders/{}");
    check_template("GET /orders/1042/items/7?page=2", "GET /orders/{}/items/{}");
    check_template("GET /users/550e8400-e29b-41d4-a716-446655440000/cart", "GET /users/{}/cart");
    check_template("job 8f3a9c1d2e", "job {}");
    check_template("import order8371923", "import order{}");
    check_template("GET /t/a8Kx93LmQ0pZ71vB", "GET /t/{}");
    check_template("worker-12", "worker-{}");
}

static void names_are_left_alone(void **state)
{
    check_template("createDisk", "createDisk");
    check_template("POST /v2/disks", "POST /v2/disks");
    check_template("s3.PutObject", "s3.PutObject");
    check_template("sha256", "sha256");
    check_template("GET", "GET");
    check_template("SELECT * FROM facade", "SELECT * FROM facade");
    check_template("", "");
}

static void check_operation(const char *name, int kind, const char *key, const char *route,
                            const char *method, const char *expected)
{
    char buffer[OPERATION_BYTES];
    struct span_attribute attributes[] = {{slice_of(key), slice_of(route)},
                                          {SLICE("http.method"), slice_of(method)}};
    struct span span = {
        .name = slice_of(name), .kind = (uint8_t)kind, .attributes = attributes, .attribute_count = 2};
    struct slice is = span_operation(&span, buffer);
    if (!slice_is(is, expected))
        fail_msg("%s became %.*s instead of %s", name, (int)is.length, is.at, expected);
}

static void routes_tell_methods_apart(void **state)
{
    check_operation("GET", SPAN_KIND_SERVER, "http.route", "/item/:id", "GET", "GET /item/:id");
    check_operation("HTTP GET", SPAN_KIND_SERVER, "http.route", "/list", "GET", "GET /list");
    check_operation("GET /list", SPAN_KIND_SERVER, "http.route", "/list", "GET", "GET /list");
    check_operation("GET /item/42", SPAN_KIND_SERVER, "http.route", "/item/:id", "GET", "GET /item/:id");
    check_operation("GET", SPAN_KIND_CLIENT, "http.route", "/list", "GET", "GET");
    check_operation("GET", SPAN_KIND_SERVER, "other", "/list", "GET", "GET");
}

static void a_server_that_answers_500_failed(void **state)
{
    struct span_attribute status = {SLICE("http.response.status_code"), SLICE("503")};
    struct span span = {.kind = SPAN_KIND_SERVER, .attributes = &status, .attribute_count = 1};
    assert_true(span_failed(&span));
    span.kind = SPAN_KIND_CLIENT;
    assert_false(span_failed(&span));
    status.value = SLICE("404");
    span.kind = SPAN_KIND_SERVER;
    assert_false(span_failed(&span));
    span.error = true;
    assert_true(span_failed(&span));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_left_out), cmocka_unit_test(names_are_left_alone),
        cmocka_unit_test(routes_tell_methods_apart), cmocka_unit_test(a_server_that_answers_500_failed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
