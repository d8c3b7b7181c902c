/* Findings about a profile, and its way to other servers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_report.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/profile_allocs.h"
#include "cli/profile_io.h"
#include "cli/profile_locks.h"
#include "cli/profile_place.h"
#include "cli/profile_steer.h"
#include "cli/profile_wakers.h"
#include "finding/report.h"
#include "http/client.h"
#include "profile/blocks.h"
#include "profile/formats.h"
#include "profile/intervals.h"
#include "profile/outlier.h"
#include "steer/certainty.h"

/* A function is hot from this share on, with 95 % certainty; so many are reported. */
#define HOT_SHARE 0.2
#define HOT_LIMIT 5

static bool in_time(const struct profile *p)
{
    return strcmp(p->unit, "nanoseconds") == 0;
}

static void weight_words(const struct profile *p, uint64_t weight, char *buffer, size_t size)
{
    if (in_time(p))
        clock_format_duration(weight, buffer, size);
    else if (strcmp(p->unit, "bytes") == 0)
        profile_place_bytes((double)weight, buffer, size);
    else
        snprintf(buffer, size, "%llu", (unsigned long long)weight);
}

/* "total" becomes total_ns or total_count. */
static void add_weight(struct finding *f, const struct profile *p, const char *name, uint64_t weight)
{
    char full[64];
    snprintf(full, sizeof(full), "%s_%s", name, in_time(p) ? "ns" : "count");
    (void)finding_add_count(f, full, weight);
}

static const char *frame_name(const struct profile *p, uint32_t frame)
{
    return profile_text(p, p->frames.at[frame].name);
}

static void set_place(struct finding *f, const struct profile *p, uint32_t frame)
{
    const struct profile_frame *x = &p->frames.at[frame];
    f->where.layer = profile_kind_name((enum profile_frame_kind)x->kind);
    f->where.function = finding_say(f, "%s", profile_text(p, x->name));
    if (x->file || x->module)
        f->where.file = finding_say(f, "%s", profile_text(p, x->file ? x->file : x->module));
    f->where.line = x->line;
}

/* A share of the whole, and between what it may be by chance. */
struct share {
    double share, low, high;
};

/* Waits, and events that are counted one by one, are known and not drawn. */
static bool is_sampled(const struct profile *p)
{
    return !profile_has_waits(p) && p->period != 1;
}

static struct share share_of(const struct profile *p, uint64_t weight, uint64_t all, uint64_t samples)
{
    double share = MIN((double)weight / (double)MAX(all, 1ull), 1);
    struct share s = {share, share, share};
    if (is_sampled(p))
        certainty_wilson(share, MAX((double)samples, 1) / SAMPLES_PER_DRAW, 1.96, &s.low, &s.high);
    return s;
}

/* Where most of it goes, the interval where that is wide, and what helps. */
static void explain_hot(struct finding *f, const struct profile *p, const struct business_function *b,
                        const struct share *s, uint64_t samples)
{
    char own[32], library[32];
    bool calls = b->library && b->library_weight > b->own;
    const char *name = b->library ? frame_name(p, b->library) : "";
    const char *how = strncmp(name, "asm_exc_", 8) == 0 ? "causes" : "calls"; /* page faults */
    weight_words(p, b->own, own, sizeof(own));
    weight_words(p, b->library_weight, library, sizeof(library));
    const char *where = !b->library ? "All of it in the function itself."
                        : calls     ? finding_say(f, "%s of it in %s, which it %s.", library, name, how)
                                : finding_say(f, "%s of it in the function itself, %s in %s, which it %s.",
                                              own, library, name, how);
    f->detail = s->high - s->low < 0.1
                    ? where
                    : finding_say(f, "%s With %llu samples its share may be anything from %.0f to %.0f %%.",
                                  where, (unsigned long long)samples, 100 * s->low, 100 * s->high);
    f->remedy = strcmp(p->event, "lock") == 0 ? "Hold the lock for less time, or divide what it protects."
                : profile_has_waits(p)
                    ? "Look at who ends its waits: sonde profile --event off-cpu --wakers=stacks."
                : calls ? "Call it less often, or keep what it returned."
                        : "Look at its lines: sonde profile --lines.";
}

/* What weights of an event are of, behind them. */
static const char *event_words(const struct profile *p)
{
    static const struct {
        const char *event, *words;
    } WORDS[] = {{"alloc", "allocated"},
                 {"alloc-live", "not freed"},
                 {"block", "of requests to disks"},
                 {"block-time", "of requests to disks"},
                 {"connect", "connections"},
                 {"connect-time", "of opening connections"}};
    for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++)
        if (strcmp(WORDS[i].event, p->event) == 0)
            return WORDS[i].words;
    return p->event;
}

