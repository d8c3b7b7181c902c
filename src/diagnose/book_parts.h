/* What the files of the book share: book.c (whole requests, groups, vertices), entry.c (a service where it
 * stands), book_labels.c (attributes). Nothing else includes this. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_BOOK_PARTS_H
#define DIAGNOSE_BOOK_PARTS_H

#include "diagnose/book.h"

/* A request, or an entry of one, while it is counted. The first span of list is on top. */
struct tree {
    const struct trace *trace;
    const uint32_t *list;
    size_t count;
    const uint32_t *places; /* by span: where it is in the list */
    const uint32_t *paths;  /* by span */
    const struct path_time *times;
};

int book_put_path(struct book *book, uint32_t parent, const struct part *part, uint32_t *ret_path);
int book_put_combination(struct book *book, const struct service_version *list, size_t count,
                         uint32_t *ret_combination);
/* wanted: whole, callee, type and labels. */
int book_put_bucket(struct book *book, const struct bucket *wanted, struct bucket **ret_bucket);
int book_put_group(struct book *book, struct bucket *bucket, uint32_t combination, struct group **ret_group);
int book_count_cell(struct book *book, uint32_t type, uint32_t combination, uint32_t labels, uint32_t host,
                    uint64_t duration_ns, bool failed);

/* Counts one request or entry in its group: latency, error, times, vertices, exemplars. */
int book_count_tree(struct book *book, struct group *group, const struct tree *tree);

/* The attributes of all spans of a trace; those of an entry, completed by what the rest of its request says
 * about other keys; of a set the pairs that requests are bucketed by; and those that may make a class. */
int book_request_labels(struct book *book, const struct trace *trace, uint32_t *ret_set);
int book_entry_labels(struct book *book, uint32_t own, uint32_t request, uint32_t *ret_set);
int book_bucket_labels(struct book *book, uint32_t labels, uint32_t *ret_set);
int book_class_labels(struct book *book, uint32_t labels, uint32_t *ret_set);

/* Whether an attribute follows from how an operation went, and so explains nothing about the traffic. */
bool book_is_outcome(const char *key);

/* Counts every entry of a linked trace whose paths and times are in the book. request: the union of its
 * labels; whole_ns: its duration, 0 when its root is unknown. */
int book_count_entries(struct book *book, const struct trace *trace, uint32_t request, uint64_t whole_ns);

void book_strata_done(struct host *host);

#endif
