/* See bundle.h. Plain HTML with inline SVG, no script: it opens anywhere and can be attached to a ticket. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/bundle.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/macro.h"
#include "diagnose/bundle_plot.h"

#define GROUPS_ROOM     256
#define FOREST_ROWS     400
#define BUCKETS_ROWS    60
#define CHANGE_SHOWN    0.005 /* of the growth; smaller changes are only counted */
#define CONCURRENT_FROM 1.05

static const char STYLE[] =
    "<style>:root{color-scheme:light dark;--text:#1d2330;--dim:#5a6372;--back:#fff;--line:#d9dde4;"
    "--band:#f4f6f9;--a:#1f66c1;--b:#c4302b}"
    "@media(prefers-color-scheme:dark){:root{--text:#e4e7ec;--dim:#a0a8b5;--back:#15181e;--line:#343a45;"
    "--band:#1e232b;--a:#7ab4ff;--b:#ff8b84}}"
    "body{font:14px/1.5 system-ui,sans-serif;color:var(--text);background:var(--back);max-width:1100px;"
    "margin:2em auto;padding:0 1em}"
    "h1{font-size:1.35em;line-height:1.3;margin:1.6em 0 .4em}h2{font-size:1.05em;margin:2.2em 0 .5em}"
    "table{border-collapse:collapse;width:100%}td,th{padding:.2em .7em .2em 0;text-align:left;"
    "border-bottom:1px solid var(--line);vertical-align:top}th{color:var(--dim);font-weight:500}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    ".older{color:var(--a)}.newer{color:var(--b)}.note{color:var(--dim);margin:.2em 0 .6em}"
    "th.g{text-align:center}.wide{overflow-x:auto}.pair{display:grid;grid-template-columns:1fr 1fr;gap:1.5em "
    "2em}"
    "@media(max-width:760px){.pair{grid-template-columns:1fr}}"
    "figure{margin:0}figcaption{color:var(--dim)}svg{width:100%;height:auto;display:block}"
    "svg text{font:11px system-ui,sans-serif;fill:var(--dim);text-anchor:middle}svg "
    "text.left{text-anchor:end}"
    ".grid{stroke:var(--line)}.axis{stroke:var(--dim)}.mark{stroke:currentColor;stroke-dasharray:3 3}"
    ".curve{stroke:currentColor;stroke-width:1.5;fill:currentColor;fill-opacity:.16}"
    ".line{stroke:currentColor;stroke-width:1.8;fill:none}.interval{width:200px}"
    ".key::before{content:'';display:inline-block;width:.8em;height:.8em;margin-right:.4em;"
    "background:currentColor;border-radius:2px}"
    "tr.path td{background:var(--band)}tr.path td:first-child{font-weight:600}"
    ".tag{font-size:.8em;font-weight:600;color:var(--back);background:var(--b);border-radius:3px;padding:0 "
    ".4em;white-space:nowrap}"
    ".bars{width:130px;min-width:90px}.bars i,.lane i{display:block;background:currentColor;height:6px;"
    "border-radius:1px;min-width:1px}.bars i+i{margin-top:2px}.bars{padding-top:.55em}"
    ".request td{border:0;padding:.1em .6em .1em 0;color:var(--text)}.request .lane{width:55%;color:inherit}"
    ".lane i{height:12px;margin-top:.3em;opacity:.3}tr.on .lane i{opacity:1}tr.on td{font-weight:500}"
    "table.older .lane{color:var(--a)}table.newer .lane{color:var(--b)}"
    "pre{overflow:auto;max-height:30em;background:var(--band);padding:.8em}summary{cursor:pointer}"
    "ol.list{padding-left:1.4em}a{color:inherit}hr{border:0;border-top:2px solid var(--line);margin:3em 0 "
    "0}</style>";

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
    text_addf(to, "<tr><td>%s<td class=n>", name);
    plot_escape(to, value);
    text_add(to, "</tr>");
}

