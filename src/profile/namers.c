/* See namers.h. Whatever a namer answers is checked here. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/namers_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "broker/protocol.h"

enum {
    /* Reading the symbols of a large program takes seconds on a busy machine; servers of debug information
     * are waited for, too (symbol/debugfile.c). */
    ANSWER_MAX_S = 60,
    MEANWHILE_MS = 20,
    INTERRUPTED_MS = 500, /* who wants to end waits so long for an answer, and as long as its namer had */
    INTERRUPTED_MOST_MS = 2000, /* no CPU; for all of them together so long */
    SPARED_S = 10,              /* one that was asked so lately is not ended for another */
    IDLE_S = 60,                /* one that was not asked for so long is ended, where few samples are taken */
    TEXTS_MAX = 64 << 20        /* bytes of names that a namer may have kept for it */
};

int namers_new(const struct namer_options *options, struct tables *tables, struct namers **ret_namers)
{
    struct namers *r = calloc(1, sizeof(*r));
    if (!r || !(r->bytes = malloc(BROKER_BYTES_MAX))) {
        free(r);
        return -ENOMEM;
    }
    r->options = *options;
    r->tables = tables;
    r->idle_ns = IDLE_S * NS_PER_S;
    r->source = (struct namers_source){lender_worker, lender_worker_of_ended, lender_end_worker};
    *ret_namers = r;
    return 0;
}

void namers_take_from(struct namers *r, const struct namers_source *source)
{
    r->source = *source;
}

void namers_end_idle_after(struct namers *r, uint64_t idle_ns)
{
    r->idle_ns = idle_ns;
}

static size_t rows_bytes(const struct namers *r)
{
    return (size_t)r->options.row_limit * sizeof(struct unwind_row);
}

static void namer_free(struct namers *r, struct namer *namer)
{
    map_foreach (&namer->copied, slot) {
        struct copied_rows *rows = (struct copied_rows *)(uintptr_t)slot->value;
        tables_remove(r->tables, &rows->range);
        free(rows);
    }
    map_done(&namer->copied);
    array_done(&namer->frames);
    array_done(&namer->dropped);
    profile_free(namer->texts);
    if (namer->rows)
        munmap((void *)(uintptr_t)namer->rows, rows_bytes(r));
    if (namer->socket >= 0)
        close(namer->socket);
    free(namer);
}

void namers_free(struct namers *r)
{
    if (!r)
        return;
    array_foreach (&r->list, namer)
        namer_free(r, *namer);
    array_done(&r->list);
    text_done(&r->ask);
    text_done(&r->stacks);
    map_done(&r->asked);
    free(r->bytes);
    free(r);
}

void namers_look_ahead(struct namers *r, namers_next_fn *next, void (*meanwhile)(void *context),
                       void *context)
{
    r->next = next;
    r->meanwhile = meanwhile;
    r->context = context;
}

void namers_begin_batch(struct namers *r)
{
    r->batch++;
}

/* ---- namers come and go ---- */

struct namer *namers_numbered(const struct namers *r, uint32_t number)
{
    array_foreach (&r->list, namer)
        if ((*namer)->number == number)
            return *namer;
    return NULL;
}

/* It is of no use any more; its subjects are lost. failed: it died, or has broken the rules. */
static void end_namer(struct namers *r, struct namer *namer, bool failed)
{
    size_t kept = 0;
    array_foreach (&r->list, each)
        if (*each != namer)
            r->list.at[kept++] = *each;
    r->list.count = kept;
    r->ended_cpu_ns += namer->cpu_ns;
    r->ended_too_large += namer->too_large;
    r->source.end(namer->number, failed);
    namer_free(r, namer);
}

void namers_end_soon(struct namers *r)
{
    if (!r->ending_ns)
        r->ending_ns = clock_monotonic_ns();
}

static uint64_t ends_ns(const struct namers *r)
{
    return r->ending_ns + INTERRUPTED_MOST_MS * NS_PER_MS;
}

