/* Numbers of V8's strings, as hooks name types of resources with them (v8_name()). */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "probe/context.h"
#include "probe_in_test.h"
#include "targets/node/probe.h"
#include "targets/node/probe_carried.h"
#include "targets/node/probe_context.h"

/* What the hooks of this file ask besides: nobody is served. */
uint32_t context_current(struct probe_thread *self, int fd)
{
    return 0;
}
uint32_t context_new_request(void)
{
    return 0;
}
uint32_t context_new_shared(struct probe_thread *self, uint64_t stream)
{
    return 0;
}
void context_parsed(struct probe_thread *self, bool carried)
{
}
void context_collected(struct probe_thread *self)
{
}
struct carried *carried_own(void)
{
    return NULL;
}
void carried_closing(struct carried *v, struct probe_thread *self, const struct probe_callback *callback)
{
}
void carried_closed(struct carried *v, const struct probe_callback *callback, bool outermost)
{
}

static struct {
    uint64_t other;
    uint16_t instance_type;
} one_byte = {.instance_type = 8}, other_type;

struct string {
    uint64_t map;
    int32_t length;
    char characters[24];
};

/* Pointers to V8's objects are one more than the address, and the offsets one less. */
static uint64_t tagged(const void *object)
{
    return (uintptr_t)object + 1;
}

static void set_up(void)
{
    sonde_config_forget(&sonde_config);
    sonde_config.node.string_type_mask = sonde_config.node.string_type_value = 8;
    sonde_config.node.map_instance_type = (int32_t)offsetof(__typeof__(one_byte), instance_type) - 1;
    sonde_config.node.string_length = (int32_t)offsetof(struct string, length) - 1;
    sonde_config.node.string_chars = (int32_t)offsetof(struct string, characters) - 1;
}

static void strings_are_named_once_each(void **state)
{
    struct probe_thread *thread = make_thread(1 << 12);
    set_up();
    const struct string file = {tagged(&one_byte), 13, "FSREQCALLBACK"},
                        socket = {tagged(&one_byte), 7, "TCPWRAP"},
                        unreadable = {tagged(&other_type), 3, "two"};
    const uint64_t handles[] = {tagged(&file), tagged(&socket), tagged(&unreadable), 0, 42ull << 32};
    assert_int_equal(v8_name(thread, &handles[3]), 0); /* small integers: before anything was named */
    uint32_t first = v8_name(thread, &handles[0]);
    assert_true(first > 0);
    assert_int_equal(v8_name(thread, &handles[0]), first);
    assert_int_equal(v8_name(thread, &handles[2]), 0);
    uint32_t second = v8_name(thread, &handles[1]);
    assert_true(second > 0 && second != first);
    assert_int_equal(v8_name(thread, &handles[0]), first);
    assert_int_equal(v8_name(thread, &handles[3]), 0);
    assert_int_equal(v8_name(thread, &handles[4]), 0);
    assert_int_equal(v8_name(thread, &handles[1]), second);
    assert_int_equal(v8_name(thread, NULL), 0);
    const struct record_probe_name *told = expect_record(thread, SONDE_EVENT_probe_name);
    assert_int_equal(told->id, first);
    told = expect_record(thread, SONDE_EVENT_probe_name);
    assert_int_equal(told->id, second);
    const void *payload;
    assert_null(take_record(thread, &payload));
    free(thread);
}

/* Whose resource is recorded when they are submitted (resource_made()). */
static void requests_to_the_file_system_are_known(void **state)
{
    struct probe_thread *thread = make_thread(1 << 12);
    set_up();
    const struct string names[] = {{tagged(&one_byte), 12, "FSREQPROMISE"},
                                   {tagged(&one_byte), 13, "FSREQCALLBACK"},
                                   {tagged(&one_byte), 13, "FSREQCALLBACX"},
                                   {tagged(&one_byte), 5, "FSREQ"},
                                   {tagged(&other_type), 13, "FSREQCALLBACK"}};
    const uint32_t are[] = {1, 1, 0, 0, 0};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 5; i++) {
            const uint64_t handle = tagged(&names[i]);
            for (int again = 0; again < 2; again++) {
                (void)v8_name(thread, &handle);
                assert_int_equal(thread->named_request, are[i]);
            }
        }
        (void)v8_name(thread, NULL);
        assert_int_equal(thread->named_request, 0);
    }
    free(thread);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(strings_are_named_once_each),
                                       cmocka_unit_test(requests_to_the_file_system_are_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
