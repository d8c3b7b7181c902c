/* The State History Tree: see tree.c. Private to src/history. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HISTORY_TREE_H
#define HISTORY_TREE_H

#define TREE_MAGIC "SNDTREE\n"

#endif
