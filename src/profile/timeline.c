/* Profiles for viewers that run in a browser: speedscope, and the Firefox Profiler. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/formats.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_json(struct text *out, const char *string)
{
    text_add(out, "\"");
    for (const char *at = string; *at; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\')
            text_addf(out, "\\%c", c);
        else if (c < 0x20)
            text_addf(out, "\\u%04x", c);
        else
            text_add_bytes(out, at, 1);
    }
    text_add(out, "\"");
}

static size_t path_of(const struct profile *p, uint32_t node, uint32_t *path, size_t limit)
{
    size_t depth = 0;
    for (; node && depth < limit; node = p->nodes.at[node].parent)
        path[depth++] = p->nodes.at[node].frame;
    return depth;
}

int speedscope_write(const struct profile *p, const char *title, struct text *out)
{
    uint32_t path[2048];
    uint64_t total = 0;
    const char *separator = "";
    text_add(out, "{\"$schema\":\"https://www.speedscope.app/"
                  "file-format-schema.json\",\"exporter\":\"sonde\",\"name\":");
    add_json(out, title);
    text_add(out, ",\"activeProfileIndex\":0,\"shared\":{\"frames\":[");
    for (size_t i = 0; i < p->frames.count; i++) {
        const struct profile_frame *f = &p->frames.at[i];
        text_add(out, i ? ",{\"name\":" : "{\"name\":");
        add_json(out, profile_text(p, f->name));
        if (f->file || f->module) {
            text_add(out, ",\"file\":");
            add_json(out, profile_text(p, f->file ? f->file : f->module));
        }
        if (f->line)
            text_addf(out, ",\"line\":%u", f->line);
        text_add(out, "}");
    }
    text_add(out, "]},\"profiles\":[{\"type\":\"sampled\",\"name\":");
    add_json(out, p->event);
    text_addf(out, ",\"unit\":\"%s\",\"startValue\":0,\"samples\":[",
              strcmp(p->unit, "nanoseconds") == 0 ? "nanoseconds" : "none");
    for (size_t i = 1; i < p->nodes.count; i++) {
        if (!p->nodes.at[i].weight)
            continue;
        text_add(out, separator);
        separator = ",";
        text_add(out, "[");
        for (size_t depth = path_of(p, (uint32_t)i, path, ARRAY_SIZE(path)); depth-- > 0;)
            text_addf(out, depth ? "%u," : "%u", path[depth]);
        text_add(out, "]");
    }
    text_add(out, "],\"weights\":[");
    separator = "";
    for (size_t i = 1; i < p->nodes.count; i++)
        if (p->nodes.at[i].weight) {
            text_addf(out, "%s%llu", separator, (unsigned long long)p->nodes.at[i].weight);
            separator = ",";
            total += p->nodes.at[i].weight;
        }
    text_addf(out, "],\"endValue\":%llu}]}\n", (unsigned long long)total);
    return out->failed ? -ENOMEM : 0;
}

/* ---- Firefox Profiler: one thread table per thread, in the form that Gecko writes ---- */

static void firefox_tables(const struct profile *p, struct text *out)
{
    text_add(out,
             "\"frameTable\":{\"schema\":{\"location\":0,\"relevantForJS\":1,\"innerWindowID\":2,"
             "\"implementation\":3,\"line\":4,\"column\":5,\"category\":6,\"subcategory\":7},\"data\":[");
    for (size_t i = 0; i < p->frames.count; i++) {
        const struct profile_frame *f = &p->frames.at[i];
        int category = f->kind == FRAME_KERNEL                                                   ? 1
                       : f->kind == FRAME_JS || f->kind == FRAME_PYTHON || f->kind == FRAME_JAVA ? 2
                                                                                                 : 0;
        text_addf(out, "%s[%zu,false,null,null,%u,null,%d,null]", i ? "," : "", i, f->line, category);
    }
    text_add(out, "]},\"stackTable\":{\"schema\":{\"prefix\":0,\"frame\":1},\"data\":[");
    for (size_t i = 1; i < p->nodes.count; i++) { /* stack i - 1 is node i */
        const struct profile_node *n = &p->nodes.at[i];
        if (n->parent)
            text_addf(out, "%s[%u,%u]", i > 1 ? "," : "", n->parent - 1, n->frame);
        else
            text_addf(out, "%s[null,%u]", i > 1 ? "," : "", n->frame);
    }
    text_add(out, "]},\"stringTable\":[");
    for (size_t i = 0; i < p->frames.count; i++) {
        struct text name = {0};
        const struct profile_frame *f = &p->frames.at[i];
        text_add(&name, profile_text(p, f->name));
        if (f->file)
            text_addf(&name, " (%s:%u)", profile_text(p, f->file), f->line);
        else if (f->module)
            text_addf(&name, " (in %s)", profile_text(p, f->module));
        text_add(out, i ? "," : "");
        add_json(out, text_get(&name));
        text_done(&name);
    }
    text_add(out, "]");
}