static void row_of_time(struct text *to, const char *name, uint64_t at_ns)
{
    time_t seconds = (time_t)(at_ns / NS_PER_S);
    struct tm parts;
    char value[64];
    if (!at_ns || !gmtime_r(&seconds, &parts))
        return;
    strftime(value, sizeof(value), "%Y-%m-%d %H:%M:%S UTC", &parts);
    row(to, name, "%s", value);
}

static void write_numbers(const struct book *book, const struct verdict *v, struct text *to)
{
    const struct regress_result *r = &v->result;
    const double quantiles[] = {0.5, 0.9, 0.95, 0.99, 0.999};
    char a[24], b[24];
    text_add(to, "<h2>Numbers</h2><div class=pair><table>");
    row(to, "Measure", "%s", regress_measure_name(r->measure));
    row(to, "Ratio, newer / older", "%.3f (95 %% interval %.3f to %.3f)", r->ratio[r->measure],
        r->low[r->measure], r->high[r->measure]);
    row(to, "Test", "%s", regress_method_words(r->method));
    row(to, "p, and adjusted over all buckets", "%.3g, %.3g", r->p, r->adjusted_p);
    row(to, "e-value (valid at any look)", "%.3g", v->sequential.e_value);
    row(to, "Z against older requests", "%.2f", r->z);
    if (v->z_versions != 0)
        row(to, "Z against older versions", "%.2f", v->z_versions);
    else
        row(to, "Z against older versions", "needs two older versions");
    row(to, "Effect size", "%.2f", r->effect);
    row(to, "Compared over", "%s", v->concurrent ? "the same time" : "different times");
    if (fabs(v->mix_ratio - 1) >= 0.01)
        row(to, "Ratio that the mix of requests makes (taken out)", "%.2f", v->mix_ratio);
    if (v->errors.errors_newer + v->errors.errors_older > 0)
        row(to, "Errors, newer and older", "%.2f %% and %.2f %% (p = %.2g)", v->errors.rate_newer * 100,
            v->errors.rate_older * 100, v->errors.p);
    row_of_time(to, "First request of the newer side", v->first_ns);
    row_of_time(to, "Last request of the newer side", v->last_ns);
    text_add(to, "</table><table><tr><th><th class=n><span class='key older'>");
    plot_escape(to, v->base == NAMES_NONE ? "older" : names_get(book->names, v->base));
    text_add(to, "</span><th class=n><span class='key newer'>");
    plot_escape(to, names_get(book->names, v->version));
    text_add(to, "</span></tr>");
    text_addf(to, "<tr><td>Mean<td class=n>%s<td class=n>%s</tr>", duration(sketch_mean(&v->older), a),
              duration(sketch_mean(&v->newer), b));
    for (size_t i = 0; i < ARRAY_SIZE(quantiles); i++)
        text_addf(to, "<tr><td>p%g<td class=n>%s<td class=n>%s</tr>", quantiles[i] * 100,
                  duration(sketch_quantile(&v->older, quantiles[i]), a),
                  duration(sketch_quantile(&v->newer, quantiles[i]), b));
    text_addf(to,
              "<tr><td>Requests<td class=n>%llu<td class=n>%llu</tr><tr><td>Hosts<td class=n>%zu<td "
              "class=n>%zu</tr></table></div>",
              (unsigned long long)r->older_requests, (unsigned long long)r->newer_requests, r->older_hosts,
              r->newer_hosts);
}

static void write_distributions(const struct verdict *v, struct text *to)
{
    text_add(to, "<h2>Distribution of latency</h2><div class=pair>");
    plot_density(&v->older, &v->newer, to);
    plot_tail(&v->older, &v->newer, to);
    text_add(to, "</div><p class=note><span class='key older'>older</span> &nbsp; <span class='key "
                 "newer'>newer</span></p>");
}

