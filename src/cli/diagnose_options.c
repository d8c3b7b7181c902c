/* See diagnose_options.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/diagnose_options.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"

static int take_bucket_by(const char *value, void *into, struct problem *problem)
{
    struct diagnose_options *options = into;
    free(options->bucket_by_text);
    options->bucket_by_text = strdup(value);
    options->bucket_by_count = 0;
    if (!options->bucket_by_text)
        return problem_set(problem, -ENOMEM, "out of memory");
    char *rest = options->bucket_by_text, *key;
    while ((key = strsep(&rest, ","))) {
        if (options->bucket_by_count == DIAGNOSE_BUCKET_BY_MAX)
            return problem_set(problem, -EINVAL, "more than %d attributes", DIAGNOSE_BUCKET_BY_MAX);
        if (*key)
            options->bucket_by[options->bucket_by_count++] = key;
    }
    return 0;
}

static int take_table(const char *value, void *into, struct problem *problem)
{
    struct diagnose_options *options = into;
    if (options->table_count == DIAGNOSE_TABLES_MAX)
        return problem_set(problem, -EINVAL, "more than %d tables", DIAGNOSE_TABLES_MAX);
    options->table_paths[options->table_count++] = value;
    return 0;
}

static int take_minimum_requests(const char *value, void *into, struct problem *problem)
{
    struct diagnose_options *options = into;
    double number;
    if (!cli_number(value, 2, 1e12, &number))
        return problem_set(problem, -EINVAL, "invalid number '%s' (2 or more)", value);
    options->judge.regress.minimum_requests = (uint64_t)number;
    return 0;
}

#define AT(field) offsetof(struct diagnose_options, field)
const struct option_row DIAGNOSE_ROWS[] = {
    {"bucket-by", .value = "KEY,...",
     .text = "attributes that define a bucket (default: hardware.generation, host.cpu.model.name, host.type)",
     .type = OPTION_CALL, .take = take_bucket_by},
    {"table", .value = "FILE.csv",
     .text = "join attributes: the first column is host.name, service.name or another resource attribute, "
             "the others are added; may be repeated",
     .type = OPTION_CALL, .take = take_table},
    {"service", .value = "NAME", .text = "judge only the versions of this service", .type = OPTION_TEXT,
     .at = AT(judge.service)},
    {"base", .value = "VERSION", .text = "the version to compare with (default: all older ones)",
     .type = OPTION_TEXT, .at = AT(judge.base)},
    {"candidate", .value = "VERSION", .text = "the version to judge (default: the newest)",
     .type = OPTION_TEXT, .at = AT(judge.candidate)},
    {"false-discovery-rate", .value = "Q",
     .text = "the share of false alarms among all alarms (default 0.02)", .type = OPTION_NUMBER,
     .least = 1e-9, .most = 0.5, .at = AT(judge.regress.false_discovery_rate)},
    {"minimum-ratio", .value = "R", .text = "ignore smaller slow-downs (default 1.08)", .type = OPTION_NUMBER,
     .least = 1, .most = 1000, .at = AT(judge.regress.minimum_ratio)},
    {"minimum-requests", .value = "N", .text = "requests needed on either side (default 40)",
     .type = OPTION_CALL, .take = take_minimum_requests},
    {NULL}};
#undef AT

static int read_table(const char *path, struct table **ret_table, struct problem *problem)
{
    _cleanup_(freep) char *text = NULL;
    struct problem inner = {0};
    size_t length;
    int r = file_read(path, (size_t)256 << 20, &text, &length);
    if (r < 0)
        return problem_set(problem, r, "%s: %s", path, strerror(-r));
    r = table_read(text, length, ret_table, &inner);
    if (r < 0) {
        problem_set(problem, r, "%s: %s", path, inner.what[0] ? inner.what : strerror(-r));
        problem_remedy(problem, "%s", inner.remedy);
    }
    return r;
}

int diagnose_options_settings(struct diagnose_options *options, struct diagnosis_settings *ret_settings,
                              struct problem *problem)
{
    for (size_t i = 0; i < options->table_count; i++) {
        if (options->tables[i])
            continue;
        int r = read_table(options->table_paths[i], &options->tables[i], problem);
        if (r < 0)
            return r;
    }
    *ret_settings =
        (struct diagnosis_settings){.bucket_by = options->bucket_by_text ? options->bucket_by : NULL,
                                    .tables = options->tables,
                                    .table_count = options->table_count};
    return 0;
}

void diagnose_options_done(struct diagnose_options *options)
{
    for (size_t i = 0; i < options->table_count; i++)
        table_free(options->tables[i]);
    free(options->bucket_by_text);
}
