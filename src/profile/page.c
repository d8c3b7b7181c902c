/* One self-contained HTML page: page.html with the profile as data in it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/formats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* page.html, as it was when this was built; PAGE_SUM has this file compiled again when that one changes. */
__asm__(".section .rodata # " PAGE_SUM "\n"
        "page_html_start: .incbin \"" PAGE_FILE "\"\n"
        "page_html_end: .byte 0\n"
        ".previous\n");
extern const char page_html_start[], page_html_end[];

static const char MARK[] = "/*DATA*/null";

/* In a script element "</" must not appear, and neither may line separators. */
static void add_string(struct text *out, const char *string)
{
    text_add(out, "\"");
    for (const char *at = string; *at; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\')
            text_addf(out, "\\%c", c);
        else if (c < 0x20 || c == '<' || c == '>' || c == '&')
            text_addf(out, "\\u%04x", c);
        else
            text_add_bytes(out, at, 1);
    }
    text_add(out, "\"");
}

static void add_tables(const struct profile *p, struct text *out)
{
    text_add(out, ",strings:[");
    for (size_t i = 0; i < p->strings.count; i++) {
        text_add(out, i ? "," : "");
        add_string(out, p->strings.at[i]);
    }
    text_add(out, "],frames:[");
    for (size_t i = 0; i < p->frames.count; i++) {
        const struct profile_frame *f = &p->frames.at[i];
        text_addf(out, "%s[%u,%u,%u,%u,%u]", i ? "," : "", f->name, f->file, f->module, f->line, f->kind);
    }
    text_add(out, "],kinds:[");
    for (int i = 0; i < FRAME_KINDS; i++)
        text_addf(out, "%s\"%s\"", i ? "," : "", profile_kind_name((enum profile_frame_kind)i));
    text_add(out, "]");
}

static void add_nodes(const struct profile *p, const uint64_t *before, struct text *out)
{
    text_add(out, ",nodes:[");
    for (size_t i = 0; i < p->nodes.count; i++) {
        const struct profile_node *n = &p->nodes.at[i];
        text_addf(out, "%s[%u,%u,%llu", i ? "," : "", n->parent, n->frame, (unsigned long long)n->weight);
        if (before && before[i])
            text_addf(out, ",%llu", (unsigned long long)before[i]);
        text_add(out, "]");
    }
    text_add(out, "]");
}

static void add_data(const struct profile *p, const uint64_t *before, const char *title, struct text *out)
{
    text_add(out, "{title:");
    add_string(out, title);
    text_add(out, ",event:");
    add_string(out, p->event);
    text_add(out, ",unit:");
    add_string(out, p->unit);
    text_add(out, before ? ",before:true" : "");
    add_tables(p, out);
    add_nodes(p, before, out);
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

int page_write(const struct profile *profile, const struct profile *before, const char *title,
               struct text *out)
{
    const char *mark =
        memmem(page_html_start, (size_t)(page_html_end - page_html_start), MARK, sizeof(MARK) - 1);
    _cleanup_(profile_freep) struct profile *both = NULL;
    _cleanup_(freep) uint64_t *weights = NULL;
    if (!mark)
        return -EINVAL;
    if (before) {
        int r = join(profile, before, &both, &weights);
        if (r < 0)
            return r;
        profile = both;
    }
    text_add_bytes(out, page_html_start, (size_t)(mark - page_html_start));
    add_data(profile, weights, title, out);
    text_add(out, mark + sizeof(MARK) - 1);
    return out->failed ? -ENOMEM : 0;
}
