/* See book.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/book_parts.h"

#include <errno.h>

#include "base/macro.h"

#define BUCKETS_MAX      20000
#define GROUPS_MAX       256  /* of one bucket */
#define VERTICES_MAX     5000 /* of one group */
#define CELLS_MAX        50000
#define PATHS_MAX        200000 /* call paths of all types; calls beyond are counted in their caller's */
#define COMBINATIONS_MAX 20000
#define DEPTH_MAX        200 /* of a call path; deeper calls are counted in the last one */
#define VERSIONS_MAX     64  /* services in a combination */
#define SHIFT_FIRST      30  /* slots of 1.07 s to begin with */

const char *const BOOK_BUCKET_BY[] = {"hardware.generation", "host.cpu.model.name", "host.type", NULL};

void book_init(struct book *book, struct names *names, struct labels *labels,
               const struct book_settings *settings)
{
    *book = (struct book){
        .names = names, .labels = labels, .random = 1, .shift = SHIFT_FIRST, .first_slot = UINT32_MAX};
    if (settings)
        book->settings = *settings;
    if (!book->settings.bucket_by)
        book->settings.bucket_by = BOOK_BUCKET_BY;
    book->random += book->settings.seed;
}

static uint64_t next_random(struct book *book)
{
    uint64_t x = book->random += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* ---- paths ---- */

int book_put_path(struct book *book, uint32_t parent, const struct part *part, uint32_t *ret_path)
{
    unsigned depth = 0;
    for (uint32_t at = parent; at != BOOK_NONE; at = book->paths.at[at].parent, depth++)
        if (book->paths.at[at].service == part->service && book->paths.at[at].name == part->name &&
            book->paths.at[at].kind == part->kind) {
            *ret_path = at; /* recursion is folded */
            return 0;
        }
    if (depth >= DEPTH_MAX) {
        *ret_path = parent;
        return 0;
    }
    struct path path = {parent, part->service, part->name, part->kind};
    uint32_t identity[4] = {parent, part->service, part->name, part->kind};
    uint64_t key = map_hash(identity, sizeof(identity));
    uint64_t *slot;
    for (; (slot = map_get(&book->path_of, key)); key++) {
        const struct path *known = &book->paths.at[*slot];
        if (known->parent == parent && known->service == part->service && known->name == part->name &&
            known->kind == part->kind) {
            *ret_path = (uint32_t)*slot;
            return 0;
        }
    }
    if (book->paths.count >= PATHS_MAX) {
        book->counts.folded_vertices++;
        *ret_path = parent; /* BOOK_NONE: a request type too many */
        return 0;
    }
    if (array_add(&book->paths, path) < 0 || !(slot = map_put(&book->path_of, key, NULL)))
        return -ENOMEM;
    *slot = book->paths.count - 1;
    *ret_path = (uint32_t)*slot;
    return 0;
}

static int find_paths(struct book *book, const struct trace *trace)
{
    if (array_reserve(&book->path_of_part, trace->count) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < trace->count; i++) {
        const struct part *part = &trace->parts[i];
        uint32_t parent = part->up == PART_NONE ? BOOK_NONE : book->path_of_part.at[part->up];
        int r = book_put_path(book, parent, part, &book->path_of_part.at[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- versions and attributes of a request ---- */

static int by_service(const void *a, const void *b)
{
    const struct service_version *x = a, *y = b;
    if (x->service != y->service)
        return x->service < y->service ? -1 : 1;
    return x->version < y->version ? -1 : x->version > y->version;
}

/* Each (service, version) of the trace once. A service that ran in two versions has both. */
static size_t list_versions(const struct trace *trace, struct service_version *list)
{
    size_t n = 0;
    for (size_t i = 0; i < trace->count; i++) {
        const struct part *part = &trace->parts[i];
        size_t k = 0;
        while (k < n && (list[k].service != part->service || list[k].version != part->version))
            k++;
        if (k == n && n < VERSIONS_MAX)
            list[n++] = (struct service_version){part->service, part->version};
    }
    qsort(list, n, sizeof(*list), by_service);
    return n;
}

int book_put_combination(struct book *book, const struct service_version *list, size_t n,
                         uint32_t *ret_combination)
{
    uint64_t key = map_hash(list, n * sizeof(*list));
    uint64_t *slot;
    for (; (slot = map_get(&book->combination_of, key)); key++) {
        const struct combination *c = &book->combinations.at[*slot];
        if (c->count == n && memcmp(book->service_versions.at + c->first, list, n * sizeof(*list)) == 0) {
            *ret_combination = (uint32_t)*slot;
            return 0;
        }
    }
    if (book->combinations.count >= COMBINATIONS_MAX) {
        *ret_combination = BOOK_NONE;
        return 0;
    }
    struct combination c = {(uint32_t)book->service_versions.count, (uint32_t)n};
    for (size_t i = 0; i < n; i++)
        if (array_add(&book->service_versions, list[i]) < 0)
            return -ENOMEM;
    if (array_add(&book->combinations, c) < 0 || !(slot = map_put(&book->combination_of, key, NULL)))
        return -ENOMEM;
    *slot = book->combinations.count - 1;
    *ret_combination = (uint32_t)*slot;
    return 0;
}

/* ---- buckets, groups, cells ---- */

int book_put_bucket(struct book *book, const struct bucket *wanted, struct bucket **ret_bucket)
{
    uint32_t identity[4] = {wanted->whole, wanted->callee, wanted->type, wanted->labels};
    uint64_t key = map_hash(identity, sizeof(identity));
    uint64_t *slot = map_get(&book->bucket_of, key);
    if (!slot) {
        *ret_bucket = NULL;
        if (book->buckets.count >= BUCKETS_MAX) {
            book->counts.folded_buckets++;
            return 0;
        }
        if (array_add(&book->buckets, *wanted) < 0 || !(slot = map_put(&book->bucket_of, key, NULL)))
            return -ENOMEM;
        *slot = book->buckets.count - 1;
    }
    *ret_bucket = &book->buckets.at[*slot];
    return 0;
}

uint32_t book_judged(const struct book *book, const struct bucket *bucket)
{
    return bucket->callee == NAMES_NONE ? book->paths.at[bucket->type].service : bucket->callee;
}

int book_put_group(struct book *book, struct bucket *bucket, uint32_t combination, struct group **ret_group)
{
    *ret_group = NULL;
    for (size_t i = bucket->groups.count; i-- > 0;)
        if (bucket->groups.at[i].combination == combination) {
            *ret_group = &bucket->groups.at[i];
            return 0;
        }
    if (bucket->groups.count >= GROUPS_MAX) {
        book->counts.folded_groups++;
        return 0;
    }
    struct group group = {.combination = combination, .first_ns = UINT64_MAX, .above = BOOK_NONE};
    if (array_add(&bucket->groups, group) < 0)
        return -ENOMEM;
    *ret_group = &bucket->groups.at[bucket->groups.count - 1];
    return 0;
}

static void count_cell_host(struct cell *cell, uint32_t host)
{
    size_t at = 0;
    while (at + 1 < BOOK_CELL_HOSTS && cell->hosts[at].entries && cell->hosts[at].host != host)
        at++;
    if (!cell->hosts[at].entries)
        cell->hosts[at].host = host;
    cell->hosts[at].entries++;
}

int book_count_cell(struct book *book, uint32_t type, uint32_t combination, uint32_t labels, uint32_t host,
                    uint64_t duration_ns, bool failed)
{
    uint32_t identity[3] = {type, combination, labels};
    uint64_t key = map_hash(identity, sizeof(identity));
    uint64_t *slot = map_get(&book->cell_of, key);
    if (!slot) {
        if (book->cells.count >= CELLS_MAX) {
            book->counts.folded_cells++;
            return 0;
        }
        struct cell cell = {.type = type, .combination = combination, .labels = labels};
        if (array_add(&book->cells, cell) < 0 || !(slot = map_put(&book->cell_of, key, NULL)))
            return -ENOMEM;
        *slot = book->cells.count - 1;
    }
    count_cell_host(&book->cells.at[*slot], host);
    book->cells.at[*slot].errors += failed;
    return sketch_add(&book->cells.at[*slot].latency, duration_ns);
}

/* ---- vertices ---- */

const struct vertex *group_vertex(const struct group *group, uint32_t path)
{
    const uint64_t *slot = map_get(&group->vertex_of, path);
    return slot ? &group->vertices.at[*slot] : NULL;
}

static int put_vertex(struct book *book, struct group *group, uint32_t path, struct vertex **ret_vertex)
{
    uint64_t *slot = map_get(&group->vertex_of, path);
    *ret_vertex = NULL;
    if (!slot) {
        if (group->vertices.count >= VERTICES_MAX) {
            book->counts.folded_vertices++;
            return 0;
        }
        struct vertex vertex = {.path = path};
        if (array_add(&group->vertices, vertex) < 0 || !(slot = map_put(&group->vertex_of, path, NULL)))
            return -ENOMEM;
        *slot = group->vertices.count - 1;
    }
    *ret_vertex = &group->vertices.at[*slot];
    return 0;
}

/* Calls of one path under one parent, in order of start: how far they ran at once. The first of them in the
 * trace walks over all. */
static void count_together(const struct book *book, const struct tree *tree, uint32_t first,
                           struct vertex *vertex)
{
    const struct part *parts = tree->trace->parts;
    uint64_t total = 0, busy = 0, covered_to = 0, calls = 0;
    const uint32_t *children = book->scratch.children;
    uint32_t up = parts[first].up;
    for (uint32_t c = book->scratch.first_child[up]; c < book->scratch.first_child[up + 1]; c++) {
        uint32_t i = children[c];
        if (tree->paths[i] != tree->paths[first])
            continue;
        if (i < first)
            return; /* counted already */
        total += parts[i].end_ns - parts[i].start_ns;
        if (parts[i].end_ns > covered_to) {
            busy += parts[i].end_ns - MAX(parts[i].start_ns, covered_to);
            covered_to = parts[i].end_ns;
        }
        calls++;
    }
    if (calls < 2)
        return;
    vertex->together_ns += total;
    vertex->busy_ns += busy;
    vertex->together_calls += calls;
}

static int count_edge(struct vertex *vertex, const struct part *caller, const struct part *callee,
                      const struct path_time *time)
{
    uint64_t call = caller->end_ns - caller->start_ns, served = callee->end_ns - callee->start_ns;
    uint64_t gap = call > served ? call - served : 0;
    vertex->edges++;
    vertex->edge_ns += gap;
    vertex->edge_critical_ns += time->critical_ns;
    return sketch_add(&vertex->edge, gap);
}

static int count_part(struct book *book, struct group *group, const struct tree *tree, uint32_t i)
{
    const struct part *part = &tree->trace->parts[i];
    const struct path_time *time = &tree->times[i];
    bool on_top = part->up == PART_NONE || i == tree->list[0];
    struct vertex *vertex;
    int r = put_vertex(book, group, tree->paths[i], &vertex);
    if (r < 0 || !vertex)
        return r;
    uint64_t duration = part->end_ns - part->start_ns;
    vertex->calls++;
    vertex->errors += part->error;
    vertex->total_ns += duration;
    vertex->self_ns += time->self_ns;
    vertex->on_path += time->on_path;
    vertex->children_total_ns += time->children_total_ns;
    vertex->children_busy_ns += time->children_busy_ns;
    if (!on_top && tree->times[part->up].callee == i) {
        r = count_edge(vertex, &tree->trace->parts[part->up], part, &tree->times[part->up]);
        if (r < 0)
            return r;
    }
    if (!(time->is_call && time->callee != PART_NONE))
        vertex->critical_ns += time->critical_ns; /* else it is the callee's edge */
    const uint32_t *first_child = book->scratch.first_child;
    vertex->childless += first_child[i] == first_child[i + 1];
    if (!on_top) {
        vertex->last += book->scratch.children[first_child[part->up + 1] - 1] == i;
        count_together(book, tree, i, vertex);
    }
    r = sketch_add(&vertex->self, time->self_ns);
    return r < 0 ? r : sketch_add(&vertex->duration, duration);
}

/* requests per vertex: each path of the tree once; parts of one path are found by a mark per path. */
static void count_requests(struct book *book, struct group *group, const struct tree *tree)
{
    book->mark++;
    for (size_t i = 0; i < tree->count; i++) {
        uint64_t *slot = map_get(&group->vertex_of, tree->paths[tree->list[i]]);
        if (slot && book->marks.at[*slot] != book->mark) {
            book->marks.at[*slot] = book->mark;
            group->vertices.at[*slot].requests++;
        }
    }
}

static int count_parts(struct book *book, struct group *group, const struct tree *tree)
{
    for (size_t i = 0; i < tree->count; i++) {
        int r = count_part(book, group, tree, tree->list[i]);
        if (r < 0)
            return r;
    }
    size_t known = book->marks.count;
    if (group->vertices.count > known) {
        if (array_reserve(&book->marks, group->vertices.count) < 0)
            return -ENOMEM;
        memset(book->marks.at + known, 0, (group->vertices.count - known) * sizeof(uint64_t));
        book->marks.count = group->vertices.count;
    }
    count_requests(book, group, tree);
    return 0;
}

/* ---- exemplars ---- */

static void keep(struct exemplar *exemplar, const struct tree *tree, uint64_t duration_ns)
{
    const struct trace *trace = tree->trace;
    struct part *parts = malloc(tree->count * sizeof(*parts));
    if (!parts)
        return; /* evidence is a courtesy */
    for (size_t i = 0; i < tree->count; i++) {
        parts[i] = trace->parts[tree->list[i]];
        parts[i].up = i && parts[i].up != PART_NONE ? tree->places[parts[i].up] : PART_NONE;
    }
    free(exemplar->parts);
    *exemplar = (struct exemplar){trace->high, trace->low, duration_ns, parts, tree->count};
}

/* The slowest ones, and ones near the median (by the sketch so far, looked up now and then). */
static void keep_exemplars(struct book *book, struct group *group, const struct tree *tree,
                           uint64_t duration_ns)
{
    struct exemplar *least = &group->slow[0];
    for (int i = 1; i < BOOK_EXEMPLARS; i++)
        if (group->slow[i].duration_ns < least->duration_ns)
            least = &group->slow[i];
    if (duration_ns > least->duration_ns || !least->parts)
        keep(least, tree, duration_ns);
    /* At powers of two, and of the requests between some by chance: a median is worth looking up. */
    bool look = group->requests < 16 || (group->requests & (group->requests - 1)) == 0 ||
                next_random(book) % (group->requests / 8 + 1) == 0;
    if (!look)
        return;
    double median = sketch_quantile(&group->latency, 0.5);
    if ((double)duration_ns > 0.95 * median && (double)duration_ns < 1.05 * median)
        keep(&group->normal[next_random(book) % BOOK_EXEMPLARS], tree, duration_ns);
}

/* ---- requests ---- */

int book_count_tree(struct book *book, struct group *group, const struct tree *tree)
{
    const struct part *first = &tree->trace->parts[tree->list[0]];
    uint64_t duration_ns = first->end_ns - first->start_ns;
    group->requests++;
    group->errors += first->error;
    group->first_ns = MIN(group->first_ns, first->start_ns);
    group->last_ns = MAX(group->last_ns, first->start_ns);
    int r = sketch_add(&group->latency, duration_ns);
    if (r == 0)
        r = count_parts(book, group, tree);
    if (r == 0)
        keep_exemplars(book, group, tree, duration_ns);
    return r;
}

/* The request as a whole: all of the trace. */
static int count_whole(struct book *book, const struct trace *trace, uint32_t labels)
{
    struct service_version list[VERSIONS_MAX];
    uint32_t combination, by = 0, type = book->path_of_part.at[0]; /* BOOK_NONE: one too many */
    struct bucket *bucket = NULL;
    struct group *group = NULL;
    int r = book_put_combination(book, list, list_versions(trace, list), &combination);
    if (r == 0 && (type == BOOK_NONE || combination == BOOK_NONE)) {
        *(type == BOOK_NONE ? &book->counts.folded_buckets : &book->counts.folded_groups) += 1;
        return 0;
    }
    if (r == 0)
        r = book_bucket_labels(book, labels, &by);
    if (r == 0)
        r = book_put_bucket(
            book, &(struct bucket){.whole = true, .callee = NAMES_NONE, .type = type, .labels = by}, &bucket);
    if (r == 0 && bucket)
        r = book_put_group(book, bucket, combination, &group);
    if (r < 0 || !group)
        return r;
    array_clear(&book->list);
    for (uint32_t i = 0; r == 0 && i < trace->count; i++)
        r = array_add(&book->list, i);
    struct tree tree = {trace,         book->list.at,         trace->count,
                        book->list.at, book->path_of_part.at, book->times.at};
    return r < 0 ? r : book_count_tree(book, group, &tree);
}

int book_add(struct book *book, struct trace *trace)
{
    uint32_t root, labels = 0;
    int r = trace_link(trace, &book->link_counts, &root);
    if (r < 0)
        return r;
    if (trace->count == 0) {
        book->counts.empty++;
        return 0;
    }
    *(root == PART_NONE ? &book->counts.rootless : &book->counts.requests) += 1;
    if (array_reserve(&book->times, trace->count) < 0)
        return -ENOMEM;
    r = path_find(trace, root, &book->scratch, book->times.at);
    if (r == 0)
        r = find_paths(book, trace);
    if (r == 0)
        r = book_request_labels(book, trace, &labels);
    if (r == 0 && root != PART_NONE)
        r = count_whole(book, trace, labels);
    uint64_t whole_ns = root == PART_NONE ? 0 : trace->parts[root].end_ns - trace->parts[root].start_ns;
    return r < 0 ? r : book_count_entries(book, trace, labels, whole_ns);
}

size_t book_bucket_count(const struct book *book)
{
    size_t n = 0;
    array_foreach (&book->buckets, bucket)
        n += bucket->whole;
    return n;
}

static size_t group_held_bytes(const struct group *group)
{
    size_t bytes = sizeof(*group) + sketch_held_bytes(&group->latency) + sketch_held_bytes(&group->request) +
                   group->vertices.capacity * sizeof(struct vertex) +
                   group->hosts.capacity * sizeof(struct host);
    array_foreach (&group->vertices, v)
        bytes += sketch_held_bytes(&v->duration) + sketch_held_bytes(&v->self) + sketch_held_bytes(&v->edge);
    array_foreach (&group->hosts, h) {
        bytes +=
            h->strata.capacity * sizeof(struct stratum) + h->stratum_of.capacity * sizeof(struct map_slot);
        array_foreach (&h->strata, stratum)
            bytes += sketch_held_bytes(&stratum->latency);
    }
    return bytes;
}

size_t book_held_bytes(const struct book *book)
{
    size_t bytes = book->names->arena.held_bytes + book->paths.capacity * sizeof(struct path) +
                   book->cells.capacity * sizeof(struct cell) + book->classes.capacity * sizeof(struct class);
    array_foreach (&book->cells, cell)
        bytes += sketch_held_bytes(&cell->latency);
    array_foreach (&book->buckets, bucket)
        array_foreach (&bucket->groups, group)
            bytes += group_held_bytes(group);
    return bytes;
}

/* ---- the end ---- */

static void group_done(struct group *group)
{
    array_foreach (&group->vertices, v) {
        sketch_done(&v->duration);
        sketch_done(&v->self);
        sketch_done(&v->edge);
    }
    array_foreach (&group->hosts, h)
        book_strata_done(h);
    for (int i = 0; i < BOOK_EXEMPLARS; i++) {
        free(group->slow[i].parts);
        free(group->normal[i].parts);
    }
    sketch_done(&group->latency);
    sketch_done(&group->request);
    array_done(&group->vertices);
    array_done(&group->hosts);
    map_done(&group->vertex_of);
    map_done(&group->host_of);
}

void book_done(struct book *book)
{
    array_foreach (&book->buckets, bucket) {
        array_foreach (&bucket->groups, group)
            group_done(group);
        array_done(&bucket->groups);
        map_done(&bucket->classes);
    }
    array_foreach (&book->cells, cell)
        sketch_done(&cell->latency);
    days_done(&book->days);
    array_done(&book->paths);
    array_done(&book->buckets);
    array_done(&book->service_versions);
    array_done(&book->combinations);
    array_done(&book->cells);
    array_done(&book->classes);
    array_done(&book->times);
    array_done(&book->entry_times);
    array_done(&book->path_of_part);
    array_done(&book->entry_path_of_part);
    array_done(&book->list);
    array_done(&book->roles);
    array_done(&book->places);
    array_done(&book->marks);
    map_done(&book->path_of);
    map_done(&book->bucket_of);
    map_done(&book->combination_of);
    map_done(&book->cell_of);
    map_done(&book->labels_of_sets);
    map_done(&book->labels_of_class);
    map_done(&book->class_of);
    map_done(&book->versions_of);
    path_scratch_done(&book->scratch);
}
