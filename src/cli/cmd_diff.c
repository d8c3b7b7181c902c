/* sonde diff: two profiles compared: which functions cost more, which less; two traces: trace_diff.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/trace_diff.h"
#include "profile/formats.h"
#include "profile/outlier.h"

/* A function's share of both profiles. */
struct change {
    char *name, *place;
    double before, after;             /* shares of the whole, self */
    double total_before, total_after; /* with what it calls */
};

struct changes {
    ARRAY(struct change) list;
    struct map index;
    const char *unit;
};

static int add_side(struct changes *changes, const struct profile *p, bool is_after)
{
    size_t count;
    uint64_t *totals = profile_totals(p);
    struct profile_function *functions = profile_functions(p, &count);
    double all = totals && totals[0] ? (double)totals[0] : 1;
    int r = totals && functions ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct profile_frame *f = &p->frames.at[functions[i].frame];
        if (f->kind == FRAME_GROUP)
            continue;
        const char *name = profile_text(p, f->name), *place = profile_text(p, f->file ? f->file : f->module);
        uint64_t identity[2] = {map_hash(name, strlen(name)), map_hash(place, strlen(place))};
        bool added;
        uint64_t *at = map_put(&changes->index, map_hash(identity, sizeof(identity)), &added);
        struct change fresh = {0};
        if (!at || (added && array_add(&changes->list, fresh) < 0)) {
            r = -ENOMEM;
            break;
        }
        if (added) {
            *at = changes->list.count - 1;
            changes->list.at[*at].name = strdup(name);
            changes->list.at[*at].place = strdup(place);
        }
        struct change *c = &changes->list.at[*at];
        *(is_after ? &c->after : &c->before) += (double)functions[i].self / all;
        *(is_after ? &c->total_after : &c->total_before) += (double)functions[i].total / all;
    }
    free(totals);
    free(functions);
    return r;
}

static int by_change(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    double dx = fabs(x->after - x->before), dy = fabs(y->after - y->before);
    return dx > dy ? -1 : dx < dy;
}

static void print_table(const struct changes *changes, unsigned top)
{
    bool any = changes->list.count && fabs(changes->list.at[0].after - changes->list.at[0].before) >= 0.0005;
    if (!any)
        puts(changes->list.count ? "no function's share differs by 0.05 % or more"
                                 : "neither has any stacks");
    else
        printf("%s%9s %9s %9s  %9s %9s  function (its own share; then with what it calls)%s\n",
               cli_style(1, STYLE_BOLD), "change", "before", "after", "before", "after",
               cli_style(1, STYLE_NONE));
    array_foreach (&changes->list, c) {
        double change = c->after - c->before;
        if (!top || fabs(change) < 0.0005)
            break;
        cli_printf(stdout, "%s%+8.2f%%%s %8.2f%% %8.2f%%  %8.2f%% %8.2f%%  %s",
                   cli_style(1, change > 0 ? STYLE_RED : STYLE_GREEN), 100 * change, cli_style(1, STYLE_NONE),
                   100 * c->before, 100 * c->after, 100 * c->total_before, 100 * c->total_after, c->name);
        if (*c->place)
            cli_printf(stdout, "  %s%s%s", cli_style(1, STYLE_DIM), c->place, cli_style(1, STYLE_NONE));
        putchar('\n');
        top--;
    }
}

static void print_json(const struct changes *changes, unsigned top)
{
    json_t *list = json_array();
    array_foreach (&changes->list, c) {
        if (!top--)
            break;
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f}", "function", c->name, "place",
                                        c->place, "change_share", c->after - c->before, "before_share",
                                        c->before, "after_share", c->after, "total_before_share",
                                        c->total_before, "total_after_share", c->total_after));
    }
    json_t *root = json_pack("{s:o}", "functions", list);
    json_dumpf(root, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(root);
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

/* Processes have other numbers each time. */
static int read_side(const char *path, struct profile **ret_profile, struct problem *problem)
{
    _cleanup_(profile_freep) struct profile *all = NULL;
    int r = profile_read_file(path, &all, problem);
    if (r < 0)
        return r;
    r = profile_by_service(all, ret_profile);
    return r < 0 ? problem_set(problem, r, "out of memory") : 0;
}

static int run_diff(const struct command *self, int argc, char **argv)
{
    static const struct option LONG[] = {{"output", required_argument, NULL, 'o'},
                                         {"json", no_argument, NULL, 'j'},
                                         {"top", required_argument, NULL, 'n'},
                                         {0}};
    const char *output = NULL;
    bool json = false;
    unsigned top = 30;
    for (int c; (c = getopt_long(argc, argv, "o:n:", LONG, NULL)) != -1;) {
        if (c == 'o')
            output = optarg;
        else if (c == 'j')
            json = true;
        else if (c == 'n')
            top = (unsigned)strtoul(optarg, NULL, 10);
        else
            return cli_usage(self, "unknown option");
    }
    if (argc - optind != 2)
        return cli_usage(self, "two profiles or two traces are compared: BEFORE and AFTER");
    bool traces = trace_diff_is_trace(argv[optind]);
    if (traces != trace_diff_is_trace(argv[optind + 1]))
        return cli_usage(self, "%s is a trace and %s is not", argv[optind + !traces], argv[optind + traces]);
    if (traces && output)
        return cli_usage(self, "--output is for profiles; traces are compared in words or with --json");
    if (traces)
        return trace_diff(argv[optind], argv[optind + 1], json, top);
    _cleanup_(profile_freep) struct profile *before = NULL;
    _cleanup_(profile_freep) struct profile *after = NULL;
    struct problem problem = {0};
    if (read_side(argv[optind], &before, &problem) < 0 || read_side(argv[optind + 1], &after, &problem) < 0)
        return cli_fail(EXIT_FAILED, &problem);
    if (output) {
        char title[256];
        snprintf(title, sizeof(title), "%.100s against %.100s", argv[optind + 1], argv[optind]);
        return write_page(after, before, output, title);
    }
    struct changes changes = {0};
    int r = add_side(&changes, before, false);
    if (r == 0)
        r = add_side(&changes, after, true);
    if (r == 0 && changes.list.count)
        qsort(changes.list.at, changes.list.count, sizeof(*changes.list.at), by_change);
    if (r == 0 && json)
        print_json(&changes, top);
    else if (r == 0)
        print_table(&changes, top);
    array_foreach (&changes.list, c) {
        free(c->name);
        free(c->place);
    }
    array_done(&changes.list);
    map_done(&changes.index);
    return r == 0 ? EXIT_DONE : cli_fail(EXIT_FAILED, &(struct problem){.what = "out of memory"});
}

const struct command command_diff = {
    "diff",
    "[-o FILE.html] [--json] BEFORE AFTER",
    "Compare two traces of a service, or two profiles: what became slower, what faster",
    "Two trace folders: for each endpoint what its latency consists of (layers, operations, waits), how "
    "long\n"
    "each kind of operation took, and which findings are new or gone; what differs by no more than the "
    "traces\n"
    "vary in themselves is said to be within noise.\n"
    "Two profiles (pprof, folded): functions by their share of the whole, so that lengths may differ.\n\n"
    "Options:\n"
    "  -o, --output FILE  profiles: a flame graph of the difference: red grew, blue shrank\n"
    "      --json         one JSON document\n"
    "  -n, --top N        how many functions, parts or operations to list (30)\n\n"
    "Examples:\n"
    "  sonde diff /tmp/monday /tmp/tuesday\n"
    "  sonde diff before.pb.gz after.pb.gz\n"
    "  sonde diff -o diff.html monday.folded tuesday.folded\n",
    run_diff,
};