static int add_hot(struct report *report, const struct profile *p, const struct business_function *b,
                   const struct share *s, uint64_t samples)
{
    struct finding *f = report_add_finding(report, FINDING_hot_function, SEVERITY_INFO);
    char total[32];
    if (!f)
        return -ENOMEM;
    weight_words(p, b->total, total, sizeof(total));
    bool waits = strcmp(p->event, "off-cpu") == 0 || strcmp(p->event, "lock") == 0;
    f->title = finding_say(f, waits ? "%s waits: %.1f %% of all waits (%s %s)" : "%s takes %.1f %% (%s %s)",
                           frame_name(p, b->frame), 100 * s->share, total, event_words(p));
    explain_hot(f, p, b, s, samples);
    set_place(f, p, b->frame);
    (void)finding_add_text(f, "function", frame_name(p, b->frame));
    (void)finding_add_text(f, "language", f->where.layer);
    (void)finding_add_real(f, "share", s->share);
    if (is_sampled(p)) {
        (void)finding_add_real(f, "share_low", s->low);
        (void)finding_add_real(f, "share_high", s->high);
        (void)finding_add_count(f, "samples_count", samples);
    }
    add_weight(f, p, "total", b->total);
    add_weight(f, p, "own", b->own);
    if (b->library) {
        (void)finding_add_text(f, "library", frame_name(p, b->library));
        add_weight(f, p, "library", b->library_weight);
    }
    f->cost_ns = in_time(p) ? b->total : 0;
    return 0;
}

static void outlier_title(const struct profile *p, const struct profile_outlier *o, char *title, size_t size)
{
    char name[64], weight[32], median[32];
    uint64_t number = profile_group_parts(frame_name(p, p->nodes.at[o->node].frame), name, sizeof(name));
    weight_words(p, o->weight, weight, sizeof(weight));
    weight_words(p, o->median, median, sizeof(median));
    snprintf(title, size, "%s %s (%llu) takes %s, its %zu equals %s", o->is_thread ? "thread" : "process",
             name, (unsigned long long)number, weight, o->equals, median);
}

static int add_outlier(struct report *report, const struct profile *p, const struct profile_outlier *o)
{
    struct finding *f = report_add_finding(report, FINDING_outlier_instance, SEVERITY_WARNING);
    char name[64], title[256];
    if (!f)
        return -ENOMEM;
    const char *process = frame_name(p, p->nodes.at[o->process].frame);
    outlier_title(p, o, title, sizeof(title));
    f->title = finding_say(f, "%s", title);
    f->detail = o->frame ? finding_say(f, "Most of the difference is in %s.", frame_name(p, o->frame)) : "";
    if (o->frame)
        set_place(f, p, o->frame);
    f->where.process = (int64_t)profile_group_parts(process, name, sizeof(name));
    f->where.service = finding_say(f, "%s", name);
    if (o->is_thread)
        f->where.thread =
            (int64_t)profile_group_parts(frame_name(p, p->nodes.at[o->node].frame), name, sizeof(name));
    (void)finding_add_text(f, "instance", frame_name(p, p->nodes.at[o->node].frame));
    (void)finding_add_count(f, "equals_count", o->equals);
    add_weight(f, p, "total", o->weight);
    add_weight(f, p, "median", o->median);
    if (o->median)
        (void)finding_add_real(f, "ratio", (double)o->weight / (double)o->median);
    if (o->frame) {
        (void)finding_add_text(f, "function", frame_name(p, o->frame));
        add_weight(f, p, "function", o->frame_weight);
        add_weight(f, p, "function_mean", o->frame_mean);
    }
    f->cost_ns = in_time(p) ? o->weight - o->median : 0;
    return 0;
}

/* ---- the document ---- */

static json_t *functions_json(const struct profile *p, unsigned top)
{
    size_t count;
    struct profile_function *list = profile_functions(p, &count);
    json_t *array = json_array();
    for (size_t i = 0; list && i < count && json_array_size(array) < top; i++) {
        const struct profile_frame *f = &p->frames.at[list[i].frame];
        if (f->kind == FRAME_GROUP)
            continue;
        json_t *function = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "function", profile_text(p, f->name),
                                     "file", profile_text(p, f->file), "module", profile_text(p, f->module),
                                     "language", profile_kind_name((enum profile_frame_kind)f->kind), "self",
                                     (json_int_t)list[i].self, "total", (json_int_t)list[i].total);
        const struct profile_interval *interval = profile_interval_of(p, list[i].frame);
        if (function && interval)
            json_object_update_new(
                function, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "self_share", interval->self,
                                    "self_low_share", interval->self_low, "self_high_share",
                                    interval->self_high, "total_share", interval->total, "total_low_share",
                                    interval->total_low, "total_high_share", interval->total_high));
        json_array_append_new(array, function);
    }
    free(list);
    return array;
}

