/* Stacks as a trie. Nodes are found by a hash of (parent, frame); children lists are not kept, because
 * nothing that adds needs them, and what prints makes them in one pass (parents come before their children).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "profile/intervals.h"
#include "profile/windows.h"

static const char *const KINDS[FRAME_KINDS] = {"native", "kernel",  "python", "javascript", "java",
                                               "jit",    "runtime", "group",  "truncated",  "ruby"};

const char *profile_kind_name(enum profile_frame_kind kind)
{
    return (unsigned)kind < FRAME_KINDS ? KINDS[kind] : "?";
}

uint32_t profile_next_serial(void)
{
    static _Atomic uint32_t serial;
    return ++serial;
}

/* The empty name, and what has it. */
static int begin_names(struct profile *p)
{
    struct profile_frame none = {.kind = FRAME_GROUP};
    p->serial = profile_next_serial();
    return profile_string(p, "") != 0 || !p->strings.count ? -ENOMEM : array_add(&p->frames, none);
}

static int begin_nodes(struct profile *p)
{
    struct profile_node root = {0};
    return array_add(&p->nodes, root);
}

int profile_new(struct profile **ret_profile)
{
    struct profile *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->node_limit = 8u << 20;
    strcpy(p->event, "cpu");
    strcpy(p->unit, "nanoseconds");
    if (begin_names(p) < 0 || begin_nodes(p) < 0) {
        profile_free(p);
        return -ENOMEM;
    }
    *ret_profile = p;
    return 0;
}

int profile_restart(struct profile *p, size_t most)
{
    int r = 0;
    array_clear(&p->nodes);
    array_clear(&p->samples);
    array_clear(&p->business);
    profile_windows_end(p);
    profile_intervals_end(p);
    p->start_ns = p->end_ns = p->began_ns = 0;
    if (p->frames.count > most || p->failed) {
        arena_done(&p->texts);
        array_done(&p->strings);
        array_done(&p->frames);
        map_done(&p->string_ids);
        map_done(&p->frame_ids);
        p->failed = false;
        r = begin_names(p);
    }
    if (r == 0)
        r = begin_nodes(p);
    profile_index_again(p);
    return r;
}

void profile_free(struct profile *p)
{
    if (!p)
        return;
    arena_done(&p->texts);
    array_done(&p->strings);
    array_done(&p->frames);
    array_done(&p->nodes);
    array_done(&p->samples);
    map_done(&p->string_ids);
    map_done(&p->frame_ids);
    array_done(&p->business);
    free(p->node_index.slots);
    profile_windows_end(p);
    profile_intervals_end(p);
    free(p);
}

static uint32_t replaced_string(struct profile *p, const char *string, size_t length)
{
    struct text clean = {0};
    text_add_utf8(&clean, string, length);
    uint32_t id = clean.failed ? 0 : profile_string_n(p, text_get(&clean), clean.length);
    p->failed |= clean.failed;
    text_done(&clean);
    return id;
}

/* On a collision the key is moved on. */
uint32_t profile_string_n(struct profile *p, const char *string, size_t length)
{
    for (uint64_t key = map_hash(string, length);; key++) {
        bool added;
        uint64_t *id = map_put(&p->string_ids, key, &added);
        if (!id)
            break;
        if (!added) {
            const char *known = p->strings.at[*id];
            if (strncmp(known, string, length) == 0 && known[length] == '\0')
                return (uint32_t)*id;
            continue;
        }
        if (!text_is_utf8(string, length)) {
            map_remove(&p->string_ids, key);
            return replaced_string(p, string, length);
        }
        const char *copy = arena_strndup(&p->texts, string, length);
        if (!copy || array_add(&p->strings, copy) < 0) {
            map_remove(&p->string_ids, key);
            break;
        }
        *id = p->strings.count - 1;
        return (uint32_t)*id;
    }
    p->failed = true;
    return 0;
}

uint32_t profile_string(struct profile *p, const char *string)
{
    return profile_string_n(p, string, strlen(string));
}

uint32_t profile_add_frame(struct profile *p, const struct profile_frame *frame)
{
    uint32_t identity[5] = {frame->name, frame->file, frame->module, frame->line, frame->kind};
    for (uint64_t key = map_hash(identity, sizeof(identity));; key++) {
        bool added;
        uint64_t *id = map_put(&p->frame_ids, key, &added);
        if (!id)
            break;
        if (!added) {
            const struct profile_frame *f = &p->frames.at[*id];
            if (f->name == frame->name && f->file == frame->file && f->module == frame->module &&
                f->line == frame->line && f->kind == frame->kind)
                return (uint32_t)*id;
            continue;
        }
        if (array_add(&p->frames, *frame) < 0) {
            map_remove(&p->frame_ids, key);
            break;
        }
        *id = p->frames.count - 1;
        return (uint32_t)*id;
    }
    p->failed = true;
    return 0;
}

