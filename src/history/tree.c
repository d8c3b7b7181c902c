/* The State History Tree: the baseline that the columnar store is measured against, behind the same
 * interface.
 *
 * A. Montplaisir-Goncalves, N. Ezzati-Jivan, F. Wninger, M. R. Dagenais, "State History Tree: an Incremental
 * Disk-based Data Structure for Very Large Interval Data" (2013), sections III and IV: nodes of 64 KiB on
 * disk, at most 50 children, states inserted in order of their end. In the first form of the tree a new
 * branch begins where the tree ends; with many attributes most states are longer than a leaf, all of them go
 * to the root, and each full root makes the tree one level deeper (10 million changes over 100,000 attributes
 * had filled 78 GB when they were stopped). So this is the later form, after L. Prieur-Drevon, R. Beamonte,
 * M. R. Dagenais, "R-SHT: A state history tree with R-Tree properties for analysis and visualization of
 * highly parallel system traces" (2018): a new branch begins where the state begins that did not fit, so that
 * the spans of siblings overlap, and a parent knows of each child its span and its least and greatest
 * attribute; queries go into several children, as they do in today's Trace Compass.
 *
 * A state lies in the lowest node of the latest branch that begins no later than the state: its leaf, or an
 * ancestor. A full node is closed and gets a sibling; when its parent has 50 children the parent gets a
 * sibling; when the root is full the tree grows a new root. Closed nodes are written and never change. A
 * query goes down from the root into every child that may have the attribute at that time, and searches each
 * node.
 *
 * Two liberties, both to the tree's advantage: strings are numbers into a dictionary rather than stored with
 * each state, and each node has a checksum, which costs 8 bytes of 65,536. As in Trace Compass, a tree whose
 * builder was killed cannot be opened: its root is known only at the end.
 *
 * THE FILE (little-endian)
 *     0            struct tree_head, padded to 4096 bytes, written when the tree is closed
 *     4096         nodes of 65,536 bytes, by sequence number
 *     behind them  names (names.h)
 *
 *     A node:
 *     0      4   1 core, 2 leaf
 *     4      4   sequence number
 *     8      4   sequence number of the parent; 2^32 - 1 for the root
 *     12     4   number of states
 *     16     8   start_ns, 24: 8 end_ns
 *     32     8   XXH3-64 of the node with this field 0
 *     40         core: 4 number of children, then for 50 of them: 4 x 50 sequence numbers, 8 x 50 start_ns,
 *                8 x 50 end_ns, 4 x 50 least attributes, 4 x 50 greatest attributes
 *                states by ascending end: varint start - the node's start, varint length, 4 attribute,
 *                1 type, value (int: 4 or 8 bytes, type 1 or 4; double 8; string 4; null 0) */
/* SPDX-License-Identifier: Apache-2.0 */
#include "history/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/map.h"
#include "base/owner.h"
#include "history/block.h"
#include "history/names.h"

enum {
    NODE_SIZE = 64 << 10,
    CHILDREN_MAX = 50,
    HEAD_SIZE = 4096,
    NODE_HEAD = 40,
    CORE_HEAD = NODE_HEAD + 4 + CHILDREN_MAX * (4 + 8 + 8 + 4 + 4),
    CACHE_NODES = 256,
    LONG_INT = 4, /* type on disk of an integer of 8 bytes */
};
#define NO_NODE UINT32_MAX

struct tree_state {
    uint64_t start_ns, end_ns;
    uint64_t bits;
    uint32_t quark;
    uint32_t type;
};

/* What a node knows of its children, as it is on disk. */
struct tree_children {
    uint32_t count;
    uint32_t sequence[CHILDREN_MAX];
    uint64_t start_ns[CHILDREN_MAX], end_ns[CHILDREN_MAX];
    uint32_t least[CHILDREN_MAX], greatest[CHILDREN_MAX]; /* attributes in the child and below */
} __attribute__((packed));
_Static_assert(NODE_HEAD + sizeof(struct tree_children) == CORE_HEAD, "written as is");

struct tree_node {
    uint32_t sequence, parent;
    bool core;
    uint64_t start_ns, end_ns;
    uint32_t used;            /* bytes on disk */
    uint32_t least, greatest; /* attributes here and below; while building */
    struct tree_children children;
    ARRAY(struct tree_state) states; /* by end */
};

struct tree {
    int fd;
    uint32_t nodes, root, depth;
    uint64_t end_ns;                  /* the latest end of all states inserted */
    ARRAY(struct tree_node *) branch; /* the latest one, root first, while building */
    struct tree_node *cache[CACHE_NODES];
    uint64_t file_bytes;
};

