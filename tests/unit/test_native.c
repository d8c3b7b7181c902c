/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "symbol/memory.h"
#include "test.h"

/* Names of the frames of our own stack, innermost first, as walked from a copy of it. */
static size_t walk(char **names, size_t limit)
{
    struct native *native = NULL;
    ucontext_t here;
    static uint8_t bytes[1 << 16];
    assert_int_equal(native_open(getpid(), &native, NULL), 0);
    getcontext(&here);
    struct registers r = {(uint64_t)here.uc_mcontext.gregs[REG_RIP],
                          (uint64_t)here.uc_mcontext.gregs[REG_RSP],
                          (uint64_t)here.uc_mcontext.gregs[REG_RBP]};
    size_t size = sizeof(bytes), count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    unsigned long start, end;
    while (fgets(line, sizeof(line), maps))
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= r.sp && r.sp < end)
            size = MIN(size, end - r.sp);
    fclose(maps);
    assert_int_equal(memory_read(getpid(), r.sp, bytes, size), 0); /* past the sanitizer */
    struct stack_copy copy = {r.sp, bytes, size};
    bool call = false;
    for (enum native_step step = STEP_CALLER; step == STEP_CALLER && count < limit; call = true) {
        names[count++] = native_name(native, r.pc - 0, call);
        step = native_step(native, &copy, &r, call);
    }
    native_free(native);
    return count;
}

size_t native_outer(char **names, size_t limit);
__attribute__((noinline)) size_t native_outer(char **names, size_t limit)
{
    size_t n = walk(names, limit);
    __asm__ volatile("");
    return n;
}

static void walks_to_main(void **state)
{
    char *names[64];
    size_t count = native_outer(names, 64), outer = 64, first_main = 64;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], "native_outer") == 0)
            outer = i;
        if (strcmp(names[i], "main") == 0)
            first_main = i;
        free(names[i]);
    }
    assert_true(outer < first_main && first_main < count);
}

static void refuses_what_is_outside_the_copy(void **state)
{
    uint64_t words[2] = {1, 2}, word;
    struct stack_copy copy = {0x1000, (const uint8_t *)words, sizeof(words)};
    assert_true(stack_word(&copy, 0x1008, &word));
    assert_int_equal(word, 2);
    assert_false(stack_word(&copy, 0x1009, &word));
    assert_false(stack_word(&copy, 0xff8, &word));
    assert_false(stack_word(&copy, UINT64_MAX - 3, &word));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(walks_to_main),
                                       cmocka_unit_test(refuses_what_is_outside_the_copy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
