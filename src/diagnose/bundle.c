/* See bundle.h. Plain HTML with inline SVG, no script: it opens anywhere and can be attached to a ticket. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/bundle.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/macro.h"

#define GROUPS_ROOM 256
#define PLOT_WIDTH  720
#define PLOT_HEIGHT 160
#define FOREST_ROWS 400
#define BARS_MAX    200 /* spans shown of one exemplar */

static const char STYLE[] =
    "<style>:root{color-scheme:light dark;--a:#3b7dd8;--b:#d9534f;--line:#8884}body{font:14px/1.5 "
    "system-ui,sans-serif;"
    "max-width:1100px;margin:2em auto;padding:0 1em}h1{font-size:1.3em}h2{font-size:1.05em;margin-top:2em}"
    "table{border-collapse:collapse}td,th{padding:.15em .8em .15em 0;text-align:left;border-bottom:1px solid "
    "var(--line)}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.path{font-weight:600;color:var(--b)}"
    ".older{color:var(--a)}.newer{color:var(--b)}.pair{display:grid;grid-template-columns:1fr 1fr;gap:1.5em}"
    "svg{width:100%;height:auto}svg text{font:10px "
    "system-ui;fill:currentColor}pre{overflow:auto;max-height:30em}"
    ".note{opacity:.7}</style>";

static void escape(struct text *to, const char *s)
{
    for (; *s; s++)
        switch (*s) {
        case '<':
            text_add(to, "&lt;");
            break;
        case '>':
            text_add(to, "&gt;");
            break;
        case '&':
            text_add(to, "&amp;");
            break;
        case '"':
            text_add(to, "&quot;");
            break;
        default:
            text_add_bytes(to, s, 1);
        }
}

static const char *duration(double ns, char *buffer)
{
    return clock_format_duration(ns > 0 ? (uint64_t)ns : 0, buffer, 24);
}

static void row(struct text *to, const char *name, const char *format, ...) _printf_(3, 4);
static void row(struct text *to, const char *name, const char *format, ...)
{
    char value[256];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof(value), format, args);
    va_end(args);
    text_addf(to, "<tr><td>%s</td><td class=n>", name);
    escape(to, value);
    text_add(to, "</td></tr>");
}

static void write_numbers(const struct verdict *v, struct text *to)
{
    const struct regress_result *r = &v->result;
    const double quantiles[] = {0.5, 0.9, 0.95, 0.99, 0.999};
    char a[24], b[24];
    text_add(to, "<h2>Numbers</h2><div class=pair><table>");
    row(to, "measure", "%s", regress_measure_name(r->measure));
    row(to, "ratio, newer / older", "%.3f (95 %% interval %.3f to %.3f)", r->ratio[r->measure],
        r->low[r->measure], r->high[r->measure]);
    row(to, "test", "%s", regress_method_words(r->method));
    row(to, "p, and adjusted over all buckets", "%.3g, %.3g", r->p, r->adjusted_p);
    row(to, "e-value (valid at any look)", "%.3g", v->sequential.e_value);
    row(to, "Z against older requests", "%.2f", r->z);
    row(to, "Z against older versions", "%.2f", v->z_versions);
    row(to, "effect size", "%.2f", r->effect);
    row(to, "requests, newer and older", "%llu, %llu", (unsigned long long)r->newer_requests,
        (unsigned long long)r->older_requests);
    row(to, "hosts, newer and older", "%zu, %zu", r->newer_hosts, r->older_hosts);
    text_add(to, "</table><table><tr><th><th class='n older'>older<th class='n newer'>newer</tr>");
    text_addf(to, "<tr><td>mean<td class=n>%s<td class=n>%s</tr>", duration(sketch_mean(&v->older), a),
              duration(sketch_mean(&v->newer), b));
    for (size_t i = 0; i < ARRAY_SIZE(quantiles); i++)
        text_addf(to, "<tr><td>p%g<td class=n>%s<td class=n>%s</tr>", quantiles[i] * 100,
                  duration(sketch_quantile(&v->older, quantiles[i]), a),
                  duration(sketch_quantile(&v->newer, quantiles[i]), b));
    text_add(to, "</table></div>");
}

