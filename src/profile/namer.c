/* The namer's side, in a worker without rights. See namer.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/namer.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/text.h"
#include "broker/protocol.h"
#include "profile/runtime.h"
#include "profile/unread.h"
#include "symbol/memory.h"

struct reading {
    struct native_files *files;
    struct process_shared shared;
    struct tables tables;
    struct map processes;   /* pid -> struct process * */
    struct profile *frames; /* of which no more than the frames and their texts are used */
    uint32_t epoch, said;   /* frames that the sampler knows, without the first, which is none */
    uint32_t batch;
    struct process_stack stack;
    struct text stacks; /* that were named, as the answer has them */
    struct sampler_process description;
};

enum {
    ANSWER_MAX = 100 << 10,
    NEW_MAX = ANSWER_MAX - 3 * NAMER_TEXT_MAX,
    STACKS_MAX = 40 << 10,
    STACK_BYTES_MAX = sizeof(struct namer_stack) + NAMER_STACK_MAX * sizeof(uint32_t),
    MAPPED_BYTES =
        128 << 10, /* from this size on, freed memory goes back at once: debug information is large */
    TRIM_KEEP = 1 << 20,
    AWHILE_MS = 50 /* then it answers what it has named: the sampler has other things to do, too */
};
_Static_assert(STACKS_MAX + STACK_BYTES_MAX + sizeof(struct namer_answer) < NEW_MAX, "and some new frames");
_Static_assert(ANSWER_MAX + sizeof(struct sampler_process) <= BROKER_BYTES_MAX, "an answer is one message");
_Static_assert(UNREAD_LANGUAGES <= 8, "a bit for each");
_Static_assert(NAMER_STACK_MAX == ARRAY_SIZE(((struct process_stack *)0)->frames), "whole stacks");

static void *begin(void)
{
    struct reading *r = calloc(1, sizeof(*r));
    mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES); /* else it grows with what was freed */
    if (!r || native_files_new(&r->files) < 0 || profile_new(&r->frames) < 0)
        return NULL;
    native_files_on_forget(r->files, tables_drop, &r->tables);
    r->epoch = 1;
    r->said = 1;
    return r;
}

static void share(void *context, int fd, const void *bytes, size_t length)
{
    struct reading *r = context;
    struct namer_options options;
    if (length != sizeof(options) || r->tables.rows)
        abort();
    memcpy(&options, bytes, sizeof(options));
    struct unwind_row *rows =
        mmap(NULL, (size_t)options.row_limit * sizeof(*rows), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (rows == MAP_FAILED)
        abort();
    r->shared.lines = options.lines;
    r->shared.source = options.source;
    r->shared.inlined = options.inlined;
    r->shared.lazy = options.lazy;
    r->tables.row_limit = options.row_limit;
    r->tables.page_limit = 1; /* the sampler makes an index of its own */
    tables_init(&r->tables, rows, NULL);
}

static struct process *process_at(struct reading *r, pid_t pid)
{
    uint64_t *known = map_get(&r->processes, (uint64_t)pid);
    return known ? (struct process *)(uintptr_t)*known : NULL;
}

static void forget(void *context, pid_t pid)
{
    struct reading *r = context;
    struct process *process = process_at(r, pid);
    if (!process)
        return;
    process_give_rows(process, &r->tables);
    process_free(process);
    map_remove(&r->processes, (uint64_t)pid);
}

/* The processes whose numbers come last. */
static int forget_dropped(struct reading *r, struct namer_rest *rest, uint32_t count)
{
    if (count > rest->left / sizeof(int32_t))
        return -EPROTO;
    rest->left -= count * sizeof(int32_t);
    for (uint32_t i = 0; i < count; i++) {
        int32_t pid;
        memcpy(&pid, rest->at + rest->left + i * sizeof(pid), sizeof(pid));
        memory_forget(pid);
        forget(r, pid);
    }
    return 0;
}

static int keep(struct reading *r, struct process *process)
{
    uint64_t *place = map_put(&r->processes, (uint64_t)process->pid, NULL);
    if (!place) {
        process_free(process);
        return -ENOMEM;
    }
    *place = (uintptr_t)process;
    return 0;
}

/* ---- what is asked ---- */

static int take_modules(struct namer_rest *rest, pid_t pid, uint32_t count, struct modules *ret_modules)
{
    struct mapping_note *notes = calloc(count + 1ul, sizeof(*notes));
    char *paths = malloc(rest->left + count + 1), *end = paths;
    int result = notes && paths ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < count && result == 0; i++) {
        struct namer_note note;
        const void *head = namer_take(rest, sizeof(note)), *path = NULL;
        if (head) {
            memcpy(&note, head, sizeof(note));
            path = namer_take(rest, note.path_length);
        }
        if (!path) {
            result = -EPROTO;
            break;
        }
        notes[i] = (struct mapping_note){note.start, note.end, note.offset, note.device, note.inode, end};
        memcpy(end, path, note.path_length);
        end += note.path_length;
        *end++ = '\0';
    }
    if (result == 0)
        result = modules_from_notes(pid, notes, count, false, ret_modules);
    free(notes);
    free(paths);
    return result;
}

