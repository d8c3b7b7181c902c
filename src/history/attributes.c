/* See attributes.h. A map from the hash of (parent, name) gives the quark; equal hashes of different names
 * (which 64 bits make unlikely, not impossible) move on to the next key. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "history/attributes.h"

#include <string.h>

enum { NAME_MAX_BYTES = 4096 };

void attributes_init(struct attributes *attributes)
{
    *attributes = (struct attributes){.first_root = ATTRIBUTE_NONE, .last_root = ATTRIBUTE_NONE};
}

void attributes_done(struct attributes *attributes)
{
    array_done(&attributes->all);
    map_done(&attributes->by_name);
    arena_done(&attributes->names);
}

static bool is_called(const struct attribute *a, uint32_t parent, const char *name, size_t length)
{
    return a->parent == parent && strlen(a->name) == length && !memcmp(a->name, name, length);
}

static uint64_t first_key(uint32_t parent, const char *name, size_t length)
{
    return map_hash(name, length) + (uint64_t)parent * 0x9e3779b97f4a7c15ull;
}

int attributes_find(const struct attributes *attributes, uint32_t parent, const char *name, size_t length,
                    uint32_t *ret_quark)
{
    for (uint64_t key = first_key(parent, name, length);; key++) {
        const uint64_t *found = map_get(&attributes->by_name, key);
        if (!found)
            return -ENOENT;
        uint32_t quark = (uint32_t)*found - 1;
        if (is_called(&attributes->all.at[quark], parent, name, length)) {
            *ret_quark = quark;
            return 0;
        }
    }
}

static int append(struct attributes *attributes, uint32_t parent, const char *name, size_t length)
{
    uint32_t quark = (uint32_t)attributes->all.count;
    if (array_reserve(&attributes->all, (size_t)quark + 1) < 0)
        return -ENOMEM;
    char *copy = arena_strndup(&attributes->names, name, length);
    if (!copy)
        return -ENOMEM;
    uint64_t key = first_key(parent, name, length);
    while (map_get(&attributes->by_name, key))
        key++;
    uint64_t *slot = map_put(&attributes->by_name, key, NULL);
    if (!slot)
        return -ENOMEM;
    *slot = (uint64_t)quark + 1;

    struct attribute a = {.name = copy,
                          .parent = parent,
                          .first_child = ATTRIBUTE_NONE,
                          .last_child = ATTRIBUTE_NONE,
                          .next_sibling = ATTRIBUTE_NONE};
    (void)array_add(&attributes->all, a);
    bool top = parent == ATTRIBUTE_NONE;
    uint32_t *first = top ? &attributes->first_root : &attributes->all.at[parent].first_child;
    uint32_t *last = top ? &attributes->last_root : &attributes->all.at[parent].last_child;
    if (*last == ATTRIBUTE_NONE)
        *first = quark;
    else
        attributes->all.at[*last].next_sibling = quark;
    *last = quark;
    return 0;
}

int attributes_add(struct attributes *attributes, uint32_t parent, const char *name, size_t length,
                   uint32_t *ret_quark)
{
    if (!length || length > NAME_MAX_BYTES || memchr(name, '\0', length) ||
        (parent != ATTRIBUTE_NONE && parent >= attributes->all.count) ||
        attributes->all.count >= ATTRIBUTE_NONE - 1)
        return -EINVAL;
    if (attributes_find(attributes, parent, name, length, ret_quark) == 0)
        return 0;
    int r = append(attributes, parent, name, length);
    if (r < 0)
        return r;
    *ret_quark = (uint32_t)attributes->all.count - 1;
    return 0;
}

/* One element of a path, unescaped. */
struct element {
    char name[NAME_MAX_BYTES + 1];
    size_t length;
    enum { NAME, ANY_ONE, ANY_NUMBER } kind;
};

/* Reads the element at *path and moves *path behind its slash (or to the end: then *ret_last). */
static int next_element(const char **path, struct element *element, bool *ret_last)
{
    const char *p = *path;
    element->length = 0;
    bool escaped = false;
    for (; *p && *p != '/'; p++) {
        if (*p == '\\' && p[1]) {
            p++;
            escaped = true;
        }
        if (element->length == NAME_MAX_BYTES)
            return -EINVAL;
        element->name[element->length++] = *p;
    }
    element->name[element->length] = '\0';
    element->kind = NAME;
    if (!escaped && !strcmp(element->name, "*"))
        element->kind = ANY_ONE;
    else if (!escaped && !strcmp(element->name, "**"))
        element->kind = ANY_NUMBER;
    *ret_last = *p == '\0';
    *path = *ret_last ? p : p + 1;
    return element->length ? 0 : -EINVAL;
}