uint32_t profile_named_frame(struct profile *p, const char *name, enum profile_frame_kind kind)
{
    struct profile_frame frame = {.name = profile_string(p, name), .kind = (uint8_t)kind};
    return profile_add_frame(p, &frame);
}

/* The place of a node: its own, or the free one where it would be. */
static uint32_t *node_slot(const struct profile *p, uint32_t parent, uint32_t frame)
{
    const struct profile_node_index *x = &p->node_index;
    uint64_t key = (uint64_t)parent << 32 | frame;
    size_t i = (size_t)((key * 0x9E3779B97F4A7C15ull) >> 32) & (x->capacity - 1);
    while (x->slots[i]) {
        const struct profile_node *n = &p->nodes.at[x->slots[i]];
        if (n->parent == parent && n->frame == frame)
            break;
        i = (i + 1) & (x->capacity - 1);
    }
    return &x->slots[i];
}

void profile_index_again(struct profile *p)
{
    if (!p->node_index.capacity)
        return;
    memset(p->node_index.slots, 0, p->node_index.capacity * sizeof(*p->node_index.slots));
    for (size_t i = 1; i < p->nodes.count; i++)
        *node_slot(p, p->nodes.at[i].parent, p->nodes.at[i].frame) = (uint32_t)i;
}

/* Room for one more node, at most three quarters full. */
static bool index_reserve(struct profile *p)
{
    struct profile_node_index *x = &p->node_index;
    if (p->nodes.count * 4 <= x->capacity * 3)
        return true;
    size_t capacity = x->capacity ? x->capacity * 2 : 16;
    uint32_t *slots = calloc(capacity, sizeof(*slots));
    if (!slots)
        return false;
    free(x->slots);
    *x = (struct profile_node_index){slots, capacity};
    profile_index_again(p);
    return true;
}

uint32_t profile_child(struct profile *p, uint32_t node, uint32_t frame)
{
    uint32_t *slot = index_reserve(p) ? node_slot(p, node, frame) : NULL;
    if (slot && *slot)
        return *slot;
    struct profile_node child = {.parent = node, .frame = frame};
    if (!slot || p->nodes.count >= p->node_limit || array_add(&p->nodes, child) < 0) {
        p->failed = true;
        return node;
    }
    return *slot = (uint32_t)(p->nodes.count - 1);
}

void profile_count(struct profile *p, uint32_t node, uint64_t count, uint64_t weight)
{
    p->nodes.at[node].count += count;
    p->nodes.at[node].weight += weight;
}

void profile_keep(struct profile *p, const struct profile_sample *sample)
{
    if (p->samples.count < p->sample_limit && array_add(&p->samples, *sample) < 0)
        p->failed = true;
}