static int no_memory(const struct history *history, struct problem *problem)
{
    return problem_set(problem, -ENOMEM, "%s: no memory for a node of the tree", history->path);
}

static void node_free(struct tree_node *node)
{
    if (!node)
        return;
    array_done(&node->states);
    free(node);
}

/* ---- Nodes on disk ---- */

static uint32_t varint_bytes(uint64_t number)
{
    return number ? (bits_needed(number) + 6) / 7 : 1;
}

static bool short_int(const struct tree_state *s)
{
    return (int64_t)s->bits >= INT32_MIN && (int64_t)s->bits <= INT32_MAX;
}

static uint32_t value_bytes(const struct tree_state *s)
{
    switch (s->type) {
    case HISTORY_INT:
        return short_int(s) ? 4 : 8;
    case HISTORY_DOUBLE:
        return 8;
    case HISTORY_STRING:
        return 4;
    default:
        return 0;
    }
}

static uint32_t state_bytes(const struct tree_node *node, const struct tree_state *s)
{
    return varint_bytes(s->start_ns - node->start_ns) + varint_bytes(s->end_ns - s->start_ns) + 5 +
           value_bytes(s);
}

static uint8_t *state_write(uint8_t *p, const struct tree_node *node, const struct tree_state *s)
{
    p = varint_put(p, s->start_ns - node->start_ns);
    p = varint_put(p, s->end_ns - s->start_ns);
    memcpy(p, &s->quark, 4);
    uint32_t bytes = value_bytes(s);
    p[4] = (uint8_t)(s->type == HISTORY_INT && bytes == 8 ? LONG_INT : s->type);
    memcpy(p + 5, &s->bits, bytes);
    return p + 5 + bytes;
}

static const uint8_t *state_read(const uint8_t *p, const uint8_t *end, const struct tree_node *node,
                                 struct tree_state *s)
{
    uint64_t start, length;
    p = varint_get(p, end, &start);
    if (p)
        p = varint_get(p, end, &length);
    if (!p || end - p < 5 || p[4] > LONG_INT)
        return NULL;
    *s = (struct tree_state){.type = p[4]};
    s->start_ns = node->start_ns + start;
    s->end_ns = s->start_ns + length;
    memcpy(&s->quark, p, 4);
    p += 5;
    uint32_t bytes = s->type == LONG_INT || s->type == HISTORY_DOUBLE ? 8 : s->type == HISTORY_NULL ? 0 : 4;
    if (end - p < bytes)
        return NULL;
    memcpy(&s->bits, p, bytes);
    if (s->type == HISTORY_INT)
        s->bits = (uint64_t)(int64_t)(int32_t)s->bits;
    if (s->type == LONG_INT)
        s->type = HISTORY_INT;
    return p + bytes;
}

