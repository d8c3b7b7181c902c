/* A store of profiles as a report: functions whose share of their service's CPU has grown
 * (steer/regressed.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_STORE_REPORT_H
#define CLI_STORE_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/problem.h"
#include "finding/report.h"

/* Whether the folder is a store, and no recording. */
bool store_report_is_store(const char *path);

/* Judges the time from since to until (since 1970) of the store. *ret_judged: whether any service had enough
 * samples for that. 0 or a negative errno; the report is the caller's (report_done()) either way. */
int store_report_judge(const char *path, uint64_t since_s, uint64_t until_s, struct report *report,
                       bool *ret_judged, struct problem *problem);

/* In words, to stdout. */
void store_report_print(const struct report *report);

/* Adds "findings", and "nothing" where there are none. */
void store_report_add_json(const struct report *report, json_t *document);

/* sonde report STORE: its last six hours and its last day. The command's exit status. */
int store_report(const char *path, bool json, const char *gate);

#endif
