/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/patch.h"
#include "attach/relocate.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "test.h"

/* Functions whose first bytes are awkward to move. Each doubles its argument, in its own way. */
#define AWKWARD(name, body)                                                                        \
    int name(int);                                                                                 \
    __asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n" body ".size " #name \
            ", .-" #name "\n")

AWKWARD(relative_load, "mov two(%rip), %eax\n imul %edi, %eax\n ret\n");
AWKWARD(short_branch, "test %edi, %edi\n je 1f\n lea (%rdi,%rdi), %eax\n ret\n 1: xor %eax, %eax\n ret\n");
AWKWARD(call_first, "call .Lhelper\n add %edi, %eax\n ret\n .Lhelper: mov %edi, %eax\n ret\n");
AWKWARD(jump_first, "jmp 1f\n nop\n nop\n 1: lea (%rdi,%rdi), %eax\n ret\n");
AWKWARD(ends_early, "ret\n nop\n nop\n nop\n nop\n nop\n nop\n");
AWKWARD(branches_to_start, "mov $0, %eax\n 1: add $2, %eax\n dec %edi\n jnz 1b\n ret\n");
AWKWARD(branches_inside, "xor %eax, %eax\n 1: add $2, %eax\n dec %edi\n jnz 1b\n ret\n");
AWKWARD(loops, "mov %edi, %ecx\n jrcxz 1f\n 1: lea (%rdi,%rdi), %eax\n ret\n");
AWKWARD(trampoline_end, ""); /* marks the end */

/* What first instructions do, and whether they may stay. */
AWKWARD(pushes, "push %rbx\n mov %edi, %ebx\n lea (%rbx,%rbx), %eax\n pop %rbx\n ret\n");
AWKWARD(takes_stack, "sub $0x128, %rsp\n lea (%rdi,%rdi), %eax\n nop\n add $0x128, %rsp\n ret\n");
AWKWARD(is_a_target, "endbr64\n lea (%rdi,%rdi), %eax\n nopl 0(%rax)\n ret\n");
AWKWARD(compares, "cmpl $7, two(%rip)\n lea (%rdi,%rdi), %eax\n nopl 0(%rax)\n ret\n");
AWKWARD(clears, "xor %eax, %eax\n add %edi, %eax\n add %edi, %eax\n nopl 0(%rax)\n ret\n");
AWKWARD(loads_result, "mov two(%rip), %eax\n imul %edi, %eax\n nopl 0(%rax)\n ret\n");
AWKWARD(overwrites_argument, "mov %edi, %ecx\n lea (%rcx,%rcx), %eax\n nopl 0(%rax)\n ret\n");
AWKWARD(counts, "addl $1, counted(%rip)\n lea (%rdi,%rdi), %eax\n nopl 0(%rax)\n ret\n");
AWKWARD(takes_more_stack, "sub $0x20000000, %rsp\n lea (%rdi,%rdi), %eax\n add $0x20000000, %rsp\n ret\n");
AWKWARD(saves_then_calls, "push %rbx\n call .Lhelper\n pop %rbx\n add %edi, %eax\n ret\n");
AWKWARD(saves_first, "push %rbx\n push %rbp\n sub $8, %rsp\n call .Lhelper\n add %edi, %eax\n add $8, %rsp\n"
                     "pop %rbp\n pop %rbx\n ret\n");
AWKWARD(kept_end, "");
int counted;

extern const int two;
const int two = 2;

/* Puts the beginning of a function elsewhere: the bytes it replaces, or a negative errno. */
static int move(const uint8_t *code, size_t size, uint64_t address, uint8_t *out, uint64_t place,
                size_t *ret_written, struct problem *problem)
{
    struct moved moved;
    int r = relocate(code, size, address, 0, &moved, problem);
    if (r >= 0)
        r = moved_place(&moved, place, out, problem);
    if (r < 0)
        return r;
    *ret_written = moved.size;
    return moved.replaced;
}

static uint8_t *near_memory(void)
{
    /* Within reach of this program's code. */
    for (uintptr_t at = ((uintptr_t)relative_load & ~0xfffull) + 0x10000000;; at += 0x1000000) {
        void *m = mmap((void *)at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (m != MAP_FAILED)
            return m;
        assert_true(at < (uintptr_t)relative_load + 0x60000000);
    }
}

static size_t size_of(int (*function)(int), int (*next)(int))
{
    return (size_t)((const char *)next - (const char *)function);
}

static void moved_prologues_still_work(void **state)
{
    static const struct {
        const char *name;
        int (*function)(int), (*next)(int);
    } CASES[] = {{"relative_load", relative_load, short_branch},
                 {"short_branch", short_branch, call_first},
                 {"branches_to_start", branches_to_start, branches_inside}};
    uint8_t *memory = near_memory();
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct problem problem = {0};
        size_t written;
        int replaced = move((const uint8_t *)CASES[i].function, size_of(CASES[i].function, CASES[i].next),
                            (uintptr_t)CASES[i].function, memory, (uintptr_t)memory, &written, &problem);
        if (replaced < 0)
            fail_msg("%s: %s", CASES[i].name, problem.what);
        assert_true(replaced >= 5 && written <= MOVED_BYTES_MAX);
        int (*moved)(int) = (int (*)(int))(uintptr_t)memory;
        for (int n = 1; n < 5; n++)
            assert_int_equal(moved(n), 2 * n);
    }
    munmap(memory, 4096);
}

