/* The manifest beside a recording that is otherwise whole and empty: its losses, processes, what was missing
 * and what recording cost, as the report and its JSON show them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "analyze/folder.h"
#include "finding/report.h"
#include "trace/ctf_writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static char folder[64], manifest[96];

static void remove_folder(void)
{
    char path[96];
    unlink(manifest);
    snprintf(path, sizeof(path), "%s/ctf/metadata", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/ctf", folder);
    rmdir(path);
    rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct ctf_writer *writer = NULL;
    (void)argc;
    (void)argv;
    snprintf(folder, sizeof(folder), "%s/sonde-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder) || ctf_writer_create(folder, &writer, NULL) < 0)
        abort();
    ctf_writer_free(writer);
    snprintf(manifest, sizeof(manifest), "%s/manifest.json", folder);
    atexit(remove_folder);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct analyze_options options = ANALYZE_DEFAULTS;
    const struct folder_reading reading = {.analyze = &options};
    struct analysis *analysis = NULL;
    struct report report = {0};
    struct problem problem = {0};
    FILE *f = fopen(manifest, "w");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
    if (folder_read(folder, &reading, &problem, &analysis, &report) < 0)
        abort(); /* a damaged manifest is no reason not to show the rest */
    json_decref(report_json(&report));
    report_done(&report);
    analysis_free(analysis);
    return 0;
}
