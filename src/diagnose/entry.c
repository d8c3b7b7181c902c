/* Entries: each service of a request where it stands. An entry begins with the span by which a service is
 * entered, or with which it goes on behind the back of whoever asked for it, and ends at the calls that it
 * makes to others, which are leaves of it. Entries are counted per host, slot of time and class. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/clock.h"
#include "base/macro.h"
#include "diagnose/book_parts.h"

#define HOSTS_MAX      4096   /* of one group */
#define CLASSES_MAX    512    /* of one bucket; further ones are told apart by their sub-operations alone */
#define CLASSES_ROOM   640    /* of one bucket, those included; further ones are of class 0 */
#define STRATA_MAX     400000 /* of the book, before slots are made wider */
#define SLOTS_FEW      8      /* they are not made fewer than this to save memory */
#define PARTS_MAX      12     /* different sub-operations that make a class */
#define OUTLIVES_SHARE 10     /* an entry of its own: ends later than its caller by a tenth of itself */
#define OUTLIVES_NS    NS_PER_MS
#define ODD_TIME_SHIFTS \
    12 /* a start that would widen the slots so often at once is taken for a wrong clock */

/* ---- which spans are entries ---- */

/* Nobody waits for it: it begins after its parent has ended, or goes on after that. */
static bool is_detached(const struct part *part, const struct part *up)
{
    uint64_t duration_ns = part->end_ns - part->start_ns;
    if (part->kind == SPAN_KIND_CONSUMER || up->kind == SPAN_KIND_PRODUCER)
        return true;
    if (part->host != up->host)
        return false; /* other clocks */
    if (part->start_ns >= up->end_ns && up->end_ns > up->start_ns)
        return true;
    return part->end_ns > up->end_ns + MAX(OUTLIVES_NS, duration_ns / OUTLIVES_SHARE);
}

static bool is_entry(const struct trace *trace, uint32_t i)
{
    const struct part *part = &trace->parts[i];
    bool serves = part->kind == SPAN_KIND_SERVER || part->kind == SPAN_KIND_CONSUMER;
    if (part->up == PART_NONE)
        return serves || !part->orphan;
    const struct part *up = &trace->parts[part->up];
    return serves || up->service != part->service || is_detached(part, up);
}

/* The spans of an entry into book->list, and what each is to it into book->roles. */
static int find_entry(struct book *book, const struct trace *trace, uint32_t entry)
{
    const struct path_scratch *s = &book->scratch;
    array_clear(&book->list);
    if (array_add(&book->list, entry) < 0)
        return -ENOMEM;
    book->roles.at[entry] = PATH_INSIDE;
    for (size_t at = 0; at < book->list.count; at++) {
        uint32_t i = book->list.at[at];
        book->places.at[i] = (uint32_t)at;
        if (book->roles.at[i] == PATH_LEAF)
            continue;
        for (uint32_t c = s->first_child[i]; c < s->first_child[i + 1]; c++) {
            uint32_t child = s->children[c];
            bool enters = is_entry(trace, child);
            book->roles.at[child] = !enters                                               ? PATH_INSIDE
                                    : is_detached(&trace->parts[child], &trace->parts[i]) ? PATH_OUTSIDE
                                                                                          : PATH_LEAF;
            if (book->roles.at[child] != PATH_OUTSIDE && array_add(&book->list, child) < 0)
                return -ENOMEM;
        }
    }
    return 0;
}

