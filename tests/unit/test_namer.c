/* What a namer itself answers, of a process that it may read: this one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/namer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "broker/protocol.h"
#include "test.h"

enum { ROWS = 1 << 20 };

static void *namer, *before; /* there is no end of one but that of its process */

static void begin(bool lazy)
{
    const struct namer_options options = {.row_limit = ROWS, .lazy = lazy};
    int memory = memfd_create("rows", MFD_CLOEXEC);
    assert_int_equal(ftruncate(memory, (off_t)(ROWS * sizeof(struct unwind_row))), 0);
    before = namer;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_read_with_the_process),
        cmocka_unit_test(rows_wait_for_a_stack_that_leads_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
