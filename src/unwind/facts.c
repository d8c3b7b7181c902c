/* See facts.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/facts.h"

#include <errno.h>
#include <stdlib.h>

int facts_of(struct facts *facts, struct elf *elf, fact_reader reader, size_t size, const void **ret_fact)
{
    array_foreach (&facts->list, f)
        if (f->reader == reader) {
            if (f->result == 0)
                *ret_fact = f->value;
            return f->result;
        }
    struct fact fact = {.reader = reader, .value = calloc(1, size)};
    fact.result = fact.value ? reader(elf, fact.value) : -ENOMEM;
    if (fact.result < 0) {
        free(fact.value);
        fact.value = NULL;
    }
    if (fact.result == -ENOMEM || array_add(&facts->list, fact) < 0) {
        free(fact.value);
        return -ENOMEM;
    }
    if (fact.result == 0)
        *ret_fact = fact.value;
    return fact.result;
}

void facts_done(struct facts *facts)
{
    array_foreach (&facts->list, f)
        free(f->value);
    array_done(&facts->list);
}