/* Density over log latency, four bins of the sketch to a step. */
static void curve(const struct sketch *sketch, unsigned first, unsigned end, double top, const char *class,
                  struct text *to)
{
    text_addf(to, "<polyline class=%s fill=none stroke=currentColor stroke-width=1.5 points='", class);
    for (unsigned bin = first; bin < end; bin += 4) {
        double share = 0;
        for (unsigned k = bin; k < bin + 4 && k < SKETCH_BINS; k++)
            share += (double)sketch_bin_count(sketch, (uint16_t)k) / (double)sketch->count;
        text_addf(to, "%.1f,%.1f ", (double)(bin - first) / (end - first) * PLOT_WIDTH,
                  PLOT_HEIGHT - 20 - share / top * (PLOT_HEIGHT - 30));
    }
    text_add(to, "'/>");
}

static void write_distributions(const struct verdict *v, struct text *to)
{
    uint16_t a_first, a_end, b_first, b_end;
    char label[24];
    sketch_range(&v->older, &a_first, &a_end);
    sketch_range(&v->newer, &b_first, &b_end);
    unsigned first = MIN(a_first, b_first) / 4 * 4, end = MAX(a_end, b_end) + 4u;
    double top = 1e-9;
    for (int side = 0; side < 2; side++) {
        const struct sketch *s = side ? &v->newer : &v->older;
        for (unsigned bin = first; bin < end; bin += 4) {
            double share = 0;
            for (unsigned k = bin; k < bin + 4 && k < SKETCH_BINS; k++)
                share += (double)sketch_bin_count(s, (uint16_t)k) / (double)s->count;
            top = fmax(top, share);
        }
    }
    text_addf(to, "<h2>Distribution of latency (logarithmic)</h2><svg viewBox='0 0 %d %d' role=img>",
              PLOT_WIDTH, PLOT_HEIGHT);
    for (unsigned bin = (first + 63) / 64 * 64; bin < end; bin += 64) {
        double x = (double)(bin - first) / (end - first) * PLOT_WIDTH;
        text_addf(
            to,
            "<line x1=%.1f x2=%.1f y1=5 y2=%d stroke=currentColor opacity=.15 /><text x=%.1f y=%d>%s</text>",
            x, x, PLOT_HEIGHT - 20, x + 2, PLOT_HEIGHT - 8,
            duration((double)sketch_bin_low((uint16_t)bin), label));
    }
    curve(&v->older, first, end, top, "older", to);
    curve(&v->newer, first, end, top, "newer", to);
    text_add(to, "</svg><p><span class=older>older</span> · <span class=newer>newer</span></p>");
}

static void write_changes(const struct book *book, const struct verdict *v, struct text *to)
{
    struct text words = {0};
    text_addf(
        to,
        "<h2>What changed on the critical path</h2><table><tr><th>change<th>call path<th class=n>share of "
        "the growth</tr>");
    for (size_t i = 0; i < v->change_count; i++) {
        text_addf(to, "<tr><td>%s<td>", forest_change_name(v->changes[i].kind));
        forest_change_words(book, &v->changes[i], &words);
        escape(to, text_get(&words));
        text_add(to, "<br><span class=note>");
        text_clear(&words);
        book_path_chain(book, v->changes[i].path, &words);
        escape(to, text_get(&words));
        text_addf(to, "</span><td class=n>%.0f %%</tr>", v->changes[i].share * 100);
        text_clear(&words);
    }
    text_add(
        to, "</table><h2>Where</h2><table><tr><th>attributes<th class=n>ratio within<th class=n>elsewhere<th "
            "class=n>share of the slow-down</tr>");
    for (size_t i = 0; i <= v->cause_count; i++) {
        const struct cause *c = i < v->cause_count ? &v->causes[i] : &v->rule;
        if (i == v->cause_count && !c->length)
            break;
        cause_words(book, c, &words);
        text_add(to, "<tr><td>");
        escape(to, text_get(&words));
        text_addf(to, "%s<td class=n>%.2f<td class=n>%.2f<td class=n>%.0f %%</tr>",
                  i == v->cause_count ? " <span class=note>(simple rule: largest ratio)</span>" : "",
                  c->ratio, c->ratio_outside, c->coverage * 100);
        text_clear(&words);
    }
    text_add(to, "</table>");
    text_done(&words);
}

static bool on_path(const struct verdict *v, uint32_t path)
{
    for (size_t i = 0; i < v->critical_path_length; i++)
        if (v->critical_path[i] == path)
            return true;
    return false;
}