/* How long a namer was runnable without a CPU, so far; 0 where the kernel does not say. */
static uint64_t lacked_cpu_ns(const struct namer *namer)
{
    char path[32];
    _cleanup_(freep) char *text = NULL;
    size_t length;
    struct proc_runs runs;
    snprintf(path, sizeof(path), "/proc/%d/schedstat", namer->pid);
    bool known = file_read(path, 128, &text, &length) == 0 && proc_parse_runs(text, length, &runs);
    return known ? runs.waited_ns : 0;
}

/* A message comes, before the deadline; sooner, once the sampler is to end. */
static int await(struct namers *r, const struct namer *namer, uint64_t latest_ns)
{
    uint64_t ending_ns = 0, lacked_ns = 0; /* since when it is to hurry, and what it had lacked then */
    for (;;) {
        uint64_t deadline_ns = latest_ns;
        if (r->ending_ns && !ending_ns) {
            ending_ns = clock_monotonic_ns();
            lacked_ns = lacked_cpu_ns(namer);
        }
        if (ending_ns) {
            uint64_t lacked_since_ns = lacked_cpu_ns(namer) - lacked_ns;
            deadline_ns =
                MIN(MIN(latest_ns, ends_ns(r)), ending_ns + INTERRUPTED_MS * NS_PER_MS +
                                                    MIN(lacked_since_ns, INTERRUPTED_MOST_MS * NS_PER_MS));
        }
        uint64_t now_ns = clock_monotonic_ns(),
                 left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns) / NS_PER_MS + 1 : 0;
        struct pollfd wait = {.fd = namer->socket, .events = POLLIN};
        int ready = poll(&wait, 1, (int)MIN(left_ms, (uint64_t)MEANWHILE_MS));
        if (ready == 0 && !left_ms)
            return -ETIMEDOUT;
        if (r->meanwhile && now_ns - r->looked_ns >= MEANWHILE_MS * NS_PER_MS) {
            r->meanwhile(r->context); /* also where one short answer follows another */
            r->looked_ns = clock_monotonic_ns();
        }
        if (ready > 0)
            return 0;
        if (ready == 0)
            continue;
        if (errno != EINTR)
            return -errno;
        namers_end_soon(r);
    }
}

static bool is_over(const struct namers *r)
{
    return r->ending_ns && clock_monotonic_ns() >= ends_ns(r);
}

