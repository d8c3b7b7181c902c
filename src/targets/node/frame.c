/* What the frames of a Node.js stack are: Node.js' own, those of packages or of the application, and by
 * which names people know what they call. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/node.h"

#include <stdio.h>
#include <string.h>

#include "model/stack.h"

#define SCHEME "node:"

static enum frame_origin origin_of(const struct stack_frame *frame)
{
    return !frame->script                                        ? OF_NATIVE
           : strncmp(frame->script, SCHEME, strlen(SCHEME)) == 0 ? OF_RUNTIME
           : strstr(frame->script, "/node_modules/")             ? OF_PACKAGE
           : strncmp(frame->script, "node_modules/", 13)         ? OF_APPLICATION
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
    } NATIVE[] = {{"Builtin_JsonStringify", "JSON.stringify"},
                  {"JsonStringif", "JSON.stringify"},
                  {"Builtin_JsonParse", "JSON.parse"},
                  {"JsonParse", "JSON.parse"},
                  {"Runtime_DateCurrentTime", "Date.now"},
                  {"Runtime_StructuredClone", "structuredClone"},
                  {"uv__hrtime", "the clock (process.hrtime, performance.now)"},
                  {"Builtin_AtomicsWait", "Atomics.wait"}};
    char name[160];
    enum frame_origin origin = origin_of(frame);
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
    if (origin == OF_RUNTIME && strcmp(frame->function, "syncBufferWrapper") == 0)
        return "a synchronous function of zlib (gzipSync, inflateSync, ...)";
    if (origin == OF_RUNTIME) /* internals have names that say nothing to others */
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

const struct frame_reading node_frames = {.scheme = SCHEME,
                                          .origin = origin_of,
                                          .loading = is_loading,
                                          .exiting = is_exiting,
                                          .public_name = public_name};
