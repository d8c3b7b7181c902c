/* What V8 does from Node 22 on, in small: a thread's allocator gets areas of the heap, a collector's too, and
 * one in three is refused. "ready", then, after a line of input, 300 areas of 1,000 to 1,299 bytes in one
 * function; "done"; it ends with its input. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct area {
    char *begin, *next, *end;
};

struct allocator {
    void *heap; /* NULL: a collector's */
    void *others[8];
    struct area *area;
};

struct policy {
    void *methods;
    struct allocator *allocator;
};

static char memory[4096];

__attribute__((noinline)) bool ensure(struct policy *policy, int bytes, int refused, int origin) __asm__(
    "_ZN2v88internal32SemiSpaceNewSpaceAllocatorPolicy16EnsureAllocationEiNS0_19AllocationAlignmentENS0_"
    "16AllocationOriginE");
__attribute__((noinline)) void extend(struct allocator *allocator,
                                      char *end) __asm__("_ZN2v88internal13MainAllocator9ExtendLABEm");

bool ensure(struct policy *policy, int bytes, int refused, int origin)
{
    __asm__ volatile("" : : "r"(origin) : "memory");
    if (!refused)
        *policy->allocator->area = (struct area){memory, memory, memory + bytes};
    return !refused;
}

void extend(struct allocator *allocator, char *end)
{
    allocator->area->end = end;
}

static volatile int results;

__attribute__((noinline)) static void fill(struct policy *policy, int refused)
{
    for (int i = 0; i < 300; i++)
        results += ensure(policy, 1000 + i, refused, 0);
}

int main(void)
{
    char line[8];
    struct area area = {0};
    struct allocator own = {.heap = memory, .area = &area}, collectors = {.area = &area};
    struct policy policy = {.allocator = &own}, collects = {.allocator = &collectors};
    extend(&own, memory);
    free(malloc(100));
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin))
        return 1;
    fill(&policy, 0);
    fill(&policy, 1);
    fill(&collects, 0);
    puts("done");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin))
        ;
    return 0;
}
