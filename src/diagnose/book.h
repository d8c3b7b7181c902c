/* The book of requests: what diagnosis keeps of all the traces it has seen. Memory grows with the number of
 * buckets, version combinations, hosts and call paths, not with requests; every limit that folds something
 * counts it.
 *
 * A trace is counted twice: once as a whole request, and once for each service that it enters, where that
 * service stands: from the span by which it is entered (a server's, a consumer's, a job's) down to the calls
 * that it makes to others, with the attributes, version and host of that span. Versions are judged by
 * entries.
 *
 * While a service runs in several versions, the entries that call it are counted once more by that: what a
 * version does to its callers does not show in itself.
 *
 *     bucket   requests, or entries, of one type with the same values of the bucketing attributes
 *     group    within a bucket, the requests that share a version combination, the entries of one version
 *     stratum  the entries on one host that began at about the same time and are of the same class
 *     class    entries that are alike in what may explain their latency: attributes and sub-operations
 *     path     a call path: service and operation under a path, recursion folded into its first occurrence
 *     vertex   what a group knows of a path
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_BOOK_H
#define DIAGNOSE_BOOK_H

#include "base/array.h"
#include "base/map.h"
#include "diagnose/days.h"
#include "diagnose/path.h"
#include "span/assemble.h"
#include "span/sketch.h"

#define BOOK_NONE       UINT32_MAX
#define BOOK_EXEMPLARS  3
#define BOOK_CELL_HOSTS 6

struct path {
    uint32_t parent; /* BOOK_NONE: the root of a request type */
    uint32_t service, name;
    uint8_t kind;
};

struct vertex {
    uint32_t path;
    uint64_t calls, errors;
    uint64_t requests; /* that have it at least once */
    uint64_t total_ns, self_ns, critical_ns;
    uint64_t on_path; /* calls that were on their request's critical path */
    uint64_t edges;   /* calls whose caller's span is known too */
    uint64_t edge_ns; /* the caller's span without the callee's: network and queues */
    uint64_t edge_critical_ns;
    uint64_t together_ns; /* durations of calls of this path under one parent, summed */
    uint64_t busy_ns;     /* while at least one of them ran: together / busy is their concurrency */
    uint64_t children_total_ns, children_busy_ns; /* the same of all its children */
    uint64_t last;                                /* calls that were the last one that their parent made */
    uint64_t childless;                           /* calls that made no call themselves */
    uint64_t together_calls;                      /* calls that had siblings of the same path */
    struct sketch duration, self, edge;
};

struct stratum {
    uint32_t slot;  /* start time >> the book's shift */
    uint32_t class; /* among the book's classes; 0: others */
    uint64_t errors;
    uint64_t waited; /* entries of which it is known how long they waited: since a client or producer began */
    double wait_ns;  /* all of these together */
    struct sketch latency;
};

/* A host that a version's entries ran on. */
struct host {
    uint32_t host;
    ARRAY(struct stratum) strata;
    struct map stratum_of; /* slot << 32 | class: index */
};

/* A whole request, kept as evidence. */
struct exemplar {
    uint64_t high, low, duration_ns;
    struct part *parts;
    size_t count;
};

struct group {
    uint32_t combination;
    uint64_t first_ns, last_ns; /* of its requests' starts */
    uint64_t requests, errors;
    struct sketch latency;
    ARRAY(struct vertex) vertices;
    struct map vertex_of; /* path: index */
    /* Of entries only: */
    struct sketch request; /* latencies of the whole requests that they belong to */
    uint32_t above; /* the path of the first one's caller, from the root of its request; or BOOK_NONE */
    ARRAY(struct host) hosts;
    struct map host_of; /* host: index */
    struct exemplar slow[BOOK_EXEMPLARS], normal[BOOK_EXEMPLARS];
};

struct bucket {
    bool whole;      /* of whole requests, else of entries */
    uint32_t callee; /* of entries that call this service, by its version and hosts; or NAMES_NONE */
    uint32_t type;   /* the root's path, or the entry's */
    uint32_t labels; /* a label set: the values of the bucketing attributes */
    ARRAY(struct group) groups; /* in order of first arrival */
    struct map classes;         /* that its entries have */
};