/* Weights of stacks that could not be walked to their end, by the reason. */
static json_t *truncated_json(const struct profile *p, const uint64_t *totals)
{
    json_t *object = json_object();
    for (size_t i = 1; i < p->nodes.count; i++) {
        const struct profile_frame *f = &p->frames.at[p->nodes.at[i].frame];
        if (f->kind != FRAME_TRUNCATED)
            continue;
        json_t *known = json_object_get(object, profile_text(p, f->name));
        json_object_set_new(object, profile_text(p, f->name),
                            json_integer(json_integer_value(known) + (json_int_t)totals[i]));
    }
    return object;
}

static json_t *quality_json(const struct sampler_counts *c)
{
    json_t *runtimes = json_object();
    for (int i = 0; i < FRAME_KINDS; i++)
        if (c->runtime_stacks[i])
            json_object_set_new(runtimes, profile_kind_name((enum profile_frame_kind)i),
                                json_pack("{s:I, s:I}", "stacks_count", (json_int_t)c->runtime_stacks[i],
                                          "complete_count", (json_int_t)c->runtime_complete[i]));
    json_t *truncated = json_object();
    for (int i = 1; i < END_REASONS; i++)
        if (c->ends[i] && *sampler_end_text((enum sampler_end)i))
            json_object_set_new(truncated, sampler_end_text((enum sampler_end)i),
                                json_integer((json_int_t)c->ends[i]));
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "stacks_count",
                     (json_int_t)c->stacks, "idle_waits_count", (json_int_t)c->idle_waits, "idle_ns",
                     (json_int_t)c->idle_ns, "complete_count", (json_int_t)c->complete, "lost_count",
                     (json_int_t)c->lost, "not_kept_count", (json_int_t)c->not_kept, "programs_missed_count",
                     (json_int_t)c->missed, "folded_processes_count", (json_int_t)c->folded,
                     "files_too_large_count", (json_int_t)c->too_large, "processes_without_room_count",
                     (json_int_t)c->lacked_rows, "runtimes", runtimes, "truncated_count", truncated);
}

/* Why there is no finding. */
static const char *why_nothing(struct report *report, const struct profile *p, uint64_t samples, bool any_hot)
{
    char words[160];
    if (p->nodes.count <= 1)
        return "nothing was sampled";
    if (!any_hot)
        return "no function of the application takes a fifth, and no instance stands out";
    snprintf(words, sizeof(words), "%llu sample%s too few to say which functions take a fifth",
             (unsigned long long)samples, samples == 1 ? " is" : "s are");
    return arena_strdup(&report->arena, words);
}

static int fill(struct report *report, const struct profile *p, const struct business_rules *rules,
                const struct profile_facts *facts, unsigned top)
{
    const struct sampler_counts *counts = facts->counts;
    size_t count;
    int r = 0;
    uint64_t *totals = profile_totals(p), all = totals ? totals[0] : 0,
             samples = (uint64_t)((double)all / profile_sample_weight(p) + 0.5);
    bool any_hot = false;
    struct business_function *hot = business_functions(p, rules, &count);
    if (!totals || !hot) {
        free(totals);
        free(hot);
        return -ENOMEM;
    }
    for (size_t i = 0; r == 0 && i < count && i < HOT_LIMIT; i++) {
        struct share s = share_of(p, hot[i].total, all, samples);
        any_hot |= s.share >= HOT_SHARE;
        if (s.low >= HOT_SHARE)
            r = add_hot(report, p, &hot[i], &s, samples);
    }
    free(hot);
    struct profile_outlier *outliers = r == 0 ? profile_outliers(p, &count) : NULL;
    for (size_t i = 0; outliers && r == 0 && i < count; i++)
        r = add_outlier(report, p, &outliers[i]);
    r = r == 0 && !outliers ? -ENOMEM : r;
    free(outliers);
    if (counts && counts->lost)
        (void)report_add_loss(report, "ring-full", NULL, counts->lost);
    if (counts && counts->missed)
        (void)report_add_loss(report, "kernel-program-missed", NULL, counts->missed);
    if (r == 0 && !report->findings.count && !(report->nothing = why_nothing(report, p, samples, any_hot)))
        r = -ENOMEM;
    report->extra = json_pack("{s:{s:s, s:s, s:I, s:o, s:o}}", "profile", "event", p->event, "unit", p->unit,
                              "total", (json_int_t)all, "functions", functions_json(p, top), "truncated",
                              truncated_json(p, totals));
    if (counts)
        json_object_set_new(json_object_get(report->extra, "profile"), "quality", quality_json(counts));
    if (facts->allocs && r == 0)
        r = profile_allocs_add_json(facts->allocs, p, top, json_object_get(report->extra, "profile"));
    if (facts->io && r == 0)
        r = profile_io_add_json(facts->io, p, rules, top, json_object_get(report->extra, "profile"));
    if (facts->locks && r == 0)
        r = profile_locks_add_json(facts->locks, p, top, json_object_get(report->extra, "profile"));
    if (facts->wakers && r == 0)
        r = profile_wakers_add_json(p, rules, top, json_object_get(report->extra, "profile"));
    profile_steer_add_json(json_object_get(report->extra, "profile"), facts);
    free(totals);
    return r;
}

