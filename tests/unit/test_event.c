/* SPDX-License-Identifier: Apache-2.0 */
#include "event/event.h"

#include <string.h>

#include "event/ring.h"
#include "test.h"

static void names_are_unique_and_found(void **state)
{
    assert_true(SONDE_EVENT_COUNT <= 256); /* one byte in a record */
    for (int i = 1; i < SONDE_EVENT_COUNT; i++)
        assert_int_equal(event_by_name(event_catalogue[i].name), i);
    assert_int_equal(event_by_name("no:such"), SONDE_EVENT_none);
}

static void field_constants_match_the_tables(void **state)
{
    const struct event_description *command = &event_catalogue[SONDE_EVENT_redis_command];
    assert_int_equal(command->field_count, FIELD_redis_command_COUNT);
    assert_string_equal(command->fields[FIELD_DURATION].name, "duration");
    assert_string_equal(command->fields[FIELD_redis_command_name].name, "name");
    assert_string_equal(command->fields[FIELD_redis_command_depth].name, "depth");
    assert_true(command->span && command->probe);
}

/* The ring is memory shared with programs that were built separately: no field may overlap or be misaligned.
 */
static void records_have_the_promised_layout(void **state)
{
    static const uint8_t SIZE[] = {1, 2, 4, 8, 4, 8, 2};
    for (int i = 1; i < SONDE_EVENT_COUNT; i++) {
        const struct event_description *d = &event_catalogue[i];
        unsigned end = 0;
        for (int f = 1; f < d->field_count; f++) {
            unsigned size = SIZE[d->fields[f].type];
            assert_int_equal(d->fields[f].record_offset % size, 0);
            assert_true(d->fields[f].record_offset >= end);
            end = d->fields[f].record_offset + size;
        }
        assert_true(end <= d->record_size);
        assert_true(sizeof(struct sonde_record) + d->record_size < SONDE_RECORD_MAX);
    }
    assert_true(sizeof(struct sonde_shared) <= SONDE_PAGE);
    assert_true(sizeof(struct sonde_thread) <= SONDE_PAGE);
}

static void labels(void **state)
{
    assert_string_equal(event_label(SONDE_MEANING_uv_kind, 3), "fs_read");
    assert_null(event_label(SONDE_MEANING_uv_kind, 200));
    assert_null(event_label(SONDE_MEANING_bytes, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unique_and_found), cmocka_unit_test(field_constants_match_the_tables),
        cmocka_unit_test(records_have_the_promised_layout), cmocka_unit_test(labels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