static int write_at(const struct history *history, uint64_t at, const void *data, size_t length,
                    struct problem *problem)
{
    const struct tree *t = history->store;
    for (const char *p = data; length;) {
        ssize_t n = pwrite(t->fd, p, length, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return problem_set(problem, n < 0 ? -errno : -EIO,
                               "%s: offset %" PRIu64 ": cannot write %zu bytes: %s", history->path, at,
                               length, n < 0 ? strerror(errno) : "nothing was written");
        p += n;
        at += (uint64_t)n;
        length -= (size_t)n;
    }
    return 0;
}

static uint64_t node_at(uint32_t sequence)
{
    return HEAD_SIZE + (uint64_t)sequence * NODE_SIZE;
}

static int node_save(struct history *history, const struct tree_node *node, struct problem *problem)
{
    struct tree *t = history->store;
    _cleanup_(freep) uint8_t *data = calloc(1, NODE_SIZE + 16);
    if (!data)
        return no_memory(history, problem);
    uint32_t words[4] = {node->core ? 1 : 2, node->sequence, node->parent, (uint32_t)node->states.count};
    memcpy(data, words, 16);
    memcpy(data + 16, &node->start_ns, 8);
    memcpy(data + 24, &node->end_ns, 8);
    uint8_t *p = data + NODE_HEAD;
    if (node->core) {
        memcpy(p, &node->children, sizeof(node->children));
        p = data + CORE_HEAD;
    }
    array_foreach (&node->states, s)
        p = state_write(p, node, s);
    uint64_t sum = map_hash(data, NODE_SIZE);
    memcpy(data + 32, &sum, 8);
    int r = write_at(history, node_at(node->sequence), data, NODE_SIZE, problem);
    t->file_bytes = MAX(t->file_bytes, node_at(node->sequence) + NODE_SIZE);
    return r;
}

static int node_damaged(const struct history *history, uint32_t sequence, const char *what,
                        struct problem *problem)
{
    return problem_set(problem, -EBADMSG, "%s: offset %" PRIu64 ": node %u: %s", history->path,
                       node_at(sequence), sequence, what);
}

static bool node_parse(struct tree_node *node, const uint8_t *data, uint32_t nodes)
{
    uint32_t words[4];
    memcpy(words, data, 16);
    node->core = words[0] == 1;
    node->parent = words[2];
    memcpy(&node->start_ns, data + 16, 8);
    memcpy(&node->end_ns, data + 24, 8);
    const uint8_t *p = data + NODE_HEAD, *end = data + NODE_SIZE;
    if (words[0] < 1 || words[0] > 2 || words[1] != node->sequence || words[3] > NODE_SIZE / 7)
        return false;
    if (node->core) {
        memcpy(&node->children, p, sizeof(node->children));
        if (node->children.count > CHILDREN_MAX)
            return false;
        for (uint32_t i = 0; i < node->children.count; i++)
            if (node->children.sequence[i] >= nodes)
                return false;
        p = data + CORE_HEAD;
    }
    for (uint32_t i = 0; p && i < words[3]; i++) {
        struct tree_state s;
        p = state_read(p, end, node, &s);
        if (p)
            node->states.at[node->states.count++] = s;
    }
    return p != NULL;
}

static int node_load(struct history *history, uint32_t sequence, struct tree_node **ret_node,
                     struct problem *problem)
{
    struct tree *t = history->store;
    static const uint64_t ZERO;
    uint64_t sum;
    _cleanup_(freep) uint8_t *data = malloc(NODE_SIZE);
    struct tree_node *node = calloc(1, sizeof(*node));
    if (!data || !node || array_reserve(&node->states, NODE_SIZE / 7 + 1) < 0) {
        node_free(node);
        return no_memory(history, problem);
    }
    node->sequence = sequence;
    ssize_t n = pread(t->fd, data, NODE_SIZE, (off_t)node_at(sequence));
    int r = 0;
    if (n < 0) {
        r = problem_set(problem, -errno, "%s: offset %" PRIu64 ": cannot read: %s", history->path,
                        node_at(sequence), strerror(errno));
    } else if (n < NODE_SIZE) {
        r = node_damaged(history, sequence, "the file ends within it", problem);
    } else {
        memcpy(&sum, data + 32, 8);
        memcpy(data + 32, &ZERO, 8);
        if (sum != map_hash(data, NODE_SIZE))
            r = node_damaged(history, sequence, "its checksum is wrong", problem);
        else if (!node_parse(node, data, t->nodes))
            r = node_damaged(history, sequence, "expected a node of a history tree", problem);
    }
    if (r < 0) {
        node_free(node);
        return r;
    }
    *ret_node = node;
    return 0;
}

/* A node of the latest branch, or from the cache, or from the file; borrowed until the next call. */
static int node_get(struct history *history, uint32_t sequence, const struct tree_node **ret_node,
                    struct problem *problem)
{
    struct tree *t = history->store;
    array_foreach (&t->branch, b)
        if ((*b)->sequence == sequence) {
            *ret_node = *b;
            return 0;
        }
    struct tree_node **slot = &t->cache[sequence % CACHE_NODES];
    if (!*slot || (*slot)->sequence != sequence) {
        struct tree_node *node = NULL;
        int r = node_load(history, sequence, &node, problem);
        if (r < 0)
            return r;
        node_free(*slot);
        *slot = node;
    }
    *ret_node = *slot;
    return 0;
}

/* ---- Inserting ---- */

static struct tree_node *node_new(struct tree *t, bool core, uint32_t parent, uint64_t start_ns)
{
    struct tree_node *node = calloc(1, sizeof(*node));
    if (!node)
        return NULL;
    node->core = core;
    node->parent = parent;
    node->start_ns = start_ns;
    node->used = core ? CORE_HEAD : NODE_HEAD;
    node->least = UINT32_MAX;
    node->sequence = t->nodes++;
    return node;
}

/* Notes what is known of the newest child, which is open until it is closed. */
static void note_child(struct tree_children *children, const struct tree_node *child, uint64_t end_ns)
{
    uint32_t i = children->count - 1;
    children->sequence[i] = child->sequence;
    children->start_ns[i] = child->start_ns;
    children->end_ns[i] = end_ns;
    children->least[i] = child->least;
    children->greatest[i] = child->greatest;
}

/* Writes branch[depth] for good; its parent in the branch learns its span. */
static int close_node(struct history *history, size_t depth, struct problem *problem)
{
    struct tree *t = history->store;
    struct tree_node *node = t->branch.at[depth];
    node->end_ns = t->end_ns;
    if (depth)
        note_child(&t->branch.at[depth - 1]->children, node, t->end_ns);
    return node_save(history, node, problem);
}

/* Replaces branch[depth] and everything below by new nodes that begin at start_ns. */
static int split_branch(struct history *history, size_t depth, uint64_t start_ns, struct problem *problem)
{
    struct tree *t = history->store;
    int r = 0;
    for (size_t i = t->branch.count;
         r == 0 && i-- > depth;) /* upwards: parents are written with their children's spans */
        r = close_node(history, i, problem);
    if (r < 0)
        return r;
    for (size_t i = depth; i < t->branch.count; i++) {
        struct tree_node *old = t->branch.at[i], *parent = t->branch.at[i - 1];
        struct tree_node *node = node_new(t, old->core, parent->sequence, start_ns);
        if (!node)
            return no_memory(history, problem);
        parent->children.count++;
        note_child(&parent->children, node, UINT64_MAX);
        t->branch.at[i] = node;
        node_free(old);
    }
    return 0;
}

static int add_root(struct history *history, uint64_t start_ns, struct problem *problem)
{
    struct tree *t = history->store;
    if (array_reserve(&t->branch, t->branch.count + 1) < 0)
        return no_memory(history, problem);
    struct tree_node *old = t->branch.at[0];
    struct tree_node *root = node_new(t, true, NO_NODE, history->start_ns);
    if (!root)
        return no_memory(history, problem);
    old->parent = root->sequence;
    root->least = old->least;
    root->greatest = old->greatest;
    root->children.count = 1;
    note_child(&root->children, old, UINT64_MAX);
    memmove(t->branch.at + 1, t->branch.at, t->branch.count * sizeof(*t->branch.at));
    t->branch.at[0] = root;
    t->branch.count++;
    t->root = root->sequence;
    t->depth++;
    return split_branch(history, 1, start_ns, problem);
}

static int add_sibling(struct history *history, size_t depth, uint64_t start_ns, struct problem *problem)
{
    struct tree *t = history->store;
    while (depth && t->branch.at[depth - 1]->children.count == CHILDREN_MAX)
        depth--;
    return depth ? split_branch(history, depth, start_ns, problem) : add_root(history, start_ns, problem);
}

static int insert(struct history *history, const struct tree_state *s, struct problem *problem)
{
    struct tree *t = history->store;
    size_t depth = t->branch.count - 1;
    struct tree_node *node;
    uint32_t bytes;
    for (;;) {
        node = t->branch.at[depth];
        if (s->start_ns < node->start_ns) { /* too long for this node */
            depth--;
            continue;
        }
        bytes = state_bytes(node, s);
        if (node->used + bytes <= NODE_SIZE)
            break;
        int r = add_sibling(history, depth, s->start_ns, problem);
        if (r < 0)
            return r;
        depth = t->branch.count - 1;
    }
    if (array_add(&node->states, *s) < 0)
        return no_memory(history, problem);
    size_t i = node->states.count - 1;
    for (; i && node->states.at[i - 1].end_ns > s->end_ns; i--)
        node->states.at[i] = node->states.at[i - 1];
    node->states.at[i] = *s;
    node->used += bytes;
    for (size_t k = 0; k <= depth; k++) {
        t->branch.at[k]->least = MIN(t->branch.at[k]->least, s->quark);
        t->branch.at[k]->greatest = MAX(t->branch.at[k]->greatest, s->quark);
    }
    t->end_ns = MAX(t->end_ns, s->end_ns);
    return 0;
}

static int tree_change(struct history *history, uint32_t quark, uint64_t time_ns, struct cell cell,
                       struct problem *problem)
{
    const struct ongoing *o = &history->ongoing.at[quark];
    if (o->start_ns == time_ns)
        return 0;
    struct tree_state s = {o->start_ns, time_ns, o->bits, quark, o->type};
    int r = insert(history, &s, problem);
    if (r == 0)
        history->changes++;
    return r;
}

static int tree_flush(struct history *history, struct problem *problem)
{
    return 0;
}

static int write_end(struct history *history, const struct body *names, struct problem *problem)
{
    struct tree *t = history->store;
    struct tree_head head = {.magic = TREE_MAGIC,
                             .version = 1,
                             .node_size = NODE_SIZE,
                             .children_max = CHILDREN_MAX,
                             .nodes = t->nodes,
                             .root = t->root,
                             .depth = t->depth,
                             .start_ns = history->start_ns,
                             .end_ns = history->end_ns,
                             .states = history->changes,
                             .names_bytes = names->count,
                             .names_checksum =
                                 map_hash(names->at ? names->at : (const uint8_t *)"", names->count),
                             .attributes = (uint32_t)history->attributes.all.count,
                             .strings = (uint32_t)history->strings.strings.count};
    head.checksum = map_hash(&head, offsetof(struct tree_head, checksum));
    int r = write_at(history, node_at(t->nodes), names->at, names->count, problem);
    if (r == 0)
        r = write_at(history, 0, &head, sizeof(head), problem);
    if (r == 0 && fsync(t->fd) < 0)
        r = problem_set(problem, -errno, "%s: cannot sync: %s", history->path, strerror(errno));
    t->file_bytes = node_at(t->nodes) + names->count;
    return r;
}

static int tree_close(struct history *history, struct problem *problem)
{
    struct tree *t = history->store;
    int r = 0;
    for (uint32_t quark = 0; r == 0 && quark < history->ongoing.count; quark++) {
        struct ongoing *o = &history->ongoing.at[quark];
        if (o->start_ns >= history->end_ns) /* done by an attempt that failed later on */
            continue;
        struct tree_state s = {o->start_ns, history->end_ns, o->bits, quark, o->type};
        r = insert(history, &s, problem);
        if (r == 0)
            o->start_ns = history->end_ns;
    }
    for (size_t i = t->branch.count; r == 0 && i-- > 0;)
        r = close_node(history, i, problem);
    struct body names = {0};
    if (r == 0 && names_write(history, 0, 0, &names) < 0)
        r = no_memory(history, problem);
    if (r == 0)
        r = write_end(history, &names, problem);
    free(names.at);
    if (r < 0)
        return r;
    array_foreach (&t->branch, b)
        node_free(*b);
    array_done(&t->branch);
    return 0;
}

/* ---- Queries ---- */

/* The first state that ends behind time_ns; those from there on may hold at that time. */
static size_t first_ending_after(const struct tree_node *node, uint64_t time_ns)
{
    size_t low = 0, high = node->states.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (node->states.at[middle].end_ns <= time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct state to_state(const struct tree_state *s)
{
    return (struct state){s->start_ns, s->end_ns, {s->bits, s->type}};
}

/* Whether a child may have states of the attributes least .. greatest within [start_ns, end_ns). While
 * building, the children that are open have all of the branch's later states. */
static bool child_concerns(const struct tree_children *c, uint32_t i, uint64_t start_ns, uint64_t end_ns,
                           uint32_t least, uint32_t greatest)
{
    if (c->end_ns[i] == UINT64_MAX)
        return c->start_ns[i] < end_ns;
    return c->start_ns[i] < end_ns && c->end_ns[i] > start_ns && c->least[i] <= greatest &&
           c->greatest[i] >= least;
}

struct point {
    uint64_t time_ns;
    uint32_t least, greatest;     /* attributes that matter */
    struct state *state;          /* of the only one, or */
    struct history_interval *all; /* of all of them */
    struct problem *problem;
};

typedef int node_fn(struct point *point, const struct tree_node *node);

/* Calls fn for each node from `sequence` down that may have what is wanted, until it returns other than 0. */
static int visit(struct history *history, uint32_t sequence, uint32_t depth, struct point *point, node_fn *fn)
{
    const struct tree *t = history->store;
    const struct tree_node *node = NULL;
    if (depth >= t->depth)
        return node_damaged(history, sequence, "lies deeper than the tree is", point->problem);
    int r = node_get(history, sequence, &node, point->problem);
    if (r == 0)
        r = fn(point, node);
    if (r != 0 || !node->core)
        return r;
    struct tree_children children = node->children; /* the cache may drop the node below */
    for (uint32_t i = children.count; r == 0 && i-- > 0;)
        if (child_concerns(&children, i, point->time_ns, point->time_ns + 1, point->least, point->greatest))
            r = visit(history, children.sequence[i], depth + 1, point, fn);
    return r;
}

static int find_in_node(struct point *point, const struct tree_node *node)
{
    for (size_t i = first_ending_after(node, point->time_ns); i < node->states.count; i++) {
        const struct tree_state *s = &node->states.at[i];
        if (s->quark == point->least && s->start_ns <= point->time_ns) {
            *point->state = to_state(s);
            return 1;
        }
    }
    return 0;
}

static int tree_find(struct history *history, uint32_t quark, uint64_t time_ns, struct state *ret_state,
                     struct problem *problem)
{
    const struct tree *t = history->store;
    struct point point = {time_ns, quark, quark, ret_state, NULL, problem};
    int r = visit(history, t->root, 0, &point, find_in_node);
    if (r == 0)
        return problem_set(problem, -EBADMSG, "%s: attribute %u has no state at %" PRIu64 " ns",
                           history->path, quark, time_ns);
    return MIN(r, 0);
}

static int full_in_node(struct point *point, const struct tree_node *node)
{
    for (size_t i = first_ending_after(node, point->time_ns); i < node->states.count; i++) {
        const struct tree_state *s = &node->states.at[i];
        if (s->start_ns > point->time_ns || s->quark > point->greatest)
            continue;
        struct history_interval *state = &point->all[s->quark];
        state->start_ns = s->start_ns;
        state->end_ns = s->end_ns;
        interval_set(state, (struct cell){s->bits, s->type});
    }
    return 0;
}

static int tree_full(struct history *history, uint64_t time_ns, struct history_interval *ret_states,
                     struct problem *problem)
{
    const struct tree *t = history->store;
    uint32_t attributes = history_count(history);
    if (!attributes)
        return 0;
    struct point point = {time_ns, 0, attributes - 1, NULL, ret_states, problem};
    for (uint32_t quark = 0; quark < attributes; quark++) /* unless one is found the caller refuses this */
        ret_states[quark] = (struct history_interval){.start_ns = HISTORY_ONGOING};
    int r = visit(history, t->root, 0, &point, full_in_node);
    for (uint32_t quark = 0; r == 0 && history->building && quark < attributes; quark++) {
        const struct ongoing *o = &history->ongoing.at[quark];
        if (time_ns < o->start_ns)
            continue;
        ret_states[quark] = (struct history_interval){.start_ns = o->start_ns};
        interval_set(&ret_states[quark], ongoing_cell(o));
    }
    return r;
}

/* Collects the states of some attributes that hold at one of the samples (or, without samples, overlap the
 * span). */
struct collection {
    struct history *history;
    struct problem *problem;
    uint64_t start_ns, end_ns;
    const uint64_t *samples;
    uint32_t sample_count;
    const uint8_t *wanted; /* by attribute */
    uint32_t least, greatest;
    ARRAY(struct tree_state) found;
};

/* Whether [start_ns, end_ns) concerns the collection. */
static bool concerns(const struct collection *c, uint64_t start_ns, uint64_t end_ns)
{
    if (!c->samples)
        return start_ns < c->end_ns && end_ns > c->start_ns;
    uint32_t low = 0, high = c->sample_count; /* the first sample at or behind start_ns */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (c->samples[middle] < start_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->sample_count && c->samples[low] < end_ns;
}

static int collect(struct collection *c, const struct tree_state *s)
{
    if (s->quark >= history_count(c->history) || !c->wanted[s->quark] || !concerns(c, s->start_ns, s->end_ns))
        return 0;
    return array_add(&c->found, *s) < 0 ? no_memory(c->history, c->problem) : 0;
}

static int collect_below(struct collection *c, uint32_t sequence, uint32_t depth)
{
    const struct tree *t = c->history->store;
    const struct tree_node *node = NULL;
    if (depth >= t->depth)
        return node_damaged(c->history, sequence, "lies deeper than the tree is", c->problem);
    int r = node_get(c->history, sequence, &node, c->problem);
    if (r < 0)
        return r;
    for (size_t i = first_ending_after(node, c->start_ns); r == 0 && i < node->states.count; i++)
        r = collect(c, &node->states.at[i]);
    if (r < 0 || !node->core)
        return r;
    struct tree_children children = node->children; /* the cache may drop the node below */
    for (uint32_t i = 0; r == 0 && i < children.count; i++)
        if (child_concerns(&children, i, c->start_ns, c->end_ns, c->least, c->greatest) &&
            concerns(c, children.start_ns[i], children.end_ns[i]))
            r = collect_below(c, children.sequence[i], depth + 1);
    return r;
}

static int by_attribute_and_time(const void *a, const void *b)
{
    const struct tree_state *x = a, *y = b;
    if (x->quark != y->quark)
        return x->quark < y->quark ? -1 : 1;
    return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* Collects and sorts. */
static int collect_all(struct collection *c, const uint32_t *quarks, size_t count)
{
    struct history *history = c->history;
    const struct tree *t = history->store;
    _cleanup_(freep) uint8_t *wanted = calloc(history_count(history) + 1ul, 1);
    if (!wanted)
        return no_memory(history, c->problem);
    c->least = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        wanted[quarks[i]] = 1;
        c->least = MIN(c->least, quarks[i]);
        c->greatest = MAX(c->greatest, quarks[i]);
    }
    c->wanted = wanted;
    int r = collect_below(c, t->root, 0);
    for (uint32_t quark = 0; r == 0 && history->building && quark < history->ongoing.count; quark++) {
        const struct ongoing *o = &history->ongoing.at[quark];
        struct tree_state s = {o->start_ns, HISTORY_ONGOING, o->bits, quark, o->type};
        r = collect(c, &s);
    }
    c->wanted = NULL;
    if (r == 0 && c->found.count)
        qsort(c->found.at, c->found.count, sizeof(*c->found.at), by_attribute_and_time);
    return r;
}

static int hand_out(struct collection *c, uint32_t quark, state_fn *fn, void *context)
{
    size_t low = 0, high = c->found.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->found.at[middle].quark < quark)
            low = middle + 1;
        else
            high = middle;
    }
    int r = 0;
    for (; r == 0 && low < c->found.count && c->found.at[low].quark == quark; low++) {
        struct state state = to_state(&c->found.at[low]);
        r = fn(context, quark, &state);
    }
    return r;
}

static int tree_range(struct history *history, uint32_t quark, uint64_t start_ns, uint64_t end_ns,
                      state_fn *fn, void *context, struct problem *problem)
{
    struct collection c = {.history = history, .problem = problem, .start_ns = start_ns, .end_ns = end_ns};
    int r = collect_all(&c, &quark, 1);
    if (r == 0)
        r = hand_out(&c, quark, fn, context);
    array_done(&c.found);
    return r;
}

static int tree_grid(struct history *history, const struct grid *grid, state_fn *fn, void *context,
                     struct problem *problem)
{
    _cleanup_(freep) uint64_t *samples = malloc(grid->columns * sizeof(*samples));
    if (!samples)
        return no_memory(history, problem);
    for (uint32_t i = 0; i < grid->columns; i++)
        samples[i] = column_start(grid, i);
    struct collection c = {.history = history,
                           .problem = problem,
                           .start_ns = grid->start_ns,
                           .end_ns = grid->end_ns,
                           .samples = samples,
                           .sample_count = grid->columns};
    int r = collect_all(&c, grid->quarks, grid->count);
    for (size_t i = 0; r == 0 && i < grid->count; i++)
        r = hand_out(&c, grid->quarks[i], fn, context);
    array_done(&c.found);
    return r;
}

/* Adds the states of one attribute to the column in progress and hands out those that are over. */
struct tally {
    const struct grid *grid;
    uint32_t column;
    struct summary summary;
    summary_fn *fn;
    void *context;
    uint64_t history_start_ns;
};

static int tally_state(void *context, uint32_t quark, const struct state *state)
{
    struct tally *tally = context;
    for (; tally->column < tally->grid->columns; tally->column++) {
        uint64_t from = column_start(tally->grid, tally->column),
                 to = column_start(tally->grid, tally->column + 1);
        if (from >= to)
            continue;
        if (state->start_ns >= from && state->start_ns < to &&
            (state->cell.type != HISTORY_NULL || state->start_ns != tally->history_start_ns))
            tally->summary.changes++;
        summary_add(&tally->summary, state->cell, MIN(state->end_ns, to) - MAX(state->start_ns, from));
        if (state->end_ns < to)
            return 0; /* the next state goes on in this column */
        int r = tally->fn(tally->context, quark, tally->column, &tally->summary);
        tally->summary = (struct summary){0};
        if (r != 0)
            return r;
        if (state->end_ns == to) {
            tally->column++;
            return 0;
        }
    }
    return 0;
}

static int tree_summarize(struct history *history, const struct grid *grid, summary_fn *fn, void *context,
                          struct problem *problem)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < grid->count; i++) {
        struct tally tally = {
            .grid = grid, .fn = fn, .context = context, .history_start_ns = history->start_ns};
        r = tree_range(history, grid->quarks[i], grid->start_ns, grid->end_ns, tally_state, &tally, problem);
    }
    return r;
}

