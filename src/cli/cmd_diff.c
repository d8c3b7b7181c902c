/* sonde diff: two profiles compared: which functions cost more, which less; two traces: trace_diff.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/schema.h"
#include "cli/options.h"
#include "cli/store_report.h"
#include "cli/trace_diff.h"
#include "diagnose/profile_difference.h"
#include "profile/formats.h"
#include "profile/outlier.h"
#include "profile/windows.h"
#include "steer/keeping.h"

static const enum cli_style VERDICT_STYLES[] = {[DIFFERENCE_NOISE] = STYLE_DIM,
                                                [DIFFERENCE_SLOWER] = STYLE_RED,
                                                [DIFFERENCE_FASTER] = STYLE_GREEN,
                                                [DIFFERENCE_UNKNOWN] = STYLE_DIM,
                                                [DIFFERENCE_MACHINE] = STYLE_DIM};

static double percent(double ratio)
{
    return 100 * (ratio - 1);
}

/* "+21 % [+17, +25]" */
static const char *change_text(const struct difference *d, char *buffer, size_t size)
{
    if (d->verdict == DIFFERENCE_UNKNOWN)
        snprintf(buffer, size, "-");
    else if (isinf(d->high))
        snprintf(buffer, size, "new [%+.0f, ...]", percent(d->low));
    else if (d->after == 0)
        snprintf(buffer, size, "gone [..., %+.0f]", percent(d->high));
    else
        snprintf(buffer, size, "%+.1f%% [%+.1f, %+.1f]", percent(d->ratio), percent(d->low),
                 percent(d->high));
    return buffer;
}

static void print_row(const struct function_difference *f)
{
    char change[48];
    enum cli_style style = VERDICT_STYLES[f->self.verdict];
    cli_printf(stdout, "%s%-15s%s %8.2f%% %8.2f%%  %-24s %8.2f%% %8.2f%%  %s", cli_style(1, style),
               difference_verdict_name(f->self.verdict), cli_style(1, STYLE_NONE), 100 * f->self.before,
               100 * f->self.after, change_text(&f->self, change, sizeof(change)), 100 * f->total.before,
               100 * f->total.after, f->name);
    if (*f->place)
        cli_printf(stdout, "  %s%s%s", cli_style(1, STYLE_DIM), f->place, cli_style(1, STYLE_NONE));
    putchar('\n');
}

static void print_table(const struct profile_differences *all, unsigned top)
{
    size_t slower = 0, faster = 0;
    array_foreach (&all->functions, f) {
        slower += f->self.verdict == DIFFERENCE_SLOWER;
        faster += f->self.verdict == DIFFERENCE_FASTER;
    }
    if (slower + faster)
        printf("%zu function%s slower and %zu faster than noise explains\n", slower, slower == 1 ? "" : "s",
               faster);
    else
        puts("nothing differs by more than noise explains");
    printf("changes are relative to %s; intervals of 95 %%, from %s\n",
           all->by_median ? "what most functions did" : "the sums of both", all->basis);
    if (all->by_median && all->error_scale < 1)
        printf("unchanged functions differ by %.0f %% of what that lets expect\n", 100 * all->error_scale);
    else if (all->by_median)
        printf("whole runs are taken to vary by %.1f %%, as most functions here do\n",
               100 * all->run_deviation);
    printf("\n%s%-15s %9s %9s  %-24s %9s %9s  function (its own share; then with what it calls)%s\n",
           cli_style(1, STYLE_BOLD), "verdict", "before", "after", "change of its own", "before", "after",
           cli_style(1, STYLE_NONE));
    array_foreach (&all->functions, f) {
        bool shown = f->self.verdict == DIFFERENCE_SLOWER || f->self.verdict == DIFFERENCE_FASTER ||
                     fabs(f->self.after - f->self.before) >= 0.0005;
        if (!top || !shown)
            break;
        print_row(f);
        top--;
    }
}

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *difference_json(const struct difference *d)
{
    bool known = d->verdict != DIFFERENCE_UNKNOWN;
    return json_pack("{s:s, s:f, s:f, s:o, s:o, s:o, s:o}", "verdict", difference_verdict_name(d->verdict),
                     "before_share", d->before, "after_share", d->after, "change_percent",
                     known && isfinite(d->high) ? number_or_null(percent(d->ratio)) : json_null(),
                     "low_percent", known ? number_or_null(percent(d->low)) : json_null(), "high_percent",
                     known ? number_or_null(percent(d->high)) : json_null(), "p", number_or_null(d->p));
}

