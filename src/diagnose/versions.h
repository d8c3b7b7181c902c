/* The history of a service's versions: in which order they were deployed, and which of them are the base that
 * the newest one is compared with, so that the base holds nothing that is slow already. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_VERSIONS_H
#define DIAGNOSE_VERSIONS_H

#include "diagnose/book.h"

#define VERSIONS_ROOM 256

/* The versions of a service over all its entries, in order of deployment. */
struct version_list {
    uint32_t *versions; /* owned */
    size_t count;
    bool guessed; /* which of the last two is the newer one rests on their requests alone, or on nothing */
    bool unsure;  /* on nothing */
};

/* By the time of their first request; versions that run from the beginning of what was seen, or came at the
 * same time, by number where their names differ by one, else the one that runs no longer, or has most of the
 * requests, is the older one. -ENOMEM. */
int versions_list(const struct book *book, uint32_t service, struct version_list *ret_list);

/* What the newest of a bucket's versions is compared with. */
struct version_sides {
    uint32_t newer;
    uint32_t older[VERSIONS_ROOM]; /* in order of deployment; the last one is the one to go back to */
    size_t older_count;
    uint32_t since; /* the first version of the newest one's level */
    size_t tried;   /* ways to choose the base that were looked at: what a p-value must be multiplied by */
};

/* versions: those of the bucket, in order of deployment. base, candidate: names asked for, or NULL. False
 * when there is nothing to compare. */
bool versions_choose(const struct book *book, const struct bucket *bucket, const uint32_t *versions,
                     size_t count, const char *base, const char *candidate, struct version_sides *ret_sides);

#endif
