/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/native.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
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

static void knows_which_files_were_met(void **state)
{
    struct native *native = NULL;
    assert_int_equal(native_open(getpid(), &native, NULL), 0);
    const struct module *self = modules_at(native_modules(native), (uintptr_t)native_outer, NULL);
    struct native_file *file = native_file_of(native, self);
    assert_false(native_file_met(file)); /* it is mapped, no more */
    assert_non_null(native_file_table(file));
    assert_true(native_file_met(file));
    native_free(native);
}

static void count_forgotten(void *context, uint64_t note)
{
    size_t *forgotten = context;
    assert_int_equal(note, ++*forgotten);
}

/* A program that nobody runs any more is closed; what was noted of it stays its own, and no other file's. */
static void unused_files_are_closed(void **state)
{
    char program[40], path[64], copy[128];
    struct native_files *files = NULL;
    struct native *native = NULL;
    snprintf(program, sizeof(program), "/tmp/sonde-native-%d", getpid());
    assert_int_equal(native_files_new(&files), 0);
    size_t forgotten = 0;
    native_files_on_forget(files, count_forgotten, &forgotten);
    uint64_t serial = 0;
    size_t libraries = 0;
    for (int i = 0; i < 40; i++) { /* as many programs: copies of this one */
        int in[2], out[2];
        char byte;
        snprintf(path, sizeof(path), "%s%d", program, i);
        snprintf(copy, sizeof(copy), "cp /proc/%d/exe %s", getpid(), path);
        assert_int_equal(system(copy), 0);
        assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
        pid_t child = fork();
        if (child == 0) {
            dup2(in[0], 0);
            dup2(out[1], 1);
            execl(path, path, "wait", NULL);
            _exit(1);
        }
        assert_int_equal(read(out[0], &byte, 1), 1);
        assert_int_equal(native_open_shared(child, files, &native, NULL), 0);
        struct native_file *file = native_file_of(native, native_modules(native)->list.at);
        assert_non_null(file);
        libraries = 0;
        array_foreach (&native_modules(native)->list, m)
            libraries += m->executable && m != native_modules(native)->list.at;
        assert_int_equal(*native_file_note(file), 0); /* not another program's */
        assert_true(native_file_serial(file) > serial);
        serial = native_file_serial(file);
        *native_file_note(file) = (uint64_t)i + 1;
        native_files_trim(files, 256);
        struct elf_symbol symbol; /* it runs: still open */
        assert_int_equal(elf_find(native_file_elf(file), "main", &symbol), 0);
        native_free(native);
        for (int k = 0; k < 2; k++) {
            close(in[k]);
            close(out[k]);
        }
        waitpid(child, NULL, 0);
        unlink(path);
    }
    native_files_trim(files, 256);
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    size_t open = 0;
    bool seen[40] = {false}; /* with debug information they are mapped twice */
    while (fgets(line, sizeof(line), maps)) {
        const char *name = strstr(line, program);
        unsigned long i = name ? strtoul(name + strlen(program), NULL, 10) : ARRAY_SIZE(seen);
        if (i < ARRAY_SIZE(seen)) {
            open += !seen[i];
            seen[i] = true;
        }
    }
    fclose(maps);
    assert_in_range(open, 1, 35);
    assert_int_equal(forgotten, 40 + libraries - 32); /* the first ones' notes */
    native_files_free(files);
}

/* ---- what is found out once for all processes ---- */

static size_t asked;

static int count_functions(struct elf *elf, void *ret_fact)
{
    asked++;
    *(size_t *)ret_fact = elf_function_count(elf);
    return 0;
}

static int find_nothing(struct elf *elf, void *ret_fact)
{
    asked++;
    return -ENOENT;
}

static struct native_file *program_of(struct native *native)
{
    const struct module *module = modules_main(native_modules(native));
    assert_non_null(module);
    return native_file_of(native, module);
}

static void facts_are_asked_once_for_each_file(void **state)
{
    struct native_files *files = NULL;
    struct native *native[3] = {0};
    const void *fact, *other;
    assert_int_equal(native_files_new(&files), 0);
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    asked = 0;
    for (int i = 0; i < 2; i++) { /* two processes, one program */
        assert_int_equal(native_open_shared(i ? child : getpid(), files, &native[i], NULL), 0);
        assert_int_equal(native_file_fact(program_of(native[i]), count_functions, sizeof(size_t), &fact), 0);
        assert_true(*(const size_t *)fact > 0);
        assert_int_equal(asked, 1);
    }
    for (int i = 0; i < 2; i++) /* that there is nothing is an answer, too, and not the other question's */
        assert_int_equal(native_file_fact(program_of(native[i]), find_nothing, 1, &other), -ENOENT);
    assert_int_equal(asked, 2);
    const struct module *libc = modules_named(native_modules(native[0]), "libc.so");
    assert_int_equal(
        native_file_fact(native_file_of(native[0], libc), count_functions, sizeof(size_t), &other), 0);
    assert_int_equal(asked, 3);
    assert_int_not_equal(*(const size_t *)fact, *(const size_t *)other);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 2; i++)
        native_free(native[i]);
    native_files_free(files);
}