static void write_changes(const struct book *book, const struct verdict *v, struct text *to)
{
    struct text words = {0};
    size_t small = 0;
    text_add(to, "<h2>What changed on the critical path</h2><table><tr><th>Change<th>Call path<th "
                 "class=n>Share of the growth</tr>");
    for (size_t i = 0; i < v->change_count; i++) {
        if (fabs(v->changes[i].share) < CHANGE_SHOWN) {
            small++;
            continue;
        }
        text_addf(to, "<tr><td>%s<td>", forest_change_name(v->changes[i].kind));
        forest_change_words(book, &v->changes[i], &words);
        plot_escape(to, text_get(&words));
        text_add(to, "<br><span class=note>");
        text_clear(&words);
        book_path_chain(book, v->changes[i].path, &words);
        plot_escape(to, text_get(&words));
        text_addf(to, "</span><td class=n>%.0f %%</tr>", v->changes[i].share * 100);
        text_clear(&words);
    }
    text_add(to, "</table>");
    if (small)
        text_addf(to, "<p class=note>%zu change%s of less than half a percent not shown.</p>", small,
                  small == 1 ? "" : "s");
    text_done(&words);
}

static void write_causes(const struct book *book, const struct verdict *v, struct text *to)
{
    struct text words = {0};
    text_add(to,
             "<h2>Which requests</h2><div class=wide><table><tr><th>Attributes<th class=n>Ratio within<th "
             "class=n>Elsewhere<th class=n>Share of the slow-down</tr>");
    for (size_t i = 0; i <= v->cause_count; i++) {
        const struct cause *c = i < v->cause_count ? &v->causes[i] : &v->rule;
        if (i == v->cause_count && !c->length)
            break;
        text_clear(&words);
        cause_words(book, c, &words);
        text_add(to, "<tr><td>");
        plot_escape(to, text_get(&words));
        text_addf(to, "%s<td class=n>%.2f<td class=n>",
                  i == v->cause_count ? " <span class=note>(simple rule: largest ratio)</span>" : "",
                  c->ratio);
        if (c->length)
            text_addf(to, "%.2f", c->ratio_outside);
        text_addf(to, "<td class=n>%.0f %%</tr>", c->coverage * 100);
    }
    text_add(to, "</table></div>");
    text_done(&words);
}

/* The same two versions in the other buckets: where it is not slower is evidence too. */
static void write_buckets(const struct book *book, const struct judgement *judgement,
                          const struct verdict *shown, struct text *to)
{
    struct text words = {0};
    double reach = 1.5;
    size_t rows = 0;
    array_foreach (&judgement->verdicts, v)
        if (v->service == shown->service && v->version == shown->version && v->result.method != METHOD_NONE)
            reach = fmax(reach, 1.1 * fmax(v->result.ratio[v->result.measure],
                                           1 / fmax(v->result.ratio[v->result.measure], 0.01)));
    text_add(to, "<h2>The same versions in all buckets</h2><div class=wide><table><tr><th>Bucket<th>Ratio "
                 "with its 95 % interval<th class=n><th>Verdict</tr>");
    array_foreach (&judgement->verdicts, v) {
        enum regress_measure m = v->result.measure;
        if (v->service != shown->service || v->version != shown->version || ++rows > BUCKETS_ROWS)
            continue;
        text_clear(&words);
        book_bucket_words(book, &book->buckets.at[v->bucket], &words);
        text_addf(to, "<tr%s><td>", v == shown ? " class=path" : "");
        plot_escape(to, text_get(&words));
        text_add(to, "<td>");
        if (v->result.method == METHOD_NONE) {
            text_add(to, "<td class=n><td class=note>too little data</tr>");
            continue;
        }
        plot_interval(v->result.ratio[m], v->result.low[m], v->result.high[m], reach, v->result.slower, to);
        text_addf(to, "<td class=n>%.2f (%.2f to %.2f)<td>%s</tr>", v->result.ratio[m], v->result.low[m],
                  v->result.high[m],
                  v->outcome == OUTCOME_SLOWER       ? "<b class=newer>slower</b>"
                  : v->outcome == OUTCOME_NOT_SLOWER ? "not slower"
                                                     : "cannot tell");
    }
    text_add(to, "</table></div>");
    if (rows > BUCKETS_ROWS)
        text_addf(to, "<p class=note>%zu more buckets are not shown.</p>", rows - BUCKETS_ROWS);
    text_done(&words);
}