/* ---- Creating, opening ---- */

static void tree_free(struct history *history)
{
    struct tree *t = history->store;
    if (!t)
        return;
    array_foreach (&t->branch, b)
        node_free(*b);
    array_done(&t->branch);
    for (int i = 0; i < CACHE_NODES; i++)
        node_free(t->cache[i]);
    if (t->fd >= 0)
        close(t->fd);
    free(t);
    history->store = NULL;
}

static void tree_info(const struct history *history, struct history_info *info)
{
    const struct tree *t = history->store;
    info->segments = t->nodes;
    info->file_bytes = t->file_bytes;
    info->memory_bytes += sizeof(*t);
    for (size_t i = 0; i < t->branch.count; i++)
        info->memory_bytes +=
            sizeof(**t->branch.at) + t->branch.at[i]->states.capacity * sizeof(struct tree_state);
    for (int i = 0; i < CACHE_NODES; i++)
        if (t->cache[i])
            info->memory_bytes +=
                sizeof(**t->cache) + t->cache[i]->states.capacity * sizeof(struct tree_state);
}

static const struct store_ops TREE_OPS = {
    .change = tree_change,
    .flush = tree_flush,
    .close = tree_close,
    .free = tree_free,
    .info = tree_info,
    .find = tree_find,
    .full = tree_full,
    .range = tree_range,
    .grid = tree_grid,
    .summarize = tree_summarize,
};

