/* What a namer itself answers, of a process that it may read: this one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/namer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/protocol.h"
#include "test.h"

enum { ROWS = 1 << 20 };

static void *namer, *before[4]; /* there is no end of one but that of its process */

static void begin(bool lazy)
{
    const struct namer_options options = {.row_limit = ROWS, .lazy = lazy};
    int memory = memfd_create("rows", MFD_CLOEXEC);
    assert_int_equal(ftruncate(memory, (off_t)(ROWS * sizeof(struct unwind_row))), 0);
    for (size_t i = 0; i < ARRAY_SIZE(before) && namer; i++)
        if (!before[i]) {
            before[i] = namer;
            break;
        }
    namer = namer_kind.begin();
    assert_non_null(namer);
    namer_kind.share(namer, memory, &options, sizeof(options));
    close(memory);
}

/* Asks, and keeps the description of the answer. */
static void ask(uint32_t verb, struct sampler_process *ret_description)
{
    const struct namer_ask question = {.verb = verb, .batch = 1};
    struct namer_answer head;
    struct problem problem;
    void *answer;
    size_t length;
    assert_int_equal(
        namer_kind.work(namer, getpid(), &question, sizeof(question), &answer, &length, &problem), 0);
    memcpy(&head, answer, sizeof(head));
    assert_true(head.described && head.count == 0 && head.stacks == 0);
    assert_in_range(length - sizeof(head), sizeof(ret_description->mappings[0]),
                    sizeof(*ret_description) / 2);
    memset(ret_description, 0, sizeof(*ret_description));
    memcpy(ret_description, (char *)answer + sizeof(head), length - sizeof(head));
    free(answer);
}

/* A stack whose innermost frame is there, and that leads nowhere. */
static void walk(uint64_t pc)
{
    struct {
        struct namer_ask ask;
        struct namer_item item;
        struct sampler_sample sample;
        uint64_t words[3 + 512];
    } question = {.ask = {.verb = NAMER_NAME, .batch = 1, .count = 1},
                  .item = {.pid = getpid(), .walks = 1},
                  .sample = {.pid = (uint32_t)getpid(), .user_words = 3 + 512, .kind = SAMPLE_COPY},
                  .words = {pc, 1 << 20, 1 << 20}};
    struct namer_answer head;
    struct namer_stack stack;
    struct problem problem;
    void *answer;
    size_t length;
    question.item.length = sizeof(question.sample) + sizeof(question.words);
    assert_int_equal(namer_kind.work(namer, 0, &question, sizeof(question), &answer, &length, &problem), 0);
    assert_true(length >= sizeof(head) + sizeof(stack));
    memcpy(&head, answer, sizeof(head));
    memcpy(&stack, (char *)answer + sizeof(head), sizeof(stack));
    assert_int_equal(head.stacks, 1);
    assert_true(stack.known && stack.count >= 1);
    free(answer);
}

static const struct sampler_mapping *mapping_at(const struct sampler_process *d, uint64_t pc)
{
    for (uint32_t i = 0; i < d->count; i++)
        if (pc >= d->mappings[i].start && pc < d->mappings[i].end)
            return &d->mappings[i];
    fail_msg("no mapping covers the code");
    return NULL;
}

static struct sampler_process description;

static void rows_are_read_with_the_process(void **state)
{
    begin(false);
    ask(NAMER_OPEN, &description);
    const struct sampler_mapping *own = mapping_at(&description, (uintptr_t)rows_are_read_with_the_process);
    assert_int_equal(own->code, CODE_ROWS);
    assert_true(own->rows_low && own->rows_low < own->rows_high);
    namer_kind.forget(namer, getpid());
}

static void rows_wait_for_a_stack_that_leads_there(void **state)
{
    const uint64_t here = (uintptr_t)rows_wait_for_a_stack_that_leads_there, library = (uintptr_t)getpid;
    begin(true);
    ask(NAMER_OPEN, &description);
    assert_int_equal(mapping_at(&description, here)->code, CODE_UNMET);
    assert_int_equal(mapping_at(&description, here)->rows_low, 0);
    assert_int_equal(mapping_at(&description, library)->code, CODE_UNMET);
    ask(NAMER_DESCRIBE, &description); /* that alone reads none */
    assert_int_equal(mapping_at(&description, here)->code, CODE_UNMET);
    walk(here);
    ask(NAMER_DESCRIBE, &description);
    assert_int_equal(mapping_at(&description, here)->code, CODE_ROWS);
    assert_true(mapping_at(&description, here)->rows_low < mapping_at(&description, here)->rows_high);
    assert_int_equal(mapping_at(&description, library)->code, CODE_UNMET);
    namer_kind.forget(namer, getpid());
}

