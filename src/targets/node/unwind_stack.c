/* A stack with room for a fixed number of frames: of a deeper one the innermost and the outermost are kept,
 * since the innermost say what runs, and the outermost for whom. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/unwind.h"

#include <stdlib.h>
#include <string.h>

static void frame_done(struct v8_frame *frame)
{
    free(frame->name);
    free(frame->script);
    free(frame->pattern);
    free(frame->flags);
}

struct v8_frame *v8_stack_push(struct v8_stack *stack)
{
    enum { HALF = V8_FRAMES_MAX / 2 };
    if (stack->count == V8_FRAMES_MAX) {
        size_t at = !stack->gap ? HALF : stack->gap > HALF ? stack->gap - 1 : stack->gap;
        struct v8_frame *frame = &stack->frames[at];
        frame_done(frame);
        memmove(frame, frame + 1, (V8_FRAMES_MAX - 1 - at) * sizeof(*frame));
        stack->count--;
        stack->gap = at;
        stack->left_out++;
    }
    return &stack->frames[stack->count++];
}

void v8_stack_done(struct v8_stack *stack)
{
    for (size_t i = 0; i < stack->count; i++)
        frame_done(&stack->frames[i]);
    stack->count = 0;
}
