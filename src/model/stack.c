/* See stack.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "model/stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "base/sourcemap.h"

/* ---- source maps ---- */

/* The map of a script, read once. The value is the map or 0: it has none. */
static const struct source_map *map_of(struct analysis *a, const char *script)
{
    bool added;
    uint64_t *place = map_put(&a->source_maps, (uintptr_t)script, &added);
    if (!place) {
        a->failed = true;
        return NULL;
    }
    if (added) {
        struct source_map *map = NULL;
        int r = source_map_of_script(script, &map);
        *place = r < 0 ? 0 : (uint64_t)(uintptr_t)map;
    }
    return (const struct source_map *)(uintptr_t)*place;
}

void stacks_free(struct analysis *a)
{
    map_foreach (&a->source_maps, slot) {
        source_map_free((struct source_map *)(uintptr_t)slot->value);
    }
    map_done(&a->source_maps);
    map_done(&a->stacks);
}

void stack_map_place(struct analysis *a, const char **script, uint32_t *line, uint32_t *column)
{
    struct source_place place;
    const struct source_map *map = *script && *line ? map_of(a, *script) : NULL;
    if (!map || !source_map_find(map, *line, *column, &place))
        return;
    *script = intern_string(a, place.file);
    *line = place.line;
    *column = place.column;
}

/* ---- frames ---- */

enum {
    STACKS_MAX = 50000, /* different ones that are distinguished */
    CUT_LENGTH = 2000,  /* older recordings cut the innermost frames off here */
};

/* The bracket before a script. A folder's name may have one, too. */
static const char *script_of(const struct frame_reading *reading, const char *text, size_t length)
{
    char own[32];
    snprintf(own, sizeof(own), " (%s", reading->scheme);
    const char *const BEGINNINGS[] = {" (/", own, " (file:"};
    const char *first = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(BEGINNINGS); i++) {
        const char *at = memmem(text, length, BEGINNINGS[i], strlen(BEGINNINGS[i]));
        first = at && (!first || at < first) ? at : first;
    }
    if (first)
        return first + 1;
    const char *last = memrchr(text, '(', length);
    return last && last > text && last[-1] == ' ' ? last : NULL;
}

/* "function (script:line:column)"; native frames are a name only. */
static struct stack_frame read_frame(struct analysis *a, const struct frame_reading *reading,
                                     const char *text, size_t length)
{
    struct stack_frame frame = {0};
    const char *end = text + length;
    const char *open = length > 4 && end[-1] == ')' ? script_of(reading, text, length) : NULL;
    const char *column = open ? memrchr(open, ':', (size_t)(end - open)) : NULL;
    const char *line = column ? memrchr(open, ':', (size_t)(column - open)) : NULL;
    if (!line || open <= text) {
        frame.function = intern(a, text, length);
        return frame;
    }
    frame.function = intern(a, text, (size_t)(open - 1 - text));
    frame.script = intern(a, open + 1, (size_t)(line - open - 1));
    frame.line = (uint32_t)strtoul(line + 1, NULL, 10);
    frame.column = (uint32_t)strtoul(column + 1, NULL, 10);
    stack_map_place(a, &frame.script, &frame.line, &frame.column);
    return frame;
}

static void add_frame(struct look_stack *to, const struct stack_frame *frame)
{
    if (to->count == STACK_FRAMES_MAX) {
        memmove(to->frames, to->frames + 1, --to->count * sizeof(*to->frames));
        to->gap -= to->gap > 0;
    }
    to->frames[to->count++] = *frame;
    to->called = NULL;
}

static void read_stack(struct analysis *a, const struct frame_reading *reading, const char *text,
                       size_t length, struct look_stack *to, enum frame_origin least)
{
    const char *end = text + length;
    to->count = to->gap = 0;
    to->called = NULL;
    for (const char *at = text; at < end;) {
        const char *stop = memchr(at, ';', (size_t)(end - at));
        stop = stop ? stop : end;
        struct stack_frame frame = read_frame(a, reading, at, (size_t)(stop - at));
        at = stop + 1;
        if (!frame.script && strcmp(frame.function, SONDE_FRAMES_LEFT_OUT) == 0)
            to->gap = to->count;
        to->loading |= reading->loading(&frame);
        to->exiting |= reading->exiting(&frame);
        to->leaf = frame.script ? NULL : frame.function;
        enum frame_origin origin = reading->origin(&frame);
        to->by_package |= origin == OF_PACKAGE && !to->count;
        if (origin >= least)
            add_frame(to, &frame);
        else if (to->count > to->gap && !to->called)
            to->called = reading->public_name(a, &frame);
    }
}

static const struct frame_reading *reading_of(const struct analysis *a, const struct process *process)
{
    const struct analyzer *analyzer = analyzer_of(a, process);
    return analyzer ? analyzer->frames : NULL;
}

bool stack_is_internal(const struct analysis *a, const struct process *process, const char *script)
{
    const struct frame_reading *reading = reading_of(a, process);
    return reading && script && strncmp(script, reading->scheme, strlen(reading->scheme)) == 0;
}

const struct look_stack *stack_of(struct analysis *a, const struct process *process, const struct event *e)
{
    const struct frame_reading *reading = reading_of(a, process);
    const struct value *v = &e->values[FIELD_stall_sample_stack];
    if (!reading || !HAS(e, stall_sample_stack) || !v->length)
        return NULL;
    bool added;
    uint64_t key = map_hash(v->s, v->length) + process->runtime, *known = map_get(&a->stacks, key);
    if (known || a->stacks.count >= STACKS_MAX)
        return known ? (const struct look_stack *)(uintptr_t)*known : NULL;
    uint64_t *place = map_put(&a->stacks, key, &added);
    struct look_stack *read = calloc(1, sizeof(*read) + STACK_FRAMES_MAX * sizeof(struct stack_frame));
    if (!place || !read) {
        free(read);
        a->failed = true;
        return NULL;
    }
    read_stack(a, reading, v->s, v->length, read, OF_APPLICATION);
    if (!read->count) {
        read->packaged = true;
        read_stack(a, reading, v->s, v->length, read, OF_PACKAGE);
    }
    if (v->length == CUT_LENGTH)
        read->count = read->gap = 0, read->called = NULL;
    struct look_stack *kept =
        arena_alloc(&a->arena, sizeof(*kept) + read->count * sizeof(struct stack_frame));
    if (kept)
        memcpy(kept, read, sizeof(*kept) + read->count * sizeof(struct stack_frame));
    else
        a->failed = true;
    free(read);
    *place = (uint64_t)(uintptr_t)kept;
    return kept;
}