static int find_entry_paths(struct book *book, const struct trace *trace)
{
    for (size_t at = 0; at < book->list.count; at++) {
        uint32_t i = book->list.at[at], *paths = book->entry_path_of_part.at;
        int r = book_put_path(book, at ? paths[trace->parts[i].up] : BOOK_NONE, &trace->parts[i], &paths[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- classes ---- */

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Of the names of the operations directly below the entry: which there are, not how many of each. */
static uint64_t hash_parts(const struct book *book, const struct trace *trace)
{
    uint32_t names[PARTS_MAX];
    size_t n = 0;
    for (size_t at = 1; at < book->list.count && trace->parts[book->list.at[at]].up == book->list.at[0];
         at++) {
        uint32_t name = trace->parts[book->list.at[at]].name;
        size_t k = 0;
        while (k < n && names[k] != name)
            k++;
        if (k == n && n == PARTS_MAX)
            return 0;
        if (k == n)
            names[n++] = name;
    }
    qsort(names, n, sizeof(*names), by_number);
    return n ? map_hash(names, n * sizeof(*names)) : 0;
}

/* The class of these labels and sub-operations, unless the bucket has `room` classes already: then 0. */
static int put_class_within(struct book *book, struct bucket *bucket, const struct class *class,
                            uint32_t room, uint32_t *ret_class)
{
    uint64_t identity[2] = {class->labels, class->parts}, key = map_hash(identity, sizeof(identity));
    uint64_t *known = map_get(&book->class_of, key);
    if (!known || !map_get(&bucket->classes, *known)) {
        if (bucket->classes.count >= room || book->stratum_count >= STRATA_MAX) {
            *ret_class = 0;
            return 0;
        }
        if (!known) {
            if (array_add(&book->classes, *class) < 0 || !(known = map_put(&book->class_of, key, NULL)))
                return -ENOMEM;
            *known = book->classes.count - 1;
        }
        if (!map_put(&bucket->classes, *known, NULL))
            return -ENOMEM;
    }
    *ret_class = (uint32_t)*known;
    return 0;
}

static int put_class(struct book *book, struct bucket *bucket, uint32_t labels, uint64_t parts,
                     uint32_t *ret_class)
{
    struct class class = {.parts = parts};
    int r = book_class_labels(book, labels, &class.labels);
    if (r == 0 && !book->classes.count)
        r = array_add(&book->classes, (struct class){0});
    if (r == 0)
        r = put_class_within(book, bucket, &class, CLASSES_MAX, ret_class);
    if (r < 0 || *ret_class)
        return r;
    book->counts.folded_classes++;
    class.labels = 0; /* the empty set */
    return put_class_within(book, bucket, &class, CLASSES_ROOM, ret_class);
}

/* ---- slots of time ---- */

void book_strata_done(struct host *host)
{
    array_foreach (&host->strata, stratum)
        sketch_done(&stratum->latency);
    array_done(&host->strata);
    map_done(&host->stratum_of);
}

static int put_stratum(struct book *book, struct host *host, uint32_t slot, uint32_t class,
                       struct stratum **ret_stratum)
{
    bool added;
    uint64_t *index = map_put(&host->stratum_of, (uint64_t)slot << 32 | class, &added);
    if (!index)
        return -ENOMEM;
    if (added) {
        if (array_add(&host->strata, (struct stratum){.slot = slot, .class = class}) < 0) {
            map_remove(&host->stratum_of, (uint64_t)slot << 32 | class);
            return -ENOMEM;
        }
        *index = host->strata.count - 1;
        book->stratum_count++;
    }
    *ret_stratum = &host->strata.at[*index];
    return 0;
}

/* Halves the number of slots: what is in two neighbours is merged. */
static int widen_host(struct book *book, struct host *host)
{
    struct host wider = {.host = host->host};
    int r = 0;
    book->stratum_count -= host->strata.count;
    array_foreach (&host->strata, from) {
        struct stratum *to;
        if (r == 0)
            r = put_stratum(book, &wider, from->slot >> 1, from->class, &to);
        if (r == 0)
            r = sketch_merge(&to->latency, &from->latency);
        if (r == 0) {
            to->errors += from->errors;
            to->waited += from->waited;
            to->wait_ns += from->wait_ns;
        }
    }
    book_strata_done(host);
    *host = wider;
    return r;
}

static int widen(struct book *book)
{
    int r = 0;
    array_foreach (&book->buckets, bucket)
        array_foreach (&bucket->groups, group)
            array_foreach (&group->hosts, host)
                if (r == 0)
                    r = widen_host(book, host);
    book->shift++;
    book->first_slot >>= 1;
    book->last_slot >>= 1;
    return r;
}

static int find_slot(struct book *book, uint64_t start_ns, uint32_t *ret_slot)
{
    int r = 0;
    if (book->first_slot == UINT32_MAX)
        book->first_slot = book->last_slot = (uint32_t)(start_ns >> book->shift);
    uint64_t slot = start_ns >> book->shift, first = MIN(slot, (uint64_t)book->first_slot),
             last = MAX(slot, (uint64_t)book->last_slot);
    if (last - first + 1 > (uint64_t)BOOK_SLOTS_MAX << ODD_TIME_SHIFTS &&
        book->last_slot > book->first_slot) {
        *ret_slot = slot < book->first_slot ? book->first_slot : book->last_slot;
        return 0;
    }
    while (r == 0 && (last - first + 1 > BOOK_SLOTS_MAX ||
                      (book->stratum_count >= STRATA_MAX && last - first + 1 > SLOTS_FEW))) {
        r = widen(book);
        slot >>= 1;
        first >>= 1;
        last >>= 1;
    }
    book->first_slot = (uint32_t)first;
    book->last_slot = (uint32_t)last;
    *ret_slot = (uint32_t)slot;
    return r;
}

/* up: what calls or sends it, or NULL. */
static int count_stratum(struct book *book, struct group *group, const struct part *part,
                         const struct part *up, uint32_t host, uint32_t class)
{
    uint32_t slot;
    int r = find_slot(book, part->start_ns, &slot);
    uint64_t *index = map_get(&group->host_of, host);
    if (r == 0 && !index) {
        if (group->hosts.count >= HOSTS_MAX) {
            book->counts.folded_hosts++;
            return 0;
        }
        if (array_add(&group->hosts, (struct host){.host = host}) < 0 ||
            !(index = map_put(&group->host_of, host, NULL)))
            return -ENOMEM;
        *index = group->hosts.count - 1;
    }
    struct stratum *stratum;
    if (r == 0)
        r = put_stratum(book, &group->hosts.at[*index], slot, class, &stratum);
    if (r < 0)
        return r;
    stratum->errors += part->error;
    if (up && (up->kind == SPAN_KIND_CLIENT || up->kind == SPAN_KIND_PRODUCER)) {
        stratum->waited++;
        stratum->wait_ns += (double)(MAX(part->start_ns, up->start_ns) - up->start_ns);
    }
    return sketch_add(&stratum->latency, part->end_ns - part->start_ns);
}

/* ---- entries ---- */

/* One entry, whose spans are in book->list, into the bucket and group of a version of a service. */
struct placed {
    struct bucket wanted;
    struct service_version version;
    uint32_t host, labels;
    uint64_t whole_ns;
};

static int count_placed(struct book *book, const struct tree *tree, const struct placed *place)
{
    const struct part *part = &tree->trace->parts[tree->list[0]],
                      *up = part->up == PART_NONE ? NULL : &tree->trace->parts[part->up];
    uint32_t combination = BOOK_NONE, class = 0;
    struct bucket *bucket = NULL;
    struct group *group = NULL;
    int r = book_put_combination(book, &place->version, 1, &combination);
    if (r == 0 && combination != BOOK_NONE)
        r = book_put_bucket(book, &place->wanted, &bucket);
    if (r == 0 && bucket)
        r = put_class(book, bucket, place->labels, hash_parts(book, tree->trace), &class);
    if (r == 0 && bucket)
        r = book_put_group(book, bucket, combination, &group);
    if (r < 0 || !group)
        return r;
    if (!group->requests && part->up != PART_NONE)
        group->above = book->path_of_part.at[part->up];
    r = book_count_tree(book, group, tree);
    if (r == 0 && place->wanted.callee == NAMES_NONE)
        r = book_count_cell(book, place->wanted.type, combination, place->labels, place->host,
                            part->end_ns - part->start_ns, part->error);
    if (r == 0 && place->whole_ns)
        r = sketch_add(&group->request, place->whole_ns);
    if (r == 0 && book->settings.days && place->wanted.callee == NAMES_NONE)
        r = days_add(&book->days, (uint32_t)(bucket - book->buckets.at), part->start_ns,
                     part->end_ns - part->start_ns, part->error);
    return r < 0 ? r : count_stratum(book, group, part, up, place->host, class);
}

/* Whether entries of a service came in several versions; this one is noted. */
static bool has_versions(struct book *book, uint32_t service, uint32_t version, bool note)
{
    bool added = false;
    uint64_t *known =
        note ? map_put(&book->versions_of, service, &added) : map_get(&book->versions_of, service);
    if (!known)
        return false;
    if (added)
        *known = version;
    else if (note && *known != version)
        *known = BOOK_NONE;
    return *known == BOOK_NONE;
}

/* An entry once for each service that it calls in one version of several. */
static int count_calls(struct book *book, const struct tree *tree, const struct placed *own)
{
    const struct part *parts = tree->trace->parts;
    for (size_t at = 1; at < tree->count; at++) {
        const struct part *leaf = &parts[tree->list[at]];
        if (book->roles.at[tree->list[at]] != PATH_LEAF || !leaf->version ||
            leaf->service == own->version.service || !has_versions(book, leaf->service, leaf->version, false))
            continue;
        bool first = true, same = true;
        for (size_t other = 1; other < tree->count; other++) {
            const struct part *call = &parts[tree->list[other]];
            if (book->roles.at[tree->list[other]] != PATH_LEAF || call->service != leaf->service)
                continue;
            first &= other >= at;
            same &= call->version == leaf->version;
        }
        if (!first || !same)
            continue;
        struct placed place = *own;
        place.wanted.callee = leaf->service;
        place.version = (struct service_version){leaf->service, leaf->version};
        place.host = leaf->host;
        int r = count_placed(book, tree, &place);
        if (r < 0)
            return r;
    }
    return 0;
}

static int count_entry(struct book *book, const struct trace *trace, uint32_t entry, uint32_t request,
                       uint64_t whole_ns)
{
    const struct part *part = &trace->parts[entry];
    struct placed place = {.wanted.callee = NAMES_NONE,
                           .version = {part->service, part->version},
                           .host = part->host,
                           .whole_ns = whole_ns};
    int r = find_entry(book, trace, entry);
    if (r == 0)
        r = find_entry_paths(book, trace);
    if (r < 0)
        return r;
    place.wanted.type = book->entry_path_of_part.at[entry];
    if (place.wanted.type == BOOK_NONE)
        return 0; /* counted as folded with its request */
    path_find_within(trace, book->list.at, book->list.count, book->roles.at, &book->scratch, book->times.at,
                     book->entry_times.at);
    struct tree tree = {trace,
                        book->list.at,
                        book->list.count,
                        book->places.at,
                        book->entry_path_of_part.at,
                        book->entry_times.at};
    r = book_entry_labels(book, part->labels, request, &place.labels);
    if (r == 0)
        r = book_bucket_labels(book, part->labels, &place.wanted.labels);
    if (r == 0)
        r = count_placed(book, &tree, &place);
    has_versions(book, part->service, part->version, part->version != 0);
    return r < 0 ? r : count_calls(book, &tree, &place);
}

int book_count_entries(struct book *book, const struct trace *trace, uint32_t request, uint64_t whole_ns)
{
    if (array_reserve(&book->entry_times, trace->count) < 0 ||
        array_reserve(&book->roles, trace->count) < 0 ||
        array_reserve(&book->entry_path_of_part, trace->count) < 0 ||
        array_reserve(&book->places, trace->count) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < trace->count; i++) {
        int r = is_entry(trace, i) ? count_entry(book, trace, i, request, whole_ns) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}