static int open_ended(struct reading *r, struct namer_rest *rest, pid_t pid, uint32_t count)
{
    struct modules modules;
    struct process *process;
    int result = take_modules(rest, pid, count, &modules);
    if (result == 0)
        result = process_open_ended(pid, &modules, r->files, &r->shared, &process);
    return result < 0 ? result : keep(r, process);
}

/* Most processes of a machine that builds are of few programs: what was announced of one whose files are open
 * is all that has to be known. */
static int open_process(struct reading *r, struct namer_rest *rest, pid_t pid, uint32_t count)
{
    struct modules modules;
    struct process *process;
    int result = count ? take_modules(rest, pid, count, &modules) : -ESTALE;
    if (count && result == 0)
        result = process_open_known(pid, &modules, r->files, &r->shared, &process);
    if (result == -ESTALE)
        result = process_open(pid, r->files, &r->shared, &process);
    return result < 0 ? result : keep(r, process);
}

/* The same of one that has mapped more since. */
static int refresh(struct reading *r, struct namer_rest *rest, struct process *process, uint32_t count)
{
    struct modules modules;
    int result = count ? take_modules(rest, process->pid, count, &modules) : -ESTALE;
    if (count && result == 0)
        result = process_refresh_known(process, &modules, r->files);
    return result == -ESTALE ? process_refresh(process) : result;
}

static int take_last(struct reading *r, struct namer_rest *rest, struct process *process, uint32_t count)
{
    struct modules modules;
    int result = take_modules(rest, process->pid, count, &modules);
    if (result == 0) {
        native_take_modules(process->native, &modules);
        process_forget_names(&process->names);
        process_forget_moving(process);
        process->gone = true;
    }
    return result;
}

static bool is_full(const struct reading *r)
{
    return r->frames->frames.count >= NAMER_FRAMES_MAX - 4 * NAMER_STACK_MAX;
}

/* Frames of an earlier epoch are named anew. */
static int begin_epoch_when_full(struct reading *r)
{
    struct profile *fresh;
    if (!is_full(r))
        return 0;
    if (profile_new(&fresh) < 0)
        return -ENOMEM;
    profile_free(r->frames);
    r->frames = fresh;
    r->epoch++;
    r->said = 1;
    return 0;
}

static int name(struct reading *r, struct namer_rest *rest, struct process *process, uint64_t now_ns)
{
    struct sampler_sample sample;
    const void *head = namer_take(rest, sizeof(sample));
    if (!head)
        return -EPROTO;
    memcpy(&sample, head, sizeof(sample));
    size_t words = (size_t)sample.user_words + sample.python_words;
    const uint64_t *user = words <= SAMPLER_WORDS ? namer_take(rest, words * sizeof(*user)) : NULL;
    if (!user)
        return -EPROTO;
    process_name(process, r->frames, &sample, user, user + sample.user_words, now_ns, &r->stack);
    return 0;
}

static int walk(struct reading *r, struct namer_rest *rest, struct process *process, uint64_t now_ns,
                enum sampler_end *ret_end)
{
    struct sampler_sample sample;
    struct registers registers;
    struct stack_copy copy = {0};
    const void *head = namer_take(rest, sizeof(sample)), *at = namer_take(rest, sizeof(registers));
    if (!head || !at)
        return -EPROTO;
    memcpy(&sample, head, sizeof(sample));
    memcpy(&registers, at, sizeof(registers));
    copy.start = (registers.sp - SAMPLER_RED_ZONE) & ~(SAMPLER_COPY_STEP - 1ull);
    copy.bytes = rest->at;
    copy.size = rest->left;
    process_walk(process, r->frames, &sample, now_ns, &registers, &copy, &r->stack, ret_end);
    return 0;
}

