/* See stall_worker.h. A report on its way is a struct wire_report, one wire_frame for each frame, and the
 * texts in the order function, script of each frame, pattern, flags, builtin, truncated, without NULs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/stall_worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc_text.h"
#include "base/text.h"
#include "broker/protocol.h"

enum { FUNCTION_MAX = 240, TEXT_MAX = 660, NONE = UINT16_MAX };
_Static_assert((STALL_FRAMES_MAX + 4) * (FUNCTION_MAX + TEXT_MAX) + 4096 < BROKER_BYTES_MAX,
               "a report fits into a message");

struct wire_frame {
    uint32_t line, column;
    uint16_t function, script; /* lengths; NONE: there is none */
    uint8_t kind, exact;
    uint16_t unused;
};
struct wire_report {
    uint32_t count;
    int32_t where;
    uint16_t pattern, flags, builtin, truncated;
    uint16_t cause, loading;
};

/* ---- there ---- */

static uint16_t length_of(const char *text, size_t most)
{
    return text ? (uint16_t)MIN(strlen(text), most) : (uint16_t)NONE;
}

static void add(struct text *to, const char *text, size_t most)
{
    if (text)
        text_add_bytes(to, text, length_of(text, most));
}

int stall_report_encode(const struct stall_report *report, void **ret_bytes, size_t *ret_length)
{
    struct text out = {0};
    const struct wire_report head = {.count = (uint32_t)report->count,
                                     .where = report->where,
                                     .pattern = length_of(report->pattern, TEXT_MAX),
                                     .flags = length_of(report->flags, TEXT_MAX),
                                     .builtin = length_of(report->builtin, TEXT_MAX),
                                     .truncated = length_of(report->truncated, TEXT_MAX),
                                     .cause = (uint16_t)report->cause,
                                     .loading = report->loading};
    text_add_bytes(&out, (const char *)&head, sizeof(head));
    for (size_t i = 0; i < report->count; i++) {
        const struct stall_frame *f = &report->frames[i];
        const struct wire_frame frame = {.line = f->line,
                                         .column = f->column,
                                         .function = length_of(f->function, FUNCTION_MAX),
                                         .script = length_of(f->script, TEXT_MAX),
                                         .kind = (uint8_t)f->kind,
                                         .exact = f->exact};
        text_add_bytes(&out, (const char *)&frame, sizeof(frame));
    }
    for (size_t i = 0; i < report->count; i++) {
        add(&out, report->frames[i].function, FUNCTION_MAX);
        add(&out, report->frames[i].script, TEXT_MAX);
    }
    add(&out, report->pattern, TEXT_MAX);
    add(&out, report->flags, TEXT_MAX);
    add(&out, report->builtin, TEXT_MAX);
    add(&out, report->truncated, TEXT_MAX);
    void *bytes = out.failed ? NULL : malloc(out.length);
    if (bytes) {
        memcpy(bytes, text_get(&out), out.length);
        *ret_bytes = bytes;
        *ret_length = out.length;
    }
    text_done(&out);
    return bytes ? 0 : -ENOMEM;
}

static void *begin(void)
{
    struct stall_reader *reader;
    return stall_reader_new(&reader) == 0 ? reader : NULL;
}

static int work(void *context, pid_t target, const void *bytes, size_t length, void **ret_result,
                size_t *ret_length, struct problem *problem)
{
    const struct stall_work *w = bytes;
    struct stall_report report = {.where = -1, .system_call = -1};
    if (length < offsetof(struct stall_work, stack) ||
        w->stack_bytes > length - offsetof(struct stall_work, stack))
        return problem_set(problem, -EPROTO, "no work");
    const struct stack_copy copy = {.start = w->stack_start, .bytes = w->stack, .size = w->stack_bytes};
    int r = w->prepares
                ? stall_reader_prepare(context, target, problem)
                : stall_reader_read(context, target, &w->registers, &copy, w->waiting, &report, problem);
    if (r >= 0)
        r = stall_report_encode(&report, ret_result, ret_length);
    stall_report_done(&report);
    return r;
}

static void forget(void *context, pid_t target)
{
    stall_reader_forget(context, target);
}

const struct worker_kind stall_worker = {"sonde:stacks", begin, work, forget};

/* ---- back here ---- */

struct rest {
    const char *at;
    size_t left;
    bool failed;
};

static bool take(struct rest *rest, void *to, size_t size)
{
    if (rest->failed || rest->left < size) {
        rest->failed = true;
        return false;
    }
    memcpy(to, rest->at, size);
    rest->at += size;
    rest->left -= size;
    return true;
}

static char *take_text(struct rest *rest, uint16_t length)
{
    if (length == NONE || rest->failed || length > TEXT_MAX || rest->left < length) {
        rest->failed |= length != NONE;
        return NULL;
    }
    char *text = strndup(rest->at, length);
    rest->at += length;
    rest->left -= length;
    rest->failed |= !text;
    proc_make_printable(text);
    return text;
}

static bool make_sense(const struct wire_report *head)
{
    return head->count <= STALL_FRAMES_MAX && head->where >= -1 && head->where < (int32_t)head->count &&
           head->cause < STALL_CAUSES && head->loading <= 1;
}

int stall_report_decode(const void *bytes, size_t length, struct stall_report *ret_report)
{
    struct rest rest = {bytes, length, false};
    struct wire_report head;
    struct wire_frame frames[STALL_FRAMES_MAX];
    struct stall_report report = {.system_call = -1};
    if (!take(&rest, &head, sizeof(head)) || !make_sense(&head) ||
        !take(&rest, frames, head.count * sizeof(*frames)))
        return -EPROTO;
    report.where = head.where;
    report.cause = head.cause;
    report.loading = head.loading != 0;
    report.count = head.count;
    for (uint32_t i = 0; i < head.count; i++) {
        rest.failed |= frames[i].kind > STALL_FRAME_LEFT_OUT;
        report.frames[i] = (struct stall_frame){.kind = frames[i].kind,
                                                .line = frames[i].line,
                                                .column = frames[i].column,
                                                .exact = frames[i].exact != 0};
        report.frames[i].function = take_text(&rest, frames[i].function);
        report.frames[i].script = take_text(&rest, frames[i].script);
    }
    report.pattern = take_text(&rest, head.pattern);
    report.flags = take_text(&rest, head.flags);
    report.builtin = take_text(&rest, head.builtin);
    _cleanup_(freep) char *truncated = take_text(&rest, head.truncated);
    if (truncated)
        snprintf(report.truncated, sizeof(report.truncated), "%.*s", (int)sizeof(report.truncated) - 1,
                 truncated);
    if (rest.failed || rest.left) {
        stall_report_done(&report);
        return -EPROTO;
    }
    *ret_report = report;
    return 0;
}
