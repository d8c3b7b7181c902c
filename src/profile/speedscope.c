/* Profiles for speedscope, a viewer that runs in a browser. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/formats.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_json(struct text *out, const char *string)
{
    text_add_json(out, string, strlen(string));
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
              strcmp(p->unit, "nanoseconds") == 0 || strcmp(p->unit, "bytes") == 0 ? p->unit : "none");
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
