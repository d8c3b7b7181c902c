/* SPDX-License-Identifier: Apache-2.0 */
#include "base/schema.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "test.h"

/* doc/documents.md is what `sonde help --documents` prints. */
static void manual_is_up_to_date(void **state)
{
    char *page = NULL;
    assert_int_equal(file_read(SOURCE_ROOT "/doc/documents.md", 1 << 20, &page, NULL), 0);
    struct text manual = {0};
    schema_write_manual(&manual);
    assert_string_equal(page, text_get(&manual));
    text_done(&manual);
    free(page);
}

static void every_document_has_a_row(void **state)
{
    struct text manual = {0};
    schema_write_manual(&manual);
#define SCHEMA(ident, version, where, what) \
    assert_true(SCHEMA_##ident >= 1);       \
    assert_non_null(strstr(text_get(&manual), "\n| " #ident " | " #version " | "));
    SCHEMAS(SCHEMA)
#undef SCHEMA
    text_done(&manual);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manual_is_up_to_date),
        cmocka_unit_test(every_document_has_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