int attributes_path(struct attributes *attributes, const char *path, bool create, uint32_t *ret_quark)
{
    uint32_t quark = ATTRIBUTE_NONE;
    for (bool last = false; !last;) {
        struct element e;
        int r = next_element(&path, &e, &last);
        if (r < 0)
            return r;
        r = create ? attributes_add(attributes, quark, e.name, e.length, &quark)
                   : attributes_find(attributes, quark, e.name, e.length, &quark);
        if (r < 0)
            return r;
    }
    *ret_quark = quark;
    return 0;
}

typedef ARRAY(uint32_t) quarks;

static int add_children(const struct attributes *attributes, uint32_t parent, quarks *out)
{
    uint32_t q = parent == ATTRIBUTE_NONE ? attributes->first_root : attributes->all.at[parent].first_child;
    for (; q != ATTRIBUTE_NONE; q = attributes->all.at[q].next_sibling)
        if (array_add(out, q) < 0)
            return -ENOMEM;
    return 0;
}

/* Everything below parent; what was added last is the queue of the walk. */
static int add_below(const struct attributes *attributes, uint32_t parent, quarks *out)
{
    size_t i = out->count;
    int r = add_children(attributes, parent, out);
    for (; r == 0 && i < out->count; i++)
        r = add_children(attributes, out->at[i], out);
    return r;
}

static int compare_quarks(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void sort_unique(quarks *set)
{
    if (set->count)
        qsort(set->at, set->count, sizeof(*set->at), compare_quarks);
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++)
        if (!kept || set->at[kept - 1] != set->at[i])
            set->at[kept++] = set->at[i];
    set->count = kept;
}

/* The set after one more element: from every attribute of `from`, where the element leads. */
static int step(const struct attributes *attributes, const quarks *from, const struct element *e, quarks *to)
{
    array_foreach (from, parent) {
        int r = 0;
        uint32_t quark;
        if (e->kind == NAME) {
            if (attributes_find(attributes, *parent, e->name, e->length, &quark) == 0)
                r = array_add(to, quark);
        } else if (e->kind == ANY_ONE) {
            r = add_children(attributes, *parent, to);
        } else {
            r = array_add(to, *parent);
            if (r == 0)
                r = add_below(attributes, *parent, to);
        }
        if (r < 0)
            return r;
    }
    sort_unique(to);
    return 0;
}

int attributes_list(const struct attributes *attributes, const char *pattern, uint32_t **ret_quarks,
                    size_t *ret_count)
{
    quarks set = {0};
    if (array_add(&set, ATTRIBUTE_NONE) < 0)
        return -ENOMEM;
    for (bool last = false; !last;) {
        struct element e;
        quarks next = {0};
        int r = next_element(&pattern, &e, &last);
        if (r == 0)
            r = step(attributes, &set, &e, &next);
        array_done(&set);
        if (r < 0) {
            array_done(&next);
            return r;
        }
        set.at = next.at;
        set.count = next.count;
        set.capacity = next.capacity;
    }
    if (set.count && set.at[set.count - 1] == ATTRIBUTE_NONE) /* the root is no attribute */
        set.count--;
    if (!set.count)
        array_done(&set);
    *ret_quarks = set.at;
    *ret_count = set.count;
    return 0;
}

void attributes_print(const struct attributes *attributes, uint32_t quark, struct text *text)
{
    uint32_t chain[256];
    size_t depth = 0;
    for (uint32_t q = quark; q != ATTRIBUTE_NONE && q < attributes->all.count;
         q = attributes->all.at[q].parent) {
        if (depth == sizeof(chain) / sizeof(*chain)) { /* deeper than any screen: print the lower part */
            text_add(text, ".../");
            break;
        }
        chain[depth++] = q;
    }
    while (depth--) {
        const char *name = attributes->all.at[chain[depth]].name;
        if (!strcmp(name, "*") || !strcmp(name, "**"))
            text_add(text, "\\");
        for (; *name; name++) {
            if (*name == '/' || *name == '\\')
                text_add(text, "\\");
            text_add_bytes(text, name, 1);
        }
        if (depth)
            text_add(text, "/");
    }
}