/* report: of a store, whose findings join the document; else NULL. nothing: why there is no comparison; NULL:
 * there is one. */
static void print_json(const struct profile_differences *all, const struct report *report,
                       const char *nothing, unsigned top)
{
    json_t *list = json_array();
    array_foreach (&all->functions, f) {
        if (!top--)
            break;
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:s, s:o, s:o}", "function", f->name,
                            "place", f->place, "change_share", f->self.after - f->self.before, "before_share",
                            f->self.before, "after_share", f->self.after, "total_before_share",
                            f->total.before, "total_after_share", f->total.after, "verdict",
                            difference_verdict_name(f->self.verdict), "self", difference_json(&f->self),
                            "total", difference_json(&f->total)));
    }
    json_t *root = json_pack("{s:i, s:s, s:f, s:s, s:f, s:f, s:f, s:f, s:o}", "schema", SCHEMA_profiles_diff,
                             "relative_to", all->by_median ? "most functions" : "the sums", "scale",
                             all->scale, "errors_from", all->basis, "run_deviation_percent",
                             100 * all->run_deviation, "error_scale", all->error_scale, "before_samples",
                             all->before_samples, "after_samples", all->after_samples, "functions", list);
    if (nothing)
        json_object_set_new(root, "no_comparison", json_string(nothing));
    if (report)
        store_report_add_json(report, root);
    cli_print_json(root, JSON_INDENT(2));
}

static int write_page(const struct profile *after, const struct profile *before, const char *path,
                      const char *title)
{
    struct text text = {0};
    struct problem problem;
    int r = page_write(after, before, title, &text);
    if (r == 0)
        r = file_replace(path, text_get(&text), text.length);
    text_done(&text);
    if (r < 0) {
        problem_set(&problem, r, "%s: %s", path, strerror(-r));
        return cli_fail(EXIT_FAILED, &problem);
    }
    return EXIT_DONE;
}

/* The flame graph of both; processes have other numbers each time. */
static int write_difference(const struct profile *before, const struct profile *after, const char *output,
                            const char *title)
{
    _cleanup_(profile_freep) struct profile *b = NULL;
    _cleanup_(profile_freep) struct profile *a = NULL;
    if (profile_by_service(before, &b) < 0 || profile_by_service(after, &a) < 0)
        return cli_fail(EXIT_FAILED, &(struct problem){.what = "out of memory"});
    return write_page(a, b, output, title);
}

/* What the command line says. */
struct diff_options {
    const char *output, *since, *until;
    bool json;
    uint32_t top;
    struct report findings; /* of a store */
};

#define AT(member) offsetof(struct diff_options, member)

static const struct option_row ROWS[] = {
    {"output", 'o', "FILE", "profiles: write a flame graph of the difference (red grew, blue shrank)",
     OPTION_TEXT, .at = AT(output)},
    {"json", .text = "print one JSON document", .type = OPTION_FLAG, .at = AT(json)},
    {"since", .value = "WHEN",
     .text = "with a store of profiles: compare the time since then with as long a time before it (2h, 3d, "
             "yesterday, 2026-11-30, 2026-11-30T14:00)",
     .type = OPTION_TEXT, .at = AT(since)},
    {"until", .value = "WHEN", .text = "the end of the later period (now)", .type = OPTION_TEXT,
     .at = AT(until)},
    {"top", 'n', "N", "how many functions, parts or operations to list (30)", OPTION_COUNT, .least = 1,
     .most = 1e9, .at = AT(top)},
    {NULL},
};

static const struct option_group OPTIONS[] = {{ROWS, 0}, {NULL, 0}};

static bool has_samples(const struct profile *p)
{
    array_foreach (&p->nodes, n)
        if (n->weight)
            return true;
    return false;
}

/* Where one side has no samples, everything on the other would be new or gone. Says in words why the two
 * cannot be compared; true: they can. */
