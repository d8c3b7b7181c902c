/* The parser of CTF 2 metadata. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "trace/metadata.h"

int ctf2_parse(struct metadata *metadata, const char *text, size_t length, struct problem *problem)
{
    return problem_set(problem, -ENOTSUP, "%s: CTF 2 metadata cannot be read yet", metadata->path);
}
