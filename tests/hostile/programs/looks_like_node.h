/* What makes sonde take a program for Node: a function of the name of Node's main function. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOOKS_LIKE_NODE_H
#define LOOKS_LIKE_NODE_H

int node_start(int count, char **arguments) __asm__("_ZN4node5StartEiPPc");
__attribute__((used, visibility("default"))) int node_start(int count, char **arguments)
{
    return count && arguments ? 0 : 1;
}

#endif