/* ---- the forest ---- */

/* What the rows of the forest are written from. */
struct rows {
    const struct book *book;
    const struct verdict *verdict;
    const struct forest *before, *after;
    double critical_most_ns;
    uint32_t bottleneck; /* the path that grew most */
    unsigned count;
};

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

static double per_request(uint64_t ns, const struct forest *forest)
{
    return (double)ns / fmax((double)forest->requests, 1);
}

static double critical_of(const struct vertex *v, const struct forest *forest)
{
    return per_request(v->critical_ns + v->edge_critical_ns, forest);
}

static void concurrency(const struct vertex *v, struct text *to)
{
    double at_once = v->busy_ns ? (double)v->together_ns / (double)v->busy_ns : 1;
    if (at_once >= CONCURRENT_FROM)
        text_addf(to, "<td class=n>%.1f", at_once);
    else
        text_add(to, "<td class=n>1");
}

static const char *kind_words(uint8_t kind)
{
    static const char *const words[] = {"", "", "server", "client", "producer", "consumer"};
    return kind < ARRAY_SIZE(words) ? words[kind] : "";
}

static void forest_row(const struct rows *rows, uint32_t path, struct text *to)
{
    static const struct vertex none;
    const struct vertex *sides[] = {forest_vertex(rows->before, path), forest_vertex(rows->after, path)};
    const struct forest *forests[] = {rows->before, rows->after};
    struct text words = {0};
    char label[24];
    for (int s = 0; s < 2; s++)
        sides[s] = sides[s] ? sides[s] : &none;
    book_path_words(rows->book, path, &words);
    text_addf(to, "<tr%s><td style='padding-left:%.1fem'>", on_path(rows->verdict, path) ? " class=path" : "",
              depth_of(rows->book, path) * 0.9);
    plot_escape(to, text_get(&words));
    text_addf(to, " <span class=note>%s</span>%s", kind_words(rows->book->paths.at[path].kind),
              path == rows->bottleneck ? " <span class=tag>grew most</span>" : "");
    for (int s = 0; s < 2; s++)
        text_addf(to, "<td class=n>%.2f", (double)sides[s]->calls / fmax((double)forests[s]->requests, 1));
    for (int s = 0; s < 2; s++)
        text_addf(to, "<td class=n>%s", duration(sketch_quantile(&sides[s]->duration, 0.95), label));
    for (int s = 0; s < 2; s++)
        text_addf(to, "<td class=n>%s", duration(per_request(sides[s]->self_ns, forests[s]), label));
    for (int s = 0; s < 2; s++)
        concurrency(sides[s], to);
    for (int s = 0; s < 2; s++)
        text_addf(to, "<td class=n>%s", duration(critical_of(sides[s], forests[s]), label));
    text_add(to, "<td class=bars>");
    for (int s = 0; s < 2; s++)
        text_addf(to, "<i class=%s style='width:%.1f%%'></i>", s ? "newer" : "older",
                  critical_of(sides[s], forests[s]) / rows->critical_most_ns * 100);
    text_add(to, "</tr>");
    text_done(&words);
}

/* Depth first below a path; children in order of number. */
static void forest_rows(struct rows *rows, uint32_t path, struct text *to)
{
    if ((!forest_vertex(rows->before, path) && !forest_vertex(rows->after, path)) ||
        ++rows->count > FOREST_ROWS)
        return;
    forest_row(rows, path, to);
    for (uint32_t child = path + 1; child < rows->book->paths.count; child++)
        if (rows->book->paths.at[child].parent == path)
            forest_rows(rows, child, to);
}

