/* The manifest beside a recording that is otherwise whole and empty: its losses, processes, what was missing
 * and what recording cost, as the report and its JSON show them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/folder.h"
#include "finding/report.h"
#include "recording.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    make_recording();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct analyze_options options = ANALYZE_DEFAULTS;
    const struct folder_reading reading = {.analyze = &options};
    struct analysis *analysis = NULL;
    struct report report = {0};
    struct problem problem = {0};
    write_file("manifest.json", data, size);
    if (folder_read(folder, &reading, &problem, &analysis, &report) < 0)
        abort(); /* a damaged manifest is no reason not to show the rest */
    json_decref(report_json(&report));
    report_done(&report);
    analysis_free(analysis);
    return 0;
}
