/* The JSON documents that sonde writes for programs, and the version of each one's schema: the first member
 * of every document is "schema", this number. Members may be added without a new number; when one goes or
 * gets another meaning, the number is raised here, and CHANGELOG.md says so. doc/documents.md is made from
 * this table.
 *
 * SCHEMA(ident, version, "where it is written", "what it holds") */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_SCHEMA_H
#define BASE_SCHEMA_H

#include "base/text.h"

/* clang-format off */
#define SCHEMAS(SCHEMA)                                                                                      \
    SCHEMA(report, 1,                                                                                        \
           "`--json` of report, run, attach, spans, profile, diagnose, watch and stores' own commands; "      \
           "`/api/v1/s/N/report` and `/api/diagnosis` of sonde serve",                                       \
           "`findings` (doc/findings.md), `requests`, `losses`, `overhead`, `missing`; further members by command") \
    SCHEMA(line, 1, "each line of `--follow --json` and of `watch --json`",                                  \
           "one change: a finding with its `state`, or the end with the report; of a store the `servers` of a window, " \
           "or a `command`")                                                                                 \
    SCHEMA(netflow, 1, "`redis --netflow --json`",                                                           \
           "life cycles of requests: how many, and `incomplete` ones by reason; writes to replicas that are " \
           "recorded, complete ones and others by reason (`replicated`); their stages over all nodes "            \
           "(`commands`) and by node (`nodes`); `clocks` of the recordings")                                 \
    SCHEMA(doctor, 1, "`doctor --json`", "`checks` with verdict and remedy, `processes` with their functions") \
    SCHEMA(stack, 1, "`stack --json`", "what a thread is doing now: `cause`, `frames`")                      \
    SCHEMA(tuning, 1, "`profile --tune --json`", "`steps` of pruning with their errors, changes between windows") \
    SCHEMA(profiles_diff, 1, "`diff --json` of two profiles", "`functions` with their shares before and after, or `no_comparison`: why there are none; of a store also `findings`") \
    SCHEMA(traces_diff, 1, "`diff --json` of two traces", "`endpoints`, `operations`, `findings` before and after") \
    SCHEMA(trace_info, 1, "`trace info --json`", "`traces`, `streams`, `classes`, `losses`")                 \
    SCHEMA(page, 1, "everything else below `/api/v1/` of sonde serve, and within pages that are one file (doc/page.md)", \
           "what the web page shows: `sources`, `rows`, `requests`, a profile; or a `problem`")              \
    SCHEMA(regressions, 1, "`/api/v1/regressions` of sonde serve, and `--bundle`",                           \
           "the report with call paths and histograms of each finding")                                      \
    SCHEMA(alert, 1, "each element of `/api/alerts` and line of `--history` of sonde serve, and what `--action` gets", \
           "a finding that fires or is resolved")                                                            \
    SCHEMA(health, 1, "`/healthz` of sonde serve", "`status` and `error`")                                   \
    SCHEMA(manifest, 1, "`manifest.json` in a recording", "processes, clock, losses, what tracing cost")
/* clang-format on */

enum schema_version {
#define SCHEMA(ident, version, where, what) SCHEMA_##ident = version,
    SCHEMAS(SCHEMA)
#undef SCHEMA
};

/* The manual's list of documents, as Markdown: doc/documents.md. */
void schema_write_manual(struct text *to);

#endif