static void write_forest(const struct book *book, const struct verdict *v, const struct forest *before,
                         const struct forest *after, struct text *to)
{
    struct rows rows = {book, v, before, after, 1, BOOK_NONE, 0};
    array_foreach (&before->vertices, vertex)
        rows.critical_most_ns = fmax(rows.critical_most_ns, critical_of(&vertex->sum, before));
    array_foreach (&after->vertices, vertex)
        rows.critical_most_ns = fmax(rows.critical_most_ns, critical_of(&vertex->sum, after));
    if (v->change_count && v->changes[0].share > 0)
        rows.bottleneck = v->changes[0].path;
    text_add(
        to, "<h2>Call-stack forest</h2><p class=note>The newer side's critical path is shaded. Own and "
            "critical time are per request, older and newer; critical time includes the way to the call "
            "(network, queues). At once: calls of the same kind that ran together.</p><div "
            "class=wide><table><tr><th>Call<th class=g colspan=2>Calls a request<th class=g colspan=2>p95 of "
            "a call<th class=g colspan=2>Own time<th class=g colspan=2>At once<th class=g colspan=2>Critical "
            "time<th></tr><tr><th>");
    for (int pair = 0; pair < 5; pair++)
        text_add(to, "<th class='n older'>older<th class='n newer'>newer");
    text_add(to, "<th></tr>");
    forest_rows(&rows, book->buckets.at[v->bucket].type, to);
    text_add(to, "</table></div>");
    if (rows.count > FOREST_ROWS)
        text_addf(to, "<p class=note>%u more calls are not shown.</p>", rows.count - FOREST_ROWS);
}

/* ---- exemplars ---- */

static const struct exemplar *pick_slowest(const struct group *const *groups, size_t count)
{
    const struct exemplar *best = NULL;
    for (size_t g = 0; g < count; g++)
        for (int i = 0; i < BOOK_EXEMPLARS; i++) {
            const struct exemplar *e = &groups[g]->slow[i];
            if (e->parts && (!best || e->duration_ns > best->duration_ns))
                best = e;
        }
    return best;
}

/* Of those that were near the median when they came, the nearest to what it is now. */
static const struct exemplar *pick_typical(const struct group *const *groups, size_t count, double median_ns)
{
    const struct exemplar *best = NULL;
    for (size_t g = 0; g < count; g++)
        for (int i = 0; i < BOOK_EXEMPLARS; i++) {
            const struct exemplar *e = &groups[g]->normal[i];
            if (e->parts && (!best || fabs((double)e->duration_ns - median_ns) <
                                          fabs((double)best->duration_ns - median_ns)))
                best = e;
        }
    return best;
}

static void write_pair(const struct book *book, const struct exemplar *older, const struct exemplar *newer,
                       const char *which, struct text *to)
{
    uint64_t scale = MAX(older ? older->duration_ns : 1, newer ? newer->duration_ns : 1);
    text_addf(to, "<div class=pair><div><b><span class='key older'>Older</span>, %s</b>", which);
    if (older)
        plot_request(book, older, scale, "older", to);
    text_addf(to, "</div><div><b><span class='key newer'>Newer</span>, %s</b>", which);
    if (newer)
        plot_request(book, newer, scale, "newer", to);
    text_add(to, "</div></div>");
}

static void write_exemplars(const struct book *book, const struct verdict *v,
                            const struct group *const *older, size_t older_count,
                            const struct group *const *newer, size_t newer_count, struct text *to)
{
    text_add(to, "<h2>Requests side by side</h2><p class=note>On one scale of time; what the request waited "
                 "for (its critical path) is solid.</p>");
    write_pair(book, pick_typical(older, older_count, sketch_quantile(&v->older, 0.5)),
               pick_typical(newer, newer_count, sketch_quantile(&v->newer, 0.5)), "typical", to);
    text_add(to, "<p></p>");
    write_pair(book, pick_slowest(older, older_count), pick_slowest(newer, newer_count), "slowest", to);
}

