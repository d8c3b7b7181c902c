/* See vertical.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/vertical.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/path_words.h"
#include "base/clock.h"
#include "base/json_text.h"
#include "base/macro.h"
#include "protocols/protocols.h"

enum { DEPTH_MAX = 32, OFFSET_COLUMNS = 10, TIME_COLUMNS = 9 };

/* ---- the tree as lines ---- */

/* A span of this request or of one that another service received for it. */
struct line {
    const struct request *request;
    const struct vspan *span;
    uint64_t start_ns, took_ns;
    uint32_t depth;
    bool open, shown, parent; /* parent: a line below stands under it */
    /* waited > 0: a line of its own for the time before the work of the span above began */
    uint8_t part; /* enum line_part */
};
enum line_part { PART_SPAN, PART_QUEUE, PART_WORK };

typedef ARRAY(struct line) line_array;

static uint64_t end_of(const struct request *request, const struct vspan *span)
{
    return span->end_ns ? span->end_ns : MAX(request->end_ns, span->start_ns);
}

static void add_request(line_array *lines, const struct request *request, uint32_t depth);

/* A pool operation's queue and run, a command's way and execution: the parts of its latency. */
static void add_parts(line_array *lines, const struct request *request, const struct vspan *span,
                      uint32_t depth)
{
    uint64_t unread_ns =
        span->child && span->child->start_ns > span->start_ns ? span->child->start_ns - span->start_ns : 0;
    if (unread_ns * 10 > end_of(request, span) - span->start_ns && unread_ns > NS_PER_MS)
        (void)array_add(lines,
                        (struct line){request, span, span->start_ns, unread_ns, depth, .part = PART_QUEUE});
    if ((span->kind != VSPAN_pool && span->kind != VSPAN_command) || !span->work_end_ns)
        return;
    uint64_t queued_ns = span->work_start_ns - MIN(span->work_start_ns, span->start_ns);
    if (queued_ns * 10 > end_of(request, span) - span->start_ns && queued_ns > 100 * NS_PER_US)
        (void)array_add(lines,
                        (struct line){request, span, span->start_ns, queued_ns, depth, .part = PART_QUEUE});
    (void)array_add(lines, (struct line){request, span, span->work_start_ns,
                                         span->work_end_ns - span->work_start_ns, depth, .part = PART_WORK});
}

/* Children in order of time. What continues an operation stands beside it, not below it: chains of awaits
 * would else run out of the screen. */
static void add_children(line_array *lines, const struct request *request, uint32_t parent, uint32_t depth)
{
    for (uint32_t i = 1; i < request->spans.count && depth < DEPTH_MAX; i++) {
        const struct vspan *span = &request->spans.at[i];
        bool starts_here = span->parent == parent;
        /* Operations started in a callback stand beside it when they outlive it. */
        uint32_t above = span->parent;
        while (above != VSPAN_NONE && above != 0 && request->spans.at[above].end_ns &&
               end_of(request, span) > request->spans.at[above].end_ns && span->kind >= VSPAN_function &&
               span->kind != VSPAN_sync)
            above = request->spans.at[above].parent;
        starts_here = above == parent;
        if (!starts_here)
            continue;
        uint64_t took_ns = end_of(request, span) - span->start_ns;
        (void)array_add(lines,
                        (struct line){request, span, span->start_ns, took_ns, depth, .open = !span->end_ns});
        add_parts(lines, request, span, depth + 1);
        if (span->child)
            add_request(lines, span->child, depth + 1);
        add_children(lines, request, i, depth + 1 + (span->kind == VSPAN_pool && span->work_end_ns));
    }
}

static void add_request(line_array *lines, const struct request *request, uint32_t depth)
{
    if (depth >= DEPTH_MAX)
        return;
    const struct vspan *root = &request->spans.at[0];
    (void)array_add(lines, (struct line){request, root, request->start_ns, request_latency_ns(request), depth,
                                         .open = request->state == REQUEST_UNFINISHED || !request->end_ns});
    add_children(lines, request, 0, depth + 1);
}