/* Memory that can neither shrink nor grow, for the rows; its first message says what keeps it in. */
static int meet(struct namers *r, struct namer *namer)
{
    struct broker_head head = {.verb = BROKER_GRANT};
    _cleanup_(file_closep) int memory = memfd_create("sonde-rows", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0 || ftruncate(memory, (off_t)rows_bytes(r)) < 0 ||
        fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -errno;
    void *rows = mmap(NULL, rows_bytes(r), PROT_READ, MAP_SHARED, memory, 0);
    if (rows == MAP_FAILED)
        return -errno;
    namer->rows = rows;
    int result = broker_send(namer->socket, head, &r->options, sizeof(r->options), memory);
    if (result == 0)
        result = await(r, namer, clock_monotonic_ns() + ANSWER_MAX_S * NS_PER_S);
    if (result == 0 && broker_receive(namer->socket, &head, r->bytes, BROKER_BYTES_MAX, NULL) < 0)
        result = -EPIPE;
    return result < 0 ? result : head.verb == BROKER_RESULT ? MIN(head.result, 0) : -EPROTO;
}

static int begin_namer(struct namers *r, const struct lent_worker *lent, struct namer **ret_namer)
{
    const struct known_frame none = {0};
    struct namer *namer = calloc(1, sizeof(*namer));
    if (!namer) {
        close(lent->socket);
        return -ENOMEM;
    }
    *namer = (struct namer){
        .number = lent->number, .pid = lent->pid, .socket = lent->socket, .owner = lent->owner};
    if (profile_new(&namer->texts) < 0 || array_add(&namer->frames, none) < 0 ||
        array_add(&r->list, namer) < 0) {
        r->source.end(namer->number, false);
        namer_free(r, namer);
        return -ENOMEM;
    }
    int result = meet(r, namer);
    if (result < 0)
        end_namer(r, namer, true);
    else
        *ret_namer = namer;
    return result;
}

/* Makes room for another one. */
static bool end_oldest(struct namers *r)
{
    struct namer *oldest = NULL;
    array_foreach (&r->list, namer)
        if (!oldest || (*namer)->used_ns < oldest->used_ns)
            oldest = *namer;
    if (!oldest || clock_monotonic_ns() - oldest->used_ns < SPARED_S * NS_PER_S)
        return false;
    end_namer(r, oldest, false);
    return true;
}

struct namer *namers_of(const struct namers *r, const struct domain_owner *owner)
{
    if (!owner->user_namespace || is_over(r))
        return NULL;
    array_foreach (&r->list, namer)
        if (memcmp(&(*namer)->owner, owner, sizeof(*owner)) == 0)
            return *namer;
    return NULL;
}

/* pid 0: of processes of that user that have ended. */
int namers_find(struct namers *r, pid_t pid, uid_t user, struct namer **ret_namer)
{
    struct lent_worker lent = {.socket = -1};
    if (is_over(r)) {
        r->too_late++;
        return -ETIMEDOUT;
    }
    array_foreach (&r->list, namer) /* no other process's worker: there is no need to ask which */
        if (!pid && (*namer)->of_ended && (*namer)->user == user) {
            *ret_namer = *namer;
            return 0;
        }
    int result = pid ? r->source.worker(pid, &lent) : r->source.worker_of_ended(user, &lent);
    if (result == -EUSERS && end_oldest(r))
        result = pid ? r->source.worker(pid, &lent) : r->source.worker_of_ended(user, &lent);
    if (result < 0)
        return result;
    if (lent.socket >= 0) {
        result = begin_namer(r, &lent, ret_namer);
        if (result == 0 && !pid) {
            (*ret_namer)->of_ended = true;
            (*ret_namer)->user = user;
        }
        return result;
    }
    *ret_namer = namers_numbered(r, lent.number);
    if (*ret_namer)
        return 0;
    r->source.end(lent.number, false); /* nothing is known of it here: the next one is asked for */
    return -EAGAIN;
}

void namers_prepare(struct namers *r, pid_t pid)
{
    struct namer *namer;
    (void)namers_find(r, pid, 0, &namer); /* if there is none, that shows when it is read */
}

/* ---- what a namer answers ---- */

/* Of code, that is: no frame that says something of processes, threads or the kernel. */
static bool is_kind_of_code(uint32_t kind)
{
    return kind < FRAME_KINDS && kind != FRAME_KERNEL && kind != FRAME_GROUP && kind != FRAME_TRUNCATED;
}

static uint32_t take_text(struct namer *namer, const uint8_t *at, size_t length)
{
    namer->text_bytes += length;
    return profile_string_n(namer->texts, (const char *)at, strnlen((const char *)at, length));
}

static int take_frame(struct namer *namer, struct namer_rest *rest)
{
    struct namer_frame frame;
    const uint8_t *head = namer_take(rest, sizeof(frame));
    if (!head)
        return -EPROTO;
    memcpy(&frame, head, sizeof(frame));
    const uint8_t *name = namer_take(rest, frame.name_length), *file = namer_take(rest, frame.file_length),
                  *module = namer_take(rest, frame.module_length);
    if (!name || !file || !module || !is_kind_of_code(frame.kind) || frame.name_length > NAMER_TEXT_MAX ||
        frame.file_length > NAMER_TEXT_MAX || frame.module_length > NAMER_TEXT_MAX)
        return -EPROTO;
    const struct known_frame known = {.name = take_text(namer, name, frame.name_length),
                                      .file = take_text(namer, file, frame.file_length),
                                      .module = take_text(namer, module, frame.module_length),
                                      .line = frame.line,
                                      .kind = frame.kind};
    return namer->text_bytes > TEXTS_MAX || namer->texts->failed ? -ENOMEM : array_add(&namer->frames, known);
}

static int begin_epoch(struct namer *namer, uint32_t epoch)
{
    struct profile *fresh;
    if (epoch == namer->epoch)
        return 0;
    if (profile_new(&fresh) < 0)
        return -ENOMEM;
    profile_free(namer->texts);
    namer->texts = fresh;
    namer->text_bytes = 0;
    namer->frames.count = 1;
    namer->epoch = epoch;
    return 0;
}

/* What begins there is skipped. False: it breaks the rules. */
static bool take_stack(struct namer_rest *rest)
{
    struct namer_stack stack;
    const uint8_t *head = namer_take(rest, sizeof(stack));
    if (!head)
        return false;
    memcpy(&stack, head, sizeof(stack));
    return stack.count <= NAMER_STACK_MAX && stack.end < END_REASONS && stack.end != END_KERNEL &&
           stack.walked < END_REASONS && stack.walked != END_KERNEL && is_kind_of_code(stack.runtime) &&
           namer_take(rest, stack.count * sizeof(uint32_t));
}

static int take_answer(struct namer *namer, const void *bytes, size_t length, struct answered *ret_answered)
{
    struct namer_rest rest = {bytes, length};
    struct namer_answer *head = &ret_answered->head;
    const uint8_t *at = namer_take(&rest, sizeof(*head));
    if (!at)
        return -EPROTO;
    memcpy(head, at, sizeof(*head));
    head->called[sizeof(head->called) - 1] = '\0';
    proc_make_printable(head->called);
    int r = begin_epoch(namer, head->epoch);
    if (r < 0)
        return r;
    if (head->stacks > NAMER_STACKS_MAX || head->first != namer->frames.count ||
        head->frames > NAMER_FRAMES_MAX || head->count > head->frames ||
        head->first + head->count > head->frames)
        return -EPROTO;
    ret_answered->stacks = rest.at;
    for (uint32_t i = 0; i < head->stacks; i++)
        if (!take_stack(&rest))
            return -EPROTO;
    ret_answered->stacks_length = (size_t)(rest.at - ret_answered->stacks);
    for (uint32_t i = 0; i < head->count && r == 0; i++)
        r = take_frame(namer, &rest);
    size_t described = head->described ? rest.left : 0;
    bool fits = described >= offsetof(struct sampler_process, mappings) &&
                described <= sizeof(struct sampler_process);
    ret_answered->description = fits ? namer_take(&rest, described) : NULL;
    ret_answered->described = described;
    return r < 0 ? r : rest.left || (head->described && !fits) ? -EPROTO : 0;
}

/* ---- asking ---- */

void namers_begin_ask(struct namers *r, const struct namer_ask *ask)
{
    text_clear(&r->ask);
    text_add_bytes(&r->ask, (const char *)ask, sizeof(*ask));
}

void namers_add(struct namers *r, const void *bytes, size_t length)
{
    text_add_bytes(&r->ask, bytes, length);
}

/* What the namer is to forget before it answers. */
static void add_dropped(struct namers *r, struct namer *namer)
{
    struct namer_ask ask;
    if (!namer->dropped.count)
        return;
    namers_add(r, namer->dropped.at, namer->dropped.count * sizeof(*namer->dropped.at));
    if (r->ask.failed)
        return;
    memcpy(&ask, r->ask.at, sizeof(ask));
    ask.dropped = (uint32_t)namer->dropped.count;
    memcpy(r->ask.at, &ask, sizeof(ask));
    array_clear(&namer->dropped);
}

/* What is too long for a message goes in a file of its own. */
static int send_ask(struct namers *r, const struct namer *namer, pid_t pid)
{
    const struct broker_head head = {.verb = BROKER_WORK, .target = pid};
    if (r->ask.length <= BROKER_BYTES_MAX)
        return broker_send(namer->socket, head, r->ask.at, r->ask.length, -1);
    _cleanup_(file_closep) int file = memfd_create("sonde-work", MFD_CLOEXEC);
    int result = file < 0 ? -errno : file_write_all(file, r->ask.at, r->ask.length);
    return result < 0 ? result : broker_send(namer->socket, head, NULL, 0, file);
}

static int end_for_breach(struct namers *r, struct namer *namer, int error)
{
    bool too_late = error == -ETIMEDOUT && r->ending_ns;
    r->failed += !too_late;
    r->too_late += too_late;
    end_namer(r, namer, !too_late);
    return -EPIPE;
}

int namers_send(struct namers *r, struct namer *namer, pid_t pid)
{
    add_dropped(r, namer);
    if (r->ask.failed)
        return -ENOMEM;
    namer->used_ns = clock_monotonic_ns();
    return send_ask(r, namer, pid) < 0 ? end_for_breach(r, namer, -EPIPE) : 0;
}

int namers_receive(struct namers *r, struct namer *namer, pid_t pid, struct answered *ret_answered)
{
    struct broker_head head = {0};
    int result = await(r, namer, clock_monotonic_ns() + ANSWER_MAX_S * NS_PER_S);
    ptrdiff_t n =
        result < 0 ? result : broker_receive(namer->socket, &head, r->bytes, BROKER_BYTES_MAX, NULL);
    if (n >= 0 && head.verb == BROKER_RESULT && head.target == pid) {
        namer->cpu_ns = MAX(namer->cpu_ns, head.start);
        if (head.result == -ENOMEM) { /* the next one begins with nothing */
            r->short_of_memory++;
            end_namer(r, namer, true);
            return -EPIPE;
        }
        if (head.result < 0)
            return head.result > -4096 && head.result != -EPIPE ? head.result : -EIO;
        result = take_answer(namer, r->bytes, (size_t)n, ret_answered);
        if (result == 0) {
            namer->too_large = ret_answered->head.too_large;
            return 0;
        }
    }
    return end_for_breach(r, namer, result);
}

int namers_exchange(struct namers *r, struct namer *namer, pid_t pid, struct answered *ret_answered)
{
    int result = namers_send(r, namer, pid);
    return result < 0 ? result : namers_receive(r, namer, pid, ret_answered);
}

/* The frames that did not fit into an answer: its stacks are kept meanwhile. */
int namers_take_more(struct namers *r, struct namer *namer, pid_t pid)
{
    struct answered more = {0};
    while (more.head.frames == 0 || namer->frames.count < more.head.frames) {
        size_t before = namer->frames.count;
        uint32_t epoch = namer->epoch;
        namers_begin_ask(r, &(struct namer_ask){.verb = NAMER_MORE, .batch = r->batch});
        int result = namers_exchange(r, namer, pid, &more);
        if (result < 0)
            return result;
        if (namer->frames.count == before || namer->epoch != epoch) {
            end_namer(r, namer, true);
            return -EPIPE;
        }
    }
    return 0;
}

/* ---- rows ---- */

/* The kernel's copy stays: of a program that is started again and again, it would be made anew each time. */
void namers_give_rows(struct namers *r, struct namer *namer, const uint32_t *serials, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t *at = map_get(&namer->copied, serials[i]);
        struct copied_rows *rows = at ? (struct copied_rows *)(uintptr_t)*at : NULL;
        if (rows && rows->users && --rows->users == 0)
            rows->unused_since = ++r->unused;
    }
}

