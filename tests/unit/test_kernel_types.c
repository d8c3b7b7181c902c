/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/kernel_types.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/btf.h>

#include "sampler.skel.h"
#include "test.h"

static const char *const TASK[] = {"task", NULL};

/* Types of a kernel: task { u8 filler[8]; union { struct { const tid_t pid; u64 start; }; }; struct mm *mm; }
 */
static struct btf *kernel_types(const char *pid, int pid_bytes)
{
    struct btf *btf = btf__new_empty();
    int number = btf__add_int(btf, "int", (size_t)pid_bytes, BTF_INT_SIGNED),
        big = btf__add_int(btf, "long", 8, 0), alias = btf__add_typedef(btf, "tid_t", number),
        fixed = btf__add_const(btf, alias), mm = btf__add_fwd(btf, "mm", BTF_FWD_STRUCT),
        pointer = btf__add_ptr(btf, mm), inner = btf__add_struct(btf, NULL, 16);
    btf__add_field(btf, pid, fixed, 0, 0);
    btf__add_field(btf, "start", big, 64, 0);
    int both = btf__add_union(btf, NULL, 16);
    btf__add_field(btf, NULL, inner, 0, 0);
    btf__add_struct(btf, "task", 32);
    btf__add_field(btf, "filler", big, 0, 0);
    btf__add_field(btf, NULL, both, 64, 0);
    btf__add_field(btf, "mm", pointer, 192, 0);
    return btf;
}

/* A program's: task { void *mm; int pid; } */
static struct btf *program_types(void)
{
    struct btf *btf = btf__new_empty();
    int number = btf__add_int(btf, "int", 4, BTF_INT_SIGNED), pointer = btf__add_ptr(btf, 0);
    btf__add_struct(btf, "task", 16);
    btf__add_field(btf, "mm", pointer, 0, 0);
    btf__add_field(btf, "pid", number, 64, 0);
    return btf;
}

static int correct(struct btf *kernel, struct btf **ret_own, const char *const names[])
{
    uint32_t size, kernel_size;
    struct btf *own = program_types();
    const void *raw = btf__raw_data(own, &size), *kernel_raw = btf__raw_data(kernel, &kernel_size);
    void *copy = malloc(size);
    memcpy(copy, raw, size);
    int r = kernel_types_correct(copy, size, kernel_raw, kernel_size, names);
    if (r == 0)
        *ret_own = btf__new(copy, size);
    free(copy);
    btf__free(own);
    btf__free(kernel);
    return r;
}

static void members_are_where_the_kernel_has_them(void **state)
{
    struct btf *own = NULL;
    assert_int_equal(correct(kernel_types("pid", 4), &own, TASK), 0);
    const struct btf_type *task =
        btf__type_by_id(own, (uint32_t)btf__find_by_name_kind(own, "task", BTF_KIND_STRUCT));
    assert_int_equal(btf_member_bit_offset(task, 0), 192);
    assert_int_equal(btf_member_bit_offset(task, 1), 64);
    assert_int_equal(task->size, 32);
    btf__free(own);
}

static void what_is_missing_or_of_another_kind_is_not_guessed(void **state)
{
    static const char *const absent[] = {"task", "thread", NULL};
    struct btf *own = NULL, *twice = kernel_types("pid", 4);
    assert_int_equal(correct(kernel_types("number", 4), &own, TASK), -ENOENT);
    assert_int_equal(correct(kernel_types("pid", 8), &own, TASK), -ENOENT);
    assert_int_equal(correct(kernel_types("pid", 4), &own, absent), -ENOENT);
    btf__add_struct(twice, "task", 8);
    assert_int_equal(correct(twice, &own, TASK), -ENOTUNIQ);
}

static void damaged_types_are_refused(void **state)
{
    uint32_t size, own_size;
    struct btf *kernel = kernel_types("pid", 4), *own = program_types();
    const uint8_t *raw = btf__raw_data(kernel, &size);
    const void *own_raw = btf__raw_data(own, &own_size);
    unsigned refused = 0;
    for (uint32_t i = 0; i < size;
         i++) { /* every byte changed, and every length: sanitizers see what is read */
        uint8_t *damaged = malloc(size), *shorter = malloc(i + 1), *copy = malloc(own_size);
        memcpy(damaged, raw, size);
        memcpy(shorter, raw, i + 1);
        memcpy(copy, own_raw, own_size);
        damaged[i] ^= 0xff;
        refused += kernel_types_correct(copy, own_size, damaged, size, TASK) < 0;
        if (i + 1 < size)
            assert_true(kernel_types_correct(copy, own_size, shorter, i + 1, TASK) < 0);
        free(damaged);
        free(shorter);
        free(copy);
    }
    assert_true(refused > size / 4);
    btf__free(kernel);
    btf__free(own);
}

static const struct btf_type *structure(const struct btf *btf, const char *name)
{
    int number = btf__find_by_name_kind(btf, name, BTF_KIND_STRUCT);
    return number < 0 ? NULL : btf__type_by_id(btf, (uint32_t)number);
}

/* As libbpf finds the sampler's structures itself; all others are hidden from it. */
static void the_running_kernel_has_what_the_sampler_reads(void **state)
{
    uint32_t size, compared = 0;
    struct sampler_bpf *program = sampler_bpf__open();
    if (access(KERNEL_TYPES_PATH, R_OK) != 0)
        skip();
    const void *raw = btf__raw_data(bpf_object__btf(program->obj), &size);
    void *copy = malloc(size);
    memcpy(copy, raw, size);
    assert_int_equal(kernel_types_correct_running(copy, size, kernel_types_sampled), 0);
    struct btf *kernel = btf__load_vmlinux_btf(), *corrected = btf__new(copy, size);
    for (const char *const *name = kernel_types_sampled; *name; name++) {
        const struct btf_type *real = structure(kernel, *name), *mine = structure(corrected, *name);
        assert_int_equal(mine->size, real->size);
        for (uint32_t m = 0; m < btf_vlen(mine); m++)
            for (uint32_t i = 0; i < btf_vlen(real); i++)
                if (strcmp(btf__name_by_offset(kernel, btf_members(real)[i].name_off),
                           btf__name_by_offset(corrected, btf_members(mine)[m].name_off)) == 0) {
                    assert_int_equal(btf_member_bit_offset(mine, m), btf_member_bit_offset(real, i));
                    assert_int_equal(btf_member_bitfield_size(mine, m), btf_member_bitfield_size(real, i));
                    compared++;
                }
    }
    assert_true(compared > 8);
    assert_null(structure(corrected, "sampler_sample"));
    btf__free(kernel);
    btf__free(corrected);
    sampler_bpf__destroy(program);
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_where_the_kernel_has_them),
        cmocka_unit_test(what_is_missing_or_of_another_kind_is_not_guessed),
        cmocka_unit_test(damaged_types_are_refused),
        cmocka_unit_test(the_running_kernel_has_what_the_sampler_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