static int name_stack(struct reading *r, struct namer_rest *rest, uint64_t now_ns)
{
    struct namer_item item;
    struct namer_stack stack = {0};
    enum sampler_end walked = END_COMPLETE;
    const void *head = namer_take(rest, sizeof(item)), *at = NULL;
    if (head) {
        memcpy(&item, head, sizeof(item));
        at = namer_take(rest, item.length);
    }
    if (!at)
        return -EPROTO;
    struct namer_rest own = {at, item.length};
    struct process *process = process_at(r, item.pid);
    int result = 0;
    r->stack.count = 0;
    r->stack.runtime = FRAME_NATIVE;
    r->stack.end = END_COMPLETE;
    r->stack.unsettled = false;
    if (process) {
        process->refresh_wanted = false;
        result = item.walks ? walk(r, &own, process, now_ns, &walked) : name(r, &own, process, now_ns);
        stack = (struct namer_stack){.count = (uint32_t)r->stack.count,
                                     .known = 1,
                                     .end = (uint8_t)r->stack.end,
                                     .walked = (uint8_t)walked,
                                     .runtime = (uint8_t)r->stack.runtime,
                                     .unsettled = r->stack.unsettled,
                                     .refresh_wanted = process->refresh_wanted};
    }
    text_add_bytes(&r->stacks, (const char *)&stack, sizeof(stack));
    text_add_bytes(&r->stacks, (const char *)r->stack.frames, stack.count * sizeof(*r->stack.frames));
    return result;
}

/* At least one; how many. */
static int name_stacks(struct reading *r, struct namer_rest *rest, const struct namer_ask *ask,
                       uint32_t *ret_stacks)
{
    /* CPU time: on a busy machine the time that passes says little of what was done. */
    uint64_t until_ns = clock_process_cpu_ns() + AWHILE_MS * NS_PER_MS;
    uint32_t done = 0;
    int result = begin_epoch_when_full(r);
    while (result == 0 && done < ask->count && done < NAMER_STACKS_MAX &&
           (!done || (r->stacks.length < STACKS_MAX && !is_full(r) && clock_process_cpu_ns() < until_ns))) {
        result = name_stack(r, rest, ask->now_ns);
        done++;
    }
    *ret_stacks = done;
    return result;
}

/* ---- what is answered ---- */

static void keep_rows(void *context, struct native_file *file)
{
    struct reading *r = context;
    tables_keep(&r->tables, file);
}

static void describe(struct reading *r, struct process *process)
{
    tables_settle(&r->tables); /* who copies rows has done so */
    process_describe(process, &r->tables, &r->description);
    if (!r->tables.full)
        return;
    r->tables.full = false;
    native_files_trim(r->files, 0);
    tables_settle(&r->tables);
    process_describe(process, &r->tables, &r->description);
    r->tables.full = false;
}

static uint16_t text_length(const char *text)
{
    return (uint16_t)strnlen(text, NAMER_TEXT_MAX);
}

static void add_frame(struct reading *r, uint32_t number, struct text *out)
{
    const struct profile_frame *f = &r->frames->frames.at[number];
    const char *texts[] = {profile_text(r->frames, f->name), profile_text(r->frames, f->file),
                           profile_text(r->frames, f->module)};
    const struct namer_frame frame = {.line = f->line,
                                      .name_length = text_length(texts[0]),
                                      .file_length = text_length(texts[1]),
                                      .module_length = text_length(texts[2]),
                                      .kind = f->kind};
    text_add_bytes(out, (const char *)&frame, sizeof(frame));
    text_add_bytes(out, texts[0], frame.name_length);
    text_add_bytes(out, texts[1], frame.file_length);
    text_add_bytes(out, texts[2], frame.module_length);
}