struct class
{
    uint32_t labels; /* attributes that do not say where an entry ran or how it ended */
    uint64_t parts;  /* a hash of the names of its sub-operations */
};

struct service_version {
    uint32_t service, version;
};

struct combination {
    uint32_t first, count; /* among the book's service_versions, ascending by service */
};

/* Entries of one type with the same version and the same attributes: what causes are searched over. */
struct cell {
    uint32_t type, combination, labels;
    /* Entries by host; those of further hosts count for the last one: fewer hosts prove less, never more. */
    struct {
        uint32_t host, entries;
    } hosts[BOOK_CELL_HOSTS];
    uint64_t errors;
    struct sketch latency;
};

struct book_counts {
    uint64_t requests;
    uint64_t rootless; /* traces without a beginning: not counted as requests */
    uint64_t empty;
    uint64_t folded_buckets, folded_groups, folded_hosts, folded_vertices, folded_cells,
        folded_classes; /* requests or calls */
};

struct book_settings {
    const char *const *bucket_by; /* attribute keys, ended by NULL; NULL: the defaults */
    uint64_t seed;                /* of the choice of normal exemplars */
    bool days;                    /* keeps the hours of the last days */
};

struct book {
    struct names *names;
    struct labels *labels;
    struct book_settings settings;
    ARRAY(struct path) paths;
    struct map path_of;
    ARRAY(struct bucket) buckets;
    struct map bucket_of;
    struct days days; /* of the buckets of entries */
    ARRAY(struct service_version) service_versions;
    ARRAY(struct combination) combinations;
    struct map combination_of;
    ARRAY(struct cell) cells;
    struct map cell_of;
    struct map labels_of_sets;   /* hash of a request's label sets: their union */
    struct map labels_of_class;  /* a label set: what of it makes a class */
    ARRAY(struct class) classes; /* the first one is "others" */
    struct map class_of;
    unsigned shift; /* of times to slots */
    uint32_t first_slot, last_slot;
    size_t stratum_count;
    struct map versions_of; /* service: the version of its entries, or BOOK_NONE for several */
    struct link_counts link_counts;
    struct book_counts counts;
    struct path_scratch scratch;
    ARRAY(struct path_time) times, entry_times;
    ARRAY(uint32_t) path_of_part, entry_path_of_part;
    ARRAY(uint32_t) list;   /* spans of one entry */
    ARRAY(uint32_t) places; /* by span: where it is in the list */
    ARRAY(uint8_t) roles;
    ARRAY(uint64_t) marks; /* per vertex: the last request or entry that counted it */
    uint64_t mark;
    uint64_t random;
};

/* The keys by which requests are bucketed unless told otherwise: what exists of them. */
extern const char *const BOOK_BUCKET_BY[];

void book_init(struct book *book, struct names *names, struct labels *labels,
               const struct book_settings *settings);

/* Links a trace and counts it; the trace is changed. 0 or -ENOMEM. */
int book_add(struct book *book, struct trace *trace);

#define BOOK_SLOTS_MAX 64 /* of the time that the book covers */

/* "service operation" of a path; "a > b > c" of all of it, from the root. */
void book_path_words(const struct book *book, uint32_t path, struct text *to);
void book_path_chain(const struct book *book, uint32_t path, struct text *to);

/* "type [key=value, ...]" */
void book_bucket_words(const struct book *book, const struct bucket *bucket, struct text *to);
void book_combination_words(const struct book *book, uint32_t combination, struct text *to);

/* The service whose versions a bucket is judged by. */
uint32_t book_judged(const struct book *book, const struct bucket *bucket);

/* Whether a combination has this version of a service (NAMES_NONE: the service in any version). */
bool book_has_version(const struct book *book, uint32_t combination, uint32_t service, uint32_t version);

/* Buckets of whole requests. */
size_t book_bucket_count(const struct book *book);

/* Bytes that the strata, groups and paths hold. */
size_t book_held_bytes(const struct book *book);

const struct vertex *group_vertex(const struct group *group, uint32_t path);

void book_done(struct book *book);

#endif
