/* The tree of attribute names: quark <-> path. Private to src/history; the calls of history.h go straight
 * here. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HISTORY_ATTRIBUTES_H
#define HISTORY_ATTRIBUTES_H

#include <stdint.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/map.h"
#include "base/text.h"

/* No quark: the root as a parent, and "none" in the links. */
#define ATTRIBUTE_NONE UINT32_MAX

struct attribute {
    const char *name;
    uint32_t parent;
    uint32_t first_child, last_child, next_sibling;
};

/* Zero-initialise with attributes_init(). */
struct attributes {
    ARRAY(struct attribute) all;
    uint32_t first_root, last_root;
    struct map by_name; /* hash of parent and name, probed upwards -> quark + 1 */
    struct arena names;
};

void attributes_init(struct attributes *attributes);
void attributes_done(struct attributes *attributes);

/* -ENOENT when there is none. */
int attributes_find(const struct attributes *attributes, uint32_t parent, const char *name, size_t length,
                    uint32_t *ret_quark);

/* Finds or creates. -EINVAL for an empty name or unknown parent, -ENOMEM. */
int attributes_add(struct attributes *attributes, uint32_t parent, const char *name, size_t length,
                   uint32_t *ret_quark);

/* By escaped path; with create, what is missing is made. -EINVAL for an empty element. */
int attributes_path(struct attributes *attributes, const char *path, bool create, uint32_t *ret_quark);

/* The quarks that match a pattern (see history_list), ascending, in a malloc'd array. */
int attributes_list(const struct attributes *attributes, const char *pattern, uint32_t **ret_quarks,
                    size_t *ret_count);

/* Appends the escaped path of a quark. */
void attributes_print(const struct attributes *attributes, uint32_t quark, struct text *text);

#endif
