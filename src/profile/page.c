/* A profile as the document that the web page shows, and the page with it as one file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/formats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/schema.h"
#include "page/page.h"

static void add_tables(const struct profile *p, struct text *out)
{
    text_add(out, ",\"strings\":[");
    for (size_t i = 0; i < p->strings.count; i++) {
        text_add(out, i ? "," : "");
        page_json_string(out, p->strings.at[i]);
    }
    text_add(out, "],\"frames\":[");
    for (size_t i = 0; i < p->frames.count; i++) {
        const struct profile_frame *f = &p->frames.at[i];
        text_addf(out, "%s[%u,%u,%u,%u,%u]", i ? "," : "", f->name, f->file, f->module, f->line, f->kind);
    }
    text_add(out, "],\"kinds\":[");
    for (int i = 0; i < FRAME_KINDS; i++)
        text_addf(out, "%s\"%s\"", i ? "," : "", profile_kind_name((enum profile_frame_kind)i));
    text_add(out, "]");
}

static void add_numbers(struct text *out, const char *name, const struct profile *p,
                        uint64_t (*number)(const struct profile_node *node))
{
    text_addf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < p->nodes.count; i++)
        text_addf(out, "%s%llu", i ? "," : "", (unsigned long long)number(&p->nodes.at[i]));
    text_add(out, "]");
}

static uint64_t parent_of(const struct profile_node *node)
{
    return node->parent;
}

static uint64_t frame_of(const struct profile_node *node)
{
    return node->frame;
}

static uint64_t weight_of(const struct profile_node *node)
{
    return node->weight;
}

/* The trie by columns, parents before children: "parent", "frame", "weight", and what weighed before. */
static void add_data(const struct profile *p, const uint64_t *before, const char *title, struct text *out)
{
    text_addf(out, "{\"schema\":%d,\"title\":", SCHEMA_page);
    page_json_string(out, title);
    text_add(out, ",\"event\":");
    page_json_string(out, p->event);
    text_add(out, ",\"unit\":");
    page_json_string(out, p->unit);
    add_tables(p, out);
    add_numbers(out, "parent", p, parent_of);
    add_numbers(out, "frame", p, frame_of);
    add_numbers(out, "weight", p, weight_of);
    if (before) {
        text_add(out, ",\"before\":[");
        for (size_t i = 0; i < p->nodes.count; i++)
            text_addf(out, "%s%llu", i ? "," : "", (unsigned long long)before[i]);
        text_add(out, "]");
    }
    text_add(out, "}");
}

/* Both in one trie: what weighed before, by node. Lines and modules do not matter for a comparison. */
static int join(const struct profile *profile, const struct profile *before, struct profile **ret_both,
                uint64_t **ret_before)
{
    struct profile *both = NULL;
    uint64_t *after = NULL, *weights = NULL;
    int r = profile_new(&both);
    if (r == 0)
        r = profile_merge(both, profile);
    size_t count = both ? both->nodes.count : 0;
    if (r == 0 && !(after = malloc((count + 1) * sizeof(*after))))
        r = -ENOMEM;
    for (size_t i = 0; r == 0 && i < count; i++)
        after[i] = both->nodes.at[i].weight;
    if (r == 0)
        r = profile_merge(both, before);
    if (r == 0 && !(weights = calloc(both->nodes.count + 1, sizeof(*weights))))
        r = -ENOMEM;
    for (size_t i = 0; r == 0 && i < both->nodes.count; i++) {
        uint64_t now = i < count ? after[i] : 0;
        weights[i] = both->nodes.at[i].weight - now;
        both->nodes.at[i].weight = now;
    }
    free(after);
    if (r < 0) {
        free(weights);
        profile_free(both);
        return r;
    }
    strcpy(both->event, profile->event);
    strcpy(both->unit, profile->unit);
    *ret_both = both;
    *ret_before = weights;
    return 0;
}

int profile_document(const struct profile *profile, const struct profile *before, const char *title,
                     struct text *out)
{
    _cleanup_(profile_freep) struct profile *both = NULL;
    _cleanup_(freep) uint64_t *weights = NULL;
    if (before) {
        int r = join(profile, before, &both, &weights);
        if (r < 0)
            return r;
        profile = both;
    }
    add_data(profile, weights, title, out);
    return out->failed ? -ENOMEM : 0;
}

int page_write(const struct profile *profile, const struct profile *before, const char *title,
               struct text *out)
{
    struct text document = {0}, sources = {0};
    int r = profile_document(profile, before, title, &document);
    text_addf(&sources, "{\"schema\":%d,\"regressions\":false,\"sources\":[{\"id\":0,\"name\":", SCHEMA_page);
    page_json_string(&sources, title);
    text_add(&sources, ",\"path\":");
    page_json_string(&sources, title);
    text_add(&sources, ",\"kind\":\"profile\",\"state\":\"ready\",\"version\":1}]}");
    const struct page_part parts[] = {{"sources", sources.at, sources.length},
                                      {"s/0/profile", document.at, document.length}};
    if (r == 0)
        r = sources.failed ? -ENOMEM : page_file(parts, 2, out);
    text_done(&document);
    text_done(&sources);
    return r;
}
