/* See store_report.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/store_report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/reading.h"
#include "steer/keeping.h"
#include "steer/regressed.h"

static bool has_folder(const char *path, const char *name)
{
    char folder[4096];
    struct stat st;
    snprintf(folder, sizeof(folder), "%s/%s", path, name);
    return stat(folder, &st) == 0 && S_ISDIR(st.st_mode);
}

bool store_report_is_store(const char *path)
{
    return has_folder(path, "windows") && !has_folder(path, "ctf");
}

int store_report_judge(const char *path, uint64_t since_s, uint64_t until_s, struct report *report,
                       bool *ret_judged, struct problem *problem)
{
    struct regressed judged;
    struct regressed_options o = {
        .from_s = since_s, .until_s = until_s, .level = REGRESSED_LEVEL, .least = REGRESSED_LEAST};
    int r = regressed_find(path, &o, &judged, problem);
    if (r < 0)
        return r;
    r = regressed_report(&judged, report);
    *ret_judged = judged.services > 0;
    regressed_done(&judged);
    return r < 0 ? problem_set(problem, r, "out of memory") : 0;
}

void store_report_print(const struct report *report)
{
    struct text out = {0};
    prose_findings(&out, report, reading_style(1), reading_width(1));
    prose_limits(&out, report, reading_style(1), reading_width(1));
    cli_put(stdout, text_get(&out));
    text_done(&out);
}

void store_report_add_json(const struct report *report, json_t *document)
{
    json_t *findings = json_array();
    array_foreach (&report->findings, f)
        json_array_append_new(findings, finding_json(*f));
    json_object_set_new(document, "findings", findings);
    if (report->nothing && !report->findings.count)
        json_object_set_new(document, "nothing", json_string(report->nothing));
}

/* When the store's last window ends: what is judged then is not yet older than the store. 0: it is empty. */
static int last_second(const char *path, uint64_t *ret_last_s, struct problem *problem)
{
    struct store_window *list;
    size_t count;
    int r = store_list(path, &list, &count, problem);
    if (r < 0)
        return r;
    *ret_last_s = count ? list[count - 1].start_s + list[count - 1].length_s : 0;
    free(list);
    return 0;
}

static bool same_function(const struct finding *a, const struct finding *b)
{
    const char *x = a->where.file ? a->where.file : "", *y = b->where.file ? b->where.file : "";
    return strcmp(a->where.service, b->where.service) == 0 &&
           strcmp(a->where.function, b->where.function) == 0 && strcmp(x, y) == 0;
}

/* What both stretches show is reported once: for the longer one, whose intervals are narrower. */
static void drop_repeated(struct report *report, size_t first_count)
{
    size_t kept = first_count;
    for (size_t i = first_count; i < report->findings.count; i++) {
        bool known = false;
        for (size_t k = 0; k < first_count; k++)
            known |= same_function(report->findings.at[i], report->findings.at[k]);
        if (!known)
            report->findings.at[kept++] = report->findings.at[i];
    }
    report->findings.count = kept;
}

int store_report(const char *path, bool json, const char *gate)
{
    struct problem problem = {0};
    struct report report = {0};
    uint64_t last_s = 0;
    bool judged_day = false, judged_hours = false;
    int status = EXIT_DONE, r = last_second(path, &last_s, &problem);
    if (r == 0)
        r = store_report_judge(path, last_s - MIN(last_s, 86400ull), last_s, &report, &judged_day, &problem);
    size_t of_day = report.findings.count;
    const char *nothing_of_day = report.nothing;
    if (r == 0)
        r = store_report_judge(path, last_s - MIN(last_s, 21600ull), last_s, &report, &judged_hours,
                               &problem);
    drop_repeated(&report, of_day);
    if (judged_day && !judged_hours)
        report.nothing = nothing_of_day;
    if (r < 0)
        status = cli_fail(EXIT_FAILED, &problem);
    else if (gate && report_gate(&report, gate) > 0)
        status = EXIT_FINDING;
    else if (gate && !judged_day && !judged_hours)
        status = EXIT_NO_VERDICT;
    else if (!last_s)
        status = EXIT_EMPTY;
    if (r == 0 && !json)
        store_report_print(&report);
    else if (r == 0 && cli_print_json(report_json(&report), JSON_INDENT(1)) < 0)
        status = cli_fail(EXIT_FAILED, &(struct problem){.what = "out of memory while writing JSON"});
    report_done(&report);
    return status;
}
