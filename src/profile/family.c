/* See family.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/map.h"
#include "base/proc.h"
#include "base/proc_text.h"

struct child {
    pid_t pid, parent;
};

/* 0: it ended. */
static pid_t parent_of(pid_t pid)
{
    char path[64];
    struct proc_stat stat;
    size_t length;
    _cleanup_(freep) char *text = NULL;
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    return file_read(path, 4096, &text, &length) == 0 && proc_parse_stat(text, length, &stat) ? stat.parent
                                                                                              : 0;
}

static int by_parent(const void *a, const void *b)
{
    const struct child *x = a, *y = b;
    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* The first of a parent's children in a list by parent. */
static size_t first_child(const struct child *list, size_t count, pid_t parent)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list[middle].parent < parent)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

pid_t *family_of(const pid_t *pids, size_t count, size_t *ret_count)
{
    ARRAY(struct child) children = {0};
    ARRAY(pid_t) family = {0};
    struct map members = {0};
    bool failed = false, is_new;
    size_t all_count;
    _cleanup_(freep) pid_t *all = proc_all(&all_count);
    for (size_t i = 0; i < all_count; i++) {
        struct child child = {.pid = all[i], .parent = parent_of(all[i])};
        failed |= child.parent > 0 && array_add(&children, child) < 0;
    }
    if (children.count)
        qsort(children.at, children.count, sizeof(*children.at), by_parent);
    for (size_t i = 0; i < count; i++) {
        uint64_t *place = map_put(&members, (uint64_t)pids[i], &is_new);
        failed |= !place || (is_new && array_add(&family, pids[i]) < 0);
    }
    for (size_t i = 0; !failed && i < family.count; i++) {
        pid_t parent = family.at[i];
        for (size_t c = first_child(children.at, children.count, parent);
             !failed && c < children.count && children.at[c].parent == parent; c++) {
            uint64_t *place = map_put(&members, (uint64_t)children.at[c].pid, &is_new);
            failed = !place || (is_new && array_add(&family, children.at[c].pid) < 0);
        }
    }
    map_done(&members);
    array_done(&children);
    if (failed || (!family.at && array_reserve(&family, 1) < 0)) {
        array_done(&family);
        return NULL;
    }
    *ret_count = family.count;
    return family.at;
}
