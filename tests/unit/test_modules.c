/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "symbol/memory.h"
#include "test.h"

int modules_landmark(int x);
__attribute__((noinline, used)) int modules_landmark(int x)
{
    __asm__ volatile("");
    return x - 3;
}

static void finds_itself(void **state)
{
    struct modules modules;
    assert_int_equal(modules_read_pid(getpid(), &modules, NULL), 0);
    const struct module *self = modules_main(&modules);
    assert_non_null(self);
    assert_true(self->has_bias && self->executable);
    struct elf *elf = NULL;
    struct elf_symbol symbol;
    assert_int_equal(modules_open(&modules, self, &elf, NULL), 0);
    assert_int_equal(elf_find(elf, "modules_landmark", &symbol), 0);
    assert_int_equal(symbol.value + self->load_bias, (uintptr_t)modules_landmark);
    const struct mapping *mapping;
    assert_ptr_equal(modules_at(&modules, (uintptr_t)modules_landmark, &mapping), self);
    assert_true(mapping->executable && !mapping->writable);
    elf_free(elf);
    assert_null(modules_at(&modules, 0x10, NULL));
    modules_done(&modules);
}

static void finds_libc_and_vdso(void **state)
{
    struct modules modules;
    assert_int_equal(modules_read_pid(getpid(), &modules, NULL), 0);
    const struct module *libc = modules_named(&modules, "libc.so");
    assert_non_null(libc);
    struct elf *elf = NULL;
    struct elf_symbol symbol;
    assert_int_equal(modules_open(&modules, libc, &elf, NULL), 0);
    assert_int_equal(elf_find(elf, "mkstemp", &symbol), 0);
    assert_int_equal(symbol.value + libc->load_bias, (uintptr_t)mkstemp);
    elf_free(elf);
    const struct module *vdso = modules_named(&modules, "[vdso]");
    if (!getauxval(AT_SYSINFO_EHDR)) { /* a kernel without one says so */
        assert_null(vdso);
    } else {
        assert_non_null(vdso);
        assert_int_equal(modules_open(&modules, vdso, &elf, NULL), 0);
        assert_int_equal(elf_find(elf, "__vdso_gettimeofday", &symbol), 0);
        elf_free(elf);
    }
    modules_done(&modules);
}

/* Until the process executes what the next test has copied: execve() closes descriptors before it maps
 * anything. */
static void await_mapping(pid_t pid)
{
    for (bool mapped = false; !mapped;) {
        struct modules modules;
        assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
        if (modules_read_pid(pid, &modules, NULL) < 0)
            continue;
        mapped = modules_named(&modules, "sonde-test") != NULL;
        modules_done(&modules);
        sched_yield();
    }
}

/* A program that was replaced on disk while it runs is still opened as it was mapped, or refused. */
static void opens_the_mapped_file_not_its_successor(void **state)
{
    char path[TEST_PATH];
    int fd = mkstemp(test_path(path));
    char *data;
    size_t size;
    assert_int_equal(file_read("/bin/sleep", 16u << 20, &data, &size), 0);
    assert_int_equal(file_write_all(fd, data, size), 0);
    fchmod(fd, 0700);
    close(fd);
    pid_t child = fork();
    if (child == 0) {
        execl(path, path, "60", (char *)NULL);
        _exit(1);
    }
    await_mapping(child);
    unlink(path);
    assert_int_equal(
        file_replace(path, "not a program any more, long enough to be one: 64 bytes and more....", 66), 0);
    struct modules modules;
    struct elf *elf = NULL;
    assert_int_equal(modules_read_pid(child, &modules, NULL), 0);
    const struct module *module = modules_named(&modules, "sonde-test");
    assert_non_null(module);
    assert_true(module->deleted);
    int r = modules_open(&modules, module, &elf, NULL);
    if (r == 0) {
        assert_int_equal(elf_size(elf), size);
        elf_free(elf);
    } else {
        assert_true(r == -ESTALE || r == -ENOENT);
    }
    kill(child, 9);
    waitpid(child, NULL, 0);
    modules_done(&modules);
    unlink(path);
    free(data);
}

static void names_a_missing_process(void **state)
{
    struct modules modules;
    struct problem problem;
    assert_int_equal(modules_read_pid(0x3fffff, &modules, &problem), -ESRCH);
    assert_non_null(strstr(problem.what, "4194303"));
}

