/* See path.h. The walk is that of CRISP (Zhang et al., USENIX ATC 2022, section 4): from a span's end
 * backwards to the child that ended last, then to the one that ended last before that one began, and so on;
 * each is walked in the same way within the part of it that lies in its parent. Siblings that overlap by
 * little are one after another all the same: clocks and instrumentation are not that exact. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/path.h"

#include <errno.h>

#include "base/macro.h"

/* Siblings overlapping by at most a tenth of the shorter one count as one after the other. */
#define OVERLAP_SHARE 10

static int reserve(struct path_scratch *s, size_t count)
{
    if (count + 1 <= s->capacity)
        return 0;
    size_t capacity = (count + 1) * 2;
    path_scratch_done(s);
    s->first_child = malloc(capacity * sizeof(*s->first_child));
    s->children = malloc(capacity * sizeof(*s->children));
    s->chosen = malloc(capacity * sizeof(*s->chosen));
    s->window = malloc(capacity * 2 * sizeof(*s->window));
    if (!s->first_child || !s->children || !s->chosen || !s->window)
        return -ENOMEM;
    s->capacity = capacity;
    return 0;
}

void path_scratch_done(struct path_scratch *s)
{
    free(s->first_child);
    free(s->children);
    free(s->chosen);
    free(s->window);
    *s = (struct path_scratch){0};
}

/* children[first_child[i] .. first_child[i + 1]) are those of span i, in order of start. */
static void index_children(const struct trace *trace, struct path_scratch *s)
{
    size_t n = trace->count;
    memset(s->first_child, 0, (n + 1) * sizeof(*s->first_child));
    for (size_t i = 0; i < n; i++)
        if (trace->parts[i].up != PART_NONE)
            s->first_child[trace->parts[i].up + 1]++;
    for (size_t i = 0; i < n; i++)
        s->first_child[i + 1] += s->first_child[i];
    for (size_t i = 0; i < n; i++)
        s->chosen[i] = s->first_child[i];
    for (uint32_t i = 0; i < n; i++)
        if (trace->parts[i].up != PART_NONE)
            s->children[s->chosen[trace->parts[i].up]++] = i;
}

/* Own time and concurrency; children are in order of start. */
static void sum_children(const struct trace *trace, const struct path_scratch *s, uint32_t i,
                         struct path_time *time)
{
    const struct part *part = &trace->parts[i];
    uint64_t total = 0, busy = 0, covered_to = part->start_ns;
    for (uint32_t c = s->first_child[i]; c < s->first_child[i + 1]; c++) {
        const struct part *child = &trace->parts[s->children[c]];
        uint64_t start = MAX(child->start_ns, part->start_ns), end = MIN(child->end_ns, part->end_ns);
        if (end <= start)
            continue;
        total += end - start;
        if (end > covered_to) {
            busy += end - MAX(start, covered_to);
            covered_to = end;
        }
    }
    time->children_total_ns = total;
    time->children_busy_ns = busy;
    time->self_ns = part->end_ns - part->start_ns - busy;
}

/* A client's span: said so, or of unknown kind within its own service with just one child, in another
 * service. */
static void find_callee(const struct trace *trace, const struct path_scratch *s, uint32_t i,
                        struct path_time *time)
{
    const struct part *part = &trace->parts[i];
    time->callee = PART_NONE;
    time->is_call = part->kind == SPAN_KIND_CLIENT;
    if (s->first_child[i + 1] - s->first_child[i] != 1)
        return;
    uint32_t child = s->children[s->first_child[i]];
    if (trace->parts[child].service == part->service)
        return;
    bool inner = part->kind == SPAN_KIND_UNSPECIFIED && part->up != PART_NONE &&
                 trace->parts[part->up].service == part->service;
    if (!time->is_call && !inner)
        return;
    time->is_call = true;
    time->callee = child;
}

static bool ends_before(const struct part *earlier, const struct part *later)
{
    if (earlier->end_ns <= later->start_ns)
        return true;
    uint64_t a = earlier->end_ns - earlier->start_ns, b = later->end_ns - later->start_ns;
    return earlier->start_ns < later->start_ns &&
           earlier->end_ns - later->start_ns <= MIN(a, b) / OVERLAP_SHARE;
}

/* The latest end first; of two that end together the longer one. Few children: insertion sort. */
static void sort_by_end(const struct trace *trace, uint64_t clip_ns, uint32_t *at, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0; j--) {
            const struct part *a = &trace->parts[at[j - 1]], *b = &trace->parts[at[j]];
            uint64_t a_end = MIN(a->end_ns, clip_ns), b_end = MIN(b->end_ns, clip_ns);
            if (a_end > b_end || (a_end == b_end && a->start_ns <= b->start_ns))
                break;
            uint32_t swap = at[j];
            at[j] = at[j - 1];
            at[j - 1] = swap;
        }
}