static struct tree *tree_new(struct history *history)
{
    struct tree *t = calloc(1, sizeof(*t));
    if (t)
        t->fd = -1;
    history->ops = &TREE_OPS;
    history->store = t;
    return t;
}

int tree_create(struct history *history, const struct history_options *options, struct problem *problem)
{
    struct tree *t = tree_new(history);
    if (!t)
        return no_memory(history, problem);
    t->fd = owner_open(history->path, O_RDWR | O_CREAT | O_TRUNC);
    if (t->fd < 0)
        return problem_set(problem, t->fd, "%s: cannot create: %s", history->path, strerror(-t->fd));
    t->end_ns = history->start_ns;
    t->depth = 1;
    struct tree_node *root = node_new(t, false, NO_NODE, history->start_ns);
    if (!root || array_add(&t->branch, root) < 0) {
        node_free(root);
        return no_memory(history, problem);
    }
    return write_at(history, 0, TREE_MAGIC, 8, problem);
}

static int load_names(struct history *history, const struct tree_head *head, struct problem *problem)
{
    struct tree *t = history->store;
    uint64_t at = node_at(head->nodes);
    _cleanup_(freep) uint8_t *names = malloc(head->names_bytes + 1);
    if (!names)
        return no_memory(history, problem);
    ssize_t n = pread(t->fd, names, head->names_bytes, (off_t)at);
    if (n < 0)
        return problem_set(problem, -errno, "%s: offset %" PRIu64 ": cannot read: %s", history->path, at,
                           strerror(errno));
    if ((uint64_t)n != head->names_bytes || map_hash(names, head->names_bytes) != head->names_checksum)
        return problem_set(problem, -EBADMSG, "%s: offset %" PRIu64 ": the checksum of the names is wrong",
                           history->path, at);
    const uint8_t *bad;
    int r = names_read(history, names, names + head->names_bytes, head->attributes, head->strings, &bad);
    if (r == -EBADMSG)
        return problem_set(problem, r, "%s: offset %" PRIu64 ": expected a name not seen before",
                           history->path, at + (uint64_t)(bad - names));
    return r < 0 ? no_memory(history, problem) : 0;
}