static void firefox_thread(const struct profile *p, const struct profile_sample *samples, size_t count,
                           uint64_t start_ns, const char *title, struct text *out)
{
    text_add(out, "{\"name\":");
    add_json(out, title);
    text_addf(
        out, ",\"processType\":\"default\",\"registerTime\":0,\"unregisterTime\":null,\"pid\":%u,\"tid\":%u,",
        samples[0].pid, samples[0].tid);
    firefox_tables(p, out);
    text_add(out,
             ",\"markers\":{\"schema\":{\"name\":0,\"startTime\":1,\"endTime\":2,\"phase\":3,\"category\":4,"
             "\"data\":5},"
             "\"data\":[]},\"samples\":{\"schema\":{\"stack\":0,\"time\":1,\"eventDelay\":2},\"data\":[");
    for (size_t i = 0; i < count; i++) {
        text_addf(out, "%s[", i ? "," : "");
        if (samples[i].node)
            text_addf(out, "%u", samples[i].node - 1);
        else
            text_add(out, "null");
        text_addf(out, ",%.3f,0]", (double)(samples[i].time_ns - start_ns) / 1e6);
    }
    text_add(out, "]}}");
}

int firefox_write(const struct profile *p, const char *title, struct text *out)
{
    struct profile_sample *samples = malloc((p->samples.count + 1) * sizeof(*samples));
    if (!samples)
        return -ENOMEM;
    memcpy(samples, p->samples.at ? p->samples.at : samples, p->samples.count * sizeof(*samples));
    qsort(samples, p->samples.count, sizeof(*samples), profile_by_thread_and_time);
    uint64_t start = UINT64_MAX;
    for (size_t i = 0; i < p->samples.count; i++)
        start = MIN(start, samples[i].time_ns);
    text_addf(out, "{\"meta\":{\"interval\":%.3f,\"startTime\":%.3f,\"processType\":0,\"product\":",
              (double)p->period / 1e6, (double)p->start_ns / 1e6);
    add_json(out, title);
    text_add(out,
             ",\"stackwalk\":1,\"version\":24,\"preprocessedProfileVersion\":0,\"categories\":["
             "{\"name\":\"Native\",\"color\":\"blue\",\"subcategories\":[\"Other\"]},"
             "{\"name\":\"Kernel\",\"color\":\"orange\",\"subcategories\":[\"Other\"]},"
             "{\"name\":\"Managed\",\"color\":\"green\",\"subcategories\":[\"Other\"]}],\"markerSchema\":[]},"
             "\"libs\":[],\"processes\":[],\"pausedRanges\":[],\"threads\":[");
    for (size_t i = 0, end; i < p->samples.count; i = end) {
        char name[32];
        for (end = i + 1; end < p->samples.count && samples[end].tid == samples[i].tid &&
                          samples[end].pid == samples[i].pid;)
            end++;
        snprintf(name, sizeof(name), "thread %u", samples[i].tid);
        text_add(out, i ? "," : "");
        firefox_thread(p, samples + i, end - i, start, name, out);
    }
    text_add(out, "]}\n");
    free(samples);
    return out->failed ? -ENOMEM : 0;
}