static void reads_memory_up_to_the_hole(void **state)
{
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    memset(pages, 'x', 4096);
    char copy[8192];
    assert_int_equal(memory_read(getpid(), (uintptr_t)pages, copy, 4096), 0);
    assert_int_equal(memory_read(getpid(), (uintptr_t)pages + 4090, copy, 10), -EFAULT);
    assert_int_equal(memory_read_some(getpid(), (uintptr_t)pages + 4090, copy, 4000), 6);
    strcpy(pages + 4090, "hello");
    assert_int_equal(memory_read_string(NULL, getpid(), (uintptr_t)pages + 4090, copy, sizeof(copy)), 0);
    assert_string_equal(copy, "hello");
    assert_int_equal(memory_read_string(NULL, getpid(), (uintptr_t)pages + 4090, copy, 3), 0);
    assert_string_equal(copy, "he");
    munmap(pages, 4096);
}

static void knows_announced_mappings(void **state)
{
    struct modules live, noted;
    const struct mapping *mapping, *same;
    assert_int_equal(modules_read_pid(getpid(), &live, NULL), 0);
    const struct module *self = modules_at(&live, (uintptr_t)modules_landmark, &mapping);
    struct mapping_note notes[] = {
        /* Something else lay there first; what came later covers its middle. */
        {mapping->start - 0x2000, mapping->end + 0x2000, 0x100000, 1, 999999999, "/not/there"},
        {mapping->start, mapping->end, mapping->offset, self->device, self->inode, self->path},
        {mapping->end + 0x5000, mapping->end + 0x5000, 0, 1, 1, "/empty"},
        {mapping->end + 0x8000, mapping->end + 0x9000, 0, 0, 0, "//anon"},
    };
    assert_int_equal(modules_from_notes(getpid(), notes, ARRAY_SIZE(notes), true, &noted), 0);
    assert_int_equal(noted.mappings.count, 4);
    for (size_t i = 1; i < noted.mappings.count; i++)
        assert_true(noted.mappings.at[i - 1].end <= noted.mappings.at[i].start);
    const struct module *found = modules_at(&noted, (uintptr_t)modules_landmark, &same);
    assert_non_null(found);
    assert_string_equal(found->path, self->path);
    assert_true(same->has_bias);
    assert_int_equal(same->load_bias, mapping->load_bias);
    const struct module *tail = modules_at(&noted, mapping->end + 0x1000, &same);
    assert_string_equal(tail->path, "/not/there");
    assert_int_equal(same->offset, 0x100000 + mapping->end - mapping->start + 0x2000);
    assert_false(same->has_bias);
    modules_done(&noted);
    modules_done(&live);
}

/* However it was asked for. */
static void lists_the_code_that_the_text_has(void **state)
{
    struct modules text, listed;
    size_t code = 0;
    assert_int_equal(modules_read_pid(getpid(), &text, NULL), 0);
    assert_int_equal(modules_list_pid(getpid(), &listed, NULL), 0);
    array_foreach (&text.mappings, m) {
        const struct mapping *same = m->executable ? modules_mapping_at(&listed, m->start) : NULL;
        if (!m->executable || m->start >> 47) /* the vsyscall page */
            continue;
        code++;
        assert_non_null(same);
        assert_true(same->start == m->start && same->end == m->end && same->offset == m->offset);
        assert_true(same->executable && same->readable == m->readable && same->writable == m->writable);
        assert_int_equal(same->module == UINT32_MAX, m->module == UINT32_MAX);
        if (m->module == UINT32_MAX)
            continue;
        const struct module *is = &listed.list.at[same->module], *was = &text.list.at[m->module];
        assert_string_equal(is->path, was->path);
        assert_true(is->device == was->device && is->inode == was->inode && is->deleted == was->deleted);
    }
    assert_true(code > 2);
    assert_int_equal(listed.started_ticks, text.started_ticks);
    modules_done(&listed);
    modules_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_itself),
                                       cmocka_unit_test(knows_announced_mappings),
                                       cmocka_unit_test(lists_the_code_that_the_text_has),
                                       cmocka_unit_test(finds_libc_and_vdso),
                                       cmocka_unit_test(opens_the_mapped_file_not_its_successor),
                                       cmocka_unit_test(names_a_missing_process),
                                       cmocka_unit_test(reads_memory_up_to_the_hole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