static int answer(struct reading *r, const struct process *process, struct namer_answer *head,
                  void **ret_result, size_t *ret_length)
{
    struct text out = {0};
    head->epoch = r->epoch;
    head->frames = (uint32_t)r->frames->frames.count;
    head->first = r->said;
    head->too_large = (uint32_t)native_files_too_large(r->files);
    if (process) {
        head->compiles = process_compiles(process);
        head->lacks_rows = process->lacks_rows;
        strncpy(head->called, process_runtime(process), sizeof(head->called) - 1);
    }
    text_add_bytes(&out, (const char *)head, sizeof(*head));
    text_add_bytes(&out, r->stacks.at, r->stacks.length);
    for (; r->said < head->frames && out.length < NEW_MAX; r->said++)
        add_frame(r, r->said, &out);
    head->count = r->said - head->first;
    if (head->described)
        text_add_bytes(&out, (const char *)&r->description,
                       offsetof(struct sampler_process, mappings) +
                           r->description.count * sizeof(*r->description.mappings));
    if (out.failed || r->stacks.failed || r->frames->failed) {
        text_done(&out);
        return -ENOMEM;
    }
    memcpy(out.at, head, sizeof(*head));
    *ret_result = out.at;
    *ret_length = out.length;
    return 0;
}

/* Is the language's runtime in the process read? */
static bool is_read(const struct process *process, unsigned language)
{
    enum profile_frame_kind kind = unread_languages[language].read_as;
    for (size_t i = 0; kind && RUNTIMES[i]; i++)
        if (process->runtimes[i].state && RUNTIMES[i]->language == kind)
            return true;
    return false;
}

static uint8_t unread_in(const struct process *process)
{
    uint8_t unread = 0;
    array_foreach (&native_modules(process->native)->list, m) {
        unsigned language = m->executable ? unread_language_of(m->path) : UNREAD_LANGUAGES;
        if (language < UNREAD_LANGUAGES && !is_read(process, language))
            unread |= (uint8_t)(1u << language);
    }
    return unread;
}

static int do_work(struct reading *r, pid_t pid, const struct namer_ask *ask, struct namer_rest *rest,
                   struct namer_answer *head)
{
    struct process *process = process_at(r, pid);
    int result = 0;
    switch (ask->verb) {
    case NAMER_OPEN:
    case NAMER_OPEN_ENDED:
        forget(r, pid);
        result = ask->verb == NAMER_OPEN_ENDED ? open_ended(r, rest, pid, ask->count)
                                               : open_process(r, rest, pid, ask->count);
        break;
    case NAMER_TIDY: /* short-lived processes lead to the same files again and again */
        native_files_visit(r->files, keep_rows, r);
        native_files_trim(r->files, ask->closed);
        malloc_trim(TRIM_KEEP);
        return 0;
    case NAMER_NAME:
        return name_stacks(r, rest, ask, &head->stacks);
    case NAMER_MORE:
        return 0;
    default:
        if (!process)
            return -ESRCH;
    }
    if (ask->verb == NAMER_REFRESH)
        result = refresh(r, rest, process, ask->count);
    else if (ask->verb == NAMER_TAKE)
        result = take_last(r, rest, process, ask->count);
    process = process_at(r, pid);
    head->described = result == 0 && !process->gone &&
                      (ask->verb == NAMER_OPEN || ask->verb == NAMER_REFRESH || ask->verb == NAMER_DESCRIBE);
    if (head->described) {
        describe(r, process);
        head->unread = unread_in(process);
    }
    return result;
}

static int work(void *context, pid_t pid, const void *bytes, size_t length, void **ret_result,
                size_t *ret_length, struct problem *problem)
{
    struct reading *r = context;
    struct namer_rest rest = {bytes, length};
    struct namer_ask ask;
    struct namer_answer head = {0};
    const void *at = namer_take(&rest, sizeof(ask));
    if (!at || !r->tables.rows)
        return -EPROTO;
    memcpy(&ask, at, sizeof(ask));
    if (ask.batch != r->batch)
        memory_pages_forget(&r->shared.pages);
    r->batch = ask.batch;
    text_clear(&r->stacks);
    int result = forget_dropped(r, &rest, ask.dropped);
    if (result == 0)
        result = do_work(r, pid, &ask, &rest, &head);
    return result < 0 ? result : answer(r, process_at(r, pid), &head, ret_result, ret_length);
}

const struct worker_kind namer_kind = {"sonde:names", begin, work, forget, share};
