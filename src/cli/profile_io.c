/* See profile_io.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_io.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/profile_place.h"

enum { CALLERS = 4, PARTS_SHOWN = 3 };

/* What the programs in the kernel take for one, with its stack (bench/event-price.mjs). */
#define BLOCK_NS   6000
#define CONNECT_NS 5000

void profile_io_print_price(const struct sampler_options *o)
{
    fprintf(stderr,
            "sonde: each %s takes about %d us more of the program's time, with its stack; with more than "
            "%llu a second it stops (--hit-limit)\n",
            o->io == IO_BLOCK ? "request to a disk" : "connection",
            (o->io == IO_BLOCK ? BLOCK_NS : CONNECT_NS) / 1000, (unsigned long long)sampler_hits_most(o));
}

void profile_io_print_stopped(const struct sampler_options *o, const struct sampler_counts *c,
                              uint64_t start_ns)
{
    char after[32];
    if (c->hits_stopped_ns)
        fprintf(stderr,
                "sonde: stopped after %s: more than %llu %s a second; a larger --hit-limit bears more\n",
                clock_format_duration(c->hits_stopped_ns - start_ns, after, sizeof(after)),
                (unsigned long long)sampler_hits_most(o),
                o->io == IO_BLOCK ? "requests to disks" : "connections");
    if (c->samples < c->hits)
        fprintf(
            stderr,
            "sonde: of %llu %llu had their stacks taken, each for those since the one before on its CPU\n",
            (unsigned long long)c->hits, (unsigned long long)c->samples);
}

enum io_weight profile_io_weight(const struct profile *p)
{
    return strcmp(p->unit, "bytes") == 0 ? IO_BYTES : strcmp(p->unit, "count") == 0 ? IO_COUNT : IO_TIME;
}

/* ---- the list ---- */

static uint64_t mean_ns(const struct io_amount *a)
{
    return a->count ? a->total_ns / a->count : 0;
}

static void add_count(struct text *out, uint64_t count, const char *one, const char *several)
{
    text_addf(out, "%llu %s", (unsigned long long)count, count == 1 ? one : several);
}

static void add_bytes(struct text *out, uint64_t bytes)
{
    char text[24];
    text_add(out, profile_place_bytes((double)bytes, text, sizeof(text)));
}

static void add_duration(struct text *out, uint64_t ns)
{
    char text[32];
    text_add(out, clock_format_duration(ns, text, sizeof(text)));
}

static void add_summary(struct text *out, const struct io *io, const struct io_sites *sites)
{
    const struct io_amount *all = &sites->all;
    bool block = io_kind_of(io) == IO_BLOCK;
    if (block)
        add_count(out, all->count, "request to a disk", "requests to disks");
    else
        add_count(out, all->count, "connection opened", "connections opened");
    if (block) {
        text_add(out, ", ");
        add_bytes(out, all->bytes);
    }
    text_add(out, ": ");
    add_duration(out, mean_ns(all));
    text_add(out, " on average, 99 % within ");
    add_duration(out, all->most_ns);
    text_add(out, ", the longest ");
    add_duration(out, all->longest_ns);
    if (all->failed)
        text_addf(out, "; %llu %s", (unsigned long long)all->failed,
                  block ? "failed" : "were not established");
    if (all->unfinished)
        text_addf(out, "; %llu had not ended when sampling did", (unsigned long long)all->unfinished);
    text_add(out, "\n");
    if (sites->by_kernel.count) {
        add_count(out, sites->by_kernel.count, "of them", "of them");
        if (block) {
            text_add(out, " (");
            add_bytes(out, sites->by_kernel.bytes);
            text_add(out, ")");
        }
        text_add(out, " by threads of the kernel, for whoever wrote before\n");
    }
}

/* " write vda 12, read vda 3" */
static void add_parts(struct text *out, const struct io_site *site, bool block)
{
    for (size_t i = 0; i < site->part_count && i < PARTS_SHOWN; i++) {
        const struct io_part *part = &site->parts[i];
        text_add(out, i ? ", " : "  (");
        if (block)
            text_addf(out, "%s %s", part->what, part->where);
        else if (strcmp(part->what, io_outcome(IO_CONNECT, 0)) == 0)
            text_add(out, part->where);
        else
            text_addf(out, "%s %s", part->where, part->what);
        text_addf(out, " %llu", (unsigned long long)part->amount.count);
    }
    if (site->part_count > PARTS_SHOWN)
        text_addf(out, ", and %zu more", site->part_count - PARTS_SHOWN);
    text_add(out, site->part_count ? ")" : "");
}

/* In a column. */
static void add_column(struct text *out, int width, void (*add)(struct text *, uint64_t), uint64_t value)
{
    _cleanup_(text_done) struct text cell = {0};
    add(&cell, value);
    text_addf(out, "%*s ", width, text_get(&cell));
}

