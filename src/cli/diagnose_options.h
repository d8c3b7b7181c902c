/* Options that diagnose, watch and serve share: bucketing, joined tables, what counts as slower. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DIAGNOSE_OPTIONS_H
#define CLI_DIAGNOSE_OPTIONS_H

#include "cli/options.h"
#include "diagnose/diagnosis.h"

#define DIAGNOSE_BUCKET_BY_MAX 15
#define DIAGNOSE_TABLES_MAX    16

/* Zero-initialise; diagnose_options_done() when finished. */
struct diagnose_options {
    struct judge_settings judge;
    const char *bucket_by[DIAGNOSE_BUCKET_BY_MAX + 1];
    size_t bucket_by_count;
    char *bucket_by_text;
    const char *table_paths[DIAGNOSE_TABLES_MAX];
    struct table *tables[DIAGNOSE_TABLES_MAX];
    size_t table_count;
};

/* Into a struct diagnose_options. */
extern const struct option_row DIAGNOSE_ROWS[];

/* Reads the tables and fills in what a diagnosis wants to know. */
int diagnose_options_settings(struct diagnose_options *options, struct diagnosis_settings *ret_settings,
                              struct problem *problem);

void diagnose_options_done(struct diagnose_options *options);

#endif
