/* What the naming of stacks and the runtimes (runtime.h) do with a process's names. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/runtime.h"

void process_forget_names(struct process_names *names)
{
    if (names->places.count > PROCESS_NAMES_LIMIT)
        map_done(&names->places);
    else
        map_clear(&names->places);
    array_done(&names->frames);
}

void process_forget_moving(struct process *process)
{
    process_forget_names(&process->moving);
    array_done(&process->moves);
}

void process_put(struct process_stack *stack, uint32_t frame)
{
    if (stack->count < ARRAY_SIZE(stack->frames))
        stack->frames[stack->count++] = frame;
}