static void add_site(struct text *out, const struct io *io, const struct profile *p,
                     const struct io_site *site)
{
    bool block = io_kind_of(io) == IO_BLOCK;
    text_addf(out, "%10llu ", (unsigned long long)site->amount.count);
    if (block)
        add_column(out, 10, add_bytes, site->amount.bytes);
    else
        text_addf(out, "%10llu ", (unsigned long long)(site->amount.failed + site->amount.unfinished));
    add_column(out, 10, add_duration, mean_ns(&site->amount));
    add_column(out, 10, add_duration, site->amount.most_ns);
    add_column(out, 10, add_duration, site->amount.longest_ns);
    text_add(out, " ");
    profile_place_add(out, p, site->frame);
    if (!site->by_kernel)
        profile_place_add_callers(out, p, io_stacks(io), site->stack, site->frame, CALLERS, false);
    add_parts(out, site, block);
}

int profile_io_print(const struct io *io, const struct profile *p, const struct business_rules *rules,
                     bool whole_machine, unsigned top)
{
    struct io_sites sites;
    _cleanup_(text_done) struct text line = {0};
    bool block = io_kind_of(io) == IO_BLOCK;
    if (io_sites(io, rules, &sites) < 0)
        return cli_fail(EXIT_FAILED, &(struct problem){.what = "out of memory"});
    add_summary(&line, io, &sites);
    cli_put(stdout, text_get(&line));
    printf("%s%10s %10s %10s %10s %10s  %s%s\n", cli_style(1, STYLE_BOLD), block ? "requests" : "opened",
           block ? "bytes" : "failed", "mean", "99 %", "longest", block ? "made in" : "opened in",
           cli_style(1, STYLE_NONE));
    for (size_t i = 0; i < sites.count && i < top; i++) {
        text_clear(&line);
        add_site(&line, io, p, &sites.at[i]);
        cli_put(stdout, text_get(&line));
        putchar('\n');
    }
    if (block && !whole_machine)
        puts("What is written with buffers is written back later, by threads of the kernel: --all shows "
             "those.");
    io_sites_done(&sites);
    return EXIT_DONE;
}

/* ---- JSON ---- */

static json_t *amount_json(const struct io_amount *a)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "count", (json_int_t)a->count, "bytes",
                     (json_int_t)a->bytes, "total_ns", (json_int_t)a->total_ns, "longest_ns",
                     (json_int_t)a->longest_ns, "mean_ns", (json_int_t)mean_ns(a), "failed_count",
                     (json_int_t)a->failed, "unfinished_count", (json_int_t)a->unfinished);
}

static json_t *with_most(json_t *amount, const struct io_amount *a)
{
    json_object_set_new(amount, "most_ns", json_integer((json_int_t)a->most_ns));
    return amount;
}

static json_t *parts_json(const struct io_site *site, bool block)
{
    json_t *list = json_array();
    for (size_t i = 0; i < site->part_count; i++) {
        json_t *part = amount_json(&site->parts[i].amount);
        json_object_set_new(part, block ? "operation" : "outcome", json_string(site->parts[i].what));
        json_object_set_new(part, block ? "disk" : "peer", json_text(site->parts[i].where));
        json_array_append_new(list, part);
    }
    return list;
}

static json_t *site_json(const struct io *io, const struct profile *p, const struct io_site *site)
{
    const struct profile *stacks = io_stacks(io);
    json_t *stack = json_array(), *json = with_most(amount_json(&site->amount), &site->amount);
    uint32_t at = site->stack ? stacks->nodes.at[site->stack].parent : 0; /* above what was asked of whom */
    for (; at; at = stacks->nodes.at[at].parent) {
        const struct profile_frame *f = &p->frames.at[stacks->nodes.at[at].frame];
        if (f->kind != FRAME_GROUP)
            json_array_append_new(stack, json_text(profile_text(p, f->name)));
    }
    const char *function = site->frame ? profile_text(p, p->frames.at[site->frame].name) : "";
    json_object_set_new(json, "function", json_text(function));
    json_object_set_new(json, "by_kernel", json_boolean(site->by_kernel));
    json_object_set_new(json, "parts", parts_json(site, io_kind_of(io) == IO_BLOCK));
    json_object_set_new(json, "stack", stack);
    profile_place_add_json(json, p, site->frame);
    return json;
}

int profile_io_add_json(const struct io *io, const struct profile *p, const struct business_rules *rules,
                        unsigned top, json_t *to)
{
    struct io_sites sites;
    json_t *places = json_array();
    if (io_sites(io, rules, &sites) < 0) {
        json_decref(places);
        return -ENOMEM;
    }
    for (size_t i = 0; i < sites.count && i < top; i++)
        json_array_append_new(places, site_json(io, p, &sites.at[i]));
    json_t *json = with_most(amount_json(&sites.all), &sites.all);
    json_object_set_new(json, "by_kernel", amount_json(&sites.by_kernel));
    json_object_set_new(json, "places", places);
    io_sites_done(&sites);
    return json_object_set_new(to, "requests", json) ? -ENOMEM : 0;
}
