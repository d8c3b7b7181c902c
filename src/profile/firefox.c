/* Profiles for the Firefox Profiler, in its processed format, version 60: the tables of stacks, frames and
 * functions are shared, and each thread has its samples. Later versions of the importer upgrade it.
 *
 *   meta, libs
 *   shared   stringArray, sources (files), funcTable, resourceTable (modules), frameTable, stackTable
 *   threads  processName, name, pid, tid; samples: stack, time (ms), weight
 *
 * Tables are objects of columns of equal length; an index that is missing is null, of resources -1. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/formats.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first is the default one, which has to be grey. */
enum { CATEGORY_OTHER, CATEGORY_NATIVE, CATEGORY_KERNEL, CATEGORY_MANAGED };
#define CATEGORIES                                                              \
    "[{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},"   \
    "{\"name\":\"Native\",\"color\":\"blue\",\"subcategories\":[\"Other\"]},"   \
    "{\"name\":\"Kernel\",\"color\":\"orange\",\"subcategories\":[\"Other\"]}," \
    "{\"name\":\"Managed code\",\"color\":\"green\",\"subcategories\":[\"Other\"]}]"

static int category_of(const struct profile_frame *f)
{
    switch ((enum profile_frame_kind)f->kind) {
    case FRAME_NATIVE:
        return CATEGORY_NATIVE;
    case FRAME_KERNEL:
        return CATEGORY_KERNEL;
    case FRAME_PYTHON:
    case FRAME_RUBY:
    case FRAME_JS:
    case FRAME_JAVA:
    case FRAME_GENERATED:
    case FRAME_RUNTIME:
        return CATEGORY_MANAGED;
    default:
        return CATEGORY_OTHER;
    }
}

static void add_string(struct text *out, const char *string)
{
    text_add_json(out, string, strlen(string));
}

/* ---- tables ---- */

typedef void (*column_fn)(const struct profile *p, size_t row, const uint32_t *numbers, struct text *out);

/* "name":[...], one value for each row from first on. */
static void add_column(const struct profile *p, const char *name, size_t first, size_t end, column_fn value,
                       const uint32_t *numbers, struct text *out)
{
    text_addf(out, "\"%s\":[", name);
    for (size_t i = first; i < end; i++) {
        if (i > first)
            text_add(out, ",");
        value(p, i, numbers, out);
    }
    text_add(out, "],");
}

static void put_null(const struct profile *p, size_t row, const uint32_t *numbers, struct text *out)
{
    (void)p, (void)row, (void)numbers;
    text_add(out, "null");
}

static void put_zero(const struct profile *p, size_t row, const uint32_t *numbers, struct text *out)
{
    (void)p, (void)row, (void)numbers;
    text_add(out, "0");
}

static void put_minus_one(const struct profile *p, size_t row, const uint32_t *numbers, struct text *out)
{
    (void)p, (void)row, (void)numbers;
    text_add(out, "-1");
}

static void put_false(const struct profile *p, size_t row, const uint32_t *numbers, struct text *out)
{
    (void)p, (void)row, (void)numbers;
    text_add(out, "false");
}

static void put_row(const struct profile *p, size_t row, const uint32_t *numbers, struct text *out)
{
    (void)p, (void)numbers;
    text_addf(out, "%zu", row);
}

static void put_is_js(const struct profile *p, size_t row, const uint32_t *numbers, struct text *out)
{
    (void)numbers;
    text_add(out, p->frames.at[row].kind == FRAME_JS ? "true" : "false");
}

static void put_name(const struct profile *p, size_t row, const uint32_t *numbers, struct text *out)
{
    (void)numbers;
    text_addf(out, "%u", p->frames.at[row].name);
}

static void put_category(const struct profile *p, size_t row, const uint32_t *numbers, struct text *out)
{
    (void)numbers;
    text_addf(out, "%d", category_of(&p->frames.at[row]));
}

static void put_line(const struct profile *p, size_t row, const uint32_t *numbers, struct text *out)
{
    (void)numbers;
    text_addf(out, p->frames.at[row].line ? "%u" : "null", p->frames.at[row].line);
}

/* numbers: string -> 1 + index into the table that its files or modules form, 0: it is none. */
static void put_source(const struct profile *p, size_t row, const uint32_t *numbers, struct text *out)
{
    uint32_t file = p->frames.at[row].file;
    text_addf(out, file ? "%u" : "null", numbers[file] - 1);
}

static void put_resource(const struct profile *p, size_t row, const uint32_t *numbers, struct text *out)
{
    uint32_t module = p->frames.at[row].module;
    text_addf(out, "%d", module ? (int)numbers[module] - 1 : -1);
}

static void put_prefix(const struct profile *p, size_t row, const uint32_t *numbers, struct text *out)
{
    (void)numbers;
    uint32_t parent = p->nodes.at[row].parent;
    text_addf(out, parent ? "%u" : "null", parent - 1);
}

static void put_frame(const struct profile *p, size_t row, const uint32_t *numbers, struct text *out)
{
    (void)numbers;
    text_addf(out, "%u", p->nodes.at[row].frame);
}