bool namers_forget_oldest_rows(struct namers *r)
{
    struct copied_rows *oldest = NULL;
    struct namer *of = NULL;
    uint64_t serial = 0;
    array_foreach (&r->list, namer)
        map_foreach (&(*namer)->copied, slot) {
            struct copied_rows *rows = (struct copied_rows *)(uintptr_t)slot->value;
            if (rows->users || (oldest && rows->unused_since > oldest->unused_since))
                continue;
            oldest = rows;
            of = *namer;
            serial = slot->key;
        }
    if (!oldest)
        return false;
    tables_remove(r->tables, &oldest->range);
    free(oldest);
    map_remove(&of->copied, serial);
    return true;
}

/* The kernel's copy of the rows that a mapping leads to. NULL: there is no room. */
static struct copied_rows *copy_rows(struct namers *r, struct namer *namer, const struct sampler_mapping *m)
{
    bool added;
    uint32_t count = m->rows_high - m->rows_low;
    uint64_t *at = map_put(&namer->copied, m->serial, &added);
    if (!at)
        return NULL;
    struct copied_rows *rows = (struct copied_rows *)(uintptr_t)*at;
    if (!added)
        return rows->low == m->rows_low && rows->high == m->rows_high ? rows : NULL;
    rows = calloc(1, sizeof(*rows));
    if (rows && tables_add(r->tables, namer->rows + m->rows_low, count, m->code == CODE_ROWS, &rows->range)) {
        rows->low = m->rows_low;
        rows->high = m->rows_high;
        *at = (uintptr_t)rows;
        return rows;
    }
    free(rows);
    map_remove(&namer->copied, m->serial);
    return NULL;
}

