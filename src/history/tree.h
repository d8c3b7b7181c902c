/* The State History Tree: see tree.c. Private to src/history. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HISTORY_TREE_H
#define HISTORY_TREE_H

#include <stdint.h>

#define TREE_MAGIC "SNDTREE\n"

/* At offset 0 of the file, once it is closed. */
struct tree_head {
    char magic[8];
    uint32_t version, node_size, children_max, nodes, root, depth;
    uint64_t start_ns, end_ns, states;
    uint64_t names_bytes, names_checksum;
    uint32_t attributes, strings;
    uint64_t checksum;
};

#endif