static void end_table(size_t rows, const char *end, struct text *out)
{
    text_addf(out, "\"length\":%zu}%s", rows, end);
}

/* The strings that are files (or modules): their numbers, and columns of one row for each. */
static uint32_t add_strings_used(const struct profile *p, bool files, uint32_t *numbers, struct text *out)
{
    uint32_t count = 0;
    for (size_t i = 0; i < p->frames.count; i++) {
        uint32_t string = files ? p->frames.at[i].file : p->frames.at[i].module;
        if (!string || numbers[string])
            continue;
        text_addf(out, "%s%u", count ? "," : "", string);
        numbers[string] = ++count;
    }
    return count;
}

static void add_repeated(const char *name, const char *value, size_t count, struct text *out)
{
    text_addf(out, "\"%s\":[", name);
    for (size_t i = 0; i < count; i++)
        text_addf(out, "%s%s", i ? "," : "", value);
    text_add(out, "],");
}

/* numbers: room for one number for each string, zeros. */
static void add_shared(const struct profile *p, uint32_t *files, uint32_t *modules, struct text *out)
{
    size_t frames = p->frames.count, nodes = p->nodes.count;
    text_add(out, "\"shared\":{\"stringArray\":[");
    for (size_t i = 0; i < p->strings.count; i++) {
        text_add(out, i ? "," : "");
        add_string(out, p->strings.at[i]);
    }
    text_add(out, "],\"sources\":{\"filename\":[");
    uint32_t count = add_strings_used(p, true, files, out);
    text_add(out, "],");
    add_repeated("uuid", "null", count, out);
    end_table(count, ",\"resourceTable\":{\"name\":[", out);
    count = add_strings_used(p, false, modules, out);
    text_add(out, "],");
    add_repeated("lib", "null", count, out);
    add_repeated("host", "null", count, out);
    add_repeated("type", "1", count, out); /* a library */
    end_table(count, ",\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],\"functionSize\":[],",
              out);
    end_table(0, ",\"funcTable\":{", out);
    add_column(p, "name", 0, frames, put_name, NULL, out);
    add_column(p, "isJS", 0, frames, put_is_js, NULL, out);
    add_column(p, "relevantForJS", 0, frames, put_false, NULL, out);
    add_column(p, "resource", 0, frames, put_resource, modules, out);
    add_column(p, "source", 0, frames, put_source, files, out);
    add_column(p, "lineNumber", 0, frames, put_line, NULL, out);
    add_column(p, "columnNumber", 0, frames, put_null, NULL, out);
    end_table(frames, ",\"frameTable\":{", out);
    add_column(p, "address", 0, frames, put_minus_one, NULL, out);
    add_column(p, "inlineDepth", 0, frames, put_zero, NULL, out);
    add_column(p, "category", 0, frames, put_category, NULL, out);
    add_column(p, "subcategory", 0, frames, put_zero, NULL, out);
    add_column(p, "func", 0, frames, put_row, NULL, out);
    add_column(p, "nativeSymbol", 0, frames, put_null, NULL, out);
    add_column(p, "innerWindowID", 0, frames, put_null, NULL, out);
    add_column(p, "line", 0, frames, put_line, NULL, out);
    add_column(p, "column", 0, frames, put_null, NULL, out);
    end_table(frames, ",\"stackTable\":{", out);
    add_column(p, "prefix", 1, nodes, put_prefix, NULL, out); /* stack i - 1 is node i */
    add_column(p, "frame", 1, nodes, put_frame, NULL, out);
    end_table(nodes - 1, "}", out);
}

/* ---- threads ---- */

/* The group frames that a stack begins with: of the process, of the thread (0: none). */
static void groups_of(const struct profile *p, uint32_t node, uint32_t ret_groups[2])
{
    uint32_t path[2] = {0, 0};
    for (; node; node = p->nodes.at[node].parent) {
        if (p->frames.at[p->nodes.at[node].frame].kind != FRAME_GROUP)
            continue;
        path[1] = path[0];
        path[0] = p->frames.at[p->nodes.at[node].frame].name;
    }
    memcpy(ret_groups, path, sizeof(path));
}

