/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include "test.h"

static void durations_read_well(void **state)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } CASES[] = {
        {0, "0 ns"},
        {999, "999 ns"},
        {1000, "1.00 us"},
        {12345, "12.3 us"},
        {999499, "999 us"},
        {999500, "1.00 ms"},
        {123456789, "123 ms"},
        {2500000000ull, "2.50 s"},
        {59999000000ull, "60.0 s"},
        {60000000000ull, "1 min 0 s"},
        {3725000000000ull, "1 h 2 min"},
    };
    char buffer[24];
    for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++)
        assert_string_equal(clock_format_duration(CASES[i].ns, buffer, sizeof(buffer)), CASES[i].text);
}

static void cpu_time_is_counted(void **state)
{
    uint64_t process_ns = clock_process_cpu_ns(), thread_ns = clock_thread_cpu_ns();
    while (clock_thread_cpu_ns() < thread_ns + NS_PER_MS)
        ;
    assert_true(clock_process_cpu_ns() >= process_ns + NS_PER_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(durations_read_well),
                                       cmocka_unit_test(cpu_time_is_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
