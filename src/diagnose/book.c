/* See book.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/book.h"

#include <errno.h>

#include "base/macro.h"

#define BUCKETS_MAX      20000
#define GROUPS_MAX       256  /* of one bucket */
#define HOSTS_MAX        4096 /* (service, host) pairs of one group */
#define VERTICES_MAX     5000 /* of one group */
#define CELLS_MAX        50000
#define PATHS_MAX        200000 /* call paths of all types; calls beyond are counted in their caller's */
#define COMBINATIONS_MAX 20000
#define UNITED_MAX       200000 /* label sets that are remembered united */
#define DEPTH_MAX        200    /* of a call path; deeper calls are counted in the last one */
#define VALUES_JOINED    3      /* different values of one key in a request, before they are "(mixed)" */
#define VERSIONS_MAX     64     /* services in a combination */

const char *const BOOK_BUCKET_BY[] = {"hardware.generation", "host.cpu.model.name", "host.type", NULL};

void book_init(struct book *book, struct names *names, struct labels *labels,
               const struct book_settings *settings)
{
    *book = (struct book){.names = names, .labels = labels, .random = 1};
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

static int put_path(struct book *book, uint32_t parent, const struct part *part, uint32_t *ret_path)
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
        int r = put_path(book, parent, part, &book->path_of_part.at[i]);
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

static int put_combination(struct book *book, const struct trace *trace, uint32_t *ret_combination)
{
    struct service_version list[VERSIONS_MAX];
    size_t n = list_versions(trace, list);
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

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* One value of a key in a request: itself, "a + b", or "(mixed)". */
static int join_values(struct book *book, uint32_t key, uint32_t *values, size_t count,
                       struct label *ret_label)
{
    *ret_label = (struct label){key, values[0]};
    if (count == 1)
        return 1;
    struct text words = {0};
    qsort(values, count, sizeof(*values), by_number);
    for (size_t i = 0; i < count && count <= VALUES_JOINED; i++) {
        text_add(&words, i ? " + " : "");
        text_add(&words, labels_value_name(book->labels, key, values[i]));
    }
    if (count > VALUES_JOINED)
        text_add(&words, "(mixed)");
    bool put = !words.failed && labels_put(book->labels, slice_of(labels_key_name(book->labels, key)),
                                           slice_of(text_get(&words)), ret_label);
    text_done(&words);
    return put;
}

/* Keys that differ between versions or instances by their nature explain nothing, and would split the cells.
 */
static bool is_identity(const char *key)
{
    static const char *const beginnings[] = {"process.",    "container.", "telemetry.", "sonde.recording",
                                             "host.name",   "host.id",    "hostname",   "k8s.pod.",
                                             "ip.",         "http.url",   "url.",       "http.host",
                                             "http.target", "net.",       "network.",   "server.",
                                             "client.",     "peer.",      "thread."};
    for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++)
        if (strncmp(key, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return strstr(key, "version") || strstr(key, "instance.id") || strstr(key, "user_agent");
}

static int unite_labels(struct book *book, const uint32_t *sets, size_t count, uint32_t *ret_set)
{
    struct label all[512], united[LABELS_SET_MAX];
    size_t n = 0, m = 0;
    for (size_t s = 0; s < count; s++) {
        size_t pairs;
        const struct label *from = labels_of(book->labels, sets[s], &pairs);
        for (size_t i = 0; i < pairs; i++) {
            size_t k = 0;
            while (k < n && (all[k].key != from[i].key || all[k].value != from[i].value))
                k++;
            if (k == n && n < ARRAY_SIZE(all))
                all[n++] = from[i];
        }
    }
    for (size_t i = 0; i < n && m < LABELS_SET_MAX; i++) {
        uint32_t values[VALUES_JOINED + 1];
        size_t different = 0;
        bool first = !is_identity(labels_key_name(book->labels, all[i].key));
        for (size_t k = 0; first && k < i; k++)
            first &= all[k].key != all[i].key;
        for (size_t k = i; first && k < n; k++)
            if (all[k].key == all[i].key && different <= VALUES_JOINED)
                values[different++] = all[k].value;
        if (different && join_values(book, all[i].key, values, different, &united[m]) > 0)
            m++;
    }
    return labels_set(book->labels, united, m, ret_set);
}

/* The request's attributes: those of all its spans. Most requests have one of few sequences of sets. */
static int request_labels(struct book *book, const struct trace *trace, uint32_t *ret_set)
{
    uint32_t sets[64];
    size_t n = 0;
    for (size_t i = 0; i < trace->count; i++) {
        size_t k = 0;
        while (k < n && sets[k] != trace->parts[i].labels)
            k++;
        if (k == n && n < ARRAY_SIZE(sets))
            sets[n++] = trace->parts[i].labels;
    }
    qsort(sets, n, sizeof(*sets), by_number);
    bool added;
    if (book->labels_of_sets.count >= UNITED_MAX)
        map_clear(&book->labels_of_sets);
    uint64_t *slot = map_put(&book->labels_of_sets, map_hash(sets, n * sizeof(*sets)), &added);
    if (!slot)
        return -ENOMEM;
    if (added) {
        uint32_t set;
        int r = unite_labels(book, sets, n, &set);
        if (r < 0)
            return r;
        *slot = set;
    }
    *ret_set = (uint32_t)*slot;
    return 0;
}

/* Only the pairs whose keys requests are bucketed by. */
static int bucket_labels(struct book *book, uint32_t labels, uint32_t *ret_set)
{
    struct label pairs[16];
    size_t n = 0;
    for (const char *const *key = book->settings.bucket_by; *key && n < ARRAY_SIZE(pairs); key++) {
        uint32_t number = names_find(&book->labels->keys, slice_of(*key));
        uint32_t value = number == NAMES_NONE ? NAMES_NONE : labels_value(book->labels, labels, number);
        if (value != NAMES_NONE)
            pairs[n++] = (struct label){number, value};
    }
    return labels_set(book->labels, pairs, n, ret_set);
}

/* ---- buckets, groups, cells ---- */

static int put_bucket(struct book *book, uint32_t type, uint32_t labels, struct bucket **ret_bucket)
{
    uint64_t key = (uint64_t)type << 32 | labels;
    uint64_t *slot = map_get(&book->bucket_of, key);
    if (!slot) {
        *ret_bucket = NULL;
        if (book->buckets.count >= BUCKETS_MAX) {
            book->counts.folded_buckets++;
            return 0;
        }
        struct bucket bucket = {.type = type, .labels = labels};
        if (array_add(&book->buckets, bucket) < 0 || !(slot = map_put(&book->bucket_of, key, NULL)))
            return -ENOMEM;
        *slot = book->buckets.count - 1;
    }
    *ret_bucket = &book->buckets.at[*slot];
    return 0;
}

/* Whether a combination has a service in a version that the bucket has not met. */
static bool brings_version(const struct book *book, const struct bucket *bucket, uint32_t combination)
{
    const struct combination *c = &book->combinations.at[combination];
    for (uint32_t i = 0; i < c->count; i++) {
        const struct service_version *v = &book->service_versions.at[c->first + i];
        bool met = false;
        array_foreach (&bucket->groups, group)
            met |= book_has_version(book, group->combination, v->service, v->version);
        if (!met)
            return true;
    }
    return false;
}

/* A version arrives: what comes from now on is told from what came before, so that versions that run at the
 * same time are compared over the same time. */
static int remember_earlier(struct bucket *bucket)
{
    int r = 0;
    array_foreach (&bucket->groups, group)
        array_foreach (&group->hosts, host) {
            sketch_done(&host->earlier);
            if (r == 0)
                r = sketch_merge(&host->earlier, &host->latency);
        }
    return r;
}

static int put_group(struct book *book, struct bucket *bucket, uint32_t combination, struct group **ret_group)
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
    if (bucket->groups.count && brings_version(book, bucket, combination)) {
        int r = remember_earlier(bucket);
        if (r < 0)
            return r;
    }
    struct group group = {.combination = combination, .first_ns = UINT64_MAX};
    if (array_add(&bucket->groups, group) < 0)
        return -ENOMEM;
    *ret_group = &bucket->groups.at[bucket->groups.count - 1];
    return 0;
}

static int count_cell(struct book *book, uint32_t type, uint32_t combination, uint32_t labels,
                      uint64_t duration_ns)
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
    return sketch_add(&book->cells.at[*slot].latency, duration_ns);
}

static int count_host(struct book *book, struct group *group, uint32_t service, uint32_t host,
                      uint64_t duration_ns)
{
    uint64_t key = (uint64_t)service << 32 | host;
    uint64_t *slot = map_get(&group->host_of, key);
    if (!slot) {
        if (group->hosts.count >= HOSTS_MAX) {
            book->counts.folded_hosts++;
            return 0;
        }
        struct host entry = {.service = service, .host = host};
        if (array_add(&group->hosts, entry) < 0 || !(slot = map_put(&group->host_of, key, NULL)))
            return -ENOMEM;
        *slot = group->hosts.count - 1;
    }
    return sketch_add(&group->hosts.at[*slot].latency, duration_ns);
}

static int count_hosts(struct book *book, struct group *group, const struct trace *trace,
                       uint64_t duration_ns)
{
    uint64_t seen[128];
    size_t n = 0;
    for (size_t i = 0; i < trace->count; i++) {
        const struct part *part = &trace->parts[i];
        uint64_t key = (uint64_t)part->service << 32 | part->host;
        size_t k = n;
        while (k > 0 && seen[k - 1] != key)
            k--;
        if (k > 0 || n == ARRAY_SIZE(seen))
            continue;
        seen[n++] = key;
        int r = count_host(book, group, part->service, part->host, duration_ns);
        if (r < 0)
            return r;
    }
    return 0;
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
static void count_together(const struct book *book, const struct trace *trace, uint32_t first,
                           struct vertex *vertex)
{
    const struct part *parts = trace->parts;
    uint64_t total = 0, busy = 0, covered_to = 0, calls = 0;
    const uint32_t *children = book->scratch.children;
    uint32_t up = parts[first].up;
    for (uint32_t c = book->scratch.first_child[up]; c < book->scratch.first_child[up + 1]; c++) {
        uint32_t i = children[c];
        if (book->path_of_part.at[i] != book->path_of_part.at[first])
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

static int count_part(struct book *book, struct group *group, const struct trace *trace, uint32_t i)
{
    const struct part *part = &trace->parts[i];
    const struct path_time *time = &book->times.at[i];
    struct vertex *vertex;
    int r = put_vertex(book, group, book->path_of_part.at[i], &vertex);
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
    if (part->up != PART_NONE && book->times.at[part->up].callee == i) {
        r = count_edge(vertex, &trace->parts[part->up], part, &book->times.at[part->up]);
        if (r < 0)
            return r;
    }
    if (!(time->is_call && time->callee != PART_NONE))
        vertex->critical_ns += time->critical_ns; /* else it is the callee's edge */
    const uint32_t *first_child = book->scratch.first_child;
    vertex->childless += first_child[i] == first_child[i + 1];
    if (part->up != PART_NONE) {
        vertex->last += book->scratch.children[first_child[part->up + 1] - 1] == i;
        count_together(book, trace, i, vertex);
    }
    r = sketch_add(&vertex->self, time->self_ns);
    return r < 0 ? r : sketch_add(&vertex->duration, duration);
}

/* requests per vertex: each path of the trace once; parts of one path are found by a mark per path. */
static void count_requests(struct book *book, struct group *group, const struct trace *trace)
{
    for (size_t i = 0; i < trace->count; i++) {
        uint64_t *slot = map_get(&group->vertex_of, book->path_of_part.at[i]);
        if (slot && book->marks.at[*slot] != book->counts.requests) {
            book->marks.at[*slot] = book->counts.requests;
            group->vertices.at[*slot].requests++;
        }
    }
}

static int count_parts(struct book *book, struct group *group, const struct trace *trace)
{
    for (uint32_t i = 0; i < trace->count; i++) {
        int r = count_part(book, group, trace, i);
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
    count_requests(book, group, trace);
    return 0;
}

/* ---- exemplars ---- */

static void keep(struct exemplar *exemplar, const struct trace *trace, uint64_t duration_ns)
{
    struct part *parts = malloc(trace->count * sizeof(*parts));
    if (!parts)
        return; /* evidence is a courtesy */
    memcpy(parts, trace->parts, trace->count * sizeof(*parts));
    free(exemplar->parts);
    *exemplar = (struct exemplar){trace->high, trace->low, duration_ns, parts, trace->count};
}

/* The slowest ones, and ones near the median (by the sketch so far, looked up now and then). */
static void keep_exemplars(struct book *book, struct group *group, const struct trace *trace,
                           uint64_t duration_ns)
{
    struct exemplar *least = &group->slow[0];
    for (int i = 1; i < BOOK_EXEMPLARS; i++)
        if (group->slow[i].duration_ns < least->duration_ns)
            least = &group->slow[i];
    if (duration_ns > least->duration_ns || !least->parts)
        keep(least, trace, duration_ns);
    /* At powers of two, and of the requests between some by chance: a median is worth looking up. */
    bool look = group->requests < 16 || (group->requests & (group->requests - 1)) == 0 ||
                next_random(book) % (group->requests / 8 + 1) == 0;
    if (!look)
        return;
    double median = sketch_quantile(&group->latency, 0.5);
    if ((double)duration_ns > 0.95 * median && (double)duration_ns < 1.05 * median)
        keep(&group->normal[next_random(book) % BOOK_EXEMPLARS], trace, duration_ns);
}

/* ---- requests ---- */

static int count_request(struct book *book, struct trace *trace, uint32_t root)
{
    uint32_t combination, labels = 0, by = 0;
    struct bucket *bucket = NULL;
    struct group *group = NULL;
    const struct part *first = &trace->parts[root];
    uint64_t duration_ns = first->end_ns - first->start_ns;
    uint32_t type = book->path_of_part.at[root]; /* BOOK_NONE: one too many */
    int r = put_combination(book, trace, &combination);
    if (r == 0 && (type == BOOK_NONE || combination == BOOK_NONE)) {
        *(type == BOOK_NONE ? &book->counts.folded_buckets : &book->counts.folded_groups) += 1;
        return 0;
    }
    if (r == 0)
        r = request_labels(book, trace, &labels);
    if (r == 0)
        r = bucket_labels(book, labels, &by);
    if (r == 0)
        r = put_bucket(book, type, by, &bucket);
    if (r < 0 || !bucket)
        return r;
    r = put_group(book, bucket, combination, &group);
    if (r < 0 || !group)
        return r;
    group->requests++;
    group->errors += first->error;
    group->first_ns = MIN(group->first_ns, first->start_ns);
    group->last_ns = MAX(group->last_ns, first->start_ns);
    r = sketch_add(&group->latency, duration_ns);
    if (r == 0)
        r = count_cell(book, type, combination, labels, duration_ns);
    if (r == 0)
        r = count_hosts(book, group, trace, duration_ns);
    if (r == 0)
        r = count_parts(book, group, trace);
    if (r == 0)
        keep_exemplars(book, group, trace, duration_ns);
    return r;
}

int book_add(struct book *book, struct trace *trace)
{
    uint32_t root;
    int r = trace_link(trace, &book->link_counts, &root);
    if (r < 0)
        return r;
    if (trace->count == 0) {
        book->counts.empty++;
        return 0;
    }
    if (root == PART_NONE) {
        book->counts.rootless++;
        return 0;
    }
    book->counts.requests++;
    if (array_reserve(&book->times, trace->count) < 0)
        return -ENOMEM;
    r = path_find(trace, root, &book->scratch, book->times.at);
    if (r == 0)
        r = find_paths(book, trace);
    return r < 0 ? r : count_request(book, trace, root);
}

/* ---- words ---- */

void book_path_words(const struct book *book, uint32_t path, struct text *to)
{
    const struct path *p = &book->paths.at[path];
    text_addf(to, "%s %s", names_get(book->names, p->service), names_get(book->names, p->name));
}

void book_path_chain(const struct book *book, uint32_t path, struct text *to)
{
    uint32_t chain[DEPTH_MAX + 1];
    size_t n = 0;
    for (uint32_t at = path; at != BOOK_NONE && n < ARRAY_SIZE(chain); at = book->paths.at[at].parent)
        chain[n++] = at;
    while (n-- > 0) {
        book_path_words(book, chain[n], to);
        text_add(to, n ? " > " : "");
    }
}

void book_bucket_words(const struct book *book, const struct bucket *bucket, struct text *to)
{
    size_t n;
    const struct label *pairs = labels_of(book->labels, bucket->labels, &n);
    book_path_words(book, bucket->type, to);
    for (size_t i = 0; i < n; i++)
        text_addf(to, "%s%s=%s", i ? ", " : " [", labels_key_name(book->labels, pairs[i].key),
                  labels_value_name(book->labels, pairs[i].key, pairs[i].value));
    text_add(to, n ? "]" : "");
}

void book_combination_words(const struct book *book, uint32_t combination, struct text *to)
{
    const struct combination *c = &book->combinations.at[combination];
    bool any = false;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct service_version *v = &book->service_versions.at[c->first + i];
        if (!v->version)
            continue;
        text_addf(to, "%s%s %s", any ? ", " : "", names_get(book->names, v->service),
                  names_get(book->names, v->version));
        any = true;
    }
    if (!any)
        text_add(to, "no versions");
}

bool book_has_version(const struct book *book, uint32_t combination, uint32_t service, uint32_t version)
{
    const struct combination *c = &book->combinations.at[combination];
    for (uint32_t i = 0; i < c->count; i++) {
        const struct service_version *v = &book->service_versions.at[c->first + i];
        if (v->service == service && (v->version == version || version == NAMES_NONE))
            return true;
    }
    return false;
}

/* ---- the end ---- */

static void group_done(struct group *group)
{
    array_foreach (&group->vertices, v) {
        sketch_done(&v->duration);
        sketch_done(&v->self);
        sketch_done(&v->edge);
    }
    array_foreach (&group->hosts, h) {
        sketch_done(&h->latency);
        sketch_done(&h->earlier);
    }
    for (int i = 0; i < BOOK_EXEMPLARS; i++) {
        free(group->slow[i].parts);
        free(group->normal[i].parts);
    }
    sketch_done(&group->latency);
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
    }
    array_foreach (&book->cells, cell)
        sketch_done(&cell->latency);
    array_done(&book->paths);
    array_done(&book->buckets);
    array_done(&book->service_versions);
    array_done(&book->combinations);
    array_done(&book->cells);
    array_done(&book->times);
    array_done(&book->path_of_part);
    array_done(&book->marks);
    map_done(&book->path_of);
    map_done(&book->bucket_of);
    map_done(&book->combination_of);
    map_done(&book->cell_of);
    map_done(&book->labels_of_sets);
    path_scratch_done(&book->scratch);
}