/* A description as the namer has it becomes one for the kernel, which leads to rows of this process's own
 * alone. It is looked at here, in a copy that the namer cannot change. */
void namers_take_description(struct namers *r, struct subject *subject, const struct answered *answered,
                             struct sampler_process *ret_description)
{
    struct sampler_process *d = &r->description;
    ARRAY(uint32_t) serials = {0};
    subject->lacks_rows = answered->head.lacks_rows;
    memcpy(d, answered->description, answered->described);
    memset((uint8_t *)d + answered->described, 0, sizeof(*d) - answered->described);
    d->ignored = d->serial = 0;
    d->count = MIN(d->count, (uint32_t)SAMPLER_MAPPINGS);
    bool copies = r->options.lazy && !d->python.key_address && !d->ruby.module_address;
    for (uint32_t i = 0; i < d->count; i++) {
        struct sampler_mapping *m = &d->mappings[i];
        bool has_rows = m->rows_low && m->rows_low < m->rows_high && m->rows_high <= r->options.row_limit;
        const struct copied_rows *rows = NULL;
        if (has_rows) {
            struct copied_rows *copied = copy_rows(r, subject->namer, m);
            if (copied && array_add(&serials, m->serial) == 0) {
                copied->users++;
                rows = copied;
            }
            subject->lacks_rows |= !rows;
        }
        m->page_base = m->page_first = m->rows_low = m->rows_high = 0;
        if (rows) {
            m->rows_low = rows->range.rows_low;
            m->rows_high = rows->range.rows_high;
            m->page_base = rows->range.page_base;
            m->page_first = rows->range.page_first;
        } else if (m->code == CODE_ROWS) {
            m->code = has_rows && copies ? CODE_UNMET : CODE_POINTER;
        }
        m->serial = 0;
    }
    namers_give_rows(r, subject->namer, subject->rows.at, subject->rows.count);
    array_done(&subject->rows);
    subject->rows.at = serials.at;
    subject->rows.count = serials.count;
    subject->rows.capacity = serials.capacity;
    if (ret_description)
        *ret_description = *d;
}

