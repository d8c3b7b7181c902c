/* Options that diagnose, watch and serve share: bucketing, joined tables, what counts as slower. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DIAGNOSE_OPTIONS_H
#define CLI_DIAGNOSE_OPTIONS_H

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

enum {
    OPT_BUCKET_BY = 512,
    OPT_TABLE,
    OPT_SERVICE,
    OPT_BASE,
    OPT_CANDIDATE,
    OPT_FDR,
    OPT_MINIMUM_RATIO,
    OPT_MINIMUM_REQUESTS,
};

#define DIAGNOSE_LONG_OPTIONS                                                                             \
    {"bucket-by", required_argument, NULL, OPT_BUCKET_BY}, {"table", required_argument, NULL, OPT_TABLE}, \
        {"service", required_argument, NULL, OPT_SERVICE}, {"base", required_argument, NULL, OPT_BASE},   \
        {"candidate", required_argument, NULL, OPT_CANDIDATE},                                            \
        {"false-discovery-rate", required_argument, NULL, OPT_FDR},                                       \
        {"minimum-ratio", required_argument, NULL, OPT_MINIMUM_RATIO},                                    \
    {                                                                                                     \
        "minimum-requests", required_argument, NULL, OPT_MINIMUM_REQUESTS                                 \
    }

#define DIAGNOSE_OPTIONS_HELP                                                                           \
    "  --bucket-by KEY,...         attributes that define a bucket (default: hardware.generation,\n"    \
    "                              host.cpu.model.name, host.type)\n"                                   \
    "  --table FILE.csv            join attributes: the first column is host.name, service.name or\n"   \
    "                              another resource attribute, the others are added; may be repeated\n" \
    "  --service NAME              judge this service's versions only\n"                                \
    "  --base VERSION              compare with this version (default: all older ones)\n"               \
    "  --candidate VERSION         judge this version (default: the newest)\n"                          \
    "  --false-discovery-rate Q    share of false alarms among all alarms (default 0.02)\n"             \
    "  --minimum-ratio R           smaller slow-downs are no findings (default 1.08)\n"                 \
    "  --minimum-requests N        of either side (default 100)\n"

/* Takes one option; false when it is not one of these or its value is no good. */
bool diagnose_options_take(struct diagnose_options *options, int option, char *value);

/* Reads the tables and fills in what a diagnosis wants to know. */
int diagnose_options_settings(struct diagnose_options *options, struct diagnosis_settings *ret_settings,
                              struct problem *problem);

void diagnose_options_done(struct diagnose_options *options);

#endif
