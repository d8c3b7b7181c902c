/* Spans as other tracers' tools take them: what a statement of SQL is called there. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "test.h"

#include "analyze/export.h"
#include "event/catalogue.h"

static char seen[4096];

/* "name=value" of each attribute, in lines. */
static int take(void *context, const struct span *span)
{
    for (uint32_t i = 0; i < span->attribute_count; i++) {
        const struct span_attribute *a = &span->attributes[i];
        size_t length = strlen(seen);
        snprintf(seen + length, sizeof(seen) - length, "%.*s=%.*s\n", (int)a->key.length, a->key.at,
                 (int)a->value.length, a->value.at);
    }
    return 0;
}

static const char *attributes_of(const char *statement)
{
    struct vspan spans[] = {
        {.start_ns = 1, .end_ns = 100, .kind = VSPAN_request, .layer = LAYER_http, .known = KNOWN_PROVED},
        {.start_ns = 10,
         .end_ns = 50,
         .kind = VSPAN_command,
         .layer = LAYER_store,
         .wire = SONDE_wire_postgresql,
         .known = KNOWN_PROVED,
         .name = "SELECT",
         .statement = statement}};
    struct request request = {.name = "1-1", .service = "shop", .method = "GET", .route = "/x"};
    request.spans.at = spans;
    request.spans.count = 2;
    struct span_sink sink = {.take = take};
    const struct export_settings settings = {.recording = "here"};
    seen[0] = '\0';
    assert_int_equal(request_export(&request, &settings, &sink), 0);
    return seen;
}

static void statements_have_the_conventions_names(void **state)
{
    assert_string_equal(attributes_of("SELECT a, b FROM orders JOIN lines ON c = ? WHERE id IN (?)"),
                        "sonde.layer=http\nsonde.layer=postgresql\ndb.system.name=postgresql\n"
                        "db.query.text=SELECT a, b FROM orders JOIN lines ON c = ? WHERE id IN (?)\n"
                        "db.query.summary=SELECT orders lines\n");
    assert_non_null(
        strstr(attributes_of("insert into \"my table\" (a) values (?)"), "db.query.summary=insert"));
    assert_non_null(strstr(attributes_of("BEGIN"), "db.query.summary=BEGIN\n"));
    assert_non_null(strstr(attributes_of("UPDATE t SET a = ?"), "db.query.summary=UPDATE t\n"));
    assert_string_equal(attributes_of(NULL), "sonde.layer=http\nsonde.layer=postgresql\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(statements_have_the_conventions_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