int profile_report_json(const struct profile *p, const struct business_rules *rules,
                        const struct profile_facts *facts, unsigned top)
{
    struct report report = {0};
    int r = fill(&report, p, rules, facts, top);
    if (r == 0) {
        report_sort(&report);
        r = cli_print_json(report_json(&report), JSON_INDENT(2));
    }
    report_done(&report);
    return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

void profile_report_outliers(const struct profile *p)
{
    size_t count;
    struct profile_outlier *list = profile_outliers(p, &count);
    for (size_t i = 0; list && i < count && i < 5; i++) {
        char title[256];
        outlier_title(p, &list[i], title, sizeof(title));
        fprintf(stderr, "sonde: outlier: %s", title);
        if (list[i].frame)
            fprintf(stderr, "; most of the difference in %s", frame_name(p, list[i].frame));
        fputc('\n', stderr);
    }
    free(list);
}

/* ---- sending ---- */

static void add_escaped(struct text *out, const char *string)
{
    for (; *string; string++)
        if (isalnum((unsigned char)*string) || strchr("-_.", *string))
            text_add_bytes(out, string, 1);
        else
            text_addf(out, "%%%02X", (unsigned char)*string);
}

static int push_pyroscope(const struct profile *p, const char *url, const char *service,
                          struct problem *problem)
{
    static const char BOUNDARY[] = "sonde-profile-7d41c0a95e";
    struct text profile = {0}, body = {0}, address = {0};
    int r = pprof_write(p, &profile);
    text_addf(&body,
              "--%s\r\nContent-Disposition: form-data; name=\"profile\"; filename=\"profile.pprof\"\r\n",
              BOUNDARY);
    text_add(&body, "Content-Type: application/octet-stream\r\n\r\n");
    text_add_bytes(&body, text_get(&profile), profile.length);
    text_addf(&body,
              "\r\n--%s\r\nContent-Disposition: form-data; name=\"sample_type_config\"; "
              "filename=\"config.json\"\r\nContent-Type: application/json\r\n\r\n"
              "{\"%s\": {\"units\": \"%s\", \"display-name\": \"%s\", \"sampled\": true}}\r\n--%s--\r\n",
              BOUNDARY, p->event, in_time(p) ? "samples" : "objects", p->event, BOUNDARY);
    text_addf(&address, "%s?name=", url);
    add_escaped(&address, service);
    text_addf(&address, ".%s&from=%llu&until=%llu&format=pprof&spyName=sonde", p->event,
              (unsigned long long)(p->start_ns / NS_PER_S), (unsigned long long)(p->end_ns / NS_PER_S + 1));
    if (r < 0 || body.failed || address.failed)
        r = problem_set(problem, -ENOMEM, "out of memory");
    else
        r = http_post(text_get(&address), "multipart/form-data; boundary=sonde-profile-7d41c0a95e",
                      text_get(&body), body.length, 30000, NULL, problem);
    text_done(&profile);
    text_done(&body);
    text_done(&address);
    return r;
}

static bool ends_with(const char *string, const char *end)
{
    size_t n = strlen(string), m = strlen(end);
    return n >= m && strcmp(string + n - m, end) == 0;
}

int profile_push(const struct profile *p, const char *url, const char *service, struct problem *problem)
{
    if (ends_with(url, "/ingest"))
        return push_pyroscope(p, url, service, problem);
    if (!ends_with(url, "/profiles")) {
        problem_set(problem, -EINVAL, "%s: not a place for profiles", url);
        problem_remedy(problem,
                       "Pyroscope takes them at http://HOST:4040/ingest, an OpenTelemetry collector at "
                       "http://HOST:4318/v1development/profiles.");
        return -EINVAL;
    }
    struct text text = {0};
    int r = otlp_write(p, service, &text);
    r = r < 0 ? problem_set(problem, r, "out of memory")
              : http_post(url, "application/x-protobuf", text_get(&text), text.length, 30000, NULL, problem);
    text_done(&text);
    return r;
}