static unsigned depth_of(const struct book *book, uint32_t path)
{
    unsigned depth = 0;
    for (uint32_t at = book->paths.at[path].parent; at != BOOK_NONE; at = book->paths.at[at].parent)
        depth++;
    return depth;
}

static void forest_row(const struct book *book, const struct verdict *v, const struct forest *before,
                       const struct forest *after, uint32_t path, struct text *to)
{
    static const struct vertex none;
    const struct vertex *a = forest_vertex(before, path), *b = forest_vertex(after, path);
    struct text words = {0};
    char x[24], y[24], cx[24], cy[24];
    a = a ? a : &none;
    b = b ? b : &none;
    book_path_words(book, path, &words);
    text_addf(to, "<tr><td style='padding-left:%uem'%s>", depth_of(book, path),
              on_path(v, path) ? " class=path" : "");
    escape(to, text_get(&words));
    text_addf(
        to, "<td class=n>%.2f<td class=n>%.2f<td class=n>%s<td class=n>%s<td class=n>%s<td class=n>%s</tr>",
        before->requests ? (double)a->calls / (double)before->requests : 0,
        after->requests ? (double)b->calls / (double)after->requests : 0,
        duration(sketch_quantile(&a->duration, 0.95), x), duration(sketch_quantile(&b->duration, 0.95), y),
        duration((double)(a->critical_ns + a->edge_critical_ns) / fmax((double)before->requests, 1), cx),
        duration((double)(b->critical_ns + b->edge_critical_ns) / fmax((double)after->requests, 1), cy));
    text_done(&words);
}

/* Depth first below a path; children in order of number. */
static void forest_rows(const struct book *book, const struct verdict *v, const struct forest *before,
                        const struct forest *after, uint32_t path, unsigned *rows, struct text *to)
{
    if (++*rows > FOREST_ROWS || (!forest_vertex(before, path) && !forest_vertex(after, path)))
        return;
    forest_row(book, v, before, after, path, to);
    for (uint32_t child = path + 1; child < book->paths.count; child++)
        if (book->paths.at[child].parent == path)
            forest_rows(book, v, before, after, child, rows, to);
}

static void write_forest(const struct book *book, const struct verdict *v, const struct forest *before,
                         const struct forest *after, struct text *to)
{
    unsigned rows = 0;
    text_add(
        to,
        "<h2>Call-stack forest</h2><p class=note>The critical path of the newer side is marked. Critical "
        "time "
        "includes the edge to the call (network, queues).</p><table><tr><th>call<th class=n>calls older<th "
        "class=n>newer<th class=n>p95 older<th class=n>newer<th class=n>critical older<th "
        "class=n>newer</tr>");
    forest_rows(book, v, before, after, book->buckets.at[v->bucket].type, &rows, to);
    text_add(to, "</table>");
    if (rows > FOREST_ROWS)
        text_addf(to, "<p class=note>%u more calls are not shown.</p>", rows - FOREST_ROWS);
}

static void write_exemplar(const struct book *book, const struct exemplar *e, uint64_t scale_ns,
                           const char *class, struct text *to)
{
    char label[24];
    size_t n = MIN(e->count, (size_t)BARS_MAX);
    uint64_t origin = e->parts[0].start_ns;
    text_addf(to, "<p class=%s>%s · trace %llx%016llx</p><svg viewBox='0 0 520 %zu' role=img class=%s>",
              class, duration((double)e->duration_ns, label), (unsigned long long)e->high,
              (unsigned long long)e->low, n * 14 + 4, class);
    for (size_t i = 0; i < n; i++) {
        const struct part *p = &e->parts[i];
        double x = (double)(int64_t)(p->start_ns - origin) / (double)scale_ns * 520;
        double width = fmax((double)(p->end_ns - p->start_ns) / (double)scale_ns * 520, 1);
        text_addf(
            to, "<rect x=%.1f y=%zu width=%.1f height=10 fill=currentColor opacity=.35 /><text x=%.1f y=%zu>",
            x, i * 14 + 2, width, fmin(fmax(x, 0) + 2, 400), i * 14 + 11);
        escape(to, names_get(book->names, p->service));
        text_add(to, " ");
        escape(to, names_get(book->names, p->name));
        text_addf(to, " %s</text>", duration((double)(p->end_ns - p->start_ns), label));
    }
    text_add(to, "</svg>");
    if (e->count > n)
        text_addf(to, "<p class=note>%zu more spans</p>", e->count - n);
}

