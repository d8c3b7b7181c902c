/* Keeps a profile that is added to for hours small. Weights move, none is lost: the sum and, as long as there
 * is room for it, what each function takes itself stay exact. What is given up, first to last:
 *
 *   1. which process it was, of those that ended: their stacks are one's of that name
 *   2. the callers of rare stacks: below what is common of them comes "[rare stacks]", below that their last
 *      function
 *   3. that function */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/intervals.h"
#include "profile/windows.h"

#define NONE UINT32_MAX

/* The profile's next nodes, while they are made from the present ones. */
struct copy {
    const struct profile *from;
    struct profile nodes; /* only nodes and their index are used */
    uint32_t *moved;      /* the new place of each node */
    uint32_t *rare; /* of a node that is cut off, and of those below it: their "[rare stacks]"; else NONE */
};

static void copy_done(struct copy *c)
{
    array_done(&c->nodes.nodes);
    free(c->nodes.node_index.slots);
    free(c->moved);
    free(c->rare);
}

static int copy_start(const struct profile *p, struct copy *ret_copy)
{
    struct profile_node root = p->nodes.at[0];
    *ret_copy = (struct copy){.from = p, .nodes = {.node_limit = SIZE_MAX}};
    ret_copy->moved = calloc(p->nodes.count, sizeof(*ret_copy->moved));
    ret_copy->rare = malloc(p->nodes.count * sizeof(*ret_copy->rare));
    if (!ret_copy->moved || !ret_copy->rare || array_add(&ret_copy->nodes.nodes, root) < 0) {
        copy_done(ret_copy);
        return -ENOMEM;
    }
    for (size_t i = 0; i < p->nodes.count; i++)
        ret_copy->rare[i] = NONE;
    return 0;
}

/* Puts the copy in the place of the profile's nodes; -ENOMEM, with the profile as it was, when it lacks
 * something. */
static int copy_finish(struct profile *p, struct copy *c)
{
    if (c->nodes.failed) {
        copy_done(c);
        return -ENOMEM;
    }
    array_foreach (&p->samples, s)
        s->node = c->moved[s->node];
    array_done(&p->nodes);
    free(p->node_index.slots);
    p->nodes.at = c->nodes.nodes.at;
    p->nodes.count = c->nodes.nodes.count;
    p->nodes.capacity = c->nodes.nodes.capacity;
    p->node_index = c->nodes.node_index;
    c->nodes = (struct profile){0};
    copy_done(c);
    return 0;
}

/* Every frame by another one (or the same), in place: a node moves to where it is or before that. */
static int replace_frames(struct profile *p, const uint32_t *frames)
{
    size_t count = p->nodes.count;
    uint32_t *moved = calloc(count, sizeof(*moved));
    if (!moved)
        return -ENOMEM;
    p->nodes.count = 1;
    profile_index_again(p);
    for (size_t i = 1; i < count; i++) {
        struct profile_node n = p->nodes.at[i];
        moved[i] = profile_child(p, moved[n.parent], frames[n.frame]);
        profile_count(p, moved[i], n.count, n.weight);
    }
    array_foreach (&p->samples, s)
        s->node = moved[s->node];
    free(moved);
    return 0;
}

/* Nodes with less than `least` at or below them end in "[rare stacks]". */
static int cut(struct profile *p, const uint64_t *totals, uint64_t least, bool keep_functions, uint32_t rare)
{
    struct copy c;
    int r = copy_start(p, &c);
    if (r < 0)
        return r;
    for (size_t i = 1; i < p->nodes.count; i++) {
        const struct profile_node *n = &p->nodes.at[i];
        uint32_t above = c.moved[n->parent];
        if (n->frame == rare &&
            c.rare[n->parent] == NONE) { /* from an earlier time: below it are functions */
            c.moved[i] = profile_child(&c.nodes, above, rare);
            c.rare[i] = c.moved[i];
        } else if (c.rare[n->parent] == NONE &&
                   (totals[i] >= least || p->frames.at[n->frame].kind == FRAME_GROUP)) {
            c.moved[i] = profile_child(&c.nodes, above, n->frame);
        } else {
            c.rare[i] = c.rare[n->parent] == NONE ? profile_child(&c.nodes, above, rare) : c.rare[n->parent];
            c.moved[i] = (keep_functions || totals[i] >= least) && n->count && n->frame != rare
                             ? profile_child(&c.nodes, c.rare[i], n->frame)
                             : c.rare[i];
        }
        profile_count(&c.nodes, c.moved[i], n->count, n->weight);
    }
    return copy_finish(p, &c);
}

