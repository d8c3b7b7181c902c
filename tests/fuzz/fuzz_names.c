/* What a namer answers that was taken over (profile/namer.h): everything that the sampler makes of it stays
 * within bounds, and leads to this namer's own frames and rows alone.
 *
 * The first byte is the number of things that are done, then come these, a byte each; then the answers: a
 * byte (1: about the process, else about none), two of the length, the bytes. Rows are the input's bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/protocol.h"
#include "profile/namers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS = 4096, WORKERS_MAX = 4 };

static struct {
    const uint8_t *answers;
    size_t left;
    int sockets[WORKERS_MAX]; /* the workers' ends */
    uint32_t workers;
} input;

/* All answers that there are lie ready; then the worker has gone. */
static void fill(int socket)
{
    const struct broker_head hello = {.verb = BROKER_RESULT};
    bool fits = broker_send(socket, hello, NULL, 0, -1) == 0;
    while (fits && input.left >= 3) {
        uint16_t length;
        memcpy(&length, input.answers + 1, sizeof(length));
        if (length > input.left - 3)
            length = (uint16_t)(input.left - 3);
        const struct broker_head head = {.verb = BROKER_RESULT,
                                         .target = input.answers[0] & 1 ? getpid() : 0};
        fits = broker_send(socket, head, input.answers + 3, length, -1) == 0;
        input.answers += 3 + length;
        input.left -= 3 + (size_t)length;
    }
    shutdown(socket, SHUT_WR);
}

static int worker(pid_t pid, struct lent_worker *ret_worker)
{
    int pair[2];
    if (input.workers == WORKERS_MAX)
        return -EAGAIN;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        abort();
    input.sockets[input.workers++] = pair[1];
    fill(pair[1]);
    *ret_worker = (struct lent_worker){.number = input.workers, .pid = 1, .socket = pair[0]};
    return 0;
}

static int worker_of_ended(uid_t user, struct lent_worker *ret_worker)
{
    return worker(0, ret_worker);
}

static void end(uint32_t number, bool failed)
{
}

static const struct namers_source source = {worker, worker_of_ended, end};

/* The worker's memory has rows from then on. */
static void write_rows(const uint8_t *data, size_t size)
{
    for (uint32_t i = 0; i < input.workers; i++) {
        struct broker_head head;
        char bytes[64];
        int memory = -1;
        if (broker_receive(input.sockets[i], &head, bytes, sizeof(bytes), &memory) < 0 || memory < 0)
            continue;
        struct unwind_row *rows =
            mmap(NULL, ROWS * sizeof(*rows), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
        close(memory);
        if (rows == MAP_FAILED)
            continue;
        for (size_t at = 0; size && at < ROWS * sizeof(*rows); at += size)
            memcpy((char *)rows + at, data,
                   size < ROWS * sizeof(*rows) - at ? size : ROWS * sizeof(*rows) - at);
        munmap(rows, ROWS * sizeof(*rows));
    }
}

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_description(const struct tables *tables, const struct sampler_process *d)
{
    must(d->count <= SAMPLER_MAPPINGS && !d->ignored && !d->serial);
    for (uint32_t i = 0; i < d->count; i++) {
        const struct sampler_mapping *m = &d->mappings[i];
        must(m->rows_low <= m->rows_high && m->rows_high <= tables->row_limit && !m->serial);
        must((m->rows_low == 0) == (m->rows_high == 0) && (m->rows_low || m->code != CODE_ROWS));
        must(m->page_base < tables->page_limit && (!m->page_base || m->rows_low));
    }
}

static void check_stack(const struct profile *profile, const struct process_stack *stack)
{
    must(stack->count <= NAMER_STACK_MAX && stack->end < END_REASONS && stack->runtime < FRAME_KINDS);
    for (size_t i = 0; i < stack->count; i++) {
        must(stack->frames[i] < profile->frames.count);
        const struct profile_frame *f = &profile->frames.at[stack->frames[i]];
        must(f->kind != FRAME_KERNEL && f->kind != FRAME_GROUP && f->kind != FRAME_TRUNCATED);
        must(strlen(profile_text(profile, f->name)) <= NAMER_TEXT_MAX);
    }
}

struct run {
    struct tables tables;
    struct namers *namers;
    struct subject *subject;
    struct profile *profiles[2];
    struct process_stack stack;
    struct sampler_process description;
};

static void act(struct run *r, uint8_t what, uint64_t now_ns)
{
    const struct sampler_sample sample = {.pid = (uint32_t)getpid(), .user_words = 1 + what / 64};
    uint64_t words[4] = {what & 0x38, what, 0, 0};
    struct mapping_note note = {.start = 4096, .end = 8192, .path = (char[]){"/program"}};
    enum sampler_end walked = END_COMPLETE;
    struct profile *profile = r->profiles[what >> 3 & 1];
    r->stack.count = 0;
    r->stack.end = END_COMPLETE;
    r->stack.runtime = FRAME_NATIVE;
    switch (what & 7) {
    case 0:
    case 1:
        subject_name(r->namers, r->subject, profile, &sample, words, now_ns, &r->stack);
        check_stack(profile, &r->stack);
        break;
    case 2:
        subject_walk(r->namers, r->subject, profile, &sample, words, now_ns, &r->stack, &walked);
        check_stack(profile, &r->stack);
        must(walked < END_REASONS);
        break;
    case 3:
        if (subject_refresh(r->namers, r->subject, NULL, &r->description) == 0)
            check_description(&r->tables, &r->description);
        break;
    case 4:
        if (subject_describe(r->namers, r->subject, &r->description) == 0)
            check_description(&r->tables, &r->description);
        break;
    case 5:
        (void)subject_take(r->namers, r->subject, &note, 1);
        break;
    case 6:
        namers_tidy(r->namers, 1);
        break;
    default:
        namers_begin_batch(r->namers);
        tables_settle(&r->tables);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct run r;
    const struct namer_options options = {.row_limit = ROWS};
    size_t count = size ? data[0] & 63 : 0;
    if (size < 1 + count)
        return 0;
    const uint8_t *acts = data + 1;
    input.answers = acts + count;
    input.left = size - 1 - count;
    input.workers = 0;
    r = (struct run){.tables = {.row_limit = ROWS, .page_limit = ROWS}};
    struct unwind_row *rows = calloc(ROWS, sizeof(*rows));
    uint64_t *pages = calloc(ROWS, sizeof(*pages));
    must(rows && pages);
    tables_init(&r.tables, rows, pages);
    must(namers_new(&options, &r.tables, &r.namers) == 0 && profile_new(&r.profiles[0]) == 0 &&
         profile_new(&r.profiles[1]) == 0);
    namers_take_from(r.namers, &source);
    if (subject_open(r.namers, getpid(), &r.description, &r.subject) == 0) {
        check_description(&r.tables, &r.description);
        must(strnlen(r.subject->called, sizeof(r.subject->called)) < sizeof(r.subject->called));
        write_rows(data, size);
        for (size_t i = 0; i < count; i++)
            act(&r, acts[i], (i + 1) * 400000000ull);
    }
    subject_free(r.namers, r.subject);
    namers_free(r.namers);
    must(r.tables.rows_used == 0);
    tables_done(&r.tables);
    profile_free(r.profiles[0]);
    profile_free(r.profiles[1]);
    free(rows);
    free(pages);
    for (uint32_t i = 0; i < input.workers; i++)
        close(input.sockets[i]);
    return 0;
}