/* Load biases are those that each process's own files give, and the vDSO is one file for all. */
static void processes_share_files_but_not_places(void **state)
{
    struct native_files *files = NULL;
    struct native *native[2] = {0};
    int out[2];
    char byte;
    assert_int_equal(native_files_new(&files), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) { /* elsewhere in memory */
        int in[2];
        if (pipe(in) < 0 || dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0)
            _exit(1);
        execl("/proc/self/exe", "test_native", "wait", NULL);
        _exit(1);
    }
    assert_int_equal(read(out[0], &byte, 1), 1);
    struct native_file *vdso[2] = {0};
    uint64_t at[2] = {0};
    for (int i = 0; i < 2; i++) {
        struct modules own;
        pid_t pid = i ? child : getpid();
        assert_int_equal(native_open_shared(pid, files, &native[i], NULL), 0);
        assert_int_equal(modules_read_pid(pid, &own, NULL), 0);
        const struct modules *shared = native_modules(native[i]);
        size_t placed = 0;
        array_foreach (&shared->mappings, m) {
            const struct mapping *same = modules_mapping_at(&own, m->start);
            if (!m->executable || !same)
                continue;
            assert_int_equal(m->has_bias, same->has_bias);
            assert_int_equal(m->load_bias, same->load_bias);
            placed += m->has_bias;
        }
        assert_true(placed >= 3); /* program, libc, vDSO at least */
        array_foreach (&shared->list, module)
            if (strcmp(module->path, "[vdso]") == 0) {
                assert_true(module->has_bias);
                vdso[i] = native_file_of(native[i], module);
                at[i] = module->start;
            }
        modules_done(&own);
    }
    assert_non_null(vdso[0]);
    assert_ptr_equal(vdso[0], vdso[1]);
    assert_int_not_equal(at[0], at[1]);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 2; i++)
        native_free(native[i]);
    native_files_free(files);
}

/* Of a process that has ended, a file is looked for by its path in our own root, where it may not be. */
static void what_one_process_hides_another_shows(void **state)
{
    struct native_files *files = NULL;
    struct native *ended = NULL, *native = NULL;
    struct modules own, noted;
    assert_int_equal(native_files_new(&files), 0);
    assert_int_equal(modules_read_pid(getpid(), &own, NULL), 0);
    const struct module *program = modules_main(&own);
    struct mapping_note note = {0x10000, 0x20000, 0, program->device, program->inode, "/not/there"};
    assert_int_equal(modules_from_notes(0x3fffff, &note, 1, false, &noted), 0);
    assert_int_equal(native_open_modules(&noted, files, &ended), 0);
    assert_false(native_modules(ended)->list.at[0].has_bias);
    assert_int_equal(native_open_shared(getpid(), files, &native, NULL), 0);
    assert_true(modules_main(native_modules(native))->has_bias);
    assert_non_null(native_file_of(ended, native_modules(ended)->list.at)); /* open now */
    modules_done(&own);
    native_free(ended);
    native_free(native);
    native_files_free(files);
}

static void pages_are_read_once_until_they_are_forgotten(void **state)
{
    static volatile uint64_t value = 1;
    struct memory_pages pages = {0};
    uint64_t read = 0, at = (uint64_t)(uintptr_t)&value;
    assert_int_equal(memory_read_through(&pages, getpid(), at, &read, 8), 0);
    assert_int_equal(read, 1);
    value = 2;
    assert_int_equal(memory_read_through(&pages, getpid(), at, &read, 8), 0);
    assert_int_equal(read, 1);
    memory_pages_forget(&pages);
    assert_int_equal(memory_read_through(&pages, getpid(), at, &read, 8), 0);
    assert_int_equal(read, 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(memory_read_through(&pages, getpid(), 4096, &read, 8), -EFAULT);
    for (uint64_t k = 0; k < 8; k++) { /* also across the border of two pages */
        static uint8_t bytes[3 * 4096];
        uint64_t border = ((uint64_t)(uintptr_t)bytes + 4095) / 4096 * 4096 + 4096;
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (uint8_t)(i * 7);
        memory_pages_forget(&pages);
        assert_int_equal(memory_read_through(&pages, getpid(), border - k, &read, 8), 0);
        assert_memory_equal(&read, (void *)(uintptr_t)(border - k), 8);
    }
    memory_pages_done(&pages);
}

int main(int argc, char **argv)
{
    char byte = 'r';
    if (argc > 1) /* one of the programs above: until it is told to end */
        return write(1, &byte, 1) == 1 && read(0, &byte, 1) >= 0 ? 0 : 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(walks_to_main),
                                       cmocka_unit_test(knows_which_files_were_met),
                                       cmocka_unit_test(refuses_what_is_outside_the_copy),
                                       cmocka_unit_test(unused_files_are_closed),
                                       cmocka_unit_test(facts_are_asked_once_for_each_file),
                                       cmocka_unit_test(what_one_process_hides_another_shows),
                                       cmocka_unit_test(processes_share_files_but_not_places),
                                       cmocka_unit_test(pages_are_read_once_until_they_are_forgotten)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