/* ---- which lines ---- */

static int longest_first(const void *x, const void *y)
{
    const struct line *a = *(struct line *const *)x, *b = *(struct line *const *)y;
    if (a->took_ns != b->took_ns)
        return a->took_ns > b->took_ns ? -1 : 1;
    return (a > b) - (a < b);
}

/* A short callback in which nothing of the request happened is not worth a line. */
static bool is_noise(const struct line *line, uint64_t total_ns)
{
    return line->span->kind == VSPAN_callback && !line->parent && !line->open &&
           line->took_ns * 200 < total_ns && line->took_ns < NS_PER_MS && !line->span->detail;
}

/* Nor is one more short wait in the same system call, as of a thread that helps with a collection. */
static bool is_repeated(const line_array *lines, const struct line *line)
{
    if (line->span->kind != VSPAN_syscall || line->parent || line->open)
        return false;
    array_foreach (lines, other)
        if (other->span->kind == VSPAN_syscall && other->request == line->request &&
            other->span->name == line->span->name && other->span->fd == line->span->fd &&
            (other->took_ns > line->took_ns || (other->took_ns == line->took_ns && other < line)))
            return true;
    return false;
}

/* Marks at most limit lines as shown: the longest, and what they stand under. */
static void choose(line_array *lines, unsigned limit)
{
    uint64_t total_ns = lines->count ? lines->at[0].took_ns : 0;
    for (size_t i = 0; i + 1 < lines->count; i++)
        lines->at[i].parent = lines->at[i + 1].depth > lines->at[i].depth;
    struct line **order = calloc(lines->count + 1, sizeof(*order));
    size_t count = 0;
    for (size_t i = 0; order && i < lines->count; i++)
        if (!limit || !(is_noise(&lines->at[i], total_ns) || is_repeated(lines, &lines->at[i])))
            order[count++] = &lines->at[i];
    if (!order || !limit || count <= limit) {
        for (size_t i = 0; i < count; i++)
            order[i]->shown = true;
        free(order);
        return;
    }
    qsort(order, count, sizeof(*order), longest_first);
    unsigned shown = 0;
    for (size_t i = 0; i < count && shown < limit; i++) {
        uint32_t depth = order[i]->depth + 1;
        for (struct line *line = order[i]; line >= lines->at && depth; line--)
            if (line->depth < depth) {
                depth = line->depth;
                shown += !line->shown;
                line->shown = true;
            }
    }
    free(order);
}

/* ---- words ---- */

static void add_time(struct text *to, uint64_t ns, int columns)
{
    char time[32];
    text_addf(to, "%*s", columns, clock_format_duration(ns, time, sizeof(time)));
}

static const char *how_known(const struct vspan *span)
{
    if (span->known == KNOWN_INFERRED)
        return " (inferred)";
    return span->known == KNOWN_AMBIGUOUS ? " (ambiguous)" : "";
}

static void add_root_words(struct text *to, const struct request *request)
{
    text_addf(to, "%s %s", request->method, request->path);
    if (request->status)
        text_addf(to, " %u", request->status);
    text_addf(to, "  %s", request->service);
    if (request->messages > 1)
        text_addf(to, ", %u messages at once", request->messages);
    if (request->stream)
        text_addf(to, ", HTTP/2 stream %u", request->stream);
    if (request->state == REQUEST_UNFINISHED || request->state == REQUEST_ABORTED)
        text_addf(to, ", %s", request_state_name(request->state));
}

/* Where the thread was not running, when that is worth a word: above a tenth of the time and 20 us. */
static void add_spent(struct text *to, const struct activity_times *spent, uint64_t took_ns)
{
    char time[32];
    if (spent->runnable_ns * 10 > took_ns && spent->runnable_ns > 20 * NS_PER_US)
        text_addf(to, ", waited %s for a CPU", clock_format_duration(spent->runnable_ns, time, sizeof(time)));
    if (spent->blocked_ns * 10 > took_ns && spent->blocked_ns > 20 * NS_PER_US)
        text_addf(to, ", blocked %s", clock_format_duration(spent->blocked_ns, time, sizeof(time)));
}