/* ---- all of them ---- */

void namers_tidy(struct namers *r, uint32_t closed)
{
    uint64_t now_ns = clock_monotonic_ns();
    for (size_t i = r->list.count; i-- > 0;) {
        struct answered answered;
        uint64_t used_ns = r->list.at[i]->used_ns;
        struct namer *namer = r->list.at[i];
        if (r->options.lazy && now_ns - used_ns > r->idle_ns) {
            end_namer(r, namer, false);
            continue;
        }
        namers_begin_ask(r, &(struct namer_ask){.verb = NAMER_TIDY, .batch = r->batch, .closed = closed});
        if (namers_exchange(r, namer, 0, &answered) == 0)
            namer->used_ns = used_ns; /* that was no use of it */
    }
}

bool namers_has(const struct namers *r, pid_t pid)
{
    array_foreach (&r->list, namer)
        if ((*namer)->pid == pid)
            return true;
    return false;
}

static uint64_t memory_of(pid_t pid)
{
    char path[32];
    _cleanup_(freep) char *status = NULL;
    size_t length;
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    return file_read(path, 1 << 16, &status, &length) == 0 ? proc_parse_memory(status, length) : 0;
}

struct namers_counts namers_counts(const struct namers *r)
{
    struct namers_counts counts = {.namers = r->list.count,
                                   .too_large = r->ended_too_large,
                                   .short_of_memory = r->short_of_memory,
                                   .failed = r->failed,
                                   .too_late = r->too_late,
                                   .cpu_ns = r->ended_cpu_ns};
    array_foreach (&r->list, namer) {
        counts.too_large += (*namer)->too_large;
        counts.cpu_ns += (*namer)->cpu_ns;
        counts.bytes += memory_of((*namer)->pid);
    }
    return counts;
}
