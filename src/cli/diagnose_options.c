/* See diagnose_options.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/diagnose_options.h"

#include <string.h>

#include "base/file.h"
#include "cli/cli.h"

static bool take_bucket_by(struct diagnose_options *options, const char *value)
{
    free(options->bucket_by_text);
    options->bucket_by_text = strdup(value);
    options->bucket_by_count = 0;
    if (!options->bucket_by_text)
        return false;
    char *rest = options->bucket_by_text, *key;
    while ((key = strsep(&rest, ","))) {
        if (options->bucket_by_count == DIAGNOSE_BUCKET_BY_MAX)
            return false;
        if (*key)
            options->bucket_by[options->bucket_by_count++] = key;
    }
    return true;
}

bool diagnose_options_take(struct diagnose_options *options, int option, char *value)
{
    double number;
    switch (option) {
    case OPT_BUCKET_BY:
        return take_bucket_by(options, value);
    case OPT_TABLE:
        if (options->table_count == DIAGNOSE_TABLES_MAX)
            return false;
        options->table_paths[options->table_count++] = value;
        return true;
    case OPT_SERVICE:
        options->judge.service = value;
        return true;
    case OPT_BASE:
        options->judge.base = value;
        return true;
    case OPT_CANDIDATE:
        options->judge.candidate = value;
        return true;
    case OPT_FDR:
        return cli_number(value, 1e-9, 0.5, &options->judge.regress.false_discovery_rate);
    case OPT_MINIMUM_RATIO:
        return cli_number(value, 1, 1000, &options->judge.regress.minimum_ratio);
    case OPT_MINIMUM_REQUESTS:
        if (!cli_number(value, 2, 1e12, &number))
            return false;
        options->judge.regress.minimum_requests = (uint64_t)number;
        return true;
    default:
        return false;
    }
}

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
