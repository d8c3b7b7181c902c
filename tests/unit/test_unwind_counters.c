/* The counters of a Java virtual machine: found by name, and nothing read outside of what is there. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/hotspot/unwind_counters.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "test.h"

struct entry {
    uint32_t length, name_at, vector, type, value_at;
    char name[28];
    uint64_t value;
};

struct memory {
    uint8_t magic[4], order, major, minor, accessible;
    uint32_t used, overflow;
    uint64_t modified;
    uint32_t first, count;
    struct entry entries[2];
};

static struct memory usual(void)
{
    struct memory m = {.magic = {0xca, 0xfe, 0xc0, 0xc0}, .order = 1, .major = 2, .first = 32, .count = 2};
    for (int i = 0; i < 2; i++) {
        m.entries[i] = (struct entry){sizeof(struct entry), 20, 0, 'J', 48, "", 7};
        strcpy(m.entries[i].name, i ? "java.cls.unloadedClasses" : "java.cls.loadedClasses");
    }
    return m;
}

/* In memory of its own, so that a sanitizer sees what is read behind it. */
static size_t find(const struct memory *m, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, m, size);
    size_t at = hotspot_counter(copy, size, "java.cls.unloadedClasses");
    free(copy);
    return at;
}

static void by_its_name(void **state)
{
    (void)state;
    struct memory m = usual();
    assert_int_equal(sizeof(struct entry), 56);
    assert_int_equal(find(&m, sizeof(m)), offsetof(struct memory, entries) + sizeof(struct entry) + 48);
    strcpy(m.entries[1].name, "java.cls.unloadedClassesX");
    assert_int_equal(find(&m, sizeof(m)), 0);
}

static void not_in_what_is_broken(void **state)
{
    (void)state;
    const struct memory good = usual();
    for (size_t size = 0; size < sizeof(good); size++) /* cut anywhere */
        assert_int_equal(find(&good, size), 0);
    static const uint32_t ODD[] = {0, 1, 19, 21, 55, 57, 1000, 0x7fffffff, 0xfffffff0, 0xffffffff};
    for (size_t i = 0; i < ARRAY_SIZE(ODD); i++) {
        struct memory m = good;
        m.first = ODD[i];
        assert_int_equal(find(&m, sizeof(m)), 0);
        m = good;
        m.entries[0].length = ODD[i];
        (void)find(&m, sizeof(m));
        m = good;
        m.entries[1].name_at = ODD[i];
        assert_int_equal(find(&m, sizeof(m)), 0);
        m = good;
        m.entries[1].value_at = ODD[i] < 49 ? 49 : ODD[i];
        assert_int_equal(find(&m, sizeof(m)), 0);
        m = good;
        m.count = ODD[i];
        (void)find(&m, sizeof(m));
    }
    struct memory m = good;
    m.order = 0; /* big endian */
    assert_int_equal(find(&m, sizeof(m)), 0);
    m = good;
    m.magic[0] = 0;
    assert_int_equal(find(&m, sizeof(m)), 0);
    m = good;
    m.entries[1].type = 'B';
    assert_int_equal(find(&m, sizeof(m)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_its_name),
        cmocka_unit_test(not_in_what_is_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