static const struct exemplar *pick(const struct group *const *groups, size_t count, bool slow)
{
    const struct exemplar *best = NULL;
    for (size_t g = 0; g < count; g++)
        for (int i = 0; i < BOOK_EXEMPLARS; i++) {
            const struct exemplar *e = slow ? &groups[g]->slow[i] : &groups[g]->normal[i];
            if (e->parts && (!best || (slow && e->duration_ns > best->duration_ns)))
                best = e;
        }
    return best;
}

static void write_exemplars(const struct book *book, const struct group *const *older, size_t older_count,
                            const struct group *const *newer, size_t newer_count, struct text *to)
{
    const struct exemplar *normal = pick(older, older_count, false),
                          *typical = pick(newer, newer_count, false);
    const struct exemplar *slow = pick(newer, newer_count, true);
    uint64_t scale = 1;
    typical = typical ? typical : slow;
    if (normal)
        scale = MAX(scale, normal->duration_ns);
    if (typical)
        scale = MAX(scale, typical->duration_ns);
    text_add(to, "<h2>Requests side by side</h2><div class=pair><div><b>Older, typical</b>");
    if (normal)
        write_exemplar(book, normal, scale, "older", to);
    text_add(to, "</div><div><b>Newer, typical</b>");
    if (typical)
        write_exemplar(book, typical, scale, "newer", to);
    text_add(to, "</div></div>");
    if (slow) {
        text_add(to, "<details><summary>The slowest newer request</summary>");
        write_exemplar(book, slow, slow->duration_ns ? slow->duration_ns : 1, "newer", to);
        text_add(to, "</details>");
    }
}

static int write_verdict(const struct book *book, const struct verdict *v, struct text *to)
{
    const struct bucket *bucket = &book->buckets.at[v->bucket];
    const struct group *newer[GROUPS_ROOM], *older[GROUPS_ROOM];
    struct forest before = {0}, after = {0};
    size_t newer_count = judge_groups(book, bucket, v->service, &v->version, 1, newer, GROUPS_ROOM),
           older_count = 0;
    array_foreach (&bucket->groups, group)
        if (!book_has_version(book, group->combination, v->service, v->version) &&
            older_count < GROUPS_ROOM && book_has_version(book, group->combination, v->service, NAMES_NONE))
            older[older_count++] = group;
    int r = forest_init(&before, older, older_count);
    if (r == 0)
        r = forest_init(&after, newer, newer_count);
    if (r == 0) {
        write_numbers(v, to);
        write_distributions(v, to);
        write_changes(book, v, to);
        write_forest(book, v, &before, &after, to);
        write_exemplars(book, older, older_count, newer, newer_count, to);
    }
    forest_done(&before);
    forest_done(&after);
    return r;
}

int bundle_write(const struct diagnosis *diagnosis, const struct judgement *judgement,
                 const struct report *report, struct text *to)
{
    const struct book *book = diagnosis_book(diagnosis);
    size_t shown = 0;
    int r = 0;
    text_add(to, "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
                 "content='width=device-width'><title>sonde: evidence</title>");
    text_add(to, STYLE);
    array_foreach (&judgement->verdicts, v) {
        if (r < 0 || !v->result.slower)
            continue;
        struct report one = {0};
        struct finding *finding = NULL;
        r = diagnosis_add_finding(book, v, v->sequential.e_value, &one, &finding);
        if (r == 0) {
            text_add(to, "<h1>");
            escape(to, finding->title);
            text_add(to, "</h1><p>");
            escape(to, finding->detail);
            text_add(to, "</p><p>");
            escape(to, finding->remedy);
            text_add(to, "</p>");
            r = write_verdict(book, v, to);
        }
        shown++;
        report_done(&one);
    }
    if (!shown) {
        text_add(to, "<h1>Nothing got slower</h1><p>");
        escape(to, report->nothing ? report->nothing : "");
        text_add(to, "</p>");
    }
    json_t *json = report_json(report);
    char *dump = json ? json_dumps(json, JSON_INDENT(1)) : NULL;
    if (dump) {
        text_add(to, "<details><summary>The report as JSON</summary><pre id=report>");
        escape(to, dump);
        text_add(to, "</pre></details>");
    }
    free(dump);
    json_decref(json);
    text_add(to, "</html>\n");
    return r < 0 ? r : to->failed ? -ENOMEM : 0;
}