static bool can_be_compared(const struct profile *before, const struct profile *after,
                            const struct diff_options *options, const char *before_name,
                            const char *after_name, char *words, size_t size)
{
    bool b = has_samples(before), a = has_samples(after);
    if (!b && !a)
        snprintf(words, size, "there is nothing to compare: neither %s nor %s has any samples", before_name,
                 after_name);
    else if (!b || !a)
        snprintf(words, size, "there is nothing to compare %s with: %s has no samples%s",
                 b ? before_name : after_name, b ? after_name : before_name,
                 options->since && a ? " (a later --since leaves samples before it)" : "");
    return a && b;
}

static int compare_profiles(const struct profile *before, const struct profile *after,
                            const struct diff_options *options, const char *before_name,
                            const char *after_name)
{
    struct profile_differences differences = {0};
    char words[1024];
    bool comparable = can_be_compared(before, after, options, before_name, after_name, words, sizeof(words));
    if (options->output && !comparable) {
        fprintf(stderr, "sonde: %s; %s was not written\n", words, options->output);
        return EXIT_EMPTY;
    }
    if (options->output) {
        char title[256];
        snprintf(title, sizeof(title), "%.100s against %.100s", after_name, before_name);
        return write_difference(before, after, options->output, title);
    }
    if (profile_differences(before, after, &differences) < 0)
        return cli_fail(EXIT_FAILED, &(struct problem){.what = "out of memory"});
    if (options->json)
        print_json(&differences, options->since ? &options->findings : NULL, comparable ? NULL : words,
                   comparable ? options->top : 0);
    else if (comparable)
        print_table(&differences, options->top);
    else
        cli_printf(stdout, "%s\n", words);
    profile_differences_done(&differences);
    return comparable || options->findings.findings.count ? EXIT_DONE : EXIT_EMPTY;
}

/* ---- stores ---- */

/* "2h", "90m", "3d" ago; yesterday, a day ago; a date with or without a time of this machine's clock. False:
 * none. */
static bool read_when(const char *text, time_t now, time_t *ret_when)
{
    static const struct {
        char unit;
        long seconds;
    } UNITS[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 7 * 86400}};
    static const char *const FORMS[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"};
    char *end;
    if (strcmp(text, "yesterday") == 0) {
        *ret_when = now - 86400;
        return true;
    }
    double count = strtod(text, &end);
    for (size_t i = 0; end > text && count > 0 && count < 1e6 && i < ARRAY_SIZE(UNITS); i++)
        if (*end == UNITS[i].unit && !end[1]) {
            *ret_when = now - (time_t)(count * (double)UNITS[i].seconds);
            return true;
        }
    for (size_t i = 0; i < ARRAY_SIZE(FORMS); i++) {
        struct tm tm = {.tm_isdst = -1};
        const char *rest = strptime(text, FORMS[i], &tm);
        if (rest && !*rest) {
            *ret_when = mktime(&tm);
            return *ret_when > 0;
        }
    }
    return false;
}

static int read_stretch(const char *path, time_t from, time_t until, const char *name, bool quiet,
                        struct profile **ret_profile, struct problem *problem)
{
    struct store_sum sum;
    char start[64], took[32], gap[32];
    struct tm tm;
    if (profile_new(ret_profile) < 0 || profile_windows_begin(*ret_profile) < 0)
        return problem_set(problem, -ENOMEM, "out of memory");
    int r = store_sum(path, (uint64_t)from, (uint64_t)until, *ret_profile, &sum, problem);
    if (r < 0 || quiet)
        return r;
    time_t first = (time_t)sum.start_s;
    if (!sum.windows) {
        printf("%s: nothing was sampled\n", name);
        return 0;
    }
    strftime(start, sizeof(start), "%Y-%m-%d %H:%M:%S", localtime_r(&first, &tm));
    printf("%s: %s of samples from %s on", name,
           clock_format_duration(sum.covered_s * NS_PER_S, took, sizeof(took)), start);
    if (sum.gap_s)
        printf("; %s until its end were not sampled",
               clock_format_duration(sum.gap_s * NS_PER_S, gap, sizeof(gap)));
    if (sum.damaged)
        printf("; %zu windows could not be read", sum.damaged);
    putchar('\n');
    return 0;
}

/* The time since then, and as long a time before; ret_when: in words. Findings go into the options, and are
 * printed unless the whole is one document. */
