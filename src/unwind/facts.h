/* What was found out about a file by those who asked: once, however many processes map it. native.c keeps it
 * with the file, under the same identity as its symbols and rows; it outlives the file's being closed when
 * the file is known again by its build-id. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNWIND_FACTS_H
#define UNWIND_FACTS_H

#include <stddef.h>

#include "base/array.h"
#include "symbol/elf.h"

/* Writes what it finds, of a size that is always the same, and nothing that points into the file. 0, or a
 * negative errno, which is as much of an answer. */
typedef int (*fact_reader)(struct elf *elf, void *ret_fact);

struct fact {
    fact_reader reader;
    int result;
    void *value; /* NULL: the result was no success */
};

/* Zeros to use. */
struct facts {
    ARRAY(struct fact) list;
};

/* The reader's answer, of the first time. *ret_fact is borrowed until facts_done(). -ENOMEM is not kept. */
int facts_of(struct facts *facts, struct elf *elf, fact_reader reader, size_t size, const void **ret_fact);
void facts_done(struct facts *facts);

#endif
