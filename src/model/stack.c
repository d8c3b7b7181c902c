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
    const struct source_map *map =
        *script && *line && strncmp(*script, "node:", 5) != 0 ? map_of(a, *script) : NULL;
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
static const char *script_of(const char *text, size_t length)
{
    static const char *const BEGINNINGS[] = {" (/", " (node:", " (file:"};
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
static struct stack_frame read_frame(struct analysis *a, const char *text, size_t length)
{
    struct stack_frame frame = {0};
    const char *end = text + length;
    const char *open = length > 4 && end[-1] == ')' ? script_of(text, length) : NULL;
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

enum origin { OF_NATIVE, OF_NODE, OF_PACKAGE, OF_APPLICATION };

static enum origin origin_of(const struct stack_frame *frame)
{
    return !frame->script                                ? OF_NATIVE
           : strncmp(frame->script, "node:", 5) == 0     ? OF_NODE
           : strstr(frame->script, "/node_modules/")     ? OF_PACKAGE
           : strncmp(frame->script, "node_modules/", 13) ? OF_APPLICATION
                                                         : OF_PACKAGE;
}

static bool is_loading(const struct stack_frame *frame)
{
    static const char *const PARTS[] = {
        "v8::internal::Compiler::", "v8::internal::parsing::", "ModuleWrap::Evaluate",
        "ModuleWrap::Instantiate", "ContextifyScript::"};
    if (frame->script)
        return strncmp(frame->script, "node:internal/modules/", 22) == 0;
    for (size_t i = 0; i < ARRAY_SIZE(PARTS); i++)
        if (strstr(frame->function, PARTS[i]))
            return true;
    return false;
}

/* process.exit() does not return: the process frees what it has and waits for its threads. */
static bool is_exiting(const struct stack_frame *frame)
{
    static const char *const NAMES[] = {"exit", "reallyExit", "process.exit", "process.reallyExit"};
    if (!frame->script)
        return strcmp(frame->function, "exit") == 0 || strcmp(frame->function, "__run_exit_handlers") == 0 ||
               strstr(frame->function, "ReallyExit");
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
        if (strncmp(frame->script, "node:internal/process/", 22) == 0 &&
            strcmp(frame->function, NAMES[i]) == 0)
            return true;
    return false;
}

/* What people call: functions of Node.js' public modules by name, those of packages with the package's, and
 * the parts of V8 and native packages that are reached without JavaScript. */
static const char *public_name(struct analysis *a, const struct stack_frame *frame)
{
    static const struct {
        const char *part, *name;
    } NATIVE[] = {{"Builtin_JsonStringify", "JSON.stringify"}, {"JsonStringif", "JSON.stringify"},
                  {"Builtin_JsonParse", "JSON.parse"},         {"JsonParse", "JSON.parse"},
                  {"Runtime_DateCurrentTime", "Date.now"},     {"Runtime_StructuredClone", "structuredClone"},
                  {"Builtin_AtomicsWait", "Atomics.wait"}};
    char name[160];
    enum origin origin = origin_of(frame);
    if (origin == OF_NATIVE) {
        for (size_t i = 0; i < ARRAY_SIZE(NATIVE); i++)
            if (strstr(frame->function, NATIVE[i].part))
                return NATIVE[i].name;
        /* better-sqlite3's "Statement::JS_get" */
        const char *js = strstr(frame->function, "::JS_");
        if (!js)
            return NULL;
        const char *class = js;
        while (class > frame->function && class[-1] != ':' && class[-1] != ' ')
            class --;
        size_t length = strspn(js + 5, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        snprintf(name, sizeof(name), "%.*s.%.*s", (int)(js - class), class, (int)MIN(length, (size_t)60),
                 js + 5);
        return intern_string(a, name);
    }
    if (!frame->function[0] || frame->function[0] == '(')
        return NULL;
    /* Each function of zlib is one and the same function by its name. */
    if (origin == OF_NODE && strcmp(frame->function, "syncBufferWrapper") == 0)
        return "a synchronous function of zlib (gzipSync, inflateSync, ...)";
    if (origin == OF_NODE) /* internals have names that say nothing to others */
        return strncmp(frame->script, "node:internal/", 14) != 0 || strstr(frame->function, "Sync")
                   ? frame->function
                   : NULL;
    const char *package = strstr(frame->script, "node_modules/");
    for (const char *next; package && (next = strstr(package + 13, "node_modules/"));)
        package = next;
    if (!package)
        return frame->function;
    package += 13;
    size_t length = strcspn(package, "/");
    if (*package == '@' && package[length])
        length += 1 + strcspn(package + length + 1, "/");
    snprintf(name, sizeof(name), "%.60s of %.*s", frame->function, (int)MIN(length, (size_t)60), package);
    return intern_string(a, name);
}

static void add_frame(struct look_stack *to, const struct stack_frame *frame)
{
    if (to->count == STACK_FRAMES_MAX)
        memmove(to->frames, to->frames + 1, --to->count * sizeof(*to->frames));
    to->frames[to->count++] = *frame;
    to->called = NULL;
}

static void read_stack(struct analysis *a, const char *text, size_t length, struct look_stack *to,
                       enum origin least)
{
    const char *end = text + length;
    to->count = 0;
    to->called = NULL;
    for (const char *at = text; at < end;) {
        const char *stop = memchr(at, ';', (size_t)(end - at));
        stop = stop ? stop : end;
        struct stack_frame frame = read_frame(a, at, (size_t)(stop - at));
        at = stop + 1;
        to->loading |= is_loading(&frame);
        to->exiting |= is_exiting(&frame);
        if (origin_of(&frame) >= least)
            add_frame(to, &frame);
        else if (to->count && !to->called)
            to->called = public_name(a, &frame);
    }
}

const struct look_stack *stack_of(struct analysis *a, const struct event *e)
{
    const struct value *v = &e->values[FIELD_stall_sample_stack];
    if (!HAS(e, stall_sample_stack) || !v->length)
        return NULL;
    bool added;
    uint64_t key = map_hash(v->s, v->length), *known = map_get(&a->stacks, key);
    if (known || a->stacks.count >= STACKS_MAX)
        return known ? (const struct look_stack *)(uintptr_t)*known : NULL;
    uint64_t *place = map_put(&a->stacks, key, &added);
    struct look_stack *read = calloc(1, sizeof(*read) + STACK_FRAMES_MAX * sizeof(struct stack_frame));
    if (!place || !read) {
        free(read);
        a->failed = true;
        return NULL;
    }
    read_stack(a, v->s, v->length, read, OF_APPLICATION);
    if (!read->count) {
        read->packaged = true;
        read_stack(a, v->s, v->length, read, OF_PACKAGE);
    }
    if (v->length == CUT_LENGTH)
        read->count = 0, read->called = NULL;
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