struct ends {
    const struct trace *trace;
    uint64_t clip_ns;
};

static int compare_ends(const void *x, const void *y, void *context)
{
    const struct ends *ends = context;
    const struct part *a = &ends->trace->parts[*(const uint32_t *)x];
    const struct part *b = &ends->trace->parts[*(const uint32_t *)y];
    uint64_t a_end = MIN(a->end_ns, ends->clip_ns), b_end = MIN(b->end_ns, ends->clip_ns);
    if (a_end != b_end)
        return a_end > b_end ? -1 : 1;
    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

/* roles: NULL when all spans count. */
static size_t choose(const struct trace *trace, const struct path_scratch *s, uint32_t i,
                     const uint8_t *roles)
{
    uint64_t from = s->window[2 * i], to = s->window[2 * i + 1];
    size_t n = 0, kept = 0;
    for (uint32_t c = s->first_child[i]; c < s->first_child[i + 1]; c++) {
        const struct part *child = &trace->parts[s->children[c]];
        if (roles && roles[s->children[c]] == PATH_OUTSIDE)
            continue;
        if (child->start_ns < to && child->end_ns > from)
            s->chosen[n++] = s->children[c];
    }
    if (n <= 32) {
        sort_by_end(trace, to, s->chosen, n);
    } else {
        qsort_r(s->chosen, n, sizeof(*s->chosen), compare_ends, &(struct ends){trace, to});
    }
    for (size_t c = 0; c < n; c++)
        if (kept == 0 || ends_before(&trace->parts[s->chosen[c]], &trace->parts[s->chosen[kept - 1]]))
            s->chosen[kept++] = s->chosen[c];
    return kept;
}

/* Gives the chosen children their windows, and the span what is left of its own. */
static void walk(const struct trace *trace, const struct path_scratch *s, uint32_t i, const uint8_t *roles,
                 struct path_time *times)
{
    uint64_t from = s->window[2 * i], to = s->window[2 * i + 1], sum = 0;
    size_t kept = roles && roles[i] == PATH_LEAF ? 0 : choose(trace, s, i, roles);
    for (int exact = 0; exact < 2; exact++) {
        uint64_t limit = to;
        sum = 0;
        for (size_t c = 0; c < kept; c++) {
            uint32_t child = s->chosen[c];
            uint64_t start = MAX(trace->parts[child].start_ns, from);
            uint64_t end = MIN(trace->parts[child].end_ns, exact ? limit : to);
            s->window[2 * child] = start;
            s->window[2 * child + 1] = MAX(start, end);
            limit = MIN(limit, start);
            sum += s->window[2 * child + 1] - start;
        }
        if (sum <= to - from)
            break; /* else the small overlaps are more than the span's own time: cut them */
    }
    for (size_t c = 0; c < kept; c++)
        times[s->chosen[c]].on_path = true;
    times[i].critical_ns = to - from - MIN(sum, to - from);
}

int path_find(const struct trace *trace, uint32_t root, struct path_scratch *s, struct path_time *times)
{
    int r = reserve(s, trace->count);
    if (r < 0)
        return r;
    memset(times, 0, trace->count * sizeof(*times));
    index_children(trace, s);
    for (uint32_t i = 0; i < trace->count; i++) {
        sum_children(trace, s, i, &times[i]);
        find_callee(trace, s, i, &times[i]);
    }
    if (root == PART_NONE)
        return 0;
    times[root].on_path = true;
    s->window[2 * root] = trace->parts[root].start_ns;
    s->window[2 * root + 1] = trace->parts[root].end_ns;
    for (uint32_t i = root; i < trace->count; i++) /* parents come before children */
        if (times[i].on_path)
            walk(trace, s, i, NULL, times);
    return 0;
}

void path_find_within(const struct trace *trace, const uint32_t *list, size_t count, const uint8_t *roles,
                      struct path_scratch *s, const struct path_time *whole, struct path_time *times)
{
    for (size_t i = 0; i < count; i++) {
        times[list[i]] = whole[list[i]];
        times[list[i]].critical_ns = 0;
        times[list[i]].on_path = i == 0;
        uint32_t callee = whole[list[i]].callee;
        if (roles[list[i]] == PATH_LEAF)
            times[list[i]].is_call = false;
        else if (callee != PART_NONE && roles[callee] == PATH_OUTSIDE)
            times[list[i]].callee = PART_NONE;
    }
    s->window[2 * list[0]] = trace->parts[list[0]].start_ns;
    s->window[2 * list[0] + 1] = trace->parts[list[0]].end_ns;
    for (size_t i = 0; i < count; i++)
        if (times[list[i]].on_path)
            walk(trace, s, list[i], roles, times);
}