/* The first instruction stays where running it twice, with the stack as it was, is as running it once; and
 * the whole still works when it has run before what was moved. */
static void first_instructions_stay(void **state)
{
    static const struct {
        const char *name;
        int (*function)(int), (*next)(int);
        uint8_t kept;
        uint32_t undone;
        unsigned arguments;
    } CASES[] = {{"pushes", pushes, takes_stack, 1, 8},
                 {"takes_stack", takes_stack, is_a_target, 7, 0x128},
                 {"is_a_target", is_a_target, compares, 4, 0},
                 {"compares", compares, clears, 7, 0},
                 {"clears", clears, loads_result, 2, 0},
                 {"loads_result", loads_result, overwrites_argument, 6, 0},
                 {"overwrites_argument", overwrites_argument, counts, 0, 0},
                 {"four arguments", overwrites_argument, counts, 0, 0, .arguments = 4},
                 {"three arguments", overwrites_argument, counts, 2, 0, .arguments = 3},
                 {"counts", counts, takes_more_stack, 0, 0},
                 {"takes_more_stack", takes_more_stack, saves_then_calls, 0, 0},
                 {"saves_first", saves_first, kept_end, 1, 8}};
    uint8_t *memory = near_memory();
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct problem problem = {0};
        struct moved moved;
        const uint8_t *code = (const uint8_t *)CASES[i].function;
        size_t size = size_of(CASES[i].function, CASES[i].next);
        if (relocate(code, size, (uintptr_t)code, CASES[i].arguments, &moved, &problem) < 0)
            fail_msg("%s: %s", CASES[i].name, problem.what);
        if (moved.kept != CASES[i].kept || moved.undone != CASES[i].undone)
            fail_msg("%s: %u bytes are kept, %u undone", CASES[i].name, moved.kept, moved.undone);
        assert_true(moved.replaced >= moved.kept + 5 && moved.replaced <= PATCH_BYTES_MAX);
        /* The kept instruction, what undoes it, what was moved. */
        uint8_t *at = memory;
        if (CASES[i].function != compares && CASES[i].function != loads_result) { /* not where it is */
            memcpy(at, code, moved.kept);
            at += moved.kept;
        }
        if (moved.undone) {
            memcpy(at, "\x48\x8d\xa4\x24", 4);
            memcpy(at + 4, &moved.undone, 4);
            at += 8;
        }
        assert_int_equal(moved_place(&moved, (uintptr_t)at, at, &problem), 0);
        int (*whole)(int) = (int (*)(int))(uintptr_t)memory;
        if (moved.kept)
            assert_int_equal(whole(21), 42);
    }
    munmap(memory, 4096);
}

/* Where the jump behind it would not fit, it is moved as before. */
static void what_cannot_stay_is_moved(void **state)
{
    struct problem problem = {0};
    struct moved moved;
    assert_int_equal(relocate((const uint8_t *)saves_then_calls, size_of(saves_then_calls, saves_first),
                              (uintptr_t)saves_then_calls, 0, &moved, &problem),
                     -EINVAL);
    assert_non_null(strstr(problem.what, "a call at"));
    assert_int_equal(relocate((const uint8_t *)branches_to_start, size_of(branches_to_start, branches_inside),
                              (uintptr_t)branches_to_start, 0, &moved, &problem),
                     0);
    assert_int_equal(moved.kept, 0);
    assert_int_equal(moved.undone, 0);
}

static void unsafe_functions_are_refused(void **state)
{
    static const struct {
        int (*function)(int), (*next)(int);
        const char *why;
    } CASES[] = {{ends_early, branches_to_start, "ends within"},
                 {jump_first, ends_early, "ends within"},
                 {call_first, jump_first, "a call at"},
                 {branches_inside, loops, "branches back"},
                 {loops, trampoline_end, "short branch"}};
    uint8_t out[128];
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct problem problem = {0};
        size_t written = 77;
        int r = move((const uint8_t *)CASES[i].function, size_of(CASES[i].function, CASES[i].next),
                     (uintptr_t)CASES[i].function, out, (uintptr_t)CASES[i].function + 0x1000, &written,
                     &problem);
        assert_int_equal(r, -EINVAL);
        assert_non_null(strstr(problem.what, CASES[i].why));
        assert_int_equal(written, 77);
    }
}

static void what_is_out_of_reach_is_refused(void **state)
{
    uint8_t out[128];
    size_t written;
    struct problem problem = {0};
    assert_int_equal(move((const uint8_t *)relative_load, 8, (uintptr_t)relative_load, out,
                          (uintptr_t)relative_load + (1ull << 32), &written, &problem),
                     -EINVAL);
    assert_non_null(strstr(problem.what, "out of reach"));
}

static void garbage_is_refused(void **state)
{
    static const uint8_t GARBAGE[] = {0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e};
    uint8_t out[128];
    size_t written;
    assert_int_equal(move(GARBAGE, sizeof(GARBAGE), 0x1000, out, 0x2000, &written, NULL), -EINVAL);
    assert_int_equal(move(GARBAGE, 0, 0x1000, out, 0x2000, &written, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moved_prologues_still_work),      cmocka_unit_test(first_instructions_stay),
        cmocka_unit_test(what_cannot_stay_is_moved),       cmocka_unit_test(unsafe_functions_are_refused),
        cmocka_unit_test(what_is_out_of_reach_is_refused), cmocka_unit_test(garbage_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