static void what_is_dropped_is_forgotten(void **state)
{
    struct {
        struct namer_ask ask;
        struct namer_item item;
        struct sampler_sample sample;
        uint64_t word;
        int32_t dropped[2];
    } question = {.ask = {.verb = NAMER_NAME, .batch = 1, .count = 1, .dropped = 2},
                  .item = {.pid = getpid(), .length = sizeof(struct sampler_sample) + sizeof(uint64_t)},
                  .sample = {.pid = (uint32_t)getpid(), .user_words = 1},
                  .dropped = {getppid(), getpid()}};
    struct namer_answer head;
    struct namer_stack stack;
    struct problem problem;
    void *answer;
    size_t length;
    begin(true);
    for (int round = 0; round < 2; round++) {
        question.ask.dropped = round ? 2 : 0;
        if (!round)
            ask(NAMER_OPEN, &description);
        size_t size = offsetof(typeof(question), dropped) + (round ? sizeof(question.dropped) : 0);
        assert_int_equal(namer_kind.work(namer, 0, &question, size, &answer, &length, &problem), 0);
        memcpy(&head, answer, sizeof(head));
        memcpy(&stack, (char *)answer + sizeof(head), sizeof(stack));
        assert_int_equal(head.stacks, 1);
        assert_int_equal(stack.known, !round);
        free(answer);
    }
    question.ask.dropped = UINT32_MAX; /* more than there are */
    assert_int_equal(namer_kind.work(namer, 0, &question, sizeof(question), &answer, &length, &problem),
                     -EPROTO);
}

/* What this process has mapped of code, as the kernel would have announced it; with nowhere, also code of no
 * file. */
static size_t put_notes(uint8_t *out, bool nowhere, uint32_t *ret_count)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[1024], path[512], rights[8];
    unsigned long start, end, offset, inode;
    unsigned major, minor;
    uint8_t *at = out;
    assert_non_null(maps);
    for (*ret_count = 0; fgets(line, sizeof(line), maps);) {
        *path = '\0';
        int n = sscanf(line, "%lx-%lx %7s %lx %x:%x %lu %511s", &start, &end, rights, &offset, &major, &minor,
                       &inode, path);
        if (n < 7 || rights[2] != 'x' || start >> 47)
            continue;
        const struct namer_note note = {
            start, end, offset, makedev(major, minor), inode, (uint32_t)strlen(path), 0};
        memcpy(at, &note, sizeof(note));
        memcpy(at + sizeof(note), path, note.path_length);
        at += sizeof(note) + note.path_length;
        ++*ret_count;
    }
    fclose(maps);
    if (nowhere) {
        const struct namer_note note = {.start = 0x10000, .end = 0x20000};
        memcpy(at, &note, sizeof(note));
        at += sizeof(note);
        ++*ret_count;
    }
    return (size_t)(at - out);
}

/* Opens, or reads again, a process that has ended, of which that was announced. */
static int ask_announced(uint32_t verb, pid_t pid, bool nowhere, struct sampler_process *ret_description)
{
    static uint8_t question[1 << 16];
    struct namer_ask head = {.verb = verb, .batch = 1};
    struct namer_answer answered;
    struct problem problem;
    void *answer;
    size_t length = sizeof(head) + put_notes(question + sizeof(head), nowhere, &head.count);
    memcpy(question, &head, sizeof(head));
    int r = namer_kind.work(namer, pid, question, length, &answer, &length, &problem);
    if (r < 0)
        return r;
    memcpy(&answered, answer, sizeof(answered));
    assert_true(answered.described);
    memset(ret_description, 0, sizeof(*ret_description));
    memcpy(ret_description, (char *)answer + sizeof(answered), length - sizeof(answered));
    free(answer);
    return 0;
}

static int open_announced(pid_t pid, bool nowhere, struct sampler_process *ret_description)
{
    int r = ask_announced(NAMER_OPEN, pid, nowhere, ret_description);
    namer_kind.forget(namer, pid);
    return r;
}

static void programs_that_are_known_need_not_be_read(void **state)
{
    const uint64_t here = (uintptr_t)programs_that_are_known_need_not_be_read;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    begin(true);
    assert_int_equal(open_announced(pid, false, &description), -ESRCH); /* no file of it is known */
    ask(NAMER_OPEN, &description);
    walk(here);
    assert_int_equal(open_announced(pid, false, &description), 0);
    assert_int_equal(mapping_at(&description, here)->code, CODE_ROWS);
    assert_int_equal(open_announced(pid, true, &description), -ESRCH); /* a runtime's, perhaps */
    namer_kind.forget(namer, getpid());
}

/* It has mapped a file more, which is known, since it was met, and has ended. */
static void what_was_mapped_since_need_not_be_read(void **state)
{
    const uint64_t here = (uintptr_t)what_was_mapped_since_need_not_be_read;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    begin(true);
    ask(NAMER_OPEN, &description);
    walk(here);
    assert_int_equal(ask_announced(NAMER_OPEN, pid, false, &description), 0);
    const uint32_t count = description.count;
    assert_int_equal(ask_announced(NAMER_REFRESH, pid, false, &description), 0);
    assert_int_equal(description.count, count);
    assert_int_equal(mapping_at(&description, here)->code, CODE_ROWS);
    assert_int_equal(ask_announced(NAMER_REFRESH, pid, true, &description), -ESRCH); /* it would be read */
    namer_kind.forget(namer, pid);
    namer_kind.forget(namer, getpid());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_read_with_the_process),
        cmocka_unit_test(rows_wait_for_a_stack_that_leads_there),
        cmocka_unit_test(what_is_dropped_is_forgotten),
        cmocka_unit_test(programs_that_are_known_need_not_be_read),
        cmocka_unit_test(what_was_mapped_since_need_not_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