static void add_call_words(struct text *to, const struct vspan *span)
{
    text_add(to, span->name);
    if (span->fd >= 0)
        text_addf(to, " fd %d", span->fd);
    const char *error = span->result < 0 && span->result > -4096 ? strerrorname_np((int)-span->result) : NULL;
    if (error)
        text_addf(to, ": %s", error);
    else if (span->result == ACTIVITY_RESULT_UNKNOWN)
        text_add(to, ", off the CPU");
    else if (span->result >= 0 && span->result < 1ll << 40)
        text_addf(to, ": %lld", (long long)span->result);
}

static const char *store_name(const struct vspan *span)
{
    const char *name = command_protocol(span->wire)->server;
    return name ? name : "the store";
}

static void add_words(struct text *to, const struct line *line)
{
    const struct vspan *span = line->span;
    if (line->part == PART_QUEUE && span->child) {
        text_addf(to, "before %s reads it", span->child->service);
        return;
    }
    if (line->part == PART_QUEUE) {
        if (span->kind == VSPAN_pool)
            text_add(to, "waits for a pool thread");
        else
            text_addf(to, "on its way, queued in %s", store_name(span));
        return;
    }
    if (line->part == PART_WORK) {
        if (span->kind == VSPAN_pool)
            text_addf(to, "runs on pool thread %" PRId64, span->peer_tid);
        else
            text_addf(to, "executes in %s, process %" PRId64, store_name(span), span->peer_pid);
        if (span->timed)
            add_spent(to, &span->spent, line->took_ns);
        return;
    }
    if (span->kind == VSPAN_request) {
        add_root_words(to, line->request);
        return;
    }
    if (span->kind == VSPAN_syscall) {
        add_call_words(to, span);
        if (span->timed)
            add_spent(to, &span->spent, line->took_ns);
        return;
    }
    text_add(to, vspan_prefix(span));
    text_add(to, span->name ? span->name : "?");
    if (span->kind == VSPAN_sync && span->times > 1)
        text_addf(to, ", %u in a row, synchronous", span->times);
    else if (span->kind == VSPAN_sync)
        text_add(to, ", synchronous");
    if (span->detail && span->kind != VSPAN_command) {
        text_add(to, span->kind == VSPAN_callback ? ": " : span->kind == VSPAN_function ? ", " : " ");
        path_add_name(to, span->detail);
    }
    if (span->kind == VSPAN_ipc && span->peer)
        text_addf(to, ": %s", span->peer);
    if (span->kind == VSPAN_encode && span->argument_bytes)
        text_addf(to, ", %llu bytes", (unsigned long long)span->argument_bytes);
    if (span->gc_ns) {
        char time[32];
        text_addf(to, ", gc %s", clock_format_duration(span->gc_ns, time, sizeof(time)));
    }
    if (span->unusual > 0)
        text_addf(to, ", %.0f times the usual", (double)span->unusual);
    if (span->timed && span->kind != VSPAN_pool)
        add_spent(to, &span->spent, line->took_ns);
    if (line->open)
        text_add(to, span->kind == VSPAN_callback   ? ", had not returned"
                     : span->kind == VSPAN_function ? ", its promise was not settled"
                                                    : ", no answer");
    text_add(to, how_known(span));
}

void vertical_words(struct text *to, const struct request *request, const struct vspan *span)
{
    uint64_t end_ns = end_of(request, span);
    struct line line = {.request = request,
                        .span = span,
                        .start_ns = span->start_ns,
                        .took_ns = end_ns - MIN(span->start_ns, end_ns),
                        .open = !span->end_ns};
    add_words(to, &line);
}