int tree_open(struct history *history, int fd, uint64_t file_bytes, struct problem *problem)
{
    struct tree *t = tree_new(history);
    if (!t) {
        close(fd);
        return no_memory(history, problem);
    }
    t->fd = fd;
    struct tree_head head = {0};
    if (pread(fd, &head, sizeof(head), 0) < 0)
        return problem_set(problem, -errno, "%s: cannot read: %s", history->path, strerror(errno));
    if (head.checksum != map_hash(&head, offsetof(struct tree_head, checksum))) {
        problem_set(problem, -EBADMSG,
                    "%s: offset 0: no whole history tree: it was never closed, or its head is damaged",
                    history->path);
        problem_remedy(problem, "only the columnar store survives a killed builder");
        return -EBADMSG;
    }
    if (head.version != 1 || head.node_size != NODE_SIZE || head.children_max != CHILDREN_MAX ||
        head.root >= head.nodes || head.start_ns >= head.end_ns || node_at(head.nodes) > file_bytes ||
        head.names_bytes != file_bytes - node_at(head.nodes) || head.depth > 64)
        return problem_set(problem, -EBADMSG,
                           "%s: offset 8: expected the head of a history tree of %" PRIu64 " bytes",
                           history->path, file_bytes);
    t->nodes = head.nodes;
    t->root = head.root;
    t->depth = head.depth;
    t->file_bytes = file_bytes;
    history->start_ns = head.start_ns;
    history->end_ns = head.end_ns;
    history->max_ns = head.end_ns - 1;
    history->changes = head.states;
    history->complete = true;
    return load_names(history, &head, problem);
}
