/* The book of requests: what diagnosis keeps of all the traces it has seen. Memory grows with the number of
 * buckets, version combinations, hosts and call paths, not with requests; every limit that folds something
 * counts it.
 *
 *     bucket   requests of one type with the same values of the bucketing attributes
 *     group    within a bucket, the requests that share a version combination
 *     path     a call path: service and operation under a path, recursion folded into its first occurrence
 *     vertex   what a group knows of a path
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_BOOK_H
#define DIAGNOSE_BOOK_H

#include "base/array.h"
#include "base/map.h"
#include "diagnose/path.h"
#include "span/assemble.h"
#include "span/sketch.h"

#define BOOK_NONE      UINT32_MAX
#define BOOK_EXEMPLARS 3

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

struct host {
    uint32_t service, host;
    struct sketch latency; /* of the requests in which the service ran on this host */
    struct sketch earlier; /* the same, before the bucket's newest version of any service arrived */
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
    ARRAY(struct host) hosts;
    struct map host_of; /* service << 32 | host: index */
    struct exemplar slow[BOOK_EXEMPLARS], normal[BOOK_EXEMPLARS];
};

struct bucket {
    uint32_t type;              /* the root's path */
    uint32_t labels;            /* a label set: the values of the bucketing attributes */
    ARRAY(struct group) groups; /* in order of first arrival */
};

struct service_version {
    uint32_t service, version;
};

struct combination {
    uint32_t first, count; /* among the book's service_versions, ascending by service */
};

/* Requests of one type with the same versions and the same attributes: what causes are searched over. */
struct cell {
    uint32_t type, combination, labels;
    struct sketch latency;
};

struct book_counts {
    uint64_t requests;
    uint64_t rootless; /* traces without a beginning: not counted as requests */
    uint64_t empty;
    uint64_t folded_buckets, folded_groups, folded_hosts, folded_vertices,
        folded_cells; /* requests or calls */
};

struct book_settings {
    const char *const *bucket_by; /* attribute keys, ended by NULL; NULL: the defaults */
    uint64_t seed;                /* of the choice of normal exemplars */
};

struct book {
    struct names *names;
    struct labels *labels;
    struct book_settings settings;
    ARRAY(struct path) paths;
    struct map path_of;
    ARRAY(struct bucket) buckets;
    struct map bucket_of;
    ARRAY(struct service_version) service_versions;
    ARRAY(struct combination) combinations;
    struct map combination_of;
    ARRAY(struct cell) cells;
    struct map cell_of;
    struct map labels_of_sets; /* hash of a request's label sets: their union */
    struct link_counts link_counts;
    struct book_counts counts;
    struct path_scratch scratch;
    ARRAY(struct path_time) times;
    ARRAY(uint32_t) path_of_part;
    ARRAY(uint64_t) marks; /* per vertex: the last request that counted it */
    uint64_t random;
};

/* The keys by which requests are bucketed unless told otherwise: what exists of them. */
extern const char *const BOOK_BUCKET_BY[];

void book_init(struct book *book, struct names *names, struct labels *labels,
               const struct book_settings *settings);

/* Links a trace and counts it; the trace is changed. 0 or -ENOMEM. */
int book_add(struct book *book, struct trace *trace);

/* "service operation" of a path; "a > b > c" of all of it, from the root. */
void book_path_words(const struct book *book, uint32_t path, struct text *to);
void book_path_chain(const struct book *book, uint32_t path, struct text *to);

/* "type [key=value, ...]" */
void book_bucket_words(const struct book *book, const struct bucket *bucket, struct text *to);
void book_combination_words(const struct book *book, uint32_t combination, struct text *to);

/* Whether a combination has this version of a service (NAMES_NONE: the service in any version). */
bool book_has_version(const struct book *book, uint32_t combination, uint32_t service, uint32_t version);

const struct vertex *group_vertex(const struct group *group, uint32_t path);

void book_done(struct book *book);

#endif