/* What was sampled on the thread that worked in a span while it did; nothing for spans in which no thread is
 * known to have worked for the request alone. */
static void find_ran(const struct profile *samples, const struct request *request, const struct vspan *span,
                     struct ran *ret_ran)
{
    *ret_ran = (struct ran){0};
    if (span->kind == VSPAN_callback)
        ran_find(samples, request->pid, request->tid, span->start_ns, end_of(request, span), ret_ran);
    else if (span->kind == VSPAN_pool && span->work_end_ns)
        ran_find(samples, request->pid, span->peer_tid, span->work_start_ns, span->work_end_ns, ret_ran);
    else if (span->kind == VSPAN_command && span->work_end_ns)
        ran_find(samples, span->peer_pid, span->peer_tid, span->work_start_ns, span->work_end_ns, ret_ran);
}

static unsigned count_columns(const char *text, size_t length)
{
    unsigned n = 0;
    for (size_t i = 0; i < length; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static void print_line(struct text *to, const struct line *line, uint64_t origin_ns,
                       const struct prose_style *style, unsigned width)
{
    const char *colour[] = {style->bold, style->yellow, style->red, style->cyan, style->green, style->dim};
    enum layer layer = line->span->layer;
    text_add(to, style->dim);
    add_time(to, line->start_ns > origin_ns ? line->start_ns - origin_ns : 0, OFFSET_COLUMNS);
    text_add(to, style->none);
    add_time(to, line->took_ns, TIME_COLUMNS + 2);
    text_addf(to, "  %s%-6s%s %*s", colour[layer % LAYER_COUNT], layer_name(line->span), style->none,
              (int)line->depth * 2, "");
    unsigned column = OFFSET_COLUMNS + TIME_COLUMNS + 2 + 2 + 7 + line->depth * 2;
    struct text words = {0};
    add_words(&words, line);
    if (column + count_columns(text_get(&words), words.length) > width && width > column + 20)
        prose_wrap(to, text_get(&words), column, column + 2, width);
    else
        text_add(to, text_get(&words));
    text_done(&words);
    text_add(to, "\n");
}

static void print_words(struct text *to, const struct text *words, unsigned column,
                        const struct prose_style *style, unsigned width)
{
    text_addf(to, "%s%*s", style->dim, (int)column, "");
    if (column + count_columns(text_get(words), words->length) > width && width > column + 20)
        prose_wrap(to, text_get(words), column, column + 2, width);
    else
        text_add(to, text_get(words));
    text_addf(to, "%s\n", style->none);
}

/* "functions: a 61 %, b 20 % of 33 samples" and "called from: c 100 %, d 40 %", below the line of the span at
 * work. */
static void print_ran(struct text *to, const struct line *line, const struct profile *samples,
                      const struct prose_style *style, unsigned width)
{
    enum { SHOWN = 5 };
    struct ran ran;
    if (line->part != (line->span->kind == VSPAN_callback ? PART_SPAN : PART_WORK))
        return;
    find_ran(samples, line->request, line->span, &ran);
    if (ran.weight) {
        unsigned column = OFFSET_COLUMNS + TIME_COLUMNS + 2 + 2 + 7 + (line->depth + 1) * 2;
        struct text words = {0};
        for (size_t i = 0; i < MIN(ran.functions.count, (size_t)SHOWN); i++)
            text_addf(&words, "%s %s %.0f %%", i ? "," : "functions:", ran.functions.at[i].name,
                      100.0 * (double)ran.functions.at[i].weight / (double)ran.weight);
        text_addf(&words, " of %llu sample%s", (unsigned long long)ran.count, ran.count == 1 ? "" : "s");
        print_words(to, &words, column, style, width);
        text_clear(&words);
        for (size_t i = 0; i < MIN(ran.callers.count, (size_t)SHOWN); i++) {
            const struct ran_function *f = &ran.callers.at[i];
            if (10 * f->weight >= ran.weight)
                text_addf(&words, "%s %s %.0f %%", i ? "," : "called from:", f->name,
                          100.0 * (double)f->weight / (double)ran.weight);
        }
        if (words.length)
            print_words(to, &words, column, style, width);
        text_done(&words);
    }
    ran_done(&ran);
}

/* ---- notes below the tree ---- */

/* Below the spans, in the column of their names, wrapped at `width` columns. Takes `words`. */
static void print_note(struct text *to, struct text *words, const struct prose_style *style, unsigned width)
{
    text_addf(to, "%s%*s  ", style->dim, OFFSET_COLUMNS + TIME_COLUMNS + 2, "");
    prose_wrap(to, text_get(words), OFFSET_COLUMNS + TIME_COLUMNS + 4, OFFSET_COLUMNS + TIME_COLUMNS + 6,
               width);
    text_addf(to, "%s\n", style->none);
    text_done(words);
}

void vertical_print(struct text *to, const struct request *request, const struct profile *samples,
                    const struct prose_style *style, unsigned width, unsigned limit)
{
    line_array lines = {0};
    add_request(&lines, request, 0);
    choose(&lines, limit);
    text_addf(to, "%s%*s%*s  %-6s %s%s\n", style->dim, OFFSET_COLUMNS, "after", TIME_COLUMNS + 2, "took",
              "layer", "what", style->none);
    size_t hidden = 0;
    array_foreach (&lines, line) {
        if (line->shown) {
            print_line(to, line, request->start_ns, style, width);
            print_ran(to, line, samples, style, width);
        }
        hidden += !line->shown;
    }
    if (hidden)
        text_addf(to, "%s%*s  %zu shorter %s not shown%s\n", style->dim, OFFSET_COLUMNS + TIME_COLUMNS + 2,
                  "", hidden, hidden == 1 ? "span is" : "spans are", style->none);
    struct text path = {0};
    path_words(&path, request);
    if (path.length)
        print_note(to, &path, style, width);
    if (request->timed) {
        char ran[32], waited[32], blocked[32];
        struct text words = {0};
        text_addf(&words, "in that time its event loop's thread ran %s, waited %s for a CPU, was blocked %s",
                  clock_format_duration(request->spent.running_ns, ran, sizeof(ran)),
                  clock_format_duration(request->spent.runnable_ns, waited, sizeof(waited)),
                  clock_format_duration(request->spent.blocked_ns, blocked, sizeof(blocked)));
        print_note(to, &words, style, width);
    }
    if (request->ambiguous) {
        struct text words = {0};
        text_addf(&words, "not shown: what callbacks started that served other requests too (%u)",
                  request->ambiguous);
        print_note(to, &words, style, width);
    }
    if (request->spans_left_out) {
        struct text words = {0};
        text_addf(&words, "%u spans beyond the %u kept of a request", request->spans_left_out,
                  REQUEST_SPANS_MAX);
        print_note(to, &words, style, width);
    }
    array_done(&lines);
}

/* ---- JSON ---- */

static void set_text(json_t *object, const char *key, const char *text)
{
    if (text)
        json_object_set_new(object, key, json_text(text));
}

static void set_number(json_t *object, const char *key, uint64_t number)
{
    if (number)
        json_object_set_new(object, key, json_integer((json_int_t)number));
}

static void set_state(json_t *object, const char *name, bool on_path, uint64_t from_ns, uint64_t to_ns)
{
    json_object_set_new(object, name,
                        on_path ? json_integer((json_int_t)(to_ns > from_ns ? to_ns - from_ns : 0))
                                : json_null());
}

/* The states of an atomic operation (Node Compass 3.3) in ns; null: not applicable, it is not on its path, or
 * has no duration (S0, the call; S2, taken by the loop). */
static json_t *states_json(const struct request *request, const struct vspan *span)
{
    bool pool = span->kind == VSPAN_pool, worked = span->work_end_ns != 0;
    bool system = span->kind == VSPAN_ipc || span->kind == VSPAN_http || span->kind == VSPAN_command ||
                  span->kind == VSPAN_other;
    if (!pool && !system && span->kind != VSPAN_callback)
        return NULL;
    uint64_t end_ns = end_of(request, span);
    json_t *object = json_object();
    set_state(object, "S0", false, 0, 0);
    set_state(object, "S1", system && worked, span->start_ns, span->work_start_ns);
    set_state(object, "S2", false, 0, 0);
    set_state(object, "S3", span->kind == VSPAN_callback, span->start_ns, end_ns);
    set_state(object, "S4", pool, span->start_ns, worked ? span->work_start_ns : end_ns);
    set_state(object, "S5", pool && worked, span->work_start_ns, span->work_end_ns);
    set_state(object, "S6", system, worked ? span->work_start_ns : span->start_ns,
              worked ? span->work_end_ns : end_ns);
    set_state(object, "S7", (pool || system) && worked, span->work_end_ns, end_ns);
    return object;
}

static void set_spent(json_t *object, const struct activity_times *spent)
{
    json_object_set_new(object, "running_ns", json_integer((json_int_t)spent->running_ns));
    json_object_set_new(object, "runnable_ns", json_integer((json_int_t)spent->runnable_ns));
    json_object_set_new(object, "blocked_ns", json_integer((json_int_t)spent->blocked_ns));
    set_number(object, "held_ns", MIN(spent->held_ns, spent->blocked_ns));
}

/* Each thread that worked for the request: the loop's all the time, the pool's in its operations. */
static json_t *threads_json(const struct request *request)
{
    json_t *threads = json_array();
    if (request->timed) {
        json_t *loop = json_pack("{s:I, s:s}", "thread", (json_int_t)request->tid, "role", "event loop");
        set_spent(loop, &request->spent);
        json_array_append_new(threads, loop);
    }
    for (uint32_t i = 1; i < request->spans.count; i++) {
        const struct vspan *span = &request->spans.at[i];
        bool known = false;
        if (span->kind != VSPAN_pool || !span->timed)
            continue;
        for (uint32_t k = 1; k < i; k++)
            known |= request->spans.at[k].kind == VSPAN_pool && request->spans.at[k].timed &&
                     request->spans.at[k].peer_tid == span->peer_tid;
        struct activity_times sum = {0};
        for (uint32_t k = i; k < request->spans.count && !known; k++) {
            const struct vspan *other = &request->spans.at[k];
            if (other->kind != VSPAN_pool || !other->timed || other->peer_tid != span->peer_tid)
                continue;
            sum.running_ns += other->spent.running_ns;
            sum.runnable_ns += other->spent.runnable_ns;
            sum.held_ns += other->spent.held_ns;
            sum.blocked_ns += other->spent.blocked_ns;
        }
        if (known)
            continue;
        json_t *pool = json_pack("{s:I, s:s}", "thread", (json_int_t)span->peer_tid, "role", "pool");
        set_spent(pool, &sum);
        json_array_append_new(threads, pool);
    }
    return threads;
}

static json_t *ran_json(const ran_functions *list)
{
    json_t *array = json_array();
    array_foreach (list, f) {
        json_t *function = json_pack("{s:I, s:I}", "samples_count", (json_int_t)f->count, "sampled_ns",
                                     (json_int_t)f->weight);
        set_text(function, "name", f->name);
        json_array_append_new(array, function);
    }
    return array;
}

static void set_ran(json_t *object, const struct request *request, const struct vspan *span,
                    const struct profile *samples)
{
    struct ran ran;
    find_ran(samples, request, span, &ran);
    if (ran.count) {
        json_object_set_new(object, "samples_count", json_integer((json_int_t)ran.count));
        json_object_set_new(object, "functions", ran_json(&ran.functions));
        json_object_set_new(object, "callers", ran_json(&ran.callers));
    }
    ran_done(&ran);
}

static json_t *span_json(const struct request *request, const struct vspan *span,
                         const struct profile *samples)
{
    static const char *const KINDS[] = {
        [VSPAN_request] = "request", [VSPAN_callback] = "callback", [VSPAN_gc] = "gc",
        [VSPAN_regexp] = "regexp",   [VSPAN_pool] = "pool",         [VSPAN_sync] = "sync",
        [VSPAN_http] = "call",       [VSPAN_command] = "command",   [VSPAN_other] = "exchange",
        [VSPAN_measure] = "measure", [VSPAN_encode] = "encode",     [VSPAN_ipc] = "message",
        [VSPAN_syscall] = "syscall", [VSPAN_function] = "function"};
    json_t *object = json_pack("{s:s, s:s, s:s, s:I, s:s}", "layer", layer_name(span), "kind",
                               KINDS[span->kind], "name", span->name ? span->name : "?", "start_ns",
                               (json_int_t)span->start_ns, "known", known_name(span->known));
    if (!object)
        return NULL;
    json_object_set_new(object, "end_ns",
                        span->end_ns ? json_integer((json_int_t)span->end_ns) : json_null());
    json_object_set_new(object, "duration_ns",
                        json_integer((json_int_t)(end_of(request, span) - span->start_ns)));
    json_object_set_new(object, "parent",
                        span->parent == VSPAN_NONE ? json_null() : json_integer((json_int_t)span->parent));
    if (span->cause != VSPAN_NONE)
        json_object_set_new(object, "continues", json_integer((json_int_t)span->cause));
    set_text(object, "detail", span->detail);
    set_text(object, "statement", span->statement);
    if (span->work_end_ns) {
        set_number(object, "work_start_ns", span->work_start_ns);
        set_number(object, "work_end_ns", span->work_end_ns);
        json_object_set_new(object, "work_ns",
                            json_integer((json_int_t)(span->work_end_ns - span->work_start_ns)));
    }
    set_number(object, span->kind == VSPAN_encode ? "bytes" : "argument_bytes", span->argument_bytes);
    set_number(object, "gc_ns", span->gc_ns);
    set_text(object, "peer", span->peer);
    if (span->unusual > 0)
        json_object_set_new(object, "times_usual", json_real((double)span->unusual));
    json_t *states = states_json(request, span);
    if (states)
        json_object_set_new(object, "states", states);
    if (span->timed)
        set_spent(object, &span->spent);
    if (span->kind == VSPAN_syscall) {
        if (span->result != ACTIVITY_RESULT_UNKNOWN)
            json_object_set_new(object, "result", json_integer((json_int_t)span->result));
        if (span->fd >= 0)
            json_object_set_new(object, "fd", json_integer(span->fd));
    }
    set_number(object, "calls_left_out_count", span->calls_left_out);
    set_number(object, "sequence", span->sequence);
    set_number(object, "client_id", span->client_id);
    set_number(object, "written_bytes", span->written_bytes);
    set_number(object, "write_messages", span->write_messages);
    set_number(object, "peer_process", (uint64_t)MAX(span->peer_pid, 0));
    set_number(object, "peer_thread", (uint64_t)MAX(span->peer_tid, 0));
    set_ran(object, request, span, samples);
    if (span->shared)
        json_object_set_new(object, "shared", json_true());
    if (span->child)
        json_object_set_new(object, "request", vertical_json(span->child, samples));
    return object;
}

static void add_times(struct activity_times *sum, const struct path_step *step)
{
    if (!step->timed)
        return;
    sum->running_ns += step->spent.running_ns;
    sum->runnable_ns += step->spent.runnable_ns;
    sum->blocked_ns += step->spent.blocked_ns;
    sum->held_ns += step->spent.held_ns;
}

/* T and L as in equations 5 and 6 of the paper; the rest of L is waiting. */
static json_t *path_json(const struct request *request)
{
    uint64_t works_ns = 0;
    struct activity_times spent = {0};
    json_t *steps = json_array();
    array_foreach (&request->path_steps, step) {
        add_times(&spent, step);
        works_ns += path_work_ns(step);
        json_t *object =
            json_pack("{s:s, s:I, s:I}", "what", path_class_name(step->class), "start_ns",
                      (json_int_t)step->start_ns, "duration_ns", (json_int_t)(step->end_ns - step->start_ns));
        set_text(object, "name", step->name);
        set_text(object, "service", step->service);
        set_text(object, "peer", path_step_peer(request, step));
        if (step->timed)
            set_spent(object, &step->spent);
        uint64_t loop_ns, no_cpu_ns = path_step_no_cpu(step, &loop_ns);
        set_number(object, "no_cpu_ns", no_cpu_ns);
        set_number(object, "other_work_ns", loop_ns);
        if (step->span != VSPAN_NONE)
            json_object_set_new(object, "span", json_integer((json_int_t)step->span));
        json_array_append_new(steps, object);
    }
    const struct path_step *most = path_dominant(request);
    json_t *object = json_pack(
        "{s:I, s:I, s:I}", "t_ns", (json_int_t)works_ns, "l_ns", (json_int_t)request_latency_ns(request),
        "waits_ns", (json_int_t)(path_followed_ns(request) - MIN(works_ns, path_followed_ns(request))));
    if (most) {
        set_text(object, "dominant", path_class_name(most->class));
        set_text(object, "dominant_name", most->name);
        set_text(object, "dominant_service", most->service);
    }
    if (spent.running_ns + spent.runnable_ns + spent.blocked_ns)
        set_spent(object, &spent);
    json_object_set_new(object, "steps", steps);
    return object;
}

/* The ids of the W3C trace context that it came with, as other tracers write them. */
static void set_trace(json_t *object, const struct request *request)
{
    char trace[33], parent[17];
    if (!request->trace_high && !request->trace_low)
        return;
    snprintf(trace, sizeof(trace), "%016llx%016llx", (unsigned long long)request->trace_high,
             (unsigned long long)request->trace_low);
    snprintf(parent, sizeof(parent), "%016llx", (unsigned long long)request->trace_parent);
    set_text(object, "trace_id", trace);
    set_text(object, "parent_id", parent);
}

json_t *vertical_json(const struct request *request, const struct profile *samples)
{
    json_t *object = json_pack(
        "{s:s, s:s, s:I, s:I, s:s, s:o, s:s, s:I, s:s, s:I, s:I}", "id", request->name, "service",
        request->service, "process", (json_int_t)request->pid, "thread", (json_int_t)request->tid, "method",
        request->method, "path", json_text(request->path), "route", request->route, "status",
        (json_int_t)request->status, "state", request_state_name(request->state), "start_ns",
        (json_int_t)request->start_ns, "latency_ns", (json_int_t)request_latency_ns(request));
    if (!object)
        return NULL;
    set_number(object, "response_ns", request->response_ns);
    set_number(object, "http2_stream", request->stream);
    set_number(object, "grpc_status", request->grpc ? request->grpc - 1u : 0);
    set_number(object, "messages_count", request->messages);
    set_trace(object, request);
    set_number(object, "ambiguous_count", request->ambiguous);
    set_number(object, "pool_wait_ns", request->pool_wait_ns);
    set_number(object, "blocked_ns", request->blocked_ns);
    set_number(object, "gc_ns", request->gc_ns);
    set_number(object, "encode_ns", request->encode_ns);
    set_number(object, "spans_left_out_count", request->spans_left_out);
    if (request->path_steps.count)
        json_object_set_new(object, "critical_path", path_json(request));
    json_t *spans = json_array();
    array_foreach (&request->spans, span)
        json_array_append_new(spans, span_json(request, span, samples));
    json_object_set_new(object, "spans", spans);
    json_object_set_new(object, "threads", threads_json(request));
    return object;
}