/* The least weight that at most `keep` nodes reach. */
static uint64_t least_of(const struct profile *p, const uint64_t *totals, size_t keep)
{
    uint64_t low = 1, high = totals[0] + 1;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        size_t reach = 0;
        for (size_t i = 1; i < p->nodes.count; i++)
            reach += totals[i] >= middle;
        if (reach > keep)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What is cut off leaves its functions and "[rare stacks]": how many is not known before. */
static int cut_rare(struct profile *p, size_t keep)
{
    static const struct {
        size_t sixths;
        bool functions;
    } TRIES[] = {{5, true}, {4, true}, {3, true}, {2, true}, {2, false}};
    int r = 0;
    for (size_t i = 0; i < ARRAY_SIZE(TRIES) && r == 0 && p->nodes.count > keep; i++) {
        uint32_t rare = profile_named_frame(p, PROFILE_RARE, FRAME_TRUNCATED);
        uint64_t *totals = profile_totals(p), least;
        if (!totals || !rare) {
            free(totals);
            return -ENOMEM;
        }
        least = least_of(p, totals, keep * TRIES[i].sixths / 6);
        r = cut(p, totals, least, TRIES[i].functions, rare);
        free(totals);
    }
    return r;
}

/* Strings and frames that no node needs any more are forgotten. */
static int forget_unused(struct profile *p)
{
    uint32_t *strings = calloc(p->strings.count, sizeof(*strings));
    uint32_t *frames = calloc(p->frames.count, sizeof(*frames));
    struct profile next = {0};
    struct profile_frame none = p->frames.at[0];
    bool failed = !strings || !frames || profile_string(&next, "") != 0 || array_add(&next.frames, none) < 0;
    for (size_t i = 1; i < p->nodes.count && !failed; i++) {
        uint32_t frame = p->nodes.at[i].frame;
        if (!frame || frames[frame])
            continue;
        struct profile_frame f = p->frames.at[frame];
        uint32_t *texts[] = {&f.name, &f.file, &f.module};
        for (size_t k = 0; k < ARRAY_SIZE(texts); k++) {
            uint32_t old = *texts[k];
            if (old && !strings[old])
                strings[old] = profile_string(&next, profile_text(p, old));
            *texts[k] = strings[old];
        }
        frames[frame] = profile_add_frame(&next, &f);
        failed = next.failed;
    }
    for (size_t i = 1; i < p->nodes.count && !failed; i++)
        p->nodes.at[i].frame = frames[p->nodes.at[i].frame];
    profile_index_again(p); /* nodes are found by their frames' ids */
    struct profile *unused = failed ? &next : p;
    arena_done(&unused->texts);
    array_done(&unused->strings);
    array_done(&unused->frames);
    map_done(&unused->string_ids);
    map_done(&unused->frame_ids);
    if (!failed) {
        p->texts = next.texts;
        p->strings.at = next.strings.at;
        p->strings.count = next.strings.count;
        p->strings.capacity = next.strings.capacity;
        p->frames.at = next.frames.at;
        p->frames.count = next.frames.count;
        p->frames.capacity = next.frames.capacity;
        p->string_ids = next.string_ids;
        p->frame_ids = next.frame_ids;
    }
    free(strings);
    free(frames);
    return failed ? -ENOMEM : 0;
}

int profile_fold(struct profile *p, size_t keep,
                 uint32_t (*replace)(void *context, struct profile *profile, uint32_t frame), void *context)
{
    size_t count = p->frames.count; /* replace() may add some */
    uint32_t *frames = calloc(count, sizeof(*frames));
    int r = frames ? 0 : -ENOMEM;
    for (size_t i = 1; i < count && r == 0; i++)
        frames[i] = replace ? replace(context, p, (uint32_t)i) : (uint32_t)i;
    p->serial = profile_next_serial();
    profile_windows_end(p); /* they are by the frames that were */
    profile_intervals_end(p);
    if (r == 0)
        r = replace_frames(p, frames);
    free(frames);
    if (r == 0)
        r = cut_rare(p, keep);
    return r < 0 ? r : forget_unused(p);
}

uint64_t profile_rare(const struct profile *p, const uint64_t *totals)
{
    uint64_t weight = 0;
    for (size_t i = 1; totals && i < p->nodes.count; i++) {
        const struct profile_frame *f = &p->frames.at[p->nodes.at[i].frame];
        if (f->kind == FRAME_TRUNCATED && strcmp(profile_text(p, f->name), PROFILE_RARE) == 0)
            weight += totals[i]; /* there is never one below another */
    }
    return weight;
}
