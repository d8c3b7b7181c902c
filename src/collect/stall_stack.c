/* See stall_stack.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/stall_stack.h"

#include <errno.h>
#include <stdlib.h>

#include "event/catalogue.h"

#define T(name) extern const struct stall_source stall_source_##name;
SONDE_TARGETS_WITH_STALL(T)
#undef T

static const struct stall_source *const SOURCES[] = {
#define T(name) &stall_source_##name,
    SONDE_TARGETS_WITH_STALL(T)
#undef T
        NULL};

#define KNOWN 16

struct known {
    pid_t pid;
    const struct stall_source *source;
    void *state;
    uint64_t used;
};

struct stall_reader {
    struct known known[KNOWN];
    uint64_t looks;
};

int stall_reader_new(struct stall_reader **ret_reader)
{
    *ret_reader = calloc(1, sizeof(**ret_reader));
    return *ret_reader ? 0 : -ENOMEM;
}

static void forget(struct known *known)
{
    if (known->source)
        known->source->free(known->state);
    *known = (struct known){0};
}

void stall_reader_free(struct stall_reader *reader)
{
    if (!reader)
        return;
    for (size_t i = 0; i < KNOWN; i++)
        forget(&reader->known[i]);
    free(reader);
}

void stall_reader_forget(struct stall_reader *reader, pid_t pid)
{
    for (size_t i = 0; i < KNOWN; i++)
        if (reader->known[i].pid == pid)
            forget(&reader->known[i]);
}

/* The first runtime that is in the process. */
static int find_source(pid_t pid, struct known *ret_known, struct problem *problem)
{
    int r = -ENOENT;
    for (const struct stall_source *const *source = SOURCES; *source && r == -ENOENT; source++) {
        *ret_known = (struct known){.pid = pid, .source = *source};
        r = (*source)->open(pid, &ret_known->state, problem);
    }
    return r;
}

/* What is known of the process; refreshing notices when it is another one (unwind/native.h). */
static int know(struct stall_reader *reader, pid_t pid, const struct known **ret_known,
                struct problem *problem)
{
    struct known *oldest = &reader->known[0], found;
    for (size_t i = 0; i < KNOWN; i++) {
        struct known *k = &reader->known[i];
        if (k->pid == pid && k->source->refresh(k->state) == 0) {
            k->used = ++reader->looks;
            *ret_known = k;
            return 0;
        }
        if (k->pid == pid)
            forget(k);
        if (k->used < oldest->used)
            oldest = k;
    }
    int r = find_source(pid, &found, problem);
    if (r < 0)
        return r;
    forget(oldest);
    *oldest = found;
    oldest->used = ++reader->looks;
    *ret_known = oldest;
    return 0;
}

int stall_reader_prepare(struct stall_reader *reader, pid_t pid, struct problem *problem)
{
    const struct known *known;
    return know(reader, pid, &known, problem);
}

int stall_reader_read(struct stall_reader *reader, pid_t pid, const struct user_regs_struct *registers,
                      const struct stack_copy *copy, bool waiting, struct stall_report *ret_report,
                      struct problem *problem)
{
    struct stall_report report = {.where = -1, .system_call = -1};
    const struct known *known;
    int r = know(reader, pid, &known, problem);
    if (r >= 0)
        r = known->source->read(known->state, registers, copy, waiting, &report, problem);
    if (r < 0)
        return r;
    *ret_report = report;
    return 0;
}