static int write_verdict(const struct book *book, const struct judgement *judgement, const struct verdict *v,
                         struct text *to)
{
    const struct group *newer[GROUPS_ROOM], *older[GROUPS_ROOM];
    struct forest before = {0}, after = {0};
    size_t newer_count = judge_newer_groups(book, v, newer, GROUPS_ROOM);
    size_t older_count = judge_older_groups(book, v, older, GROUPS_ROOM);
    int r = judge_forests(book, v, &before, &after);
    if (r == 0) {
        write_numbers(book, v, to);
        write_distributions(v, to);
        write_changes(book, v, to);
        write_forest(book, v, &before, &after, to);
        write_exemplars(book, v, older, older_count, newer, newer_count, to);
        write_causes(book, v, to);
        write_buckets(book, judgement, v, to);
    }
    forest_done(&before);
    forest_done(&after);
    return r;
}

static int write_finding(const struct book *book, const struct judgement *judgement, const struct verdict *v,
                         size_t number, struct text *to)
{
    struct report one = {0};
    struct finding *finding = NULL;
    int r = diagnosis_add_finding(book, v, v->sequential.e_value, &one, &finding);
    if (r == 0) {
        text_addf(to, "%s<h1 id=finding-%zu>", number > 1 ? "<hr>" : "", number);
        plot_escape(to, finding->title);
        text_add(to, "</h1><p>");
        plot_escape(to, finding->detail);
        text_add(to, "</p><p><b>What to do:</b> ");
        plot_escape(to, finding->remedy);
        text_add(to, "</p>");
        r = write_verdict(book, judgement, v, to);
    }
    report_done(&one);
    return r;
}

/* Several findings begin with a list of them. */
static int write_list(const struct book *book, const struct judgement *judgement, struct text *to)
{
    size_t number = 0;
    int r = 0;
    text_addf(to, "<p><b>%zu comparisons are slower:</b></p><ol class=list>", judgement->slower);
    array_foreach (&judgement->verdicts, v) {
        struct report one = {0};
        struct finding *finding = NULL;
        if (r < 0 || v->outcome != OUTCOME_SLOWER || v->follows != NAMES_NONE)
            continue;
        r = diagnosis_add_finding(book, v, v->sequential.e_value, &one, &finding);
        if (r == 0) {
            text_addf(to, "<li><a href='#finding-%zu'>", ++number);
            plot_escape(to, finding->title);
            text_add(to, "</a>");
        }
        report_done(&one);
    }
    text_add(to, "</ol>");
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
    if (judgement->slower > 1)
        r = write_list(book, judgement, to);
    array_foreach (&judgement->verdicts, v)
        if (r == 0 && v->outcome == OUTCOME_SLOWER && v->follows == NAMES_NONE)
            r = write_finding(book, judgement, v, ++shown, to);
    if (!shown) {
        text_addf(to, "<h1>%s</h1><p>",
                  judgement->outcome == OUTCOME_NOT_SLOWER ? "Nothing got slower" : "No verdict");
        plot_escape(to, report->nothing ? report->nothing : "");
        text_add(to, "</p>");
    }
    json_t *json = report_json(report);
    char *dump = json ? json_dumps(json, JSON_INDENT(1)) : NULL;
    if (dump) {
        text_add(to, "<h2>The report as JSON</h2><details><summary>Show</summary><pre id=report>");
        plot_escape(to, dump);
        text_add(to, "</pre></details>");
    }
    free(dump);
    json_decref(json);
    text_add(to, "</html>\n");
    return r < 0 ? r : to->failed ? -ENOMEM : 0;
}