static int read_store(const struct command *self, struct diff_options *o, const char *path,
                      struct profile **ret_before, struct profile **ret_after, char *ret_when, size_t size)
{
    struct tm tm;
    time_t now = time(NULL), since, until = now;
    struct problem problem = {0};
    bool judged;
    if (!read_when(o->since, now, &since))
        return cli_usage(self, "--since takes 2h, 3d, yesterday, 2026-11-30 or 2026-11-30T14:00, not '%s'",
                         o->since);
    if (o->until && !read_when(o->until, now, &until))
        return cli_usage(self, "--until takes what --since takes, not '%s'", o->until);
    if (since >= until)
        return cli_usage(self, "--since %s is not before %s", o->since, o->until ? o->until : "now");
    strftime(ret_when, size, "%Y-%m-%d %H:%M:%S", localtime_r(&since, &tm));
    if (read_stretch(path, since - (until - since), since, "before", o->json, ret_before, &problem) < 0 ||
        read_stretch(path, since, until, "after", o->json, ret_after, &problem) < 0)
        return cli_fail(EXIT_FAILED, &problem);
    if (store_report_judge(path, (uint64_t)since, (uint64_t)until, &o->findings, &judged, &problem) < 0)
        return cli_fail(EXIT_FAILED, &problem);
    if (!o->json && !o->output) {
        putchar('\n');
        store_report_print(&o->findings);
        putchar('\n');
    }
    return 0;
}

static int run_diff(const struct command *self, int argc, char **argv)
{
    struct diff_options options = {.top = 30};
    int first, status = options_parse(self, argc, argv, &options, &first);
    if (status >= 0)
        return status;
    const char *output = options.output;
    bool json = options.json;
    uint32_t top = options.top;
    _cleanup_(profile_freep) struct profile *before = NULL;
    _cleanup_(profile_freep) struct profile *after = NULL;
    if (options.since) {
        if (argc - first != 1)
            return cli_usage(self, "--since compares two times of one store: name its directory");
        char when[64], time_before[96], time_since[96];
        status = read_store(self, &options, argv[first], &before, &after, when, sizeof(when));
        snprintf(time_before, sizeof(time_before), "the time before %s", when);
        snprintf(time_since, sizeof(time_since), "the time since %s", when);
        if (!status)
            status = compare_profiles(before, after, &options, time_before, time_since);
        report_done(&options.findings);
        return status;
    }
    if (options.until)
        return cli_usage(self, "--until goes with --since");
    if (argc - first != 2)
        return cli_usage(self, "two profiles or two traces are compared: BEFORE and AFTER");
    bool traces = trace_diff_is_trace(argv[first]);
    if (traces != trace_diff_is_trace(argv[first + 1]))
        return cli_usage(self, "%s is a trace and %s is not", argv[first + !traces], argv[first + traces]);
    if (traces && output)
        return cli_usage(self, "--output is for profiles; traces are compared in words or with --json");
    if (traces)
        return trace_diff(argv[first], argv[first + 1], json, top);
    struct problem problem = {0};
    if (profile_read_file(argv[first], &before, &problem) < 0 ||
        profile_read_file(argv[first + 1], &after, &problem) < 0)
        return cli_fail(EXIT_FAILED, &problem);
    return compare_profiles(before, after, &options, argv[first], argv[first + 1]);
}

const struct command command_diff = {
    .name = "diff",
    .arguments = "[OPTION...] BEFORE AFTER | --since WHEN STORE",
    .summary = "Compare two traces of a service, or two profiles: what became slower, what faster",
    .help =
        "Two directories with traces: for each endpoint what its latency consists of (layers, operations,\n"
        "waits), how long each kind of operation took, and which findings are new or gone; what differs by\n"
        "no more than each trace varies in itself is reported as within noise.\n"
        "Two profiles (pprof, folded): which functions became slower or faster, by how much, with an "
        "interval of "
        "95 %,\n"
        "and what is noise. Functions are the same by their names and their modules' names without path and "
        "version.\n",
    .options = OPTIONS,
    .examples = "  sonde diff /tmp/monday /tmp/tuesday\n"
                "  sonde diff before.pb.gz after.pb.gz\n"
                "  sonde diff --since yesterday /var/lib/sonde/profiles\n"
                "  sonde diff -o diff.html monday.folded tuesday.folded\n",
    .run = run_diff,
};