int profile_by_thread_and_time(const void *a, const void *b)
{
    const struct profile_sample *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

int profile_merge(struct profile *into, const struct profile *from)
{
    uint32_t *nodes;
    int r = profile_merge_places(into, from, &nodes);
    if (r == 0)
        free(nodes);
    return r;
}

int profile_merge_places(struct profile *into, const struct profile *from, uint32_t **ret_nodes)
{
    uint32_t *strings = calloc(from->strings.count + 1, sizeof(*strings));
    uint32_t *frames = calloc(from->frames.count + 1, sizeof(*frames));
    uint32_t *nodes = calloc(from->nodes.count + 1, sizeof(*nodes));
    if (!strings || !frames || !nodes) {
        free(strings);
        free(frames);
        free(nodes);
        return -ENOMEM;
    }
    for (size_t i = 1; i < from->strings.count; i++)
        strings[i] = profile_string(into, from->strings.at[i]);
    for (size_t i = 1; i < from->frames.count; i++) {
        struct profile_frame f = from->frames.at[i];
        f.name = strings[f.name];
        f.file = strings[f.file];
        f.module = strings[f.module];
        frames[i] = profile_add_frame(into, &f);
    }
    for (size_t i = 0; i < from->nodes.count; i++) {
        const struct profile_node *n = &from->nodes.at[i];
        if (i > 0)
            nodes[i] = profile_child(into, nodes[n->parent], frames[n->frame]);
        profile_count(into, nodes[i], n->count, n->weight);
    }
    for (size_t i = 0; i < from->samples.count; i++) {
        struct profile_sample s = from->samples.at[i];
        s.node = nodes[s.node];
        profile_keep(into, &s);
    }
    if (from->start_ns && (!into->start_ns || from->start_ns < into->start_ns)) {
        into->start_ns = from->start_ns;
        into->began_ns = from->began_ns;
    }
    into->end_ns = MAX(into->end_ns, from->end_ns);
    free(strings);
    free(frames);
    if (into->failed) {
        free(nodes);
        return -ENOMEM;
    }
    *ret_nodes = nodes;
    return 0;
}

uint64_t *profile_totals(const struct profile *p)
{
    uint64_t *totals = malloc(p->nodes.count * sizeof(*totals));
    if (!totals)
        return NULL;
    for (size_t i = 0; i < p->nodes.count; i++)
        totals[i] = p->nodes.at[i].weight;
    for (size_t i = p->nodes.count; i-- > 1;)
        totals[p->nodes.at[i].parent] += totals[i];
    return totals;
}

bool profile_has_waits(const struct profile *p)
{
    return strcmp(p->event, "off-cpu") == 0 || strcmp(p->event, "wall") == 0 || strcmp(p->event, "lock") == 0;
}

bool profile_begins_interrupt(const struct profile *p, uint32_t frame)
{
    static const char *const ENTRIES[] = {"asm_sysvec_", "asm_common_interrupt", "asm_spurious_interrupt",
                                          "asm_exc_nmi", "ret_from_intr",        "irqentry_"};
    const struct profile_frame *f = &p->frames.at[frame];
    const char *name = profile_text(p, f->name);
    for (size_t i = 0; f->kind == FRAME_KERNEL && i < ARRAY_SIZE(ENTRIES); i++)
        if (strncmp(name, ENTRIES[i], strlen(ENTRIES[i])) == 0)
            return true;
    return false;
}

bool profile_is_waker(const struct profile *p, uint32_t frame)
{
    const struct profile_frame *f = &p->frames.at[frame];
    return f->kind == FRAME_KERNEL &&
           strncmp(profile_text(p, f->name), PROFILE_WOKEN_BY, strlen(PROFILE_WOKEN_BY)) == 0;
}

uint32_t *profile_own_ends(const struct profile *p)
{
    uint32_t *ends = calloc(p->nodes.count, sizeof(*ends));
    for (size_t i = 1; ends && i < p->nodes.count; i++) {
        uint32_t parent = p->nodes.at[i].parent;
        bool others = ends[parent] != parent || (parent && profile_is_waker(p, p->nodes.at[parent].frame));
        ends[i] = others ? ends[parent] : (uint32_t)i;
    }
    return ends;
}

/* A function of several lines or modules is one function: frames are compared by name, file and kind, unless
 * lines are told apart. */
uint64_t profile_function_key(const struct profile *p, uint32_t frame)
{
    const struct profile_frame *f = &p->frames.at[frame];
    uint32_t identity[4] = {f->name, f->file, f->kind, p->by_line ? f->line : 0};
    return map_hash(identity, sizeof(identity));
}

static int by_self(const void *a, const void *b)
{
    const struct profile_function *x = a, *y = b;
    if (x->self != y->self)
        return x->self > y->self ? -1 : 1;
    return x->total > y->total ? -1 : x->total < y->total;
}

struct profile_function *profile_functions(const struct profile *p, size_t *ret_count)
{
    ARRAY(struct profile_function) list = {0};
    struct map index = {0};
    uint64_t *totals = profile_totals(p);
    uint32_t *function = calloc(p->nodes.count, sizeof(*function));
    uint32_t *ends = profile_own_ends(p);
    bool failed = !totals || !function || !ends;
    for (size_t i = 1; !failed && i < p->nodes.count; i++) {
        const struct profile_node *n = &p->nodes.at[i];
        bool added;
        if (ends[i] != i) {
            list.at[function[ends[i]] - 1].self += n->weight;
            continue;
        }
        uint64_t *at = map_put(&index, profile_function_key(p, n->frame), &added);
        struct profile_function fresh = {.frame = n->frame};
        if (!at || (added && array_add(&list, fresh) < 0)) {
            failed = true;
            break;
        }
        if (added)
            *at = list.count - 1;
        function[i] = (uint32_t)*at + 1;
        list.at[*at].self += n->weight;
        bool recursive = false;
        for (uint32_t up = n->parent; up && !recursive; up = p->nodes.at[up].parent)
            recursive = function[up] == function[i];
        if (!recursive)
            list.at[*at].total += totals[i];
    }
    map_done(&index);
    free(totals);
    free(function);
    free(ends);
    if (failed) {
        array_done(&list);
        return NULL;
    }
    if (list.count)
        qsort(list.at, list.count, sizeof(*list.at), by_self);
    *ret_count = list.count;
    return list.at ? list.at : calloc(1, sizeof(struct profile_function));
}