static void add_thread(const struct profile *p, const struct profile_sample *samples, size_t count,
                       uint64_t start_ns, struct text *out)
{
    bool timed = strcmp(p->unit, "nanoseconds") == 0;
    const char *separator = "";
    char name[48];
    uint32_t groups[2];
    groups_of(p, samples[count - 1].node, groups); /* what it runs in the end: a shell becomes its command */
    snprintf(name, sizeof(name), samples[0].tid ? "thread %u" : "all threads", samples[0].tid);
    text_add(out, "{\"processType\":\"default\",\"processName\":");
    add_string(out, groups[0] ? profile_text(p, groups[0]) : "");
    text_add(out, ",\"name\":");
    add_string(out, groups[1] ? profile_text(p, groups[1]) : name);
    text_addf(out,
              ",\"isMainThread\":%s,\"pid\":\"%u\",\"tid\":%u,\"processStartupTime\":0,"
              "\"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,\"pausedRanges\":[],"
              "\"markers\":{\"data\":[],\"name\":[],\"startTime\":[],\"endTime\":[],\"phase\":[],"
              "\"category\":[],\"length\":0},\"samples\":{\"stack\":[",
              samples[0].pid == samples[0].tid ? "true" : "false", samples[0].pid, samples[0].tid);
    for (size_t i = 0; i < count; i++, separator = ",")
        text_addf(out, samples[i].node ? "%s%u" : "%snull", separator, samples[i].node - 1);
    text_add(out, "],\"time\":[");
    separator = "";
    for (size_t i = 0; i < count; i++, separator = ",")
        text_addf(out, "%s%.6f", separator, (double)(samples[i].time_ns - start_ns) / 1e6);
    text_add(out, "],\"weight\":[");
    separator = "";
    for (size_t i = 0; i < count; i++, separator = ",")
        if (timed)
            text_addf(out, "%s%.6f", separator, (double)samples[i].weight / 1e6);
        else
            text_addf(out, "%s%llu", separator, (unsigned long long)samples[i].weight);
    text_addf(out, "],\"weightType\":\"%s\",\"length\":%zu}}",
              timed                           ? "tracing-ms"
              : strcmp(p->unit, "bytes") == 0 ? "bytes"
                                              : "samples",
              count);
}

/* Of a profile that kept no samples (one that was read): one for each stack, one after the other. */
static int invent_samples(const struct profile *p, struct profile_sample **ret_samples, size_t *ret_count)
{
    struct profile_sample *samples = calloc(p->nodes.count + 1, sizeof(*samples));
    size_t count = 0;
    uint64_t time_ns = 0, step = strcmp(p->unit, "nanoseconds") == 0 ? 1 : 1000000;
    if (!samples)
        return -ENOMEM;
    for (size_t i = 1; i < p->nodes.count; i++)
        if (p->nodes.at[i].weight) {
            samples[count++] = (struct profile_sample){
                .time_ns = time_ns, .weight = p->nodes.at[i].weight, .node = (uint32_t)i};
            time_ns += p->nodes.at[i].weight * step;
        }
    *ret_samples = samples;
    *ret_count = count;
    return 0;
}

static int sorted_samples(const struct profile *p, struct profile_sample **ret_samples, size_t *ret_count)
{
    if (!p->samples.count)
        return invent_samples(p, ret_samples, ret_count);
    struct profile_sample *samples = malloc(p->samples.count * sizeof(*samples));
    if (!samples)
        return -ENOMEM;
    memcpy(samples, p->samples.at, p->samples.count * sizeof(*samples));
    qsort(samples, p->samples.count, sizeof(*samples), profile_by_thread_and_time);
    *ret_samples = samples;
    *ret_count = p->samples.count;
    return 0;
}

static void add_meta(const struct profile *p, const char *title, double start_ns, struct text *out)
{
    text_addf(out,
              "{\"meta\":{\"interval\":%.6f,\"startTime\":%.3f,\"processType\":0,\"product\":", /* in ms */
              p->period ? (double)p->period / 1e6 : 1.0, start_ns / 1e6);
    add_string(out, title);
    text_add(out, ",\"importedFrom\":\"sonde\",\"stackwalk\":1,\"debug\":false,\"version\":30,"
                  "\"preprocessedProfileVersion\":60,\"symbolicated\":true,"
                  "\"symbolicationNotSupported\":true,\"usesOnlyOneStackType\":true,"
                  "\"sourceCodeIsNotOnSearchfox\":true,\"markerSchema\":[],\"categories\":" CATEGORIES
                  "},\"libs\":[],\"pages\":[],");
}

int firefox_write(const struct profile *p, const char *title, struct text *out)
{
    struct profile_sample *samples = NULL;
    size_t count = 0;
    uint64_t start = UINT64_MAX;
    uint32_t *files = calloc(2 * p->strings.count, sizeof(*files));
    int r = files ? sorted_samples(p, &samples, &count) : -ENOMEM;
    if (r < 0) {
        free(files);
        return r;
    }
    for (size_t i = 0; i < count; i++)
        start = MIN(start, samples[i].time_ns);
    double start_ns = (double)p->start_ns;
    if (p->began_ns && start >= p->began_ns) /* or there is none */
        start = p->began_ns;
    else if (p->began_ns)
        start_ns -= (double)(p->began_ns - start);
    add_meta(p, title, start_ns, out);
    add_shared(p, files, files + p->strings.count, out);
    text_add(out, ",\"threads\":[");
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1;
             end < count && samples[end].tid == samples[i].tid && samples[end].pid == samples[i].pid;)
            end++;
        text_add(out, i ? "," : "");
        add_thread(p, samples + i, end - i, start, out);
    }
    text_add(out, "]}\n");
    free(samples);
    free(files);
    return out->failed ? -ENOMEM : 0;
}
